"""A history as one HTML page that works offline: charts, alerts, every batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from phasefusion._measures import LABELS
from phasefusion._whole import replace_text
from phasefusion.monitor._rendering import (
    number,
    percent,
    sections,
    sentence,
    summary,
)
from phasefusion.report.html.drawing import INK, STYLES, drawn
from phasefusion.report.html.rendering import rendered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from phasefusion.monitor._watching import Alert, Chart, MeasureWatch, Watch

_MOST_LABELS = 7
_PLAIN, _OUTSIDE = STYLES[0], STYLES[1]


def write_html(made: Watch, path: Path) -> Path:
    """Write the page of a watch; its folder is made where it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, page(made))
    return path


def page(made: Watch) -> str:
    """Return the page of a watch."""
    plots = []
    for one in made.measures:
        plots.append(_p_chart(made, one))
        if not all(map(math.isnan, one.cusum_fell)):
            plots.append(_cusum(made, one))
    newest = made.alerts[::-1]
    return rendered(
        "monitor.html.jinja",
        ("theme.js",),
        title="phasefusion monitor",
        tag=made.state,
        path=made.path,
        lines=[*summary(made), *made.notices],
        alerts=[
            ("Active alerts", _told(newest, active=True)),
            ("Earlier alerts", _told(newest, active=False)),
        ],
        plots=plots,
        sections=sections(made, most=None),
    )


def _told(alerts: Sequence[Alert], *, active: bool) -> list[dict[str, object]]:
    return [
        {"text": sentence(alert), "active": active}
        for alert in alerts
        if alert.active is active
    ]


def _p_chart(made: Watch, one: MeasureWatch) -> dict[str, str]:
    label = LABELS[one.measure]
    base = one.baseline
    values, lower, upper = (
        100 * np.array(part) for part in (one.values, one.lower, one.upper)
    )
    x = np.arange(len(values))
    outside = (values < lower) | (values > upper)

    def draw(axes: Axes) -> None:
        _shade_baseline(axes, one)
        axes.plot(x, values, color=_PLAIN[0], marker=_PLAIN[2], markersize=4)
        axes.plot(
            x[outside],
            values[outside],
            _OUTSIDE[2],
            color=_OUTSIDE[0],
            markersize=8,
            label="outside",
        )
        if base is not None:
            axes.axhline(100 * base.center, color=INK, linewidth=1)
        for limit in (lower, upper):
            axes.step(x, limit, where="mid", color=INK, linewidth=1, linestyle="--")
        _mark(axes, one, "p chart")
        _label_batches(axes, one)
        axes.set_ylabel(f"{label}, %")

    kind = "p chart"
    if base is not None and base.dispersion != 1.0:
        kind = "Laney p′ chart"
    note = f"Newest: {percent(one.values[-1])} %"
    if base is not None:
        note += f"; baseline (shaded) {percent(base.center)} %"
    if not math.isnan(one.lower[-1]):
        note += (
            f"; limits (dashed) {percent(one.lower[-1])} to {percent(one.upper[-1])} "
            f"%, at {number(made.width)} sigma"
        )
    note += _outside(one, "p chart")
    return drawn(f"{label[0].upper()}{label[1:]}: {kind}", note, draw)


def _cusum(made: Watch, one: MeasureWatch) -> dict[str, str]:
    label = LABELS[one.measure]
    fell, rose = np.array(one.cusum_fell), np.array(one.cusum_rose)
    x = np.arange(len(fell))

    def draw(axes: Axes) -> None:
        _shade_baseline(axes, one)
        for sums, (color, line, marker), side in (
            (rose, STYLES[2], "rose"),
            (-fell, STYLES[1], "fell"),
        ):
            axes.plot(
                x,
                sums,
                color=color,
                linestyle=line,
                marker=marker,
                markersize=4,
                label=side,
            )
        axes.axhline(0.0, color=INK, linewidth=1)
        for limit in (made.h, -made.h):
            axes.axhline(limit, color=INK, linewidth=1, linestyle="--")
        _mark(axes, one, "CUSUM")
        _label_batches(axes, one)
        axes.set_ylabel("sum of sigmas (fell: below 0)")
        axes.legend(fontsize=8, loc="center left")

    note = (
        f"Newest: fell {number(one.cusum_fell[-1])}, rose {number(one.cusum_rose[-1])}"
        f"; limit (dashed) {number(made.h)}" + _outside(one, "CUSUM")
    )
    return drawn(f"{label[0].upper()}{label[1:]}: CUSUM", note, draw)


def _outside(one: MeasureWatch, chart: Chart) -> str:
    """Say what left a chart, for those who do not see it."""
    found = [alert for alert in one.alerts if alert.chart == chart]
    told = [
        f"{alert.side} {'since' if alert.active else 'from'} {alert.since}"
        + ("" if alert.active else f" to {alert.last}")
        for alert in found
    ]
    return f". Outside: {'; '.join(told)}." if told else ". Nothing is outside."


def _shade_baseline(axes: Axes, one: MeasureWatch) -> None:
    n_first = int(np.isnan(one.lower).sum())
    axes.axvspan(-0.5, n_first - 0.5, color=INK, alpha=0.08, linewidth=0)
    axes.set_xlim(-0.5, len(one.at) - 0.5)


def _mark(axes: Axes, one: MeasureWatch, chart: Chart) -> None:
    """Draw a line where each alert of a chart began, the newest with its date."""
    alerts = [alert for alert in one.alerts if alert.chart == chart]
    for alert in alerts:
        axes.axvline(
            one.at.index(alert.since), color=_OUTSIDE[0], linewidth=1, linestyle=":"
        )
    if alerts:
        place = one.at.index(alerts[-1].since)
        is_late = 2 * place > len(one.at)
        axes.annotate(
            f"{'since' if alerts[-1].active else 'from'} {short_times(one.at)[place]}",
            (place, 1.0),
            (-3 if is_late else 3, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right" if is_late else "left",
            va="top",
            fontsize=8,
        )


def _label_batches(axes: Axes, one: MeasureWatch) -> None:
    n = len(one.at)
    places = np.unique(np.linspace(0, n - 1, min(n, _MOST_LABELS)).round().astype(int))
    times = short_times(one.at)
    axes.set_xticks(
        places.tolist(), [times[i] for i in places], rotation=30, ha="right", fontsize=8
    )


def short_times(at: Sequence[str]) -> list[str]:
    """Cut times to what tells them apart: days, or minutes of them, or seconds.

    Examples
    --------
    >>> short_times(["2026-11-30T08:00:00Z", "2026-12-01T08:00:00Z"])
    ['2026-11-30', '2026-12-01']
    >>> short_times(["2026-11-30T08:00:00Z", "2026-11-30T20:00:00Z"])
    ['2026-11-30 08:00', '2026-11-30 20:00']
    """
    for length in (10, 16):
        short = [one[:length].replace("T", " ") for one in at]
        if len(set(short)) == len(at):
            return short
    return [one[:19].replace("T", " ") for one in at]
