"""Log-probabilities of servers: OpenAI and vLLM, chat, completions and prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from phasefusion._results import Result
from phasefusion._sources.files import (
    as_id,
    number,
    read_json,
    read_jsonl,
    whole,
)
from phasefusion._sources.model import (
    RawAnswer,
    RawQuestion,
    Reading,
    Settings,
)
from phasefusion._sources.options import split_embedded
from phasefusion._sources.rows import (
    GOLDS,
    dotted,
    first,
    options_of,
    text_of,
    video_of,
)
from phasefusion.answers import (
    CONTRADICTIONS,
    LETTERS,
    ParsedAnswer,
    parse_answer,
)
from phasefusion.errors import DatasetError

#: What rounding of single log-probabilities can add up to.
_MASS_TOLERANCE = 1e-3
#: What is left of 1 after rounding to the digits of a float32.
_ROUNDING = 2.0**-23
#: Spellings of a letter that a model has at least: without and with a space in front.
_N_SPELLINGS = 2
#: What tokenizers write for the blank in front of a token.
_BLANKS = " \t\n\r▁ĠĊ"
_IDS = ("custom_id", "question_id", "q_uid", "request_id", "id")


@dataclass(frozen=True, slots=True, repr=False)
class LetterScores(Result):
    """Log-probabilities of option letters at the answer position.

    Attributes
    ----------
    logprobs : tuple of float
        Nats, letter space; -inf for a letter that is not among the tokens given.
    option_mass : float
        Probability of all letters together.
    absent : str
        Letters that are not among the tokens given.
    bound : float
        Greatest probability that an absent letter can have in all its spellings
        together; 0 when all are there. None of them is likelier than the least likely
        token given, and they have no more than what is left of 1. They are as many as
        the letter with the most has among the tokens, and two at least, ``"A"`` and
        ``" A"``.
    variants : tuple of str
        The tokens that were added up.
    """

    logprobs: tuple[float, ...]
    option_mass: float
    absent: str
    bound: float
    variants: tuple[str, ...]


def letter_scores(
    tokens: Mapping[str, float], n_options: int, *, chosen: str | None = None
) -> LetterScores | None:
    """Add the token variants of every letter: "A", " A", "▁A".

    Parameters
    ----------
    tokens : mapping of str to float
        Log-probability of every token that was given at the position, nats.
    n_options : int
    chosen : str, optional
        The token that stands there. Where it is the least likely one, the server may
        have given it beside the most likely ones, and then it bounds nothing.

    Returns
    -------
    LetterScores or None
        None when no token is a letter of the question.

    Raises
    ------
    DatasetError
        If a log-probability is above 0 or NaN, or letters have more than all mass.

    Examples
    --------
    >>> found = letter_scores({"A": -0.5, " A": -2.0, "▁B": -1.5, "The": -3.0}, 2)
    >>> [round(x, 4) for x in found.logprobs], round(found.option_mass, 4)
    ([-0.2986, -1.5], 0.965)
    >>> found = letter_scores({"A": -0.5, " A": -2.0, "The": -3.0}, 2)
    >>> found.absent, round(found.bound, 4)  # twice exp(-3), in "B" and in " B"
    ('B', 0.0996)
    """
    groups: list[list[float]] = [[] for _ in range(n_options)]
    variants = []
    for token, value in tokens.items():
        if math.isnan(value) or value > 1e-6:
            raise DatasetError(
                f"the log-probability of token {token!r} is {value}; it must be <= 0. "
                "Losses need a change of sign, probabilities a logarithm"
            )
        letter = token.strip(_BLANKS)
        if len(letter) == 1 and letter in LETTERS[:n_options]:
            groups[LETTERS.index(letter)].append(min(value, 0.0))
            variants.append(token)
    if not variants:
        return None
    sums = [
        float(np.logaddexp.reduce(group)) if group else -math.inf for group in groups
    ]
    mass = sum(math.exp(value) for value in sums)
    if mass > 1 + _MASS_TOLERANCE:
        raise DatasetError(
            f"the probabilities of {', '.join(map(repr, variants))} sum to {mass:.6g}; "
            "they must be natural logarithms of probabilities at one position"
        )
    absent = "".join(LETTERS[k] for k, group in enumerate(groups) if not group)
    return LetterScores(
        logprobs=tuple(sums),
        option_mass=min(1.0, mass),
        absent=absent,
        bound=_bound(tokens, chosen, max(map(len, groups))) if absent else 0.0,
        variants=tuple(variants),
    )


def _bound(tokens: Mapping[str, float], chosen: str | None, n_spellings: int) -> float:
    """Return the most that all spellings of a letter have that is not there."""
    rest = max(1.0 - math.fsum(map(math.exp, tokens.values())), _ROUNDING)
    least = min(tokens, key=tokens.__getitem__)
    others = [value for name, value in tokens.items() if name != least]
    if least != chosen:
        others.append(tokens[least])
    if not others:
        return rest
    return min(max(n_spellings, _N_SPELLINGS) * math.exp(min(others)), rest)


def read_logprobs(path: Path, settings: Settings) -> Reading:
    """Read responses with log-probabilities, one an object.

    Batch output, bare responses and vLLM's own outputs are known; the id is
    ``custom_id``, ``question_id`` or ``id``. Options may be in the row, in its prompt,
    or come from a question file.

    Raises
    ------
    DatasetError
        Naming the row that has no id or no response, or bad numbers.
    """
    benchmark = settings.name(path.stem)
    questions: list[RawQuestion] = []
    answers: list[RawAnswer] = []
    for where, line, row in _objects(path, settings):
        name = settings.mapping.get("question_id")
        value = dotted(row, name) if name else first(row, _IDS)
        if value is None:
            raise DatasetError(f"{where}: has none of {', '.join(_IDS)}")
        question = _question(row, where, as_id(value, where, "id"), benchmark)
        questions.append(question)
        answers += _answers(row, where, line, path, question)
    return Reading(tuple(questions), tuple(answers))


def _objects(
    path: Path, settings: Settings
) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    if path.suffix.lower() == ".jsonl":
        for line, row in read_jsonl(path):
            yield f"{path}, line {line}", line, row
        return
    value = read_json(path, lenient=settings.lenient).value
    rows = value if isinstance(value, list) else [value]
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DatasetError(f"{path}, item {i}: must be an object")
        yield f"{path}, item {i}", i, row


def _question(
    row: Mapping[str, Any], where: str, question_id: str, benchmark: str
) -> RawQuestion:
    options = options_of(row)
    text = text_of(first(row, ("question", "prompt")))
    text = text or _chat_prompt(row)
    if options is None and text is not None:
        split, found = split_embedded(text)
        options, text = (found, split) if found else (None, text)
    return RawQuestion(
        where=where,
        question_id=question_id,
        benchmark=benchmark,
        question=text,
        options=options,
        gold=first(row, GOLDS),
        video_id=video_of(row),
    )


def _chat_prompt(row: Mapping[str, Any]) -> str | None:
    """Text of the last message that was sent, where the row has it."""
    sent = dotted(row, "body.messages") or row.get("messages")
    if not isinstance(sent, list) or not sent or not isinstance(sent[-1], Mapping):
        return None
    content = sent[-1].get("content")
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str)) or None
    return text_of(content)


@dataclass(frozen=True, slots=True)
class _Position:
    """One position of a text: the token that is there, and what could have been."""

    token: str
    tokens: dict[str, float]


def _answers(
    row: Mapping[str, Any],
    where: str,
    line: int,
    path: Path,
    question: RawQuestion,
) -> Iterator[RawAnswer]:
    """Yield the passes of a response: one, or one a choice."""
    response = _response(row)
    if response is None:
        raise DatasetError(
            f"{where}: has no response: neither choices, outputs nor prompt_logprobs"
        )
    choices = _choices(response)
    for i, choice in enumerate(choices or [{}]):
        text, positions = _generated(choice)
        extra: dict[str, Any] = {}
        if not positions:
            positions = _prompt_positions(response, choice)[-1:]
            if positions:
                extra["logprobs_of"] = "prompt"
        failed = "" if choices or positions else _failure(row)
        if failed:
            extra["error"] = failed
        yield RawAnswer(
            where=where,
            line=line,
            file=path.name,
            question_id=question.question_id,
            benchmark=question.benchmark,
            text=text,
            failed=f"request failed: {failed}" if failed else "",
            arm=f"repeat {i + 1}" if len(choices) > 1 else None,
            displayed=question.options,
            tokens=tuple((one.token, one.tokens) for one in positions),
            extra=extra,
        )


def _response(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Find the object that holds the choices, however deep the form puts it."""
    for name in ("response.body", "response", "body", ""):
        found = dotted(row, name) if name else row
        if holds_choices(found):
            assert isinstance(found, Mapping)
            return found
    if "error" in row or isinstance(row.get("response"), Mapping):
        return {}
    return None


def _failure(row: Mapping[str, Any]) -> str:
    """Say why a request has no response: what the server said, and its status.

    >>> _failure({"response": {"status_code": 500}, "error": {"message": "late"}})
    'late (status 500)'
    """
    for name in (
        *("error.message", "response.body.error.message", "response.body.message"),
        *("response.body.error", "response.error", "error.code", "error"),
    ):
        said = dotted(row, name)
        if isinstance(said, str) and said.strip():
            break
    else:
        said = ""
    status = whole(dotted(row, "response.status_code"))
    code = "" if status in (None, 200) else f"status {status}"
    said = " ".join(said.split())
    if not said and not code:
        return "no reason given" if "error" in row or "response" in row else ""
    return f"{said} ({code})" if said and code else said or code


def holds_choices(value: object) -> bool:
    """Whether an object is what a server says, not a question with its choices."""
    if not isinstance(value, Mapping):
        return False
    choices = value.get("choices")
    if isinstance(choices, list):
        return all(isinstance(one, Mapping) and "choice" not in one for one in choices)
    return "outputs" in value or "prompt_logprobs" in value


def _choices(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Choices of a response, in the order of their index where they have one."""
    given = response.get("choices", response.get("outputs"))
    if not isinstance(given, list):
        return []
    found = [one if isinstance(one, Mapping) else {} for one in given]
    places = [whole(one.get("index")) for one in found]
    known = [place for place in places if place is not None]
    if len(set(known)) < len(found):
        return found
    return [found[i] for i in sorted(range(len(found)), key=known.__getitem__)]


def _generated(choice: Mapping[str, Any]) -> tuple[str | None, list[_Position]]:
    text = text_of(dotted(choice, "message.content"))
    text = text_of(choice.get("text")) if text is None else text
    text = text_of(dotted(choice, "message.refusal")) if text is None else text
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, list):
        return text, [p for p in map(_vllm_position, logprobs) if p is not None]
    if not isinstance(logprobs, Mapping):
        return text, []
    if isinstance(logprobs.get("content"), list):
        found = [_chat_position(one) for one in logprobs["content"]]
        return text, [p for p in found if p is not None]
    return text, list(_legacy_positions(logprobs))


def _chat_position(entry: object) -> _Position | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("token"), str):
        return None
    tokens: dict[str, float] = {}
    more = entry.get("top_logprobs")
    for one in [*(more if isinstance(more, list) else ()), entry]:
        if isinstance(one, Mapping) and isinstance(one.get("token"), str):
            value = number(one.get("logprob"))
            if value is not None:
                tokens.setdefault(one["token"], value)
    return _Position(entry["token"], tokens) if tokens else None


def _legacy_positions(logprobs: Mapping[str, Any]) -> Iterator[_Position]:
    """Positions of the completions form: tokens, token_logprobs, top_logprobs."""
    tokens, values, tops = (
        logprobs.get(name) for name in ("tokens", "token_logprobs", "top_logprobs")
    )
    if not isinstance(tokens, list):
        return
    for i, token in enumerate(tokens):
        found: dict[str, float] = {}
        top = tops[i] if isinstance(tops, list) and i < len(tops) else None
        if isinstance(top, Mapping):
            given = {str(name): number(value) for name, value in top.items()}
            found = {name: x for name, x in given.items() if x is not None}
        own = (
            number(values[i]) if isinstance(values, list) and i < len(values) else None
        )
        if own is not None:
            found.setdefault(str(token), own)
        if found:
            yield _Position(str(token), found)


def _vllm_position(entry: object) -> _Position | None:
    """Position of vLLM's own form: {token id: {logprob, rank, decoded_token}}."""
    if not isinstance(entry, Mapping):
        return None
    tokens: dict[str, float] = {}
    ranks = []
    for one in entry.values():
        if not isinstance(one, Mapping) or not isinstance(
            one.get("decoded_token"), str
        ):
            continue
        value = number(one.get("logprob"))
        if value is not None:
            token = one["decoded_token"]
            # Two ids may decode to one text.
            tokens[token] = (
                float(np.logaddexp(tokens[token], value)) if token in tokens else value
            )
            ranks.append(token)
    return _Position(ranks[0], tokens) if ranks else None


def _prompt_positions(
    response: Mapping[str, Any], choice: Mapping[str, Any]
) -> list[_Position]:
    """Positions of a prompt that ends in the answer."""
    given = response.get("prompt_logprobs")
    if given is None:
        given = choice.get("prompt_logprobs")
    if not isinstance(given, list):
        return []
    return [p for p in map(_vllm_position, given) if p is not None]


def answer_position(
    text: str | None,
    tokens: Sequence[tuple[str, Mapping[str, float]]],
    options: Sequence[str] | int,
) -> int | None:
    """Position of the token that is the answer's letter; None when there is none.

    Where the text states an option by its letter it is the token that decides: with
    another letter in its place the text would state another option, or contradict
    itself. A letter in the thinking, or an article, decides nothing. Where no option is
    stated it is the first token of the text, if a letter could have stood there.

    Examples
    --------
    >>> tokens = [(word, {word: -0.1}) for word in ("A", " no", ".", " Answer:", " B")]
    >>> answer_position("A no. Answer: B", tokens, 2)
    4
    """
    n_options = options if isinstance(options, int) else len(options)
    stated = parse_answer(text, options) if text else None
    if text is None or stated is None or stated.answer is None:
        found = letter_scores(tokens[0][1], n_options) if tokens else None
        return None if found is None else 0
    if not _is_by_letter(text, stated, n_options) or n_options < 2:
        return None
    letter = LETTERS[stated.answer]
    other = (stated.answer + 1) % n_options
    text, pieces, begin = _aligned(text, [token for token, _ in tokens])
    contradicted = None
    for i, piece in enumerate(pieces):
        at = begin[i] + len(piece) - len(piece.lstrip())
        if piece.strip() != letter or at < 0 or text[at : at + 1] != letter:
            continue
        changed = parse_answer(text[:at] + LETTERS[other] + text[at + 1 :], options)
        if changed.answer == other and changed.rule != "text":
            return i
        if contradicted is None and changed.reason.startswith(CONTRADICTIONS):
            contradicted = i
    return contradicted


def _is_by_letter(text: str, stated: ParsedAnswer, n_options: int) -> bool:
    """Whether a letter decided, not the text of an option."""
    if stated.rule == "tag":
        return parse_answer(text, n_options).answer == stated.answer
    return stated.rule != "text"


def _aligned(text: str, tokens: Sequence[str]) -> tuple[str, list[str], list[int]]:
    """Return a text, tokens as parts of it, and where each begins.

    Tokens can hold more than the text: thinking that a server took out, special tokens.
    A token that is before the text begins below 0. Where the tokens are no text that
    ends in the given one, what they say together is the text.
    """
    pieces = [_plain(token) for token in tokens]
    said = "".join(pieces)
    ends = list(accumulate(map(len, pieces)))
    place = said.rfind(text.strip())
    shift = max(place, 0)
    begin = [end - len(piece) - shift for end, piece in zip(ends, pieces, strict=True)]
    return (text.strip() if place >= 0 else said), pieces, begin


def _plain(token: str) -> str:
    """Token as it stands in the text."""
    return token.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n")
