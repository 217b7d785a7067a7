"""The shipped model answers its own questions, by letter."""

from __future__ import annotations

import json

import numpy as np
import pytest

from phasefusion.grid import PhaseGrid
from phasefusion.scoring import HFOptionScorer
from phasefusion.video import read_clip

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tinyvlm = pytest.importorskip("phasefusion.tinyvlm")

N_QUESTIONS = 60


@pytest.fixture(scope="module")
def scorer():
    torch.set_num_threads(1)
    return HFOptionScorer.from_pretrained(
        tinyvlm.model_dir(), device="cpu", dtype="float32"
    )


@pytest.fixture(scope="module")
def questions():
    path = tinyvlm.questions_path()
    lines = path.read_text(encoding="utf-8").splitlines()
    spread = np.linspace(0, len(lines) - 1, N_QUESTIONS).astype(int)
    return [json.loads(lines[i]) for i in np.unique(spread)]


def read(question, phases=1):
    path = tinyvlm.questions_path().parent / question["video"]
    return read_clip(path, PhaseGrid(8, phases))


def test_letters_are_right_far_above_chance(scorer, questions):
    right, chance = [], []
    for question in questions:
        scores = scorer.score(read(question), question["question"], question["options"])
        assert scores.option_mass.min() > 0.9
        right.append(scores.logprobs[0, 0].argmax() == question["answer"])
        chance.append(1 / len(question["options"]))
    chance = np.array(chance)
    limit = chance.sum() + 4 * np.sqrt((chance * (1 - chance)).sum())
    assert np.sum(right) > limit


def test_generated_letters_are_the_scored_ones(build, scorer, questions):
    model, tokenizer = scorer._model, scorer._asker.tokenizer
    size = tuple(scorer.describe()["pixels"]["size"])
    for question in questions[:8]:
        clip, options = read(question), question["options"]
        chat = scorer._asker.chat(question["question"], options)
        inputs = build.inputs(model, tokenizer, clip, 0, chat, size)
        with torch.inference_mode():
            out = model.generate(**inputs, max_new_tokens=1, do_sample=False)
        letter = tokenizer.decode(out[0, -1]).strip()
        scores = scorer.score(clip, question["question"], options)
        assert letter == "ABCDEFGHIJ"[scores.logprobs[0, 0].argmax()]


def test_orders_share_the_prefix_of_the_shipped_model(scorer, questions):
    question = questions[0]
    clip = read(question, phases=3)
    n_options = len(question["options"])
    orders = [np.roll(np.arange(n_options), m) for m in range(n_options)]
    scores = {}
    for reuse in (True, False):
        scorer._passes.reuse_prefix = reuse
        scores[reuse] = scorer.score(
            clip, question["question"], question["options"], orders=orders
        ).logprobs
    scorer._passes.reuse_prefix = True
    np.testing.assert_allclose(scores[True], scores[False], rtol=0, atol=1e-4)
