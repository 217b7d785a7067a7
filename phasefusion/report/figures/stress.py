"""The figure of the stress test: grids moved by whole frames, under all orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import counted
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.items import Column, flips_of
from phasefusion.stats import worst_case_accuracy


def stress(study: Study) -> list[FigureTable]:
    """Accuracy over all configurations, its worst case, and flips by what moved."""
    arms = _moved_arms(study)
    if len(arms) < 2:
        return []
    used = study.complete(*(arm.first for _, arm in arms))
    used &= study.n_orders == [math.factorial(k) for k in study.n_options.tolist()]
    answers = np.stack([arm.first.answer for _, arm in arms], axis=1)  # (n, V, M)
    return [
        _accuracies(study, answers, used),
        _flips(study, answers, used),
        _by_shift(study, arms, used),
    ]


def _moved_arms(study: Study) -> list[tuple[int, ArmPasses]]:
    """Frames that grids are moved by, and the arm."""
    found = []
    for entry in study.entries:
        arm = study.arm(entry["arm"])
        if arm is not None and not entry["shifted"]:
            found.append((int(entry.get("moved_frames", 0)), arm))
    return sorted(found, key=lambda pair: pair[0])


def _accuracies(
    study: Study, answers: NDArray[np.int64], used: NDArray[np.bool_]
) -> FigureTable:
    """Range over configurations, which only questions of one K have in common."""
    rows = []
    for k in np.unique(study.n_options[used]).tolist():
        chosen = np.flatnonzero(used & (study.n_options == k) & (study.gold >= 0))
        if not len(chosen):
            continue
        table = answers[chosen][:, :, : math.factorial(k)]
        n_views = table.shape[1] * table.shape[2]
        made = worst_case_accuracy(table.reshape(len(chosen), -1), study.gold[chosen])
        by_view = made.view_accuracy
        right = table.reshape(len(chosen), -1) == study.gold[chosen, None]
        in_all = np.full(len(study.items), np.nan)
        in_all[chosen] = right.all(axis=1)
        rows.append(
            (
                str(k),
                n_views,
                float(by_view.min()),
                float(by_view.mean()),
                float(by_view.max()),
                100 * made.view_sd,
                study.rate(in_all),
                made.best,
                len(chosen),
            )
        )
    return FigureTable(
        "Accuracy under stress",
        (
            ("options", "text"),
            ("configurations", "count"),
            ("lowest", "percent"),
            ("mean", "percent"),
            ("highest", "percent"),
            ("sd, points", "number"),
            ("right in all", "rate"),
            ("right in some", "percent"),
            ("n", "count"),
        ),
        clean(rows),
        "A configuration is one shift of the grid with one option order. Right in all "
        "is the worst case: the configuration chosen against the model, question by "
        "question. Questions with every pass.",
    )


def _flips(
    study: Study, answers: NDArray[np.int64], used: NDArray[np.bool_]
) -> FigureTable:
    """Flips over shifts in one order, over orders at one shift, and over both."""
    n, n_shifts, n_orders = answers.shape
    by_shift = _mean_flips(
        np.moveaxis(answers, 1, 2).reshape(n * n_orders, n_shifts),
        np.where(study.there, n_shifts, 0).ravel(),
        n,
    )
    by_order = _mean_flips(
        answers.reshape(n * n_shifts, n_orders),
        np.repeat(study.n_orders, n_shifts),
        n,
    )
    whole = flips_of(answers.reshape(n, -1), n_shifts * study.n_orders)
    rows: list[tuple[Any, ...]] = [
        (name, study.rate(pairwise, used), study.rate(every, used))
        for name, pairwise, every in (
            ("the grid moved, one order", *by_shift),
            ("the options ordered, one grid", *by_order),
            ("both", whole.pairwise, whole.any),
        )
    ]
    same = 1.0 - whole.any
    rows.append(("never changes", study.rate(same, used), None))
    return FigureTable(
        "Answers that change under stress",
        (("when", "text"), ("two differ", "rate"), ("any differs", "rate")),
        clean(rows),
        f"{counted(int(used.sum()), 'question')}. One order and one grid: mean over "
        "all of them. Never changes: the same answer in every configuration.",
    )


def _mean_flips(
    rows: NDArray[np.int64], wanted: NDArray[np.int64], n_items: int
) -> tuple[Column, Column]:
    """Flips of each row, averaged over the rows of every item that want answers."""
    made = flips_of(rows, wanted)
    there = (wanted > 0).reshape(n_items, -1)
    found = []
    for values in (made.pairwise, made.any):
        table = np.where(there, values.reshape(n_items, -1), 0.0)
        found.append(table.sum(axis=1) / np.maximum(there.sum(axis=1), 1))
    return found[0], found[1]


def _by_shift(
    study: Study, arms: list[tuple[int, ArmPasses]], used: NDArray[np.bool_]
) -> FigureTable:
    home = dict(arms).get(0)
    rows = []
    for moved, arm in arms:
        differs = np.full(len(used), np.nan)
        passes = np.full(len(used), np.nan)
        if home is not None:
            changed = (arm.first.answer != home.first.answer) & study.there
            passes = changed.sum(axis=1) / np.maximum(study.n_orders, 1)
            differs = (arm.first.consensus != home.first.consensus).astype(np.float64)
        rows.append(
            (
                f"{moved:+d}" if moved else "0",
                study.rate(study.accuracy(arm.first), used),
                study.rate(study.right(arm.first), used)["value"],
                study.rate(passes, used)["value"],
                study.rate(differs, used),
            )
        )
    return FigureTable(
        "By frames that the grid is moved",
        (
            ("frames", "text"),
            ("right, all orders", "rate"),
            ("consensus right", "percent"),
            ("answers differ from 0", "percent"),
            ("consensus differs", "rate"),
        ),
        clean(rows),
        "Consensus: plurality over the option orders.",
    )
