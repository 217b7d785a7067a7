"""How well a score tells items apart: AUROC with its intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._arrays import as_array
from phasefusion._random import MASK_64, check_seed
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._numbers import (
    classes_and_scores,
    clusters,
    column,
    indicator,
    same_length,
    sums_by,
)
from phasefusion.stats.proportions import check_level


@dataclass(frozen=True, slots=True, repr=False)
class Auroc(Result):
    """Area under the ROC curve with its interval.

    Attributes
    ----------
    value : float
        Chance that a positive item has the higher score, half of it for equal ones; NaN
        when a class is empty.
    variance, se : float
        DeLong's variance, Obuchowski's with clusters; NaN where a class (or, with
        clusters, the clusters of a class) has fewer than two.
    low, high : float
        Wald interval cut off at 0 and 1. For a degenerate AUROC of 0 or 1 the far end
        is the exact bound of as many independent pairs as the smaller class has items
        (or clusters with one), none of them out of order; of equal scores both ends are
        that of pairs that are not equal. NaN where the variance is 0 for another
        reason: it is no measure of what is not known.
    logit_low, logit_high : float
        Wald interval of the log-odds, mapped back; NaN when degenerate.
    degenerate : bool
        Variance 0, as when the classes are separated or every score is the same.
    n_positive, n_negative, n_dropped : int
    n_clusters : int or None
    confidence_level : float
    """

    value: float
    variance: float
    se: float
    low: float
    high: float
    logit_low: float
    logit_high: float
    degenerate: bool
    n_positive: int
    n_negative: int
    n_dropped: int
    n_clusters: int | None
    confidence_level: float

    @property
    def method(self) -> str:
        """Name of the variance."""
        return "DeLong" if self.n_clusters is None else "Obuchowski"

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        within = (
            f" in {self.n_clusters} clusters" if self.n_clusters is not None else ""
        )
        degenerate = ", degenerate" if self.degenerate else ""
        return (
            f"Auroc({self.value:.4f} [{self.low:.4f}, {self.high:.4f}], "
            f"{self.n_positive} positive and {self.n_negative} negative{within}"
            f"{dropped}, {self.method} at {self.confidence_level:g}{degenerate})"
        )


def auroc(
    positive: ArrayLike,
    score: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> Auroc:
    """Area under the ROC curve, by ranks.

    Parameters
    ----------
    positive : array_like, shape (n,), bool or 0/1
        The class of each item; -1 and NaN are undefined and left out.
    score : array_like, shape (n,), float
        Higher means positive. Infinities are ranked, NaN is left out.
    cluster : array_like, shape (n,), optional
        Labels of dependent items (several models on one question): the variance is
        Obuchowski's [2]_. Without, it is DeLong's [1]_; the two are equal when every
        item is its own cluster.
    confidence_level : float, default 0.95

    Returns
    -------
    Auroc

    Raises
    ------
    StatisticsError
        If the columns differ in length or hold what they must not.

    References
    ----------
    .. [1] DeLong, DeLong, Clarke-Pearson, Biometrics 44 (1988), computed from mid-ranks
       as in Sun and Xu, IEEE Signal Processing Letters 21 (2014).
    .. [2] Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics
       53 (1997).

    Examples
    --------
    >>> auroc([0, 0, 1, 1, 0, 1], [0.1, 0.4, 0.35, 0.8, 0.4, 0.9])
    Auroc(0.7778 [0.2908, 1.0000], 3 positive and 3 negative, DeLong at 0.95)
    """
    check_level(confidence_level)
    classes, scores, kept = classes_and_scores(positive, score)
    labels = None
    if cluster is not None:
        group, _ = clusters(cluster, len(kept))
        labels = group[kept]
    return _auroc(classes, scores, labels, int((~kept).sum()), confidence_level)


def _ranked(
    classes: NDArray[np.bool_], scores: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Ascending order of the scores, classes in it, and where a new score begins."""
    order = np.argsort(scores, kind="stable")
    ascending = scores[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = ascending[1:] != ascending[:-1]
    return order, classes[order], new


def _auroc(
    classes: NDArray[np.bool_],
    scores: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    n_dropped: int,
    level: float,
) -> Auroc:
    order, ranked, new = _ranked(classes, scores)
    m = int(classes.sum())
    n = len(classes) - m
    n_clusters = None if labels is None else len(np.unique(labels))
    if m == 0 or n == 0:
        nan = float("nan")
        return Auroc(
            nan, nan, nan, nan, nan, nan, nan, False, m, n, n_dropped, n_clusters, level
        )
    # twice the number of items of the other class that an item is above, half for ties
    doubled = _core.ranking_placements(ranked, new)
    area = int(np.dot(doubled, ranked)) / (2 * m * n)
    smaller = min(m, n)
    if labels is None:
        first = _delong(doubled, ranked, 2 * n)
        variance = first + _delong(doubled, ~ranked, 2 * m)
    else:
        placed = np.empty(len(order))
        placed[order] = doubled / np.where(ranked, 2 * n, 2 * m)
        # of a negative item the share of positives *above* it is what counts
        deviation = np.where(classes, placed - area, 1.0 - placed - area)
        variance = _obuchowski(deviation, classes, labels)
        smaller = min(len(np.unique(labels[part])) for part in (classes, ~classes))
    se = math.sqrt(variance) if variance >= 0.0 else float("nan")
    equal = not new[1:].any()
    low, high, logit_low, logit_high = _auroc_intervals(area, se, smaller, equal, level)
    return Auroc(
        area,
        variance,
        se,
        low,
        high,
        logit_low,
        logit_high,
        variance == 0.0,
        m,
        n,
        n_dropped,
        n_clusters,
        level,
    )


def _delong(doubled: NDArray[np.int64], chosen: NDArray[np.bool_], unit: int) -> float:
    """Variance of the mean placement of the chosen items, from placements in a unit."""
    weight = chosen.astype(np.float64)
    n = int(weight.sum())
    if n < 2:
        return float("nan")
    # in the order of the scores, so that the sums are the same for every input
    placed = doubled.astype(np.float64)
    deviations = (placed - np.dot(placed, weight) / n) * weight
    return float(np.dot(deviations, deviations)) / (n - 1) / n / unit**2


def _obuchowski(
    deviation: NDArray[np.float64],
    classes: NDArray[np.bool_],
    labels: NDArray[np.int64],
) -> float:
    """Variance from the cluster sums of the placements' deviations."""
    _, group = np.unique(labels, return_inverse=True)
    n_clusters = int(group.max()) + 1
    m, n = int(classes.sum()), int((~classes).sum())
    of_positives = sums_by(group[classes], n_clusters, deviation[classes])
    of_negatives = sums_by(group[~classes], n_clusters, deviation[~classes])
    with_positive = len(np.unique(group[classes]))
    with_negative = len(np.unique(group[~classes]))
    if min(with_positive, with_negative) < 2:
        return float("nan")

    def total(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        return float(np.sort(a * b).sum())

    s10 = with_positive / (with_positive - 1) * total(of_positives, of_positives) / m
    s01 = with_negative / (with_negative - 1) * total(of_negatives, of_negatives) / n
    s11 = n_clusters / (n_clusters - 1) * total(of_positives, of_negatives)
    variance = s10 / m + s01 / n + 2.0 * s11 / (m * n)
    return max(variance, 0.0)  # the cross term may be negative


def _auroc_intervals(
    area: float, se: float, smaller_class: int, equal: bool, level: float
) -> tuple[float, float, float, float]:
    """Wald and logit interval; the exact bound where the variance is 0.

    Of so many pairs none is out of order, or none is unequal when all scores are equal.
    """
    from scipy.special import expit, logit, ndtri

    nan = float("nan")
    tail = (1.0 - level) / 2.0
    z = -float(ndtri(tail))
    if math.isnan(se):
        return nan, nan, nan, nan
    if se == 0.0:
        bound = tail ** (1.0 / smaller_class)
        if equal:
            return bound / 2.0, 1.0 - bound / 2.0, nan, nan
        if area not in (0.0, 1.0):
            return nan, nan, nan, nan
        return (bound, 1.0, nan, nan) if area == 1.0 else (0.0, 1.0 - bound, nan, nan)
    low, high = max(0.0, area - z * se), min(1.0, area + z * se)
    if not 0.0 < area < 1.0:
        return low, high, nan, nan
    half = z * se / (area * (1.0 - area))
    center = float(logit(area))
    return low, high, float(expit(center - half)), float(expit(center + half))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AurocBootstrap(Result):
    """AUROC of resampled items.

    Attributes
    ----------
    value : float
        AUROC of the items themselves.
    se, low, high : float
        Standard deviation and percentiles of the replicates; NaN without any. Where no
        replicate differs from another, the interval is that of `auroc`.
    replicates : ndarray, shape (n_resamples - n_undefined,), float64
    n_undefined : int
        Resamples that lack a class, left out.
    n_resamples, seed, n_positive, n_negative, n_dropped : int
    confidence_level : float
    """

    value: float
    se: float
    low: float
    high: float
    replicates: NDArray[np.float64]
    n_undefined: int
    n_resamples: int
    seed: int
    n_positive: int
    n_negative: int
    n_dropped: int
    confidence_level: float

    def __repr__(self) -> str:
        return (
            f"AurocBootstrap({self.value:.4f} [{self.low:.4f}, {self.high:.4f}], "
            f"{self.n_positive} positive and {self.n_negative} negative, "
            f"{self.n_dropped} dropped, percentile at {self.confidence_level:g}, "
            f"{self.n_resamples} resamples of items, seed {self.seed}, "
            f"{self.n_undefined} undefined)"
        )


def auroc_bootstrap(
    positive: ArrayLike,
    score: ArrayLike,
    *,
    n_resamples: int = 10_000,
    seed: int = 0,
    confidence_level: float = 0.95,
) -> AurocBootstrap:
    """Bootstrap the AUROC over items.

    The items are put in the order of their scores first and replicate r has a stream of
    random numbers of its own, so the result depends on the seed alone: not on the order
    of the items, not on threads.

    Parameters
    ----------
    positive, score
        As in `auroc`.
    n_resamples : int, default 10000
    seed : int, default 0
    confidence_level : float, default 0.95

    Returns
    -------
    AurocBootstrap

    Raises
    ------
    StatisticsError
        As `auroc`; if n_resamples is below 1 or there are 2**32 items or more.

    Examples
    --------
    >>> made = auroc_bootstrap([0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0], n_resamples=100)
    >>> made.value, round(made.low, 4), made.high
    (1.0, 0.1581, 1.0)
    """
    check_level(confidence_level)
    seed = check_seed(seed)
    if n_resamples < 1:
        raise StatisticsError(f"n_resamples must be >= 1, it is {n_resamples}")
    classes, scores, kept = classes_and_scores(positive, score)
    if len(classes) >= 2**32:
        raise StatisticsError(f"{len(classes)} items, fewer than 2**32 can be drawn")
    point = _auroc(classes, scores, None, int((~kept).sum()), confidence_level)
    replicates = np.empty(0)
    if len(classes):
        # equal scores: negatives first, so that the order is the same for every input
        order = np.lexsort((classes, scores))
        _, _, new = _ranked(classes, scores)
        replicates = _core.ranking_bootstrap(
            classes[order], new, n_resamples, seed & MASK_64
        )
    made = replicates[~np.isnan(replicates)]
    tail = 50.0 * (1.0 - confidence_level)
    nan = float("nan")
    low, high = np.percentile(made, [tail, 100.0 - tail]) if len(made) else (nan, nan)
    if len(made) and made.min() == made.max():
        low, high = point.low, point.high
    return AurocBootstrap(
        value=point.value,
        se=float(made.std(ddof=1)) if len(made) > 1 else nan,
        low=float(low),
        high=float(high),
        replicates=made,
        n_undefined=n_resamples - len(made),
        n_resamples=n_resamples,
        seed=seed,
        n_positive=point.n_positive,
        n_negative=point.n_negative,
        n_dropped=point.n_dropped,
        confidence_level=confidence_level,
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FlipAuroc(Result):
    """How well low margins rank flips, over cells of one model and benchmark each.

    Attributes
    ----------
    cells : dict of Auroc
        By cell, in the order of their names.
    mean_of_cells : float
        Of the cells that have both classes; NaN without any.
    pooled : Auroc
        All items ranked together. Margins of different cells are on different scales,
        so this is not the mean.
    """

    cells: dict[Any, Auroc]
    mean_of_cells: float
    pooled: Auroc

    def __repr__(self) -> str:
        defined = sum(not math.isnan(cell.value) for cell in self.cells.values())
        return (
            f"FlipAuroc(mean of {defined} cells {self.mean_of_cells:.4f}, "
            f"pooled {self.pooled.value:.4f}, {len(self.cells) - defined} undefined)"
        )


def flip_auroc(
    margins: ArrayLike,
    flipped: ArrayLike,
    *,
    cell: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> FlipAuroc:
    """AUROC of low answer margins for flips: per cell, mean of cells, pooled.

    Parameters
    ----------
    margins : array_like, shape (n,), float
        Margins of one plain pass, in nats; inf is the surest, NaN is left out.
    flipped : array_like, shape (n,), bool or 0/1
        Whether the item flips; -1 (fewer than two passes) is left out.
    cell : array_like, shape (n,), optional
        Model and benchmark of each item; one cell by default.
    cluster : array_like, shape (n,), optional
        As in `auroc`.
    confidence_level : float, default 0.95

    Returns
    -------
    FlipAuroc

    Raises
    ------
    StatisticsError
        As `auroc`.

    Examples
    --------
    >>> flip_auroc([0.1, 2.0, 0.3, 5.0], [1, 0, 1, 0], cell=["a", "a", "b", "b"])
    FlipAuroc(mean of 2 cells 1.0000, pooled 1.0000, 0 undefined)
    """
    scores, classes = -column(margins, "margins"), indicator(flipped, "flipped")
    same_length(margins=scores, flipped=classes)
    cells = (
        np.zeros(len(scores), int)
        if cell is None
        else as_array(cell, "cell", StatisticsError)
    )
    groups = None if cluster is None else as_array(cluster, "cluster", StatisticsError)
    if cells.shape != scores.shape:
        raise StatisticsError(f"cell must have shape {scores.shape}, it {cells.shape}")

    def over(chosen: Any) -> Auroc:
        return auroc(
            classes[chosen],
            scores[chosen],
            cluster=None if groups is None else groups[chosen],
            confidence_level=confidence_level,
        )

    by_cell = {name: over(cells == name) for name in np.unique(cells).tolist()}
    values = [made.value for made in by_cell.values() if not math.isnan(made.value)]
    mean = math.fsum(values) / len(values) if values else float("nan")
    return FlipAuroc(by_cell, mean, over(slice(None)))
