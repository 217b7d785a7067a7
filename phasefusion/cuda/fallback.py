"""What `phasefusion.resize` and its like do with a device other than the CPU."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._checks import warn
from phasefusion.cuda import arrays, runtime
from phasefusion.cuda.images import resize, resize_normalize
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceMemoryError,
    FallbackWarning,
)
from phasefusion.frames import (
    Filter,
    FirstPass,
    _check_options,
    _resize,
    _resize_normalize,
)

__all__ = ["resize_or_fall_back", "run_or_fall_back", "warn_once"]

_fallen_back: set[str] = set()


def run_or_fall_back(
    frames: Any,
    size: tuple[int, int],
    *,
    mean: ArrayLike,
    std: ArrayLike,
    filter: Filter,
    first_pass: FirstPass,
    out: Any,
    threads: int,
    required: bool,
    stream: Any,
) -> Any:
    """Do what `phasefusion.resize_normalize` does with a device other than "cpu"."""
    _check_options(filter, first_pass, threads)
    try:
        return resize_normalize(
            frames,
            size,
            mean=mean,
            std=std,
            filter=filter,
            first_pass=first_pass,
            out=out,
            stream=stream,
            device=runtime.own_device(),
        )
    except (BackendUnavailableError, DeviceMemoryError) as error:
        if required:
            raise
        warn_once(str(error))
    host = _fetch(frames)
    made = _resize_normalize(
        host,
        size,
        mean=mean,
        std=std,
        filter=filter,
        first_pass=first_pass,
        out=out if isinstance(out, np.ndarray) else None,
        threads=threads,
        level="auto",
    )
    return _send_back(made, frames, out)


def resize_or_fall_back(
    frames: Any,
    size: tuple[int, int],
    *,
    filter: Filter,
    first_pass: FirstPass,
    threads: int,
    required: bool,
    stream: Any,
) -> Any:
    """Do what `phasefusion.resize` does with a device other than "cpu"."""
    _check_options(filter, first_pass, threads)
    try:
        how: Any = {"filter": filter, "first_pass": first_pass}
        own = runtime.own_device()
        return resize(frames, size, **how, stream=stream, device=own)
    except (BackendUnavailableError, DeviceMemoryError) as error:
        if required:
            raise
        warn_once(str(error))
    made = _resize(_fetch(frames), size, **how, threads=threads, level="auto")
    return _send_back(made, frames, None)


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
