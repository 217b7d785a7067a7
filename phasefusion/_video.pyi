from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

@final
class Reader:
    def __new__(
        cls,
        path: str | bytes | PathLike[str] | PathLike[bytes],
        stream: int,
        max_packets: int,
        max_pixels: int,
        cache_bytes: int,
        /,
    ) -> Reader: ...
    def close(self, /) -> None: ...
    def info(self, /) -> dict[str, Any]: ...
    def pts(self, /) -> NDArray[np.int64]: ...
    def recount(self, /) -> bool: ...
    def read(
        self,
        indices: NDArray[np.int64],
        outs: tuple[NDArray[np.uint8], ...],
        n_thread: int,
        sequential: bool,
        /,
    ) -> tuple[NDArray[np.uint8], bool]: ...
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

def ffmpeg_versions() -> dict[str, str]: ...
