"""Folders with tiny checkpoints of stock classes, as lmms-eval's models load them."""

from __future__ import annotations

import json
import shutil

import numpy as np

from phasefusion import tinyvlm

#: 84 x 84 pixels, the size that the shipped model was trained for.
AREA = 84 * 84


def save_shipped(folder):
    """Copy the shipped model, its settings as Hugging Face's processor has them."""
    shutil.copytree(tinyvlm.model_dir(), folder, dirs_exist_ok=True)
    path = folder / "preprocessor_config.json"
    settings = json.loads(path.read_text())
    settings["size"] = {"shortest_edge": AREA, "longest_edge": AREA}
    path.write_text(json.dumps(settings))
    video = settings | {"video_processor_type": "Qwen2VLVideoProcessor"}
    video.pop("image_processor_type")
    (folder / "video_preprocessor_config.json").write_text(json.dumps(video))
    return folder


def save_qwen3_vl(folder, *, seed=0, repetition_penalty=1.0):
    """Save a Qwen3-VL of random weights, with the shipped model's tokenizer."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tinyvlm.model_dir())
    ids = {
        name: tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for name, token in (
            ("image_token_id", "image_pad"),
            ("video_token_id", "video_pad"),
            ("vision_start_token_id", "vision_start"),
            ("vision_end_token_id", "vision_end"),
        )
    }
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    config = transformers.Qwen3VLConfig(
        text_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "rope_parameters": rope,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
        tie_word_embeddings=False,
        **ids,
    )
    torch.manual_seed(seed)
    model = transformers.Qwen3VLForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                fan_in = weight[0].numel()
                weight.normal_(0.0, 1.5 / fan_in**0.5)
    model.generation_config.repetition_penalty = repetition_penalty
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    side = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    three = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    size = {"size": {"shortest_edge": 32 * 32, "longest_edge": 64 * 32 * 32}}
    image = {
        **side,
        **three,
        **size,
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }
    video = {**side, **three, **size, "video_processor_type": "Qwen3VLVideoProcessor"}
    for name, settings in (
        ("preprocessor_config.json", image),
        ("video_preprocessor_config.json", video),
        ("processor_config.json", {"processor_class": "Qwen3VLProcessor"}),
    ):
        (folder / name).write_text(json.dumps(settings))
    return folder


def rows(path):
    """Passes of a run by question, phase and order."""
    with open(path / "passes.jsonl") as file:
        found = [json.loads(line) for line in file]
    return {(r["question_id"], r["phase_index"], tuple(r["order"])): r for r in found}


def largest_difference(a, b):
    """Largest difference of log-probabilities of two runs of the same passes."""
    assert set(a) == set(b)
    return max(
        np.abs(np.array(a[key]["logprobs"]) - np.array(b[key]["logprobs"])).max()
        for key in a
    )
