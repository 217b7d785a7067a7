"""Resize and normalise frames on a GPU, bit for bit as the CPU does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion.cuda import arrays, choice, runtime
from phasefusion.cuda.choice import Variant
from phasefusion.cuda.sources import Source, YuvFrames, source_of
from phasefusion.errors import FrameError
from phasefusion.frames import Filter, FirstPass, _check_size, _resize_normalize

__all__ = [
    "DType",
    "Recipe",
    "YuvFrames",
    "make",
    "normalise_table",
    "resize",
    "resize_normalize",
    "resize_normalize_many",
    "resize_patches",
]

DType: TypeAlias = Literal["float32", "float16", "bfloat16"]

_CODES = {"float32": "f4", "float16": "f2", "bfloat16": "V2", "uint8": "u1"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How frames are resized, and what is written of them where.

    Attributes
    ----------
    filter, first_pass : str
        As in `phasefusion.resize`.
    dtype : str
        Of what is written.
    table : ndarray, shape (3, 256), float32, or None
        What byte v of channel c becomes, channel by channel; with none, bytes are
        written as they are, the channels of a pixel together.
    patch : (int, int, int, int)
        Height and width of a patch in pixels (0: the frame is whole), patches a side of
        a merged block, frames a patch.
    variant : str
        The kernel, or "auto"; the values are the same.
    """

    filter: Filter = "bicubic"
    first_pass: FirstPass = "auto"
    dtype: str = "uint8"
    table: NDArray[np.float32] | None = None
    patch: tuple[int, int, int, int] = (0, 0, 1, 1)
    variant: Variant = "auto"

    def __post_init__(self) -> None:
        """Refuse types that no kernel writes: bytes have no table, all others one."""
        if self.dtype not in _CODES or (self.dtype == "uint8") != (self.table is None):
            raise FrameError(
                f"dtype must be one of float32, float16, bfloat16; got {self.dtype!r}"
            )

    @property
    def item_bytes(self) -> int:
        """Bytes of a value."""
        return int(_CODES[self.dtype][1])

    @property
    def places(self) -> tuple[bool, int, int, int, int]:
        """Where values go, as `_cuda.resize` wants it."""
        return (self.table is None, *self.patch)

    def bits(self) -> NDArray[Any] | None:
        """Bit patterns of the table in that type."""
        if self.table is None:
            return None
        if self.dtype == "float32":
            return np.ascontiguousarray(self.table.view(np.uint32))
        if self.dtype == "float16":
            with np.errstate(over="ignore"):
                half = self.table.astype(np.float16).view(np.uint16)
            return np.ascontiguousarray(half)
        whole = self.table.view(np.uint32).astype(np.uint64)
        rounded = whole + 0x7FFF + (whole >> np.uint64(16) & np.uint64(1))
        # finite values, so that none turns from NaN to Inf
        return np.ascontiguousarray((rounded >> np.uint64(16)).astype(np.uint16))


def resize(
    frames: Any,
    size: tuple[int, int],
    *,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    out: Any = None,
    stream: Any = None,
    device: int = 0,
) -> Any:
    """Resize frames on a GPU to the bytes that `phasefusion.resize` gives.

    Parameters
    ----------
    frames : array, shape (..., H, W, 3), uint8, or YuvFrames
        On a GPU (torch, cupy, anything with DLPack or ``__cuda_array_interface__``),
        where it stays, or a NumPy array, which travels there and back.
    size : (int, int)
        Height and width of the result in pixels.
    filter, first_pass
        As in `phasefusion.resize`.
    out : array, shape (..., h, w, 3), uint8, optional
        C-contiguous, of the same framework and device; not overlapping frames.
    stream : int or stream, optional
        The stream to work on; the current one of torch or cupy when not given, and
        else the legacy one. Nothing waits for it: frames and result must live until
        it has passed, which torch is told.
    device : int, default 0
        For NumPy arrays; others say where they are.

    Returns
    -------
    resized : array, shape (..., h, w, 3), uint8
        Of the framework and on the device that frames came from.

    Raises
    ------
    BackendUnavailableError
        If there is no GPU, or no kernels for it.
    DeviceMemoryError, DeviceError
        If its memory is full, or it refuses.
    FrameError
        If an argument is not as described.
    """
    where = source_of(frames, size, filter, first_pass, stream, device)
    shape = (*where.lead, *_check_size(size), 3)
    return make(where, size, shape, Recipe(filter, first_pass), out, stream)


def resize_normalize(
    frames: Any,
    size: tuple[int, int],
    *,
    mean: ArrayLike,
    std: ArrayLike,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    dtype: DType = "float32",
    out: Any = None,
    stream: Any = None,
    device: int = 0,
) -> Any:
    """Resize frames on a GPU and normalise them, as `phasefusion.resize_normalize`.

    Parameters
    ----------
    frames, size, filter, first_pass, stream, device
        As in `resize` of this module.
    mean, std : three floats
        Per channel, red first, in units of a picture scaled to [0, 1].
    dtype : {"float32", "float16", "bfloat16"}
        float32 is the CPU's bit for bit; the others are that, rounded to nearest even.
        NumPy has no bfloat16.
    out : array, shape (..., 3, h, w), of dtype, optional
        C-contiguous, of the same framework and device; not overlapping frames.

    Returns
    -------
    planes : array, shape (..., 3, h, w), of dtype
        Of the framework and on the device that frames came from.

    Raises
    ------
    BackendUnavailableError, DeviceMemoryError, DeviceError, FrameError
        As `resize` of this module.
    """
    recipe = Recipe(filter, first_pass, dtype, normalise_table(mean, std))
    where = source_of(frames, size, filter, first_pass, stream, device)
    shape = (*where.lead, 3, *_check_size(size))
    return make(where, size, shape, recipe, out, stream)


def resize_normalize_many(
    frames: Sequence[Any],
    sizes: Sequence[tuple[int, int]],
    *,
    mean: ArrayLike,
    std: ArrayLike,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    dtype: DType = "float32",
    stream: Any = None,
    device: int = 0,
) -> list[Any]:
    """Resize arrays of many sizes on a GPU in few launches, each to a size of its own.

    Parameters
    ----------
    frames : sequence of arrays, each (..., H, W, 3), uint8, or of YuvFrames
        All of one framework, on one device and in one pixel format.
    sizes : sequence of (int, int)
        Height and width of each result.
    mean, std, filter, first_pass, dtype, stream, device
        As in `resize_normalize` of this module.

    Returns
    -------
    list of arrays, each (..., 3, h, w), of dtype

    Raises
    ------
    BackendUnavailableError, DeviceMemoryError, DeviceError, FrameError
        As `resize` of this module.
    """
    recipe = Recipe(filter, first_pass, dtype, normalise_table(mean, std))
    if len(frames) != len(sizes):
        raise FrameError(f"{len(frames)} arrays of frames for {len(sizes)} sizes")
    sources = [
        source_of(array, size, filter, first_pass, stream, device)
        for array, size in zip(frames, sizes, strict=True)
    ]
    if not sources:
        return []
    kinds = {(s.on_gpu, s.device, s.pixels, s.colour) for s in sources}
    if len(kinds) > 1:
        raise FrameError(
            "frames must all be on one device, in one pixel format, matrix and range"
        )
    shapes = [
        (*source.lead, 3, *_check_size(size))
        for source, size in zip(sources, sizes, strict=True)
    ]
    wanted = list(zip(sources, sizes, shapes, strict=True))
    if not sources[0].on_gpu:
        return [make(*one, recipe, None, stream) for one in wanted]
    made = [_Result(source, shape, dtype, None, stream) for source, _, shape in wanted]
    jobs = [
        _jobs(source, size, result.address, recipe)
        for (source, size, _), result in zip(wanted, made, strict=True)
    ]
    _queue(sources[0], made[0].stream, np.concatenate(jobs), recipe)
    for source, result in zip(sources, made, strict=True):
        arrays.keep_until(made[0].stream or 0, source.like, result.array)
    return [result.array for result in made]


def resize_patches(
    frames: Any,
    size: tuple[int, int],
    *,
    table: NDArray[np.float32],
    patch: int,
    merge: int = 1,
    depth: int = 1,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    dtype: DType = "float32",
    out: Any = None,
    stream: Any = None,
    device: int = 0,
) -> Any:
    """Resize frames on a GPU and cut them into the rows that vision towers read.

    Parameters
    ----------
    frames : array, shape (n, H, W, 3), uint8, or YuvFrames
    size : (int, int)
        Multiples of ``patch * merge``.
    table : ndarray, shape (3, 256), float32
        What byte v of channel c becomes, so that any arithmetic is met bit for bit;
        `normalise_table` makes that of `resize_normalize`.
    patch, merge, depth : int
        Side of a patch in pixels, patches a side of a merged block, frames a patch. The
        last frame counts as often as it takes to fill the last patch.
    filter, first_pass, dtype, out, stream, device
        As in `resize_normalize` of this module.

    Returns
    -------
    rows : array, shape (t * h/patch * w/patch, 3 * depth * patch * patch), of dtype
        In the order of `phasefusion.pixels.to_qwen_patches`.

    Raises
    ------
    BackendUnavailableError, DeviceMemoryError, DeviceError, FrameError
        As `resize` of this module.
    """
    table = np.ascontiguousarray(table, np.float32)
    if table.shape != (3, 256):
        raise FrameError(f"table must have shape (3, 256), got {table.shape}")
    height, width = _check_size(size)
    side = patch * merge
    if min(patch, merge, depth) < 1 or height % side or width % side:
        raise FrameError(
            f"size {size} must be multiples of patch * merge = {patch} * {merge}, and "
            f"depth {depth} at least 1"
        )
    where = source_of(frames, size, filter, first_pass, stream, device)
    if len(where.lead) != 1:
        raise FrameError(f"frames must have shape (n, H, W, 3), got {where.lead} first")
    row_values = 3 * depth * patch * patch
    n_rows = -(-where.lead[0] // depth) * (height // patch) * (width // patch)
    recipe = Recipe(filter, first_pass, dtype, table, (patch, patch, merge, depth))
    return make(where, size, (n_rows, row_values), recipe, out, stream)


def normalise_table(mean: ArrayLike, std: ArrayLike) -> NDArray[np.float32]:
    """Return what `phasefusion.resize_normalize` makes of every byte, (3, 256) float32.

    Examples
    --------
    >>> normalise_table([0.5] * 3, [0.5] * 3)[0, [0, 255]]
    array([-1.,  1.], dtype=float32)
    """
    every = np.arange(256, dtype=np.uint8)[None, :, None].repeat(3, 2)
    planes = _resize_normalize(
        every,
        (1, 256),
        mean=mean,
        std=std,
        filter="bicubic",
        first_pass="auto",
        out=None,
        threads=1,
        level="scalar",
    )
    return planes[:, 0, :]


class _Result:
    """Memory for a result, of the caller's framework."""

    def __init__(
        self, where: Source, shape: tuple[int, ...], dtype: str, out: Any, stream: Any
    ) -> None:
        self.stream: int | None = None  # of the host: waits for everything
        if not where.on_gpu:
            self.array, self.address, self.keeper = _host_out(where, shape, dtype, out)
            return
        self.stream = arrays.stream_of(where.like, stream)
        self.array = arrays.empty_like(where.like, shape, dtype) if out is None else out
        view = arrays.view(self.array, self.stream, "out")
        _check_out(view, shape, dtype, where)
        self.address, self.keeper = view.address, view.keeper


def make(
    where: Source,
    size: tuple[int, int],
    shape: tuple[int, ...],
    recipe: Recipe,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Return one result of that shape, in `out` if it is given."""
    runtime.device(where.device)  # before anything is allocated
    made = _Result(where, shape, recipe.dtype, out, stream)
    jobs = _jobs(where, size, made.address, recipe)
    _queue(where, made.stream, jobs, recipe)
    if made.stream is not None:
        arrays.keep_until(made.stream, where.like, made.array)
    return made.array


def _queue(
    where: Source, stream: int | None, jobs: NDArray[np.int64], recipe: Recipe
) -> None:
    from phasefusion import _cuda

    ready = runtime.device(where.device)
    variant = recipe.variant
    if variant == "auto":
        moved = _moved_bytes(jobs, where.pixels) if stream is not None else 0
        variant = choice.variant_for(ready, moved)
    with runtime.translated(f"resizing {len(jobs)} frames"):
        _cuda.resize(
            ready.handle,
            stream,
            where.pixels,
            where.colour,
            jobs,
            recipe.bits(),
            recipe.places,
            recipe.filter,
            recipe.first_pass,
            variant,
        )


def _moved_bytes(jobs: NDArray[np.int64], pixels: int) -> int:
    """Return the bytes of all frames and of what they become, if that is bytes."""
    sources = jobs[:, 5] * jobs[:, 6] * (3 if pixels == 0 else 1.5)
    return int(sources.sum() + 3 * (jobs[:, 7] * jobs[:, 8]).sum())


def _jobs(
    where: Source, size: tuple[int, int], address: int, recipe: Recipe
) -> NDArray[np.int64]:
    """Return one row a frame, as `_cuda.resize` wants them."""
    patch_height, patch_width, _, depth = recipe.patch
    planes = where.planes
    missing = -len(planes) % depth
    if missing:
        planes = np.concatenate([planes, planes[-1:].repeat(missing, 0)])
    index = np.arange(len(planes), dtype=np.int64)
    frame_bytes = 3 * size[0] * size[1] * recipe.item_bytes
    within = patch_height * patch_width * recipe.item_bytes
    jobs = np.zeros((len(planes), 10), np.int64)
    jobs[:, :3] = planes
    jobs[:, 3:5] = where.row_bytes
    jobs[:, 5:7] = where.size
    jobs[:, 7:9] = size
    jobs[:, 9] = address + index // depth * depth * frame_bytes + index % depth * within
    return jobs


def _check_out(
    view: arrays.DeviceArray, shape: tuple[int, ...], dtype: str, where: Source
) -> None:
    code = _CODES[dtype]
    if view.shape != shape or view.dtype != code:
        raise FrameError(
            f"out must be {dtype} of shape {shape}, got {view.dtype} of shape "
            f"{view.shape}"
        )
    if view.strides != arrays._tight(shape, int(code[1])) and 0 not in shape:
        raise FrameError(f"out must be C-contiguous, got strides {view.strides}")
    if view.device != where.device:
        raise FrameError(
            f"out lies on device {view.device}, frames on device {where.device}"
        )


def _host_out(
    where: Source, shape: tuple[int, ...], dtype: str, out: Any
) -> tuple[Any, int, Any]:
    """Return the result in the host's memory, its address, and what keeps it."""
    if out is None and arrays.is_torch(where.like):
        out = arrays.empty_like(where.like, shape, dtype)
    if arrays.is_torch(out):
        if tuple(out.shape) != shape or str(out.dtype) != f"torch.{dtype}":
            raise FrameError(
                f"out must be {dtype} of shape {shape}, got {out.dtype} of shape "
                f"{tuple(out.shape)}"
            )
        if not out.is_contiguous() or out.is_cuda:
            raise FrameError("out must be contiguous, and on the CPU as frames are")
        return out, int(out.data_ptr()), out
    if dtype == "bfloat16":
        raise FrameError("NumPy has no bfloat16; give a tensor of torch, or float16")
    if out is None:
        out = np.empty(shape, dtype)
    elif not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        got = getattr(out, "dtype", type(out).__name__)
        raise FrameError(
            f"out must be a NumPy array of {dtype} and shape {shape}, got {got} of "
            f"shape {getattr(out, 'shape', None)}"
        )
    flags = out.flags
    if not (flags.c_contiguous and flags.writeable and flags.aligned):
        raise FrameError("out must be C-contiguous, aligned and writable")
    if any(np.may_share_memory(out, keeper) for keeper in where.keepers):
        raise FrameError("out must not share memory with frames")
    return out, int(out.ctypes.data), out
