"""What was found and what was tried."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from phasefusion._results import Result

__all__ = ["Anchor", "Attempt", "Kind"]

Kind: TypeAlias = Literal[
    "subtitle", "timestamp", "vectors", "flow", "histogram", "centre"
]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One method of the chain.

    Attributes
    ----------
    kind : {"subtitle", "timestamp", "vectors", "flow", "histogram", "centre"}
    outcome : {"found", "failed", "not asked"}
        "not asked" is a method that needs a phrase or times, and none were given.
    why : str
        What was found, or why nothing was.
    """

    kind: Kind
    outcome: Literal["found", "failed", "not asked"]
    why: str


@dataclass(frozen=True, slots=True)
class Anchor(Result):
    """A moment of a clip.

    Attributes
    ----------
    kind : {"subtitle", "timestamp", "vectors", "flow", "histogram", "centre"}
        The method that found it.
    time_s : float
        Seconds from the first frame of the clip, as `Item.start` counts.
    frame : int
        The frame on screen then.
    score : float
        How far it stands out. For the curves, the peak over the mean of the curve; for
        subtitles, one over the number of matches; 1 for given times, 0 for the middle.
    why : str
        One sentence for people.
    tried : tuple of Attempt
        Every method down to this one, in order; the last is the one that found it.

    Examples
    --------
    >>> from phasefusion.tinyvlm import questions_path
    >>> clip = questions_path().parent / "clip-000.mp4"
    >>> from phasefusion.anchors import find_anchor
    >>> anchor = find_anchor(clip, times_s=2.0)
    >>> anchor.kind, anchor.frame, anchor.is_fallback
    ('timestamp', 60, False)
    """

    kind: Kind
    time_s: float
    frame: int
    score: float
    why: str
    tried: tuple[Attempt, ...]

    @property
    def is_fallback(self) -> bool:
        """Whether a method before this one was asked and gave nothing."""
        return any(attempt.outcome == "failed" for attempt in self.tried)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON values."""
        return {**asdict(self), "tried": [asdict(attempt) for attempt in self.tried]}
