"""What a candidate must hold to: margins, floors and what may differ."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from phasefusion._comparable import Topic, check_topics
from phasefusion._measures import MEASURES, Measure
from phasefusion._paths import path_of
from phasefusion.errors import UsageError

_CLUSTERS = ("video", "question")


@dataclass(frozen=True, slots=True)
class MeasureRule:
    """What one measure must hold to.

    Parameters
    ----------
    margin : float, default 0.02
        Fall against the baseline that is tolerated, in (0, 1): 0.02 is 2 points.
    floor : float, optional
        What the candidate must reach whatever the baseline is, in (0, 1).
    judged : bool, default True
    """

    margin: float = 0.02
    floor: float | None = None
    judged: bool = True

    def __post_init__(self) -> None:
        for name in ("margin", "floor"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < 1.0:
                raise UsageError(f"{name} must be in (0, 1), it is {value}")


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a gate.

    Parameters
    ----------
    accuracy, fpc, ooc : MeasureRule
    alpha : float, default 0.05
        Chance of passing a candidate that fell by the margin, and of calling a fall
        when there is none; in (0, 0.5).
    power : float, default 0.8
        For which the number of items is planned when it is too small; in (alpha, 1).
    cluster : {'video', 'question'}, default 'video'
        What items of one cluster share.
    min_shared, min_complete : float, default 0.9
        Least share of the items of either run that the other has, and of the shared
        ones that have all their passes in both; in (0, 1].
    allow : tuple of str, default ()
        Differences that are noted instead of refused: "sampling", "orders",
        "questions".

    Raises
    ------
    UsageError
        If a value is out of range.
    """

    accuracy: MeasureRule = field(default_factory=MeasureRule)
    fpc: MeasureRule = field(default_factory=MeasureRule)
    ooc: MeasureRule = field(default_factory=MeasureRule)
    alpha: float = 0.05
    power: float = 0.8
    cluster: Literal["video", "question"] = "video"
    min_shared: float = 0.9
    min_complete: float = 0.9
    allow: tuple[Topic, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 0.5:
            raise UsageError(f"alpha must be in (0, 0.5), it is {self.alpha}")
        if not self.alpha < self.power < 1.0:
            raise UsageError(f"power must be in (alpha, 1), it is {self.power}")
        if self.cluster not in _CLUSTERS:
            raise UsageError(
                f"cluster must be one of {', '.join(_CLUSTERS)}, it is {self.cluster!r}"
            )
        for name in ("min_shared", "min_complete"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise UsageError(
                    f"{name} must be in (0, 1], it is {getattr(self, name)}"
                )
        check_topics(self.allow, "allow")
        if not any(self.of(measure).judged for measure in MEASURES):
            raise UsageError("no measure is judged; judge one at least")

    def of(self, measure: Measure) -> MeasureRule:
        """Rule of a measure."""
        found: MeasureRule = getattr(self, measure)
        return found

    @classmethod
    def read(cls, path: str | Path) -> Rules:
        """Read rules from a TOML file.

        Top level: ``alpha``, ``power``, ``cluster``, ``min_shared_percent``,
        ``min_complete_percent``, ``allow``. Tables ``accuracy``, ``fpc`` and ``ooc``:
        ``margin_points``, ``floor_percent``, ``judged``. What is left out has its
        default.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Rules

        Raises
        ------
        UsageError
            If it cannot be read or is not TOML, a key is not known or a value is not
            what it must be; names the file and the key.
        """
        path = path_of("path", path, "a TOML file of rules")
        try:
            given = tomllib.loads(path.read_text("utf-8-sig"))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: is not TOML: {error}") from error
        made: dict[str, Any] = {}
        for name, value in given.items():
            if name in MEASURES:
                made[name] = _of_measure(value, f"{path}: {name}")
            elif name in _TOP:
                field_name, read = _TOP[name]
                made[field_name] = read(value, f"{path}: {name}")
            else:
                known = ", ".join((*_TOP, *MEASURES))
                raise UsageError(f"{path}: {name!r} is not a rule; rules are {known}")
        try:
            return cls(**made)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{where} must be a number, it is {value!r}")
    return float(value)


def _percent(
    value: Any, where: str, least: float = 1.0, *, closed: bool = True
) -> float:
    """Read percent as a share; what is below `least` was meant as a share."""
    number = _number(value, where)
    if not (0.0 < number <= 100.0 if closed else 0.0 < number < 100.0):
        most = "at most" if closed else "below"
        raise UsageError(f"{where} must be above 0 and {most} 100, it is {number:g}")
    if number < least:
        raise UsageError(
            f"{where} is {number:g}, which looks like a share; in percent that is "
            f"{100 * number:g}"
        )
    return number / 100.0


def _points(value: Any, where: str) -> float:
    return _percent(value, where, least=0.1, closed=False)


def _floor(value: Any, where: str) -> float:
    return _percent(value, where, closed=False)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where} must be text, it is {value!r}")
    return value


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where} must be true or false, it is {value!r}")
    return value


def _topics(value: Any, where: str) -> tuple[Topic, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{where} must be a list, it is {value!r}")
    return check_topics(map(str, value), where)


_TOP: Mapping[str, tuple[str, Any]] = {
    "alpha": ("alpha", _number),
    "power": ("power", _number),
    "cluster": ("cluster", _text),
    "min_shared_percent": ("min_shared", _percent),
    "min_complete_percent": ("min_complete", _percent),
    "allow": ("allow", _topics),
}
_MEASURE: Mapping[str, tuple[str, Any]] = {
    "margin_points": ("margin", _points),
    "floor_percent": ("floor", _floor),
    "judged": ("judged", _truth),
}


def _of_measure(value: Any, where: str) -> MeasureRule:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a table, it is {value!r}")
    made: dict[str, Any] = {}
    for name, inner in value.items():
        if name not in _MEASURE:
            raise UsageError(
                f"{where}.{name} is not a rule; rules are {', '.join(_MEASURE)}"
            )
        field_name, read = _MEASURE[name]
        made[field_name] = read(inner, f"{where}.{name}")
    try:
        return MeasureRule(**made)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
