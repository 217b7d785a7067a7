"""Broken files: what FFmpeg said is in the error, and nothing piles up."""

from __future__ import annotations

import os
import re
import struct
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from phasefusion import PhaseGrid
from phasefusion.errors import VideoError
from phasefusion.video import Video, read_clip


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new)

    return edit


def blanked(name: bytes) -> Callable[[bytes], bytes]:
    """The content of a box of an mp4 overwritten with zeros."""

    def edit(data: bytes) -> bytes:
        at = data.index(name) - 4
        n = struct.unpack_from(">I", data, at)[0]
        return data[: at + 8] + bytes(n - 8) + data[at + n :]

    return edit


def first(n: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:n]


def without_pictures(data: bytes) -> bytes:
    """Raw H.264 of parameter sets alone."""
    return data[: data.index(b"\0\0\1\x06")]


NO_VIDEO = "it is not a video file that FFmpeg can read"
NO_FRAME = "not one frame of it can be decoded"
NULL_PACKET = b"\x47\x1f\xff\x10" + b"\xff" * 184

#: what it is made from, what is done to it, the reason, a word of FFmpeg's
BROKEN: dict[str, tuple[str, Callable[[bytes], bytes], str, str]] = {
    "only ftyp.mp4": ("h264.mp4", first(32), NO_VIDEO, "moov atom not found"),
    "blank moov.mp4": ("h264.mp4", blanked(b"moov"), "it has no video stream", ""),
    "blank stsd.mp4": ("h264.mp4", blanked(b"stsd"), NO_VIDEO, "STSD"),
    "blank media.mp4": ("h264.mp4", blanked(b"mdat"), NO_FRAME, "Invalid NAL unit"),
    "other codec.mp4": (
        "h264.mp4",
        replaced(b"avc1", b"zzzz"),
        "this FFmpeg has no decoder for its codec",
        "codec none, tag zzzz",
    ),
    "no tables.mp4": ("h264.mp4", replaced(b"stsz", b"free"), NO_FRAME, "atoms"),
    "only header.mkv": ("h264.mkv", first(60), NO_VIDEO, "packet of size 4 to 1"),
    "no tracks.mkv": (
        "h264.mkv",
        replaced(b"\x16\x54\xae\x6b", b"\xec\x54\xae\x6b"),
        "it has no video stream",
        "Element at",
    ),
    "only riff.avi": ("asp.avi", first(20), NO_VIDEO, "Invalid data"),
    "only signature.gif": ("animation.gif", first(8), NO_VIDEO, "Invalid data"),
    "signature.png": ("still.png", replaced(b"PNG\r", b"PNG\0"), NO_VIDEO, ""),
    "cut picture.png": ("still.png", first(60), NO_FRAME, "chunk too big"),
    "no pictures.h264": ("h264.h264", without_pictures, NO_FRAME, "missing picture"),
    "null packets.ts": (
        "h264.ts",
        lambda data: NULL_PACKET * 400,
        ("its streams cannot be identified", "it has no video stream"),  # FFmpeg 6
        "",
    ),
    "only header.webm": ("vp9.webm", first(200), NO_VIDEO, "of size 88 to 79"),
    "noise.mpg": (
        "mpeg2.mpg",
        lambda data: bytes(range(256)) * 40,
        NO_VIDEO,
        "Invalid data",
    ),
}
# Words of FFmpeg's that its versions may change are asked for here alone.
FFMPEG_SAID = r" \(FFmpeg: .*\)$"


@pytest.fixture(scope="session")
def broken(clip, tmp_path_factory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("broken")

    def path(name: str) -> Path:
        source, edit, _, _ = BROKEN[name]
        (folder / name).write_bytes(edit(clip(source).read_bytes()))
        return folder / name

    return path


@pytest.mark.parametrize("name", BROKEN)
def test_the_error_says_what_ffmpeg_said(name, broken, capfd):
    *_, reason, said = BROKEN[name]
    path = broken(name)
    for source, what in ((path, str(path)), (path.read_bytes(), "<bytes>")):
        with pytest.raises(VideoError) as caught:
            Video(source)
        text = str(caught.value)
        if name == "no pictures.h264" and source is not path:
            assert NO_VIDEO in text  # only its name says what it is
            continue
        reasons = (reason,) if isinstance(reason, str) else reason
        assert text.startswith(tuple(f"{what}: {one}" for one in reasons))
        assert not said or re.search(FFMPEG_SAID, text)
        assert said in text
    assert capfd.readouterr() == ("", "")


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def use(source: object) -> None:
    """Everything that one does with a file, whatever comes of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Video(source, threads=2) as video:
                video.read([0, len(video) - 1], on_error="mark")
            read_clip(source, PhaseGrid(2), size=(16, 16), on_error="mark")
        except VideoError:
            pass


@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ, reason="ASan keeps freed memory back"
)
def test_a_thousand_opens_of_good_bad_and_cut_files_leak_nothing(clip, broken):
    good = [clip(name) for name in ("three.mp4", "one.mp4", "still.png", "rgb.mkv")]
    cut = [clip(name) for name in ("truncated.mp4", "half.webm", "corrupted.mp4")]
    bad = [clip("empty.mp4"), clip("sound.mp4"), *map(broken, BROKEN)]
    paths = [*good, *cut, *bad]
    sources = [*paths, *(path.read_bytes() for path in paths)]
    for _ in range(4):  # the allocator finds its size
        for source in sources:
            use(source)
    files, before = open_files(), resident_bytes()
    for k in range(1000):
        use(sources[k % len(sources)])
    assert open_files() == files
    assert resident_bytes() - before < 2 * 2**20


@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ, reason="ASan keeps freed memory back"
)
def test_videos_that_are_not_closed_leak_nothing(clip):
    path = clip("three.mp4")
    for _ in range(100):
        Video(path).read([0])
    files, before = open_files(), resident_bytes()
    for _ in range(300):
        Video(path).read([0])
    assert open_files() == files
    assert resident_bytes() - before < 2**20
