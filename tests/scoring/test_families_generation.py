"""Generated and blind answers of every family, against plain forward passes."""

from __future__ import annotations

import family_models as made
import numpy as np
import pytest
from family_scorers import (
    ORDERS,
    built,
    inputs_of,
    log_softmax_of,
    make_clip,
    make_scorer,
)

from phasefusion.scoring import HFGenerationScorer

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def writer(name, **options):
    """The family's scorer that generates, with the same inner scorer."""
    scorer = HFGenerationScorer.__new__(HFGenerationScorer)
    scorer._scorer = make_scorer(name)
    scorer._constrain = options.get("constrain")
    scorer._max_new_tokens = options.get("max_new_tokens", 3)
    scorer._video = True
    return scorer


@pytest.mark.parametrize("name", list(made.SPECS))
def test_the_first_token_is_the_most_probable_one(name):
    scorer, clip = writer(name, max_new_tokens=1), make_clip(name)
    tokenizer, model = built(name)
    texts = scorer.score(clip, made.QUESTION, made.OPTIONS, orders=ORDERS).texts
    for s in range(len(clip.frames)):
        for m in range(len(ORDERS)):
            inputs, _ = inputs_of(scorer._scorer, clip, s, m)
            best = int(log_softmax_of(model, inputs).argmax())
            assert texts[s][m] == tokenizer.decode([best])


@pytest.mark.parametrize("name", list(made.SPECS))
def test_constrained_answers_are_the_best_letter(name):
    scorer, clip = writer(name, constrain="letters"), make_clip(name)
    texts = scorer.score(clip, made.QUESTION, made.OPTIONS, orders=ORDERS).texts
    scores = make_scorer(name, letter_variants="in-context").score(
        clip, made.QUESTION, made.OPTIONS, orders=ORDERS
    )
    best = scores.letter_logprobs.argmax(axis=-1)
    assert [[t.strip() for t in row] for row in texts] == [
        ["ABC"[p] for p in row] for row in best
    ]


@pytest.mark.parametrize("name", list(made.SPECS))
def test_blind_prompts_have_no_place_for_frames(name):
    scorer = make_scorer(name)
    blind = scorer.variant("blind")
    found = blind.score(None, made.QUESTION, made.OPTIONS, orders=ORDERS)
    assert found.valid.all()
    inner = blind._scorer
    asked = inner._asker.ask(made.QUESTION, made_clean(), ORDERS, 0)
    tokenizer, model = built(name)
    shown = inner._family.nothing()
    for m, row in enumerate(inner._asker.rows(asked, shown)):
        assert scorer._family.visual_token_id not in row.ids
        assert made.QUESTION in tokenizer.decode(row.ids.tolist())
        logp = log_softmax_of(model, {"input_ids": torch.from_numpy(row.ids)[None]})
        letters = logp[row.tokens[0]].reshape(-1, 3)
        np.testing.assert_allclose(
            found.letter_logprobs[0, m],
            np.logaddexp.reduce(letters, axis=0),
            rtol=0,
            atol=1e-5,
        )


def made_clean():
    from phasefusion.scoring.letters import clean_options

    return clean_options(made.OPTIONS)
