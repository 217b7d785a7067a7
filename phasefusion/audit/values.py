"""What expressions are made of, and how values become what a function wants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion.audit.figures import Figure
from phasefusion.errors import PhaseFusionError

#: Greatest whole number that a function takes as a count.
MAX_COUNT = 10_000_000
MAX_NUMBER = 1e15
MAX_LIST = 10_000

Count: TypeAlias = int
Whole: TypeAlias = int
Number: TypeAlias = float
Numbers: TypeAlias = Sequence[float]
Figures: TypeAlias = Sequence[Figure]


class Uncomputable(PhaseFusionError):
    """The value of an expression does not exist; says why in one sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One value an item.

    Attributes
    ----------
    values : ndarray, shape (n,) or (n, m)
        Numbers, of which NaN is what is missing; texts; or answers by column, of which
        -1 is what is missing.
    ids : tuple or None
        What tells the items apart; None where rows are only counted.
    what : str
        For messages.
    """

    values: NDArray[Any]
    ids: tuple[Any, ...] | None
    what: str

    def on(self, other: Column) -> Column:
        """Return the column in the order of another one of the same items."""
        if self.ids is None or other.ids is None or self.ids == other.ids:
            if len(self.values) != len(other.values):
                raise Uncomputable(
                    f"{self.what} has {len(self.values)} rows and {other.what} has "
                    f"{len(other.values)}; name the ids with by= to pair them"
                )
            return self
        place = {one: i for i, one in enumerate(self.ids)}
        lacking = [str(one) for one in other.ids if one not in place]
        if lacking or len(place) != len(other.ids):
            extra = sorted(map(str, set(self.ids) - set(other.ids)))
            raise Uncomputable(
                f"{self.what} and {other.what} are of different items: "
                f"{len(lacking)} are not in the first, {len(extra)} not in the second "
                f"(such as {(lacking + extra)[0]}); restrict them with shared()"
            )
        rows = [place[one] for one in other.ids]
        return Column(self.values[rows], other.ids, self.what)


def describe(value: Any) -> str:
    """Say what a value is, for messages."""
    if isinstance(value, Figure):
        return f"the figure {value.name}"
    if isinstance(value, Column):
        return "a column"
    if isinstance(value, bool):
        return "true or false"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list"}
    return kinds.get(type(value), "nothing" if value is None else "a result")


def checked(value: float) -> int | float:
    """Refuse a number that is not one, or too large to mean anything."""
    if isinstance(value, float) and math.isnan(value):
        raise Uncomputable("the result is not defined (NaN)")
    if not abs(value) <= MAX_NUMBER:
        raise Uncomputable(f"a number is beyond {MAX_NUMBER:g}")
    return value


def plain(value: Any) -> Any:
    """Results of functions as values of the language."""
    if isinstance(value, np.ndarray | tuple | list):
        listed = value.tolist() if isinstance(value, np.ndarray) else list(value)
        if len(listed) > MAX_LIST:
            raise Uncomputable(f"a list has {len(listed)} entries, at most {MAX_LIST}")
        return [plain(one) for one in listed]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Fraction):
        return float(value)
    return value


# ------------------------------------------------------------------ converting


def number(value: Any) -> int | float:
    """Convert a figure or a number to a number."""
    if isinstance(value, Figure):
        exact = value.value
        whole = exact.denominator == 1 and abs(exact) <= MAX_NUMBER
        return exact.numerator if whole else checked(float(exact))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Uncomputable(f"a number is wanted, this is {describe(value)}")
    return checked(value)


def whole(value: Any) -> int:
    """Convert a figure or a number to a whole number of moderate size."""
    given = number(value)
    if given != int(given) or abs(given) > MAX_COUNT:
        raise Uncomputable(
            f"a whole number of at most {MAX_COUNT} is wanted, this is {given}"
        )
    return int(given)


def count(value: Any) -> int:
    """Convert to a whole number that is not negative."""
    given = whole(value)
    if given < 0:
        raise Uncomputable(f"a count is wanted, this is {given}")
    return given


def figure(value: Any) -> Figure:
    """Refuse anything but a figure."""
    if not isinstance(value, Figure):
        raise Uncomputable(
            f"a printed figure is wanted by its name, this is {describe(value)}"
        )
    return value.original


def _anything(value: Any) -> Any:
    if isinstance(value, list):
        return [_anything(one) for one in value]
    return value.original if isinstance(value, Figure) else value


def _figures(value: Any) -> list[Figure]:
    return [figure(one) for one in _listed(value)]


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Uncomputable(f"a list is wanted, this is {describe(value)}")
    return value


def numbers(value: Any) -> list[int | float]:
    """Convert a list or a column to numbers; missing entries are left out."""
    if isinstance(value, Column):
        values = _numeric(value)
        if values.ndim != 1:
            raise Uncomputable("one value an item is wanted, this is a table")
        return [float(one) for one in values[~np.isnan(values)]]
    return [number(one) for one in _listed(value)]


def _numeric(column: Column) -> NDArray[np.float64]:
    if column.values.dtype.kind not in "biuf":
        raise Uncomputable(f"{column.what} holds texts; numbers are wanted")
    return column.values.astype(np.float64)


def column(value: Any) -> Column:
    """Refuse anything but a column."""
    if not isinstance(value, Column):
        raise Uncomputable(f"a column is wanted, this is {describe(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Uncomputable(f"a text is wanted, this is {describe(value)}")
    return value


def argument(value: Any) -> Any:
    """Convert a value to what functions of phasefusion.stats take."""
    if isinstance(value, Figure):
        return number(value)
    if isinstance(value, Column):
        return value.values
    if isinstance(value, list):
        return [argument(one) for one in value]
    return value


#: By the name of the annotation of a parameter.
CONVERT: dict[str, Callable[[Any], Any]] = {
    "Any": _anything,
    "Column": column,
    "Count": count,
    "Figure": figure,
    "Figures": _figures,
    "Number": number,
    "Numbers": numbers,
    "Whole": whole,
    "str": _text,
}
