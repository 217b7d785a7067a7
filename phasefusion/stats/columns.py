"""Bootstrap of many columns at once, by the same resamples for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._random import MASK_64, check_seed
from phasefusion._results import Result
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceMemoryError,
    StatisticsError,
)
from phasefusion.frames import Device
from phasefusion.stats._answers import check_choice
from phasefusion.stats._numbers import clusters, numbers
from phasefusion.stats.proportions import check_level
from phasefusion.stats.resampling import percentile_interval

#: Columns from which "auto" takes a GPU; the product of fewer takes less time here than
#: sending them.
COLUMNS_OF_A_GPU = 100

_CHUNK_VALUES = 2**24  # of counts, at a time
_STEP = 0x9E3779B97F4A7C15  # from the stream of one resample to that of the next
_MOST = 2.0**53


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnsBootstrap(Result):
    """Percentile intervals of the means of many columns.

    Attributes
    ----------
    estimate, se, low, high : ndarray, shape (k,), float64
        As of `Bootstrap`, for each column.
    replicates : ndarray, shape (n_resamples, k), float64
        Row r is of one resample; NaN where it holds no item of a column. A difference
        of columns is resampled by the difference of theirs.
    n : ndarray, shape (k,), int64
        Items of each column.
    n_clusters, n_resamples, seed : int
    confidence_level : float
    """

    estimate: NDArray[np.float64]
    se: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    replicates: NDArray[np.float64]
    n: NDArray[np.int64]
    n_clusters: int
    n_resamples: int
    seed: int
    confidence_level: float

    def __repr__(self) -> str:
        return (
            f"ColumnsBootstrap({len(self.estimate)} columns, {self.n_clusters} "
            f"clusters, percentile at {self.confidence_level:g}, {self.n_resamples} "
            f"resamples, seed {self.seed})"
        )


def columns_bootstrap(
    values: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    n_resamples: int = 10_000,
    seed: int = 0,
    confidence_level: float = 0.95,
    device: Device = "cpu",
) -> ColumnsBootstrap:
    """Bootstrap the means of many columns by resampling the clusters of their items.

    All columns see the same resamples, so that they can be compared: rates of flips
    over all pairs of phases, or of correct answers over all models and budgets. Sums
    of whole numbers are exact, so a seed has one result wherever it is computed.

    Parameters
    ----------
    values : array_like, shape (n, k), whole numbers
        Such as 1 and 0 of an indicator, or -1, 0 and 1 of its differences; NaN leaves
        an item out of a column. For other numbers see `cluster_bootstrap`.
    cluster : array_like, shape (n,), optional
        As in `clustered_mean`.
    n_resamples : int, default 10000
    seed : int, default 0
    confidence_level : float, default 0.95
    device : {"cpu", "cuda", "auto"}, default "cpu"
        A GPU makes the product of counts and columns with cuBLAS, for sums of a cluster
        from -256 to 256 whose greatest times the clusters is at most 2^24. "auto" takes
        it from 100 columns on, where there is one.

    Returns
    -------
    ColumnsBootstrap

    Raises
    ------
    StatisticsError
        If values are not as described, or with "cuda" beyond what a GPU sums exactly.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        With "cuda" as `phasefusion.resize_normalize`; without cuBLAS too.

    Warns
    -----
    FallbackWarning
        Once, if "auto" would take a GPU that cannot be used.

    Examples
    --------
    >>> made = columns_bootstrap([[1, 0], [0, 0], [1, 1], [1, 0]], n_resamples=200)
    >>> made.estimate, bool(made.low[0] < made.estimate[0])
    (array([0.75, 0.25]), True)
    """
    check_level(confidence_level)
    check_choice(device, ("cpu", "cuda", "auto"), "device")
    seed = check_seed(seed)
    if n_resamples < 1:
        raise StatisticsError(f"n_resamples must be >= 1, it is {n_resamples}")
    table, known = _table(values)
    group, _ = clusters(cluster, len(table))
    used = known.any(axis=1)
    names, group = np.unique(group[used], return_inverse=True)
    above, below = (
        _by_cluster(part[used], group, len(names)) for part in (table, known)
    )
    if np.abs(above).sum(axis=0).max(initial=0) >= _MOST:
        raise StatisticsError("sums of values must be below 2**53 to be exact")
    n = below.sum(axis=0)
    if not known.all():  # else all columns have the same items
        sums = np.concatenate([above, below], axis=1)
    else:
        sums = np.concatenate([above, below[:, :1]], axis=1)
    made = _replicates(sums, above.shape[1], n_resamples, seed & MASK_64, device)
    tail = (1.0 - confidence_level) / 2.0
    ends = np.array([percentile_interval(column, tail) for column in made.T])
    ends = ends.reshape(-1, 2)
    with np.errstate(invalid="ignore"):
        estimate = above.sum(axis=0) / np.where(n > 0, n, np.nan)
    return ColumnsBootstrap(
        estimate=estimate,
        se=_spread(made),
        low=ends[:, 0],
        high=ends[:, 1],
        replicates=made,
        n=n,
        n_clusters=len(names),
        n_resamples=n_resamples,
        seed=seed,
        confidence_level=confidence_level,
    )


def _table(values: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return whole numbers, 0 where they are missing, and which there are."""
    array = numbers(values, "values")
    if array.ndim != 2 or array.shape[1] < 1:
        raise StatisticsError(f"values must have shape (n, k), it is {array.shape}")
    known = ~np.isnan(array)
    whole = np.where(known, array, 0.0)
    wrong = (whole != np.floor(whole)) | (np.abs(whole) >= _MOST)
    if wrong.any():
        row, place = (int(i[0]) for i in np.nonzero(wrong))
        raise StatisticsError(
            f"values[{row}, {place}] is {array[row, place]}; they must be whole "
            "numbers, for exact sums; cluster_bootstrap takes others, one column a call"
        )
    return whole.astype(np.int64), known


def _by_cluster(
    table: NDArray[np.int64] | NDArray[np.bool_],
    group: NDArray[np.int64],
    n_clusters: int,
) -> NDArray[np.int64]:
    made = np.zeros((n_clusters, table.shape[1]), np.int64)
    np.add.at(made, group, table)
    return made


def _replicates(
    sums: NDArray[np.int64], n_columns: int, n_resamples: int, seed: int, device: Device
) -> NDArray[np.float64]:
    """Means of all columns in all resamples; the last columns of sums are numbers."""
    if not len(sums):
        return np.full((n_resamples, n_columns), np.nan)
    # clusters by what they hold, so that their names and order do not matter
    order = sorted(range(len(sums)), key=lambda i: sums[i].tobytes())
    sums = np.ascontiguousarray(sums[order])
    made = None
    if device == "cuda" or (device == "auto" and n_columns >= COLUMNS_OF_A_GPU):
        made = _on_gpu(sums, n_resamples, seed, required=device == "cuda")
    if made is None:
        made = _on_cpu(sums, n_resamples, seed)
    above, below = made[:, :n_columns], made[:, n_columns:]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(below > 0, above / below, np.nan)


def _on_gpu(
    sums: NDArray[np.int64], n_resamples: int, seed: int, *, required: bool
) -> NDArray[np.float64] | None:
    from phasefusion import cuda
    from phasefusion.cuda.fallback import warn_once
    from phasefusion.cuda.runtime import own_device

    try:
        made = cuda.bootstrap_sums(
            sums, n_resamples=n_resamples, seed=seed, device=own_device()
        )
    except StatisticsError:  # more than it sums exactly
        if required:
            raise
        return None
    except (BackendUnavailableError, DeviceMemoryError) as error:
        if required:
            raise
        warn_once(str(error), "resampling")
        return None
    return made.astype(np.float64)


def _on_cpu(
    sums: NDArray[np.int64], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Sum by a product of doubles, which is exact for whole numbers."""
    n = len(sums)
    wide = sums.astype(np.float64)
    made = np.empty((n_resamples, sums.shape[1]))
    most = max(1, _CHUNK_VALUES // n)
    for first in range(0, n_resamples, most):
        size = min(most, n_resamples - first)
        drawn = _core.resample_indices(n, size, (seed + first * _STEP) & MASK_64)
        places = drawn.astype(np.int64) + np.arange(size)[:, None] * n
        counts = np.bincount(places.ravel(), minlength=size * n).reshape(size, n)
        made[first : first + size] = counts.astype(np.float64) @ wide
    return made


def _spread(replicates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation of each column, NaN where one number is left."""
    found = np.full(replicates.shape[1], np.nan)
    for j, column in enumerate(replicates.T):
        known = column[~np.isnan(column)]
        if len(known) > 1:
            found[j] = known.std(ddof=1)
    return found
