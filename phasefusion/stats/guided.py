"""Views that are run only where the first one is not sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion._ties import best_options, tie_ids
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import percent
from phasefusion.stats._numbers import fraction_in, numbers

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Guided(Result):
    """Answers of confidence-guided views.

    Attributes
    ----------
    answers : ndarray, shape (n,), int64
        Content indices; -1 where a view that had to be run is missing.
    n_views : ndarray, shape (n,), int64
        Views that were run, 1 to 3.
    mean_views : float
        Their mean: the cost.
    accepted : float
        Share of items answered by the first view.
    tie_rate : float
        Share of items whose answer rests on a tie: in a view that was run, or in the
        mean posterior where that decides.
    n, n_dropped : int
    accept : float
    """

    answers: NDArray[np.int64]
    n_views: NDArray[np.int64]
    mean_views: float
    accepted: float
    tie_rate: float
    n: int
    n_dropped: int
    accept: float

    def __repr__(self) -> str:
        return (
            f"Guided({percent(self.accepted)} accepted above {self.accept:g}, "
            f"{self.mean_views:.3f} views on average, ties {percent(self.tie_rate)}, "
            f"{self.n} items, {self.n_dropped} dropped)"
        )


def confidence_guided(
    posteriors: ArrayLike,
    *,
    accept: float = 0.85,
    item_ids: Sequence[str] | None = None,
    seed: int = 0,
) -> Guided:
    """Answer from the first of three views, and from more of them in doubt.

    An item whose top posterior in the first view is above `accept` is answered. Else
    the second view is run; if it answers the same, that is the answer, and if not the
    third decides by plurality, three different answers going to the highest mean
    posterior.

    **[AMB]** The source accepts above 0.85, runs the second view below 0.75, and says
    nothing of what lies between; it is run there too.

    Parameters
    ----------
    posteriors : array_like, shape (n, 3, K), float
        Content-space posteriors of the three views, in the order in which they would be
        run; each sums to 1. NaN in a view that was not made.
    accept : float, default 0.85
    item_ids : sequence of str, length n, optional
        For the tie priority; the row number by default. Options within 4 epsilon of the
        best are tied, in a view and in the mean, and the priority of the item chooses:
        give the ids of the other arms, as in `fuse_items`.
    seed : int, default 0
        The run's seed, for ties.

    Returns
    -------
    Guided

    Raises
    ------
    StatisticsError
        If the shape is another one, a view is no posterior, accept is not in (0, 1) or
        the ids are not as many as the items.

    Examples
    --------
    >>> sure, unsure = [0.9, 0.1], [0.6, 0.4]
    >>> other = [0.3, 0.7]
    >>> confidence_guided([[sure, other, other], [unsure, other, other]]).answers
    array([0, 1])
    """
    accept = fraction_in(accept, "accept")
    table = numbers(posteriors, "posteriors")
    if table.ndim != 3 or table.shape[1] != 3 or table.shape[2] < 1:
        raise StatisticsError(
            f"posteriors must have shape (n, 3, K), they have {table.shape}"
        )
    there = np.asarray(~np.isnan(table).any(axis=2))
    sums = np.abs(table.sum(axis=2) - 1.0)
    wrong = there & ((sums > _SUM_TOLERANCE) | (table.min(axis=2) < 0.0))
    if wrong.any():
        item, view = (int(i) for i in np.argwhere(wrong)[0])
        raise StatisticsError(
            f"posteriors[{item}, {view}] is {table[item, view]}; it must be >= 0 and "
            "sum to 1"
        )
    filled = np.where(there[..., None], table, 0.0)
    ids = tie_ids(item_ids, len(table))
    views = [best_options(filled[:, v], ids, seed) for v in range(3)]
    first, second, third = (votes for votes, _ in views)
    sure = filled[:, 0].max(axis=1) > accept
    n_views = np.where(sure, 1, np.where(first == second, 2, 3))
    majority = np.where((third == first) | (third == second), third, -1)
    pooled, pool_tied = best_options(filled.mean(axis=1), ids, seed)
    decided = np.where(majority >= 0, majority, pooled)
    answers = np.where(n_views < 3, first, decided)
    known = np.asarray((there | (np.arange(3) >= n_views[:, None])).all(axis=1))
    was_run = np.arange(3) < n_views[:, None]
    tied = (np.stack([ties for _, ties in views], axis=1) & was_run).any(axis=1)
    tied |= pool_tied & (n_views == 3) & (majority < 0)
    n = int(known.sum())
    nan = float("nan")
    return Guided(
        answers=np.where(known, answers, -1),
        n_views=n_views,
        mean_views=int(n_views[known].sum()) / n if n else nan,
        accepted=int(sure[known].sum()) / n if n else nan,
        tie_rate=int(tied[known].sum()) / n if n else nan,
        n=n,
        n_dropped=len(known) - n,
        accept=accept,
    )
