"""Measure a checkpoint on question files of H.264 clips.

Run as ``python -m phasefusion.tinyvlm.evaluate --model DIR --out results.json
QUESTIONS...``. A pass scores the options' letters at the answer's position by one
forward pass and maps them back from presentation to content order.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForImageTextToText, AutoTokenizer

from phasefusion.grid import PhaseGrid
from phasefusion.tinyvlm.clips import BANK_GRID, resize_frames
from phasefusion.tinyvlm.network import (
    INPUT_SIDE_PX,
    PAIR_TOKENS,
    fast_vision,
    last_hidden_states,
    patch_layout,
    second_per_grid,
)
from phasefusion.tinyvlm.questions import (
    DEFAULT_SUFFIX,
    KINDS,
    TEXT_SUFFIX,
    prompt_text,
)
from phasefusion.tinyvlm.tokens import Encoder
from phasefusion.video import read_clip

__all__ = ["Item", "Model", "evaluate", "letter_posteriors", "load_items", "main"]

_MAX_OPTION = 5
_CHUNK = 48


@dataclass(frozen=True, slots=True)
class Item:
    """One question with the frames of its clip on the finest grid."""

    kind: str
    video_id: str
    question: str
    options: tuple[str, ...]
    answer: int
    times_s: NDArray[np.float64]
    frames: NDArray[np.uint8]

    def view(self, budget: int, part: int) -> tuple[NDArray[np.uint8], float]:
        """Frames and `second_per_grid` of a grid, offset by `part` fine steps."""
        at = np.arange(budget) * (BANK_GRID // budget) + part
        return self.frames[at], second_per_grid(self.times_s[at])


@dataclass(frozen=True, slots=True)
class Model:
    """A stock checkpoint with the encoder of its prompts."""

    network: Any
    encoder: Encoder

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32) -> Model:
        """Load a checkpoint folder through the stock classes."""
        network: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype)
        return cls(network.eval(), Encoder(AutoTokenizer.from_pretrained(folder)))


def load_items(questions: Path) -> list[Item]:
    """Read a question file and decode and resize its clips, each once.

    Parameters
    ----------
    questions : Path
        A file as `write_dataset` writes it.

    Returns
    -------
    items : list of Item
    """
    items: list[Item] = []
    clips: dict[str, tuple[NDArray[np.float64], NDArray[np.uint8]]] = {}
    grid = PhaseGrid(BANK_GRID, origin="left")
    for line in questions.read_text().splitlines():
        q = json.loads(line)
        if q["video"] not in clips:
            clip = read_clip(questions.parent / q["video"], grid)
            small = resize_frames(clip.frames[0], INPUT_SIDE_PX)
            clips[q["video"]] = clip.times_s[0], small
        options = tuple(q["options"])
        text = q["type"], q["video_id"], q["question"], options, q["answer"]
        items.append(Item(*text, *clips[q["video"]]))
    return items


def _forward(
    model: Model,
    views: Sequence[tuple[NDArray[np.uint8], float]],
    texts: Sequence[str],
    answers: Sequence[Sequence[int]],
) -> list[torch.Tensor]:
    """Log-probabilities of the vocabulary, one row for each token of an answer."""
    n_video = len(views[0][0]) // 2 * PAIR_TOKENS
    prompts = [model.encoder.prompt(t, n_video) for t in texts]
    rows = [[*p, *a[:-1]] for p, a in zip(prompts, answers, strict=True)]
    longest, pad = max(map(len, rows)), model.encoder.ids["pad"]
    ids = torch.tensor([r + [pad] * (longest - len(r)) for r in rows])
    patches = torch.from_numpy(np.concatenate([patch_layout(v) for v, _ in views]))
    seconds = torch.tensor([s for _, s in views])
    hidden = last_hidden_states(model.network, ids, patches, seconds)
    spans = zip(hidden, prompts, rows, strict=True)
    kept = [h[len(p) - 1 : len(r)] for h, p, r in spans]
    return [model.network.lm_head(h).float().log_softmax(-1) for h in kept]


@torch.inference_mode()
def letter_posteriors(
    model: Model,
    items: Sequence[Item],
    *,
    budget: int = 8,
    part: int = 0,
    orders: Sequence[NDArray[np.integer]] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior of each option in content order.

    Parameters
    ----------
    model : Model
    items : sequence of Item
    budget, part : int
        Frames, and the offset of their grid in fine steps (1/96 of the clip).
    orders : sequence of ndarray, optional
        Presentation order of each item, ``order[position] = content``.

    Returns
    -------
    posterior : ndarray, shape (n, 5), float64
        Softmax over the valid letters, 0 beyond an item's options.
    mass : ndarray, shape (n,), float64
        Probability of all valid letters together, over the whole vocabulary.
    """
    posterior, mass = np.zeros((len(items), _MAX_OPTION)), np.zeros(len(items))
    for begin in range(0, len(items), _CHUNK):
        part_items = items[begin : begin + _CHUNK]
        order = [
            np.arange(len(i.options)) if orders is None else orders[begin + k]
            for k, i in enumerate(part_items)
        ]
        texts = [
            prompt_text(i.question, tuple(i.options[c] for c in o), DEFAULT_SUFFIX)
            for i, o in zip(part_items, order, strict=True)
        ]
        views = [i.view(budget, part) for i in part_items]
        scored = _forward(model, views, texts, [[0]] * len(texts))
        for k, (row, o) in enumerate(zip(scored, order, strict=True)):
            prob = row[0, model.encoder.letters[: len(o)]].double().exp().numpy()
            mass[begin + k] = prob.sum()
            posterior[begin + k, o] = prob / prob.sum()
    return posterior, mass


@torch.inference_mode()
def text_answers(model: Model, items: Sequence[Item]) -> NDArray[np.int64]:
    """Answer by the likelihood of each option's text, asked for the text."""
    answers = []
    for item in items:
        text = prompt_text(item.question, item.options, TEXT_SUFFIX)
        end = model.encoder.ids["end"]
        tokens = [[*model.encoder.line(o), end] for o in item.options]
        views = [item.view(8, 6)] * len(tokens)
        scored = _forward(model, views, [text] * len(tokens), tokens)
        pairs = zip(scored, tokens, strict=True)
        total = [float(s[range(len(t)), t].sum()) for s, t in pairs]
        answers.append(int(np.argmax(total)))
    return np.array(answers)


def _auroc(score: NDArray[np.float64], label: NDArray[np.bool_]) -> float | None:
    """Probability that a labelled item scores higher; ties count half."""
    yes, no = score[label], score[~label]
    if len(yes) == 0 or len(no) == 0:
        return None
    return round(float((np.sign(yes[:, None] - no) / 2 + 0.5).mean()), 4)


def _share(value: NDArray[np.bool_]) -> float | None:
    """Share of true values, None where there are no values."""
    return round(float(value.mean()), 4) if len(value) else None


def _mean(value: NDArray[Any], cluster: NDArray[Any]) -> list[float]:
    """Mean and its standard error, clustered by clip."""
    value = value.astype(float)
    rest = value - value.mean()
    sums = [rest[cluster == c].sum() for c in np.unique(cluster)]
    error = float(np.sqrt(np.square(sums).sum())) / len(value)
    return [round(float(value.mean()), 4), round(error, 4)]


def _columns(model: Model, items: Sequence[Item]) -> dict[str, NDArray[Any]]:
    """Every measured quantity, one value an item."""
    rng = np.random.default_rng(5)
    gold = np.array([i.answer for i in items])
    sixths = [letter_posteriors(model, items, part=2 * p) for p in range(6)]
    prob = [p for p, _ in sixths]
    union = [letter_posteriors(model, items, budget=24, part=p)[0] for p in (2, 0)]
    fused = [np.mean(prob[1::2], 0), np.mean(prob[0::2], 0)]
    answer = [p.argmax(1) for p in prob]
    n_option = [len(i.options) for i in items]
    rolled = [[np.roll(np.arange(k), r % k) for k in n_option] for r in range(4)]
    drawn = [[rng.permutation(k) for k in n_option] for _ in range(10)]

    def answers(orders: Sequence[NDArray[Any]]) -> NDArray[Any]:
        posterior, _ = letter_posteriors(model, items, part=6, orders=orders)
        answer: NDArray[Any] = posterior.argmax(1)
        return answer

    rotations = np.stack([answers(o) for o in rolled])
    ten = np.stack([answers(o) for o in drawn])
    pairs = [(a, b) for a in range(10) for b in range(a)]
    first, single, last = answer[1], answer[3], answer[5]
    flipped = [first != single, first != last, single != last]
    top = np.sort(prob[3], 1)
    fused_top = np.sort(fused[0], 1)
    return {
        "accuracy_first_phase": first == gold,
        "accuracy_single": single == gold,
        "accuracy_last_phase": last == gold,
        "accuracy_fused": fused[0].argmax(1) == gold,
        "accuracy_union_24": union[0].argmax(1) == gold,
        "accuracy_text": text_answers(model, items) == gold,
        "phase_flip_pairwise": np.mean(flipped, 0),
        "phase_flip_any": np.any(flipped, 0),
        "half_step_single": single != answer[0],
        "half_step_fused": fused[0].argmax(1) != fused[1].argmax(1),
        "half_step_union_24": union[0].argmax(1) != union[1].argmax(1),
        "order_flip_any_rotations": (rotations != rotations[0]).any(0),
        "order_flip_any_ten": (ten != ten[0]).any(0),
        "order_flip_pairwise_ten": np.mean([ten[a] != ten[b] for a, b in pairs], 0),
        "margin_single": top[:, -1] - top[:, -2],
        "margin_fused": fused_top[:, -1] - fused_top[:, -2],
        "letter_mass": sixths[3][1],
    }


def evaluate(model: Model, items: Sequence[Item]) -> dict[str, Any]:
    """Measure accuracy, flips, fusion and margins.

    Returns
    -------
    result : dict
        ``types`` maps "all" and each question type to ``n`` and [mean, standard error]
        pairs; standard errors are clustered by clip. The three phases are 1/6, 1/2 and
        5/6 of a step; "single" is phase 1/2, and the half-step figures compare each
        grid with itself moved by half of its own step. ``auroc_low_margin`` tells how
        well a low top-two margin of "single" picks out flipped or wrong items.
    """
    begin = time.monotonic()
    with fast_vision():
        columns = _columns(model, items)
    kind = np.array([i.kind for i in items])
    cluster = np.array([i.video_id for i in items])
    types: dict[str, Any] = {}
    for name in ("all", *KINDS):
        rows = (kind == name) | (name == "all")
        if not rows.any():
            continue
        part = {k: _mean(v[rows], cluster[rows]) for k, v in columns.items()}
        types[name] = {"n": int(rows.sum()), **part}
    low = -columns["margin_single"]
    wrong = ~columns["accuracy_single"]
    flips = ("phase_flip_any", "order_flip_any_rotations", "order_flip_any_ten")
    chance = np.mean([1 / len(i.options) for i in items])
    return {
        "n_clip": len(np.unique(cluster)),
        "chance": round(float(chance), 4),
        "seconds": round(time.monotonic() - begin),
        "types": types,
        "auroc_low_margin": {
            **{k: _auroc(low, columns[k]) for k in flips},
            "wrong": _auroc(low, wrong),
        },
        "wrong_given_flip": {
            k: [_share(wrong[columns[k] == flipped]) for flipped in (True, False)]
            for k in flips
        },
    }


def summary(result: dict[str, Any]) -> str:
    """One readable line a question type."""
    keys: tuple[str, ...]
    keys = ("accuracy_single", "accuracy_fused", "accuracy_union_24", "accuracy_text")
    keys += ("phase_flip_pairwise", "half_step_single", "half_step_fused")
    keys += ("order_flip_any_rotations", "order_flip_any_ten")
    lines = [" ".join(["type".ljust(10), *(k[-16:].rjust(16) for k in keys)])]
    for name, row in result["types"].items():
        cells = (f"{row[k][0]:.3f}±{row[k][1]:.3f}".rjust(16) for k in keys)
        lines.append(" ".join([name.ljust(10), *cells]))
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Evaluate from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("questions", type=Path, nargs="+")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    model = Model.load(args.model)
    results = {}
    for path in args.questions:
        result = evaluate(model, load_items(path))
        print(f"{path}\n{summary(result)}", flush=True)
        results[path.parent.name] = result
    if args.out is not None:
        args.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
