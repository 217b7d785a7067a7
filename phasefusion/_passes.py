"""What scorers return, checked and turned into the answers of passes."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.answers import parse_answer
from phasefusion.datasets import Item
from phasefusion.errors import ScoringError
from phasefusion.fusion import fuse
from phasefusion.scoring.generation import GeneratedAnswers
from phasefusion.scoring.letters import merge_repeats

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
                        f"question {self.item.question_id!r}, arm {self.arm.name}, "
                        f"phase {s}, order {order}: {answer['invalid']}"
                    )
            yield s, {"order": order, **answer, "seconds": self.seconds}

    def _scored(
        self, scores: OptionScores | ArrayLike
    ) -> Iterator[tuple[int, int, dict[str, Any]]]:
        item = self.item
        shape = (len(self.phases), len(self.orders), len(item.options))
        content, option_mass = check_scores(self.scorer, scores, shape)
        notes: Sequence[str] = getattr(scores, "notes", ())
        pass_notes: Mapping[Any, str] = getattr(scores, "pass_notes", {})
        if has_repeats(item):
            content = merge_repeats(content, item.same_options)
        fused = fuse(
            content.reshape(1, -1, shape[2]), item_id=item.question_id, seed=self.seed
        )
        answers = np.reshape(fused.answer, shape[:2])
        for p, s in enumerate(self.phases):
            for m, order in enumerate(self.orders):
                values = content[p, m]
                own = [pass_notes[p, m]] if (p, m) in pass_notes else []
                reason = _why_invalid(values, [*own, *notes])
                if reason is not None:
                    yield s, m, NO_ANSWER | {"invalid": reason}
                    continue
                mass = float(option_mass[p, m])
                found = {
                    "logprobs": values[order].tolist(),
                    "answer": int(answers[p, m]),
                    "option_mass": mass if np.isfinite(mass) else None,
                    **({"note": own[0]} if own else {}),
                }
                yield s, m, NO_ANSWER | found

    def _generated(
        self, generated: GeneratedAnswers
    ) -> Iterator[tuple[int, int, dict[str, Any]]]:
        wanted = (len(self.phases), len(self.orders))
        if generated.shape != wanted:
            raise ScoringError(
                f"{type(self.scorer).__name__}.score returned texts of shape "
                f"{generated.shape}; it must be (phases, orders) = {wanted}"
            )
        for p, s in enumerate(self.phases):
            for m, order in enumerate(self.orders.tolist()):
                text = generated.texts[p][m]
                if text is None:
                    reason = "; ".join(["no text", *generated.notes])
                    yield s, m, NO_ANSWER | {"path": "generate", "invalid": reason}
                else:
                    yield s, m, generated_answer(text, self.item, order)


def generated_answer(text: str, item: Item, order: Sequence[int]) -> dict[str, Any]:
    """Return what a record says of a generated text; extraction never guesses.

    Parameters
    ----------
    text : str
    item : Item
    order : sequence of int
        ``order[pos] = content``, as the options were shown.

    Returns
    -------
    dict
        Fields of the record.
    """
    parsed = parse_answer(text, [item.options[k] for k in order])
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
    scorer: Scorer, scores: object, shape: tuple[int, int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return log-probabilities and option mass of what a scorer returned.

    Parameters
    ----------
    scorer : Scorer
        Named in messages.
    scores : OptionScores or array_like, shape (S, M, K)
        Of an array the option mass is the sum of its exponentials over the options.
    shape : (int, int, int)
        (S, M, K).

    Returns
    -------
    logprobs : ndarray, shape (S, M, K), float64
    option_mass : ndarray, shape (S, M), float64

    Raises
    ------
    ScoringError
        If it is neither, a shape is another one, or a log-probability is above 0.
    """
    name = type(scorer).__name__
    wanted = (
        "it must be OptionScores, or an array of log-probabilities of shape "
        f"(phases, orders, options) = {shape}"
    )
    has_mass = hasattr(scores, "logprobs") and hasattr(scores, "option_mass")
    content = _numbers(getattr(scores, "logprobs", scores))
    if content is None or (content.ndim == 0 and not has_mass):
        raise ScoringError(
            f"{name}.score returned {reprlib.repr(scores)}, a "
            f"{type(scores).__name__}; {wanted}"
        )
    if content.shape != shape:
        raise ScoringError(
            f"{name}.score returned logprobs of shape {content.shape}; {wanted}"
        )
    finite = content[np.isfinite(content)]
    if finite.size and finite.max() > 1e-6:
        raise ScoringError(
            f"{name}.score returned a log-probability of {finite.max():.6g}; it must "
            "be <= 0. Logits need a log-softmax first, losses a change of sign"
        )
    if not has_mass:
        return content, np.exp(content).sum(axis=-1)
    mass = _numbers(getattr(scores, "option_mass", None))
    if mass is None or mass.shape != shape[:2]:
        found = "what is no number" if mass is None else f"shape {mass.shape}"
        raise ScoringError(
            f"{name}.score returned option_mass of {found}; it must have the shape "
            f"(phases, orders) = {shape[:2]}"
        )
    return content, mass


def _numbers(values: object) -> NDArray[np.float64] | None:
    """Return values as an array of float64; None when they are no real numbers."""
    try:
        table = np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        return None
    return table.astype(np.float64) if table.dtype.kind in "iuf" else None


def _why_invalid(values: NDArray[np.float64], notes: Sequence[str]) -> str | None:
    """Say why the log-probabilities of a pass cannot be used; None when they can."""
    if np.isnan(values).any():
        reason = "scores: NaN"
    elif np.isposinf(values).any():
        reason = "scores: +inf"
    elif not np.isfinite(values).any():
        reason = "scores: no option has any probability"
    else:
        return None
    return "; ".join([reason, *notes])
