"""Functions among numbers and printed figures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from phasefusion.audit.figures import Figure
from phasefusion.audit.values import (
    MAX_LIST,
    Count,
    Figures,
    Number,
    Numbers,
    Uncomputable,
    Whole,
    count,
    describe,
    number,
)
from phasefusion.stats import _exact

#: Greatest total of discordant pairs that is tried.
_MAX_PAIRS = 20_000
_MAX_TRIED = 20_000


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language; its docstring is its sentence."""

    name: str
    group: str
    call: Callable[..., Any]
    aligns: bool = True

    @property
    def sentence(self) -> str:
        """What it returns, in a sentence or two."""
        return " ".join((self.call.__doc__ or "").split())


FUNCTIONS: dict[str, Function] = {}


def function(
    group: str, *, aligns: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function into the language, under its name without "_".

    Its columns come to it in the order of the items of the first, unless `aligns` is
    false.
    """

    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        name = call.__name__.rstrip("_")
        FUNCTIONS[name] = Function(name, group, call, aligns)
        return call

    return register


# ------------------------------------------------------------------ numbers


@function("numbers")
def abs_(x: Number) -> float:
    """Magnitude of a number."""
    return abs(x)


@function("numbers")
def sqrt(x: Number) -> float:
    """Square root."""
    if x < 0:
        raise Uncomputable(f"the square root of {x} does not exist")
    return math.sqrt(x)


@function("numbers")
def floor(x: Number) -> int:
    """Greatest whole number that is not above x."""
    return math.floor(x)


@function("numbers")
def ceil(x: Number) -> int:
    """Least whole number that is not below x."""
    return math.ceil(x)


@function("numbers")
def round_(x: Number, digits: Whole = 0) -> float:
    """Round to so many decimals, halves away from zero, as printed tables do."""
    if abs(digits) > 15:
        raise Uncomputable(f"digits must be in -15..15, they are {digits}")
    scale = Fraction(10) ** digits
    up = math.floor(abs(Fraction(x)) * scale + Fraction(1, 2) + Fraction(1, 10**9))
    return math.copysign(float(up / scale), x)


@function("numbers")
def min_(x: Numbers) -> float:
    """Least number of a list or column."""
    return min(_some(x))


@function("numbers")
def max_(x: Numbers) -> float:
    """Greatest number of a list or column."""
    return max(_some(x))


@function("numbers")
def total(x: Numbers) -> float:
    """Sum of a list or column; missing entries are left out."""
    return sum(x) if all(isinstance(one, int) for one in x) else math.fsum(x)


@function("numbers")
def mean(x: Numbers) -> float:
    """Mean of a list or column; missing entries are left out."""
    return math.fsum(_some(x)) / len(x)


def _some(x: Numbers) -> Numbers:
    if not len(x):
        raise Uncomputable("there is no number in the list")
    return x


@function("numbers")
def ascending(x: Numbers) -> bool:
    """Whether every number is at least the one before it."""
    return all(a <= b for a, b in itertools.pairwise(x))


@function("numbers")
def size(x: Any) -> int:
    """Entries of a list."""
    if not isinstance(x, list):
        raise Uncomputable(f"a list is wanted, this is {describe(x)}")
    return len(x)


# ------------------------------------------------------------------ printed figures


@function("figures")
def value_of(f: Figure) -> float:
    """Return the printed value of a figure."""
    return number(f)


@function("figures")
def low(f: Figure) -> float:
    """Least value that prints as the figure."""
    return _finite(f.interval[0], f)


@function("figures")
def high(f: Figure) -> float:
    """Greatest value that prints as the figure."""
    return _finite(f.interval[1], f)


def _finite(bound: float, f: Figure) -> float:
    if math.isinf(bound):
        raise Uncomputable(f"{f.text!r} has no such bound")
    return bound


@function("figures")
def prints(x: Number, f: Figure) -> bool:
    """Whether x prints as the figure, halves rounded either way."""
    return printed_as(x, f)


def printed_as(x: float, f: Figure, tolerance: float | None = None) -> bool:
    """Whether a number is among those a figure stands for, or within a tolerance."""
    least, most = printed_bounds(f, tolerance)
    return least <= x <= most


def printed_bounds(f: Figure, tolerance: float | None = None) -> tuple[float, float]:
    """Return what a figure stands for, with room for the rounding of the machine."""
    if tolerance is not None and not f.relation:
        least, most = float(f.value) - tolerance, float(f.value) + tolerance
    else:
        least, most = f.interval
    slack = 1e-9 * max(1.0, abs(float(f.value)))
    if f.half_unit and not f.relation:  # digits far behind the comma must still count
        slack = min(slack, float(f.half_unit) * 1e-6)
    return least - slack, most + slack


@function("figures")
def counts(f: Figure, n: Any, per: Number = 100) -> list[int]:
    """Whole numbers k for which per * k / n prints as the figure; n may be a list."""
    sizes = [count(one) for one in (n if isinstance(n, list) else [n])]
    found: set[int] = set()
    for size in sizes:
        found |= set(_counts(f, size, per))
    return sorted(found)


def _counts(f: Figure, n: int, per: float) -> range:
    """Exactly, for a hair decides."""
    if n == 0 or per <= 0:
        raise Uncomputable("a share of nothing does not exist")
    if f.relation:
        raise Uncomputable(f"{f.text!r} is only a bound")
    scale = Fraction(n) / Fraction(per)
    least = max(-n, math.ceil((f.value - f.half_unit) * scale))
    most = min(n, math.floor((f.value + f.half_unit) * scale))
    if most - least >= MAX_LIST:
        raise Uncomputable(
            f"{f.text} of {n} leaves {most - least + 1} counts; too few digits to say"
        )
    return range(least, most + 1)


@function("figures")
def denominators(f: Any, first: Count, last: Count, per: Number = 100) -> list[int]:
    """Sizes n in first..last for which some k / n prints as the figure.

    Of a list of figures each must be a k / n.
    """
    given = f if isinstance(f, list) else [f]
    figures = [one for one in given if isinstance(one, Figure)]
    if len(figures) != len(given) or not figures:
        raise Uncomputable("a printed figure, or a list of them, is wanted by name")
    if last - first >= MAX_LIST or first < 1:
        raise Uncomputable(f"first..last must hold 1 to {MAX_LIST} sizes, from 1")
    sizes = range(first, last + 1)
    return [n for n in sizes if all(len(_counts(one, n, per)) for one in figures)]


@function("figures")
def common(x: Any) -> list[float]:
    """Intersection [low, high] of figures and of ranges [low, high]; [] for none."""
    if not isinstance(x, list) or not x:
        raise Uncomputable("a list of figures and ranges is wanted")
    bounds = [one.interval if isinstance(one, Figure) else _range(one) for one in x]
    least, most = max(one[0] for one in bounds), min(one[1] for one in bounds)
    return [least, most] if least <= most + 1e-12 else []


def _range(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise Uncomputable("a range [low, high] is wanted")
    return number(value[0]), number(value[1])


# ------------------------------------------------------------------ distributions


@function("distributions")
def binomial_cdf(k: Whole, n: Count, p: Number) -> float:
    """P(X <= k) for X ~ Bin(n, p)."""
    _probability(p)
    return float(_exact.binomial_cdf(k, n, p))


@function("distributions")
def binomial_pmf(k: Whole, n: Count, p: Number) -> float:
    """P(X = k) for X ~ Bin(n, p)."""
    _probability(p)
    if not 0 <= k <= n:
        return 0.0
    if p in (0.0, 1.0):
        return float(k == n * p)
    return math.exp(_exact.binomial_log_pmf(k, n, p))


@function("distributions")
def normal_quantile(p: Number) -> float:
    """Value that a standard normal variable is below with probability p."""
    from scipy.special import ndtri

    _probability(p)
    return float(ndtri(p))


@function("distributions")
def normal_cdf(x: Number) -> float:
    """Probability that a standard normal variable is below x."""
    from scipy.special import ndtr

    return float(ndtr(x))


@function("distributions")
def t_quantile(p: Number, df: Number) -> float:
    """Value that a t variable with df degrees is below with probability p."""
    from scipy.special import stdtrit

    _probability(p)
    return float(stdtrit(_positive(df, "df"), p))


def _probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise Uncomputable(f"a probability is wanted, this is {p}")


def _positive(x: float, name: str) -> float:
    if not x > 0:
        raise Uncomputable(f"{name} must be above 0, it is {x}")
    return x


# ------------------------------------------------------------------ tests backwards


@function("tests")
def discordant_totals(
    net: Whole, p: Figure, test: str = "exact", most: Count = 2000
) -> list[int]:
    """Totals b + c with b - c = net for which McNemar's p prints as the figure.

    Without any discordant pair p is 1. The test is 'exact', 'midp', 'chi2' or
    'corrected'.
    """
    if most > _MAX_PAIRS:
        raise Uncomputable(f"most is {most}; at most {_MAX_PAIRS} pairs are tried")
    totals = np.arange(abs(net), most + 1, 2)
    values = _mcnemar_p(totals, abs(net), test)
    fits = [printed_as(float(one), p) for one in values]
    return [int(n) for n in totals[np.array(fits, bool)]]


def _mcnemar_p(totals: Any, net: int, test: str) -> Any:
    from scipy.special import chdtrc

    least = (totals - net) // 2
    some = np.maximum(totals, 1)  # without a pair the net is 0 too
    if test == "chi2":
        return chdtrc(1, net**2 / some)
    if test == "corrected":
        return chdtrc(1, max(net - 1, 0) ** 2 / some)
    tail = _exact.binomial_cdf(least, totals, 0.5)
    if test == "exact":
        return np.where(net <= 1, 1.0, np.minimum(1.0, 2 * tail))
    if test == "midp":
        below = _exact.binomial_cdf(least - 1, totals, 0.5)
        return np.ones(len(totals)) if net == 0 else np.minimum(1.0, tail + below)
    raise Uncomputable(f"test is {test!r}; known are exact, midp, chi2, corrected")


@function("tests")
def samples_for_p(
    gain: Figure, p: Figure, first: Count, last: Count, test: str = "exact"
) -> list[int]:
    """Sizes n in first..last at which a gain in percent and its p are possible.

    Some k / n prints as the gain, and some discordance up to n gives such a p.
    """
    if last - first > 2000 or last > _MAX_PAIRS:
        raise Uncomputable("at most 2000 sizes, up to 20000, are tried")
    fits: dict[int, int] = {}
    found = []
    for n in range(max(first, 1), last + 1):
        for k in _counts(gain, n, 100):
            if k not in fits:
                totals = discordant_totals(k, p, test, min(last, _MAX_PAIRS))
                fits[k] = totals[0] if totals else -1
            if 0 <= fits[k] <= n:
                found.append(n)
                break
    return found


@function("tests")
def interval_totals(
    net: Whole, n: Count, ci_low: Figure, ci_high: Figure, level: Number = 0.95
) -> list[int]:
    """Totals b + c with b - c = net whose t interval prints as the two figures.

    The interval is of n independent pairs, in points.
    """
    from scipy.special import stdtrit

    _probability(level)
    if not 2 <= n <= _MAX_TRIED or abs(net) > n:
        raise Uncomputable(f"n must be in 2..{_MAX_TRIED}, it is {n}")
    return [
        total
        for total in range(abs(net), n + 1, 2)
        if _prints_interval(net, n, total, (ci_low, ci_high), level, stdtrit)
    ]


def _prints_interval(
    net: int, n: int, total: int, ci: Figures, level: float, quantile: Any
) -> bool:
    average = net / n
    error = math.sqrt(max(total - net * average, 0.0) / (n - 1) / n)
    half = -float(quantile(n - 1, (1 - level) / 2)) * error
    bounds = (100 * (average - half), 100 * (average + half))
    return all(printed_as(x, f) for x, f in zip(bounds, ci, strict=True))


@function("tests")
def tost_p(
    estimate: Number, se: Number, margin: Number, df: Number | None = None
) -> float:
    """P-value of equivalence within +-margin of 0, from an estimate and its error.

    Normal, or t with df degrees of freedom.
    """
    from scipy.special import ndtr, stdtr

    t = (abs(estimate) - _positive(margin, "margin")) / _positive(se, "se")
    return float(ndtr(t)) if df is None else float(stdtr(_positive(df, "df"), t))


@function("tests")
def correlation_p(r: Number, n: Count) -> float:
    """Two-sided p-value of a Pearson correlation of n pairs."""
    from scipy.special import stdtr

    if not -1.0 < r < 1.0 or n < 3:
        raise Uncomputable(f"r = {r} of {n} pairs has no p-value")
    return 2.0 * float(stdtr(n - 2, -abs(r) * math.sqrt((n - 2) / (1.0 - r * r))))


@function("tests")
def paired_half_width(n: Count, discordance: Number, level: Number = 0.95) -> float:
    """Half width, in points, of the normal interval of a paired difference near 0.

    The discordance is the share of the n pairs that differ.
    """
    _probability(discordance)
    if n < 1:
        raise Uncomputable("there are no pairs")
    half: float = -normal_quantile((1 - level) / 2) * math.sqrt(discordance / n)
    return 100 * half


@function("tests")
def largest_passing(n: Count, alpha: Number, delta: Number) -> int:
    """Greatest k with P(Bin(n, alpha) <= k) <= delta; -1 for none.

    So many errors may a threshold with n answers have and still be certified.
    """
    _probability(alpha)
    _probability(delta)
    if n > _MAX_TRIED:
        raise Uncomputable(f"n is {n}, at most {_MAX_TRIED}")
    passes = _exact.binomial_cdf(np.arange(n + 1), n, alpha) <= delta
    return int(np.count_nonzero(passes)) - 1


@function("tests")
def most_pairwise(m: Count, n_options: Count) -> float:
    """Greatest share of pairs of m answers that can differ with so many options."""
    if m < 2 or n_options < 1:
        raise Uncomputable("two answers and one option are needed at least")
    q, r = divmod(m, n_options)
    same = r * math.comb(q + 1, 2) + (n_options - r) * math.comb(q, 2)
    return 1 - same / math.comb(m, 2)
