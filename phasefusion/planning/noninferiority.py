"""Samples that show that one arm is not worse than another by more than a margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from phasefusion._wording import Argument
from phasefusion.errors import StatisticsError
from phasefusion.planning._plans import (
    INDEPENDENT,
    Design,
    Plan,
    check_sample,
    check_target,
    design_rows,
    items_of,
    percent_of,
    points,
    smallest_n,
)
from phasefusion.stats._numbers import fraction_in

#: Degrees of freedom above which Student's law is the normal one.
_NORMAL = 100_000


@dataclass(frozen=True, slots=True, repr=False)
class NoninferiorityPlan(Plan):
    """What a sample can say about one arm not being worse than another.

    Attributes
    ----------
    n : int
        Items that both arms answer.
    margin, difference : float
        Fractions: the fall that is tolerated, and the true difference (below 0 a fall).
    sd : float
        Standard deviation of an item's difference.
    alpha : float
        Of the one-sided test.
    design : Design
    power : float
        Chance that the lower bound of the difference lies above -margin, by the
        noncentral t distribution with clusters - 1 degrees of freedom.
    target : float or None
        The power that n was made for.
    """

    n: int
    margin: float
    difference: float
    sd: float
    alpha: float
    design: Design
    power: float
    target: float | None = None

    title: ClassVar[str] = "Non-inferiority (one-sided)"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        return [
            ("sample", items_of(self.n, self.design)),
            ("margin", points(self.margin)),
            ("true difference", points(self.difference)),
            ("standard deviation of an item", points(self.sd)),
            *design_rows(self.design),
            (f"power at alpha {self.alpha:g}", percent_of(self.power)),
        ]


def noninferiority_power(
    n: int,
    *,
    margin: float,
    sd: float,
    difference: float = 0.0,
    alpha: float = 0.05,
    design: Design = INDEPENDENT,
) -> NoninferiorityPlan:
    """Power of a test that an arm is not worse by a margin or more.

    Parameters
    ----------
    n : int
        Items (pairs), >= 2.
    margin : float
        Fall that is tolerated, in (0, 1): 0.02 is 2 points.
    sd : float
        Standard deviation of the paired difference of one item, > 0. Of differences in
        -1, 0, 1 it is ``sqrt(discordance - difference**2)``.
    difference : float, default 0.0
        True difference, new minus old.
    alpha : float, default 0.05
        In (0, 0.5).
    design : Design, optional
        Clusters; items are independent by default.

    Returns
    -------
    NoninferiorityPlan

    Raises
    ------
    StatisticsError
        If a number is out of range.

    Examples
    --------
    >>> round(noninferiority_power(600, margin=0.02, sd=0.3).power, 3)
    0.495
    """
    check_sample(n, design)
    _check(margin, sd, alpha)
    power = _power(n, margin + difference, sd, alpha, design)
    return NoninferiorityPlan(n, margin, difference, sd, alpha, design, power)


def noninferiority_items(
    *,
    margin: float,
    sd: float,
    difference: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
    design: Design = INDEPENDENT,
) -> NoninferiorityPlan:
    """Count the items that show with a power that an arm is not worse by a margin.

    Parameters
    ----------
    margin, sd, difference, alpha, design
        As in `noninferiority_power`; the difference must lie above -margin.
    power : float, default 0.8
        In (alpha, 1).

    Returns
    -------
    NoninferiorityPlan
        Of the smallest n.

    Raises
    ------
    StatisticsError
        If a number is out of range, or no sample does it.

    References
    ----------
    .. [1] Julious, "Sample sizes for clinical trials with Normal data", Statistics in
       Medicine 23 (2004).

    Examples
    --------
    >>> noninferiority_items(margin=0.02, sd=0.3).n
    1393
    """
    _check(margin, sd, alpha)
    check_target(power, alpha)
    if not difference > -margin:
        raise StatisticsError(
            f"no sample shows a fall below {margin:g} when the true difference is "
            f"{difference:g}"
        )

    def reaches(n: int) -> bool:
        if design.df(n) < 1:
            return False
        return _power(n, margin + difference, sd, alpha, design) >= power

    guess = 6.2 * sd * sd * design.design_effect / (margin + difference) ** 2
    n = smallest_n(reaches, int(min(guess, 1e9)), keep=0)
    made = _power(n, margin + difference, sd, alpha, design)
    return NoninferiorityPlan(n, margin, difference, sd, alpha, design, made, power)


def _check(margin: float, sd: float, alpha: float) -> None:
    fraction_in(margin, "margin")
    if not 0.0 < sd < math.inf:
        raise StatisticsError(f"sd must be > 0 and finite, it is {sd}")
    if not 0.0 < alpha < 0.5:
        raise StatisticsError(Argument("alpha"), f" must be in (0, 0.5), it is {alpha}")


def _power(n: int, room: float, sd: float, alpha: float, design: Design) -> float:
    """Chance of a t above its critical value, `room` being the way to the margin."""
    from scipy.special import nctdtr, ndtr, ndtri, stdtrit

    df = design.df(n)
    away = room / (sd * math.sqrt(design.design_effect / n))
    if df > _NORMAL:
        return float(ndtr(away + float(ndtri(alpha))))
    return 1.0 - float(nctdtr(df, away, -float(stdtrit(df, alpha))))
