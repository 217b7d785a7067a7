"""Frames' shares of an answer, against scores and finite differences made by hand."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import family_models as made
import numpy as np
import pytest
from family_scorers import (
    built,
    inputs_of,
    log_softmax_of,
    make_clip,
    make_scorer,
    pixels_of,
)

from phasefusion import tinyvlm
from phasefusion.errors import OptionError, ScoringError
from phasefusion.grid import PhaseGrid
from phasefusion.scoring import HFOptionScorer
from phasefusion.scoring.saliency import flip_saliency
from phasefusion.video import read_clip

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FAMILIES = list(made.SPECS)
ASKED = (made.QUESTION, made.OPTIONS)
#: Of passes that are batched in other ways.
CLOSE = 2e-5


def posteriors(scorer, clip, **options):
    """Log-posteriors (S, K) by the scorer's usual way."""
    logp = scorer.score(clip, *ASKED, **options).logprobs[:, 0]
    return logp - np.logaddexp.reduce(logp, axis=-1, keepdims=True)


def with_frames(clip, s, i, pixels):
    frames = clip.frames.copy()
    frames[s, i] = pixels
    return replace(clip, frames=frames)


def replaced(clip, s, i, how):
    if how == "neighbour":
        return with_frames(clip, s, i, clip.frames[s, i - 1 if i else 1])
    colour = np.rint(clip.frames[s].reshape(-1, 3).mean(axis=0))
    return with_frames(clip, s, i, colour.astype(np.uint8))


@pytest.mark.parametrize("how", ["neighbour", "mean"])
@pytest.mark.parametrize("name", FAMILIES)
def test_occlusion_is_the_loss_of_log_posterior(name, how):
    scorer, clip = make_scorer(name), make_clip(name)
    order = [2, 0, 1]
    found = scorer.saliency(clip, *ASKED, order=order, replace=how)
    base = posteriors(scorer, clip, orders=order)
    assert found.options.tolist() == base.argmax(axis=-1).tolist()
    assert found.order.tolist() == order
    assert found.notes == ("", "")
    for s, k in enumerate(found.options):
        assert found.base[s] == pytest.approx(base[s, k], abs=CLOSE)
        for i in range(4):
            without = posteriors(scorer, replaced(clip, s, i, how), orders=order)
            wanted = base[s, k] - without[s, k]
            assert found.values[s, i] == pytest.approx(wanted, abs=CLOSE)
    assert np.abs(found.values).max() > 100 * CLOSE
    assert np.isnan(found.emptied).all() == (how == "neighbour")


@pytest.mark.parametrize("name", ["qwen2_5_vl", "smolvlm"])
def test_all_frames_replaced(name):
    scorer, clip = make_scorer(name), make_clip(name)
    found = scorer.saliency(clip, *ASKED, option=1, replace="mean")
    colours = np.rint(clip.frames.reshape(2, -1, 3).mean(axis=1)).astype(np.uint8)
    frames = np.broadcast_to(colours[:, None, None, None], clip.frames.shape)
    wanted = posteriors(scorer, replace(clip, frames=frames.copy()))[:, 1]
    assert np.abs(found.emptied - wanted).max() < CLOSE


def by_hand(name, inputs, option):
    """Log-posterior of an option in the order 0, 1, 2."""
    tokenizer, model = built(name)
    logp = log_softmax_of(model, inputs)[tokenizer.convert_tokens_to_ids(list("ABC"))]
    return logp[option] - np.logaddexp.reduce(logp)


def frames_of(name, pixels, n_frames):
    """A view (b, ...) of pixels by frame; of patches those of a frame alone."""
    if name.startswith("qwen"):
        blocks = pixels.reshape(-(-n_frames // 2), -1, 3, 2, 16)
        each = blocks.permute(0, 3, 1, 2, 4).reshape(-1, *blocks[0, :, :, 0].shape)
        return each.clone()
    return pixels.reshape(n_frames, -1).clone()


def put_back(name, each, pixels):
    if not name.startswith("qwen"):
        return each.reshape(pixels.shape)
    blocks = each.reshape(-1, 2, *each.shape[1:]).permute(0, 2, 3, 1, 4)
    return blocks.reshape(pixels.shape)


@pytest.mark.parametrize(
    ("name", "budget"), [*((name, 4) for name in FAMILIES), ("qwen3_vl", 3)]
)
def test_gradients_are_finite_differences(name, budget):
    """A frame's value is the slope as the frame alone is scaled."""
    scorer, clip = make_scorer(name), make_clip(name, budget)
    found = scorer.saliency(clip, *ASKED, option=2, method="gradient")
    assert found.replace is None
    largest = np.abs(found.values).max()
    for s in range(2):
        inputs, _ = inputs_of(scorer, clip, s)
        key = next(key for key in inputs if key.startswith("pixel_values"))
        pixels = inputs[key]
        assert by_hand(name, inputs, 2) == pytest.approx(found.base[s], abs=CLOSE)
        for i in range(budget):
            at = slice(i, None) if i == budget - 1 else i  # the last one is repeated
            sides = []
            for step in (0.02, -0.02):
                each = frames_of(name, pixels, budget)
                each[at] *= 1 + step
                moved = inputs | {key: put_back(name, each, pixels)}
                sides.append(by_hand(name, moved, 2))
            slope = (sides[0] - sides[1]) / 0.04
            assert found.values[s, i] == pytest.approx(slope, abs=0.03 * largest)
    assert largest > 1e-3


@pytest.mark.parametrize("score", ["letter", "text", "text-normalised"])
@pytest.mark.parametrize("prior", [None, "blind"])
def test_both_methods_explain_the_same_number(score, prior):
    scorer = make_scorer("internvl", score=score, prior=prior)
    clip = make_clip("internvl")
    same = scorer.saliency(clip, *ASKED, option=1)
    slopes = scorer.saliency(clip, *ASKED, option=1, method="gradient")
    assert np.abs(same.base - posteriors(scorer, clip)[:, 1]).max() < CLOSE
    assert np.abs(same.base - slopes.base).max() < CLOSE
    assert np.isfinite(slopes.values).all()


@pytest.mark.filterwarnings("ignore:option 2 repeats")
@pytest.mark.parametrize("method", ["occlusion", "gradient"])
def test_repeated_options_are_one(method):
    scorer, clip = make_scorer("internvl"), make_clip("internvl")
    options = ("red", "blue", "red")
    first, repeat = (
        scorer.saliency(clip, "?", options, option=k, method=method) for k in (0, 2)
    )
    assert repeat.options.tolist() == [0, 0]
    assert np.array_equal(first.values, repeat.values)
    logp = scorer.score(clip, "?", options).logprobs[:, 0]
    logp = logp[:, 0] - np.logaddexp.reduce(logp, axis=-1)
    assert np.abs(first.base - logp).max() < CLOSE


@pytest.mark.parametrize("method", ["occlusion", "gradient"])
def test_log_odds_are_a_difference(method):
    scorer, clip = make_scorer("qwen2_5_vl"), make_clip("qwen2_5_vl")

    def explain(**options):
        return scorer.saliency(clip, *ASKED, method=method, **options)

    odds = explain(option=0, against=[1, 2])
    assert odds.against.tolist() == [1, 2]
    one, other = explain(option=0), explain(option=[1, 2])
    assert np.abs(odds.values - (one.values - other.values)).max() < CLOSE
    assert np.abs(odds.base - (one.base - other.base)).max() < CLOSE


@pytest.mark.parametrize("method", ["occlusion", "gradient"])
def test_the_same_again(method):
    scorer, clip = make_scorer("qwen3_vl"), make_clip("qwen3_vl")
    first = scorer.saliency(clip, *ASKED, method=method)
    scorer.forget()
    again = scorer.saliency(clip, *ASKED, method=method)
    assert np.array_equal(first.values, again.values)
    assert np.array_equal(first.base, again.base)


@pytest.mark.parametrize("options", [{"batch_size": 1}, {"reuse_prefix": False}])
def test_how_passes_are_batched_makes_no_difference(options):
    clip = make_clip("qwen2_5_vl")
    usual = make_scorer("qwen2_5_vl").saliency(clip, *ASKED)
    other = make_scorer("qwen2_5_vl", **options).saliency(clip, *ASKED)
    assert np.abs(usual.values - other.values).max() < CLOSE


@pytest.mark.parametrize("method", ["occlusion", "gradient"])
def test_a_missing_frame(method):
    scorer, clip = make_scorer("internvl"), make_clip("internvl")
    missing = clip.missing.copy()
    missing[0, 2] = True
    found = scorer.saliency(replace(clip, missing=missing), *ASKED, method=method)
    assert np.isnan(found.values[0]).all()
    assert np.isnan(found.base[0])
    assert found.options[0] == -1
    assert found.notes[0] == f"frame {clip.indices[0, 2]} could not be decoded"
    whole = scorer.saliency(clip, *ASKED, method=method)
    assert np.abs(found.values[1] - whole.values[1]).max() < CLOSE


@pytest.mark.parametrize("method", ["occlusion", "gradient"])
@pytest.mark.parametrize("option", [None, 1])
def test_what_is_no_number(method, option):
    tokenizer, model = built("internvl")
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.get_output_embeddings().weight[3] = np.nan
    scorer = HFOptionScorer(broken, tokenizer, pixels=pixels_of("internvl"))
    found = scorer.saliency(make_clip("internvl"), *ASKED, option=option, method=method)
    assert np.isnan(found.values).all()
    assert all("NaN" in note or "not finite" in note for note in found.notes)


def test_one_frame_that_is_no_number():
    """A blank frame is padding to SmolVLM; the others keep their values."""
    scorer, clip = make_scorer("smolvlm"), make_clip("smolvlm")
    planes = scorer._family.planes(clip.frames.reshape(-1, *clip.frames.shape[2:]))
    planes = planes.reshape(2, 4, *planes.shape[1:]).copy()
    planes -= planes.mean(axis=(1, 3, 4), keepdims=True)
    found = scorer.saliency(replace(clip, frames=planes), *ASKED, replace="mean")
    assert np.isfinite(found.base).all()
    flat = planes.mean(axis=(1, 3, 4), dtype=np.float64).astype(np.float32)
    assert np.isnan(found.values[~flat.any(axis=1)]).all()


def test_memory_that_runs_out(monkeypatch):
    scorer, clip = make_scorer("internvl"), make_clip("internvl")

    def no_memory(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(scorer._passes, "_pass", no_memory)
    found = scorer.saliency(clip, *ASKED, option=0, method="gradient")
    assert np.isnan(found.values).all()
    assert all("out of memory" in note for note in found.notes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"option": 3}, OptionError, "option is 3; it must be the number"),
        ({"option": [0]}, OptionError, "one for each of the 2 phases"),
        ({"against": -1}, OptionError, "against is -1"),
        ({"option": 0.5}, OptionError, r"option is 0\.5"),
        ({"order": [[0, 1, 2], [2, 1, 0]]}, OptionError, "one order of the options"),
        ({"method": "shap"}, ScoringError, "method is 'shap'"),
        ({"replace": "black"}, ScoringError, "replace is 'black'"),
    ],
)
def test_refused(changes, error, message):
    scorer, clip = make_scorer("internvl"), make_clip("internvl")
    with pytest.raises(error, match=message):
        scorer.saliency(clip, *ASKED, **changes)


def test_one_frame_has_no_neighbour():
    scorer, clip = make_scorer("internvl"), make_clip("internvl", 1)
    with pytest.raises(ScoringError, match='give replace="mean"'):
        scorer.saliency(clip, *ASKED)
    found = scorer.saliency(clip, *ASKED, replace="mean", option=0)
    assert np.abs(found.values[:, 0] - (found.base - found.emptied)).max() < CLOSE


def test_a_gradient_in_half_precision_is_refused():
    tokenizer, model = built("internvl")
    half = copy.deepcopy(model).to(torch.bfloat16)
    scorer = HFOptionScorer(half, tokenizer, pixels=pixels_of("internvl"))
    with pytest.raises(ScoringError, match=r'bfloat16.*dtype="float32"'):
        scorer.saliency(make_clip("internvl"), *ASKED, method="gradient")


# Flips


@pytest.mark.parametrize("name", ["qwen2_vl", "llava_next_video"])
def test_a_flip_is_explained_frame_by_frame(name):
    scorer, clip = make_scorer(name), make_clip(name)
    answers = posteriors(scorer, clip).argmax(axis=-1)
    assert answers[0] != answers[1]
    found = flip_saliency(scorer, clip, *ASKED)
    assert found.phases.tolist() == [0, 1]
    assert found.options.tolist() == answers.tolist()

    def log_odds(clip, s):
        logp = posteriors(scorer, clip)[s]
        return logp[answers[0]] - logp[answers[1]]

    first, second = log_odds(clip, 0), log_odds(clip, 1)
    assert first > 0 > second
    assert found.log_odds == pytest.approx([first, second], abs=CLOSE)
    assert found.difference == pytest.approx(first - second, abs=CLOSE)
    for i in range(4):
        there = log_odds(with_frames(clip, 0, i, clip.frames[1, i]), 0)
        back = log_odds(with_frames(clip, 1, i, clip.frames[0, i]), 1)
        wanted = [first - there, back - second]
        assert found.values[:, i] == pytest.approx(wanted, abs=CLOSE)


def test_a_flip_by_one_frame_is_all_of_that_frame():
    """Phases that differ in one frame, at times that a model is not told."""
    scorer = make_scorer("llava_next_video")
    clip = make_clip("llava_next_video")
    rng = np.random.default_rng(0)
    for _ in range(200):
        pixels = rng.integers(0, 256, clip.frames[0, 2].shape).astype(np.uint8)
        frames = np.stack([clip.frames[0], clip.frames[0]])
        frames[1, 2] = pixels // 4
        one = replace(clip, frames=frames)
        if len(set(posteriors(scorer, one).argmax(axis=-1).tolist())) == 2:
            break
    found = flip_saliency(scorer, one, *ASKED)
    assert found.values[:, 2] == pytest.approx([found.difference] * 2, abs=CLOSE)
    assert np.abs(np.delete(found.values, 2, axis=1)).max() < CLOSE
    slopes = flip_saliency(scorer, one, *ASKED, method="gradient")
    assert np.delete(slopes.values, 2, axis=1).tolist() == [[0.0] * 3] * 2
    assert slopes.difference == pytest.approx(found.difference, abs=CLOSE)


def test_gradients_of_a_flip_are_the_first_order():
    """As frames of one phase move towards the other, by finite differences."""
    name = "llava_next_video"
    scorer, clip = make_scorer(name), make_clip(name)
    found = flip_saliency(scorer, clip, *ASKED, method="gradient")
    a, b = found.options
    pixels = [inputs_of(scorer, clip, s)[0] for s in range(2)]
    key = "pixel_values_videos"
    for s in range(2):
        for i in range(4):
            sides = []
            for step in (0.02, -0.02):
                moved = pixels[s][key].clone()
                moved[:, i] += step * (pixels[0][key] - pixels[1][key])[:, i]
                inputs = pixels[s] | {key: moved}
                odds = by_hand(name, inputs, a) - by_hand(name, inputs, b)
                sides.append(odds)
            slope = (sides[0] - sides[1]) / 0.04
            largest = np.abs(found.values).max()
            assert found.values[s, i] == pytest.approx(slope, abs=0.05 * largest)


def test_no_flip():
    scorer, clip = make_scorer("internvl"), make_clip("internvl")
    frames = np.stack([clip.frames[0]] * 2)
    with pytest.raises(ScoringError, match="no two phases answer differently"):
        flip_saliency(scorer, replace(clip, frames=frames), *ASKED)
    with pytest.raises(ScoringError, match=r"phases is \(0, 2\)"):
        flip_saliency(scorer, clip, *ASKED, phases=(0, 2))
    with pytest.raises(ScoringError, match="two answers, and the two phases"):
        flip_saliency(scorer, clip, *ASKED, answers=(0, 1))
    told = flip_saliency(scorer, clip, *ASKED, phases=(1, 0), answers=(0, 1))
    assert (told.phases.tolist(), told.options.tolist()) == ([1, 0], [0, 1])


# The shipped model


@pytest.fixture(scope="module")
def shipped():
    torch.set_num_threads(1)
    return HFOptionScorer.from_pretrained(
        tinyvlm.model_dir(), device="cpu", dtype="float32"
    )


@pytest.fixture(scope="module")
def questions():
    path = tinyvlm.questions_path()
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        question["video"] = path.parent / question["video"]
        found[question["question_id"]] = question
    return found


def test_without_any_frame_the_shipped_model_is_near_chance(shipped, questions):
    seen, emptied, chance = [], [], []
    for question in list(questions.values())[:24]:
        clip = read_clip(question["video"], PhaseGrid(8), size=shipped.frame_size)
        found = shipped.saliency(
            clip, question["question"], question["options"], replace="mean"
        )
        seen.append(np.exp(found.base[0]))
        emptied.append(np.exp(found.emptied[0]))
        chance.append(1 / len(question["options"]))
    assert np.mean(seen) > 0.6
    assert abs(np.mean(emptied) - np.mean(chance)) < 0.12


@pytest.mark.skipif(
    int(transformers.__version__.split(".")[0]) < 5,
    reason="older versions place the text after a video elsewhere: other answers",
)
def test_a_known_flip_of_the_shipped_model(shipped, questions):
    """Phases 0 and 1 differ about one flash, which one frame of eight shows."""
    question = questions["tinyvlm-0017"]
    clip = read_clip(question["video"], PhaseGrid(8, 3), size=shipped.frame_size)
    found = flip_saliency(shipped, clip, question["question"], question["options"])
    assert found.phases.tolist() == [0, 1]
    largest = np.abs(found.values).argmax(axis=1)
    assert largest[0] == largest[1]
    shares = found.values[[0, 1], largest] / found.difference
    assert shares == pytest.approx([1, 1], abs=0.1)
