"""Votes: consensus over orders, and the majority vote that fusion is compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._arrays import as_array
from phasefusion._random import MAX_OPTIONS, tie_seeds
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import answer_table, check_choice, integers, percent
from phasefusion.stats._numbers import numbers

Rule: TypeAlias = Literal["posterior", "priority", "lowest", "first"]
_RULES = ("posterior", "priority", "lowest", "first")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Consensus(Result):
    """Plurality of votes; the item axis is missing where one item was given.

    Attributes
    ----------
    answers : ndarray, shape (n,), int64; or int
        Content index; -1 without a vote.
    n_tied : ndarray, shape (n,), int64; or int
        Answers that share the highest count: 1 without a tie, 0 without a vote.
    counts : ndarray, shape (n, K) or (K,), int64
    tie_rate : float
        Share of the items with a vote that are tied; NaN without any.
    rule : str
    """

    answers: Any
    n_tied: Any
    counts: NDArray[np.int64]
    tie_rate: float
    rule: Rule

    @property
    def tied_answers(self) -> NDArray[np.bool_]:
        """Which answers share the highest count, shape of `counts`."""
        most = self.counts.max(axis=-1, keepdims=True)
        tied: NDArray[np.bool_] = (self.counts == most) & (most > 0)
        return tied

    def __repr__(self) -> str:
        if self.counts.ndim == 1:
            return (
                f"Consensus({self.answers}, votes {self.counts.tolist()}, {self.rule})"
            )
        missing = int((self.answers < 0).sum())
        return (
            f"Consensus({len(self.counts)} items, {missing} without a vote, "
            f"tie_rate={percent(self.tie_rate)}, {self.rule})"
        )


def consensus(
    votes: ArrayLike,
    *,
    n_options: ArrayLike | None = None,
    rule: Rule | None = None,
    mean_posterior: ArrayLike | None = None,
    item_ids: Sequence[str] | str | None = None,
    seed: int = 0,
    missing: int = -1,
) -> Consensus:
    """Plurality in content space, with a stated rule for ties.

    Parameters
    ----------
    votes : array_like, shape (n, M) or (M,), int
        Content indices of the passes that vote, one row an item.
    n_options : int or array_like of int, shape (n,), optional
        K of each item. By default the width of mean_posterior, else the greatest vote
        plus one (give K where options may get no vote: it sets the tie priority).
    rule : {'posterior', 'priority', 'lowest', 'first'}, optional
        For ties. 'posterior' takes the highest mean posterior among the tied, then the
        priority; 'priority' is neutral (`tie_priority`); 'lowest' index favours content
        0, and with it the score where gold is written first; 'first' takes the tied
        answer that was voted for first. Default: 'posterior' with mean_posterior,
        'priority' without. Use one rule in all arms, or ties make flips.
    mean_posterior : array_like, shape (n, K) or (K,), float, optional
        Mean content-space posterior over the passes that vote.
    item_ids : sequence of str, length n; or str for one item, optional
        For the tie priority; by default the row number, '' for one item. Give the ids
        wherever rows of two calls are compared.
    seed : int, default 0
        The run's seed.
    missing : int, default -1
        The value of a missing vote.

    Returns
    -------
    Consensus

    Raises
    ------
    StatisticsError
        If shapes do not match, a vote is no option, or 'posterior' has no posterior.

    Examples
    --------
    >>> consensus([0, 0, 1, 1], n_options=4, mean_posterior=[0.3, 0.4, 0.2, 0.1])
    Consensus(1, votes [2, 2, 0, 0], posterior)
    """
    one = np.ndim(votes) == 1
    table = answer_table(
        as_array(votes, "votes", StatisticsError, missing)[None] if one else votes,
        missing,
        "votes",
    )
    if rule is None:
        rule = "priority" if mean_posterior is None else "posterior"
    check_choice(rule, _RULES, "rule")
    posterior = _posterior(mean_posterior, one, len(table))
    if rule == "posterior" and posterior is None:
        raise StatisticsError("rule='posterior' needs mean_posterior")
    kept = _options(n_options, table, posterior)
    width = int(kept.max(initial=1)) if posterior is None else posterior.shape[1]
    _check_votes(table, kept)
    answers, n_tied, counts = _core.consensus(
        table,
        kept,
        tie_seeds(_ids(item_ids, one, len(table)), seed),
        posterior,
        width,
        _RULES.index(rule),
    )
    voted = int((n_tied > 0).sum())
    tie_rate = int((n_tied > 1).sum()) / voted if voted else float("nan")
    if one:
        return Consensus(int(answers[0]), int(n_tied[0]), counts[0], tie_rate, rule)
    return Consensus(answers, n_tied, counts, tie_rate, rule)


def majority_vote(
    phase_answers: ArrayLike,
    *,
    n_options: ArrayLike | None = None,
    rule: Rule = "priority",
    mean_posterior: ArrayLike | None = None,
    item_ids: Sequence[str] | str | None = None,
    seed: int = 0,
    missing: int = -1,
) -> Consensus:
    """Plurality of the answers of S phases: the arm that fusion is compared with.

    Ties are broken by the neutral priority. Breaking them by the posterior would make
    the vote equal to fusion on the very items where the two can differ (with S = 2, on
    every disagreement); report `tie_rate`.

    Parameters
    ----------
    phase_answers : array_like, shape (n, S) or (S,), int
    n_options, rule, mean_posterior, item_ids, seed, missing
        As in `consensus`; rule 'first' is the first phase's among the tied.

    Returns
    -------
    Consensus

    Raises
    ------
    StatisticsError
        As `consensus`.

    Examples
    --------
    >>> majority_vote([[0, 2, 2], [1, 1, 3]]).answers
    array([2, 1])
    """
    return consensus(
        phase_answers,
        n_options=n_options,
        rule=rule,
        mean_posterior=mean_posterior,
        item_ids=item_ids,
        seed=seed,
        missing=missing,
    )


@dataclass(frozen=True, slots=True, repr=False)
class TieRange(Result):
    """Change rate of two arms' votes, over all ways in which ties could be broken.

    Attributes
    ----------
    low, high : float
        Share of items that change however ties are broken, and with the worst choice.
    expected : float
        With independent random choices.
    tie_rate : float
        Share of the votes of both arms without a single winner.
    n, n_dropped : int
    """

    low: float
    high: float
    expected: float
    tie_rate: float
    n: int
    n_dropped: int

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return (
            f"TieRange({percent(self.low)} to {percent(self.high)}, expected "
            f"{percent(self.expected)}, ties {percent(self.tie_rate)}, {self.n} items"
            f"{dropped})"
        )


def tie_range(counts_a: ArrayLike, counts_b: ArrayLike) -> TieRange:
    """Range of the change rate between two arms over the choices of tied votes.

    Says how much of a change rate may be made by the tie rule.

    Parameters
    ----------
    counts_a, counts_b : array_like, shape (n, K), int
        Votes for each answer, such as `Consensus.counts`. An item without a vote in one
        arm is left out and counted.

    Returns
    -------
    TieRange

    Raises
    ------
    StatisticsError
        If the shapes differ or a count is negative.

    Examples
    --------
    >>> tie_range([[2, 0], [1, 1], [0, 2]], [[2, 0], [2, 0], [2, 0]])
    TieRange(33.33 % to 66.67 %, expected 50.00 %, ties 16.67 %, 3 items)
    """
    first, second = integers(counts_a, "counts_a", 2), integers(counts_b, "counts_b", 2)
    if first.shape != second.shape:
        raise StatisticsError(
            f"counts_a have shape {first.shape}, counts_b have {second.shape}"
        )
    if min(first.min(initial=0), second.min(initial=0)) < 0:
        raise StatisticsError("counts must be >= 0")
    kept = (first.sum(axis=1) > 0) & (second.sum(axis=1) > 0)
    winners = [
        table[kept] == table[kept].max(axis=1, initial=0, keepdims=True)
        for table in (first, second)
    ]
    sizes = [tied.sum(axis=1) for tied in winners]
    both = (winners[0] & winners[1]).sum(axis=1)
    n = int(kept.sum())
    if not n:
        nan = float("nan")
        return TieRange(nan, nan, nan, nan, 0, len(kept))
    settled = (sizes[0] == 1) & (sizes[1] == 1) & (both == 1)
    agree = both / (sizes[0] * sizes[1])
    return TieRange(
        low=int((both == 0).sum()) / n,
        high=int((~settled).sum()) / n,
        expected=1.0 - math.fsum(agree.tolist()) / n,
        tie_rate=(int((sizes[0] > 1).sum()) + int((sizes[1] > 1).sum())) / (2 * n),
        n=n,
        n_dropped=len(kept) - n,
    )


def _posterior(
    mean_posterior: ArrayLike | None, one: bool, n_items: int
) -> NDArray[np.float64] | None:
    if mean_posterior is None:
        return None
    array = numbers(mean_posterior, "mean_posterior")
    array = np.ascontiguousarray(array[None] if one and array.ndim == 1 else array)
    if array.ndim != 2 or len(array) != n_items or array.shape[1] < 1:
        raise StatisticsError(
            f"mean_posterior must have one row for each of {n_items} items, its shape "
            f"is {np.shape(mean_posterior)}"
        )
    return array


def _options(
    n_options: ArrayLike | None,
    table: NDArray[np.int64],
    posterior: NDArray[np.float64] | None,
) -> NDArray[np.int64]:
    """K of each item, from what is known."""
    if n_options is not None:
        given = integers(n_options, "n_options")
    elif posterior is not None:
        given = np.asarray(posterior.shape[1])
    else:
        given = np.asarray(max(int(table.max(initial=-1)) + 1, 1))
    limit = MAX_OPTIONS if posterior is None else min(MAX_OPTIONS, posterior.shape[1])
    if given.shape not in ((), (len(table),)):
        raise StatisticsError(
            f"n_options must be an int or have one entry an item, its shape is "
            f"{given.shape}"
        )
    if given.size and not (1 <= given.min() and given.max() <= limit):
        raise StatisticsError(
            f"the number of options must be in 1..{limit}, it reaches from "
            f"{int(given.min())} to {int(given.max())}"
        )
    return np.array(np.broadcast_to(given, (len(table),)), dtype=np.int64)


def _check_votes(table: NDArray[np.int64], kept: NDArray[np.int64]) -> None:
    wrong = np.argwhere(table >= kept[:, None])
    if len(wrong):
        item, place = (int(i) for i in wrong[0])
        raise StatisticsError(
            f"votes[{item}, {place}] is {int(table[item, place])}, but item {item} has "
            f"{int(kept[item])} options"
        )


def _ids(
    item_ids: Sequence[str] | str | None, one: bool, n_items: int
) -> Sequence[str]:
    if item_ids is None:
        return [""] if one else [str(i) for i in range(n_items)]
    ids = [item_ids] if isinstance(item_ids, str) else list(item_ids)
    if len(ids) != n_items:
        raise StatisticsError(f"{len(ids)} item ids were given for {n_items} items")
    return ids
