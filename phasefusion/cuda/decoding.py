"""Frames that go from the decoder to a GPU as it has them, and come back resized.

The decoder hands over Y, U and V, half the bytes of RGB, a chunk at a time. One thread
sends a chunk through the kernels while the next one is decoded; full-size frames are
held for two chunks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._video_checks import check_room
from phasefusion._video_fit import new_pixels
from phasefusion.cuda import images, runtime
from phasefusion.cuda.fallback import warn_once
from phasefusion.cuda.sources import YuvFrames, source_of
from phasefusion.errors import BackendUnavailableError, DeviceMemoryError, VideoError

if TYPE_CHECKING:
    from phasefusion._video import Reader
    from phasefusion._video_fit import Fit, Pixels
    from phasefusion._video_records import VideoInfo

__all__ = ["plane_shapes", "read_fitted", "read_planes"]

#: Full-size frames that are decoded before a GPU gets them; one at least.
CHUNK_BYTES = 2**25

Read: TypeAlias = "tuple[NDArray[np.uint8], bool]"
Chunk: TypeAlias = "tuple[NDArray[np.uint8], ...]"


def plane_shapes(height: int, width: int) -> tuple[tuple[int, int], ...]:
    """Shapes of Y, U and V.

    Examples
    --------
    >>> plane_shapes(97, 160)
    ((97, 160), (49, 80), (49, 80))
    """
    half = (height + 1) // 2, (width + 1) // 2
    return (height, width), half, half


def read_fitted(
    fit: Fit,
    reader: Reader,
    indices: NDArray[np.int64],
    outs: Sequence[Pixels],
    threads: int,
) -> Read | None:
    """Decode frames into `outs` as `Fit.read` does, resized and normalised on a GPU.

    Pictures that have no 8-bit planes with chroma of half the size are made RGB by the
    decoder first.

    Returns
    -------
    read : (ndarray, bool) or None
        As of `Fit.read`. None where ``fit.device`` is "auto" and no GPU can be used,
        which is warned of once.

    Raises
    ------
    BackendUnavailableError, DeviceMemoryError
        With "cuda" alone.
    DeviceError, VideoError
        As `phasefusion.cuda.resize` and `Fit.read`.
    """
    try:
        device = runtime.own_device()
        runtime.device(device)  # before anything is decoded
        raw = reader.info()
        height, width = int(raw["height"]), int(raw["width"])
        for shapes in (plane_shapes(height, width), ((height, width, 3),)):
            sender = _Sender(fit, outs, shapes, len(indices), device)
            read = sender.run(reader, indices, threads)
            if read is not None:
                return read
    except (BackendUnavailableError, DeviceMemoryError) as error:
        if fit.device == "cuda":
            raise
        warn_once(str(error))
    return None


def read_planes(
    reader: Reader, info: VideoInfo, indices: NDArray[np.int64], threads: int
) -> tuple[YuvFrames, NDArray[np.uint8]]:
    """Decode frames to their planes, and the state of each; see `Video.read_planes`."""
    n = len(indices)
    shapes = plane_shapes(info.height, info.width)
    check_room(info.path, [(n, (info.height, info.width, 2))], np.uint8)
    y, u, v = (new_pixels((n, *shape), np.uint8, threads) for shape in shapes)
    if not n:
        return YuvFrames(y, u, v), np.empty(0, np.uint8)
    frames: list[YuvFrames] = []

    def take(
        chunk: int, slots: NDArray[np.int64], matrix: Any, full_range: bool
    ) -> bool:
        frames.append(YuvFrames(y, u, v, matrix, full_range))
        return True

    read = reader.read_chunks(indices, ((y, u, v),), take, threads)
    if read is None:
        turned = f", turned by {info.rotation}" if info.rotation else ""
        raise VideoError(
            f"{info.path}: its pictures ({info.pixel_format}, {info.width}x"
            f"{info.height}{turned}) cannot be had as 8-bit planes of one matrix, "
            "range and size with chroma of half the size; read gives any picture as RGB"
        )
    return frames[0], read[0]


class _Sender:
    """Takes chunks from the decoder and puts what becomes of them into arrays."""

    def __init__(
        self,
        fit: Fit,
        outs: Sequence[Pixels],
        shapes: Sequence[tuple[int, ...]],
        n_frames: int,
        device: int,
    ) -> None:
        self._fit, self._outs, self._device = fit, outs, device
        self._table = None
        if fit.normalise is not None:
            self._table = images.normalise_table(fit.normalise[:3], fit.normalise[3:])
        frame_bytes = sum(int(np.prod(shape)) for shape in shapes)
        room = max(1, min(n_frames, CHUNK_BYTES // frame_bytes))
        n_chunks = 1 if room >= n_frames else 2
        self._chunks: tuple[Chunk, ...] = tuple(
            tuple(np.empty((room, *shape), np.uint8) for shape in shapes)
            for _ in range(n_chunks)
        )
        self._pending: Future[None] | None = None
        self._error: BaseException | None = None

    def run(
        self, reader: Reader, indices: NDArray[np.int64], threads: int
    ) -> Read | None:
        """Decode and send everything; None when pictures are not of this form."""
        with runtime.held(self._device), ThreadPoolExecutor(1) as self._worker:
            self._worker.submit(int).result()  # started here, not by a decoder
            read = reader.read_chunks(indices, self._chunks, self._take, threads)
            self._wait()
        if self._error is not None:
            raise self._error
        return read

    def _take(
        self, chunk: int, slots: NDArray[np.int64], matrix: str, full_range: bool
    ) -> bool:
        """Start to send a chunk, once the one before it is through."""
        self._wait()
        if self._error is None:
            arguments = chunk, slots, matrix, full_range
            self._pending = self._worker.submit(self._send, *arguments)
            if len(self._chunks) == 1:
                self._wait()
        return self._error is None

    def _wait(self) -> None:
        """Wait for the chunk that is on its way, if there is one."""
        pending, self._pending = self._pending, None
        if pending is not None and self._error is None:
            self._error = pending.exception()

    def _send(
        self, chunk: int, slots: NDArray[np.int64], matrix: Any, full_range: bool
    ) -> None:
        planes = [plane[: len(slots)] for plane in self._chunks[chunk]]
        frames: Any = planes[0]
        if len(planes) == 3:
            y, u, v = planes
            frames = YuvFrames(y, u, v, matrix, full_range)
        first = 0
        for out in self._outs:
            places = np.flatnonzero((first <= slots) & (slots < first + len(out)))
            if len(places):
                out[slots[places] - first] = self._fitted(frames, out, places)
            first += len(out)

    def _fitted(self, frames: Any, out: Pixels, places: NDArray[np.intp]) -> Pixels:
        """Return the frames at these places of the chunk as `out` has them."""
        fit, table = self._fit, self._table
        size = out.shape[1:3] if table is None else out.shape[2:]
        how = fit.filter, fit.first_pass
        whole = source_of(frames, size, *how, None, self._device)
        part = replace(whole, planes=whole.planes[places], lead=(len(places),))
        dtype = "uint8" if table is None else "float32"
        recipe = images.Recipe(*how, dtype, table)
        made: Pixels = images.make(part, size, (len(places), *out.shape[1:]), recipe)
        return made
