"""Every family's inputs and scores against the stock processor and a plain pass."""

from __future__ import annotations

import json
from dataclasses import replace

import family_models as made
import numpy as np
import pytest
import stock_processors as stock
from family_scorers import (
    ORDERS,
    asked_of,
    built,
    inputs_of,
    log_softmax_of,
    make_clip,
    make_scorer,
)

import phasefusion

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FAMILIES = list(made.SPECS)
CASES = [pytest.param(*case, id=made.case_id(*case)) for case in made.cases()]


def letters_by_hand(name, clip, inputs_by_pass):
    """Log-probabilities (S, M, K) in content space of given inputs."""
    tokenizer, model = built(name)
    found = np.empty((len(clip.frames), *ORDERS.shape))
    for s in range(len(clip.frames)):
        for m, order in enumerate(ORDERS):
            logp = log_softmax_of(model, inputs_by_pass(s, m))
            ids = tokenizer.convert_tokens_to_ids(list("ABC"))
            found[s, m, order] = logp[ids]
    return found


# Equal inputs


@pytest.mark.parametrize(("name", "budget"), CASES)
def test_inputs_are_those_of_the_stock_processor_as_stored(name, budget):
    expected = json.loads(made.EXPECTED.read_text())[made.case_id(name, budget)]
    scorer, clip = make_scorer(name), make_clip(name, budget)
    for s in range(2):
        inputs, _ = inputs_of(scorer, clip, s)
        found = made.summary(inputs, built(name)[0])
        stored = expected[made.variant()][s]
        kinds = {"mm_token_type_ids"}  # came between the two variants
        assert set(found) - kinds == set(stored) - kinds
        for key in set(found) & set(stored):
            assert found[key] == stored[key]


@pytest.mark.parametrize(("name", "budget"), CASES)
def test_inputs_are_those_of_the_stock_processor(name, budget):
    tokenizer, _ = built(name)
    scorer, clip = make_scorer(name), make_clip(name, budget)
    processor = made.build_processor(name, tokenizer)
    chat = made.made_chat(name, tokenizer)
    assert asked_of(scorer, clip).prompts[0] == chat
    for s in range(2):
        theirs = made.stock_inputs(name, processor, clip, s, chat)
        ours, _ = inputs_of(scorer, clip, s)
        for key in set(theirs) - {"attention_mask", "token_type_ids"}:
            a, b = np.asarray(theirs[key]), np.asarray(ours[key])
            np.testing.assert_array_equal(a, b, err_msg=key)
        assert set(ours) == set(theirs) - {"attention_mask", "token_type_ids"} | {
            key for key in ours if key == "mm_token_type_ids"
        }


@pytest.mark.parametrize("name", FAMILIES)
def test_frames_that_are_resized_are_nearly_the_same(name):
    """torch rounds a resize another way than Pillow, by a step or two of 255."""
    if name == "smolvlm" and made.variant() == "4":
        pytest.skip("this version resizes with another filter than the model's")
    tokenizer, _ = built(name)
    height, width = made.SPECS[name].size
    clip = made.build_clip((height + 14, width + 20))
    scorer = make_scorer(name)
    processor = made.build_processor(name, tokenizer)
    chat = made.made_chat(name, tokenizer)
    theirs = made.stock_inputs(name, processor, clip, 1, chat)
    ours, _ = inputs_of(scorer, clip, 1)
    np.testing.assert_array_equal(theirs["input_ids"], ours["input_ids"])
    (key,) = [k for k in ours if k.startswith("pixel_values")]
    steps = np.abs(np.asarray(theirs[key]) - np.asarray(ours[key])) * 255 * 0.5
    assert steps.max() < 2.5
    assert (steps > 0.01).mean() < 0.05


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("reuse", [True, False])
def test_scores_are_those_of_the_stock_inputs(name, reuse):
    tokenizer, _ = built(name)
    scorer, clip = make_scorer(name, reuse_prefix=reuse), make_clip(name)
    processor = made.build_processor(name, tokenizer)
    prompts = asked_of(scorer, clip).prompts

    def stock_pass(s, m):
        inputs = made.stock_inputs(name, processor, clip, s, prompts[m])
        return {k: v for k, v in inputs.items() if k != "token_type_ids"}

    scores = scorer.score(clip, made.QUESTION, made.OPTIONS, orders=ORDERS)
    expected = letters_by_hand(name, clip, stock_pass)
    np.testing.assert_allclose(scores.logprobs, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_stock_processor_gives_the_settings_of_its_pixels(name):
    tokenizer, _ = built(name)
    processor = made.build_processor(name, tokenizer)
    told = make_scorer(name, processor=processor, pixels=None)
    assert told.describe() == make_scorer(name).describe()


# Equal scores


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("reuse", [True, False])
def test_scores_are_those_of_plain_passes(name, reuse):
    scorer, clip = make_scorer(name, reuse_prefix=reuse), make_clip(name)
    scores = scorer.score(clip, made.QUESTION, made.OPTIONS, orders=ORDERS)
    expected = letters_by_hand(
        name, clip, lambda s, m: inputs_of(scorer, clip, s, m)[0]
    )
    np.testing.assert_allclose(scores.logprobs, expected, rtol=0, atol=1e-5)
    assert scores.valid.all()
    # Frames and order matter to this model, so that equality says something.
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    assert np.ptp(expected[0], axis=0).max() > 1e-3


@pytest.mark.parametrize("name", FAMILIES)
def test_every_frame_counts(name):
    scorer, clip = make_scorer(name), make_clip(name, n_phases=1)
    before = scorer.score(clip, made.QUESTION, made.OPTIONS).logprobs
    for i in range(4):
        frames = clip.frames.copy()
        frames[0, i] = 255 - frames[0, i]
        other = replace(clip, frames=frames)
        after = scorer.score(other, made.QUESTION, made.OPTIONS).logprobs
        assert np.abs(after - before).max() > 1e-4, f"frame {i}"


@pytest.mark.parametrize("name", FAMILIES)
def test_texts_are_scored_token_by_token(name):
    scorer = make_scorer(name, score="text")
    clip = make_clip(name, n_phases=1)
    scores = scorer.score(clip, made.QUESTION, made.OPTIONS)
    tokenizer, model = built(name)
    asked = asked_of(scorer, clip, ORDERS[:1])
    shown = scorer._shown(clip, 0, asked)
    for k, text in enumerate(made.OPTIONS):
        total = 0.0
        base = scorer._asker.family.token_ids(
            scorer._asker.encode, asked.prompts[0], shown
        ).tolist()
        for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
            ids = torch.tensor([base])
            inputs = {"input_ids": ids, **scorer._passes._visual(ids, shown.inputs)}
            total += log_softmax_of(model, inputs)[token]
            base.append(token)
        np.testing.assert_allclose(scores.logprobs[0, 0, k], total, rtol=1e-5)


# Inputs that transformers would do without


def needed():
    """Inputs that may be left out in silence, by family."""
    found = [("qwen2_5_vl", "second_per_grid_ts")]
    if not stock.is_version_4():
        names = [name for name in FAMILIES if name.startswith("qwen")]
        found += [(name, "mm_token_type_ids") for name in names]
    return found


@pytest.mark.parametrize(("name", "key"), needed())
def test_inputs_that_may_be_left_out_are_passed(name, key):
    scorer = make_scorer(name)
    clip = make_clip(name, n_frames=400)
    inputs, _ = inputs_of(scorer, clip, 0)
    _, model = built(name)
    whole = log_softmax_of(model, inputs)
    rest = {k: v for k, v in inputs.items() if k != key}
    if name != "qwen2_5_vl":  # the others of transformers 5 say something
        with pytest.raises(ValueError, match=key):
            log_softmax_of(model, rest)
    else:
        without = log_softmax_of(model, rest)
        assert np.abs(whole - without).max() > 1e-3
    passed = []
    handle = model.register_forward_pre_hook(
        lambda module, args, kwargs: passed.append(kwargs), with_kwargs=True
    )
    try:
        scorer.score(clip, made.QUESTION, made.OPTIONS, orders=ORDERS)
    finally:
        handle.remove()
    with_frames = [
        kwargs for kwargs in passed if kwargs.get("pixel_values_videos") is not None
    ]
    assert with_frames
    assert all(kwargs.get(key) is not None for kwargs in with_frames)


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_and_features_are_as_many(name):
    """Some models scatter what they have over the tokens that are there."""
    scorer, clip = make_scorer(name), make_clip(name, n_phases=1)
    asked = asked_of(scorer, clip)
    shown = scorer._shown(clip, 0, asked)
    _, model = built(name)
    features = []
    inner = model.model
    target = next(
        getattr(inner, part)
        for part in ("visual", "multi_modal_projector", "connector")
        if hasattr(inner, part)
    )
    handle = target.register_forward_hook(lambda m, a, out: features.append(out))
    try:
        scorer.score(clip, made.QUESTION, made.OPTIONS)
    finally:
        handle.remove()
    out = features[0]
    out = out[0] if isinstance(out, tuple) else getattr(out, "pooler_output", out)
    parts = out if isinstance(out, tuple | list) else [out]
    n_features = sum(part.shape[:-1].numel() for part in parts)
    if name == "llava_onevision":  # pooled after the projector, then a last one
        n_features = len(clip.frames[0]) * 4 + 1
    assert sum(shown.n_tokens) == n_features


# Sizes


@pytest.mark.parametrize("name", FAMILIES)
def test_frames_may_come_at_the_size_that_is_told(name):
    height, width = made.SPECS[name].size
    native = made.build_clip((height + 14, width + 20), n_phases=1)
    scorer = make_scorer(name)
    size = scorer.frame_size(height + 14, width + 20, 4)
    if name == "smolvlm":
        assert size is None  # Lanczos, and more than one resize
        return
    small = replace(native, frames=phasefusion.resize(native.frames, size))
    whole = scorer.score(native, made.QUESTION, made.OPTIONS).logprobs
    fused = scorer.score(small, made.QUESTION, made.OPTIONS).logprobs
    np.testing.assert_array_equal(fused, whole)
    assert np.isfinite(whole).all()


def test_frames_of_all_arms_have_one_size():
    scorer = make_scorer("qwen3_vl")
    few, many = scorer.frame_size(40, 56, 4), scorer.frame_size(40, 56, 12)
    assert few != many  # the rule of the family, which evaluate pins
    pinned = scorer.pinned(12)
    assert {pinned.frame_size(40, 56, n) for n in (2, 4, 8, 12)} == {many}
    assert pinned.describe()["pixel_frames"] == 12
    assert scorer.describe()["pixel_frames"] is None
    clip = made.build_clip((40, 56), n_phases=1)
    inputs, _ = inputs_of(pinned, clip, 0)
    grid = inputs["video_grid_thw"][0].tolist()
    assert [4 * grid[1], 4 * grid[2]] == list(many)
    fused = replace(clip, frames=phasefusion.resize(clip.frames, many))
    np.testing.assert_array_equal(
        pinned.score(fused, made.QUESTION, made.OPTIONS).logprobs,
        pinned.score(clip, made.QUESTION, made.OPTIONS).logprobs,
    )
    chosen = make_scorer("qwen3_vl", pixel_frames=8)
    assert chosen.pinned(12) is chosen


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "qwen3_vl"])
def test_sizes_that_follow_no_number_need_no_pin(name):
    scorer = make_scorer(name)
    assert scorer.pinned(12) is scorer
    height, width = made.SPECS[name].size
    sizes = {scorer.frame_size(height + 9, width + 9, n) for n in (2, 4, 12)}
    assert len(sizes) == 1


# Times


def prompt_of(scorer, clip, s):
    inputs, _ = inputs_of(scorer, clip, s)
    return made.counted(scorer._asker.tokenizer, inputs["input_ids"][0].numpy())


def test_qwen3_is_told_the_times_of_the_phase():
    scorer, clip = make_scorer("qwen3_vl"), make_clip("qwen3_vl", n_frames=300)
    assert clip.indices.tolist() == [[18, 93, 168, 243], [56, 131, 206, 281]]
    # At 10 frames a second, the means of pairs; 5.55 and 20.55 s are printed as they
    # are in binary.
    assert "<5.6 seconds>" in prompt_of(scorer, clip, 0)
    assert "<20.6 seconds>" in prompt_of(scorer, clip, 0)
    assert "<9.3 seconds>" in prompt_of(scorer, clip, 1)
    assert "<24.4 seconds>" in prompt_of(scorer, clip, 1)


def test_smolvlm_has_the_chat_template_of_its_processor():
    """Also where importing the processor needs what is not there."""
    name = "transformers.models.smolvlm.processing_smolvlm"
    template = make_scorer("smolvlm")._family.template
    assert "<video>" in template
    assert "Assistant:" in template
    assert template == pytest.importorskip(name).DEFAULT_CHAT_TEMPLATE


def test_smolvlm_is_told_minutes_and_seconds():
    scorer, clip = make_scorer("smolvlm"), make_clip("smolvlm", n_frames=900)
    text = prompt_of(scorer, clip, 1)
    assert "following series of four frames from a 0:01:30 [H:MM:SS] video" in text
    assert [line[11:16] for line in text.split("\n") if line.startswith("Frame")] == [
        "00:16",
        "00:39",
        "01:01",
        "01:24",
    ]


@pytest.mark.parametrize("name", ["qwen3_vl", "smolvlm"])
def test_frozen_times_are_the_same_for_every_phase(name):
    clip = make_clip(name, n_frames=900)
    frozen = make_scorer(name, timestamps="frozen")
    assert prompt_of(frozen, clip, 0) == prompt_of(frozen, clip, 1)
    true = make_scorer(name)
    assert prompt_of(true, clip, 0) != prompt_of(true, clip, 1)
    # A run that goes on may ask for one phase alone.
    one = slice(1, 2)
    view = replace(
        clip,
        frames=clip.frames[one],
        indices=clip.indices[one],
        times_s=clip.times_s[one],
        missing=clip.missing[one],
        damaged=clip.damaged[one],
        grid=clip.grid.view(1),
    )
    assert prompt_of(frozen, view, 0) == prompt_of(frozen, clip, 1)
    both = frozen.score(clip, made.QUESTION, made.OPTIONS).logprobs
    alone = frozen.score(view, made.QUESTION, made.OPTIONS).logprobs
    np.testing.assert_allclose(alone[0], both[1], rtol=0, atol=1e-6)


def test_true_times_change_scores():
    clip = make_clip("qwen3_vl", n_frames=900)
    scores = [
        make_scorer("qwen3_vl", timestamps=timestamps)
        .score(clip, made.QUESTION, made.OPTIONS)
        .logprobs
        for timestamps in ("true", "frozen")
    ]
    assert np.abs(scores[0] - scores[1]).max() > 1e-3


# What is said about a run


@pytest.mark.parametrize("name", FAMILIES)
def test_describe_is_json(name):
    about = json.loads(json.dumps(make_scorer(name).describe()))
    assert about["family"] == name
    assert about["model_type"] == name
    assert about["pixels"]["mean"]


@pytest.mark.parametrize("name", FAMILIES)
def test_control_tokens_of_the_family_are_refused(name):
    from phasefusion.errors import OptionError

    scorer, clip = make_scorer(name), make_clip(name)
    for token in {scorer._family.placeholder, scorer._family.visual_token}:
        with pytest.raises(OptionError, match="a control token of this model"):
            scorer.score(clip, f"Is {token} here?", made.OPTIONS)
