"""Matched votes: the phase effect with the noise of voting cancelled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._arrays import as_array
from phasefusion._random import MASK_64, MAX_OPTIONS, check_seed, splitmix64, tie_seeds
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import (
    answer_table,
    check_choice,
    integers,
    percent,
    ratio,
)
from phasefusion.stats.equivalence import ClusteredMean, clustered_mean

MatchedRule: TypeAlias = Literal["priority", "lowest"]
_RULES = ("priority", "lowest")
_UNIT = 720_720  # of the kernel's agreements
_MAX_ORDERS = 255
_MAX_SPLITS = 200_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatchedVote(Result):
    """Changes between votes of disjoint halves of the orders.

    Attributes
    ----------
    within : float
        Chance that the two halves vote differently in one phase: voting noise alone.
    across : float
        The same with the halves in different phases; NaN with a single phase.
    excess : float
        across - within: the effect of the phase.
    interval : ClusteredMean
        Of the items' own excesses.
    within_fractional, across_fractional : float
        With ties broken at random and independently, in expectation; NaN where not
        asked for.
    tie_rate : float
        Share of the votes without a single winner.
    per_item_within, per_item_across : ndarray, shape (n,), float64
        NaN for items left out.
    n_splits, n_used, n_dropped : int
    rule : str
    """

    within: float
    across: float
    excess: float
    interval: ClusteredMean
    within_fractional: float
    across_fractional: float
    tie_rate: float
    per_item_within: NDArray[np.float64]
    per_item_across: NDArray[np.float64]
    n_splits: int
    n_used: int
    n_dropped: int
    rule: MatchedRule

    def __repr__(self) -> str:
        low, high = 100 * self.interval.low, 100 * self.interval.high
        return (
            f"MatchedVote(within={percent(self.within)}, "
            f"across={percent(self.across)}, "
            f"excess={100 * self.excess:.2f} points [{low:.2f}, {high:.2f}], "
            f"{self.n_splits} splits, {self.n_used} items, {self.n_dropped} dropped, "
            f"ties {percent(self.tie_rate)} to {self.rule})"
        )


@dataclass(frozen=True, slots=True)
class _Design:
    """What is counted: complete items, their K and ids, the splits."""

    table: NDArray[np.int64]
    kept: NDArray[np.bool_]
    n_options: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    halves: NDArray[np.uint8]
    rule: MatchedRule

    def count(
        self, table: NDArray[np.int64], fractional: bool
    ) -> Sequence[NDArray[np.int64]]:
        seeds = self.seeds if self.rule == "priority" else None
        return _core.matched_votes(
            table, self.n_options, self.halves, seeds, fractional
        )

    @property
    def n_within(self) -> int:
        """Comparisons of an item within phases."""
        return len(self.halves) * int(self.table.shape[1])

    @property
    def n_across(self) -> int:
        """Comparisons of an item across phases."""
        return self.n_within * (int(self.table.shape[1]) - 1)


def _all_splits(n_orders: int, size: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every unordered pair of disjoint sets of `size` orders."""
    for first in itertools.combinations(range(n_orders), size):
        rest = [o for o in range(first[0] + 1, n_orders) if o not in first]
        for second in itertools.combinations(rest, size):
            yield first, second


def _halves(
    n_orders: int, size: int, splits: int | Literal["all"], seed: int
) -> NDArray[np.uint8]:
    """Rows with 1 and 2 where an order is in the first and in the second half."""
    if splits == "all":
        return _every_half(n_orders, size)
    if splits < 1:
        raise StatisticsError(f"splits must be 'all' or >= 1, it is {splits}")
    drawn = _core.permutations(seed & MASK_64, n_orders, splits)
    return _marked(n_orders, drawn[:, :size], drawn[:, size : 2 * size])


@lru_cache(maxsize=4)
def _every_half(n_orders: int, size: int) -> NDArray[np.uint8]:
    """Rows of all splits; kept, since one table after the other has the same."""
    n = math.comb(n_orders, 2 * size) * math.comb(2 * size, size) // 2
    if n > _MAX_SPLITS:
        raise StatisticsError(
            f"{n_orders} orders have {n} splits into halves of {size}, more than "
            f"{_MAX_SPLITS}; give splits=50 or more to draw some"
        )
    pairs = np.array(list(_all_splits(n_orders, size)))
    halves = _marked(n_orders, pairs[:, 0], pairs[:, 1])
    halves.flags.writeable = False
    return halves


def _marked(
    n_orders: int, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.uint8]:
    halves = np.zeros((len(first), n_orders), np.uint8)
    np.put_along_axis(halves, first, 1, axis=1)
    np.put_along_axis(halves, second, 2, axis=1)
    return halves


def _design(
    answers: ArrayLike,
    n_options: ArrayLike | None,
    item_ids: Sequence[str] | None,
    splits: int | Literal["all"],
    size: int | None,
    options: tuple[MatchedRule, int, int],
) -> _Design:
    rule, seed, missing = options
    check_choice(rule, _RULES, "rule")
    table = answer_table(answers, missing, n_dim=3)
    n, n_phases, n_orders = table.shape
    half = n_orders // 2 if size is None else size
    if n_phases < 1 or not 2 <= n_orders <= _MAX_ORDERS:
        raise StatisticsError(
            f"answers must have shape (n, S, M) with 2 to {_MAX_ORDERS} orders, it is "
            f"{table.shape}"
        )
    if not 1 <= half <= n_orders // 2:
        raise StatisticsError(f"size must be in 1..{n_orders // 2}, it is {half}")
    ids = list(map(str, range(n))) if item_ids is None else list(item_ids)
    if len(ids) != n:
        raise StatisticsError(f"{len(ids)} item ids were given for {n} items")
    most = max(int(table.max(initial=-1)) + 1, 1)
    given = integers(most if n_options is None else n_options, "n_options")
    if given.shape not in ((), (n,)):
        raise StatisticsError("n_options must be an int or have one entry an item")
    options_of = np.array(np.broadcast_to(given, (n,)), dtype=np.int64)
    if n and not (1 <= options_of.min() and options_of.max() <= MAX_OPTIONS):
        raise StatisticsError(f"n_options must be in 1..{MAX_OPTIONS}")
    if (table.max(axis=(1, 2), initial=-1) >= options_of).any():
        raise StatisticsError("an answer is not below the number of its item's options")
    kept = np.asarray((table >= 0).all(axis=(1, 2)))
    return _Design(
        np.ascontiguousarray(table[kept]),
        kept,
        options_of[kept],
        tie_seeds(ids, seed)[kept],
        _halves(n_orders, half, splits, seed),
        rule,
    )


def matched_vote(
    answers: ArrayLike,
    *,
    n_options: ArrayLike | None = None,
    splits: int | Literal["all"] = "all",
    size: int | None = None,
    rule: MatchedRule = "priority",
    item_ids: Sequence[str] | None = None,
    cluster: ArrayLike | None = None,
    fractional: bool = True,
    seed: int = 0,
    missing: int = -1,
    confidence_level: float = 0.95,
) -> MatchedVote:
    """Compare votes of two halves of the orders within a phase and across phases.

    Both comparisons have the same number of votes on each side, so the noise of voting
    is the same in both and cancels in their difference, which is due to the phase.

    Parameters
    ----------
    answers : array_like, shape (n, S, M), int
        Content indices of S phases and M orders. An item that lacks a pass is left out.
    n_options : int or array_like of int, shape (n,), optional
        K of each item, for the tie priority; the greatest answer plus one by default.
    splits : 'all' or int, default 'all'
        All unordered splits (126 for ten orders), or so many drawn ones, shared by the
        items.
    size : int, optional
        Orders in each half, M // 2 by default. With an odd M, or fewer, the others do
        not vote; every choice of them is a split of its own.
    rule : {'priority', 'lowest'}, default 'priority'
        For ties: neutral by item (`tie_priority`), or the lowest index.
    item_ids : sequence of str, length n, optional
        For the tie priority; the row number by default.
    cluster : array_like, shape (n,), optional
        Clusters of items for the interval.
    fractional : bool, default True
        Also compute the rates under independent random tie-breaks.
    seed : int, default 0
        Of ties and of drawn splits.
    missing : int, default -1
        The value of a missing answer.
    confidence_level : float, default 0.95

    Returns
    -------
    MatchedVote

    Raises
    ------
    StatisticsError
        If a shape or a number is out of range, or an item has more than 16 different
        answers and `fractional` is true.

    References
    ----------
    .. [1] Zhu et al., "Stable Scores, Unstable Answers", arXiv:2610.08649, section 2.2.

    Examples
    --------
    >>> made = matched_vote([[[0] * 4, [1] * 4], [[2] * 4, [2] * 4]])
    >>> made.within, made.across, made.n_splits
    (0.0, 0.5, 3)
    """
    seed = check_seed(seed)
    options = (rule, seed, missing)
    design = _design(answers, n_options, item_ids, splits, size, options)
    kept = design.kept
    try:
        counts = design.count(design.table, fractional)
    except ValueError as error:
        raise StatisticsError(
            "an item has more than 16 different answers, whose random tie-breaks are "
            "not counted exactly; give fractional=False"
        ) from error
    differ_within, differ_across, n_tied, agree_within, agree_across = counts
    n, n_used = len(kept), int(kept.sum())
    n_within, n_across = n_used * design.n_within, n_used * design.n_across
    per_item = np.full((2, n), np.nan)
    per_item[0, kept] = ratio(differ_within, np.full(n_used, design.n_within))
    per_item[1, kept] = ratio(differ_across, np.full(n_used, design.n_across))
    within = _share(differ_within, n_within)
    across = _share(differ_across, n_across)
    spread = clustered_mean(
        per_item[1] - per_item[0],
        cluster,
        confidence_level=confidence_level,
        limits=(-1.0, 1.0),
    )
    excess = float("nan")
    if n_across:
        phases = design.table.shape[1]
        both = int(differ_across.sum()) - (phases - 1) * int(differ_within.sum())
        excess = both / n_across
    soft = [float("nan")] * 2
    if fractional:
        agreed = (int(agree_within.sum()), int(agree_across.sum()))
        wholes = (n_within, n_across)
        soft = [
            (w * _UNIT**2 - a) / (w * _UNIT**2) if w else float("nan")
            for a, w in zip(agreed, wholes, strict=True)
        ]
    return MatchedVote(
        within=within,
        across=across,
        excess=excess,
        interval=spread,
        within_fractional=soft[0],
        across_fractional=soft[1],
        tie_rate=_share(n_tied, 2 * n_within),
        per_item_within=per_item[0],
        per_item_across=per_item[1],
        n_splits=len(design.halves),
        n_used=n_used,
        n_dropped=n - n_used,
        rule=rule,
    )


def _share(counts: NDArray[np.int64], whole: int) -> float:
    return int(counts.sum()) / whole if whole else float("nan")


def half_split_residual(
    answers: ArrayLike,
    size: int = 4,
    *,
    n_options: ArrayLike | None = None,
    rule: MatchedRule = "priority",
    item_ids: Sequence[str] | None = None,
    cluster: ArrayLike | None = None,
    seed: int = 0,
    missing: int = -1,
    confidence_level: float = 0.95,
) -> ClusteredMean:
    """Chance that votes of two disjoint sets of orders differ: what voting leaves.

    Parameters
    ----------
    answers : array_like, shape (n, M) or (n, S, M), int
        Content indices; with phases, both sets vote in one phase and the mean over
        phases is taken.
    size : int, default 4
        Orders in each set; all pairs of disjoint sets are counted.
    n_options, rule, item_ids, cluster, seed, missing, confidence_level
        As in `matched_vote`.

    Returns
    -------
    ClusteredMean

    Raises
    ------
    StatisticsError
        As `matched_vote`.

    Examples
    --------
    >>> half_split_residual([[0, 0, 1, 1], [2, 2, 2, 2]], size=2).mean.__round__(4)
    0.1667
    """
    table = as_array(answers, "answers", StatisticsError, missing)
    made = matched_vote(
        table[:, None] if table.ndim == 2 else table,
        n_options=n_options,
        size=size,
        rule=rule,
        item_ids=item_ids,
        fractional=False,
        seed=seed,
        missing=missing,
    )
    return clustered_mean(
        made.per_item_within,
        cluster,
        confidence_level=confidence_level,
        limits=(0.0, 1.0),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatchedNull(Result):
    """The matched-vote excess against permuted phases.

    Attributes
    ----------
    excess : float
        Of the answers as they are.
    pvalue : float
        ``(1 + hits) / (n_permutations + 1)``, a hit being an excess at least as great.
    null : ndarray, shape (n_permutations,), float64
        Excesses under permuted phases; their expectation is 0.
    n_used, n_dropped, n_permutations, seed : int
    """

    excess: float
    pvalue: float
    null: NDArray[np.float64]
    n_used: int
    n_dropped: int
    n_permutations: int
    seed: int

    def __repr__(self) -> str:
        return (
            f"MatchedNull(excess={100 * self.excess:.2f} points, p={self.pvalue:.4g}, "
            f"null {100 * float(self.null.mean()):.2f} +- "
            f"{100 * float(self.null.std()):.2f}, {self.n_used} items, "
            f"{self.n_permutations} permutations, seed {self.seed})"
        )


def matched_vote_null(
    answers: ArrayLike,
    *,
    n_permutations: int = 999,
    n_options: ArrayLike | None = None,
    splits: int | Literal["all"] = "all",
    rule: MatchedRule = "priority",
    item_ids: Sequence[str] | None = None,
    seed: int = 0,
    missing: int = -1,
) -> MatchedNull:
    """Test for an effect of the phase by permuting phases within item and order.

    Each item and order gets a permutation of its own: this keeps every answer and takes
    the phase away. (Relabelling whole phases would change nothing.)

    Parameters
    ----------
    answers, n_options, splits, rule, item_ids, seed, missing
        As in `matched_vote`; at least two phases. An item's permutations come from its
        id and the seed.
    n_permutations : int, default 999

    Returns
    -------
    MatchedNull

    Raises
    ------
    StatisticsError
        If n_permutations is below 1, there is a single phase, or as `matched_vote`.

    Examples
    --------
    >>> phases = [[[s] * 4 for s in range(3)]] * 12
    >>> matched_vote_null(phases, n_permutations=99).pvalue
    0.01
    """
    if n_permutations < 1:
        raise StatisticsError(f"n_permutations must be >= 1, it is {n_permutations}")
    seed = check_seed(seed)
    options = (rule, seed, missing)
    design = _design(answers, n_options, item_ids, splits, None, options)
    n_phases = int(design.table.shape[1])
    if n_phases < 2:
        raise StatisticsError("a single phase has no effect to be tested")

    def surplus(table: NDArray[np.int64]) -> int:
        within, across, *_ = design.count(table, False)
        return int(across.sum()) - (n_phases - 1) * int(within.sum())

    n_used = len(design.table)
    whole = n_used * design.n_across
    seen = surplus(design.table)
    made = [
        surplus(_core.matched_shuffle(design.table, design.seeds, int(state)))
        for state in splitmix64(seed, n_permutations)
    ]
    hits = sum(value >= seen for value in made)
    return MatchedNull(
        excess=seen / whole if whole else float("nan"),
        pvalue=(1 + hits) / (n_permutations + 1),
        null=ratio(np.array(made), np.full(n_permutations, whole)),
        n_used=n_used,
        n_dropped=len(design.kept) - n_used,
        n_permutations=n_permutations,
        seed=seed,
    )
