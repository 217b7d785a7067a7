"""Samples that certify equivalence: two one-sided tests on paired answers."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import Argument
from phasefusion.errors import StatisticsError
from phasefusion.planning._binomial import pmf_range
from phasefusion.planning._plans import (
    INDEPENDENT,
    MOST_EXACT,
    Design,
    Plan,
    check_discordance,
    check_sample,
    check_target,
    design_rows,
    in_percent,
    items_of,
    percent_of,
    points,
    smallest_n,
    solve,
)
from phasefusion.stats._exact import binomial_cdf
from phasefusion.stats._numbers import fraction_in

#: Below so many items everything is enumerated.
_FEW = 30


@dataclass(frozen=True, slots=True, repr=False)
class TostPlan(Plan):
    """What a sample can say about the equivalence of two arms.

    Attributes
    ----------
    n : int
        Items that both arms answer.
    margin, difference, discordance : float
        Fractions: 0.025 is 2.5 points.
    alpha : float
        Of each one-sided test; the interval has level 1 - 2 alpha.
    design : Design
    power : float
        Chance that the test certifies the margin: summed over all counts of
        discordant items. With clusters it is that of as many independent items as the
        sample is worth, tested with clusters - 1 degrees of freedom. NaN for more than
        200000 of them.
    power_t : float
        The same for normally distributed means, with the t distribution (Owen).
    half_width, half_width_z : float
        Of the interval to expect, with the t distribution and with the normal one.
    certifiable : bool
        Whether half_width < margin. When it is not, no observed difference certifies
        the margin, not even zero, unless chance makes fewer items discordant than is
        expected: "not certifiable at this size".
    n_certifiable, n_certifiable_z : int
        The smallest sample whose half_width (half_width_z) is below the margin.
    target : float or None
        The power that n was made for.
    """

    n: int
    margin: float
    difference: float
    discordance: float
    alpha: float
    design: Design
    power: float
    power_t: float
    half_width: float
    half_width_z: float
    certifiable: bool
    n_certifiable: int
    n_certifiable_z: int
    target: float | None = None

    title: ClassVar[str] = "Equivalence (two one-sided tests)"

    @property
    def smallest_margin(self) -> float:
        """Margin that is just certified if the difference is seen as it is expected."""
        return abs(self.difference) + self.half_width

    @property
    def verdict(self) -> str:
        """What the size means for the margin, as a sentence."""
        level = 100.0 * (1.0 - 2.0 * self.alpha)
        width = f"the {level:g} % interval is +-{points(self.half_width)}"
        if not self.certifiable:
            return (
                f"not certifiable at this size: {width}, wider than the margin; more "
                f"than {self.n_certifiable - 1} items are needed for it to fit at all"
            )
        if self.smallest_margin >= self.margin:
            return (
                f"certifiable only if the difference is seen closer to 0 than expected:"
                f" {width}"
            )
        return f"certifiable: {width}"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        return [
            ("sample", items_of(self.n, self.design)),
            ("margin", f"+-{points(self.margin)}"),
            ("true difference", points(self.difference)),
            ("discordant items", percent_of(self.discordance)),
            *design_rows(self.design),
            (
                f"power at alpha {self.alpha:g}",
                f"{percent_of(self.power)} exact, {percent_of(self.power_t)} by t",
            ),
            ("verdict", self.verdict),
            (
                "interval fits the margin from",
                f"{self.n_certifiable} items (normal law: {self.n_certifiable_z})",
            ),
        ]


def tost_power(
    n: int,
    *,
    margin: float,
    discordance: float,
    difference: float = 0.0,
    alpha: float = 0.05,
    design: Design = INDEPENDENT,
) -> TostPlan:
    """Power of an equivalence test, and whether its margin can be certified at all.

    Parameters
    ----------
    n : int
        Items (pairs of answers), >= 2.
    margin : float
        Largest difference that counts as none, in (0, 1): 0.025 is 2.5 points.
    discordance : float
        Share of items that only one of the arms answers right.
    difference : float, default 0.0
        True difference of the arms.
    alpha : float, default 0.05
        In (0, 0.5).
    design : Design, optional
        Clusters; items are independent by default.

    Returns
    -------
    TostPlan

    Raises
    ------
    StatisticsError
        If a number is out of range.

    References
    ----------
    .. [1] Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987).
    .. [2] Phillips, "Power of the two one-sided tests procedure in bioequivalence",
       Journal of Pharmacokinetics and Biopharmaceutics 18 (1990).

    Examples
    --------
    >>> tost_power(446, margin=0.025, discordance=0.139).certifiable
    False
    >>> round(tost_power(1132, margin=0.025, discordance=0.139).power, 3)
    0.458
    """
    check_sample(n, design)
    _check(margin, discordance, difference, alpha)
    return _plan(n, margin, difference, discordance, alpha, design, None)


def tost_items(
    *,
    margin: float,
    discordance: float,
    difference: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
    design: Design = INDEPENDENT,
) -> TostPlan:
    """Count the items that certify a margin with a power.

    Parameters
    ----------
    margin, discordance, difference, alpha, design
        As in `tost_power`; the difference must lie inside the margin.
    power : float, default 0.8
        In (alpha, 1).

    Returns
    -------
    TostPlan
        Of the smallest n whose exact power is at least that, by the t distribution
        above 200000.

    Raises
    ------
    StatisticsError
        If a number is out of range, or no sample does it.

    Examples
    --------
    >>> tost_items(margin=0.025, discordance=0.139).n
    1908
    """
    _check(margin, discordance, difference, alpha)
    check_target(power, alpha)
    if abs(difference) >= margin:
        raise StatisticsError(
            f"no sample certifies a margin of {in_percent(margin)} when the true "
            f"difference is {in_percent(difference)}; the difference must be inside "
            "the margin"
        )

    def reaches(n: int) -> bool:
        if design.df(n) < 1 or design.effective(n) < 2:
            return False
        return _power(n, margin, difference, discordance, alpha, design) >= power

    guess = _variance(discordance, difference) * design.design_effect
    n = smallest_n(reaches, int(6.0 * guess / (margin - abs(difference)) ** 2))
    return _plan(n, margin, difference, discordance, alpha, design, power)


def tost_margin(
    n: int,
    *,
    discordance: float,
    difference: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
    design: Design = INDEPENDENT,
) -> TostPlan:
    """Find the margin that a sample certifies with a power.

    Parameters
    ----------
    n, discordance, difference, alpha, design
        As in `tost_power`.
    power : float, default 0.8
        In (alpha, 1).

    Returns
    -------
    TostPlan
        Of the smallest margin.

    Raises
    ------
    StatisticsError
        If a number is out of range, or not even a margin of 1 is certified so often.

    Examples
    --------
    >>> round(tost_margin(1132, discordance=0.139).margin, 4)
    0.0325
    """
    check_sample(n, design)
    _check(0.5, discordance, difference, alpha)
    check_target(power, alpha)

    def lacks(margin: float) -> float:
        return _power(n, margin, difference, discordance, alpha, design) - power

    if lacks(1.0) < 0.0:
        raise StatisticsError(
            f"{items_of(n, design)} certify no margin with a power of {power:g}"
        )
    margin = solve(lacks, abs(difference), 1.0)
    return _plan(n, margin, difference, discordance, alpha, design, power)


def _check(margin: float, discordance: float, difference: float, alpha: float) -> None:
    fraction_in(margin, "margin")
    if not 0.0 < alpha < 0.5:
        raise StatisticsError(Argument("alpha"), f" must be in (0, 0.5), it is {alpha}")
    check_discordance(discordance, difference)


def _variance(discordance: float, difference: float) -> float:
    """Variance of one difference in -1, 0, 1."""
    return discordance - difference * difference


def _plan(
    n: int,
    margin: float,
    difference: float,
    discordance: float,
    alpha: float,
    design: Design,
    target: float | None,
) -> TostPlan:
    half_width = expected_half_width(n, discordance, difference, alpha, design)
    half_width_z = _half_width_z(n, discordance, difference, alpha, design)

    def fits(n: int) -> bool:
        if design.df(n) < 1:
            return False
        return expected_half_width(n, discordance, difference, alpha, design) < margin

    def fits_z(n: int) -> bool:
        return _half_width_z(n, discordance, difference, alpha, design) < margin

    guess = max(2, int(n * (half_width_z / margin) ** 2))
    effective = design.effective(n)
    exact = math.nan
    if 2 <= effective <= MOST_EXACT:
        exact = _exact_power(
            effective, design.df(n), margin, difference, discordance, alpha
        )
    return TostPlan(
        n=n,
        margin=margin,
        difference=difference,
        discordance=discordance,
        alpha=alpha,
        design=design,
        power=exact,
        power_t=_t_power(n, margin, difference, discordance, alpha, design),
        half_width=half_width,
        half_width_z=half_width_z,
        certifiable=half_width < margin,
        n_certifiable=smallest_n(fits, guess, keep=0),
        n_certifiable_z=smallest_n(fits_z, guess, keep=0),
        target=target,
    )


def clusters_without_difference(margin: float, alpha: float) -> int:
    """Count the clusters without any difference that certify a margin.

    The least G with ``(1 - margin)**G < alpha``: what `stats.tost` and `gate` ask for
    where nothing varies.
    """
    if margin >= 1.0:
        return 1
    least = max(1, math.floor(math.log(alpha) / math.log1p(-margin)))
    return least if (1.0 - margin) ** least < alpha else least + 1


def expected_half_width(
    n: int, discordance: float, difference: float, alpha: float, design: Design
) -> float:
    """Half of the interval at level 1 - 2 alpha, from the t distribution."""
    from scipy.special import stdtrit

    variance = _variance(discordance, difference) * design.design_effect
    return -float(stdtrit(design.df(n), alpha)) * math.sqrt(variance / n)


def _half_width_z(
    n: int, discordance: float, difference: float, alpha: float, design: Design
) -> float:
    from scipy.special import ndtri

    variance = _variance(discordance, difference) * design.design_effect
    return -float(ndtri(alpha)) * math.sqrt(variance / n)


def _power(
    n: int,
    margin: float,
    difference: float,
    discordance: float,
    alpha: float,
    design: Design,
) -> float:
    """Exact power as far as sums go, by the t distribution above."""
    effective = design.effective(n)
    if effective < 2:
        return 0.0
    if effective > MOST_EXACT:
        return _t_power(n, margin, difference, discordance, alpha, design)
    return _exact_power(effective, design.df(n), margin, difference, discordance, alpha)


def _t_power(
    n: int,
    margin: float,
    difference: float,
    discordance: float,
    alpha: float,
    design: Design,
) -> float:
    """Power for a normal mean with an estimated standard error.

    Given the ratio u of the estimated standard error to the true one, the mean must
    fall between two bounds; u**2 * df has a chi-square distribution with df degrees of
    freedom, over which this integrates.
    """
    from scipy.special import gammaln, ndtr, stdtrit

    df = design.df(n)
    error = math.sqrt(_variance(discordance, difference) * design.design_effect / n)
    if error == 0.0:
        return float(abs(difference) < margin)
    t = -float(stdtrit(df, alpha))
    spread = 10.0 / math.sqrt(2.0 * df)
    low, high = max(0.0, 1.0 - spread), min(1.0 + spread, margin / (error * t))
    if high <= low:
        return 0.0
    nodes, weights = _legendre()
    u = 0.5 * (high - low) * (nodes + 1.0) + low
    log_density = (
        math.log(2.0)
        + 0.5 * df * math.log(0.5 * df)
        - float(gammaln(0.5 * df))
        + (df - 1.0) * np.log(u)
        - 0.5 * df * u * u
    )
    inside = ndtr((margin - difference) / error - t * u)
    inside -= ndtr(-(margin + difference) / error + t * u)
    density = np.exp(log_density) * np.maximum(inside, 0.0)
    return float(0.5 * (high - low) * np.dot(weights, density))


@functools.cache
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of the integral, which are slow to make."""
    nodes, weights = np.polynomial.legendre.leggauss(256)
    return nodes, weights


def _exact_power(
    n: int,
    df: int,
    margin: float,
    difference: float,
    discordance: float,
    alpha: float,
) -> float:
    """Sum the chance of every pair of discordant counts that passes the test.

    Of n items D are discordant, D ~ Bin(n, discordance), and b of them favour the first
    arm, b ~ Bin(D, (1 + difference / discordance) / 2). For a given D the test passes
    when the net difference 2 b - D is small enough: two binomial tails less. Without a
    discordant item it passes when there are enough clusters.
    """
    from scipy.special import stdtrit

    t = -float(stdtrit(df, alpha))
    discordant, chance = pmf_range(n, discordance)
    share = 0.5 * (1.0 + difference / discordance)
    if df + 1 < clusters_without_difference(margin, alpha):
        # without a discordant item there is no variance, and too few to do without
        chance = np.where(discordant == 0, 0.0, chance)
    if margin * (1.0 + t * t / (n - 1)) >= 1.0 or n < _FEW:
        return _enumerated(n, t, margin, discordant, chance, share)
    largest = _largest_net(n, t, margin, discordant)
    # -k <= 2 b - D <= k is ceil((D - k) / 2) <= b <= floor((D + k) / 2)
    below = np.ceil((discordant - largest) / 2.0) - 1.0
    upto = np.floor((discordant + largest) / 2.0)
    inside = binomial_cdf(upto, discordant, share)
    inside = inside - binomial_cdf(below, discordant, share)
    inside = np.where(largest >= 0, inside, 0.0)
    return float(min(1.0, max(0.0, np.dot(chance, inside))))


def _passes(
    net: NDArray[np.float64],
    discordant: NDArray[np.int64],
    n: int,
    t: float,
    margin: float,
) -> NDArray[np.bool_]:
    """Whether the interval of a net difference lies inside the margins."""
    mean = np.abs(net) / n
    squared = np.maximum(discordant / n - mean * mean, 0.0) / (n - 1)
    return np.asarray(mean + t * np.sqrt(squared) < margin)


def _largest_net(
    n: int, t: float, margin: float, discordant: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Greatest net difference that passes for each count of discordant items.

    It solves (margin - m)**2 = a (D/n - m**2) for the mean m; -1 where not even the
    smallest passes. A net difference has the parity of D.
    """
    a = t * t / (n - 1)
    under = a * ((1.0 + a) * discordant / n - margin * margin)
    root = (margin - np.sqrt(np.maximum(under, 0.0))) / (1.0 + a)
    bound = np.where(under < 0.0, discordant, np.floor(root * n))
    bound = np.clip(bound, -1.0, discordant)
    bound -= (bound + discordant) % 2
    # the root is rounded: the rule itself decides about the neighbours
    for _ in range(2):
        higher = np.minimum(bound + 2, discordant)
        bound = np.where(_passes(higher, discordant, n, t, margin), higher, bound)
    for _ in range(2):
        fails = (bound >= 0) & ~_passes(bound, discordant, n, t, margin)
        bound = np.where(fails, bound - 2, bound)
    return np.asarray(np.maximum(bound, -1.0))


def _enumerated(
    n: int,
    t: float,
    margin: float,
    discordant: NDArray[np.int64],
    chance: NDArray[np.float64],
    share: float,
) -> float:
    """Sum over every pair of counts of a few items.

    With a wide margin and few items the net differences that pass need not be an
    interval: one that uses up the discordant items leaves no variance.
    """
    total = 0.0
    for d, weight in zip(discordant.tolist(), chance.tolist(), strict=True):
        first, inner = pmf_range(d, share)
        passing = _passes(2.0 * first - d, np.array(d), n, t, margin)
        total += weight * float(inner[passing].sum())
    return min(1.0, total)
