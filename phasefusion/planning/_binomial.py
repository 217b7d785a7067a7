"""Binomial counts that have any weight, for sums over them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: Standard deviations around the mean; what lies outside weighs less than 1e-17.
_SPREAD = 9.0


def pmf_range(n: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """List the counts of Bin(n, share) around its mean, with their probabilities.

    Parameters
    ----------
    n : int
        >= 0.
    share : float
        In [0, 1].

    Returns
    -------
    counts : ndarray, shape (m,), int64
        Ascending; all of 0 .. n for small n.
    probability : ndarray, shape (m,), float64
        They sum to 1 up to rounding.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    spread = _SPREAD * math.sqrt(n * share * (1.0 - share)) + 2.0 * _SPREAD
    low = max(0, math.floor(n * share - spread))
    high = min(n, math.ceil(n * share + spread))
    counts = np.arange(low, high + 1, dtype=np.int64)
    log = gammaln(n + 1.0) - gammaln(counts + 1.0) - gammaln(n - counts + 1.0)
    log += xlogy(counts, share) + xlog1py(n - counts, -share)
    probability = np.exp(log)
    # the gamma functions of large n are rounded alike: the sum takes it out
    return counts, probability / probability.sum()
