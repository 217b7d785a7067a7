"""Control charts for accuracy and consistency over batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion._wording import Argument
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import integers
from phasefusion.stats._numbers import (
    finite_column,
    fraction_in,
    indicator,
    same_length,
)

Side: TypeAlias = Literal["upper", "lower", "none"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ControlChart(Result):
    """A statistic over batches with its limits.

    Attributes
    ----------
    statistic : ndarray, shape (n,), float64
    center : float
    lower, upper : ndarray, shape (n,), float64
        Limits of each batch.
    alarms : ndarray, shape (m,), int64
        Batches outside them.
    method : str
    """

    statistic: NDArray[np.float64]
    center: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    alarms: NDArray[np.int64]
    method: str

    @property
    def first_alarm(self) -> int:
        """Index of the first alarm; -1 for none."""
        return int(self.alarms[0]) if len(self.alarms) else -1

    def __repr__(self) -> str:
        return (
            f"ControlChart(center={self.center:.4g}, {len(self.statistic)} batches, "
            f"{len(self.alarms)} alarms, {self.method})"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cusum(Result):
    """Two one-sided cumulative sums.

    Attributes
    ----------
    upper, lower : ndarray, shape (n,), float64
        Evidence of a shift up and of a shift down, >= 0.
    alarms : ndarray, shape (m,), int64
        Observations at which one of them exceeds h.
    side : {'upper', 'lower', 'none'}
        The side of the first alarm.
    h : float
    method : str
    """

    upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    alarms: NDArray[np.int64]
    side: Side
    h: float
    method: str

    @property
    def first_alarm(self) -> int:
        """Index of the first alarm; -1 for none."""
        return int(self.alarms[0]) if len(self.alarms) else -1

    def __repr__(self) -> str:
        return (
            f"Cusum(first alarm {self.first_alarm} ({self.side}), {len(self.alarms)} "
            f"alarms in {len(self.upper)}, h={self.h:g}, {self.method})"
        )


def _walk(
    up: NDArray[np.float64], down: NDArray[np.float64], h: float, reset: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Add the increments of both sides, never below 0; restart after an alarm."""
    sums = np.zeros((2, len(up)))
    alarms = []
    high = low = 0.0
    for i, (a, b) in enumerate(zip(up.tolist(), down.tolist(), strict=True)):
        high, low = max(0.0, high + a), max(0.0, low + b)
        sums[0, i], sums[1, i] = high, low
        if high > h or low > h:
            alarms.append(i)
            if reset:
                high = low = 0.0
    return sums[0], sums[1], np.array(alarms, dtype=np.int64)


def _cusum(
    up: NDArray[np.float64],
    down: NDArray[np.float64],
    h: float,
    reset: bool,
    method: str,
) -> Cusum:
    if not h > 0.0:
        raise StatisticsError(Argument("h"), f" must be > 0, it is {h}")
    high, low, alarms = _walk(up, down, h, reset)
    side: Side = "none"
    if len(alarms):
        side = "upper" if high[alarms[0]] >= low[alarms[0]] else "lower"
    return Cusum(high, low, alarms, side, h, method)


def _baseline(sigma: float) -> None:
    if not 0.0 < sigma < math.inf:
        raise StatisticsError(f"sigma must be positive and finite, it is {sigma}")


def _complete(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = finite_column(values, name)
    if np.isnan(array).any():
        raise StatisticsError(
            f"{name} hold NaN; leave out the batches that were not run"
        )
    return array


def cusum(
    values: ArrayLike,
    mean: float,
    sigma: float,
    *,
    k: float = 0.5,
    h: float = 4.0,
    reset: bool = False,
) -> Cusum:
    """Tabular CUSUM of batch values: small drifts that last.

    ``upper_i = max(0, upper_{i-1} + (x_i - mean) / sigma - k)``, and the mirror image.

    Parameters
    ----------
    values : array_like, shape (n,), float
        One value a batch: mean accuracy, FPC or OOC.
    mean, sigma : float
        Of the baseline; sigma from a standard error that respects clusters, since
        ``sqrt(p (1 - p) / n)`` is too small and alarms too often.
    k : float, default 0.5
        Half of the shift to be found, in sigmas.
    h : float, default 4.0
        Alarm above this; 4 to 5 in common use. With several charts raise it, so that
        all together alarm as rarely as one should.
    reset : bool, default False
        Start from 0 again after an alarm.

    Returns
    -------
    Cusum

    Raises
    ------
    StatisticsError
        If sigma, k or h is out of range, or values hold NaN or infinities.

    References
    ----------
    .. [1] Page, "Continuous inspection schemes", Biometrika 41 (1954).

    Examples
    --------
    >>> cusum([0.84, 0.82, 0.82, 0.81], 0.84, 0.01, h=4.0).first_alarm
    3
    """
    x = _complete(values, "values")
    _baseline(sigma)
    if not k >= 0.0:
        raise StatisticsError(f"k must be >= 0, it is {k}")
    z = (x - mean) / sigma
    return _cusum(z - k, -z - k, h, reset, f"tabular CUSUM, k={k:g}")


def bernoulli_cusum(
    outcomes: ArrayLike, p0: float, p1: float, *, h: float = 4.0, reset: bool = False
) -> Cusum:
    """CUSUM of log-likelihood ratios over single items.

    Parameters
    ----------
    outcomes : array_like, shape (n,), bool or 0/1
        In the order in which they came, such as whether each answer is right; -1 and
        NaN are left out.
    p0, p1 : float
        Rate in control, rate to be found, in (0, 1); `lower` stays 0 for p1 > p0,
        `upper` for p1 < p0.
    h, reset
        As in `cusum`, in nats.

    Returns
    -------
    Cusum

    Raises
    ------
    StatisticsError
        If a rate or h is out of range, or the rates are equal.

    References
    ----------
    .. [1] Reynolds and Stoumbos, Journal of Quality Technology 31 (1999).

    Examples
    --------
    >>> bernoulli_cusum([1, 0, 0, 0, 0], 0.9, 0.5, h=4.0).side
    'lower'
    """
    fraction_in(p0, "p0")
    fraction_in(p1, "p1")
    if p0 == p1:
        raise StatisticsError(f"p0 and p1 are both {p0}; there is no shift to find")
    x = indicator(outcomes, "outcomes")
    x = x[~np.isnan(x)]
    steps = np.where(x == 1.0, math.log(p1 / p0), math.log((1 - p1) / (1 - p0)))
    nothing = np.zeros_like(steps)
    up, down = (steps, nothing) if p1 > p0 else (nothing, steps)
    return _cusum(up, down, h, reset, f"Bernoulli CUSUM, {p0:g} against {p1:g}")


def ewma(
    values: ArrayLike,
    mean: float,
    sigma: float,
    *,
    weight: float = 0.2,
    width: float = 2.86,
) -> ControlChart:
    """Exponentially weighted moving average of batch values.

    Parameters
    ----------
    values, mean, sigma
        As in `cusum`.
    weight : float, default 0.2
        Of the newest batch, in (0, 1].
    width : float, default 2.86
        Limits in standard errors of the average, which grow to
        ``sigma * sqrt(weight / (2 - weight))``.

    Returns
    -------
    ControlChart

    Raises
    ------
    StatisticsError
        If a number is out of range.

    References
    ----------
    .. [1] Roberts, "Control chart tests based on geometric moving averages",
       Technometrics 1 (1959).

    Examples
    --------
    >>> ewma([0.84, 0.80, 0.80, 0.80], 0.84, 0.01).alarms
    array([1, 2, 3])
    """
    x = _complete(values, "values")
    _baseline(sigma)
    if not 0.0 < weight <= 1.0:
        raise StatisticsError(f"weight must be in (0, 1], it is {weight}")
    if not width > 0.0:
        raise StatisticsError(Argument("width"), f" must be > 0, it is {width}")
    made = np.empty_like(x)
    current = float(mean)
    for i, value in enumerate(x.tolist()):
        current = weight * value + (1.0 - weight) * current
        made[i] = current
    steps = 2 * np.arange(1, len(x) + 1)
    share = weight / (2.0 - weight) * (1.0 - (1.0 - weight) ** steps)
    half = width * sigma * np.sqrt(share)
    alarms = np.flatnonzero(np.abs(made - mean) > half)
    method = f"EWMA, weight {weight:g}, {width:g} sigma"
    return ControlChart(made, mean, mean - half, mean + half, alarms, method)


def p_chart(
    k: ArrayLike,
    n: ArrayLike,
    *,
    baseline: int | None = None,
    laney: bool = False,
    width: float = 3.0,
) -> ControlChart:
    """Chart of proportions of batches of varying size.

    Parameters
    ----------
    k, n : array_like, shape (b,), int
        Items with the property and items of each batch, n >= 1.
    baseline : int, optional
        How many leading batches give centre (and spread); all by default.
    laney : bool, default False
        Laney's p' chart: limits widened by the spread that the baseline shows between
        its batches, for items that come in clusters. Needs two baseline batches.
    width : float, default 3.0
        Limits in standard errors.

    Returns
    -------
    ControlChart
        Limits are cut off at 0 and 1. A baseline with none or all of the items has no
        variance to make limits of: they are NaN, and nothing alarms.

    Raises
    ------
    StatisticsError
        If counts or options are out of range.

    References
    ----------
    .. [1] Laney, "Improved control charts for attributes", Quality Engineering 14
       (2002).

    Examples
    --------
    >>> p_chart([12, 15, 9, 14, 30], [200, 220, 180, 200, 210], baseline=4).alarms
    array([4])
    """
    counts, sizes = integers(k, "k", 1), integers(n, "n", 1)
    same_length(k=counts, n=sizes)
    if counts.size and ((counts < 0) | (counts > sizes) | (sizes < 1)).any():
        raise StatisticsError("k must be in 0..n and n >= 1 in every batch")
    first = len(counts) if baseline is None else baseline
    if not (1 + laney) <= first <= len(counts):
        raise StatisticsError(
            Argument("baseline"),
            f" must be in {1 + laney}..{len(counts)}, it is {first}",
        )
    if not width > 0.0:
        raise StatisticsError(Argument("width"), f" must be > 0, it is {width}")
    shares = counts / sizes
    center = int(counts[:first].sum()) / int(sizes[:first].sum())
    errors = np.sqrt(center * (1.0 - center) / sizes)
    if laney and center * (1.0 - center) > 0.0:
        z = (shares[:first] - center) / errors[:first]
        # batches that are all alike widen nothing, and do not take the limits away
        errors = errors * ((float(np.abs(np.diff(z)).mean()) / 1.128) or 1.0)
    if center in (0.0, 1.0):  # a baseline without variance has no limits
        errors = np.full(len(shares), np.nan)
    lower = np.maximum(0.0, center - width * errors)
    upper = np.minimum(1.0, center + width * errors)
    alarms = np.flatnonzero((shares < lower) | (shares > upper))
    kind = "Laney's p'" if laney else "p"
    method = f"{kind} chart, {width:g} sigma, {first} baseline batches"
    return ControlChart(shares, center, lower, upper, alarms, method)
