"""Videos given as data and file objects, and what reading them may cost."""

from __future__ import annotations

import gc
import io
import mmap
import os
import re
import struct
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pytest

from phasefusion import PhaseGrid
from phasefusion.errors import UsageError, VideoError
from phasefusion.video import Video, read_clip, read_clips

NAMES = ["h264.mp4", "h264.ts", "vp9.webm", "asp.avi", "h264.h264", "edit_list.mp4"]


def memory_map(data: bytes) -> mmap.mmap:
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    return mapped


class Slow(io.RawIOBase):
    """A stream that cannot go back and gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        part = self._file.read(min(len(buffer), 977))
        buffer[: len(part)] = part
        return len(part)


WAYS = {
    "<bytes>": lambda data: data,
    "<bytearray>": bytearray,
    "<memoryview>": memoryview,
    "<ndarray>": lambda data: np.frombuffer(data, np.uint8),
    "<mmap>": memory_map,
    "<BytesIO>": io.BytesIO,
    "<BufferedReader>": lambda data: io.BufferedReader(Slow(data)),
    "<Slow>": Slow,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cache_bytes", [1, 2**30])
@pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")
def test_data_give_what_the_file_gives(name, cache_bytes, clip):
    data = clip(name).read_bytes()
    with Video(clip(name)) as video:
        wanted = np.arange(0, len(video), 7)[::-1]
        true, pts = video.read(wanted), video.pts
    for what, way in WAYS.items():
        with Video(way(data), cache_bytes=cache_bytes, threads=2) as video:
            assert video.info.path == what
            assert np.array_equal(video.pts, pts)
            assert np.array_equal(video.read(wanted), true), what


def test_clips_are_read_from_data_too(clip):
    data = clip("h264.mp4").read_bytes()
    grid = PhaseGrid(4, 2)
    true = read_clip(clip("h264.mp4"), grid)
    assert np.array_equal(read_clip(data, grid).frames, true.frames)
    one, two = read_clips(io.BytesIO(data), [grid, PhaseGrid(3)], max_bytes=len(data))
    assert np.array_equal(one.frames, true.frames)
    assert repr(two).startswith("<Clip '<BytesIO>': ")


@pytest.mark.parametrize("opener", [open, lambda p, m: io.FileIO(p, "r")])
def test_a_file_object_is_named_and_left_where_it_was(opener, clip):
    path = clip("h264.mp4")
    with opener(path, "rb") as file:
        file.seek(77)
        with Video(file) as video:
            assert video.info.path == str(path)
            assert len(video.read([59])) == 1
        assert file.tell() == 77
        with pytest.raises(VideoError, match="max_bytes=78"):
            Video(file, max_bytes=78)
        assert file.tell() == 77


def test_a_number_is_no_name(clip):
    with tempfile.TemporaryFile() as file:
        assert isinstance(file.name, int)
        file.write(clip("h264.mp4").read_bytes())
        with Video(file) as video:
            assert video.info.path == f"<{type(file).__name__}>"


def test_data_are_let_go_once_the_stream_is_in_memory(clip):
    data = bytearray(clip("h264.mp4").read_bytes())
    with Video(data) as video:
        true = video.read([40])
        data[:] = bytes(len(data))
        data.clear()
        assert np.array_equal(video.read([40]), true)


def test_data_are_pinned_while_they_are_read(clip):
    data = bytearray(clip("h264.mp4").read_bytes())
    with Video(data, cache_bytes=1) as video:
        with pytest.raises(BufferError):
            data.clear()
        assert len(video.read([40])) == 1
    data.clear()


class Data(bytearray):
    """Data that can be seen to die."""


def test_data_live_as_long_as_the_video(clip):
    data = Data(clip("h264.mp4").read_bytes())
    seen = weakref.ref(data)
    video = Video(data, cache_bytes=1)
    del data
    gc.collect()
    assert seen() is not None
    assert len(video.read([59])) == 1
    video.close()
    del video
    gc.collect()
    assert seen() is None
    with pytest.raises(VideoError):
        Video(Data(b"no video"))
    gc.collect()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"", "<bytes>: it is empty"),
        (bytearray(), "<bytearray>: it is empty"),
        (io.BytesIO(), "<BytesIO>: it is empty"),
        (b"no video", "<bytes>: it is not a video file that FFmpeg can read"),
        (io.StringIO("text"), r'<StringIO>: is open for text; .* mode "rb"'),
        (5, "not as int"),
        (None, "not as NoneType"),
        (memoryview(bytes(64))[::2], "not as memoryview"),
        (["clip.mp4"], "not as list"),
    ],
)
def test_what_is_no_source_is_refused(source, message):
    with pytest.raises(VideoError, match=message):
        Video(source)


def test_a_path_as_bytes_is_pointed_at(clip):
    with pytest.raises(VideoError, match=r"give a path as os\.fsdecode\(path\)"):
        Video(os.fsencode(clip("h264.mp4")))
    with pytest.raises(VideoError) as caught:
        Video(b"nothing.mp4")
    assert "fsdecode" not in str(caught.value)


def test_errors_of_a_file_object_come_through(clip):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise OSError(5, "the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        Video(Failing(b"x" * 100))
    closed = io.BytesIO(b"x")
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        Video(closed)


# ------------------------------------------------------------------------- limits


def sources(path: Path):
    return [str(path), path.read_bytes(), io.BytesIO(path.read_bytes())]


@pytest.mark.parametrize(
    ("limit", "value", "fits", "found"),
    [
        ("max_frames", 59, 60, ""),
        ("max_pixels", 160 * 96 - 1, 160 * 96, " (15360)"),
        ("max_seconds", 2.39, 2.4, ""),
        ("max_seconds", 1e-6, 1e6, ""),
    ],
)
@pytest.mark.parametrize("name", ["h264.mp4", "h264.ts", "asp.avi", "h264.h264"])
def test_a_limit_is_named_with_its_value_and_is_inclusive(
    limit, value, fits, found, name, clip
):
    for source in sources(clip(name)):
        with pytest.raises(VideoError) as caught:
            Video(source, **{limit: value})
        text = str(caught.value)
        assert f"{limit}={value:.15g} allows{found}; " in text
        assert text.endswith(f"pass a higher {limit} to read it")
        with Video(source, **{limit: fits}) as video:
            assert len(video) == 60


def test_the_bytes_of_files_data_and_file_objects_are_limited(clip):
    n = clip("h264.mp4").stat().st_size
    for source in sources(clip("h264.mp4")):
        with pytest.raises(VideoError, match=f"max_bytes={n - 1} allows.*pass a h"):
            Video(source, max_bytes=n - 1)
        assert len(Video(source, max_bytes=n)) == 60


def test_a_stream_without_an_end_is_read_no_further_than_the_limit():
    class Endless:
        n_read = 0

        def read(self, size):
            self.n_read += size
            return bytes(size)

    endless = Endless()
    with pytest.raises(VideoError, match="<Endless>: it has more bytes than max_bytes"):
        Video(endless, max_bytes=10_000_000)
    assert endless.n_read < 12_000_000


def test_a_file_object_is_not_read_into_more_than_half_the_memory(clip, monkeypatch):
    monkeypatch.setattr("phasefusion._video_checks.room_bytes", lambda: 1000)
    with (
        open(clip("h264.mp4"), "rb") as file,
        pytest.raises(VideoError, match="1000 bytes, half the memory; give the path"),
    ):
        Video(file)
    assert len(Video(clip("h264.mp4"))) == 60


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "3", True])
def test_max_seconds_is_checked(value, clip):
    with pytest.raises(UsageError, match="max_seconds="):
        Video(clip("h264.mp4"), max_seconds=value)


def test_an_unknown_limit_is_a_type_error(clip):
    with pytest.raises(TypeError, match="'max_frame'; limits are max_frames, "):
        Video(clip("h264.mp4"), max_frame=3)
    with pytest.raises(TypeError, match="max_frame"):
        read_clip(clip("h264.mp4"), PhaseGrid(2), max_frame=3)


def test_limits_reach_read_clip(clip):
    with pytest.raises(VideoError, match="max_seconds=1 allows"):
        read_clip(clip("h264.mp4"), PhaseGrid(2), max_seconds=1)
    with pytest.raises(VideoError, match="max_pixels=7 allows"):
        read_clips(clip("h264.mp4"), [PhaseGrid(2)], max_pixels=7)


@pytest.mark.parametrize("name", ["edit_list.mp4", "offset.ts", "late.mp4", "vfr.mp4"])
@pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")
def test_max_seconds_measures_what_is_presented(name, clip):
    lasts_s = Video(clip(name)).info.duration_s
    assert len(Video(clip(name), max_seconds=lasts_s + 1e-9)) > 0
    with pytest.raises(VideoError, match="max_seconds"):
        Video(clip(name), max_seconds=lasts_s - 0.01)


def test_max_frames_and_max_seconds_stop_the_scan(clip):
    """The long clip is not read to its end: little of its 40 s is decoded or read."""
    path = clip("long.mp4")

    class Counting(io.FileIO):
        pass

    for limit in ({"max_frames": 20}, {"max_seconds": 0.8}):
        before = read_bytes_so_far()
        with pytest.raises(VideoError):
            Video(path, **limit)
        assert read_bytes_so_far() - before < path.stat().st_size / 2


def read_bytes_so_far() -> int:
    """Bytes that this process has read by system calls."""
    text = Path("/proc/self/io").read_text()
    return int(re.search(r"rchar: (\d+)", text)[1])


def huge_vp8(data: bytes) -> bytes:
    """A VP8 key frame that claims 11000x11000, behind a header that says 160x96."""
    body = bytearray(data)
    at = body.index(b"\x9d\x01\x2a")
    while at >= 0:
        struct.pack_into("<HH", body, at + 3, 11000, 11000)
        at = body.find(b"\x9d\x01\x2a", at + 3)
    return bytes(body)


def test_the_pixels_of_a_picture_are_limited_before_memory_is_spent(clip, tmp_path):
    """In a process of its own, whose highest memory can be told."""
    path = tmp_path / "huge.webm"
    path.write_bytes(huge_vp8(clip("vp8.webm").read_bytes()))
    code = (
        "import sys\n"
        "from phasefusion.video import Video\n"
        "from phasefusion.errors import VideoError\n"
        "Video(sys.argv[1]).read([0])\n"
        "def most_kib():\n"  # not ru_maxrss, which begins at the parent's
        "    text = open('/proc/self/status').read()\n"
        "    return int(text.split('VmHWM:')[1].split()[0])\n"
        "before = most_kib()\n"
        "try:\n"
        "    Video(sys.argv[2], **eval(sys.argv[3]))\n"
        "except VideoError as error:\n"
        "    print(error)\n"
        "print(most_kib() - before)\n"
    )

    def grows_by(limits: str) -> tuple[list[str], int]:
        command = [sys.executable, "-c", code, clip("vp8.webm"), path, limits]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        *said, kib = done.stdout.splitlines()
        return said, int(kib) * 2**10

    said, grown_bytes = grows_by("dict(max_pixels=2**20)")
    assert said[0].startswith(
        f"{path}: its pictures have more pixels than max_pixels=1048576 allows"
    )
    assert grown_bytes < 2**26
    assert grows_by("dict(max_pixels=2**30)")[1] > 2**26  # without the limit


def test_open_files_are_closed_after_refusals(clip):
    before = len(os.listdir("/proc/self/fd"))
    for limit in ({"max_frames": 1}, {"max_pixels": 1}, {"max_bytes": 1}):
        with pytest.raises(VideoError):
            Video(clip("h264.mp4"), **limit)
    assert len(os.listdir("/proc/self/fd")) == before
