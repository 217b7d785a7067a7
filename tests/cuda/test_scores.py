"""Posteriors, bootstraps, Gram matrices and distances, against the C core."""

from __future__ import annotations

import numpy as np
import pytest
from emulator import DeviceArray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasefusion import _core, _frames, cuda
from phasefusion.cuda import statistics
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceMemoryError,
    FrameError,
    PosteriorError,
    StatisticsError,
)


def on_device(gpu, values):
    made = DeviceArray(gpu, values.shape, values.dtype)
    made.memory[...] = values
    return made


def ulps(a, b):
    """How many doubles lie between, at most."""
    spacing = np.spacing(np.maximum(np.abs(a), np.abs(b)))
    return np.max(np.abs(a - b) / spacing, initial=0.0)


@pytest.mark.parametrize("dtype", ["f4", "f2", "V2"])
@pytest.mark.parametrize("n_vocab", [2, 255, 257, 5003])
def test_log_softmax_over_the_vocabulary(gpu, dtype, n_vocab):
    rng = np.random.default_rng(n_vocab)
    values = rng.normal(0, 4, (7, n_vocab)).astype(np.float32)
    if dtype == "f2":
        given = values.astype(np.float16)
        exact = given.astype(np.longdouble)
    elif dtype == "V2":
        bits = values.view(np.uint32) >> 16
        given = bits.astype(np.uint16).view("V2")
        exact = (bits << 16).astype(np.uint32).view(np.float32).astype(np.longdouble)
    else:
        given, exact = values, values.astype(np.longdouble)
    k = min(4, n_vocab)
    tokens = np.stack([rng.permutation(n_vocab)[:k] for _ in range(7)])
    orders = np.stack([rng.permutation(k) for _ in range(7)])
    got, mass = cuda.option_scores(on_device(gpu, given), tokens, orders)
    top = exact.max(1, keepdims=True)
    norm = top + np.log(np.exp(exact - top).sum(1, keepdims=True))
    wanted = np.empty((7, k), np.longdouble)
    at_places = np.take_along_axis(exact, tokens, 1) - norm
    np.put_along_axis(wanted, orders, at_places, 1)
    # the log of the sum and the two subtractions each round once, at the size of the
    # greatest number on the way
    size = np.spacing(np.maximum(np.abs(np.float64(top)), np.abs(np.float64(wanted))))
    assert (np.abs(got - wanted) <= 2 * size).all()
    assert np.allclose(mass, np.exp(wanted).sum(1).astype(float), rtol=1e-13)


def test_rows_that_are_apart_and_special_numbers(gpu):
    whole = np.zeros((6, 40), np.float32)
    whole[1, 3], whole[2, 3], whole[3] = np.nan, np.inf, -np.inf
    whole[4, 1] = 65504.0
    values = on_device(gpu, whole)
    view = values.view(values.memory[:, :32])
    got, mass = cuda.option_scores(view, [1, 2])
    assert np.isnan(got[1:4]).all()
    assert np.isnan(mass[1:4]).all()
    assert np.allclose(got[[0, 5]], -np.log(32))
    assert got[4, 0] == 0.0
    assert got[4, 1] == -65504.0
    assert mass[4] == 1.0


def test_float16_of_every_bit_pattern(gpu):
    bits = np.arange(65536, dtype=np.uint16)
    finite = bits[np.isfinite(bits.view(np.float16))].view(np.float16)
    rows = np.zeros((len(finite), 2), np.float16)
    rows[:, 0] = finite
    got, _ = cuda.option_scores(on_device(gpu, rows[::7].copy()), [0, 1])
    wanted = finite[::7].astype(np.float64)
    assert np.allclose(got[:, 0] - got[:, 1], wanted, rtol=1e-14, atol=1e-15)


def test_what_cannot_be_scored(gpu):
    values = on_device(gpu, np.zeros((2, 5), np.float32))
    for tokens in ([5, 1], [-1, 0], [[0, 1]] * 3, [0.5, 1.0], [2**40, 0]):
        with pytest.raises(PosteriorError, match="tokens must"):
            cuda.option_scores(values, tokens)
    with pytest.raises(PosteriorError, match="orders must be permutations"):
        cuda.option_scores(values, [0, 1], [0, 0])
    with pytest.raises(PosteriorError, match="logits must be float32"):
        cuda.option_scores(on_device(gpu, np.zeros((2, 5), np.float64)), [0, 1])
    with pytest.raises(PosteriorError, match="rows of logits must be contiguous"):
        cuda.option_scores(values.view(values.memory[:, ::2]), [0, 1])


@given(
    st.integers(0, 40),
    st.integers(1, 6),
    st.integers(1, 32),
    st.sampled_from(["complete", "available"]),
    st.sampled_from([0.0, 0.1, 3.0, 400.0]),
    st.integers(0, 2**32 - 1),
)
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_pools_are_the_cores_bits(gpu, n, passes, k, missing, spread, seed):
    rng = np.random.default_rng(seed)
    logp = rng.normal(0, 1, (n, passes, k)) * spread
    logp[rng.random(logp.shape) < 0.05] = -np.inf
    logp[rng.random((n, passes)) < 0.1] = np.nan
    logp[rng.random((n, passes)) < 0.03] = np.inf
    seeds = rng.integers(0, 2**63, n, np.uint64)
    got = cuda.fuse_items(logp, seeds, missing=missing)
    posterior, margin, answer, n_tied, n_valid, *_ = _core.fuse(
        logp, None, seeds, 0, int(missing == "available"), False
    )
    assert np.array_equal(got.posterior, posterior, equal_nan=True)
    assert np.array_equal(got.answer, answer)
    assert np.array_equal(got.n_valid, n_valid)
    assert np.array_equal(got.n_tied, n_tied)
    finite = np.isfinite(margin)
    assert np.array_equal(got.margin[~finite], margin[~finite], equal_nan=True)
    assert ulps(got.margin[finite], margin[finite]) <= 2


def test_bad_items(gpu):
    with pytest.raises(PosteriorError, match=r"K in 1\.\.32"):
        cuda.fuse_items(np.zeros((2, 1, 33)), [0, 0])
    with pytest.raises(PosteriorError, match="tie_seeds must be one an item"):
        cuda.fuse_items(np.zeros((2, 1, 3)), [0])
    with pytest.raises(PosteriorError, match="missing must be"):
        cuda.fuse_items(np.zeros((1, 1, 3)), [0], missing="some")


@pytest.fixture
def blas(gpu, monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUBLAS", gpu.path)
    statistics._opened.clear()
    yield gpu
    statistics._opened.clear()


def counts_of_the_core(n, seed, n_resamples):
    drawn = _core.resample_indices(n, n_resamples, seed)
    return np.stack([np.bincount(row, minlength=n) for row in drawn])


@pytest.mark.parametrize(
    ("n", "k", "n_resamples"), [(1, 1, 3), (2, 3, 50), (37, 5, 200), (48887, 2, 4)]
)
def test_bootstrap_sums_are_the_cpus(blas, n, k, n_resamples):
    rng = np.random.default_rng(n)
    values = rng.integers(-3, 4, (n, k))
    got = cuda.bootstrap_sums(values, n_resamples=n_resamples, seed=2**63 + 11)
    wanted = counts_of_the_core(n, 2**63 + 11, n_resamples) @ values
    assert np.array_equal(got, wanted)


def test_bootstraps_come_in_chunks(blas):
    values = np.arange(-4, 5).reshape(9, 1)
    got = cuda.bootstrap_sums(values, n_resamples=5000, seed=1)
    assert np.array_equal(got, counts_of_the_core(9, 1, 5000) @ values)
    assert blas.calls("cublasGemmEx") == 2


def test_sums_that_would_not_be_exact_are_refused(blas):
    with pytest.raises(StatisticsError, match="values reach 257"):
        cuda.bootstrap_sums([[257]], n_resamples=1, seed=0)
    with pytest.raises(StatisticsError, match="product at most"):
        cuda.bootstrap_sums(np.full((70000, 1), 256), n_resamples=1, seed=0)
    with pytest.raises(StatisticsError, match="too many for the GPU"):
        cuda.bootstrap_sums(np.ones((60000, 1), int), n_resamples=1, seed=0)
    with pytest.raises(StatisticsError, match="values must be integers"):
        cuda.bootstrap_sums([[0.5]], n_resamples=1, seed=0)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 5, 7), (3, 4, 48), (2, 2, 33)])
def test_gram_matrices_are_exact(blas, shape):
    x = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    x[0, 0] = -128
    wide = x.astype(np.int64)
    assert np.array_equal(cuda.gram(x), wide @ wide.transpose(0, 2, 1))
    assert cuda.gram(x[0]).shape == (shape[1], shape[1])


def test_without_cublas_it_says_so(gpu, monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUBLAS", "/nowhere/libcublas.so.13")
    statistics._opened.clear()
    with pytest.raises(BackendUnavailableError, match="no cuBLAS: /nowhere"):
        cuda.gram(np.zeros((2, 2), np.int8))
    monkeypatch.setenv("PHASEFUSION_CUBLAS", "libm.so.6")
    with pytest.raises(BackendUnavailableError, match="has no cublasCreate_v2"):
        cuda.gram(np.zeros((2, 2), np.int8))


@pytest.mark.parametrize("name", ["cublasCreate_v2", "cublasSetStream_v2"])
def test_what_cublas_refuses(blas, monkeypatch, name):
    monkeypatch.setenv("CUEMU_FAIL", f"{name}:1:3")
    with pytest.raises(BackendUnavailableError, match="cuBLAS status 3"):
        cuda.gram(np.zeros((2, 2), np.int8))


def test_full_memory_in_a_bootstrap(blas, monkeypatch):
    cuda.gram(np.zeros((2, 2), np.int8))
    blas.reset()
    monkeypatch.setenv("CUEMU_FAIL", "cuMemAllocAsync:1:2")
    with pytest.raises(DeviceMemoryError):
        cuda.bootstrap_sums([[1]], n_resamples=4, seed=0)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 13, 17), (2, 40, 64)])
def test_distances_are_the_cores(gpu, shape):
    rng = np.random.default_rng(4)
    a = rng.integers(0, 256, (*shape, 3), np.uint8)
    b = rng.integers(0, 256, (*shape, 3), np.uint8)
    b[0] = a[0]
    for kind, metric in enumerate(["absolute", "rms", "histogram"]):
        flat = (shape[0], shape[1] * shape[2], 3)
        wanted = _frames.distance(a.reshape(flat), b.reshape(flat), kind)
        got = cuda.frame_distance(on_device(gpu, a), on_device(gpu, b), metric)
        assert np.array_equal(got, wanted)


def test_frames_that_cannot_be_compared(gpu):
    a = on_device(gpu, np.zeros((2, 3, 4, 3), np.uint8))
    with pytest.raises(FrameError, match="metric must be"):
        cuda.frame_distance(a, a, "cosine")
    with pytest.raises(FrameError, match="of one shape"):
        cuda.frame_distance(a, on_device(gpu, np.zeros((1, 3, 4, 3), np.uint8)))
    flat = on_device(gpu, np.zeros((4, 3), np.uint8))
    with pytest.raises(FrameError, match=r"\.\.\., H, W, 3"):
        cuda.frame_distance(flat, flat)
