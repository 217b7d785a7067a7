"""What scorers return, checked and turned into the answers of passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._scorer_checks import check_scores
from phasefusion.answers import BY_PLACE, ParsedAnswer, parse_answer
from phasefusion.datasets import Item
from phasefusion.errors import ScoringError
from phasefusion.fusion import fuse
from phasefusion.scoring.generation import GeneratedAnswers
from phasefusion.scoring.letters import merge_repeats
from phasefusion.scoring.protocol import NO_PROBABILITY

if TYPE_CHECKING:
    from phasefusion.protocols import Arm
    from phasefusion.scoring.protocol import OptionScores, Scorer

#: Of a pass of which nothing is known.
NO_ANSWER: dict[str, Any] = {
    "logprobs": None,
    "answer": None,
    "path": "logit",
    "text": None,
    "option_mass": None,
    "seconds": None,
    "invalid": None,
}


def has_repeats(item: Item) -> bool:
    """Whether two options read the same."""
    return len(set(item.same_options)) < len(item.options)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a scorer said of one arm of one item: phases times orders.

    Attributes
    ----------
    scorer : Scorer
        Named in messages.
    item : Item
    arm : Arm
    phases : sequence of int
    orders : ndarray, shape (M, K), int64
    seconds : float
        A pass.
    seed : int
        Of ties.
    """

    scorer: Scorer
    item: Item
    arm: Arm
    phases: Sequence[int]
    orders: NDArray[np.int64]
    seconds: float
    seed: int

    @property
    def _where(self) -> str:
        return f"question {self.item.question_id!r}, arm {self.arm.name}"

    def records(
        self,
        scores: OptionScores | GeneratedAnswers | ArrayLike,
        on_error: Literal["mark", "raise"],
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield phase and record of every pass, phase by phase, order by order.

        Raises
        ------
        ScoringError
            If it is nothing that a scorer may return; with ``on_error="raise"``, if a
            pass cannot be used.
        """
        made = (
            self._generated(scores)
            if isinstance(scores, GeneratedAnswers)
            else self._scored(scores)
        )
        for s, m, answer in made:
            order = self.orders[m].tolist()
            if answer["invalid"] is not None and on_error == "raise":
                if answer["text"] is None:  # a text that names no option is an outcome
                    raise ScoringError(
                        f"{self._where}, phase {s}, order {order}: {answer['invalid']}"
                    )
            yield s, {"order": order, **answer, "seconds": self.seconds}

    def _scored(
        self, scores: OptionScores | ArrayLike
    ) -> Iterator[tuple[int, int, dict[str, Any]]]:
        item = self.item
        n_phases = len(self.phases)
        try:
            content, option_mass = check_scores(
                self.scorer, scores, n_phases, self.orders
            )
        except ScoringError as error:
            raise ScoringError(f"{self._where}: {error}") from error
        notes: Sequence[str] = getattr(scores, "notes", ())
        pass_notes: Mapping[Any, str] = getattr(scores, "pass_notes", {})
        if has_repeats(item):
            content = merge_repeats(content, item.same_options)
        fused = fuse(
            content.reshape(1, -1, content.shape[2]),
            item_id=item.question_id,
            seed=self.seed,
        )
        answers = np.reshape(fused.answer, content.shape[:2])
        for p, s in enumerate(self.phases):
            for m, order in enumerate(self.orders):
                values = content[p, m]
                note = pass_notes.get((p, m), "")
                reason = _why_invalid(values, [note] if note else notes)
                if reason is not None:
                    yield s, m, NO_ANSWER | {"invalid": reason}
                    continue
                mass = float(option_mass[p, m])
                found = {
                    "logprobs": values[order].tolist(),
                    "answer": int(answers[p, m]),
                    "option_mass": mass if np.isfinite(mass) else None,
                    **({"note": note} if note else {}),
                }
                yield s, m, NO_ANSWER | found

    def _generated(
        self, generated: GeneratedAnswers
    ) -> Iterator[tuple[int, int, dict[str, Any]]]:
        wanted = (len(self.phases), len(self.orders))
        if generated.shape != wanted:
            raise ScoringError(
                f"{self._where}: {type(self.scorer).__name__}.score returned texts of "
                f"shape {generated.shape}; it must be (phases, orders) = {wanted}"
            )
        for p, s in enumerate(self.phases):
            for m, order in enumerate(self.orders.tolist()):
                text = generated.texts[p][m]
                note = generated.pass_notes.get((p, m), "")
                if text is None:
                    said = [note] if note else generated.notes
                    reason = "; ".join(["no text", *said])
                    yield s, m, NO_ANSWER | {"path": "generate", "invalid": reason}
                else:
                    place = generated.places.get((p, m))
                    found = generated_answer(text, self.item, order, place)
                    yield s, m, found | ({"note": note} if note else {})


def generated_answer(
    text: str, item: Item, order: Sequence[int], place: int | None = None
) -> dict[str, Any]:
    """Return what a record says of a generated text; extraction never guesses.

    Parameters
    ----------
    text : str
    item : Item
    order : sequence of int
        ``order[pos] = content``, as the options were shown.
    place : int, optional
        Of the option that was chosen, as shown, where the text need not tell.

    Returns
    -------
    dict
        Fields of the record.

    Raises
    ------
    ScoringError
        If there is no option at `place`.
    """
    if place is None:
        parsed = parse_answer(text, [item.options[k] for k in order])
    elif 0 <= place < len(order):
        parsed = ParsedAnswer(int(place), "parsed", BY_PLACE)
    else:
        raise ScoringError(
            f"question {item.question_id!r}: {place} is given as the place of an "
            f"answer; it must be 0..{len(order) - 1}"
        )
    answer = None
    if parsed.answer is not None:
        answer = item.same_options[order[parsed.answer]]
    return NO_ANSWER | {
        "answer": answer,
        "path": "generate",
        "text": text,
        "invalid": None if answer is not None else f"{parsed.outcome}: {parsed.reason}",
        "outcome": parsed.outcome,
        "rule": parsed.rule,
    }


def _why_invalid(values: NDArray[np.float64], notes: Sequence[str]) -> str | None:
    """Say why the log-probabilities of a pass cannot be used; None when they can."""
    if np.isnan(values).any():
        reason = "scores: NaN"
    elif np.isposinf(values).any():
        reason = "scores: +inf"
    elif not np.isfinite(values).any():
        reason = f"scores: {NO_PROBABILITY}"
    else:
        return None
    return "; ".join([reason, *(note for note in notes if note != NO_PROBABILITY)])
