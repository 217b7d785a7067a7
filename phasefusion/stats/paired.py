"""Two arms on the same items."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import integers
from phasefusion.stats._exact import binomial_cdf, binomial_log_pmf
from phasefusion.stats._numbers import clusters, indicator, numbers

#: Discordant items up to which whole numbers are used.
_WHOLE = 1000


@dataclass(frozen=True, slots=True, repr=False)
class McNemar(Result):
    """McNemar's test on discordant pairs.

    Attributes
    ----------
    b, c : int
        Items that only the first, only the second arm has.
    pvalue : float
        Exact, two-sided.
    midp : float
        Mid-p version: less conservative, not a bound.
    chi2, p_chi2 : float
        ``(b - c)**2 / (b + c)``, without correction; NaN and 1 for b + c = 0.
    chi2_corrected, p_chi2_corrected : float
        ``max(|b - c| - 1, 0)**2 / (b + c)``.
    """

    b: int
    c: int
    pvalue: float
    midp: float
    chi2: float
    p_chi2: float
    chi2_corrected: float
    p_chi2_corrected: float

    def __repr__(self) -> str:
        return f"McNemar(b={self.b}, c={self.c}, p={self.pvalue:.4g}, exact)"


def mcnemar(b: int, c: int) -> McNemar:
    """McNemar's test from the two discordant counts.

    Parameters
    ----------
    b, c : int
        Items that only the first arm answers right (or changes), and only the second.

    Returns
    -------
    McNemar
        The headline p-value is the exact one at every size: with X ~ Bin(b + c, 1/2),
        ``min(1, 2 P(X <= min(b, c)))``. No discordant pair: p = 1. Counts may be of any
        size; nothing is summed over them.

    Raises
    ------
    StatisticsError
        If a count is negative or not an integer.

    References
    ----------
    .. [1] Fagerland, Lydersen, Laake, "The McNemar test for binary matched-pairs data",
       BMC Medical Research Methodology 13:91 (2013).

    Examples
    --------
    >>> mcnemar(3, 10)
    McNemar(b=3, c=10, p=0.09229, exact)
    """
    from scipy.special import chdtrc

    for name, value in (("b", b), ("c", c)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise StatisticsError(f"{name} must be an int, it is {value!r}")
        if value < 0:
            raise StatisticsError(f"{name} must be >= 0, it is {value}")
    b, c = int(b), int(c)
    n, least = b + c, min(b, c)
    if n == 0:
        nan = float("nan")
        return McNemar(b, c, 1.0, 1.0, nan, 1.0, nan, 1.0)
    twice = 2.0 * float(binomial_cdf(least, n, 0.5))
    if n <= _WHOLE:
        as_seen = math.comb(n, least) / 2**n  # of integers: rounded once
    else:
        as_seen = math.exp(binomial_log_pmf(least, n, 0.5))
    exact = 1.0 if abs(b - c) <= 1 else min(1.0, twice)
    midp = 1.0 if b == c else min(1.0, twice - as_seen)
    chi2 = (b - c) ** 2 / n
    corrected = max(abs(b - c) - 1, 0) ** 2 / n
    return McNemar(
        b,
        c,
        exact,
        midp,
        chi2,
        float(chdtrc(1, chi2)),
        corrected,
        float(chdtrc(1, corrected)),
    )


def discordant(a: ArrayLike, b: ArrayLike) -> tuple[int, int]:
    """Count the items that only a has, and only b.

    Parameters
    ----------
    a, b : array_like, shape (n,), bool
        Correctness (or change indicators) of the same items in two arms.

    Returns
    -------
    tuple of int
        For `mcnemar`.

    Raises
    ------
    StatisticsError
        If they differ in shape or hold anything but True and False, 1 and 0.

    Examples
    --------
    >>> discordant([True, True, False], [True, False, False])
    (1, 0)
    """
    first = as_array(a, "a", StatisticsError)
    second = as_array(b, "b", StatisticsError)
    if first.shape != second.shape or first.ndim != 1:
        raise StatisticsError(
            f"a and b must have one shape (n,), they have {first.shape}, {second.shape}"
        )
    if not (np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all()):
        raise StatisticsError("a and b must hold True and False, or 1 and 0, alone")
    left, right = first.astype(bool), second.astype(bool)
    return int((left & ~right).sum()), int((~left & right).sum())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusteredMcNemar(Result):
    """McNemar's test with clusters of dependent items.

    Attributes
    ----------
    z, chi2, pvalue : float
        NaN, NaN and 1 when every cluster nets out to zero.
    cluster_sums : ndarray, shape (G,), int64
        Net difference of each cluster, clusters sorted.
    """

    z: float
    chi2: float
    pvalue: float
    cluster_sums: NDArray[np.int64]

    def __repr__(self) -> str:
        return (
            f"ClusteredMcNemar(z={self.z:.4g}, p={self.pvalue:.4g}, "
            f"{len(self.cluster_sums)} clusters)"
        )


def clustered_mcnemar(diff: ArrayLike, cluster: ArrayLike) -> ClusteredMcNemar:
    """Test whether two arms differ when items come in clusters.

    ``z = sum_g D_g / sqrt(sum_g D_g**2)`` with D_g the net difference of cluster g;
    with one item a cluster z**2 is McNemar's chi-square.

    Parameters
    ----------
    diff : array_like, shape (n,), int
        First arm minus second, in -1, 0, 1.
    cluster : array_like, shape (n,)
        Label of each item's cluster: the question where models share it, the video
        where questions do.

    Returns
    -------
    ClusteredMcNemar

    Raises
    ------
    StatisticsError
        If the shapes differ, or a difference is not -1, 0 or 1.

    Examples
    --------
    >>> clustered_mcnemar([1, 1, -1, 0], [0, 0, 1, 2])
    ClusteredMcNemar(z=0.4472, p=0.6547, 3 clusters)
    """
    from scipy.special import chdtrc

    values = integers(diff, "diff", 1)
    group, n_groups = clusters(cluster, len(values))
    if values.size and np.abs(values).max() > 1:
        raise StatisticsError("diff must hold -1, 0 and 1 alone")
    sums = np.zeros(n_groups, np.int64)
    np.add.at(sums, group, values)
    squares = int((sums**2).sum())
    if squares == 0:
        return ClusteredMcNemar(float("nan"), float("nan"), 1.0, sums)
    z = int(sums.sum()) / math.sqrt(squares)
    return ClusteredMcNemar(z, z * z, float(chdtrc(1, z * z)), sums)


@dataclass(frozen=True, slots=True, repr=False)
class CochranQ(Result):
    """Cochran's test over more than two arms.

    Attributes
    ----------
    q, pvalue : float
        NaN and 1 where no item separates the arms.
    n, n_arms, n_dropped : int
    """

    q: float
    pvalue: float
    n: int
    n_arms: int
    n_dropped: int

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"CochranQ(q={self.q:.4g}, p={self.pvalue:.4g}, {self.n_arms} arms, "
            f"{self.n} items{dropped}, chi2({self.n_arms - 1}))"
        )


def cochran_q(correct: ArrayLike) -> CochranQ:
    """Test whether k arms have one accuracy on the same items.

    With two arms it is McNemar's chi-square without correction.

    Parameters
    ----------
    correct : array_like, shape (n, k), bool or 0/1
        One row an item, one column an arm (such as a phase), k >= 2. A row with -1 or
        NaN is left out.

    Returns
    -------
    CochranQ

    Raises
    ------
    StatisticsError
        If the shape is wrong or another value occurs.

    References
    ----------
    .. [1] Cochran, "The comparison of percentages in matched samples", Biometrika 37
       (1950).

    Examples
    --------
    >>> cochran_q([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 0]])
    CochranQ(q=2.667, p=0.2636, 3 arms, 4 items, chi2(2))
    """
    from scipy.special import chdtrc

    array = numbers(correct, "correct")
    if array.ndim != 2 or array.shape[1] < 2:
        raise StatisticsError(
            f"correct must have shape (n, k) with k >= 2, it has {array.shape}"
        )
    flat = indicator(array.ravel(), "correct").reshape(array.shape)
    kept = ~np.isnan(flat).any(axis=1)
    table = flat[kept].astype(np.int64)
    n, k = table.shape
    of_arms, of_items = table.sum(axis=0), table.sum(axis=1)
    total = int(of_arms.sum())
    spread = k * total - int((of_items**2).sum())
    dropped = len(array) - n
    if spread == 0:
        return CochranQ(float("nan"), 1.0, n, k, dropped)
    q = (k - 1) * (k * int((of_arms**2).sum()) - total**2) / spread
    return CochranQ(q, float(chdtrc(k - 1, q)), n, k, dropped)
