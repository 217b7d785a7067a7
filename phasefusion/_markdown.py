"""Texts inside Markdown: shown as they are, whatever models and files are called."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What would be markup: marks anywhere, "_" at the edge of a word, "]" of a link, and
#: "&" of an entity.
_MARKS = re.compile(
    r"[\\`*<|~]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
    r"|\](?=[(\[:])"
    r"|&(?=#|[A-Za-z][A-Za-z0-9]*;)"
)
#: What begins a heading, a quotation or a list, or ends a heading.
_BLOCK = re.compile(r"^((?:\d+(?=[.)]))?)(>|[#+=.)-](?=[#+=-]*(?:\s|$)))")
_CLOSING = re.compile(r"(?<= )(?=#+$)")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])|&lt;")
_CELL = re.compile(r"(?:\\.|[^|\\])*", re.DOTALL)
_TICKS = re.compile("`+")


def inline(text: str) -> str:
    r"""Write a text on one line, so that it reads as it is and is no markup.

    Line feeds and what else ends lines become blanks.

    Examples
    --------
    >>> print(inline("<b>two*\nlines | of `_x_` and a_b"))
    &lt;b>two\* lines \| of \`\_x\_\` and a_b
    """
    return _CLOSING.sub(r"\\", _BLOCK.sub(r"\1\\\2", _cell(text)))


def _cell(text: str) -> str:
    return _MARKS.sub(_escaped, " ".join(text.split()))


def _escaped(mark: re.Match[str]) -> str:
    return "&lt;" if mark[0] == "<" else f"\\{mark[0]}"


def code(text: str) -> str:
    """Write a text as code, which holds no markup.

    Examples
    --------
    >>> print(code("a.jsonl"), code("a`b"))
    `a.jsonl` `` a`b ``
    """
    flat = " ".join(text.split())
    longest = max(map(len, _TICKS.findall(flat)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {flat} {fence}" if longest else f"{fence}{flat}{fence}"


def row(cells: Iterable[str]) -> str:
    r"""Write a row of a table.

    Examples
    --------
    >>> print(row(["a|b", "1"]))
    | a\|b | 1 |
    """
    return "".join(f"| {_cell(cell)} " for cell in cells) + "|"


def cells_of(line: str) -> tuple[str, ...]:
    r"""Read a row of a table as `row` wrote it.

    Examples
    --------
    >>> cells_of(row(["a|b", "<i>", "\\"]))
    ('a|b', '<i>', '\\')
    """
    found, place, flat = [], 0, line.strip()
    while place < len(flat):
        cell = _CELL.match(flat, place)
        assert cell is not None  # it matches nothing, too
        found.append(plain(cell[0].strip()))
        place = cell.end() + 1
    return tuple(found[1:])


def plain(text: str) -> str:
    r"""Take escapes out of a text.

    Examples
    --------
    >>> print(plain(inline("a*b")))
    a*b
    """
    return _ESCAPED.sub(lambda found: found[1] or "<", text)
