"""A title, sentences and sections: in a terminal, as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
    parts = [f"# {_inline(title)}", ""]
    parts += [f"- {_inline(line)}" for line in lines]
    for section in sections:
        rules = [
            "---" if _is_text(i, column) else "---:"
            for i, column in enumerate(section.columns)
        ]
        parts += ["", f"## {section.title}", ""]
        parts += [_row(section.columns), _row(rules), *map(_row, section.rows)]
        if section.note:
            parts += ["", section.note]
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


def _row(cells: Sequence[str]) -> str:
    return "".join(f"| {_cell(cell)} " for cell in cells) + "|"


def _cell(text: str) -> str:
    """Keep a text inside its table cell, and what a model wrote from being markup."""
    flat = " ".join(text.split())
    return _inline(flat).replace("|", "\\|")


def _inline(text: str) -> str:
    return text.replace("\\", "\\\\").replace("<", "&lt;").replace("`", "\\`")
