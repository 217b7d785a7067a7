"""Claims files drafted from reports: every number with its path or its cell."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from phasefusion.audit import language, reading
from phasefusion.audit.printed import NUMBER, flat, read_tables
from phasefusion.audit.sources import Source
from phasefusion.audit.values import Uncomputable
from phasefusion.errors import AuditError
from phasefusion.report.sections import TEXT_COLUMNS
from phasefusion.stats._answers import half_up

#: "345/786 = 43.9": two counts before what they come to.
_COUNTED = re.compile(r"\d+/\d+ = ")
#: What ends lines in YAML but not in JSON, or is not allowed in either.
_UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
#: Columns of texts, in which numbers are part of what was said.
_TEXTS = (*TEXT_COLUMNS, "note")
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
    "stated",
    "imported",
)
_COUNTS = frozenset(
    "n only_arm only_against passes frames attention_units configurations "
    "configuration_phases orders orders_possible".split()
)
_PERCENT = frozenset(
    "value low high robust fragile mean_accuracy rate pairwise "
    "pairwise_distinct".split()
)
_ERRORS = ("se_as_if_independent", "se_by_video")
_POINTS = ("points", "order_averaged_points")
_MAX_CLAIMS = 5000

#: Name, text, figure, unit and expression of a claim.
_Entry: TypeAlias = tuple[str, str, str, str, str]


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
    text = "\n".join([*lines, *(_entry(*one) for one in _named(entries))]) + "\n"
    if len(text.encode()) > reading.MAX_BYTES:
        raise AuditError(
            f"{path} makes a claims file of more than {reading.MAX_BYTES >> 20} MB, "
            "the most that is read; its names are too long"
        )
    return text


def _named(entries: list[_Entry]) -> Iterator[_Entry]:
    """Give claims that have one name a number each."""
    seen: dict[str, int] = {}
    for name, *rest in entries:
        n = seen[name] = seen.get(name, 0) + 1
        own = name if n == 1 else f"{name} ({n})"
        while n > 1 and own in seen:
            own += "'"
        seen.setdefault(own, 1)
        text, figure, unit, compute = rest
        yield own, text, figure, unit, compute


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
    return _UNPRINTED.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


def _in_expression(text: str) -> str:
    """Quote a text inside an expression, in which there are no escapes."""
    mark = '"' if "'" in text else "'"
    return f"{mark}{text}{mark}"


# ------------------------------------------------------------------ report.json


def _of_numbers(numbers: Mapping[str, Any], run: str) -> Iterator[_Entry]:
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
            if len(compute) <= language.MAX_LENGTH:
                yield ".".join(path), " ".join(path), figure, unit, compute


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
    is_count = leaf in _COUNTS or section in ("imported", "stated")
    if is_count and isinstance(value, int) and "shift" not in path:
        return str(value), "count", 1
    if leaf in _ERRORS:
        return half_up(100 * value, 2), "points", 100
    if leaf in _POINTS:
        return half_up(value, 1), "points", 1
    if leaf in ("p", "p_clustered"):
        return ("< 0.0001" if value < 1e-4 else f"{value:.4f}"), "", 1
    if section == "margins_nats":
        return half_up(value, 2), "nats", 1
    if section == "consistency" and path[1] in ("fpc", "ooc"):
        return half_up(value, 3), "", 1
    if "shift" in path:
        digits = {"frames": 2, "seconds": 3}.get(leaf)
        return None if digits is None else (half_up(value, digits), leaf, 1)
    if leaf in _PERCENT:
        return half_up(100 * value, 1), "%", 100
    return None


# ------------------------------------------------------------------ Markdown


def _of_tables(source: Source, run: str) -> Iterator[_Entry]:
    titles: set[str] = set()
    for table in read_tables(source.text()):
        if table.title in titles:
            continue  # a title finds the first one
        titles.add(table.title)
        heads = [flat(head) for head in table.columns]
        rows: dict[str, int] = {}
        for cells in table.rows:
            row = flat(cells[0])
            nth_row = rows[row] = rows.get(row, 0) + 1
            for i, (head, cell) in enumerate(zip(heads, cells, strict=True)):
                if i == 0 or head in _TEXTS:
                    continue
                nth = {"nth": heads[: i + 1].count(head), "nth_row": nth_row}
                yield from _of_cell(run, (table.title, row, head), cell, nth)


def _of_cell(
    run: str, texts: tuple[str, str, str], cell: str, nth: Mapping[str, int]
) -> Iterator[_Entry]:
    """Make a claim of every number of a cell."""
    if any("'" in one and '"' in one for one in texts):
        return
    counts = 2 if _COUNTED.match(cell) else 0
    percent = counts or any(one.endswith(", %") or one == "%" for one in texts[1:])
    for number, found in enumerate(NUMBER.finditer(cell), 1):
        more = {"number": number, **nth}
        given = [run, *map(_in_expression, texts)]
        given += [f"{name}={n}" for name, n in more.items() if n > 1]
        compute = f"cell({', '.join(given)})"
        if len(compute) > language.MAX_LENGTH:
            return
        unit = "count" if number <= counts else "%" if percent else ""
        name = ".".join([*texts, *(str(n) for n in more.values() if n > 1)])
        yield name, ", ".join(texts), found.group(), unit, compute
