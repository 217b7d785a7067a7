"""A frame number written into the picture itself, and read back from it.

The top eighth of the frame (an even number of rows) holds two rows of sixteen cells.
Cell 0 is white and cell 1 black; cells 2 to 15 carry the number's bits, lowest first,
in the upper row and their complement in the lower one. A picture that lost or mixed its
strip fails the complement check, so what is read is right or None.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

N_CELL = 16
N_BIT = N_CELL - 2


def strip_rows(height: int) -> int:
    rows = height // 8
    return rows + rows % 2


def cells(number: int) -> NDArray[np.uint8]:
    """The strip as cells: (2, 16), 0 or 255."""
    bits = number >> np.arange(N_BIT) & 1
    upper = np.concatenate([[1, 0], bits])
    lower = np.concatenate([[1, 0], 1 - bits])
    return np.stack([upper, lower]).astype(np.uint8) * 255


def draw(frame: NDArray[np.uint8], number: int) -> None:
    """Write the number into a frame (H, W) or (H, W, 3), in place."""
    height, width = frame.shape[:2]
    rows = strip_rows(height)
    y = np.arange(rows) * 2 // rows
    x = np.arange(width) * N_CELL // width
    strip = cells(number)[y][:, x]
    frame[:rows] = strip if frame.ndim == 2 else strip[..., None]


def read(frame: NDArray[np.uint8]) -> int | None:
    """The number in an upright frame (H, W, 3) or (H, W), or None."""
    height, width = frame.shape[:2]
    grey = frame[: strip_rows(height)].astype(np.float64)
    if grey.ndim == 3:
        grey = grey.mean(axis=2)
    cell_rows = strip_rows(height) / 2
    cell_columns = width / N_CELL
    bright = np.empty((2, N_CELL), bool)
    for row in range(2):
        top, bottom = (int(cell_rows * (row + part)) for part in (0.3, 0.7))
        for column in range(N_CELL):
            left, right = (int(cell_columns * (column + part)) for part in (0.3, 0.7))
            middle = grey[top : max(bottom, top + 1), left : max(right, left + 1)]
            bright[row, column] = middle.mean() > 128
    upper, lower = bright
    if not (upper[0] and lower[0]) or upper[1] or lower[1]:
        return None
    if (upper[2:] == lower[2:]).any():
        return None
    return int((upper[2:] << np.arange(N_BIT)).sum())
