"""Texts that a model writes, against its plain forward passes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from phasefusion.answers import parse_answer
from phasefusion.errors import ScoringError
from phasefusion.orders import latin
from phasefusion.scoring import (
    GeneratedAnswers,
    HFGenerationScorer,
    HFOptionScorer,
    PromptTemplate,
    Scorer,
)
from phasefusion.scoring.variants import UNLABELLED, subtract_prior

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

OPTIONS = ("red", "dark blue", "no colour")
QUESTION = "Which colour?"
ORDERS = np.array([[0, 1, 2], [2, 0, 1]])
CHAT = "<|im_start|>user\n{video}{ask}<|im_end|>\n<|im_start|>assistant\n"
VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def asked(order, *, video=VIDEO, prompt=None):
    ask = (prompt or PromptTemplate()).render(QUESTION, [OPTIONS[k] for k in order])
    return CHAT.format(video=video, ask=ask)


def next_logits(model, inputs, written, tokenizer):
    """Logits after a prompt and what was written, by one pass without a cache."""
    added = torch.tensor([written], dtype=torch.long)
    ids = torch.cat([inputs["input_ids"], added], dim=1)
    more = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in inputs:
        video = tokenizer.convert_tokens_to_ids("<|video_pad|>")
        more["mm_token_type_ids"] = 2 * (ids == video).int()
    with torch.inference_mode():
        return model(**{**inputs, **more}).logits[0, -1]


def greedy_by_hand(model, tokenizer, inputs, n, end=None):
    return tokenizer.decode(written_by_hand(model, tokenizer, inputs, n, end))


def written_by_hand(model, tokenizer, inputs, n, end=None):
    if end is None:
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    written = []
    for _ in range(n):
        token = int(next_logits(model, inputs, written, tokenizer).argmax())
        if token == end:
            break
        written.append(token)
    return written


@pytest.fixture
def scorer(model, tokenizer, build):
    return HFGenerationScorer(model, tokenizer, size=build.SIZE, max_new_tokens=5)


def test_texts_equal_the_greedy_choice_by_hand(model, tokenizer, clip, build, scorer):
    made = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    assert made.shape == (2, 2)
    assert made.notes == ()
    for s in range(2):
        for m, order in enumerate(ORDERS):
            inputs = build.inputs(model, tokenizer, clip, s, asked(order))
            expected = greedy_by_hand(model, tokenizer, inputs, 5)
            assert made.texts[s][m] == expected
    assert len({text for row in made.texts for text in row}) > 1


def test_what_a_checkpoint_sets_for_generation_has_no_influence(
    model, tokenizer, clip, build, scorer
):
    plain = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    own = model.generation_config
    try:
        model.generation_config = transformers.GenerationConfig(
            do_sample=True,
            temperature=9.0,
            repetition_penalty=30.0,
            suppress_tokens=list(range(100)),
            no_repeat_ngram_size=1,
            eos_token_id=own.eos_token_id,
            max_new_tokens=2,
        )
        mine = model.generation_config
        again = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
        assert model.generation_config is mine
    finally:
        model.generation_config = own
    assert again == plain


def test_an_end_token_ends_the_text_and_is_no_part_of_it(
    model, tokenizer, clip, build, scorer
):
    inputs = build.inputs(model, tokenizer, clip, 0, asked(range(3)))
    written = written_by_hand(model, tokenizer, inputs, 5)
    end = next(token for token in written if token != written[0])
    own = model.generation_config
    try:
        model.generation_config = copy.deepcopy(own)
        model.generation_config.eos_token_id = [end]
        (text,) = scorer.score(clip, QUESTION, OPTIONS).texts[0]
    finally:
        model.generation_config = own
    expected = written_by_hand(model, tokenizer, inputs, 5, end)
    assert 0 < len(expected) < 5
    assert text == tokenizer.decode(expected)


@pytest.mark.parametrize("n_options", [2, 3, 5, 26])
def test_constrained_answers_are_the_best_letter_of_the_question(
    model, tokenizer, clip, build, n_options
):
    options = [f"text {k}" for k in range(n_options)]
    orders = latin(n_options)[:3]
    made = HFGenerationScorer(
        model, tokenizer, size=build.SIZE, constrain="letters"
    ).score(clip, QUESTION, options, orders=orders)
    scores = HFOptionScorer(
        model, tokenizer, size=build.SIZE, letter_variants="in-context"
    ).score(clip, QUESTION, options, orders=orders)
    best = scores.letter_logprobs.argmax(axis=-1)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert made.texts == tuple(tuple(letters[p] for p in row) for row in best)
    for row, of_row in zip(made.texts, best, strict=True):
        for text, place in zip(row, of_row, strict=True):
            parsed = parse_answer(text, n_options)
            assert (parsed.answer, parsed.outcome) == (place, "parsed")


def test_letters_with_a_space_in_front_are_allowed_too(build, clip):
    tokenizer = build.tokenizer(merges=build.spaced_letters())
    model = build.model(tokenizer)
    scorer = HFGenerationScorer(model, tokenizer, size=build.SIZE, constrain="letters")
    made = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    allowed = [space + letter for space in ("", " ") for letter in "ABC"]
    ids = [tokenizer.convert_tokens_to_ids(t.replace(" ", "Ġ")) for t in allowed]
    for s in range(2):
        for m, order in enumerate(ORDERS):
            inputs = build.inputs(model, tokenizer, clip, s, asked(order))
            logits = next_logits(model, inputs, [], tokenizer)[ids]
            assert made.texts[s][m] == allowed[int(logits.argmax())]


def test_the_processor_rules_out_all_but_the_letters():
    from phasefusion.scoring.generation import _processors

    scores = torch.randn(2, 9)
    scores[1, 3] = -torch.inf
    allow = _processors()["allow"]([3, 7])
    assert isinstance(allow, transformers.LogitsProcessor)
    only = allow(torch.zeros(2, 1, dtype=torch.long), scores)
    assert torch.equal(only[:, [3, 7]], scores[:, [3, 7]])
    others = [i for i in range(9) if i not in (3, 7)]
    assert torch.isneginf(only[:, others]).all()


def test_split_letters_are_refused_when_constrained(model, build, clip):
    """A tokenizer that writes every text in lower case has no capital letters."""
    tokenizers = pytest.importorskip("tokenizers")
    lower = build.tokenizer(normalizer=tokenizers.normalizers.Replace("A", "xy"))
    scorer = HFGenerationScorer(model, lower, size=build.SIZE, constrain="letters")
    with pytest.raises(ScoringError, match="2 tokens"):
        scorer.score(clip, QUESTION, OPTIONS)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_none_give_no_text(build, tokenizer, clip, value):
    model = build.model(tokenizer)
    with torch.no_grad():
        model.lm_head.weight[5] = value
    scorer = HFGenerationScorer(model, tokenizer, size=build.SIZE, max_new_tokens=2)
    made = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    assert {text for row in made.texts for text in row} == {None}
    assert len(made.pass_notes) == 4
    assert set(made.pass_notes.values()) <= {
        "the logits hold NaN",
        "the logits hold +inf",
    }


def test_missing_frames_and_long_prompts_give_no_text(model, tokenizer, build):
    clip = build.clip(3)
    clip.missing[1, 2] = True
    scorer = HFGenerationScorer(model, tokenizer, size=build.SIZE, max_new_tokens=2)
    made = scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    assert [row[0] is None for row in made.texts] == [False, True, False]
    frame = clip.indices[1, 2]
    note = f"frame {frame} could not be decoded"
    assert made.pass_notes == {(1, m): note for m in range(len(ORDERS))}
    long = scorer.score(clip, "why? " * 900, OPTIONS)
    assert {text for row in long.texts for text in row} == {None}
    assert "leave no room in the model's 4096" in long.pass_notes[0, 0]


def test_a_clip_that_is_none_is_refused(scorer):
    with pytest.raises(ScoringError, match="the clip is a NoneType None; it must be"):
        scorer.score(None, QUESTION, OPTIONS)


def test_frames_are_looked_at_once_for_all_orders(build, tokenizer, clip):
    model = build.model(tokenizer)
    texts, calls = [], []
    for reuse in (True, False):
        scorer = HFGenerationScorer(
            model, tokenizer, size=build.SIZE, max_new_tokens=3, reuse_prefix=reuse
        )
        seen = []
        handle = model.model.visual.patch_embed.register_forward_hook(
            lambda *_, seen=seen: seen.append(1)
        )
        texts.append(scorer.score(clip, QUESTION, OPTIONS, orders=ORDERS).texts)
        handle.remove()
        assert scorer.describe()["reuse_prefix"] is reuse
        calls.append(len(seen))
    assert texts[0] == texts[1]
    assert calls == [len(clip.frames), len(clip.frames) * len(ORDERS)]


def test_what_it_says_of_itself_is_true(model, tokenizer, build):
    free = HFGenerationScorer(model, tokenizer, size=build.SIZE)
    assert repr(free) == (
        f"<HFGenerationScorer {type(model).__name__!r}: {model.config.model_type}, "
        "float32 on cpu, writes texts>"
    )
    one = HFGenerationScorer(model, tokenizer, size=build.SIZE, constrain="letters")
    assert repr(one).endswith("writes one letter>")


def test_blind_prompts_hold_no_video(model, tokenizer, build, scorer):
    made = scorer.variant("blind").score(None, QUESTION, OPTIONS, orders=ORDERS)
    assert made.shape == (1, 2)
    for m, order in enumerate(ORDERS):
        chat = asked(order, video="")
        ids = torch.tensor([tokenizer(chat, add_special_tokens=False)["input_ids"]])
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        assert made.texts[0][m] == greedy_by_hand(model, tokenizer, inputs, 5)


def test_blind_scores_equal_passes_of_text_alone(model, tokenizer, build):
    seeing = HFOptionScorer(model, tokenizer, size=build.SIZE)
    blind = seeing.variant("blind")
    scores = blind.score(None, QUESTION, OPTIONS, orders=ORDERS)
    assert scores.shape == (1, 2, 3)
    for m, order in enumerate(ORDERS):
        chat = asked(order, video="")
        ids = torch.tensor([tokenizer(chat, add_special_tokens=False)["input_ids"]])
        with torch.inference_mode():
            logits = model(input_ids=ids).logits[0, -1]
        logp = torch.log_softmax(logits, dim=-1).numpy()
        letters = tokenizer.convert_tokens_to_ids(list("ABC"))
        np.testing.assert_allclose(
            scores.letter_logprobs[0, m], logp[letters], rtol=0, atol=1e-5
        )
    assert blind.describe()["video"] is False
    assert seeing.describe().get("video") is None


def test_unlabelled_options_are_scored_by_their_texts(model, tokenizer, clip, build):
    seeing = HFOptionScorer(model, tokenizer, size=build.SIZE)
    scores = seeing.variant("unlabelled").score(clip, QUESTION, OPTIONS, orders=ORDERS)
    assert scores.kind == "text-normalised"
    for s in range(2):
        for m, order in enumerate(ORDERS):
            chat = asked(order, prompt=UNLABELLED)
            assert "A. " not in chat
            assert "- dark blue" in chat
            for k, option in enumerate(OPTIONS):
                inputs = build.inputs(model, tokenizer, clip, s, chat + option)
                n = len(tokenizer(option)["input_ids"])
                with torch.inference_mode():
                    logits = model(**inputs).logits[0]
                logp = torch.log_softmax(logits, dim=-1)[-n - 1 : -1]
                ids = inputs["input_ids"][0, -n:]
                mean = logp.gather(1, ids[:, None]).mean().item()
                assert scores.logprobs[s, m, k] == pytest.approx(mean, abs=1e-5)


def test_a_prior_is_subtracted_in_logs(model, tokenizer, clip, build):
    plain = HFOptionScorer(model, tokenizer, size=build.SIZE)
    scores = plain.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    blind = plain.variant("blind").score(None, QUESTION, OPTIONS, orders=ORDERS)
    with_prior = HFOptionScorer(model, tokenizer, size=build.SIZE, prior="blind")
    found = with_prior.score(clip, QUESTION, OPTIONS, orders=ORDERS)
    ratio = np.exp(scores.logprobs) / np.exp(blind.logprobs)
    expected = ratio / ratio.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(np.exp(found.logprobs), expected, rtol=1e-9)
    np.testing.assert_allclose(found.option_mass, scores.option_mass)
    assert with_prior.describe()["prior"] == "blind"
    assert "prior" not in plain.describe()
    assert not np.array_equal(found.logprobs.argmax(-1), scores.logprobs.argmax(-1))


def test_priors_that_cannot_be_subtracted():
    from phasefusion.scoring import OptionScores

    with_video = OptionScores([[[-1.0, -np.inf, -2.0]]], [[0.5]], [[0, 1, 2]])
    lost = OptionScores([[[np.nan] * 3]], [[np.nan]], [[0, 1, 2]], notes=("row 0: x",))
    made = subtract_prior(with_video, lost)
    assert np.isnan(made.logprobs).all()
    assert made.notes == ("without the video: row 0: x",)
    assert made.pass_notes == {}
    ruled_out = OptionScores([[[-1.0, -np.inf, -1.0]]], [[0.7]], [[0, 1, 2]])
    made = subtract_prior(with_video, ruled_out)
    assert made.logprobs[0, 0, 1] == -np.inf
    assert np.exp(made.logprobs).sum() == pytest.approx(1)
    assert made.pass_notes == {}
    other = OptionScores([[[-1.0, -1.0, -1.0]]], [[0.7]], [[2, 1, 0]])
    with pytest.raises(ScoringError, match="a prior of shape"):
        subtract_prior(with_video, other)


def test_notes_of_passes_stay_when_a_prior_is_subtracted():
    from phasefusion.scoring import OptionScores

    orders = [[0, 1], [1, 0]]
    with_video = OptionScores(
        np.full((2, 2, 2), -1.0), np.full((2, 2), 0.7), orders, pass_notes={(1, 0): "n"}
    )
    without = OptionScores(
        [[[-0.5, -1.0], [-0.5, -np.inf]]],
        [[0.7, 0.7]],
        orders,
        pass_notes={(0, 0): "long"},
    )
    made = subtract_prior(with_video, without)
    ruled_out = "without the video: option 1 has no probability to subtract"
    assert made.pass_notes == {
        (0, 0): "without the video: long",
        (0, 1): ruled_out,
        (1, 0): "n; without the video: long",
        (1, 1): ruled_out,
    }
    assert made.valid.tolist() == [[True, False], [True, False]]


def test_settings_that_cannot_be(model, tokenizer):
    for options, message in [
        ({"constrain": "words"}, "constrain is 'words'"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"letter_variants": "sum"}, 'letter_variants is for constrain="letters"'),
        ({"score": "text", "prior": "blind"}, "score and prior cannot be given"),
    ]:
        with pytest.raises(ScoringError, match=message):
            HFGenerationScorer(model, tokenizer, **options)
    with pytest.raises(ScoringError, match="prior is 'seen'"):
        HFOptionScorer(model, tokenizer, prior="seen")
    with pytest.raises(ScoringError, match="variant is 'deaf'"):
        HFOptionScorer(model, tokenizer).variant("deaf")


def test_description_says_how_answers_were_made(model, tokenizer, scorer):
    assert isinstance(scorer, Scorer)
    assert scorer.is_generating
    described = scorer.describe()
    assert described["scorer"] == "HFGenerationScorer"
    assert described["answers"] == "generated"
    assert described["constrain"] is None
    assert described["max_new_tokens"] == 5
    assert "score" not in described
    letters = HFGenerationScorer(model, tokenizer, constrain="letters").describe()
    assert letters["max_new_tokens"] == 1
    assert letters["letter_tokens"]["L"]["A"] == tokenizer.convert_tokens_to_ids("A")
    assert "HFGenerationScorer" in repr(scorer)


def test_texts_must_be_rows_of_texts():
    assert GeneratedAnswers([["A", None]]).shape == (1, 2)
    for texts, message in [
        (["A", "B"], "rows of texts"),
        ("AB", "rows of texts"),
        ([["A"], ["A", "B"]], r"rows of \[1, 2\] texts"),
        ([[1]], "a generated text is 1"),
    ]:
        with pytest.raises(ScoringError, match=message):
            GeneratedAnswers(texts)
