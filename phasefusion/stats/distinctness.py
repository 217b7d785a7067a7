"""How different the frames of two phases look, and how that grows with the offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from phasefusion._arrays import as_array
from phasefusion._results import Result
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceMemoryError,
    StatisticsError,
)
from phasefusion.frames import Device
from phasefusion.stats._answers import check_choice

Metric: TypeAlias = Literal["absolute", "rms", "histogram", "cosine"]
_PIXELS = ("absolute", "rms", "histogram")
_METRICS = (*_PIXELS, "cosine")
_DEVICES = get_args(Device)

#: Views from which "auto" lets a GPU compare frames of the host: 66 pairs of 12 frames.
VIEWS_OF_A_GPU = 12


def visual_distinctness(
    a: Any, b: Any, *, metric: Metric = "absolute", device: Device = "cpu"
) -> NDArray[np.float64]:
    """Distance of frames, pair by pair.

    Parameters
    ----------
    a, b : array_like, shape (..., H, W, 3), uint8; with 'cosine' (..., D), float
        Frames of two phases, frame i of one matched with frame i of the other, or
        features of them from an embedding that is to be named with the result.
    metric : {'absolute', 'rms', 'histogram', 'cosine'}, default 'absolute'
        Mean absolute difference of the values over 255; root of the mean square over
        255; total variation of the colour histograms (32 bins a channel), which does
        not see where things are; one minus the cosine.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        With another than "cpu", frames on a GPU (of torch or cupy, C-contiguous) are
        compared there, to the same distances. Those of the host are compared on the
        CPU, which takes less time than they would on their way.

    Returns
    -------
    ndarray, shape (...), float64
        In [0, 1], 0 for equal frames; with 'cosine' in [0, 2], NaN where a feature has
        no length.

    Raises
    ------
    StatisticsError
        If the shapes differ or are no frames, or features are not finite.

    Examples
    --------
    >>> black, white = np.zeros((2, 4, 4, 3), np.uint8), np.full((2, 4, 4, 3), 255)
    >>> visual_distinctness(black, white.astype(np.uint8))
    array([1., 1.])
    >>> visual_distinctness([1.0, 0.0], [0.0, 2.0], metric="cosine")
    array(1.)
    """
    check_choice(metric, _METRICS, "metric")
    check_choice(device, _DEVICES, "device")
    if device != "cpu" and metric != "cosine" and not isinstance(a, np.ndarray):
        from phasefusion.cuda import arrays, frame_distance

        if arrays.on_gpu(a):
            return frame_distance(a, b, metric)
    first = as_array(a, "a", StatisticsError)
    second = as_array(b, "b", StatisticsError)
    if first.shape != second.shape:
        raise StatisticsError(
            f"a has shape {first.shape}, b has {second.shape}; frames are compared one "
            "by one"
        )
    if metric == "cosine":
        return _cosine_distance(first, second)
    if first.dtype != np.uint8 or second.dtype != np.uint8:
        raise StatisticsError(
            f"frames must be uint8, they are {first.dtype} and {second.dtype}; "
            "features are compared with metric='cosine'"
        )
    if first.ndim < 3 or first.shape[-1] != 3 or 0 in first.shape[-3:-1]:
        raise StatisticsError(
            f"frames must have shape (..., H, W, 3), they have {first.shape}"
        )
    from phasefusion import _frames

    lead = first.shape[:-3]
    rows = (int(np.prod(lead)), first.shape[-3] * first.shape[-2], 3)
    made = _frames.distance(
        first.reshape(rows), second.reshape(rows), _PIXELS.index(metric)
    )
    return made.reshape(lead)


def _cosine_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    try:
        first, second = a.astype(np.float64), b.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise StatisticsError(f"features must be numbers: {error}") from error
    if first.ndim < 1 or not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise StatisticsError("features must be finite numbers of shape (..., D)")
    product = (first * second).sum(axis=-1)
    length = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    cosine = np.full(np.shape(product), np.nan)
    np.divide(product, length, out=cosine, where=length > 0.0)
    return np.asarray(1.0 - np.clip(cosine, -1.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DistinctnessCurve(Result):
    """Distance of the views of one clip, by how far their phases are apart.

    Attributes
    ----------
    distance : ndarray, shape (P,), float64
        Mean over the matched frames of each pair of views, pairs by rising offset.
    offset : ndarray, shape (P,), float64
        Difference of the phases, in steps.
    offset_s : ndarray, shape (P,), float64
        The same in seconds; NaN without the length of a step.
    pairs : ndarray, shape (P, 2), int64
    n_frames : int
        Frames of a view.
    metric : str
    """

    distance: NDArray[np.float64]
    offset: NDArray[np.float64]
    offset_s: NDArray[np.float64]
    pairs: NDArray[np.int64]
    n_frames: int
    metric: Metric

    def __repr__(self) -> str:
        points = ", ".join(
            f"{x:.3g}: {y:.3g}" for x, y in zip(self.offset, self.distance, strict=True)
        )
        return (
            f"DistinctnessCurve({{{points}}} by offset in steps, {self.metric}, "
            f"{self.n_frames} frames a view)"
        )


def distinctness_curve(
    views: Any,
    phases: Sequence[Any] | NDArray[np.float64],
    *,
    metric: Metric = "absolute",
    step_s: float = float("nan"),
    device: Device = "cpu",
) -> DistinctnessCurve:
    """Distance of every pair of views of a clip against the offset of their phases.

    Over many clips, put the curves behind one another and give `correlation` the clip
    of each pair as its cluster: pairs of one clip are not independent.

    Parameters
    ----------
    views : array_like, shape (S, b, H, W, 3), uint8; with 'cosine' (S, b, D), float
        Such as ``Clip.frames``.
    phases : sequence of Fraction or float, length S
        Phases of the views in steps, such as ``[grid.phase(s) for s in range(S)]``.
    metric
        As in `visual_distinctness`.
    step_s : float, optional
        Seconds from a frame of a view to the next: duration over budget.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        As in `visual_distinctness`; and the "rms" of host frames is made by Gram
        matrices on a GPU, with cuBLAS, to which every frame travels once for all pairs:
        always with "cuda", and with "auto" from 12 views on. The numbers are the same.

    Returns
    -------
    DistinctnessCurve

    Raises
    ------
    StatisticsError
        If there are fewer than two views or as many phases as views are not given, or
        as `visual_distinctness`.

    Examples
    --------
    >>> frames = np.zeros((3, 1, 2, 2, 3), np.uint8)
    >>> frames[1], frames[2] = 51, 102
    >>> distinctness_curve(frames, [1 / 6, 1 / 2, 5 / 6])
    DistinctnessCurve({0.333: 0.2, 0.333: 0.2, 0.667: 0.4} by offset in steps, \
absolute, 1 frames a view)
    """
    check_choice(metric, _METRICS, "metric")
    check_choice(device, _DEVICES, "device")
    is_there = device != "cpu" and _lies_on_gpu(views)
    frames = views if is_there else as_array(views, "views", StatisticsError)
    shape = tuple(int(n) for n in frames.shape)
    places = np.array([float(phase) for phase in phases])
    if len(shape) < 3 or shape[0] < 2 or shape[1] < 1:
        raise StatisticsError(
            "views must have shape (S, b, ...), S >= 2 views of b >= 1 frames; they "
            f"have {shape}"
        )
    if places.shape != (shape[0],) or not np.isfinite(places).all():
        raise StatisticsError(
            f"{shape[0]} views need as many finite phases, {places.shape} were given"
        )
    pairs = np.array(np.triu_indices(shape[0], 1)).T
    offset = np.abs(places[pairs[:, 1]] - places[pairs[:, 0]])
    order = np.argsort(offset, kind="stable")
    pairs, offset = pairs[order].astype(np.int64), offset[order]
    if is_there:
        from phasefusion.cuda.statistics import view_distances

        check_choice(metric, _PIXELS, "metric of frames on a GPU")
        apart = view_distances(frames, pairs, metric)
    else:
        apart = _distances(frames, pairs, metric, device)
    return DistinctnessCurve(
        distance=np.array([float(row.mean()) for row in apart]),
        offset=offset,
        offset_s=offset * step_s,
        pairs=pairs,
        n_frames=shape[1],
        metric=metric,
    )


def _lies_on_gpu(frames: Any) -> bool:
    if isinstance(frames, np.ndarray):
        return False
    from phasefusion.cuda import arrays

    return arrays.on_gpu(frames)


def _distances(
    frames: NDArray[Any], pairs: NDArray[np.int64], metric: Metric, device: Device
) -> NDArray[np.float64]:
    """Distances of the matched frames of pairs of views of the host, (P, b)."""
    is_video = frames.dtype == np.uint8 and frames.ndim == 5 and frames.shape[-1] == 3
    many = device == "cuda" or (device == "auto" and len(frames) >= VIEWS_OF_A_GPU)
    if metric == "rms" and is_video and many and 0 not in frames.shape:
        from phasefusion.cuda.fallback import warn_once
        from phasefusion.cuda.runtime import own_device
        from phasefusion.cuda.statistics import gram_distances

        try:
            return gram_distances(frames, pairs, device=own_device())
        except (BackendUnavailableError, DeviceMemoryError) as error:
            if device == "cuda":
                raise
            warn_once(str(error), "comparing frames")
    return np.array(
        [
            visual_distinctness(frames[s], frames[t], metric=metric)
            for s, t in pairs.tolist()
        ]
    )
