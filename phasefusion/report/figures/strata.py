"""Stability and accuracy by what is known of questions and their videos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from phasefusion.report.figures.stability import Stability
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.items import Column

#: Bounds between lengths of a step, in seconds.
_STEPS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_QUARTILES = (0.25, 0.5, 0.75)
_NOT_KNOWN = "not recorded"


def strata(found: Stability) -> list[FigureTable]:
    """Break stability down by duration, type of question and length of a step."""
    durations = _durations(found)
    steps = durations / _budgets(found)
    return [
        table_by(
            found,
            "Stability by duration of the clip",
            "duration, s",
            list(_quarters(durations)),
            "Quarters of the questions by the length of what they are about.",
            "durations",
        ),
        table_by(
            found,
            "Stability by type of question",
            "type",
            list(_types(found)),
            "",
            "types of question",
        ),
        table_by(
            found,
            "Stability by length of a step",
            "step, s",
            list(_between(steps, _STEPS_S)),
            "A step is the time between two frames of a grid: what is shorter may lie "
            "between them.",
            "durations",
        ),
    ]


def table_by(
    found: Stability,
    title: str,
    column: str,
    groups: Sequence[tuple[str, NDArray[np.bool_]]],
    note: str,
    lacks: str,
) -> FigureTable:
    """Lay accuracy, FPC and OOC of groups of questions out; empty ones are left out.

    Parameters
    ----------
    found : Stability
    title, column : str
    groups : sequence of (str, ndarray of bool)
    note : str
        How to read it.
    lacks : str
        What questions lack that are in no group but "not recorded".
    """
    judged = ~np.isnan(found.fpc) | ~np.isnan(found.ooc)
    rows = [
        (
            name,
            int((chosen & judged).sum()),
            *(
                found.clustered(values, chosen)
                for values in (found.accuracy, found.fpc, found.ooc)
            ),
        )
        for name, chosen in groups
        if (chosen & judged).any()
    ]
    notes = [note, "95 % intervals, clustered by video."]
    if [row[0] for row in rows] == [_NOT_KNOWN]:
        notes = [f"The questions carry no {lacks}, so nothing can be told apart."]
    elif any(row[0] == _NOT_KNOWN for row in rows):
        notes.append(f"Some questions carry no {lacks}.")
    return FigureTable(
        title,
        (
            (column, "text"),
            ("n", "count"),
            ("accuracy", "rate"),
            ("FPC", "rate"),
            ("OOC", "rate"),
        ),
        clean(rows),
        " ".join(one for one in notes if one),
    )


def _durations(found: Stability) -> Column:
    infos = found.study.items
    return np.array(
        [np.nan if one.duration_s is None else one.duration_s for one in infos]
    )


def _budgets(found: Stability) -> Column:
    """Frames a pass of every question; NaN where not known."""
    budgets = found.study.budgets(found.arm.name).astype(np.float64)
    return np.where(budgets > 0, budgets, np.nan)


def _quarters(values: Column) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Cut at the quartiles; fewer groups where many values are equal."""
    known = values[~np.isnan(values)]
    bounds = np.quantile(known, _QUARTILES).tolist() if len(known) else []
    yield from _between(values, tuple(sorted(set(bounds))))


def _between(
    values: Column, bounds: Sequence[float]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Group values up to each bound, then those above, then what is not known."""
    names = _told_apart(bounds)
    for j, bound in enumerate(bounds):
        above = values > bounds[j - 1] if j else True
        name = f"{names[j - 1]} to {names[j]}" if j else f"up to {names[j]}"
        yield name, above & (values <= bound)
    if len(bounds):
        yield f"above {names[-1]}", values > bounds[-1]
    else:
        yield "all", ~np.isnan(values)
    yield _NOT_KNOWN, np.isnan(values)


def _told_apart(bounds: Sequence[float]) -> list[str]:
    """Write different bounds differently: with three digits, or as many as it takes.

    >>> _told_apart([0.25, 100.0, 1501.4, 1502.0])
    ['0.25', '100', '1501', '1502']
    """
    for digits in range(3, 18):
        names = [
            np.format_float_positional(
                bound, digits, unique=False, fractional=False, trim="-"
            )
            for bound in bounds
        ]
        if len(set(names)) == len(set(bounds)):
            break
    return names if len(bounds) else []


def _types(found: Stability) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    kinds = [info.type for info in found.study.items]
    for kind in sorted({kind for kind in kinds if kind is not None}):
        yield kind, np.array([one == kind for one in kinds])
    yield _NOT_KNOWN, np.array([one is None for one in kinds])
