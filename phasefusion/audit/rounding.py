"""What the rounding of printed figures can do to an expression, by interval arithmetic.

Figures stand for whole intervals, so trying their ends proves nothing of what lies
between. Points show what can be reached; that something cannot be reached is only said
where intervals, cut into parts as need be, show it.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from phasefusion.audit import language
from phasefusion.audit.arithmetic import FUNCTIONS, printed_bounds, round_
from phasefusion.audit.figures import Moved
from phasefusion.audit.values import Uncomputable, number

if TYPE_CHECKING:
    from phasefusion.audit.evaluation import Evaluator

#: Rounded figures whose ends are combined: two to that power.
MAX_ROUNDED = 8
#: Parts that the roundings are cut into before it is said that nothing is known.
MAX_PARTS = 400
#: A span is cut no further when its ends are known to this share of its width.
_FINE = 1e-6
_CLOSE = 1e-9
#: The name of what the claim computes.
VALUE = "value"


class Range(NamedTuple):
    """Numbers from low to high."""

    low: float
    high: float


Box: TypeAlias = Mapping[str, Range]
_ANYTHING = Range(-math.inf, math.inf)
_CONTINUOUS = ("abs", "sqrt", "min", "max", "total", "mean")
_FOLLOWED = (*_CONTINUOUS, "floor", "ceil", "round", "ascending", "prints")


class _NotFollowed(Exception):
    """An expression that intervals do not go through; names the function."""


@dataclass(slots=True)
class Roundings:
    """All roundings of the figures in one expression.

    Attributes
    ----------
    evaluator : Evaluator
    term : Term
    formula : Term or None
        What `value` stands for in the term; None where it is no expression.
    value : object
        What the formula comes to as printed.
    """

    evaluator: Evaluator
    term: language.Term
    formula: language.Term | None = None
    value: Any = None
    _constants: dict[int, Any] = field(default_factory=dict, init=False)
    _free: dict[int, frozenset[str]] = field(default_factory=dict, init=False)

    def free(self, term: language.Term) -> frozenset[str]:
        """Return the rounded figures that the value of a term depends on.

        A function that takes a figure itself knows what that stands for, and `span`
        has gone through all of it.
        """
        found = self._free.get(id(term))
        if found is None:
            found = self._free[id(term)] = frozenset(self._names(term))
        return found

    def _names(self, term: language.Term) -> Iterator[str]:
        match term:
            case language.Name(_, name) if name == VALUE:
                if self.formula is not None:
                    yield from self.free(self.formula)
            case language.Name(_, name):
                figure = self.evaluator.figures.get(name)
                if figure is not None and figure.rounded:
                    yield name
            case language.Call(_, name, _, _):
                if name != "span":
                    for one in _number_arguments(term):
                        yield from self.free(one)
            case _:
                for one in language.parts(term):
                    yield from self.free(one)

    def points(self) -> Iterator[Any]:
        """Yield what the term comes to as printed and at the ends of the figures.

        Raises
        ------
        Uncomputable
            If these are too many, or no point has a value.
        """
        names = sorted(self.free(self.term))
        if len(names) > MAX_ROUNDED:
            raise Uncomputable(
                f"{len(names)} rounded figures are in one expression; what rounding "
                f"can do is tried for at most {MAX_ROUNDED}"
            )
        figures = [self.evaluator.figures[name] for name in names]
        yield self.evaluator.under(self.term, {}, self.value)
        if not names:
            return
        for signs in itertools.product((-1, 1), repeat=len(names)):
            ends = [
                one.value + sign * one.half_unit
                for one, sign in zip(figures, signs, strict=True)
            ]
            found = self._at(dict(zip(names, ends, strict=True)))
            if found is not None:
                yield found

    def _at(self, values: Mapping[str, Any]) -> Any:
        """Return the value at a point, None where there is none."""
        figures = self.evaluator.figures
        moved = {name: Moved.of(figures[name], x) for name, x in values.items()}
        value = self.value
        try:
            if self.formula is not None and self.free(self.formula):
                value = self.evaluator.under(self.formula, moved)
            return self.evaluator.under(self.term, moved, value)
        except Uncomputable:
            return None

    def _middle(self, box: Box) -> Any:
        return self._at({name: (low + high) / 2 for name, (low, high) in box.items()})

    def _whole(self) -> dict[str, Range]:
        figures = self.evaluator.figures
        return {name: Range(*figures[name].interval) for name in self.free(self.term)}

    # ------------------------------------------------------------------ questions

    def span(self) -> list[float]:
        """Least and greatest number of the term; from outside where they are not exact.

        Raises
        ------
        Uncomputable
            If it has none, or intervals do not go through the term.
        """
        found = [number(one) for one in self.points()]
        least, most = min(found), max(found)
        if not self.free(self.term):
            return [least, most]
        box = self._whole()
        parts: list[tuple[Range, Box]] = [(self._range(box), box)]
        for _ in range(MAX_PARTS):
            fine = _FINE * (most - least)
            worst = max(parts, key=lambda one: _beyond(one[0], least, most))
            if _beyond(worst[0], least, most) <= fine:
                break
            parts.remove(worst)
            for part in _halves(worst[1]):
                middle = self._middle(part)
                if middle is not None:
                    least = min(least, number(middle))
                    most = max(most, number(middle))
                parts.append((self._range(part), part))
        low = min(least, *(one.low for one, _ in parts))
        high = max(most, *(one.high for one, _ in parts))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise Uncomputable("rounding takes the expression out of all bounds")
        return [low, high]

    def reaches(self, low: float, high: float) -> bool:
        """Whether the term, a number, can be in a range.

        Raises
        ------
        Uncomputable
            If it cannot be said.
        """
        found = [number(one) for one in self.points()]
        if any(low <= one <= high for one in found):
            return True
        if not self.free(self.term):
            return False
        whole = self._range(self._whole())
        if min(found) < low and max(found) > high and self._is_continuous(whole):
            return True  # it passes through what lies between

        def hits(box: Box) -> bool | None:
            least, most = self._range(box)
            if most < low or least > high:
                return False
            return True if low <= least and most <= high else None

        return self._search(hits, lambda one: low <= number(one) <= high)

    def allows(self, truth: Callable[[Any], bool]) -> bool:
        """Whether the term, a relation, holds under some rounding.

        Raises
        ------
        Uncomputable
            If it cannot be said.
        """
        if any(truth(one) for one in self.points()):
            return True
        if not self.free(self.term):
            return False
        match self.term:
            case language.Compare(at, ("==",), (left, right)):
                gap = language.Binary(at, "-", left, right)
                try:
                    return Roundings(
                        self.evaluator, gap, self.formula, self.value
                    ).reaches(-_CLOSE, _CLOSE)
                except Uncomputable:
                    pass  # texts or lists
        return self._search(self._truth, truth)

    def _search(
        self, decide: Callable[[Box], bool | None], holds: Callable[[Any], bool]
    ) -> bool:
        """Cut the box until a part holds, or none of them can."""
        parts: list[Box] = [self._whole()]
        for _ in range(MAX_PARTS):
            if not parts:
                return False
            box = parts.pop(0)
            try:
                found = decide(box)
            except _NotFollowed as error:
                raise Uncomputable(
                    f"it does not hold as printed nor at the ends of the figures; what "
                    f"lies between is not followed through {error}"
                ) from None
            if found:
                return True
            if found is None:
                middle = self._middle(box)
                if middle is not None and holds(middle):
                    return True
                parts += _halves(box)
        if not parts:
            return False
        raise Uncomputable(
            f"no rounding of the figures was found for it, and {MAX_PARTS} parts of "
            "them do not exclude one"
        )

    def _is_continuous(self, whole: Range) -> bool:
        """Whether the term has no jump: it is bounded and made of what has none."""
        if not (math.isfinite(whole.low) and math.isfinite(whole.high)):
            return False
        terms = [self.term] if self.formula is None else [self.term, self.formula]
        for one in itertools.chain.from_iterable(map(language.terms, terms)):
            jumps = isinstance(one, language.Compare) or (
                isinstance(one, language.Call) and one.name not in _CONTINUOUS
            )
            if jumps and self.free(one):
                return False
        return True

    # ------------------------------------------------------------------ intervals

    def _range(self, box: Box) -> Range:
        """Range of the term, a number.

        Raises
        ------
        Uncomputable
            If intervals do not go through it.
        """
        try:
            return _number(self._enclose(self.term, box))
        except _NotFollowed as error:
            raise Uncomputable(f"rounding is not followed through {error}") from None

    def _truth(self, box: Box) -> bool | None:
        return _known(self._enclose(self.term, box))

    def _enclose(self, term: language.Term, box: Box) -> Any:
        """Ranges in place of numbers; None for what may be true or false."""
        if not self.free(term):
            return self._constant(term)
        match term:
            case language.Name(_, name):
                if name == VALUE and self.formula is not None:
                    return self._enclose(self.formula, box)
                return box[name]
            case language.List(_, items):
                return [self._enclose(one, box) for one in items]
            case language.Item(_, of, index) if not self.free(index):
                listed, place = self._enclose(of, box), self._constant(index)
                if isinstance(listed, list) and isinstance(place, Range):
                    return listed[int(place.low)]
            case language.Unary(_, "not", of):
                found = _known(self._enclose(of, box))
                return None if found is None else not found
            case language.Unary(_, _, of):
                low, high = _number(self._enclose(of, box))
                return Range(-high, -low)
            case language.Binary(_, ("and" | "or") as mark, left, right):
                decisive = mark == "or"
                first = _known(self._enclose(left, box))
                if first == decisive:
                    return decisive
                second = _known(self._enclose(right, box))
                if second == decisive:
                    return decisive
                return None if None in (first, second) else not decisive
            case language.Binary(_, mark, left, right):
                a, b = (_number(self._enclose(one, box)) for one in (left, right))
                return _ARITHMETIC[mark](a, b)
            case language.Compare(_, marks, parts):
                ranges = [_number(self._enclose(one, box)) for one in parts]
                return _all(
                    _compared(mark, a, b)
                    for mark, (a, b) in zip(
                        marks, itertools.pairwise(ranges), strict=True
                    )
                )
            case language.Call(_, name, arguments, ()) if name in _FOLLOWED:
                return self._called(name, arguments, box)
            case language.Call(_, name, _, _):
                raise _NotFollowed(f"{name}()")
        raise _NotFollowed("it")

    def _constant(self, term: language.Term) -> Any:
        if id(term) not in self._constants:
            found = self.evaluator.under(term, {}, self.value)
            self._constants[id(term)] = _lifted(found)
        return self._constants[id(term)]

    def _called(self, name: str, arguments: tuple[language.Term, ...], box: Box) -> Any:
        given = self._enclose(arguments[0], box)
        if name in _OF_LISTS:
            if not isinstance(given, list):
                raise _NotFollowed(f"{name}()")
            ranges = [_number(one) for one in given]
            if name == "ascending":
                return _all(
                    _compared("<=", a, b) for a, b in itertools.pairwise(ranges)
                )
            lows, highs = zip(*ranges, strict=True)
            reduce = _OF_LISTS[name]
            return Range(reduce(lows), reduce(highs))
        low, high = _number(given)
        if name == "abs":
            least = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))
            return Range(least, max(abs(low), abs(high)))
        if name == "prints":
            named = arguments[1]
            if not isinstance(named, language.Name):
                raise _NotFollowed("prints()")
            least, most = printed_bounds(self.evaluator.figures[named.name])
            if high < least or low > most:
                return False
            return True if least <= low and high <= most else None
        if not (math.isfinite(low) and math.isfinite(high)):
            return _ANYTHING
        if name == "sqrt":
            return _ANYTHING if low < 0.0 else Range(math.sqrt(low), math.sqrt(high))
        digits = [self._constant(one) for one in arguments[1:]]
        if any(not isinstance(one, Range) for one in digits):
            raise _NotFollowed(f"{name}()")
        whole = [int(one.low) for one in digits]
        step = _STEPS[name]
        return Range(step(low, *whole), step(high, *whole))


_OF_LISTS: dict[str, Callable[[Any], Any]] = {
    "min": min,
    "max": max,
    "total": math.fsum,
    "mean": lambda values: math.fsum(values) / len(values),
    "ascending": all,
}


_STEPS: dict[str, Callable[..., float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round_,
}


def _number_arguments(call: language.Call) -> Iterator[language.Term]:
    """Arguments of a call that it takes as numbers, not as figures."""
    own = FUNCTIONS.get(call.name)
    given = [*call.arguments, *(one for _, one in call.options)]
    if own is None:
        yield from given
        return
    signature = inspect.signature(own.call)
    bound = signature.bind(*call.arguments, **dict(call.options))
    for name, one in bound.arguments.items():
        kind = str(signature.parameters[name].annotation).removesuffix(" | None")
        items = one.items if isinstance(one, language.List) else (one,)
        if isinstance(one, tuple | dict):
            items = tuple(one.values() if isinstance(one, dict) else one)
        for part in items:
            figure = isinstance(part, language.Name) and part.name != VALUE
            if not (kind in ("Figure", "Figures", "Any") and figure):
                yield part


def _beyond(one: Range, least: float, most: float) -> float:
    """How far a range reaches beyond what has been found."""
    return max(least - one.low, one.high - most)


def _halves(box: Box) -> list[Box]:
    """Cut a box in two across its figure of the greatest relative width."""

    def width(name: str) -> float:
        low, high = box[name]
        return (high - low) / max(abs(low), abs(high), 1e-300)

    name = max(sorted(box), key=width)
    low, high = box[name]
    middle = (low + high) / 2
    return [{**box, name: Range(low, middle)}, {**box, name: Range(middle, high)}]


def _lifted(value: Any) -> Any:
    if isinstance(value, list):
        return [_lifted(one) for one in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Range(value, value)
    return value


def _number(value: Any) -> Range:
    if not isinstance(value, Range):
        raise _NotFollowed("what is no number")
    return value


def _known(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise Uncomputable("true or false is wanted")
    return value


def _all(values: Iterator[bool | None]) -> bool | None:
    found = list(values)
    return False if False in found else None if None in found else True


def _compared(mark: str, a: Range, b: Range) -> bool | None:
    """Compare as numbers are: what is as close as 1e-9 is equal."""
    if mark in (">", ">="):
        return _compared({">": "<", ">=": "<="}[mark], b, a)
    ends = [abs(x) for x in (*a, *b)]
    slack = _CLOSE * max(1.0, *ends) if all(map(math.isfinite, ends)) else math.inf
    apart = a.high < b.low - slack, b.high < a.low - slack
    if mark in ("<", "<="):
        if apart[0] or (mark == "<=" and a.high <= b.low):
            return True
        return False if apart[1] or (mark == "<" and b.high <= a.low) else None
    if any(apart):
        return mark == "!="
    if a.low == a.high == b.low == b.high:
        return mark == "=="
    return None


def _spread(values: list[float]) -> Range:
    if any(map(math.isnan, values)):
        return _ANYTHING
    return Range(min(values), max(values))


def _times(a: Range, b: Range) -> Range:
    return _spread([x * y for x in a for y in b])


def _over(a: Range, b: Range) -> Range:
    if b.low <= 0.0 <= b.high:
        return _ANYTHING
    return _spread([x / y for x in a for y in b])


def _to_the(a: Range, b: Range) -> Range:
    try:
        ends = [x**y for x in a for y in b]
    except (OverflowError, ZeroDivisionError):
        return _ANYTHING
    if a.low > 0.0 or (a.low == 0.0 and b.low > 0.0):  # monotone in each of the two
        return _spread(ends)
    if b.low != b.high or b.low != int(b.low):
        return _ANYTHING
    if b.low < 0 and a.low <= 0.0 <= a.high:
        return _ANYTHING
    found = _spread(ends)
    if int(b.low) % 2 == 0 and a.low <= 0.0 <= a.high:
        return Range(0.0 if b.low else 1.0, found.high)
    return found


_ARITHMETIC: dict[str, Callable[[Range, Range], Range]] = {
    "+": lambda a, b: Range(a.low + b.low, a.high + b.high),
    "-": lambda a, b: Range(a.low - b.high, a.high - b.low),
    "*": _times,
    "/": _over,
    "**": _to_the,
}
