"""Phrases in cues: what counts as the same text, and phrases that run over two cues."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from phasefusion.errors import VideoError

if TYPE_CHECKING:
    from phasefusion.subtitles import Cue

__all__ = ["MOST_GAP_US", "compile_pattern", "fold", "matches"]

#: A phrase does not run on over a longer silence between two cues.
MOST_GAP_US = 3_000_000

#: Finds the spans of a pattern in a folded text.
Finder: TypeAlias = "Callable[[str], Iterator[tuple[int, int]]]"

# One sign for what keyboards, editors and converters write in several ways.
_SIGNS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u00b4`", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
}
_SIGN_TABLE = str.maketrans(_SIGNS)
# Scripts that set no space between words: Thai, Lao, Burmese, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_END = re.compile(f"[{_UNSPACED}]$")
_UNSPACED_BEGIN = re.compile(f"[{_UNSPACED}]")
_SPACES_INSIDE = re.compile(f"(?<=[{_UNSPACED}]) (?=[{_UNSPACED}])")


def _without_format_characters(text: str) -> str:
    """Text without soft hyphens, joiners, direction marks and their like."""
    if text.isascii():
        return text
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def fold(text: str, ignore_case: bool = True) -> str:
    r"""Return text as it is compared.

    NFKC and, if wanted, case folded; invisible format characters out; quotation marks,
    apostrophes and dashes in one form; white space as single spaces, none between two
    characters of a script that sets none between words.

    Examples
    --------
    >>> fold("  NASA\u2019s\nWebb ")
    "nasa's webb"
    >>> fold("\uff27\uff4f\uff44\uff44\uff41\uff52\uff44 \u2013 STRASSE", False)
    'Goddard - STRASSE'
    >>> fold("stra\u00dfe") == fold("STRASSE")
    True
    """
    text = _without_format_characters(text)
    if ignore_case:
        text = unicodedata.normalize("NFKC", text.translate(_SIGN_TABLE)).casefold()
    text = unicodedata.normalize("NFKC", text.translate(_SIGN_TABLE))
    return _SPACES_INSIDE.sub("", " ".join(text.split()))


def compile_pattern(pattern: str, regex: bool, ignore_case: bool) -> Finder:
    """Make the function that finds a pattern in text folded for it."""
    if not isinstance(pattern, str):
        raise VideoError(f"what to look for must be a str, not {pattern!r}")
    if regex:
        return _regex_finder(pattern, ignore_case)
    phrase = fold(pattern, ignore_case)
    if not phrase:
        raise VideoError(f"{pattern!r} holds nothing to look for")

    def find(text: str) -> Iterator[tuple[int, int]]:
        at = text.find(phrase)
        while at >= 0:
            yield at, at + len(phrase)
            at = text.find(phrase, at + 1)

    return find


def _regex_finder(pattern: str, ignore_case: bool) -> Finder:
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    try:
        # NFC makes no character that means something in a pattern.
        compiled = re.compile(unicodedata.normalize("NFC", pattern), flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise VideoError(
            f"pattern={pattern!r} is no regular expression: {error}"
        ) from None

    def find(text: str) -> Iterator[tuple[int, int]]:
        for match in compiled.finditer(text):
            if match.end() > match.start():
                yield match.span()

    return find


def _first(spans: Iterator[tuple[int, int]]) -> tuple[int, int] | None:
    return next(spans, None)


def _joint(one: str, two: str) -> str:
    apart = _UNSPACED_END.search(one) is None or _UNSPACED_BEGIN.match(two) is None
    return " " if apart else ""


def matches(
    cues: Sequence[Cue], find: Finder, ignore_case: bool
) -> Iterator[tuple[int, int, str]]:
    """Yield indices of the first and the last cue of each match, what matched.

    Each cue at most once, where it matches first; each pair of neighbours at most once,
    and only where neither matches alone.
    """
    folded = [fold(cue.text, ignore_case) for cue in cues]
    alone = [_first(find(text)) for text in folded]
    for i, span in enumerate(alone):
        if span is not None:
            yield i, i, folded[i][slice(*span)]
            continue
        if i + 1 == len(cues) or alone[i + 1] is not None:
            continue
        if cues[i + 1].start_us - cues[i].end_us > MOST_GAP_US:
            continue
        joined = folded[i] + _joint(folded[i], folded[i + 1]) + folded[i + 1]
        second = len(joined) - len(folded[i + 1])
        for begin, end in find(joined):
            if begin < len(folded[i]) and end > second:
                yield i, i + 1, joined[begin:end]
                break
