"""Arrays of other frameworks: where they lie, on whose stream, and new ones like them.

NumPy arrays are of the host. Everything else is asked by DLPack or by the
``__cuda_array_interface__``; nothing is copied, and results are allocated by the
framework that the input came from.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasefusion.errors import FrameError

__all__ = ["DeviceArray", "empty_like", "keep_until", "stream_of", "view"]

LEGACY_STREAM = 1
_CUDA_DEVICES = (2, 13)  # device memory, managed memory
_CODES = {0: "i", 1: "u", 2: "f", 4: "V"}  # 4: bfloat16, which NumPy does not have


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """Memory on a GPU, as another framework describes it."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dtype: str  # NumPy's code without byte order: "u1", "f4"; "V2" for bfloat16
    device: int
    keeper: Any  # the memory lives as long as this


def is_torch(array: Any) -> bool:
    """Whether it is a tensor of torch, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def on_gpu(array: Any) -> bool:
    """Whether the memory of an array is that of a GPU."""
    if isinstance(array, np.ndarray):
        return False
    if is_torch(array):
        return bool(array.is_cuda)
    asked = getattr(array, "__dlpack_device__", None)
    if asked is not None:
        return int(asked()[0]) in _CUDA_DEVICES
    return hasattr(array, "__cuda_array_interface__")


def stream_of(array: Any, stream: Any) -> int:
    """Return the handle of the stream to work on.

    ``stream`` is an int, an object of a framework, or None for the framework's own
    current stream.
    """
    if stream is None and is_torch(array):
        torch = sys.modules["torch"]
        return int(torch.cuda.current_stream(array.device).cuda_stream) or LEGACY_STREAM
    if stream is None:
        cupy = sys.modules.get("cupy")
        if cupy is not None and isinstance(array, cupy.ndarray):
            return int(cupy.cuda.get_current_stream().ptr) or LEGACY_STREAM
        return LEGACY_STREAM
    if isinstance(stream, int) and not isinstance(stream, bool):
        if stream < 0:
            raise FrameError(f"stream must be the handle of a stream, got {stream}")
        return stream or LEGACY_STREAM
    asked = getattr(stream, "__cuda_stream__", None)
    if asked is not None:
        return int(asked()[1]) or LEGACY_STREAM
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name)) or LEGACY_STREAM
    raise FrameError(
        "stream must be the handle of a stream as an int, or an object with "
        f"__cuda_stream__, cuda_stream or ptr; got {stream!r}"
    )


def view(array: Any, stream: int, what: str) -> DeviceArray:
    """Describe an array on a GPU, its pending work ordered before the stream's."""
    if hasattr(array, "__dlpack__"):
        return _by_dlpack(array, stream, what)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        raise FrameError(
            f"{what} must be a NumPy array, or an array on a GPU with __dlpack__ or "
            f"__cuda_array_interface__; got {type(array).__name__}"
        )
    return _by_interface(interface, stream, what)


def _by_dlpack(array: Any, stream: int, what: str) -> DeviceArray:
    from phasefusion import _cuda

    if is_torch(array) and array.requires_grad:
        array = array.detach()
    capsule = array.__dlpack__(stream=stream)
    address, shape, strides, (code, bits, lanes), (kind, device), keeper = (
        _cuda.from_dlpack(capsule)
    )
    if kind not in _CUDA_DEVICES:
        raise FrameError(f"{what} lies on DLPack device type {kind}, not on a GPU")
    dtype = f"{_CODES.get(code, '?')}{bits * lanes // 8}"
    item_bytes = bits * lanes // 8
    if strides is None:
        strides = tuple(n // item_bytes for n in _tight(shape, item_bytes))
    in_bytes = tuple(s * item_bytes for s in strides)
    return DeviceArray(address, shape, in_bytes, dtype, device, keeper)


def _by_interface(given: dict[str, Any], stream: int, what: str) -> DeviceArray:
    from phasefusion import _cuda
    from phasefusion.cuda import runtime

    address = int(given["data"][0])
    try:
        device = _cuda.device_of(runtime.driver(), address)
    except RuntimeError as error:
        raise FrameError(
            f"{what} says that it lies on a GPU, which the driver does not know of: "
            f"{error.args[0]}"
        ) from error
    produced = given.get("stream")
    if produced not in (None, stream):
        with runtime.translated(f"waiting for {what}"):
            _cuda.wait(runtime.device(device).handle, stream, produced)
    dtype = np.dtype(given["typestr"])
    shape = tuple(int(n) for n in given["shape"])
    strides = given.get("strides") or _tight(shape, dtype.itemsize)
    return DeviceArray(
        address,
        shape,
        tuple(int(n) for n in strides),
        f"{dtype.kind}{dtype.itemsize}",
        device,
        given,
    )


def _tight(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    strides = []
    for n in reversed(shape):
        strides.append(item_bytes)
        item_bytes *= max(n, 1)
    return tuple(reversed(strides))


def empty_like(array: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return a new array of the same framework, on the same device."""
    if is_torch(array):
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=array.device)
    namespace = _namespace(array)
    if namespace is None or not hasattr(namespace, dtype):
        raise FrameError(
            f"{type(array).__name__} cannot make a {dtype} array; give one as out"
        )
    return namespace.empty(shape, dtype=getattr(namespace, dtype))


def _namespace(array: Any) -> Any:
    asked = getattr(array, "__array_namespace__", None)
    if asked is not None:
        return asked()
    module = sys.modules.get(type(array).__module__.split(".")[0])
    return module if hasattr(module, "empty") else None


def keep_until(stream: int, *arrays: Any) -> None:
    """Let torch hold the memory of its tensors until the stream has passed.

    Other allocators free memory on the stream that it came from; there the caller keeps
    the arrays, as for kernels of its own.
    """
    for array in arrays:
        if is_torch(array):
            torch = sys.modules["torch"]
            current = torch.cuda.current_stream(array.device).cuda_stream
            if (int(current) or LEGACY_STREAM) != stream:
                other = torch.cuda.ExternalStream(stream, device=array.device)
                array.record_stream(other)
