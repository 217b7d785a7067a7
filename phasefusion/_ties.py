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
    n_options: NDArray[np.int64],
    seeds: TieSeeds,
    codes: tuple[int, int],
) -> tuple[NDArray[Any], ...]:
    """Results of the kernel; rows with a tie are pooled again with their seeds."""
    kept = np.repeat(n_options, seeds.n_rows) if seeds.n_rows > 1 else n_options
    results: tuple[NDArray[Any], ...] = _core.fuse(
        rows, kept, np.zeros(len(rows), np.uint64), *codes
    )
    # a pass with a tie has a margin of 0
    passes = np.flatnonzero(results[6].ravel() == 0.0) // rows.shape[1]
    again = np.union1d(passes, np.flatnonzero(results[3] > 1))
    if len(again):
        made = _core.fuse(rows[again], kept[again], seeds.of(again), *codes)
        for whole, part in zip(results, made, strict=True):
            whole[again] = part
    return results
