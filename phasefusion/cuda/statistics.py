"""Exact sums on a GPU: bootstraps, Gram matrices, distances of frames.

The two products are made by cuBLAS, which is opened when they are first asked for:
``PHASEFUSION_CUBLAS`` names the library, else it is the one that is loaded already
(that of torch), one of a Python package, or the system's.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arrays import as_array
from phasefusion._install import remedy
from phasefusion._random import MASK_64, check_seed
from phasefusion.cuda import arrays, runtime
from phasefusion.errors import BackendUnavailableError, FrameError, StatisticsError

__all__ = ["bootstrap_sums", "frame_distance", "gram"]

_NAMES = ("libcublas.so.13", "libcublas.so.12")
_FOLDERS = ("nvidia/cu13/lib", "nvidia/cublas/lib")
_GRAM_VALUES = 2**17  # of a row, so that sums fit 32 bits
_GRAM_BYTES = 2**26  # of rows that travel together
_lock = threading.Lock()
_opened: dict[tuple[str, int], Any] = {}


def _find_blas() -> str:
    """Return the path or name of cuBLAS."""
    return find_blas() or _NAMES[0]


def find_blas() -> str | None:
    """Return cuBLAS as far as it is found without being opened.

    None leaves the system's, which the linker knows of.
    """
    wanted = os.environ.get("PHASEFUSION_CUBLAS")
    if wanted is not None:
        return wanted
    for name in _NAMES:
        try:
            ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
        return name
    for root in sorted({sysconfig.get_paths()[key] for key in ("purelib", "platlib")}):
        for folder in _FOLDERS:
            for name in _NAMES:
                path = Path(root, folder, name)
                if path.is_file():
                    return str(path)
    return None


def _blas(ready: runtime.Device) -> Any:
    from phasefusion import _cuda

    path = _find_blas()
    with _lock:
        key = (path, id(ready.handle))
        if key not in _opened:
            try:
                _opened[key] = _cuda.blas(ready.handle, path)
            except RuntimeError as error:
                raise BackendUnavailableError(
                    f"{error.args[0]}; {remedy('nvidia-cublas')}"
                ) from error
        return _opened[key]


def bootstrap_sums(
    values: ArrayLike, *, n_resamples: int, seed: int, device: int = 0
) -> NDArray[np.int64]:
    """Sum many columns over clusters drawn with replacement, exactly.

    The clusters are those that the CPU's resampling draws for the seed, so intervals do
    not depend on where they are computed. It pays from about a hundred columns.

    Parameters
    ----------
    values : integers, shape (n, k)
        From -256 to 256, and n times the greatest at most 2^24: counts and values are
        then exact in bfloat16 and all sums in float32.
    n_resamples : int
    seed : int
    device : int, default 0

    Returns
    -------
    sums : ndarray, shape (n_resamples, k), int64

    Raises
    ------
    StatisticsError
        If values are not as described, or a sum would not be exact.
    BackendUnavailableError
        If there is no GPU or no cuBLAS.
    """
    from phasefusion import _cuda

    given = as_array(values, "values", StatisticsError)
    if given.dtype.kind not in "iub" or given.ndim != 2 or 0 in given.shape:
        raise StatisticsError(
            f"values must be integers of shape (n, k), got {given.dtype} of shape "
            f"{given.shape}"
        )
    given = given.astype(np.int64)
    greatest = int(np.abs(given).max())
    if greatest > 256 or greatest * given.shape[0] > 2**24:
        raise StatisticsError(
            f"values reach {greatest} over {given.shape[0]} clusters; exact sums need "
            "at most 256, and their product at most 2**24"
        )
    seed = check_seed(seed) & MASK_64
    if n_resamples < 0:
        raise StatisticsError(f"n_resamples must be >= 0, it is {n_resamples}")
    ready = runtime.device(device)
    blas = _blas(ready)
    try:
        with runtime.translated(f"{n_resamples} resamples"):
            return _cuda.bootstrap(
                ready.handle, blas, given.astype(np.int16), seed, n_resamples
            )
    except ValueError as error:
        raise StatisticsError(
            f"{given.shape[0]} clusters are too many for the GPU, or one was drawn "
            "more than 256 times"
        ) from error


def gram(values: NDArray[np.int8], *, device: int = 0) -> NDArray[np.int32]:
    """Products of all pairs of rows, exactly, for many groups at once.

    Parameters
    ----------
    values : ndarray, shape (..., n, d), int8
        Such as the bytes of small frames minus 128; d at most 2^17.
    device : int, default 0

    Returns
    -------
    gram : ndarray, shape (..., n, n), int32
        Squared distances are ``g[i, i] + g[j, j] - 2 g[i, j]``.

    Raises
    ------
    StatisticsError
        If values are not as described.
    BackendUnavailableError
        If there is no GPU or no cuBLAS.
    """
    from phasefusion import _cuda

    given = as_array(values, "values", StatisticsError)
    if given.dtype != np.int8 or given.ndim < 2 or 0 in given.shape:
        raise StatisticsError(
            f"values must be int8 of shape (..., n, d), got {given.dtype} of shape "
            f"{given.shape}"
        )
    if given.shape[-1] > _GRAM_VALUES:
        raise StatisticsError(f"rows of {given.shape[-1]} values may overflow int32")
    *lead, n, d = given.shape
    groups = np.ascontiguousarray(given).reshape(-1, n, d)
    ready = runtime.device(device)
    blas = _blas(ready)
    with runtime.translated(f"Gram matrices of {len(groups)} groups"):
        made = _cuda.gram(ready.handle, blas, groups)
    return made.reshape(*lead, n, n)


def frame_distance(
    a: Any, b: Any, metric: str = "absolute", *, stream: Any = None
) -> NDArray[np.float64]:
    """Distances of pairs of frames on a GPU, bit for bit the CPU's.

    Parameters
    ----------
    a, b : arrays on a GPU, shape (..., H, W, 3), uint8, C-contiguous
    metric : {"absolute", "rms", "histogram"}
        As in `phasefusion.stats.visual_distinctness`.
    stream : optional
        As in `phasefusion.cuda.resize`; the call waits for it.

    Returns
    -------
    distance : ndarray, shape (...), float64

    Raises
    ------
    FrameError
        If the arrays are not as described.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        As `phasefusion.cuda.resize`.
    """
    from phasefusion import _cuda

    if metric not in ("absolute", "rms", "histogram"):
        raise FrameError(f"metric must be absolute, rms or histogram; got {metric!r}")
    handle = arrays.stream_of(a, stream)
    views = [arrays.view(array, handle, name) for array, name in ((a, "a"), (b, "b"))]
    shape = views[0].shape
    for view in views:
        tight = arrays._tight(shape, 1)
        if view.shape != shape or view.dtype != "u1" or view.strides != tight:
            raise FrameError(
                "a and b must be C-contiguous uint8 arrays of one shape, got "
                f"{view.dtype} of shape {view.shape} and strides {view.strides} beside "
                f"{shape}"
            )
    if len(shape) < 3 or shape[-1] != 3 or 0 in shape[-3:]:
        raise FrameError(f"a and b must have shape (..., H, W, 3), got {shape}")
    if views[0].device != views[1].device:
        raise FrameError("a and b must lie on one device")
    n_px = shape[-3] * shape[-2]
    n_pairs = int(np.prod(shape[:-3]))
    ready = runtime.device(views[0].device)
    with runtime.translated(f"comparing {n_pairs} pairs of frames"):
        sums = _cuda.distance_sums(
            ready.handle, handle, views[0].address, views[1].address, n_pairs, n_px
        )
    return _distances(sums, n_px, metric).reshape(shape[:-3])


def _distances(sums: NDArray[np.int64], n_px: int, metric: str) -> NDArray[np.float64]:
    """Return what the CPU makes of sums (n, 3) over pairs of frames, (n,)."""
    if metric == "histogram":
        return np.asarray(sums[:, 2] / (6.0 * n_px))
    mean = sums[:, int(metric == "rms")] / float(3 * n_px)
    return np.asarray((np.sqrt(mean) if metric == "rms" else mean) / 255.0)


def view_distances(
    views: Any, pairs: NDArray[np.int64], metric: str, *, stream: Any = None
) -> NDArray[np.float64]:
    """Distances of the matched frames of pairs of views on a GPU.

    Parameters
    ----------
    views : array on a GPU, shape (S, b, H, W, 3), uint8, C-contiguous
    pairs : ndarray, shape (P, 2), int64
    metric, stream
        As in `frame_distance`.

    Returns
    -------
    distance : ndarray, shape (P, b), float64
    """
    from phasefusion import _cuda

    handle = arrays.stream_of(views, stream)
    view = arrays.view(views, handle, "views")
    shape = view.shape
    tight = arrays._tight(shape, 1)
    if view.dtype != "u1" or view.strides != tight or len(shape) != 5 or shape[4] != 3:
        raise FrameError(
            "views must be C-contiguous uint8 of shape (S, b, H, W, 3), got "
            f"{view.dtype} of shape {shape} and strides {view.strides}"
        )
    n_px = shape[2] * shape[3]
    ready = runtime.device(view.device)
    made = np.empty((len(pairs), shape[1]))
    for i, (s, t) in enumerate(pairs.tolist()):
        first, second = (view.address + k * tight[0] for k in (s, t))
        with runtime.translated(f"comparing {shape[1]} pairs of frames"):
            sums = _cuda.distance_sums(
                ready.handle, handle, first, second, shape[1], n_px
            )
        made[i] = _distances(sums, n_px, metric)
    return made


def gram_distances(
    views: NDArray[np.uint8], pairs: NDArray[np.int64], *, device: int = 0
) -> NDArray[np.float64]:
    """Root mean square distances of `view_distances`, of NumPy arrays.

    Every frame travels once, and one Gram matrix a place in the grid has all pairs.
    """
    n_views, n_frames, *picture = views.shape
    n_values = int(np.prod(picture))
    n_parts = -(-n_values // _GRAM_VALUES)
    part = -(-n_values // n_parts)
    made = np.empty((len(pairs), n_frames))
    step = max(1, _GRAM_BYTES // (n_views * n_parts * part))
    first, second = pairs.T
    for begin in range(0, n_frames, step):
        some = views[:, begin : begin + step].reshape(n_views, -1, n_values)
        rows = np.zeros((some.shape[1], n_views, n_parts * part), np.int8)
        rows[:, :, :n_values] = (some ^ np.uint8(128)).view(np.int8).transpose(1, 0, 2)
        groups = rows.reshape(-1, n_views, n_parts, part).transpose(0, 2, 1, 3)
        found = gram(groups, device=device).astype(np.int64).sum(axis=1)
        square = np.diagonal(found, axis1=1, axis2=2)
        apart = square[:, first] + square[:, second] - 2 * found[:, first, second]
        mean = apart / float(n_values)
        made[:, begin : begin + step] = (np.sqrt(mean) / 255.0).T
    return made
