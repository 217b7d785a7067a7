"""Means over clusters of dependent items, and whether they are equivalent to zero."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion._wording import Argument
from phasefusion.errors import StatisticsError
from phasefusion.stats._numbers import clusters, finite_column, same_length, sums_by
from phasefusion.stats.proportions import check_level

#: A standard error of so much of the greatest value is one of rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True, slots=True, repr=False)
class ClusteredMean(Result):
    """Mean with a cluster-robust standard error.

    Attributes
    ----------
    mean : float
        Over items, NaN without any.
    se : float
        CR1: ``sqrt(G / (G-1) * sum_g (sum of the deviations of g)**2) / n``; NaN for
        fewer than two clusters. 0 where no cluster differs from the mean: that is what
        the formula gives, and no measure of what is not known.
    low, high : float
        Two-sided interval from the t distribution with G - 1 degrees of freedom, cut
        off at `limits`: a share is not above 1, a difference of shares not below -1.
        Where se is 0 it is the exact one of `limits`, and NaN without them.
    pvalue : float
        Two-sided, of the mean being 0, from the same distribution (or the exact one).
    low_z, high_z : float
        Interval from the normal distribution, cut off in the same way; NaN where se is
        0.
    se_iid : float
        As if items were independent (ddof 1).
    se_cr0 : float
        CR1 without G / (G-1): what a bootstrap of the clusters tends to.
    se_miller : float
        Miller's formula, that of lmms-eval: the iid variance plus the covariances in
        the clusters, without G / (G-1); NaN where these make it negative.
    n, n_clusters, n_dropped : int
    confidence_level : float
    limits : tuple of float or None
        Least and greatest value that an item can have, where they were given.
    """

    mean: float
    se: float
    low: float
    high: float
    pvalue: float
    low_z: float
    high_z: float
    se_iid: float
    se_cr0: float
    se_miller: float
    n: int
    n_clusters: int
    n_dropped: int
    confidence_level: float
    limits: tuple[float, float] | None = None

    @property
    def df(self) -> int:
        """Degrees of freedom: clusters minus one."""
        return self.n_clusters - 1

    @property
    def degenerate(self) -> bool:
        """Whether no cluster differs from the mean: the variance estimate is 0."""
        return self.se == 0.0

    @property
    def method(self) -> str:
        """Name of the interval."""
        if self.n_clusters < 2:
            return "no interval: fewer than two clusters"
        if not self.degenerate:
            return f"CR1 with t({self.df})"
        if self.limits is None:
            return "no interval: nothing varies"
        return f"exact for values in [{self.limits[0]:g}, {self.limits[1]:g}]"

    @property
    def half_width(self) -> float:
        """Half of the t interval as it is before limits; NaN where se is 0."""
        from scipy.special import stdtrit

        if self.degenerate or math.isnan(self.se):
            return float("nan")
        return -float(stdtrit(self.df, (1.0 - self.confidence_level) / 2.0)) * self.se

    def below(self, bound: float) -> float:
        """P-value of the mean being at or above a bound: small shows it is below."""
        from scipy.special import stdtr

        if self.degenerate:
            return _tail_of_constant(self, bound, upward=True)
        return float(stdtr(self.df, (self.mean - bound) / self.se))

    def above(self, bound: float) -> float:
        """P-value of the mean being at or below a bound: small shows it is above."""
        from scipy.special import stdtr

        if self.degenerate:
            return _tail_of_constant(self, bound, upward=False)
        return float(stdtr(self.df, -(self.mean - bound) / self.se))

    @property
    def design_effect(self) -> float:
        """Variance over that of independent items; NaN where that is 0."""
        if not self.se_iid > 0.0:
            return float("nan")
        return (self.se / self.se_iid) ** 2

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"ClusteredMean({self.mean:.5g} [{self.low:.5g}, {self.high:.5g}], "
            f"se={self.se:.4g}, {self.n} items in {self.n_clusters} clusters{dropped}, "
            f"{self.method} at {self.confidence_level:g})"
        )


def _tail_of_constant(made: ClusteredMean, bound: float, *, upward: bool) -> float:
    """P-value of a mean beyond a bound, when all G clusters have the same mean.

    Of clusters drawn at random let a share pi not have that mean c. The mean of all is
    then at most c + pi (greatest - c), so one at the bound needs
    pi >= (bound - c) / (greatest - c), and G clusters without one of them have a chance
    of (1 - pi)**G. NaN without limits: anything may lie outside of what was seen.
    """
    if made.limits is None:
        return float("nan")
    least, greatest = made.limits
    gap = bound - made.mean if upward else made.mean - bound
    room = greatest - made.mean if upward else made.mean - least
    if gap <= 0.0:
        return 1.0
    return (1.0 - gap / room) ** made.n_clusters if gap < room else 0.0


def _interval_of_constant(
    mean: float, n_clusters: int, limits: tuple[float, float] | None, tail: float
) -> tuple[float, float, float]:
    """Interval of a mean that all clusters have, and p-value of 0; see above."""
    if limits is None:
        return (float("nan"),) * 3
    least, greatest = limits
    share = -math.expm1(math.log(tail) / n_clusters)  # Clopper and Pearson's of 0 of G
    room = mean - least if mean > 0.0 else greatest - mean
    beyond = abs(mean) / room if room > 0.0 else 0.0
    pvalue = 2.0 * (1.0 - beyond) ** n_clusters if beyond < 1.0 else 0.0
    return (
        mean - (mean - least) * share,
        mean + (greatest - mean) * share,
        min(1.0, pvalue),
    )


def _check_limits(limits: tuple[float, float] | None, x: NDArray[np.float64]) -> None:
    if limits is None:
        return
    if len(limits) != 2 or not -math.inf < limits[0] < limits[1] < math.inf:
        raise StatisticsError(f"limits must be two finite numbers, they are {limits}")
    if len(x) and not (limits[0] <= x.min() and x.max() <= limits[1]):
        raise StatisticsError(
            f"values go from {x.min():g} to {x.max():g}, outside the limits "
            f"{limits[0]:g} and {limits[1]:g}"
        )


def clustered_mean(
    values: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    confidence_level: float = 0.95,
    limits: tuple[float, float] | None = None,
) -> ClusteredMean:
    """Mean of items that come in clusters.

    Parameters
    ----------
    values : array_like, shape (n,), float
        Such as paired differences of correctness in -1, 0, 1. NaN is left out.
    cluster : array_like, shape (n,), optional
        Label of each item's cluster: the question where models share it, the video
        where questions do. By default every item is its own, and CR1 is the usual
        standard error.
    confidence_level : float, default 0.95
    limits : (least, greatest), optional
        What an item can have at all: (-1, 1) for differences of two arms, (0, 1) for a
        rate. No mean lies beyond them, so intervals are cut off there; tests do not
        change. Where the standard error is 0, as when two arms agree on every item, the
        interval is that of a share of clusters that are not alike, of which none was
        seen (Clopper and Pearson's). Without them nothing is known there, and the
        interval is NaN.

    Returns
    -------
    ClusteredMean

    Raises
    ------
    StatisticsError
        If the columns differ in length, a value is infinite or outside the limits, or
        the level is out of range.

    References
    ----------
    .. [1] Cameron and Miller, "A practitioner's guide to cluster-robust inference",
       Journal of Human Resources 50 (2015).
    .. [2] Miller, "Adding error bars to evals", arXiv:2411.00640, equation 4.

    Examples
    --------
    >>> clustered_mean([1, 0, -1, 0, 1, 1, 0], [0, 0, 1, 1, 2, 2, 3]).mean.__round__(4)
    0.2857

    Where nothing varies:

    >>> clustered_mean([0] * 60, limits=(-1, 1)).high.__round__(4)
    0.0596

    Where the t interval goes beyond what a share can be:

    >>> clustered_mean([1, 1, 0], limits=(0, 1)).high
    1.0
    """
    from scipy.special import ndtri, stdtr, stdtrit

    check_level(confidence_level)
    given = finite_column(values, "values")
    _check_limits(limits, given[~np.isnan(given)])
    group, _ = clusters(cluster, len(given))
    kept = ~np.isnan(given)
    x = given[kept]
    names = np.arange(len(x))
    if cluster is not None:
        names, group = np.unique(group[kept], return_inverse=True)
    n, n_clusters = len(x), len(names)
    nan = float("nan")
    if n == 0:
        unknown = (nan,) * 10
        return ClusteredMean(*unknown, 0, 0, len(given), confidence_level, limits)
    mean = math.fsum(x.tolist()) / n
    deviations = x - mean if x.min() < x.max() else np.zeros(n)
    squares = own = math.fsum((deviations**2).tolist())
    if cluster is not None:
        sums = sums_by(group, n_clusters, deviations)
        own = math.fsum((sums**2).tolist())
    se_iid = math.sqrt(squares / (n - 1) / n) if n > 1 else nan
    se_cr0 = math.sqrt(own) / n
    miller = squares / (n - 1) / n + (own - squares) / n**2 if n > 1 else nan
    se_miller = math.sqrt(miller) if miller >= 0.0 else nan
    # what rounding leaves of clusters that are all alike is no variance
    if se_cr0 <= _ROUNDING * float(np.abs(x).max()):
        se_cr0 = 0.0
    tail = (1.0 - confidence_level) / 2.0
    se = pvalue = low = high = low_z = high_z = nan
    if n_clusters >= 2 and se_cr0 == 0.0:
        se = 0.0
        low, high, pvalue = _interval_of_constant(mean, n_clusters, limits, tail)
    elif n_clusters >= 2:
        df = n_clusters - 1
        se = math.sqrt(n_clusters / df) * se_cr0
        half, half_z = (-float(q) * se for q in (stdtrit(df, tail), ndtri(tail)))
        least, greatest = map(float, limits or (-math.inf, math.inf))
        low, low_z = (max(least, mean - one) for one in (half, half_z))
        high, high_z = (min(greatest, mean + one) for one in (half, half_z))
        pvalue = 2.0 * float(stdtr(df, -abs(mean / se)))
    return ClusteredMean(
        mean,
        se,
        low,
        high,
        pvalue,
        low_z,
        high_z,
        se_iid,
        se_cr0,
        se_miller,
        n,
        n_clusters,
        len(given) - n,
        confidence_level,
        limits,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Tost(Result):
    """Two one-sided tests of equivalence.

    Attributes
    ----------
    equivalent : bool
        Whether pvalue < alpha, which is whether the interval at level 1 - 2 alpha, as
        it is before limits, lies inside the margins; False where it is undefined.
    pvalue : float
        The greater of p_lower and p_upper; NaN where nothing can be said: with fewer
        than two clusters, and where nothing varies and no limits were given.
    p_lower, p_upper : float
        Of the mean being at or below the lower margin, at or above the upper one.
    t_lower, t_upper : float
        NaN where the standard error is 0 or undefined.
    mean : ClusteredMean
        With its interval at level 1 - 2 alpha.
    lower, upper : float
        The margins.
    alpha : float
    """

    equivalent: bool
    pvalue: float
    p_lower: float
    p_upper: float
    t_lower: float
    t_upper: float
    mean: ClusteredMean
    lower: float
    upper: float
    alpha: float

    @property
    def verdict(self) -> str:
        """Say "equivalent", "not shown equivalent" or "not certifiable".

        Not certifiable: the margins are out of reach for so many clusters even though
        nothing varies, or there is no interval at all.
        """
        if self.equivalent:
            return "equivalent"
        inside = self.lower < self.mean.mean < self.upper
        if math.isnan(self.pvalue) or (self.mean.degenerate and inside):
            return "not certifiable"
        return "not shown equivalent"

    def __repr__(self) -> str:
        return (
            f"Tost({self.verdict} within [{self.lower:g}, {self.upper:g}], "
            f"p={self.pvalue:.4g}, {self.mean!r})"
        )


def tost(
    values: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    margin: float | tuple[float, float],
    alpha: float = 0.05,
    limits: tuple[float, float] | None = None,
) -> Tost:
    """Test whether a mean is equivalent to zero, with clusters.

    Parameters
    ----------
    values, cluster
        As in `clustered_mean`: paired differences of two arms.
    margin : float, or (lower, upper)
        In the unit of the values (0.025 is 2.5 points of accuracy); fixed beforehand. A
        number d stands for (-d, d).
    alpha : float, default 0.05
        In (0, 0.5).
    limits : (least, greatest), optional
        As in `clustered_mean`: (-1, 1) for paired differences of right answers.

    Returns
    -------
    Tost
        Where nothing varies no variance can be estimated, and nothing is certified by
        that: with limits (-1, 1) and G clusters without a difference both p-values are
        ``(1 - d)**G`` for a margin of d, the chance that they are so alike although the
        mean is d; without limits they are NaN.

    Raises
    ------
    StatisticsError
        If the margins or alpha are out of range, or as `clustered_mean`.

    References
    ----------
    .. [1] Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987).

    Examples
    --------
    >>> tost([1, -1, 0, 0, 0, 0, 0, 0], margin=0.5).equivalent
    True
    >>> tost([0, 0], margin=0.025, limits=(-1, 1)).verdict
    'not certifiable'
    """
    if isinstance(margin, tuple | list):
        lower, upper = (float(bound) for bound in margin)
    else:
        lower, upper = -float(margin), float(margin)
    if not (-math.inf < lower < upper < math.inf):
        raise StatisticsError(f"margins must ascend, they are {lower} and {upper}")
    if not 0.0 < alpha < 0.5:
        raise StatisticsError(Argument("alpha"), f" must be in (0, 0.5), it is {alpha}")
    made = clustered_mean(
        values, cluster, confidence_level=1.0 - 2.0 * alpha, limits=limits
    )
    p_lower, p_upper, nan = made.above(lower), made.below(upper), float("nan")
    varies = not made.degenerate
    t_lower = (made.mean - lower) / made.se if varies else nan
    t_upper = (made.mean - upper) / made.se if varies else nan
    pvalue = max(p_lower, p_upper)
    return Tost(
        pvalue < alpha,
        pvalue,
        p_lower,
        p_upper,
        t_lower,
        t_upper,
        made,
        lower,
        upper,
        alpha,
    )


def paired_difference(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Subtract two arms item by item, for `clustered_mean` and `tost`.

    Parameters
    ----------
    a, b : array_like, shape (n,), float or bool
        Values (or correctness) of the same items; NaN on either side gives NaN.

    Returns
    -------
    ndarray, shape (n,), float64

    Raises
    ------
    StatisticsError
        If the columns differ in length or hold infinities.

    Examples
    --------
    >>> paired_difference([True, False, True], [True, True, False])
    array([ 0., -1.,  1.])
    """
    first, second = finite_column(a, "a"), finite_column(b, "b")
    same_length(a=first, b=second)
    return first - second


@dataclass(frozen=True, slots=True, repr=False)
class ImpliedError(Result):
    """Standard error that a published interval implies.

    Attributes
    ----------
    center, half_width : float
    se : float
        half_width over the quantile of the distribution.
    df : int or None
        Of the t distribution; None for the normal one.
    confidence_level : float
    """

    center: float
    half_width: float
    se: float
    df: int | None
    confidence_level: float

    def __repr__(self) -> str:
        law = "normal" if self.df is None else f"t({self.df})"
        return (
            f"ImpliedError(center={self.center:.5g}, se={self.se:.5g}, {law} at "
            f"{self.confidence_level:g})"
        )

    def tost_pvalue(self, margin: float, estimate: float | None = None) -> float:
        """P-value of equivalence within +-margin of 0 that the interval implies.

        The estimate is the centre unless it is known to more digits.
        """
        from scipy.special import ndtr, stdtr

        mean = self.center if estimate is None else estimate
        t = (abs(mean) - margin) / self.se
        return float(ndtr(t) if self.df is None else stdtr(self.df, t))


def implied_error(
    low: float, high: float, *, confidence_level: float = 0.95, df: int | None = None
) -> ImpliedError:
    """Recover centre and standard error from a published symmetric interval.

    Parameters
    ----------
    low, high : float
        The interval, low < high; not one that was cut off at a limit.
    confidence_level : float, default 0.95
    df : int, optional
        Degrees of freedom of the t distribution behind it; the normal one by default.

    Returns
    -------
    ImpliedError

    Raises
    ------
    StatisticsError
        If the interval is empty, or the level or df are out of range.

    Examples
    --------
    >>> implied_error(-2.09, 1.56, confidence_level=0.9)
    ImpliedError(center=-0.265, se=1.1095, normal at 0.9)
    """
    from scipy.special import ndtri, stdtrit

    check_level(confidence_level)
    if not (-math.inf < low < high < math.inf):
        raise StatisticsError(f"the interval [{low}, {high}] is empty or not finite")
    if df is not None and df < 1:
        raise StatisticsError(f"df must be >= 1, it is {df}")
    tail = (1.0 - confidence_level) / 2.0
    quantile = -float(ndtri(tail) if df is None else stdtrit(df, tail))
    half = (high - low) / 2.0
    return ImpliedError((low + high) / 2.0, half, half / quantile, df, confidence_level)
