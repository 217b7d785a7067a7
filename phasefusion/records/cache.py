"""The columns of a large pass file as Parquet, so that it is parsed once.

A cache lies beside its pass file, as ``passes.jsonl.cache.parquet``, or in
``$XDG_CACHE_HOME/phasefusion/passes`` (``~/.cache`` by default) where that folder may
not be written. It holds size, modification time and SHA-256 of the file it was made of
and is used when they are those of the file. The hash is computed again unless the file
is the same one, untouched since: same device, inode, size, modification and change
time, all older than the cache by more than a clock tick. Whatever is damaged, stale or
of another version is ignored and written again; that it cannot be written is no error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._file_hash import file_sha256
from phasefusion.records import _json

if TYPE_CHECKING:
    from phasefusion.records.columns import Passes

#: Of what is in the file; another one is not read.
FORMAT = 6
SUFFIX = ".cache.parquet"
_KEY = b"phasefusion.passes"
#: A file changed in the same tick of a coarse clock may keep its times.
_TICK_NS = 2_000_000_000


def load_or_parse(
    path: Path, folder: Path | None, parse: Callable[[], Passes]
) -> Passes:
    """Return the passes of a file from its cache, or parse it and write the cache.

    Parameters
    ----------
    path : Path
        The pass file.
    folder : Path or None
        Where caches are; by default beside the file, or in the user's cache folder.
    parse : callable
        Makes the passes when there is no cache of them.
    """
    before = _identity(path)
    for place in _places(path, folder):
        found = _load(place, path, before)
        if found is not None:
            return found
    made = parse()
    digest = file_sha256(path)
    if len(made) and _identity(path) == before:  # nobody has written meanwhile
        key = before | {"sha256": digest}
        for place in _places(path, folder):
            if _store(place, made, key):
                break
    return made


def _identity(path: Path) -> dict[str, int]:
    """Facts about a file that change when it does, as far as a file system says."""
    stat = path.stat()
    return {
        "device": stat.st_dev,
        "inode": stat.st_ino,
        "size_bytes": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "ctime_ns": stat.st_ctime_ns,
    }


def _places(path: Path, folder: Path | None) -> list[Path]:
    if folder is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return [
            path.with_name(path.name + SUFFIX),
            Path(base) / "phasefusion" / "passes" / _name(path),
        ]
    return [folder / _name(path)]


def _name(path: Path) -> str:
    """Name a cache that lies elsewhere by the path of its file."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32] + SUFFIX


def _load(place: Path, path: Path, identity: dict[str, int]) -> Passes | None:
    """Read a cache if it is one of this file as it is now."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return None
    try:
        file = pq.ParquetFile(place, memory_map=True, page_checksum_verification=True)
        with file:
            key = _json.loads(file.metadata.metadata[_KEY])
            if not _is_current(key, path, identity):
                return None
            return _unpack(file.read(use_threads=False), key)
    except (OSError, pa.ArrowException, LookupError, TypeError, ValueError):
        return None


def _is_current(key: dict[str, Any], path: Path, identity: dict[str, int]) -> bool:
    if key["format"] != FORMAT or key["size_bytes"] != identity["size_bytes"]:
        return False
    newest = max(identity["mtime_ns"], identity["ctime_ns"])
    is_untouched = all(key[name] == value for name, value in identity.items())
    if is_untouched and newest + _TICK_NS < key["made_ns"]:
        return True
    return bool(key["sha256"] == file_sha256(path))


def _store(place: Path, passes: Passes, key: dict[str, Any]) -> bool:
    """Write a cache so that others see all of it or none; whether it was written."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return False
    temporary: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        table, tables = _pack(passes)
        head = key | tables | {"format": FORMAT, "made_ns": time.time_ns()}
        temporary = place.with_name(f"{place.name}.{secrets.token_hex(8)}.tmp")
        with (
            open(temporary, "xb") as file,
            pq.ParquetWriter(
                file,
                table.schema,
                compression="none",  # the numbers do not get smaller
                # where a column has too many values for one, Parquet stops using it
                use_dictionary=[*_CODED, "option_mass", "seconds"],
                write_statistics=False,
                write_page_checksum=True,
            ) as writer,
        ):
            writer.write_table(table, row_group_size=max(len(passes), 1))
            # as metadata of the schema it would be there twice
            writer.add_key_value_metadata({_KEY: _json.dumps(head)})
        os.replace(temporary, place)
    except (OSError, pa.ArrowException):
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
        return False
    return True


#: Columns of numbers of things that are listed in the head of the cache.
_CODED = ["item", "grid", "order", "answer", "invalid"]


def _pack(passes: Passes) -> tuple[Any, dict[str, Any]]:
    """Return a table of codes and numbers, and the few values that are coded."""
    import pyarrow as pa

    arm, arms = _code(passes.arm.tolist())
    invalid, reasons = _code(passes.invalid)
    grid, grids = _rows(
        np.column_stack(
            [
                passes.n_phases,
                passes.phase_index,
                passes.budget,
                passes.phase,
                passes.shifted,
                arm,
                passes.generated,
            ]
        )
    )
    order, orders = _rows(passes.order)
    width = passes.order.shape[1]
    columns = {
        "item": _small(passes.item),
        "grid": _small(grid),
        "order": _small(order),
        "answer": _small(passes.answer),
        "invalid": _small(invalid),
        "option_mass": passes.option_mass,
        "seconds": passes.seconds,
    }
    for k in range(width):
        columns[f"logprob_{k}"] = np.ascontiguousarray(passes.logprobs[:, k])
    tables = {
        "width": width,
        "arms": arms,
        "reasons": reasons,
        "grids": grids.tolist(),
        "orders": orders.tolist(),
        "items": [
            [getattr(info, name) for info in passes.items] for name in _item_fields()
        ],
    }
    arrays = {name: pa.array(values) for name, values in columns.items()}
    schema = [
        pa.field(name, values.type, nullable=False) for name, values in arrays.items()
    ]
    return pa.table(arrays, schema=pa.schema(schema)), tables


def _unpack(table: Any, key: dict[str, Any]) -> Passes:
    from phasefusion.records.columns import Passes, allocate, make_items

    column = {name: table[name].to_numpy() for name in table.column_names}
    width = key["width"]
    grids = np.array(key["grids"], np.int64).reshape(-1, 8).T.copy()
    orders = np.array(key["orders"], np.int64).reshape(-1, width)
    _demand_below(column["item"], len(key["items"][0]))
    _demand_below(column["grid"], len(grids[0]))
    _demand_below(column["order"], len(orders))
    _demand_below(column["invalid"], len(key["reasons"]), least=-1)
    # few large allocations, as in `allocate`
    grid, order, invalid = np.empty((3, table.num_rows), np.intp)
    for codes, name in ((grid, "grid"), (order, "order"), (invalid, "invalid")):
        np.copyto(codes, column[name])
    numbers = np.empty((2, table.num_rows))
    for row, name in zip(numbers, ("option_mass", "seconds"), strict=True):
        np.copyto(row, column[name])
    out = allocate(table.num_rows, width)
    np.copyto(out["item"], column["item"])
    np.copyto(out["answer"], column["answer"])
    for values, name in zip(grids, ("n_phases", "phase_index", "budget"), strict=False):
        values.take(grid, out=out[name], mode="clip")
    phase = np.ascontiguousarray(grids[3:5].T)
    phase.take(grid, axis=0, out=out["phase"], mode="clip")
    orders.take(order, axis=0, out=out["order"], mode="clip")
    for k in range(width):
        out["logprobs"][:, k] = column[f"logprob_{k}"]
    *fields, same = key["items"]
    return Passes(
        **out,
        items=make_items([*fields, [v if v is None else tuple(v) for v in same]]),
        arm=_objects(key["arms"]).take(grids[6]).take(grid),
        shifted=grids[5].astype(bool).take(grid),
        generated=grids[7].astype(bool).take(grid),
        option_mass=numbers[0],
        seconds=numbers[1],
        invalid=(
            tuple(_objects(key["reasons"]).take(invalid).tolist())
            if key["reasons"]
            else (None,) * table.num_rows
        ),
    )


def _demand_below(codes: NDArray[Any], n: int, *, least: int = 0) -> None:
    """Raise ValueError unless all are numbers of n things."""
    if len(codes) and not least <= codes.min() <= codes.max() < n:
        raise ValueError("a number of nothing")


def _objects(values: list[Any]) -> NDArray[np.object_]:
    """Return texts as an array of objects of which the last, at -1, is None."""
    array = np.empty(len(values) + 1, object)
    array[: len(values)] = values
    return array


def _item_fields() -> tuple[str, ...]:
    from phasefusion.records.columns import ItemInfo

    return tuple(ItemInfo.__dataclass_fields__)


def _code(values: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Return numbers of values by first appearance, -1 for None, and the values."""
    index: dict[Any, int] = {}
    code = [-1 if v is None else index.setdefault(v, len(index)) for v in values]
    return np.array(code, np.int64), list(index)


def _rows(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return numbers of the rows of a table, and the different rows."""
    narrow = np.ascontiguousarray(values)
    keys = narrow.view(np.dtype((np.void, max(narrow.strides[0], 1)))).ravel()
    _, first, code = np.unique(keys, return_index=True, return_inverse=True)
    return code.astype(np.int64), values[first]


def _small(values: NDArray[np.int64]) -> NDArray[Any]:
    """Use as few bytes as the values need."""
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values
