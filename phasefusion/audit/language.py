"""The expression language of claims files: a parser of its own, nothing is executed.

An expression is numbers, names, lists, calls, fields, indices, arithmetic, comparisons
and and/or/not, with the precedence that Python gives them. There are no loops,
assignments or functions to define, so the work is bounded by the length of the text
and by what each function allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NoReturn

from phasefusion.errors import AuditError

MAX_LENGTH = 2000
MAX_DEPTH = 30
MAX_TERMS = 80
WORDS = ("and", "or", "not", "true", "false", "none")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.]))"
    r"|(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<mark>\*\*|<=|>=|==|!=|[-+*/<>()\[\],.=])"
    r"|(?P<end>$))"
)
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression; `at` is its place in the text, from 0."""

    at: int


@dataclass(frozen=True, slots=True)
class Number(Term):
    """A number; whole ones stay whole."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Constant(Term):
    """A text, true, false or none."""

    value: str | bool | None


@dataclass(frozen=True, slots=True)
class Name(Term):
    """A figure, a run, or `value`."""

    name: str


@dataclass(frozen=True, slots=True)
class List(Term):
    """Values in brackets."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Call(Term):
    """A function of the language with its arguments."""

    name: str
    arguments: tuple[Term, ...]
    options: tuple[tuple[str, Term], ...]


@dataclass(frozen=True, slots=True)
class Field(Term):
    """A field of a statistic's result."""

    of: Term
    name: str


@dataclass(frozen=True, slots=True)
class Item(Term):
    """An item of a list, counted from 0."""

    of: Term
    index: Term


@dataclass(frozen=True, slots=True)
class Unary(Term):
    """A sign, or not."""

    mark: str
    of: Term


@dataclass(frozen=True, slots=True)
class Binary(Term):
    """Arithmetic, and, or."""

    mark: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Compare(Term):
    """A chain of comparisons, such as a <= b < c."""

    marks: tuple[str, ...]
    parts: tuple[Term, ...]


def parse(text: str) -> Term:
    """Parse an expression.

    Parameters
    ----------
    text : str
        At most 2000 characters, nested at most 30 deep, 80 terms in a chain.

    Returns
    -------
    Term

    Raises
    ------
    AuditError
        If it is no expression; the message quotes the place.

    Examples
    --------
    >>> parse("2 * pairs")
    Binary(at=2, mark='*', left=Number(at=0, value=2), right=Name(at=4, name='pairs'))
    """
    if len(text) > MAX_LENGTH:
        raise AuditError(
            f"the expression has {len(text)} characters; at most {MAX_LENGTH} are read"
        )
    term = _Parser(text).whole()
    if _depth(term) > MAX_TERMS:
        raise AuditError(f"the expression is a chain of more than {MAX_TERMS} terms")
    return term


def _depth(term: Term) -> int:
    """Nesting of the parsed expression, of which evaluating takes the stack."""
    deepest, waiting = 0, [(term, 1)]
    while waiting:
        one, depth = waiting.pop()
        deepest = max(deepest, depth)
        for field in fields(one):
            waiting.extend(
                (part, depth + 1) for part in _inside(getattr(one, field.name))
            )
    return deepest


def terms(term: Term) -> Iterator[Term]:
    """Every part of an expression, itself included."""
    waiting = [term]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(parts(one))


def parts(term: Term) -> Iterator[Term]:
    """Parts of an expression next below it."""
    for field in fields(term):
        yield from _inside(getattr(term, field.name))


def _inside(value: object) -> Iterator[Term]:
    if isinstance(value, Term):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _inside(part)


class _Parser:
    """Recursive descent over tokens that are found as they are needed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._next(0)

    def whole(self) -> Term:
        term = self._either()
        if self._kind != "end":
            self._fail(f"{self._word!r} is not expected here")
        return term

    def _next(self, begin: int) -> None:
        found = _TOKEN.match(self._text, begin)
        if found is None:
            rest = self._text[begin:].strip()
            self._at = len(self._text) - len(self._text[begin:].lstrip())
            self._fail(f"{rest[:12]!r} cannot be read")
        self._kind = str(found.lastgroup)
        self._word = found[self._kind]
        self._at, self._end = found.start(self._kind), found.end()

    def _fail(self, message: str) -> NoReturn:
        before = self._text[max(0, self._at - 25) : self._at]
        after = self._text[self._at : self._at + 15]
        raise AuditError(f"{message}, at character {self._at + 1}: {before}>>>{after}")

    def _take(self, *words: str) -> str | None:
        """Move on if the next token is one of some marks or words."""
        if self._kind in ("mark", "name") and self._word in words:
            word = self._word
            self._next(self._end)
            return word
        return None

    def _expect(self, word: str) -> None:
        if self._take(word) is None:
            self._fail(f"{word!r} is missing")

    def _either(self) -> Term:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"the expression is nested more than {MAX_DEPTH} deep")
        left = self._both()
        at = self._at
        while self._take("or"):
            left, at = Binary(at, "or", left, self._both()), self._at
        self._depth -= 1
        return left

    def _both(self) -> Term:
        left = self._negated()
        at = self._at
        while self._take("and"):
            left, at = Binary(at, "and", left, self._negated()), self._at
        return left

    def _negated(self) -> Term:
        at, n = self._at, 0
        while self._take("not"):
            n += 1
        term = self._comparison()
        return Unary(at, "not", term) if n % 2 else term

    def _comparison(self) -> Term:
        at = self._at
        parts, marks = [self._sum()], []
        while mark := self._take(*_COMPARISONS):
            marks.append(mark)
            parts.append(self._sum())
        return Compare(at, tuple(marks), tuple(parts)) if marks else parts[0]

    def _sum(self) -> Term:
        left = self._product()
        at = self._at
        while mark := self._take("+", "-"):
            left, at = Binary(at, mark, left, self._product()), self._at
        return left

    def _product(self) -> Term:
        left = self._signed()
        at = self._at
        while mark := self._take("*", "/"):
            left, at = Binary(at, mark, left, self._signed()), self._at
        return left

    def _signed(self) -> Term:
        at, minus = self._at, 0
        while mark := self._take("-", "+"):
            minus += mark == "-"
        term = self._power()
        return Unary(at, "-", term) if minus % 2 else term

    def _power(self) -> Term:
        base = self._postfix()
        at = self._at
        if self._take("**"):
            return Binary(at, "**", base, self._exponent())
        return base

    def _exponent(self) -> Term:
        at = self._at
        if self._take("-"):
            return Unary(at, "-", self._postfix())
        return self._postfix()

    def _postfix(self) -> Term:
        term = self._atom()
        while True:
            at = self._at
            if self._take("."):
                if self._kind != "name":
                    self._fail("a field name is missing after the dot")
                term = Field(at, term, self._word)
                self._next(self._end)
            elif self._take("["):
                term = Item(at, term, self._either())
                self._expect("]")
            else:
                return term

    def _atom(self) -> Term:
        at, kind, word = self._at, self._kind, self._word
        if kind == "number":
            self._next(self._end)
            return Number(at, int(word) if word.isdigit() else float(word))
        if kind == "text":
            self._next(self._end)
            return Constant(at, word[1:-1])
        if self._take("("):
            term = self._either()
            self._expect(")")
            return term
        if self._take("["):
            return List(at, tuple(self._sequence("]")))
        if kind == "name" and word not in ("and", "or", "not"):
            self._next(self._end)
            if word in WORDS:
                return Constant(at, {"true": True, "false": False}.get(word))
            return self._call(at, word) if self._take("(") else Name(at, word)
        self._fail("a value is missing" if kind == "end" else f"{word!r} is no value")

    def _sequence(self, end: str) -> Iterator[Term]:
        while not self._take(end):
            yield self._either()
            if not self._take(","):
                self._expect(end)
                return

    def _call(self, at: int, name: str) -> Term:
        arguments: list[Term] = []
        options: dict[str, Term] = {}
        for given in self._sequence_of_arguments():
            if isinstance(given, tuple):
                if given[0] in options:
                    self._fail(f"{given[0]} is given twice")
                options[given[0]] = given[1]
            elif options:
                self._fail("arguments without a name come first")
            else:
                arguments.append(given)
        return Call(at, name, tuple(arguments), tuple(options.items()))

    def _sequence_of_arguments(self) -> Iterator[Term | tuple[str, Term]]:
        while not self._take(")"):
            given = self._either()
            if isinstance(given, Name) and self._take("="):
                yield given.name, self._either()
            else:
                yield given
            if not self._take(","):
                self._expect(")")
                return
