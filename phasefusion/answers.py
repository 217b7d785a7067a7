"""Which option a generated text chooses: the one extractor, which never guesses."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasefusion.errors import OptionError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Outcome: TypeAlias = Literal["parsed", "invalid", "refused", "unparsed", "missing"]
#: In the order in which they are reported.
OUTCOMES: tuple[Outcome, ...] = ("parsed", "invalid", "refused", "unparsed", "missing")


#: How the reason begins where a text says two things.
CONTRADICTIONS = ("names several options", "the letter is")


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What a generated text says.

    Attributes
    ----------
    answer : int or None
        Position of the chosen option as shown, 0 for the letter A; None unless parsed.
    outcome : {"parsed", "invalid", "refused", "unparsed", "missing"}
        One option chosen; a letter that the question does not have; a refusal to
        answer; a text that names no option, or more than one; no text at all.
    rule : str
        What decided: "letter", "letter and text", "text", "declared", "tag" or
        "mention"; empty when nothing did.
    reason : str
        Why there is no answer; empty when there is one.
    """

    answer: int | None
    outcome: Outcome
    rule: str = ""
    reason: str = ""


# A letter on its own, perhaps in brackets or quotes. "T-shirt", "C++", "U.S." and "A's"
# are words.
_LETTER = (
    r"(?<![A-Za-z0-9])(?<![A-Za-z0-9][-'’.])"
    r"(?P<open>[(\[{<]?)[\"'“‘]?(?P<letter>[A-Za-z])[\"'”’]?(?P<close>[)\]}>]?)"
    r"(?![A-Za-z0-9])(?![-'’][A-Za-z0-9])(?![+#&])(?!\.[A-Za-z])"
)
_MENTION = re.compile(_LETTER)
_NOUN = r"(?:answer|option|choice|response|solution|letter)"
_BE = r"(?:is|was|would\s+be|should\s+be|must\s+be|will\s+be|has\s+to\s+be)"
_HEDGE = r"(?:(?:most\s+)?likely|probably|clearly|definitely|therefore|thus|indeed)"
_BEFORE = rf"(?:the\s+)?(?:correct\s+)?(?:{_NOUN}\s*:?\s*)?"
#: Forms that state an answer; the letter follows.
_DECLARED = tuple(
    re.compile(form + _LETTER, re.IGNORECASE)
    for form in (
        rf"\b{_NOUN}\b(?:\s+(?:to|for)\s+(?:the|this|your)\s+question)?"
        rf"\s*(?:{_BE}\s*:?|[:=]|=>|→)\s*(?:{_HEDGE}\s*:?\s*)?{_BEFORE}",
        r"\b(?:choose|chose|select|selected|pick|picked|go\s+with|going\s+with|"
        rf"opt\s+for|settle\s+on)\s*:?\s*{_BEFORE}",
        r"(?:答案|正确选项|正确答案|选项|选择|应选|选)\s*(?:应该|应)?\s*(?:是|为|:)?\s*",
    )
)
#: Forms that state an answer only when the clause ends after the letter.
_DECLARED_SHORT = re.compile(
    r"\b(?:(?:so|thus|hence|therefore),?\s*(?:it\s+is|it's|it\s+must\s+be)?|"
    r"it\s+is|it's|it\s+(?:must|should|would|has\s+to)\s+be|must\s+be|answer)\s*:?\s*"
    rf"{_BEFORE}{_LETTER}",
    re.IGNORECASE,
)
#: Forms in which the letter comes first.
_DECLARED_AFTER = re.compile(
    _LETTER + r"\s*(?:is|seems|looks|appears\s+to\s+be|would\s+be|must\s+be)\s+"
    r"(?:the\s+|most\s+|clearly\s+|definitely\s+)*"
    r"(?:correct|right|best|accurate|appropriate|likely|true|(?:final\s+)?answer)\b",
    re.IGNORECASE,
)
_FINAL = re.compile(
    rf"\bfinal\s+answer\s*(?:{_BE})?\s*[:=]?\s*{_BEFORE}{_LETTER}", re.IGNORECASE
)
_BECAUSE = re.compile(rf"{_LETTER}[,;]?\s+(?:because|since)\b")
_NEGATED = re.compile(
    r"(?:\bnot|n't|\bneither|\bnor|\bexcept|\brather\s+than|\binstead\s+of|"
    rf"\bcannot\s+be|\bexclude)\s+(?:\w+\s+)?{_BEFORE}$",
    re.IGNORECASE,
)
_WRONG_AFTER = re.compile(
    r"\s*(?:is|are|was|would\s+be|seems|looks)\s*(?:clearly\s+|definitely\s+|also\s+)?"
    r"(?:not|n't|wrong|incorrect|false|impossible|unlikely)|\s*(?:isn't|cannot|can't)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\b(?:option|choice|letter|answer)\s*$", re.IGNORECASE)
_FURTHER = re.compile(rf"\s*(?P<by>,\s*(?:and|or)?|/|&|and|or)\s*{_BEFORE}{_LETTER}")
_CLAUSE_END = re.compile(r"\s*(?:[.,;:!?)\n。，；]|$)")
_AFTER_LETTER = re.compile(
    r"\s+(?:because|since|as|but|which|is|due|given|based|and|or|for|with)\b"
)

_LEADING = re.compile(
    r"\s*(?:(?:option|choice|sentence|caption)\s+|answer\s*:?\s*)?"
    r"(?:\((?P<round>[A-Za-z])\)|\[(?P<square>[A-Za-z])\]|(?P<bare>[A-Za-z])"
    r"(?=[.):,、]|\s|$))(?P<mark>[.):、]*)(?P<rest>.*)",
    re.IGNORECASE,
)
_ALONE = re.compile(
    r"\W*(?:(?:option|choice|sentence|caption)\s+)?(?P<letter>[A-Za-z])\W*", re.I
)
#: "Option 2: ...", where options were shown with numbers.
_NUMBERED = re.compile(
    r"\W*(?:option|choice|sentence|caption)\s+(?P<number>\d{1,2})\b(?:\s*[.:)].*|\W*)",
    re.IGNORECASE | re.DOTALL,
)
_LEAD_IN = re.compile(
    rf"(?:(?:the|my)\s+)?(?:final\s+|correct\s+|best\s+|right\s+)*(?:{_NOUN}\s*"
    rf"(?:{_BE}\s*:?|[:=])\s*|it\s+is\s+|it's\s+)",
    re.IGNORECASE,
)

_THINK = re.compile(
    r"<(?P<close>/?)(?:think|thinking|thought|reasoning|analysis)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"<answer>(?P<tag>.*?)(?:</answer>|$)"
    r"|\\boxed\{\s*(?:\\(?:text|mathrm|mathbf)\{)?(?P<boxed>[^{}]*)\}",
    re.IGNORECASE | re.DOTALL,
)
_SPECIAL = re.compile(r"<\|[^|<>]*\|>|</?s>|<(?:eos|pad|bos|end_of_turn)>", re.I)
_MARKDOWN = re.compile(r"[*`$]+|(?<!\w)_+|_+(?!\w)|^\s{0,3}(?:#+|>+|[-•])\s+", re.M)

_REFUSAL = re.compile(
    r"\bi\s*(?:'m|\s+am)\s+(?:sorry|unable|not\s+able|afraid)|\b(?:i|we)\s+(?:cannot|"
    r"can\s*not|can't|could\s+not|couldn't|do\s+not\s+have|don't\s+have|am\s+not\s+sure|"
    r"do\s+not\s+know|don't\s+know|won't|will\s+not)\b|\bunable\s+to\b|"
    r"\bas\s+an?\s+(?:ai|language\s+model)|\b(?:cannot|can't|can\s+not|could\s+not|not\s+"
    r"possible\s+to)\s+(?:be\s+)?(?:determined?|tell|say|know|answer|see|identif\w+)|"
    r"\b(?:not\s+enough|insufficient)\s+(?:\w+\s+)?(?:information|evidence|context)|"
    r"\bno\s+video\s+(?:was|is|has\s+been)\b|无法|抱歉|不能确定",
    re.IGNORECASE,
)
#: What harnesses write where an answer should be.
_FAILED = re.compile(
    r"\s*(?:failed\s+to\s+obtain\s+answer|nan|none|null|n/a|error:|"
    r"exact_match_not_found)\b.*",
    re.IGNORECASE | re.DOTALL,
)


def parse_answer(
    text: str | float | None, options: Sequence[str] | int
) -> ParsedAnswer:
    """Tell which option a generated text chooses, or why it chooses none.

    A text counts only when it says one thing: an answer tag or box, a letter alone, the
    text of one option alone, a statement such as "the answer is (B)", or a letter in
    front. Letters count only where they cannot be words ("A man" is no answer A), and
    two different letters of equal standing are no answer. Nothing is drawn by chance.

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
    shown = _SPECIAL.sub(" ", unicodedata.normalize("NFKC", text))
    if not shown.strip():
        return ParsedAnswer(None, "missing", reason="empty text")
    reader = _Reader(texts, n_options)
    failed = _FAILED.fullmatch(shown)
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
    for match in _THINK.finditer(text):
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
    plain = _MARKDOWN.sub("", unicodedata.normalize("NFKC", text)).casefold()
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
        for form in (self._tagged, self._final):
            found = form(text)
            if found is not None:
                return found
        plain = _MARKDOWN.sub("", text).strip()
        for form in (self._whole, self._stated, self._text, self._mentioned):
            found = form(plain)
            if found is not None:
                return found
        if _REFUSAL.search(plain):
            return ParsedAnswer(None, "refused", reason=f"refusal: {_cut(plain)}")
        return ParsedAnswer(
            None, "unparsed", reason=f"names no option alone: {_cut(plain)}"
        )

    # -- forms ------------------------------------------------------------

    def _tagged(self, text: str) -> ParsedAnswer | None:
        """Read answer tags and boxes; several must say the same."""
        inside = [m["tag"] or m["boxed"] or "" for m in _TAG.finditer(text)]
        found = {
            self._inside(part): None for part in inside if part.strip()
        }  # a dict keeps the order
        if not found:
            return None
        parsed = [one for one in found if one.answer is not None]
        if len({one.answer for one in parsed}) > 1:
            return self._several(sorted({LETTERS[one.answer or 0] for one in parsed}))
        return (parsed or list(found))[0]

    def _inside(self, text: str) -> ParsedAnswer:
        plain = _MARKDOWN.sub("", text).strip()
        for form in (self._whole, self._stated, self._text, self._mentioned):
            found = form(plain)
            if found is not None and found.answer is not None:
                return ParsedAnswer(found.answer, "parsed", "tag")
            if found is not None:
                return found
        return ParsedAnswer(
            None, "unparsed", reason=f"names no option alone: {_cut(plain)}"
        )

    def _final(self, text: str) -> ParsedAnswer | None:
        plain = _MARKDOWN.sub("", text)
        found = {
            letter
            for match in _FINAL.finditer(plain)
            for letter in self._with_further(match, plain)
        }
        return self._one(found, "declared") if found else None

    def _whole(self, text: str) -> ParsedAnswer | None:
        """Read a letter alone, or the text of an option alone."""
        by_text = self.equal(text)
        numbered = _NUMBERED.fullmatch(text)
        if numbered and not by_text:
            return self._number(int(numbered["number"]))
        match = _ALONE.fullmatch(text)
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

    def _number(self, number: int) -> ParsedAnswer:
        if 1 <= number <= self.n_options:
            return ParsedAnswer(number - 1, "parsed", "letter")
        reason = f"option {number} is not one of 1..{self.n_options}"
        return ParsedAnswer(None, "invalid", reason=reason)

    def _leading_letter(self, text: str) -> int | None:
        match = _LEADING.fullmatch(text)
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
        for form in _DECLARED:
            for match in form.finditer(text):
                if self._is_letter(match, text):
                    yield from self._with_further(match, text)
        for match in _DECLARED_SHORT.finditer(text):
            ends = _CLAUSE_END.match(text, match.end()) is not None
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            certain = match["letter"].isupper() or match["open"]
            if ends and certain and not _NEGATED.search(before):
                yield from self._with_further(match, text)
        for match in _DECLARED_AFTER.finditer(text):
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            certain = match["letter"].isupper() or match["open"]
            if certain and not _NEGATED.search(before):
                yield match["letter"].upper()

    def _leading(self, text: str) -> tuple[str | None, ParsedAnswer | None]:
        """Read a letter in front: "B. a dog", "(B)", "B because", "B" on a line.

        Returns the letter that is claimed, if any, and what the text says by it alone.
        """
        lines = [line for line in text.splitlines() if line.strip()]
        alone = [m["letter"].upper() for m in map(_ALONE.fullmatch, lines) if m]
        if not lines:
            return None, None
        if _ALONE.fullmatch(lines[0]):
            return alone[0], self._one(set(alone), "letter")
        match = _BECAUSE.match(lines[0])
        if match:
            letter = match["letter"].upper()
            return letter, self._one({letter}, "declared")
        match = _LEADING.fullmatch(lines[0])
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
        if _WRONG_AFTER.match(rest):
            return None, self._several(sorted(others))
        by_text = self.equal(rest)
        if by_text and LETTERS.index(letter) not in by_text:
            return letter, self._contradiction(LETTERS.index(letter), by_text[0])
        return letter, self._one(others, "letter")

    def _enumerated(self, lines: Sequence[str]) -> Iterator[str]:
        """Letters of the lines that repeat an option with its own letter."""
        for line in lines:
            match = _LEADING.fullmatch(line)
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
        match = _LEAD_IN.match(line.strip())
        rest = line.strip()[match.end() :] if match else line
        return self.equal(line) or self.equal(rest)

    def _mentioned(self, text: str) -> ParsedAnswer | None:
        """Read the only letter of the text, if it is in brackets or called an option.

        A bare letter in a sentence may be anything, as in "vitamin C".
        """
        strong = set()
        for match in _MENTION.finditer(text):
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            negated = _NEGATED.search(before) or _WRONG_AFTER.match(text, match.end())
            bracketed = match["open"] in {"(", "["} and match["close"] in {")", "]"}
            named = match["letter"].isupper() and _NAMED.search(before)
            if (bracketed or named) and not negated:
                strong.add(match["letter"].upper())
        weak = set(self._mentions(text)) | strong
        if len(weak) > 1:
            return None if not strong else self._several(sorted(weak))
        if not strong or LETTERS.index(next(iter(strong))) >= self.n_options:
            return None
        return self._one(strong, "mention")

    # -- parts ------------------------------------------------------------

    def _mentions(self, text: str) -> Iterator[str]:
        """Upper-case letters of the question that stand alone and are not words."""
        for match in _MENTION.finditer(text):
            letter = match["letter"]
            inside = letter in LETTERS[: self.n_options]
            before = text[max(0, match.start("open") - 60) : match.start("open")]
            if inside and self._is_letter(match, text) and not _NEGATED.search(before):
                yield letter

    def _is_letter(self, match: re.Match[str], text: str) -> bool:
        """Whether the letter of a match can be no word of the sentence."""
        letter, rest = match["letter"], text[match.end() :]
        if match["open"] in {"(", "["} and match["close"] in {")", "]"}:
            return True
        if letter.islower():
            return _CLAUSE_END.match(rest) is not None
        if letter not in "AI" or _AFTER_LETTER.match(rest):
            return True
        return re.match(r"\s+\w", rest) is None

    def _with_further(self, match: re.Match[str], text: str) -> Iterator[str]:
        """Yield the letter of a statement and those added to it, as in "A or B"."""
        yield match["letter"].upper()
        at = match.end()
        while True:
            more = _FURTHER.match(text, at)
            if more is None or not more["letter"].isupper():
                return
            ends = _CLAUSE_END.match(text, more.end()) is not None
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
