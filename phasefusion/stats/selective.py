"""Answering only where it is safe: risk-coverage curves, certified thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import integers, percent
from phasefusion.stats._exact import binomial_cdf
from phasefusion.stats._numbers import (
    column,
    fraction_in,
    indicator,
    numbers,
    same_length,
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RiskCoverage(Result):
    """Risk of the answers kept, as the threshold falls.

    Attributes
    ----------
    thresholds : ndarray, shape (m,), float64
        The different confidences, descending: the only operating points there are.
    coverage, risk : ndarray, shape (m,), float64
        Share of items with at least that confidence, and share of errors among them.
    n_selected, n_errors : ndarray, shape (m,), int64
    aurc : float
        Mean over j = 1 .. n of the expected risk of the j surest items; inside a block
        of equal confidence the order is random. NaN without items.
    e_aurc : float
        aurc minus that of the confidence that puts every error last.
    n, n_dropped : int
    """

    thresholds: NDArray[np.float64]
    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    n_selected: NDArray[np.int64]
    n_errors: NDArray[np.int64]
    aurc: float
    e_aurc: float
    n: int
    n_dropped: int

    def risk_at(self, coverage: ArrayLike) -> NDArray[np.float64]:
        """Interpolate the expected errors, and give the risk at coverages in (0, 1].

        Two signals are compared at one coverage this way, also where a signal with few
        values has no operating point.
        """
        wanted = numbers(coverage, "coverage", None)
        if wanted.size and not (wanted.min() > 0.0 and wanted.max() <= 1.0):
            raise StatisticsError(f"coverage must be in (0, 1], it is {wanted}")
        if self.n == 0:
            return np.full(wanted.shape, np.nan)
        selected = np.concatenate([[0], self.n_selected])
        errors = np.interp(wanted * self.n, selected, np.r_[0, self.n_errors])
        return np.asarray(errors / (wanted * self.n))

    def __repr__(self) -> str:
        overall = self.risk[-1] if self.n else float("nan")
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"RiskCoverage(aurc={self.aurc:.4f}, excess={self.e_aurc:.4f}, error rate "
            f"{percent(overall)}, {len(self.thresholds)} thresholds, {self.n} items"
            f"{dropped})"
        )


def risk_coverage(confidence: ArrayLike, error: ArrayLike) -> RiskCoverage:
    """Risk-coverage curve and the area under it.

    Parameters
    ----------
    confidence : array_like, shape (n,), float
        Higher is surer. Infinities are ranked, NaN is left out.
    error : array_like, shape (n,), bool or 0/1
        Whether the answer is wrong; -1 and NaN are left out.

    Returns
    -------
    RiskCoverage

    Raises
    ------
    StatisticsError
        If the columns differ in length or hold what they must not.

    References
    ----------
    .. [1] Geifman, Uziel, El-Yaniv, "Bias-reduced uncertainty estimation for deep
       neural classifiers", ICLR 2019.

    Examples
    --------
    >>> risk_coverage([0.9, 0.8, 0.8, 0.1], [0, 0, 1, 1]).risk.round(3)
    array([0.   , 0.333, 0.5  ])
    """
    scores, wrong = column(confidence, "confidence"), indicator(error, "error")
    same_length(confidence=scores, error=wrong)
    kept = ~(np.isnan(scores) | np.isnan(wrong))
    ascending, block = np.unique(scores[kept], return_inverse=True)
    m, n = len(ascending), int(kept.sum())
    sizes = np.bincount(block, minlength=m)[::-1]
    errors = np.bincount(block, wrong[kept], minlength=m).astype(np.int64)[::-1]
    n_selected, n_errors = np.cumsum(sizes), np.cumsum(errors)
    aurc = excess = float("nan")
    if n:
        places = np.arange(1, n + 1)
        expected = np.interp(places, np.r_[0, n_selected], np.r_[0, n_errors])
        aurc = math.fsum(expected / places) / n
        oracle = np.maximum(0, places - (n - int(n_errors[-1])))
        excess = math.fsum((expected - oracle) / places) / n
    return RiskCoverage(
        thresholds=ascending[::-1],
        coverage=n_selected / n if n else np.empty(0),
        risk=n_errors / n_selected if n else np.empty(0),
        n_selected=n_selected,
        n_errors=n_errors,
        aurc=aurc,
        e_aurc=excess,
        n=n,
        n_dropped=len(kept) - n,
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RiskControl(Result):
    """Thresholds certified by a walk in a fixed order.

    Attributes
    ----------
    certified : int
        Leading thresholds whose risk is at most alpha, all of them together with
        probability 1 - delta; 0 when the first fails, even where later ones would pass.
    pvalues : ndarray, shape (J,), float64
        P(Bin(n_j, alpha) <= k_j): how likely so few errors are at a risk of alpha.
    n_selected, n_errors : ndarray, shape (J,), int64
    n_min : int
        The smallest first selection that can certify, with no error in it.
    bonferroni : int
        Thresholds that pass at delta / J in no order at all.
    alpha, delta : float
    """

    certified: int
    pvalues: NDArray[np.float64]
    n_selected: NDArray[np.int64]
    n_errors: NDArray[np.int64]
    n_min: int
    bonferroni: int
    alpha: float
    delta: float

    @property
    def last(self) -> int:
        """Index of the most permissive threshold certified; -1 for none."""
        return self.certified - 1

    @property
    def underpowered(self) -> bool:
        """Whether the first selection is too small to certify without any error."""
        return len(self.n_selected) == 0 or int(self.n_selected[0]) < self.n_min

    def __repr__(self) -> str:
        j = len(self.pvalues)
        first = ""
        if j:
            first = (
                f", the first has {self.n_errors[0]} errors in {self.n_selected[0]}, "
                f"p={self.pvalues[0]:.4g}"
            )
        return (
            f"RiskControl({self.certified} of {j} thresholds certified at risk "
            f"{self.alpha:g} with error probability {self.delta:g}{first}, n_min="
            f"{self.n_min}, fixed sequence, binomial)"
        )


def fixed_sequence(
    n_selected: ArrayLike, n_errors: ArrayLike, *, alpha: float, delta: float
) -> RiskControl:
    """Certify thresholds in an order fixed before the labels were seen.

    Threshold j is rejected as too risky unless ``p_j = P(Bin(n_j, alpha) <= k_j)`` is
    at most delta. The walk starts at the strictest threshold and ends at the first that
    fails; no correction for their number is needed, because the order was fixed [1]_.

    Parameters
    ----------
    n_selected, n_errors : array_like, shape (J,), int
        Calibration items selected at each threshold, strictest first, and errors among
        them.
    alpha : float
        Risk to be controlled, in (0, 1).
    delta : float
        Allowed probability of certifying a threshold above it, in (0, 1).

    Returns
    -------
    RiskControl

    Raises
    ------
    StatisticsError
        If the counts or the levels are out of range.

    References
    ----------
    .. [1] Angelopoulos, Bates, Candes, Jordan, Lei, "Learn then test",
       arXiv:2110.01052, section 2.2.

    Examples
    --------
    >>> fixed_sequence([25, 50, 100], [3, 4, 8], alpha=0.2, delta=0.1).certified
    0
    """
    n, k = integers(n_selected, "n_selected", 1), integers(n_errors, "n_errors", 1)
    same_length(n_selected=n, n_errors=k)
    n_min = smallest_certifiable(alpha, delta)
    if n.size and (k.min() < 0 or (k > n).any()):
        raise StatisticsError("n_errors must be in 0..n_selected")
    # with nothing selected nothing is known, and p is 1
    pvalues = np.asarray(binomial_cdf(k, n, alpha))
    passes = pvalues <= delta
    certified = len(n) if passes.all() else int(np.argmin(passes))
    return RiskControl(
        certified=certified,
        pvalues=pvalues,
        n_selected=n,
        n_errors=k,
        n_min=n_min,
        bonferroni=int((pvalues * len(n) <= delta).sum()),
        alpha=alpha,
        delta=delta,
    )


def control_risk(
    confidence: ArrayLike,
    error: ArrayLike,
    thresholds: ArrayLike,
    *,
    alpha: float,
    delta: float,
) -> RiskControl:
    """Select calibration items at each threshold and walk; see `fixed_sequence`.

    Parameters
    ----------
    confidence, error
        As in `risk_coverage`, of calibration items alone: split by cluster, and one
        model and benchmark at a time.
    thresholds : array_like, shape (J,), float
        Strictly descending, chosen without the labels; an item is selected when its
        confidence is at least the threshold.
    alpha, delta : float
        As in `fixed_sequence`.

    Returns
    -------
    RiskControl

    Raises
    ------
    StatisticsError
        If the thresholds do not descend, or as `fixed_sequence`.

    Examples
    --------
    >>> scores, wrong = [0.9] * 30 + [0.5] * 10, [0] * 30 + [1] * 10
    >>> control_risk(scores, wrong, [0.8, 0.4], alpha=0.2, delta=0.1).certified
    1
    """
    scores, wrong = column(confidence, "confidence"), indicator(error, "error")
    same_length(confidence=scores, error=wrong)
    steps = column(thresholds, "thresholds")
    if np.isnan(steps).any() or (steps[1:] >= steps[:-1]).any():
        raise StatisticsError("thresholds must descend strictly: strictest first")
    kept = ~(np.isnan(scores) | np.isnan(wrong))
    selected = scores[kept] >= steps[:, None]
    n_errors = (selected & (wrong[kept] == 1.0)).sum(axis=1)
    return fixed_sequence(selected.sum(axis=1), n_errors, alpha=alpha, delta=delta)


def smallest_certifiable(alpha: float, delta: float) -> int:
    """Count the items that certify a risk when none of them is an error.

    Parameters
    ----------
    alpha, delta : float
        As in `fixed_sequence`.

    Returns
    -------
    int
        The least n with ``(1 - alpha)**n <= delta``.

    Raises
    ------
    StatisticsError
        If a level is not in (0, 1).

    Examples
    --------
    >>> smallest_certifiable(0.2, 0.1)
    11
    """
    alpha = fraction_in(alpha, "alpha")
    delta = fraction_in(delta, "delta")
    return max(1, math.ceil(math.log(delta) / math.log1p(-alpha)))


def hoeffding_bentkus(
    risk: ArrayLike, n: ArrayLike, alpha: float, *, binary: bool = False
) -> NDArray[np.float64]:
    """P-value of a risk above alpha, for losses in [0, 1].

    Parameters
    ----------
    risk : array_like, float
        Mean loss on the calibration items, in [0, 1].
    n : array_like, int
        Their number, >= 1; broadcast against risk.
    alpha : float
        In (0, 1).
    binary : bool, default False
        Losses are 0 and 1: the binomial tail itself, which is never above Hoeffding's
        bound.

    Returns
    -------
    ndarray, float64
        The smaller of Hoeffding's and Bentkus' bound, at most 1.

    Raises
    ------
    StatisticsError
        If a number is out of range.

    References
    ----------
    .. [1] Bates, Angelopoulos, Lei, Malik, Jordan, "Distribution-free, risk-controlling
       prediction sets", Journal of the ACM 68 (2021).

    Examples
    --------
    >>> hoeffding_bentkus([0.04, 0.08], [50, 100], 0.2, binary=True).round(6)
    array([0.001285, 0.000855])
    """
    from scipy.special import rel_entr

    alpha = fraction_in(alpha, "alpha")
    share, size = numbers(risk, "risk", None), as_array(n, "n", StatisticsError)
    if share.size and not (share.min() >= 0.0 and share.max() <= 1.0):
        raise StatisticsError(f"risk must be in [0, 1], it is {share}")
    if size.dtype.kind not in "iu" or (size.size and size.min() < 1):
        raise StatisticsError(f"n must be whole numbers >= 1, it is {size}")
    # 0.28 * 25 is 7.000000000000001; one error more would be wrong
    errors = np.ceil(np.round(size * share, 9))
    tail = np.asarray(binomial_cdf(errors, size, alpha))
    if binary:
        return np.asarray(np.minimum(tail, 1.0))
    low = np.minimum(share, alpha)
    divergence = rel_entr(low, alpha) + rel_entr(1.0 - low, 1.0 - alpha)
    bounds = np.minimum(np.exp(-size * divergence), math.e * tail)
    return np.asarray(np.minimum(bounds, 1.0))
