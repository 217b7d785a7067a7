"""Scores of Hugging Face models, against passes written out by hand."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import phasefusion
from phasefusion.errors import (
    FallbackWarning,
    OptionError,
    OptionWarning,
    ScoringError,
)
from phasefusion.pixels import PatchSettings, family_settings
from phasefusion.scoring import HFOptionScorer, PromptTemplate, Scorer
from phasefusion.scoring.readout import RowScores

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VERSION = int(transformers.__version__.split(".")[0])
OPTIONS = ("red", "dark blue", "no colour")
QUESTION = "Which colour?"
ORDERS = np.array([[0, 1, 2], [2, 0, 1], [1, 0, 2]])
CHAT = (
    "<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|>{ask}<|im_end|>\n"
    "<|im_start|>assistant\n"
)


@pytest.fixture
def scorer(model, tokenizer, build):
    return HFOptionScorer(model, tokenizer, size=build.SIZE)


def by_hand(build, model, tokenizer, clip, s, ask, *, answer=""):
    """Logits of one full pass with inputs put together by hand; the answer's ids."""
    inputs = build.inputs(model, tokenizer, clip, s, CHAT.format(ask=ask) + answer)
    n_answer = len(tokenizer(answer)["input_ids"]) if answer else 0
    ids = inputs["input_ids"][0]
    with torch.inference_mode():
        return model(**inputs).logits[0], ids[len(ids) - n_answer :]


def letters_by_hand(build, model, tokenizer, clip, pieces=("",)):
    """Log-probabilities (S, M, K) in content space, one pass and one letter a time."""
    result = np.empty((len(clip.frames), len(ORDERS), len(OPTIONS)))
    for s in range(len(clip.frames)):
        for m, order in enumerate(ORDERS):
            lines = [f"{'ABC'[i]}. {OPTIONS[k]}" for i, k in enumerate(order)]
            ask = "\n".join(
                [
                    QUESTION,
                    *lines,
                    "Answer with the option's letter from the given choices directly.",
                ]
            )
            logits, _ = by_hand(build, model, tokenizer, clip, s, ask)
            logp = torch.log_softmax(logits[-1].float(), dim=-1).double().numpy()
            for i, k in enumerate(order):
                ids = tokenizer.convert_tokens_to_ids([p + "ABC"[i] for p in pieces])
                result[s, m, k] = np.log(sum(np.exp(logp[j]) for j in ids))
    return result


def test_letters_equal_passes_by_hand(model, tokenizer, clip, build, scorer):
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    expected = letters_by_hand(build, model, tokenizer, clip)
    np.testing.assert_allclose(scores.logprobs, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        scores.option_mass, np.exp(expected).sum(axis=-1), rtol=1e-5
    )
    assert scores.logprobs.dtype == np.float64
    assert scores.kind == "letter"
    assert scores.notes == ()
    assert isinstance(scorer, Scorer)


def test_the_model_is_put_into_evaluation_mode(model, tokenizer):
    trained = copy.deepcopy(model).train()
    HFOptionScorer(trained, tokenizer)
    assert not any(module.training for module in trained.modules())


def test_both_letter_ids_are_added(build, clip):
    tokenizer = build.tokenizer(merges=build.spaced_letters())
    model = build.model(tokenizer)
    for variants, pieces in (("sum", ("", "Ġ")), ("in-context", ("",))):
        scorer = HFOptionScorer(
            model, tokenizer, size=build.SIZE, letter_variants=variants
        )
        scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
        expected = letters_by_hand(build, model, tokenizer, clip, pieces)
        np.testing.assert_allclose(scores.logprobs, expected, rtol=0, atol=1e-5)


def test_content_follows_the_option_and_not_the_letter(clip, scorer):
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    for m, order in enumerate(ORDERS):
        shown = scorer.score(clip, QUESTION, [OPTIONS[k] for k in order])
        np.testing.assert_allclose(
            scores.logprobs[:, m, order], shown.logprobs[:, 0], rtol=0, atol=1e-5
        )
        np.testing.assert_array_equal(
            scores.letter_logprobs[:, m], scores.logprobs[:, m, order]
        )


def test_lettered_options_score_as_their_contents(clip, scorer):
    lettered = [f"({c}) {text}" for c, text in zip("ABC", OPTIONS, strict=True)]
    plain = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    scores = scorer.score(clip, QUESTION, lettered, orders=ORDERS)
    np.testing.assert_array_equal(scores.logprobs, plain.logprobs)
    assert "taken off" in scores.notes[0]


def test_repeated_options_are_merged_onto_the_first(clip, scorer):
    options = ["red", "blue", "red ", "green"]
    orders = np.array([[0, 1, 2, 3], [2, 3, 0, 1]])
    with pytest.warns(OptionWarning, match="option 2 repeats option 0"):
        scores = scorer.score(clip, QUESTION, options, orders=orders)
    total = np.exp(scores.logprobs).sum(axis=-1)
    np.testing.assert_allclose(total, scores.option_mass, rtol=1e-12)
    assert np.isneginf(scores.logprobs[..., 2]).all()
    assert np.isfinite(scores.logprobs[..., [0, 1, 3]]).all()
    assert scores.valid.all()
    with pytest.warns(OptionWarning, match="repeats"):
        apart = letters_of(scorer, clip, options, orders)
    np.testing.assert_allclose(
        np.exp(scores.logprobs[..., 0]),
        np.exp(apart[..., 0]) + np.exp(apart[..., 2]),
        rtol=1e-12,
    )


def letters_of(scorer, clip, options, orders):
    """Scores without the merging step."""
    from phasefusion.scoring import questions

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "merge_repeats", lambda logp, first: logp)
        return scorer.score(clip, QUESTION, options, orders=orders).logprobs


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_softmax_is_float32_whatever_the_model_is(model, tokenizer, clip, build, dtype):
    half = copy.deepcopy(model).to(dtype)
    scorer = HFOptionScorer(half, tokenizer, size=build.SIZE, reuse_prefix=False)
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    precise = copy.deepcopy(half)
    precise.lm_head.register_forward_hook(
        lambda head, args, _: torch.nn.functional.linear(
            args[0].float(), head.weight.float()
        )
    )
    expected = letters_by_hand(build, precise, tokenizer, clip)
    np.testing.assert_allclose(scores.logprobs, expected, rtol=0, atol=1e-5)
    # Rounded to the model's own precision the scores would be others.
    rounded = torch.tensor(scores.logprobs.tolist(), dtype=dtype).double().numpy()
    assert np.abs(rounded - scores.logprobs).max() > 1e-4
    full = HFOptionScorer(model, tokenizer, size=build.SIZE)
    near = full.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    assert np.abs(near.logprobs - scores.logprobs).max() < 0.3


def test_options_tie_only_where_the_model_says_so(model, tokenizer, clip, build):
    half = copy.deepcopy(model).to(torch.bfloat16)
    a, b, c = tokenizer.convert_tokens_to_ids(list("ABC"))
    with torch.no_grad():
        weight = half.lm_head.weight
        weight[a] *= 8
        weight[[b, c]] = weight[a].clone()
        weight[b, 0] *= 1 + 2**-6
    expected = letters_by_hand(build, half, tokenizer, clip)
    scorer = HFOptionScorer(half, tokenizer, size=build.SIZE)
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS).letter_logprobs
    in_letters = np.take_along_axis(expected, ORDERS[None].repeat(2, 0), axis=-1)
    # The model's own logits say A and B alike somewhere; the scores never do.
    assert (in_letters[..., 0] == in_letters[..., 1]).any()
    assert (scores[..., 0] != scores[..., 1]).all()
    np.testing.assert_allclose(scores[..., 0], scores[..., 2], rtol=0, atol=1e-6)


@pytest.mark.skipif(VERSION < 5, reason="the argument came with transformers 5")
def test_token_types_are_passed(clip, scorer):
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    scorer._passes._accepts -= {"mm_token_type_ids"}
    scorer._passes.reuse_prefix = False
    without = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    assert np.abs(scores.logprobs - without.logprobs).min() > 1e-3


def test_timestamps_follow_each_phase_or_the_first(model, tokenizer, build):
    clip = build.clip(2, seconds=16.0)
    clip.times_s[1] *= 2
    seen = []
    handle = model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.extend(kwargs["second_per_grid_ts"].tolist()),
        with_kwargs=True,
    )
    try:
        scores = [
            HFOptionScorer(
                model, tokenizer, size=build.SIZE, timestamps=timestamps
            ).score(clip, QUESTION, OPTIONS)
            for timestamps in ("true", "frozen")
        ]
    finally:
        handle.remove()
    # 4 s between the frames of phase 0, 2 frames a patch
    assert seen == [8.0, 16.0, 8.0, 8.0]
    np.testing.assert_array_equal(scores[0].logprobs[0], scores[1].logprobs[0])
    assert np.abs(scores[0].logprobs[1] - scores[1].logprobs[1]).max() > 1e-3


def test_times_must_ascend(model, build, scorer):
    clip = build.clip(1)
    clip.times_s[:] = clip.times_s[:, ::-1].copy()
    with pytest.raises(ScoringError, match="do not ascend"):
        scorer.score(clip, QUESTION, OPTIONS)


def test_one_frame_has_no_spacing(build, scorer):
    scores = scorer.score(build.clip(1, budget=1), QUESTION, OPTIONS)
    assert scores.valid.all()
    assert "repeated 1x" in scores.notes[0]


def test_odd_frame_counts_repeat_the_last_frame(build, scorer):
    odd = build.clip(1, budget=3, seconds=6.0)
    even = build.make_clip(
        odd.frames[:, [0, 1, 2, 2]],
        indices=odd.indices[:, [0, 1, 2, 2]],
        times_s=np.array([[1.0, 3.0, 5.0, 7.0]]),
    )
    scores = scorer.score(odd, QUESTION, OPTIONS)
    np.testing.assert_array_equal(
        scores.logprobs, scorer.score(even, QUESTION, OPTIONS).logprobs
    )
    assert scores.notes == (
        "last frame of every phase repeated 1x to fill groups of 2 frames",
    )


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("kind", ["text", "text-normalised"])
def test_texts_equal_token_by_token_passes(model, tokenizer, build, kind, reuse):
    clip = build.clip(1)
    prompt = PromptTemplate("{question}\nSay it.")
    scorer = HFOptionScorer(
        model,
        tokenizer,
        size=build.SIZE,
        score=kind,
        prompt=prompt,
        reuse_prefix=reuse,
        batch_size=2,
    )
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    sums, means = [], []
    for text in OPTIONS:
        total = 0.0
        for n in range(len(text)):
            ask = f"{QUESTION}\nSay it."
            logits, ids = by_hand(
                build, model, tokenizer, clip, 0, ask, answer=text[: n + 1]
            )
            logp = torch.log_softmax(logits[-2], dim=-1)
            total += logp[ids[-1]].item()
        sums.append(total)
        means.append(total / len(text))
    expected = sums if kind == "text" else means
    np.testing.assert_allclose(scores.logprobs[0, 0], expected, rtol=1e-5, atol=1e-5)
    # No options are shown, so all orders are one.
    np.testing.assert_array_equal(scores.logprobs[0], scores.logprobs[0, [0, 0, 0]])
    np.testing.assert_allclose(scores.option_mass[0], np.exp(sums).sum(), rtol=1e-4)
    assert scores.kind == kind


def test_repeated_texts_count_once(model, tokenizer, build, clip):
    scorer = HFOptionScorer(model, tokenizer, size=build.SIZE, score="text")
    with pytest.warns(OptionWarning, match="option 1 repeats option 0"):
        twice = scorer.score(clip, QUESTION, ["red", "red", "blue"])
    once = scorer.score(clip, QUESTION, ["red", "blue"])
    np.testing.assert_allclose(
        twice.logprobs[..., [0, 2]], once.logprobs, rtol=0, atol=1e-5
    )
    assert np.isneginf(twice.logprobs[..., 1]).all()
    np.testing.assert_allclose(twice.option_mass, once.option_mass, rtol=1e-4)


def spoiled(model, value, token):
    """The model with one logit overwritten at every position."""
    broken = copy.deepcopy(model)
    broken.lm_head.register_forward_hook(
        lambda module, args, out: out.index_fill(-1, torch.tensor(token), value)
    )
    return broken


@pytest.mark.parametrize(
    ("value", "reason"),
    [(np.nan, "the logits hold NaN"), (np.inf, "the logits hold +inf")],
)
@pytest.mark.parametrize("kind", ["letter", "text"])
def test_logits_that_are_no_numbers_make_invalid_rows(
    model, tokenizer, clip, build, value, reason, kind
):
    broken = spoiled(model, value, [7])
    scorer = HFOptionScorer(broken, tokenizer, size=build.SIZE, score=kind)
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS[:2])
    assert np.isnan(scores.logprobs).all()
    assert np.isnan(scores.option_mass).all()
    assert not scores.valid.any()
    assert set(scores.pass_notes) == {(s, m) for s in range(2) for m in range(2)}
    assert all(reason in note for note in scores.pass_notes.values())
    assert scores.notes == ()


def test_one_bad_text_spoils_its_order(model, tokenizer, clip, build, monkeypatch):
    scorer = HFOptionScorer(
        model, tokenizer, size=build.SIZE, score="text", prompt=PromptTemplate()
    )
    run = scorer._passes.run_many

    def run_and_lose_one(jobs):
        found = run(jobs)
        for scores in found:
            lost = np.full_like(scores[4].logprobs, np.nan)
            scores[4] = RowScores(lost, "lost")
        return found

    monkeypatch.setattr(scorer._passes, "run_many", run_and_lose_one)
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    assert np.isnan(scores.logprobs[:, 1]).all()
    assert scores.valid.tolist() == [[True, False, True]] * 2
    note = "the text of option 1: lost"
    assert scores.pass_notes == {(0, 1): note, (1, 1): note}


def test_masked_tokens_are_no_problem(model, tokenizer, clip, build):
    free = HFOptionScorer(model, tokenizer, size=build.SIZE)
    masked = HFOptionScorer(spoiled(model, -np.inf, [7, 9]), tokenizer, size=build.SIZE)
    before = free.score(clip, QUESTION, OPTIONS)
    after = masked.score(clip, QUESTION, OPTIONS)
    assert after.valid.all()
    assert (after.logprobs > before.logprobs).all()


def test_options_without_any_probability_are_invalid(model, tokenizer, clip, build):
    letters = tokenizer.convert_tokens_to_ids(list("ABC"))
    scorer = HFOptionScorer(
        spoiled(model, -np.inf, letters), tokenizer, size=build.SIZE
    )
    scores = scorer.score(clip, QUESTION, OPTIONS)
    assert not scores.valid.any()
    assert (scores.option_mass == 0).all()
    assert scores.pass_notes[0, 0] == "no option has any probability"


def test_a_missing_frame_spoils_its_phase_alone(build, clip, scorer):
    whole = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    clip.missing[1, 2] = True
    scores = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    np.testing.assert_allclose(scores.logprobs[0], whole.logprobs[0], rtol=0, atol=1e-5)
    assert np.isnan(scores.logprobs[1]).all()
    assert np.isnan(scores.option_mass[1]).all()
    frame = clip.indices[1, 2]
    note = f"frame {frame} could not be decoded"
    assert scores.pass_notes == {(1, m): note for m in range(len(ORDERS))}


def test_damaged_frames_are_scored_and_noted(clip, scorer):
    clip.damaged[0, 3] = True
    scores = scorer.score(clip, QUESTION, OPTIONS)
    assert scores.valid.all()
    frame = clip.indices[0, 3]
    assert scores.pass_notes == {(0, 0): f"frame {frame} was decoded with damage"}


@pytest.mark.parametrize(
    ("question", "options", "message"),
    [
        ("Is <|video_pad|> here?", OPTIONS, r"the question holds '<\|video_pad\|>'"),
        ("?", ["a", "b<|im_end|>"], r"option 1 holds '<\|im_end\|>'"),
        ("", OPTIONS, "question is empty"),
        ("?", ["a", ""], "option 1 of 2 is empty"),
        ("?", [str(k) for k in range(27)], "27 options"),
    ],
)
def test_questions_that_cannot_be_asked(clip, scorer, question, options, message):
    with pytest.raises(OptionError, match=message):
        scorer.score(clip, question, options)


def test_letters_that_are_not_one_token_are_refused(build, model, clip):
    import tokenizers

    broken = build.tokenizer(normalizer=tokenizers.normalizers.Replace("C", "xy"))
    scorer = HFOptionScorer(model, broken, size=build.SIZE)
    scorer.score(clip, QUESTION, OPTIONS[:2])
    with pytest.raises(ScoringError, match="'C' after the prompt is 2 tokens"):
        scorer.score(clip, QUESTION, OPTIONS)
    texts = HFOptionScorer(model, broken, size=build.SIZE, score="text")
    assert texts.score(clip, QUESTION, OPTIONS).valid.all()


def test_a_template_without_a_video_is_refused(build, model, clip):
    blind = build.tokenizer(template="{{ messages[0]['content'][1]['text'] }}\n")
    scorer = HFOptionScorer(model, blind, size=build.SIZE)
    with pytest.raises(ScoringError, match="wrote 0 video placeholders"):
        scorer.score(clip, QUESTION, OPTIONS)


def test_a_system_turn_is_part_of_the_prompt(model, tokenizer, build, clip, scorer):
    prompt = PromptTemplate(system="Look closely.")
    told = HFOptionScorer(model, tokenizer, size=build.SIZE, prompt=prompt)
    assert "system\nLook closely.<|im_end|>" in told._asker.chat("?", ["a", "b"])
    scores = told.score(clip, QUESTION, OPTIONS)
    other = scorer.score(clip, QUESTION, OPTIONS)
    assert np.abs(scores.logprobs - other.logprobs).max() > 1e-3


def test_a_text_is_a_prompt(model, tokenizer, build, clip):
    text = "{options}\n{question} Letter:"
    short = HFOptionScorer(model, tokenizer, size=build.SIZE, prompt=text)
    assert short.describe()["prompt"]["text"] == text
    assert short.score(clip, QUESTION, OPTIONS).valid.all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "words"}, "score is 'words'"),
        ({"timestamps": "none"}, "timestamps is 'none'"),
        ({"letter_variants": "all"}, "letter_variants is 'all'"),
        ({"prompt": PromptTemplate("{question}")}, "needs a prompt that shows"),
        ({"prompt": "{question}"}, "needs a prompt that shows"),
        ({"prompt": ("a", "b")}, "must be a PromptTemplate or its text"),
        ({"size": (17, 24)}, "multiples of 8"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_settings_that_cannot_be(model, tokenizer, options, message):
    with pytest.raises(ScoringError, match=message):
        HFOptionScorer(model, tokenizer, **options)


def test_models_and_tokenizers_that_cannot_be(build, model, tokenizer):
    with pytest.raises(ScoringError, match="a tokenizer or a processor"):
        HFOptionScorer(model)
    bare = build.tokenizer(template=None)
    with pytest.raises(ScoringError, match="no chat template"):
        HFOptionScorer(model, bare)
    other = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=8,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    with pytest.raises(ScoringError, match="'llama' is not served"):
        HFOptionScorer(other, tokenizer)


class Processor:
    """What a processor with a video part looks like to the scorer."""

    def __init__(self, tokenizer, chat_template):
        self.tokenizer = tokenizer
        self.chat_template = chat_template
        self.video_processor = self

    def to_dict(self):
        return {"size": {"height": 8, "width": 16}, "image_mean": [0.5] * 3}


def test_a_processor_gives_tokenizer_template_and_pixels(build, model, tokenizer, clip):
    bare = build.tokenizer(template=None)
    scorer = HFOptionScorer(model, Processor(bare, tokenizer.chat_template))
    pixels = scorer.describe()["pixels"]
    assert (pixels["size"], pixels["mean"]) == ([8, 16], [0.5] * 3)
    same = HFOptionScorer(
        model,
        tokenizer=tokenizer,
        pixels=PatchSettings(4, 2, 2, mean=(0.5, 0.5, 0.5), size=(8, 16)),
    )
    np.testing.assert_array_equal(
        scorer.score(clip, QUESTION, OPTIONS).logprobs,
        same.score(clip, QUESTION, OPTIONS).logprobs,
    )


@pytest.fixture
def checkpoint(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    settings = {"size": {"height": 16, "width": 24}, "patch_size": 4}
    path = tmp_path / "video_preprocessor_config.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path


def test_from_pretrained(checkpoint, clip, scorer):
    loaded = HFOptionScorer.from_pretrained(checkpoint, device="cpu")
    np.testing.assert_allclose(
        loaded.score(clip, QUESTION, OPTIONS, orders=ORDERS).logprobs,
        scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS).logprobs,
        rtol=0,
        atol=1e-6,
    )
    about = json.loads(json.dumps(loaded.describe()))
    assert about["path"] == str(checkpoint)
    assert about["model_type"] == "qwen2_5_vl"
    assert about["dtype"] == "float32"
    assert about["device"] == "cpu"
    assert about["transformers"] == transformers.__version__
    assert about["prompt"]["text"] == PromptTemplate().text
    assert about["pixels"]["size"] == [16, 24]
    ids = loaded._asker.tokenizer.convert_tokens_to_ids(["A", "B"])
    assert about["letter_tokens"] == {"L": {"A": ids[0], "B": ids[1]}}
    half = HFOptionScorer.from_pretrained(checkpoint, device="cpu", dtype="bfloat16")
    assert half.describe()["dtype"] == "bfloat16"


def test_checkpoints_without_or_with_broken_pixel_settings(checkpoint):
    path = checkpoint / "video_preprocessor_config.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ScoringError, match=r"video_preprocessor_config.json is not"):
        HFOptionScorer.from_pretrained(checkpoint, device="cpu")
    path.rename(checkpoint / "unused.json")
    with pytest.warns(FallbackWarning, match="no preprocessor file"):
        HFOptionScorer.from_pretrained(checkpoint, device="cpu")
    HFOptionScorer.from_pretrained(checkpoint, device="cpu", size=(16, 24))


def test_nested_settings_take_precedence(checkpoint):
    nested = {"video_processor": {"size": {"height": 8, "width": 8}}}
    path = checkpoint / "processor_config.json"
    path.write_text(json.dumps(nested), encoding="utf-8")
    loaded = HFOptionScorer.from_pretrained(checkpoint, device="cpu")
    assert loaded.describe()["pixels"]["size"] == [8, 8]


def test_frames_of_the_size_it_tells_are_taken_as_they_are(scorer, clip):
    size = scorer.frame_size(20, 30, 4)
    small = replace(clip, frames=phasefusion.resize(clip.frames, size))
    as_decoded = scorer.score(clip, QUESTION, OPTIONS).logprobs
    resized = scorer.score(small, QUESTION, OPTIONS).logprobs
    np.testing.assert_array_equal(resized, as_decoded)


def test_a_size_that_would_be_chosen_anew_is_kept(model, tokenizer, clip):
    limits = {"min_pixels": 400, "max_pixels": 400}
    scorer = HFOptionScorer(model, tokenizer, **limits)
    size = scorer.frame_size(20, 30, 4)
    assert scorer.frame_size(*size, 4) != size
    info = SimpleNamespace(
        height=20, width=30, start_s=0.0, duration_s=8.0, vfr=True, fps=None
    )
    small = replace(clip, frames=phasefusion.resize(clip.frames, size), info=info)
    np.testing.assert_array_equal(
        scorer.score(small, QUESTION, OPTIONS).logprobs,
        scorer.score(clip, QUESTION, OPTIONS).logprobs,
    )


def test_no_size_is_told_where_the_resize_would_be_another(model, tokenizer):
    scorer = HFOptionScorer(model, tokenizer, size=(16, 16))
    assert scorer.frame_size(90, 160, 4) == (16, 16)
    assert scorer.frame_size(200, 90, 4) is None  # Pillow 13 starts vertically
    pixels = PatchSettings(4, 2, 2, size=(16, 16), filter="bilinear")
    assert HFOptionScorer(model, tokenizer, pixels=pixels).frame_size(9, 9, 4) is None
    anyhow = PatchSettings(4, 2, 2, size=(16, 16), first_pass="auto")
    assert HFOptionScorer(model, tokenizer, pixels=anyhow).frame_size(200, 90, 4)


def test_pixels_of_another_kind(model, tokenizer):
    with pytest.raises(ScoringError, match="takes a phasefusion"):
        HFOptionScorer(model, tokenizer, pixels=family_settings("internvl"))
