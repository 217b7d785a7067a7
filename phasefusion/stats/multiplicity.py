"""Families of tests: p-values adjusted for their number."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import check_choice
from phasefusion.stats._numbers import column

Adjustment: TypeAlias = Literal["holm", "bonferroni", "bh", "by"]
_ADJUSTMENTS = ("holm", "bonferroni", "bh", "by")


def adjust_pvalues(
    pvalues: ArrayLike, method: Adjustment = "holm"
) -> NDArray[np.float64]:
    """Adjust the p-values of one family of tests.

    Parameters
    ----------
    pvalues : array_like, shape (n,), float
        The whole family, declared before looking. NaN is a test that was not made: it
        stays NaN and does not count.
    method : {'holm', 'bonferroni', 'bh', 'by'}, default 'holm'
        Holm and Bonferroni bound the chance of any false rejection under every
        dependence; Benjamini-Hochberg the expected share of false ones among the
        rejections, for independent or positively dependent tests;
        Benjamini-Yekutieli the same under every dependence.

    Returns
    -------
    ndarray, shape (n,), float64
        To be compared with the level directly.

    Raises
    ------
    StatisticsError
        If a p-value is not in [0, 1] or the method is unknown.

    References
    ----------
    .. [1] Holm, Scandinavian Journal of Statistics 6 (1979); Benjamini and Hochberg,
       JRSS B 57 (1995); Benjamini and Yekutieli, Annals of Statistics 29 (2001).

    Examples
    --------
    >>> adjust_pvalues([0.01, 0.04, float("nan"), 0.03])
    array([0.03, 0.06,  nan, 0.06])
    """
    check_choice(method, _ADJUSTMENTS, "method")
    given = column(pvalues, "pvalues")
    known = ~np.isnan(given)
    p = given[known]
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise StatisticsError(
            f"p-values must be in [0, 1], they reach from {p.min()} to {p.max()}"
        )
    m = len(p)
    order = np.argsort(p, kind="stable")
    rank = np.arange(1, m + 1)
    ascending = p[order]
    if method == "bonferroni":
        made = ascending * m
    elif method == "holm":
        made = np.maximum.accumulate(ascending * (m + 1 - rank))
    else:
        scale = float(np.sum(1.0 / rank)) if method == "by" else 1.0
        steps = np.maximum(ascending * (m * scale) / rank, ascending)  # as rounded
        made = np.minimum.accumulate(steps[::-1])[::-1]
    adjusted = np.full(given.shape, np.nan)
    adjusted[np.flatnonzero(known)[order]] = np.minimum(made, 1.0)
    return adjusted
