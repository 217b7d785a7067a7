"""Ties among many items: an id is hashed only where a tie has to be broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion import _core
from phasefusion._random import tie_seeds


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
