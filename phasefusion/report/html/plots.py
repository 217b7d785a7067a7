"""The figures of a run's page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phasefusion.report.html.drawing import STYLES, drawn
from phasefusion.report.rates import INTERVALS
from phasefusion.report.scored import MASKED
from phasefusion.report.table import Table
from phasefusion.stats.selective import risk_coverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_ARMS = 12
_MAX_CURVES = 6
#: Pairs of phases up to which each is named, and labels that fit side by side.
_MAX_NAMED = 6
_MAX_LEVEL = 8
#: Width that the pairs of one distance share, of the space between two distances.
_SPREAD = 0.5


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
    intervals = INTERVALS[numbers["items"]["cluster"]]
    for title, note, draw in (
        ("Accuracy by arm", _NOTES["accuracy"], _accuracy(numbers)),
        ("Flips by distance of phases", _NOTES["offsets"], _offsets(numbers)),
        ("Risk and coverage", _NOTES["risk"], _risk(table)),
        ("Margins", _NOTES["margins"], _margins(table)),
    ):
        if isinstance(draw, str):
            found.append({"title": title, "note": draw, "svg": ""})
        elif draw is not None:
            found.append(drawn(title, note.format(intervals=intervals), draw))
    return found


_NOTES = {
    "accuracy": "Mean over the option orders, on the questions that carry every arm; "
    "{intervals}.",
    "offsets": "Share of consensus answers that two phases so many steps apart (dots, "
    "below them which phases), or an arm and its half-step shift (open squares), do "
    "not share; {intervals}.",
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
            axes.plot([value], [y], "o", color=STYLES[0][0], clip_on=False)
            axes.annotate(
                f"{value:.1f}",
                (value, y),
                (0, 6),
                textcoords="offset points",
                ha="center",
            )
        axes.set_yticks(range(len(arms)), arms)
        axes.set_ylim(len(arms) - 0.5, -0.7)
        _within(axes.get_xlim, axes.set_xlim)
        axes.set_xlabel("accuracy, %")

    return draw


def _offsets(numbers: Mapping[str, Any]) -> Callable[[Axes], None] | None:
    flips, half = numbers["phase_flips"], numbers["half_step"]
    pairs = [pair for pair in (flips or {"pairs": []})["pairs"] if pair["n"]]
    n_phases = 1 + max((max(pair["phases"]) for pair in pairs), default=0)
    apart: dict[int, list[Mapping[str, Any]]] = {}
    for pair in pairs:
        s, t = pair["phases"]
        apart.setdefault(t - s, []).append(pair)
    shifts = {
        arm: values["consensus"]
        for arm, values in ({} if half is None else half["arms"]).items()
        if values["consensus"]["n"]
    }
    if not apart and not shifts:
        return None

    def draw(axes: Axes) -> None:
        labels = []
        color, _, marker = STYLES[0]
        named = len(pairs) <= _MAX_NAMED
        for x, distance in enumerate(sorted(apart)):
            same = apart[distance]
            for i, pair in enumerate(same):
                value, low, high = (100 * pair[k] for k in ("value", "low", "high"))
                at = x + _SPREAD * ((i + 0.5) / len(same) - 0.5)
                axes.plot([at, at], [low, high], color=color)
                axes.plot([at], [value], marker, color=color, clip_on=False)
            names = ["-".join(map(str, pair["phases"])) for pair in same]
            under = "\n" + ", ".join(names) if named else ""
            labels.append(f"{distance / n_phases:.2f}{under}")
        color, _, _ = STYLES[1]
        for at, (arm, rate) in enumerate(shifts.items(), len(apart)):
            axes.plot([at, at], [100 * rate["low"], 100 * rate["high"]], color=color)
            style: Any = {"color": color, "fillstyle": "none", "clip_on": False}
            axes.plot([at], [100 * rate["value"]], "s", **style)
            labels.append(arm)
        slant: Any = {"rotation": 30, "ha": "right"} if len(labels) > _MAX_LEVEL else {}
        axes.set_xticks(range(len(labels)), labels, fontsize=8, **slant)
        axes.set_xlim(-0.6, len(labels) - 0.4)
        axes.set_ylim(bottom=0)
        _within(axes.get_ylim, axes.set_ylim)
        both = ["phases so many steps apart"] * bool(apart)
        both += ["arms moved by half a step"] * bool(shifts)
        axes.set_xlabel("; ".join(both))
        axes.set_ylabel("changed answers, %")

    return draw


def _within(
    get: Callable[[], tuple[float, float]], put: Callable[[float, float], Any]
) -> None:
    """Keep an axis of percentages within 0 and 100."""
    low, high = get()
    put(max(0.0, low), min(100.0, high))


def _arms(table: Table) -> list[str]:
    """Arms whose curves are drawn; phase views are left to the tables."""
    arms = dict.fromkeys(name for name, shifted in table.arms if not shifted)
    found = []
    for name in arms:
        margin = table.arms[name, False].margin[:, 0]
        if name not in table.phase_names and (margin < MASKED).any():
            found.append(name)
    wanted = ["single", "fusion", "union", "dense"]
    found.sort(key=lambda name: wanted.index(name) if name in wanted else len(wanted))
    return found[:_MAX_CURVES]


def _risk(table: Table) -> Callable[[Axes], None] | str | None:
    """Draw the curves; a sentence where none has more than one point."""
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
    if all(len(curve.coverage) < 2 for _, curve in curves):
        return (
            "Not drawn: no two questions have different margins, so none can be "
            "answered before the others."
        )

    def draw(axes: Axes) -> None:
        for (arm, curve), (color, line, marker) in zip(curves, STYLES, strict=False):
            axes.plot(
                100 * curve.coverage,
                100 * curve.risk,
                color=color,
                linestyle=line,
                marker=marker if len(curve.coverage) < 2 else "",
                clip_on=False,
                label=f"{arm} (area {curve.aurc:.3f})",
            )
        axes.set_xlabel("questions answered, %")
        axes.set_ylabel("of them wrong, %")
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        _within(axes.get_ylim, axes.set_ylim)
        axes.legend(fontsize=8)

    return draw


def _margins(table: Table) -> Callable[[Axes], None] | None:
    arms: Sequence[str] = _arms(table)
    if not arms:
        return None

    def draw(axes: Axes) -> None:
        for arm, (color, line, _) in zip(arms, STYLES, strict=False):
            margin = table.arms[arm, False].margin[:, 0]
            margin = np.sort(margin[margin < MASKED])
            share = 100 * np.arange(1, len(margin) + 1) / len(margin)
            axes.step(
                margin, share, where="post", color=color, linestyle=line, label=arm
            )
        axes.set_xlabel("margin, nats")
        axes.set_ylabel("questions, %")
        axes.set_ylim(0, 100)
        axes.legend(fontsize=8)

    return draw
