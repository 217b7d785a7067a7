"""Frames that leave the decoder resized and normalised."""

import os
import subprocess
import sys

import numpy as np
import pytest

from phasefusion import PhaseGrid, frames, read_clip, read_clips
from phasefusion.errors import DamagedFrameWarning, FrameError, VideoError
from phasefusion.video import Video

MEAN = (0.48, 0.46, 0.41)
STD = (0.27, 0.26, 0.28)
GRID = PhaseGrid(5, 3)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "name", ["h264.mp4", "asp.avi", "turned_90_mirrored.mp4", "vp9.webm"]
)
@pytest.mark.parametrize("size", [(31, 47), (200, 96), (1, 1)])
def test_pixels_are_those_of_a_later_resize(name, size, threads, clip):
    path = clip(name)
    whole = read_clip(path, GRID)
    small = read_clip(path, GRID, size=size, threads=threads)
    assert small.frames.dtype == np.uint8
    assert np.array_equal(small.frames, frames.resize(whole.frames, size))
    planes = read_clip(path, GRID, size=size, mean=MEAN, std=STD, threads=threads)
    expected = frames.resize_normalize(whole.frames, size, mean=MEAN, std=STD)
    assert planes.frames.dtype == np.float32
    assert planes.frames.tobytes() == expected.tobytes()
    for got in (small, planes):
        assert np.array_equal(got.indices, whole.indices)
        assert np.array_equal(got.times_s, whole.times_s)
        assert not got.missing.any()


def test_filter_and_first_pass_reach_the_resize(clip):
    path = clip("h264.mp4")
    whole = read_clip(path, GRID).frames
    for options in (
        {"filter": "lanczos"},
        {"first_pass": "vertical"},
        {"first_pass": "horizontal"},
    ):
        small = read_clip(path, GRID, size=(40, 90), **options).frames
        assert np.array_equal(small, frames.resize(whole, (40, 90), **options))


def test_without_a_size_frames_are_normalised_as_they_are(clip):
    path = clip("h264.mp4")
    whole = read_clip(path, GRID).frames
    planes = read_clip(path, GRID, mean=MEAN, std=STD).frames
    size = whole.shape[2:4]
    expected = frames.resize_normalize(whole, size, mean=MEAN, std=STD)
    assert planes.tobytes() == expected.tobytes()


def test_each_grid_may_have_a_size_of_its_own(clip):
    path = clip("h264.mp4")
    grids = [PhaseGrid(4), PhaseGrid(6, 2), PhaseGrid(9)]
    asked = []

    def size(height, width, n_frames):
        asked.append((height, width, n_frames))
        return None if n_frames == 9 else (8 * n_frames, 24)

    whole = read_clips(path, grids)
    small = read_clips(path, grids, size=size)
    height, width = whole[0].frames.shape[2:4]
    assert asked == [(height, width, 4), (height, width, 6), (height, width, 9)]
    for got, all_of_it, rows in zip(small, whole, (32, 48, height), strict=True):
        columns = width if rows == height else 24
        expected = frames.resize(all_of_it.frames, (rows, columns))
        assert np.array_equal(got.frames, expected)


def test_repeated_frames_and_single_frames(clip):
    with Video(clip("h264.mp4")) as video:
        wanted = [7, 0, 7, 59, 7]
        whole = video.read(wanted)
        small = video.read(wanted, size=(20, 30))
        assert np.array_equal(small, frames.resize(whole, (20, 30)))
        assert video.read([], size=(20, 30)).shape == (0, 20, 30, 3)
        assert video.read([], size=(20, 30), mean=MEAN, std=STD).shape == (0, 3, 20, 30)


def test_a_frame_that_does_not_decode_is_black_before_it_is_normalised(
    clip, quiet_video
):
    with quiet_video(clip("corrupted.mp4")) as video:
        everything = range(len(video))
        with pytest.warns(DamagedFrameWarning):
            whole = video.read(everything, on_error="mark")
        with pytest.warns(DamagedFrameWarning):
            planes = video.read(
                everything, size=(24, 32), mean=MEAN, std=STD, on_error="mark"
            )
        with pytest.raises(VideoError, match=r"damaged|decode"):
            video.read(everything, size=(24, 32))
    expected = frames.resize_normalize(whole, (24, 32), mean=MEAN, std=STD)
    assert planes.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": (0, 4)}, "size must be"),
        ({"size": 224}, "size must be"),
        ({"size": lambda h, w, n: (h, 0)}, "size must be"),
        ({"mean": MEAN}, "mean and std go together"),
        ({"std": STD}, "mean and std go together"),
        ({"mean": MEAN, "std": (1, 0, 1)}, "std must not be 0"),
        ({"mean": (1, 2), "std": STD}, "mean must be three"),
        ({"size": (4, 4), "filter": "nearest"}, "filter must be one of"),
        ({"size": (4, 4), "first_pass": "both"}, "first_pass must be one of"),
    ],
)
def test_what_cannot_be_is_refused(options, says, clip):
    path = clip("h264.mp4")
    with pytest.raises(FrameError, match=says):
        read_clip(path, GRID, **options)
    with Video(path) as video, pytest.raises(FrameError, match=says):
        video.read([0], **options)


def test_the_limit_on_memory_is_one_on_the_result(clip, monkeypatch):
    path = clip("h264.mp4")
    monkeypatch.setattr(
        "phasefusion._video_checks.room_bytes", lambda: 15 * 8 * 10 * 3 * 4
    )
    read_clip(path, GRID, size=(8, 10), mean=MEAN, std=STD)
    with pytest.raises(VideoError, match="15 frames of 10x9 take"):
        read_clip(path, GRID, size=(9, 10), mean=MEAN, std=STD)
    with pytest.raises(VideoError, match="15 frames of 160x96 take"):
        read_clip(path, GRID)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_large_results_are_private_and_writable(clip):
    path = clip("long.mp4")
    clips = read_clip(path, PhaseGrid(8)).frames  # 8.8 MiB: not NumPy's own memory
    assert clips.flags.writeable
    assert clips.flags.c_contiguous
    before = int(clips[0, 0, 0, 0, 0])
    child = os.fork()
    if child == 0:
        clips[:] = before ^ 1
        os._exit(0)
    os.waitpid(child, 0)
    assert int(clips[0, 0, 0, 0, 0]) == before


PEAK = """
import sys
from pathlib import Path
from phasefusion import PhaseGrid, read_clip

def peak_kib():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

path, size = sys.argv[1], (224, 224) if sys.argv[2] == "fused" else None
read_clip(path, PhaseGrid(1), size=(224, 224))
before = peak_kib()
clip = read_clip(path, PhaseGrid(40, 3), size=size)
print(peak_kib() - before)
"""


@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ, reason="ASan keeps freed memory back"
)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_batch_of_whole_frames_is_held(clip):
    """120 frames of 800x480 are 132 MiB; at 224x224 they are 17.2 MiB."""
    path = clip("long.mp4")

    def peak_mib(how):
        command = [sys.executable, "-c", PEAK, str(path), how]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout) / 1024

    assert peak_mib("whole") > 120
    two_frames_mib = 2 * 800 * 480 * 3 / 2**20
    assert peak_mib("fused") < 17.2 + two_frames_mib + 3
