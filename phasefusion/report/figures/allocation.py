"""Figures about spending more frames on some questions than on others."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import by_number, counted
from phasefusion.protocols.stages import share_of_lowest
from phasefusion.report.figures.study import Study
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.items import Column
from phasefusion.stats import Allocation, allocation, attention_units


def margin(study: Study) -> list[FigureTable]:
    """Dense passes for low margins against twice the frames for all."""
    entries = {entry["arm"]: entry for entry in study.entries}
    single, doubled = study.arm("single"), study.arm("doubled")
    dense = study.arm("reallocated")
    if single is None or doubled is None or "reallocated" not in entries:
        return []
    share = Fraction(*entries["reallocated"]["share"])
    chosen = share_of_lowest(single.first.margin[:, 0], share)
    once, twice = study.first_right(single.first), study.first_right(doubled.first)
    again = (
        np.full_like(once, np.nan) if dense is None else study.first_right(dense.first)
    )
    mixed = np.where(chosen, again, once)
    used = ~np.isnan(once) & ~np.isnan(twice) & ~np.isnan(mixed)
    b, d, most = (
        int(entries[name]["budget"]) for name in ("single", "doubled", "reallocated")
    )
    units = {n: int(attention_units(1, n)) for n in (b, d, most)}
    asked = np.zeros(len(used), bool) if dense is None else dense.n_phases > 0
    stray = int((asked & ~chosen).sum())
    paid = _mean(chosen[used]) * units[most] + units[b]
    rows = [
        (
            f"{counted(b, 'frame')} for all",
            units[b],
            study.rate(once, used),
            math.nan,
        ),
        (
            f"{counted(d, 'frame')} for all",
            units[d],
            study.rate(twice, used),
            math.nan,
        ),
        (
            f"{counted(b, 'frame')}, {most} more for the lowest margins",
            paid,
            study.rate(mixed, used),
            _mean(chosen[used]),
        ),
    ]
    table = FigureTable(
        "Frames given to the lowest margins",
        (
            ("frames", "text"),
            ("units", "number"),
            ("right", "rate"),
            ("of questions", "percent"),
        ),
        clean(rows),
        "First option order. Units of attention: a question, on average. The share of "
        "questions is the one that makes both ways cost the same, rounded down."
        + _strays(stray),
    )
    return [table, _gains(study, once, twice, mixed, chosen & used, used)]


def _strays(n: int) -> str:
    """Say what a run has that was made longer, when others became the lowest."""
    if not n:
        return ""
    were = by_number(n, "was", "were")
    return (
        f" {counted(n, 'question')} {were} among the lowest before the run was made "
        f"longer and {by_number(n, 'is', 'are')} no more: dense passes of such are "
        "recorded, and left out of every figure here, their cost too."
    )


def _gains(
    study: Study,
    once: Column,
    twice: Column,
    mixed: Column,
    chosen: NDArray[np.bool_],
    used: NDArray[np.bool_],
) -> FigureTable:
    pairs: list[tuple[str, Column, Column, NDArray[np.bool_]]] = [
        ("reallocated over twice the frames", twice, mixed, used),
        ("reallocated over one pass", once, mixed, used),
        ("the same, lowest margins alone", once, mixed, chosen),
        ("twice the frames over one pass", once, twice, used),
    ]
    rows = []
    for name, before, after, kept in pairs:
        one = study.paired(after, before, kept)
        rows.append((name, one.points, one.only_first, one.only_second, one.p, one.n))
    return FigureTable(
        "What reallocation gains",
        (
            ("", "text"),
            ("points", "points"),
            ("gained", "count"),
            ("lost", "count"),
            ("p", "pvalue"),
            ("n", "count"),
        ),
        clean(rows),
        f"{study.rates.test}.",
    )


def oracle(study: Study) -> list[FigureTable]:
    """Headroom of an oracle over the best budget for all."""
    arms = []
    for entry in study.entries:
        arm = study.arm(entry["arm"])
        if arm is not None:
            arms.append((int(entry["budget"]), arm.first))
    arms.sort(key=lambda pair: pair[0])
    if len(arms) < 2:
        return []
    budgets = [frames for frames, _ in arms]
    costs = [int(attention_units(1, frames)) for frames in budgets]
    used = study.complete(*(one for _, one in arms)) & (study.gold >= 0)
    made = {
        "first order": np.stack([study.first_right(o) for _, o in arms], axis=1),
        "consensus": np.stack([study.right(o) for _, o in arms], axis=1),
    }
    found = {name: allocation(table[used], costs) for name, table in made.items()}
    rows = [(name, *_row(one, budgets)) for name, one in found.items()]
    table = FigureTable(
        "An oracle of frames a question",
        (
            ("answers", "text"),
            ("best for all", "count"),
            ("right", "percent"),
            ("units", "number"),
            ("oracle right", "percent"),
            ("oracle units", "number"),
            ("headroom", "points"),
            ("right with some", "percent"),
            ("n", "count"),
        ),
        clean(rows),
        "The oracle knows the right answers: it gives every question the fewest "
        "frames that answer it, as many questions as the cost of the best budget for "
        "all pays for. It profits from every answer that is right by chance with some "
        "budget, so its headroom is an upper limit.",
    )
    by_budget = FigureTable(
        "One budget for all",
        (("frames", "text"), ("units", "count"), *((n, "percent") for n in found)),
        clean(
            [
                (str(frames), costs[j], *(one.uniform[j] for one in found.values()))
                for j, frames in enumerate(budgets)
            ]
        ),
    )
    return [by_budget, table]


def _row(one: Allocation, budgets: list[int]) -> tuple[Any, ...]:
    return (
        budgets[one.best] if one.best >= 0 else None,
        one.best_accuracy,
        one.best_cost,
        one.oracle_accuracy,
        one.oracle_cost,
        100 * one.headroom,
        one.unlimited_accuracy,
        one.n,
    )


def _mean(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else math.nan
