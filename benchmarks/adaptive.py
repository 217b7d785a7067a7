"""Half-step changes and accuracy against passes: adaptive phases, fixed ones, a vote.

    python benchmarks/adaptive.py [--questions N] [--videos N] [--json FILE]
        [--write FILE]

The shipped model answers the questions of the shipped clips in their own option order,
and simulated models those of `phasefusion.simulate`, at twelve phases of a grid of 8
frames: six phases and their twins half a dense step on. From every one of the twelve as
the first, each way of answering takes as many as it wants:

* fixed: S = 1, 2, 3 or 6 equally spaced phases, fused; vote: the plurality of 3 or 6;
* adaptive: up to 6 phases, or up to 3, each as far as can be from those before it,
  until the fused margin reaches a threshold.

Measured over all twelve, with intervals that take a video's questions as one cluster:

* passes a question;
* changes when everything moves by half a step: of S phases by half a dense step, which
  is the same set for odd S and the farthest that it can be; of adaptive phases by the
  seven twelfths that move the first one as far and the set by half a dense step;
* changes between two of the twelve chosen at random: the same shifts for all;
* accuracy.

For the passes of each fixed S, the adaptive rule whose cost comes closest from below is
compared with it question by question. Then thresholds are certified on one half of the
videos and seen on the other. --write writes everything between the marks of a file.
There is no goal: it is a study, and the exit code is 0 whatever it finds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import _report

from phasefusion import simulate, stats
from phasefusion.datasets import load_questions
from phasefusion.errors import DuplicateFrameWarning
from phasefusion.fusion import fuse_items, posterior
from phasefusion.grid import PhaseGrid
from phasefusion.tinyvlm import model_dir, questions_path
from phasefusion.video import read_clips

BUDGET, PHASES = 8, 6
PLACES = 2 * PHASES
FIXED = (1, 2, 3, 6)
VOTES = (3, 6)
#: In nats; chosen before anything was measured.
THRESHOLDS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
LEVELS = (0.1, 0.05, 0.02)
DELTA = 0.1
SPLITS = 200


@dataclass(frozen=True, slots=True)
class Corpus:
    """Posteriors at every place, shape (n, 12, K), and what is right."""

    name: str
    posteriors: NDArray[np.float64]
    gold: NDArray[np.int64]
    n_options: NDArray[np.int64]
    videos: NDArray[Any]
    ids: list[str]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of answering: answers and passes from every place, shape (n, 12)."""

    name: str
    answers: NDArray[np.int64]
    passes: NDArray[np.int64]
    shift: int  # places that are half a step

    @property
    def cost(self) -> float:
        return float(self.passes.mean())

    def changes(self) -> NDArray[np.float64]:
        """Share of the places at which half a step changes the answer, by question."""
        moved = np.roll(self.answers, -self.shift, axis=1)
        return (self.answers != moved).mean(axis=1)

    def differences(self) -> NDArray[np.float64]:
        """Share of the pairs of places with different answers, by question."""
        return stats.flip_rates(self.answers).per_item_pairwise

    def right(self, gold: NDArray[np.int64]) -> NDArray[np.float64]:
        return (self.answers == gold[:, None]).mean(axis=1)


def shipped(limit: int | None) -> Corpus:
    """Ask the shipped model at every place; one decode a clip."""
    from phasefusion.scoring import HFOptionScorer

    scorer = HFOptionScorer.from_pretrained(model_dir())
    groups = defaultdict(list)
    items = load_questions(questions_path())[:limit]
    for item in items:
        groups[item.video].append(item)
    grid = PhaseGrid(BUDGET, PLACES, "left")
    width = max(len(item.options) for item in items)
    found = {}
    for video, asked in groups.items():
        (clip,) = read_clips(video, [grid])
        for item in asked:
            k = len(item.options)
            order = np.arange(k)[None]
            scores = scorer.score(clip, item.question, item.options, orders=order)
            p = np.zeros((PLACES, width))
            p[:, :k] = posterior(np.asarray(scores)[:, 0])
            found[item.question_id] = p
    return Corpus(
        "Shipped model on shipped clips",
        np.stack([found[item.question_id] for item in items]),
        np.array([-1 if item.gold is None else item.gold for item in items]),
        np.array([len(item.options) for item in items]),
        np.array([item.video_id for item in items]),
        [item.question_id for item in items],
    )


def simulated(name: str, n_videos: int, **effects: float) -> Corpus:
    """Draw a corpus; six phases are the odd places and their twins the even ones."""
    made = simulate.corpus(
        simulate.Effects(**effects),
        n_videos=n_videos,
        phases=PHASES,
        budget=BUDGET,
        orders="identity",
        seed=7,
    )
    places = np.stack(
        [made.logprobs("phase", shifted=shifted)[:, :, 0] for shifted in (True, False)],
        axis=2,
    )
    n, _, _, width = places.shape
    return Corpus(
        name,
        posterior(places.reshape(n, PLACES, width)),
        made.gold,
        made.n_options,
        made.video,
        made.question_ids,
    )


def views_from(corpus: Corpus, first: int, steps: Sequence[int]) -> NDArray[np.float64]:
    return corpus.posteriors[:, [(first + step) % PLACES for step in steps]]


def fixed(corpus: Corpus, s: int, vote: bool) -> Way:
    steps = [k * PLACES // s for k in range(s)]
    answers = np.empty((len(corpus.gold), PLACES), np.int64)
    for first in range(PLACES):
        with np.errstate(divide="ignore"):
            made = fuse_items(
                np.log(views_from(corpus, first, steps)),
                n_options=corpus.n_options,
                item_ids=corpus.ids,
            )
        answers[:, first] = made.answer
        if vote:
            answers[:, first] = stats.majority_vote(
                made.phase_answers, n_options=corpus.n_options, item_ids=corpus.ids
            ).answers
    name = f"vote of {s}" if vote else f"fixed, S = {s}"
    return Way(name, answers, np.full_like(answers, s), PLACES // (2 * s))


def adaptive(corpus: Corpus, threshold: float, most: int) -> Way:
    steps = stats.phase_order(most, 0) * (PLACES // most)
    answers = np.empty((len(corpus.gold), PLACES), np.int64)
    passes = np.empty_like(answers)
    for first in range(PLACES):
        made = stats.adaptive_phases(
            views_from(corpus, first, steps.tolist()),
            threshold,
            order=range(most),
            n_options=corpus.n_options,
            item_ids=corpus.ids,
        )
        answers[:, first], passes[:, first] = made.answers, made.n_phases
    # half a step, and for an even number half a dense step beyond it
    shift = PLACES // 2 + (0 if most % 2 else PLACES // (2 * most))
    return Way(f"adaptive to {most}, {threshold:g} nats", answers, passes, shift)


def rate(values: NDArray[np.float64], videos: NDArray[Any]) -> dict[str, float]:
    made = stats.clustered_mean(values, videos, limits=(0.0, 1.0))
    return {"value": made.mean, "low": made.low, "high": made.high}


def measure(corpus: Corpus, way: Way) -> dict[str, Any]:
    known = corpus.gold >= 0
    return {
        "way": way.name,
        "passes": way.cost,
        "half_step": rate(way.changes(), corpus.videos),
        "random_shift": rate(way.differences(), corpus.videos),
        "right": rate(way.right(corpus.gold)[known], corpus.videos[known]),
    }


def matched(corpus: Corpus, ways: Sequence[Way], s: int, most: int) -> dict[str, Any]:
    """Compare a fixed S with the adaptive rule that costs as much, or just less."""
    base = next(way for way in ways if way.name == f"fixed, S = {s}")
    low, high = 0.0, 16.0
    for _ in range(24):  # cost rises with the threshold
        middle = (low + high) / 2
        if adaptive(corpus, middle, most).cost <= s:
            low = middle
        else:
            high = middle
    found = adaptive(corpus, low, most)
    known = corpus.gold >= 0
    row: dict[str, Any] = {
        "against": base.name,
        "adaptive": found.name,
        "passes": found.cost,
    }
    for name, ours, theirs, used in (
        ("half_step", found.changes(), base.changes(), known | True),
        ("random_shift", found.differences(), base.differences(), known | True),
        ("right", found.right(corpus.gold), base.right(corpus.gold), known),
    ):
        made = stats.clustered_mean(
            (ours - theirs)[used], corpus.videos[used], limits=(-1.0, 1.0)
        )
        row[name] = {"value": made.mean, "low": made.low, "high": made.high}
    return row


def certified(corpus: Corpus, alpha: float, target: str) -> dict[str, Any]:
    """Certify on a half of the videos and look at the other; many halves."""
    grid, twin = corpus.posteriors[:, 1::2], corpus.posteriors[:, ::2]
    names = np.unique(corpus.videos)
    rng = np.random.default_rng(13)
    common = {"n_options": corpus.n_options, "item_ids": corpus.ids}
    costs, rates, thresholds, above, n_min = [], [], [], 0, 0
    for _ in range(SPLITS):
        chosen = np.isin(corpus.videos, rng.permutation(names)[: len(names) // 2])
        part = {k: np.asarray(v)[chosen] for k, v in common.items()}
        part["item_ids"] = part["item_ids"].tolist()
        made = stats.calibrate_adaptive(
            grid[chosen],
            alpha=alpha,
            delta=DELTA,
            shifted=twin[chosen] if target == "half a step" else None,
            cluster=corpus.videos[chosen],
            **part,
        )
        n_min = made.n_min
        if not made.certified:
            continue
        rest = {k: np.asarray(v)[~chosen] for k, v in common.items()}
        rest["item_ids"] = rest["item_ids"].tolist()
        seen = stats.adaptive_curve(
            grid[~chosen], [made.threshold], shifted=twin[~chosen], **rest
        )
        found = seen.changes if target == "half a step" else seen.disagreement
        thresholds.append(made.threshold)
        costs.append(float(seen.mean_phases[0]))
        rates.append(float(found[0]))
        above += found[0] > alpha
    return {
        "target": target,
        "alpha": alpha,
        "splits": SPLITS,
        "certified": len(costs),
        "clusters": len(names) // 2,
        "n_min": n_min,
        "threshold": float(np.median(thresholds)) if costs else None,
        "passes": float(np.mean(costs)) if costs else None,
        "seen": float(np.mean(rates)) if costs else None,
        "above": int(above),
    }


def study(corpus: Corpus) -> dict[str, Any]:
    ways = [fixed(corpus, s, vote=False) for s in FIXED]
    ways += [fixed(corpus, s, vote=True) for s in VOTES]
    ways += [adaptive(corpus, t, most) for most in (3, PHASES) for t in THRESHOLDS]
    return {
        "corpus": corpus.name,
        "questions": len(corpus.gold),
        "videos": len(np.unique(corpus.videos)),
        "ways": [measure(corpus, way) for way in ways],
        "matched": [
            matched(corpus, ways, s, most) for s, most in ((2, 3), (2, 6), (3, 6))
        ],
        "certified": [
            certified(corpus, alpha, target)
            for target in ("all phases", "half a step")
            for alpha in LEVELS
        ],
    }


def shown(made: dict[str, float], signed: bool = False) -> str:
    value, low, high = (100 * made[name] for name in ("value", "low", "high"))
    sign = "+" if signed else ""
    return f"{value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def verdict(made: dict[str, float], less_is_good: bool) -> str:
    if made["low"] <= 0.0 <= made["high"] or np.isnan(made["low"]):
        return "cannot tell"
    return "better" if (made["high"] < 0.0) == less_is_good else "worse"


def text_of(found: dict[str, Any]) -> str:
    lines = [
        f"### {found['corpus']}",
        "",
        f"{found['questions']} questions on {found['videos']} videos.",
        "",
        "| answers | passes | change with half a step, % | with a random shift, % "
        "| right, % |",
        "|---|---:|---|---|---|",
    ]
    for row in found["ways"]:
        cells = [shown(row[name]) for name in ("half_step", "random_shift", "right")]
        lines.append(f"| {row['way']} | {row['passes']:.2f} | {' | '.join(cells)} |")
    lines += [
        "",
        "| at equal cost | passes | half a step, points | random shift, points "
        "| right, points |",
        "|---|---:|---|---|---|",
    ]
    for row in found["matched"]:
        cells = [
            f"{shown(row[name], signed=True)}: {verdict(row[name], name != 'right')}"
            for name in ("half_step", "random_shift", "right")
        ]
        name = f"{row['adaptive']} − {row['against']}"
        lines.append(f"| {name} | {row['passes']:.2f} | {' | '.join(cells)} |")
    lines += [
        "",
        f"| certified against | at most | halves certified, of {SPLITS} | threshold, "
        "median | passes | changes in the other half | above the level |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in found["certified"]:
        cells = ["–"] * 4
        if row["certified"]:
            cells = [
                f"{row['threshold']:.1f}",
                f"{row['passes']:.2f}",
                f"{100 * row['seen']:.1f} %",
                str(row["above"]),
            ]
        lines.append(
            f"| {row['target']} | {100 * row['alpha']:g} % | {row['certified']} | "
            f"{' | '.join(cells)} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, help="the first so many only")
    parser.add_argument(
        "--videos", type=int, default=600, help="of a simulated corpus (%(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--json", type=Path, metavar="FILE")
    page = _report.page_with("adaptive study")
    parser.add_argument("--write", type=page, metavar="FILE")
    options = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", DuplicateFrameWarning)
    start = time.monotonic()
    corpora = [
        shipped(options.questions),
        simulated("Simulated, phases matter as in the default", options.videos),
        simulated(
            "Simulated, phases matter thrice as much", options.videos, phase_sd=0.9
        ),
        simulated(
            "Simulated, the noise of every pass is all",
            options.videos,
            phase_sd=0.0,
            noise_sd=0.6,
        ),
    ]
    found = [study(corpus) for corpus in corpora]
    text = "\n\n".join(text_of(one) for one in found)
    print(text)
    print(f"\n{time.monotonic() - start:.0f} s")
    if options.write is not None:
        _report.replace_between(options.write, "adaptive study", text)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
