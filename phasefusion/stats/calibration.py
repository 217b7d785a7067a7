"""Thresholds of adaptive phases: what they cost, what they change, which is safe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import gold_answers, integers, percent
from phasefusion.stats._exact import binomial_cdf
from phasefusion.stats._numbers import clusters, column, fraction_in, sums_by
from phasefusion.stats.adaptive import Walk, half_step_order, phase_order, walk_of
from phasefusion.stats.selective import hoeffding_bentkus, smallest_certifiable

#: Margins in nats, strictest first, fixed before anything is seen: all phases, then
#: from odds of 22,000 : 1 down to what one phase always has.
THRESHOLDS = (math.inf, *(step / 10 for step in range(100, -1, -1)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AdaptiveCurve(Result):
    """What adaptive phases change and cost, by threshold.

    Attributes
    ----------
    thresholds : ndarray, shape (J,), float64
        In nats, descending.
    mean_phases : ndarray, shape (J,), float64
        Passes an item.
    disagreement : ndarray, shape (J,), float64
        Share of items whose answer is not that of all phases.
    changes : ndarray, shape (J,), float64
        Share of items that are answered otherwise on the shifted grid; NaN without it.
    accuracy : ndarray, shape (J,), float64
        NaN without right answers.
    n, n_dropped : int
        Items with every phase, on both grids, and those left out.
    """

    thresholds: NDArray[np.float64]
    mean_phases: NDArray[np.float64]
    disagreement: NDArray[np.float64]
    changes: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    n: int
    n_dropped: int

    def __repr__(self) -> str:
        spans = "no thresholds"
        if self.n and len(self.thresholds):
            spans = (
                f"{self.mean_phases[0]:.3g} to {self.mean_phases[-1]:.3g} phases over "
                f"{len(self.thresholds)} thresholds"
            )
        return f"AdaptiveCurve({spans}, {self.n} items, {self.n_dropped} dropped)"


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Items with every phase at every threshold, shape (J, n)."""

    kept: NDArray[np.bool_]
    n_phases: NDArray[np.int64]
    answers: NDArray[np.int64]
    full: NDArray[np.int64]
    moved: NDArray[np.int64] | None

    @property
    def losses(self) -> NDArray[np.bool_]:
        """What is counted: changes on the shifted grid, or else against all phases."""
        other = self.full[None] if self.moved is None else self.moved
        return np.asarray(self.answers != other)


def _sweep(walk: Walk, moved: Walk | None, thresholds: NDArray[np.float64]) -> _Sweep:
    kept = walk.complete
    if moved is not None:
        kept = kept & moved.complete
    lasts = [walk.last(t)[kept] for t in thresholds.tolist()]
    rows = Walk(walk.answers[kept], walk.margins[kept])
    n = int(kept.sum())
    shape = (len(thresholds), n)
    there = None
    if moved is not None:
        twin = Walk(moved.answers[kept], moved.margins[kept])
        found = [twin.at(twin.last(t)) for t in thresholds.tolist()]
        there = np.array(found, dtype=np.int64).reshape(shape)
    return _Sweep(
        kept=kept,
        n_phases=np.array(lasts, dtype=np.int64).reshape(shape) + 1,
        answers=np.array([rows.at(x) for x in lasts], dtype=np.int64).reshape(shape),
        full=rows.answers[:, -1],
        moved=there,
    )


def _descending(thresholds: ArrayLike | None) -> NDArray[np.float64]:
    steps = column(THRESHOLDS if thresholds is None else thresholds, "thresholds")
    if np.isnan(steps).any() or (steps < 0.0).any() or (steps[1:] >= steps[:-1]).any():
        raise StatisticsError(
            "thresholds must be margins >= 0 that descend strictly: strictest first"
        )
    return steps


def _mean(table: NDArray[np.generic]) -> NDArray[np.float64]:
    """Means over items, NaN without any."""
    if not table.shape[1]:
        return np.full(len(table), np.nan)
    return np.asarray(table.mean(axis=1, dtype=np.float64))


def adaptive_curve(
    posteriors: ArrayLike,
    thresholds: ArrayLike | None = None,
    *,
    shifted: ArrayLike | None = None,
    gold: ArrayLike | None = None,
    order: ArrayLike | None = None,
    shifted_order: ArrayLike | None = None,
    n_options: ArrayLike | None = None,
    item_ids: Sequence[str] | None = None,
    seed: int = 0,
) -> AdaptiveCurve:
    """Cost, changes and accuracy of adaptive phases over thresholds.

    Parameters
    ----------
    posteriors : array_like, shape (n, S, K), float
        As in `adaptive_phases`; items without every phase are left out and counted.
    thresholds : array_like, shape (J,), float, optional
        In nats, strictly descending; inf and 10 to 0 in tenths by default.
    shifted : array_like, shape (n, S, K), float, optional
        Of the grid moved by half a step, on which the phases are added anew.
    gold : array_like, shape (n,), int, optional
        Right content indices, -1 where they are not known.
    order, n_options, item_ids, seed
        As in `adaptive_phases`.
    shifted_order : array_like, shape (S,), int, optional
        Of the shifted phases; `half_step_order` of `order` by default.

    Returns
    -------
    AdaptiveCurve

    Raises
    ------
    StatisticsError
        As `adaptive_phases`, or if the thresholds do not descend.

    Examples
    --------
    >>> views = [[[0.9, 0.1], [0.6, 0.4]], [[0.55, 0.45], [0.1, 0.9]]]
    >>> adaptive_curve(views, [9.0, 1.0, 0.0], order=[0, 1]).mean_phases
    array([2. , 1.5, 1. ])
    """
    steps = _descending(thresholds)
    made = _both_walks(
        posteriors, shifted, order, shifted_order, n_options, item_ids, seed
    )
    sweep = _sweep(*made, steps)
    nothing = np.full(len(steps), np.nan)
    right = nothing
    if gold is not None:
        wanted = integers(gold, "gold", 1, missing=-1)
        known = wanted >= 0
        gold_answers(np.where(known, wanted, 0), len(sweep.kept))
        known, wanted = known[sweep.kept], wanted[sweep.kept]
        right = _mean((sweep.answers == wanted)[:, known])
    n = int(sweep.kept.sum())
    return AdaptiveCurve(
        thresholds=steps,
        mean_phases=_mean(sweep.n_phases),
        disagreement=_mean(sweep.answers != sweep.full),
        changes=nothing if sweep.moved is None else _mean(sweep.losses),
        accuracy=right,
        n=n,
        n_dropped=len(sweep.kept) - n,
    )


def _both_walks(
    posteriors: ArrayLike,
    shifted: ArrayLike | None,
    order: ArrayLike | None,
    shifted_order: ArrayLike | None,
    n_options: ArrayLike | None,
    item_ids: Sequence[str] | None,
    seed: int,
) -> tuple[Walk, Walk | None]:
    walk = walk_of(posteriors, order, n_options, item_ids, seed)
    if shifted is None:
        return walk, None
    n, s = walk.answers.shape
    if np.shape(shifted)[:2] != (n, s):
        raise StatisticsError(
            f"shifted has shape {np.shape(shifted)}; there are {n} items of {s} phases"
        )
    if shifted_order is None:
        there = half_step_order(phase_order(s) if order is None else order)
    else:
        there = as_array(shifted_order, "shifted_order", StatisticsError)
    return walk, walk_of(shifted, there, n_options, item_ids, seed, "shifted")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AdaptiveCalibration(Result):
    """A threshold of adaptive phases, certified by a walk in a fixed order.

    Attributes
    ----------
    threshold : float
        In nats: the lowest that is certified, hence the cheapest. NaN when the
        strictest one fails already; then even all phases change too much, or the items
        are too few.
    certified : int
        Leading thresholds whose risk is at most alpha, all of them together with
        probability 1 - delta.
    thresholds, risks, mean_phases, pvalues : ndarray, shape (J,), float64
        Of each threshold: share of calibration items that it changes, passes an item,
        and how likely so few changes are at a risk of alpha.
    n, n_clusters, n_dropped : int
    n_min : int
        The fewest items (or clusters) that can certify, with no change among them.
    alpha, delta : float
    target : {"all phases", "half a step"}
        What an answer is compared with.
    """

    threshold: float
    certified: int
    thresholds: NDArray[np.float64]
    risks: NDArray[np.float64]
    mean_phases: NDArray[np.float64]
    pvalues: NDArray[np.float64]
    n: int
    n_clusters: int
    n_dropped: int
    n_min: int
    alpha: float
    delta: float
    target: str

    @property
    def underpowered(self) -> bool:
        """Whether the items are too few to certify anything, even without a change."""
        return self.n_clusters < self.n_min

    def __repr__(self) -> str:
        found = "nothing certified"
        if self.certified:
            j = self.certified - 1
            found = (
                f"threshold {self.threshold:g} nats, {self.mean_phases[j]:.3f} phases, "
                f"{percent(self.risks[j])} change"
            )
        return (
            f"AdaptiveCalibration({found}; against {self.target} at risk "
            f"{self.alpha:g} with error probability {self.delta:g}, {self.n} items in "
            f"{self.n_clusters} clusters, {self.n_dropped} dropped)"
        )


def calibrate_adaptive(
    posteriors: ArrayLike,
    *,
    alpha: float,
    delta: float,
    shifted: ArrayLike | None = None,
    thresholds: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    order: ArrayLike | None = None,
    shifted_order: ArrayLike | None = None,
    n_options: ArrayLike | None = None,
    item_ids: Sequence[str] | None = None,
    seed: int = 0,
) -> AdaptiveCalibration:
    """Find the cheapest threshold whose answers change rarely enough, for certain.

    An item is changed when its adaptive answer is not that of all S phases or, given
    `shifted`, not the adaptive answer half a step on. Thresholds are tested from the
    strictest, which runs all phases, to the most permissive, until one fails: its
    p-value, that of a risk above `alpha`, exceeds `delta` [1]_. No right answers are
    needed.

    Parameters
    ----------
    posteriors, shifted
        As in `adaptive_curve`, of calibration items alone: what is answered later must
        be drawn as they were.
    alpha : float
        Risk to be controlled, in (0, 1): of a new item's answer to be changed.
    delta : float
        Allowed probability of a threshold whose risk is above it, in (0, 1).
    thresholds : array_like, shape (J,), float, optional
        Strictly descending, chosen without these items.
    cluster : array_like, shape (n,), optional
        Clusters of items, such as videos. Changes are then averaged in each, the risk
        is that of an item of a random cluster, and p-values are Hoeffding-Bentkus
        bounds over clusters; without it items are independent and p-values exact.
    order, shifted_order, n_options, item_ids, seed
        As in `adaptive_curve`.

    Returns
    -------
    AdaptiveCalibration

    Raises
    ------
    StatisticsError
        As `adaptive_curve`, or if a level is not in (0, 1).

    References
    ----------
    .. [1] Angelopoulos, Bates, Candes, Jordan, Lei, "Learn then test",
       arXiv:2110.01052, section 2.2.

    See Also
    --------
    fixed_sequence : the same walk over selected answers

    Examples
    --------
    >>> sure, unsure = [[0.9, 0.1]] * 3, [[0.6, 0.4], [0.2, 0.8], [0.2, 0.8]]
    >>> made = calibrate_adaptive(
    ...     [sure] * 95 + [unsure] * 5, alpha=0.02, delta=0.2, order=[0, 1, 2]
    ... )
    >>> made.threshold, made.certified
    (0.5, 97)
    """
    alpha = fraction_in(alpha, "alpha")
    delta = fraction_in(delta, "delta")
    steps = _descending(thresholds)
    walks = _both_walks(
        posteriors, shifted, order, shifted_order, n_options, item_ids, seed
    )
    sweep = _sweep(*walks, steps)
    n = int(sweep.kept.sum())
    risks, pvalues, n_clusters = _risks(sweep, cluster, alpha)
    passes = pvalues <= delta
    certified = len(steps) if passes.all() else int(np.argmin(passes))
    return AdaptiveCalibration(
        threshold=float(steps[certified - 1]) if certified else float("nan"),
        certified=certified,
        thresholds=steps,
        risks=risks,
        mean_phases=_mean(sweep.n_phases),
        pvalues=pvalues,
        n=n,
        n_clusters=n_clusters,
        n_dropped=len(sweep.kept) - n,
        n_min=smallest_certifiable(alpha, delta),
        alpha=alpha,
        delta=delta,
        target="all phases" if shifted is None else "half a step",
    )


def _risks(
    sweep: _Sweep, cluster: ArrayLike | None, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Risks, p-values and the number of clusters."""
    losses = sweep.losses
    n = losses.shape[1]
    if not n:
        return np.full(len(losses), np.nan), np.ones(len(losses)), 0
    if cluster is None:
        k = losses.sum(axis=1)
        return k / n, np.asarray(binomial_cdf(k, np.full(len(k), n), alpha)), n
    labels = as_array(cluster, "cluster", StatisticsError)
    if labels.shape != (len(sweep.kept),):
        raise StatisticsError(
            f"cluster must have shape ({len(sweep.kept)},), it has {labels.shape}"
        )
    group, n_groups = clusters(labels[sweep.kept], n)
    sizes = np.bincount(group, minlength=n_groups)
    risks = np.array(
        [
            math.fsum(sums_by(group, n_groups, row.astype(np.float64)) / sizes)
            / n_groups
            for row in losses
        ]
    )
    counts = np.full(len(losses), n_groups)
    return risks, hoeffding_bentkus(np.minimum(risks, 1.0), counts, alpha), n_groups
