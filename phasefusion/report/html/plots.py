"""The figures of a run's page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phasefusion.report.html.drawing import STYLES, drawn
from phasefusion.report.table import Table
from phasefusion.stats.proportions import score_interval
from phasefusion.stats.selective import risk_coverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_ARMS = 12
_MAX_CURVES = 6


def plots(numbers: Mapping[str, Any], table: Table) -> list[dict[str, str]]:
    """Draw every figure that the run has numbers for.

    Parameters
    ----------
    numbers : mapping
        Of the report.
    table : Table

    Returns
    -------
    list of dict
        As `drawn` returns them.
    """
    found = []
    for title, note, draw in (
        ("Accuracy by arm", _NOTES["accuracy"], _accuracy(numbers)),
        ("Flips by distance of phases", _NOTES["offsets"], _offsets(numbers)),
        ("Risk and coverage", _NOTES["risk"], _risk(table)),
        ("Margins", _NOTES["margins"], _margins(table)),
    ):
        if draw is not None:
            found.append(drawn(title, note, draw))
    return found


_NOTES = {
    "accuracy": "Mean over the option orders, with 95 % Wilson intervals over the "
    "questions that carry every arm.",
    "offsets": "Share of consensus answers that two phases a part of a step apart, or "
    "an arm and its half-step shift (open squares), do not share; 95 % Wilson "
    "intervals over questions.",
    "risk": "Errors among the questions whose margin in the first order is greatest, "
    "by the share of the questions that are kept.",
    "margins": "Share of the questions with a margin in the first order, in nats, of "
    "at most so much.",
}


def _accuracy(numbers: Mapping[str, Any]) -> Callable[[Axes], None] | None:
    rates = {
        arm: values["order_averaged"]
        for arm, values in numbers["accuracy"].items()
        if values["order_averaged"]["n"]
    }
    arms = list(rates)[:_MAX_ARMS]
    if not arms:
        return None

    def draw(axes: Axes) -> None:
        for y, arm in enumerate(arms):
            value, low, high = (100 * rates[arm][k] for k in ("value", "low", "high"))
            axes.plot([low, high], [y, y], color=STYLES[0][0], linewidth=2)
            axes.plot([value], [y], "o", color=STYLES[0][0])
            axes.annotate(
                f"{value:.1f}",
                (value, y),
                (0, 6),
                textcoords="offset points",
                ha="center",
            )
        axes.set_yticks(range(len(arms)), arms)
        axes.set_ylim(len(arms) - 0.5, -0.7)
        axes.set_xlabel("accuracy, %")

    return draw


def _offsets(numbers: Mapping[str, Any]) -> Callable[[Axes], None] | None:
    flips, half = numbers["phase_flips"], numbers["half_step"]
    points = []
    pairs = [] if flips is None else flips["pairs"]
    n_phases = 1 + max((max(pair["phases"]) for pair in pairs), default=0)
    for pair in pairs:
        if pair["n"]:
            s, t = pair["phases"]
            low, high = score_interval(pair["value"] * pair["n"], pair["n"], 0.95)
            points.append(((t - s) / n_phases, pair["value"], low, high, f"{s}-{t}"))
    shifts = []
    for arm, values in {} if half is None else half["arms"].items():
        rate = values["consensus"]
        if rate["n"]:
            shifts.append((rate["value"], rate["low"], rate["high"], arm))
    if not points and not shifts:
        return None

    def draw(axes: Axes) -> None:
        color, _, marker = STYLES[0]
        spread: dict[float, int] = {}
        for x, value, low, high, name in points:
            at = x + 0.02 * spread.get(x, 0)
            spread[x] = spread.get(x, 0) + 1
            axes.plot([at, at], [100 * low, 100 * high], color=color)
            axes.plot([at], [100 * value], marker, color=color)
            axes.annotate(
                name, (at, 100 * high), (0, 3), textcoords="offset points", ha="center"
            )
        last = max((x for x, *_ in points), default=0.0) + 0.15
        ticks = sorted({x for x, *_ in points})
        labels = [f"{x:.2f}" for x in ticks]
        for i, (value, low, high, arm) in enumerate(shifts):
            at = last + 0.11 * i
            color, _, _ = STYLES[1]
            axes.plot([at, at], [100 * low, 100 * high], color=color)
            axes.plot([at], [100 * value], "s", color=color, fillstyle="none")
            ticks.append(at)
            labels.append(f"{arm}\nhalf step")
        axes.set_xticks(ticks, labels, fontsize=8)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("distance of the phases, steps")
        axes.set_ylabel("changed answers, %")

    return draw


def _arms(table: Table) -> list[str]:
    """Arms whose curves are drawn; phase views are left to the tables."""
    arms = dict.fromkeys(name for name, shifted in table.arms if not shifted)
    found = []
    for name in arms:
        margin = table.arms[name, False].margin[:, 0]
        if name not in table.phase_names and np.isfinite(margin).any():
            found.append(name)
    wanted = ["single", "fusion", "union", "dense"]
    found.sort(key=lambda name: wanted.index(name) if name in wanted else len(wanted))
    return found[:_MAX_CURVES]


def _risk(table: Table) -> Callable[[Axes], None] | None:
    curves = []
    for arm in _arms(table):
        outcomes = table.arms[arm, False]
        usable = (table.gold >= 0) & (outcomes.answer[:, 0] >= 0)
        wrong = (outcomes.answer[:, 0] != table.gold)[usable]
        curve = risk_coverage(outcomes.margin[usable, 0], wrong)
        if curve.n and not math.isnan(curve.aurc):
            curves.append((arm, curve))
    if not curves:
        return None

    def draw(axes: Axes) -> None:
        for (arm, curve), (color, line, _) in zip(curves, STYLES, strict=False):
            axes.plot(
                100 * curve.coverage,
                100 * curve.risk,
                color=color,
                linestyle=line,
                label=f"{arm} (area {curve.aurc:.3f})",
            )
        axes.set_xlabel("questions answered, %")
        axes.set_ylabel("of them wrong, %")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)

    return draw


def _margins(table: Table) -> Callable[[Axes], None] | None:
    arms: Sequence[str] = _arms(table)
    if not arms:
        return None

    def draw(axes: Axes) -> None:
        for arm, (color, line, _) in zip(arms, STYLES, strict=False):
            margin = table.arms[arm, False].margin[:, 0]
            margin = np.sort(margin[np.isfinite(margin)])
            share = 100 * np.arange(1, len(margin) + 1) / len(margin)
            axes.step(
                margin, share, where="post", color=color, linestyle=line, label=arm
            )
        axes.set_xlabel("margin, nats")
        axes.set_ylabel("questions, %")
        axes.set_ylim(0, 100)
        axes.legend(fontsize=8)

    return draw
