"""Proportions of items that come in clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from phasefusion._results import Result
from phasefusion.stats._answers import percent
from phasefusion.stats._numbers import indicator
from phasefusion.stats.equivalence import clustered_mean
from phasefusion.stats.proportions import score_interval


@dataclass(frozen=True, slots=True, repr=False)
class ClusteredProportion(Result):
    """Share of items in clusters, with an interval that stays inside [0, 1].

    Attributes
    ----------
    value : float
    low, high : float
        Wilson's interval for n over the design effect; NaN with fewer than two
        clusters.
    k, n, n_clusters, n_dropped : int
    design_effect : float
        Variance by clusters (CR1) over that of independent items, not below 1; 1 where
        nothing varies.
    n_effective : float
        n over the design effect.
    confidence_level : float
    """

    value: float
    low: float
    high: float
    k: int
    n: int
    n_clusters: int
    n_dropped: int
    design_effect: float
    n_effective: float
    confidence_level: float

    @property
    def method(self) -> str:
        """Name of the interval."""
        return "Wilson at the effective n"

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"ClusteredProportion({percent(self.value)} [{percent(self.low)}, "
            f"{percent(self.high)}], {self.k} of {self.n} in {self.n_clusters} "
            f"clusters{dropped}, design effect {self.design_effect:.3g}, wilson at "
            f"{self.confidence_level:g})"
        )


def clustered_proportion(
    values: ArrayLike, cluster: ArrayLike, *, confidence_level: float = 0.95
) -> ClusteredProportion:
    """Share of items with a property, when items come in clusters.

    Near 0 and 1, where the interval of `clustered_mean` may leave [0, 1].

    Parameters
    ----------
    values : array_like, shape (n,), bool or 0/1
        -1 and NaN are undefined: left out and counted.
    cluster : array_like, shape (n,)
        Label of each item's cluster.
    confidence_level : float, default 0.95

    Returns
    -------
    ClusteredProportion

    Raises
    ------
    StatisticsError
        If the columns differ in length or values hold anything else.

    References
    ----------
    .. [1] Korn and Graubard, "Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data", Survey Methodology 24
       (1998), for the effective sample size.

    Examples
    --------
    >>> clustered_proportion([1, 1, 0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 2, 2, 3, 3]).k
    3
    """
    given = indicator(values, "values")
    made = clustered_mean(given, cluster, confidence_level=confidence_level)
    k = 0 if not made.n else round(made.mean * made.n)
    effect = made.design_effect
    effect = 1.0 if math.isnan(effect) else max(1.0, effect)
    n_effective = made.n / effect
    low = high = float("nan")
    if made.n_clusters >= 2:
        hits = made.mean * n_effective
        low, high = score_interval(hits, n_effective, confidence_level)
    return ClusteredProportion(
        value=made.mean,
        low=low,
        high=high,
        k=k,
        n=made.n,
        n_clusters=made.n_clusters,
        n_dropped=made.n_dropped,
        design_effect=effect,
        n_effective=n_effective,
        confidence_level=confidence_level,
    )
