"""What the readers of foreign files hand over, before anything is believed of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from phasefusion._checks import whole
from phasefusion._wording import Argument
from phasefusion.errors import UsageError
from phasefusion.orders import MAX_LETTERS

#: How the gold of a file is written; "auto" is any of them.
GoldKind: TypeAlias = Literal["auto", "index", "letter", "text"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller says about the files.

    Attributes
    ----------
    benchmark : str or None
        Name to use instead of the one of the format or the file.
    version : str or None
        Of the benchmark; ids of two versions are different questions.
    mapping : mapping of str to str
        Field to column, for tables; several columns are joined by "+".
    n_options : int or None
        Options of every question, where the files do not show them.
    lenient : bool
        Read JSON with commas before closing brackets.
    strict : bool
        Refuse what is otherwise only reported.
    """

    benchmark: str | None = None
    version: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    n_options: int | None = None
    lenient: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        if self.n_options is None:
            return
        number = whole("n_options", self.n_options, UsageError)
        if not 2 <= number <= MAX_LETTERS:
            raise UsageError(
                Argument.of("n_options", number), f" must be 2 to {MAX_LETTERS}"
            )
        object.__setattr__(self, "n_options", number)

    def name(self, default: str) -> str:
        """Return the benchmark under which questions are recorded."""
        name = self.benchmark or default
        return f"{name}@{self.version}" if self.version else name


@dataclass(frozen=True, slots=True)
class RawQuestion:
    """A question as a file states it.

    Attributes
    ----------
    where : str
        File and place, for messages.
    question_id, benchmark : str
    question : str or None
        None where the file does not have it.
    options : tuple of str or None
        As shown there, letters in front included; None where the file has none.
    gold : object
        Index, letter, text, or letter and text; None where there is none.
    gold_kind : {"auto", "index", "letter", "text"}
    video_id : str
    type : str or None
    strata : mapping of str to str
        Further properties to break results down by.
    duration_s : float or None
    group : str or None
        Questions of one group ask the same with other words.
    copy : int
        0 for the question itself, higher for a copy with its options in another order.
    """

    where: str
    question_id: str
    benchmark: str
    question: str | None = None
    options: tuple[str, ...] | None = None
    gold: object = None
    gold_kind: GoldKind = "auto"
    video_id: str = ""
    type: str | None = None
    strata: Mapping[str, str] = field(default_factory=dict)
    duration_s: float | None = None
    group: str | None = None
    copy: int = 0


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One pass as a file states it.

    Attributes
    ----------
    where : str
        File and place, for messages.
    line : int or None
        Line of the file, or number of the entry in it.
    file : str
        Name of the file.
    question_id, benchmark : str
    text : str or None
        What the model wrote.
    index : int or None
        Position of the answer as shown, where the file has no text but a number.
    digits_are_index : bool
        Whether a text of digits alone is a position as well, unless it is that of an
        option. In predictions it is; in what a model wrote it names no option.
    failed : str
        Why there is no text, where the file says so.
    arm : str or None
        Name of the run that the pass belongs to; None is the only one.
    budget : int or None
        Frames of the pass.
    displayed : tuple of str or None
        Options as shown, where the file has them.
    order : tuple of int or None
        ``order[pos] = content``, where the file says so itself.
    logprobs : tuple of float or None
        Letter space, nats.
    option_mass : float or None
    probabilities : tuple of float or None
        Letter space, as the model wrote them.
    tokens : tuple of (str, mapping of str to float)
        By position of the text: the token there, and log-probabilities of those that
        could have been.
    phase : Fraction or None
        In steps of the frame grid.
    phase_index, n_phases : int
    harness : mapping of str to float
        Scores that the harness gave.
    extra : mapping
        Kept in the record.
    format : str
        Of the file.
    file_index : int or None
        Place of the file among several, whose names can be equal.
    """

    where: str
    line: int | None
    file: str
    question_id: str
    benchmark: str
    text: str | None = None
    index: int | None = None
    digits_are_index: bool = False
    failed: str = ""
    arm: str | None = None
    budget: int | None = None
    displayed: tuple[str, ...] | None = None
    order: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    option_mass: float | None = None
    probabilities: tuple[float, ...] | None = None
    tokens: tuple[tuple[str, Mapping[str, float]], ...] = ()
    phase: Fraction | None = None
    phase_index: int = 0
    n_phases: int = 1
    harness: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    format: str = ""
    file_index: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that one file holds.

    Attributes
    ----------
    questions : tuple of RawQuestion
        In file order; a question may occur once for each of its copies.
    answers : tuple of RawAnswer
    notes : tuple of (str, str, str)
        Kind, sentence and example of what the reader has to say.
    results : mapping
        Results that the harness wrote beside the file; None where it has no number.
    """

    questions: tuple[RawQuestion, ...] = ()
    answers: tuple[RawAnswer, ...] = ()
    notes: tuple[tuple[str, str, str], ...] = ()
    results: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that can be scored, in content order.

    Attributes
    ----------
    question_id, benchmark, video_id : str
    options : tuple of str or None
        Without letters; None where only their number is known.
    n_options : int
        0 where even that is not known yet.
    gold : tuple of int
        Every option that is right: none where that is not known, several where the
        right text occurs more than once.
    same_options : tuple of int
        First option of equal text for each option.
    question, type, strata, duration_s, group
        As in `RawQuestion`.
    """

    question_id: str
    benchmark: str
    video_id: str
    options: tuple[str, ...] | None
    n_options: int
    gold: tuple[int, ...]
    same_options: tuple[int, ...]
    where: str = ""
    question: str | None = None
    type: str | None = None
    strata: Mapping[str, str] = field(default_factory=dict)
    duration_s: float | None = None
    group: str | None = None
