"""Frames as the kernels take them: addresses, pitches and sizes, all checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion.cuda import arrays
from phasefusion.errors import FrameError
from phasefusion.frames import _check_frames, _check_options, _check_size

__all__ = ["Source", "YuvFrames", "source_of"]

Matrix: TypeAlias = Literal["bt601", "bt709", "bt2020", "fcc", "smpte240m"]

#: Luma weights of red and blue; those of the decoder's own conversion.
LUMA_WEIGHTS: dict[str, tuple[float, float]] = {
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
}
_RGB24, _NV12, _I420 = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class YuvFrames:
    """Frames as decoders have them: luma, and chroma of half the size.

    Attributes
    ----------
    y : array, shape (..., H, W), uint8
    u : array, uint8
        Shape (..., ceil(H / 2), ceil(W / 2)) beside `v` (I420), or
        (..., ceil(H / 2), ceil(W / 2), 2) with U and V in turn (NV12).
    v : array or None
        As `u`; None for NV12.
    matrix : {"bt601", "bt709", "bt2020", "fcc", "smpte240m"}
    full_range : bool
        Whether luma goes from 0 to 255 instead of 16 to 235.
    """

    y: Any
    u: Any
    v: Any = None
    matrix: Matrix = "bt601"
    full_range: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Frames, ready for the kernels."""

    pixels: int
    like: Any  # the array whose framework makes the result
    on_gpu: bool
    device: int
    lead: tuple[int, ...]
    size: tuple[int, int]
    planes: NDArray[np.int64]  # (n, 3) addresses
    row_bytes: tuple[int, int]
    colour: tuple[int, int, int, int, int, int]
    keepers: tuple[Any, ...]


def source_of(
    frames: Any, size: Any, filter: str, first_pass: str, stream: Any, device: int
) -> Source:
    """Check the frames and everything that goes with them."""
    _check_size(size)
    _check_options(filter, first_pass, 1)
    if isinstance(frames, YuvFrames):
        return _check_yuv(frames, stream, device)
    if arrays.on_gpu(frames):
        handle = arrays.stream_of(frames, stream)
        view = arrays.view(frames, handle, "frames")
        shape = _check_view(view, "frames", (3,))
        size_px = (shape[-3], shape[-2])
        planes = _addresses(view.address, shape[:-3], view.strides[:-3])
        return Source(
            _RGB24,
            frames,
            True,
            view.device,
            shape[:-3],
            size_px,
            planes,
            (view.strides[-3], 0),
            (0,) * 6,
            (view.keeper,),
        )
    host = _check_frames(_on_host(frames))
    planes = _addresses(host.ctypes.data, host.shape[:-3], host.strides[:-3])
    return Source(
        _RGB24,
        frames,
        False,
        device,
        host.shape[:-3],
        (host.shape[-3], host.shape[-2]),
        planes,
        (host.strides[-3], 0),
        (0,) * 6,
        (host,),
    )


def _on_host(frames: Any) -> Any:
    """Return a tensor of torch on the CPU as the NumPy array that it is."""
    return frames.numpy() if arrays.is_torch(frames) else frames


def _check_view(
    view: arrays.DeviceArray, what: str, last: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the shape (..., H, W, *last), or say what is wrong with the array."""
    n_last = len(last)
    if view.dtype != "u1":
        raise FrameError(f"{what} must be uint8, got {view.dtype}")
    if len(view.shape) < 2 + n_last or view.shape[len(view.shape) - n_last :] != last:
        raise FrameError(
            f"{what} must have shape (..., height, width{', 3' if last == (3,) else ''}"
            f"{', 2' if last == (2,) else ''}), got {view.shape}"
        )
    wanted = arrays._tight(view.shape, 1)[-1 - n_last :]
    if view.strides[-1 - n_last :] != wanted and view.shape[-1 - n_last] > 1:
        raise FrameError(
            f"{what} must have contiguous rows, got strides {view.strides} for shape "
            f"{view.shape}; make it contiguous first"
        )
    if min(view.shape[-2 - n_last :]) < 1:
        raise FrameError(f"{what} must have pixels, got shape {view.shape}")
    return view.shape


def _addresses(
    first: int, lead: tuple[int, ...], strides: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the addresses (n, 3) of the frames; there are no further planes yet."""
    at = np.full(lead, first, np.int64)
    for axis, (n, stride) in enumerate(zip(lead, strides, strict=True)):
        steps = np.arange(n, dtype=np.int64) * stride
        at += steps.reshape((-1,) + (1,) * (len(lead) - axis - 1))
    planes = np.zeros((at.size, 3), np.int64)
    planes[:, 0] = at.ravel()
    return planes


def _plane(array: Any, stream: Any, what: str, last: tuple[int, ...]) -> Any:
    """Return (view, keeper) of one plane of YUV frames, on a GPU or not."""
    if arrays.on_gpu(array):
        view = arrays.view(array, arrays.stream_of(array, stream), what)
        _check_view(view, what, last)
        return view
    host = _on_host(array)
    if not isinstance(host, np.ndarray):
        raise FrameError(f"{what} must be an array, got {type(host).__name__}")
    tight = arrays._tight(host.shape, 1)[-1 - len(last) :]
    if host.strides[-1 - len(last) :] != tight:
        host = np.ascontiguousarray(host)
    dtype = f"{host.dtype.kind}{host.dtype.itemsize}"
    view = arrays.DeviceArray(
        host.ctypes.data, host.shape, host.strides, dtype, -1, host
    )
    _check_view(view, what, last)
    return view


def _check_yuv(frames: YuvFrames, stream: Any, device: int) -> Source:
    from phasefusion import _cuda

    if frames.matrix not in LUMA_WEIGHTS:
        names = ", ".join(LUMA_WEIGHTS)
        raise FrameError(f"matrix must be one of {names}; got {frames.matrix!r}")
    nv12 = frames.v is None
    last = (2,) if nv12 else ()
    y = _plane(frames.y, stream, "y", ())
    chroma = [_plane(frames.u, stream, "u", last)]
    if not nv12:
        chroma.append(_plane(frames.v, stream, "v", ()))
    height, width = y.shape[-2:]
    wanted = (*y.shape[:-2], (height + 1) // 2, (width + 1) // 2, *last)
    planes = _addresses(y.address, y.shape[:-2], y.strides[:-2])
    for i, plane in enumerate(chroma):
        if plane.shape != wanted or plane.device != y.device:
            raise FrameError(
                f"{'uv'[i]} must have shape {wanted} beside y of shape {y.shape}, on "
                f"the same device; got {plane.shape} on device {plane.device}"
            )
        n_last = 2 + len(last)
        lead = _addresses(plane.address, plane.shape[:-n_last], plane.strides[:-n_last])
        planes[:, 1 + i] = lead[:, 0]
    row_bytes = {plane.strides[-2 - len(last)] for plane in chroma}
    if len(row_bytes) > 1:
        raise FrameError(f"u and v must have rows of one pitch, got {row_bytes} bytes")
    red, blue = LUMA_WEIGHTS[frames.matrix]
    return Source(
        _NV12 if nv12 else _I420,
        frames.y,
        y.device >= 0,
        y.device if y.device >= 0 else device,
        y.shape[:-2],
        (height, width),
        planes,
        (y.strides[-2], row_bytes.pop()),
        _cuda.colour(red, blue, frames.full_range),
        (y.keeper, *(plane.keeper for plane in chroma)),
    )
