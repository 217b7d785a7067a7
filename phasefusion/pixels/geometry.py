"""Sizes, crops, pads and tiles of Hugging Face processors, in integers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import FrameError

Backend: TypeAlias = Literal["torchvision", "pil"]
Size: TypeAlias = tuple[int, int]  # height, width in pixels

_MAX_ASPECT = 200
_IDEFICS3_MAX_PX = 4096


def smart_resize(
    height_px: int,
    width_px: int,
    *,
    multiple_px: int = 28,
    min_pixels: int = 56 * 56,
    max_pixels: int = 28 * 28 * 1280,
    n_frames: int | None = None,
    temporal_frames: int = 2,
) -> Size:
    """Choose the size at which a Qwen-VL model sees a picture or a clip.

    Both sides become the nearest multiple of `multiple_px` (halves to even). When the
    area then leaves the limits, the sides of the *given* frame are scaled by one
    factor so that the area meets the limit, and rounded down to the multiple for the
    upper limit and up for the lower.

    Without `n_frames` the limits are those of one frame: the rule of Qwen2-VL and
    Qwen2.5-VL for pictures and videos and of Qwen3-VL for pictures. With it they hold
    for all frames of the clip together, `n_frames` rounded to a multiple of
    `temporal_frames` (halves to even): the rule of Qwen3-VL for videos, which also
    scales frames with a side below `multiple_px` up first.

    Parameters
    ----------
    height_px, width_px : int
        The frame as decoded.
    multiple_px : int, default 28
        Patch side times merge size: 28 for Qwen2-VL and Qwen2.5-VL, 32 for Qwen3-VL.
    min_pixels, max_pixels : int
        Limits on the area, or on area times frames.
    n_frames : int, optional
    temporal_frames : int, default 2
        Frames in one patch.

    Returns
    -------
    size : (int, int)
        Height and width in pixels.

    Raises
    ------
    FrameError
        If a side is not positive, one is more than 200 times the other, or the clip
        has fewer frames than one patch.

    Examples
    --------
    >>> smart_resize(720, 1280, min_pixels=3136, max_pixels=602112)
    (560, 1008)
    >>> limits = {"min_pixels": 4096, "max_pixels": 25165824}
    >>> smart_resize(720, 1280, multiple_px=32, n_frames=64, **limits)
    (448, 832)
    """
    _check_sides(height_px, width_px)
    height, width, n_given, n_rounded = height_px, width_px, 1, 1
    if n_frames is not None:
        if n_frames < temporal_frames:
            raise FrameError(
                f"{n_frames} frame(s): this model needs at least {temporal_frames}"
            )
        if min(height, width) < multiple_px:
            grow = max(multiple_px / height, multiple_px / width)
            height, width = int(height * grow), int(width * grow)
        n_given = n_frames
        n_rounded = round(n_frames / temporal_frames) * temporal_frames
    if max(height, width) > _MAX_ASPECT * min(height, width):
        raise FrameError(
            f"a frame of {height_px} x {width_px} px cannot be resized for this model: "
            f"sides must be at most {_MAX_ASPECT} to 1"
        )
    sides = (height, width)
    fitted = [round(side / multiple_px) * multiple_px for side in sides]
    volume = n_rounded * fitted[0] * fitted[1]
    if volume > max_pixels:
        shrink = math.sqrt(n_given * height * width / max_pixels)
        fitted = [
            max(1, math.floor(side / shrink / multiple_px)) * multiple_px
            for side in sides
        ]
    elif volume < min_pixels:
        grow = math.sqrt(min_pixels / (n_given * height * width))
        fitted = [math.ceil(side * grow / multiple_px) * multiple_px for side in sides]
    return max(fitted[0], multiple_px), max(fitted[1], multiple_px)


def shortest_edge_size(
    height_px: int, width_px: int, shortest_px: int, longest_px: int | None = None
) -> Size:
    """Scale so that the shorter side becomes `shortest_px`; the other is cut to int.

    With `longest_px`, the longer side stays within it: then the shorter one is
    rounded, and the longer follows from the value before rounding.

    Examples
    --------
    >>> shortest_edge_size(360, 640, 224)
    (224, 398)
    >>> shortest_edge_size(360, 640, 224, 300)
    (169, 300)
    """
    _check_sides(height_px, width_px)
    short, long = sorted((height_px, width_px))
    exact: float = shortest_px
    shortest = shortest_px
    if longest_px is None:
        longest = int(shortest_px * long / short)
    else:
        if long / short * shortest_px > longest_px:
            exact = longest_px * float(short) / float(long)
            shortest = round(exact)
        longest = long if short == shortest else int(exact * long / short)
    if min(shortest, longest) < 1:
        raise FrameError(
            f"a frame of {height_px} x {width_px} px has no pixels left at shortest "
            f"edge {shortest_px}, longest edge {longest_px}"
        )
    return (longest, shortest) if width_px <= height_px else (shortest, longest)


def longest_edge_size(height_px: int, width_px: int, longest_px: int) -> Size:
    """Scale so that the longer side becomes `longest_px`, as Idefics3 and SmolVLM do.

    The shorter side is cut to int and made even by adding one.

    Examples
    --------
    >>> longest_edge_size(360, 640, 512)
    (288, 512)
    >>> longest_edge_size(100, 301, 512)
    (170, 512)
    """
    _check_sides(height_px, width_px)
    if not 1 <= longest_px <= _IDEFICS3_MAX_PX:
        raise FrameError(
            f"longest edge {longest_px}: must be from 1 to {_IDEFICS3_MAX_PX}; above "
            "that the picture and the video processors disagree"
        )
    aspect = width_px / height_px
    if width_px >= height_px:
        height = int(longest_px / aspect)
        return max(height + height % 2, 1), longest_px
    width = int(longest_px * aspect)
    return longest_px, max(width + width % 2, 1)


def tile_multiple_size(height_px: int, width_px: int, tile_px: int) -> Size:
    """Round both sides up to whole tiles, as Idefics3 and SmolVLM do before a split.

    The shorter side is first scaled with the longer one.

    Examples
    --------
    >>> tile_multiple_size(288, 500, 364)
    (728, 728)
    """
    _check_sides(height_px, width_px)
    aspect = width_px / height_px
    if width_px >= height_px:
        width = math.ceil(width_px / tile_px) * tile_px
        return math.ceil(int(width / aspect) / tile_px) * tile_px, width
    height = math.ceil(height_px / tile_px) * tile_px
    return height, math.ceil(int(height * aspect) / tile_px) * tile_px


def within_size(height_px: int, width_px: int, max_height: int, max_width: int) -> Size:
    """Scale by one factor so that the frame just fits a box; sides are cut to int.

    Examples
    --------
    >>> within_size(360, 640, 320, 320)
    (180, 320)
    """
    _check_sides(height_px, width_px)
    scale = min(max_height / height_px, max_width / width_px)
    height, width = int(height_px * scale), int(width_px * scale)
    if min(height, width) < 1:
        raise FrameError(
            f"a frame of {height_px} x {width_px} px has no pixels left in a box of "
            f"{max_height} x {max_width} px"
        )
    return height, width


@lru_cache(maxsize=1024)
def tile_grid(
    height_px: int, width_px: int, tile: Size, min_tiles: int, max_tiles: int
) -> tuple[int, int]:
    """Choose the rows and columns of tiles of InternVL's ``crop_to_patches``.

    The grid whose shape is nearest to the frame's wins. Of grids that are equally near
    a later, larger one wins when the frame has more than half of its pixels.

    Parameters
    ----------
    height_px, width_px : int
        The frame as decoded.
    tile : (int, int)
        Height and width of one tile.
    min_tiles, max_tiles : int
        Limits on the number of tiles.

    Returns
    -------
    rows, columns : int

    Examples
    --------
    >>> tile_grid(720, 1280, (448, 448), 1, 12)
    (2, 4)
    """
    _check_sides(height_px, width_px)
    grids = [
        (columns, rows)
        for columns in range(1, max_tiles + 1)
        for rows in range(1, max_tiles + 1)
        if min_tiles <= columns * rows <= max_tiles
    ]
    if not grids:
        raise FrameError(f"no grid has between {min_tiles} and {max_tiles} tiles")
    aspect, area = width_px / height_px, height_px * width_px
    best, least = (1, 1), math.inf
    for columns, rows in sorted(grids, key=math.prod):
        away = abs(aspect - columns / rows)
        large = area > 0.5 * tile[0] * tile[1] * columns * rows
        if away < least or (away == least and large):
            best, least = (columns, rows), away
    return best[1], best[0]


def center_crop(
    frames: NDArray[np.uint8], size: Size, *, backend: Backend = "torchvision"
) -> NDArray[np.uint8]:
    """Cut the middle out of frames; black where they are too small.

    Where a margin is odd, the larger half lies below and to the right of the cut. Where
    the *padding* is odd, the odd line lies above and to the left in the "pil" image
    processors, and below and to the right in the "torchvision" ones.

    Parameters
    ----------
    frames : ndarray, shape (..., H, W, 3), uint8
    size : (int, int)
        Height and width of the cut.
    backend : {"torchvision", "pil"}

    Returns
    -------
    cut : ndarray, shape (..., h, w, 3), uint8
        A view of `frames` when no padding is needed.

    Examples
    --------
    >>> frames = np.arange(5, dtype=np.uint8).reshape(1, 5, 1).repeat(3, axis=2)
    >>> center_crop(frames, (1, 2))[0, :, 0]
    array([1, 2], dtype=uint8)
    >>> center_crop(frames, (1, 6), backend="pil")[0, :, 0]
    array([0, 0, 1, 2, 3, 4], dtype=uint8)
    """
    _check_frames(frames)
    height, width = frames.shape[-3:-1]
    if min(size) < 1:
        raise FrameError(f"crop size {size}: both sides must be at least 1")
    top, left = max(0, height - size[0]) // 2, max(0, width - size[1]) // 2
    cut = frames[..., top : top + size[0], left : left + size[1], :]
    if cut.shape[-3:-1] == tuple(size):
        return cut
    odd = 1 if backend == "pil" else 0
    above = (size[0] - cut.shape[-3] + odd) // 2
    before = (size[1] - cut.shape[-2] + odd) // 2
    return _placed(cut, size, (above, before), (0, 0, 0))


def pad_to_square(
    frames: NDArray[np.uint8], colour: tuple[int, int, int] = (0, 0, 0)
) -> NDArray[np.uint8]:
    """Put frames in the middle of a square of their longer side, as LLaVA does.

    An odd line goes below or to the right. LLaVA's colour is 255 times the mean of the
    normalisation, cut to int.

    Parameters
    ----------
    frames : ndarray, shape (..., H, W, 3), uint8
    colour : (int, int, int), default black
        Red, green and blue, 0 to 255.

    Returns
    -------
    square : ndarray, shape (..., n, n, 3), uint8
        `frames` themselves when they are square.

    Examples
    --------
    >>> pad_to_square(np.zeros((1, 4, 3), np.uint8), (9, 9, 9))[:, 0, 0]
    array([9, 0, 9, 9], dtype=uint8)
    """
    _check_frames(frames)
    if len(colour) != 3 or not all(0 <= int(value) <= 255 for value in colour):
        raise FrameError(f"colour {colour!r}: need three values from 0 to 255")
    height, width = frames.shape[-3:-1]
    side = max(height, width)
    if height == width:
        return frames
    at = ((side - height) // 2, (side - width) // 2)
    return _placed(frames, (side, side), at, colour)


def _placed(
    frames: NDArray[np.uint8], size: Size, at: Size, colour: tuple[int, int, int]
) -> NDArray[np.uint8]:
    """Frames of `size` in one colour with the given ones inside."""
    canvas = np.empty((*frames.shape[:-3], *size, 3), np.uint8)
    canvas[...] = np.array(colour, np.uint8)
    height, width = frames.shape[-3:-1]
    canvas[..., at[0] : at[0] + height, at[1] : at[1] + width, :] = frames
    return canvas


def pass_order_shows(given: Size, size: Size) -> bool:
    """Whether a resize gives other bytes with ``first_pass="auto"`` than "horizontal".

    Examples
    --------
    >>> pass_order_shows((640, 360), (448, 448))
    True
    >>> pass_order_shows((360, 640), (448, 448))
    False
    """
    height_lost, width_lost = given[0] - size[0], given[1] - size[1]
    return height_lost > max(0, 2 * width_lost) and width_lost != 0


def _check_frames(frames: NDArray[np.uint8]) -> None:
    if (
        not isinstance(frames, np.ndarray)
        or frames.dtype != np.uint8
        or frames.ndim < 3
        or frames.shape[-1] != 3
        or 0 in frames.shape[-3:-1]
    ):
        got = getattr(frames, "dtype", type(frames).__name__)
        raise FrameError(
            "frames must be a NumPy array (..., height, width, 3) of uint8, got "
            f"{got} of shape {np.shape(frames)}"
        )


def _check_sides(height_px: int, width_px: int) -> None:
    if min(height_px, width_px) < 1:
        raise FrameError(
            f"a frame of {height_px} x {width_px} px: both sides must be positive"
        )
