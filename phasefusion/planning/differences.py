"""Samples that detect a difference: McNemar's test on paired answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

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
from phasefusion.stats._answers import check_choice
from phasefusion.stats._exact import binomial_cdf
from phasefusion.stats._numbers import fraction_in

Test: TypeAlias = Literal["exact", "mid-p"]
_TESTS = ("exact", "mid-p")


@dataclass(frozen=True, slots=True, repr=False)
class McNemarPlan(Plan):
    """What a sample can say about the difference of two arms.

    Attributes
    ----------
    n : int
        Items that both arms answer.
    difference, discordance : float
        Fractions: 0.025 is 2.5 points.
    alpha : float
        Two-sided.
    test : {'exact', 'mid-p'}
        The p-value that is compared with alpha.
    design : Design
    power : float
        Chance of p <= alpha in either direction, summed over all counts of discordant
        items (unconditional). With clusters it is that of as many independent items as
        the sample is worth. NaN for more than 200000 of them.
    power_normal : float
        Approximation by the normal law, of the clustered test too.
    size : float
        As power, where there is no difference: at most alpha for the exact test.
    n_normal : int or None
        What the normal law gives for n, where n was asked for.
    target : float or None
        The power that n or the difference was made for.
    """

    n: int
    difference: float
    discordance: float
    alpha: float
    test: Test
    design: Design
    power: float
    power_normal: float
    size: float
    n_normal: int | None = None
    target: float | None = None

    title: ClassVar[str] = "Difference (McNemar's test)"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        found = [
            ("sample", items_of(self.n, self.design)),
            ("difference", points(self.difference)),
            ("discordant items", percent_of(self.discordance)),
            *design_rows(self.design),
            (
                f"power at alpha {self.alpha:g}, {self.test} p",
                f"{percent_of(self.power)} exact, {percent_of(self.power_normal)} by "
                "the normal law",
            ),
            ("chance to reject without a difference", percent_of(self.size)),
        ]
        if self.n_normal is not None:
            found.append(("n by the normal law", f"{self.n_normal} items"))
        return found


def mcnemar_power(
    n: int,
    *,
    difference: float,
    discordance: float,
    alpha: float = 0.05,
    test: Test = "exact",
    design: Design = INDEPENDENT,
) -> McNemarPlan:
    """Power of McNemar's test.

    Parameters
    ----------
    n : int
        Items (pairs of answers), >= 2.
    difference : float
        True difference of the two shares: of right answers, or of changed ones.
    discordance : float
        Share of items that only one of the arms has, at least the difference; see
        `discordance_of`.
    alpha : float, default 0.05
        Two-sided, in (0, 1).
    test : {'exact', 'mid-p'}, default 'exact'
    design : Design, optional
        Clusters; items are independent by default.

    Returns
    -------
    McNemarPlan

    Raises
    ------
    StatisticsError
        If a number is out of range.

    References
    ----------
    .. [1] Connor, "Sample size for testing differences in proportions for the
       paired-sample design", Biometrics 43 (1987).

    Examples
    --------
    >>> round(mcnemar_power(587, difference=0.0494, discordance=0.15).power, 3)
    0.856
    """
    check_sample(n, design)
    _check(difference, discordance, alpha, test)
    return _plan(n, difference, discordance, alpha, test, design)


def mcnemar_items(
    *,
    difference: float,
    discordance: float,
    power: float = 0.8,
    alpha: float = 0.05,
    test: Test = "exact",
    design: Design = INDEPENDENT,
) -> McNemarPlan:
    """Count the items that detect a difference with a power.

    Parameters
    ----------
    difference, discordance, alpha, test, design
        As in `mcnemar_power`; the difference must not be 0.
    power : float, default 0.8
        In (alpha, 1).

    Returns
    -------
    McNemarPlan
        Of the smallest n whose exact power is at least that, and stays there for the
        next sizes: power of whole counts is a saw.

    Raises
    ------
    StatisticsError
        If a number is out of range, or no sample does it.

    Examples
    --------
    >>> made = mcnemar_items(difference=0.03, discordance=0.15)
    >>> made.n, made.n_normal
    (1362, 1306)
    """
    _check(difference, discordance, alpha, test)
    check_target(power, alpha)
    if difference == 0.0:
        raise StatisticsError("no sample detects a difference of 0")

    def reaches(n: int) -> bool:
        found = _power(n, difference, discordance, alpha, test, design)
        return design.df(n) >= 1 and found >= power

    def reaches_normal(n: int) -> bool:
        return _normal_power(n, difference, discordance, alpha, design) >= power

    n_normal = smallest_n(
        reaches_normal, math.ceil(9.0 * discordance / difference**2), keep=0
    )
    n = smallest_n(reaches, n_normal)
    return _plan(n, difference, discordance, alpha, test, design, n_normal, power)


def mcnemar_difference(
    n: int,
    *,
    discordance: float,
    power: float = 0.8,
    alpha: float = 0.05,
    test: Test = "exact",
    design: Design = INDEPENDENT,
) -> McNemarPlan:
    """Find the difference that a sample detects with a power.

    Parameters
    ----------
    n, discordance, alpha, test, design
        As in `mcnemar_power`.
    power : float, default 0.8
        In (alpha, 1).

    Returns
    -------
    McNemarPlan
        Of the smallest difference, positive.

    Raises
    ------
    StatisticsError
        If a number is out of range, or not even a difference as great as the
        discordance is detected so often.

    Examples
    --------
    >>> round(mcnemar_difference(587, discordance=0.15).difference, 4)
    0.046
    """
    check_sample(n, design)
    _check(0.0, discordance, alpha, test)
    check_target(power, alpha)

    def lacks(difference: float) -> float:
        return _power(n, difference, discordance, alpha, test, design) - power

    if lacks(discordance) < 0.0:
        raise StatisticsError(
            f"{items_of(n, design)} with {percent_of(discordance)} discordant detect "
            f"no difference with a power of {power:g}"
        )
    difference = solve(lacks, 0.0, discordance)
    return _plan(n, difference, discordance, alpha, test, design, None, power)


def discordance_of(first: float, second: float, both: float | None = None) -> float:
    """Share of items that only one of two arms has.

    Parameters
    ----------
    first, second : float
        Shares of items that each arm has: that it answers right, or changes.
    both : float, optional
        Share that both have; as of independent arms by default, which two arms of one
        model never are, so that the true discordance is smaller.

    Returns
    -------
    float
        ``first + second - 2 * both``.

    Raises
    ------
    StatisticsError
        If a share is out of range.

    Examples
    --------
    >>> round(discordance_of(0.182, 0.101, 0.06), 3)
    0.163
    """
    fraction_in(first, "first", closed=True)
    fraction_in(second, "second", closed=True)
    shared = first * second if both is None else both
    least, most = max(0.0, first + second - 1.0), min(first, second)
    if not least - 1e-12 <= shared <= most + 1e-12:
        raise StatisticsError(
            Argument("both"),
            f" is {in_percent(shared)}; with shares of {in_percent(first)} "
            f"and {in_percent(second)} it is from {in_percent(least)} to "
            f"{in_percent(most)}",
        )
    return max(first + second - 2.0 * shared, abs(first - second))


def _check(difference: float, discordance: float, alpha: float, test: str) -> None:
    fraction_in(alpha, "alpha")
    check_choice(test, _TESTS, "test")
    check_discordance(discordance, difference)


def _plan(
    n: int,
    difference: float,
    discordance: float,
    alpha: float,
    test: Test,
    design: Design,
    n_normal: int | None = None,
    target: float | None = None,
) -> McNemarPlan:
    effective = design.effective(n)
    power = size = math.nan
    if effective <= MOST_EXACT:
        power = _exact_power(effective, difference, discordance, alpha, test)
        size = _exact_power(effective, 0.0, discordance, alpha, test)
    return McNemarPlan(
        n=n,
        difference=difference,
        discordance=discordance,
        alpha=alpha,
        test=test,
        design=design,
        power=power,
        power_normal=_normal_power(n, difference, discordance, alpha, design),
        size=size,
        n_normal=n_normal,
        target=target,
    )


def _power(
    n: int,
    difference: float,
    discordance: float,
    alpha: float,
    test: Test,
    design: Design,
) -> float:
    """Exact power as far as sums go, that of the normal law above."""
    effective = design.effective(n)
    if effective > MOST_EXACT:
        return _normal_power(n, difference, discordance, alpha, design)
    return _exact_power(effective, difference, discordance, alpha, test)


def _normal_power(
    n: int, difference: float, discordance: float, alpha: float, design: Design
) -> float:
    """Power in either direction of the chi-square test, by the normal law."""
    from scipy.special import ndtr, ndtri

    z = -float(ndtri(alpha / 2.0))
    root = math.sqrt(n / design.design_effect)
    spread = math.sqrt(discordance - difference * difference)
    bound = z * math.sqrt(discordance)
    if spread == 0.0:  # every discordant item favours the same arm
        return float(abs(difference) * root >= bound)
    return float(
        ndtr((difference * root - bound) / spread)
        + ndtr((-difference * root - bound) / spread)
    )


def _exact_power(
    n: int, difference: float, discordance: float, alpha: float, test: Test
) -> float:
    """Sum the chance of every pair of discordant counts that the test rejects.

    Of n items D are discordant, D ~ Bin(n, discordance), and b of them favour the first
    arm, b ~ Bin(D, (1 + difference / discordance) / 2). For a given D the test rejects
    when b or D - b is at most a critical count.
    """
    if n < 1:
        return 0.0
    discordant, chance = pmf_range(n, discordance)
    critical = critical_counts(discordant, alpha, test)
    share = 0.5 * (1.0 + difference / discordance)
    used = critical >= 0
    k, d = critical[used], discordant[used]
    rejected = binomial_cdf(k, d, share) + binomial_cdf(k, d, 1.0 - share)
    return float(min(1.0, np.dot(chance[used], rejected)))


def critical_counts(
    discordant: NDArray[np.int64], alpha: float, test: Test
) -> NDArray[np.float64]:
    """Greatest smaller count that rejects, for each number of discordant items.

    Parameters
    ----------
    discordant : ndarray, shape (m,), int64
        >= 0.
    alpha : float
    test : {'exact', 'mid-p'}

    Returns
    -------
    ndarray, shape (m,), float64
        Whole numbers below half of the discordant items; -1 where nothing rejects.
    """
    from scipy.special import bdtrik

    d = discordant.astype(np.float64)
    start = bdtrik(alpha / 2.0, np.maximum(d, 1.0), 0.5)
    found = np.clip(np.floor(np.nan_to_num(start, nan=-1.0)), -1.0, d)
    # the inverse is rounded: the p-value itself decides about the neighbours
    for _ in range(2):
        found = np.where(_pvalue(found + 1.0, d, test) <= alpha, found + 1.0, found)
    for _ in range(2):
        found = np.where(_pvalue(found, d, test) <= alpha, found, found - 1.0)
        found = np.maximum(found, -1.0)
    return np.asarray(found)


def _pvalue(
    least: NDArray[np.float64], n: NDArray[np.float64], test: Test
) -> NDArray[np.float64]:
    """P-value of the smaller count of n discordant items; 0 of the count -1."""
    inside = (least >= 0.0) & (2.0 * least < n)
    k = np.where(inside, least, 0.0)
    whole = np.maximum(n, 1.0).astype(np.int64)
    upto = binomial_cdf(k, whole, 0.5)
    below = upto
    if test == "mid-p":  # half of what was seen counts
        below = np.where(
            k > 0.0, binomial_cdf(np.maximum(k - 1.0, 0.0), whole, 0.5), 0.0
        )
    found = np.where(inside, np.minimum(upto + below, 1.0), 1.0)
    return np.asarray(np.where(least < 0.0, 0.0, found))
