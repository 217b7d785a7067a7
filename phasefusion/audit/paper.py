"""Tables of the paper: what runs give beside what is published.

The published values are those of ``phasefusion audit paper``, kept in one place with
where they stand. A paper's number is another model on other questions: standing beside
it says what a figure is and how large it was there, never what it should be here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from phasefusion._results import Result, table_html
from phasefusion.audit import Figure, load_claims
from phasefusion.audit._paper_rows import CANNOT, ROWS
from phasefusion.errors import StatisticsError
from phasefusion.report import Report
from phasefusion.report.figures.table import Kind, shown
from phasefusion.report.sections import UNDEFINED, Section

__all__ = ["CANNOT", "PaperRow", "PaperTable", "paper_row", "paper_tables", "published"]


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One measure.

    Attributes
    ----------
    label : str
    values : tuple
        One a corpus: a number, a rate with its interval (a mapping with "value",
        "low" and "high", as reports have), or None where it was not measured.
    kind : Kind
        Of the values, as in figures: fractions for "percent" and "rate".
    published : tuple of Figure
    """

    label: str
    values: tuple[Any, ...]
    kind: Kind
    published: tuple[Figure, ...]

    def texts(self) -> tuple[str, ...]:
        """Label, values, what is published, and where."""
        values = tuple(_said(value, self.kind) for value in self.values)
        where = dict.fromkeys(one.where for one in self.published)
        return (self.label, *values, _together(self.published), "; ".join(where))


@dataclass(frozen=True, slots=True, repr=False)
class PaperTable(Result):
    """Measures of one section of the paper.

    Attributes
    ----------
    title : str
    corpora : tuple of str
        What was measured on.
    rows : tuple of PaperRow
    note : str
    """

    title: str
    corpora: tuple[str, ...]
    rows: tuple[PaperRow, ...]
    note: str = ""

    def section(self) -> Section:
        """Lay it out as text."""
        columns = ("", *self.corpora, "published", "where")
        return Section(
            self.title, columns, tuple(row.texts() for row in self.rows), self.note
        )

    def _repr_html_(self) -> str:
        from html import escape

        made = self.section()
        return (
            f"<h4>{escape(made.title)}</h4>"
            f"{table_html(made.columns, made.rows, most=len(made.rows))}"
            f"<p><small>{escape(made.note)}</small></p>"
        )


def published(names: str) -> tuple[Figure, ...]:
    """Look published figures up, as the audit of the paper names them.

    Parameters
    ----------
    names : str
        One or several, with blanks between them.

    Returns
    -------
    tuple of Figure

    Raises
    ------
    StatisticsError
        If there is none of a name.

    Examples
    --------
    >>> [f"{one}: {one.where}" for one in published("phase_q3 flip_auroc")]
    ['18.7 %: §2.2, p. 2', '0.831: §4.3, p. 4']
    """
    known = _figures()
    for name in names.split():
        if name not in known:
            raise StatisticsError(
                f"the paper has no figure {name!r}; its audit lists them, "
                "phasefusion/audit/claims/paper.yaml"
            )
    return tuple(known[name] for name in names.split())


@cache
def _figures() -> Mapping[str, Figure]:
    return load_claims("paper").figures


def paper_row(label: str, names: str, *values: Any, kind: Kind = "rate") -> PaperRow:
    """Make one row of a table.

    Parameters
    ----------
    label : str
    names : str
        Published figures, as `published` takes them.
    *values
        As in `PaperRow`; results of `phasefusion.stats` whose interval is ``low`` and
        ``high`` do as well.
    kind : Kind, default "rate"

    Returns
    -------
    PaperRow

    Examples
    --------
    >>> paper_row("differ", "phase_q3", 0.1, None, kind="percent").texts()
    ('differ', '10.0 %', '–', '18.7 %', '§2.2, p. 2')
    """
    return PaperRow(label, tuple(map(_plain, values)), kind, published(names))


def _plain(value: Any) -> Any:
    """Return results with an interval as rates."""
    if hasattr(value, "low") and hasattr(value, "high"):
        middle = value.mean if hasattr(value, "mean") else value.value
        return {"value": middle, "low": value.low, "high": value.high}
    return value


def _said(value: Any, kind: Kind) -> str:
    """Format one value with its unit."""
    if isinstance(value, str):
        return value
    if kind == "rate" and isinstance(value, int | float):
        kind = "percent"
    text = shown(value, kind)
    unit = {"percent": " %", "rate": " %", "points": " points"}.get(kind, "")
    return text if text == UNDEFINED else text + unit


def _together(figures: Sequence[Figure]) -> str:
    """Say figures in a row, the unit once where all have it."""
    units = {one.unit for one in figures}
    if len(units) == 1 and len(figures) > 1 and units <= {"%", "points"}:
        return f"{', '.join(one.text for one in figures)} {units.pop()}"
    return ", ".join(map(str, figures))


def paper_tables(reports: Mapping[str, Sequence[Report]]) -> tuple[PaperTable, ...]:
    """Set what runs gave beside what the paper publishes.

    Parameters
    ----------
    reports : mapping of str to sequence of Report
        By the name of what was run on, such as a model or a corpus: reports of runs of
        different protocols, in any order. What a protocol is needed for and has no run
        of is left open.

    Returns
    -------
    tuple of PaperTable
        One a section. Published figures that need more than one run of a protocol are
        not among them; those that no run gives are in `CANNOT`, with the reason.

    Raises
    ------
    StatisticsError
        If there are no reports, or two of one protocol under one name.

    References
    ----------
    .. [1] Zhu et al., "Stable Scores, Unstable Answers: Frame Phase and Option Order in
       Video Multiple-Choice Evaluation", arXiv:2610.08649 (2026).
    """
    if not any(reports.values()):
        raise StatisticsError("no reports; pass those of one run at least")
    known = {name: _by_protocol(name, made) for name, made in reports.items()}
    tables = []
    for title, lines in ROWS.items():
        rows = []
        for label, names, protocol, find, kind in lines:
            values = [
                find(by_protocol[protocol]) if protocol in by_protocol else None
                for by_protocol in known.values()
            ]
            rows.append(paper_row(label, names, *values, kind=kind))
        note = f"From runs of: {', '.join(dict.fromkeys(line[2] for line in lines))}."
        tables.append(PaperTable(title, tuple(reports), tuple(rows), note))
    return tuple(tables)


def _by_protocol(name: str, reports: Sequence[Report]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for one in reports:
        protocol = one.numbers["protocol"]
        if protocol in found:
            raise StatisticsError(
                f"{name}: two reports of protocol {protocol!r}; pass one of each"
            )
        found[protocol] = one.numbers
    return found
