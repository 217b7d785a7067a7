"""All passes of a run as NumPy columns, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import RecordError
from phasefusion.records.files import PassKey, iter_passes, pass_key, passes_path


@dataclass(frozen=True, slots=True)
class ItemInfo:
    """What the passes of one item say about it."""

    question_id: str
    benchmark: str
    video_id: str
    n_options: int
    gold: int | None
    type: str | None
    n_frames: int | None
    duration_s: float | None
    same_options: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Passes:
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
        Letter space, nats; -inf beyond the options, NaN in a pass that is missing.
    answer : ndarray, shape (n,), int64
        Content index; -1 when the pass is missing.
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
    option_mass: NDArray[np.float64]
    seconds: NDArray[np.float64]
    invalid: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.item)

    def content_logprobs(self) -> NDArray[np.float64]:
        """Log-probabilities by content index, shape (n, K), -inf as padding."""
        content = np.full_like(self.logprobs, -np.inf)
        row, pos = np.nonzero(self.order >= 0)
        content[row, self.order[row, pos]] = self.logprobs[row, pos]
        return content


def read_passes(folder: str | Path) -> Passes:
    """Read every pass of a run into columns.

    Parameters
    ----------
    folder : str or Path
        The run folder, or a ``passes.jsonl`` file itself.

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
    """
    path = passes_path(folder)
    rows = list(iter_passes(path))
    try:
        return _columns(path, rows)
    except KeyError as error:
        name = error.args[0]
        number = next(i for i, row in enumerate(rows, 1) if name not in row)
        raise RecordError(f"{path}, line {number}: has no {name!r}") from None


def _columns(path: Path, rows: Sequence[Mapping[str, Any]]) -> Passes:
    items, item = _items(path, rows)
    n_options = np.array([info.n_options for info in items], np.int64)[item]
    width = int(n_options.max(initial=0))
    inside = np.arange(width) < n_options[:, None]
    order = np.full((len(rows), width), -1, np.int64)
    orders = [row["order"] for row in rows]
    _check_lengths(path, orders, n_options, "order")
    order[inside] = np.fromiter(chain.from_iterable(orders), np.int64)
    sorted_order = np.sort(np.where(inside, order, width), axis=1)
    _refuse(
        path,
        np.any(inside & (sorted_order != np.arange(width)), axis=1),
        "order is not a permutation of the options",
    )
    logprobs = np.where(inside, np.nan, -np.inf)
    given = [row["logprobs"] for row in rows]
    has = np.array([values is not None for values in given], bool)
    _check_lengths(path, given, n_options, "logprobs")
    values = np.array(list(chain.from_iterable(v for v in given if v)), np.float64)
    # Inside a list null is -inf, which JSON cannot say.
    logprobs[inside & has[:, None]] = np.where(np.isnan(values), -np.inf, values)
    answer = np.array(
        [-1 if row["answer"] is None else row["answer"] for row in rows], np.int64
    )
    _refuse(
        path,
        (answer < -1) | (answer >= n_options),
        "answer is not one of the options",
    )
    passes = Passes(
        items=items,
        item=item,
        arm=np.array([row["arm"] for row in rows], object),
        shifted=np.array([row.get("shifted", False) for row in rows], bool),
        n_phases=np.array([row["n_phases"] for row in rows], np.int64),
        phase_index=np.array([row["phase_index"] for row in rows], np.int64),
        phase=np.array(
            [(-1, 1) if row["phase"] is None else row["phase"] for row in rows],
            np.int64,
        ).reshape(-1, 2),
        budget=np.array(
            [-1 if row["budget"] is None else row["budget"] for row in rows], np.int64
        ),
        order=order,
        logprobs=logprobs,
        answer=answer,
        option_mass=np.array([row.get("option_mass") for row in rows], np.float64),
        seconds=np.array([row.get("seconds") for row in rows], np.float64),
        invalid=tuple(row.get("invalid") for row in rows),
    )
    _refuse_twice(path, rows)
    return passes


def _items(
    path: Path, rows: Sequence[Mapping[str, Any]]
) -> tuple[tuple[ItemInfo, ...], NDArray[np.int64]]:
    """Items by first appearance, and the item of every row."""
    index: dict[tuple[str, str], int] = {}
    first: list[Mapping[str, Any]] = []
    item = np.empty(len(rows), np.int64)
    for i, row in enumerate(rows):
        key = (row["benchmark"], row["question_id"])
        j = index.setdefault(key, len(first))
        if j == len(first):
            if not isinstance(row["n_options"], int) or row["n_options"] < 1:
                raise RecordError(
                    f"{path}, line {i + 1}: n_options is {row['n_options']!r}"
                )
            first.append(row)
        elif (row["n_options"], row["gold"]) != (
            first[j]["n_options"],
            first[j]["gold"],
        ):
            raise RecordError(
                f"{path}, line {i + 1}: n_options {row['n_options']!r} and gold "
                f"{row['gold']!r} of {key[1]!r} differ from those of its first pass, "
                f"{first[j]['n_options']!r} and {first[j]['gold']!r}"
            )
        item[i] = j
    return tuple(_item_info(row) for row in first), item


def _item_info(row: Mapping[str, Any]) -> ItemInfo:
    same = row.get("same_options")
    return ItemInfo(
        question_id=row["question_id"],
        benchmark=row["benchmark"],
        video_id=row["video_id"],
        n_options=row["n_options"],
        gold=row["gold"],
        type=row.get("type"),
        n_frames=row.get("n_frames"),
        duration_s=row.get("duration_s"),
        same_options=None if same is None else tuple(same),
    )


def _check_lengths(
    path: Path,
    lists: Sequence[Sequence[Any] | None],
    n_options: NDArray[np.int64],
    name: str,
) -> None:
    lengths = np.array(
        [k if v is None else len(v) for v, k in zip(lists, n_options, strict=True)],
        np.int64,
    )
    _refuse(path, lengths != n_options, f"{name} has another length than n_options")


def _refuse(path: Path, bad: NDArray[np.bool_], reason: str) -> None:
    if bad.any():
        raise RecordError(f"{path}, line {int(np.argmax(bad)) + 1}: {reason}")


def _refuse_twice(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    line: dict[PassKey, int] = {}
    for i, row in enumerate(rows, 1):
        other = line.setdefault(pass_key(row), i)
        if other != i:
            raise RecordError(
                f"{path}, line {i}: the same pass as line {other} "
                f"(question {row['question_id']!r}, arm {row['arm']!r})"
            )
