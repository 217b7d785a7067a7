"""At which size and in which form frames leave the decoder."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.errors import FrameError
from phasefusion.frames import (
    Device,
    Filter,
    FirstPass,
    _check_channels,
    _check_options,
    _check_size,
    check_device,
)

if TYPE_CHECKING:
    from phasefusion._video import Reader

_HUGE_BYTES = 2**22  # from here on NumPy asks for huge pages
_READY_BYTES = 2**28

SizeRule: TypeAlias = Callable[[int, int, int], "tuple[int, int] | None"]
FrameSize: TypeAlias = "tuple[int, int] | SizeRule | None"
Pixels: TypeAlias = NDArray[Any]  # uint8, or float32 when normalised


@dataclass(frozen=True, slots=True)
class Fit:
    """What is done to every frame as it is decoded; by default nothing.

    Attributes
    ----------
    size : (int, int), callable or None
        Height and width; or what gives them for (height, width, frames of a phase).
    normalise : tuple of six floats or None
        Means, then stds.
    filter, first_pass : str
        As for `frames.resize`.
    device : {"cpu", "cuda", "auto"}
        Where it is done; the pixels are the same.
    """

    size: FrameSize = None
    normalise: tuple[float, float, float, float, float, float] | None = None
    filter: Filter = "bicubic"
    first_pass: FirstPass = "auto"
    device: Device = "cpu"

    @classmethod
    def checked(
        cls,
        size: FrameSize,
        mean: ArrayLike | None,
        std: ArrayLike | None,
        filter: Filter,
        first_pass: FirstPass,
        device: Device = "cpu",
    ) -> Fit:
        """Return the fit, or say which argument cannot be."""
        _check_options(filter, first_pass, 1)
        check_device(device)
        if size is not None and not callable(size):
            size = _check_size(size)
        if (mean is None) != (std is None):
            raise FrameError("mean and std go together; one of them was not given")
        if mean is None or std is None:
            return cls(size, None, filter, first_pass, device)
        means, stds = _check_channels(mean, "mean"), _check_channels(std, "std")
        if 0.0 in stds:
            raise FrameError(f"std must not be 0 in float32, got {std!r}")
        return cls(size, (*means, *stds), filter, first_pass, device)

    @property
    def leaves_frames(self) -> bool:
        """Whether frames come out as they were decoded."""
        return self.size is None and self.normalise is None

    def shape(self, height: int, width: int, n_frames: int) -> tuple[int, int, int]:
        """Shape of one frame in the result, for a phase of `n_frames` frames."""
        chosen = self.size
        if callable(chosen):
            chosen = chosen(height, width, n_frames)
        if chosen is not None:
            height, width = _check_size(chosen)
        return (height, width, 3) if self.normalise is None else (3, height, width)

    @property
    def dtype(self) -> type[np.uint8] | type[np.float32]:
        """Type of the values in the result."""
        return np.uint8 if self.normalise is None else np.float32

    def empty(self, n_frames: int, shape: tuple[int, int, int], threads: int) -> Pixels:
        """Room for frames of that shape."""
        return new_pixels((n_frames, *shape), self.dtype, threads)

    def read(
        self,
        reader: Reader,
        indices: NDArray[np.int64],
        outs: Sequence[Pixels],
        threads: int,
    ) -> tuple[NDArray[np.uint8], bool]:
        """Decode frames into `outs`; the state of each, and whether errors were met."""
        if self.leaves_frames:
            return reader.read(indices, tuple(outs), threads, False)
        if self.device != "cpu" and len(indices):
            from phasefusion.cuda.decoding import read_fitted

            read = read_fitted(self, reader, indices, outs, threads)
            if read is not None:
                return read
        return reader.read_fitted(
            indices,
            tuple(outs),
            self.normalise,
            self.filter,
            self.first_pass,
            threads,
        )


def new_pixels(
    shape: tuple[int, ...], dtype: type[np.uint8] | type[np.float32], threads: int
) -> Pixels:
    """Room for pixels that so many threads write.

    NumPy asks for huge pages where an array is large. The kernel may have to move
    other memory out of the way for them, which took a tenth of the time of a decode;
    ordinary pages cost the same everywhere. They are made ready all at once for one
    thread; several share that work as they write.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if n_bytes < _HUGE_BYTES or not hasattr(mmap, "MAP_POPULATE"):
        return np.empty(shape, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if threads == 1 and n_bytes <= _READY_BYTES:  # it cannot be interrupted
        flags |= mmap.MAP_POPULATE
    try:
        pages = mmap.mmap(-1, n_bytes, flags=flags)
    except OSError as error:
        raise MemoryError(f"{n_bytes} bytes for frames: {error}") from error
    return np.ndarray(shape, dtype, pages)
