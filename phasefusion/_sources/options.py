"""Option texts: letters in front, options inside the question, gold, shown orders."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from phasefusion._sources.files import whole
from phasefusion._sources.model import GoldKind
from phasefusion.answers import normal
from phasefusion.errors import OptionError
from phasefusion.scoring.letters import first_equal

#: Labels of options inside a question, as "A.", "(A)", "Option 1:", "Sentence B:".
_LINE = re.compile(
    r"\s*(?:(?:option|sentence|caption|choice)\s+(?P<name>[A-Za-z]|\d{1,2})\s*[:.)]|"
    r"\((?P<round>[A-Za-z])\)|(?P<bare>[A-Za-z])[.):])(?:\s+(?P<text>.*)|\s*$)",
    re.IGNORECASE,
)
_GOLD = re.compile(
    r"\s*(?:(?:option|sentence|caption|choice)\s+(?P<name>[A-Za-z]|\d{1,2})\s*[:.)]|"
    r"\((?P<round>[A-Za-z])\)|\[(?P<square>[A-Za-z])\]|(?P<bare>[A-Za-z])"
    r"(?=\s*$|[.):、]))[.):、]*\s*(?P<text>.*?)\s*",
    re.IGNORECASE | re.DOTALL,
)


def split_embedded(text: str) -> tuple[str, tuple[str, ...]]:
    r"""Split a question whose text ends in its options, one a line.

    The last run of lines labelled A, B, C, ... (or 1, 2, 3, ...) is taken; a label is
    taken off once and nothing else of the text is lost. Lines that go on an option
    belong to it, but for the last option, which is one line: what follows it, such as
    an instruction, is no option.

    Parameters
    ----------
    text : str

    Returns
    -------
    question : str
        What stands before the options.
    options : tuple of str
        Empty when there are none.

    Examples
    --------
    >>> split_embedded("What is said?\nA. No. 5: go.\nB. (A) stop")
    ('What is said?', ('No. 5: go.', '(A) stop'))
    """
    lines = text.split("\n")
    labels = [_label(line) for line in lines]
    for start in range(len(lines) - 1, -1, -1):
        if labels[start] != 0:
            continue
        options = _run(lines, labels, start)
        if len(options) >= 2:
            return "\n".join(lines[:start]).strip(), options
    return text.strip(), ()


def _label(line: str) -> int | None:
    """Place that the label of a line stands for; None without a label."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    return _place(match["name"] or match["round"] or match["bare"])


def _place(label: str) -> int:
    return int(label) - 1 if label.isdigit() else ord(label.upper()) - ord("A")


def _run(
    lines: Sequence[str], labels: Sequence[int | None], start: int
) -> tuple[str, ...]:
    last = {label: at for at, label in enumerate(labels)}
    options: list[list[str]] = []
    for at in range(start, len(lines)):
        if labels[at] == len(options):
            match = _LINE.fullmatch(lines[at])
            options.append([(match["text"] if match else "") or ""])
        elif last.get(len(options), -1) > at:
            options[-1].append(lines[at])
        else:
            break
    return tuple("\n".join(parts).strip() for parts in options)


#: What can be mistaken for nothing else.
_CLEAR = "give its letter in brackets, such as (A)"


@dataclass(frozen=True, slots=True)
class Gold:
    """What the gold of a file means.

    Attributes
    ----------
    indices : tuple of int
        Every option that is right; empty where none can be told.
    kind : str
        "" when all is well, "gold missing", "gold not an option", "gold ambiguous" or
        "gold contradicts itself".
    reason : str
    """

    indices: tuple[int, ...] = ()
    kind: str = ""
    reason: str = ""


def resolve_gold(
    gold: object,
    options: Sequence[str] | None,
    n_options: int,
    kind: GoldKind = "auto",
) -> Gold:
    """Tell which options the gold of a file names.

    Parameters
    ----------
    gold : object
        Index (0-based), letter, text, or letter and text, which must agree. None, NaN
        and the empty text are no gold.
    options : sequence of str or None
        Without letters, in the order that a letter or index counts in.
    n_options : int
        Their number; 0 where it is not known, and any letter is taken.
    kind : {"auto", "index", "letter", "text"}

    Returns
    -------
    Gold
        With several indices where the right text occurs several times.

    Examples
    --------
    >>> resolve_gold("Three", ["Six", "Three", "Three", "Eight"], 4).indices
    (1, 2)
    >>> resolve_gold("B. red", ["red", "blue"], 2).reason
    "'B. red' has the letter of 'blue' and the text of 'red'"
    """
    if gold is None or (isinstance(gold, float) and math.isnan(gold)):
        return Gold(kind="gold missing", reason="there is none")
    if isinstance(gold, str) and not gold.strip():
        return Gold(kind="gold missing", reason="it is empty")
    if kind == "index" or (kind == "auto" and not isinstance(gold, str)):
        return _gold_index(gold, options, n_options)
    if not isinstance(gold, str):
        return Gold(kind="gold not an option", reason=f"gold is {gold!r}")
    found = _by_text(gold, options) if kind != "letter" else ()
    if kind == "text":
        return _spread(found, options) if found else _not_an_option(gold, options)
    return _gold_any(gold, options, n_options, found, kind)


def _gold_index(gold: object, options: Sequence[str] | None, n_options: int) -> Gold:
    index = whole(gold)
    if index is None or index < 0 or (n_options and index >= n_options):
        return Gold(
            kind="gold not an option",
            reason=f"gold {gold!r} is no index of {n_options or 'its'} options",
        )
    return _spread((index,), options)


def _gold_any(
    gold: str,
    options: Sequence[str] | None,
    n_options: int,
    by_text: tuple[int, ...],
    kind: GoldKind,
) -> Gold:
    """Read gold that may be a letter, letter and text, a text or an index."""
    match = _GOLD.fullmatch(gold)
    by_letter: int | None = None
    rest = ""
    if match is not None:
        label = match["name"] or match["round"] or match["square"] or match["bare"]
        by_letter, rest = _place(label), match["text"]
        if by_letter < 0 or (n_options and by_letter >= n_options):
            by_letter = None
    if by_letter is not None and rest and not by_text:
        return _letter_and_text(gold, by_letter, rest, options)
    if by_letter is not None and not rest:
        if by_text and by_letter not in by_text:
            return Gold(
                kind="gold ambiguous",
                reason=f"{gold!r} is a letter and the text of another option; {_CLEAR}",
            )
        return _spread((by_letter,), options)
    if by_text:
        index = whole(gold)
        if kind == "auto" and index is not None and 0 <= index < n_options:
            if index not in by_text:
                return Gold(
                    kind="gold ambiguous",
                    reason=f"{gold!r} is an index and the text of another option; "
                    f"{_CLEAR}",
                )
        return _spread(by_text, options)
    index = whole(gold)
    if kind == "auto" and index is not None and 0 <= index < (n_options or 26):
        return _spread((index,), options)
    return _not_an_option(gold, options)


def _letter_and_text(
    gold: str, by_letter: int, rest: str, options: Sequence[str] | None
) -> Gold:
    if options is None:
        return Gold((by_letter,))
    if normal(options[by_letter]) == normal(rest):
        return _spread((by_letter,), options)
    others = [k for k, text in enumerate(options) if normal(text) == normal(rest)]
    reason = f"{gold!r} has the letter of {options[by_letter]!r} and "
    reason += f"the text of {options[others[0]]!r}" if others else "another text"
    return Gold(kind="gold contradicts itself", reason=reason)


def _by_text(gold: str, options: Sequence[str] | None) -> tuple[int, ...]:
    said = " ".join(gold.split())
    return tuple(k for k, o in enumerate(options or ()) if " ".join(o.split()) == said)


def _spread(indices: tuple[int, ...], options: Sequence[str] | None) -> Gold:
    """Add the options that read the same."""
    if options is None:
        return Gold(indices)
    first = first_equal(options)
    wanted = {first[k] for k in indices}
    return Gold(tuple(k for k, j in enumerate(first) if j in wanted))


def _not_an_option(gold: str, options: Sequence[str] | None) -> Gold:
    reason = f"gold {gold!r} is none of the options"
    close = near_match(gold, options or ())
    if close is not None:
        reason += f"; the closest is {close!r}, which was not taken"
    return Gold(kind="gold not an option", reason=reason)


def near_match(text: str, options: Sequence[str]) -> str | None:
    """Option that reads most like a text, to be offered and never applied.

    >>> near_match("Catching a flying drone", ["Catching the drone", "Running"])
    'Catching the drone'
    """
    plain = {normal(option): option for option in options}
    found = difflib.get_close_matches(normal(text), plain, n=1, cutoff=0.5)
    return plain[found[0]] if found else None


def order_of(displayed: Sequence[str], content: Sequence[str]) -> tuple[int, ...]:
    """Order in which options were shown, ``order[pos] = content``.

    Equal texts are matched by place: of the orders that fit, the first rotation is
    taken, so that a circular copy is one, else the first of all.

    Parameters
    ----------
    displayed, content : sequence of str
        The same texts, without letters.

    Raises
    ------
    OptionError
        If the texts are not the same.

    Examples
    --------
    >>> order_of(["dog", "cat", "ape"], ["cat", "ape", "dog"])
    (2, 0, 1)
    """
    shown = [" ".join(text.split()) for text in displayed]
    known = [" ".join(text.split()) for text in content]
    if shown == known:
        return tuple(range(len(known)))
    if Counter(shown) != Counter(known):
        extra = [text for text in shown if text not in known]
        raise OptionError(
            f"shown options {list(displayed)!r} are not those of the question, "
            f"{list(content)!r}{f': {extra[0]!r} is new' if extra else ''}"
        )
    n_options = len(known)
    for r in range(n_options):
        turned = [(pos + r) % n_options for pos in range(n_options)]
        if [known[k] for k in turned] == shown:
            return tuple(turned)
    places: dict[str, list[int]] = {}
    for k, text in enumerate(known):
        places.setdefault(text, []).append(k)
    return tuple(places[text].pop(0) for text in shown)


def n_distinct_orders(options: Sequence[str]) -> int:
    """Count the orders that are different prompts: K! / (repeats!).

    >>> n_distinct_orders(["yes", "no", "no"])
    3
    """
    ways = math.factorial(len(options))
    for n in Counter(first_equal(options)).values():
        ways //= math.factorial(n)
    return ways
