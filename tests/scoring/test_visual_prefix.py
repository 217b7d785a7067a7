"""One visual prefix for all option orders gives the scores of full passes."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

from phasefusion.errors import FallbackWarning, ScoringError
from phasefusion.scoring import HFOptionScorer, prefix
from phasefusion.scoring.prefix import ForwardPasses
from phasefusion.scoring.rows import Row, common_prefix

pytest.importorskip("torch")
pytest.importorskip("transformers")

OPTIONS = ("red", "a rather long answer in many words", "it", "no one at all")
QUESTION = "What happens?"


def ten_orders(n_options=4, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(n_options) for _ in range(10)])


def both(model, tokenizer, clip, build, orders, **options):
    scores = [
        HFOptionScorer(model, tokenizer, size=build.SIZE, reuse_prefix=reuse, **options)
        .score(clip, QUESTION, OPTIONS, orders=orders)
        .logprobs
        for reuse in (True, False)
    ]
    assert np.isfinite(scores).all()
    return scores


def count_passes(model):
    """Record (rows, tokens, with video) of every pass."""
    passes = []

    def note(module, args, kwargs):
        video = kwargs.get("pixel_values_videos") is not None
        passes.append((*kwargs["input_ids"].shape, video))

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    return passes, handle


def test_reused_equals_plain(model, tokenizer, clip, build):
    reused, plain = both(model, tokenizer, clip, build, ten_orders())
    np.testing.assert_allclose(reused, plain, rtol=0, atol=1e-5)
    # The orders matter to this model, so that equality says something.
    assert np.ptp(plain[0], axis=0).min() > 0.01


def test_one_pass_over_the_videos_and_one_over_the_tails(
    model, tokenizer, clip, build, monkeypatch
):
    monkeypatch.setattr(prefix, "_LEAST_PACK", 2048)  # all orders in one row
    passes, handle = count_passes(model)
    try:
        both(model, tokenizer, clip, build, ten_orders())
    finally:
        handle.remove()
    reused, plain = passes[:-20], passes[-20:]
    n_videos, n_prefix, _ = reused[0]
    assert n_videos == 2
    assert [video for _, _, video in reused] == [True] + [False] * (len(reused) - 1)
    assert sum(rows for rows, _, video in reused if not video) == 2
    assert [(rows, video) for rows, _, video in plain] == [(1, True)] * 20
    # What is shared reaches past the question, to the first option line.
    assert n_prefix > 12 + len(QUESTION)
    # Orders with the same first option run it once.
    run = sum(rows * tokens for rows, tokens, _ in reused)
    assert run < 2 * n_prefix + 18 * (plain[0][1] - n_prefix)


@pytest.mark.parametrize("kind", ["text", "text-normalised"])
@pytest.mark.parametrize("listed", [False, True])
def test_reused_equals_plain_for_texts(model, tokenizer, clip, build, kind, listed):
    from phasefusion.scoring import PromptTemplate

    reused, plain = both(
        model,
        tokenizer,
        clip,
        build,
        ten_orders()[:3],
        score=kind,
        prompt=PromptTemplate() if listed else None,
    )
    np.testing.assert_allclose(reused, plain, rtol=0, atol=5e-5)
    assert (np.ptp(plain, axis=1).max() > 0.01) == listed


def test_long_videos_keep_their_positions(model, tokenizer, build):
    # The last frame's position in time lies far above every text position here.
    clip = build.clip(n_phases=1, seconds=3600.0)
    reused, plain = both(model, tokenizer, clip, build, ten_orders()[:2])
    np.testing.assert_allclose(reused, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen2_vl"])
def test_both_families(build, tokenizer, clip, family):
    model = build.model(tokenizer, family=family, seed=5)
    reused, plain = both(model, tokenizer, clip, build, ten_orders()[:3])
    np.testing.assert_allclose(reused, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("reuse", [True, False])
def test_batches_do_not_change_scores(model, tokenizer, clip, build, reuse):
    def score(batch_size):
        scorer = HFOptionScorer(
            model,
            tokenizer,
            size=build.SIZE,
            reuse_prefix=reuse,
            batch_size=batch_size,
        )
        return scorer.score(clip, QUESTION, OPTIONS, orders=ten_orders()).logprobs

    one = score(1)
    for batch_size in (3, 10, 64, None):
        np.testing.assert_allclose(score(batch_size), one, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["letter", "text"])
def test_classes_that_give_all_logits(model, tokenizer, clip, build, kind):
    def score(selects, reuse):
        scorer = HFOptionScorer(
            model, tokenizer, size=build.SIZE, score=kind, reuse_prefix=reuse
        )
        if not selects:
            scorer._passes._accepts -= {"logits_to_keep"}
        return scorer.score(clip, QUESTION, OPTIONS, orders=ten_orders()).logprobs

    for reuse in (True, False):
        np.testing.assert_allclose(
            score(False, reuse), score(True, reuse), rtol=0, atol=1e-5
        )


def test_one_order_is_one_pass_for_all_phases(model, tokenizer, clip, build):
    passes, handle = count_passes(model)
    try:
        scorer = HFOptionScorer(model, tokenizer, size=build.SIZE)
        scorer.score(clip, QUESTION, OPTIONS)
    finally:
        handle.remove()
    assert [(rows, video) for rows, _, video in passes] == [(2, True)]


def test_sliding_windows_fall_back_with_a_warning(build, tokenizer, clip):
    model = build.model(
        tokenizer, use_sliding_window=True, sliding_window=16, max_window_layers=1
    )
    scorer = HFOptionScorer(model, tokenizer, size=build.SIZE)
    with pytest.warns(FallbackWarning, match="sliding_attention layers"):
        scores = scorer.score(clip, QUESTION, OPTIONS, orders=ten_orders()[:2])
    plain = HFOptionScorer(model, tokenizer, size=build.SIZE, reuse_prefix=False)
    expected = plain.score(clip, QUESTION, OPTIONS, orders=ten_orders()[:2])
    np.testing.assert_allclose(scores.logprobs, expected.logprobs, rtol=0, atol=1e-5)
    # Once is enough: the second question says nothing.
    scorer.score(clip, QUESTION, OPTIONS, orders=ten_orders()[:2])


@pytest.mark.parametrize(
    ("kind", "message"),
    [("StaticLayer", "the cache holds StaticLayer"), ("none", "has no layers")],
)
def test_caches_that_cannot_be_shared_fall_back(build, tokenizer, clip, kind, message):
    import transformers

    model = build.model(tokenizer)
    forward, name = model.forward, "cache"
    if "cache" not in inspect.signature(forward).parameters:
        name = "past_key_values"

    @functools.wraps(forward)
    def other_cache(**inputs):
        caches = []
        if inputs["use_cache"] and kind == "StaticLayer":
            caches = [transformers.StaticCache(model.config, max_cache_len=200)]
        inputs |= dict.fromkeys([name], *caches)
        return forward(**inputs | {"use_cache": bool(caches)})

    model.forward = other_cache
    scorer = HFOptionScorer(model, tokenizer, size=build.SIZE)
    message = (
        "the cache holds StaticLayer" if kind == "StaticLayer" else "has no layers"
    )
    with pytest.warns(FallbackWarning, match=message):
        scores = scorer.score(clip, QUESTION, OPTIONS, orders=ten_orders()[:2])
    plain = HFOptionScorer(model, tokenizer, size=build.SIZE, reuse_prefix=False)
    expected = plain.score(clip, QUESTION, OPTIONS, orders=ten_orders()[:2])
    np.testing.assert_allclose(scores.logprobs, expected.logprobs, rtol=0, atol=1e-5)
    # Known now: no prefix is tried again, and nothing said.
    passes, handle = count_passes(model)
    scorer.score(clip, QUESTION, OPTIONS, orders=ten_orders()[:2])
    handle.remove()
    assert sum(rows for rows, _, _ in passes) == 4


def test_a_video_after_the_question_falls_back(build, model, clip):
    template = (
        "{% for c in messages[0]['content'] | reverse %}{% if c['type'] == 'video' %}"
        "<|vision_start|><|video_pad|><|vision_end|>{% else %}{{ c['text'] }}"
        "{% endif %}{% endfor %}\n<|im_start|>assistant\n"
    )
    scorer = HFOptionScorer(model, build.tokenizer(template=template), size=build.SIZE)
    with pytest.warns(FallbackWarning, match="differ before the end of the video"):
        scorer.score(clip, QUESTION, OPTIONS, orders=ten_orders()[:2])


def row(ids, first):
    return Row(np.array(ids), np.arange(first, len(ids)), np.zeros((1, 1), int))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([([1, 2, 3], 2), ([1, 2, 4], 2)], 2),
        ([([1, 2, 3], 2), ([1, 2, 3], 2)], 2),
        ([([1, 2, 3, 4], 1), ([1, 2, 3, 5], 1)], 1),
        ([([1, 2], 1), ([1, 2, 3, 4], 3)], 1),
        ([([5, 2, 3], 2), ([1, 2, 3], 2)], 0),
    ],
)
def test_common_prefix(rows, expected):
    assert common_prefix([row(*r) for r in rows]) == expected


def test_batch_size_is_checked(model):
    with pytest.raises(ScoringError, match="batch_size is 0"):
        ForwardPasses(model, pad_id=0, batch_size=0)
