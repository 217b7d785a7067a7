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
def fuse(
    logp: NDArray[np.float64],
    n_options: NDArray[np.int64] | None,
    tie_seeds: NDArray[np.uint64],
    pool: int,
    missing: int,
    with_passes: bool,
    /,
) -> tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.uint8],
]: ...
def bad_order(orders: NDArray[np.int64], /) -> int: ...
def to_content(
    values: NDArray[np.float64], orders: NDArray[np.int64], /
) -> NDArray[np.float64]: ...
def to_letters(
    values: NDArray[np.float64], orders: NDArray[np.int64], /
) -> NDArray[np.float64]: ...

# statistics
def fnv1a64(data: bytes, /) -> int: ...
def tie_seeds(item_ids: list[str], seed: int, /) -> NDArray[np.uint64]: ...
def splitmix64(seed: int, n: int, /) -> NDArray[np.uint64]: ...
def permutations(seed: int, n_values: int, n: int, /) -> NDArray[np.int64]: ...
def flip_counts(
    answers: NDArray[np.int64], n_answers: int, /
) -> tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]
]: ...
def flip_pairs(
    answers: NDArray[np.int64], n_answers: int, use: NDArray[np.bool_], /
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def flip_summary(
    answers: NDArray[np.int64],
    n_answers: int,
    n_expected: NDArray[np.int64] | None,
    only_complete: bool,
    /,
) -> tuple[
    tuple[
        NDArray[np.float64],
        NDArray[np.int8],
        NDArray[np.bool_],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
    ],
    int,
    int,
]: ...
def expected_any_flip(
    counts: NDArray[np.int64], n_draws: int, /
) -> NDArray[np.float64]: ...
def consensus(
    votes: NDArray[np.int64],
    n_options: NDArray[np.int64],
    tie_seeds: NDArray[np.uint64],
    mean_posterior: NDArray[np.float64] | None,
    width: int,
    rule: int,
    /,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
def ranking_placements(
    is_positive: NDArray[np.bool_], begins_score: NDArray[np.bool_], /
) -> NDArray[np.int64]: ...
def ranking_bootstrap(
    is_positive: NDArray[np.bool_],
    begins_score: NDArray[np.bool_],
    n_resamples: int,
    seed: int,
    /,
) -> NDArray[np.float64]: ...
def resample_sums(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    n_clusters: NDArray[np.int64],
    n_resamples: int,
    seed: int,
    /,
) -> NDArray[np.float64]: ...
def resample_indices(n: int, n_resamples: int, seed: int, /) -> NDArray[np.uint32]: ...
def matched_votes(
    answers: NDArray[np.int64],
    n_options: NDArray[np.int64],
    halves: NDArray[np.uint8],
    tie_seeds: NDArray[np.uint64] | None,
    fractional: bool,
    /,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
]: ...
def matched_shuffle(
    answers: NDArray[np.int64], item_seeds: NDArray[np.uint64], seed: int, /
) -> NDArray[np.int64]: ...
