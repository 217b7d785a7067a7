"""What the statistics of answers share: checked tables, policies for missing passes."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array, as_int64
from phasefusion.errors import StatisticsError

Policy: TypeAlias = Literal["complete", "available-macro", "available-micro"]
POLICIES = ("complete", "available-macro", "available-micro")
MAX_ANSWERS = 256  # what the kernels count
#: From here on a number takes more digits before the point than anybody reads.
_NO_FRACTION = 1e15


def check_choice(value: str, names: tuple[str, ...], argument: str) -> None:
    """Refuse a name that is not in a fixed vocabulary."""
    if value not in names:
        raise StatisticsError(f"{argument} must be one of {names}, it is {value!r}")


def integers(
    values: ArrayLike,
    name: str,
    n_dim: int | None = None,
    missing: int | None = None,
) -> NDArray[np.int64]:
    """Whole numbers as int64; floats and objects are refused, not rounded.

    What is masked becomes `missing`; without one it is refused.
    """
    array = as_array(values, name, StatisticsError, missing)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise StatisticsError(f"{name} must be integers, they are {array.dtype}")
    if n_dim is not None and array.ndim != n_dim:
        raise StatisticsError(
            f"{name} must have {n_dim} dimensions, its shape is {array.shape}"
        )
    return as_int64(array, name, StatisticsError)


def answer_table(
    answers: ArrayLike, missing: int = -1, name: str = "answers", n_dim: int = 2
) -> NDArray[np.int64]:
    """Answers as a contiguous int64 table in which -1 is the missing answer."""
    table = integers(answers, name, n_dim, missing)
    if n_dim == 2 and table.shape[1] < 1:
        raise StatisticsError(f"{name} hold no pass, their shape is {table.shape}")
    if missing != -1:
        table = np.where(table == missing, np.int64(-1), table)
    if table.size and table.min() < -1:
        raise StatisticsError(
            f"{name} hold {int(table.min())}; content indices are >= 0 and missing "
            f"answers are {missing}"
        )
    return np.ascontiguousarray(table)


def gold_answers(gold: ArrayLike, n_items: int) -> NDArray[np.int64]:
    """Right answers of the items; unknown ones are refused, not counted as wrong."""
    right = integers(gold, "gold", 1)
    if len(right) != n_items:
        raise StatisticsError(f"{len(right)} gold answers for {n_items} items")
    if len(right) and right.min() < 0:
        place = int(right.argmin())
        raise StatisticsError(
            f"gold[{place}] is {int(right[place])}; content indices are >= 0, leave "
            "items without a right answer out"
        )
    return right


def numbered(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Answers as 0 .. n-1 for the kernels, and n; large labels are renumbered."""
    n_answers = int(table.max(initial=-1)) + 1
    if n_answers <= MAX_ANSWERS:
        return table, max(n_answers, 1)
    labels, places = np.unique(table, return_inverse=True)
    shift = int(labels[0] == -1)
    if len(labels) - shift > MAX_ANSWERS:
        raise StatisticsError(
            f"{len(labels) - shift} different answers; at most {MAX_ANSWERS} can be "
            "counted, pass content indices"
        )
    return places.reshape(table.shape).astype(np.int64) - shift, len(labels) - shift


def pooled(
    parts: NDArray[np.int64],
    wholes: NDArray[np.int64],
    used: NDArray[np.bool_],
    policy: Policy,
) -> float:
    """Rate over items of parts/wholes, NaN if no item is used.

    Macro: mean of the items' own rates; micro: sum over sum. Sums are of integers, so
    the result does not depend on the order of the items.
    """
    part, whole = parts[used], wholes[used]
    if not len(part):
        return float("nan")
    if policy == "available-micro" or whole.min() == whole.max():
        return int(part.sum()) / int(whole.sum())
    sizes, group = np.unique(whole, return_inverse=True)
    sums = np.zeros(len(sizes), np.int64)
    np.add.at(sums, group, part)
    return sum(int(s) / int(w) for s, w in zip(sums, sizes, strict=True)) / len(part)


def ratio(parts: NDArray[np.int64], wholes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Quotient of counts, NaN where the whole is 0."""
    result = np.full(parts.shape, np.nan)
    np.divide(parts, wholes, out=result, where=wholes > 0)
    return result


def half_up(value: float, digits: int) -> str:
    """Round a number for print, halves away from zero, as published tables do.

    One so great that it has no digits behind the point is told by its first three.

    >>> half_up(12.5, 0), half_up(-0.04, 1), half_up(float("nan"), 1)
    ('13', '0.0', 'nan')
    >>> half_up(-1.7976931348623157e308, 2)
    '-1.8e+308'
    """
    if not abs(value) < _NO_FRACTION:  # NaN too
        return f"{value:.3g}"
    scale = 10**digits
    rounded = math.floor(abs(value) * scale + 0.5 + 1e-9) / scale
    return f"{math.copysign(rounded, value) if rounded else 0.0:.{digits}f}"


def percent(rate: float) -> str:
    """Rate for one-line results."""
    return f"{half_up(100 * rate, 2)} %"
