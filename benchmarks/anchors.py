"""Uniform, anchored and phase-fused sampling side by side, on the shipped clips.

    python benchmarks/anchors.py [--windows 1/20,1/10,...] [--questions N]
        [--json FILE] [--write FILE]

The shipped model answers the questions of the shipped clips in their own option order.
Each way of sampling takes S = 3 views of 8 frames: over the whole clip, or in a window
at an anchor. For each are measured, with intervals that take a clip's questions as one
cluster:

* accuracy of one pass, and of the three views fused;
* flips between the views (share of pairs that answer differently);
* flips of one pass, and of the fused answer, when the grid moves by half a step;
* flips of one pass when everything moves by two frames: the clip cut elsewhere for a
  uniform grid, the anchor found elsewhere for a window.

One pass is the middle view of the uniform grid (midpoints, as most harnesses take
them), and the first view of a window, which begins at the anchor. --write writes
the tables between the marks of a file. There is no goal: it is a study, and the exit
code is 0 whatever it finds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import _report

from phasefusion.anchors import WindowGrid, anchor_grid, find_anchor
from phasefusion.datasets import Item, load_questions
from phasefusion.errors import DuplicateFrameWarning
from phasefusion.fusion import fuse
from phasefusion.grid import PhaseGrid
from phasefusion.stats import clustered_mean
from phasefusion.tinyvlm import model_dir, questions_path
from phasefusion.video import Video, read_clips

BUDGET, PHASES = 8, 3
METHODS = ("vectors", "histogram", "centre")
WINDOWS = "1/20,1/10,3/20,1/2"
MOVED_FRAMES = 2


@dataclass(frozen=True, slots=True)
class Design:
    """A way of sampling; a window of None is the whole clip."""

    method: str
    window: Fraction | None

    @property
    def name(self) -> str:
        if self.window is None:
            return "uniform"
        return f"{self.method}, {float(100 * self.window):g} %"

    @property
    def single(self) -> int:
        """The view that stands for one pass."""
        return PHASES // 2 if self.window is None else 0


@dataclass(frozen=True, slots=True)
class Answers:
    """What one design answers to one question."""

    design: Design
    kind: str
    video_id: str
    gold: int
    views: tuple[int, ...]
    fused: int
    half: int  # one pass, half a step on
    fused_half: int
    moved: int  # one pass, two frames on
    distinct: int  # different frames in all views


def grids_of(design: Design, video: Video, found: dict[str, Any]) -> list[PhaseGrid]:
    """The views, those half a step on, and the single one two frames on."""
    n = len(video)
    if design.window is None:
        grid = PhaseGrid(BUDGET, PHASES)
        shift = Fraction(MOVED_FRAMES * BUDGET, n)
        view = grid.view(design.single)
        return [grid, grid.shifted("half"), view.shifted(shift)]
    if design.method not in found:
        found[design.method] = find_anchor(video, methods=[design.method, "centre"])
    anchor = found[design.method]
    window = anchor_grid(video, anchor, BUDGET, PHASES, window=design.window)
    by = MOVED_FRAMES if window.end + MOVED_FRAMES <= n else -MOVED_FRAMES
    first = max(window.first + by, 0)
    moved = WindowGrid.of(window.view(design.single), first, first + window.n_window)
    return [window, window.shifted("half"), moved]


def answers_of(
    items: Sequence[Item], designs: Sequence[Design], scorer: Any, found: dict[str, Any]
) -> Iterator[Answers]:
    """All designs on the questions of one video, in one decode."""
    path = items[0].video
    with Video(path) as video:
        grids = [grids_of(design, video, found) for design in designs]
    every = [grid for group in grids for grid in group]
    clips = read_clips(path, every, size=scorer.frame_size)
    for item in items:
        scores = [
            np.asarray(scorer.score(clip, item.question, item.options))[:, 0]
            for clip in clips
        ]
        for k, design in enumerate(designs):
            views, half, moved = scores[3 * k : 3 * k + 3]
            seed = item.question_id
            fused, fused_half = fuse(views, item_id=seed), fuse(half, item_id=seed)
            yield Answers(
                design=design,
                kind=item.type or "",
                video_id=item.video_id,
                gold=-1 if item.gold is None else item.gold,
                views=tuple(views.argmax(axis=1).tolist()),
                fused=int(fused.answer),
                half=int(half[_single_of_half(design)].argmax()),
                fused_half=int(fused_half.answer),
                moved=int(moved[0].argmax()),
                distinct=len(np.unique(clips[3 * k].indices)),
            )


def _single_of_half(design: Design) -> int:
    """The view of the moved grid that is half a step after the single one.

    Moving maps phase p to p + 1/2 modulo 1, and views are numbered by phase: the middle
    of three midpoint views (1/2) comes to 0, the first of three left ones (0) to 1/2.
    """
    return 0 if design.window is None else PHASES // 2


FIGURES = {
    "one pass": "accuracy",
    "fused": "accuracy",
    "views": "flips",
    "half step": "flips",
    "fused half step": "flips",
    "two frames": "flips",
}


def values_of(rows: Sequence[Answers]) -> dict[str, NDArray[np.float64]]:
    """Every figure's value for every question."""
    made = defaultdict(list)
    for row in rows:
        single = row.views[row.design.single]
        pairs = [row.views[a] != row.views[b] for a in range(PHASES) for b in range(a)]
        made["one pass"].append(single == row.gold)
        made["fused"].append(row.fused == row.gold)
        made["views"].append(np.mean(pairs))
        made["half step"].append(single != row.half)
        made["fused half step"].append(row.fused != row.fused_half)
        made["two frames"].append(single != row.moved)
    return {name: np.array(values, float) for name, values in made.items()}


def summary(rows: Sequence[Answers]) -> dict[str, Any]:
    """Means of all figures in percent with 95 % intervals, over clusters of clips."""
    clips = [row.video_id for row in rows]
    found: dict[str, Any] = {"n": len(rows)}
    for name, values in values_of(rows).items():
        made = clustered_mean(values, clips, limits=(0.0, 1.0))
        found[name] = [100 * x for x in (made.mean, made.low, made.high)]
    found["distinct"] = float(np.mean([row.distinct for row in rows]))
    return found


def against_uniform(
    rows: Sequence[Answers], uniform: Sequence[Answers]
) -> dict[str, Any]:
    """Paired differences to the uniform grid in percentage points."""
    clips = [row.video_id for row in rows]
    ours, theirs = values_of(rows), values_of(uniform)
    found = {}
    for name, values in ours.items():
        made = clustered_mean(values - theirs[name], clips, limits=(-1.0, 1.0))
        found[name] = [100 * x for x in (made.mean, made.low, made.high)]
    return found


def main_table(by_design: dict[Design, list[Answers]]) -> str:
    lines = [
        "| sampling | frames | one pass right | fused right | flips, views "
        "| flips, half a step | fused, half a step | flips, two frames |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for design, rows in by_design.items():
        found = summary(rows)
        cells = [f"{found[name][0]:.1f}" for name in FIGURES]
        lines.append(
            f"| {design.name} | {found['distinct']:.1f} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def difference_table(by_design: dict[Design, list[Answers]]) -> str:
    """Accuracy and flips less those of the uniform grid, with intervals."""
    uniform = next(rows for d, rows in by_design.items() if d.window is None)
    names = ["one pass", "fused", "views", "two frames"]
    lines = [
        "| sampling | one pass right | fused right | flips, views "
        "| flips, two frames |",
        "|---|---|---|---|---|",
    ]
    for design, rows in by_design.items():
        if design.window is None:
            continue
        found = against_uniform(rows, uniform)
        cells = [
            f"{found[n][0]:+.1f} [{found[n][1]:+.1f}, {found[n][2]:+.1f}]"
            for n in names
        ]
        lines.append(f"| {design.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def kind_table(by_design: dict[Design, list[Answers]], shown: Sequence[Design]) -> str:
    """Accuracy of one pass by the kind of question."""
    kinds = sorted({row.kind for rows in by_design.values() for row in rows})
    lines = [
        f"| questions | n | {' | '.join(design.name for design in shown)} |",
        f"|---|---|{'---|' * len(shown)}",
    ]
    for kind in kinds:
        cells = []
        for design in shown:
            rows = [row for row in by_design[design] if row.kind == kind]
            right = [row.views[design.single] == row.gold for row in rows]
            cells.append(f"{100 * np.mean(right):.0f}")
        lines.append(f"| {kind} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def text_of(by_design: dict[Design, list[Answers]], n_clips: int, kinds: Any) -> str:
    n = len(next(iter(by_design.values())))
    shown = [d for d in by_design if d.window in (None, Fraction(1, 10))]
    return "\n\n".join(
        [
            f"{n} questions about {n_clips} clips; percent. Anchors by motion vectors: "
            f"{kinds['vectors']} of {n_clips}; by colours: {kinds['histogram']}; the "
            "middle of the clip for the rest. *frames* is the mean number of different "
            f"frames in all {PHASES} views of {BUDGET}.",
            main_table(by_design),
            "Less the uniform grid's, question by question, in percentage points with "
            "95 % intervals:",
            difference_table(by_design),
            "One pass right, by the kind of question, windows of 10 %:",
            kind_table(by_design, shown),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", default=WINDOWS, help="default %(default)s")
    parser.add_argument("--questions", type=int, help="the first so many only")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--json", type=Path, metavar="FILE")
    page = _report.page_with("anchor study")
    parser.add_argument("--write", type=page, metavar="FILE")
    options = parser.parse_args(arguments)
    import torch

    from phasefusion.scoring import HFOptionScorer

    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", DuplicateFrameWarning)
    windows = [Fraction(text) for text in options.windows.split(",")]
    designs = [Design("", None)]
    designs += [Design(method, window) for method in METHODS for window in windows]
    scorer = HFOptionScorer.from_pretrained(model_dir())
    groups = defaultdict(list)
    for item in load_questions(questions_path())[: options.questions]:
        groups[item.video].append(item)
    by_design: dict[Design, list[Answers]] = {design: [] for design in designs}
    kinds: dict[str, int] = dict.fromkeys(METHODS, 0)
    start = time.monotonic()
    for items in groups.values():
        found: dict[str, Any] = {}
        for row in answers_of(items, designs, scorer, found):
            by_design[row.design].append(row)
        for method, anchor in found.items():
            kinds[method] += anchor.kind == method
    text = text_of(by_design, len(groups), kinds)
    print(text)
    print(f"\n{time.monotonic() - start:.0f} s")
    if options.write is not None:
        _report.replace_between(options.write, "anchor study", text)
    if options.json is not None:
        rows = [
            asdict(row) | {"design": row.design.name}
            for rows in by_design.values()
            for row in rows
        ]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"answers": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
