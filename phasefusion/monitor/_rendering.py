"""Histories with their charts as sentences and tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from phasefusion._measures import LABELS
from phasefusion._wording import counted
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
        f"{percent(alert.value)} % against {percent(alert.center)} % "
        f"({alert.chart}, found {alert.found})"
    )
    if alert.changes:
        said += f"; what changed then: {'; '.join(alert.changes)}"
    return said


def _title(made: Watch) -> str:
    return f"phasefusion monitor: {made.state}"


def summary(made: Watch) -> list[str]:
    """Say how many batches there are."""
    n_first = made.n_baseline
    found = counted(made.n_batches, "batch", "batches")
    return [f"{found}, the first {n_first} are the baseline"]


def _lines(made: Watch) -> list[str]:
    lines = [f"{made.path}: {line}" for line in summary(made)]
    lines += [sentence(alert) for alert in made.alerts if alert.active]
    return [*lines, *(f"note: {notice}" for notice in made.notices)]


def sections(made: Watch, most: int | None = _MOST) -> list[Section]:
    """Lay out the newest rows, or all; parts without a row are left out."""
    series = [_series(one, most) for one in made.measures]
    found = [_now(made), _alerts(made, most), *series]
    return [section for section in found if section.rows]


def _now(made: Watch) -> Section:
    rows = []
    for one in made.measures:
        base = one.baseline
        rows.append(
            (
                LABELS[one.measure],
                one.state,
                percent(one.values[-1]),
                percent(math.nan if base is None else base.center),
                f"[{percent(one.lower[-1])}, {percent(one.upper[-1])}]",
                number(one.cusum_fell[-1]),
                number(one.cusum_rose[-1]),
                number(math.nan if base is None else base.dispersion),
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
        f"p charts at {half_up(made.width, 2)} sigma and CUSUMs at {number(made.h)}: "
        f"together one false alarm in about {made.every:g} batches. Sigma is "
        "clustered; a dispersion other than 1 is Laney's."
    )
    return Section("Newest batch", columns, tuple(rows), note)


def _alerts(made: Watch, most: int | None) -> Section:
    rows = tuple(
        (
            LABELS[alert.measure],
            alert.side,
            alert.chart,
            alert.since,
            alert.found,
            "active" if alert.active else alert.last,
            percent(alert.value),
            percent(alert.center),
        )
        for alert in made.alerts[_from(len(made.alerts), most) :]
    )
    columns = ("", "side", "chart", "since", "found", "last", "%", "baseline, %")
    return Section("Alerts", columns, rows)


def _series(one: MeasureWatch, most: int | None) -> Section:
    first = _from(len(one.at), most)
    rows = tuple(
        (
            at,
            percent(value),
            str(n),
            percent(error),
            f"[{percent(low)}, {percent(high)}]" if low == low else UNDEFINED,
            number(fell),
            number(rose),
        )
        for at, value, n, error, low, high, fell, rose in zip(
            one.at[first:],
            one.values[first:],
            one.sizes[first:],
            one.errors[first:],
            one.lower[first:],
            one.upper[first:],
            one.cusum_fell[first:],
            one.cusum_rose[first:],
            strict=True,
        )
    )
    columns = ("batch", "%", "items", "s.e.", "limits", "CUSUM fell", "CUSUM rose")
    note = f"{first} earlier ones are in the JSON output." if first else ""
    return Section(LABELS[one.measure], columns, rows, note)


def _from(n: int, most: int | None) -> int:
    """Return the first of n rows that is shown."""
    return 0 if most is None else max(0, n - most)


def rich(made: Watch) -> RenderableType:
    """Lay a watch out for a terminal."""
    return tables.rich(_title(made), _lines(made), sections(made))


def markdown(made: Watch) -> str:
    """Return a watch as Markdown."""
    return tables.markdown(_title(made), _lines(made), sections(made))


def html(made: Watch) -> str:
    """Return a watch as an HTML fragment."""
    return tables.html(_title(made), _lines(made), sections(made))


def percent(value: float) -> str:
    """Write a share in percent."""
    return UNDEFINED if math.isnan(value) else half_up(100 * value, 2)


def number(value: float) -> str:
    """Write a number with two decimals."""
    return UNDEFINED if math.isnan(value) else half_up(value, 2)
