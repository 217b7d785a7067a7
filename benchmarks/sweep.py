"""Three phases times ten option orders: a sweep against thirty plain passes.

    python benchmarks/sweep.py [--rounds N] [--threads N] [--json FILE]

A stock Qwen2.5-VL with random weights reads three phases of one clip and scores four
options in ten orders, once with everything shared and once a full pass at a time, in
turn. Exits with 1 when a goal is missed: the sweep has to be 7 times as fast, and reach
0.85 of the ratio that token counts allow; scores have to be equal to 1e-5.

The tokens are counted while both ways run, as they enter the language model and the
vision tower. Their ratio is taken over both, a token or patch weighing what it costs
in the one or the other: the parameters that it is multiplied by.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import _report
import numpy as np
from _report import Goal, Row

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import tokenizers
import torch
import transformers

from phasefusion.grid import PhaseGrid
from phasefusion.scoring import HFOptionScorer, PromptTemplate
from phasefusion.video import Clip

GOAL = Goal(7.0)
SHARE = Goal(0.85)
SIDE_PX = 448
N_FRAMES = 8
N_PHASES = 3
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
    """Four text layers and two vision layers of width 512 and 128."""
    rope = {"rope_type": "default", "mrope_section": [8, 12, 12], "rope_theta": 1e6}
    if int(transformers.__version__.split(".")[0]) >= 5:
        position = {"rope_parameters": rope}
    else:
        position = {"rope_scaling": {**rope, "type": "mrope"}, "rope_theta": 1e6}
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in CHAT_TOKENS}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 512,
            "intermediate_size": 1536,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 8192,
            "bos_token_id": None,
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|im_end|>"],
            **position,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_heads": 4,
            "out_hidden_size": 512,
            "fullatt_block_indexes": [1],
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
    """Three phases of random frames, a second apart."""
    shape = (N_PHASES, N_FRAMES, SIDE_PX, SIDE_PX, 3)
    indices = np.arange(N_FRAMES * N_PHASES).reshape(N_FRAMES, N_PHASES).T
    return Clip(
        frames=np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8),
        indices=indices.astype(np.int64),
        times_s=indices.astype(np.float64),
        missing=np.zeros(indices.shape, dtype=np.bool_),
        grid=PhaseGrid(N_FRAMES, N_PHASES),
        info=None,
    )


class Counter:
    """Tokens that enter the language model, patches that enter the vision tower."""

    def __init__(self, model: transformers.PreTrainedModel) -> None:
        self.tokens = self.patches = self.visual = 0
        inner = model.model
        inner.language_model.register_forward_pre_hook(self._text, with_kwargs=True)
        inner.visual.patch_embed.register_forward_pre_hook(self._vision)
        self._weights = (weight_of(inner.language_model), weight_of(inner.visual))

    def _text(self, module: object, args: object, kwargs: dict[str, Any]) -> None:
        self.tokens += kwargs["inputs_embeds"].shape[:2].numel()

    def _vision(self, module: object, args: tuple[torch.Tensor]) -> None:
        self.patches += len(args[0])

    def take(self) -> tuple[int, int, float]:
        """What was counted since the last call: tokens, patches, both weighed."""
        text, vision = self._weights
        found = self.tokens, self.patches
        self.tokens = self.patches = 0
        return *found, float(found[0] * text + found[1] * vision)


def weight_of(module: torch.nn.Module) -> int:
    """The parameters that a token is multiplied by, embeddings not among them."""
    return sum(
        layer.weight.numel()
        for layer in module.modules()
        if isinstance(layer, torch.nn.Linear)
    )


def main() -> int:
    """Time both ways in turn; 0 when the goals are met."""
    parser = _report.parser(__doc__, 3)
    parser.add_argument("--threads", type=int, default=1)
    options = _report.parse(parser)
    torch.set_num_threads(options.threads)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    counter = Counter(model)
    clip = build_clip()
    rng = np.random.default_rng(0)
    orders = np.array([rng.permutation(len(OPTIONS)) for _ in range(N_ORDERS)])
    seconds: dict[bool, list[float]] = {True: [], False: []}
    counts, scores = {}, {}

    def new_scorer(reuse: bool) -> HFOptionScorer:
        """A scorer that has seen no frame yet."""
        size = (SIDE_PX, SIDE_PX)
        return HFOptionScorer(model, tokenizer, size=size, reuse_prefix=reuse)

    for reuse in (True, False):  # what is loaded at the first use is not timed
        new_scorer(reuse).score(clip, QUESTION, OPTIONS, orders=orders[:2])
    counter.take()
    for _ in range(options.rounds):
        for reuse in (True, False):
            scorer = new_scorer(reuse)
            start = time.process_time()
            scores[reuse] = scorer.score(clip, QUESTION, OPTIONS, orders=orders)
            seconds[reuse].append(time.process_time() - start)
            counts[reuse] = counter.take()
    n_visual = clip.frames[0].size // 3 // 2 // 28**2
    print(f"{n_visual} visual tokens a phase, {N_PHASES} phases, {N_ORDERS} orders")
    for reuse, name in ((True, "sweep"), (False, "plain passes")):
        tokens, patches, _ = counts[reuse]
        print(f"{name:14} {tokens:6} tokens  {patches:7} patches")
    allowed = counts[False][2] / counts[True][2]
    apart = float(np.abs(scores[True].logprobs - scores[False].logprobs).max())
    spread = float(np.ptp(scores[False].logprobs, axis=1).max())
    title = (
        f"{N_PHASES} phases × {N_ORDERS} orders, {n_visual:,} visual tokens, "
        "tiny Qwen2.5-VL, against plain passes"
    )
    row = _report.ratio_row(
        "time",
        title,
        seconds[False],
        seconds[True],
        GOAL,
        f"{N_PHASES * N_ORDERS} plain passes",
        detail=f"scores {apart:.1e} nats apart; orders differ by {spread:.1e}",
        wrong=not apart <= 1e-5 < spread,
    )
    reached = row.value / allowed
    what = "Of the ratio that counts of tokens and patches allow, reached"
    detail = f"they allow {allowed:.2f}x"
    rows = [row, Row("share", what, reached, "", goal=SHARE, detail=detail)]
    for row in rows:
        _report.print_row(row)
    return _report.finish(rows, options, _report.versions_of("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
