"""Checks of arguments, with the messages that grids and samplers share."""

from __future__ import annotations

import math
import operator
import sys
import warnings
from fractions import Fraction
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._wording import Argument
from phasefusion.errors import GridError

INT64_MAX = 2**63 - 1
NAMED_ORIGINS = {"left": Fraction(0), "midpoint": Fraction(1, 2)}


def whole(name: str, value: SupportsIndex) -> int:
    """Return value as an int; truth values and floats are refused."""
    if isinstance(value, (bool, np.bool_)):
        raise GridError(
            Argument.of(name, value), " must be a whole number, not a truth value"
        )
    try:
        return operator.index(value)
    except TypeError:
        raise GridError(
            Argument.of(name, value),
            f" must be a whole number, it is a {type(value).__name__}",
        ) from None


def positive(name: str, value: SupportsIndex) -> int:
    """Return value as an int >= 1."""
    number = whole(name, value)
    if not 1 <= number <= INT64_MAX:
        raise GridError(Argument.of(name, number), " must be in 1..2**63-1")
    return number


def clip_frames(value: SupportsIndex) -> int:
    """Return the number of frames of a clip."""
    number = whole("n_frames", value)
    if not 1 <= number <= INT64_MAX:
        raise GridError(
            Argument.of("n_frames", number), " must be in 1..2**63-1: a clip has frames"
        )
    return number


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return value when it is one of the allowed words."""
    if value not in allowed:
        raise GridError(
            Argument.of(name, value), f" must be one of {', '.join(allowed)}"
        )
    return value


def finite(name: str, value: float) -> float:
    """Return value as a finite float."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise GridError(Argument.of(name, value), " must be a number") from None
    if not math.isfinite(number):
        raise GridError(Argument.of(name, value), " must be finite")
    return number


def fraction(name: str, value: Any, allowed: str) -> Fraction:
    """Return value as an exact fraction; floats are refused."""
    if isinstance(value, (float, np.floating)):
        raise GridError(
            Argument.of(name, value), f" is a float, which is not exact; give {allowed}"
        )
    try:
        if isinstance(value, (tuple, list)):
            num, den = (whole(name, part) for part in value)
            return Fraction(num, den)
        if isinstance(value, (str, Fraction)):
            return Fraction(value)
        return Fraction(whole(name, value))
    except (ValueError, ZeroDivisionError):
        raise GridError(
            Argument.of(name, value), f" cannot be read; give {allowed}"
        ) from None


def exact_origin(value: Any) -> Fraction:
    """Return the origin of a grid as a fraction in [0, 1)."""
    if isinstance(value, str) and value in NAMED_ORIGINS:
        return NAMED_ORIGINS[value]
    allowed = '"left", "midpoint", a Fraction, "p/q" or (p, q)'
    origin = fraction("origin", value, allowed)
    if not 0 <= origin < 1:
        raise GridError(
            Argument.of("origin", value),
            f" must be in [0, 1) of a dense step: {allowed}",
        )
    return origin


def timeline(pts: ArrayLike, end_pts: SupportsIndex) -> tuple[NDArray[np.int64], int]:
    """Return the times of a clip's frames and its end, in ticks, in order."""
    given = np.asarray(pts)
    if given.ndim != 1 or given.size == 0:
        raise GridError(
            f"pts has shape {given.shape}; it must be (N,), one time a frame, N >= 1"
        )
    if not np.can_cast(given.dtype, np.int64):
        raise GridError(
            f"pts has dtype {given.dtype}; it must hold whole ticks as int64"
        )
    ticks = cast("NDArray[np.int64]", np.ascontiguousarray(given, dtype=np.int64))
    back = np.flatnonzero(ticks[1:] < ticks[:-1])
    if back.size:
        k = int(back[0]) + 1
        raise GridError(
            f"pts[{k}]={ticks[k]} is below pts[{k - 1}]={ticks[k - 1]}; frames must be "
            "in the order in which they are shown"
        )
    end = whole("end_pts", end_pts)
    if end < ticks[-1]:
        raise GridError(f"end_pts={end} must be >= the last of pts, {ticks[-1]}")
    if end > INT64_MAX or end - int(ticks[0]) > INT64_MAX:
        raise GridError(f"end_pts={end} is more than 2**63-1 after pts[0]={ticks[0]}")
    return ticks, end


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that led here, however deep the call."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def warn_once(message: str, category: type[Warning]) -> None:
    """Warn at the user's line, once a line even when the numbers in `message` differ.

    Python itself warns once for each text of a line, which for a thousand short clips
    are a thousand texts. A line that has had its warning is marked for the new text
    too; Python drops the marks whenever the filters change, and sets none under
    "always" or "error".
    """
    frame = sys._getframe(1)
    while frame.f_back and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    line = frame.f_lineno
    registry: dict[Any, Any] = frame.f_globals.setdefault("__warningregistry__", {})
    for key in list(registry):
        if isinstance(key, tuple) and key[1:] == (category, line):
            registry[(message, category, line)] = registry.pop(key)
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        line,
        module=frame.f_globals.get("__name__"),
        registry=registry,
    )


def _is_ours(module: str) -> bool:
    return module == "phasefusion" or module.startswith("phasefusion.")
