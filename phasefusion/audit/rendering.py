"""Audits as tables in a terminal, in Markdown, in HTML, and as JSON values."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from phasefusion import _markdown
from phasefusion._wording import counted
from phasefusion.audit.figures import Figure
from phasefusion.audit.verdicts import Result, show

if TYPE_CHECKING:
    from phasefusion.audit import Audit

COLUMNS = ("claim", "states", "printed", "computed", "verdict", "why")
_STYLES = {
    "agrees": "green",
    "differs": "bold red",
    "inconsistent": "red",
    "ambiguous": "yellow",
    "cannot be computed": "dim",
}
#: Figures that one cell shows; all are in the JSON.
_MAX_FIGURES = 4
_WIDTHS = {"states": 5, "computed": 2, "why": 5}


def to_dict(audit: Audit) -> dict[str, Any]:
    """Return an audit as JSON values; infinite bounds are null."""
    return {
        "format": 1,
        "claims_file": audit.claims.name,
        "title": audit.claims.title,
        "counts": audit.counts,
        "surprises": [one.claim.id for one in audit.surprises],
        "claims": [_entry(one) for one in audit.results],
    }


def _entry(result: Result) -> dict[str, Any]:
    claim = result.claim
    return {
        "id": claim.id,
        "text": claim.text,
        "quote": claim.quote,
        "where": claim.where,
        "source": claim.source,
        "verdict": result.verdict,
        "expected": claim.expect,
        "as_expected": result.as_expected,
        "computed": result.computed,
        "published": [
            {
                "name": one.name,
                "text": one.text,
                "unit": one.unit,
                "compatible": [
                    None if math.isinf(bound) else bound for bound in one.interval
                ],
            }
            for one in result.figures
        ],
        "reason": result.reason,
        "note": claim.note,
        "readings": [
            {
                "name": one.name,
                "verdict": one.verdict,
                "computed": one.computed,
                "reason": one.reason,
            }
            for one in result.readings
        ],
        "line": claim.place.line,
    }


def row(result: Result) -> tuple[str, ...]:
    """Cells of one claim, under COLUMNS."""
    claim = result.claim
    why = f"{result.reason}. {claim.note}" if claim.note else result.reason
    verdict = result.verdict
    if not result.as_expected:
        verdict += f" (expected: {result.claim.expect})"
    return (
        claim.id,
        claim.text,
        _joined([_with_interval(one) for one in result.figures]),
        show(result.computed),
        verdict,
        why,
    )


def _joined(texts: list[str]) -> str:
    shown = texts[:_MAX_FIGURES]
    more = f"; {len(texts) - len(shown)} more" if len(texts) > len(shown) else ""
    return "; ".join(shown) + more


def _with_interval(figure: Figure) -> str:
    return f"{figure} ({compatible(figure)})" if figure.rounded else str(figure)


def compatible(figure: Figure) -> str:
    """Format the interval of the values that print as a figure.

    Examples
    --------
    >>> from phasefusion.audit import parse_figure
    >>> compatible(parse_figure("18.2"))
    '18.15..18.25'
    """
    low, high = figure.interval
    return f"{low:.6g}..{high:.6g}"


def summary(audit: Audit) -> str:
    """Say in a sentence what became of the claims."""
    n = len(audit.results)
    parts = ", ".join(f"{count} {name}" for name, count in audit.counts.items())
    text = f"{counted(n, 'claim')}: {parts}."
    others = len(audit.surprises)
    if others:
        text += f" {others} not as the file expects."
    elif not audit.unknown:
        text += " All as the file expects."
    if audit.unknown:
        text += f" {len(audit.unknown)} lack what they are computed from."
    return text


def to_rich(audit: Audit) -> RenderableType:
    """Lay an audit out for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="", expand=True)
    for name in COLUMNS[1:]:
        if name != "printed":  # what a claim states has the figures already
            ratio = _WIDTHS.get(name)
            table.add_column(name, overflow="fold", ratio=ratio, no_wrap=not ratio)
    for result in audit.results:
        title, states, _, *cells = map(Text, row(result))
        title.stylize("bold")
        cells[1].stylize(_STYLES[result.verdict])
        table.add_row(Text("\n").join([title, states]), *cells)
    parts: list[RenderableType] = []
    if audit.claims.title:
        parts.append(Text(audit.claims.title, style="bold"))
    return Group(*parts, table, Text(summary(audit)))


def to_markdown(audit: Audit) -> str:
    """Return an audit as a Markdown table with a sentence before it."""
    lines = [_markdown.inline(summary(audit)), ""]
    lines.append(_markdown.row(COLUMNS))
    lines.append("| " + " | ".join("---" for _ in COLUMNS) + " |")
    lines += [_markdown.row(row(result)) for result in audit.results]
    return "\n".join(lines) + "\n"


def to_html(audit: Audit) -> str:
    """Return an audit as an HTML fragment for notebooks."""
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    rows = []
    for result in audit.results:
        cells = "".join(f"<td>{escape(text)}</td>" for text in row(result))
        rows.append(f"<tr>{cells}</tr>")
    title = escape(audit.claims.title or audit.claims.name)
    return (
        f"<p><b>{title}</b><br>{escape(summary(audit))}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
