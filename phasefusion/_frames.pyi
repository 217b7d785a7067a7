"""Exact resize and normalisation of decoded frames."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

def cpu_level() -> Literal["scalar", "avx2", "avx512"]: ...
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
