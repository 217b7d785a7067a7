"""Accuracy that counts consistent answers, and accuracy weighed by consistency."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import answer_table, gold_answers, percent
from phasefusion.stats.equivalence import ClusteredMean, clustered_mean


@dataclass(frozen=True, slots=True, repr=False)
class RebalancedAccuracy(Result):
    """Consistency-rebalanced accuracy and its parts.

    Attributes
    ----------
    cora : float
        ``mcqa * ci``.
    mcqa : float
        Accuracy of the original view.
    bmca : float
        Share of items right in the original view and in a share of at least
        `threshold` of all views.
    ci : float
        ``1 - (mcqa - bmca)``: 1 where every right answer is consistent.
    mcqa_interval, bmca_interval : ClusteredMean
    threshold : float
    original, n_views, n, n_dropped : int
    """

    cora: float
    mcqa: float
    bmca: float
    ci: float
    mcqa_interval: ClusteredMean
    bmca_interval: ClusteredMean
    threshold: float
    original: int
    n_views: int
    n: int
    n_dropped: int

    @property
    def method(self) -> str:
        """The formula: the sources leave room for others."""
        return (
            f"CoRA = MCQA (1 - (MCQA - BMCA)), MCQA of view {self.original}, BMCA of "
            f"items right there and in >= {self.threshold:g} of {self.n_views} views"
        )

    def __repr__(self) -> str:
        return (
            f"RebalancedAccuracy(CoRA={percent(self.cora)}, MCQA={percent(self.mcqa)}, "
            f"BMCA={percent(self.bmca)}, CI={self.ci:.4f}, {self.n} items, "
            f"{self.n_dropped} dropped; {self.method})"
        )


def consistency_rebalanced_accuracy(
    answers: ArrayLike,
    gold: ArrayLike,
    *,
    threshold: float = 1.0,
    original: int = 0,
    cluster: ArrayLike | None = None,
    missing: int = -1,
    confidence_level: float = 0.95,
) -> RebalancedAccuracy:
    """Accuracy rebalanced by how consistent right answers are over altered views.

    **[AMB]** This is one reading of [1]_, of which public summaries say that BMCA asks
    for a bare minimum of consistent right answers over the altered versions of a
    question, that CI measures the gap between MCQA and BMCA, and that CoRA rebalances
    MCQA with CI. Here BMCA is the share of items that are right in the original view
    and in a share of at least `threshold` of all views (by default all of them, which
    is the worst case by item), ``CI = 1 - (MCQA - BMCA)`` and ``CoRA = MCQA * CI``. The
    result carries the formula as its `method`.

    Parameters
    ----------
    answers : array_like, shape (n, V), int
        Content indices under V views. An item that lacks one is left out and counted.
    gold : array_like, shape (n,), int
        Content indices, >= 0.
    threshold : float, default 1.0
        In (0, 1].
    original : int, default 0
        Column of the original view: the identity order.
    cluster : array_like, shape (n,), optional
        As in `clustered_mean`, for the intervals of MCQA and BMCA.
    missing : int, default -1
    confidence_level : float, default 0.95

    Returns
    -------
    RebalancedAccuracy
        cora <= mcqa, bmca <= mcqa.

    Raises
    ------
    StatisticsError
        If the shapes do not match, a right answer is not known, or threshold or
        original are out of range.

    References
    ----------
    .. [1] arXiv:2511.21860.

    Examples
    --------
    >>> answers = [[0, 0, 0], [1, 1, 0], [2, 2, 2], [0, 1, 1]]
    >>> made = consistency_rebalanced_accuracy(answers, [0, 1, 2, 1])
    >>> made.mcqa, made.bmca, made.ci, made.cora
    (0.75, 0.5, 0.75, 0.5625)
    """
    table = answer_table(answers, missing)
    right = gold_answers(gold, len(table))
    n_views = table.shape[1]
    if not 0 <= original < n_views:
        raise StatisticsError(f"original is {original}, there are {n_views} views")
    if not 0.0 < threshold <= 1.0:
        raise StatisticsError(f"threshold must be in (0, 1], it is {threshold}")
    kept = (table >= 0).all(axis=1)
    correct = table == right[:, None]
    first = correct[:, original]
    # in whole views, so that 0.3 of 10 is 3
    wanted = math.ceil(round(threshold * n_views, 9))
    enough = first & (correct.sum(axis=1) >= wanted)
    parts = [
        clustered_mean(
            np.where(kept, values, np.nan),
            cluster,
            confidence_level=confidence_level,
            limits=(0.0, 1.0),
        )
        for values in (first, enough)
    ]
    mcqa, bmca = parts[0].mean, parts[1].mean
    consistency = 1.0 - (mcqa - bmca)
    return RebalancedAccuracy(
        cora=mcqa * consistency,
        mcqa=mcqa,
        bmca=bmca,
        ci=consistency,
        mcqa_interval=parts[0],
        bmca_interval=parts[1],
        threshold=threshold,
        original=original,
        n_views=n_views,
        n=int(kept.sum()),
        n_dropped=int((~kept).sum()),
    )
