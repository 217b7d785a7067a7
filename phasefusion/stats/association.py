"""What goes with what: instability of two models, distinctness and disagreement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._random import MASK_64, check_seed
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import integers
from phasefusion.stats._exact import hypergeometric_tail
from phasefusion.stats._numbers import (
    clusters,
    finite_column,
    indicator,
    same_length,
)
from phasefusion.stats.proportions import check_level
from phasefusion.stats.resampling import percentile_interval


@dataclass(frozen=True, slots=True, repr=False)
class SharedUnstable(Result):
    """Items on which both of two models are unstable.

    Attributes
    ----------
    shared : float
        Share of items on which both are; NaN without items.
    expected : float
        What independence gives: the product of the two rates.
    excess : float
        shared - expected.
    ratio : float
        shared / expected; NaN where a model is never unstable.
    phi : float
        Correlation of the two indicators; NaN where one is constant.
    pvalue : float
        One-sided, of at least so many shared: Fisher's, which is the null of pairing
        the items at random, exactly.
    n11, n10, n01, n00 : int
        Items: both, first alone, second alone, neither.
    n_dropped : int
    """

    shared: float
    expected: float
    excess: float
    ratio: float
    phi: float
    pvalue: float
    n11: int
    n10: int
    n01: int
    n00: int
    n_dropped: int

    @property
    def n(self) -> int:
        """Items."""
        return self.n11 + self.n10 + self.n01 + self.n00

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"SharedUnstable({100 * self.shared:.2f} % shared, "
            f"{100 * self.expected:.2f} % expected, ratio {self.ratio:.3g}, phi="
            f"{self.phi:.3g}, p={self.pvalue:.4g}, {self.n} items{dropped}, Fisher)"
        )


def shared_unstable(a: ArrayLike, b: ArrayLike) -> SharedUnstable:
    """Compare how often two models are unstable on the same items.

    Parameters
    ----------
    a, b : array_like, shape (n,), bool or 0/1
        Whether each item flips for the first and for the second model, of the same
        number of passes and over items of one K: both alone make an association. -1 and
        NaN are left out.

    Returns
    -------
    SharedUnstable

    Raises
    ------
    StatisticsError
        If the columns differ in length or hold what they must not.

    See Also
    --------
    cmh : over several benchmarks

    Examples
    --------
    >>> shared_unstable([1, 1, 0, 0], [1, 1, 0, 0]).ratio
    2.0
    """
    first, second = indicator(a, "a"), indicator(b, "b")
    same_length(a=first, b=second)
    kept = ~(np.isnan(first) | np.isnan(second))
    one, two = first[kept] == 1.0, second[kept] == 1.0
    return shared_unstable_counts(
        int((one & two).sum()),
        int((one & ~two).sum()),
        int((~one & two).sum()),
        int((~one & ~two).sum()),
        n_dropped=int((~kept).sum()),
    )


def shared_unstable_counts(
    n11: int, n10: int, n01: int, n00: int, *, n_dropped: int = 0
) -> SharedUnstable:
    """Compare two models from the counts of items.

    Parameters
    ----------
    n11, n10, n01, n00 : int
        Items on which both are unstable, the first alone, the second alone, neither.
    n_dropped : int, default 0
        Noted in the result.

    Returns
    -------
    SharedUnstable

    Raises
    ------
    StatisticsError
        If a count is negative or not an integer.

    Examples
    --------
    >>> shared_unstable_counts(30, 10, 12, 48).excess.__round__(3)
    0.132
    """
    counts = integers([n11, n10, n01, n00], "counts", 1)
    if counts.min() < 0:
        raise StatisticsError(f"counts must be >= 0, they are {counts.tolist()}")
    n11, n10, n01, n00 = counts.tolist()
    n, one, two = sum(counts.tolist()), n11 + n10, n11 + n01
    nan = float("nan")
    if n == 0:
        return SharedUnstable(
            nan, nan, nan, nan, nan, nan, n11, n10, n01, n00, n_dropped
        )
    shared = n11 / n
    product = one * two
    variance = one * (n - one) * two * (n - two)
    return SharedUnstable(
        shared=shared,
        expected=product / n**2,
        excess=(n11 * n - product) / n**2,
        ratio=n11 * n / product if product else nan,
        phi=(n11 * n00 - n10 * n01) / math.sqrt(variance) if variance else nan,
        pvalue=hypergeometric_tail(n11, n, one, two),
        n11=n11,
        n10=n10,
        n01=n01,
        n00=n00,
        n_dropped=n_dropped,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Cmh(Result):
    """Cochran-Mantel-Haenszel test over strata.

    Attributes
    ----------
    chi2, pvalue : float
        Of a common odds ratio of 1, without continuity correction, one degree of
        freedom; NaN and 1 where no stratum has variance.
    odds_ratio : float
        Mantel and Haenszel's common one; inf or NaN where its denominator is 0.
    n, n_strata : int
    """

    chi2: float
    pvalue: float
    odds_ratio: float
    n: int
    n_strata: int

    def __repr__(self) -> str:
        return (
            f"Cmh(odds ratio {self.odds_ratio:.4g}, chi2={self.chi2:.4g}, "
            f"p={self.pvalue:.4g}, {self.n} items in {self.n_strata} strata)"
        )


def cmh(tables: ArrayLike) -> Cmh:
    """Test association over strata, such as benchmarks.

    Parameters
    ----------
    tables : array_like, shape (n_strata, 2, 2), int
        Counts ``[[n11, n10], [n01, n00]]`` of each stratum.

    Returns
    -------
    Cmh

    Raises
    ------
    StatisticsError
        If the shape is wrong or a count is negative.

    References
    ----------
    .. [1] Mantel and Haenszel, JNCI 22 (1959).

    Examples
    --------
    >>> cmh([[[30, 10], [12, 48]], [[25, 20], [15, 40]]])
    Cmh(odds ratio 5.81, chi2=34.27, p=4.789e-09, 200 items in 2 strata)
    """
    from scipy.special import chdtrc

    counts = integers(tables, "tables", 3)
    if counts.shape[1:] != (2, 2):
        raise StatisticsError(
            f"tables must have shape (n_strata, 2, 2), it is {counts.shape}"
        )
    if counts.size and counts.min() < 0:
        raise StatisticsError("tables must hold counts >= 0")
    total = counts.sum(axis=(1, 2))
    counts = counts[total > 0].astype(np.float64)
    n = counts.sum(axis=(1, 2))
    rows, columns = counts.sum(axis=2), counts.sum(axis=1)
    a, d = counts[:, 0, 0], counts[:, 1, 1]
    b, c = counts[:, 0, 1], counts[:, 1, 0]
    surplus = math.fsum(a - rows[:, 0] * columns[:, 0] / n)
    spread = rows.prod(axis=1) * columns.prod(axis=1)
    several = n > 1
    variance = math.fsum(spread[several] / (n[several] ** 2 * (n[several] - 1)))
    with_odds, against = math.fsum(a * d / n), math.fsum(b * c / n)
    odds = with_odds / against if against else (math.inf if with_odds else math.nan)
    chi2 = surplus**2 / variance if variance else math.nan
    pvalue = float(chdtrc(1, chi2)) if variance else 1.0
    return Cmh(chi2, pvalue, odds, int(total.sum()), len(n))


@dataclass(frozen=True, slots=True, repr=False)
class Correlation(Result):
    """Rank and product-moment correlation of the same pairs.

    Attributes
    ----------
    spearman, spearman_p : float
        Of mid-ranks, p from the t distribution with n - 2 degrees of freedom; for ranks
        that agree (or oppose) entirely the chance that shuffled ones do.
    pearson, pearson_p : float
        NaN where a column is constant, as for Spearman; with two pairs p is 1, and
        undefined for Spearman. For points on a line p is 0, which is what a normal law
        says of them and takes no account of how few they are.
    spearman_interval, pearson_interval : tuple of float
        Percentile intervals of resampled clusters; NaN where none was asked for, and
        where no resample differs from another.
    n, n_dropped : int
    n_clusters : int or None
    """

    spearman: float
    spearman_p: float
    pearson: float
    pearson_p: float
    spearman_interval: tuple[float, float]
    pearson_interval: tuple[float, float]
    n: int
    n_dropped: int
    n_clusters: int | None

    def __repr__(self) -> str:
        def shown(value: float, pvalue: float, interval: tuple[float, float]) -> str:
            if self.n_clusters is None:
                return f"{value:.4f} (p={pvalue:.3g})"
            return f"{value:.4f} [{interval[0]:.4f}, {interval[1]:.4f}]"

        rank = shown(self.spearman, self.spearman_p, self.spearman_interval)
        product = shown(self.pearson, self.pearson_p, self.pearson_interval)
        within = (
            f" in {self.n_clusters} clusters" if self.n_clusters is not None else ""
        )
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Correlation(spearman {rank}, pearson {product}, {self.n} pairs{within}"
            f"{dropped})"
        )


def correlation(
    x: ArrayLike,
    y: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    confidence_level: float = 0.95,
) -> Correlation:
    """Correlate two columns, such as distinctness with phase offset or disagreement.

    Parameters
    ----------
    x, y : array_like, shape (n,), float
        Pairs; NaN on either side leaves the pair out.
    cluster : array_like, shape (n,), optional
        Labels of repeated pairs, such as the clip: intervals come from resampled
        clusters then, and the p-values (which take pairs as independent) are not to be
        used.
    n_resamples, seed, confidence_level
        Of those intervals.

    Returns
    -------
    Correlation

    Raises
    ------
    StatisticsError
        If the columns differ in length or hold infinities.

    Examples
    --------
    >>> correlation([1, 2, 3, 4], [1, 3, 2, 4]).spearman.__round__(3)
    0.8
    """
    check_level(confidence_level)
    seed = check_seed(seed)
    first, second = finite_column(x, "x"), finite_column(y, "y")
    same_length(x=first, y=second)
    kept = ~(np.isnan(first) | np.isnan(second))
    pairs = np.stack([first[kept], second[kept]])
    n = pairs.shape[1]
    spearman, pearson = _rank_correlation(pairs), _product_correlation(pairs)
    nan = float("nan")
    rank_interval = product_interval = (nan, nan)
    n_clusters = None
    if cluster is not None:
        group = clusters(cluster, len(first))[0][kept]
        names, group = np.unique(group, return_inverse=True)
        n_clusters = len(names)
        made = _resampled(pairs, group, n_clusters, n_resamples, seed)
        tail = (1.0 - confidence_level) / 2.0
        rank_interval, product_interval = (
            percentile_interval(column, tail) for column in made
        )
    return Correlation(
        spearman,
        _rank_p(spearman, pairs[0]),
        pearson,
        # two pairs always lie on a line
        1.0 if n == 2 and not math.isnan(pearson) else _correlation_p(pearson, n),
        rank_interval,
        product_interval,
        n,
        len(first) - n,
        n_clusters,
    )


def _product_correlation(pairs: NDArray[np.float64]) -> float:
    if pairs.shape[1] < 2 or (pairs.min(axis=1) == pairs.max(axis=1)).any():
        return float("nan")
    centred = pairs - pairs.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    if (lengths == 0.0).any():  # squares that underflow
        return float("nan")
    unit = centred / lengths
    r = float(np.dot(unit[0], unit[1]))
    # a line up to rounding: its p-value is 0, that of 1 - 2e-16 is not
    return r if abs(r) < 1.0 - 4.0 * np.finfo(np.float64).eps else math.copysign(1.0, r)


def _rank_correlation(pairs: NDArray[np.float64]) -> float:
    from scipy.stats import rankdata

    return _product_correlation(rankdata(pairs, axis=1)) if pairs.size else math.nan


def _rank_p(r: float, x: NDArray[np.float64]) -> float:
    """P-value of a rank correlation; entire agreement is a matter of counting."""
    n = len(x)
    if n < 3 or math.isnan(r) or abs(r) < 1.0:
        return _correlation_p(r, n)
    # shuffles of equal values are the same, and either direction counts
    same = sum(math.lgamma(m + 1.0) for m in np.unique(x, return_counts=True)[1])
    return min(1.0, 2.0 * math.exp(same - math.lgamma(n + 1.0)))


def _correlation_p(r: float, n: int) -> float:
    from scipy.special import stdtr

    if math.isnan(r) or n < 3:
        return float("nan")
    if abs(r) == 1.0:
        return 0.0
    t = r * math.sqrt((n - 2) / ((1.0 - r) * (1.0 + r)))
    return 2.0 * float(stdtr(n - 2, -abs(t)))


def _resampled(
    pairs: NDArray[np.float64],
    group: NDArray[np.int64],
    n_clusters: int,
    n_resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Both correlations of resampled clusters, (2, n_resamples)."""
    if n_clusters == 0:
        return np.full((2, 1), np.nan)
    order = np.lexsort((pairs[1], pairs[0], group))
    members = np.split(order, np.cumsum(np.bincount(group, minlength=n_clusters))[:-1])
    # clusters by what they hold, so that their names do not matter
    members.sort(key=lambda rows: pairs[:, rows].T.tolist())
    made = np.empty((2, n_resamples))
    draws = _core.resample_indices(n_clusters, n_resamples, seed & MASK_64)
    for r, drawn in enumerate(draws):
        chosen = pairs[:, np.concatenate([members[g] for g in drawn])]
        made[:, r] = _rank_correlation(chosen), _product_correlation(chosen)
    return made
