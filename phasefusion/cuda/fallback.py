"""What `phasefusion.resize` and its like do with a device other than the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from phasefusion._checks import warn
from phasefusion.cuda import arrays, runtime
from phasefusion.cuda.images import resize, resize_normalize
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceMemoryError,
    FallbackWarning,
)
from phasefusion.frames import (
    Device,
    _check_options,
    _resize,
    _resize_normalize,
    check_device,
)

__all__ = ["run_or_fall_back", "warn_once"]

_fallen_back: set[str] = set()

_ON_GPU: dict[Callable[..., Any], Callable[..., Any]] = {
    _resize: resize,
    _resize_normalize: resize_normalize,
}


def run_or_fall_back(
    on_cpu: Callable[..., Any],
    frames: Any,
    size: tuple[int, int],
    device: Device,
    stream: Any,
    *,
    threads: int,
    **options: Any,
) -> Any:
    """Do on a GPU what `on_cpu` does; or do that, where "auto" finds none to use."""
    check_device(device)
    _check_options(options["filter"], options["first_pass"], threads)
    on_gpu = _ON_GPU[on_cpu]
    try:
        own = runtime.own_device()
        return on_gpu(frames, size, **options, stream=stream, device=own)
    except (BackendUnavailableError, DeviceMemoryError) as error:
        if device == "cuda":
            raise
        warn_once(str(error))
    out = options.get("out")
    if out is not None and not isinstance(out, np.ndarray):
        options["out"] = None
    made = on_cpu(_fetch(frames), size, **options, threads=threads, level="auto")
    return _send_back(made, frames, out)


def warn_once(reason: str, doing: str = "resizing") -> None:
    """Warn that the CPU does what a GPU was to do, once for each reason."""
    if reason not in _fallen_back:
        _fallen_back.add(reason)
        warn(
            f"{doing} on the CPU, with the same result: {reason}",
            FallbackWarning,
        )


def _fetch(frames: Any) -> NDArray[np.uint8]:
    """Return frames in the host's memory."""
    if isinstance(frames, np.ndarray):
        return frames
    if arrays.is_torch(frames):
        return cast(NDArray[np.uint8], frames.detach().cpu().numpy())
    if hasattr(frames, "get"):  # cupy
        return np.asarray(frames.get())
    raise BackendUnavailableError(
        f"frames of type {type(frames).__name__} can be resized on a GPU alone, and "
        f"there is none: {runtime.why()}"
    )


def _send_back(made: NDArray[Any], frames: Any, out: Any) -> Any:
    """Return a result of the host as the kind of array that frames are."""
    if isinstance(frames, np.ndarray):
        return made
    if arrays.is_torch(frames):
        import torch

        tensor = torch.from_numpy(made)
        return tensor.to(frames.device) if out is None else out.copy_(tensor)
    target = out
    if target is None:
        target = arrays.empty_like(frames, made.shape, made.dtype.name)
    target.set(made)
    return target
