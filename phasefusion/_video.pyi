from collections.abc import Callable
from os import PathLike
from typing import Any, final

import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

@final
class Reader:
    def __new__(
        cls,
        path: str | bytes | PathLike[str] | PathLike[bytes],
        data: ReadableBuffer | None,
        stream: int,
        limits: tuple[int, int, int, int, float],
        /,
    ) -> Reader: ...
    def close(self, /) -> None: ...
    def info(self, /) -> dict[str, Any]: ...
    def pts(self, /) -> NDArray[np.int64]: ...
    def recount(self, /) -> bool: ...
    def digest(
        self, indices: NDArray[np.int64], n_thread: int, sequential: bool, /
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8], bool]: ...
    def histograms(
        self, indices: NDArray[np.int64], n_thread: int, /
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint8], bool]: ...
    def motion(
        self, indices: NDArray[np.int64], n_thread: int, /
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.uint8], bool]: ...
    def read(
        self,
        indices: NDArray[np.int64],
        outs: tuple[NDArray[np.uint8], ...],
        n_thread: int,
        sequential: bool,
        /,
    ) -> tuple[NDArray[np.uint8], bool]: ...
    def read_chunks(
        self,
        indices: NDArray[np.int64],
        chunks: tuple[tuple[NDArray[np.uint8], ...], ...],
        take: Callable[[int, NDArray[np.int64], str, bool], bool],
        n_thread: int,
        /,
    ) -> tuple[NDArray[np.uint8], bool] | None: ...
    def read_fitted(
        self,
        indices: NDArray[np.int64],
        outs: tuple[NDArray[np.uint8] | NDArray[np.float32], ...],
        normalise: tuple[float, float, float, float, float, float] | None,
        filter: str,
        first_pass: str,
        n_thread: int,
        /,
    ) -> tuple[NDArray[np.uint8], bool]: ...

def ffmpeg_parts() -> dict[str, Any]: ...
def ffmpeg_versions() -> dict[str, str]: ...
def motion_energy(
    sums: NDArray[np.float64], facts: NDArray[np.int64], picture_px2: int, /
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]: ...
def read_subtitles(
    path: str | bytes | PathLike[str] | PathLike[bytes],
    data: ReadableBuffer | None,
    stream: int,
    languages: str | None,
    max_cues: int,
    max_text_bytes: int,
    /,
) -> dict[str, Any]: ...
