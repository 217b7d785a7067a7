"""What a run asks of a scorer, and of what it returns."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phasefusion._arrays import as_array
from phasefusion._probabilities import (
    ROUNDING,
    TAKE_THE_LOG,
    are_probabilities,
    excess,
)
from phasefusion.errors import ScoringError

if TYPE_CHECKING:
    from phasefusion.protocols.arms import Arm
    from phasefusion.scoring.protocol import Scorer


def takes_many(scorer: object) -> bool:
    """Whether a scorer's ``score_many`` stands for its ``score``.

    It does not where a subclass or an instance has put another ``score`` in the place
    of the one that it was written with.
    """
    if "score" in getattr(scorer, "__dict__", ()):
        return False
    for kind in type(scorer).__mro__:
        if "score_many" in vars(kind):
            return True
        if "score" in vars(kind):
            return False
    return False


def forget_other_runs(scorer: object, arm: Arm) -> None:
    """Let a repeated run make everything again, or it would repeat nothing."""
    forget = getattr(scorer, "forget", None)
    if arm.run and callable(forget):
        forget()


def check_scorer(scorer: object) -> None:
    """Refuse what has no method ``score`` that can be called as a run calls it.

    Raises
    ------
    ScoringError
        Saying how the method must look.
    """
    name = type(scorer).__name__
    wanted = "a scorer needs a method score(self, clip, question, options, *, orders)"
    score = getattr(scorer, "score", None)
    if isinstance(scorer, type):
        raise ScoringError(
            f"{scorer.__name__} is a class; give an object of it: {scorer.__name__}()"
        )
    if not callable(score):
        raise ScoringError(f"{name} has no method score; {wanted}")
    try:
        signature = inspect.signature(score)
    except (TypeError, ValueError):  # a compiled function may have none
        return
    try:
        signature.bind(None, "", (), orders=None)
    except TypeError as error:
        raise ScoringError(
            f"{name}.score{signature} cannot be called: {error}; {wanted}"
        ) from None


def check_scores(
    scorer: Scorer, scores: object, n_phases: int, orders: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return log-probabilities and option mass of what a scorer returned.

    Parameters
    ----------
    scorer : Scorer
        Named in messages.
    scores : OptionScores or array_like, shape (S, M, K)
        Of an array the option mass is the sum of its exponentials over the options.
    n_phases : int
        S.
    orders : ndarray, shape (M, K), int64
        That were asked for.

    Returns
    -------
    logprobs : ndarray, shape (S, M, K), float64
    option_mass : ndarray, shape (S, M), float64

    Raises
    ------
    ScoringError
        If it is neither, a shape or its orders are other ones, a log-probability is
        above 0, or the probabilities of a pass add up to more than 1 where letters were
        scored and none of its options was entered with a bound (``bounded``).
    """
    name = type(scorer).__name__
    shape = (n_phases, *orders.shape)
    wanted = (
        "it must be OptionScores, or an array of log-probabilities of shape "
        f"(phases, orders, options) = {shape}"
    )
    has_mass = hasattr(scores, "logprobs") and hasattr(scores, "option_mass")
    content = _numbers(name, getattr(scores, "logprobs", scores), wanted)
    if content.shape != shape:
        raise ScoringError(
            f"{name}.score returned logprobs of shape {content.shape}; {wanted}"
        )
    given = getattr(scores, "orders", orders)
    if not np.array_equal(given, orders):
        raise ScoringError(
            f"{name}.score returned scores of the orders {np.asarray(given).tolist()}; "
            f"it was asked for {orders.tolist()}, and must return these"
        )
    _check_logarithms(name, content)
    kind = getattr(scores, "kind", "letter")
    if kind == "letter":  # of texts, one may begin with another
        _check_sums(name, content, getattr(scores, "bounded", ()))
    if not has_mass:
        return content, np.exp(content).sum(axis=-1)
    wanted = f"option_mass must have the shape (phases, orders) = {shape[:2]}"
    mass = _numbers(name, getattr(scores, "option_mass", None), wanted)
    if mass.shape != shape[:2]:
        raise ScoringError(
            f"{name}.score returned option_mass of shape {mass.shape}; {wanted}"
        )
    if kind == "letter" and (mass > 1 + ROUNDING).any():
        raise ScoringError(
            f"{name}.score returned an option_mass of {np.nanmax(mass):.6g}; a "
            "probability is at most 1"
        )
    return content, mass


def _check_logarithms(name: str, content: NDArray[np.float64]) -> None:
    """Refuse what is above 0, which no logarithm of a probability is."""
    finite = content[np.isfinite(content)]
    if not finite.size or finite.max() <= 1e-6:
        return
    raise ScoringError(
        f"{name}.score returned a log-probability of {finite.max():.6g}; it must "
        + (
            f"be <= 0: {TAKE_THE_LOG}"
            if are_probabilities(content)
            else "be <= 0. Logits need a log-softmax first, probabilities a "
            "logarithm, losses a change of sign"
        )
    )


def _check_sums(
    name: str, content: NDArray[np.float64], bounded: Collection[tuple[int, int]]
) -> None:
    """Refuse log-probabilities of a pass that add up to more than certainty.

    Not of passes in which an unknown option was entered with the most that it can have.
    """
    looked_at = ~np.isposinf(content)
    for at in np.ndindex(content.shape[:2]):
        if at in bounded:
            looked_at[at] = False
    most = excess(np.where(looked_at, content, np.nan))
    if most is not None:
        raise ScoringError(
            f"{name}.score returned log-probabilities of one pass whose probabilities "
            f"add up to {most:.6g}, more than 1; unnormalised scores need a "
            "log-softmax first. Scores of the texts of options may add up to more: "
            'return OptionScores(..., kind="text"), or "text-normalised" of means per '
            "token"
        )


def _numbers(name: str, values: object, wanted: str) -> NDArray[np.float64]:
    """Return values as float64, what is masked as NaN, or say why they are none."""
    said = f"{name}.score returned {reprlib.repr(values)}, a {type(values).__name__}"
    try:
        table = as_array(values, "it", ScoringError, np.nan)
    except ScoringError as error:
        raise ScoringError(f"{said}, and {error}; {wanted}") from error
    if table.dtype.kind in "iuf" and (table.ndim or hasattr(values, "dtype")):
        return table.astype(np.float64)
    of = f" of dtype {table.dtype}" if table.ndim else ""
    raise ScoringError(f"{said}{of}; {wanted}")
