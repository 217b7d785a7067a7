"""All passes of a run as NumPy columns, checked."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._paths import path_of
from phasefusion._results import MOST_SHOWN, Result, fields_html, table_html
from phasefusion.errors import RecordError
from phasefusion.records import rules
from phasefusion.records.files import PassKey, pass_key, passes_path
from phasefusion.records.lines import PassLines, Row
from phasefusion.records.raw import (
    AS_TEXT,
    LISTS,
    NUMBERS,
    OF_ITEM,
    TEXTS,
    Coded,
    OddInputError,
    RawColumns,
    gather,
)
from phasefusion.records.told import first_rows

#: Fields that the columns are made of.
READ = {*TEXTS, *LISTS, *NUMBERS, *OF_ITEM, "logprobs"}
#: Fields that must be there by the schema, and are null to a reader when they are not.
NULLABLE = {name for name in rules.REQUIRED if rules.FIELDS[name][1]}

Reader: TypeAlias = Literal["auto", "duckdb", "json"]

#: Smaller files are read before DuckDB has started.
_DUCKDB_BYTES = 4_000_000
#: Smaller files are parsed about as fast as a cache is read.
_CACHE_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class ItemInfo:
    """What the passes of one item say about it; the first to say something counts."""

    question_id: str
    benchmark: str
    video_id: str | None
    n_options: int
    gold: int | None
    type: str | None
    n_frames: int | None
    duration_s: float | None
    video_digest: str | None
    same_options: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, repr=False)
class Passes(Result):
    """All passes of a run in columns, row p being pass p of the file.

    Attributes
    ----------
    items : tuple of ItemInfo
        Every item, in order of first appearance.
    item : ndarray, shape (n,), int64
        Index into `items`.
    arm : ndarray, shape (n,), object
        "single", "phase", "union" or "dense", or what an importer named it.
    shifted : ndarray, shape (n,), bool
        Whether the pass is on the grid moved by half a step.
    n_phases, phase_index : ndarray, shape (n,), int64
        Phases of the grid, and which of them the pass is on.
    phase : ndarray, shape (n, 2), int64
        Numerator and denominator of the phase, in steps; (-1, 1) where not known.
    budget : ndarray, shape (n,), int64
        Frames of the pass; -1 where not known.
    order : ndarray, shape (n, K), int64
        ``order[pos] = content``; -1 beyond the options of the item.
    logprobs : ndarray, shape (n, K), float64
        Letter space, nats; -inf beyond the options, NaN in a pass that is missing or
        was generated.
    answer : ndarray, shape (n,), int64
        Content index; -1 when the pass is missing.
    generated : ndarray, shape (n,), bool
        Whether the answer was read from a text, which may state another option than
        the most probable one, or none.
    option_mass, seconds : ndarray, shape (n,), float64
        NaN where not recorded.
    invalid : tuple of (str or None)
        Why a pass is missing.
    """

    items: tuple[ItemInfo, ...]
    item: NDArray[np.int64]
    arm: NDArray[np.object_]
    shifted: NDArray[np.bool_]
    n_phases: NDArray[np.int64]
    phase_index: NDArray[np.int64]
    phase: NDArray[np.int64]
    budget: NDArray[np.int64]
    order: NDArray[np.int64]
    logprobs: NDArray[np.float64]
    answer: NDArray[np.int64]
    generated: NDArray[np.bool_]
    option_mass: NDArray[np.float64]
    seconds: NDArray[np.float64]
    invalid: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.item)

    def _rows(self) -> list[tuple[str, str]]:
        arms = ", ".join(map(str, dict.fromkeys(self.arm)))
        return [
            ("passes", str(len(self))),
            ("items", str(len(self.items))),
            ("missing", str(int((self.answer < 0).sum()))),
            ("arms", arms if len(arms) <= MOST_SHOWN else f"{arms[:MOST_SHOWN]} ..."),
        ]

    def _repr_html_(self) -> str:
        columns = ("arm", "shifted", "frames", "phases", "items", "passes", "missing")
        rows = []
        for arm, shifted in dict.fromkeys(
            zip(self.arm.tolist(), self.shifted.tolist(), strict=True)
        ):
            chosen = (self.arm == arm) & (self.shifted == shifted)
            frames, phases = self.budget[chosen], self.n_phases[chosen]
            n_items = len(np.unique(self.item[chosen]))
            missing = int((self.answer[chosen] < 0).sum())
            about = _range(frames), _range(phases), n_items
            rows.append((arm, shifted, *about, int(chosen.sum()), missing))
        return fields_html("Passes", self._rows()[:3]) + table_html(columns, rows)

    def content_logprobs(self) -> NDArray[np.float64]:
        """Log-probabilities by content index, shape (n, K), -inf as padding."""
        content = np.full_like(self.logprobs, -np.inf)
        row, pos = np.nonzero(self.order >= 0)
        content[row, self.order[row, pos]] = self.logprobs[row, pos]
        return content


def _range(values: NDArray[np.int64]) -> str:
    """Smallest to greatest of numbers that are known, or the one that all are."""
    known = values[values >= 0]
    if not len(known):
        return "unknown"
    low, high = int(known.min()), int(known.max())
    return str(low) if low == high else f"{low} to {high}"


def read_passes(
    folder: Any, *, cache: bool | str | Path = True, reader: Reader = "auto"
) -> Passes:
    """Read every pass of a run into columns.

    A large file is parsed by DuckDB where it and PyArrow are installed, and by orjson
    otherwise; what is read is the same, but that DuckDB takes texts of numbers in
    logprobs, option_mass and seconds. A file that it stumbles over is read again line
    by line.

    A pass whose log-probabilities hold NaN or +inf, or are all -inf, is missing, with
    the reason in `Passes.invalid`. A field that may be null may also be absent.

    Parameters
    ----------
    folder : Run, str or Path
        The run folder, or a ``passes.jsonl`` file itself.
    cache : bool, str or Path, default True
        Whether the columns of a large file are kept as Parquet for the next time (see
        `phasefusion.records.cache`), or the folder where they are. Needs PyArrow;
        without it nothing is kept.
    reader : {"auto", "duckdb", "json"}
        Which parser reads the lines.

    Returns
    -------
    Passes

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    RecordError
        If a line is not a pass, contradicts another one of its item, or is there
        twice; the message names the line.
    BackendUnavailableError
        If `reader` is "duckdb" and that is not installed.
    """
    if reader not in ("auto", "duckdb", "json"):
        raise RecordError(f"reader must be auto, duckdb or json, not {reader!r}")
    path = passes_path(folder)
    if cache is False:
        return parse(path, reader)
    from phasefusion.records import cache as store

    where = (
        None if cache is True else path_of("cache", cache, "True, False, or a folder")
    )
    if where is None and path.stat().st_size < _CACHE_BYTES:
        return parse(path, reader)
    return store.load_or_parse(path, where, lambda: parse(path, reader))


def parse(path: Path, reader: Reader = "auto") -> Passes:
    """Read a pass file without a cache.

    Raises
    ------
    FileNotFoundError, RecordError, BackendUnavailableError
        As `read_passes`.
    """
    from phasefusion.records import duck

    if reader == "duckdb":
        duck.check_installed()
    large = reader == "auto" and path.stat().st_size >= _DUCKDB_BYTES
    if reader == "duckdb" or (large and duck.is_installed()):
        try:
            return assemble(duck.read(path))
        except OddInputError:
            pass  # what is odd about it is found line by line
    lines = PassLines(path)
    try:
        raw = gather(rows for _, rows in lines.rows())
        lines.warn_torn("left out")
        return assemble(raw)
    except OddInputError as error:
        raise _explain(path) or RecordError(f"{path}: {error}") from None


def allocate(n: int, width: int) -> dict[str, NDArray[Any]]:
    """Make the columns of n passes that are numbers, uninitialised, in one allocation.

    The system serves a large one with large pages; first touches of small pages would
    take longer than everything that is done to the columns.
    """
    integers = ("item", "n_phases", "phase_index", "budget", "answer")
    table = np.empty((len(integers) + 2 + 2 * width) * n, np.int64)
    found: dict[str, NDArray[Any]] = {}
    for name in integers:
        found[name], table = table[:n], table[n:]
    found["phase"], table = table[: 2 * n].reshape(n, 2), table[2 * n :]
    order, logprobs = table.reshape(2, n, width)
    return found | {"order": order, "logprobs": logprobs.view(np.float64)}


def assemble(raw: RawColumns) -> Passes:
    """Check columns as parsed and put them into the form of `Passes`.

    Raises
    ------
    OddInputError
        If a pass is not one; which, and why, is for who has the lines to say.
    """
    n_options = raw.integers("n_options", least=1)
    width = int(n_options.max(initial=0))
    longest = max(map(len, raw.coded["order"].table), default=0)
    raw.demand(n_options <= longest, "an order has another length than n_options")
    out = allocate(raw.n, width)
    item, first = _number_items(raw, out["item"])
    gold = raw.integers("gold", least=0, null=-1, below=n_options)
    raw.demand(n_options == n_options[first][item], "n_options differ within an item")
    raw.demand(gold == gold[first][item], "gold differs within an item")
    order_code, orders = _orders(raw.coded["order"], n_options, width)
    n_phases = raw.integers("n_phases", least=1, out=out["n_phases"])
    raw.demand(n_phases <= rules.MOST_PHASES, "n_phases is too great")
    phase_index = raw.integers("phase_index", below=n_phases, out=out["phase_index"])
    shifted = raw.integers("shifted", null=0) != 0
    arm = raw.texts("arm")
    _demand_distinct(
        raw, [item, arm.code, shifted.astype(np.int64), phase_index, order_code]
    )
    for name in ("option_mass", "seconds"):
        raw.demand(~(raw.number[name] < 0.0), f"{name} is below 0")
    for name in ("question_id", "arm"):
        raw.demand(np.array("" not in raw.coded[name].table), f"{name} is empty")
    above = (raw.logprobs > rules.ABOVE_ZERO) & (raw.logprobs < np.inf)
    raw.demand(~above, "a log-probability is above 0")
    logprobs = _logprobs(raw, n_options, out["logprobs"])
    answer = raw.integers("answer", null=-1, below=n_options, out=out["answer"])
    invalid = _mark_invalid(raw, n_options, logprobs, answer)
    if raw.n and answer.max() < 0 and invalid.count(None) == raw.n:
        raise OddInputError(
            "no pass has an answer, or a reason why not; is the field named so?"
        )
    return Passes(
        items=_item_infos(raw, item, first, n_options, gold),
        item=item,
        arm=arm.values(),
        shifted=shifted,
        n_phases=n_phases,
        phase_index=phase_index,
        phase=_phases(raw.coded["phase"], out["phase"]),
        budget=raw.integers("budget", null=-1, out=out["budget"]),
        order=orders.take(order_code, axis=0, out=out["order"], mode="clip"),
        logprobs=logprobs,
        answer=answer,
        generated=_is_generated(raw.texts("path", null=True)),
        option_mass=raw.number["option_mass"],
        seconds=raw.number["seconds"],
        invalid=invalid,
    )


def _number_items(
    raw: RawColumns, out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Item of every pass, by first appearance, and the first pass of every item."""
    question, benchmark = raw.texts("question_id"), raw.texts("benchmark")
    key = benchmark.code * max(len(question.table), 1) + question.code
    n_keys = len(benchmark.table) * len(question.table)
    if n_keys > 8 * raw.n + 1000:  # many benchmarks, each with ids of its own
        kept, key = np.unique(key, return_inverse=True)
        n_keys = len(kept)
    first = first_rows(key, n_keys)
    number = np.empty(n_keys, np.int64)
    number[key[first]] = np.arange(len(first))
    return number.take(key, out=out, mode="clip"), first


def _is_generated(path: Coded) -> NDArray[np.bool_]:
    """Tell passes whose answer was read from a text; those that do not say are none."""
    table = np.array([text == "generate" for text in (*path.table, None)], np.bool_)
    return table.take(path.code)  # null is -1: the last


def _orders(
    coded: Coded, n_options: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return numbers of orders by pass, and the orders, shape (m, K), padded."""
    if coded.code.min(initial=0) < 0:
        raise OddInputError("an order is null")
    length = np.zeros(len(coded.table), np.int64)
    found: dict[tuple[int, ...], int] = {}
    number = np.empty(len(coded.table), np.int64)
    for i, order in enumerate(coded.table):
        if type(order) is not list or not all(map(rules.is_integer, order)):
            raise OddInputError("an order is not a list of integers")
        if sorted(order) != list(range(len(order))):
            raise OddInputError("an order is not a permutation")
        length[i] = len(order)
        number[i] = found.setdefault(tuple(map(int, order)), len(found))
    if not np.array_equal(length[coded.code], n_options):
        raise OddInputError("an order has another length than n_options")
    table = np.full((len(found), width), -1, np.int64)
    for order, i in found.items():
        table[i, : len(order)] = order
    return number.take(coded.code), table


def _phases(coded: Coded, out: NDArray[np.int64]) -> NDArray[np.int64]:
    table = np.array([[-1, 1]] * (len(coded.table) + 1), np.int64)
    for i, phase in enumerate(coded.table):
        if not rules.FIELDS["phase"][2](phase):
            raise OddInputError("a phase is not [numerator, denominator]")
        table[i] = phase
    # null is -1: the last row
    return table.take(coded.code, axis=0, out=out, mode="wrap")


def _logprobs(
    raw: RawColumns, n_options: NDArray[np.int64], out: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fill letter space, shape (n, K): null in a list is -inf, a null list is NaN."""
    has = raw.logprob_lengths >= 0
    raw.demand(
        (raw.logprob_lengths == n_options) | ~has,
        "logprobs has another length than n_options",
    )
    inside = np.arange(out.shape[1]) < n_options[:, None]
    out.fill(-np.inf)
    if not has.all():
        out[inside] = np.nan
        inside &= has[:, None]
    out[inside] = raw.logprobs
    return out


def _mark_invalid(
    raw: RawColumns,
    n_options: NDArray[np.int64],
    logprobs: NDArray[np.float64],
    answer: NDArray[np.int64],
) -> tuple[str | None, ...]:
    """Make passes missing whose scores mean nothing, in place; return all reasons."""
    recorded = raw.texts("invalid", null=True)
    if np.isfinite(raw.logprobs).all():
        if not recorded.table:
            return (None,) * raw.n
        return tuple(recorded.values().tolist())
    reasons = recorded.values()
    inside = np.arange(logprobs.shape[1]) < n_options[:, None]
    has = (raw.logprob_lengths >= 0)[:, None]
    nothing = np.all(logprobs == -np.inf, axis=1) & has[:, 0]
    infinite = np.isposinf(logprobs).any(axis=1)
    undefined = np.any(np.isnan(logprobs) & has, axis=1)
    bad = nothing | infinite | undefined
    logprobs[bad] = np.where(inside[bad], np.nan, -np.inf)
    answer[bad] = -1
    for rows, reason in (
        (nothing, "scores: no option has any probability"),
        (infinite & ~undefined, "scores: +inf"),
        (undefined, "scores: NaN"),
    ):
        reasons[rows & (reasons == np.array(None))] = reason
    return tuple(reasons.tolist())


def _demand_distinct(raw: RawColumns, parts: Sequence[NDArray[np.int64]]) -> None:
    """Raise OddInputError when two passes agree in every part."""
    key, n_keys = parts[0], int(parts[0].max(initial=0)) + 1
    for part in parts[1:]:
        n_part = int(part.max(initial=0)) + 1
        if n_keys * n_part >= 2**62:
            key = np.unique(key, return_inverse=True)[1]
            n_keys = raw.n
        key = key * n_part + part
        n_keys *= n_part
    if n_keys <= 64 * raw.n:
        seen = np.zeros(n_keys, bool)
        seen[key] = True
        n_different = int(np.count_nonzero(seen))
    else:
        n_different = len(np.unique(key))
    if n_different != raw.n:
        raise OddInputError("two passes are the same")


def _item_infos(
    raw: RawColumns,
    item: NDArray[np.int64],
    first: NDArray[np.intp],
    n_options: NDArray[np.int64],
    gold: NDArray[np.int64],
) -> tuple[ItemInfo, ...]:
    question, benchmark = raw.coded["question_id"], raw.coded["benchmark"]
    video_id, kind, n_frames, duration_s, video_digest, same = (
        _checked(name, coded)
        for name, coded in zip(OF_ITEM, raw.infos(item, len(first)), strict=True)
    )
    for k, values in zip(n_options[first].tolist(), same, strict=True):
        if values is not None and len(values) != k:
            raise OddInputError("same_options has another length than n_options")
    return make_items(
        [
            Coded(question.code[first], question.table).values().tolist(),
            Coded(benchmark.code[first], benchmark.table).values().tolist(),
            video_id,
            n_options[first].tolist(),
            [None if g < 0 else g for g in gold[first].tolist()],
            kind,
            n_frames,
            duration_s,
            video_digest,
            same,
        ]
    )


_FORMS: dict[str, Callable[[Any], Any]] = {
    "n_frames": int,
    "duration_s": float,
    "same_options": lambda values: tuple(map(int, values)),
}


def _checked(name: str, coded: Coded) -> list[Any]:
    """Return a field of every item in the form that ItemInfo has it in."""
    test, form = rules.FIELDS[name][2], _FORMS.get(name, str)
    table = []
    for value in coded.table:
        if value is not None and not test(value):
            raise OddInputError(f"{name} is {value!r}")
        table.append(None if value is None else form(value))
    values: list[Any] = Coded(coded.code, table).values().tolist()
    return values


def make_items(fields: Sequence[Sequence[Any]]) -> tuple[ItemInfo, ...]:
    """Make items of their fields, a sequence a field, faster than one by one.

    Frozen dataclasses set their fields through ``object.__setattr__``; here every field
    is set for all items at once.
    """
    # So many new objects set off collections, each of them over the whole process.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        items = list(map(object.__new__, [ItemInfo] * len(fields[0])))
        for name, values in zip(ItemInfo.__slots__, fields, strict=True):
            put = getattr(ItemInfo, name).__set__
            deque(map(put, items, values), maxlen=0)
        return tuple(items)
    finally:
        if was_enabled:
            gc.enable()


def _explain(path: Path) -> RecordError | None:
    """Find the first line that is no pass, or contradicts one before it."""
    first: dict[tuple[str, str], Row] = {}
    line: dict[PassKey, int] = {}
    for numbers, rows in PassLines(path).rows():
        for number, row in zip(numbers, rows, strict=True):
            where = f"{path}, line {number}"
            for _, _, message in _fatal(row):
                return RecordError(f"{where}: {message}")
            key = pass_key(row)
            other = first.setdefault(key[:2], row)
            now, then = ((r["n_options"], r.get("gold")) for r in (row, other))
            if now != then:
                return RecordError(
                    f"{where}: n_options {now[0]!r} and gold {now[1]!r} of {key[1]!r} "
                    f"differ from those of its first pass, {then[0]!r} and {then[1]!r}"
                )
            before = line.setdefault(key, number)
            if before != number:
                return RecordError(
                    f"{where}: the same pass as line {before} "
                    f"(question {row['question_id']!r}, arm {row['arm']!r}); take one "
                    "of them out, and phasefusion records check says what else is wrong"
                )
    return None


def _fatal(row: Row) -> Iterator[rules.Problem]:
    """Yield what keeps a record from being read into columns."""
    odd = False
    for kind, name, message in rules.structure(row):
        if kind == "missing" and name in NULLABLE:
            continue
        if kind == "not finite" and name == "logprobs":
            continue
        if name in AS_TEXT and type(row.get(name)) in (int, float, bool):
            continue
        if name in READ:
            odd = True
            yield kind, name, message
    if not odd:
        yield from rules.lengths(row)
        yield from rules.above_zero(row)
