"""Intervals and tests by resampling clusters: one seed, one result.

Random numbers are counted, not shared: replicate r draws from a stream of its own. The
clusters are sorted first. So a result depends on the data and the seed alone, not on
the order of the items nor on threads.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._random import MASK_64, check_seed, splitmix64
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import check_choice
from phasefusion.stats._exact import binomial_halves
from phasefusion.stats._numbers import (
    clusters,
    column,
    finite_column,
    numbers,
    same_length,
    sums_by,
)
from phasefusion.stats.proportions import check_level

Quantile: TypeAlias = Literal["linear", "inverted_cdf"]
_QUANTILES = ("linear", "inverted_cdf")
_EXACT_CLUSTERS = 8  # 8**8 resamples, 6435 different ones
_EXACT_SIGNS = 20
_EXACT_SUM = 100_000  # of whole numbers


def quantile(
    values: ArrayLike, q: ArrayLike, method: Quantile = "linear"
) -> NDArray[np.float64]:
    """Quantiles of replicates.

    Parameters
    ----------
    values : array_like, shape (n,), float
        NaN is left out.
    q : array_like, float
        In [0, 1].
    method : {'linear', 'inverted_cdf'}, default 'linear'
        Hyndman and Fan's type 7, which interpolates, or type 1, which is always one of
        the values. Between a number and an infinity the former gives the infinity,
        between two infinities the nearer one.

    Returns
    -------
    ndarray, shape of q, float64
        NaN without values.

    Raises
    ------
    StatisticsError
        If a q is outside [0, 1] or the method is unknown.

    Examples
    --------
    >>> quantile([1.0, 2.0, 3.0, 4.0], [0.25, 0.5])
    array([1.75, 2.5 ])
    """
    check_choice(method, _QUANTILES, "method")
    shares = numbers(q, "q", None)
    if shares.size and not (shares.min() >= 0.0 and shares.max() <= 1.0):
        raise StatisticsError(f"q must be in [0, 1], it is {shares}")
    known = column(values, "values")
    known = known[~np.isnan(known)]
    if not len(known):
        return np.full(shares.shape, np.nan)
    if method == "linear" and np.isinf(known).any():
        return _linear_with_infinities(np.sort(known), shares)
    return np.asarray(np.quantile(known, shares, method=method))


def _linear_with_infinities(
    known: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interpolate where a neighbour is infinite without taking inf - inf."""
    place = shares * (len(known) - 1)
    below = np.floor(place).astype(np.int64)
    step = place - below
    low, high = known[below], known[np.minimum(below + 1, len(known) - 1)]
    finite = np.isfinite(low) & np.isfinite(high)
    inner = np.where(finite, low, 0.0)
    inner = inner + step * (np.where(finite, high, 0.0) - inner)
    # one infinite neighbour draws everything that is not at the other one to itself
    nearer = np.where(step < 0.5, low, high)
    drawn = np.where(np.isinf(low) & np.isinf(high), nearer, low)
    drawn = np.where((step > 0.0) & np.isinf(high) & np.isfinite(low), high, drawn)
    return np.asarray(np.where(finite, inner, drawn)[()])


def percentile_interval(
    replicates: NDArray[np.float64], tail: float
) -> tuple[float, float]:
    """Percentiles at both ends; NaN where no replicate differs from another.

    Such replicates say that nothing varied, and not how much it could.
    """
    known = replicates[~np.isnan(replicates)]
    if not len(known) or np.ptp(known) <= 1e-14 * np.abs(known).max():
        return float("nan"), float("nan")
    low, high = quantile(known, [tail, 1.0 - tail]).tolist()
    return low, high


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bootstrap(Result):
    """Percentile interval of a ratio of sums over resampled clusters.

    Attributes
    ----------
    estimate : float
        Of the data.
    se : float
        Standard deviation of the replicates (ddof 1).
    low, high : float
        Their percentiles (type 7); NaN where no replicate differs from another, which
        says that nothing varied and not how much it could.
    replicates : ndarray, shape (n_resamples - n_undefined,), float64
    n_undefined : int
        Resamples whose denominator is 0, left out.
    n, n_clusters, n_dropped, n_resamples, seed : int
    confidence_level : float
    """

    estimate: float
    se: float
    low: float
    high: float
    replicates: NDArray[np.float64]
    n_undefined: int
    n: int
    n_clusters: int
    n_dropped: int
    n_resamples: int
    seed: int
    confidence_level: float

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        undefined = f", {self.n_undefined} undefined" if self.n_undefined else ""
        return (
            f"Bootstrap({self.estimate:.5g} [{self.low:.5g}, {self.high:.5g}], "
            f"se={self.se:.4g}, {self.n} items in {self.n_clusters} clusters{dropped}, "
            f"percentile at {self.confidence_level:g}, {self.n_resamples} resamples, "
            f"seed {self.seed}{undefined})"
        )


def cluster_bootstrap(
    values: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    denominator: ArrayLike | None = None,
    n_resamples: int = 10_000,
    seed: int = 0,
    confidence_level: float = 0.95,
) -> Bootstrap:
    """Bootstrap a mean, or a ratio of two sums, by resampling clusters.

    Each resample draws as many clusters as there are. Its statistic is sum over sum:
    the number of items varies from one to the next, and dividing by the number in the
    data would be another statistic.

    Parameters
    ----------
    values : array_like, shape (n,), float
        The numerator of each item; NaN leaves the item out.
    cluster : array_like, shape (n,), optional
        As in `clustered_mean`.
    denominator : array_like, shape (n,), float, optional
        1 for every item by default: the statistic is the mean. For the ratio of two
        rates over the same items give the other rate's values.
    n_resamples : int, default 10000
    seed : int, default 0
    confidence_level : float, default 0.95

    Returns
    -------
    Bootstrap
        Percentiles of whole-number data lie on a lattice; the interval of
        `clustered_mean` does not.

    Raises
    ------
    StatisticsError
        If the columns differ in length, hold infinities, or n_resamples is below 1.

    Examples
    --------
    >>> made = cluster_bootstrap([1, 0, -1, 1, 0, 1, -1], [0, 0, 1, 1, 2, 2, 3])
    >>> round(made.estimate, 4), made.n_clusters
    (0.1429, 4)
    """
    check_level(confidence_level)
    seed = check_seed(seed)
    if n_resamples < 1:
        raise StatisticsError(f"n_resamples must be >= 1, it is {n_resamples}")
    numerators, denominators, counts = _cluster_sums(values, cluster, denominator)
    n_clusters, n, n_dropped = counts
    nan = float("nan")
    made = np.empty(0)
    estimate = nan
    if n_clusters:
        pairs = np.stack([numerators, denominators], axis=1)
        classes, n_same = np.unique(pairs, axis=0, return_counts=True)
        # the large classes first: the fewer draws are left, the cheaper the next
        order = np.argsort(-n_same, kind="stable")
        sums = _core.resample_sums(
            np.ascontiguousarray(classes[order, 0]),
            np.ascontiguousarray(classes[order, 1]),
            n_same[order].astype(np.int64),
            n_resamples,
            seed & MASK_64,
        )
        defined = sums[:, 1] != 0.0
        made = sums[defined, 0] / sums[defined, 1]
        whole = math.fsum(denominators)
        estimate = math.fsum(numerators) / whole if whole else nan
    tail = (1.0 - confidence_level) / 2.0
    low, high = percentile_interval(made, tail)
    return Bootstrap(
        estimate=estimate,
        se=float(made.std(ddof=1)) if len(made) > 1 else nan,
        low=low,
        high=high,
        replicates=made,
        n_undefined=n_resamples - len(made),
        n=n,
        n_clusters=n_clusters,
        n_dropped=n_dropped,
        n_resamples=n_resamples,
        seed=seed,
        confidence_level=confidence_level,
    )


def _cluster_sums(
    values: ArrayLike, cluster: ArrayLike | None, denominator: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[int, int, int]]:
    """Both sums of every cluster; clusters, items, items left out."""
    above = finite_column(values, "values")
    below = np.ones_like(above)
    if denominator is not None:
        below = finite_column(denominator, "denominator")
    same_length(values=above, denominator=below)
    group, _ = clusters(cluster, len(above))
    kept = ~(np.isnan(above) | np.isnan(below))
    names, group = np.unique(group[kept], return_inverse=True)
    sums = (sums_by(group, len(names), part[kept]) for part in (above, below))
    numerators, denominators = sums
    n = int(kept.sum())
    return numerators, denominators, (len(names), n, len(above) - n)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExactBootstrap(Result):
    """The whole bootstrap distribution of a ratio of sums over few clusters.

    Attributes
    ----------
    values : ndarray, shape (m,), float64
        Different statistics, ascending.
    weights : ndarray, shape (m,), int64
        Of the ``n_resamples`` equally likely resamples, how many give each.
    n_resamples : int
        G**G, without the undefined ones.
    n_undefined : int
        Resamples whose denominator is 0.
    mean, se : float
    """

    values: NDArray[np.float64]
    weights: NDArray[np.int64]
    n_resamples: int
    n_undefined: int
    mean: float
    se: float

    def quantile(
        self, q: ArrayLike, method: Quantile = "linear"
    ) -> NDArray[np.float64]:
        """Quantiles of the distribution; see `stats.quantile`."""
        check_choice(method, _QUANTILES, "method")
        shares = numbers(q, "q", None)
        if not len(self.values):
            return np.full(shares.shape, np.nan)
        ends = np.cumsum(self.weights)

        def at(rank: NDArray[np.int64]) -> NDArray[np.float64]:
            return self.values[np.searchsorted(ends, rank, side="right")]

        last = self.n_resamples - 1
        if method == "inverted_cdf":
            rank = np.ceil(shares * self.n_resamples).astype(np.int64) - 1
            return at(np.clip(rank, 0, last))
        place = shares * last
        below = np.floor(place).astype(np.int64)
        step = place - below
        low, high = at(below), at(np.minimum(below + 1, last))
        return np.asarray(low + (high - low) * step)

    def __repr__(self) -> str:
        return (
            f"ExactBootstrap(mean={self.mean:.5g}, se={self.se:.4g}, "
            f"{self.n_resamples} resamples, {self.n_undefined} undefined)"
        )


def cluster_bootstrap_exact(
    values: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    denominator: ArrayLike | None = None,
) -> ExactBootstrap:
    """Enumerate all resamples of few clusters: what `cluster_bootstrap` tends to.

    Parameters
    ----------
    values, cluster, denominator
        As in `cluster_bootstrap`; at most 8 clusters.

    Returns
    -------
    ExactBootstrap

    Raises
    ------
    StatisticsError
        With more clusters, or as `cluster_bootstrap`.

    Examples
    --------
    >>> cluster_bootstrap_exact([1, 0, 1], [0, 0, 1]).quantile([0.0, 1.0])
    array([0.5, 1. ])
    """
    numerators, denominators, counts = _cluster_sums(values, cluster, denominator)
    n_clusters = counts[0]
    if n_clusters > _EXACT_CLUSTERS:
        raise StatisticsError(
            f"{n_clusters} clusters have {n_clusters}**{n_clusters} resamples; at most "
            f"{_EXACT_CLUSTERS} clusters are enumerated"
        )
    found: Counter[float] = Counter()
    n_undefined = 0
    draws = itertools.combinations_with_replacement(range(n_clusters), n_clusters)
    for drawn in draws if n_clusters else ():
        times = Counter(drawn).values()
        ways = math.factorial(n_clusters) // math.prod(map(math.factorial, times))
        below = math.fsum(denominators[list(drawn)])
        if below == 0.0:
            n_undefined += ways
        else:
            found[math.fsum(numerators[list(drawn)]) / below] += ways
    made = np.array(sorted(found))
    weights = np.array([found[value] for value in made.tolist()], dtype=np.int64)
    total = int(weights.sum())
    mean = float(np.dot(made, weights) / total) if total else float("nan")
    spread = float(np.dot((made - mean) ** 2, weights) / total) if total else mean
    return ExactBootstrap(made, weights, total, n_undefined, mean, math.sqrt(spread))


@dataclass(frozen=True, slots=True, repr=False)
class SignFlip(Result):
    """Sign-flip permutation test of cluster sums.

    Attributes
    ----------
    pvalue : float
        Two-sided; 1 without clusters.
    total : float
        Sum over the clusters.
    n_clusters : int
    exact : bool
        Whether all signs were counted.
    n_resamples, seed : int or None
        Of a test that is not exact.
    """

    pvalue: float
    total: float
    n_clusters: int
    exact: bool
    n_resamples: int | None
    seed: int | None

    def __repr__(self) -> str:
        how = "exact" if self.exact else f"{self.n_resamples} draws, seed {self.seed}"
        return f"SignFlip(p={self.pvalue:.4g}, {self.n_clusters} clusters, {how})"


def sign_flip_test(
    cluster_sums: ArrayLike, *, n_resamples: int = 10_000, seed: int = 0
) -> SignFlip:
    """Test whether paired differences are symmetric about zero, by flipping signs.

    ``p`` is the share of sign choices with ``|T*| >= |T|``, T the sum. Signs belong to
    clusters, so items of one cluster keep together.

    Parameters
    ----------
    cluster_sums : array_like, shape (G,), float
        Net difference of each cluster; NaN is left out.
    n_resamples : int, default 10000
        Where not all choices can be counted: for more than 20 clusters whose sums are
        not whole numbers (those of whole numbers are counted exactly at any G).
        ``p = (1 + hits) / (n_resamples + 1)`` then.
    seed : int, default 0

    Returns
    -------
    SignFlip

    Raises
    ------
    StatisticsError
        If a sum is infinite or n_resamples is below 1.

    Examples
    --------
    >>> sign_flip_test([2, -1, 3, 1, 0, 2])
    SignFlip(p=0.1875, 6 clusters, exact)
    """
    seed = check_seed(seed)
    if n_resamples < 1:
        raise StatisticsError(f"n_resamples must be >= 1, it is {n_resamples}")
    given = finite_column(cluster_sums, "cluster_sums")
    sums = np.sort(np.abs(given[~np.isnan(given)]))
    total = math.fsum(given[~np.isnan(given)])
    n = len(sums)
    reach = math.fsum(sums)
    least = abs(total) - 1e-12 * max(1.0, reach)
    if reach <= _EXACT_SUM and (sums == np.floor(sums)).all():
        return SignFlip(_whole_signs(sums, least), total, n, True, None, None)
    if n <= _EXACT_SIGNS:
        made = np.zeros(1)
        for value in sums[1:]:
            made = np.concatenate([made + value, made - value])
        # the sign of the first does not matter: |T| = |-T|
        share = float(np.mean(np.abs(made + sums[0]) >= least))
        return SignFlip(share, total, n, True, None, None)
    hits = 0
    words = -(-n // 64)
    for r in range(n_resamples):
        bits = np.unpackbits(splitmix64(_stream(seed, r), words).view(np.uint8))
        hits += abs(float(np.dot(sums, 1.0 - 2.0 * bits[:n]))) >= least
    pvalue = (1 + hits) / (n_resamples + 1)
    return SignFlip(pvalue, total, n, False, n_resamples, seed)


def _stream(seed: int, r: int) -> int:
    """Seed of replicate r, as the kernels have it."""
    return int(splitmix64(seed + r * 0x9E3779B97F4A7C15, 1)[0])


def _whole_signs(sums: NDArray[np.float64], least: float) -> float:
    """Share of the signs of whole numbers whose sum reaches `least`; exact.

    Equal numbers are one binomial count of minus signs, so that the work grows with
    how many different ones there are.
    """
    values, times = np.unique(sums[sums > 0.0].astype(np.int64), return_counts=True)
    chance = np.ones(1)  # of the sum u of those with a minus: T = reach - 2 u
    for value, n_same in zip(values.tolist(), times.tolist(), strict=True):
        chance = _add_signs(chance, value, n_same)
    reach = len(chance) - 1
    hit = np.abs(reach - 2 * np.arange(reach + 1)) >= least
    return min(1.0, float(chance[hit].sum()))


def _add_signs(
    chance: NDArray[np.float64], value: int, n_same: int
) -> NDArray[np.float64]:
    """Distribution of a sum and of `value` times Bin(n_same, 1/2)."""
    length = len(chance) + value * n_same
    if n_same <= value:
        for _ in range(n_same):
            wider = np.zeros(len(chance) + value)
            wider[: len(chance)] += chance / 2
            wider[value:] += chance / 2
            chance = wider
        return chance
    # sums with one remainder by `value` stay together
    rows = -(-len(chance) // value)
    padded = np.zeros(rows * value)
    padded[: len(chance)] = chance
    halves = binomial_halves(n_same)
    made = np.stack(
        [_convolve(column, halves) for column in padded.reshape(rows, value).T],
        axis=1,
    )
    return made.ravel()[:length]


def _convolve(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convolve chances, most of which are too small to be told from 0."""
    found = np.zeros(len(a) + len(b) - 1)
    first, second = np.flatnonzero(a), np.flatnonzero(b)
    if len(first) and len(second):
        inner = np.convolve(a[first[0] : first[-1] + 1], b[second[0] : second[-1] + 1])
        begin = first[0] + second[0]
        found[begin : begin + len(inner)] = inner
    return found
