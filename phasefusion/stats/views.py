"""One item under several views: floors of change, worst cases, ranks of models."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array
from phasefusion._random import check_seed
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import answer_table, gold_answers, percent
from phasefusion.stats._numbers import (
    clusters,
    finite_column,
    indicator,
    numbers,
    same_length,
)
from phasefusion.stats.equivalence import ClusteredMean, clustered_mean
from phasefusion.stats.paired import McNemar, discordant, mcnemar
from phasefusion.stats.proportions import (
    Proportion,
    accuracy,
    check_level,
    proportion_upper,
)
from phasefusion.stats.resampling import cluster_bootstrap


@dataclass(frozen=True, slots=True, repr=False)
class FlipRatio(Result):
    """A flip rate over the floor of re-runs that change nothing.

    Attributes
    ----------
    ratio : float
        rate / floor; inf for a floor of 0, NaN without items.
    low, high : float
        Percentiles over resampled clusters, both rates from the same ones; NaN for a
        floor of 0.
    rate, floor : float
    floor_upper : float
        One-sided exact upper bound of the floor, at the level of the interval: over
        items, and over clusters where no item changed.
    ratio_lower : float
        rate / floor_upper: what can be said of the ratio when the floor is 0.
    n_undefined : int
        Resamples without any change in the re-runs, left out of the interval.
    n, n_clusters, n_dropped, n_resamples, seed : int
    confidence_level : float
    """

    ratio: float
    low: float
    high: float
    rate: float
    floor: float
    floor_upper: float
    ratio_lower: float
    n_undefined: int
    n: int
    n_clusters: int
    n_dropped: int
    n_resamples: int
    seed: int
    confidence_level: float

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"FlipRatio({self.ratio:.3g} [{self.low:.3g}, {self.high:.3g}], "
            f"{percent(self.rate)} over {percent(self.floor)} (at most "
            f"{percent(self.floor_upper)}), {self.n} items in {self.n_clusters} "
            f"clusters{dropped}, percentile at {self.confidence_level:g}, "
            f"{self.n_resamples} resamples, seed {self.seed}, "
            f"{self.n_undefined} undefined)"
        )


def flip_ratio(
    flips: ArrayLike,
    rerun_flips: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    n_resamples: int = 10_000,
    seed: int = 0,
    confidence_level: float = 0.95,
) -> FlipRatio:
    """Ratio of a flip rate to the re-run floor.

    Parameters
    ----------
    flips : array_like, shape (n,), float
        Pairwise (or any) flip of each item, in [0, 1]; NaN is left out.
    rerun_flips : array_like, shape (n,), bool or 0/1
        Whether the item's answer changes in a re-run of everything as it was; -1 and
        NaN are left out.
    cluster : array_like, shape (n,), optional
        As in `clustered_mean`.
    n_resamples, seed, confidence_level
        As in `cluster_bootstrap`.

    Returns
    -------
    FlipRatio

    Raises
    ------
    StatisticsError
        If the columns differ in length or hold what they must not.

    Examples
    --------
    >>> made = flip_ratio([1, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], n_resamples=200)
    >>> made.ratio
    3.0
    """
    check_level(confidence_level)
    seed = check_seed(seed)
    above, below = finite_column(flips, "flips"), indicator(rerun_flips, "rerun_flips")
    same_length(flips=above, rerun_flips=below)
    known = above[~np.isnan(above)]
    if known.size and not (known.min() >= 0.0 and known.max() <= 1.0):
        raise StatisticsError("flips must be in [0, 1]")
    made = cluster_bootstrap(
        above,
        cluster,
        denominator=below,
        n_resamples=n_resamples,
        seed=seed,
        confidence_level=confidence_level,
    )
    kept = ~(np.isnan(above) | np.isnan(below))
    n, changed = int(kept.sum()), int(below[kept].sum())
    nan = float("nan")
    rate = math.fsum(above[kept]) / n if n else nan
    # without a change the clusters are what was seen, not the items in them
    seen = n if changed else made.n_clusters
    upper = proportion_upper(changed, seen, confidence_level)
    ratio = made.estimate
    if n and not changed:
        ratio = math.inf if rate > 0.0 else nan
    return FlipRatio(
        ratio=ratio,
        low=made.low if changed else nan,
        high=made.high if changed else nan,
        rate=rate,
        floor=changed / n if n else nan,
        floor_upper=upper,
        ratio_lower=rate / upper if n else nan,
        n_undefined=made.n_undefined if n else 0,
        n=n,
        n_clusters=made.n_clusters,
        n_dropped=made.n_dropped,
        n_resamples=n_resamples,
        seed=seed,
        confidence_level=confidence_level,
    )


def random_draw_change_rate(
    first: ArrayLike,
    second: ArrayLike,
    *,
    missing: int = -1,
    cluster: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> ClusteredMean:
    """Share of items whose answer differs between two random origins.

    Parameters
    ----------
    first, second : array_like, shape (n, R), int
        Content indices under two independent uniform origins of each item, redrawn R
        times; use the same origins for all arms.
    missing : int, default -1
        Pairs with a missing answer are left out and counted.
    cluster : array_like, shape (n,), optional
        Clusters of items; the redraws of one item always are one cluster.
    confidence_level : float, default 0.95

    Returns
    -------
    ClusteredMean
        n counts pairs, n_clusters items (or clusters).

    Raises
    ------
    StatisticsError
        If the two differ in shape or are not integers.

    Examples
    --------
    >>> random_draw_change_rate([[0, 1], [2, 2]], [[0, 2], [2, 2]]).mean
    0.25
    """
    a, b = (
        answer_table(first, missing, "first"),
        answer_table(second, missing, "second"),
    )
    if a.shape != b.shape:
        raise StatisticsError(f"first has shape {a.shape}, second {b.shape}")
    group, _ = clusters(cluster, len(a))
    changed = np.where((a >= 0) & (b >= 0), (a != b).astype(float), np.nan)
    return clustered_mean(
        changed.ravel(),
        np.repeat(group, a.shape[1]),
        confidence_level=confidence_level,
        limits=(0.0, 1.0),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorstCase(Result):
    """Accuracy when the view is chosen against the model.

    Attributes
    ----------
    worst : Proportion
        Items right under every view: an adversary picks the view item by item.
    worst_view : int
        The view with the lowest accuracy, the first of equals; -1 without items.
    worst_view_accuracy, mean_accuracy : float
        Of that view, and over views.
    best : float
        Items right under some view.
    view_accuracy : ndarray, shape (V,), float64
    view_sd : float
        Standard deviation over views (ddof 1).
    """

    worst: Proportion
    worst_view: int
    worst_view_accuracy: float
    mean_accuracy: float
    best: float
    view_accuracy: NDArray[np.float64]
    view_sd: float

    def __repr__(self) -> str:
        return (
            f"WorstCase(every view {self.worst!r}, worst view {self.worst_view} "
            f"{percent(self.worst_view_accuracy)}, mean {percent(self.mean_accuracy)}, "
            f"some view {percent(self.best)})"
        )


def worst_case_accuracy(
    answers: ArrayLike,
    gold: ArrayLike,
    *,
    missing: int = -1,
    confidence_level: float = 0.95,
) -> WorstCase:
    """Worst-case accuracy over views, by item and by view.

    Parameters
    ----------
    answers : array_like, shape (n, V), int
        Content indices under V views (phases, orders, or both). An item that lacks one
        is left out and counted.
    gold : array_like, shape (n,), int
        Right content indices, >= 0.
    missing : int, default -1
        The value of a missing answer.
    confidence_level : float, default 0.95
        Of the worst case by item (Wilson).

    Returns
    -------
    WorstCase
        worst <= worst_view_accuracy <= mean_accuracy <= best.

    Raises
    ------
    StatisticsError
        If the shapes do not match, or a right answer is not known.

    Examples
    --------
    >>> made = worst_case_accuracy([[0, 0], [1, 0], [1, 1]], [0, 0, 1])
    >>> made.worst.k, made.worst_view, made.best
    (2, 0, 1.0)
    """
    table = answer_table(answers, missing)
    right = gold_answers(gold, len(table))
    kept = (table >= 0).all(axis=1)
    correct = table[kept] == right[kept, None]
    worst = accuracy(correct.all(axis=1), confidence_level=confidence_level)
    n, v = correct.shape
    nan = float("nan")
    by_view = correct.sum(axis=0) / n if n else np.full(v, nan)
    lowest = int(np.argmin(by_view)) if n else -1
    return WorstCase(
        worst=Proportion(
            worst.value,
            worst.k,
            worst.n,
            worst.low,
            worst.high,
            int((~kept).sum()),
            confidence_level,
        ),
        worst_view=lowest,
        worst_view_accuracy=float(by_view[lowest]) if n else nan,
        mean_accuracy=int(correct.sum()) / (n * v) if n else nan,
        best=int(correct.any(axis=1).sum()) / n if n else nan,
        view_accuracy=by_view,
        view_sd=float(by_view.std(ddof=1)) if n and v > 1 else nan,
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ViewDiagnostic(Result):
    """A pooled answer against the views it was made of.

    Attributes
    ----------
    pooled_accuracy : float
    view_accuracy : ndarray, shape (S,), float64
    n_disagree : int
        Items on which the views differ: all that pooling can change.
    pooled_on_disagree : float
        Accuracy of the pool on them; NaN without any.
    views_on_disagree : ndarray, shape (S,), float64
    tests : tuple of McNemar
        Pool against each view.
    n, n_dropped : int
    """

    pooled_accuracy: float
    view_accuracy: NDArray[np.float64]
    n_disagree: int
    pooled_on_disagree: float
    views_on_disagree: NDArray[np.float64]
    tests: tuple[McNemar, ...]
    n: int
    n_dropped: int

    def __repr__(self) -> str:
        return (
            f"ViewDiagnostic(pool {percent(self.pooled_accuracy)}, views "
            f"{percent(float(np.mean(self.view_accuracy)))} on average; where they "
            f"differ ({self.n_disagree} items) {percent(self.pooled_on_disagree)} "
            f"against {percent(float(np.mean(self.views_on_disagree)))}; "
            f"{self.n} items, {self.n_dropped} dropped)"
        )


def view_diagnostic(
    pooled: ArrayLike, views: ArrayLike, gold: ArrayLike, *, missing: int = -1
) -> ViewDiagnostic:
    """Show where a pool gains: accuracy overall and where its views disagree.

    Run it for each number of phases; the pools of two numbers are compared by
    `change_rate` and `mcnemar`.

    Parameters
    ----------
    pooled : array_like, shape (n,), int
        Content indices of the pool.
    views : array_like, shape (n, S), int
        Of the phases in it. An item that lacks one, or its pool, is left out.
    gold : array_like, shape (n,), int
        Content indices, >= 0.
    missing : int, default -1

    Returns
    -------
    ViewDiagnostic

    Raises
    ------
    StatisticsError
        If the shapes do not match, or a right answer is not known.

    Examples
    --------
    >>> view_diagnostic([0, 1, 1], [[0, 0], [1, 0], [1, 1]], [0, 1, 0]).n_disagree
    1
    """
    fused = answer_table(pooled, missing, "pooled", 1)
    table = answer_table(views, missing, "views")
    if len(fused) != len(table):
        raise StatisticsError(
            f"{len(fused)} pooled answers, {len(table)} items with views"
        )
    right = gold_answers(gold, len(table))
    kept = (table >= 0).all(axis=1) & (fused >= 0)
    correct = table[kept] == right[kept, None]
    best = fused[kept] == right[kept]
    differ = (table[kept] != table[kept, :1]).any(axis=1)

    def share(values: NDArray[np.bool_]) -> NDArray[np.float64]:
        if not len(values):
            return np.full(values.shape[1:], np.nan)
        return np.asarray(values.sum(axis=0) / len(values))

    return ViewDiagnostic(
        pooled_accuracy=float(share(best)),
        view_accuracy=share(correct),
        n_disagree=int(differ.sum()),
        pooled_on_disagree=float(share(best[differ])),
        views_on_disagree=share(correct[differ]),
        tests=tuple(mcnemar(*discordant(best, column)) for column in correct.T),
        n=len(best),
        n_dropped=len(kept) - len(best),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankReversals(Result):
    """Pairs of models whose order depends on the view.

    Attributes
    ----------
    rate : float
        Share of pairs of models that some view orders one way and another the other
        way; NaN for fewer than two models.
    reversed_pairs : ndarray, shape (r, 2), int64
        The pairs.
    swing : ndarray, shape (m, m), float64
        Greatest minus smallest lead of model i over model j.
    leaders : tuple of int
        Models that lead under some view.
    ranks : ndarray, shape (m, V), float64
        1 is best, mid-ranks for ties.
    """

    rate: float
    reversed_pairs: NDArray[np.int64]
    swing: NDArray[np.float64]
    leaders: tuple[int, ...]
    ranks: NDArray[np.float64]

    def __repr__(self) -> str:
        m, v = self.ranks.shape
        return (
            f"RankReversals({len(self.reversed_pairs)} of {m * (m - 1) // 2} pairs, "
            f"{len(self.leaders)} leaders, {m} models over {v} views)"
        )


def rank_reversals(scores: ArrayLike) -> RankReversals:
    """Which models change places when the phase or the order changes.

    Parameters
    ----------
    scores : array_like, shape (m, V), float
        Accuracy of m models under V views, all on the same items. Equal scores are no
        reversal.

    Returns
    -------
    RankReversals

    Raises
    ------
    StatisticsError
        If the shape is wrong or a score is not finite.

    Examples
    --------
    >>> rank_reversals([[0.51, 0.53], [0.52, 0.50], [0.40, 0.41]])
    RankReversals(1 of 3 pairs, 2 leaders, 3 models over 2 views)
    """
    table = numbers(scores, "scores", None)
    if table.ndim != 2 or table.shape[1] < 1 or not np.isfinite(table).all():
        raise StatisticsError(
            f"scores must be finite with shape (m, V), V >= 1; their shape is "
            f"{table.shape}"
        )
    m = len(table)
    lead = table[:, None] - table[None]
    least, most = lead.min(axis=2), lead.max(axis=2)
    pairs = np.argwhere(np.triu((least < 0.0) & (most > 0.0), 1)).astype(np.int64)
    n_pairs = m * (m - 1) // 2
    leaders = np.flatnonzero((table == table.max(axis=0, initial=-np.inf)).any(axis=1))
    above = (lead < 0.0).sum(axis=1)
    equal = (lead == 0.0).sum(axis=1)
    return RankReversals(
        rate=len(pairs) / n_pairs if n_pairs else float("nan"),
        reversed_pairs=pairs,
        swing=most - least,
        leaders=tuple(leaders.tolist()),
        ranks=above + (equal + 1) / 2,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Gain(Result):
    """Difference of two arms on the items of one bin.

    Attributes
    ----------
    low, high : float
        The bin, [low, high); the last includes high.
    difference : float
        Accuracy of the first arm minus the second; NaN without items.
    n : int
    test : McNemar
    """

    low: float
    high: float
    difference: float
    n: int
    test: McNemar

    def __repr__(self) -> str:
        return (
            f"Gain([{self.low:g}, {self.high:g}): {100 * self.difference:+.2f} points, "
            f"{self.n} items, p={self.test.pvalue:.4g}, exact)"
        )


def gains_by(
    a: ArrayLike, b: ArrayLike, values: ArrayLike, edges: ArrayLike
) -> tuple[Gain, ...]:
    """Compare two arms by bins of a covariate: duration, step, distinctness.

    Parameters
    ----------
    a, b : array_like, shape (n,), bool or 0/1
        Correctness in two arms.
    values : array_like, shape (n,), float
        Clip duration or step in seconds, distinctness; NaN and values outside the edges
        are in no bin.
    edges : array_like, shape (m + 1,), float
        Strictly ascending; infinities are allowed. For quartiles use
        ``quantile(values, [0, 0.25, 0.5, 0.75, 1])``.

    Returns
    -------
    tuple of Gain, length m

    Raises
    ------
    StatisticsError
        If the columns differ in length or the edges do not ascend.

    Examples
    --------
    >>> gains_by([1, 1, 0], [0, 1, 1], [0.5, 0.8, 3.0], [0, 1, 10])[0]
    Gain([0, 1): +50.00 points, 2 items, p=1, exact)
    """
    first = as_array(a, "a", StatisticsError)
    second = as_array(b, "b", StatisticsError)
    by, bounds = numbers(values, "values"), numbers(edges, "edges", None)
    same_length(a=first, b=second, values=by)
    if bounds.ndim != 1 or len(bounds) < 2 or not (np.diff(bounds) > 0.0).all():
        raise StatisticsError(f"edges must ascend strictly, they are {bounds}")
    found = []
    for i, (low, high) in enumerate(itertools.pairwise(bounds)):
        last = i == len(bounds) - 2
        inside = (by >= low) & ((by <= high) if last else (by < high))
        test = mcnemar(*discordant(first[inside], second[inside]))
        n = int(inside.sum())
        difference = (test.b - test.c) / n if n else float("nan")
        found.append(Gain(float(low), float(high), difference, n, test))
    return tuple(found)
