"""Histories with their charts as sentences and tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from phasefusion._measures import LABELS
from phasefusion.report import tables
from phasefusion.report.sections import UNDEFINED, Section
from phasefusion.stats._answers import half_up

if TYPE_CHECKING:
    from rich.console import RenderableType

    from phasefusion.monitor._watching import Alert, MeasureWatch, Watch

#: Newest batches and alerts that a table shows; the JSON output has all.
_MOST = 20


def sentence(alert: Alert) -> str:
    """Say what left a chart, and since when."""
    now = "since" if alert.active else f"until {alert.last}, from"
    said = (
        f"{LABELS[alert.measure]} {alert.side} {now} {alert.since}: "
        f"{_percent(alert.value)} % against {_percent(alert.center)} % "
        f"({alert.chart}, found {alert.found})"
    )
    if alert.changes:
        said += f"; what changed then: {'; '.join(alert.changes)}"
    return said


def _title(made: Watch) -> str:
    return f"phasefusion monitor: {made.state}"


def _lines(made: Watch) -> list[str]:
    first = f"{made.path}: {made.n_batches} batches"
    lines = [f"{first}, the first {made.n_baseline} are the baseline"]
    lines += [sentence(alert) for alert in made.alerts if alert.active]
    return [*lines, *(f"note: {notice}" for notice in made.notices)]


def sections(made: Watch) -> list[Section]:
    """Lay the charts out; parts without a row are left out."""
    found = [_now(made), _alerts(made), *(_series(one) for one in made.measures)]
    return [section for section in found if section.rows]


def _now(made: Watch) -> Section:
    rows = []
    for one in made.measures:
        base = one.baseline
        rows.append(
            (
                LABELS[one.measure],
                one.state,
                _percent(one.values[-1]),
                _percent(math.nan if base is None else base.center),
                f"[{_percent(one.lower[-1])}, {_percent(one.upper[-1])}]",
                _number(one.cusum_fell[-1]),
                _number(one.cusum_rose[-1]),
                _number(math.nan if base is None else base.dispersion),
            )
        )
    columns = (
        "",
        "state",
        "newest, %",
        "baseline, %",
        "limits",
        "CUSUM fell",
        "CUSUM rose",
        "dispersion",
    )
    note = (
        f"p charts at {half_up(made.width, 2)} sigma and CUSUMs at {_number(made.h)}: "
        f"together one false alarm in about {made.every:g} batches. Sigma is "
        "clustered; a dispersion other than 1 is Laney's."
    )
    return Section("Newest batch", columns, tuple(rows), note)


def _alerts(made: Watch) -> Section:
    rows = tuple(
        (
            LABELS[alert.measure],
            alert.side,
            alert.chart,
            alert.since,
            alert.found,
            "active" if alert.active else alert.last,
            _percent(alert.value),
            _percent(alert.center),
        )
        for alert in made.alerts[-_MOST:]
    )
    columns = ("", "side", "chart", "since", "found", "last", "%", "baseline, %")
    return Section("Alerts", columns, rows)


def _series(one: MeasureWatch) -> Section:
    rows = tuple(
        (
            at,
            _percent(value),
            str(n),
            _percent(error),
            f"[{_percent(low)}, {_percent(high)}]" if low == low else UNDEFINED,
            _number(fell),
            _number(rose),
        )
        for at, value, n, error, low, high, fell, rose in zip(
            one.at[-_MOST:],
            one.values[-_MOST:],
            one.sizes[-_MOST:],
            one.errors[-_MOST:],
            one.lower[-_MOST:],
            one.upper[-_MOST:],
            one.cusum_fell[-_MOST:],
            one.cusum_rose[-_MOST:],
            strict=True,
        )
    )
    columns = ("batch", "%", "items", "s.e.", "limits", "CUSUM fell", "CUSUM rose")
    more = len(one.at) - _MOST
    note = f"{more} earlier ones are in the JSON output." if more > 0 else ""
    return Section(LABELS[one.measure], columns, rows, note)


def rich(made: Watch) -> RenderableType:
    """Lay a watch out for a terminal."""
    return tables.rich(_title(made), _lines(made), sections(made))


def markdown(made: Watch) -> str:
    """Return a watch as Markdown."""
    return tables.markdown(_title(made), _lines(made), sections(made))


def html(made: Watch) -> str:
    """Return a watch as an HTML fragment."""
    return tables.html(_title(made), _lines(made), sections(made))


def _percent(value: float) -> str:
    return UNDEFINED if math.isnan(value) else half_up(100 * value, 2)


def _number(value: float) -> str:
    return UNDEFINED if math.isnan(value) else half_up(value, 2)
