"""What the statistics of numbers share: checked columns, missing entries, clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._wording import Argument
from phasefusion.errors import StatisticsError


def numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Numbers as a float64 array of any shape; NaN stays, it means missing."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf" and array.size:
            raise TypeError(f"dtype {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise StatisticsError(f"{name} must be numbers: {error}") from error


def column(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Numbers as a float64 vector; NaN stays, it means missing."""
    array = numbers(values, name)
    if array.ndim != 1:
        raise StatisticsError(f"{name} must have shape (n,), it has {array.shape}")
    return array


def finite_column(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Numbers without infinities; NaN stays."""
    array = column(values, name)
    if np.isinf(array).any():
        place = int(np.flatnonzero(np.isinf(array))[0])
        raise StatisticsError(f"{name}[{place}] is {array[place]}, it must be finite")
    return array


def indicator(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Hold truth values as 1 and 0, and NaN for what was NaN or -1 (undefined)."""
    array = column(values, name)
    if np.asarray(values).dtype == np.bool_:
        return array
    array = np.where(array == -1.0, np.nan, array)
    wrong = ~(np.isnan(array) | (array == 0.0) | (array == 1.0))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise StatisticsError(
            f"{name}[{place}] is {array[place]:g}; it must hold 1 and 0 (True and "
            "False), and -1 or NaN where it is undefined"
        )
    return array


def same_length(**columns: NDArray[Any]) -> None:
    """Refuse columns of different length."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise StatisticsError(f"the columns differ in length: {lengths}")


def clusters(cluster: ArrayLike | None, n_items: int) -> tuple[NDArray[np.int64], int]:
    """Clusters of items as 0 .. G-1, and G; every item its own without labels."""
    if cluster is None:
        return np.arange(n_items), n_items
    labels = np.asarray(cluster)
    if labels.shape != (n_items,):
        raise StatisticsError(
            f"cluster must have shape ({n_items},), it has {labels.shape}"
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise StatisticsError("cluster holds NaN; give every item a label")
    if labels.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        group = np.array([numbers.setdefault(v, len(numbers)) for v in labels], int)
        return group, len(numbers)
    names, group = np.unique(labels, return_inverse=True)
    return group.astype(np.int64), len(names)


def sums_by(
    group: NDArray[np.int64], n_groups: int, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum of the values of each group, the same for every order of the items."""
    order = np.lexsort((values, group))
    return np.bincount(group[order], values[order], n_groups).astype(np.float64)


def classes_and_scores(
    positive: ArrayLike, score: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]]:
    """Classes and scores of the items that have both, and which those are."""
    classes, scores = indicator(positive, "positive"), column(score, "score")
    same_length(positive=classes, score=scores)
    kept = ~(np.isnan(classes) | np.isnan(scores))
    if kept.all():
        return classes == 1.0, scores, kept
    return classes[kept] == 1.0, scores[kept], kept


def fraction_in(value: float, name: str, *, closed: bool = False) -> None:
    """Refuse a share outside (0, 1), or outside [0, 1]."""
    inside = 0.0 <= value <= 1.0 if closed else 0.0 < value < 1.0
    if not inside:
        brackets = "[0, 1]" if closed else "(0, 1)"
        raise StatisticsError(Argument(name), f" must be in {brackets}, it is {value}")
