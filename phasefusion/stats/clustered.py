"""Proportions of items that come in clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from phasefusion._results import Result
from phasefusion.errors import StatisticsError
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
        clusters, unless the design effect was given.
    k, n, n_clusters, n_dropped : int
    design_effect : float
        The one given, or the variance by clusters (CR1) over that of independent items;
        not below 1. Where nothing varies there is none to estimate, and it is the
        items a cluster: each cluster counts as one item.
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


@dataclass(frozen=True, slots=True)
class EffectiveInterval:
    """Wilson's interval of as many independent items as those in clusters are worth."""

    low: float
    high: float
    design_effect: float
    n_effective: float


def effective_interval(
    share: float,
    n: int,
    n_clusters: int,
    design_effect: float,
    level: float,
    *,
    known: bool = False,
) -> EffectiveInterval:
    """Interval of a share of n items in clusters.

    An effect below 1 counts as 1, for a sample finds one by chance. NaN is that of a
    sample in which nothing varies: it cannot show that the items of a cluster are
    independent, so they count as one. A known effect needs no second cluster.
    """
    nan = float("nan")
    if math.isnan(design_effect):
        design_effect = n / n_clusters if n_clusters else 1.0
    effect = max(1.0, design_effect)
    effective = n / effect
    low, high = nan, nan
    if n and (known or n_clusters >= 2):
        low, high = score_interval(share * effective, effective, level)
    return EffectiveInterval(low, high, effect, effective)


def clustered_proportion(
    values: ArrayLike,
    cluster: ArrayLike,
    *,
    design_effect: float | None = None,
    confidence_level: float = 0.95,
) -> ClusteredProportion:
    """Share of items with a property, when items come in clusters.

    Near 0 and 1, where the t interval of `clustered_mean` is cut off and too short.

    Parameters
    ----------
    values : array_like, shape (n,), bool or 0/1
        -1 and NaN are undefined: left out and counted.
    cluster : array_like, shape (n,)
        Label of each item's cluster.
    design_effect : float, optional
        From elsewhere, such as `planning.Design.from_icc` or a pilot, where these items
        are too few or too alike to estimate it; below 1 it counts as 1.
    confidence_level : float, default 0.95

    Returns
    -------
    ClusteredProportion

    Raises
    ------
    StatisticsError
        If the columns differ in length, values hold anything else or the design effect
        is not above 0 and finite.

    References
    ----------
    .. [1] Korn and Graubard, "Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data", Survey Methodology 24
       (1998), for the effective sample size.

    Examples
    --------
    >>> clustered_proportion([1, 1, 0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 2, 2, 3, 3]).k
    3
    >>> clustered_proportion([0] * 60, [0] * 30 + [1] * 30).n_effective
    2.0
    """
    if design_effect is not None and not 0.0 < design_effect < math.inf:
        raise StatisticsError(
            f"design_effect must be > 0 and finite, it is {design_effect}"
        )
    given = indicator(values, "values")
    made = clustered_mean(
        given, cluster, confidence_level=confidence_level, limits=(0.0, 1.0)
    )
    k = 0 if not made.n else round(made.mean * made.n)
    interval = effective_interval(
        made.mean,
        made.n,
        made.n_clusters,
        made.design_effect if design_effect is None else design_effect,
        confidence_level,
        known=design_effect is not None,
    )
    return ClusteredProportion(
        value=made.mean,
        low=interval.low,
        high=interval.high,
        k=k,
        n=made.n,
        n_clusters=made.n_clusters,
        n_dropped=made.n_dropped,
        design_effect=interval.design_effect,
        n_effective=interval.n_effective,
        confidence_level=confidence_level,
    )
