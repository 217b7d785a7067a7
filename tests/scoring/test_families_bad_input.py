"""What cannot be scored: a typed error before the run, or a pass with its reason."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace

import family_models as made
import numpy as np
import pytest
from family_scorers import ORDERS, built, make_clip, make_scorer, pixels_of

from phasefusion.errors import FrameError, ScoringError
from phasefusion.pixels import family_settings
from phasefusion.scoring import HFOptionScorer
from phasefusion.scoring.rows import forward_parameters
from phasefusion.tinyvlm import model_dir

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def score(scorer, clip, options=made.OPTIONS):
    return scorer.score(clip, made.QUESTION, options, orders=ORDERS)


# Models


class Adapter(torch.nn.Module):
    """What wraps a model and passes everything on, as adapters do."""

    def __init__(self, model):
        super().__init__()
        self.inner = model
        self.config, self.dtype, self.device = model.config, model.dtype, model.device
        self.get_input_embeddings = model.get_input_embeddings

    def get_base_model(self):
        return self.inner

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)

    def can_generate(self):
        return self.inner.can_generate()


class Opaque(Adapter):
    get_base_model = None


def test_the_inputs_of_a_wrapped_model_are_those_of_the_model_inside():
    tokenizer, model = built("qwen2_5_vl")
    assert forward_parameters(Adapter(model)) == forward_parameters(model)
    clip = make_clip("qwen2_5_vl", n_frames=400)
    scorer = HFOptionScorer(
        Adapter(model), tokenizer, pixels=pixels_of("qwen2_5_vl"), reuse_prefix=False
    )
    plain = make_scorer("qwen2_5_vl", reuse_prefix=False)
    np.testing.assert_array_equal(
        score(scorer, clip).logprobs, score(plain, clip).logprobs
    )


def test_a_wrapper_that_hides_the_inputs_is_refused():
    tokenizer, model = built("qwen2_5_vl")
    with pytest.raises(ScoringError, match="does not name its inputs"):
        HFOptionScorer(Opaque(model), tokenizer)


def test_models_without_logits_are_refused():
    tokenizer, model = built("qwen2_5_vl")
    with pytest.raises(ScoringError, match="gives no logits of tokens"):
        HFOptionScorer(model.model, tokenizer)
    with pytest.raises(ScoringError, match="must be a model of transformers"):
        HFOptionScorer(torch.nn.Linear(2, 2), tokenizer)


@pytest.mark.parametrize("name", ["internvl", "llava_onevision", "smolvlm"])
def test_the_tokenizer_of_another_model_is_refused(name):
    _, model = built(name)
    other, _ = built("qwen2_vl")
    with pytest.raises(ScoringError, match=r"another model|do not belong together"):
        HFOptionScorer(model, other, pixels=pixels_of(name))


# Pixels


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("internvl", (30, 28), "no whole number of patches"),
        ("internvl", (7, 28), "cannot be reduced by 0.5"),
        ("llava_onevision", (24, 24), "takes 30 x 30; give size"),
        ("llava_next_video", (48, 48), "takes 24 x 24; give size"),
        ("smolvlm", (48, 48), "takes 32 x 32; give size"),
    ],
)
def test_sizes_that_the_model_does_not_take(name, size, message):
    scorer = make_scorer(name, size=size)
    with pytest.raises(ScoringError, match=message):
        score(scorer, make_clip(name))


def test_limits_are_for_the_families_that_have_them():
    with pytest.raises(ScoringError, match="are of the Qwen-VL families"):
        make_scorer("internvl", min_pixels=100)
    with pytest.raises(ScoringError, match="size is"):
        make_scorer("internvl", size=(0, 3))
    with pytest.raises(ScoringError, match=r"takes a phasefusion\.pixels\.PlaneS"):
        make_scorer("internvl", pixels=family_settings("qwen2_vl"))
    with pytest.raises(ScoringError, match="pixel_frames is 0"):
        make_scorer("qwen3_vl", pixel_frames=0)


def test_tiles_are_for_pictures():
    config = {"crop_to_patches": True, "size": {"height": 28, "width": 28}}
    from phasefusion.pixels import pixel_settings

    assert pixel_settings(config, family="internvl").tile is None
    tiled = pixel_settings(config, family="internvl", kind="image")
    with pytest.raises(ScoringError, match="videos are never cut"):
        make_scorer("internvl", pixels=tiled)


def test_one_frame_is_too_few_for_qwen3():
    clip = make_clip("qwen3_vl", budget=1)
    with pytest.raises(FrameError, match="at least 2"):
        score(make_scorer("qwen3_vl"), clip)
    assert score(make_scorer("qwen3_vl", pixel_frames=4), clip).valid.all()


def test_frames_that_smolvlm_takes_for_padding_are_a_missing_pass():
    pixels = replace(pixels_of("smolvlm"), mean=(0.0,) * 3, std=(1.0,) * 3)
    scorer = make_scorer("smolvlm", pixels=pixels)
    clip = make_clip("smolvlm")
    assert score(scorer, clip).valid.all()
    clip.frames[1, 2] = 0
    scores = score(scorer, clip)
    assert scores.valid.tolist() == [[True] * 3, [False] * 3]
    assert set(scores.pass_notes) == {(1, 0), (1, 1), (1, 2)}
    (note,) = set(scores.pass_notes.values())
    assert note.startswith("frame 2 of the phase is 0 all over")


# Rows


@pytest.mark.parametrize("kind", ["letter", "text"])
def test_what_is_longer_than_the_context_is_a_missing_pass(kind):
    tokenizer, model = built("llava_onevision")
    small = copy.copy(model)
    small.config = copy.deepcopy(model.config)
    small.config.get_text_config().max_position_embeddings = 260
    scorer = HFOptionScorer(
        small, tokenizer, pixels=pixels_of("llava_onevision"), score=kind
    )
    clip = make_clip("llava_onevision", n_phases=1)
    assert score(scorer, clip).valid.all()
    scores = score(scorer, clip, ["red", "blue " * 40, "green"])
    assert not scores.valid.any()
    assert np.isnan(scores.option_mass).all()
    note = scores.pass_notes[0, 0]
    assert "tokens are more than the 260 that the model takes" in note
    if kind == "text":
        assert note.startswith("the text of option 1: ")
        assert ";" not in note


def test_running_out_of_memory_is_a_missing_pass():
    scorer, clip = make_scorer("internvl"), make_clip("internvl")
    _, model = built("internvl")
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")

    def fail(*_):
        raise error

    handle = model.register_forward_pre_hook(fail)
    try:
        scores = score(scorer, clip)
        assert not scores.valid.any()
        assert np.isnan(scores.option_mass).all()
        assert scores.pass_notes[0, 0].startswith("the model ran out of memory in a ")
        error = RuntimeError("shapes cannot be multiplied")
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            score(scorer, clip)
    finally:
        handle.remove()
    assert score(make_scorer("internvl"), clip).valid.all()


@pytest.mark.parametrize("name", list(made.SPECS))
def test_logits_that_are_no_numbers_are_missing_passes(name):
    tokenizer, model = built(name)
    broken = copy.deepcopy(model)
    broken.lm_head.register_forward_hook(
        lambda module, args, out: out.index_fill(-1, torch.tensor([7]), np.nan)
    )
    scorer = HFOptionScorer(broken, tokenizer, pixels=pixels_of(name))
    scores = score(scorer, make_clip(name, n_phases=1))
    assert not scores.valid.any()
    assert scores.pass_notes[0, 0] == "the logits hold NaN"


# Checkpoints


@pytest.fixture
def checkpoint(tmp_path):
    return shutil.copytree(model_dir(), tmp_path / "model")


def pickle_weights(folder):
    from safetensors.torch import load_file

    path = folder / "model.safetensors"
    torch.save(load_file(path), folder / "pytorch_model.bin")
    path.unlink()


def test_pickled_weights_are_read_when_that_is_asked_for_by_name(checkpoint):
    pickle_weights(checkpoint)
    with pytest.raises(ScoringError) as caught:
        HFOptionScorer.from_pretrained(checkpoint, device="cpu")
    assert str(caught.value) == (
        f"{checkpoint}: its weights are pickled (pytorch_model.bin), and reading them "
        "can run code; convert them to safetensors, or give pickled_weights=True"
    )
    scorer = HFOptionScorer.from_pretrained(
        checkpoint, device="cpu", dtype="float32", pickled_weights=True
    )
    whole = HFOptionScorer.from_pretrained(model_dir(), device="cpu", dtype="float32")
    for ours, theirs in zip(
        scorer._model.parameters(), whole._model.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_pickled_weights_beside_others_are_left_alone(checkpoint, monkeypatch):
    (checkpoint / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    loaded = []
    monkeypatch.setattr(torch, "load", lambda *a, **k: loaded.append(a))
    HFOptionScorer.from_pretrained(checkpoint, device="cpu")
    assert loaded == []


def test_code_of_a_checkpoint_is_run_when_that_is_asked_for_by_name(
    checkpoint, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    proof = tmp_path / "ran"
    (checkpoint / "own.py").write_text(
        "import pathlib\n"
        "from transformers import PretrainedConfig\n"
        f"pathlib.Path({str(proof)!r}).touch()\n"
        "class OwnConfig(PretrainedConfig):\n"
        "    model_type = 'own_vlm'\n"
    )
    config = {"model_type": "own_vlm", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (checkpoint / "config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match="trust_remote_code=True"):
        HFOptionScorer.from_pretrained(checkpoint, device="cpu")
    assert not proof.exists()
    with pytest.raises(ScoringError, match="the model cannot be loaded"):
        HFOptionScorer.from_pretrained(checkpoint, device="cpu", trust_remote_code=True)
    assert proof.exists()


def test_every_family_loads_from_a_folder(tmp_path):
    for name, spec in made.SPECS.items():
        tokenizer, model = built(name)
        folder = tmp_path / name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        config = {"video_processor_type": spec.video[0], **spec.video[1]}
        path = folder / "video_preprocessor_config.json"
        path.write_text(json.dumps(config))
        scorer = HFOptionScorer.from_pretrained(folder, device="cpu", dtype="float32")
        clip = make_clip(name)
        np.testing.assert_allclose(
            score(scorer, clip).logprobs,
            score(make_scorer(name), clip).logprobs,
            rtol=0,
            atol=1e-6,
        )
