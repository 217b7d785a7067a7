"""Figures about which frames are shown: phases, budgets, samplers, repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import counted
from phasefusion.protocols.arms import drawn_shift
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.figures.table import FigureTable, clean, shown
from phasefusion.report.items import Column
from phasefusion.report.rates import mean_rate, rate_of
from phasefusion.report.table import Outcomes
from phasefusion.stats import (
    attention_units,
    clustered_mean,
    flip_rates,
    flip_ratio,
    proportion_upper,
    random_draw_change_rate,
    rarefied_flip_rate,
    view_diagnostic,
)


def reruns(study: Study) -> list[FigureTable]:
    """Phase flips against what a repeated run changes."""
    first, *others = study.arms()
    others = [arm for arm in others if arm.name.startswith("run ")]
    if not others:
        return []
    flips = study.phase_flips(first)
    changed = _changed(first, others)
    used = ~np.isnan(flips.pairwise) & ~np.isnan(changed).any(axis=1)
    videos = np.repeat(study.videos[used], changed.shape[1])
    floor = clustered_mean(changed[used].ravel(), videos, limits=(0.0, 1.0))
    n = int(used.sum())
    rows = [
        ("two phases differ", study.rates.clustered(flips.pairwise, used)),
        ("any phase differs", study.rates.clustered(flips.any, used)),
        ("a repeated run differs", mean_rate(floor)),
    ]
    tables = [
        FigureTable(
            "Phase flips and the floor of repeated runs",
            (("consensus answers", "text"), ("of questions", "rate")),
            clean(rows),
            f"{counted(n, 'question')} with all passes; repeated runs have the same "
            "frames, orders and prompt, and are compared phase by phase. 95 % "
            "intervals, clustered by video.",
        )
    ]
    return [*tables, _ratio(study, flips.pairwise[used], changed[used], used)]


def _changed(first: ArmPasses, others: Sequence[ArmPasses]) -> Column:
    """Whether each repetition changes each view's consensus, shape (n, R * S)."""
    here = first.consensus()
    columns = []
    for arm in others:
        there = arm.consensus()
        known = (here >= 0) & (there >= 0)
        absent = np.arange(here.shape[1]) >= first.n_phases[:, None]
        column = np.where(known, here != there, np.nan)
        columns.append(np.where(absent, 0.0, column))
    return np.concatenate(columns, axis=1).astype(np.float64)


def _ratio(
    study: Study, flips: Column, changed: Column, used: NDArray[np.bool_]
) -> FigureTable:
    n = len(flips)
    ratio = low = high = upper = at_least = math.nan
    if n:
        made = flip_ratio(
            np.repeat(flips, changed.shape[1]),
            changed.ravel(),
            cluster=np.repeat(study.videos[used], changed.shape[1]),
            seed=study.seed,
        )
        ratio, low, high = made.ratio, made.low, made.high
        # Views of one question are no independent trials: questions are counted.
        upper = proportion_upper(int(changed.any(axis=1).sum()), n)
        at_least = float(flips.mean()) / upper
    return FigureTable(
        "Phase flips in units of the floor",
        (
            ("", "text"),
            ("ratio", "number"),
            ("low", "number"),
            ("high", "number"),
            ("floor below", "percent"),
            ("ratio above", "number"),
        ),
        clean([("two phases / repeated run", ratio, low, high, upper, at_least)]),
        "Bootstrap interval over videos. Floor below: one-sided 95 % limit on the "
        "share of questions that any repetition changes, as if none shared a video, "
        "and the ratio that it leaves; that is what a floor of 0 shows.",
    )


def random_draws(study: Study) -> list[FigureTable]:
    """Answers that change between two random origins, one grid and all together."""
    arms = [study.arm(entry["arm"]) for entry in study.entries if "draw" in entry]
    draws = [entry["draw"] for entry in study.entries if "draw" in entry]
    made = [(d, arm) for d, arm in zip(draws, arms, strict=True) if arm is not None]
    if len(made) < 2:
        return []
    pairs = list(combinations(range(len(made)), 2))
    answers = {
        "one grid": np.stack([_single_draw(study, d, arm) for d, arm in made], axis=1),
        _pooled_name(made[0][1]): np.stack(
            [arm.pooled.consensus for _, arm in made], axis=1
        ),
    }
    used = np.ones(len(study.items), bool)
    for table in answers.values():
        used &= (table >= 0).all(axis=1)
    videos = study.videos[used]
    rows = []
    for name, table in answers.items():
        kept = table[used]
        known = np.where(study.gold >= 0, 1.0, np.nan)
        right = known * (table == study.gold[:, None]).mean(axis=1)
        changes = (
            mean_rate(
                random_draw_change_rate(
                    kept[:, [i for i, _ in pairs]],
                    kept[:, [j for _, j in pairs]],
                    cluster=videos,
                )
            )
            if len(kept)
            else _no_rate()
        )
        rows.append((name, changes, study.rates.clustered(right, used), len(kept)))
    moved = [(t[:, 0] != t[:, 1]).astype(np.float64) for t in answers.values()]
    test = study.paired(moved[0], moved[1], used)
    return [
        FigureTable(
            "Answers that differ between two random origins",
            (
                ("consensus of", "text"),
                ("answers differ", "rate"),
                ("right", "rate"),
                ("n", "count"),
            ),
            clean(rows),
            f"Origins drawn for every video, the same for both; {len(made)} draws, "
            f"{len(pairs)} pairs, intervals clustered by video. {study.rates.test}: "
            f"{shown(test.p, 'pvalue')} for the two on the first pair.",
        )
    ]


def _pooled_name(arm: ArmPasses) -> str:
    pool = "vote" if arm.fused is None else "fusion"
    return f"{pool} of {len(arm.views)}"


def _single_draw(study: Study, draw: int, arm: ArmPasses) -> NDArray[np.int64]:
    """Consensus of the view that a single grid at the drawn origin is."""
    found = np.full(len(study.items), -1, np.int64)
    consensus = arm.consensus()
    for i, info in enumerate(study.items):
        if not arm.n_phases[i]:
            continue
        shift = drawn_shift(info.video_id or "", draw, study.seed)
        found[i] = consensus[i, math.floor(shift * int(arm.n_phases[i]))]
    return found


def phase_sweep(study: Study) -> list[FigureTable]:
    """Consensus flips between two phases, three and all of many."""
    arm = study.arm("phase")
    if arm is None or len(arm.views) < 2:
        return []
    consensus = arm.consensus()
    made = flip_rates(consensus)
    flips = study.phase_flips(arm)
    complete: NDArray[np.bool_] = np.min(consensus, axis=1) >= 0
    rows: list[tuple[Any, ...]] = [("two phases", study.rate(flips.pairwise))]
    n_views = len(arm.views)
    if n_views > 3 and complete.any():
        value = rarefied_flip_rate(consensus[complete], 3)
        rows.append(("three phases", rate_of(value, math.nan, math.nan, made.n_used)))
    rows.append((f"all {n_views} phases", study.rate(flips.any)))
    shares = FigureTable(
        "Consensus answers over the phases",
        (("some of them differ in", "text"), ("questions", "rate")),
        clean(rows),
        "Two and three: any phases, in expectation.",
    )
    by_phase = []
    for s, view in enumerate(arm.views):
        phase = _phase_text(study, s, n_views)
        by_phase.append((phase, study.rate(study.right(view), complete)))
    return [
        shares,
        FigureTable(
            "Accuracy of every phase",
            (("phase, steps", "text"), ("consensus right", "rate")),
            clean(by_phase),
            f"{counted(int((complete & (study.gold >= 0)).sum()), 'question')}.",
        ),
    ]


def _phase_text(study: Study, s: int, n_phases: int) -> str:
    origin = Fraction(*study.settings["grid"]["origin"])
    return str((s + origin) / n_phases)


def budget_sweep(study: Study) -> list[FigureTable]:
    """Phase flips and accuracy by frames a pass."""
    arms = sorted(_budgets(study), key=lambda pair: pair[0])
    used = study.complete(*(view for _, arm in arms for view in arm.views))
    rows = []
    for frames, arm in arms:
        flips = study.phase_flips(arm)
        single = np.mean([study.accuracy(view) for view in arm.views], axis=0)
        rows.append(
            (
                str(frames),
                int(attention_units(1, frames)),
                study.rate(single, used),
                study.rate(study.accuracy(arm.pooled), used)["value"],
                study.rate(flips.pairwise, used),
                study.rate(flips.any, used),
                int(used.sum()),
            )
        )
    pool = "vote" if any(arm.fused is None for _, arm in arms) else "fusion"
    return [
        FigureTable(
            "By frames a pass",
            (
                ("frames", "text"),
                ("units a pass", "count"),
                ("one pass right", "rate"),
                (f"{pool} right", "percent"),
                ("two phases differ", "rate"),
                ("any phase differs", "rate"),
                ("n", "count"),
            ),
            clean(rows),
            "Right: mean over option orders, and over phases for one pass. Flips are "
            "of the consensus. Questions with every pass.",
        )
    ]


def _budgets(study: Study) -> list[tuple[int, ArmPasses]]:
    """Frames a pass as planned, and the arm."""
    found = []
    for entry in study.entries:
        arm = study.arm(entry["arm"])
        if arm is not None and not entry["shifted"]:
            found.append((int(entry["budget"]), arm))
    return found


def sampler_sweep(study: Study) -> list[FigureTable]:
    """Accuracy of deployed samplers, and how often two of them differ."""
    names = [entry["sampler"] for entry in study.entries if "sampler" in entry]
    found = [(name, study.arm(f"sampler {name}")) for name in names]
    arms = [(name, arm.first) for name, arm in found if arm is not None]
    grid = study.arm("single")
    if not arms or grid is None:
        return []
    used = study.complete(grid.first, *(one for _, one in arms))
    rows = [
        (
            name,
            study.rate(study.accuracy(one), used),
            study.rate(study.right(one), used)["value"],
            _mean((one.consensus != grid.first.consensus)[used]),
            int(used.sum()),
        )
        for name, one in [("(exact grid)", grid.first), *arms]
    ]
    table = FigureTable(
        "Deployed samplers",
        (
            ("sampler", "text"),
            ("right, all orders", "rate"),
            ("consensus right", "percent"),
            ("differs from the grid", "percent"),
            ("n", "count"),
        ),
        clean(rows),
        "Questions with every pass.",
    )
    return [table, _pairs(study, arms, used)] if len(arms) > 1 else [table]


def _pairs(
    study: Study, arms: Sequence[tuple[str, Outcomes]], used: NDArray[np.bool_]
) -> FigureTable:
    answers = np.stack([one.consensus for _, one in arms], axis=1)
    rows: list[tuple[Any, ...]] = []
    for i, j in combinations(range(len(arms)), 2):
        differs = (answers[:, i] != answers[:, j]).astype(np.float64)
        rows.append((f"{arms[i][0]} - {arms[j][0]}", study.rate(differs, used)))
    any_two = flip_rates(answers).per_item_any.astype(np.float64)
    rows.append(("any two of them", study.rate(any_two, used)))
    return FigureTable(
        "Consensus answers that differ between samplers",
        (("samplers", "text"), ("questions", "rate")),
        clean(rows),
    )


def phase_counts(study: Study) -> list[FigureTable]:
    """Fusion of S phases against its views, by S."""
    arms = sorted(
        ((int(entry["phases"]), study.arm(entry["arm"])) for entry in study.entries),
        key=lambda pair: pair[0],
    )
    made = [(s, arm) for s, arm in arms if arm is not None]
    if not made:
        return []
    used = study.complete(*(o for _, arm in made for o in (arm.pooled, *arm.views)))
    used &= study.gold >= 0
    rows = []
    for s, arm in made:
        found = view_diagnostic(
            arm.pooled.consensus[used], arm.consensus()[used], study.gold[used]
        )
        views, differing = found.view_accuracy, found.views_on_disagree
        rows.append(
            (
                str(s),
                s * int(attention_units(1, study.settings["grid"]["budget"])),
                found.pooled_accuracy,
                float(views.mean()),
                found.n_disagree,
                found.pooled_on_disagree,
                float(differing.mean()),
                float(differing.max()),
                found.n,
            )
        )
    pool = "vote" if any(arm.fused is None for _, arm in made) else "fusion"
    table = FigureTable(
        f"{pool.capitalize()} by number of phases",
        (
            ("phases", "text"),
            ("units", "count"),
            ("right", "percent"),
            ("views", "percent"),
            ("views differ", "count"),
            ("right there", "percent"),
            ("views there", "percent"),
            ("best view there", "percent"),
            ("n", "count"),
        ),
        clean(rows),
        "Consensus over the orders. There: on the questions on which the views "
        "differ, all that pooling can change.",
    )
    return [table, _counts_compared(study, made, used)]


def _counts_compared(
    study: Study, made: Sequence[tuple[int, ArmPasses]], used: NDArray[np.bool_]
) -> FigureTable:
    rows = []
    for (s, fewer), (t, more) in combinations(made, 2):
        made_of = study.paired(
            study.right(more.pooled), study.right(fewer.pooled), used
        )
        differs = fewer.pooled.consensus[used] != more.pooled.consensus[used]
        rows.append(
            (
                f"{t} over {s}",
                made_of.points,
                made_of.only_first,
                made_of.only_second,
                made_of.p,
                _mean(differs),
                made_of.n,
            )
        )
    return FigureTable(
        "Numbers of phases compared",
        (
            ("phases", "text"),
            ("points", "points"),
            ("gained", "count"),
            ("lost", "count"),
            ("p", "pvalue"),
            ("answers differ", "percent"),
            ("n", "count"),
        ),
        clean(rows),
        f"{study.rates.test}.",
    )


def _mean(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else math.nan


def _no_rate() -> dict[str, Any]:
    return rate_of(math.nan, math.nan, math.nan, 0)
