"""Options as letters: cleaning, merging, the prompt, and the letters' token ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phasefusion._checks import warn
from phasefusion.errors import OptionError, OptionWarning, ScoringError
from phasefusion.scoring.protocol import check_options

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# "A. x", "A) x", "A: x", "A、x", "(A) x", "[A] x"; the delimiter is not optional, or
# "A man" would lose its article.
_LETTERED = re.compile(
    r"\s*(?:\((?P<round>[A-Za-z])\)|\[(?P<square>[A-Za-z])\]|"
    r"(?P<bare>[A-Za-z])(?:[.):]|、))\s*(?P<text>.*)",
    re.DOTALL,
)
#: A field of a template, or one in double braces, which stands for itself in single.
_FIELD = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")
_TEXT_FIELDS, _OPTION_FIELDS = ("question", "options"), ("letter", "option")

LetterVariants = Literal["sum", "in-context"]


def strip_letters(options: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Take the letters off options that came with letters.

    Letters are taken off, once, only when every option carries one and they run A, B,
    C, ... in the order given; anything less could be part of an option's text. An
    option that is a letter alone is an empty one, unless all are: then the letters are
    the texts.

    Parameters
    ----------
    options : sequence of str

    Returns
    -------
    options : tuple of str
        Without surrounding white space.
    stripped : bool
        Whether letters were found and taken off.

    Examples
    --------
    >>> strip_letters(["A. a cat", "(B) a dog"])
    (('a cat', 'a dog'), True)
    >>> strip_letters(["A. 1.", "B. C. Berries."])
    (('1.', 'C. Berries.'), True)
    >>> strip_letters(["A. Lincoln", "J. Adams"])
    (('A. Lincoln', 'J. Adams'), False)
    """
    given = tuple(option.strip() for option in options)
    found = _lettered(given)
    letters = "".join(letter for letter, _ in found)
    wanted = LETTERS[: len(given)]
    if len(found) != len(given) or letters not in (wanted, wanted.lower()):
        return given, False
    return tuple(text for _, text in found), bool(given)


def _lettered(options: Sequence[str]) -> list[tuple[str, str]]:
    """Letter and text of the options that carry a letter, unless all are letters."""
    matches = [_LETTERED.fullmatch(option) for option in options]
    found = [
        (m["round"] or m["square"] or m["bare"], m["text"].strip())
        for m in matches
        if m is not None
    ]
    return found if any(text for _, text in found) else []


def misplaced(options: Sequence[str]) -> str:
    """Say what is wrong with options that carry the letters A to the K-th in disorder.

    Those may be the letters to answer with, which contradict the places, or no letters
    at all but initials; other letters, as in "A. Lincoln" and "J. Adams", are text.

    Returns
    -------
    str
        Empty when nothing is.

    Examples
    --------
    >>> misplaced(["A. a", "B. b"]), misplaced(["A. Lincoln", "J. Adams"])
    ('', '')
    >>> misplaced(["B. b", "A. a"])[:26]
    'the options are ambiguous:'
    """
    letters = "".join(letter for letter, _ in _lettered(options)).upper()
    in_order = LETTERS[: len(options)]
    if len(letters) != len(options) or letters == in_order:
        return ""
    if not {*letters} <= {*in_order}:
        return ""
    return (
        f"the options are ambiguous: they carry the letters {', '.join(letters)} at "
        f"the places of {', '.join(in_order)}; take the letters off or put the options "
        "in the order of their letters"
    )


def first_equal(texts: Sequence[str]) -> tuple[int, ...]:
    """For each text, the number of the first one that equals it up to white space.

    Examples
    --------
    >>> first_equal(["a  cat", "a dog", "a cat"])
    (0, 1, 0)
    """
    seen: dict[str, int] = {}
    return tuple(
        seen.setdefault(" ".join(text.split()), k) for k, text in enumerate(texts)
    )


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """Options ready for a prompt.

    Parameters
    ----------
    texts : tuple of str
        K texts, without letters of their own.
    first : tuple of int
        ``first[k]`` is the number of the first option with the same content as option
        ``k`` (``k`` itself when there is none before it).
    notes : tuple of str
        What was changed.
    """

    texts: tuple[str, ...]
    first: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @property
    def distinct(self) -> tuple[int, ...]:
        """The numbers of the options that repeat no earlier one."""
        return tuple(sorted(set(self.first)))


def clean_options(options: Sequence[str]) -> CleanOptions:
    """Check options, take their own letters off, and find repeated contents.

    Two options have the same content when their texts are equal up to white space.
    Repeated options stay in the prompt, so that a question is asked as its benchmark
    asks it; they are merged when the scores are gathered (see `merge_repeats`).

    Parameters
    ----------
    options : sequence of str
        Between 2 and 26 option texts, with or without letters.

    Returns
    -------
    CleanOptions

    Raises
    ------
    OptionError
        For options that cannot be scored (see `check_options`), or when all options
        have the same content.

    Warns
    -----
    OptionWarning
        When options are repeated.

    Examples
    --------
    >>> clean_options(["A. red", "B. blue"]).texts
    ('red', 'blue')
    """
    texts, stripped = strip_letters(check_options(options))
    for k, text in enumerate(texts):
        if not text:
            raise OptionError(
                f"option {k} of {len(texts)} is a letter alone: {options[k]!r}"
            )
    notes = ["letters of the given options taken off"] if stripped else []
    first = first_equal(texts)
    if len(set(first)) < 2:
        raise OptionError(
            f"all {len(texts)} options say {texts[0]!r}; there is nothing to choose"
        )
    repeats = [(k, j) for k, j in enumerate(first) if k != j]
    if repeats:
        pairs = ", ".join(f"option {k} repeats option {j}" for k, j in repeats)
        notes.append(f"{pairs}: merged")
        warn(
            f"{pairs} ({texts[repeats[0][0]]!r}): scores are merged onto the first",
            OptionWarning,
        )
    return CleanOptions(texts, first, tuple(notes))


def log_add(logprobs: NDArray[np.float64], *, axis: int) -> NDArray[np.float64]:
    """Add probabilities given as logarithms; NaN stays NaN without a warning."""
    with np.errstate(invalid="ignore"):
        total: NDArray[np.float64] = np.logaddexp.reduce(logprobs, axis=axis)
    return total


def merge_repeats(
    logprobs: NDArray[np.float64], first: Sequence[int], *, add: bool = True
) -> NDArray[np.float64]:
    """Credit repeated options to the first option of the same content.

    Parameters
    ----------
    logprobs : ndarray, shape (..., K), float64
        Log-probabilities in content space.
    first : sequence of int, length K
        ``CleanOptions.first``.
    add : bool, default True
        True adds the probabilities of the repeats to the first option's (letters are
        different events); False keeps the first option's (the same text scored twice
        is one event).

    Returns
    -------
    merged : ndarray, shape (..., K), float64
        The repeats hold ``-inf``; rows with NaN are all NaN.

    Examples
    --------
    >>> np.exp(merge_repeats(np.log([0.2, 0.3, 0.1]), (0, 1, 0))).round(6)
    array([0.3, 0.3, 0. ])
    """
    merged = np.array(logprobs, dtype=np.float64)
    invalid = np.isnan(merged).any(axis=-1)
    for k, j in enumerate(first):
        if k == j:
            continue
        if add:
            merged[..., j] = log_add(merged[..., [j, k]], axis=-1)
        merged[..., k] = -np.inf
    merged[invalid] = np.nan
    return merged


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The text around a question and its options.

    Parameters
    ----------
    text : str
        The user's turn: ``{question}`` once, and ``{options}`` where the option lines
        go. Without ``{options}`` no option is shown, which only text scoring can use.
        ``{{word}}`` shows ``{word}`` to the model.
    option : str
        One option line: ``{letter}`` and ``{option}``.
    system : str, optional
        A system turn before the user's.

    Raises
    ------
    ScoringError
        If a field is missing, or one is none of these.

    Examples
    --------
    >>> print(PromptTemplate().render("Which colour?", ["red", "blue"]))
    Which colour?
    A. red
    B. blue
    Answer with the option's letter from the given choices directly.
    """

    text: str = (
        "{question}\n{options}\n"
        "Answer with the option's letter from the given choices directly."
    )
    option: str = "{letter}. {option}"
    system: str | None = None

    def __post_init__(self) -> None:
        _check_fields("prompt text", self.text, _TEXT_FIELDS)
        _check_fields("option line", self.option, _OPTION_FIELDS)
        fields = _fields(self.text)
        if fields.count("question") != 1 or fields.count("options") > 1:
            raise ScoringError(
                f"prompt text {self.text!r} must hold {{question}} once and "
                "{options} at most once"
            )
        if "option" not in _fields(self.option):
            raise ScoringError(f"option line {self.option!r} must hold {{option}}")
        for name in _fields(self.system or ""):
            if name in (*_TEXT_FIELDS, *_OPTION_FIELDS):
                raise ScoringError(
                    f"prompt system {self.system!r} holds {{{name}}}, and nothing is "
                    "filled in there; put it in the text"
                )

    @property
    def lists_options(self) -> bool:
        """Whether the options are part of the prompt."""
        return "options" in _fields(self.text)

    @property
    def lists_letters(self) -> bool:
        """Whether the options are shown with letters."""
        return self.lists_options and "letter" in _fields(self.option)

    def render(self, question: str, options: Sequence[str]) -> str:
        """Return the user's turn for options in the order of presentation.

        Braces inside the question or an option are left alone: fields are filled in
        one sweep over the template.
        """
        lines = (
            _fill(self.option, {"letter": letter, "option": option})
            for letter, option in zip(LETTERS, options, strict=False)
        )
        return _fill(self.text, {"question": question, "options": "\n".join(lines)})

    def to_dict(self) -> dict[str, str | None]:
        """Return the template as JSON-able fields."""
        return {"text": self.text, "option": self.option, "system": self.system}


def as_prompt(prompt: PromptTemplate | str) -> PromptTemplate:
    """Return a template, of its text alone where that is what is given.

    Raises
    ------
    ScoringError
        If it is neither.
    """
    if isinstance(prompt, str):
        return PromptTemplate(prompt)
    if not isinstance(prompt, PromptTemplate):
        raise ScoringError(
            f"prompt must be a PromptTemplate or its text, not {prompt!r}"
        )
    return prompt


def _fields(template: str) -> list[str]:
    """Names of the fields in a template, as often as they are there."""
    return [one["name"] for one in _FIELD.finditer(template) if one["name"]]


def _check_fields(what: str, template: str, known: Sequence[str]) -> None:
    """Refuse a field that would be shown to the model as it stands."""
    for name in _fields(template):
        if name not in known:
            names = " and ".join(f"{{{one}}}" for one in known)
            raise ScoringError(
                f"{what} {template!r} holds {{{name}}}, which is none of its fields "
                f"{names}; to show it as it is, write {{{{{name}}}}}"
            )


def _fill(template: str, values: dict[str, str]) -> str:
    def filled(field: re.Match[str]) -> str:
        literal: str | None = field["literal"]
        return values[field["name"]] if literal is None else f"{{{literal}}}"

    return _FIELD.sub(filled, template)


TEXT_PROMPT = PromptTemplate("{question}\nAnswer directly with a short phrase.")


def continuation(
    context_ids: Sequence[int], whole_ids: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the tokens that `whole_ids` adds to `context_ids`.

    None when the text appended to the context has changed the context's own tokens, as
    happens when the context ends in a space that a tokenizer glues to the next word.
    """
    n = len(context_ids)
    if list(whole_ids[:n]) != list(context_ids):
        return None
    return tuple(int(i) for i in whole_ids[n:])


@dataclass(frozen=True, slots=True)
class LetterTokens:
    """The token ids that mean each letter at the answer position.

    Parameters
    ----------
    letters : str
        The letters, such as ``"ABCD"``.
    ids : tuple of tuple of int
        ``ids[v][k]`` is the id of letter ``k`` in variant ``v``.
    variants : tuple of str
        What was appended to the prompt, letter shown as ``L``: ``"L"`` or ``" L"``.
    """

    letters: str
    ids: tuple[tuple[int, ...], ...]
    variants: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the ids by variant and letter, JSON-able."""
        return {
            variant: dict(zip(self.letters, ids, strict=True))
            for variant, ids in zip(self.variants, self.ids, strict=True)
        }


def letter_tokens(
    encode: Callable[[str], Sequence[int]],
    context: str,
    n_options: int,
    *,
    variants: LetterVariants = "sum",
) -> LetterTokens:
    """Find which token follows a prompt when the answer is a letter.

    The prompt is tokenised with the letter appended, because the id of a letter
    depends on what stands before it. Tokenizers of the byte-pair kind have two ids for
    a letter, with and without a leading space, and which one a model uses depends on
    its training; a score read at the wrong one is noise.

    Parameters
    ----------
    encode : callable
        From text to token ids, without special tokens of its own.
    context : str
        The whole prompt up to the answer, generation prompt included.
    n_options : int
        K, the number of letters.
    variants : {"sum", "in-context"}, default "sum"
        "sum" keeps both ids, so that the probabilities of ``"A"`` and ``" A"`` are
        added; "in-context" keeps the letter right after the prompt alone. A variant
        is kept only when it is one token for every letter.

    Returns
    -------
    LetterTokens

    Raises
    ------
    ScoringError
        If no variant gives one token for each letter; the message names the letter
        and the tokens found.
    """
    letters = LETTERS[:n_options]
    wanted = ("", " ") if variants == "sum" else ("",)
    base = encode(context)
    kept: list[tuple[int, ...]] = []
    names: list[str] = []
    problem = ""
    for lead in wanted:
        ids: list[int] = []
        for letter in letters:
            added = continuation(base, encode(context + lead + letter))
            if added is None or len(added) != 1:
                problem = problem or _letter_problem(lead + letter, added)
                break
            ids.append(added[0])
        else:
            if len(set(ids)) < n_options:
                problem = problem or (
                    f"several of the letters {letters} share a token id: {ids}"
                )
            elif tuple(ids) not in kept:
                kept.append(tuple(ids))
                names.append(f"{lead}L")
    if not kept:
        raise ScoringError(
            f"{problem}; letters cannot be scored with this tokenizer and prompt, "
            'score="text" can'
        )
    return LetterTokens(letters, tuple(kept), tuple(names))


def _letter_problem(text: str, added: Sequence[int] | None) -> str:
    if added is None:
        return (
            f"appending {text!r} changes the last tokens of the prompt, so it has no "
            "token of its own (does the generation prompt end in a space?)"
        )
    return f"{text!r} after the prompt is {len(added)} tokens {list(added)}, not one"
