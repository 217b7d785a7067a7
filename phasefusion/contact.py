"""Contact sheets: the frames of all phase grids of a video in one PNG picture."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phasefusion._whole import replace_file
from phasefusion.errors import FrameError
from phasefusion.frames import resize
from phasefusion.video import Clip

_GAP_PX = 4
_BACKGROUND = 24
_INK = 224
_SCALE_PX = 2
_MAX_SHEET_PX = 2**28
#: Of the cross through a missing frame and the border around a damaged one.
_MARK_RGB = (230, 40, 40)
_MARK_PX = 2
# Five rows of three pixels a digit, top row first, each row as a number of three bits.
_DIGITS = {
    "0": "75557",
    "1": "26227",
    "2": "71747",
    "3": "71717",
    "4": "55711",
    "5": "74717",
    "6": "74757",
    "7": "71122",
    "8": "75757",
    "9": "75717",
}


def contact_sheet(clip: Clip, *, width_px: int = 160) -> NDArray[np.uint8]:
    """Lay the frames of a clip out as a table: a row a phase, a column a sample.

    Parameters
    ----------
    clip : Clip
        The decoded frames, shape (S, b, H, W, 3).
    width_px : int, default 160
        Width of one picture; the height follows from the shape of the frames.

    Returns
    -------
    sheet : ndarray, shape (height, width, 3), uint8
        With the frame index below every picture. A frame that did not decode is black
        with a red cross; one that the decoder gave with an error in it has a red
        border.

    Raises
    ------
    FrameError
        If `width_px` is not 16 to 4096, or the sheet would have more than 2**28 pixels.
    """
    n_phases, budget, frame_height_px, frame_width_px = clip.frames.shape[:4]
    height_px, _ = picture_size(n_phases, width_px)(
        frame_height_px, frame_width_px, budget
    )
    cell_height_px, cell_width_px = _cell_size(height_px, width_px)
    sheet_height_px = n_phases * cell_height_px + _GAP_PX
    sheet_width_px = budget * cell_width_px + _GAP_PX
    sheet = np.full((sheet_height_px, sheet_width_px, 3), _BACKGROUND, np.uint8)
    for s in range(n_phases):
        for i in range(budget):
            top = s * cell_height_px + _GAP_PX
            left = i * cell_width_px + _GAP_PX
            small = resize(clip.frames[s, i], (height_px, width_px), filter="bicubic")
            if clip.damaged[s, i]:
                small = _bordered(small)
            elif clip.missing[s, i]:
                small = _crossed(height_px, width_px)
            sheet[top : top + height_px, left : left + width_px] = small
            label = _label(int(clip.indices[s, i]))[:, :width_px]
            top += height_px + _GAP_PX
            sheet[top : top + label.shape[0], left : left + label.shape[1]] = label
    return sheet


def picture_size(
    n_phases: int, width_px: int = 160
) -> Callable[[int, int, int], tuple[int, int]]:
    """Return the rule for the size of a picture on a sheet, as `read_clip` takes it.

    Frames that are read at that size make the same sheet, and take no more memory than
    it; a sheet that would be too large is refused before any is read.

    Parameters
    ----------
    n_phases : int
        Rows of the sheet.
    width_px : int, default 160

    Returns
    -------
    callable
        Gives height and width for those of the frames and the frames of a phase, and
        raises FrameError as `contact_sheet`.

    Examples
    --------
    >>> picture_size(3)(1080, 1920, 8)
    (90, 160)
    """
    if not 16 <= width_px <= 4096:
        raise FrameError(f"width_px must be 16 to 4096, not {width_px}")

    def rule(height_px: int, frame_width_px: int, budget: int) -> tuple[int, int]:
        size = max(1, round(height_px * width_px / frame_width_px)), width_px
        rows_px, columns_px = _cell_size(*size)
        sheet_height_px = n_phases * rows_px + _GAP_PX
        sheet_width_px = budget * columns_px + _GAP_PX
        if sheet_height_px * sheet_width_px > _MAX_SHEET_PX:
            most = max(1, _MAX_SHEET_PX // (rows_px * columns_px) // n_phases)
            raise FrameError(
                f"{n_phases} rows of {budget} pictures of {width_px}x{size[0]} pixels "
                f"make a sheet of {sheet_width_px}x{sheet_height_px} pixels, more than "
                f"2**28; take fewer frames (about {most} a row) or a smaller width"
            )
        return size

    return rule


def _cell_size(height_px: int, width_px: int) -> tuple[int, int]:
    """Height and width of a picture with its number and the gaps."""
    return height_px + 5 * _SCALE_PX + 2 * _GAP_PX, width_px + _GAP_PX


def _crossed(height_px: int, width_px: int) -> NDArray[np.uint8]:
    """Draw a cross from corner to corner on black, shape (height, width, 3)."""
    cell = np.zeros((height_px, width_px, 3), np.uint8)
    n_steps = max(height_px, width_px)
    rows = np.arange(n_steps) * height_px // n_steps
    columns = np.arange(n_steps) * width_px // n_steps
    for shift in range(_MARK_PX):
        thick = np.minimum(columns + shift, width_px - 1)
        cell[rows, thick] = _MARK_RGB
        cell[rows, width_px - 1 - thick] = _MARK_RGB
    return cell


def _bordered(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    marked = picture.copy()
    marked[:_MARK_PX] = marked[-_MARK_PX:] = _MARK_RGB
    marked[:, :_MARK_PX] = marked[:, -_MARK_PX:] = _MARK_RGB
    return marked


def _label(number: int) -> NDArray[np.uint8]:
    """Draw a number, shape (height, width, 1)."""
    rows = []
    for y in range(5):
        bits = "0".join(f"{int(_DIGITS[digit][y]):03b}" for digit in str(number))
        rows.append([_INK if bit == "1" else _BACKGROUND for bit in bits])
    small = np.array(rows, np.uint8)
    return np.kron(small, np.ones((_SCALE_PX, _SCALE_PX), np.uint8))[..., None]


def write_png(path: str | Path, pixels: NDArray[np.uint8]) -> None:
    """Write an RGB picture as PNG.

    Parameters
    ----------
    path : str or Path
    pixels : ndarray, shape (height, width, 3), uint8

    Raises
    ------
    FrameError
        If `pixels` is not such an array or is empty.

    References
    ----------
    .. [1] ISO/IEC 15948:2004, Portable Network Graphics.
    """
    replace_file(path, png_bytes(pixels))


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """Return what `write_png` writes."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise FrameError(
            f"pixels must be uint8 of shape (height, width, 3), not {pixels.dtype} "
            f"of shape {pixels.shape}"
        )
    height_px, width_px = pixels.shape[:2]
    if not height_px or not width_px:
        raise FrameError(f"pixels of shape {pixels.shape} hold no picture")
    # Filter 2: every row is stored as its difference to the row above, modulo 256.
    above = np.concatenate([np.zeros_like(pixels[:1]), pixels[:-1]])
    rows = np.full((height_px, 1 + 3 * width_px), 2, np.uint8)
    rows[:, 1:] = (pixels - above).reshape(height_px, -1)
    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
