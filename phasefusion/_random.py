"""Reproducible choices that do not depend on NumPy, the machine or the item order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from phasefusion import _core
from phasefusion._checks import whole
from phasefusion.errors import OptionError, StatisticsError, UsageError

MASK_64 = (1 << 64) - 1
MAX_OPTIONS = 32


def check_seed(seed: SupportsIndex) -> int:
    """Return a seed as an int; integers of NumPy are seeds, other things are not.

    Seeds count modulo 2**64, and those beyond what JSON can hold are reduced.
    """
    number = whole("seed", seed, UsageError)
    return number if -(2**63) <= number <= MASK_64 else number & MASK_64


def fnv1a64(data: str | bytes) -> int:
    """Hash text to 64 bits with FNV-1a.

    Parameters
    ----------
    data : str or bytes
        Text is hashed as UTF-8.

    Returns
    -------
    int
        In [0, 2**64).

    References
    ----------
    .. [1] Fowler, Noll, Vo; published 64-bit offset basis and prime.

    Examples
    --------
    >>> hex(fnv1a64("a"))
    '0xaf63dc4c8601ec8c'
    """
    return _core.fnv1a64(data.encode() if isinstance(data, str) else data)


def splitmix64(seed: int, n: int) -> NDArray[np.uint64]:
    """Draw the first numbers of the splitmix64 generator.

    Parameters
    ----------
    seed : int
        Taken modulo 2**64.
    n : int
        How many numbers, >= 0.

    Returns
    -------
    ndarray, shape (n,), uint64

    Raises
    ------
    StatisticsError
        If n is negative.
    UsageError
        If seed is no whole number, as everywhere that a seed is taken.

    References
    ----------
    .. [1] Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
       OOPSLA 2014.

    Examples
    --------
    >>> hex(splitmix64(0, 1)[0])
    '0xe220a8397b1dcdaf'
    """
    if n < 0:
        raise StatisticsError(f"n must be >= 0, it is {n}")
    return _core.splitmix64(check_seed(seed) & MASK_64, n)


def tie_seed(item_id: str, seed: int = 0) -> int:
    """Seed of an item's tie priority: its hash XOR the run's seed."""
    return fnv1a64(item_id) ^ (check_seed(seed) & MASK_64)


def check_ids(item_ids: Iterable[str]) -> list[str]:
    """Item ids as a list; anything but text is refused."""
    ids = list(item_ids)
    if not all(issubclass(kind, str) for kind in set(map(type, ids))):
        raise OptionError("item ids must be text, such as 'benchmark/question'")
    return ids


def tie_seeds(item_ids: Iterable[str], seed: int = 0) -> NDArray[np.uint64]:
    """Array form of `tie_seed`, shape (n,)."""
    ids = check_ids(item_ids)
    return _core.tie_seeds(ids, check_seed(seed) & MASK_64)


def tie_priority(item_id: str, n_options: int, seed: int = 0) -> NDArray[np.int64]:
    """Order in which tied options of an item are preferred.

    It depends on the item and the seed alone, so every arm, phase and machine breaks a
    tie of this item the same way, and over items no content index is favoured.

    Parameters
    ----------
    item_id : str
        Question id, with the benchmark's name where ids could meet.
    n_options : int
        K, 1 to 32.
    seed : int, default 0
        The run's seed.

    Returns
    -------
    ndarray, shape (K,), int64
        A permutation of 0 .. K-1, most preferred first: Fisher-Yates over splitmix64
        seeded with ``fnv1a64(item_id) ^ seed``, without modulo bias.

    Raises
    ------
    OptionError
        If n_options is out of range.

    Examples
    --------
    >>> tie_priority("MVBench/0001", 5)
    array([0, 1, 4, 3, 2])
    """
    if not 1 <= n_options <= MAX_OPTIONS:
        raise OptionError(f"n_options must be in 1..{MAX_OPTIONS}, it is {n_options}")
    return _core.permutations(tie_seed(item_id, seed), n_options, 1).ravel()
