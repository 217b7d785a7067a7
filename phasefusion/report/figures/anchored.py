"""Grids in a window at an anchor against uniform grids over the whole clip."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.report.figures.costs import costs
from phasefusion.report.figures.stability import Stability, stability_of
from phasefusion.report.figures.study import Study
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.items import Column
from phasefusion.stats import clustered_mean


def anchored(study: Study) -> list[FigureTable]:
    """Compute both, and their difference question by question."""
    found = {
        name: one
        for name, one in (
            ("uniform", stability_of(study, "phase")),
            ("anchored", stability_of(study, "anchored")),
        )
        if one is not None
    }
    if not found:
        return []
    columns = {name: _columns(one) for name, one in found.items()}
    used = np.ones(len(study.items), bool)  # the same questions in every row
    for one in found.values():
        used &= ~np.isnan(one.fpc)
    made = [_both(found, used), costs(study)]
    if len(found) == 2:
        made.insert(1, _difference(study, columns["uniform"], columns["anchored"]))
    return made


def _both(found: Mapping[str, Stability], used: NDArray[np.bool_]) -> FigureTable:
    rows = [
        (
            name,
            *(
                one.clustered(column, used)
                for column in (one.accuracy, one.fpc, one.ooc)
            ),
            int(used.sum()),
        )
        for name, one in found.items()
    ]
    return FigureTable(
        "Uniform and anchored frames",
        (
            ("frames", "text"),
            ("Mean Acc", "rate"),
            ("FPC", "rate"),
            ("OOC", "rate"),
            ("n", "count"),
        ),
        clean(rows),
        "On the questions that have every pass of both. Mean Acc: right answers over "
        "all phases and orders. 95 % intervals, clustered by video.",
    )


def _columns(found: Stability) -> dict[str, Column]:
    """Collect what is compared, by question; NaN where it is not defined."""
    study = found.study
    flips = study.phase_flips(found.arm).any
    return {
        "Mean Acc": found.accuracy,
        "accuracy, fused": study.accuracy(found.arm.pooled),
        "FPC": found.fpc,
        "OOC": found.ooc,
        "flips over all phases": np.where(np.isnan(found.fpc), np.nan, flips),
    }


def _difference(
    study: Study, uniform: dict[str, Column], anchored: dict[str, Column]
) -> FigureTable:
    rows: list[tuple[Any, ...]] = []
    for key, column in anchored.items():
        difference = column - uniform[key]
        known = ~np.isnan(difference)
        if not known.any():
            rows.append((key, *[math.nan] * 5, 0))
            continue
        made = clustered_mean(
            difference[known], study.videos[known], limits=(-1.0, 1.0)
        )
        means = uniform[key][known].mean(), column[known].mean()
        points = 100 * made.mean, 100 * made.low, 100 * made.high
        rows.append((key, *means, *points, made.n))
    return FigureTable(
        "Anchored less uniform, question by question",
        (
            ("", "text"),
            ("uniform", "percent"),
            ("anchored", "percent"),
            ("points", "points"),
            ("low", "points"),
            ("high", "points"),
            ("n", "count"),
        ),
        clean(rows),
        "Points with 95 % intervals, clustered by video. A window shows frames that "
        "are more alike, so its phases agree more; what that is worth, accuracy says.",
    )
