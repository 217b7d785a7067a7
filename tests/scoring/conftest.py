"""A tiny Qwen2.5-VL built from code, its byte-level tokenizer, and short clips."""

from __future__ import annotations

import inspect
import os
from types import SimpleNamespace

import numpy as np
import pytest

from phasefusion.frames import resize
from phasefusion.grid import PhaseGrid
from phasefusion.pixels import PatchSettings, to_qwen_patches
from phasefusion.video import Clip

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'video' %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PATCH, MERGE, DEPTH = 4, 2, 2
SIZE = (16, 24)


def build_tokenizer(merges=(), normalizer=None, template=TEMPLATE):
    """Bytes as tokens, plus `merges`, plus the chat tokens of the Qwen family."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate(alphabet)}
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=vocabulary, merges=list(merges))
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    inner.decoder = tokenizers.decoders.ByteLevel()
    if normalizer is not None:
        inner.normalizer = normalizer
    inner.add_special_tokens(list(SPECIAL))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[2],
        additional_special_tokens=list(SPECIAL[1:]),
        chat_template=template,
    )


def spaced_letters():
    """Merges that make a letter after a space one token, as in large vocabularies."""
    return [("Ġ", letter) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]


def build_model(tokenizer, *, family="qwen2_5_vl", seed=0, **text):
    """A stock class with random weights, large enough to make every input count."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    rope = {"mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    if int(transformers.__version__.split(".")[0]) >= 5:
        rope = {"rope_parameters": {"rope_type": "default", **rope}}
    else:
        rope = {
            "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]},
            "rope_theta": rope["rope_theta"],
        }
    vision = {
        "depth": 2,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": DEPTH,
        "num_heads": 2,
        "in_channels": 3,
    }
    if family == "qwen2_5_vl":
        vision |= {
            "hidden_size": 32,
            "intermediate_size": 64,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
            "window_size": 16,
            "tokens_per_second": 2,
        }
        names = ("Qwen2_5_VLConfig", "Qwen2_5_VLForConditionalGeneration")
    else:
        vision |= {"embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2}
        names = ("Qwen2VLConfig", "Qwen2VLForConditionalGeneration")
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIAL}
    config = getattr(transformers, names[0])(
        text_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "bos_token_id": None,
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
            **rope,
            **text,
        },
        vision_config=vision,
        tie_word_embeddings=False,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    model = getattr(transformers, names[1])(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                fan_in = weight[0].numel()
                noise = torch.randn(weight.shape, generator=generator)
                weight.copy_(noise * 1.5 / fan_in**0.5)
    return model


def build_clip(n_phases=2, budget=4, *, seconds=8.0, size=(20, 30), seed=0):
    """Random frames on the frame times of a phase grid over `seconds`."""
    rng = np.random.default_rng(seed)
    steps = np.arange(budget * n_phases).reshape(budget, n_phases).T
    times = (steps + 0.5) * seconds / (budget * n_phases)
    return make_clip(
        rng.integers(0, 256, (n_phases, budget, *size, 3), dtype=np.uint8),
        indices=steps.astype(np.int64),
        times_s=times,
    )


def make_clip(frames, *, indices, times_s):
    """A clip of frames that come from no file, so that there is no info."""
    n_phases, budget = indices.shape
    return Clip(
        frames=frames,
        indices=indices,
        times_s=times_s,
        missing=np.zeros(indices.shape, np.bool_),
        grid=PhaseGrid(budget, n_phases),
        info=None,
    )


def build_inputs(model, tokenizer, clip, s, chat, size=SIZE):
    """What one full pass takes, from a chat with one video placeholder."""
    import torch

    vision = model.config.vision_config
    settings = PatchSettings(
        vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size
    )
    frames = resize(clip.frames[s], size)
    rows, thw = to_qwen_patches(frames, settings, size=size)
    video = "<|video_pad|>"
    chat = chat.replace(video, video * (len(rows) // settings.merge**2))
    ids = torch.tensor([tokenizer(chat, add_special_tokens=False)["input_ids"]])
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values_videos": torch.from_numpy(rows),
        "video_grid_thw": torch.tensor([thw]),
    }
    accepted = inspect.signature(model.forward).parameters
    if "mm_token_type_ids" in accepted:
        is_video = ids == tokenizer.convert_tokens_to_ids(video)
        inputs["mm_token_type_ids"] = 2 * is_video.int()
    if "second_per_grid_ts" in accepted:
        gap_s = np.diff(clip.times_s[s]).mean()
        inputs["second_per_grid_ts"] = torch.tensor(
            [vision.temporal_patch_size * gap_s], dtype=torch.float32
        )
    return inputs


@pytest.fixture(scope="session")
def tokenizer():
    return build_tokenizer()


@pytest.fixture(scope="session")
def model(tokenizer):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return build_model(tokenizer)


@pytest.fixture
def clip():
    return build_clip()


@pytest.fixture
def build():
    return SimpleNamespace(
        tokenizer=build_tokenizer,
        model=build_model,
        clip=build_clip,
        inputs=build_inputs,
        make_clip=make_clip,
        spaced_letters=spaced_letters,
        SIZE=SIZE,
    )
