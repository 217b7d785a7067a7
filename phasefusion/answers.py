"""Which option a generated text chooses: the one extractor, which never guesses."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasefusion import _answer_forms as forms
from phasefusion._results import Result
from phasefusion.errors import OptionError

__all__ = ["ParsedAnswer", "parse_answer"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Outcome: TypeAlias = Literal["parsed", "invalid", "refused", "unparsed", "missing"]
#: In the order in which they are reported.
OUTCOMES: tuple[Outcome, ...] = ("parsed", "invalid", "refused", "unparsed", "missing")

#: The rule of an answer that is given as a place, so that no text need be read.
BY_PLACE = "place"

#: How the reason begins where a text says two things.
CONTRADICTIONS = ("names several options", "the letter is")


@dataclass(frozen=True, slots=True)
class ParsedAnswer(Result):
    """What a generated text says.

    Attributes
    ----------
    answer : int or None
        Position of the chosen option as shown, 0 for the letter A; None unless parsed.
    outcome : {"parsed", "invalid", "refused", "unparsed", "missing"}
        One option chosen; a letter that the question does not have; a refusal to
        answer; a text that names no option, or more than one; no text at all.
    rule : str
        What decided: "letter", "letter and text", "text", "declared", "tag", "field"
        or "mention"; empty when nothing did. `BY_PLACE` in records of answers whose
        place was given.
    reason : str
        Why there is no answer; empty when there is one.
    """

    answer: int | None
    outcome: Outcome
    rule: str = ""
    reason: str = ""


def parse_answer(
    text: str | float | None, options: Sequence[str] | int
) -> ParsedAnswer:
    """Tell which option a generated text chooses, or why it chooses none.

    A text counts only when it says one thing: an answer tag or box, a letter alone, the
    text of one option alone, a statement such as "the answer is (B)", or a letter in
    front. Letters count only where they cannot be words ("A man" is no answer A), and
    two different letters of equal standing are no answer. Nothing is drawn by chance.
    Sentences around an answer are read in English, and around a letter in Chinese;
    letters, tags and the texts of options alone in every language.

    Parameters
    ----------
    text : str or None
        What the model wrote; None or NaN where it wrote nothing.
    options : sequence of str, or int
        The option texts in the order shown, without letters; or their number alone.

    Returns
    -------
    ParsedAnswer

    Raises
    ------
    OptionError
        If the number of options is not within 1..26, or text is no text.

    Examples
    --------
    >>> parse_answer("The correct answer is (B).", ["a cat", "a dog"]).answer
    1
    >>> parse_answer("A pretty girl", ["a pretty boy", "a pretty girl"]).answer
    1
    >>> parse_answer("A or B", 4).outcome, parse_answer("E", 4).outcome
    ('unparsed', 'invalid')
    """
    texts = None if isinstance(options, int) else tuple(options)
    n_options = options if isinstance(options, int) else len(options)
    if not 1 <= n_options <= len(LETTERS):
        raise OptionError(f"{n_options} options; 1 to {len(LETTERS)} can be lettered")
    if text is None or (isinstance(text, float) and math.isnan(text)):
        return ParsedAnswer(None, "missing", reason="no text")
    if not isinstance(text, str):
        raise OptionError(f"text must be a text or None, not {text!r}")
    shown = forms.SPECIAL.sub(" ", unicodedata.normalize("NFKC", text))
    if not shown.strip():
        return ParsedAnswer(None, "missing", reason="empty text")
    reader = _Reader(texts, n_options)
    failed = forms.FAILED.fullmatch(shown)
    if failed and not reader.equal(shown):
        return ParsedAnswer(None, "missing", reason=f"harness wrote {_cut(text)}")
    shown, unfinished = _without_thinking(shown)
    if unfinished:
        return ParsedAnswer(
            None, "unparsed", reason="the text ends while the model is thinking"
        )
    if not shown.strip():
        return ParsedAnswer(None, "missing", reason="nothing after the thinking")
    return reader.read(shown)


def _without_thinking(text: str) -> tuple[str, bool]:
    """Return what is outside the thinking, and whether the thinking has no end."""
    parts: list[str] = []
    at, thinking = 0, False
    for match in forms.THINK.finditer(text):
        if match["close"] and not thinking:
            parts.clear()  # prompts may open the thinking themselves
        elif not match["close"] and not thinking:
            parts.append(text[at : match.start()])
        thinking = not match["close"]
        at = match.end()
    if not thinking:
        parts.append(text[at:])
    return " ".join(parts), thinking


def normal(text: str) -> str:
    """Text for comparison: case, white space, quotes and the final stop do not count.

    >>> normal(' "A  Cat." ')
    'a cat'
    """
    plain = forms.MARKDOWN.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(plain.split()).strip("\"'“”‘’ ").rstrip(".。!,;: ")


def _cut(text: str, most: int = 60) -> str:
    shown = " ".join(text.split())
    return repr(shown if len(shown) <= most else f"{shown[: most - 3]}...")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one text for options of which the texts may be known."""

    texts: tuple[str, ...] | None
    n_options: int

    def read(self, text: str) -> ParsedAnswer:
        """Try every form, the most explicit first."""
        explicit = (self._tagged, self._field, self._final)
        for form in explicit:
            found = form(text)
            if found is not None:
                return found
        plain = forms.MARKDOWN.sub("", text).strip()
        for plain_form in self._plain_forms():
            found = plain_form(plain)
            if found is not None:
                return found
        if forms.REFUSAL.search(plain):
            return ParsedAnswer(None, "refused", reason=f"refusal: {_cut(plain)}")
        return ParsedAnswer(
            None, "unparsed", reason=f"names no option alone: {_cut(plain)}"
        )

    def _plain_forms(self) -> tuple[Callable[[str], ParsedAnswer | None], ...]:
        return (
            self._whole,
            self._reasoned,
            self._stated,
            self._text,
            self._mentioned,
        )

    # -- forms ------------------------------------------------------------

    def _tagged(self, text: str) -> ParsedAnswer | None:
        """Read answer tags and boxes; several must say the same."""
        inside = [m["tag"] or m["boxed"] or "" for m in forms.TAG.finditer(text)]
        found = {
            self._inside(part): None for part in inside if part.strip()
        }  # a dict keeps the order
        return self._agreed(list(found)) if found else None

    def _field(self, text: str) -> ParsedAnswer | None:
        """Read fields of objects, {"answer": "B"}; several must say the same.

        A field in which nothing is named may be of the format that was asked for.
        """
        inside = [
            m["double"] or m["single"] or m["bare"] or ""
            for m in forms.FIELD.finditer(text)
        ]
        found = [self._inside(part, "field") for part in inside if part.strip()]
        if not found:
            return None
        made = self._agreed(list(dict.fromkeys(found)))
        alone = forms.OBJECT.fullmatch(text) is not None
        return made if alone or made.outcome != "unparsed" or len(found) > 1 else None

    def _agreed(self, found: Sequence[ParsedAnswer]) -> ParsedAnswer:
        parsed = [one for one in found if one.answer is not None]
        if len({one.answer for one in parsed}) > 1:
            return self._several(sorted({LETTERS[one.answer or 0] for one in parsed}))
        return (parsed or found)[0]

    def _inside(self, text: str, rule: str = "tag") -> ParsedAnswer:
        plain = forms.MARKDOWN.sub("", text).strip()
        for form in self._plain_forms():
            found = form(plain)
            if found is not None and found.answer is not None:
                return ParsedAnswer(found.answer, "parsed", rule)
            if found is not None:
                return found
        return ParsedAnswer(
            None, "unparsed", reason=f"names no option alone: {_cut(plain)}"
        )

    def _final(self, text: str) -> ParsedAnswer | None:
        plain = forms.MARKDOWN.sub("", text)
        found = {
            letter
            for match in forms.FINAL.finditer(plain)
            for letter in self._with_further(match, plain)
        }
        return self._one(found, "declared") if found else None

    def _whole(self, text: str) -> ParsedAnswer | None:
        """Read a letter alone, or the text of an option alone."""
        by_text = self.equal(text)
        numbered = forms.NUMBERED.fullmatch(text)
        if numbered and not by_text:
            return self._number(int(numbered["number"]))
        match = forms.ALONE.fullmatch(text)
        if match is None:
            if not by_text:
                return None
            leading = self._leading_letter(text)
            if leading is None or leading in by_text or leading >= self.n_options:
                return ParsedAnswer(by_text[0], "parsed", "text")
            return self._contradiction(leading, by_text[0])
        position = LETTERS.index(match["letter"].upper())
        if by_text and position >= self.n_options:
            return ParsedAnswer(by_text[0], "parsed", "text")
        if by_text and position not in by_text:
            return self._contradiction(position, by_text[0])
        return self._one({match["letter"].upper()}, "letter")

    def _reasoned(self, text: str) -> ParsedAnswer | None:
        """Read the text of an option in front of a reason.

        "a dog because it barks"; of options that speak of the others more signs tell
        where they end, "None of the above. Nothing moves". Another text begins with the
        option and goes on: that may be anything.
        """
        said = normal(text)
        texts = [normal(option) for option in self.texts or ()]
        long = [one for one in texts if len(one) > 1 and said.startswith(one)]
        if not long:
            return None
        option = max(long, key=len)
        same = [k for k, one in enumerate(texts) if one == option]
        rest = said[len(option) :]
        others = forms.OF_THE_OTHERS.fullmatch(option)
        reason = forms.REASON_OF_THE_OTHERS if others else forms.REASON
        if reason.match(rest) is None or forms.BUT.match(rest):
            return None
        if len({" ".join((self.texts or ())[k].split()) for k in same}) > 1:
            return None
        letters = set(self._declared(text)) - {LETTERS[k] for k in same}
        if letters:
            return self._several(sorted({LETTERS[same[0]], *letters}))
        return ParsedAnswer(same[0], "parsed", "text")

    def _number(self, number: int) -> ParsedAnswer:
        if 1 <= number <= self.n_options:
            return ParsedAnswer(number - 1, "parsed", "letter")
        reason = f"option {number} is not one of 1..{self.n_options}"
        return ParsedAnswer(None, "invalid", reason=reason)

    def _leading_letter(self, text: str) -> int | None:
        match = forms.LEADING.fullmatch(text)
        if match is None or not (match["mark"] or match["round"] or match["square"]):
            return None
        return LETTERS.index(_letter_of(match))

    def _stated(self, text: str) -> ParsedAnswer | None:
        """Read statements and a letter in front; they must agree."""
        declared = set(self._declared(text))
        claimed, leading = self._leading(text)
        if not declared:
            return leading
        if claimed is not None:
            declared.add(claimed)
        return self._one(declared, "declared")

    def _declared(self, text: str) -> Iterator[str]:
        for form in forms.DECLARED:
            for match in form.finditer(text):
                if self._is_letter(match, text):
                    yield from self._with_further(match, text)
        for match in forms.DECLARED_SHORT.finditer(text):
            ends = forms.CLAUSE_END.match(text, match.end()) is not None
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            certain = match["letter"].isupper() or match["open"]
            if ends and certain and not forms.NEGATED.search(before):
                yield from self._with_further(match, text)
        for match in forms.DECLARED_AFTER.finditer(text):
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            certain = match["letter"].isupper() or match["open"]
            certain = certain or forms.NAMED_LOWER.search(before)
            if certain and not forms.NEGATED.search(before):
                yield match["letter"].upper()
        yield from self._preferred(text)

    def _preferred(self, text: str) -> Iterator[str]:
        """Letters that are set against others: "not B but C", "C, not B"."""
        for match in forms.NOT_BUT.finditer(text):
            ends = forms.CLAUSE_END.match(text, match.end()) is not None
            ends = ends or forms.AFTER_LOWER.match(text, match.end()) is not None
            if ends and self._is_sure(match):
                yield match["letter"].upper()
            elif self._is_sure(match):
                further = list(self._with_further(match, text))
                yield from further if len(further) > 1 else ()
        whole = forms.RATHER.fullmatch(text)
        if whole and self._is_sure(whole):
            yield whole["letter"].upper()

    def _is_sure(self, match: re.Match[str]) -> bool:
        """Whether both letters of a match are upper case, or both are not, and differ.

        Lower-case ones are words more often than letters: a alone may be an article.
        """
        letter, other = match["letter"], match["other"]
        if letter.upper() == other.upper():
            return False
        if letter.isupper() and other.isupper():
            return True
        return letter.islower() and other.islower() and not {letter, other} & {*"ai"}

    def _leading(self, text: str) -> tuple[str | None, ParsedAnswer | None]:
        """Read a letter in front: "B. a dog", "(B)", "B because", "B" on a line.

        Returns the letter that is claimed, if any, and what the text says by it alone.
        """
        lines = [line for line in text.splitlines() if line.strip()]
        alone = [m["letter"].upper() for m in map(forms.ALONE.fullmatch, lines) if m]
        if not lines:
            return None, None
        if forms.ALONE.fullmatch(lines[0]):
            return alone[0], self._one(set(alone), "letter")
        match = forms.BECAUSE.match(lines[0])
        if match:
            letter = match["letter"].upper()
            return letter, self._one({letter}, "declared")
        match = forms.LEADING.fullmatch(lines[0])
        if match is None:
            return None, None
        letter, rest = _letter_of(match), match["rest"]
        if self._own_text(letter, rest):
            again = {letter, *self._enumerated(lines[1:])}
            return letter, self._one(again, "letter and text")
        marked = bool(match["mark"] or match["round"] or match["square"])
        if not marked or (letter == "I" and self.n_options < 9):
            return None, None
        others = {letter, *self._mentions(text[match.end("mark") :])}
        if forms.WRONG_AFTER.match(rest):
            return None, self._several(sorted(others))
        by_text = self.equal(rest)
        if by_text and LETTERS.index(letter) not in by_text:
            return letter, self._contradiction(LETTERS.index(letter), by_text[0])
        return letter, self._one(others, "letter")

    def _enumerated(self, lines: Sequence[str]) -> Iterator[str]:
        """Letters of the lines that repeat an option with its own letter."""
        for line in lines:
            match = forms.LEADING.fullmatch(line)
            if match and self._own_text(_letter_of(match), match["rest"]):
                yield _letter_of(match)

    def _text(self, text: str) -> ParsedAnswer | None:
        """Read the text of one option after a lead-in, on the first line, or yes/no."""
        if self.texts is None:
            return None
        lines = [line for line in text.splitlines() if line.strip()]
        found = {by[0] for by in map(self._one_text, lines) if by}
        if len(found) == 1 and self._one_text(lines[0]):
            return ParsedAnswer(found.pop(), "parsed", "text")
        if len(found) > 1:
            return self._several([LETTERS[k] for k in sorted(found)])
        words = [normal(option) for option in self.texts]
        if sorted(words) == ["no", "yes"]:
            match = re.match(r"\W*(yes|no)\b\s*[,.;:]", text, re.IGNORECASE)
            if match:
                return ParsedAnswer(words.index(match[1].lower()), "parsed", "text")
        return None

    def _one_text(self, line: str) -> tuple[int, ...]:
        match = forms.LEAD_IN.match(line.strip())
        rest = line.strip()[match.end() :] if match else line
        return self.equal(line) or self.equal(rest)

    def _mentioned(self, text: str) -> ParsedAnswer | None:
        """Read the only letter of the text, if it is in brackets or called an option.

        A bare letter in a sentence may be anything, as in "vitamin C".
        """
        strong: set[str] = set()
        doubtful: set[str] = set()
        for match in forms.MENTION.finditer(text):
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            negated = forms.NEGATED.search(before) or forms.WRONG_AFTER.match(
                text, match.end()
            )
            bracketed = match["open"] in {"(", "["} and match["close"] in {")", "]"}
            upper = match["letter"].isupper()
            named = (forms.NAMED if upper else forms.NAMED_LOWER).search(before)
            if named and not upper and not self._is_letter(match, text):
                doubtful.add(match["letter"].upper())  # "the option a man picks"
                continue
            if (bracketed or named) and not negated:
                strong.add(match["letter"].upper())
        weak = set(self._mentions(text)) | strong | doubtful
        if len(weak) > 1:
            return None if not strong else self._several(sorted(weak))
        if not strong or LETTERS.index(next(iter(strong))) >= self.n_options:
            return None
        return self._one(strong, "mention")

    # -- parts ------------------------------------------------------------

    def _mentions(self, text: str) -> Iterator[str]:
        """Upper-case letters of the question that stand alone and are not words."""
        for match in forms.MENTION.finditer(text):
            letter = match["letter"]
            inside = letter in LETTERS[: self.n_options]
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            if (
                inside
                and self._is_letter(match, text)
                and not forms.NEGATED.search(before)
            ):
                yield letter

    def _is_letter(self, match: re.Match[str], text: str) -> bool:
        """Whether the letter of a match can be no word of the sentence."""
        letter, rest = match["letter"], text[match.end() :]
        if match["open"] in {"(", "["} and match["close"] in {")", "]"}:
            return True
        if letter.islower():
            if forms.CLAUSE_END.match(rest) or forms.AFTER_LOWER.match(rest):
                return True
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            return letter not in "ai" and bool(forms.NAMED_LOWER.search(before))
        if letter not in "AI" or forms.AFTER_LETTER.match(rest):
            return True
        return re.match(r"\s+\w", rest) is None

    def _with_further(self, match: re.Match[str], text: str) -> Iterator[str]:
        """Yield the letter of a statement and those added to it, as in "A or B"."""
        yield match["letter"].upper()
        at = match.end()
        while True:
            more = forms.FURTHER.match(text, at)
            if more is None:
                return
            if more["letter"].islower() and match["letter"].isupper():
                return
            ends = forms.CLAUSE_END.match(text, more.end()) is not None
            if not ends and more["by"].strip() == ",":
                return
            if not self._is_letter(more, text):
                return
            yield more["letter"].upper()
            at = more.end()

    def _own_text(self, letter: str, rest: str) -> bool:
        """Whether what follows a letter is the text of its option, or begins so."""
        k = LETTERS.index(letter)
        if self.texts is None or k >= self.n_options:
            return False
        option, said = normal(self.texts[k]), normal(rest)
        if not option or not said:
            return False
        if said == option:
            return True
        if said.startswith(option):
            return not said[len(option)].isalnum() and not self.equal(rest)
        # A text that was cut short must still be too long to be anything else.
        return len(said) >= 12 and option.startswith(said) and self._only(said)

    def _only(self, said: str) -> bool:
        texts = self.texts or ()
        return sum(normal(option).startswith(said) for option in texts) == 1

    def equal(self, text: str) -> tuple[int, ...]:
        """Options that read like the text; several only if they read the same."""
        said = normal(text)
        if self.texts is None or not said:
            return ()
        exact = " ".join(text.split())
        same = [k for k, option in enumerate(self.texts) if normal(option) == said]
        close = [k for k in same if " ".join(self.texts[k].split()) == exact]
        if close:
            return tuple(close)
        distinct = {" ".join(self.texts[k].split()) for k in same}
        return tuple(same) if len(distinct) == 1 else ()

    def _one(self, letters: set[str], rule: str) -> ParsedAnswer:
        """Return the answer of one letter, or say why there is none."""
        inside = {letter for letter in letters if letter in self._valid}
        if len(letters) > 1:
            return self._several(sorted(letters))
        if not inside:
            (letter,) = letters
            return ParsedAnswer(
                None,
                "invalid",
                reason=f"letter {letter} is not one of A..{self._valid[-1]}",
            )
        return ParsedAnswer(LETTERS.index(inside.pop()), "parsed", rule)

    @property
    def _valid(self) -> str:
        return LETTERS[: self.n_options]

    def _several(self, letters: Sequence[str]) -> ParsedAnswer:
        return ParsedAnswer(
            None, "unparsed", reason=f"names several options: {', '.join(letters)}"
        )

    def _contradiction(self, letter: int, text: int) -> ParsedAnswer:
        return ParsedAnswer(
            None,
            "unparsed",
            reason=f"the letter is {LETTERS[letter]}, the text that of {LETTERS[text]}",
        )


def _letter_of(match: re.Match[str]) -> str:
    return (match["round"] or match["square"] or match["bare"]).upper()
