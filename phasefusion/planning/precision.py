"""Samples for an interval of a given width: rates, floors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import Argument, counted
from phasefusion.errors import StatisticsError
from phasefusion.planning._binomial import pmf_range
from phasefusion.planning._plans import (
    INDEPENDENT,
    MOST_EXACT,
    Design,
    Plan,
    check_sample,
    design_rows,
    in_percent,
    items_of,
    percent_of,
    points,
    smallest_n,
)
from phasefusion.stats import proportion_upper
from phasefusion.stats._answers import check_choice
from phasefusion.stats._numbers import fraction_in
from phasefusion.stats.proportions import check_level

Interval: TypeAlias = Literal["wilson", "clopper-pearson", "clustered-mean"]
_INTERVALS = ("wilson", "clopper-pearson", "clustered-mean")


@dataclass(frozen=True, slots=True, repr=False)
class WidthPlan(Plan):
    """How wide the interval of a rate will be.

    Attributes
    ----------
    n : int
    rate : float
        The true rate: accuracy, flip rate.
    half_width : float
        Half of high - low, its mean over all counts that may come out; with
        "clustered-mean" that of the expected variance.
    method : {'wilson', 'clopper-pearson', 'clustered-mean'}
        The first two of as many independent items as the sample is worth, the last as
        `stats.clustered_mean`: t distribution with clusters - 1 degrees of freedom.
    confidence_level : float
    design : Design
    target : float or None
        The half-width that n was made for.
    """

    n: int
    rate: float
    half_width: float
    method: Interval
    confidence_level: float
    design: Design
    target: float | None = None

    title: ClassVar[str] = "Interval of a rate"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        return [
            ("sample", items_of(self.n, self.design)),
            ("rate", percent_of(self.rate)),
            *design_rows(self.design),
            (
                f"{self.method} interval at {100 * self.confidence_level:g} %",
                f"+-{points(self.half_width)}",
            ),
        ]


def interval_width(
    n: int,
    *,
    rate: float,
    method: Interval = "wilson",
    confidence_level: float = 0.95,
    design: Design = INDEPENDENT,
) -> WidthPlan:
    """Half-width to expect of the interval of a rate.

    Parameters
    ----------
    n : int
        Items, >= 2.
    rate : float
        In [0, 1]: accuracy or flip rate. A half is the worst case.
    method : {'wilson', 'clopper-pearson', 'clustered-mean'}, default 'wilson'
    confidence_level : float, default 0.95
    design : Design, optional
        Clusters; items are independent by default.

    Returns
    -------
    WidthPlan

    Raises
    ------
    StatisticsError
        If a number is out of range.

    Examples
    --------
    >>> interval_width(600, rate=0.6).half_width.__round__(4)
    0.039
    """
    check_sample(n, design)
    _check_width(rate, method, confidence_level)
    width = _half_width(n, rate, method, confidence_level, design)
    return WidthPlan(n, rate, width, method, confidence_level, design)


def interval_items(
    *,
    rate: float,
    half_width: float,
    method: Interval = "wilson",
    confidence_level: float = 0.95,
    design: Design = INDEPENDENT,
) -> WidthPlan:
    """Count the items for an interval of a given half-width.

    Parameters
    ----------
    rate, method, confidence_level, design
        As in `interval_width`.
    half_width : float
        In (0, 0.5): 0.03 is 3 points to either side.

    Returns
    -------
    WidthPlan
        Of the smallest n whose expected half-width is at most that.

    Raises
    ------
    StatisticsError
        If a number is out of range.

    Examples
    --------
    >>> interval_items(rate=0.6, half_width=0.03).n
    1020
    """
    _check_width(rate, method, confidence_level)
    if not 0.0 < half_width < 0.5:
        raise StatisticsError(
            Argument("half_width"), f" must be in (0, 0.5), it is {half_width}"
        )

    def narrow(n: int) -> bool:
        if design.df(n) < 1 or design.effective(n) < 1:
            return False
        return _half_width(n, rate, method, confidence_level, design) <= half_width

    guess = 4.0 * rate * (1.0 - rate) * design.design_effect / half_width**2
    n = smallest_n(narrow, max(2, int(guess)))
    width = _half_width(n, rate, method, confidence_level, design)
    return WidthPlan(n, rate, width, method, confidence_level, design, half_width)


def _check_width(rate: float, method: str, level: float) -> None:
    fraction_in(rate, "rate", closed=True)
    check_choice(method, _INTERVALS, "method")
    check_level(level)
    if method == "clustered-mean" and rate in (0.0, 1.0):
        raise StatisticsError(
            Argument("rate"),
            f" is {in_percent(rate)}: without variance the clustered mean has no "
            "interval; use the method wilson or clopper-pearson",
        )


def _half_width(
    n: int, rate: float, method: Interval, level: float, design: Design
) -> float:
    from scipy.special import betaincinv, ndtri, stdtrit

    tail = (1.0 - level) / 2.0
    variance = rate * (1.0 - rate)
    if method == "clustered-mean":
        t = -float(stdtrit(design.df(n), tail))
        return t * math.sqrt(variance * design.design_effect / n)
    effective = design.effective(n)
    if effective > MOST_EXACT:  # both intervals are Wald's there, to 4 digits
        return -float(ndtri(tail)) * math.sqrt(max(variance, 1.0 / n) / effective)
    k, chance = pmf_range(effective, rate)
    if method == "wilson":
        widths = _wilson_widths(k, effective, -float(ndtri(tail)))
    else:
        low = betaincinv(np.maximum(k, 1), effective - k + 1, tail)
        high = betaincinv(k + 1, np.maximum(effective - k, 1), 1.0 - tail)
        widths = np.where(k < effective, high, 1.0) - np.where(k > 0, low, 0.0)
    return 0.5 * float(np.dot(chance, widths))


def _wilson_widths(k: NDArray[np.int64], n: int, z: float) -> NDArray[np.float64]:
    share, z2 = k / n, z * z
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) * z / (1 + z2 / n)
    low = np.where(k > 0, np.maximum(center - half, 0.0), 0.0)
    high = np.where(k < n, np.minimum(center + half, 1.0), 1.0)
    return np.asarray(high - low)


@dataclass(frozen=True, slots=True, repr=False)
class FloorPlan(Plan):
    """What re-runs without a change say about the re-run floor.

    Attributes
    ----------
    n : int
        Items run twice with everything fixed.
    upper : float
        One-sided exact bound of the floor if none of them changes.
    flip_rate : float or None
        The rate that is compared with the floor.
    ratio : float
        flip_rate / upper: the ratio that is then certain; NaN without a flip rate.
    confidence_level : float
    """

    n: int
    upper: float
    flip_rate: float | None
    ratio: float
    confidence_level: float

    title: ClassVar[str] = "Re-run floor when nothing changes"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        found = [
            ("sample", f"{counted(self.n, 'item')} run twice"),
            (
                f"floor, if none changes, at {100 * self.confidence_level:g} %",
                f"below {percent_of(self.upper)}",
            ),
        ]
        if self.flip_rate is not None:
            rate = percent_of(self.flip_rate)
            found.append((f"a flip rate of {rate} is", f">= {self.ratio:.2f} floors"))
        return found


def floor_upper(
    n: int, *, flip_rate: float | None = None, confidence_level: float = 0.95
) -> FloorPlan:
    """Bound of the re-run floor when none of n items changes.

    Parameters
    ----------
    n : int
        Items, >= 1.
    flip_rate : float, optional
        In [0, 1]; its ratio to the bound is given too.
    confidence_level : float, default 0.95

    Returns
    -------
    FloorPlan

    Raises
    ------
    StatisticsError
        If a number is out of range.

    Examples
    --------
    >>> made = floor_upper(599, flip_rate=0.187)
    >>> round(made.upper, 4), round(made.ratio, 1)
    (0.005, 37.5)
    """
    if flip_rate is not None:
        fraction_in(flip_rate, "flip_rate", closed=True)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise StatisticsError(Argument("n"), f" must be a whole number >= 1, it is {n}")
    upper = proportion_upper(0, n, confidence_level)
    ratio = math.nan if flip_rate is None else flip_rate / upper
    return FloorPlan(n, upper, flip_rate, ratio, confidence_level)


def floor_items(
    *,
    upper: float | None = None,
    flip_rate: float | None = None,
    ratio: float | None = None,
    confidence_level: float = 0.95,
) -> FloorPlan:
    """Count the re-runs that bound the floor when none of them changes.

    Parameters
    ----------
    upper : float, optional
        The bound, in (0, 1); or give
    flip_rate, ratio : float, optional
        the rate and how many floors it must be at least.
    confidence_level : float, default 0.95

    Returns
    -------
    FloorPlan
        Of the least n with ``(1 - upper)**n <= 1 - confidence_level``.

    Raises
    ------
    StatisticsError
        If a number is out of range, or it is not clear which bound is meant.

    Examples
    --------
    >>> floor_items(upper=0.01).n
    299
    """
    check_level(confidence_level)
    wanted = upper
    if wanted is None and flip_rate is not None and ratio is not None:
        fraction_in(flip_rate, "flip_rate", closed=True)
        if not ratio > 0.0:
            raise StatisticsError(Argument("ratio"), f" must be > 0, it is {ratio}")
        wanted = flip_rate / ratio
        if not 0.0 < wanted < 1.0:
            raise StatisticsError(
                Argument("flip_rate"),
                f" is {in_percent(flip_rate)} and ratio {ratio:g}: the floor "
                f"would be {in_percent(wanted)}; it must be above 0 %, below 100 %",
            )
    elif wanted is None or ratio is not None:
        raise StatisticsError("give either upper, or flip_rate and ratio")
    fraction_in(wanted, "upper")
    least = math.log1p(-confidence_level) / math.log1p(-wanted)
    n = max(1, math.ceil(least - 1e-9))
    return floor_upper(n, flip_rate=flip_rate, confidence_level=confidence_level)
