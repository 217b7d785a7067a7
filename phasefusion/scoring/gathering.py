"""Scores of one question, as its passes come in one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phasefusion.scoring.letters import merge_repeats
from phasefusion.scoring.protocol import Kind, OptionScores

if TYPE_CHECKING:
    from phasefusion.video import Clip


def decoded(clip: Clip, s: int) -> tuple[bool, str]:
    """Return whether all frames of a phase are there, and what is wrong with them."""
    missing = np.flatnonzero(clip.missing[s])
    if missing.size:
        frame = int(clip.indices[s, missing[0]])
        return False, f"frame {frame} could not be decoded"
    if clip.damaged[s].any():
        frame = int(clip.indices[s, clip.damaged[s].argmax()])
        return True, f"frame {frame} was decoded with damage"
    return True, ""


@dataclass(slots=True)
class Gathered:
    """Scores of a question, one pass at a time; passes not entered are NaN.

    Attributes
    ----------
    logprobs : ndarray, shape (S, M, K), float64
        In content space.
    mass : ndarray, shape (S, M), float64
    orders : ndarray, shape (M, K), int64
    notes : list of str
        On all passes.
    pass_notes : dict of (int, int) to str
    bounded : set of (int, int)
        Passes with an option that was entered with the most that it can have.
    kind : {"letter", "text", "text-normalised"}
    """

    logprobs: NDArray[np.float64]
    mass: NDArray[np.float64]
    orders: NDArray[np.int64]
    notes: list[str] = field(default_factory=list)
    pass_notes: dict[tuple[int, int], str] = field(default_factory=dict)
    bounded: set[tuple[int, int]] = field(default_factory=set)
    kind: Kind = "letter"

    @classmethod
    def begin(cls, clip: Clip, orders: NDArray[np.int64]) -> Gathered:
        """Return the scores of a clip before the first pass."""
        shape = (len(clip.frames), *orders.shape)
        return cls(np.full(shape, np.nan), np.full(shape[:2], np.nan), orders)

    def phases(self, clip: Clip) -> Iterator[int]:
        """Yield the phases that have all frames; note what frames lack."""
        for s in range(len(clip.frames)):
            is_whole, why = decoded(clip, s)
            if why:
                self.pass_notes |= {(s, m): why for m in range(len(self.orders))}
            if is_whole:
                yield s

    def enter(
        self,
        s: int,
        m: int,
        values: NDArray[np.float64],
        mass: float,
        note: str = "",
        *,
        is_bounded: bool = False,
    ) -> None:
        """Enter a pass, its values in content space."""
        if is_bounded:
            self.bounded.add((s, m))
        self.logprobs[s, m] = values
        self.mass[s, m] = mass
        notes = [self.pass_notes.get((s, m), ""), note]
        if any(notes):
            self.pass_notes[s, m] = "; ".join(filter(None, notes))

    def enter_shown(
        self,
        s: int,
        m: int,
        values: NDArray[np.float64],
        mass: float,
        note: str = "",
        *,
        is_bounded: bool = False,
    ) -> None:
        """Enter a pass, its values in the order in which options were shown."""
        content = np.empty(len(values))
        content[self.orders[m]] = values
        self.enter(s, m, content, mass, note, is_bounded=is_bounded)

    def scores(self, first: Sequence[int] | None = None) -> OptionScores:
        """Return all, repeated options merged onto the first of equal text."""
        values = self.logprobs
        if first is not None:
            values = merge_repeats(values, first)
        return OptionScores(
            values,
            self.mass,
            self.orders,
            self.kind,
            tuple(self.notes),
            self.pass_notes,
            self.bounded,
        )
