"""Pass files as columns by DuckDB, the fastest of the parsers that there are.

DuckDB converts where a type allows it and knows no line numbers of what it converted,
so numbers are taken as float64 and everything else as the JSON text that it is; what is
odd is left to the parser that reads line by line.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import BackendUnavailableError
from phasefusion.records import _json
from phasefusion.records.lines import MAX_LINE_BYTES
from phasefusion.records.raw import (
    LISTS,
    NUMBERS,
    OF_ITEM,
    TEXTS,
    Coded,
    OddInputError,
    RawColumns,
)

_AS_JSON = (*TEXTS, *LISTS, *OF_ITEM)
_CONFIG = {
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
            "the reader duckdb is not installed: pip install duckdb pyarrow"
        )


def read(path: Path) -> RawColumns:
    """Read a pass file.

    Raises
    ------
    OddInputError
        If DuckDB cannot read it, or might read it otherwise than it is.
    """
    import duckdb

    name = str(path.resolve())
    if re.search(r"[*?\[\]{}]|://", name):
        raise OddInputError("the path is a pattern to DuckDB")
    types = dict.fromkeys(_AS_JSON, "JSON") | dict.fromkeys(NUMBERS, "DOUBLE")
    types["logprobs"] = "DOUBLE[]"
    columns = ", ".join(f"'{field}': '{kind}'" for field, kind in types.items())
    wanted = ", ".join(
        f'"{field}"::VARCHAR AS "{field}"' if kind == "JSON" else f'"{field}"'
        for field, kind in types.items()
    )
    query = (
        f"SELECT {wanted} FROM read_json(?, format='newline_delimited', "
        f"columns={{{columns}}}, compression='uncompressed', "
        f"maximum_object_size={MAX_LINE_BYTES})"
    )
    try:
        with duckdb.connect(config=_CONFIG) as connection:
            table = connection.sql(query, params=[name]).to_arrow_table()
    except duckdb.Error as error:
        raise OddInputError(f"DuckDB: {error}") from None
    return _columns(table)


def _columns(table: Any) -> RawColumns:
    lists = table["logprobs"].combine_chunks()
    lengths, logprobs = _lists(lists)
    return RawColumns(
        n=table.num_rows,
        coded={name: _coded(table[name]) for name in TEXTS + LISTS},
        number={name: _numbers(table[name]) for name in NUMBERS},
        logprob_lengths=lengths,
        logprobs=logprobs,
        infos=lambda first: _of_items(table, first),
    )


def _numbers(column: Any) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.to_numpy()  # null is NaN
    return values


def _coded(column: Any) -> Coded:
    encoded = column.dictionary_encode().combine_chunks()
    indices = encoded.indices
    if indices.null_count:
        indices = indices.fill_null(-1)
    texts = encoded.dictionary.to_pylist()
    try:
        table = _json.loads(f"[{','.join(texts)}]".encode())
    except ValueError as error:  # NaN
        raise OddInputError(f"not JSON: {error}") from None
    return Coded(indices.to_numpy().astype(np.int64), table)


def _lists(lists: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Lengths of lists, -1 for null, and all their values with -inf for null."""
    length = lists.value_lengths()
    if lists.null_count:
        length = length.fill_null(-1)
    length = length.to_numpy().astype(np.int64)
    flat = lists.flatten()  # leaves out what a null list may hide
    values = flat.to_numpy(zero_copy_only=False)
    if flat.null_count:
        values = np.where(flat.is_null().to_numpy(zero_copy_only=False), -np.inf, values)
    return length, values


def _of_items(table: Any, first: NDArray[np.intp]) -> list[Coded]:
    import pyarrow as pa

    rows = table.select(OF_ITEM).take(pa.array(first))
    return [_coded(rows[name]) for name in OF_ITEM]
