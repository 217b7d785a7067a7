"""The records that fusing posteriors gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._results import Result

__all__ = ["FusedPosterior", "Missing", "Pool", "WeightedPosterior"]

Pool: TypeAlias = Literal["linear", "loglinear"]
Missing: TypeAlias = Literal["complete", "available"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FusedPosterior(Result):
    """Posterior pooled over passes, with what each pass said.

    Shapes are those of one item; `fuse_items` puts an axis of items in front. "..." is
    (M,) where every order was pooled over the phases on its own, and nothing else; "P"
    is (S,) or (S, M), as in the log-probabilities that were given.

    The arrays are parts of one block of memory, which any of them keeps alive: of a
    large result keep ``result.answer.copy()`` where the rest may go.

    Attributes
    ----------
    posterior : ndarray, shape (..., K), float64
        In content order; sums to 1. NaN where there is no answer, 0 in the padding.
    answer : int or ndarray, shape (...), int64
        Content index of the best option; -1 where there is none.
    margin : float or ndarray, shape (...), float64
        Log of best over second best, in nats: 0 in a tie, inf when one option has all
        the mass, NaN without an answer.
    tied : bool or ndarray, shape (...), bool
        Whether the best options were equal within 4 epsilon, so that the tie priority
        of the item chose.
    n_valid : int or ndarray, shape (...), int64
        Valid passes behind the posterior.
    phase_answers : ndarray, shape P, int64
        Answer of each pass alone; -1 for an invalid one.
    phase_margins : ndarray, shape P, float64
        Margin of each pass alone, in nats; NaN for an invalid one.
    valid : ndarray, shape P, bool
        Passes that could be used.
    reasons : tuple of str
        Why passes are missing, one line each, and why an answer is.
    pool, missing : str
        The rules that were applied.
    """

    posterior: NDArray[np.float64]
    answer: Any
    margin: Any
    tied: Any
    n_valid: Any
    phase_answers: NDArray[np.int64]
    phase_margins: NDArray[np.float64]
    valid: NDArray[np.bool_]
    reasons: tuple[str, ...]
    pool: Pool
    missing: Missing

    @property
    def tie_set(self) -> NDArray[np.bool_]:
        """Options within 4 epsilon of the best, shape of `posterior`."""
        best = self.posterior.max(axis=-1, keepdims=True)
        limit = best - 4 * np.finfo(np.float64).eps * best
        return np.asarray(self.posterior >= limit, dtype=np.bool_)

    def __repr__(self) -> str:
        passes = f"{int(self.valid.sum())} of {self.valid.size} passes valid"
        rule = f"{self.pool} pool"
        if self.posterior.ndim > 1:
            answered = int(np.sum(self.answer >= 0))
            return (
                f"FusedPosterior(posterior of shape {self.posterior.shape}, {answered} "
                f"of {np.size(self.answer)} answered, {passes}, {rule})"
            )
        posterior = " ".join(f"{p:.4f}" for p in self.posterior)
        votes = np.array2string(self.phase_answers, separator=" ").replace("\n", "")
        tied = ", tied" if self.tied else ""
        return (
            f"FusedPosterior(answer={self.answer}, margin={self.margin:.4g} nats"
            f"{tied}, posterior=[{posterior}], phase_answers={votes}, {passes}, {rule})"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WeightedPosterior(Result):
    """Posterior of a position-weighted ensemble; see `position_weighted`."""

    total: NDArray[np.float64]
    posterior: NDArray[np.float64]
    answer: int
    margin: float
