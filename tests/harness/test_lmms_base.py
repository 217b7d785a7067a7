"""A chat model of lmms-eval, asked for first steps; tests/chat_model.py stands in."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import chat_model
import numpy as np
import pytest

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion.datasets import load_questions
from phasefusion.errors import OptionError, ScoringError
from phasefusion.harness.lmms_base import BoundModel, LmmsBase, PhaseFrames, with_phase
from phasefusion.harness.prompts import find_options
from phasefusion.pixels import PatchSettings, to_qwen_patches
from phasefusion.scoring.letters import PromptTemplate, first_equal
from phasefusion.scoring.times import frame_times

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ITEM = load_questions(tinyvlm.questions_path())[21]
GRID = pf.PhaseGrid(4, 3)
SETTINGS = PatchSettings(14, 2, 2)


class Processor:
    """Tokens and patches of the shipped model, from frames (b, 3, H, W) as given."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.seen = []

    def apply_chat_template(self, messages, **options):
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )

    def batch_decode(self, ids, **options):
        return self.tokenizer.batch_decode(ids)

    def __call__(self, text, videos=None, video_metadata=None, **options):
        self.seen.append((videos[0], video_metadata, options))
        frames = videos[0].numpy().transpose(0, 2, 3, 1).astype(np.uint8)
        rows, thw = to_qwen_patches(frames, SETTINGS, size=(84, 84))
        token = "<|video_pad|>"
        text = text[0].replace(token, token * (len(rows) // 4))
        ids = torch.tensor([self.tokenizer(text)["input_ids"]])
        metadata = video_metadata[0]
        rate = metadata["fps"] * len(frames) / metadata["total_num_frames"]
        is_video = ids == self.tokenizer.convert_tokens_to_ids(token)
        found = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values_videos": torch.from_numpy(rows),
            "video_grid_thw": torch.tensor([thw]),
            "second_per_grid_ts": torch.tensor([2 / rate]),
            "mm_token_type_ids": 2 * is_video.int(),
        }
        return found if int(transformers.__version__[0]) > 4 else _without(found)


def _without(found):
    found.pop("mm_token_type_ids")
    return found


@pytest.fixture(scope="module")
def parts():
    torch.set_num_threads(1)
    folder = tinyvlm.model_dir()
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    return model.float().eval(), transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def base(parts, monkeypatch):
    """Make a wrapped stand-in; lmms-eval itself need not be there."""
    models = SimpleNamespace(get_model=lambda name: chat_model.Chat)
    fakes = {"lmms_eval.models": models}

    class Instance(SimpleNamespace):
        @property
        def args(self):
            return self.arguments

    fakes["lmms_eval"] = ModuleType("lmms_eval")
    fakes["lmms_eval.api"] = ModuleType("lmms_eval.api")
    fakes["lmms_eval.api.instance"] = SimpleNamespace(Instance=Instance)
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)

    def make(timestamps="true", **given):
        model, tokenizer = parts
        processor = Processor(tokenizer)
        arguments = {"model": model, "processor": processor, **given}
        made = LmmsBase("stand_in", arguments, timestamps=timestamps)
        made.model.task_dict = {"t": {"test": {0: {}}}}
        return made, processor

    return make


def bound(base):
    text = PromptTemplate().render(ITEM.question, ITEM.options)
    content = [{"type": "video", "url": ITEM.video}, {"type": "text", "text": text}]
    return BoundModel(
        base,
        ("", None, {"max_new_tokens": 16}, 0, "t", "test"),
        ({"role": "user", "content": content},),
        find_options(text),
        first_equal(ITEM.options),
    )


def test_scores_are_those_of_our_own_scorer(base, parts):
    wrapped, _ = base()
    clip = pf.read_clip(ITEM.video, GRID)
    orders = pf.orders.reverse(len(ITEM.options))
    found = bound(wrapped).score(clip, "", ITEM.options, orders=orders)
    own = pf.scoring.HFOptionScorer(
        parts[0],
        tokenizer=parts[1],
        size=(84, 84),
        prompt=PromptTemplate(system="Be brief."),
        reuse_prefix=False,
    ).score(clip, ITEM.question, ITEM.options, orders=orders)
    np.testing.assert_allclose(found.logprobs, own.logprobs, atol=2e-5)
    np.testing.assert_allclose(found.option_mass, own.option_mass, atol=1e-5)
    assert len(np.unique(found.logprobs[:, 0, 0])) == 3


@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_processors_do_not_touch_what_is_captured(base, parts, penalty):
    """Letters stand in the prompt, so a repetition penalty would lower them."""
    model = parts[0]
    before = model.generation_config.repetition_penalty
    model.generation_config.repetition_penalty = penalty
    try:
        wrapped, processor = base()
        clip = pf.read_clip(ITEM.video, GRID)
        found = bound(wrapped).score(clip, "", ITEM.options)
        videos, metadata, _ = processor.seen[0]
        text = wrapped._processor.text
        inputs = processor(text=[text], videos=[videos], video_metadata=metadata)
        with torch.no_grad():
            logits = model(**inputs).logits[0, -1].double()
        plain = torch.log_softmax(logits, 0).numpy()
        letters = wrapped.letters(plain, text, len(ITEM.options))
        np.testing.assert_allclose(found.logprobs[0, 0], letters, atol=1e-5)
    finally:
        model.generation_config.repetition_penalty = before


@pytest.mark.parametrize("timestamps", ["true", "frozen", "base"])
def test_times_of_the_frames(base, timestamps):
    wrapped, processor = base(timestamps)
    clip = pf.read_clip(ITEM.video, GRID)
    bound(wrapped).score(clip, "", ITEM.options)
    assert len(processor.seen) == 3
    for s, (video, metadata, options) in enumerate(processor.seen):
        assert options["do_sample_frames"] is False
        assert tuple(video.shape) == (4, 3, 84, 84)
        shown = np.array(metadata[0]["frames_indices"]) / metadata[0]["fps"]
        if timestamps == "base":
            np.testing.assert_allclose(shown, np.arange(4) / 2)
        else:
            wanted = frame_times(clip, s, timestamps).seconds
            np.testing.assert_allclose(shown, wanted, atol=1e-3)


def test_times_of_a_variable_rate_are_those_of_the_frames():
    clip = pf.read_clip(ITEM.video, GRID)
    times_s = clip.times_s + np.linspace(0, 0.3, 4)
    made = PhaseFrames.of(replace(clip, times_s=times_s), 1, "true").metadata
    shown = np.array(made["frames_indices"]) / made["fps"]
    np.testing.assert_allclose(shown, times_s[1], atol=1e-9)
    rate = made["fps"] * 4 / made["total_num_frames"]
    np.testing.assert_allclose(1 / rate, np.diff(times_s[1]).mean())


def test_the_model_is_left_as_it_was(base):
    wrapped, _ = base()
    model, names = wrapped.network, dict(vars(chat_model))
    assert "generate" not in vars(model)
    bound(wrapped).score(pf.read_clip(ITEM.video, GRID), "", ITEM.options)
    assert "generate" not in vars(model)
    assert dict(vars(chat_model)) == names


def test_a_model_that_generates_twice_says_so(base):
    wrapped, _ = base(n_turns=2)
    clip = pf.read_clip(ITEM.video, GRID.view(0))
    with pytest.raises(ScoringError, match="generated 2 times for one request"):
        bound(wrapped).score(clip, "", ITEM.options)


@pytest.mark.parametrize("logs_errors", [False, True])
def test_an_error_that_the_model_logs_is_not_lost(base, monkeypatch, logs_errors):
    wrapped, _ = base(logs_errors=logs_errors)

    def broken(*args, **kwargs):
        raise ValueError("no such layer")

    monkeypatch.setattr(wrapped.network, "generate", broken)
    clip = pf.read_clip(ITEM.video, GRID.view(0))
    with pytest.raises(ScoringError, match="base=stand_in: ValueError: no such layer"):
        bound(wrapped).score(clip, "", ITEM.options)


def test_frames_that_did_not_decode_are_not_shown(base):
    wrapped, processor = base()
    clip = pf.read_clip(ITEM.video, GRID)
    clip.missing[2, 1] = True
    scores = bound(wrapped).score(clip, "", ITEM.options)
    assert scores.valid[:, 0].tolist() == [True, True, False]
    why = f"frame {clip.indices[2, 1]} could not be decoded"
    assert scores.pass_notes == {(2, 0): why}
    assert len(processor.seen) == 2


def test_out_of_memory_is_a_missing_pass(base, monkeypatch):
    wrapped, _ = base()
    calls = []

    class OutOfMemoryError(RuntimeError):
        pass

    original = wrapped.network.generate

    def sometimes(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise OutOfMemoryError("tried to allocate 2 GiB")
        return original(*args, **kwargs)

    monkeypatch.setattr(wrapped.network, "generate", sometimes)
    clip = pf.read_clip(ITEM.video, GRID)
    found = bound(wrapped).score(clip, "", ITEM.options)
    assert found.valid[:, 0].tolist() == [True, False, True]
    assert "2 GiB" in found.pass_notes[1, 0]


def test_messages_of_a_phase():
    text = "Q?\nA. red\nB. blue\nGo"
    system = {"role": "system", "content": "Be brief."}
    parts = [
        {"type": "text", "text": "Watch."},
        {"type": "video", "url": "v.mp4", "start_time": 3.0},
        {"type": "text", "text": text},
    ]
    frames = PhaseFrames(np.zeros((2, 4, 4, 3), np.uint8), None, 1.0)
    made = with_phase(
        (system, {"role": "user", "content": parts}),
        frames,
        find_options(text),
        [1, 0],
    )
    assert made[0] == system
    assert made[1]["content"][0]["text"] == "Watch."
    assert made[1]["content"][1] == {"type": "video", "url": frames}
    assert made[1]["content"][2]["text"] == "Q?\nA. blue\nB. red\nGo"
    assert parts[2]["text"] == text


def test_bases_that_hand_videos_to_their_processor(base):
    """As InternVL's does: frames as decoded, and nothing is sampled once more."""
    wrapped, processor = base()
    clip = pf.read_clip(ITEM.video, GRID)
    frames = PhaseFrames.of(clip, 1, "true")
    seen = {}
    processor.__class__ = type(
        "Direct", (Processor,), {"__call__": lambda self, **given: seen.update(given)}
    )
    wrapped._processor(
        text="a prompt", videos=[frames], do_sample_frames=True, num_frames=32, fps=2.0
    )
    assert wrapped._processor.text == "a prompt"
    shown = seen["videos"][0].numpy().transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(shown, clip.frames[1])
    assert seen["do_sample_frames"] is False
    assert not {"num_frames", "fps"} & set(seen)
    metadata = seen["video_metadata"][0]
    np.testing.assert_allclose(
        np.array(metadata["frames_indices"]) / metadata["fps"], clip.times_s[1]
    )


def test_what_is_no_model_for_it(monkeypatch):
    def models(kind):
        found = SimpleNamespace(get_model=lambda name: kind)
        monkeypatch.setitem(sys.modules, "lmms_eval", ModuleType("lmms_eval"))
        monkeypatch.setitem(sys.modules, "lmms_eval.models", found)

    models(type("Simple", (), {"is_simple": True}))
    with pytest.raises(ScoringError, match="as a simple model only"):
        LmmsBase("x", {})
    models(type("Api", (), {"is_simple": False}))
    with pytest.raises(ScoringError, match="without generate"):
        LmmsBase("x", {})
    network = SimpleNamespace(generate=print)
    models(type("Bare", (), {"is_simple": False, "model": network}))
    with pytest.raises(ScoringError, match="has no processor"):
        LmmsBase("x", {})


def test_options_that_are_none_are_found_before_anything_runs():
    with pytest.raises(OptionError):
        find_options("Describe the video.")
