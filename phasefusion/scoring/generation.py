"""Free-text answers: what a scorer returns that writes instead of scoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phasefusion.errors import ScoringError


@dataclass(frozen=True, slots=True)
class GeneratedAnswers:
    """What a model wrote under M option orders and S frame phases.

    A scorer may return it in place of `OptionScores`. Which option a text chooses is
    told by `phasefusion.parse_answer` alone; the text is kept with the pass. Without
    posteriors there is no fusion, and a vote of the phases stands in its place.

    Parameters
    ----------
    texts : sequence of S sequences of M texts
        Raw, without the prompt; None for a pass that could not be made.
    notes : tuple of str
        What a reader has to know, such as why a text is None.

    Raises
    ------
    ScoringError
        If the rows differ in length, or an entry is no text.

    Examples
    --------
    >>> GeneratedAnswers([["A", "The answer is B."]]).shape
    (1, 2)
    """

    texts: Sequence[Sequence[str | None]]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.texts, str) or any(isinstance(r, str) for r in self.texts):
            raise ScoringError(
                "texts must be rows of texts, one row a phase, one text an order"
            )
        rows = tuple(tuple(row) for row in self.texts)
        if len(set(map(len, rows))) > 1:
            raise ScoringError(
                f"texts has rows of {sorted(set(map(len, rows)))} texts; it must have "
                "one row a phase and one text an order"
            )
        for row in rows:
            for text in row:
                if text is not None and not isinstance(text, str):
                    raise ScoringError(
                        f"a generated text is {text!r}; it must be a str or None"
                    )
        object.__setattr__(self, "texts", rows)
        object.__setattr__(self, "notes", tuple(self.notes))

    @property
    def shape(self) -> tuple[int, int]:
        """``(S, M)``."""
        return len(self.texts), len(self.texts[0]) if self.texts else 0
