"""What a pass that is missing says about why."""

import re

import numpy as np
from pixel_scorer import PixelScorer, make_questions

import phasefusion as pf
from phasefusion import _runner
from phasefusion.records import iter_passes, merge
from phasefusion.scoring.protocol import OptionScores


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


def test_reason_tells_damaged_frames_from_lost_ones(tmp_path, monkeypatch):
    read_clips = _runner.read_clips

    def with_damage(path, grids, **options):
        clips = read_clips(path, grids, **options)
        clips[0].missing[1, :2] = True
        clips[0].damaged[1, 1] = True
        return clips

    monkeypatch.setattr(_runner, "read_clips", with_damage)
    questions = make_questions(tmp_path, n_clips=1, per_clip=1)
    options = {"budget": 4, "dense": 10, "progress": False}
    pf.evaluate(questions, PixelScorer(), out=tmp_path / "run", **options)
    (reason,) = {p["invalid"] for p in iter_passes(tmp_path / "run")} - {None}
    assert re.fullmatch(
        r"video: frames \[\d+\] do not decode and frames \[\d+\] are damaged", reason
    )
