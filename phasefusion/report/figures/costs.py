"""What the passes of a run cost, in frames and in units of attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasefusion._wording import by_number, counted
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.sections import UNDEFINED


def costs(study: Study) -> FigureTable:
    """Cost of one pass, of fused phases and of all passes, arm by arm."""
    rows: list[tuple[Any, ...]] = []
    for arm in study.arms():
        if not rows:
            rows.append(_row("one pass each", study, arm, one=True))
        label = arm.name if len(study.entries) > 1 else "all passes"
        rows.append(_row(label, study, arm, one=False))
    return FigureTable(
        "Cost",
        (
            ("", "text"),
            ("passes", "count"),
            ("frames a pass", "text"),
            ("frames shown", "count"),
            ("units", "count"),
            ("units a question", "number"),
            ("times one pass", "number"),
        ),
        clean(_relative(rows)),
        "Recorded passes, missing ones included. "
        + _unknown(study)
        + "Units of attention: frames squared, "
        "summed over passes; text and tokens a frame are left out. Orders of one phase "
        "share the frames and may share the work on them. Seconds: timing in the JSON.",
    )


def _unknown(study: Study) -> str:
    """Say of how many questions the frames of a pass are not known."""
    lacks = [
        (study.budgets(arm.name) < 0) & (study.counts(arm.name) > 0)
        for arm in study.arms()
    ]
    n = int(np.any(lacks, axis=0).sum()) if lacks else 0
    if not n:
        return ""
    return (
        f"{counted(n, 'question')} with passes of unknown frames "
        f"{by_number(n, 'is', 'are')} left out of frames and units. "
    )


def _row(name: str, study: Study, arm: ArmPasses, *, one: bool) -> tuple[Any, ...]:
    budgets, n_passes = study.budgets(arm.name), study.counts(arm.name)
    known = (budgets >= 0) & (n_passes > 0)
    passes = np.where(n_passes > 0, 1, 0) if one else n_passes
    frames = passes[known] * budgets[known]
    units = frames * budgets[known]
    n_known, total = int(known.sum()), int(units.sum())
    if not n_known:
        return name, int(passes.sum()), UNDEFINED, None, None, math.nan
    fewest, most = int(budgets[known].min()), int(budgets[known].max())
    return (
        name,
        int(passes.sum()),
        str(most) if fewest == most else f"{fewest} to {most}",
        int(frames.sum()),
        total,
        total / n_known,
    )


def _relative(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Add how many times the first row each one costs a question."""
    base = rows[0][-1] if rows else math.nan
    return [(*row, row[-1] / base if base else math.nan) for row in rows]
