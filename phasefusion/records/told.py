"""What passes say of their question or video: null says nothing, the first word counts.

Every reader keeps to this one rule, as passes of one question may know more or less of
its video: those made before a field was there, of a file that could not be read, or of
a prompt without frames say less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K")
V = TypeVar("V")


def told(first: dict[K, V], owner: K, value: V | None) -> V | None:
    """Take what a pass says of its owner; return what the first to say it said.

    >>> first = {}
    >>> [told(first, "q", value) for value in (None, 3, None, 4)]
    [None, 3, 3, 3]
    """
    return first.get(owner) if value is None else first.setdefault(owner, value)


def count_others(a: Mapping[K, V | None], b: Mapping[K, V | None]) -> tuple[int, int]:
    """Count owners of which two runs say other things, and those of which both say one.

    >>> count_others({"p": 1, "q": 2, "r": None}, {"p": 1, "q": 3, "r": 4})
    (1, 2)
    """
    both = [key for key in a if a[key] is not None and b.get(key) is not None]
    return sum(a[key] != b[key] for key in both), len(both)


def first_told(
    owner: NDArray[np.int64], n_owners: int, code: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Do so for a column: from a value a row to one an owner; -1 is null.

    >>> first_told(np.array([0, 0, 0, 1]), 2, np.array([-1, 5, 6, -1]))
    array([ 5, -1])
    """
    rows = np.flatnonzero(code >= 0)
    rows = rows[first_rows(owner[rows], n_owners)]
    found = np.full(n_owners, -1, np.int64)
    found[owner[rows]] = code[rows]
    return found


def first_rows(key: NDArray[np.int64], n_keys: int) -> NDArray[np.intp]:
    """Return the first row of every key there is, ascending.

    >>> first_rows(np.array([2, 2, 0, 2, 0]), 3)
    array([0, 2])
    """
    if n_keys > 8 * len(key) + 1000:
        return np.sort(np.unique(key, return_index=True)[1])
    # Of repeated indices the last one written stays: the first row, written last.
    first = np.full(n_keys, len(key), np.intp)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    return np.sort(first[first < len(key)])
