"""Resize and normalise decoded frames exactly as the models' own preprocessing does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _frames
from phasefusion._arrays import as_array
from phasefusion.errors import FrameError

Filter: TypeAlias = Literal["box", "bilinear", "hamming", "bicubic", "lanczos"]
FirstPass: TypeAlias = Literal["auto", "horizontal", "vertical"]
Device: TypeAlias = Literal["cpu", "cuda", "auto"]
Level: TypeAlias = Literal["auto", "scalar", "avx2", "avx512"]

__all__ = ["Device", "Filter", "FirstPass", "cpu_level", "resize", "resize_normalize"]

_MAX_PX = 1 << 24  # of an axis; the weights are exact up to here


def cpu_level() -> Literal["scalar", "avx2", "avx512"]:
    """Name the instruction set that the resize uses on this processor.

    Returns
    -------
    level : {"scalar", "avx2", "avx512"}
        Every level gives the same bits; it decides the speed alone. "avx512" stands
        for F, BW, DQ, VL, VBMI and VNNI together.

    Examples
    --------
    >>> cpu_level() in ("scalar", "avx2", "avx512")
    True
    """
    return _frames.cpu_level()


@overload
def resize(
    frames: NDArray[np.uint8],
    size: tuple[int, int],
    *,
    filter: Filter = ...,
    first_pass: FirstPass = ...,
    threads: int = ...,
    device: Device = ...,
    stream: Any = ...,
) -> NDArray[np.uint8]: ...
@overload
def resize(
    frames: Any,
    size: tuple[int, int],
    *,
    filter: Filter = ...,
    first_pass: FirstPass = ...,
    threads: int = ...,
    device: Literal["cuda", "auto"],
    stream: Any = ...,
) -> Any: ...
def resize(
    frames: Any,
    size: tuple[int, int],
    *,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    threads: int = 1,
    device: Device = "cpu",
    stream: Any = None,
) -> Any:
    """Resize RGB frames, byte for byte as ``PIL.Image.resize`` does.

    Parameters
    ----------
    frames : ndarray, shape (..., H, W, 3), uint8
        Interleaved RGB. Any leading axes and strides; a copy is made only when the
        pixels of a row are not contiguous.
    size : (int, int)
        Height and width of the result in pixels (Pillow's own order is width first).
    filter : {"bicubic", "bilinear", "lanczos", "hamming", "box"}
        Pillow's filter of that name, widened when the picture shrinks (antialiased).
    first_pass : {"auto", "horizontal", "vertical"}
        Pixels are rounded between the two passes, so their order shows. "auto" is
        that of Pillow 13: vertical first when the height shrinks and loses more than
        twice the pixels that the width loses, as portrait pictures made square do.
        Pillow up to 12 always began with the "horizontal" pass; a model whose
        preprocessing is pinned to it wants this.
    threads : int, default 1
        Threads that share the work on the CPU; none outlives the call.
    device, stream
        As in `resize_normalize`.

    Returns
    -------
    resized : ndarray, shape (..., h, w, 3), uint8

    Raises
    ------
    FrameError
        If frames is not uint8 with shape (..., H, W, 3) and H, W >= 1, or the size,
        the filter or the number of threads is not valid.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        As `resize_normalize`.

    Examples
    --------
    >>> frames = np.zeros((2, 4, 6, 3), np.uint8)
    >>> frames[..., 0] = 200
    >>> resize(frames, (2, 3))[1, 0]
    array([[200,   0,   0],
           [200,   0,   0],
           [200,   0,   0]], dtype=uint8)
    """
    how: Any = {"filter": filter, "first_pass": first_pass, "threads": threads}
    if device != "cpu":
        from phasefusion.cuda.fallback import run_or_fall_back

        return run_or_fall_back(_resize, frames, size, device, stream, **how)
    return _resize(frames, size, **how, level="auto")


@overload
def resize_normalize(
    frames: NDArray[np.uint8],
    size: tuple[int, int],
    *,
    mean: ArrayLike,
    std: ArrayLike,
    filter: Filter = ...,
    first_pass: FirstPass = ...,
    out: NDArray[np.float32] | None = ...,
    threads: int = ...,
    device: Device = ...,
    stream: Any = ...,
) -> NDArray[np.float32]: ...
@overload
def resize_normalize(
    frames: Any,
    size: tuple[int, int],
    *,
    mean: ArrayLike,
    std: ArrayLike,
    filter: Filter = ...,
    first_pass: FirstPass = ...,
    out: Any = ...,
    threads: int = ...,
    device: Literal["cuda", "auto"],
    stream: Any = ...,
) -> Any: ...
def resize_normalize(
    frames: Any,
    size: tuple[int, int],
    *,
    mean: ArrayLike,
    std: ArrayLike,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    out: Any = None,
    threads: int = 1,
    device: Device = "cpu",
    stream: Any = None,
) -> Any:
    """Resize RGB frames and normalise them to channel-first float32 planes.

    The pixels are those of `resize`; each then becomes
    ``(v * float32(1/255) - mean) / std``, three float32 operations in that order, bit
    for bit what NumPy gives. The resized uint8 batch is never stored.

    Parameters
    ----------
    frames : ndarray, shape (..., H, W, 3), uint8
        Interleaved RGB. Any leading axes and strides; a copy is made only when the
        pixels of a row are not contiguous.
    size : (int, int)
        Height and width of the result in pixels.
    mean, std : three floats
        Per channel, red first, in units of a picture scaled to [0, 1]; rounded to
        float32. A std must not be 0.
    filter : {"bicubic", "bilinear", "lanczos", "hamming", "box"}
        Pillow's filter of that name.
    first_pass : {"auto", "horizontal", "vertical"}
        As in `resize`.
    out : ndarray, shape (..., 3, h, w), float32, optional
        C-contiguous array for the result; it must not share memory with frames.
    threads : int, default 1
        Threads that share the work on the CPU; none outlives the call.
    device : {"cpu", "cuda", "auto"}
        Where the work is done; the bits are the same. On a GPU, frames and out may be
        arrays of torch or cupy there, and the result is of the same kind
        (`phasefusion.cuda.resize_normalize` has more types and layouts). "auto" takes
        the CPU when there is no usable GPU, with one `FallbackWarning`.
    stream : optional
        The stream of the GPU to work on, as in `phasefusion.cuda.resize`.

    Returns
    -------
    planes : ndarray, shape (..., 3, h, w), float32
        `out` if it was given.

    Raises
    ------
    FrameError
        If an argument is not as described; the message names it and its value.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        With a device alone: there is no GPU, its memory is full, or it refuses.

    Examples
    --------
    >>> frames = np.full((4, 6, 3), 51, np.uint8)
    >>> planes = resize_normalize(frames, (2, 3), mean=[0.5] * 3, std=[0.5] * 3)
    >>> planes.shape
    (3, 2, 3)
    >>> planes[0, 0].round(3)
    array([-0.6, -0.6, -0.6], dtype=float32)
    """
    how: Any = {"filter": filter, "first_pass": first_pass, "threads": threads}
    how |= {"mean": mean, "std": std, "out": out}
    if device != "cpu":
        from phasefusion.cuda.fallback import run_or_fall_back

        return run_or_fall_back(_resize_normalize, frames, size, device, stream, **how)
    return _resize_normalize(frames, size, **how, level="auto")


def _resize(
    frames: NDArray[np.uint8],
    size: tuple[int, int],
    *,
    filter: Filter,
    first_pass: FirstPass,
    threads: int,
    level: Level,
) -> NDArray[np.uint8]:
    """Do what `resize` does, for tests and benchmarks with one instruction set."""
    frames = _check_frames(frames)
    height, width = _check_size(size)
    _check_options(filter, first_pass, threads)
    out = np.empty((*frames.shape[:-3], height, width, 3), np.uint8)
    _frames.resize(frames, out, filter, first_pass, level, threads)
    return out


def _resize_normalize(
    frames: NDArray[np.uint8],
    size: tuple[int, int],
    *,
    mean: ArrayLike,
    std: ArrayLike,
    filter: Filter,
    first_pass: FirstPass,
    out: NDArray[np.float32] | None,
    threads: int,
    level: Level,
) -> NDArray[np.float32]:
    """Do what `resize_normalize` does, with one instruction set."""
    frames = _check_frames(frames)
    height, width = _check_size(size)
    _check_options(filter, first_pass, threads)
    means = _check_channels(mean, "mean")
    stds = _check_channels(std, "std")
    if 0.0 in stds:
        raise FrameError(f"std must not be 0 in float32, got {std!r}")
    shape = (*frames.shape[:-3], 3, height, width)
    if out is None:
        out = np.empty(shape, np.float32)
    else:
        _check_out(out, shape, frames)
    _frames.resize_normalize(
        frames, out, means, stds, filter, first_pass, level, threads
    )
    return out


def _check_frames(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the frames with contiguous rows: a view if possible, else one copy."""
    if not isinstance(frames, np.ndarray) or frames.dtype != np.uint8:
        got = getattr(frames, "dtype", type(frames).__name__)
        raise FrameError(
            f"frames must be a NumPy array of uint8, got {got}; scaled floats have "
            "lost the rounding that an exact resize needs"
        )
    frames = as_array(frames, "frames", FrameError)
    if frames.ndim < 3 or frames.shape[-1] != 3:
        raise FrameError(
            f"frames must have shape (..., height, width, 3), got {frames.shape}; "
            "convert grey or RGBA to RGB, and move a leading channel axis to the end"
        )
    height, width = frames.shape[-3:-1]
    if not (1 <= height <= _MAX_PX and 1 <= width <= _MAX_PX):
        raise FrameError(
            f"frames must be 1 to {_MAX_PX} pixels high and wide, got shape "
            f"{frames.shape}"
        )
    if frames.strides[-1] != 1 or (width > 1 and frames.strides[-2] != 3):
        frames = np.ascontiguousarray(frames)
    return frames


def _check_size(size: Any) -> tuple[int, int]:
    """Return height and width as int, or show the size that cannot be."""
    if (
        isinstance(size, (str, bytes))
        or not isinstance(size, (Sequence, np.ndarray))
        or len(size) != 2
        or not all(
            isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in size
        )
        or not all(1 <= n <= _MAX_PX for n in size)
    ):
        raise FrameError(
            f"size must be (height, width), two integers from 1 to {_MAX_PX}, got "
            f"{size!r}"
        )
    return int(size[0]), int(size[1])


def _check_options(filter: str, first_pass: str, threads: int) -> None:
    if filter not in get_args(Filter):
        names = ", ".join(get_args(Filter))
        raise FrameError(f"filter must be one of {names}; got {filter!r}")
    if first_pass not in get_args(FirstPass):
        names = ", ".join(get_args(FirstPass))
        raise FrameError(f"first_pass must be one of {names}; got {first_pass!r}")
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)):
        raise FrameError(f"threads must be an integer, got {threads!r}")
    if threads < 1:
        raise FrameError(f"threads must be at least 1, got {threads}")


def check_device(device: str) -> None:
    if device not in get_args(Device):
        raise FrameError(f"device must be cpu, cuda or auto; got {device!r}")


def _check_channels(values: ArrayLike, name: str) -> tuple[float, float, float]:
    """Round three finite numbers to float32."""
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(values, np.float64).astype(np.float32)
    except (TypeError, ValueError):
        array = np.empty(0, np.float32)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise FrameError(
            f"{name} must be three finite float32 numbers, one a channel, got "
            f"{values!r}"
        )
    red, green, blue = (float(v) for v in array)
    return red, green, blue


def _check_out(
    out: NDArray[np.float32], shape: tuple[int, ...], frames: NDArray[np.uint8]
) -> None:
    if not isinstance(out, np.ndarray) or out.dtype != np.float32:
        got = getattr(out, "dtype", type(out).__name__)
        raise FrameError(f"out must be a NumPy array of float32, got {got}")
    if out.shape != shape:
        raise FrameError(f"out must have shape {shape}, got {out.shape}")
    if not (out.flags.c_contiguous and out.flags.writeable and out.flags.aligned):
        raise FrameError(
            "out must be C-contiguous, aligned and writable; got strides "
            f"{out.strides}, writeable={out.flags.writeable}"
        )
    if np.may_share_memory(out, frames):
        raise FrameError("out must not share memory with frames")
