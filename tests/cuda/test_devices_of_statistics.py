"""Statistics that a GPU computes, with the numbers of the CPU; emulated driver."""

from __future__ import annotations

import numpy as np
import pytest
from emulator import DeviceArray, DLPackArray, forget

from phasefusion import _core, cuda, stats
from phasefusion.cuda import statistics
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceMemoryError,
    FallbackWarning,
    FrameError,
    PosteriorError,
    StatisticsError,
)
from phasefusion.stats import columns, distinctness

PIXELS = ("absolute", "rms", "histogram")


def on_device(gpu, array, kind=DeviceArray):
    made = kind(gpu, array.shape, array.dtype)
    made.memory[...] = array
    return made


def noise(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


@pytest.fixture
def blas(gpu, monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUBLAS", gpu.path)
    statistics._opened.clear()
    yield gpu
    statistics._opened.clear()


@pytest.fixture
def nothing(monkeypatch):
    """A machine without a driver."""
    monkeypatch.setenv("PHASEFUSION_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    forget()
    yield
    forget()


# --------------------------------------------------------------- bootstrap


def table(n, k, gaps):
    rng = np.random.default_rng(n * k)
    values = rng.integers(-1, 2, (n, k)).astype(float)
    if gaps:
        values[rng.random(values.shape) < 0.2] = np.nan
    return values, rng.integers(0, n // 2 + 1, n)


def same(one, other):
    for name in ("estimate", "se", "low", "high", "replicates", "n"):
        left, right = getattr(one, name), getattr(other, name)
        assert np.array_equal(left, right, equal_nan=True), name


@pytest.mark.parametrize("gaps", [False, True])
def test_columns_have_one_result(blas, gaps):
    values, cluster = table(61, 7, gaps)
    options = {"n_resamples": 90, "seed": 2**63 + 5}
    here = stats.columns_bootstrap(values, cluster, **options)
    assert blas.calls("cublasGemmEx") == 0
    there = stats.columns_bootstrap(values, cluster, **options, device="cuda")
    assert blas.calls("cublasGemmEx") == 1
    same(here, there)


def test_auto_takes_a_gpu_for_many_columns(blas):
    few, cluster = table(9, columns.COLUMNS_OF_A_GPU - 1, False)
    many, _ = table(9, columns.COLUMNS_OF_A_GPU, False)
    stats.columns_bootstrap(few, cluster, n_resamples=5, device="auto")
    assert blas.calls("cublasGemmEx") == 0
    made = stats.columns_bootstrap(many, cluster, n_resamples=5, device="auto")
    assert blas.calls("cublasGemmEx") == 1
    same(made, stats.columns_bootstrap(many, cluster, n_resamples=5))


def test_sums_beyond_a_gpu_are_made_on_the_cpu(blas):
    many = np.full((3, columns.COLUMNS_OF_A_GPU), 300)
    made = stats.columns_bootstrap(many, n_resamples=5, device="auto")
    assert (made.estimate == 300).all()
    assert blas.calls("cublasGemmEx") == 0
    with pytest.raises(StatisticsError, match="values reach 300"):
        stats.columns_bootstrap(many, n_resamples=5, device="cuda")


def test_bootstrap_without_a_gpu(nothing):
    many, cluster = table(9, columns.COLUMNS_OF_A_GPU, True)
    with pytest.warns(FallbackWarning, match="resampling on the CPU"):
        made = stats.columns_bootstrap(many, cluster, n_resamples=5, device="auto")
    same(made, stats.columns_bootstrap(many, cluster, n_resamples=5))
    with pytest.raises(BackendUnavailableError, match="no CUDA driver"):
        stats.columns_bootstrap(many, cluster, n_resamples=5, device="cuda")


# ------------------------------------------------------------ distinctness


@pytest.mark.parametrize("kind", [DeviceArray, DLPackArray])
@pytest.mark.parametrize("metric", PIXELS)
def test_frames_on_a_gpu(gpu, metric, kind):
    a, b = noise((2, 3, 9, 7, 3)), noise((2, 3, 9, 7, 3), 1)
    expected = stats.visual_distinctness(a, b, metric=metric)
    there = (on_device(gpu, a, kind), on_device(gpu, b, kind))
    made = stats.visual_distinctness(*there, metric=metric, device="cuda")
    assert made.tobytes() == expected.tobytes()
    views = noise((4, 3, 9, 7, 3), 2)
    expected = stats.distinctness_curve(views, np.arange(4) / 4, metric=metric)
    made = stats.distinctness_curve(
        on_device(gpu, views, kind), np.arange(4) / 4, metric=metric, device="auto"
    )
    assert made.distance.tobytes() == expected.distance.tobytes()
    assert np.array_equal(made.pairs, expected.pairs)
    assert made.n_frames == 3


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((3, 4, 9, 7, 3), 2**17),
        ((2, 3, 1, 1, 3), 2**17),
        ((5, 3, 9, 7, 3), 64),
        ((4, 1, 8, 8, 3), 64),
        ((13, 2, 5, 6, 3), 50),
    ],
)
@pytest.mark.parametrize("n_bytes", [2**26, 1])
def test_gram_matrices_give_the_same_curve(blas, monkeypatch, shape, values, n_bytes):
    monkeypatch.setattr(statistics, "_GRAM_VALUES", values)
    monkeypatch.setattr(statistics, "_GRAM_BYTES", n_bytes)
    views = noise(shape)
    views[0], views[-1] = 0, 255  # as far apart as can be
    phases = np.arange(shape[0]) / shape[0]
    expected = stats.distinctness_curve(views, phases, metric="rms")
    made = stats.distinctness_curve(views, phases, metric="rms", device="cuda")
    assert blas.calls("cublasGemmStridedBatchedEx") == (1 if n_bytes > 1 else shape[1])
    assert made.distance.tobytes() == expected.distance.tobytes()


def test_auto_takes_a_gpu_for_many_views(blas):
    for n, calls in ((distinctness.VIEWS_OF_A_GPU - 1, 0), (12, 1)):
        views = noise((n, 1, 4, 4, 3))
        for metric in PIXELS:
            stats.distinctness_curve(views, range(n), metric=metric, device="auto")
        assert blas.calls("cublasGemmStridedBatchedEx") == calls


def test_features_and_frames_of_the_host_stay(gpu):
    a, b = noise((2, 4, 4, 3)), noise((2, 4, 4, 3), 1)
    expected = stats.visual_distinctness(a, b)
    assert np.array_equal(stats.visual_distinctness(a, b, device="cuda"), expected)
    one = stats.visual_distinctness([1.0, 0], [0, 1.0], metric="cosine", device="cuda")
    assert one == 1.0
    assert gpu.launches() == []


def test_distinctness_without_a_gpu(nothing):
    views = noise((12, 2, 4, 4, 3))
    expected = stats.distinctness_curve(views, range(12), metric="rms")
    with pytest.warns(FallbackWarning, match="comparing frames on the CPU"):
        made = stats.distinctness_curve(views, range(12), metric="rms", device="auto")
    assert made.distance.tobytes() == expected.distance.tobytes()
    with pytest.raises(BackendUnavailableError, match="no CUDA driver"):
        stats.distinctness_curve(views, range(12), metric="rms", device="cuda")


def test_what_is_no_view(gpu):
    with pytest.raises(StatisticsError, match="device"):
        stats.visual_distinctness([1.0], [1.0], metric="cosine", device="gpu")
    apart = on_device(gpu, noise((2, 2, 4, 8, 3)))
    for wrong in (
        apart.view(apart.memory[:, :, :, ::2]),
        on_device(gpu, noise((2, 2, 4, 4))),
        on_device(gpu, np.zeros((2, 2, 4, 4, 3), np.int16)),
    ):
        with pytest.raises(FrameError, match="views must be C-contiguous uint8"):
            stats.distinctness_curve(wrong, [0, 0.5], device="cuda")
    with pytest.raises(StatisticsError, match="metric of frames on a GPU"):
        stats.distinctness_curve(apart, [0, 0.5], metric="cosine", device="cuda")


# ------------------------------------------------------------------- pools


@pytest.mark.parametrize("kind", [DeviceArray, DLPackArray])
@pytest.mark.parametrize("missing", ["complete", "available"])
def test_passes_on_a_gpu_stay_there(gpu, missing, kind):
    rng = np.random.default_rng(0)
    logp = rng.normal(0, 2, (37, 3, 5))
    logp[rng.random((37, 3)) < 0.1] = np.nan
    logp[5, :, 1] = logp[5, :, 2] = 3.0  # a tie
    seeds = rng.integers(0, 2**63, 37, np.uint64)
    stream = gpu.stream()
    made = cuda.fuse_items(
        on_device(gpu, logp, kind), seeds, missing=missing, stream=stream
    )
    posterior, margin, answer, n_tied, n_valid, *_ = _core.fuse(
        logp, None, seeds, 0, int(missing == "available"), False
    )
    expected = (posterior, margin, answer, n_tied, n_valid)
    names = ("posterior", "margin", "answer", "n_tied", "n_valid")
    for name, wanted in zip(names, expected, strict=True):
        got = getattr(made, name)
        assert type(got) is kind
        assert got.memory.dtype == (
            np.float64 if wanted.dtype.kind == "f" else np.int64
        )
        assert np.array_equal(got.memory, wanted, equal_nan=True), name
    assert gpu.launches() == [("pf_fuse_passes", stream)]
    empty = cuda.fuse_items(on_device(gpu, logp[:0]), seeds[:0])
    assert empty.posterior.shape == (0, 5)


def test_passes_that_cannot_be_fused(gpu, monkeypatch):
    logp = on_device(gpu, np.zeros((4, 2, 3)))
    seeds = np.zeros(4, np.uint64)
    with pytest.raises(PosteriorError, match="tie_seeds must be one an item"):
        cuda.fuse_items(logp, seeds[:3])
    with pytest.raises(PosteriorError, match="C-contiguous float64"):
        cuda.fuse_items(on_device(gpu, np.zeros((4, 2, 3), np.float32)), seeds)
    with pytest.raises(PosteriorError, match="C-contiguous float64"):
        cuda.fuse_items(logp.view(logp.memory[:, :, ::-1]), seeds)
    with pytest.raises(PosteriorError, match=r"K in 1\.\.32"):
        cuda.fuse_items(on_device(gpu, np.zeros((4, 2, 33))), seeds)
    monkeypatch.setenv("CUEMU_FAIL", "cuMemAllocAsync:1:2")
    gpu.reset()
    with pytest.raises(DeviceMemoryError, match="fusing 4 items"):
        cuda.fuse_items(on_device(gpu, np.zeros((4, 2, 3))), seeds)
