"""Timestamps and the facts about a video, against ffprobe."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from fractions import Fraction

import numpy as np
import pytest

from phasefusion._runner import read_span
from phasefusion.datasets import Item
from phasefusion.errors import FrameCountWarning
from phasefusion.grid import PhaseGrid
from phasefusion.scoring.times import frame_times
from phasefusion.video import Video

EXACT = ["h264.mp4", "h264.mkv", "h264.ts", "h264_open.mp4", "hevc.mp4", "vp9.webm"]
EXACT += ["live.webm", "av1.mp4", "vfr.mp4", "offset.ts", "offset.mkv", "late.mp4"]
EXACT += ["edit_list.mp4", "fps_23976.mp4", "mpeg2.ts", "animation.gif", "cut.ts"]
WHOLE = ["h264.mkv", "vp9.webm", "with_sound.mkv", "offset.mkv", "live.webm", "h264.ts"]
WHOLE += ["offset.ts", "late.mp4", "h264.h264", "wmv.wmv", "h263.flv", "animation.gif"]
WHOLE += ["fragmented.mp4", "still.png", "vfr.mp4", "equal_times.mp4", "mpeg1.mpg"]
EXACT += ["fragmented.mp4", "equal_times.mp4", "truncated.mkv", "mjpeg.avi"]


def ffprobe(path, stream, *entries):
    if shutil.which("ffprobe") is None:
        pytest.skip("ffprobe is not installed")
    command = ["ffprobe", "-v", "quiet", "-threads", "1", "-of", "json"]
    command += ["-select_streams", str(stream), "-show_entries", *entries, str(path)]
    return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("name", EXACT)
def test_times_are_those_of_ffprobe(name, clip, quiet_video):
    with quiet_video(clip(name)) as video:
        shown = ffprobe(clip(name), video.info.stream_index, "frame=pts")["frames"]
        assert video.pts.dtype == np.int64
        assert video.pts.tolist() == [frame["pts"] for frame in shown]
        base = video.info.time_base
        exact = [float(Fraction(int(t)) * base) for t in video.pts]
        assert np.allclose(video.times_s, exact, rtol=1e-15, atol=0)
        assert video.end_pts > video.pts[-1]
        assert video.info.duration_s == float(
            (video.end_pts - int(video.pts[0])) * base
        )


@pytest.mark.parametrize("name", ["asp.avi", "mpeg1.mpg", "mpeg2.mpg"])
def test_missing_times_come_from_decoding_times(name, clip, quiet_video):
    with quiet_video(clip(name)) as video:
        entries = "frame=best_effort_timestamp"
        shown = ffprobe(clip(name), video.info.stream_index, entries)["frames"]
        best = [frame["best_effort_timestamp"] for frame in shown[:-1]]
        assert video.pts[:-1].tolist() == best  # ffprobe has no time for the last
        assert (np.diff(video.pts) == np.diff(video.pts)[0]).all()


def test_no_times_at_all_follow_the_frame_rate(clip, quiet_video):
    with quiet_video(clip("h264.h264")) as video:
        assert np.allclose(video.times_s, np.arange(60) / 25)
        assert video.info.duration_s == pytest.approx(60 / 25)


def test_times_never_fall(clip, quiet_video):
    for name in ("asp.mp4", "coarse_times.mkv", "sizes.ts", "equal_times.mp4"):
        with quiet_video(clip(name)) as video:
            assert (np.diff(video.pts) >= 0).all(), name


def test_facts_of_a_plain_clip(clip):
    with Video(clip("fps_23976.mp4")) as video:
        info = video.info
    assert (info.codec, info.pixel_format) == ("h264", "yuv420p")
    assert "mp4" in info.container
    assert info.fps == Fraction(24000, 1001)
    assert (info.n_frames_header, info.n_frames) == (48, 48)
    assert not info.vfr
    assert info.counted is None
    assert info.n_cut == 0
    assert info.duration_s == pytest.approx(48 * 1001 / 24000)


def test_a_varying_frame_rate_is_seen(clip, quiet_video):
    for name, varies in [("vfr.mp4", True), ("h264.mkv", False), ("h264.mp4", False)]:
        with quiet_video(clip(name)) as video:
            assert video.info.vfr is varies, name


@pytest.mark.parametrize("by", ["frames", "time"])
@pytest.mark.parametrize(("start", "end"), [(0.0, 0.9), (1.0, 1.9), (0.5, None)])
@pytest.mark.parametrize("name", ["vfr.mp4", "h264.mkv"])
def test_times_of_a_part_are_those_of_its_timestamps(name, clip, by, start, end):
    path = str(clip(name))
    with Video(path) as video:
        times = video.times_s - video.info.start_s
        last_s = video.info.duration_s
    inside = (times >= start) & (times < (np.inf if end is None else end))
    begin_s = times[inside][0]
    later = times[times > times[inside][-1]]
    step_s = ((later[0] if len(later) else last_s) - begin_s) / 4
    item = Item("1", "b", path, "v", "?", ("a", "b"), start=start, end=end)
    found = read_span(item, [PhaseGrid(4, 3, by=by)], None, 1, "raise").clips[0]
    for s in range(3):
        frozen = frame_times(found, s, "frozen")
        np.testing.assert_allclose(
            frozen.seconds, begin_s + (np.arange(4) + 0.5) * step_s, rtol=0, atol=1e-9
        )
        assert frozen.spacing_s == pytest.approx(step_s)
        shown = frame_times(found, s)
        np.testing.assert_allclose(
            shown.seconds, times[found.indices[s]], rtol=0, atol=2e-3
        )
        if by == "time":
            assert shown.spacing_s == pytest.approx(step_s)


@pytest.mark.parametrize(
    ("name", "header", "true"),
    [
        ("header_lies.avi", 777, 60),
        ("truncated.mp4", 60, 31),
        ("corrupted.mp4", 60, 56),
    ],
)
def test_a_header_that_lies_is_corrected_aloud(name, header, true, clip):
    pattern = f"{name}: the header says {header} frames, {true} are there"
    if name != "header_lies.avi":  # the header was right
        pattern = f"{header} frames, {true} decode; the file is damaged"
    with pytest.warns(FrameCountWarning, match=pattern):
        video = Video(clip(name))
    assert (video.info.n_frames_header, video.info.n_frames) == (header, true)


@pytest.mark.parametrize(
    ("name", "stated_s"),
    [("truncated.mkv", 2.4), ("half.webm", 2.4), ("half_with_sound.mkv", 2.4)],
)
def test_a_file_cut_short_is_noticed_by_its_duration(name, stated_s, clip):
    with pytest.warns(FrameCountWarning, match="cut short") as caught:
        video = Video(clip(name))
    assert len(caught) == 1
    info = video.info
    assert info.n_frames_header is None
    assert 0 < info.n_frames < 50
    assert info.duration_s_header == pytest.approx(stated_s, abs=0.06)
    text = str(caught[0].message)
    assert f"says {info.duration_s_header:.3f} s, the {info.n_frames} frames" in text
    assert f"end at {info.duration_s + info.start_s:.3f} s" in text


@pytest.mark.parametrize(
    "name",
    WHOLE,
)
def test_whole_files_are_not_called_cut(name, clip):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Video(clip(name)) as video:
            stated_s = video.info.duration_s_header
    if name in ("h264.mkv", "vp9.webm", "with_sound.mkv"):
        assert stated_s == pytest.approx(2.4, abs=0.06)
    if name in ("live.webm", "h264.h264", "h264.ts"):  # estimates, if anything
        assert stated_s is None


def test_an_edit_list_is_named_in_the_warning(clip):
    with pytest.warns(FrameCountWarning, match="an edit list cuts 7 of them"):
        video = Video(clip("edit_list.mp4"))
    assert video.info.n_cut == 7


def test_facts_outlive_the_file(clip):
    video = Video(clip("h264.mp4"))
    video.close()
    video.close()
    assert len(video) == len(video.pts) == 60
    assert repr(video).endswith("60 frames of 160x96, h264>")
