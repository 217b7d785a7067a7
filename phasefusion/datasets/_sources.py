"""Rows of local files, folders of files, and of anything that yields rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from phasefusion._file_hash import file_sha256
from phasefusion._install import remedy
from phasefusion._paths import path_of
from phasefusion._sources.files import read_json, read_jsonl, read_table
from phasefusion._wording import encodable
from phasefusion.errors import BackendUnavailableError, DatasetError

SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".xlsx", ".parquet")
#: What a file of one split of a published table is called.
_SPLIT = re.compile(
    r"(?:train|test|val|valid|validation|dev)(?:-\d+-of-\d+)?", re.IGNORECASE
)
_MAX_DEPTH = 32
_MAX_BITS = 4096
#: Folders of a dataset that question files may lie in.
_INNER = ("json", "annotations", "questions")

Rows: TypeAlias = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Source:
    """What one file holds, or what was given in its place.

    Attributes
    ----------
    where : str
        For messages.
    name : str
        Of the file without ending; the task of benchmarks of one file a task.
    value : object
        A list of rows, or an object of them, of JSON values alone.
    lines : tuple of int or None
        Line of every row, in files of lines.
    file : Path or None
    repairs : tuple of str
        Places at which commas were taken out of a file to read it.
    """

    where: str
    name: str
    value: Any
    lines: tuple[int, ...] | None = None
    file: Path | None = None
    repairs: tuple[str, ...] = ()

    def place(self, i: int) -> str:
        """Return where row `i` is, for messages."""
        if self.lines is None:
            return f"{self.where}, item {i}"
        word = "row" if self.where.lower().endswith(".xlsx") else "line"
        return f"{self.where}, {word} {self.lines[i]}"


def digest(file: Path) -> dict[str, str]:
    """Path and SHA-256 of a file."""
    return {"path": str(file), "sha256": file_sha256(file)}


def read_sources(source: Rows, *, lenient: bool = False) -> list[Source]:
    """Read a file, all question files of a folder, or rows.

    Raises
    ------
    DatasetError
        Naming the file and the place, or the row.
    FileNotFoundError
        If there is no such file.
    """
    if isinstance(source, str | Path):
        path = path_of("source", source, "a question file, or a folder of them")
        paths = _files_of(path) if path.is_dir() else [path]
        return [_read(one, lenient) for one in paths]
    if isinstance(source, Mapping):
        for name, value in source.items():
            if hasattr(value, "column_names"):
                raise DatasetError(
                    f"rows: these are several splits ({', '.join(map(str, source))}); "
                    f"choose one, such as rows[{name!r}]"
                )
        return [Source("rows", "rows", plain(source))]
    if not isinstance(source, Iterable):
        raise DatasetError(
            f"a dataset is a path or rows, not a {type(source).__name__}"
        )
    return [Source("rows", "rows", list(_mappings(source)))]


def _mappings(rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DatasetError(
                f"rows, item {i}: a row is a mapping of names to values, not a "
                f'{type(row).__name__}; of a data frame take to_dict("records")'
            )
        yield plain(row)


def _files_of(folder: Path) -> list[Path]:
    """Question files of a folder, or of the folder in it that is for them."""
    for inner in (folder, *(folder / name for name in _INNER)):
        found = []
        if inner.is_dir():
            found = [
                path
                for path in sorted(inner.iterdir())
                if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
            ]
        if found:
            return found
    raise DatasetError(
        f"{folder}: has no question files ({', '.join(SUFFIXES)}), nor a folder "
        f"{' or '.join(_INNER)} with some"
    )


def _read(path: Path, lenient: bool) -> Source:
    suffix = path.suffix.lower()
    where, name = str(path), _task(path)
    if suffix == ".json":
        document = read_json(path, lenient=lenient)
        value = plain(document.value)
        return Source(where, name, value, file=path, repairs=document.repairs)
    if suffix == ".jsonl":
        return _in_lines(path, read_jsonl(path))
    if suffix == ".parquet":
        return Source(where, name, _parquet(path), file=path)
    if suffix not in SUFFIXES:
        path.stat()  # that it is not there is what is wrong first
        what = f"not in {suffix!r}" if suffix else "and this one has no ending"
        raise DatasetError(
            f"{path}: a question file ends in {', '.join(SUFFIXES)}, {what}"
        )
    table = read_table(path, exact=True)
    empty = dict.fromkeys(table.columns)
    return _in_lines(path, ((line, empty | row) for line, row in table.rows))


def _in_lines(path: Path, numbered: Iterable[tuple[int, dict[str, Any]]]) -> Source:
    """Keep rows as they come, so that the file is never there as a whole."""
    lines, rows = [], []
    for line, row in numbered:
        lines.append(line)
        rows.append(plain(row))
    return Source(str(path), _task(path), rows, tuple(lines), path)


def _task(path: Path) -> str:
    """Name of a file, or of its folder where the file is named after a split."""
    if _SPLIT.fullmatch(path.stem) and path.resolve().parent.name:
        return encodable(path.resolve().parent.name)
    return encodable(path.stem)


def _parquet(path: Path) -> list[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise BackendUnavailableError(
            f"{path}: parquet files need pyarrow: {remedy('pyarrow')}, or save the "
            "table as .jsonl"
        ) from None
    with path.open("rb") as file:
        try:
            rows = parquet.read_table(file).to_pylist()
        except (pyarrow.ArrowException, ValueError, OSError) as error:
            text = " ".join(str(error).split())
            raise DatasetError(f"{path}: not a parquet file: {text}") from error
    return [plain(row) for row in rows]


def plain(value: Any, depth: int = 0) -> Any:
    """Return JSON values alone: what a row holds beyond them, None.

    NumPy's numbers and arrays become Python's, NaN becomes None, and what is no valid
    Unicode in a text becomes U+FFFD.

    Examples
    --------
    >>> plain({"answer": float("nan"), "options": ("a", "b"), 1: object()})
    {'answer': None, 'options': ['a', 'b'], '1': None}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return int(value) if int(value).bit_length() <= _MAX_BITS else None
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        return {
            _text(str(name)): plain(one, depth + 1)
            for name, one in value.items()
            if isinstance(name, str) or isinstance(plain(name), int | float)
        }
    if isinstance(value, list | tuple):
        return [plain(one, depth + 1) for one in value]
    if isinstance(value, PurePath | date):
        return _text(str(value))
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), depth + 1)
    return None


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        data = value.encode("utf-16", "surrogatepass")
        return data.decode("utf-16", "replace")
    return str(value)


def objects(value: Any, where: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of rows, or say what stands in its place."""
    if not isinstance(value, list):
        raise DatasetError(f"{where}: must be a list of questions")
    for i, row in enumerate(value):
        if not isinstance(row, Mapping):
            raise DatasetError(
                f"{where}, item {i}: a question is an object, not {row!r:.80}"
            )
    return value
