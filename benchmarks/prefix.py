"""Ten option orders of one clip: one shared visual prefix against ten full passes.

    python benchmarks/prefix.py [--rounds N] [--threads N]

A stock Qwen2.5-VL with random weights reads 8 frames of 448 x 448 pixels, 1024 video
tokens, and scores four options in ten orders. Both ways are timed in turn and give the
same scores. Exits with 1 when sharing the prefix is less than 4 times as fast.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import tokenizers
import torch
import transformers

from phasefusion.grid import PhaseGrid
from phasefusion.scoring import HFOptionScorer, PromptTemplate
from phasefusion.video import Clip

GOAL = 4.0
SIDE_PX = 448
N_FRAMES = 8
N_ORDERS = 10
CHAT_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% for c in m['content'] %}{% if c['type'] == 'video' %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
QUESTION = "What does the person do after opening the door?"
OPTIONS = (
    "Walks down the stairs",
    "Turns around and waves",
    "Picks up a red umbrella",
    "Closes it and sits down",
)


def build_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Byte pairs in which every word of the prompt is a token, as in large ones."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=1,
        special_tokens=list(CHAT_TOKENS),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    prompt = PromptTemplate().render(QUESTION, OPTIONS)
    inner.train_from_iterator([prompt, "assistant", "user"], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=CHAT_TOKENS[1],
        additional_special_tokens=list(CHAT_TOKENS),
        chat_template=TEMPLATE,
    )


def build_model(
    tokenizer: transformers.PreTrainedTokenizerFast,
) -> transformers.Qwen2_5_VLForConditionalGeneration:
    """Six text layers and four vision layers of width 256 and 128."""
    rope = {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 1e6}
    if int(transformers.__version__.split(".")[0]) >= 5:
        position = {"rope_parameters": rope}
    else:
        position = {"rope_scaling": {**rope, "type": "mrope"}, "rope_theta": 1e6}
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in CHAT_TOKENS}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 256,
            "intermediate_size": 704,
            "num_hidden_layers": 6,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 8192,
            "bos_token_id": None,
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|im_end|>"],
            **position,
        },
        vision_config={
            "depth": 4,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_heads": 4,
            "out_hidden_size": 256,
            "fullatt_block_indexes": [1, 3],
            "window_size": 112,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(0)
    return transformers.Qwen2_5_VLForConditionalGeneration(config).eval()


def build_clip() -> Clip:
    """One phase of random frames, a second apart."""
    shape = (1, N_FRAMES, SIDE_PX, SIDE_PX, 3)
    times = np.arange(N_FRAMES, dtype=np.float64)[None, :]
    return Clip(
        frames=np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8),
        indices=times.astype(np.int64),
        times_s=times,
        missing=np.zeros(times.shape, dtype=np.bool_),
        grid=PhaseGrid(N_FRAMES),
        info=None,
    )


def main() -> int:
    """Time both ways in turn; 0 when the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    clip = build_clip()
    rng = np.random.default_rng(0)
    orders = np.array([rng.permutation(len(OPTIONS)) for _ in range(N_ORDERS)])
    seconds: dict[bool, list[float]] = {True: [], False: []}
    scores = {}
    for _ in range(arguments.rounds):
        for reuse in (True, False):
            scorer = HFOptionScorer(
                model, tokenizer, size=(SIDE_PX, SIDE_PX), reuse_prefix=reuse
            )
            start = time.perf_counter()
            scores[reuse] = scorer.score(clip, QUESTION, OPTIONS, orders=orders)
            seconds[reuse].append(time.perf_counter() - start)
    shared, full = (statistics.median(seconds[reuse]) for reuse in (True, False))
    apart = float(np.abs(scores[True].logprobs - scores[False].logprobs).max())
    ratio = full / shared
    print(f"shared prefix  {shared:8.3f} s   (median of {arguments.rounds})")
    print(f"full passes    {full:8.3f} s")
    print(f"ratio          {ratio:8.2f}     goal {GOAL:g}")
    print(f"largest difference between the scores {apart:.1e} nats")
    return 0 if ratio >= GOAL and apart <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
