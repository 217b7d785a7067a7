"""Phases added one at a time, until the fused margin is wide enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array
from phasefusion._results import Result
from phasefusion._ties import best_options, tie_ids
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import percent
from phasefusion.stats._numbers import numbers

_SUM_TOLERANCE = 1e-6


def phase_order(n_phases: int, first: int | None = None) -> NDArray[np.int64]:
    """Order in which phases are added: each as far as can be from those before it.

    Phases lie on a circle, because a grid that is moved by a whole step is the same
    grid but for one frame at an end. For a power of two it is the bit-reversed (van der
    Corput) order.

    Parameters
    ----------
    n_phases : int
        S >= 1.
    first : int, optional
        The phase to begin with; by default that in the middle, which is the single
        pass of midpoints for odd S.

    Returns
    -------
    ndarray, shape (S,), int64
        A permutation of 0 .. S-1. Of phases that are equally far from the nearest one,
        that comes first which is farthest from all (least sum of inverse squares), and
        then the smallest.

    Raises
    ------
    StatisticsError
        If n_phases or first is out of range.

    Examples
    --------
    >>> phase_order(3), phase_order(6), phase_order(4, 0)
    (array([1, 0, 2]), array([3, 0, 1, 4, 2, 5]), array([0, 2, 1, 3]))
    """
    if n_phases < 1:
        raise StatisticsError(f"n_phases must be >= 1, it is {n_phases}")
    start = n_phases // 2 if first is None else first
    if not 0 <= start < n_phases:
        raise StatisticsError(f"first must be in 0..{n_phases - 1}, it is {first}")
    found = [start]
    while len(found) < n_phases:
        left = [s for s in range(n_phases) if s not in found]
        found.append(max(left, key=lambda s: _clearance(s, found, n_phases)))
    return np.array(found, dtype=np.int64)


def _clearance(
    s: int, taken: Sequence[int], n_phases: int
) -> tuple[int, Fraction, int]:
    """How far a phase is from the nearest of others, and then from all of them."""
    apart = [abs(s - t) for t in taken]
    apart = [min(d, n_phases - d) for d in apart]
    crowding = sum(Fraction(1, d * d) for d in apart)
    return min(apart), -Fraction(crowding), -s


def half_step_order(
    order: ArrayLike, origin: Fraction | float = Fraction(1, 2)
) -> NDArray[np.int64]:
    """Order of the phases on the twin grid that is the given one, half a step later.

    The twin of ``PhaseGrid.shifted("half")`` is half a dense step away as a set. Of an
    odd number of phases, each has one exactly half a step on among the twin's; of an
    even number, one half a dense step further. So a walk over phases is moved by as
    much as its first pass can be.

    Parameters
    ----------
    order : array_like, shape (S,), int
        Permutation of 0 .. S-1.
    origin : Fraction or float, default 1/2
        Of the grid, in dense steps.

    Returns
    -------
    ndarray, shape (S,), int64

    Raises
    ------
    StatisticsError
        If order is no permutation.

    Examples
    --------
    >>> half_step_order([1, 0, 2])
    array([0, 2, 1])
    """
    phases = as_array(order, "order", StatisticsError)
    checked = _checked_order(phases, phases.size)
    s = len(checked)
    turned = s // 2 + (1 if origin >= Fraction(1, 2) else 0)
    return np.asarray((checked + turned) % s, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Adaptive(Result):
    """Answers of phases added until the fused margin reached a threshold.

    Attributes
    ----------
    answers : ndarray, shape (n,), int64
        Content indices; -1 where a phase that had to be run is missing.
    n_phases : ndarray, shape (n,), int64
        Phases that were run.
    margins : ndarray, shape (n,), float64
        Of the posterior fused over them, in nats; NaN where one is missing.
    full : ndarray, shape (n,), int64
        Answers fused over all S phases; -1 where one is missing.
    mean_phases : float
        Of the items that are answered: the cost. NaN without any.
    disagreement : float
        Share of items whose answer is not that of all phases, where both are known.
    n, n_dropped : int
        Items with an answer, and without.
    threshold : float
    """

    answers: NDArray[np.int64]
    n_phases: NDArray[np.int64]
    margins: NDArray[np.float64]
    full: NDArray[np.int64]
    mean_phases: float
    disagreement: float
    n: int
    n_dropped: int
    threshold: float

    def __repr__(self) -> str:
        return (
            f"Adaptive({self.mean_phases:.3f} phases on average until a margin of "
            f"{self.threshold:g} nats, {percent(self.disagreement)} differ from all "
            f"phases, {self.n} items, {self.n_dropped} dropped)"
        )


@dataclass(frozen=True, slots=True)
class Walk:
    """Answer and margin of every item after 1 .. S phases, shape (n, S)."""

    answers: NDArray[np.int64]
    margins: NDArray[np.float64]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Items with every phase."""
        return np.asarray(self.answers[:, -1] >= 0)

    def last(self, threshold: float) -> NDArray[np.intp]:
        """Index of the last phase that is run: wide enough, missing, or the last.

        No margin is wide enough for an infinite threshold, not even an infinite one.
        """
        ends = ~(self.margins < threshold)
        if np.isinf(threshold):
            ends = np.isnan(self.margins)
        ends[:, -1] = True
        return np.asarray(ends.argmax(axis=1))

    def at(self, last: NDArray[np.intp]) -> NDArray[np.int64]:
        """Answers after phases 0 .. last."""
        return self.answers[np.arange(len(last)), last]


def walk_of(
    posteriors: ArrayLike,
    order: ArrayLike | None,
    n_options: ArrayLike | None,
    item_ids: Sequence[str] | None,
    seed: int,
    name: str = "posteriors",
) -> Walk:
    """Fuse the first 1 .. S phases in their order."""
    table = _checked_posteriors(posteriors, name)
    n, s, k = table.shape
    phases = (
        phase_order(s)
        if order is None
        else _checked_order(as_array(order, "order", StatisticsError), s)
    )
    widths = _checked_widths(n_options, n, k)
    # what is missing makes all that would follow on it NaN, too
    means = table[:, phases].cumsum(axis=1) / np.arange(1, s + 1)[:, None]
    answers = np.full((n, s), -1, dtype=np.int64)
    margins = np.full((n, s), np.nan)
    ids = tie_ids(item_ids, n)
    for width in np.unique(widths).tolist():
        for t in range(s):
            rows = np.flatnonzero((widths == width) & ~np.isnan(means[:, t, 0]))
            fused = means[rows, t, :width]
            own = [ids[i] for i in rows.tolist()]
            answers[rows, t] = best_options(fused, own, seed)[0]
            margins[rows, t] = _margins(fused)
    return Walk(answers, margins)


def _margins(fused: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of best over second best; infinite without a second."""
    if fused.shape[1] < 2:
        return np.full(len(fused), np.inf)
    top = np.partition(fused, -2, axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(top[:, -1]) - np.log(top[:, -2]))


def _checked_order(order: NDArray[np.integer], n_phases: int) -> NDArray[np.int64]:
    if order.ndim != 1 or sorted(order.tolist()) != list(range(n_phases)):
        raise StatisticsError(
            f"order must be a permutation of 0..{n_phases - 1}, it is {order.tolist()}"
        )
    return order.astype(np.int64)


def _checked_posteriors(posteriors: ArrayLike, name: str) -> NDArray[np.float64]:
    table = numbers(posteriors, name)
    if table.ndim != 3 or table.shape[1] < 1 or table.shape[2] < 1:
        raise StatisticsError(f"{name} must have shape (n, S, K), not {table.shape}")
    there = np.asarray(~np.isnan(table).any(axis=2))
    wrong = there & (np.abs(table.sum(axis=2) - 1.0) > _SUM_TOLERANCE)
    wrong |= there & (table.min(axis=2) < 0.0)
    if wrong.any():
        item, phase = (int(i) for i in np.argwhere(wrong)[0])
        raise StatisticsError(
            f"{name}[{item}, {phase}] is {table[item, phase]}; it must be >= 0 and sum "
            "to 1, or NaN where the pass is missing"
        )
    return np.where(there[..., None], table, np.nan)


def _checked_widths(n_options: ArrayLike | None, n: int, k: int) -> NDArray[np.int64]:
    if n_options is None:
        return np.full(n, k, dtype=np.int64)
    widths = as_array(n_options, "n_options", StatisticsError)
    if widths.shape != (n,) or widths.dtype.kind not in "iu":
        raise StatisticsError(f"n_options must be {n} integers, one an item")
    if n and not (widths.min() >= 1 and widths.max() <= k):
        raise StatisticsError(
            f"n_options must be in 1..{k}, they reach from {widths.min()} to "
            f"{widths.max()}"
        )
    return widths.astype(np.int64)


def _checked_threshold(threshold: float) -> float:
    if math.isnan(threshold) or threshold < 0.0:
        raise StatisticsError(
            f"threshold must be a margin in nats, >= 0, it is {threshold}"
        )
    return float(threshold)


def adaptive_phases(
    posteriors: ArrayLike,
    threshold: float,
    *,
    order: ArrayLike | None = None,
    n_options: ArrayLike | None = None,
    item_ids: Sequence[str] | None = None,
    seed: int = 0,
) -> Adaptive:
    """Add phases to each item until its fused margin reaches a threshold.

    The posteriors of the first t phases are averaged, as `fuse` does; the item is
    answered when the log of the best over the second best is at least `threshold`, or
    after all S.

    Parameters
    ----------
    posteriors : array_like, shape (n, S, K), float
        Content-space posteriors of every phase; each sums to 1. NaN in a pass that is
        missing or was never run.
    threshold : float
        In nats, >= 0. 0 always takes one phase, inf all of them.
    order : array_like, shape (S,), int, optional
        In which phases are added; `phase_order` by default.
    n_options : array_like, shape (n,), int, optional
        Options of each item, the first of K columns; all by default.
    item_ids : sequence of str, length n, optional
        For the tie priority, as in `fuse_items`; the row number by default.
    seed : int, default 0
        The run's seed, for ties.

    Returns
    -------
    Adaptive

    Raises
    ------
    StatisticsError
        If a shape is wrong, a pass is no posterior, the threshold is negative or NaN,
        or order is no permutation.

    See Also
    --------
    calibrate_adaptive : a threshold with a bound on what it changes

    Examples
    --------
    >>> sure, unsure, other = [0.9, 0.1], [0.55, 0.45], [0.2, 0.8]
    >>> views = [[sure] * 3, [unsure, unsure, other]]
    >>> made = adaptive_phases(views, 1.0, order=[0, 1, 2])
    >>> made.answers, made.n_phases
    (array([0, 1]), array([1, 3]))
    """
    threshold = _checked_threshold(threshold)
    walk = walk_of(posteriors, order, n_options, item_ids, seed)
    last = walk.last(threshold)
    answers, full = walk.at(last), walk.answers[:, -1]
    known, both = answers >= 0, (answers >= 0) & (full >= 0)
    n = int(known.sum())
    nan = float("nan")
    return Adaptive(
        answers=answers,
        n_phases=last + 1,
        margins=walk.margins[np.arange(len(last)), last],
        full=full,
        mean_phases=float((last[known] + 1).mean()) if n else nan,
        disagreement=float((answers != full)[both].mean()) if both.any() else nan,
        n=n,
        n_dropped=len(answers) - n,
        threshold=threshold,
    )
