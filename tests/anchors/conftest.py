"""Clips with one thing to find, made once a session."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("phasefusion._video", reason="built without FFmpeg")
sys.path.insert(0, str(Path(__file__).parents[1] / "clips"))
import make
from anchor_clips import running_square


@pytest.fixture(scope="session")
def found_clip(tmp_path_factory: pytest.TempPathFactory):
    """Build the clip of `running_square` with an encoder, 25 frames a second."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("the ffmpeg program is not installed")
    folder = tmp_path_factory.mktemp("anchors")

    def build(name: str, options: list[str] | None = None, frames=None) -> Path:
        path = folder / name
        if not path.exists():
            frames = running_square() if frames is None else frames
            try:
                make.encode(path, frames, options or make.x264("keyint=250:bframes=2"))
            except make.MissingEncoder as missing:
                pytest.skip(f"this ffmpeg has no {missing}")
        return path

    return build


@pytest.fixture(scope="session")
def subtitled(found_clip, tmp_path_factory):
    """The same clip with a subtitle stream of a codec."""

    def build(codec: str, text: str, *, delay_s: float = 0.0) -> Path:
        folder = tmp_path_factory.mktemp("subtitled")
        side = folder / "side.srt"
        side.write_text(text, encoding="utf-8")
        path = folder / f"clip.{'mp4' if codec == 'mov_text' else 'mkv'}"
        offset = ["-output_ts_offset", str(delay_s)] if delay_s else []
        source = found_clip("run.mp4")
        make.ffmpeg(
            "-i", source, "-i", side, "-map", "0", "-map", "1", "-c:v", "copy",
            "-c:s", codec, *offset, path,
        )  # fmt: skip
        return path

    return build
