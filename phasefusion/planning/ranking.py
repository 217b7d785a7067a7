"""Samples for an interval of a given width: AUROC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from phasefusion._wording import Argument, counted
from phasefusion.errors import StatisticsError
from phasefusion.planning._plans import (
    Plan,
    in_percent,
    smallest_n,
)
from phasefusion.stats import Auroc
from phasefusion.stats._answers import half_up
from phasefusion.stats._numbers import fraction_in
from phasefusion.stats.proportions import check_level


@dataclass(frozen=True, slots=True, repr=False)
class AurocPlan(Plan):
    """How wide the interval of an AUROC will be.

    Attributes
    ----------
    n, n_positive, n_negative : int
        Items, and how many of them are expected to flip and not to.
    auroc, positive_share : float
    se, half_width : float
        Half-width of the Wald interval.
    method : {'Hanley-McNeil', 'pilot'}
        Variance of the negative exponential model, or that of a pilot scaled to n.
    confidence_level : float
    target : float or None
        The half-width that n was made for.
    """

    n: int
    n_positive: int
    n_negative: int
    auroc: float
    positive_share: float
    se: float
    half_width: float
    method: Literal["Hanley-McNeil", "pilot"]
    confidence_level: float
    target: float | None = None

    title: ClassVar[str] = "Interval of an AUROC"

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        return [
            (
                "sample",
                f"{self.n} items, {self.n_positive} positive and {self.n_negative} "
                "negative",
            ),
            ("AUROC", half_up(self.auroc, 4)),
            (
                f"interval at {100 * self.confidence_level:g} % ({self.method})",
                f"+-{half_up(self.half_width, 4)}",
            ),
        ]


def auroc_width(
    n: int,
    *,
    auroc: float | None = None,
    positive_share: float | None = None,
    pilot: Auroc | None = None,
    confidence_level: float = 0.95,
) -> AurocPlan:
    """Half-width to expect of the interval of an AUROC.

    Parameters
    ----------
    n : int
        Items of both classes together.
    auroc : float
        In (0, 1), expected.
    positive_share : float
        Share of positive items (those that flip), in (0, 1).
    pilot : Auroc, optional
        What `stats.auroc` found on a pilot; then nothing else is needed, and its
        variance (DeLong's, or Obuchowski's with clusters) is scaled to n. Without it
        the variance is that of Hanley and McNeil [1]_.
    confidence_level : float, default 0.95

    Returns
    -------
    AurocPlan

    Raises
    ------
    StatisticsError
        If a number is out of range, n leaves a class empty, or the pilot has no
        variance.

    References
    ----------
    .. [1] Hanley and McNeil, "The meaning and use of the area under a receiver
       operating characteristic (ROC) curve", Radiology 143 (1982).

    Examples
    --------
    >>> auroc_width(500, auroc=0.831, positive_share=0.567).half_width.__round__(4)
    0.035
    """
    value, share = _auroc_inputs(auroc, positive_share, pilot, confidence_level)
    return _auroc_plan(n, value, share, pilot, confidence_level, None)


def auroc_items(
    *,
    half_width: float,
    auroc: float | None = None,
    positive_share: float | None = None,
    pilot: Auroc | None = None,
    confidence_level: float = 0.95,
) -> AurocPlan:
    """Count the items for an AUROC with an interval of a given half-width.

    Parameters
    ----------
    half_width : float
        In (0, 0.5).
    auroc, positive_share, pilot, confidence_level
        As in `auroc_width`.

    Returns
    -------
    AurocPlan

    Raises
    ------
    StatisticsError
        If a number is out of range, or the pilot has no variance.

    Examples
    --------
    >>> auroc_items(half_width=0.03, auroc=0.831, positive_share=0.567).n
    682
    """
    if not 0.0 < half_width < 0.5:
        raise StatisticsError(
            Argument("half_width"), f" must be in (0, 0.5), it is {half_width}"
        )
    value, share = _auroc_inputs(auroc, positive_share, pilot, confidence_level)

    def narrow(n: int) -> bool:
        if not 1 <= round(n * share) <= n - 1:
            return False
        plan = _auroc_plan(n, value, share, pilot, confidence_level, None)
        return plan.half_width <= half_width

    n = smallest_n(narrow, 100)
    return _auroc_plan(n, value, share, pilot, confidence_level, half_width)


def _auroc_inputs(
    auroc: float | None,
    positive_share: float | None,
    pilot: Auroc | None,
    level: float,
) -> tuple[float, float]:
    check_level(level)
    if pilot is not None:
        if auroc is not None or positive_share is not None:
            raise StatisticsError(
                "give either pilot, or auroc and positive_share, not both"
            )
        if not pilot.variance > 0.0:
            raise StatisticsError(
                f"the pilot has no variance to scale: {pilot!r}; give auroc and "
                "positive_share"
            )
        n_pilot = pilot.n_positive + pilot.n_negative
        return pilot.value, pilot.n_positive / n_pilot
    if auroc is None or positive_share is None:
        raise StatisticsError("give auroc and positive_share, or a pilot")
    fraction_in(auroc, "auroc")
    fraction_in(positive_share, "positive_share")
    return auroc, positive_share


def _auroc_plan(
    n: int,
    value: float,
    share: float,
    pilot: Auroc | None,
    level: float,
    target: float | None,
) -> AurocPlan:
    from scipy.special import ndtri

    n_positive = round(n * share)
    n_negative = n - n_positive
    if n_positive < 1 or n_negative < 1:
        raise StatisticsError(
            f"{counted(n, 'item')} of which {in_percent(share)} are positive leave a "
            "class empty"
        )
    if pilot is not None:
        variance = pilot.variance * (pilot.n_positive + pilot.n_negative) / n
    else:
        variance = hanley_mcneil(value, n_positive, n_negative)
    se = math.sqrt(variance)
    return AurocPlan(
        n=n,
        n_positive=n_positive,
        n_negative=n_negative,
        auroc=value,
        positive_share=share,
        se=se,
        half_width=-float(ndtri((1.0 - level) / 2.0)) * se,
        method="Hanley-McNeil" if pilot is None else "pilot",
        confidence_level=level,
        target=target,
    )


def hanley_mcneil(auroc: float, n_positive: int, n_negative: int) -> float:
    """Variance of an AUROC whose scores are negative exponential in both classes.

    Parameters
    ----------
    auroc : float
        In (0, 1).
    n_positive, n_negative : int
        >= 1.

    Returns
    -------
    float
        Exact for exponential scores, close for normal ones of equal spread.

    References
    ----------
    .. [1] Hanley and McNeil, Radiology 143 (1982).

    Examples
    --------
    >>> round(hanley_mcneil(0.831, 284, 216) ** 0.5, 4)
    0.0179
    """
    positive_pairs = auroc / (2.0 - auroc)
    negative_pairs = 2.0 * auroc * auroc / (1.0 + auroc)
    own = auroc * (1.0 - auroc)
    own += (n_positive - 1) * (positive_pairs - auroc * auroc)
    own += (n_negative - 1) * (negative_pairs - auroc * auroc)
    return own / (n_positive * n_negative)
