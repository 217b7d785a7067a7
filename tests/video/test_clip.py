"""read_clip and read_clips: all phases of all grids from one decode."""

from __future__ import annotations

import barcode
import numpy as np
import pytest

import phasefusion
from phasefusion import PhaseGrid
from phasefusion.errors import DuplicateFrameWarning, GridError, VideoError
from phasefusion.video import Video, ffmpeg_versions, read_clip, read_clips


def numbers(frames):
    flat = frames.reshape(-1, *frames.shape[-3:])
    return np.array([barcode.read(frame) for frame in flat]).reshape(frames.shape[:-3])


@pytest.mark.parametrize("threads", [1, 3])
def test_a_clip_holds_what_its_grid_asks_for(threads, clip):
    grid = PhaseGrid(8, 3)
    got = read_clip(clip("h264_open.mp4"), grid, threads=threads)
    assert got.frames.shape == (3, 8, 96, 160, 3)
    assert got.frames.dtype == np.uint8
    assert np.array_equal(got.indices, grid.indices(60))
    assert np.array_equal(numbers(got.frames), got.indices)
    assert np.allclose(got.times_s, got.indices / 25)
    assert not got.missing.any()
    assert not got.damaged.any()
    assert got.grid is grid
    assert got.info.n_frames == 60


def test_time_grids_follow_the_clock(clip):
    grid = PhaseGrid(6, 2, by="time")
    got = read_clip(clip("vfr.mp4"), grid)
    with Video(clip("vfr.mp4")) as video:
        assert np.array_equal(got.indices, grid.select(video.pts, video.end_pts))
        assert np.array_equal(got.times_s, video.times_s[got.indices])
    assert (got.indices != PhaseGrid(6, 2).indices(70)).any()


def test_several_grids_share_one_decode(clip, monkeypatch):
    grids = [PhaseGrid(8, 3), PhaseGrid(8, 3).shifted("half"), PhaseGrid(4, 1, "left")]
    apart = [read_clip(clip("hevc.mp4"), grid) for grid in grids]
    calls = []

    class Counting:
        def __init__(self, reader):
            self._reader = reader

        def __getattr__(self, name):
            calls.append(name)
            return getattr(self._reader, name)

    import phasefusion.video as module

    real = module._open_reader
    monkeypatch.setattr(module, "_open_reader", lambda *args: Counting(real(*args)))
    together = read_clips(clip("hevc.mp4"), grids)
    assert calls.count("read") == 1
    for one, other in zip(together, apart, strict=True):
        assert np.array_equal(one.frames, other.frames)
        assert np.array_equal(one.indices, other.indices)
        assert one.frames.base is None or one.frames.base.size == one.frames.size


def test_a_short_clip_repeats_frames_or_shrinks(clip):
    with pytest.warns(DuplicateFrameWarning):
        got = read_clip(clip("three.mp4"), PhaseGrid(8, 2))
    assert np.array_equal(numbers(got.frames), got.indices)
    assert read_clip(clip("three.mp4"), PhaseGrid(8, short="unique")).frames.shape == (
        1,
        3,
        96,
        160,
        3,
    )


@pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")
@pytest.mark.parametrize("name", ["corrupted.mp4", "corrupted.mkv"])
def test_damage_is_marked_and_the_rest_is_exact(name, clip):
    with pytest.raises(VideoError, match=r"damaged: frames \[") as caught:
        read_clip(clip(name), PhaseGrid(8, 3))
    assert name in str(caught.value)
    got = read_clip(clip(name), PhaseGrid(8, 3), on_error="mark")
    assert got.missing.any()
    assert not got.missing.all()
    assert (got.damaged <= got.missing).all()
    sound = numbers(got.frames[~got.missing])
    assert len(set(sound.tolist())) == len(set(got.indices[~got.missing].tolist()))


def test_a_wrong_scan_is_corrected_before_the_frames_are_given(clip, monkeypatch):
    """The scan believes the packets; decoding shows that pictures are lost."""
    import phasefusion.video as module

    class Losing:
        """A reader whose first read meets damage and whose recount finds less."""

        def __init__(self, reader, true):
            self._reader, self._true, self._recounted = reader, true, False

        def __getattr__(self, name):
            return getattr(self._reader, name)

        def read(self, indices, outs, threads, sequential):
            state, damaged = self._reader.read(indices, outs, threads, sequential)
            return state, damaged or not self._recounted

        def recount(self):
            self._reader, changed = self._true, not self._recounted
            self._recounted = True
            return changed

    real = module._open_reader

    def open_losing(path, stream, limits):
        shorter = real(clip("three.mp4"), -1, limits)
        return Losing(real(path, stream, limits), shorter)

    monkeypatch.setattr(module, "_open_reader", open_losing)
    got = read_clip(clip("h264.mp4"), PhaseGrid(3))
    assert got.info.n_frames == 3
    assert numbers(got.frames).tolist() == [[0, 1, 2]]


def test_versions_name_every_library():
    versions = ffmpeg_versions()
    assert sorted(versions) == [
        "libavcodec",
        "libavformat",
        "libavutil",
        "libswscale",
        "release",
    ]
    assert int(versions["libavcodec"].split(".")[0]) >= 59


def test_public_names_lead_here():
    assert phasefusion.read_clip is read_clip
    assert phasefusion.Video is Video


@pytest.mark.parametrize(
    ("budget", "phases"), [(10**9, 1), (1000, 10**6), (10**6, 1000)]
)
def test_more_than_the_memory_is_refused_before_it_is_taken(
    budget, phases, clip, monkeypatch
):
    def select(*_):
        raise AssertionError("the indices alone take gigabytes")

    monkeypatch.setattr(PhaseGrid, "select", select)
    monkeypatch.setattr("phasefusion._video_checks.room_bytes", lambda: 2**34)
    path = clip("h264.mp4")
    with pytest.raises(VideoError) as caught:
        read_clip(path, PhaseGrid(budget, phases))
    assert str(caught.value) == (
        f"{path}: 1000000000 frames of 160x96 take 42915.3 GiB; the limit is 16.0 GiB "
        "(half the memory, at most 64 GiB). Take fewer frames or phases at a time, "
        "or a smaller size"
    )


def test_the_limit_is_on_all_grids_and_on_single_frames(clip, monkeypatch):
    frame_bytes = 160 * 96 * 3
    monkeypatch.setattr(
        "phasefusion._video_checks.room_bytes", lambda: 30 * frame_bytes
    )
    path = clip("h264.mp4")
    assert len(read_clips(path, [PhaseGrid(10, 2), PhaseGrid(10)])) == 2
    with pytest.raises(VideoError, match=r"31 frames of 160x96 take 0\.0 GiB; the"):
        read_clips(path, [PhaseGrid(10, 2), PhaseGrid(11)])
    with Video(path) as video:
        assert len(video.read([0] * 30)) == 30
        with pytest.raises(VideoError, match="31 frames of 160x96"):
            video.read([0] * 31)


def test_a_grid_that_repeats_no_frame_never_takes_more_than_there_is(clip):
    path = clip("h264.mp4")
    got = read_clip(path, PhaseGrid(10**9, short="unique"))
    assert got.frames.shape[:2] == (1, 60)
    with pytest.raises(GridError, match="60"):
        read_clip(path, PhaseGrid(10**9, short="error"))


def test_a_clip_is_shown_in_one_line(clip):
    path = str(clip("h264.mp4"))
    got = read_clip(path, PhaseGrid(4, 2))
    assert repr(got) == (
        f"<Clip {path!r}: frames of shape (2, 4, 96, 160, 3), indices "
        f"{got.indices.min()} to {got.indices.max()}>"
    )
    got.missing[0, 1] = True
    assert repr(got).endswith(", 1 missing>")
