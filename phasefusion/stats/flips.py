"""How often answers differ between passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.orders import distinct
from phasefusion.stats._answers import (
    POLICIES,
    Policy,
    answer_table,
    check_choice,
    integers,
    numbered,
    percent,
    pooled,
    ratio,
)
from phasefusion.stats.proportions import Method, Proportion, proportion_ci


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FlipRates(Result):
    """Flip rates over items.

    Attributes
    ----------
    pairwise : float
        Chance that two of an item's passes differ; NaN if no item has two passes.
    any : float
        Share of items that do not keep one answer over all their passes.
    per_item_pairwise : ndarray, shape (n,), float64
        From the item's valid passes, whether or not the policy uses the item; NaN with
        fewer than two.
    per_item_any : ndarray, shape (n,), int8
        1, 0, or -1 with fewer than two valid passes.
    used : ndarray, shape (n,), bool
        Items behind `pairwise` and `any`.
    n_used, n_dropped : int
        Their number, and that of the others.
    n_flipped : int
        Used items with any flip.
    n_complete : int
        Items that carry every pass.
    pair_matrix : ndarray, shape (m, m), float64
        Share of items on which two passes differ; 0 on the diagonal, NaN without items.
    pair_n : ndarray, shape (m, m), int64
        Items behind each cell.
    policy : str
    """

    pairwise: float
    any: float
    per_item_pairwise: NDArray[np.float64]
    per_item_any: NDArray[np.int8]
    used: NDArray[np.bool_]
    n_used: int
    n_dropped: int
    n_flipped: int
    n_complete: int
    pair_matrix: NDArray[np.float64]
    pair_n: NDArray[np.int64]
    policy: Policy

    def __repr__(self) -> str:
        return (
            f"FlipRates(pairwise={percent(self.pairwise)}, any={percent(self.any)}, "
            f"{len(self.pair_n)} passes, {self.n_used} items, "
            f"{self.n_dropped} dropped, {self.policy})"
        )


def flip_rates(
    answers: ArrayLike, *, missing: int = -1, policy: Policy = "complete"
) -> FlipRates:
    """Pairwise and any-flip rates of answers over passes.

    With n_k of an item's m valid passes answering k, its pairwise flip is
    ``1 - sum_k n_k (n_k - 1) / (m (m - 1))`` and its any-flip is whether two answers
    occur. Passes are phases (of consensus answers), orders at a fixed phase, samplers,
    or re-runs.

    Parameters
    ----------
    answers : array_like, shape (n, m), int
        Content indices, one row an item, one column a pass.
    missing : int, default -1
        The value of a missing answer.
    policy : {'complete', 'available-macro', 'available-micro'}, default 'complete'
        Items that carry every pass; mean over items of what each has; differing pairs
        over all pairs. The three agree when nothing is missing.

    Returns
    -------
    FlipRates

    Raises
    ------
    StatisticsError
        If answers are not integers of shape (n, m), or below 0 and not missing.

    See Also
    --------
    order_flip_rates : leaves repeated orders out
    expected_any_flip : any-flip of fewer passes, to compare unlike designs

    Examples
    --------
    >>> flip_rates([[0, 0, 0], [0, 0, 1], [0, 1, 2], [2, 2, 2]])
    FlipRates(pairwise=41.67 %, any=50.00 %, 3 passes, 4 items, 0 dropped, complete)
    """
    check_choice(policy, POLICIES, "policy")
    table = integers(answers, "answers", 2, missing)
    made = _summarized(table, None, policy) if missing == -1 else None
    if made is not None:
        return made
    table = answer_table(answers, missing)
    return _rates(table, np.full(len(table), table.shape[1], np.int64), policy)


_MAX_SUMMARY = (255, 32)  # passes and answers of the kernel that does all at once


def _summarized(
    table: NDArray[np.int64], expected: NDArray[np.int64] | None, policy: Policy
) -> FlipRates | None:
    """Rates in one pass over the table; None where that kernel refuses it."""
    max_passes, max_answers = _MAX_SUMMARY
    if not 1 <= table.shape[1] <= max_passes:
        return None
    try:
        made, n_flipped, n_complete = _core.flip_summary(
            table, max_answers, expected, policy == "complete"
        )
    except ValueError:  # a label out of its range; not yet known to be wrong
        return None
    per_item, any_flip, used, n_items, differ, n_differ, n_both = made
    n_used = int(n_items.sum())
    sizes = [m for m in range(2, len(n_items)) if n_items[m]]
    pairs = [m * (m - 1) for m in sizes]
    parts = [int(differ[m]) for m in sizes]
    pairwise = float("nan")
    if policy == "available-micro" or len(sizes) == 1:
        whole = sum(int(n_items[m]) * p for m, p in zip(sizes, pairs, strict=True))
        pairwise = sum(parts) / whole if whole else pairwise
    elif n_used:
        rates = (part / pair for part, pair in zip(parts, pairs, strict=True))
        pairwise = sum(rates) / n_used
    matrix = ratio(n_differ, n_both)
    np.fill_diagonal(matrix, 0.0)
    return FlipRates(
        pairwise=pairwise,
        any=n_flipped / n_used if n_used else float("nan"),
        per_item_pairwise=per_item,
        per_item_any=any_flip,
        used=used,
        n_used=n_used,
        n_dropped=len(table) - n_used,
        n_flipped=n_flipped,
        n_complete=n_complete,
        pair_matrix=matrix,
        pair_n=n_both,
        policy=policy,
    )


def _rates(
    table: NDArray[np.int64], expected: NDArray[np.int64], policy: Policy
) -> FlipRates:
    """Rates of a table in which an item should carry `expected` passes."""
    quick = _summarized(table, expected, policy)
    if quick is not None:
        return quick
    small, n_answers = numbered(table)
    n_valid, n_agreeing, n_distinct, _ = _core.flip_counts(small, n_answers)
    n_pairs = n_valid * (n_valid - 1)
    defined = n_valid >= 2
    complete = n_valid == expected
    kept = complete if policy == "complete" else np.ones_like(complete)
    used = kept & defined
    flipped = n_distinct > 1
    n_used, n_flipped = int(used.sum()), int((used & flipped).sum())
    n_differ, n_both = _core.flip_pairs(small, n_answers, kept)
    matrix = ratio(n_differ, n_both)
    np.fill_diagonal(matrix, 0.0)
    return FlipRates(
        pairwise=pooled(n_pairs - n_agreeing, n_pairs, used, policy),
        any=n_flipped / n_used if n_used else float("nan"),
        per_item_pairwise=ratio(n_pairs - n_agreeing, n_pairs),
        per_item_any=np.where(defined, flipped, -1).astype(np.int8),
        used=used,
        n_used=n_used,
        n_dropped=len(table) - n_used,
        n_flipped=n_flipped,
        n_complete=int(complete.sum()),
        pair_matrix=matrix,
        pair_n=n_both,
        policy=policy,
    )


def order_flip_rates(
    answers: ArrayLike,
    orders: ArrayLike | Sequence[ArrayLike],
    *,
    missing: int = -1,
    policy: Policy = "complete",
) -> FlipRates:
    """Flip rates over option orders, repeated orders counted once.

    Three options have six orders, so ten shared orders repeat four of them. A repeat is
    no evidence about order: counted as a pass of its own it lowers the pairwise rate.
    The first pass with an order is kept.

    Parameters
    ----------
    answers : array_like, shape (n, M), int
        Content indices (not letters) of single passes at a fixed phase.
    orders : array_like, shape (M, K), int; or sequence of n such arrays
        The orders behind the columns, for all items or item by item (K may differ).
    missing, policy
        As in `flip_rates`; a complete item carries all of its distinct orders.

    Returns
    -------
    FlipRates

    Raises
    ------
    StatisticsError
        If the shapes do not match.
    OptionError
        If a row of orders is no permutation.

    Examples
    --------
    >>> order_flip_rates([[0, 1, 0]], [[0, 1], [1, 0], [0, 1]]).pairwise
    1.0
    """
    check_choice(policy, POLICIES, "policy")
    table = answer_table(answers, missing)
    first = _first_of_each(orders, len(table))
    if first.shape[-1] != table.shape[1]:
        raise StatisticsError(
            f"{first.shape[-1]} orders were given for {table.shape[1]} columns of "
            "answers"
        )
    if first.ndim == 1:
        kept = np.ascontiguousarray(table[:, first])
        return _rates(kept, np.full(len(kept), kept.shape[1], np.int64), policy)
    return _rates(np.where(first, table, np.int64(-1)), first.sum(axis=1), policy)


def _first_of_each(orders: Any, n_items: int) -> NDArray[np.bool_]:
    """Mask of first occurrences: (M,) for shared orders, (n, M) item by item."""
    shared = isinstance(orders, np.ndarray) and orders.ndim == 2
    if shared or np.ndim(orders[0][0]) == 0:
        return distinct(orders)
    if len(orders) != n_items:
        raise StatisticsError(f"{len(orders)} sets of orders for {n_items} items")
    masks = [distinct(rows) for rows in orders]
    if len({len(mask) for mask in masks}) != 1:
        raise StatisticsError("every item needs as many orders as answers has columns")
    return np.array(masks)


def change_rate(
    a: ArrayLike,
    b: ArrayLike,
    *,
    missing: int = -1,
    confidence_level: float = 0.95,
    method: Method = "wilson",
) -> Proportion:
    """Share of items whose answer differs between two runs of one arm.

    The half-step change rate when b is a under a shifted origin, the re-run floor when
    nothing was changed, the fluctuation rate when b has the reversed order.

    Parameters
    ----------
    a, b : array_like, shape (n,), int
        Content indices of the same items.
    missing : int, default -1
        Items with a missing answer on either side are left out and counted.
    confidence_level, method
        As in `proportion_ci`.

    Returns
    -------
    Proportion

    Raises
    ------
    StatisticsError
        If the two differ in shape or are not integers.

    Examples
    --------
    >>> change_rate([0, 1, 2, 3], [0, 1, 1, -1])
    Proportion(33.33 % [6.15 %, 79.23 %], 1 of 3, 1 dropped, wilson at 0.95)
    """
    first = answer_table(a, missing, "a", 1)
    second = answer_table(b, missing, "b", 1)
    if first.shape != second.shape:
        raise StatisticsError(f"a has {len(first)} items, b has {len(second)}")
    both = (first >= 0) & (second >= 0)
    return proportion_ci(
        int((both & (first != second)).sum()),
        int(both.sum()),
        confidence_level,
        method,
        n_dropped=int((~both).sum()),
    )


def expected_any_flip(counts: ArrayLike, m: ArrayLike) -> Any:
    """Rarefy: expected any-flip of m passes drawn from those that were made.

    ``1 - sum_k C(n_k, m) / C(M, m)`` with n_k of M passes answering k. m = 2 is the
    pairwise flip and m = M the any-flip, so designs of unlike size can be compared at a
    common m.

    Parameters
    ----------
    counts : array_like, shape (..., K), int
        How many of an item's passes gave each answer.
    m : int, or array_like of int with one row of counts
        Passes drawn without replacement, >= 1.

    Returns
    -------
    float, or ndarray of the shape of m, or of counts without its last axis
        NaN where an item has fewer than m passes.

    Raises
    ------
    StatisticsError
        If m is below 1 or a count is negative.

    Examples
    --------
    >>> expected_any_flip([6, 3, 1], 2)
    0.6
    >>> expected_any_flip([6, 3, 1], [1, 3])
    array([0.   , 0.825])
    """
    table = integers(counts, "counts")
    draws = integers(m, "m")
    if table.ndim < 1 or table.shape[-1] < 1:
        raise StatisticsError(f"counts must have shape (..., K), it is {table.shape}")
    if draws.size and draws.min() < 1:
        raise StatisticsError(f"m must be >= 1, it is {int(draws.min())}")
    if table.size and table.min() < 0:
        raise StatisticsError(f"counts must be >= 0, one is {int(table.min())}")
    if draws.ndim and table.ndim > 1:
        raise StatisticsError(
            "give one m for many rows of counts, or many m for one row"
        )
    rows = np.ascontiguousarray(table).reshape(-1, table.shape[-1])
    rates = [_core.expected_any_flip(rows, int(draw)) for draw in draws.ravel()]
    if draws.ndim:
        return np.array([rate[0] for rate in rates]).reshape(draws.shape)
    return float(rates[0][0]) if table.ndim == 1 else rates[0].reshape(table.shape[:-1])


def rarefied_flip_rate(answers: ArrayLike, m: int, *, missing: int = -1) -> float:
    """Mean over items of the expected any-flip of m of their passes.

    Parameters
    ----------
    answers : array_like, shape (n, M), int
        Content indices; leave repeated orders out first (`orders.distinct`).
    m : int
        Passes drawn, >= 1. Items with fewer valid passes are left out.
    missing : int, default -1
        The value of a missing answer.

    Returns
    -------
    float
        NaN if no item has m valid passes.

    Raises
    ------
    StatisticsError
        If m is below 1 or answers are not integers of shape (n, M).

    Examples
    --------
    >>> round(rarefied_flip_rate([[0, 0, 1], [2, 2, 2]], 2), 4)
    0.3333
    """
    table, n_answers = numbered(answer_table(answers, missing))
    counts = (table[:, :, None] == np.arange(n_answers)).sum(axis=1)
    rates = expected_any_flip(counts, m)
    defined = rates[~np.isnan(rates)]
    return float(defined.mean()) if len(defined) else float("nan")
