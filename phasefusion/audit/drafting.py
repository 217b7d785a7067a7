"""Claims files drafted from reports: every number with its path or its cell."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from phasefusion.audit.printed import read_tables
from phasefusion.audit.sources import Source
from phasefusion.audit.values import Uncomputable
from phasefusion.errors import AuditError
from phasefusion.stats._answers import half_up

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
#: Sections of a report whose numbers are claims, with what they are printed in.
_SECTIONS = (
    "accuracy",
    "comparisons",
    "phase_flips",
    "order_flips",
    "half_step",
    "consistency",
    "margins_nats",
    "cost",
    "by_type",
)
_COUNTS = frozenset(
    "n only_arm only_against passes frames attention_units configurations "
    "configuration_phases orders orders_possible".split()
)
_POINTS = ("points", "order_averaged_points")
_MAX_CLAIMS = 5000


def draft(report: str | Path, *, run: str = "run", title: str = "") -> str:
    """Draft a claims file from a report.

    Every number becomes a claim: printed as reports print it, and computed from the
    run that is given as `run` when the claims are checked.

    Parameters
    ----------
    report : str or Path
        ``report.json`` or a run folder (each number with its path in the report), or a
        Markdown report (each number with its table, row and column).
    run : str, default "run"
        The name of the run in the claims file.
    title : str, optional

    Returns
    -------
    str
        The text of a YAML file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    AuditError
        If it is no report.
    """
    path = Path(report)
    if not path.exists():
        raise FileNotFoundError(2, "no such report", str(path))
    source = Source(run, path)
    try:
        if path.suffix.lower() == ".md":
            entries = list(_of_tables(source, run))
        else:
            entries = list(_of_numbers(source.report(), run))
    except Uncomputable as error:
        raise AuditError(str(error)) from None
    if not entries:
        raise AuditError(f"{path} holds no numbers of a report")
    if len(entries) > _MAX_CLAIMS:
        raise AuditError(f"{path} holds {len(entries)} numbers, at most {_MAX_CLAIMS}")
    lines = [
        "# Drafted; keep what your text prints, and put its digits, words and places.",
        "format: 1",
        f"title: {_quoted(title or f'Claims drafted from {path.name}')}",
        f"runs: [{run}]",
        "claims:",
    ]
    return "\n".join([*lines, *entries]) + "\n"


def _entry(name: str, text: str, figure: str, unit: str, compute: str) -> str:
    lines = [
        f"  - id: {_quoted(name)}",
        f"    text: {_quoted(text)}",
        f"    published: {_quoted(figure)}",
        *([f"    unit: {_quoted(unit)}"] if unit else []),
        f"    compute: {_quoted(compute)}",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Quote a text so that YAML and JSON read it the same way."""
    return json.dumps(text, ensure_ascii=False)


def _in_expression(text: str) -> str:
    """Quote a text inside an expression, in which there are no escapes."""
    mark = '"' if "'" in text else "'"
    return f"{mark}{text}{mark}"


# ------------------------------------------------------------------ report.json


def _of_numbers(numbers: Mapping[str, Any], run: str) -> Iterator[str]:
    for section in _SECTIONS:
        for path in _leaves(numbers.get(section), [section]):
            value = _at(numbers, path)
            printed = _printed(path, value)
            pointer = "/".join(p.replace("~", "~0").replace("/", "~1") for p in path)
            if printed is None or ("'" in pointer and '"' in pointer):
                continue
            figure, unit, scale = printed
            compute = f"report({run}, {_in_expression(pointer)})"
            if scale != 1:
                compute = f"{scale} * {compute}"
            yield _entry(".".join(path), " ".join(path), figure, unit, compute)


def _leaves(value: Any, path: list[str]) -> Iterator[list[str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, [*path, str(key)])
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _leaves(part, [*path, str(i)])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            yield path


def _at(value: Any, path: list[str]) -> Any:
    for key in path:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def _printed(path: list[str], value: float) -> tuple[str, str, int] | None:
    """Print a number as reports do: text, unit, and factor from the report's number."""
    section, leaf = path[0], path[-1]
    if leaf in _COUNTS and isinstance(value, int) and "shift" not in path:
        return str(value), "count", 1
    if leaf in _POINTS:
        return half_up(value, 1), "points", 1
    if leaf == "p":
        return ("< 0.0001" if value < 1e-4 else f"{value:.4f}"), "", 1
    if section == "margins_nats":
        return half_up(value, 2), "nats", 1
    if section == "consistency" and path[1] in ("fpc", "ooc"):
        return half_up(value, 3), "", 1
    if "shift" in path:
        return (half_up(value, 3), leaf, 1) if leaf in ("frames", "seconds") else None
    if leaf in ("value", "low", "high", "robust", "fragile", "mean_accuracy"):
        return half_up(100 * value, 1), "%", 100
    return None


# ------------------------------------------------------------------ Markdown


def _of_tables(source: Source, run: str) -> Iterator[str]:
    for table in read_tables(source.text()):
        for row in table.rows:
            for i, (column, cell) in enumerate(
                zip(table.columns[1:], row[1:], strict=True), 1
            ):
                nth = table.columns[: i + 1].count(column)
                texts = (table.title, row[0], column)
                if any("'" in one and '"' in one for one in texts):
                    continue
                for k, found in enumerate(_NUMBER.finditer(cell), 1):
                    yield _of_cell(run, texts, found.group(), k, nth)


def _of_cell(
    run: str, texts: tuple[str, str, str], figure: str, number: int, nth: int
) -> str:
    given = [run, *map(_in_expression, texts)]
    if number > 1:
        given.append(f"number={number}")
    if nth > 1:
        given.append(f"nth={nth}")
    more = [str(n) for n in (number, nth) if n > 1]
    name = ".".join([*texts, *more])
    unit = "%" if texts[2].endswith("%") else ""
    return _entry(name, ", ".join(texts), figure, unit, f"cell({', '.join(given)})")
