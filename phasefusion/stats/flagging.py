"""Flagging the items that a small margin marks as likely to flip."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import percent
from phasefusion.stats._numbers import classes_and_scores
from phasefusion.stats.proportions import check_level, score_interval


@dataclass(frozen=True, slots=True, repr=False)
class Flagged(Result):
    """Flips among the items with the smallest margins, and outside them.

    Attributes
    ----------
    k, n, n_dropped : int
        Items flagged, items, items without margin or flip.
    threshold : float
        The k-th smallest margin.
    flagged_rate, unflagged_rate, overall : float
        Share that flips; NaN without items. Ties at the threshold enter by
        expectation: every way to choose among them counts the same.
    flagged_interval, unflagged_interval : tuple of float
        Wilson's.
    lift : float
        flagged_rate / unflagged_rate; inf when only flagged items flip, NaN where
        nothing does.
    caught : float
        Share of all flips that are flagged; NaN where nothing flips.
    confidence_level : float
    """

    k: int
    n: int
    n_dropped: int
    threshold: float
    flagged_rate: float
    unflagged_rate: float
    overall: float
    flagged_interval: tuple[float, float]
    unflagged_interval: tuple[float, float]
    lift: float
    caught: float
    confidence_level: float

    def __repr__(self) -> str:
        return (
            f"Flagged({self.k} flagged of {self.n}: {', '.join(self._said())}, "
            f"{self.n_dropped} dropped, wilson at {self.confidence_level:g})"
        )

    def _said(self) -> Iterator[str]:
        """Say what there is: no lift without flips, no rate of no items."""
        low, high = self.flagged_interval
        rate = f"{percent(self.flagged_rate)} [{percent(low)}, {percent(high)}]"
        others = f"{percent(self.unflagged_rate)} of the others"
        if not self.n:
            yield "no item"
        elif not self.overall > 0.0:
            yield "no item flips"
            if self.k:
                yield f"flagged {rate}"
        elif not self.k:
            yield f"{others} flip"
        else:
            yield f"{rate} of these flip"
            if self.k < self.n:
                yield from (others, f"lift {self.lift:.3g}")
            yield f"{percent(self.caught)} of flips caught"


def flag_lowest(
    margins: ArrayLike,
    flipped: ArrayLike,
    fraction: float = 0.2,
    *,
    confidence_level: float = 0.95,
) -> Flagged:
    """Flag the items with the smallest margins.

    Parameters
    ----------
    margins, flipped
        As in `flip_auroc`.
    fraction : float, default 0.2
        In (0, 1]; ``k = ceil(fraction * n)`` items are flagged, not all up to a
        quantile, which under ties are more.
    confidence_level : float, default 0.95

    Returns
    -------
    Flagged

    Raises
    ------
    StatisticsError
        If fraction is out of range, or as `auroc`.

    Examples
    --------
    >>> flag_lowest([0.1, 0.5, 2.0, 3.0, 4.0], [1, 1, 0, 0, 1]).unflagged_rate
    0.5
    """
    check_level(confidence_level)
    if not 0.0 < fraction <= 1.0:
        raise StatisticsError(f"fraction must be in (0, 1], it is {fraction}")
    flips, values, kept = classes_and_scores(flipped, margins)
    n = len(values)
    # the decimal that was written, so that a fifth of 15 is 3
    k = math.ceil(Fraction(repr(float(fraction))) * n)
    threshold, expected = float("nan"), 0.0
    if n:
        threshold = float(np.partition(values, k - 1)[k - 1])
        below, at = values < threshold, values == threshold
        places = Fraction(k - int(below.sum()), int(at.sum()))
        expected = float(int(flips[below].sum()) + int(flips[at].sum()) * places)
    n_dropped = int((~kept).sum())
    return _flagged(k, expected, flips, threshold, n_dropped, confidence_level)


def _flagged(
    k: int,
    n_caught: float,
    flips: NDArray[np.bool_],
    threshold: float,
    n_dropped: int,
    level: float,
) -> Flagged:
    """Rates from the number flagged and the flips among them."""
    nan = float("nan")
    n, n_flips = len(flips), int(flips.sum())
    flagged = n_caught / k if k else nan
    unflagged = (n_flips - n_caught) / (n - k) if n > k else nan
    lift = nan
    if unflagged == 0.0:
        lift = math.inf if flagged > 0.0 else nan
    elif not math.isnan(unflagged):
        lift = flagged / unflagged
    return Flagged(
        k=k,
        n=n,
        n_dropped=n_dropped,
        threshold=threshold,
        flagged_rate=flagged,
        unflagged_rate=unflagged,
        overall=n_flips / n if n else nan,
        flagged_interval=score_interval(n_caught, k, level),
        unflagged_interval=score_interval(n_flips - n_caught, n - k, level),
        lift=lift,
        caught=n_caught / n_flips if n_flips else nan,
        confidence_level=level,
    )


def flag_transfer(
    margins: ArrayLike,
    flipped: ArrayLike,
    threshold: float,
    *,
    confidence_level: float = 0.95,
) -> Flagged:
    """Flag by a threshold that was fixed on other items.

    The ranking by margins transfers between models, the scale does not: a threshold of
    one model flags another share of the next.

    Parameters
    ----------
    margins, flipped
        As in `flip_auroc`.
    threshold : float
        Items with a margin up to this are flagged.
    confidence_level : float, default 0.95

    Returns
    -------
    Flagged

    Raises
    ------
    StatisticsError
        If threshold is NaN, or as `auroc`.

    Examples
    --------
    >>> flag_transfer([0.1, 0.5, 2.0, 3.0], [1, 1, 0, 0], 0.5).k
    2
    """
    check_level(confidence_level)
    if math.isnan(threshold):
        raise StatisticsError("threshold is NaN")
    flips, values, kept = classes_and_scores(flipped, margins)
    low = values <= threshold
    n_caught, n_dropped = int(flips[low].sum()), int((~kept).sum())
    return _flagged(
        int(low.sum()), n_caught, flips, threshold, n_dropped, confidence_level
    )
