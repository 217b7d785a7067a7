"""Whole runs of every family over a real file, frames decoded at the model's size."""

from __future__ import annotations

import json

import family_models as made
import numpy as np
import pytest
from family_scorers import make_scorer, pixels_of
from pixel_scorer import make_clip

import phasefusion
from phasefusion import _spans
from phasefusion.evaluate import evaluate
from phasefusion.grid import PhaseGrid
from phasefusion.scoring import HFOptionScorer

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    make_clip(folder / "clip.mp4", 40, size="72x56")
    row = {"question_id": "0", "video": "clip.mp4", "question": made.QUESTION}
    row |= {"options": list(made.OPTIONS), "answer": 1}
    path = folder / "questions.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return path


class AsDecoded:
    """A scorer that does not tell at which size it looks."""

    def __init__(self, scorer):
        self.score = scorer.score


def scores_of(run):
    return [
        (row["arm"], row["shifted"], row["phase_index"], row["order"], row["logprobs"])
        for row in phasefusion.records.iter_passes(run.path)
    ]


@pytest.mark.parametrize("name", list(made.SPECS))
def test_frames_decoded_at_the_size_of_the_model_score_the_same(
    name, questions, tmp_path, monkeypatch
):
    scorer = make_scorer(name)
    options = {"protocol": "stableeval", "budget": 4, "phases": 2, "progress": False}
    shapes = []
    read = _spans.read_clips

    def spy(*arguments, **more):
        clips = read(*arguments, **more)
        shapes.append(clips[0].frames.shape)
        return clips

    monkeypatch.setattr(_spans, "read_clips", spy)
    fused = evaluate(questions, scorer, out=tmp_path / "fused", **options)
    whole = evaluate(questions, AsDecoded(scorer), out=tmp_path / "whole", **options)
    told = scorer.frame_size(56, 72, 4)
    assert shapes == [(2, 4, *(told or (56, 72)), 3), (2, 4, 56, 72, 3)]
    assert (told is None) == (name == "smolvlm")
    assert scores_of(fused) == scores_of(whole)
    assert all(row[-1] is not None for row in scores_of(fused))
    assert len(scores_of(fused)) == 2 * 3


def test_arms_of_a_run_see_frames_of_one_size(questions, tmp_path, monkeypatch):
    scorer = make_scorer("qwen3_vl")
    assert scorer.frame_size(56, 72, 4) != scorer.frame_size(56, 72, 12)
    grids = set()
    show = type(scorer._family).show

    def spy(self, frames, *arguments, **more):
        shown = show(self, frames, *arguments, **more)
        grids.add(tuple(shown.inputs.arrays["video_grid_thw"][0, 1:].tolist()))
        return shown

    monkeypatch.setattr(type(scorer._family), "show", spy)
    run = evaluate(
        questions,
        scorer,
        out=tmp_path / "run",
        budget=2,
        phases=3,
        dense=12,
        n_orders=1,
        progress=False,
    )
    arms = {row[0] for row in scores_of(run)}
    assert {"phase", "union", "dense"} <= arms
    height, width = scorer.frame_size(56, 72, 12)
    assert grids == {(height // 4, width // 4)}
    described = json.loads((run.path / "run.json").read_text())
    assert described["settings"]["scorer"]["pixel_frames"] == 12


def test_times_of_a_real_file_are_those_of_the_processor(questions):
    """Numbers over the rate, from a file whose timestamps the container rounded."""
    path = questions.parent / "clip.mkv"
    make_clip(path, 40, rate=24, size="72x56")
    clip = phasefusion.read_clip(path, PhaseGrid(4, 2))
    scorer = make_scorer("qwen3_vl")
    from phasefusion.scoring.times import frame_times

    for s in range(2):
        times = frame_times(clip, s)
        np.testing.assert_array_equal(times.seconds, clip.indices[s] / 24)
        assert times.spacing_s == pytest.approx(40 / 24 / 4, rel=1e-12)
    assert scorer.score(clip, made.QUESTION, made.OPTIONS).valid.all()


def test_a_float_clip_is_taken_as_it_is(questions):
    """Frames that were resized and normalised in one step."""
    path = questions.parent / "clip.mp4"
    for name in ("internvl", "qwen2_vl"):
        pixels = pixels_of(name)
        scorer = make_scorer(name)
        size = scorer.frame_size(56, 72, 4)
        mean, std = pixels.mean, pixels.std
        grid = PhaseGrid(4, 1)
        floats = phasefusion.read_clip(path, grid, size=size, mean=mean, std=std)
        bytes_ = phasefusion.read_clip(path, grid)
        assert isinstance(scorer, HFOptionScorer)
        np.testing.assert_allclose(
            scorer.score(floats, made.QUESTION, made.OPTIONS).logprobs,
            scorer.score(bytes_, made.QUESTION, made.OPTIONS).logprobs,
            rtol=0,
            atol=1e-4,
        )
