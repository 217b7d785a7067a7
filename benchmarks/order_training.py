"""Does training against the option order help? The paper's attempts on the tiny model.

Backbone frozen, the shipped model is trained for a few steps on questions about new
scenes, each asked in several option orders: its output head alone, or low-rank adapters
(peft). The loss is cross-entropy on the right letter, plus lambda times the symmetric
Kullback-Leibler divergence of each order's answer distribution from the mean over the
orders, in content space; or cross-entropy on the content of which the frozen model is
sure over all orders, without any label. Before and after, the 200 shipped questions,
none of which was trained on, are scored in ten option orders from decoded video.

    python benchmarks/order_training.py [--steps 60] [--write docs/studies.md]

Needs peft, torch and transformers; a few minutes of one core.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from _report import page_with, replace_between
from torch import Tensor
from torch.nn import functional

import phasefusion as pf
from phasefusion import orders as option_orders
from phasefusion import stats, tinyvlm
from phasefusion.datasets import load_questions
from phasefusion.scoring import HFOptionScorer
from phasefusion.tinyvlm.batches import Batches, Example, Stage
from phasefusion.tinyvlm.network import (
    INPUT_SIDE_PX,
    PAIR_TOKENS,
    fast_vision,
    last_hidden_states,
    patch_layout,
    second_per_grid,
)
from phasefusion.tinyvlm.questions import DEFAULT_SUFFIX, prompt_text
from phasefusion.tinyvlm.tokens import Encoder

BUDGET = 8
TRAINED_ORDERS = 4
SCORED_ORDERS = 10
#: Sum of the letters' mean posterior above which the frozen model is taken at its word.
SURE = 0.9
RANK = 8
#: Scenes of other seeds than those of the shipped, held-out and training clips.
SCENE_SEED = 5501


@dataclass(frozen=True)
class Arm:
    """One way of training.

    Attributes
    ----------
    name : str
    trains : {"head", "adapters"}
    matching : float
        Weight of the divergence from the mean over orders.
    labels : bool
        Whether the right answer is trained on.
    pseudo : bool
        Whether what the frozen model is sure of is trained on.
    rate : float
        Peak learning rate.
    """

    name: str
    trains: str
    matching: float = 0.0
    labels: bool = True
    pseudo: bool = False
    rate: float = 1e-3


ARMS = (
    Arm("head, labels alone", "head"),
    Arm("head, labels + 10 x matching", "head", 10.0),
    Arm("adapters, labels alone", "adapters"),
    Arm("adapters, labels + 1 x matching", "adapters", 1.0),
    Arm("adapters, labels + 10 x matching", "adapters", 10.0),
    Arm("adapters, matching alone", "adapters", 1.0, labels=False),
    Arm("adapters, sure pseudo-labels", "adapters", labels=False, pseudo=True),
)


@dataclass(frozen=True)
class Batch:
    """Questions in several orders, a row a question and order.

    Attributes
    ----------
    ids, patches, seconds : Tensor
        For `last_hidden_states`.
    last : Tensor, shape (rows,)
        Where the answer is read.
    order : Tensor, shape (rows, 5)
        Content by letter; 0 beyond the options.
    inside : Tensor, shape (rows, 5), bool
        Letters that the question has.
    gold : Tensor, shape (rows,)
        Content.
    """

    ids: Tensor
    patches: Tensor
    seconds: Tensor
    last: Tensor
    order: Tensor
    inside: Tensor
    gold: Tensor


def batches(encoder: Encoder, steps: int, seed: int, questions: int) -> Iterator[Batch]:
    """Yield a batch a step: new scenes, new questions, new orders."""
    stage = Stage(steps, {BUDGET: 1.0}, 0.0, 0.0)
    source = Batches(encoder, None, (stage,), SCENE_SEED + seed)
    for step in range(steps):
        rng = np.random.default_rng([SCENE_SEED, seed, step])
        examples = [source._example(rng, stage, BUDGET) for _ in range(questions)]
        yield laid_out(encoder, examples, rng)


def laid_out(
    encoder: Encoder, examples: Sequence[Example], rng: np.random.Generator
) -> Batch:
    """Ask every question in `TRAINED_ORDERS` orders, the given one among them."""
    ids, order, gold = [], [], []
    for example in examples:
        question, k = example.question, len(example.question.options)
        shown = [np.arange(k), *(rng.permutation(k) for _ in range(TRAINED_ORDERS - 1))]
        n_video = len(example.indices) // 2 * PAIR_TOKENS
        for one in shown:
            options = tuple(question.options[c] for c in one)
            text = prompt_text(question.text, options, DEFAULT_SUFFIX)
            ids.append(encoder.prompt(text, n_video))
            order.append([*one.tolist(), *[0] * (5 - k)])
            gold.append(question.answer)
    longest, pad = max(map(len, ids)), encoder.ids["pad"]
    counts = np.repeat([len(e.question.options) for e in examples], TRAINED_ORDERS)
    seconds = [second_per_grid(e.indices / e.scene.fps) for e in examples]
    patches = [patch_layout(e.frames) for e in examples for _ in range(TRAINED_ORDERS)]
    return Batch(
        torch.tensor([row + [pad] * (longest - len(row)) for row in ids]),
        torch.from_numpy(np.concatenate(patches)),
        torch.tensor(seconds).repeat_interleave(TRAINED_ORDERS),
        torch.tensor([len(row) - 1 for row in ids]),
        torch.tensor(order),
        torch.from_numpy(np.arange(5) < counts[:, None]),
        torch.tensor(gold),
    )


def content_logp(network: Any, letters: Tensor, batch: Batch) -> Tensor:
    """Log-probabilities over the options by content, shape (questions, orders, 5).

    What lies beyond the options is -inf.
    """
    hidden = last_hidden_states(network, batch.ids, batch.patches, batch.seconds)
    rows = torch.arange(len(batch.ids))
    logits = network.lm_head(hidden[rows, batch.last])[:, letters]
    logp = logits.masked_fill(~batch.inside, -torch.inf).log_softmax(-1)
    by_content = torch.full_like(logp, -torch.inf)
    row, letter = batch.inside.nonzero(as_tuple=True)
    by_content = by_content.index_put(
        (row, batch.order[row, letter]), logp[row, letter]
    )
    return by_content.view(-1, TRAINED_ORDERS, 5)


def divergence(logp: Tensor) -> Tensor:
    """Symmetric divergence of each order from the mean over orders, mean of all."""
    inside = torch.isfinite(logp)
    mean = logp.exp().mean(1, keepdim=True)
    log_mean = mean.clamp_min(1e-12).log().expand_as(logp)
    finite = logp.masked_fill(~inside, 0.0)
    gap = (finite - log_mean.masked_fill(~inside, 0.0)) * inside
    return ((logp.exp() - mean) * gap).sum(-1).mean()


def loss_of(arm: Arm, logp: Tensor, frozen: Tensor | None, batch: Batch) -> Tensor:
    """Loss of one batch; the parts of an arm, added."""
    finite = logp.masked_fill(~torch.isfinite(logp), -1e4)
    total = logp.new_zeros(())
    if arm.labels:
        total = total + functional.nll_loss(finite.flatten(0, 1), batch.gold)
    if arm.matching:
        total = total + arm.matching * divergence(logp)
    if frozen is not None:
        share, said = frozen.exp().mean(1).max(-1)
        sure = share > SURE
        if sure.any():
            wanted = said[sure].repeat_interleave(TRAINED_ORDERS)
            total = total + functional.nll_loss(finite[sure].flatten(0, 1), wanted)
    return total


def prepare(network: Any, arm: Arm) -> list[Any]:
    """Freeze everything but what the arm trains, and return that."""
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    if arm.trains == "head":
        weight = network.lm_head.weight.detach().clone()
        network.lm_head.weight = torch.nn.Parameter(weight)  # no longer the embedding
        return [network.lm_head.weight]
    from peft import LoraConfig, inject_adapter_in_model

    targets = r".*language_model\.layers\.\d+\.self_attn\.(q|k|v|o)_proj"
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=targets)
    inject_adapter_in_model(config, network)
    return [p for p in network.parameters() if p.requires_grad]


def merge(network: Any) -> None:
    """Fold adapters into the weights that they adapt."""
    from peft.tuners.lora import LoraLayer

    for module in network.modules():
        if isinstance(module, LoraLayer):
            module.merge()


def train(arm: Arm, start: Any, tokenizer: Any, args: argparse.Namespace) -> Any:
    """Train a copy of the network; return it in evaluation mode."""
    torch.manual_seed(args.seed)
    network = copy.deepcopy(start)
    trained = prepare(network, arm)
    encoder = Encoder(tokenizer)
    letters = torch.tensor(encoder.letters)
    optimizer = torch.optim.AdamW(trained, lr=arm.rate, weight_decay=0.0)
    with fast_vision():
        stream = batches(encoder, args.steps, args.seed, args.questions)
        for step, batch in enumerate(stream):
            ramp = min(1.0, (step + 1) / 10, (args.steps - step) / (args.steps / 3))
            for group in optimizer.param_groups:
                group["lr"] = arm.rate * ramp
            frozen = None
            if arm.pseudo:
                with torch.no_grad():
                    frozen = content_logp(start, letters, batch)
            logp = content_logp(network, letters, batch)
            loss = loss_of(arm, logp, frozen, batch)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(trained, 1.0)
                optimizer.step()
            optimizer.zero_grad()
    if arm.trains == "adapters":
        merge(network)
    return network.eval()


@dataclass(frozen=True)
class Measured:
    """What a network answers in ten orders.

    Attributes
    ----------
    answers : ndarray, shape (n, M), int64
        Content; -1 beyond an item's distinct orders.
    gold : ndarray, shape (n,), int64
    spread : float
        Standard deviation of an option's posterior over the orders, mean of all.
    """

    answers: Any
    gold: Any
    spread: float

    @property
    def right(self) -> Any:
        """Share of orders answered right, by item."""
        there = self.answers >= 0
        return ((self.answers == self.gold[:, None]) & there).sum(1) / there.sum(1)

    @property
    def flips(self) -> Any:
        return stats.flip_rates(self.answers, policy="available-macro")


class HeldOut:
    """The shipped questions, their frames read once."""

    def __init__(self, limit: int | None) -> None:
        self.items = load_questions(tinyvlm.questions_path())[:limit]
        grid = pf.PhaseGrid(BUDGET)
        read = {
            video: pf.read_clip(video, grid, size=(INPUT_SIDE_PX, INPUT_SIDE_PX))
            for video in {item.video for item in self.items}
        }
        self.clips = [read[item.video] for item in self.items]
        self.videos = [item.video_id for item in self.items]

    def measure(self, network: Any, tokenizer: Any) -> Measured:
        """Score every question in ten option orders, repeats left out."""
        scorer = HFOptionScorer(network, tokenizer, size=(INPUT_SIDE_PX, INPUT_SIDE_PX))
        answers = np.full((len(self.items), SCORED_ORDERS), -1)
        spread = []
        for i, (item, clip) in enumerate(zip(self.items, self.clips, strict=True)):
            shown = option_orders.shared(len(item.options), SCORED_ORDERS)
            shown = shown[option_orders.distinct(shown)]
            made = scorer.score(clip, item.question, item.options, orders=shown)
            answers[i, : len(shown)] = made.logprobs[0].argmax(axis=1)
            spread.append(pf.posterior(made.logprobs[0]).std(axis=0).mean())
        gold = np.array([item.gold for item in self.items])
        return Measured(answers, gold, float(np.mean(spread)))


@dataclass(frozen=True)
class Row:
    """One line of the table: an arm after training, against before."""

    name: str
    measured: Measured
    seconds: float
    p_flips: float
    points: Any


def compare(
    name: str, now: Measured, before: Measured, videos: Sequence[str], seconds: float
) -> Row:
    flips = [one.flips.per_item_any == 1 for one in (before, now)]
    p = float(stats.mcnemar(*stats.discordant(*flips)).pvalue)
    points = stats.clustered_mean(
        now.right - before.right, list(videos), limits=(-1.0, 1.0)
    )
    return Row(name, now, seconds, p, points)


def cells(row: Row, adjusted: float | None) -> list[str]:
    now = row.measured
    points = "–"
    if adjusted is not None:
        low, high = 100 * row.points.low, 100 * row.points.high
        points = f"{100 * row.points.mean:+.1f} [{low:+.1f}, {high:+.1f}]"
    return [
        row.name,
        f"{100 * now.flips.any:.1f}",
        "–" if adjusted is None else f"{adjusted:.2g}",
        f"{100 * now.flips.pairwise:.1f}",
        f"{100 * now.right.mean():.1f}",
        points,
        f"{now.spread:.3f}",
        f"{row.seconds:.0f}",
    ]


HEADER = (
    "| trained | changes under some order, % | p | two orders differ, % | right, % | "
    "points [95 %] | spread | s |",
    "|---|---:|---:|---:|---:|---:|---:|---:|",
)


def verdict(rows: Sequence[Row], adjusted: Sequence[float]) -> str:
    """Say in words what the table shows, whatever it shows."""
    before, *after = rows
    flips = before.measured.flips.any
    fewer, more, costs, gains = [], [], [], []
    of_points = stats.adjust_pvalues([row.points.pvalue for row in after])
    for row, p, q in zip(after, adjusted, of_points, strict=True):
        if p < 0.05:
            (fewer if row.measured.flips.any < flips else more).append(row.name)
        if q < 0.05:
            (costs if row.points.mean < 0 else gains).append(row.name)
    said = []
    said.append(
        f"Order flips fell with: {'; '.join(fewer)}."
        if fewer
        else "No way of training lowered the share of questions that change under some "
        "order by more than chance would."
    )
    if more:
        said.append(f"They rose with: {'; '.join(more)}.")
    if costs:
        said.append(f"Accuracy fell with: {'; '.join(costs)}.")
    if gains:
        said.append(f"Accuracy rose with: {'; '.join(gains)}.")
    if not gains and not costs:
        said.append(
            "Nor did accuracy change by more than chance would, once the number of "
            "comparisons is accounted for (Holm)."
        )
    return " ".join(said)


def report(rows: Sequence[Row], args: argparse.Namespace, n: int) -> str:
    adjusted = [float(p) for p in stats.adjust_pvalues([r.p_flips for r in rows[1:]])]
    table = [cells(rows[0], None)]
    table += [cells(row, p) for row, p in zip(rows[1:], adjusted, strict=True)]
    lines = [*HEADER, *(f"| {' | '.join(row)} |" for row in table)]
    lines += [
        "",
        f"{n} questions, {SCORED_ORDERS} orders (six of three options), {BUDGET} "
        f"frames; {args.steps} steps of {args.questions} new questions in "
        f"{TRAINED_ORDERS} orders, seed {args.seed}; adapters of rank {RANK} on the "
        "attention of the language model. p: McNemar's, exact, of the questions that "
        "change under some order before and after, Holm's over the ways of training. "
        "Points: accuracy over all orders after minus before, intervals clustered by "
        "video. Spread: standard deviation of an option's posterior over the orders. "
        "s: seconds of training on one core.",
        "",
        verdict(rows, adjusted),
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--questions", type=int, default=8, help="a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="questions held out")
    page = page_with("order training")
    parser.add_argument("--write", type=page, help="page with the marks of this study")
    args = parser.parse_args()
    if importlib.util.find_spec("peft") is None:
        print("peft is not installed: nothing is trained")
        return 0
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tinyvlm.model_dir())
    load = transformers.AutoModelForImageTextToText.from_pretrained
    start = load(tinyvlm.model_dir(), dtype=torch.float32).eval()
    held_out = HeldOut(args.limit)
    before = held_out.measure(start, tokenizer)
    rows = [compare("nothing", before, before, held_out.videos, 0.0)]
    print(HEADER[0])
    print(f"| {' | '.join(cells(rows[0], None))} |", flush=True)
    for arm in ARMS:
        began_s = time.process_time()
        network = train(arm, start, tokenizer, args)
        seconds = time.process_time() - began_s
        now = held_out.measure(network, tokenizer)
        rows.append(compare(arm.name, now, before, held_out.videos, seconds))
        print(f"| {' | '.join(cells(rows[-1], rows[-1].p_flips))} |", flush=True)
    text = report(rows, args, len(held_out.items))
    print(f"\n{text}")
    if args.write is not None:
        replace_between(args.write, "order training", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
