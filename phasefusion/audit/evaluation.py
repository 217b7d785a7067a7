"""What expressions come to, over printed figures and what runs and files hold."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from phasefusion.audit import evidence as evidence  # registers its functions
from phasefusion.audit import language, statistics
from phasefusion.audit.arithmetic import FUNCTIONS, Function
from phasefusion.audit.figures import Figure
from phasefusion.audit.reading import nearest
from phasefusion.audit.rounding import VALUE, Roundings
from phasefusion.audit.values import (
    CONVERT,
    MAX_LIST,
    Column,
    Uncomputable,
    argument,
    checked,
    describe,
    number,
    plain,
)
from phasefusion.errors import AuditError, PhaseFusionError

#: Parts evaluated for one claim, all combinations of roundings together.
MAX_STEPS = 200_000
#: Steps that a call counts as, by group; others are one.
COSTS = {"tests": 500, "figures": 50, "statistics": 500}
#: Computed numbers this close are equal, relative to the greater or absolutely.
CLOSE = 1e-9
#: The form that is written as a call but is none.
SPAN = "span"


class Source(Protocol):
    """A run or a file, by its name in the claims file."""

    @property
    def name(self) -> str:
        """Its name."""


def known_functions() -> list[str]:
    """Every name that can be called."""
    return [SPAN, *FUNCTIONS, *statistics.STATISTICS]


def check(term: language.Term, figures: Mapping[str, Figure], runs: set[str]) -> None:
    """Refuse names and calls that cannot be, before anything is computed.

    Parameters
    ----------
    term : Term
    figures : mapping of str to Figure
    runs : set of str
        Names of runs and files.

    Raises
    ------
    AuditError
        Naming what is not known, and the nearest name that is.
    """
    for one in language.terms(term):
        if isinstance(one, language.Name):
            known = {*figures, *runs, VALUE}
            if one.name not in known:
                hint = nearest(one.name, known)
                raise AuditError(f"there is no figure or run {one.name!r}: {hint}")
        elif isinstance(one, language.Call):
            _check_call(one)


def _check_call(call: language.Call) -> None:
    options = {name: None for name, _ in call.options}
    if call.name == SPAN:
        if len(call.arguments) != 1 or options:
            raise AuditError("span() takes one expression")
        return
    if call.name not in FUNCTIONS and call.name not in statistics.STATISTICS:
        hint = nearest(call.name, known_functions())
        if hint.startswith("known are"):
            hint = "the functions are listed on the page about audits"
        raise AuditError(f"there is no function {call.name!r}: {hint}")
    try:
        signature(call.name).bind(*call.arguments, **options)
    except TypeError as error:
        raise AuditError(f"{call.name}(): {error}") from None


def signature(name: str) -> inspect.Signature:
    """Return what a function of the language is called with."""
    if name in FUNCTIONS:
        return inspect.signature(FUNCTIONS[name].call)
    return inspect.signature(statistics.STATISTICS[name])


def names_in(term: language.Term) -> set[str]:
    """Names that an expression uses."""
    return {one.name for one in language.terms(term) if isinstance(one, language.Name)}


@dataclass(slots=True)
class Evaluator:
    """Evaluates the expressions of one claim.

    Attributes
    ----------
    figures : mapping of str to Figure
    sources : mapping of str to Source
        Runs and files; None for those that were not given.
    """

    figures: Mapping[str, Figure]
    sources: Mapping[str, Any]
    _steps: int = field(default=0, init=False)

    def value(self, term: language.Term, value: Any = None) -> Any:
        """Evaluate with the printed values; `value` is what the claim computed.

        Raises
        ------
        Uncomputable
            Saying why in one sentence.
        """
        return _plain_figure(self._evaluate(term, {**self.figures, VALUE: value}))

    def under(
        self, term: language.Term, values: Mapping[str, Figure], value: Any = None
    ) -> Any:
        """Evaluate with some figures at other values than the printed ones."""
        names = {**self.figures, **values, VALUE: value}
        return _plain_figure(self._evaluate(term, names))

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise Uncomputable(f"takes more than {MAX_STEPS} steps")

    # -------------------------------------------------------------- by kind of term

    def _evaluate(self, term: language.Term, names: Mapping[str, Any]) -> Any:
        self._spend(1)
        match term:
            case language.Number(_, given):
                return given
            case language.Constant(_, constant):
                return constant
            case language.Name(_, name):
                return self._name(name, names)
            case language.List(_, items):
                return [self._evaluate(one, names) for one in items]
            case language.Call():
                return self._call(term, names)
            case language.Field(_, of, name):
                return statistics.field_of(self._evaluate(of, names), name)
            case language.Item(_, of, index):
                return _item(self._evaluate(of, names), self._evaluate(index, names))
            case language.Unary(_, "not", of):
                return not _truth(self._evaluate(of, names))
            case language.Unary(_, _, of):
                return _arithmetic("*", -1, self._evaluate(of, names))
            case language.Binary(_, ("and" | "or") as mark, left, right):
                decided = _truth(self._evaluate(left, names))
                if decided == (mark == "or"):
                    return decided
                return _truth(self._evaluate(right, names))
            case language.Binary(_, mark, left, right):
                first = self._evaluate(left, names)
                return _arithmetic(mark, first, self._evaluate(right, names))
            case language.Compare(_, marks, parts):
                return self._compare(marks, parts, names)
        raise AssertionError(term)

    def _name(self, name: str, names: Mapping[str, Any]) -> Any:
        if name in names:
            return names[name]
        source = self.sources.get(name)
        if source is None:
            raise Uncomputable(
                f"nothing was given as {name!r}; add {name}=PATH to the command"
            )
        return source

    def _call(self, call: language.Call, names: Mapping[str, Any]) -> Any:
        if call.name == SPAN:
            return Roundings(self, call.arguments[0]).span()
        own = FUNCTIONS.get(call.name)
        self._spend(COSTS.get("statistics" if own is None else own.group, 1))
        arguments = [self._evaluate(one, names) for one in call.arguments]
        options = {name: self._evaluate(one, names) for name, one in call.options}
        if own is None or own.aligns:
            _align(arguments, options)
        try:
            if own is not None:
                found = _call(own, arguments, options)
            else:
                found = statistics.call(
                    call.name,
                    [argument(one) for one in arguments],
                    {name: argument(one) for name, one in options.items()},
                )
        except Uncomputable as error:
            raise Uncomputable(f"{call.name}(): {error}") from None
        except PhaseFusionError as error:
            raise Uncomputable(f"{call.name}(): {error}") from error
        except (OverflowError, ZeroDivisionError, MemoryError) as error:
            raise Uncomputable(f"{call.name}(): {error}") from error
        return _result(found)

    def _compare(
        self,
        marks: tuple[str, ...],
        parts: tuple[language.Term, ...],
        names: Mapping[str, Any],
    ) -> Any:
        values = [self._evaluate(one, names) for one in parts]
        if any(isinstance(one, Column) for one in values):
            if len(marks) > 1:
                raise Uncomputable("columns are compared two at a time")
            return _mask(marks[0], *values)
        pairs = zip(marks, values[:-1], values[1:], strict=True)
        return all(_holds(mark, left, right) for mark, left, right in pairs)


def _align(arguments: list[Any], options: dict[str, Any]) -> None:
    """Put all columns of a call into the order of the items of the first."""
    columns = [*arguments, *options.values()]
    base = next((one for one in columns if isinstance(one, Column)), None)
    if base is None:
        return
    for i, value in enumerate(arguments):
        arguments[i] = value.on(base) if isinstance(value, Column) else value
    for name, value in options.items():
        options[name] = value.on(base) if isinstance(value, Column) else value


def _plain_figure(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_figure(one) for one in value]
    return number(value) if isinstance(value, Figure) else value


def _result(value: Any) -> Any:
    found = plain(value)
    return checked(found) if isinstance(found, float | int) else found


def _call(function: Function, given: list[Any], options: dict[str, Any]) -> Any:
    """Call a function with its arguments converted to what it takes."""
    bound = inspect.signature(function.call).bind(*given, **options)
    for name, parameter in bound.signature.parameters.items():
        if name not in bound.arguments:
            continue
        kind = str(parameter.annotation)
        convert = CONVERT[kind.removesuffix(" | None")]
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_KEYWORD or (
            value is None and kind.endswith("| None")
        ):
            continue
        try:
            bound.arguments[name] = convert(value)
        except Uncomputable as error:
            raise Uncomputable(f"{name}: {error}") from None
    return function.call(*bound.args, **bound.kwargs)


# ------------------------------------------------------------------ operations


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Uncomputable(f"true or false is wanted, this is {describe(value)}")
    return value


def _item(value: Any, index: Any) -> Any:
    if isinstance(index, bool) or not isinstance(index, int):
        raise Uncomputable("items are counted by whole numbers, from 0")
    if not isinstance(value, list):
        raise Uncomputable(f"only lists have items, this is {describe(value)}")
    if not -len(value) <= index < len(value):
        raise Uncomputable(f"there is no item {index} in a list of {len(value)}")
    return value[index]


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _arithmetic(mark: str, left: Any, right: Any) -> Any:
    if isinstance(left, Column) or isinstance(right, Column):
        return _of_columns(mark, left, right)
    if mark == "+" and isinstance(left, list) and isinstance(right, list):
        if len(left) + len(right) > MAX_LIST:
            raise Uncomputable(f"a list has more than {MAX_LIST} entries")
        return left + right
    a, b = number(left), number(right)
    if mark == "**":
        return _power(a, b)
    if mark == "/" and b == 0:
        raise Uncomputable(f"{a} is divided by zero")
    return checked(_OPERATIONS[mark](a, b))


def _power(a: float, b: float) -> float:
    if abs(b) > 64 or abs(a) > 1e6 or (a == 0 and b < 0):
        raise Uncomputable(f"{a} ** {b} is beyond what is computed")
    found = a**b
    if isinstance(found, complex):
        raise Uncomputable(f"{a} ** {b} is no real number")
    return checked(found)


def _of_columns(mark: str, left: Any, right: Any) -> Column:
    if mark not in _OPERATIONS:
        raise Uncomputable("columns are added, subtracted, multiplied and divided only")
    base = left if isinstance(left, Column) else right
    a, b = (_aligned(one, base) for one in (left, right))
    if a.dtype.kind not in "biuf" or b.dtype.kind not in "biuf":
        raise Uncomputable("columns of texts have no arithmetic")
    with np.errstate(divide="ignore", invalid="ignore"):
        values = _OPERATIONS[mark](a.astype(float), b.astype(float))
    return Column(np.where(np.isinf(values), np.nan, values), base.ids, base.what)


def _aligned(value: Any, base: Column) -> Any:
    if isinstance(value, Column):
        return value.on(base).values
    return np.asarray(value if isinstance(value, str) else number(value))


def _mask(mark: str, left: Any, right: Any) -> Column:
    base = left if isinstance(left, Column) else right
    a, b = _aligned(left, base), _aligned(right, base)
    if (a.dtype.kind in "biuf") != (b.dtype.kind in "biuf"):
        raise Uncomputable("a column of texts is compared with numbers")
    found = np.asarray(_COMPARISONS[mark](a, b))
    missing = _missing(a) | _missing(b)
    if missing.any():  # what is missing is neither equal nor different
        found = np.where(missing, np.nan, found.astype(float))
    return Column(found, base.ids, base.what)


def _missing(values: Any) -> Any:
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.zeros(values.shape, bool)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def close(a: float, b: float) -> bool:
    """Whether two computed numbers are the same but for the order of summation."""
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, numbers within 1e-9 and lists item by item."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    numeric = [isinstance(one, int | float) for one in (a, b)]
    if all(numeric) and not isinstance(a, bool) and not isinstance(b, bool):
        return close(a, b)
    return type(a) is type(b) and bool(a == b)


def _holds(mark: str, left: Any, right: Any) -> bool:
    if mark in ("==", "!="):
        equal = same(_plain_figure(left), _plain_figure(right))
        return equal == (mark == "==")
    a, b = number(left), number(right)
    if close(a, b):
        return mark in ("<=", ">=")
    return bool(_COMPARISONS[mark](a, b))
