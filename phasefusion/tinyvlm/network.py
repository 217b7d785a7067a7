"""The stock Qwen2.5-VL network in a tiny size, its input layout, and a batched forward.

Nothing here changes what the network computes: `fast_vision` replaces two inner
functions by equivalents that run faster on a CPU, for training and evaluation only. A
saved checkpoint is a plain `Qwen2_5_VLForConditionalGeneration`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as stock

__all__ = [
    "IMAGE_MEAN",
    "IMAGE_STD",
    "INPUT_SIDE_PX",
    "build_network",
    "fast_vision",
    "last_hidden_states",
    "patch_layout",
    "position_ids",
    "second_per_grid",
]

INPUT_SIDE_PX = 84
PATCH_PX = 14
MERGE = 2
TEMPORAL_PATCH = 2
TOKENS_PER_SECOND = 4
#: Tokens of a pair of frames after merging, and along one side of it.
SIDE_TOKENS = INPUT_SIDE_PX // PATCH_PX // MERGE
PAIR_TOKENS = SIDE_TOKENS**2
IMAGE_MEAN = (0.48145466, 0.4578275, 0.40821073)
IMAGE_STD = (0.26862954, 0.26130258, 0.27577711)
#: 0.02, the usual value, leaves so narrow a network at chance for long.
INIT_STD = 0.05


def patch_layout(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Reorder frames into the patch rows of the Qwen2-VL processors.

    Parameters
    ----------
    frames : ndarray, shape (n, side, side, 3), uint8
        An even number of frames.

    Returns
    -------
    patches : ndarray, shape (n / 2 * rows, 1176), uint8
        One row a patch of two frames, in blocks of 2 x 2 patches.
    """
    n_pair, side = len(frames) // TEMPORAL_PATCH, frames.shape[1] // PATCH_PX // MERGE
    shape = (n_pair, TEMPORAL_PATCH, side, MERGE, PATCH_PX, side, MERGE, PATCH_PX, 3)
    blocks = frames.reshape(shape).transpose(0, 2, 5, 3, 6, 8, 1, 4, 7)
    return blocks.reshape(n_pair * (side * MERGE) ** 2, -1)


def normalise(patches: Tensor) -> Tensor:
    """Turn uint8 patch rows into the float32 `pixel_values_videos`."""
    mean, std = torch.tensor(IMAGE_MEAN)[:, None], torch.tensor(IMAGE_STD)[:, None]
    pixels = patches.float().view(len(patches), 3, -1) / 255
    return ((pixels - mean) / std).flatten(1)


def second_per_grid(times_s: NDArray[np.floating]) -> float:
    """Give the seconds of a temporal patch from the true times of the frames."""
    spacing_s = float(times_s[-1] - times_s[0]) / (len(times_s) - 1)
    return TEMPORAL_PATCH * spacing_s


def _text_settings(
    n_token: int, special: dict[str, int], hidden: int, layers: int
) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 32,
        "num_key_value_heads": hidden // 64,
        "vocab_size": math.ceil(n_token / 64) * 64,
        "max_position_embeddings": 4096,
        "rope_parameters": {
            "rope_type": "default",
            "mrope_section": [4, 6, 6],
            "rope_theta": 1e4,
        },
        "initializer_range": INIT_STD,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": special["end"],
        "pad_token_id": special["pad"],
    }


def _vision_settings(hidden: int) -> dict[str, Any]:
    return {
        "depth": 2,
        "hidden_size": 96,
        "intermediate_size": 256,
        "num_heads": 3,
        "out_hidden_size": hidden,
        "fullatt_block_indexes": [1],
        "window_size": 112,
        "patch_size": PATCH_PX,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": TEMPORAL_PATCH,
        "tokens_per_second": TOKENS_PER_SECOND,
        "initializer_range": INIT_STD,
    }


def build_network(
    n_token: int, special: dict[str, int], *, hidden: int = 128, layers: int = 6
) -> Qwen2_5_VLForConditionalGeneration:
    """Make an untrained network.

    Parameters
    ----------
    n_token : int
        Size of the vocabulary; rounded up to a multiple of 64.
    special : dict
        Token ids under ``pad``, ``end``, ``image``, ``video``, ``vision_start`` and
        ``vision_end``.
    hidden, layers : int
        Width (a multiple of 64) and depth of the language model.

    Returns
    -------
    network : Qwen2_5_VLForConditionalGeneration
    """
    config = Qwen2_5_VLConfig(
        text_config=_text_settings(n_token, special, hidden, layers),
        vision_config=_vision_settings(hidden),
        image_token_id=special["image"],
        video_token_id=special["video"],
        vision_start_token_id=special["vision_start"],
        vision_end_token_id=special["vision_end"],
        tie_word_embeddings=True,
    )
    network = Qwen2_5_VLForConditionalGeneration(config)
    for parameter in network.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, 0, INIT_STD)
    return network


def _attend_equal_chunks(
    self: Any,
    hidden_states: Tensor,
    cu_seqlens: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    **_: Any,
) -> Tensor:
    """Attend within chunks of equal length in one call, not in a Python loop."""
    n_row, n_chunk = hidden_states.shape[0], int(cu_seqlens[1] - cu_seqlens[0])
    qkv = self.qkv(hidden_states).reshape(n_row, 3, self.num_heads, -1)
    query, key, value = qkv.unbind(1)
    query, key = stock.apply_rotary_pos_emb_vision(query, key, *position_embeddings)
    query, key, value = (
        x.reshape(n_row // n_chunk, n_chunk, self.num_heads, -1).transpose(1, 2)
        for x in (query, key, value)
    )
    mixed = functional.scaled_dot_product_attention(query, key, value)
    result: Tensor = self.proj(mixed.transpose(1, 2).reshape(n_row, -1))
    return result


def _embed_patches(self: Any, hidden_states: Tensor) -> Tensor:
    """Apply the patch convolution as the matrix product that it is."""
    return functional.linear(hidden_states, self.proj.weight.flatten(1))


@contextmanager
def fast_vision() -> Iterator[None]:
    """Run the vision tower by faster equivalents inside the context."""
    attention: Any = stock.Qwen2_5_VLVisionAttention
    embed: Any = stock.Qwen2_5_VisionPatchEmbed
    saved = attention.forward, embed.forward
    attention.forward, embed.forward = _attend_equal_chunks, _embed_patches
    try:
        yield
    finally:
        attention.forward, embed.forward = saved


def position_ids(n_text: int, prefix: int, n_pair: int, seconds: Tensor) -> Tensor:
    """Give the three-axis positions that the stock network gives, for a whole batch.

    Parameters
    ----------
    n_text : int
        Length of the padded sequences.
    prefix : int
        Tokens before the video, the same in every row.
    n_pair : int
        Pairs of frames a video.
    seconds : Tensor, shape (batch,), float32
        `second_per_grid` of each row.

    Returns
    -------
    positions : Tensor, shape (3, batch, n_text), int64
    """
    n_video = n_pair * PAIR_TOKENS
    cell = torch.arange(n_video)
    row, column = cell % PAIR_TOKENS // SIDE_TOKENS, cell % SIDE_TOKENS
    after = torch.arange(n_text - prefix - n_video) + prefix + SIDE_TOKENS
    spatial = [
        torch.cat([torch.arange(prefix), axis + prefix, after])
        for axis in (row, column)
    ]
    interval = TOKENS_PER_SECOND * seconds[:, None]
    time = (torch.arange(n_pair) * interval).long().repeat_interleave(PAIR_TOKENS, 1)
    batch = len(seconds)
    temporal = torch.cat(
        [
            torch.arange(prefix).expand(batch, -1),
            time + prefix,
            after.expand(batch, -1),
        ],
        1,
    )
    return torch.stack([temporal, *(axis.expand(batch, -1) for axis in spatial)])


def last_hidden_states(
    network: Qwen2_5_VLForConditionalGeneration,
    token_ids: Tensor,
    patches: Tensor,
    seconds: Tensor,
) -> Tensor:
    """Run the network on a batch whose videos have equal numbers of frames.

    Parameters
    ----------
    network : Qwen2_5_VLForConditionalGeneration
    token_ids : Tensor, shape (batch, length), int64
        Right-padded; the video begins at the same place in every row.
    patches : Tensor, shape (batch * rows, 1176), uint8
        From `patch_layout`.
    seconds : Tensor, shape (batch,), float32
        `second_per_grid` of each row.

    Returns
    -------
    hidden : Tensor, shape (batch, length, width)
    """
    is_video = token_ids == network.config.video_token_id
    prefix, n_video = int(is_video[0].int().argmax()), int(is_video[0].sum())
    n_pair, side = n_video // PAIR_TOKENS, SIDE_TOKENS * MERGE
    output = network.model(
        input_ids=token_ids,
        pixel_values_videos=normalise(patches),
        video_grid_thw=torch.tensor([[n_pair, side, side]]).expand(len(token_ids), 3),
        mm_token_type_ids=is_video.int() * 2,
        position_ids=position_ids(token_ids.shape[1], prefix, n_pair, seconds),
        use_cache=False,
    )
    hidden: Tensor = output.last_hidden_state
    return hidden
