"""Printed figures: a number, its digits, and every value that they stand for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from phasefusion.errors import AuditError

MAX_LENGTH = 40
_MAX_EXPONENT = 100
_MINUS = str.maketrans("−–‐", "---")
_FORM = re.compile(
    r"(?P<relation><=|>=|[<>≤≥])?\s*(?P<sign>[+-]?)"
    r"(?P<whole>\d{1,3}(?:,\d{3})+|\d*)(?:\.(?P<digits>\d*))?"
    r"(?:(?:[eE]|\s*[×x]\s*10\^?)(?P<exponent>[+-]?\d{1,4}))?"
)
_RATIO = re.compile(r"([+-]?\d{1,15})/(\d{1,15})")
#: Units of numbers that are counted: whole ones stand for themselves. What has
#: decimals was no count (such as a median), and its digits say how it was rounded.
COUNTED = ("count", "items", "questions", "observations", "frames", "units")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as it is printed.

    Attributes
    ----------
    name : str
    text : str
        As printed, such as "+2.73" or "9e-4".
    value : Fraction
    half_unit : Fraction
        Half a unit of the last printed digit; 0 for counts and ratios of whole numbers.
    relation : str
        "<" or ">" where only a bound is printed, else empty.
    unit, where : str
    """

    name: str
    text: str
    value: Fraction
    half_unit: Fraction
    relation: str = ""
    unit: str = ""
    where: str = ""

    @property
    def original(self) -> Figure:
        """The figure as it is printed."""
        return self

    def __float__(self) -> float:
        return float(self.value)

    @property
    def interval(self) -> tuple[float, float]:
        """The values that print as this figure, whichever way halves are rounded."""
        if self.relation == "<":
            return -math.inf, float(self.value)
        if self.relation == ">":
            return float(self.value), math.inf
        return float(self.value - self.half_unit), float(self.value + self.half_unit)

    @property
    def rounded(self) -> bool:
        """Whether more than one value prints as this figure."""
        return self.half_unit > 0 and not self.relation

    def __str__(self) -> str:
        if not self.unit or self.unit == "count":
            return self.text
        return f"{self.text} {self.unit}"


@dataclass(frozen=True, slots=True)
class Moved(Figure):
    """A figure at another value that prints as it does.

    As a number it is that value; what takes a figure takes the printed one.
    """

    printed: Figure | None = None

    @classmethod
    def of(cls, figure: Figure, value: Fraction | float) -> Moved:
        """Move a figure."""
        return cls(
            figure.name,
            figure.text,
            Fraction(value),
            figure.half_unit,
            figure.relation,
            figure.unit,
            figure.where,
            figure,
        )

    @property
    def original(self) -> Figure:
        """The figure as it is printed."""
        return self if self.printed is None else self.printed


def parse_figure(
    text: str, name: str = "", *, unit: str = "", where: str = "", exact: bool = False
) -> Figure:
    """Read a printed figure.

    Parameters
    ----------
    text : str
        Such as "18.2", "-0.27", ".016", "9e-4", "9 × 10−4", "1,132", "3/16" or
        "< 0.001". Every printed digit counts.
    name, unit, where : str
        Noted. Units that are counted ("count", "items", ...) make a whole number exact.
    exact : bool, default False
        Whether the figure stands for itself alone.

    Returns
    -------
    Figure

    Raises
    ------
    AuditError
        If the text is no such number, or beyond 40 characters or 1e100.

    Examples
    --------
    >>> parse_figure("18.20").interval
    (18.195, 18.205)
    >>> parse_figure("1,132", unit="items").interval
    (1132.0, 1132.0)
    >>> parse_figure("37.25", unit="frames").interval
    (37.245, 37.255)
    """
    given = text.strip()
    if len(given) > MAX_LENGTH:
        raise AuditError(f"{given[:20] + '...'!r} is too long for a printed figure")
    plain = given.translate(_MINUS)
    ratio = _RATIO.fullmatch(plain)
    if ratio is not None:
        if int(ratio[2]) == 0:
            raise AuditError(f"{given!r} divides by zero")
        value, half = Fraction(int(ratio[1]), int(ratio[2])), Fraction(0)
        return Figure(name, given, value, half, "", unit, where)
    found = _FORM.fullmatch(plain)
    if found is None or not (found["whole"] or found["digits"]):
        raise AuditError(
            f"{given!r} is no printed figure; write it as it is printed, such as "
            "'18.2', '-0.27', '9e-4', '1,132', '3/16' or '< 0.001', and its unit apart"
        )
    exponent = int(found["exponent"] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        raise AuditError(f"{given!r} is beyond 1e{_MAX_EXPONENT}")
    digits = found["digits"] or ""
    value = Fraction(int((found["whole"].replace(",", "") or "0") + digits))
    scale = Fraction(10) ** (exponent - len(digits))
    value *= -scale if found["sign"] == "-" else scale
    relation = {"≤": "<", "≥": ">"}.get((found["relation"] or "")[:1])
    relation = (found["relation"] or "")[:1] if relation is None else relation
    counted = unit in COUNTED and scale >= 1
    half = Fraction(0) if exact or counted else scale / 2
    return Figure(name, given, value, half, relation, unit, where)
