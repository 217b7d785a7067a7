"""What a pass that is missing says about why."""

import errno
import re

import numpy as np
import pytest
from pixel_scorer import PixelScorer, make_questions

import phasefusion as pf
from phasefusion import _spans
from phasefusion.errors import FrameError
from phasefusion.records import iter_passes, merge
from phasefusion.scoring.protocol import OptionScores


@pytest.mark.filterwarnings("ignore::phasefusion.errors.NoAnswerWarning")
def test_reasons_are_those_of_the_pass_alone(tmp_path):
    """Whatever else was asked in the call, so that a run that goes on says the same."""

    class Silent(PixelScorer):
        def score(self, clip, question, options, *, orders=None):
            scores = super().score(clip, question, options, orders=orders)
            notes = {
                (s, m): f"frame {clip.indices[s, 0]}, {orders[m].tolist()}"
                for s, m in np.ndindex(len(clip.frames), len(orders))
            }
            return OptionScores(
                np.full(scores.shape, np.nan),
                np.full(scores.shape[:2], np.nan),
                orders,
                "letter",
                ("of the question",),
                notes,
            )

    options = {"budget": 4, "dense": 10, "progress": False}
    questions = make_questions(tmp_path, n_clips=1, per_clip=1)
    whole, again = tmp_path / "whole", tmp_path / "again"
    for out in (whole, again):
        pf.evaluate(questions, Silent(), out=out, **options)
    path = again / "passes.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:3]), encoding="utf-8")
    pf.evaluate(questions, Silent(), out=again, **options)

    def reasons(out):
        found = {}
        for p in iter_passes(out):
            at = p["arm"], p["shifted"], p["phase_index"], tuple(p["order"])
            assert p["invalid"] == (
                f"scores: NaN; frame {p['frame_indices'][0]}, {p['order']}"
            )
            found[at] = p["invalid"]
        return found

    assert reasons(whole) == reasons(again)
    assert merge([whole, again], tmp_path / "both").n_conflicts == 0


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "v.mp4"),
        OSError(errno.EIO, "Input/output error", "v.mp4"),
        FrameError("1 x 99999 px cannot be resized"),
    ],
)
def test_a_video_that_cannot_be_read_leaves_its_passes_missing(
    tmp_path, monkeypatch, error
):
    read_clips = _spans.read_clips
    opened = []

    def refuse_first(path, grids, **options):
        opened.append(path)
        if path == opened[0]:
            raise error
        return read_clips(path, grids, **options)

    monkeypatch.setattr(_spans, "read_clips", refuse_first)
    questions = make_questions(tmp_path, n_clips=2, per_clip=1)
    options = {"budget": 4, "protocol": "quick", "progress": False}
    pf.evaluate(questions, PixelScorer(), out=tmp_path / "run", **options)
    reasons = [p["invalid"] for p in iter_passes(tmp_path / "run")]
    assert reasons == [f"video: {error}", None]
    with pytest.raises(type(error)):
        pf.evaluate(
            questions, PixelScorer(), out=tmp_path / "b", on_error="raise", **options
        )


def test_a_process_without_files_left_does_not_lose_its_videos(tmp_path, monkeypatch):
    def refuse(path, grids, **options):
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr(_spans, "read_clips", refuse)
    questions = make_questions(tmp_path, n_clips=1, per_clip=1)
    with pytest.raises(OSError, match="Too many open files"):
        pf.evaluate(
            questions, PixelScorer(), out=tmp_path / "run", budget=4, protocol="quick"
        )
    assert not list(iter_passes(tmp_path / "run"))


def test_reason_tells_damaged_frames_from_lost_ones(tmp_path, monkeypatch):
    read_clips = _spans.read_clips

    def with_damage(path, grids, **options):
        clips = read_clips(path, grids, **options)
        clips[0].missing[1, :2] = True
        clips[0].damaged[1, 1] = True
        return clips

    monkeypatch.setattr(_spans, "read_clips", with_damage)
    questions = make_questions(tmp_path, n_clips=1, per_clip=1)
    options = {"budget": 4, "dense": 10, "progress": False}
    pf.evaluate(questions, PixelScorer(), out=tmp_path / "run", **options)
    (reason,) = {p["invalid"] for p in iter_passes(tmp_path / "run")} - {None}
    assert re.fullmatch(
        r"video: frames \[\d+\] do not decode and frames \[\d+\] are damaged", reason
    )
