"""A tiny model of every family's stock class, its tokenizer, and its stock processor.

Weights are random; tokens, their layout in the prompt and the chat templates are those
of real checkpoints. ``python tests/family_models.py`` runs the stock processors, which
need torchvision and for SmolVLM num2words, and stores what they give in
`scoring/families.json`, so that equality is checked where they cannot be run.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import stock_processors as stock

from phasefusion.grid import PhaseGrid
from phasefusion.video import Clip

EXPECTED = Path(__file__).parent / "scoring" / "families.json"
QUESTION = "Which colour?"
OPTIONS = ("red", "dark blue", "no colour")

_CHATML = (
    "{%% for m in messages %%}<|im_start|>{{ m['role'] }}\n"
    "{%% if m['content'] is string %%}{{ m['content'] }}{%% else %%}"
    "{%% for c in m['content'] %%}{%% if c['type'] == 'video' %%}%s"
    "{%% elif c['type'] == 'image' %%}%s{%% else %%}{{ c['text'] }}{%% endif %%}"
    "{%% endfor %%}{%% endif %%}<|im_end|>\n{%% endfor %%}"
    "{%% if add_generation_prompt %%}<|im_start|>assistant\n{%% endif %%}"
)
_QWEN_CHAT = _CHATML % (
    "<|vision_start|><|video_pad|><|vision_end|>",
    "<|vision_start|><|image_pad|><|vision_end|>",
)
_VICUNA = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'][0]['text'] }}"
    "{% else %}{{ m['role'].upper() + ': ' }}{% for c in m['content'] %}"
    "{% if c['type'] == 'text' %}{{ c['text'] }}{% else %}<{{ c['type'] }}>\n"
    "{% endif %}{% endfor %}{% endif %} {% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
_TURNS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_QWEN = (
    *_TURNS,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)


@dataclass(frozen=True)
class Spec:
    """What a family's tiny model is made of."""

    special: tuple[str, ...]
    chat: str
    size: tuple[int, int]  # of frames that need no resize
    model: str
    folder: str
    processor: str
    video: tuple[str, dict[str, Any]]
    image: tuple[str, str]
    names: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    bos: bool = False


_PATCHES = {
    "patch_size": 4,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "size": {"shortest_edge": 64, "longest_edge": 4096},
}
_QWEN3_PATCHES = {**_PATCHES, "size": {"shortest_edge": 64, "longest_edge": 4 * 640}}
_INTERN = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}
_LLAVA = {"image_token": "<image>", "video_token": "<video>"}
_SMOL = {
    "image_token": "<image>",
    "fake_image_token": "<fake_token_around_image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}


def _qwen(version: str, processor: str, video: str, patches: dict[str, Any]) -> Spec:
    return Spec(
        special=_QWEN,
        chat=_QWEN_CHAT,
        size=(16, 24),
        model=f"Qwen{version}VLForConditionalGeneration",
        folder=f"qwen{version.lower()}_vl" if version != "2_5_" else "qwen2_5_vl",
        processor=processor,
        video=(video, patches),
        image=("qwen2_vl", "Qwen2VLImageProcessor"),
    )


SPECS = {
    "qwen2_vl": _qwen("2", "Qwen2VLProcessor", "Qwen2VLVideoProcessor", _PATCHES),
    "qwen2_5_vl": _qwen(
        "2_5_", "Qwen2_5_VLProcessor", "Qwen2VLVideoProcessor", _PATCHES
    ),
    "qwen3_vl": _qwen("3", "Qwen3VLProcessor", "Qwen3VLVideoProcessor", _QWEN3_PATCHES),
    "internvl": Spec(
        special=(*_TURNS, *_INTERN.values()),
        chat=_CHATML % ("<video>\n", "<IMG_CONTEXT>\n"),
        size=(28, 28),
        model="InternVLForConditionalGeneration",
        folder="internvl",
        processor="InternVLProcessor",
        video=("InternVLVideoProcessor", {"size": {"height": 28, "width": 28}}),
        image=("got_ocr2", "GotOcr2ImageProcessor"),
        names=_INTERN,
        options={"image_seq_length": 4},
    ),
    "llava_onevision": Spec(
        special=(*_TURNS, *_LLAVA.values()),
        chat=_CHATML % ("<video>\n", "<image>\n"),
        size=(30, 30),
        model="LlavaOnevisionForConditionalGeneration",
        folder="llava_onevision",
        processor="LlavaOnevisionProcessor",
        video=("LlavaOnevisionVideoProcessor", {"size": {"height": 30, "width": 30}}),
        image=("llava_onevision", "LlavaOnevisionImageProcessor"),
        names=_LLAVA,
        options={"num_image_tokens": 9, "vision_feature_select_strategy": "full"},
    ),
    "llava_next_video": Spec(
        special=("<pad>", "<s>", "</s>", *_LLAVA.values()),
        chat=_VICUNA,
        size=(24, 40),
        model="LlavaNextVideoForConditionalGeneration",
        folder="llava_next_video",
        processor="LlavaNextVideoProcessor",
        video=(
            "LlavaNextVideoVideoProcessor",
            {
                "size": {"shortest_edge": 24},
                "crop_size": {"height": 24, "width": 24},
                "do_center_crop": True,
            },
        ),
        image=("llava_next", "LlavaNextImageProcessor"),
        names=_LLAVA,
        options={"patch_size": 6, "vision_feature_select_strategy": "default"},
        bos=True,
    ),
    "smolvlm": Spec(
        special=(*_TURNS, *_SMOL.values()),
        chat="{% for m in messages %}{% for c in m['content'] %}"
        "{{ c.get('text', '<video>') }}{% endfor %}{% endfor %}",
        size=(32, 32),
        model="SmolVLMForConditionalGeneration",
        folder="smolvlm",
        processor="SmolVLMProcessor",
        video=(
            "SmolVLMVideoProcessor",
            {"size": {"longest_edge": 32}, "max_image_size": {"longest_edge": 32}},
        ),
        image=("smolvlm", "SmolVLMImageProcessor"),
        names=_SMOL,
        options={"image_seq_len": 4},
    ),
}


def build_tokenizer(spec: Spec) -> Any:
    """Bytes as tokens, and the special tokens by the names that processors use."""
    import tokenizers
    import transformers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[])
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    inner.decoder = tokenizers.decoders.ByteLevel()
    special = list(spec.special)
    inner.add_special_tokens(special)
    options: dict[str, Any] = {"pad_token": special[0], "eos_token": special[2]}
    if spec.bos:
        options["bos_token"] = special[1]
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", inner.token_to_id("<s>"))]
        )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        chat_template=spec.chat,
        additional_special_tokens=special[1:],
        **options,
    )
    for name, token in spec.names.items():
        setattr(tokenizer, name, token)
        setattr(tokenizer, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    return tokenizer


def _rope(section: list[int] | None = None) -> dict[str, Any]:
    """Rotary positions as both ends of transformers' versions name them."""
    known: dict[str, Any] = {"rope_theta": 10000.0}
    mrope = {} if section is None else {"mrope_section": section}
    if not stock.is_version_4():
        return {"rope_parameters": {"rope_type": "default", **mrope, **known}}
    if section is not None:
        known["rope_scaling"] = {"rope_type": "default", **mrope}
    return known


def _text(kind: str, tokenizer: Any, **more: Any) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 4096,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": False,
        **more,
    }


def build_config(name: str, tokenizer: Any) -> Any:
    """The configuration of a family's tiny model."""
    import transformers

    token = tokenizer.convert_tokens_to_ids
    vision: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64}
    vision |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    more: dict[str, Any] = {}
    if name.startswith("qwen"):
        vision = {"depth": 2, "num_heads": 2, "patch_size": 4, "in_channels": 3}
        vision |= {"spatial_merge_size": 2, "temporal_patch_size": 2}
        more = {
            "image_token_id": token("<|image_pad|>"),
            "video_token_id": token("<|video_pad|>"),
            "vision_start_token_id": token("<|vision_start|>"),
            "vision_end_token_id": token("<|vision_end|>"),
        }
    if name == "qwen2_vl":
        vision |= {"embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2}
        text = _text("qwen2_vl_text", tokenizer, **_rope([2, 3, 3]))
        return transformers.Qwen2VLConfig(
            text_config=_no_type(text),
            vision_config=vision,
            tie_word_embeddings=False,
            **more,
        )
    if name == "qwen2_5_vl":
        vision |= {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64}
        vision |= {"fullatt_block_indexes": [1], "window_size": 16}
        vision |= {"tokens_per_second": 2}
        text = _text("qwen2_5_vl_text", tokenizer, **_rope([2, 3, 3]))
        return transformers.Qwen2_5_VLConfig(
            text_config=_no_type(text),
            vision_config=vision,
            tie_word_embeddings=False,
            **more,
        )
    if name == "qwen3_vl":
        vision |= {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64}
        vision |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]}
        text = _text("qwen3_vl_text", tokenizer, head_dim=16, **_rope([4, 2, 2]))
        return transformers.Qwen3VLConfig(
            text_config=_no_type(text),
            vision_config=vision,
            tie_word_embeddings=False,
            **more,
        )
    if name == "internvl":
        vision |= {"image_size": [28, 28], "patch_size": [7, 7]}
        return transformers.InternVLConfig(
            text_config=_text("qwen2", tokenizer, **_rope()),
            vision_config=vision,
            image_token_id=token("<IMG_CONTEXT>"),
            image_seq_length=4,
            downsample_ratio=0.5,
            tie_word_embeddings=False,
        )
    if name == "llava_onevision":
        vision |= {"model_type": "siglip_vision_model", "image_size": 30}
        vision |= {"patch_size": 10, "vision_use_head": False}
        return transformers.LlavaOnevisionConfig(
            text_config=_text("qwen2", tokenizer, **_rope()),
            vision_config=vision,
            image_token_index=token("<image>"),
            video_token_index=token("<video>"),
            vision_feature_select_strategy="full",
            vision_feature_layer=-1,
            tie_word_embeddings=False,
        )
    if name == "llava_next_video":
        vision |= {"model_type": "clip_vision_model", "image_size": 24}
        vision |= {"patch_size": 6, "projection_dim": 32}
        return transformers.LlavaNextVideoConfig(
            text_config=_text("llama", tokenizer, **_rope()),
            vision_config=vision,
            image_token_index=token("<image>"),
            video_token_index=token("<video>"),
            image_seq_length=4,
            tie_word_embeddings=False,
        )
    vision |= {"image_size": 32, "patch_size": 8}
    return transformers.SmolVLMConfig(
        text_config=_text("llama", tokenizer, **_rope()),
        vision_config=vision,
        image_token_id=token("<image>"),
        scale_factor=2,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
    )


def _no_type(text: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in text.items() if key != "model_type"}


def build_model(name: str, tokenizer: Any, seed: int = 0) -> Any:
    """A stock class with random weights, large enough to make every input count."""
    import torch
    import transformers

    torch.set_num_threads(1)
    config = build_config(name, tokenizer)
    model = getattr(transformers, SPECS[name].model)(config).eval()
    randomise(model, seed)
    return model


def randomise(model: Any, seed: int) -> None:
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                fan_in = weight[0].numel()
                noise = torch.randn(weight.shape, generator=generator)
                weight.copy_(noise * 1.5 / fan_in**0.5)


def build_clip(
    size: tuple[int, int],
    *,
    n_phases: int = 2,
    budget: int = 4,
    seed: int = 0,
    rate: int = 10,
    n_frames: int = 80,
) -> Clip:
    """Noise on the grid of a file of `n_frames` at a constant rate."""
    rng = np.random.default_rng(seed)
    grid = PhaseGrid(budget, n_phases)
    indices = grid.indices(n_frames)
    shape = (*indices.shape, *size, 3)
    return Clip(
        frames=rng.integers(0, 256, shape, dtype=np.uint8),
        indices=indices,
        times_s=indices / rate + 0.4,
        missing=np.zeros(indices.shape, np.bool_),
        grid=grid,
        info=SimpleNamespace(
            path="made.mp4",
            height=size[0],
            width=size[1],
            start_s=0.4,
            duration_s=n_frames / rate,
            n_frames=n_frames,
            fps=Fraction(rate),
            time_base=Fraction(1, 12800),
            vfr=False,
        ),
    )


def build_processor(name: str, tokenizer: Any) -> Any:
    """The stock processor; skips where it cannot be had."""
    spec = SPECS[name]
    if name == "smolvlm":
        stock.pytest.importorskip("num2words", reason="SmolVLM's processor needs it")
    folder = "qwen2_vl" if "Qwen2VL" in spec.video[0] else spec.folder
    video = stock.video_class(folder, spec.video[0])(**spec.video[1])
    image_folder, image = spec.image
    image_class = stock.find(f"{image_folder}.image_processing_{image_folder}", image)
    kind = stock.find(f"{spec.folder}.processing_{spec.folder}", spec.processor)
    with stock.pytest.MonkeyPatch.context() as patch:
        # It wants tokenizers of certain classes, though it uses none of theirs.
        patch.setattr(kind, "check_argument_for_proper_class", lambda *_: None)
        return kind(
            image_processor=image_class(),
            video_processor=video,
            tokenizer=tokenizer,
            chat_template=spec.chat,
            **spec.options,
        )


def stock_inputs(name: str, processor: Any, clip: Clip, s: int, chat: str) -> Any:
    """What the stock processor gives for one phase and one prompt."""
    import torch
    from transformers.video_utils import VideoMetadata

    info = clip.info
    rate = float(info.fps)
    frames = np.ascontiguousarray(clip.frames[s].transpose(0, 3, 1, 2))
    about = VideoMetadata(
        total_num_frames=info.n_frames,
        fps=rate,
        frames_indices=clip.indices[s].tolist(),
        duration=info.duration_s,
        height=info.height,
        width=info.width,
    )
    more: dict[str, Any] = {}
    if name == "qwen2_5_vl" and stock.is_version_4():
        # This version asks for the rate of the frames given, and assumes 2 otherwise.
        more["fps"] = clip.indices.shape[1] / info.n_frames * rate
    videos = [torch.from_numpy(frames)]
    if name == "smolvlm" and variant() == "4":
        videos, about = [videos], [about]  # counts videos of every prompt
    with stock.warnings.catch_warnings():
        stock.warnings.simplefilter("ignore")
        return processor(
            text=[chat],
            videos=videos,
            video_metadata=[about],
            do_sample_frames=False,
            return_tensors="pt",
            **more,
        )


def variant() -> str:
    """Which of two ways the installed processors write their texts."""
    from phasefusion.scoring.families.qwen import keeps_outer_tokens

    return "5" if keeps_outer_tokens() else "4"


def digest(values: Any) -> str:
    array = np.ascontiguousarray(values)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    code = hashlib.sha256(little.tobytes()).hexdigest()[:24]
    return f"{array.dtype} {array.shape} {code}"


def summary(inputs: Any, tokenizer: Any) -> dict[str, str]:
    """Shape and hash of every input, and the prompt with repeats counted."""
    found = {}
    for key, value in inputs.items():
        if key in ("attention_mask", "token_type_ids"):  # all 1; of plain tokenizers
            continue
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        elif array.dtype.kind in "iub":
            array = array.astype(np.int64)
        found[key] = digest(array)
    found["text"] = counted(tokenizer, np.asarray(inputs["input_ids"])[0])
    return found


def counted(tokenizer: Any, ids: Any) -> str:
    """The text of tokens; a token that comes several times is written once, x n."""
    parts: list[list[Any]] = []
    for i in ids:
        if parts and parts[-1][0] == i and i in tokenizer.all_special_ids:
            parts[-1][1] += 1
        else:
            parts.append([i, 1])
    return "".join(
        tokenizer.decode([i]) + (f" x {n} " if n > 1 else "") for i, n in parts
    )


def cases() -> list[tuple[str, int]]:
    """Family and frames of a phase; an odd number where it makes a difference."""
    odd = [(name, 3) for name in SPECS if name.startswith("qwen")]
    return [*((name, 4) for name in SPECS), *odd]


def case_id(name: str, budget: int) -> str:
    return f"{name} {budget} frames"


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    found = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    for name, budget in cases():
        spec = SPECS[name]
        tokenizer = build_tokenizer(spec)
        processor = build_processor(name, tokenizer)
        clip = build_clip(spec.size, budget=budget)
        chat = made_chat(name, tokenizer)
        entry = found.setdefault(case_id(name, budget), {})
        entry[variant()] = [
            summary(stock_inputs(name, processor, clip, s, chat), tokenizer)
            for s in range(2)
        ]
    EXPECTED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def made_chat(name: str, tokenizer: Any) -> str:
    """The chat that a processor would write, by the template that it would use."""
    from phasefusion.scoring import PromptTemplate

    template = None
    if name == "smolvlm":
        module = stock.module("smolvlm.processing_smolvlm")
        template = module.DEFAULT_CHAT_TEMPLATE
    ask = PromptTemplate().render(QUESTION, OPTIONS)
    content = [{"type": "video"}, {"type": "text", "text": ask}]
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": content}],
        chat_template=template,
        tokenize=False,
        add_generation_prompt=True,
    )


if __name__ == "__main__":
    main()
