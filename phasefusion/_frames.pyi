"""Exact resize and normalisation of decoded frames."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

def cpu_level() -> Literal["scalar", "avx2", "avx512"]: ...
def distance(
    a: NDArray[np.uint8], b: NDArray[np.uint8], kind: int, /
) -> NDArray[np.float64]: ...
def histogram_change(counts: NDArray[np.uint32], /) -> NDArray[np.float64]: ...
def histograms(frames: NDArray[np.uint8], /) -> NDArray[np.uint32]: ...
def patches_from_planes(
    planes: NDArray[np.float32],
    rows: NDArray[np.float32],
    patch: tuple[int, int],
    merge: int,
    depth: int,
    /,
) -> None: ...
def patches_from_rgb(
    frames: NDArray[np.uint8],
    table: NDArray[np.float32],
    formula: tuple[float, tuple[float, float, float], tuple[float, float, float]],
    rows: NDArray[np.float32],
    patch: tuple[int, int],
    merge: int,
    depth: int,
    /,
) -> None: ...
def resize(
    frames: NDArray[np.uint8],
    out: NDArray[np.uint8],
    filter: str,
    first_pass: str,
    level: str,
    threads: int,
    /,
) -> None: ...
def resize_normalize(
    frames: NDArray[np.uint8],
    out: NDArray[np.float32],
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    filter: str,
    first_pass: str,
    level: str,
    threads: int,
    /,
) -> None: ...
