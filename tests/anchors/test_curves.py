"""Motion and colour over a clip in which it is known what happens when."""

from __future__ import annotations

import sys

import make
import numpy as np
import pytest
from anchor_clips import CUT, RUNS, STOPS, N, running_square

from phasefusion.anchors import Curve, colour_change, flow_motion, vector_motion
from phasefusion.errors import BackendUnavailableError, UsageError, VideoError
from phasefusion.video import Video


def test_vectors_see_the_run(found_clip):
    with Video(found_clip("run.mp4")) as video:
        curve = vector_motion(video)
        again = vector_motion(Video(found_clip("run.mp4"), threads=3))
    np.testing.assert_array_equal(curve.values, again.values)
    assert repr(curve).startswith("<Curve vectors: ")
    assert not curve.measured[0]
    moving = np.flatnonzero(curve.values > 0.3 * curve.values.max())
    assert RUNS - 3 <= moving.min()
    assert moving.max() <= STOPS + 3
    frame, value, over_mean = curve.peak(2)
    assert RUNS < frame <= STOPS
    # 32 x 32 of 96 x 160 pixels run 8 pixels a frame
    assert value == pytest.approx(8 * 32 * 32 / (96 * 160), rel=0.5)
    assert over_mean > 5


def test_flow_sees_the_run(found_clip):
    pytest.importorskip("cv2")
    with Video(found_clip("run.mp4")) as video:
        curve = flow_motion(video)
    run = curve.values[RUNS + 1 : STOPS + 1]
    assert curve.measured[1:].all()
    assert run.min() > 10 * np.median(curve.values)
    assert curve.values[: RUNS - 1].max() < 0.1 * run.mean()


def test_flow_is_in_pixels_of_the_video(found_clip):
    pytest.importorskip("cv2")
    large = running_square().repeat(4, axis=1).repeat(4, axis=2)
    with Video(found_clip("large.mp4", frames=large)) as video:
        big = flow_motion(video).values
    with Video(found_clip("run.mp4")) as video:
        small = flow_motion(video).values
    run = slice(RUNS + 1, STOPS + 1)
    assert big[run].mean() == pytest.approx(4 * small[run].mean(), rel=0.25)


def test_colours_see_the_cut(found_clip):
    for name, options in {
        "run.mp4": None,
        "run.webm": ["-c:v", "libvpx-vp9", "-b:v", "300k", "-cpu-used", "8"],
        "run.mkv": ["-c:v", "ffv1"],
    }.items():
        with Video(found_clip(name, options)) as video:
            curve = colour_change(video)
        frame, value, over_mean = curve.peak()
        assert frame == CUT
        assert value > 0.5
        assert over_mean > 10
        assert curve.values[0] == 0.0
        assert curve.measured.tolist() == [False] + [True] * (N - 1)
    assert not curve.values[1:RUNS].any()  # lossless: equal frames are exactly equal


def test_grey_and_one_colour(found_clip):
    grey = running_square().mean(axis=3, keepdims=True).astype(np.uint8)
    grey[CUT:] //= 2
    options = ["-c:v", "ffv1", "-pix_fmt", "gray"]
    with Video(found_clip("grey.mkv", options, grey.repeat(3, axis=3))) as video:
        assert colour_change(video).peak()[0] == CUT
    flat = np.full((20, 96, 160, 3), 90, np.uint8)
    with Video(found_clip("flat.mp4", frames=flat)) as video:
        assert not colour_change(video).values.any()
        assert colour_change(video).peak() == (1, 0.0, 1.0)
        assert vector_motion(video).peak(2)[1] == 0.0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "run.webm",
            ["-c:v", "libvpx-vp9", "-b:v", "300k", "-cpu-used", "8"],
            "of vp9",
        ),
        ("run.avi", ["-c:v", "mjpeg"], r"no picture of 100 .* \(mjpeg\)"),
        ("run.mkv", ["-c:v", "ffv1"], "no picture of 100 is predicted from another"),
        ("intra.mp4", make.x264("keyint=1"), r"no picture of 100 .* \(h264\)"),
    ],
)
def test_why_there_are_no_vectors(name, options, message, found_clip):
    with Video(found_clip(name, options)) as video:
        with pytest.raises(VideoError, match=message):
            vector_motion(video)


def test_without_opencv_it_is_said_how_to_get_it(found_clip, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with Video(found_clip("run.mp4")) as video:
        with pytest.raises(
            BackendUnavailableError, match="pip install opencv-python-h"
        ):
            flow_motion(video)


def test_damaged_frames_are_not_measured(found_clip, tmp_path):
    whole = found_clip(
        "noise.mp4",
        frames=np.random.default_rng(1).integers(0, 256, (60, 96, 160, 3), np.uint8),
    )
    data = bytearray(whole.read_bytes())
    rng = np.random.default_rng(2)
    for at in range(len(data) // 2, len(data) * 3 // 4, len(data) // 50):
        data[at : at + 40] = rng.bytes(40)
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(data)
    with Video(broken) as video:
        curve = colour_change(video)
        state = video._reader.histograms(np.arange(len(video)), 1)[1]
    assert state.any()
    unsound = np.flatnonzero(state)
    assert not curve.measured[unsound].any()
    assert not curve.measured[np.minimum(unsound + 1, len(state) - 1)].any()
    assert not curve.values[~curve.measured].any()
    assert curve.measured[1:20].all()


def test_peaks():
    values = np.array([9.0, 1, 5, 5, 0, 2])
    curve = Curve("flow", values, np.array([False, True, True, True, False, True]))
    assert curve.peak() == (2, 5.0, pytest.approx(5 / 3.25))
    assert curve.smoothed(1).tolist() == [1, 3, pytest.approx(11 / 3), 5, 3.5, 2]
    assert curve.peak(1)[0] == 3
    assert curve.peak(99)[0] == 1
    with pytest.raises(UsageError, match="radius=-1"):
        curve.peak(-1)
    nothing = Curve("flow", np.zeros(3), np.zeros(3, bool))
    with pytest.raises(VideoError, match="no frame that was measured"):
        nothing.peak()
    assert not nothing.smoothed(2).any()
