"""Decoded frames to the tensors of Hugging Face processors, without torchvision."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from phasefusion import _frames
from phasefusion.errors import FrameError
from phasefusion.frames import Device, check_device, resize
from phasefusion.pixels.files import family_settings
from phasefusion.pixels.geometry import Size, center_crop, pad_to_square
from phasefusion.pixels.settings import PatchSettings, PixelSettings, PlaneSettings

Floats: TypeAlias = NDArray[np.float32]
_Settings = TypeVar("_Settings", PatchSettings, PlaneSettings)


@overload
def to_qwen_patches(
    frames: NDArray[np.uint8] | Floats,
    settings: PatchSettings | str = ...,
    *,
    size: Size | None = ...,
    device: Device = ...,
) -> tuple[Floats, tuple[int, int, int]]: ...
@overload
def to_qwen_patches(
    frames: Any,
    settings: PatchSettings | str = ...,
    *,
    size: Size | None = ...,
    device: Literal["cuda", "auto"],
) -> tuple[Any, tuple[int, int, int]]: ...
def to_qwen_patches(
    frames: Any,
    settings: PatchSettings | str = "qwen2_vl",
    *,
    size: Size | None = None,
    device: Device = "cpu",
) -> tuple[Any, tuple[int, int, int]]:
    """Cut the frames of one clip into the rows that a Qwen-VL vision tower reads.

    A row is one patch over `temporal_frames` frames, its values in the order channel,
    frame, line, column. Rows run over time, then over blocks of merge x merge patches,
    then inside the block, so that the patches of one token are neighbours. When the
    frames do not fill the last temporal patch, the last frame is repeated.

    Parameters
    ----------
    frames : ndarray
        uint8, shape (n, H, W, 3): resized to ``settings.frame_size(H, W, n)``, unless
        they have that size, and normalised. float32, shape (n, 3, h, w): taken as
        resized and normalised already.
    settings : PatchSettings or family name
        "qwen2_vl", "qwen2_5_vl" and "qwen3_vl" are the defaults of their video
        processors; `pixel_settings` reads those of a checkpoint.
    size : (int, int), optional
        Height and width, in place of what the settings choose; for frames that were
        resized before, their own.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        Where frames are resized; the values are the same. NumPy arrays come back as
        bytes, a quarter of the floats that they then become. Frames on a GPU, of torch
        or cupy, and `phasefusion.cuda.YuvFrames` are made rows there, in one launch,
        and stay where they are.

    Returns
    -------
    rows : ndarray, shape (t * gh * gw, 3 * temporal_frames * patch_px**2), float32
        ``pixel_values_videos``, or ``pixel_values`` of a single picture.
    grid_thw : (int, int, int)
        Temporal patches, and patches down and across (before merging).

    Raises
    ------
    FrameError
        If the frames are not as described, or their sides are no multiples of
        patch times merge.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        As `phasefusion.resize_normalize`, with another device than "cpu".

    Notes
    -----
    Rows equal those of transformers' "pil" processors bit for bit. Its "torchvision"
    processors, the only ones for videos, resize with torch's own rounding, where we
    keep to Pillow's: up to three bytes in a hundred then differ, by one or two steps
    of 255. From frames that need no resize the rows are the same, bit for bit.

    Examples
    --------
    >>> rows, grid_thw = to_qwen_patches(np.zeros((3, 360, 640, 3), np.uint8))
    >>> rows.shape, grid_thw
    ((2392, 1176), (2, 26, 46))
    """
    settings = _settings(settings, PatchSettings)
    if device != "cpu" and not isinstance(frames, np.ndarray):
        check_device(device)
        from phasefusion.cuda.pixels import patch_rows

        return patch_rows(frames, settings, size)
    patch = (settings.patch_px, settings.patch_px)
    layout = (patch, settings.merge, settings.temporal_frames)
    if isinstance(frames, np.ndarray) and frames.dtype == np.float32:
        if size is not None and size != frames.shape[2:]:
            raise FrameError(f"float32 frames of shape {frames.shape} stay as they are")
        planes = cast(Floats, frames)
        rows, grid = _new_rows(planes, (0, 2, 3, 1), settings)
        _frames.patches_from_planes(planes, rows, *layout)
        return rows, grid
    frames = _checked(frames)
    n_frames, height, width, _ = frames.shape
    if size is None:
        size = settings.frame_size(height, width, n_frames)
    pixels = _resized(frames, size, settings, device)
    rows, grid = _new_rows(pixels, (0, 1, 2, 3), settings)
    table, formula = settings.value_table(), settings.value_formula()
    _frames.patches_from_rgb(pixels, table, formula, rows, *layout)
    return rows, grid


@overload
def to_pixel_values(
    frames: NDArray[np.uint8],
    settings: PlaneSettings | str,
    *,
    device: Device = ...,
) -> Floats: ...
@overload
def to_pixel_values(
    frames: Any,
    settings: PlaneSettings | str,
    *,
    device: Literal["cuda", "auto"],
) -> Any: ...
def to_pixel_values(
    frames: Any,
    settings: PlaneSettings | str,
    *,
    device: Device = "cpu",
) -> Any:
    """Make the ``pixel_values`` of one clip for a model that takes planes.

    Parameters
    ----------
    frames : ndarray, shape (n, H, W, 3), uint8
    settings : PlaneSettings or family name
        "internvl", "llava_onevision", "llava_next_video" and "smolvlm" are the
        defaults of their video processors; `pixel_settings` reads those of a
        checkpoint.
    device : {"cpu", "cuda", "auto"}, default "cpu"
        As for `to_qwen_patches`. Frames on a GPU are not padded there.

    Returns
    -------
    planes : ndarray, float32
        Shape (n, 3, h, w); with tiles (n, n_tiles, 3, h, w), the tiles from left to
        right and top to bottom, then the overview.

    Raises
    ------
    FrameError
        If the frames or the settings are not as described.
    BackendUnavailableError, DeviceMemoryError, DeviceError
        As `to_qwen_patches`.

    Notes
    -----
    As for `to_qwen_patches`: equal to the "pil" processors bit for bit, and to the
    "torchvision" ones but for the rounding of their resize.

    Examples
    --------
    >>> to_pixel_values(np.zeros((2, 360, 640, 3), np.uint8), "llava_next_video").shape
    (2, 3, 224, 224)
    """
    settings = _settings(settings, PlaneSettings)
    if device != "cpu" and not isinstance(frames, np.ndarray):
        check_device(device)
        from phasefusion.cuda.pixels import plane_values

        return plane_values(frames, settings)
    pixels = frames = _checked(frames)
    if settings.square is not None:
        pixels = pad_to_square(pixels, settings.square)
    for rule in settings.resizes:
        size = rule.size(*pixels.shape[1:3])
        pixels = _resized(pixels, size, settings, device)
    if settings.tile is None:
        if settings.crop is not None:
            pixels = center_crop(pixels, settings.crop, backend=settings.backend)
        return _planes(pixels, settings)
    height, width = settings.tile
    n_tiles = pixels.shape[1] // height * (pixels.shape[2] // width)
    tiles = _cut(pixels, settings.tile, settings)
    tiles = tiles.reshape(len(pixels), n_tiles, 3, height, width)
    if settings.overview is None or n_tiles == 1:
        return tiles
    whole = frames if settings.overview == "given" else pixels
    whole = _resized(whole, settings.tile, settings, device)
    overview = _planes(whole, settings)
    return np.concatenate([tiles, overview[:, None]], axis=1)


def _settings(settings: _Settings | str, kind: type[_Settings]) -> _Settings:
    found = family_settings(settings) if isinstance(settings, str) else settings
    if not isinstance(found, kind):
        name = getattr(found, "family", type(found).__name__)
        other = "to_pixel_values" if kind is PatchSettings else "to_qwen_patches"
        raise FrameError(f"settings of {name!r} are for {other}, not for this function")
    return found


def _checked(frames: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the frames with contiguous rows: a view if possible, else one copy."""
    if (
        not isinstance(frames, np.ndarray)
        or frames.dtype != np.uint8
        or frames.ndim != 4
        or frames.shape[-1] != 3
        or 0 in frames.shape
    ):
        got = getattr(frames, "dtype", type(frames).__name__)
        raise FrameError(
            "frames must be a NumPy array (n, height, width, 3) of uint8 with at least "
            f"one frame, got {got} of shape {np.shape(frames)}"
        )
    if frames.strides[-1] != 1 or frames.strides[-2] != 3:
        return np.ascontiguousarray(frames)
    return frames


def _resized(
    frames: NDArray[np.uint8], size: Size, settings: PixelSettings, device: Device
) -> NDArray[np.uint8]:
    """Resize unless the frames have that size; what is left has contiguous rows."""
    if frames.shape[1:3] == tuple(size):
        return frames
    return resize(
        frames,
        size,
        filter=settings.filter,
        first_pass=settings.first_pass,
        device=device,
    )


def _new_rows(
    frames: NDArray[np.generic], axes: tuple[int, ...], settings: PatchSettings
) -> tuple[Floats, tuple[int, int, int]]:
    """Return room for the rows of frames whose axes n, H, W, 3 are at `axes`."""
    shape = tuple(frames.shape[i] for i in axes) if frames.ndim == 4 else ()
    step = settings.multiple_px
    if not shape or shape[0] < 1 or shape[3] != 3 or shape[1] % step or shape[2] % step:
        raise FrameError(
            f"frames of shape {frames.shape} cannot be cut into patches: need at "
            f"least one frame, three channels and sides that are multiples of {step}"
        )
    depth, side = settings.temporal_frames, settings.patch_px
    grid = (-(-shape[0] // depth), shape[1] // side, shape[2] // side)
    rows = np.empty((grid[0] * grid[1] * grid[2], 3 * depth * side * side), np.float32)
    return rows, grid


def _planes(pixels: NDArray[np.uint8], settings: PixelSettings) -> Floats:
    """Return uint8 (n, h, w, 3) as float32 (n, 3, h, w)."""
    n_frames, height, width, _ = pixels.shape
    return _cut(pixels, (height, width), settings).reshape(n_frames, 3, height, width)


def _cut(pixels: NDArray[np.uint8], tile: Size, settings: PixelSettings) -> Floats:
    """Return the tiles of all frames, normalised, one after the other."""
    values = np.empty(pixels.size, np.float32)
    table, formula = settings.value_table(), settings.value_formula()
    _frames.patches_from_rgb(pixels, table, formula, values, tile, 1, 1)
    return values
