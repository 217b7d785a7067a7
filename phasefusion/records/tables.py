"""Passes as rows of Parquet, Arrow, CSV and JSON Lines files."""

from __future__ import annotations

import csv
import json
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from phasefusion._install import remedy
from phasefusion._paths import PASSES, path_of, run_path
from phasefusion._wording import unwritten
from phasefusion.errors import BackendUnavailableError, RecordError
from phasefusion.records import _json, rules
from phasefusion.records.files import PASSES_FILE, RUN_FILE, read_run
from phasefusion.records.lines import PassLines, Row

Blocks: TypeAlias = Iterator[tuple[Sequence[int], list[Row]]]

FORMATS = (".parquet", ".arrow", ".csv", ".jsonl")
#: Metadata of a column that holds JSON texts, and of a table that holds run.json.
_JSON = {b"phasefusion": b"json"}
_RUN = b"phasefusion.run"
_INTEGERS = {"n_options", "gold", "budget", "n_phases", "phase_index", "n_frames"}
_INTEGERS |= {"answer"}
_NUMBERS = {"duration_s", "option_mass", "seconds", "decode_seconds"}
_LISTS = {"origin", "phase", "frame_indices", "damaged_frames", "same_options", "order"}
_NUMBER_LISTS = {"frame_times_s", "logprobs"}


def source_blocks(path: Path) -> tuple[Blocks, dict[str, Any] | None]:
    """Return passes with the numbers of their lines, and run.json where there is one.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`.
    RecordError
        If the file is none that passes are read from.
    """
    if path.suffix in (".parquet", ".arrow") and not path.is_dir():
        return _arrow_blocks(path)
    run = None
    if path.is_dir():
        if (path / RUN_FILE).exists() or not (path / PASSES_FILE).exists():
            run = read_run(path)
        path = path / PASSES_FILE
    elif path.suffix in (".csv", ".xlsx", ".tsv"):
        raise RecordError(
            f"{path}: passes are read from run folders, .jsonl, .parquet and .arrow; "
            "phasefusion records import reads other tables, and a table that records "
            "convert wrote does not convert back"
        )
    path.stat()  # that there is none is said before anything is written
    return _line_blocks(path), run


def _line_blocks(path: Path) -> Blocks:
    lines = PassLines(path)
    yield from lines.rows()
    lines.warn_torn("left out")


def valid_blocks(path: Path, blocks: Blocks) -> Blocks:
    """Yield passes in the form that is written; RecordError for a line that is none."""
    for numbers, rows in blocks:
        cleaned = []
        for number, row in zip(numbers, rows, strict=True):
            made = clean(row)
            for _, _, message in _problems(made):
                raise RecordError(
                    f"{path}, line {number}: {message}; see phasefusion records check"
                )
            cleaned.append(made)
        yield numbers, cleaned


def _problems(row: Row) -> Iterator[rules.Problem]:
    nothing = True
    for problem in rules.structure(row):
        nothing = False
        yield problem
    if nothing:
        yield from rules.lengths(row)


def clean(row: Row) -> Row:
    """Return a pass as it is written: no NaN, integers as integers.

    In log-probabilities -inf is null, as in every file; with NaN or +inf the pass is
    missing. Fields that may be null and are not there are null.
    """
    made = dict(row)
    for name in rules.REQUIRED:
        if rules.FIELDS[name][1]:
            made.setdefault(name, None)
    for name in _INTEGERS:
        value = made.get(name)
        if type(value) is float and value.is_integer():
            made[name] = int(value)
    for name in ("option_mass", "seconds", "decode_seconds"):
        value = made.get(name)
        if type(value) is float and not math.isfinite(value):
            made[name] = None
    values = made["logprobs"]
    if type(values) is list and any(
        type(value) is float and not math.isfinite(value) for value in values
    ):
        bad = [v for v in values if type(v) is float and not v < math.inf]
        if bad:
            reason = "scores: NaN" if any(map(math.isnan, bad)) else "scores: +inf"
            made |= {"logprobs": None, "answer": None}
            made["invalid"] = made.get("invalid") or reason
        else:
            made["logprobs"] = [None if v == -math.inf else v for v in values]
    return made


@contextmanager
def replacing(path: Path, called: Path | None = None) -> Iterator[BinaryIO]:
    """Write a file so that others see the old one or all of the new one.

    A device or a pipe, such as /dev/stdout, is written to; nothing takes its place.

    Raises
    ------
    RecordError
        If it cannot be written; naming `called` where the path is of a place that
        nobody knows.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            with open(path, "wb") as file:
                yield file
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RecordError(unwritten(called or path, error)) from error
    finally:
        temporary.unlink(missing_ok=True)


def convert(source: Any, out: str | Path) -> int:
    """Write all passes of a run as one table.

    Every field is kept. Parquet and Arrow hold lists as lists, fields that are not of
    the schema by their type, or as JSON where they have several, and ``run.json`` in
    their metadata; both can be converted back. CSV holds lists as JSON.

    Parameters
    ----------
    source : Run, str or Path
        A run folder, or a ``.jsonl``, ``.parquet`` or ``.arrow`` file of passes.
    out : str or Path
        The file to write; its ending says how: ``.parquet``, ``.arrow``, ``.csv``,
        ``.jsonl``.

    Returns
    -------
    int
        How many passes were written.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `source`.
    RecordError
        If a line is no pass, or the file cannot be written.
    BackendUnavailableError
        If PyArrow is needed and not installed.
    """
    source = run_path("source", source, PASSES)
    out = path_of("out", out, "the file to write")
    if out.suffix not in FORMATS:
        raise RecordError(f"{out}: end its name in one of {', '.join(FORMATS)}")
    if out.exists() and out.samefile(_file_of(source)):
        raise RecordError(f"{out}: is what is converted; choose another name")
    blocks, run = source_blocks(source)
    writers: dict[str, Callable[..., int]] = {
        ".parquet": _write_parquet,
        ".arrow": _write_arrow,
        ".csv": _write_csv,
        ".jsonl": _write_lines,
    }
    kinds = {} if out.suffix == ".jsonl" else _find_kinds(rows for _, rows in blocks)
    if out.suffix != ".jsonl":  # the first time only names and types were looked at
        blocks, run = source_blocks(source)
    rows = (rows for _, rows in valid_blocks(_file_of(source), blocks))
    with replacing(out) as file:
        return writers[out.suffix](file, rows, kinds, run)


def _file_of(source: Path) -> Path:
    return source / PASSES_FILE if source.is_dir() else source


def _find_kinds(blocks: Iterable[Sequence[Row]]) -> dict[str, str]:
    """Name every field there is, and how it is kept."""
    seen: dict[str, set[type]] = {}
    known: dict[str, None] = {}
    for rows in blocks:
        for row in rows:
            for name, value in row.items():
                if name in rules.FIELDS:
                    known[name] = None
                else:
                    types = seen.setdefault(name, set())
                    if value is not None:
                        types.add(_type(value))
    wanted = {*known, *rules.REQUIRED}
    found = {name: _known_kind(name) for name in rules.FIELDS if name in wanted}
    names = {str: "text", float: "number", bool: "truth", int: "integer"}
    for name, types in seen.items():
        (kind, *more) = types or {dict}
        found[name] = "json" if more else names.get(kind, "json")
    return found


def _type(value: Any) -> type:
    """Return the type of a value, that of JSON for what no column type holds."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        return dict
    if type(value) is float and not math.isfinite(value):
        return dict
    return type(value)


def _known_kind(name: str) -> str:
    for names, kind in (
        (_INTEGERS, "integer"),
        (_NUMBERS, "number"),
        (_LISTS, "integers"),
        (_NUMBER_LISTS, "numbers"),
        ({"shifted"}, "truth"),
        ({"source"}, "json"),
    ):
        if name in names:
            return kind
    return "text"


# --------------------------------------------------------------------------- writers


def _write_lines(
    file: BinaryIO, blocks: Iterable[Sequence[Row]], kinds: Any, run: Any
) -> int:
    n = 0
    for rows in blocks:
        file.write(b"".join(_json.dumps(row) + b"\n" for row in rows))
        n += len(rows)
    return n


def _write_csv(
    file: BinaryIO, blocks: Iterable[Sequence[Row]], kinds: dict[str, str], run: Any
) -> int:
    import io

    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(kinds)
    n = 0
    for rows in blocks:
        writer.writerows(
            [_cell(row.get(name), kind) for name, kind in kinds.items()] for row in rows
        )
        n += len(rows)
    text.flush()
    text.detach()
    return n


def _cell(value: Any, kind: str) -> str:
    if value is None:
        return ""
    return value if kind == "text" else _json.dumps(value).decode()


def _write_parquet(
    file: BinaryIO,
    blocks: Iterable[Sequence[Row]],
    kinds: dict[str, str],
    run: dict[str, Any] | None,
) -> int:
    _need_pyarrow()
    import pyarrow.parquet as pq

    schema = _schema(kinds, run)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        return _write_batches(writer.write_batch, schema, blocks, kinds)


def _write_arrow(
    file: BinaryIO,
    blocks: Iterable[Sequence[Row]],
    kinds: dict[str, str],
    run: dict[str, Any] | None,
) -> int:
    _need_pyarrow()
    import pyarrow as pa

    schema = _schema(kinds, run)
    with pa.ipc.new_file(file, schema) as writer:
        return _write_batches(writer.write_batch, schema, blocks, kinds)


def _write_batches(
    write: Callable[[Any], object],
    schema: Any,
    blocks: Iterable[Sequence[Row]],
    kinds: dict[str, str],
    rows_at_once: int = 20_000,
) -> int:
    import pyarrow as pa

    held: list[Row] = []
    n = 0

    def flush() -> None:
        columns = []
        for field in schema:
            values = [row.get(field.name) for row in held]
            if kinds[field.name] == "json":
                values = [
                    None if v is None else _json.dumps(v).decode() for v in values
                ]
            columns.append(pa.array(values, field.type))
        write(pa.record_batch(columns, schema=schema))
        held.clear()

    for rows in blocks:
        held.extend(rows)
        n += len(rows)
        if len(held) >= rows_at_once:
            flush()
    if held:
        flush()
    return n


def _schema(kinds: dict[str, str], run: dict[str, Any] | None) -> Any:
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "json": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "truth": pa.bool_(),
        "integers": pa.list_(pa.int64()),
        "numbers": pa.list_(pa.float64()),
    }
    fields = [
        pa.field(name, types[kind], metadata=_JSON if kind == "json" else None)
        for name, kind in kinds.items()
    ]
    return pa.schema(fields, metadata=None if run is None else {_RUN: _json.dumps(run)})


# --------------------------------------------------------------------------- readers


def _arrow_blocks(path: Path) -> tuple[Blocks, dict[str, Any] | None]:
    _need_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            schema, batches = file.schema_arrow, file.iter_batches(20_000)
        else:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            schema = reader.schema
            batches = map(reader.get_batch, range(reader.num_record_batches))
    except (pa.ArrowException, ValueError) as error:
        text = str(error).splitlines()[0]
        raise RecordError(f"{path}: no {path.suffix[1:]} file: {text}") from None
    missing = [name for name in rules.REQUIRED if name not in schema.names]
    if missing:
        raise RecordError(
            f"{path}: has no column {missing[0]!r}; phasefusion records convert writes "
            "tables of passes"
        )
    run = (schema.metadata or {}).get(_RUN)
    return _rows_of(path, schema, batches), None if run is None else json.loads(run)


def _rows_of(path: Path, schema: Any, batches: Iterable[Any]) -> Blocks:
    import pyarrow as pa

    as_json = {f.name for f in schema if (f.metadata or {}) == _JSON}
    number = 1
    try:
        for batch in batches:
            rows = []
            for row in batch.to_pylist():
                kept = {
                    name: _json.loads(value.encode()) if name in as_json else value
                    for name, value in row.items()
                    if value is not None
                }
                for name in rules.REQUIRED:
                    kept.setdefault(name, None)
                rows.append(kept)
            yield range(number, number + len(rows)), rows
            number += len(rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RecordError(f"{path}: damaged: {error}") from None


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise BackendUnavailableError(
            f"Parquet and Arrow files need PyArrow: {remedy('pyarrow')}"
        ) from None
