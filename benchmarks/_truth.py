"""What a file holds, by the ffmpeg program: every frame decoded in order and looked at.

The only index that no decoder can disagree about is the place in the output of a plain
decode from the first packet to the last. Frames are numbered in the picture
(tests/barcode.py), so a decode by anybody can be compared with this one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import barcode

N_ORIENTATION = 8


@dataclass(frozen=True, slots=True)
class Truth:
    """Number shown by each frame (None: unreadable), and how they are displayed."""

    numbers: tuple[int | None, ...] = ()
    height_px: int = 0
    width_px: int = 0
    orientation: int = 0

    @property
    def n_frames(self) -> int:
        return len(self.numbers)


def oriented(frame: NDArray[Any], orientation: int) -> NDArray[Any]:
    """One of the eight ways to hold a picture: quarter turns, then mirrored."""
    turned = np.rot90(frame, orientation % 4)
    return turned[:, ::-1] if orientation >= 4 else turned


def read(frame: NDArray[np.uint8]) -> tuple[int | None, int]:
    """The number that a frame shows, and which way it had to be held to read it."""
    for orientation in range(N_ORIENTATION):
        number = barcode.read(oriented(frame, orientation))
        if number is not None:
            return number, orientation
    return None, 0


def best_stream(path: Path) -> dict[str, Any] | None:
    """The largest video stream that is no cover picture, as ffprobe tells it."""
    command = ["ffprobe", "-v", "quiet", "-of", "json", "-show_streams", path]
    made = subprocess.run(command, capture_output=True, check=False)
    streams = json.loads(made.stdout or b"{}").get("streams", [])
    videos = [
        s
        for s in streams
        if s["codec_type"] == "video" and not s["disposition"]["attached_pic"]
    ]
    return max(videos, key=lambda s: s["width"] * s["height"], default=None)


def ffmpeg(path: Path, stream: int, *before: str, after: list[str]) -> bytes:
    command = ["ffmpeg", "-loglevel", "quiet", "-nostdin", "-threads", "1", *before]
    command += ["-i", str(path), "-map", f"0:{stream}", "-vsync", "passthrough", *after]
    return subprocess.run(command, capture_output=True, check=False).stdout


def displayed(path: Path, stream: int) -> tuple[int, int, int]:
    """Height, width and orientation of the first frame as ffmpeg displays it."""
    to_pgm = ["-frames:v", "1", "-c:v", "pgm", "-f", "image2pipe", "-"]
    picture = ffmpeg(path, stream, after=to_pgm)
    if not picture:
        return 0, 0, 0
    _, width, height, _ = picture[:40].split(maxsplit=3)
    size = int(height), int(width)
    frame = np.frombuffer(picture[-size[0] * size[1] :], np.uint8).reshape(size)
    return *size, read(frame)[1]


def sequential(path: Path) -> Truth:
    """Decode a whole file in order; no frames when there is nothing to decode."""
    stream = best_stream(path)
    if stream is None:
        return Truth()
    size = stream["height"], stream["width"]
    scale = ["-vf", f"scale={size[1]}:{size[0]}"]  # all at the first frame's size
    raw = ["-f", "rawvideo", "-pix_fmt", "gray", "-"]
    pixels = ffmpeg(path, stream["index"], "-noautorotate", after=[*scale, *raw])
    frames = np.frombuffer(pixels, np.uint8).reshape(-1, *size)
    numbers = tuple(barcode.read(frame) for frame in frames)
    return Truth(numbers, *displayed(path, stream["index"]))


def from_table(path: Path, entry: dict[str, Any]) -> Truth:
    """A file whose numbers are known from a table; how it is displayed from ffmpeg."""
    stream = best_stream(path)
    if not entry["n"] or stream is None:
        return Truth()
    return Truth(tuple(entry["ids"]), *displayed(path, stream["index"]))
