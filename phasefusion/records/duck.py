"""Pass files as columns by DuckDB, the fastest of the parsers that there are.

DuckDB converts where a type allows it and knows no line numbers of what it converted:
"2" and true would be numbers. So what has few values, whole numbers and lists of them,
is taken as the JSON text that it is and looked at once a value; what is odd is left to
the parser that reads line by line. Only measurements (`MEASURED` and log-probabilities)
are converted by DuckDB, and may be texts of numbers.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._install import remedy
from phasefusion.errors import BackendUnavailableError
from phasefusion.records import _json
from phasefusion.records.raw import (
    AS_TEXT,
    LISTS,
    NUMBERS,
    OF_ITEM,
    TEXTS,
    Coded,
    OddInputError,
    RawColumns,
    as_numbers,
    join,
)
from phasefusion.records.told import first_rows, first_told

MEASURED = ("option_mass", "seconds")
_TYPES = (
    dict.fromkeys(TEXTS, "VARCHAR")
    | dict.fromkeys(LISTS, "JSON")
    | dict.fromkeys(NUMBERS, "JSON")
    | dict.fromkeys(MEASURED, "DOUBLE")
    | {"logprobs": "DOUBLE[]", "video_id": "VARCHAR", "type": "VARCHAR"}
    | {"n_frames": "DOUBLE", "duration_s": "DOUBLE", "same_options": "JSON"}
    | {"video_digest": "JSON"}
)
#: Passed over faster when they are declared.
_UNREAD = ("origin", "frame_indices", "frame_times_s", "text", "source")
_DECLARED = _TYPES | dict.fromkeys(_UNREAD, "JSON")
_BATCH_ROWS = 40_000
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@functools.cache
def is_installed() -> bool:
    """Whether DuckDB and PyArrow are there."""
    return all(map(importlib.util.find_spec, ("duckdb", "pyarrow")))


def check_installed() -> None:
    """Raise BackendUnavailableError unless DuckDB and PyArrow are there."""
    if not is_installed():
        raise BackendUnavailableError(
            f"the reader duckdb is not installed: {remedy('duckdb pyarrow')}"
        )


def read(path: Path) -> RawColumns:
    """Read a pass file.

    Raises
    ------
    OddInputError
        If DuckDB cannot read it, or might read it otherwise than it is.
    """
    import duckdb
    import pyarrow as pa

    name = str(path.resolve())
    if re.search(r"[*?\[\]{}]|://", name):
        raise OddInputError("the path is a pattern to DuckDB")
    columns = ", ".join(f"'{field}': '{kind}'" for field, kind in _DECLARED.items())
    wanted = ", ".join(
        f'"{field}"::VARCHAR AS "{field}"' if kind == "JSON" else f'"{field}"'
        for field, kind in _TYPES.items()
    )
    query = (
        f"SELECT {wanted} FROM read_json(?, format='newline_delimited', "
        f"columns={{{columns}}}, compression='uncompressed')"
    )
    collected = _Collector()
    try:
        with _connection(os.getpid()).cursor() as cursor:
            reader = cursor.sql(query, params=[name]).to_arrow_reader(_BATCH_ROWS)
            for batch in reader:
                collected.add(batch)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise OddInputError(f"DuckDB: {error}") from None
    return collected.columns()


@functools.cache
def _connection(process: int) -> Any:
    """Return the connection of a process, which costs as much as a small file."""
    import duckdb

    return duckdb.connect(config=_CONFIG)


class _Collector:
    """Takes batches of rows and keeps of each what the columns need."""

    def __init__(self) -> None:
        self._coded: dict[str, list[Any]] = {name: [] for name in TEXTS + LISTS}
        self._numbers: dict[str, list[NDArray[np.float64]]] = {
            name: [] for name in NUMBERS
        }
        self._lengths: list[NDArray[np.int64]] = []
        self._logprobs: list[NDArray[np.float64]] = []
        #: Rows that are the first of their batch to say something of an item.
        self._tellers: list[NDArray[np.intp]] = []
        self._told: list[Any] = []
        self._n = 0

    def add(self, batch: Any) -> None:
        """Take a batch, none of which is kept."""
        for name, parts in self._coded.items():
            parts.append(batch[name].dictionary_encode())
        for name, numbers in self._numbers.items():
            column = batch[name]
            numbers.append(
                _copy(column) if name in MEASURED else _numbers(name, column)
            )
        lists = batch["logprobs"]
        length = lists.value_lengths()
        if lists.null_count:
            length = length.fill_null(-1)
        self._lengths.append(length.to_numpy().astype(np.int64))
        flat = lists.flatten()  # leaves out what a null list may hide
        values = _copy(flat)
        if flat.null_count:
            values[flat.is_null().to_numpy(zero_copy_only=False)] = -np.inf
        self._logprobs.append(values)
        self._add_told(batch)
        self._n += len(batch)

    def _add_told(self, batch: Any) -> None:
        """Keep the rows of the batch that say something new of an item."""
        question, benchmark = (
            self._coded[name][-1] for name in ("question_id", "benchmark")
        )
        if question.null_count or benchmark.null_count:
            raise OddInputError("an id is null")
        key = question.indices.to_numpy() * np.int64(len(benchmark.dictionary))
        key += benchmark.indices.to_numpy()
        n_keys = len(question.dictionary) * len(benchmark.dictionary)
        found = [first_rows(key, n_keys)]
        for name in OF_ITEM:
            column = batch[name]
            if 0 < column.null_count < len(batch):
                rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
                found.append(rows[first_rows(key[rows], n_keys)])
        tellers = np.unique(np.concatenate(found))
        self._tellers.append(tellers + self._n)
        self._told.append(batch.select(OF_ITEM).take(tellers))

    def columns(self) -> RawColumns:
        """Put the batches together."""
        return RawColumns(
            n=self._n,
            coded={name: _unify(name, parts) for name, parts in self._coded.items()},
            number=join(self._n, self._numbers),
            logprob_lengths=np.concatenate([*self._lengths, np.empty(0, np.int64)]),
            logprobs=np.concatenate([*self._logprobs, np.empty(0)]),
            infos=self._of_items,
        )

    def _of_items(self, item: NDArray[np.int64], n_items: int) -> list[Coded]:
        owner = item[np.concatenate([*self._tellers, np.empty(0, np.intp)])]
        found = []
        for name in OF_ITEM:
            rows = [part[name].dictionary_encode() for part in self._told]
            column = _unify(name, rows)
            code = first_told(owner, n_items, column.code)
            found.append(Coded(code, column.table))
        return found


def _copy(column: Any) -> NDArray[np.float64]:
    """Return numbers of a batch in memory of their own; null is NaN."""
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return values if column.null_count else values.copy()


def _numbers(name: str, column: Any) -> NDArray[np.float64]:
    """Return numbers of a batch that come as JSON of few values; null is NaN."""
    coded = column.dictionary_encode()
    values = as_numbers(name, [*_parsed(coded.dictionary.to_pylist()), None])
    code = coded.indices
    if code.null_count:
        code = code.fill_null(len(values) - 1)
    found: NDArray[np.float64] = values.take(code.to_numpy())
    return found


def _parsed(texts: list[str]) -> list[Any]:
    try:
        found: list[Any] = _json.loads(f"[{','.join(texts)}]".encode())
    except ValueError as error:  # NaN
        raise OddInputError(f"not JSON: {error}") from None
    return found


def _unify(name: str, parts: Sequence[Any]) -> Coded:
    """Give the batches of a column one numbering."""
    import pyarrow as pa

    if not parts:
        return Coded(np.empty(0, np.int64), [])
    whole = pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    code = whole.indices
    if code.null_count:
        code = code.fill_null(-1)
    table = whole.dictionary.to_pylist()
    if _TYPES[name] == "JSON":
        table = _parsed(table)
    elif name in AS_TEXT and any(value[:1] in ("[", "{") for value in table):
        raise OddInputError("a text may be a list or an object")  # lines say which
    return Coded(code.to_numpy().astype(np.int64), table)
