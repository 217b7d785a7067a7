"""What choosing a budget item by item could gain over one budget for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import percent
from phasefusion.stats._numbers import column, indicator, numbers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocation(Result):
    """Accuracy of uniform budgets and of an oracle that sees the labels.

    Attributes
    ----------
    uniform : ndarray, shape (B,), float64
        Accuracy when every item gets budget j.
    best : int
        The most accurate uniform budget, the cheapest among equals; -1 without items.
    best_accuracy, best_cost : float
        Its accuracy and cost an item.
    oracle_accuracy : float
        The most items that any assignment of budgets answers at a mean cost of at most
        best_cost.
    oracle_cost : float
        Mean cost of the cheapest assignment that does.
    headroom : float
        oracle_accuracy - best_accuracy.
    unlimited_accuracy : float
        Share of items that some budget answers; noise alone makes this high.
    n, n_dropped : int
    """

    uniform: NDArray[np.float64]
    best: int
    best_accuracy: float
    best_cost: float
    oracle_accuracy: float
    oracle_cost: float
    headroom: float
    unlimited_accuracy: float
    n: int
    n_dropped: int

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"Allocation(uniform {percent(self.best_accuracy)} at cost "
            f"{self.best_cost:g}, oracle {percent(self.oracle_accuracy)} at "
            f"{self.oracle_cost:.4g}, headroom {100 * self.headroom:.2f} points, "
            f"{self.n} items{dropped})"
        )


def allocation(correct: ArrayLike, costs: ArrayLike) -> Allocation:
    """Compare the best uniform budget with an oracle at the same mean cost.

    Parameters
    ----------
    correct : array_like, shape (n, B), bool or 0/1
        Whether each item is answered under each budget; a row with -1 or NaN is left
        out.
    costs : array_like, shape (B,), float
        Cost of each budget, > 0, such as `attention_units`.

    Returns
    -------
    Allocation
        The oracle is exact: items cost what their cheapest right budget costs, and the
        ones that cost least beyond the cheapest budget are answered first.

    Raises
    ------
    StatisticsError
        If the shapes do not match or a cost is not positive.

    Examples
    --------
    >>> allocation([[1, 1], [0, 1], [1, 0], [0, 0]], [64, 192])
    Allocation(uniform 50.00 % at cost 64, oracle 50.00 % at 64, headroom 0.00 points, \
4 items)
    """
    price = column(costs, "costs")
    given = numbers(correct, "correct")
    if given.ndim != 2 or given.shape[1] != len(price) or not len(price):
        raise StatisticsError(
            f"correct must have shape (n, {len(price)}), one column a cost; it is "
            f"{given.shape}"
        )
    if not ((price > 0.0) & np.isfinite(price)).all():
        raise StatisticsError("costs must be positive and finite")
    flat = indicator(given.ravel(), "correct").reshape(given.shape)
    kept = ~np.isnan(flat).any(axis=1)
    right = flat[kept] == 1.0
    n, n_dropped = len(right), int((~kept).sum())
    if n == 0:
        nan = float("nan")
        empty = np.full(len(price), nan)
        return Allocation(empty, -1, nan, nan, nan, nan, nan, nan, 0, n_dropped)
    solved = right.sum(axis=0)
    best = min(range(len(price)), key=lambda j: (-int(solved[j]), price[j]))
    least = float(price.min())
    cheapest = np.where(right, price, np.inf).min(axis=1)
    extra = np.sort(cheapest[np.isfinite(cheapest)] - least)
    spent = np.concatenate([[0.0], np.cumsum(extra)])
    purse = n * (float(price[best]) - least)
    # sums of costs carry rounding; an assignment at exactly the cost must pass
    count = int(np.searchsorted(spent, purse * (1 + 1e-12), side="right")) - 1
    accuracy = int(solved[best]) / n
    return Allocation(
        uniform=solved / n,
        best=best,
        best_accuracy=accuracy,
        best_cost=float(price[best]),
        oracle_accuracy=count / n,
        oracle_cost=least + float(spent[count]) / n,
        headroom=(count - int(solved[best])) / n,
        unlimited_accuracy=len(extra) / n,
        n=n,
        n_dropped=n_dropped,
    )
