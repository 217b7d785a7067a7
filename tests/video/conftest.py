"""The barcoded clips, made once a session by the ffmpeg program."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("phasefusion._video", reason="built without FFmpeg")
sys.path.insert(0, str(Path(__file__).parents[1] / "clips"))
import make
import this_ffmpeg

from phasefusion.video import Video

#: Clips in codecs that the FFmpeg inside the wheel leaves out.
NEEDS = {"wmv.wmv": "wmv2", "prores.mov": "prores"}


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="session")
def clip(clip_folder: Path) -> Callable[[str], Path]:
    """Path of a clip by name, see tests/clips/make.py."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("the ffmpeg program is not installed")

    def path(name: str) -> Path:
        this_ffmpeg.need(decoder=NEEDS.get(name))
        try:
            return make.make(name, clip_folder)
        except make.MissingEncoder as missing:
            pytest.skip(f"this ffmpeg has no {missing}")

    return path


@pytest.fixture
def quiet_video() -> Callable[..., Video]:
    """`Video` without the warning about a header that lies."""

    def open_quietly(*args: object, **kwargs: object) -> Video:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Video(*args, **kwargs)

    return open_quietly


@pytest.fixture
def ffmpeg_frames() -> Callable[..., NDArray[np.uint8]]:
    """All frames by the ffmpeg program in the given pixel format, one row each."""

    def decode(path: Path, info: object, pixel_format: str) -> NDArray[np.uint8]:
        size = f"{info.width}x{info.height}"
        command = ["ffmpeg", "-loglevel", "quiet", "-threads", "1", "-i", path]
        command += ["-map", f"0:{info.stream_index}", "-vsync", "passthrough"]
        command += ["-s", size, "-f", "rawvideo", "-pix_fmt", pixel_format, "-"]
        made = subprocess.run(command, capture_output=True, check=False)
        return np.frombuffer(made.stdout, np.uint8)

    return decode


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Have SIGINT raise, though a shell that put us in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
