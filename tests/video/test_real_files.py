"""Real files, where they are at hand: PHASEFUSION_SHARED names a folder that holds
cases/17-vfr-webm, cases/18-wrong-frame-counts and videos, each with a README that says
what the files are and what other decoders made of them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from phasefusion import PhaseGrid
from phasefusion.errors import (
    DamagedFrameWarning,
    DuplicateFrameWarning,
    FrameCountWarning,
    GridError,
    VideoError,
)
from phasefusion.video import Video, read_clip

SHARED = Path(os.environ.get("PHASEFUSION_SHARED", "/nonexistent"))
VFR = SHARED / "cases/17-vfr-webm"
COUNTS = SHARED / "cases/18-wrong-frame-counts"
REAL = SHARED / "videos"

pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason="PHASEFUSION_SHARED names no folder of real files"
)


def probes() -> list[dict]:
    path = REAL / "probe.json"
    return json.loads(path.read_text()) if path.is_file() else []


@pytest.fixture
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameCountWarning)
        warnings.simplefilter("ignore", DamagedFrameWarning)
        yield


# ------------------------------------------------------ 17: variable frame rate


def test_the_true_count_and_times_of_a_variable_rate():
    with Video(VFR / "echo-hereweare.webm") as video:
        true = json.loads((VFR / "echo_pts.json").read_text())
        assert len(video) == len(true) == 836
        assert video.info.vfr
        assert video.info.n_frames_header is None
        assert np.allclose(video.times_s, true, rtol=0, atol=5e-4)
        steps = np.diff(video.times_s)
        assert (steps.min().round(3), steps.max().round(3)) == (0.033, 0.1)
        assert len(video.read([835])) == 1
        with pytest.raises(IndexError, match=r"1256 is out of range.*836 frames"):
            video.read([1256])  # the last midpoint of a count by 30 fps


def test_midpoints_by_frame_and_by_time_differ_and_say_so():
    by_frame = read_clip(VFR / "echo-hereweare.webm", PhaseGrid(8))
    indices = [52, 156, 261, 365, 470, 574, 679, 783]
    times_s = [1.733, 5.2, 8.7, 12.167, 16.667, 23.6, 30.6, 39.333]
    assert by_frame.indices.tolist() == [indices]
    assert np.allclose(by_frame.times_s, [times_s], rtol=0, atol=5e-4)
    by_time = read_clip(VFR / "echo-hereweare.webm", PhaseGrid(8, by="time"))
    for clip, by in ((by_frame, "frames"), (by_time, "time")):
        assert clip.grid.to_dict()["by"] == by
        assert clip.info.vfr
    # Sound goes on a little after the last frame: 44.652 s against 44.566 s. Frames on
    # show at the midpoints of the one and of the other:
    with Video(VFR / "echo-hereweare.webm") as video:
        of_file = PhaseGrid(8, by="time").select(video.pts, 44652)
        assert video.info.time_base == Fraction(1, 1000)
        times_s = (np.arange(8) + 0.5) / 8 * video.info.duration_s
        on_show = np.searchsorted(video.times_s, times_s, side="right") - 1
    assert of_file.tolist() == [[83, 251, 418, 513, 596, 680, 752, 808]]
    assert by_time.indices.tolist() == [on_show.tolist()]
    assert on_show.tolist() == [83, 250, 417, 512, 596, 679, 751, 807]


def test_half_a_step_is_in_the_unit_of_the_grid():
    with Video(VFR / "echo-hereweare.webm") as video:
        pts, end = video.pts, video.end_pts
        for by in ("frames", "time"):
            grid = PhaseGrid(8, by=by)
            moved = grid.shifted("half").select(pts, end)[0]
            plain = grid.select(pts, end)[0]
            unit = np.arange(836) if by == "frames" else video.times_s
            whole = 836 if by == "frames" else video.info.duration_s
            moves = np.abs(unit[moved] - unit[plain]) / (whole / 8)
            assert np.allclose(moves, 0.5, rtol=0, atol=0.03)


def test_a_rotated_phone_video():
    with Video(VFR / "fire2.mp4") as video:
        assert (len(video), video.info.rotation) == (25, 180)
        assert (video.info.width, video.info.height) == (1280, 720)
        steps = np.diff(video.times_s)
        assert steps.min() > 0.0799
        assert steps.max() < 0.1002
        assert video.info.vfr


def test_a_gif_of_mixed_delays():
    with Video(VFR / "newtonscradle.gif") as video:
        assert len(video) == len(video.read(range(36))) == 36
        assert set(np.diff(video.times_s).round(6)) == {0.02, 0.04, 0.05}
        assert video.info.duration_s == pytest.approx(0.82)
        assert video.info.vfr


# ------------------------------------------------ 18: counts that lie, odd files


def test_a_count_that_others_estimate_one_too_high():
    clip = read_clip(COUNTS / "flipping_a_pancake.mkv", PhaseGrid(32))
    assert clip.info.n_frames == 310
    assert clip.info.n_frames_header is None
    assert clip.indices[0, :4].tolist() == [4, 14, 24, 33]
    of_311 = PhaseGrid(32).indices(311)
    assert np.count_nonzero(clip.indices != of_311) == 16


def test_a_damaged_file_says_which_frames_and_repeats_none():
    path = COUNTS / "corrupted.mp4"
    said = "the header says 50 frames, 49 decode; the file is damaged"
    with pytest.warns(FrameCountWarning, match=said):
        video = Video(path)
    with video:
        assert len(video) == 49
        sound = video.read(range(28))  # as far as others come
        steps = np.abs(np.diff(sound.astype(np.int16), axis=0)).mean(axis=(1, 2, 3))
        assert steps.min() > 0.5  # no frame twice
        with pytest.raises(VideoError, match=r"20 are damaged: frames \[29, 30, .*48"):
            video.read(range(49))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameCountWarning)
        clip = read_clip(path, PhaseGrid(8), on_error="mark")
    assert clip.indices[0].tolist() == [3, 9, 15, 21, 27, 33, 39, 45]
    assert clip.missing[0].tolist() == [False] * 5 + [True] * 3
    assert (clip.damaged == clip.missing).all()


def test_pictures_that_come_out_of_order():
    path = COUNTS / "unordered.mov"
    with Video(path) as video:
        assert len(video) == 4
        assert (np.diff(video.pts) > 0).all()
    assert read_clip(path, PhaseGrid(8, short="unique")).indices.tolist() == [
        [0, 1, 2, 3]
    ]
    with pytest.raises(GridError):
        read_clip(path, PhaseGrid(8, short="error"))
    with pytest.warns(DuplicateFrameWarning):
        read_clip(path, PhaseGrid(8, 3))


def test_a_file_without_a_duration():
    with Video(COUNTS / "no_duration.webm") as video:
        assert len(video) == 74
        assert video.info.duration_s_header is None
        steps = np.diff(video.times_s)
        assert steps.min().round(3) == 0.062
        assert steps.max().round(3) == 0.072
        assert len(video.read([0, 73])) == 2


def test_av1_in_matroska():
    try:
        video = Video(COUNTS / "av1_video.mkv")
    except VideoError as error:  # an FFmpeg without AV1 must say just that
        said = str(error)
    else:
        with video:
            assert len(video) == 125
            assert video.read([0, 124]).shape == (2, 360, 640, 3)
        return
    assert "no decoder for its codec (FFmpeg: codec av1" in said


def test_pictures_of_one_pixel():
    clip = read_clip(COUNTS / "one_pixel_5frames.mp4", PhaseGrid(5), size=(3, 2))
    assert clip.frames.shape == (1, 5, 3, 2, 3)
    clip = read_clip(COUNTS / "one_pixel_5frames.mp4", PhaseGrid(5))
    assert clip.frames.shape == (1, 5, 1, 1, 3)
    assert clip.info.fps == Fraction(1)


# ---------------------------------------------------------------- what others said


@pytest.mark.parametrize("probe", probes(), ids=lambda probe: probe["file"])
@pytest.mark.usefixtures("_quiet")
def test_what_a_sequential_decode_found(probe):
    with Video(REAL / probe["file"]) as video:
        info = video.info
        if "decode_error" not in probe:
            assert len(video) == probe["decoded_frames"]
        assert (info.n_frames_header or 0) == probe["header_frames"]
        size = (info.width, info.height)
        assert size == tuple(probe["wh"][:: -1 if info.rotation % 180 else 1])
        assert info.rotation == -probe["rotation"] % 360
        assert info.start_s == pytest.approx(probe["first_pts"], abs=1e-5)
        steps = np.diff(video.times_s)
        if "decode_error" not in probe:
            assert steps.min() == pytest.approx(probe["dt_min"], abs=6e-6)
            assert steps.max() == pytest.approx(probe["dt_max"], abs=6e-6)
            assert info.vfr == probe["vfr"]
        wanted = [0, len(video) // 2, len(video) - 1]
        true = video.read(range(len(video)), on_error="mark", size=(32, 32))
        for source in (REAL / probe["file"], (REAL / probe["file"]).read_bytes()):
            with Video(source, threads=2) as other:
                got = other.read(wanted, on_error="mark", size=(32, 32))
                assert np.array_equal(got, true[wanted])
