"""Exact resize of frames on a GPU."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def colour(
    red: float, blue: float, full_range: bool, /
) -> tuple[int, int, int, int, int, int]: ...
def device(driver: Any, ordinal: int, /) -> Any: ...
def device_info(device: Any, /) -> tuple[str, tuple[int, int], int, int]: ...
def device_of(driver: Any, address: int, /) -> int: ...
def driver_info(driver: Any, /) -> tuple[int, int]: ...
def from_dlpack(
    capsule: Any, /
) -> tuple[
    int,
    tuple[int, ...],
    tuple[int, ...] | None,
    tuple[int, int, int],
    tuple[int, int],
    Any,
]: ...
def load(device: Any, image: bytes, /) -> None: ...
def open(path: str, /) -> Any: ...
def resize(
    device: Any,
    stream: int | None,
    pixels: int,
    colour: tuple[int, int, int, int, int, int],
    jobs: NDArray[np.int64],
    table: NDArray[np.uint16] | NDArray[np.uint32] | None,
    places: tuple[bool, int, int, int, int],
    filter: str,
    first_pass: str,
    variant: str,
    /,
) -> None: ...
def wait(device: Any, stream: int, other: int, /) -> None: ...
