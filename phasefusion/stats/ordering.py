"""What option orders do to answers: unanimity, lost correct answers, fixation."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import factorial
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
from phasefusion.stats.consistency import consistency
from phasefusion.stats.proportions import Proportion, proportion_ci


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
        posteriors = np.asarray(position_posteriors, dtype=np.float64)
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
        Exact up to the last rounding: P(max <= t) is the coefficient of x**M in
        ``M! / K**M * (sum_{j<=t} x**j / j!)**K``.

    Raises
    ------
    StatisticsError
        If a number is below 1.

    Examples
    --------
    >>> round(expected_modal_share(10, 4), 4)
    0.4198
    """
    if n_passes < 1 or n_options < 1:
        raise StatisticsError(
            f"n_passes and n_options must be >= 1, they are {n_passes} and {n_options}"
        )
    # E[max] = sum_t P(max > t)
    total = sum(1 - _at_most(n_passes, n_options, t) for t in range(n_passes))
    return float(Fraction(total) / n_passes)


def _at_most(n_passes: int, n_options: int, t: int) -> Fraction:
    """P(no option is drawn more than t times)."""
    ways = [Fraction(1)] + [Fraction(0)] * n_passes  # divided by the factorials
    for _ in range(n_options):
        ways = [
            sum(
                (ways[m - j] / factorial(j) for j in range(min(t, m) + 1)),
                start=Fraction(0),
            )
            for m in range(n_passes + 1)
        ]
    return ways[n_passes] * factorial(n_passes) / Fraction(n_options) ** n_passes
