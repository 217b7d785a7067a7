"""What a pass that is missing says about why."""

import re

from pixel_scorer import PixelScorer, make_questions

import phasefusion as pf
from phasefusion import _runner
from phasefusion.records import iter_passes


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
