"""Tables of a figure: values with their kind, for JSON and for print."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from phasefusion._results import Result, table_html
from phasefusion.report.items import Column
from phasefusion.report.sections import UNDEFINED, Section, percent
from phasefusion.stats._answers import half_up

#: percent and rate are fractions of one, a rate with its interval; points are
#: hundredths.
Kind: TypeAlias = Literal[
    "text", "count", "number", "percent", "rate", "points", "pvalue"
]


@dataclass(frozen=True, slots=True, repr=False)
class FigureTable(Result):
    """One table of a figure.

    Attributes
    ----------
    title : str
    columns : tuple of (str, Kind)
        Name and kind of every column; the first is text.
    rows : tuple of tuple
        Values as they were computed; None and NaN are undefined.
    note : str
        How to read it.
    printed : int or None
        Rows that are printed, of a table that may be long; the JSON has all.
    """

    title: str
    columns: tuple[tuple[str, Kind], ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    printed: int | None = None

    def _repr_html_(self) -> str:
        made = _section(self.to_dict())
        return (
            f"<h4>{html.escape(made.title)}</h4>{table_html(made.columns, made.rows)}"
            f"<p><small>{html.escape(made.note)}</small></p>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values, a row being an object."""
        names = [name for name, _ in self.columns]
        found = {
            "title": self.title,
            "columns": [{"name": name, "kind": kind} for name, kind in self.columns],
            "rows": [dict(zip(names, row, strict=True)) for row in self.rows],
            "note": self.note,
        }
        return found if self.printed is None else found | {"printed": self.printed}


def sections(figure: Mapping[str, Any] | None) -> list[Section]:
    """Lay the tables of a figure out, as `FigureTable.to_dict` gave them."""
    if figure is None:
        return []
    return [_section(table) for table in figure["tables"]]


def _section(table: Mapping[str, Any]) -> Section:
    columns = table["columns"]
    rows = [
        tuple(shown(row[one["name"]], one["kind"]) for one in columns)
        for row in table["rows"][: table.get("printed")]
    ]
    note = table["note"]
    n_more = len(table["rows"]) - len(rows)
    if n_more:
        note = f"{note} {n_more} more are in the JSON report.".lstrip()
    names = tuple(
        f"{one['name']}, %" if one["kind"] in ("percent", "rate") else one["name"]
        for one in columns
    )
    return Section(table["title"], names, tuple(rows), note)


def shown(value: Any, kind: Kind) -> str:
    """Format one value.

    Examples
    --------
    >>> shown(0.1234, "percent"), shown(-1.25, "points"), shown(float("nan"), "number")
    ('12.3', '-1.3', '–')
    """
    if kind == "rate":
        return _rate(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return UNDEFINED
    if kind == "percent":
        return percent(value)
    if kind == "points":
        text = half_up(value, 1)
        return text if float(text) <= 0 else f"+{text}"
    if kind == "pvalue":
        return "< 0.0001" if value < 1e-4 else f"{value:.3g}"
    if kind == "number":
        return f"{value:.3g}" if math.isfinite(value) else "∞"
    return str(value)


def _rate(value: Mapping[str, Any] | None) -> str:
    if value is None or value["value"] is None or math.isnan(value["value"]):
        return UNDEFINED
    if math.isnan(value["low"]):
        return percent(value["value"])
    parts = [percent(value[name]) for name in ("value", "low", "high")]
    return f"{parts[0]} [{parts[1]}, {parts[2]}]"


def points(ours: Column, theirs: Column) -> float:
    """Mean difference of two columns in points, on the items that have both."""
    known = ~np.isnan(ours) & ~np.isnan(theirs)
    return 100 * float((ours - theirs)[known].mean()) if known.any() else math.nan


def clean(rows: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Turn NumPy scalars into plain values."""
    return tuple(
        tuple(value.item() if hasattr(value, "item") else value for value in row)
        for row in rows
    )
