"""What option orders do to answers: unanimity, lost correct answers, fixation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.orders import cyclic, validate
from phasefusion.stats._answers import (
    answer_table,
    check_choice,
    gold_answers,
    percent,
)
from phasefusion.stats._exact import binomial_cdf
from phasefusion.stats._numbers import numbers
from phasefusion.stats.consistency import consistency
from phasefusion.stats.proportions import Proportion, proportion_ci

#: Passes that a chance floor is computed for; the work grows with them.
_MOST_PASSES = 100_000
#: A chance that is as good as none.
_NIL = 1e-17


def _complete_correct(
    answers: ArrayLike, gold: ArrayLike, missing: int
) -> tuple[NDArray[np.bool_], int]:
    """Correctness (items with every pass, passes), and how many items were dropped."""
    table = answer_table(answers, missing)
    right = gold_answers(gold, len(table))
    complete = (table >= 0).all(axis=1)
    return (table == right[:, None])[complete], int((~complete).sum())


def unanimity(
    answers: ArrayLike,
    gold: ArrayLike,
    *,
    orders: ArrayLike | None = None,
    orderings: Literal["all", "cyclic"] = "all",
    missing: int = -1,
    confidence_level: float = 0.95,
) -> Proportion:
    """Share of items answered right under every order (CircularEval's score).

    Parameters
    ----------
    answers : array_like, shape (n, M), int
        Content indices, one column an order.
    gold : array_like, shape (n,), int
        Content indices, >= 0.
    orders : array_like, shape (M, K), int, optional
        Needed for 'cyclic'.
    orderings : {'all', 'cyclic'}, default 'all'
        Every column, or those of the K rotations, as CircularEval [1]_ has it.
    missing : int, default -1
        An item with a missing answer among the columns is undefined: it is dropped and
        counted, not failed.
    confidence_level : float, default 0.95

    Returns
    -------
    Proportion

    Raises
    ------
    StatisticsError
        If shapes do not match, or a rotation has no column.

    References
    ----------
    .. [1] Liu et al., "MMBench: is your multi-modal model an all-around player?",
       ECCV 2024.

    Examples
    --------
    >>> unanimity([[0, 0], [1, 0]], [0, 1]).value
    0.5
    """
    check_choice(orderings, ("all", "cyclic"), "orderings")
    table = answer_table(answers, missing)
    if orderings == "cyclic":
        if orders is None:
            raise StatisticsError("orderings='cyclic' needs orders")
        table = table[:, _rotations(validate(orders), table.shape[1])]
    correct, n_dropped = _complete_correct(table, gold, -1)
    return proportion_ci(
        int(correct.all(axis=1).sum()),
        len(correct),
        confidence_level,
        n_dropped=n_dropped,
    )


def _rotations(orders: NDArray[np.int64], n_columns: int) -> list[int]:
    """First column of each rotation."""
    if len(orders) != n_columns:
        raise StatisticsError(
            f"{len(orders)} orders for {n_columns} columns of answers"
        )
    columns = []
    for row in cyclic(orders.shape[1]):
        found = np.flatnonzero((orders == row).all(axis=1))
        if not len(found):
            raise StatisticsError(f"orders lack the rotation {row.tolist()}")
        columns.append(int(found[0]))
    return columns


def lost_correct(
    answers: ArrayLike,
    gold: ArrayLike,
    order: int = 0,
    *,
    missing: int = -1,
    confidence_level: float = 0.95,
) -> Proportion:
    """Share of an order's correct answers that are wrong under some other order.

    Parameters
    ----------
    answers : array_like, shape (n, M), int
        Content indices, one column an order.
    gold : array_like, shape (n,), int
    order : int, default 0
        The column whose correct answers are the denominator.
    missing : int, default -1
        Items with a missing answer are dropped and counted.
    confidence_level : float, default 0.95

    Returns
    -------
    Proportion
        NaN if the order has no correct answer.

    Raises
    ------
    StatisticsError
        If shapes do not match or there is no such column.

    Examples
    --------
    >>> lost_correct([[0, 0], [1, 0], [2, 2]], [0, 1, 0]).value
    0.5
    """
    correct, n_dropped = _complete_correct(answers, gold, missing)
    if not 0 <= order < correct.shape[1]:
        raise StatisticsError(
            f"order must be in 0..{correct.shape[1] - 1}, not {order}"
        )
    mine = correct[correct[:, order]]
    lost = int((~mine.all(axis=1)).sum())
    return proportion_ci(lost, len(mine), confidence_level, n_dropped=n_dropped)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fixation(Result):
    """How firmly answers hold on to a content, to a letter, or to a place.

    Attributes
    ----------
    content, letter, position_mass : float
        Means over items; NaN for what was not given.
    per_item_content, per_item_letter, per_item_position_mass : ndarray, shape (n,)
    chance : float
        Modal share that uniform draws would have: the floor for `content` and `letter`.
    """

    content: float
    letter: float
    position_mass: float
    per_item_content: NDArray[np.float64]
    per_item_letter: NDArray[np.float64]
    per_item_position_mass: NDArray[np.float64]
    chance: float

    def __repr__(self) -> str:
        return (
            f"Fixation(content={percent(self.content)}, letter={percent(self.letter)}, "
            f"position_mass={percent(self.position_mass)}, "
            f"chance={percent(self.chance)})"
        )


def fixation(
    contents: ArrayLike,
    letters: ArrayLike | None = None,
    position_posteriors: ArrayLike | None = None,
    *,
    n_options: int,
    missing: int = -1,
) -> Fixation:
    """Fixation over orders on content, letter and position.

    Parameters
    ----------
    contents : array_like, shape (n, M), int
        Content index answered under each of M distinct orders.
    letters : array_like, shape (n, M), int, optional
        Letter position answered.
    position_posteriors : array_like, shape (n, M, K), float, optional
        Posterior in letter space.
    n_options : int
        K; items with other K need a call of their own, for their chance floor differs.
    missing : int, default -1
        Items with a missing answer have NaN and are left out of the means.

    Returns
    -------
    Fixation
        Per item: the greatest share of one content, of one letter, and the greatest
        mean posterior of a position. Means are over items.

    Raises
    ------
    StatisticsError
        If shapes do not match.

    Examples
    --------
    >>> fixation([[2, 2, 2, 1]], [[0, 0, 1, 0]], n_options=4)
    Fixation(content=75.00 %, letter=75.00 %, position_mass=nan %, chance=53.13 %)
    """
    by_content = consistency(contents, "modal", missing=missing)
    n_items, n_passes = np.shape(contents)
    nothing = np.full(n_items, np.nan)
    letter, per_letter = float("nan"), nothing
    mass, per_mass = float("nan"), nothing
    if letters is not None:
        if np.shape(letters) != (n_items, n_passes):
            raise StatisticsError(
                f"letters must have shape {(n_items, n_passes)}, not "
                f"{np.shape(letters)}"
            )
        by_letter = consistency(letters, "modal", missing=missing)
        letter, per_letter = by_letter.mean, by_letter.per_item
    if position_posteriors is not None:
        posteriors = numbers(position_posteriors, "position_posteriors")
        if posteriors.ndim != 3 or posteriors.shape[::2] != (n_items, n_options):
            raise StatisticsError(
                f"position_posteriors must have shape ({n_items}, M, {n_options}), not "
                f"{posteriors.shape}"
            )
        per_mass = posteriors.mean(axis=1).max(axis=1)
        valid = per_mass[~np.isnan(per_mass)]
        mass = float(valid.mean()) if len(valid) else mass
    return Fixation(
        by_content.mean,
        letter,
        mass,
        by_content.per_item,
        per_letter,
        per_mass,
        expected_modal_share(n_passes, n_options),
    )


def expected_modal_share(n_passes: int, n_options: int) -> float:
    """Compute the expected share of the most frequent of M uniform draws from K.

    The floor that a fixation must be compared with; it is well above 1/K.

    Parameters
    ----------
    n_passes, n_options : int
        M and K, >= 1.

    Returns
    -------
    float
        To about 1e-13: P(max <= t) is the coefficient of x**M in
        ``M! / K**M * (sum_{j<=t} x**j / j!)**K``, taken with Poisson weights and a
        discrete Fourier transform. 1 for one option, of which nothing can be learnt.

    Raises
    ------
    StatisticsError
        If a number is below 1 or n_passes above 100,000.

    Examples
    --------
    >>> round(expected_modal_share(10, 4), 4)
    0.4198
    """
    from scipy.special import betainc, gammaln, xlogy

    if n_passes < 1 or n_options < 1:
        raise StatisticsError(
            f"n_passes and n_options must be >= 1, they are {n_passes} and {n_options}"
        )
    if n_passes > _MOST_PASSES:
        raise StatisticsError(
            f"n_passes is {n_passes}, at most {_MOST_PASSES} are computed"
        )
    if n_options == 1:
        return 1.0
    # E[max] = sum_t P(max > t), from where that is less than certain to where it is nil
    first = _smallest(
        n_passes,
        lambda t: float(binomial_cdf(t, n_passes, 1 / n_options)) ** n_options > _NIL,
    )
    total = float(first)
    counts = np.arange(n_passes)
    log = xlogy(counts, n_passes / n_options) - gammaln(counts + 1.0)
    weights = np.exp(log - n_passes / n_options)
    for t in range(first, n_passes):
        if n_options * float(betainc(t + 1, n_passes - t, 1 / n_options)) < _NIL:
            break
        total += 1.0 - _at_most(weights[: t + 1], n_passes, n_options)
    return total / n_passes


def _smallest(most: int, holds: Callable[[int], bool]) -> int:
    """Find the smallest number below `most` from which something holds, or `most`."""
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _at_most(weights: NDArray[np.float64], n_passes: int, n_options: int) -> float:
    """P(no option is drawn more than t times), of the Poisson weights of 0 .. t.

    Draws are Poisson counts given their sum M. Of K counts cut off at t the chance of a
    sum of M is one Fourier coefficient; sums that the transform takes for M are further
    from it than 40 standard deviations.
    """
    size = 64 + 2 * math.ceil(20.0 * math.sqrt(n_passes))
    folded = np.bincount(np.arange(len(weights)) % size, weights, size)
    turns = np.exp(2j * np.pi * (np.arange(size // 2 + 1) * n_passes % size) / size)
    parts = (np.fft.rfft(folded) ** n_options * turns).real
    # all frequencies but the first and the last are there twice
    chance = (2.0 * parts.sum() - parts[0] - parts[-1]) / size
    log_whole = n_passes * math.log(n_passes) - n_passes - math.lgamma(n_passes + 1)
    return min(1.0, max(0.0, float(chance) / math.exp(log_whole)))
