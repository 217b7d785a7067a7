"""Tensors of Hugging Face processors, of frames that lie on a GPU and stay there."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from phasefusion.cuda import arrays, images
from phasefusion.cuda.sources import Source, YuvFrames, source_of
from phasefusion.errors import FrameError

if TYPE_CHECKING:
    from phasefusion.pixels.geometry import Size
    from phasefusion.pixels.settings import PatchSettings, PixelSettings, PlaneSettings

__all__ = ["patch_rows", "plane_values"]


def patch_rows(
    frames: Any, settings: PatchSettings, size: Size | None = None, stream: Any = None
) -> tuple[Any, tuple[int, int, int]]:
    """Make the rows of `phasefusion.pixels.to_qwen_patches` on the GPU of frames."""
    n_frames, height, width = _extent(frames)
    if size is None:
        size = settings.frame_size(height, width, n_frames)
    rows = images.resize_patches(
        frames,
        size,
        table=settings.value_table(),
        patch=settings.patch_px,
        merge=settings.merge,
        depth=settings.temporal_frames,
        filter=settings.filter,
        first_pass=settings.first_pass,
        stream=stream,
    )
    n_blocks = -(-n_frames // settings.temporal_frames)
    side = settings.patch_px
    return rows, (n_blocks, size[0] // side, size[1] // side)


def plane_values(frames: Any, settings: PlaneSettings, stream: Any = None) -> Any:
    """Make the values of `phasefusion.pixels.to_pixel_values` on the GPU of frames."""
    n_frames, *shape = _extent(frames)
    height, width = shape
    if settings.square is not None and height != width:
        raise FrameError(
            f"frames of {height} x {width} px are padded to squares on the CPU alone; "
            "give them as a NumPy array, or pad them before"
        )
    given, sizes = frames, [(height, width)]
    for rule in settings.resizes:
        sizes.append(rule.size(*sizes[-1]))
    for size in sizes[1:-1]:
        frames = _resized(frames, size, settings, stream)
    size, cut = sizes[-1], settings.tile or sizes[-1]
    if settings.crop is not None:
        frames = _resized(frames, size, settings, stream)
        return _cropped(frames, size, settings.crop, settings, stream)
    if settings.overview == "resized":
        frames = given = _resized(frames, size, settings, stream)
    n_tiles = size[0] // cut[0] * (size[1] // cut[1])
    tiled = settings.tile is not None
    shape = [n_frames, *([n_tiles] if tiled else []), 3, *cut]
    values = _values(frames, size, shape, cut, settings, stream)
    if settings.overview is None or n_tiles == 1 or not tiled:
        return values
    whole = [n_frames, 1, 3, *cut]
    return _joined(values, _values(given, cut, whole, cut, settings, stream))


def _extent(frames: Any) -> tuple[int, int, int]:
    """Return the number of frames, their height and their width."""
    is_yuv = isinstance(frames, YuvFrames)
    shape = tuple(int(n) for n in (frames.y if is_yuv else frames).shape)
    if len(shape) != (3 if is_yuv else 4) or 0 in shape:
        raise FrameError(
            "frames must have shape (n, height, width, 3), or (n, height, width) for "
            f"luma, with at least one frame; got {shape}"
        )
    return shape[0], shape[1], shape[2]


def _resized(frames: Any, size: Size, settings: PixelSettings, stream: Any) -> Any:
    how: Any = {"filter": settings.filter, "first_pass": settings.first_pass}
    return images.resize(frames, size, **how, stream=stream)


def _values(
    frames: Any,
    size: Size,
    shape: list[int],
    cut: Size,
    settings: PixelSettings,
    stream: Any,
) -> Any:
    """Return frames resized, cut into pieces and normalised, in one launch."""
    where = source_of(frames, size, settings.filter, settings.first_pass, stream, 0)
    return _written(where, size, shape, cut, settings, stream)


def _written(
    where: Source,
    size: Size,
    shape: list[int],
    cut: Size,
    settings: PixelSettings,
    stream: Any,
) -> Any:
    patch = (*((0, 0) if cut == size else cut), 1, 1)
    recipe = images.Recipe(
        settings.filter, settings.first_pass, "float32", settings.value_table(), patch
    )
    return images.make(where, size, tuple(shape), recipe, stream=stream)


def _cropped(
    frames: Any, size: Size, crop: Size, settings: PixelSettings, stream: Any
) -> Any:
    """Return the middle of frames, which must be as large, normalised."""
    if crop[0] > size[0] or crop[1] > size[1]:
        raise FrameError(
            f"frames of {size[0]} x {size[1]} px are padded to {crop[0]} x {crop[1]} "
            "on the CPU alone; give them as a NumPy array"
        )
    where = source_of(frames, crop, settings.filter, settings.first_pass, stream, 0)
    top, left = (size[0] - crop[0]) // 2, (size[1] - crop[1]) // 2
    planes = where.planes.copy()
    planes[:, 0] += top * where.row_bytes[0] + 3 * left
    where = replace(where, planes=planes, size=crop)
    return _written(where, crop, [len(planes), 3, *crop], crop, settings, stream)


def _joined(tiles: Any, overview: Any) -> Any:
    """Return tiles with one more behind them."""
    if isinstance(tiles, np.ndarray):
        return np.concatenate([tiles, overview], axis=1)
    if arrays.is_torch(tiles):
        return sys.modules["torch"].cat([tiles, overview], 1)
    namespace = arrays._namespace(tiles)
    return namespace.concat([tiles, overview], axis=1)
