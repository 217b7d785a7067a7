"""How results print: one line of text, and a table in notebooks."""

from __future__ import annotations

import dataclasses
import html
from typing import Any

import numpy as np


def plain_text(thing: object, width: int = 88) -> str:
    """Return what rich prints of a result, without colours."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=width, no_color=True).print(thing)
    return out.getvalue()


#: Names of counts that say what was left out.
_DROPPED = ("n_dropped", "n_undefined")


class Result:
    """Base of results: dataclasses whose first field is the estimate.

    A result prints as one line. In a notebook it is a table of its fields in their
    order, in which the ends of an interval are one row, what was left out comes last,
    and arrays are named by shape.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        values = (f"{name}={text}" for name, text in _rows(self))
        return f"{type(self).__name__}({', '.join(values)})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for name, text in _rows(self)
        )
        name = html.escape(type(self).__name__)
        return f"<table><caption>{name}</caption><tbody>{rows}</tbody></table>"


def _rows(result: Result) -> list[tuple[str, str]]:
    """Name and text of every row."""
    values = {
        item.name: getattr(result, item.name)
        for item in dataclasses.fields(result)  # type: ignore[arg-type]
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
    """Text of a value in one line."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"array of shape {value.shape}"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return f"{len(value)} entries: {', '.join(map(str, value))}"
    return " ".join(str(value).split())
