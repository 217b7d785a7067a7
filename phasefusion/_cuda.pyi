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
def hold(device: Any, /) -> None: ...
def load(device: Any, image: bytes, /) -> None: ...
def measure(
    device: Any,
    variant: str,
    source: tuple[int, int],
    size: tuple[int, int],
    n_frames: int,
    /,
) -> float: ...
def open(path: str, /) -> Any: ...
def release(device: Any, /) -> None: ...
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
def option_scores(
    device: Any,
    stream: int,
    logits: tuple[int, int, int, int],
    tokens: NDArray[np.int32],
    orders: NDArray[np.int32],
    /,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def fuse(
    device: Any,
    logprobs: NDArray[np.float64],
    tie_seeds: NDArray[np.uint64],
    complete: bool,
    /,
) -> tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
]: ...
def fuse_there(
    device: Any,
    stream: int,
    logprobs: int,
    shape: tuple[int, int, int],
    tie_seeds: NDArray[np.uint64],
    complete: bool,
    made: tuple[int, int, int, int, int],
    /,
) -> None: ...
def distance_sums(
    device: Any, stream: int, a: int, b: int, n_pairs: int, n_px: int, /
) -> NDArray[np.int64]: ...
def blas(device: Any, path: str, /) -> Any: ...
def bootstrap(
    device: Any, blas: Any, values: NDArray[np.int16], seed: int, n_resamples: int, /
) -> NDArray[np.int64]: ...
def gram(device: Any, blas: Any, x: NDArray[np.int8], /) -> NDArray[np.int32]: ...
