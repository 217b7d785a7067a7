"""Charts of batch means whose items come in clusters, against an estimated baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion._wording import Argument
from phasefusion.errors import StatisticsError
from phasefusion.stats._numbers import finite_column, fraction_in, same_length
from phasefusion.stats.monitoring import ControlChart, Cusum, Side

#: Batches from which a spread between them can be told.
FEWEST = 5
#: Degrees of freedom of a mean moving range, for one of a standard deviation.
_OF_RANGES = 0.605
#: Mean of the range of two normal values, in standard deviations.
_D2 = 1.128
#: Degrees of freedom above which Student's law is the normal one.
_NORMAL = 100_000.0
#: How far above its limit a sum is held, so that an alarm ends soon after its cause.
_ABOVE = 1.0


@dataclass(frozen=True, slots=True, repr=False)
class BatchBaseline(Result):
    """What batches in control look like.

    Attributes
    ----------
    center : float
        Mean over all items of the baseline.
    error : float
        Its standard error.
    unit : float
        A batch of n items has the standard error ``unit / sqrt(n)``: pooled from the
        clustered standard errors of the batches, times the dispersion.
    dispersion : float
        Laney's: how much more (or less) batches differ than their clusters explain; 1
        where they do not differ from what is expected.
    df : float
        Degrees of freedom of the unit.
    pvalue : float
        Of batches differing as their clusters explain, two-sided; NaN for one batch.
    n, n_batches : int
    """

    center: float
    error: float
    unit: float
    dispersion: float
    df: float
    pvalue: float
    n: int
    n_batches: int


def batch_baseline(
    values: ArrayLike,
    errors: ArrayLike,
    sizes: ArrayLike,
    *,
    same_items: bool = False,
    alpha: float = 0.05,
) -> BatchBaseline:
    """Centre and spread of batches in control.

    Parameters
    ----------
    values, errors : array_like, shape (b,), float
        Mean of every batch and its clustered standard error (`clustered_mean`); an
        error of NaN, of a single cluster, is left out.
    sizes : array_like, shape (b,), int
        Items of every batch, >= 1.
    same_items : bool, default False
        Whether all batches have the same items. Their clusters then say nothing of how
        much batches differ: the spread is that between the batches alone.
    alpha : float, default 0.05
        Batches are called dispersed when the p-value is below; 5 batches at least.

    Returns
    -------
    BatchBaseline
        Where nothing varies at all, one item changed wholly counts as three standard
        errors.

    Raises
    ------
    StatisticsError
        If the columns differ in length, a number is out of range, no batch has a
        standard error, or fewer than 5 batches have the same items.

    References
    ----------
    .. [1] Laney, "Improved control charts for attributes", Quality Engineering 14
       (2002).

    Examples
    --------
    >>> made = batch_baseline([0.8, 0.82, 0.81], [0.02, 0.02, 0.02], [300, 300, 300])
    >>> round(made.center, 4), round(made.unit, 4), made.dispersion
    (0.81, 0.3464, 1.0)
    """
    from scipy.special import chdtr, chdtrc

    x, n = _batches(values, sizes)
    se = finite_column(errors, "errors")
    same_length(values=x, errors=se)
    fraction_in(alpha, "alpha")
    known = ~np.isnan(se)
    if not len(x) or not known.any():
        raise StatisticsError("no batch of the baseline has a standard error")
    if same_items and len(x) < FEWEST:
        raise StatisticsError(
            f"{len(x)} batches of the same items do not tell how much batches differ; "
            f"give {FEWEST} at least"
        )
    total = float(n.sum())
    center = math.fsum((x * n).tolist()) / total
    pooled = math.fsum(((n * se) ** 2)[known].tolist()) / float(n[known].sum())
    unit = math.sqrt(pooled)
    df, dispersion, pvalue = _NORMAL, 1.0, math.nan
    if len(x) > 1 and unit > 0.0:
        z = (x - center) * np.sqrt(n) / unit
        chi2 = float((z * z).sum())
        below, above = chdtr(len(x) - 1, chi2), chdtrc(len(x) - 1, chi2)
        pvalue = min(1.0, 2.0 * float(min(below, above)))
        if same_items or (len(x) >= FEWEST and pvalue < alpha):
            df = _OF_RANGES * (len(x) - 1)
            dispersion = float(np.abs(np.diff(z)).mean()) / _D2 * _bias(df)
    unit *= dispersion
    if unit == 0.0:
        unit, df = math.sqrt(len(x) / total) / 3.0, _NORMAL
    return BatchBaseline(
        center=center,
        error=unit / math.sqrt(total),
        unit=unit,
        dispersion=dispersion,
        df=df,
        pvalue=pvalue,
        n=int(total),
        n_batches=len(x),
    )


def _bias(df: float) -> float:
    """Mean of a standard deviation of so many degrees of freedom, the true one being 1.

    Moving ranges are made to have no such bias, and Student's law expects it.
    """
    from scipy.special import gammaln

    logs = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df)
    return math.sqrt(2.0 / df) * math.exp(float(logs))


def _batches(
    values: ArrayLike, sizes: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, n = finite_column(values, "values"), finite_column(sizes, "sizes")
    same_length(values=x, sizes=n)
    if np.isnan(x).any() or not (n >= 1.0).all():
        raise StatisticsError(
            "values must not hold NaN and sizes must be >= 1; leave out the batches "
            "that were not run"
        )
    return x, n


def batch_chart(
    values: ArrayLike,
    sizes: ArrayLike,
    baseline: BatchBaseline,
    *,
    width: float = 3.0,
) -> ControlChart:
    """Chart of batch means against an estimated baseline: large changes at once.

    It is a p chart for shares of clustered items (Laney's p' where the baseline is
    dispersed): ``center +- t * unit * sqrt(1 / n_i + 1 / N)``, N the items of the
    baseline, t the quantile of Student's law that leaves outside what the normal one
    leaves outside of `width`. So an in-control batch is outside as rarely as it says,
    however short the baseline was.

    Parameters
    ----------
    values, sizes : array_like, shape (b,)
        Of batches that are not of the baseline.
    baseline : BatchBaseline
    width : float, default 3.0
        In standard errors: 3 is one false alarm in 370 batches.

    Returns
    -------
    ControlChart
        Limits are cut off at 0 and 1.

    Raises
    ------
    StatisticsError
        If the columns differ in length or a number is out of range.

    Examples
    --------
    >>> base = batch_baseline([0.8, 0.82, 0.81], [0.02, 0.02, 0.02], [300, 300, 300])
    >>> batch_chart([0.80, 0.72], [300, 300], base).alarms
    array([1])
    """
    from scipy.special import ndtr, stdtrit

    x, n = _batches(values, sizes)
    if not 0.0 < width < math.inf:
        raise StatisticsError(
            Argument("width"), f" must be > 0 and finite, it is {width}"
        )
    t = width
    if baseline.df < _NORMAL:
        t = -float(stdtrit(baseline.df, float(ndtr(-width))))
    half = t * baseline.unit * np.sqrt(1.0 / n + 1.0 / baseline.n)
    center = baseline.center
    lower, upper = np.maximum(0.0, center - half), np.minimum(1.0, center + half)
    kind = "p" if baseline.dispersion == 1.0 else "Laney's p'"
    return ControlChart(
        statistic=x,
        center=center,
        lower=lower,
        upper=upper,
        alarms=np.flatnonzero((x < lower) | (x > upper)),
        method=f"{kind} chart of clustered items, {width:g} sigma, "
        f"{baseline.n_batches} baseline batches",
    )


def self_starting_cusum(
    values: ArrayLike,
    sizes: ArrayLike,
    baseline: BatchBaseline,
    *,
    k: float = 0.5,
    h: float = 5.0,
) -> Cusum:
    """Tabular CUSUM against a baseline that is still being learned: small drifts.

    A centre that is a little off is, to a CUSUM, a small shift that lasts. So every
    batch is measured against the mean of all before it, the baseline's and those since
    that raised no alarm: ``z = (x_i - mean) / (unit * sqrt(1 / n_i + 1 / N_i))``, taken
    through Student's law to the normal one. In control these are independent and
    standard normal, however short the baseline was.

    Parameters
    ----------
    values, sizes, baseline
        As in `batch_chart`.
    k : float, default 0.5
        Half of the shift to be found, in sigmas.
    h : float, default 5.0
        Alarm above this; see `cusum_limit`.

    Returns
    -------
    Cusum
        A sum is held at h + 1 at most, so that an alarm ends soon after its cause.

    Raises
    ------
    StatisticsError
        As `batch_chart`, or if k or h is out of range.

    References
    ----------
    .. [1] Hawkins, "Self-starting Cusum charts for location and scale", The
       Statistician 36 (1987).

    Examples
    --------
    >>> base = batch_baseline([0.8, 0.82, 0.81], [0.02, 0.02, 0.02], [300, 300, 300])
    >>> found = self_starting_cusum([0.81, 0.77, 0.76, 0.76, 0.74], [300] * 5, base)
    >>> found.first_alarm, found.side
    (4, 'lower')
    """
    from scipy.special import ndtri, stdtr

    x, n = _batches(values, sizes)
    if not k >= 0.0:
        raise StatisticsError(f"k must be >= 0, it is {k}")
    if not h > 0.0:
        raise StatisticsError(Argument("h"), f" must be > 0, it is {h}")
    mean, total = baseline.center, float(baseline.n)
    high = low = 0.0
    sums = np.zeros((2, len(x)))
    alarms: list[int] = []
    for i, (value, size) in enumerate(zip(x.tolist(), n.tolist(), strict=True)):
        z = (value - mean) / (baseline.unit * math.sqrt(1.0 / size + 1.0 / total))
        if baseline.df < _NORMAL:
            z = math.copysign(-float(ndtri(stdtr(baseline.df, -abs(z)))), z)
        high = min(max(0.0, high + z - k), h + _ABOVE)
        low = min(max(0.0, low - z - k), h + _ABOVE)
        sums[:, i] = high, low
        if high > h or low > h:
            alarms.append(i)
        else:
            mean += (value - mean) * size / (total + size)
            total += size
    side: Side = "none"
    if alarms:
        side = "upper" if sums[0, alarms[0]] >= sums[1, alarms[0]] else "lower"
    method = f"self-starting CUSUM, k={k:g}, {baseline.n_batches} baseline batches"
    return Cusum(sums[0], sums[1], np.array(alarms, np.int64), side, h, method)


def cusum_limit(arl: float, *, k: float = 0.5) -> float:
    """Limit of a two-sided tabular CUSUM that alarms once in so many batches.

    Parameters
    ----------
    arl : float
        Mean number of batches in control to an alarm, > 2. Of c charts that together
        should alarm once in n batches each has c n.
    k : float, default 0.5
        > 0.

    Returns
    -------
    float
        By Siegmund's approximation, which is within a few percent.

    Raises
    ------
    StatisticsError
        If a number is out of range.

    References
    ----------
    .. [1] Siegmund, *Sequential Analysis*, Springer (1985), section 2.6.

    Examples
    --------
    >>> round(cusum_limit(465), 1)
    5.0
    """
    if not (k > 0.0 and 2.0 < arl < math.inf):
        raise StatisticsError(f"k must be > 0 and arl > 2, they are {k} and {arl}")

    def reached(h: float) -> float:
        b = 2.0 * k * (h + 1.166)
        return (math.exp(b) - b - 1.0) / (4.0 * k * k)

    low, high = 0.0, 1.0
    while reached(high) < arl:
        high *= 2.0
    while high - low > 1e-10:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reached(middle) < arl else (low, middle)
    return high
