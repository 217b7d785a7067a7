"""Grids, posteriors and statistics: pure functions over NumPy arrays."""

import numpy as np
from numpy.typing import NDArray

# grid

def grid_indices(
    clip_frames: int,
    budget: int,
    phases: int,
    origin_num: int,
    origin_den: int,
    /,
) -> NDArray[np.int64]: ...
def grid_frames_at(
    pts: NDArray[np.int64],
    end_pts: int,
    budget: int,
    phases: int,
    origin_num: int,
    origin_den: int,
    /,
) -> NDArray[np.int64]: ...
def sampler_linspace(
    first: int, last: int, n_index: int, rounded: bool, /
) -> NDArray[np.int64]: ...
def sampler_torch_linspace(last: int, n_index: int, /) -> NDArray[np.int64]: ...
def sampler_torch_arange(
    start: float, stop: float, step: float, /
) -> NDArray[np.int64]: ...
def sampler_multiples(
    first: int, step: float, n_index: int, /
) -> NDArray[np.int64]: ...
def sampler_segments(last: int, n_index: int, /) -> NDArray[np.int64]: ...

# posterior

# statistics
