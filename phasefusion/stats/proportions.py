"""Proportions and their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from phasefusion._arrays import as_array
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import check_choice, percent

Method: TypeAlias = Literal["wilson", "clopper-pearson", "wilson-cc"]
_METHODS = ("wilson", "clopper-pearson", "wilson-cc")


@dataclass(frozen=True, slots=True, repr=False)
class Proportion(Result):
    """Share of items with a two-sided confidence interval.

    Attributes
    ----------
    value : float
        k / n; NaN for n = 0.
    k, n : int
        Items with the property, items in the denominator.
    low, high : float
        Interval; NaN for n = 0.
    n_dropped : int
        Items left out of n, because a pass is missing.
    confidence_level : float
    method : str
    """

    value: float
    k: int
    n: int
    low: float
    high: float
    n_dropped: int = 0
    confidence_level: float = 0.95
    method: Method = "wilson"

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Proportion({percent(self.value)} [{percent(self.low)}, "
            f"{percent(self.high)}], {self.k} of {self.n}{dropped}, "
            f"{self.method} at {self.confidence_level:g})"
        )


def _check_counts(k: int, n: int) -> None:
    for name, value in (("k", k), ("n", n)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise StatisticsError(f"{name} must be an int, it is {value!r}")
    if not 0 <= k <= n:
        raise StatisticsError(f"k must be in 0..n, it is {k} with n = {n}")


def check_level(confidence_level: float) -> None:
    """Refuse a confidence level outside (0, 1), such as 95."""
    if not 0.0 < confidence_level < 1.0:
        raise StatisticsError(
            f"confidence_level must be in (0, 1), it is {confidence_level}"
        )


def _wilson(k: float, n: float, z: float) -> tuple[float, float]:
    share, z2 = k / n, z * z
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    spread = math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    half = z * spread / (1 + z2 / n)
    return center - half, center + half


def score_interval(k: float, n: float, level: float) -> tuple[float, float]:
    """Wilson's interval in [0, 1], also of expected counts; NaN for n = 0."""
    from scipy.special import ndtri

    if n == 0:
        return float("nan"), float("nan")
    low, high = _wilson(k, n, -float(ndtri((1.0 - level) / 2.0)))
    return max(0.0, low) if k > 0 else 0.0, min(1.0, high) if k < n else 1.0


def _wilson_corrected(k: int, n: int, z: float) -> tuple[float, float]:
    share, z2 = k / n, z * z
    scale = 2 * (n + z2)
    # the discriminants are negative only where the bound is 0 or 1 anyway
    low = max(z2 - 2 - 1 / n + 4 * share * (n * (1 - share) + 1), 0.0)
    high = max(z2 + 2 - 1 / n + 4 * share * (n * (1 - share) - 1), 0.0)
    return (
        (2 * k + z2 - 1 - z * math.sqrt(low)) / scale,
        (2 * k + z2 + 1 + z * math.sqrt(high)) / scale,
    )


def _clopper_pearson(k: int, n: int, alpha: float) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = float(betaincinv(k, n - k + 1, alpha / 2)) if k > 0 else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - alpha / 2)) if k < n else 1.0
    return low, high


def proportion_ci(
    k: int,
    n: int,
    confidence_level: float = 0.95,
    method: Method = "wilson",
    *,
    n_dropped: int = 0,
) -> Proportion:
    """Confidence interval of a proportion.

    Parameters
    ----------
    k, n : int
        Items with the property out of n, 0 <= k <= n.
    confidence_level : float, default 0.95
        In (0, 1).
    method : {'wilson', 'clopper-pearson', 'wilson-cc'}, default 'wilson'
        Score interval; exact interval, which covers at least as often as it says; score
        interval with continuity correction [1]_.
    n_dropped : int, default 0
        Noted in the result.

    Returns
    -------
    Proportion
        With NaN for n = 0.

    Raises
    ------
    StatisticsError
        If a count, the level or the method is out of range.

    References
    ----------
    .. [1] Newcombe, "Two-sided confidence intervals for the single proportion",
       Statistics in Medicine 17 (1998), methods 3, 4 and 5.

    Examples
    --------
    >>> proportion_ci(107, 587)
    Proportion(18.23 % [15.31 %, 21.55 %], 107 of 587, wilson at 0.95)
    """
    from scipy.special import ndtri

    _check_counts(k, n)
    check_level(confidence_level)
    check_choice(method, _METHODS, "method")
    nan = float("nan")
    k, n = int(k), int(n)
    if n == 0:
        return Proportion(nan, k, n, nan, nan, n_dropped, confidence_level, method)
    alpha = 1.0 - confidence_level
    if method == "clopper-pearson":
        low, high = _clopper_pearson(k, n, alpha)
    else:
        z = -float(ndtri(alpha / 2))
        low, high = (_wilson if method == "wilson" else _wilson_corrected)(k, n, z)
        low = max(0.0, low) if k > 0 else 0.0
        high = min(1.0, high) if k < n else 1.0
    return Proportion(k / n, k, n, low, high, n_dropped, confidence_level, method)


def proportion_upper(k: int, n: int, confidence_level: float = 0.95) -> float:
    """One-sided exact (Clopper-Pearson) upper bound of a proportion.

    What can be said when nothing was seen: with k = 0 of n re-runs changed, the floor
    is below this bound with the stated confidence.

    Parameters
    ----------
    k, n : int
        0 <= k <= n.
    confidence_level : float, default 0.95
        All of alpha is on this side.

    Returns
    -------
    float
        1 for k = n, NaN for n = 0.

    Raises
    ------
    StatisticsError
        If a count or the level is out of range.

    Examples
    --------
    >>> round(proportion_upper(0, 10), 4)
    0.2589
    """
    from scipy.special import betaincinv

    _check_counts(k, n)
    check_level(confidence_level)
    if n == 0:
        return float("nan")
    return float(betaincinv(k + 1, n - k, confidence_level)) if k < n else 1.0


def accuracy(
    correct: ArrayLike, *, confidence_level: float = 0.95, method: Method = "wilson"
) -> Proportion:
    """Share of correct answers.

    Parameters
    ----------
    correct : array_like, shape (n,), bool or 0/1
        One entry an item. An item without an answer is not correct: `answers == gold`
        is False for -1, and dropping such items would raise the score.
    confidence_level, method
        As in `proportion_ci`; the interval takes items as independent.

    Returns
    -------
    Proportion

    Raises
    ------
    StatisticsError
        If correct is not one-dimensional or holds anything but 0 and 1.

    Examples
    --------
    >>> accuracy([True, False, True, True])
    Proportion(75.00 % [30.06 %, 95.44 %], 3 of 4, wilson at 0.95)
    """
    array = as_array(correct, "correct", StatisticsError)
    if array.ndim != 1:
        raise StatisticsError(f"correct must have shape (n,), it has {array.shape}")
    if array.size and not np.isin(array, (0, 1)).all():
        raise StatisticsError("correct must hold True and False, or 1 and 0, alone")
    return proportion_ci(int(array.sum()), array.size, confidence_level, method)
