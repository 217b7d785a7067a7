"""Samples that certify a risk for the answers that are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import Argument, counted
from phasefusion.errors import StatisticsError
from phasefusion.planning._plans import (
    Plan,
    in_percent,
    percent_of,
)
from phasefusion.stats import smallest_certifiable
from phasefusion.stats._exact import binomial_cdf
from phasefusion.stats._numbers import fraction_in

#: No plan allows more errors.
_MOST_ERRORS = 1 << 20
#: Numbers of errors below one that reaches the power, in which a lower one is sought.
_CHUNK = 256


@dataclass(frozen=True, slots=True, repr=False)
class RiskPlan(Plan):
    """Whether the first threshold of a walk can be certified.

    Attributes
    ----------
    n : int
        Calibration items that the strictest threshold selects.
    alpha, delta : float
        Risk to control, and chance to certify a threshold above it.
    risk : float
        True share of errors among those items.
    allowed_errors : int
        The most errors that certify; -1 when n is below n_min.
    power : float
        Chance of no more errors than those: otherwise the walk certifies nothing.
    n_min : int
        The smallest selection that certifies without any error.
    target : float or None
        The power that n was made for.
    """

    n: int
    alpha: float
    delta: float
    risk: float
    allowed_errors: int
    power: float
    n_min: int
    target: float | None = None

    title: ClassVar[str] = "Risk control (first threshold of the fixed sequence)"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        allowed = str(self.allowed_errors)
        if self.allowed_errors < 0:
            allowed = f"none certify: at least {self.n_min} items are needed"
        return [
            ("sample", f"{counted(self.n, 'item')} at the strictest threshold"),
            ("risk to control", percent_of(self.alpha)),
            ("with error probability", percent_of(self.delta)),
            ("true risk", percent_of(self.risk)),
            ("errors allowed", allowed),
            ("chance to certify", percent_of(self.power)),
            ("smallest sample, without errors", counted(self.n_min, "item")),
        ]


def risk_power(n: int, *, alpha: float, delta: float, risk: float = 0.0) -> RiskPlan:
    """Chance that the first threshold of a fixed-sequence walk is certified.

    Parameters
    ----------
    n : int
        Calibration items that the strictest threshold selects, >= 1.
    alpha, delta : float
        As in `stats.fixed_sequence`, in (0, 1).
    risk : float, default 0.0
        True share of errors among the items selected, in [0, 1].

    Returns
    -------
    RiskPlan
        From the binomial law, without approximation.

    Raises
    ------
    StatisticsError
        If a number is out of range.

    Examples
    --------
    >>> [risk_power(n, alpha=0.2, delta=0.1).allowed_errors for n in (10, 25, 50, 100)]
    [-1, 2, 5, 14]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise StatisticsError(Argument("n"), f" must be a whole number >= 1, it is {n}")
    n_min = smallest_certifiable(alpha, delta)
    fraction_in(risk, "risk", closed=True)
    return _plan(n, alpha, delta, risk, n_min, None)


def risk_items(
    *, alpha: float, delta: float, risk: float = 0.0, power: float = 0.8
) -> RiskPlan:
    """Count the items that the strictest threshold must select to be certified.

    Parameters
    ----------
    alpha, delta, risk
        As in `risk_power`; risk must be below alpha.
    power : float, default 0.8
        In (0, 1).

    Returns
    -------
    RiskPlan
        Of the smallest n that reaches the power. Allowed errors are whole, so a
        slightly greater n may fall short of it again.

    Raises
    ------
    StatisticsError
        If a number is out of range, or no sample does it.

    Examples
    --------
    >>> risk_items(alpha=0.2, delta=0.1).n
    11
    >>> risk_items(alpha=0.2, delta=0.1, risk=0.1).n
    63
    """
    n_min = smallest_certifiable(alpha, delta)
    fraction_in(risk, "risk", closed=True)
    fraction_in(power, "power")
    if risk >= alpha:
        raise StatisticsError(
            f"the true risk is {in_percent(risk)}; a risk of "
            f"{in_percent(alpha)} (alpha) is certified only by mistake"
        )

    def chances(
        errors: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        sizes = _least_sizes(errors, alpha, delta)
        return sizes, np.asarray(binomial_cdf(errors, sizes, risk) >= power)

    low, high = -1, 0
    while not chances(np.array([high]))[1][0]:
        if high >= _MOST_ERRORS:
            size = int(_least_sizes(np.array([high]), alpha, delta)[0])
            raise StatisticsError(
                f"more than {size} items at the strictest threshold would be needed; "
                "ask for less"
            )
        low, high = high, min(2 * high + 1, _MOST_ERRORS)
    while high - low > 1:
        middle = (low + high) // 2
        if chances(np.array([middle]))[1][0]:
            high = middle
        else:
            low = middle
    # whole sizes make the chance a saw, which may reach the power a few errors earlier
    errors = np.arange(max(0, high - _CHUNK), high + 1)
    sizes, enough = chances(errors)
    return _plan(int(sizes[np.argmax(enough)]), alpha, delta, risk, n_min, power)


def _least_sizes(
    errors: NDArray[np.int64], alpha: float, delta: float
) -> NDArray[np.int64]:
    """Smallest n with P(Bin(n, alpha) <= k) <= delta, for each number k of errors.

    With k errors allowed the chance to certify falls in n, so no other n matters.
    """
    fails, passes = errors.copy(), errors + 1
    while (late := binomial_cdf(errors, passes, alpha) > delta).any():
        fails[late] = passes[late]
        passes[late] *= 2
    while (wide := passes - fails > 1).any():
        middle = np.where(wide, (fails + passes) // 2, passes)
        good = binomial_cdf(errors, middle, alpha) <= delta
        passes = np.where(good, middle, passes)
        fails = np.where(good, fails, middle)
    return passes


def allowed_errors(n: int, alpha: float, delta: float) -> int:
    """Return the most errors k with P(Bin(n, alpha) <= k) <= delta; -1 for none."""
    passes, fails = -1, n  # all n being errors shows nothing
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if float(binomial_cdf(middle, n, alpha)) <= delta:
            passes = middle
        else:
            fails = middle
    return passes


def _plan(
    n: int,
    alpha: float,
    delta: float,
    risk: float,
    n_min: int,
    target: float | None,
) -> RiskPlan:
    k = allowed_errors(n, alpha, delta)
    power = 0.0 if k < 0 else float(binomial_cdf(k, n, risk))
    return RiskPlan(n, alpha, delta, risk, k, power, n_min, target)
