"""How results print: one line of text, and a table in notebooks."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any

import numpy as np

from phasefusion._wording import counted


def plain_text(thing: object, width: int = 88) -> str:
    """Return what rich prints of a result, without colours."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=width, no_color=True).print(thing)
    return out.getvalue()


#: Names of counts that say what was left out.
_DROPPED = ("n_dropped", "n_undefined")
#: Rows of a table, entries of a collection and characters of a text that are shown.
MOST_ROWS = 12
_MOST_ENTRIES = 6
MOST_SHOWN = 200


class Result:
    """Base of results, which are dataclasses.

    A result prints as one line, unless its class has a text of its own. In a notebook
    it is a table of its fields in their order, in which the ends of an interval are
    one row, what was left out comes last, long arrays are named by shape, and of long
    collections the number and the first entries are told. Nothing prints by the
    thousand.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        values = (f"{name}={text}" for name, text in self._rows())
        return f"{type(self).__name__}({', '.join(values)})"

    def _rows(self) -> list[tuple[str, str]]:
        """Label and text of everything it says of itself."""
        return _rows(self)

    def _repr_html_(self) -> str:
        return fields_html(type(self).__name__, self._rows())


def fields_html(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """Lay labels and their texts out as a table."""
    cells = "".join(
        f'<tr><th style="text-align:left">{html.escape(label)}</th>'
        f'<td style="text-align:left">{html.escape(text)}</td></tr>'
        for label, text in rows
    )
    caption = html.escape(caption)
    return f"<table><caption>{caption}</caption><tbody>{cells}</tbody></table>"


def table_html(
    columns: Sequence[str], rows: Sequence[Sequence[object]], most: int = MOST_ROWS
) -> str:
    """Lay the first rows of a table out, and say how many more there are."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_text(v))}</td>" for v in row) + "</tr>"
        for row in rows[:most]
    )
    if len(rows) > most:
        more = f"and {len(rows) - most} more"
        body += f'<tr><td colspan="{len(columns)}">{more}</td></tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _rows(result: object) -> list[tuple[str, str]]:
    """Name and text of every field."""
    values = {
        item.name: getattr(result, item.name)
        for item in dataclasses.fields(result)  # type: ignore[arg-type]
        if item.repr and not item.name.startswith("_")
    }
    level = values.get("confidence_level")
    rows, last = [], []
    for name, value in values.items():
        if name in ("high", "confidence_level") and level is not None:
            continue
        if name == "low" and level is not None:
            ends = f"[{_text(value)}, {_text(values['high'])}]"
            rows.append((f"interval at {100 * level:g} %", ends))
        elif name in _DROPPED:
            last.append((name.removeprefix("n_"), _text(value)))
        else:
            rows.append((name.replace("_", " "), _text(value)))
    method = getattr(type(result), "method", None)
    if isinstance(method, property):
        rows.append(("method", str(result.method)))  # type: ignore[attr-defined]
    return rows + last


def _text(value: Any) -> str:
    """Text of a value in one line, never of more than some entries of it."""
    if isinstance(value, np.ndarray) and value.ndim:
        if value.ndim > 1 or value.size > _MOST_ENTRIES:
            return f"array of shape {value.shape}"
        return f"[{', '.join(map(_text, value.tolist()))}]"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping | tuple | list | Set) and _is_long(value):
        return f"{counted(len(value), 'entry', 'entries')}: {_first(value)}"
    if isinstance(value, tuple | list) and value:
        return _cut(f"({', '.join(map(_text, value))})")
    text = value if isinstance(value, str) else str(value)
    return _cut(" ".join(text[: 2 * MOST_SHOWN].split()))


def _is_long(values: Mapping[Any, Any] | Sequence[Any] | Set[Any]) -> bool:
    """Whether a collection is told by number and first entries."""
    if isinstance(values, Mapping):
        return bool(values)
    return len(values) > _MOST_ENTRIES or any(
        (isinstance(value, str | bytes) and len(value) > MOST_SHOWN)
        or not isinstance(value, str | bytes | int | float | np.generic | None)
        for value in values
    )


def _first(values: Iterable[Any]) -> str:
    """Texts of the first entries."""
    shown = [_text(value) for value in islice(values, _MOST_ENTRIES + 1)]
    more = [] if len(shown) <= _MOST_ENTRIES else ["..."]
    return _cut(", ".join([*shown[:_MOST_ENTRIES], *more]))


def _cut(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    return text[: MOST_SHOWN - 4].rstrip() + " ..."
