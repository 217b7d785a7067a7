"""Columns as a parser leaves them, and how to get them from dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.records import _json
from phasefusion.records.told import first_told

#: Fields with few values, kept once each: texts, and lists of integers.
TEXTS = ("question_id", "benchmark", "arm", "invalid", "path")
LISTS = ("order", "phase")
NUMBERS: tuple[str, ...] = ("n_options", "gold", "shifted", "budget", "n_phases")
NUMBERS += ("phase_index", "answer", "option_mass", "seconds")
#: Fields of which the JSON is taken when they are no texts.
AS_TEXT = {*TEXTS, "video_id", "type"}
#: Facts about items, of which one pass knows more than another (`told`).
OF_ITEM: tuple[str, ...] = ("video_id", "type", "n_frames", "duration_s")
OF_ITEM += ("video_digest", "same_options")

Infos = Callable[[NDArray[np.int64], int], "list[Coded]"]


class OddInputError(Exception):
    """Columns that are no passes; which line it is has to be looked up."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of few values: numbers, shape (n,), of the values in a table.

    A code of -1 is null.
    """

    code: NDArray[np.int64]
    table: list[Any]

    def values(self) -> NDArray[np.object_]:
        """Return the value of every row, shape (n,), None for null."""
        table = np.empty(len(self.table) + 1, object)
        table[: len(self.table)] = self.table
        return table.take(self.code)  # -1 is the last, which is None


@dataclass(frozen=True, slots=True)
class RawColumns:
    """Columns of n passes; null numbers are NaN.

    Attributes
    ----------
    n : int
    coded : dict of str to Coded
        `TEXTS` and `LISTS`.
    number : dict of str to ndarray, shape (n,), float64
        `NUMBERS`.
    logprob_lengths : ndarray, shape (n,), int64
        Of the lists of log-probabilities; -1 for null.
    logprobs : ndarray, float64
        All lists one after the other; a null in a list is -inf.
    infos : callable
        From the item of every row, and the number of items, to the columns `OF_ITEM`
        of the items.
    """

    n: int
    coded: dict[str, Coded]
    number: dict[str, NDArray[np.float64]]
    logprob_lengths: NDArray[np.int64]
    logprobs: NDArray[np.float64]
    infos: Infos

    def texts(self, name: str, *, null: bool = False) -> Coded:
        """Return a column of texts, or raise OddInputError."""
        column = self.coded[name]
        if not null and self.n and column.code.min() < 0:
            raise OddInputError(f"{name} is null")
        return column

    def integers(
        self,
        name: str,
        *,
        least: int = 0,
        null: int | None = None,
        below: NDArray[np.int64] | None = None,
        out: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Return a column of integers with `null` for null, or raise OddInputError."""
        values = self.number[name]
        is_null = np.zeros(1, np.bool_)
        if null is not None:
            is_null = np.isnan(values)
            if is_null.any():
                values = np.where(is_null, null, values)
        with np.errstate(invalid="ignore"):
            whole = np.empty(self.n, np.int64) if out is None else out
            np.copyto(whole, values, casting="unsafe")
        self.demand(whole == values, f"{name} is not an integer")
        self.demand((whole >= least) | is_null, f"{name} is below {least}")
        if below is not None:
            self.demand(whole < below, f"{name} is too large")
        return whole

    def demand(self, holds: NDArray[np.bool_], what: str) -> None:
        """Raise OddInputError unless something holds for every pass."""
        if not holds.all():
            raise OddInputError(what)


def join(
    n: int, parts: dict[str, list[NDArray[np.float64]]]
) -> dict[str, NDArray[np.float64]]:
    """Join columns that come in parts.

    They get one allocation: the system serves a large one with large pages, and first
    touches of small pages would take longer than the copy.
    """
    table = np.empty((len(parts), n))
    for row, arrays in zip(table, parts.values(), strict=True):
        if arrays:
            np.concatenate(arrays, out=row)
    return dict(zip(parts, table, strict=True))


class _Gatherer:
    """Takes dicts block by block and keeps of each what the columns need."""

    def __init__(self) -> None:
        self._index: dict[str, dict[Any, int]] = {name: {} for name in TEXTS + LISTS}
        self._codes: dict[str, list[NDArray[np.int64]]] = {
            name: [] for name in self._index
        }
        self._numbers: dict[str, list[NDArray[np.float64]]] = {
            name: [] for name in NUMBERS
        }
        self._lengths: list[NDArray[np.int64]] = []
        self._logprobs: list[NDArray[np.float64]] = []
        #: What no row has said yet of an item, and the rows that said something.
        self._untold: dict[tuple[str, str], set[str]] = {}
        self._tellers: list[int] = []
        self._told: dict[str, list[Any]] = {name: [] for name in OF_ITEM}
        self._n = 0

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Take a block of passes."""
        for name in TEXTS:
            self._code(name, as_texts(_field(rows, name)))
        for name in LISTS:
            self._code(name, [_key(value) for value in _field(rows, name)])
        for name in NUMBERS:
            self._numbers[name].append(as_numbers(name, _field(rows, name)))
        self._add_logprobs([row.get("logprobs") for row in rows])
        for i, row in enumerate(rows, self._n):
            key = (row["benchmark"], row["question_id"])
            untold = self._untold.get(key)
            if untold is None:
                untold = self._untold[key] = set(OF_ITEM)
            told = [name for name in untold if row.get(name) is not None]
            if told:
                untold.difference_update(told)
                self._tellers.append(i)
                for name, values in self._told.items():
                    values.append(row[name] if name in told else None)
        self._n += len(rows)

    def _code(self, name: str, values: Sequence[Any]) -> None:
        index = self._index[name]
        codes = [index.setdefault(value, len(index)) for value in values]
        self._codes[name].append(np.array(codes, np.int64))

    def _add_logprobs(self, lists: Sequence[Any]) -> None:
        if not {*map(type, lists)} <= {list, type(None)}:
            raise OddInputError("logprobs is not a list")
        lengths = [-1 if values is None else len(values) for values in lists]
        self._lengths.append(np.array(lengths, np.int64))
        flat = list(chain.from_iterable(values for values in lists if values))
        numbers = as_numbers("logprobs", flat)
        if None in flat:
            numbers[np.array([value is None for value in flat])] = -np.inf
        self._logprobs.append(numbers)

    def columns(self) -> RawColumns:
        """Put the blocks together."""
        return RawColumns(
            n=self._n,
            coded={name: self._coded(name) for name in self._index},
            number=join(self._n, self._numbers),
            logprob_lengths=np.concatenate([*self._lengths, np.empty(0, np.int64)]),
            logprobs=np.concatenate([*self._logprobs, np.empty(0)]),
            infos=self._of_items,
        )

    def _of_items(self, item: NDArray[np.int64], n_items: int) -> list[Coded]:
        owner = item[np.array(self._tellers, np.intp)]
        found = []
        for name, values in self._told.items():
            table = as_texts(values) if name in AS_TEXT else values
            is_null = np.array([value is None for value in table], np.bool_)
            code = np.where(is_null, -1, np.arange(len(table)))
            found.append(Coded(first_told(owner, n_items, code), table))
        return found

    def _coded(self, name: str) -> Coded:
        code = np.concatenate([*self._codes[name], np.empty(0, np.int64)])
        table = [list(v) if type(v) is tuple else v for v in self._index[name]]
        null = self._index[name].get(None)
        if null is not None:
            del table[null]
            code[code == null] = -1
            code[code > null] -= 1
        return Coded(code, table)


def gather(blocks: Iterable[Sequence[dict[str, Any]]]) -> RawColumns:
    """Make columns of passes that come as dicts, block by block.

    Raises
    ------
    OddInputError
        If one is no pass.
    """
    gatherer = _Gatherer()
    for rows in blocks:
        try:
            gatherer.add(rows)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise OddInputError(f"not a pass: {error!r}") from None
    return gatherer.columns()


#: What may be left out where it may be null.
_OPTIONAL = {"gold", "shifted", "budget", "answer", "option_mass", "seconds", "invalid"}
_OPTIONAL |= {"phase", "path"}


def as_texts(values: list[Any]) -> list[str | None]:
    """Return texts as they are, numbers, true and false as their JSON, and null.

    Raises
    ------
    OddInputError
        For a list or an object.
    """
    kinds = {*map(type, values)}
    if kinds <= {str, type(None)}:
        return values
    if kinds & {list, dict}:
        raise OddInputError("a text is a list or an object")
    return [
        value if value is None or type(value) is str else _json.dumps(value).decode()
        for value in values
    ]


def as_numbers(name: str, values: list[Any]) -> NDArray[np.float64]:
    """Return numbers, null as NaN; what NumPy would make a number of is none.

    Raises
    ------
    OddInputError
        For a text, a list, and for true and false but in the field that is so.
    """
    kinds: set[type] = {bool} if name == "shifted" else {int, float}
    if not {*map(type, values)} <= kinds | {type(None)}:
        raise OddInputError(f"{name} is no number")
    return np.array(values, np.float64)


def _field(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    if name in _OPTIONAL:
        return [row.get(name) for row in rows]
    return [row[name] for row in rows]


def _key(value: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    if type(value) is not list:
        raise OddInputError("a list is none")
    return tuple(value)
