"""Ties among many items: an id is hashed only where a tie has to be broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion import _core
from phasefusion._random import check_ids, check_seed, tie_seed, tie_seeds
from phasefusion.errors import StatisticsError


class RowNumbers(Sequence[str]):
    """Ids of items without names: their row numbers, made when they are asked for."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, row: Any) -> Any:
        return str(range(self.n)[row])


@dataclass(frozen=True, slots=True)
class TieSeeds:
    """Tie seeds of rows of the kernel, hashed only where there is a tie."""

    ids: Sequence[str]
    seed: int
    n_rows: int  # of each item

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Seeds of some rows."""
        return tie_seeds([self.ids[row // self.n_rows] for row in rows], self.seed)


def pool_rows(
    rows: NDArray[np.float64],
    n_options: NDArray[np.int64] | None,
    seeds: TieSeeds,
    codes: tuple[int, int, bool],
) -> tuple[NDArray[Any], ...]:
    """Results of the kernel; rows with a tie are pooled again with their seeds."""
    kept = n_options
    if kept is not None and seeds.n_rows > 1:
        kept = np.repeat(kept, seeds.n_rows)
    results: tuple[NDArray[Any], ...] = _core.fuse(
        rows, kept, np.zeros(len(rows), np.uint64), *codes
    )
    again = np.flatnonzero(results[3] > 1)
    if results[6].size:  # a pass with a tie has a margin of 0
        passes = np.flatnonzero(results[6].ravel() == 0.0) // rows.shape[1]
        again = np.union1d(passes, again)
    if len(again):
        own = None if kept is None else kept[again]
        made = _core.fuse(rows[again], own, seeds.of(again), *codes)
        for whole, part in zip(results, made, strict=True):
            whole[again] = part
    return results


_WIDTH = 4 * np.finfo(np.float64).eps  # of what counts as equal, as in the kernel


def tie_ids(item_ids: Sequence[str] | None, n_items: int) -> Sequence[str]:
    """Ids of items for the tie priority: those given, or the row numbers."""
    if item_ids is None:
        return RowNumbers(n_items)
    ids = check_ids(item_ids)
    if len(ids) != n_items:
        raise StatisticsError(f"{len(ids)} item ids were given for {n_items} items")
    return ids


def best_options(
    posteriors: NDArray[np.float64], ids: Sequence[str], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Best option of each row (n, K), and whether it was tied, as `fuse` has them.

    Options within 4 epsilon of the best are tied, and the item's priority chooses.
    """
    seed = check_seed(seed)
    best = posteriors.max(axis=1, keepdims=True)
    equal = posteriors >= best - _WIDTH * best
    answers = equal.argmax(axis=1)
    tied = np.asarray(equal.sum(axis=1) > 1)
    for row in np.flatnonzero(tied).tolist():
        own = tie_seed(ids[row], seed)
        order = _core.permutations(own, posteriors.shape[1], 1)[0]
        answers[row] = order[equal[row, order].argmax()]
    return answers, tied
