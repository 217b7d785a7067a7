"""Runs and files that claims are checked against, read once and when needed."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from phasefusion._sources.files import separated
from phasefusion.audit.values import Column, Uncomputable
from phasefusion.errors import PhaseFusionError
from phasefusion.records.files import PASSES_FILE, described_run

#: Greatest size of a results file; passes are read by phasefusion.records.
MAX_BYTES = 512 << 20
_TABLES = {".csv": ",", ".tsv": "\t"}


class Source:
    """A run folder, or a file with results.

    Parameters
    ----------
    name : str
        In the claims file.
    path : Path
        A run folder, its passes.jsonl, or a .json, .jsonl, .csv, .tsv or .md file.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self._kept: dict[str, Any] = {}

    @property
    def is_run(self) -> bool:
        """Whether it holds passes."""
        return self.path.is_dir() or self.path.name == PASSES_FILE

    def once(self, key: str, make: Any) -> Any:
        """Return what `make` makes, made at most once.

        Raises
        ------
        Uncomputable
            If it cannot be made; the same again every time.
        """
        if key not in self._kept:
            try:
                self._kept[key] = make()
            except Uncomputable as error:
                self._kept[key] = error
            except FileNotFoundError:
                self._kept[key] = Uncomputable(f"{self.path} does not exist")
            except OSError as error:
                self._kept[key] = Uncomputable(f"{self.path}: {error.strerror}")
            except PhaseFusionError as error:
                self._kept[key] = Uncomputable(str(error))
        found = self._kept[key]
        if isinstance(found, Uncomputable):
            raise found
        return found

    # -------------------------------------------------------------- runs

    def passes(self) -> tuple[Any, Any]:
        """Return the passes of a run by item, and what every item contributes."""
        return self.once("passes", self._passes)  # type: ignore[no-any-return]

    def _passes(self) -> tuple[Any, Any]:
        from phasefusion.records import read_passes
        from phasefusion.report.items import contributions
        from phasefusion.report.table import build

        if not self.path.exists():
            raise FileNotFoundError(self.path)
        if not self.is_run:
            raise Uncomputable(
                f"{self.path} is no run; a run folder or its {PASSES_FILE} is wanted"
            )
        passes = read_passes(self.path)
        if not len(passes):
            raise Uncomputable(f"{self.path} holds no passes yet")
        table = build(passes, described_run(self.path).get("settings", {}))
        return table, contributions(table)

    def report(self) -> Mapping[str, Any]:
        """Return a report: computed from the run, or read from report.json."""
        return self.once("report", self._report)  # type: ignore[no-any-return]

    def _report(self) -> Mapping[str, Any]:
        if not self.is_run:
            found = self.json()
            if not isinstance(found, dict) or "accuracy" not in found:
                raise Uncomputable(f"{self.path} is no report.json and no run")
            return with_nan(found)  # type: ignore[no-any-return]
        from phasefusion.records import read_passes
        from phasefusion.report import numbers_of

        table, _ = self.passes()
        passes = read_passes(self.path)
        return numbers_of(self.path, described_run(self.path), passes, table)

    # -------------------------------------------------------------- files

    def _data(self) -> bytes:
        if self.path.stat().st_size > MAX_BYTES:
            raise Uncomputable(f"{self.path} is larger than {MAX_BYTES >> 20} MB")
        return self.path.read_bytes()

    def text(self) -> str:
        """Return the file as text."""
        return self.once("text", self._text)  # type: ignore[no-any-return]

    def _text(self) -> str:
        try:
            return self._data().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Uncomputable(f"{self.path} is not UTF-8 text") from None

    def json(self) -> Any:
        """Return the value of a JSON file; a run folder stands for its report."""
        return self.once("json", self._json)

    def _json(self) -> Any:
        if self.is_run:
            return self.report()
        try:
            return orjson.loads(self._data())
        except orjson.JSONDecodeError as error:
            raise Uncomputable(f"{self.path} is not JSON: {error}") from None

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of a table: CSV, TSV, JSON lines, or a JSON list of objects."""
        return self.once("rows", self._rows)  # type: ignore[no-any-return]

    def _rows(self) -> list[dict[str, Any]]:
        suffix = self.path.suffix.lower()
        if suffix in _TABLES:
            return self._separated(_TABLES[suffix])
        if suffix == ".jsonl":
            return self._lines()
        rows = self.json()
        if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows):
            raise Uncomputable(f"{self.path} holds no rows; it is no list of objects")
        return rows

    def _separated(self, separator: str) -> list[dict[str, Any]]:
        lines = io.StringIO(self.text(), newline="")
        found = list(separated(self.path, lines, separator))
        (_, header), *rows = found or [(1, [])]
        if len(set(header)) < len(header):
            raise Uncomputable(f"{self.path} names a column twice in its first line")
        for number, (_, row) in enumerate(rows, 2):
            if len(row) != len(header):
                raise Uncomputable(
                    f"{self.path}, row {number}: {len(row)} cells under {len(header)} "
                    "columns"
                )
        return [dict(zip(header, row, strict=True)) for _, row in rows]

    def _lines(self) -> list[dict[str, Any]]:
        rows = []
        for number, line in enumerate(self._data().splitlines(), 1):
            try:
                row = orjson.loads(line) if line.strip() else None
            except orjson.JSONDecodeError as error:
                raise Uncomputable(f"{self.path}, line {number}: {error}") from None
            if row is not None and not isinstance(row, dict):
                raise Uncomputable(f"{self.path}, line {number}: not an object")
            if row is not None:
                rows.append(row)
        return rows


#: Fields of a report that are numbers, null where they are not defined.
_UNDEFINED = frozenset(
    "value low high p p_clustered points order_averaged_points rate pairwise "
    "pairwise_distinct "
    "frames seconds robust fragile mean_accuracy accuracy_sd q25 median q75 passes "
    "consensus min below_half se_as_if_independent se_by_video "
    "tied_passes other this".split()
)


def with_nan(value: Any) -> Any:
    """Numbers of a report as they were: null is what is not defined."""
    if isinstance(value, dict):
        return {
            key: float("nan") if one is None and key in _UNDEFINED else with_nan(one)
            for key, one in value.items()
        }
    return [with_nan(one) for one in value] if isinstance(value, list) else value


def look_up(value: Any, path: str, where: str) -> Any:
    """Follow a path of keys and list indices, separated by "/".

    "~1" stands for a "/" and "~0" for a "~" inside a key, as in a JSON pointer.
    """
    done: list[str] = []
    for part in path.strip("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        here = "/".join(done) or "the top"
        if isinstance(value, Mapping):
            if key not in value:
                from phasefusion.audit.reading import nearest

                raise Uncomputable(
                    f"{where} has no {key!r} in {here}: {nearest(key, map(str, value))}"
                )
            value = value[key]
        elif isinstance(value, list):
            if not key.isdecimal() or int(key[:9]) >= len(value):
                raise Uncomputable(
                    f"{where} has a list of {len(value)} in {here}, no {key!r}"
                )
            value = value[int(key)]
        else:
            raise Uncomputable(f"{where} has nothing below {here}")
        done.append(part)
    return value


def as_number(value: Any) -> float | None:
    """Convert a cell to a number; None if it is none. True is 1."""
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("true", "false"):
            return float(text == "true")
        try:
            return float(text) if len(text) <= 40 else None
        except ValueError:
            return None
    return None


def numeric_column(values: list[Any], ids: tuple[Any, ...] | None, what: str) -> Column:
    """Make a column of numbers; empty cells and nulls are missing."""
    found = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        if value is None or value == "":
            continue
        number = as_number(value)
        if number is None:
            raise Uncomputable(f"{what}, row {i + 1} is {str(value)[:30]!r}, no number")
        found[i] = number
    return Column(found, ids, what)
