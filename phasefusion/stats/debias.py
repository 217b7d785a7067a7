"""Taking the option order out after the fact: PriDe, averages over permutations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._arrays import as_array
from phasefusion._random import MASK_64, check_seed
from phasefusion._results import Result
from phasefusion._ties import best_options, tie_ids
from phasefusion.errors import StatisticsError
from phasefusion.orders import cyclic, to_content, validate
from phasefusion.stats._answers import percent
from phasefusion.stats._numbers import numbers

EPSILON = 1e-10  # of the published method: inside logs and in denominators


def _probabilities(values: ArrayLike, n_dim: int, name: str) -> Any:
    array = numbers(values, name, None)
    if array.ndim != n_dim or array.shape[-1] < 1:
        raise StatisticsError(
            f"{name} must have {n_dim} dimensions, options last; its shape is "
            f"{array.shape}"
        )
    if not (np.isfinite(array).all() and (array >= 0.0).all()):
        raise StatisticsError(f"{name} must be finite probabilities >= 0")
    return array


def _normalised(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide by the sum over options plus epsilon."""
    return np.asarray(p / (p.sum(axis=-1, keepdims=True) + EPSILON))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """With the epsilon that the published method has in the denominator."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(e / (e.sum(axis=-1, keepdims=True) + EPSILON))


def letter_prior(observed: ArrayLike) -> NDArray[np.float64]:
    """Preference for letters that one item shows over its option orders.

    The geometric mean of the letter probabilities over orders in which every content
    takes every letter equally often: the content cancels, the letter stays.

    Parameters
    ----------
    observed : array_like, shape (..., M, K), float
        Probabilities by letter of M orders; cyclic ones, or all. They need not sum
        to 1.

    Returns
    -------
    ndarray, shape (..., K), float64

    Raises
    ------
    StatisticsError
        If a value is negative or not finite.

    Examples
    --------
    >>> letter_prior([[0.6, 0.4], [0.6, 0.4]]).round(3)
    array([0.6, 0.4])
    """
    array = numbers(observed, "observed", None)
    p = _normalised(_probabilities(array, max(array.ndim, 2), "observed"))
    return _softmax(np.log(p + EPSILON).mean(axis=-2))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Marginal(Result):
    """Posterior in content space averaged over orders.

    Attributes
    ----------
    posterior : ndarray, shape (K,), float64
    answer : int
        Its best option; the tie priority of the item chooses among equals.
    tied : bool
        Whether it had to.
    prior : ndarray, shape (K,), float64
        Preference for letters over the same orders.
    full : bool
        Whether the orders are all K! permutations, each once.
    n_orders : int
    """

    posterior: NDArray[np.float64]
    answer: int
    tied: bool
    prior: NDArray[np.float64]
    full: bool
    n_orders: int

    def __repr__(self) -> str:
        kind = "all" if self.full else "available"
        shown = " ".join(f"{p:.4f}" for p in self.posterior)
        return (
            f"Marginal(answer={self.answer}, posterior=[{shown}], {self.n_orders} "
            f"orders, {kind})"
        )


def permutation_marginal(
    observed: ArrayLike, orders: ArrayLike, *, item_id: str = "", seed: int = 0
) -> Marginal:
    """Average one item's posterior over option orders, in content space.

    Parameters
    ----------
    observed : array_like, shape (M, K), float
        Probabilities by letter, one row an order; they need not sum to 1.
    orders : array_like, shape (M, K), int
        ``orders[m, letter] = content``.
    item_id : str, default ''
        Seeds the tie priority: see `stats.tie_priority`.
    seed : int, default 0
        The run's seed, for ties.

    Returns
    -------
    Marginal
        Called full only with all K! permutations.

    Raises
    ------
    StatisticsError
        If the shapes differ or a value is negative or not finite.
    OptionError
        If a row of orders is no permutation.

    Examples
    --------
    >>> permutation_marginal([[0.7, 0.3], [0.6, 0.4]], [[0, 1], [1, 0]]).posterior
    array([0.55, 0.45])
    """
    p = _normalised(_probabilities(observed, 2, "observed"))
    checked = validate(orders)
    if checked.shape != p.shape:
        raise StatisticsError(
            f"observed of shape {p.shape} do not match orders of shape {checked.shape}"
        )
    content = np.asarray(to_content(p, checked)).mean(axis=0)
    different = len(np.unique(checked, axis=0))
    full = different == len(checked) == math.factorial(checked.shape[1])
    answers, tied = best_options(content[None], tie_ids([item_id], 1), seed)
    return Marginal(
        posterior=content,
        answer=int(answers[0]),
        tied=bool(tied[0]),
        prior=letter_prior(p),
        full=full,
        n_orders=len(checked),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Debiased(Result):
    """Letter probabilities divided by a prior.

    Attributes
    ----------
    scores, posterior : ndarray, shape (..., K), float64
        ``log(p + eps) - log(prior + eps)`` by letter, and its softmax.
    answers : ndarray, shape (...), int64
        Best option by letter: the content where options stand in their own order. The
        tie priority of the item chooses among equals.
    tied : ndarray, shape (...), bool
        Where it had to.
    """

    scores: NDArray[np.float64]
    posterior: NDArray[np.float64]
    answers: Any
    tied: Any


def divide_by_prior(
    observed: ArrayLike,
    prior: ArrayLike,
    *,
    item_ids: Sequence[str] | None = None,
    seed: int = 0,
) -> Debiased:
    """Remove a letter prior from single passes.

    Parameters
    ----------
    observed : array_like, shape (..., K), float
        Probabilities by letter; they need not sum to 1.
    prior : array_like, shape (K,), float
    item_ids : sequence of str, optional
        One a pass, for the tie priority; the number of the pass by default.
    seed : int, default 0
        The run's seed, for ties.

    Returns
    -------
    Debiased

    Raises
    ------
    StatisticsError
        If a value is negative or not finite, or K differs.

    Examples
    --------
    >>> int(divide_by_prior([0.55, 0.45], [0.7, 0.3]).answers)
    1
    """
    array = numbers(observed, "observed", None)
    p = _normalised(_probabilities(array, max(array.ndim, 1), "observed"))
    weights = _probabilities(prior, 1, "prior")
    if weights.shape[-1] != p.shape[-1]:
        raise StatisticsError(
            f"the prior has {len(weights)} letters, there are {p.shape[-1]} options"
        )
    scores = np.log(p + EPSILON) - np.log(weights + EPSILON)
    posterior = _softmax(scores)
    rows = posterior.reshape(-1, posterior.shape[-1])
    answers, tied = best_options(rows, tie_ids(item_ids, len(rows)), seed)
    shape = posterior.shape[:-1]
    return Debiased(scores, posterior, answers.reshape(shape), tied.reshape(shape))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriDe(Result):
    """Answers debiased by a prior that a few items showed.

    Attributes
    ----------
    answers : ndarray, shape (n,), int64
        Content indices.
    prior : ndarray, shape (K,), float64
        Mean of the item priors.
    estimated : ndarray, shape (n,), bool
        Items the prior was made from; they are answered by their cyclic average.
    n_tied : int
        Items whose best options were equal, so that their tie priority chose.
    seed : int or None
        Of the choice of those items.
    """

    answers: NDArray[np.int64]
    prior: NDArray[np.float64]
    estimated: NDArray[np.bool_]
    n_tied: int
    seed: int | None

    def __repr__(self) -> str:
        shown = " ".join(f"{p:.4f}" for p in self.prior)
        chosen = int(self.estimated.sum())
        return (
            f"PriDe(prior=[{shown}], from {chosen} of {len(self.answers)} items "
            f"({percent(chosen / len(self.answers))}), seed {self.seed})"
        )


def pride(
    observed: ArrayLike,
    rotations: ArrayLike,
    *,
    fraction: float = 0.05,
    seed: int = 0,
    estimated: ArrayLike | None = None,
    item_ids: Sequence[str] | None = None,
) -> PriDe:
    """Estimate the letter prior on a few items and divide it out of the others.

    All items have the same K: a prior holds for one K alone.

    Parameters
    ----------
    observed : array_like, shape (n, K), float
        Probabilities by letter of one pass with the options in their own order.
    rotations : array_like, shape (n, K, K), float
        Probabilities by letter under the K cyclic orders (`orders.cyclic`: letter p of
        row r shows content ``(p + r) % K``). Only rows of the estimation items are
        looked at; the others may be NaN.
    fraction : float, default 0.05
        Share of items to estimate on, in (0, 1]; at least one.
    seed : int, default 0
        Of their choice, and for ties.
    estimated : array_like, shape (n,), bool, optional
        The estimation items themselves, in place of fraction and seed.
    item_ids : sequence of str, length n, optional
        For the tie priority; the row number by default.

    Returns
    -------
    PriDe

    Raises
    ------
    StatisticsError
        If the shapes do not match, no item is to be estimated on, or a value is
        negative or not finite.

    References
    ----------
    .. [1] Zheng et al., "Large language models are not robust multiple choice
       selectors", ICLR 2024, section 4.

    Examples
    --------
    >>> single = [[0.6, 0.4], [0.65, 0.35]]
    >>> cycle = [[[0.6, 0.4], [0.7, 0.3]]] * 2
    >>> pride(single, cycle, estimated=[True, False]).answers
    array([1, 1])
    """
    seed = check_seed(seed)
    single = _probabilities(observed, 2, "observed")
    cycles = numbers(rotations, "rotations")
    n, k = single.shape
    if cycles.shape != (n, k, k) or n == 0:
        raise StatisticsError(
            f"rotations must have shape ({n}, {k}, {k}) with items, it is "
            f"{cycles.shape}"
        )
    if estimated is None:
        if not 0.0 < fraction <= 1.0:
            raise StatisticsError(f"fraction must be in (0, 1], it is {fraction}")
        order = _core.permutations(seed & MASK_64, n, 1)[0]
        chosen = np.zeros(n, dtype=np.bool_)
        chosen[order[: max(1, math.floor(fraction * n))]] = True
    else:
        chosen = as_array(estimated, "estimated", StatisticsError).astype(np.bool_)
    if chosen.shape != (n,) or not chosen.any():
        raise StatisticsError("estimated must name at least one of the n items")
    rows = _normalised(_probabilities(cycles[chosen], 3, "rotations"))
    prior = letter_prior(rows).mean(axis=0)
    posteriors = np.asarray(divide_by_prior(single, prior).posterior)
    posteriors[chosen] = np.asarray(to_content(rows, cyclic(k))).mean(axis=1)
    answers, tied = best_options(posteriors, tie_ids(item_ids, n), seed)
    return PriDe(
        answers=answers,
        prior=prior,
        estimated=chosen,
        n_tied=int(tied.sum()),
        seed=seed if estimated is None else None,
    )
