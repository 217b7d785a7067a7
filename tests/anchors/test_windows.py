"""Windows: which frames they hold, and that grids in them are grids."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasefusion import PhaseGrid, WindowGrid, anchor_grid, read_clip, read_clips
from phasefusion.anchors.windows import anchor_window, frame_at
from phasefusion.errors import DuplicateFrameWarning, GridError, UsageError
from phasefusion.video import Video


class Timeline:
    """What a window needs of a video: times alone."""

    def __init__(self, pts, end_pts, time_base):
        self.pts, self.end_pts = np.array(pts, np.int64), end_pts
        self.info = type("Info", (), {"time_base": time_base, "path": "made.mp4"})

    def __len__(self):
        return len(self.pts)


@st.composite
def timelines(draw):
    steps = draw(st.lists(st.integers(0, 9), min_size=1, max_size=60))
    start = draw(st.integers(-50, 50))
    pts = start + np.cumsum(steps)
    base = draw(st.sampled_from([Fraction(1, 25), Fraction(1001, 30000), Fraction(1)]))
    return Timeline(pts, int(pts[-1]) + draw(st.integers(1, 9)), base)


@given(timelines(), st.data())
@settings(max_examples=300, deadline=None)
def test_a_window_holds_what_is_shown_in_it(video, data):
    """Against every frame tried in turn with fractions."""
    frame = data.draw(st.integers(0, len(video) - 1))
    share = data.draw(st.fractions(Fraction(1, 100), 1, max_denominator=100))
    align = data.draw(st.sampled_from(["start", "centre"]))
    at_end = data.draw(st.sampled_from(["shift", "cut"]))
    pts, low, high = video.pts.tolist(), int(video.pts[0]), video.end_pts
    time = Fraction(pts[frame] - low) * video.info.time_base
    found = anchor_window(video, time, window=share, align=align, at_end=at_end)
    length = share * (high - low)
    start = pts[frame] - (length / 2 if align == "centre" else 0)
    stop = start + length
    if at_end == "shift" and stop > high:
        start, stop = high - length, Fraction(high)
    if at_end == "shift" and start < low:
        start, stop = Fraction(low), low + length
    start, stop = max(start, low), min(stop, high)
    ends = [*pts[1:], high]
    shown = [
        i for i, t in enumerate(pts) if t < stop and ends[i] > start and ends[i] > t
    ]
    if shown:
        assert found[0] == min(shown)
        # a frame that is shown for no time at all may close the window
        assert (
            max(shown)
            < found[1]
            <= max(shown) + 1 + sum(a == b for a, b in zip(pts, ends, strict=True))
        )
    assert 0 <= found[0] < found[1] <= len(video)


@given(
    first=st.integers(0, 50),
    n=st.integers(1, 80),
    after=st.integers(0, 20),
    budget=st.integers(1, 9),
    phases=st.integers(1, 4),
    origin=st.fractions(0, Fraction(15, 16), max_denominator=16),
    by=st.sampled_from(["frames", "time"]),
)
@settings(max_examples=200, deadline=None)
def test_a_window_is_a_clip_of_its_own(first, n, after, budget, phases, origin, by):
    pts = np.cumsum(np.arange(first + n + after) % 5 + 1)
    end_pts = int(pts[-1]) + 3
    stop = int(pts[first + n]) if after else end_pts
    whole = PhaseGrid(budget, phases, origin, by=by)
    grid = WindowGrid.of(whole, first, first + n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateFrameWarning)
        expected = whole.select(pts[first : first + n], stop) + first
        np.testing.assert_array_equal(grid.select(pts, end_pts), expected)
        for s in range(phases):
            view = grid.view(s)
            assert isinstance(view, WindowGrid)
            if n >= budget * phases:
                row = view.select(pts, end_pts)[0]
                np.testing.assert_array_equal(row, expected[s])
        if by == "frames":
            np.testing.assert_array_equal(grid.indices(len(pts)), expected)
            dense = grid.union().indices(len(pts))[0]
            np.testing.assert_array_equal(dense, expected.T.reshape(-1))
    assert json.loads(json.dumps(grid.to_dict()))["window"] == [first, first + n]
    assert WindowGrid.from_dict(grid.to_dict()) == grid
    assert grid != whole
    assert grid.step_frames(len(pts)) == Fraction(n, budget)


def test_the_first_frame_is_the_anchors(found_clip):
    with Video(found_clip("run.mp4")) as video:
        for frame in range(0, 91):
            for budget in (1, 3, 8, 10):
                grid = anchor_grid(video, float(video.times_s[frame]), budget)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DuplicateFrameWarning)
                    indices = grid.select(video.pts, video.end_pts)
                assert indices[0, 0] == frame
                assert indices.max() < frame + 10
        for frame in range(91, 100):  # the window would end after the clip
            grid = anchor_grid(video, float(video.times_s[frame]), 5)
            assert (grid.first, grid.end) == (90, 100)
            grid = anchor_grid(video, float(video.times_s[frame]), 1, at_end="cut")
            assert (grid.first, grid.end) == (frame, 100)
        around = anchor_grid(video, 2.0, 4, align="centre", window_s=0.8)
        assert (around.first, around.end) == (40, 60)
        assert anchor_grid(video, 0.0, 4, align="centre", window=0.2).first == 0
        assert anchor_grid(video, 1.0, 4, window=1).end == 100
        # the frame of a time that was rounded down from 1/25 s
        assert frame_at(video, 0.7199995) == 18
        assert frame_at(video, 4.0) == 99


def test_all_phases_of_a_window_come_from_one_decode(found_clip, tmp_path):
    path = found_clip("run.mp4")
    grid = anchor_grid(path, 1.6, 4, 3, window=0.24)
    clip = read_clip(path, grid)
    assert clip.indices.tolist() == [
        [40, 46, 52, 58],
        [42, 48, 54, 60],
        [44, 50, 56, 62],
    ]
    with Video(path) as video:
        frames = video.read(clip.indices.reshape(-1))
    np.testing.assert_array_equal(clip.frames.reshape(frames.shape), frames)
    both = read_clips(path, [grid, PhaseGrid(4, 3)], cache=tmp_path)
    again = read_clips(path, [grid, grid.shifted("half")], cache=tmp_path)
    np.testing.assert_array_equal(both[0].frames, clip.frames)
    np.testing.assert_array_equal(again[0].frames, clip.frames)
    assert again[1].indices[0].tolist() == [41, 47, 53, 59]
    with pytest.warns(DuplicateFrameWarning, match=r"its window \[40, 45\): a clip of"):
        read_clip(path, WindowGrid(40, 45, 4, 3))
    short = read_clip(path, WindowGrid(40, 45, 4, 3, short="unique"))
    assert short.indices.tolist() == [[40, 41, 43, 44]]


def test_windows_that_cannot_be(found_clip):
    path = found_clip("run.mp4")
    with pytest.raises(GridError, match="ends after the clip of n_frames=100"):
        read_clip(path, WindowGrid(90, 101, 2))
    with pytest.raises(GridError, match="ends after the clip"):
        WindowGrid(5, 10, 2).indices(9)
    for first, end in ((5, 5), (-1, 3), (7, 2)):
        with pytest.raises(GridError, match="0 <= first < end"):
            WindowGrid(first, end, 2)
    with pytest.raises(GridError, match="window=None must be"):
        WindowGrid.from_dict(PhaseGrid(4).to_dict())
    with Video(path) as video:
        for bad in (0, 1.5, -0.1, "x", float("nan")):
            with pytest.raises(GridError, match="window="):
                anchor_grid(video, 1.0, 2, window=bad)
        with pytest.raises(GridError, match="give one of them"):
            anchor_grid(video, 1.0, 2, window=0.1, window_s=1)
        with pytest.raises(GridError, match="must be above 0"):
            anchor_grid(video, 1.0, 2, window_s=0)
        with pytest.raises(GridError, match="align='end'"):
            anchor_grid(video, 1.0, 2, align="end")
        for outside in (-0.1, 4.1):
            with pytest.raises(UsageError, match="outside the clip"):
                anchor_grid(video, outside, 2)
