"""A title, sentences and sections: in a terminal, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phasefusion import _markdown
from phasefusion.report.sections import Section

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Columns without a name hold remarks, which are text.
_TEXT = ("", "of", "cause", "detail", "reason", "text of A", "text of B")
_CHANGE = ("A -> B", "baseline -> candidate", "state", "since")


def rich(
    title: str, lines: Sequence[str], sections: Sequence[Section]
) -> RenderableType:
    """Lay them out for a terminal."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text(title, style="bold")]
    parts += [Text(f"  {line}") for line in lines]
    for section in sections:
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style=""
        )
        for i, column in enumerate(section.columns):
            justify = "left" if _is_text(i, column) else "right"
            table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in section.rows:
            table.add_row(*map(Text, row))
        parts += ["", Text(section.title, style="bold"), table]
        if section.note:
            parts.append(Text(section.note, style="dim"))
    return Group(*parts)


def markdown(title: str, lines: Sequence[str], sections: Sequence[Section]) -> str:
    """Write them as Markdown."""
    parts = [f"# {_markdown.inline(title)}", ""]
    parts += [f"- {_markdown.inline(line)}" for line in lines]
    for section in sections:
        rules = [
            "---" if _is_text(i, column) else "---:"
            for i, column in enumerate(section.columns)
        ]
        parts += ["", f"## {_markdown.inline(section.title)}", ""]
        parts += [_markdown.row(section.columns), f"| {' | '.join(rules)} |"]
        parts += map(_markdown.row, section.rows)
        if section.note:
            parts += ["", _markdown.inline(section.note)]
    return "\n".join(parts) + "\n"


def html(title: str, lines: Sequence[str], sections: Sequence[Section]) -> str:
    """Write them as an HTML fragment."""
    from html import escape

    parts = ['<div class="phasefusion-tables">', f"<h3>{escape(title)}</h3>", "<ul>"]
    parts += [f"<li>{escape(line)}</li>" for line in lines]
    parts.append("</ul>")
    for section in sections:
        parts += [f"<h4>{escape(section.title)}</h4>", "<table>", "<thead><tr>"]
        parts += [f"<th>{escape(column)}</th>" for column in section.columns]
        parts.append("</tr></thead><tbody>")
        for row in section.rows:
            cells = (
                f'<td style="text-align: {"left" if _is_text(i, name) else "right"}">'
                f"{escape(value)}</td>"
                for i, (name, value) in enumerate(
                    zip(section.columns, row, strict=True)
                )
            )
            parts.append(f"<tr>{''.join(cells)}</tr>")
        parts.append("</tbody></table>")
        if section.note:
            parts.append(f"<p><small>{escape(section.note)}</small></p>")
    return "\n".join([*parts, "</div>", ""])


def _is_text(place: int, column: str) -> bool:
    return place == 0 or column in (*_TEXT, *_CHANGE)
