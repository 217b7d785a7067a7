"""Consistency over phases (FPC) and over option orders (OOC), and what it tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import (
    POLICIES,
    Policy,
    answer_table,
    check_choice,
    numbered,
    pooled,
    ratio,
)

Kind: TypeAlias = Literal["pairwise", "modal", "unanimous", "anchor"]
_KINDS = ("pairwise", "modal", "unanimous", "anchor")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Consistency(Result):
    """Consistency of answers over passes.

    Attributes
    ----------
    mean : float
        NaN if no item has two passes.
    per_item : ndarray, shape (n,), float64
        NaN with fewer than two valid passes.
    n_used, n_dropped : int
    kind, policy : str
    """

    mean: float
    per_item: NDArray[np.float64]
    n_used: int
    n_dropped: int
    kind: Kind
    policy: Policy

    def __repr__(self) -> str:
        return (
            f"Consistency({self.mean:.4f}, {self.kind}, {self.n_used} items used, "
            f"{self.n_dropped} dropped, {self.policy})"
        )


def consistency(
    answers: ArrayLike,
    kind: Kind = "pairwise",
    *,
    missing: int = -1,
    policy: Policy = "complete",
) -> Consistency:
    """Consistency of answers: FPC with phases as columns, OOC with orders.

    Parameters
    ----------
    answers : array_like, shape (n, m), int
        Content indices, one row an item, one column a pass.
    kind : {'pairwise', 'modal', 'unanimous', 'anchor'}, default 'pairwise'
        Chance that two passes agree (1 - pairwise flip, whose expectation does not
        depend on the number of passes); share of the most frequent answer; whether all
        agree (1 - any-flip); share of the other passes that agree with the first.
    missing, policy
        As in `flip_rates`.

    Returns
    -------
    Consistency

    Raises
    ------
    StatisticsError
        If the kind is unknown or answers are not integers of shape (n, m).

    Examples
    --------
    >>> consistency([[0, 0, 0], [0, 0, 1]], "modal")
    Consistency(0.8333, modal, 2 items used, 0 dropped, complete)
    """
    check_choice(kind, _KINDS, "kind")
    check_choice(policy, POLICIES, "policy")
    table, n_answers = numbered(answer_table(answers, missing))
    n_valid, n_agreeing, n_distinct, n_modal = _core.flip_counts(table, n_answers)
    defined = n_valid >= 2
    if kind == "pairwise":
        parts, wholes = n_agreeing, n_valid * (n_valid - 1)
    elif kind == "modal":
        parts, wholes = n_modal, n_valid
    elif kind == "unanimous":
        parts, wholes = (n_distinct == 1).astype(np.int64), np.ones_like(n_valid)
    else:
        defined &= table[:, 0] >= 0
        parts, wholes = (table[:, 1:] == table[:, :1]).sum(axis=1), n_valid - 1
    wholes = np.where(defined, wholes, 0)
    used = defined & (n_valid == table.shape[1]) if policy == "complete" else defined
    n_used = int(used.sum())
    return Consistency(
        mean=pooled(parts, wholes, used, policy),
        per_item=ratio(parts, wholes),
        n_used=n_used,
        n_dropped=len(table) - n_used,
        kind=kind,
        policy=policy,
    )


def _check_shares(fpc: float, ooc: float) -> None:
    for name, value in (("fpc", fpc), ("ooc", ooc)):
        if not 0.0 <= value <= 1.0:
            raise StatisticsError(f"{name} must be in [0, 1], it is {value}")


def stableeval_rating(
    fpc: float,
    ooc: float,
    thresholds: tuple[float, float, float] = (0.75, 0.85, 0.90),
) -> Literal["high", "medium", "low"]:
    """Overall stability rating from both consistencies.

    Parameters
    ----------
    fpc, ooc : float
        In [0, 1].
    thresholds : (low, solid, high), default (0.75, 0.85, 0.90)
        'high' when the smaller is at least `solid` and the greater at least `high`;
        'low' when the smaller is below `low`; else 'medium'.

    Returns
    -------
    {'high', 'medium', 'low'}

    Raises
    ------
    StatisticsError
        If a value is not in [0, 1] (NaN included) or the thresholds do not ascend.

    Examples
    --------
    >>> stableeval_rating(0.93, 0.87)
    'high'
    """
    _check_shares(fpc, ooc)
    low, solid, high = thresholds
    if not low <= solid <= high:
        raise StatisticsError(f"thresholds must ascend, they are {thresholds}")
    if min(fpc, ooc) >= solid and max(fpc, ooc) >= high:
        return "high"
    return "low" if min(fpc, ooc) < low else "medium"


def attribution(
    fpc: float, ooc: float, *, unstable: float = 0.85, stable: float = 0.90
) -> Literal["visual", "language", "cross-modal alignment", "none"]:
    """Where an instability comes from.

    Parameters
    ----------
    fpc, ooc : float
        In [0, 1].
    unstable, stable : float, default 0.85 and 0.90
        Below the first an axis is unstable, above the second it is stable.

    Returns
    -------
    {'visual', 'language', 'cross-modal alignment', 'none'}
        Phases unstable and orders stable; orders unstable and phases stable; both
        unstable; anything else.

    Raises
    ------
    StatisticsError
        If a value is not in [0, 1] (NaN included).

    Examples
    --------
    >>> attribution(0.72, 0.95)
    'visual'
    """
    _check_shares(fpc, ooc)
    if fpc < unstable and ooc < unstable:
        return "cross-modal alignment"
    if fpc < unstable and ooc > stable:
        return "visual"
    if ooc < unstable and fpc > stable:
        return "language"
    return "none"
