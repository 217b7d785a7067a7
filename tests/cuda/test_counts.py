"""Races and access counts of the kernels; the limits are goals that a change may not
quietly miss (docs/cuda.md says how to read them)."""

from __future__ import annotations

import os
import struct

import emulator
import numpy as np
import pytest
import tracing
from emulator import forget

from phasefusion import cuda, frames

pytestmark = pytest.mark.skipif(
    not emulator.is_possible() or "PHASEFUSION_UNDER_ASAN" in os.environ,
    reason="needs a C++ compiler, and the place of its own thread sanitizer",
)
CODE = emulator.DEVICE_CODE
TENSOR = "resize_tensor.cu"
NORM = {"mean": [0.5] * 3, "std": [0.25] * 3}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The library with the tracer, and the environment that leads to it."""
    folder = tmp_path_factory.mktemp("traced")
    library = emulator.build(folder, "traced")
    image = folder / "image"
    image.write_bytes(struct.pack("<I", 0xBA55ED50) + bytes(60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHASEFUSION_CUDA_DRIVER", str(library))
        patch.setenv("PHASEFUSION_CUDA_IMAGE", str(image))
        forget()
        yield library
    forget()


def seen(library, source, size, **options):
    """The report of one resize, whose result is checked too."""
    rng = np.random.default_rng(1)
    batch = rng.integers(0, 256, (1, *source, 3), np.uint8)
    tracing.collect(library)
    got = cuda.resize_normalize(batch, size, **NORM, **options)
    exact = frames.resize_normalize(batch, size, **NORM, **options)
    assert np.array_equal(got, exact)
    return tracing.collect(library)


@pytest.fixture(scope="module")
def across(traced):
    return seen(traced, (270, 480), (112, 112), first_pass="horizontal")


@pytest.fixture(scope="module")
def down(traced):
    return seen(traced, (480, 270), (112, 112), first_pass="vertical")


@pytest.fixture(scope="module")
def tensor(traced):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHASEFUSION_CUDA_VARIANT", "tensor")
        return seen(traced, (270, 480), (112, 112), first_pass="horizontal")


@pytest.mark.parametrize("name", ["across", "down", "tensor"])
def test_there_are_no_races(name, request):
    assert request.getfixturevalue(name).races == set()


@pytest.mark.parametrize("name", ["across", "down"])
def test_shared_memory_is_read_without_conflicts(name, request):
    report = request.getfixturevalue(name)
    lookups = report.of("shared", "source.h", "const pf_u32 *)r.table)[", CODE)
    everything = tracing.Line()
    for line in report.shared.values():
        everything.requests += line.requests
        everything.cost += line.cost
    assert everything.per_request <= 1.3
    # values of random bytes fall into random banks, which nothing but arithmetic avoids
    assert lookups.requests > 0
    assert lookups.per_request <= 4.0
    rest = (everything.cost - lookups.cost) / (everything.requests - lookups.requests)
    assert rest <= 1.1


@pytest.mark.parametrize("name", ["across", "down"])
def test_lanes_share_their_weights(name, request):
    report = request.getfixturevalue(name)
    weights = report.of("global", "cuemu.h", "const words w =", emulator.EMULATOR)
    assert weights.requests > 0
    assert weights.per_request <= 1.3


def test_rows_are_stored_whole(across, down):
    for report in (across, down):
        stored = report.of("global", "source.h", "((pf_u32 *)r.dst)[at] =", CODE)
        assert stored.n_byte == 4 * 3 * 112 * 112
        assert stored.per_request <= 5.0  # 4 for a whole row of 32 lanes


def test_factors_are_loaded_without_conflicts(tensor):
    """Three words a lane of eight lines, and stores of 512 bytes in four wavefronts."""
    loads = tensor.of("shared", TENSOR, "= pf_split(three[", CODE)
    assert loads.requests > 0
    assert loads.per_request == 1.0
    stores = tensor.of("shared", "cuemu.h", "= words{", emulator.EMULATOR)
    assert 0 < stores.per_request <= 4.0
    # two lines of three bytes are 1.5 words: some fall on those of a neighbour
    halves = tensor.of("shared", TENSOR, "to[b] = (pf_u16)", CODE)
    assert 0 < halves.per_request <= 1.7


def test_matrices_and_lines_are_read_whole(tensor):
    """Sixteen bytes a lane are 16 sectors of a warp at least; rows begin between."""
    loads = tensor.of("global", "cuemu.h", "const words w =", emulator.EMULATOR)
    weights = 3 * tensor.products // 18  # for two factors of three channels
    assert loads.requests > weights > 0
    assert loads.cost <= 1.04 * loads.n_byte / 32
    staged = loads.n_byte - 512 * weights
    assert 270 * 480 * 3 <= staged <= 1.5 * 270 * 480 * 3


def test_bytes_of_the_tile_are_stored_whole(tensor):
    stored = tensor.of("global", "source.h", "((pf_u32 *)r.dst)[at] =", CODE)
    assert stored.n_byte == 4 * 3 * 112 * 112
    assert stored.per_request <= 5.0


def test_the_work_of_a_frame_on_tensor_cores(tensor):
    """Wavefronts, lines of global memory and products, per output pixel."""
    n_px = 112 * 112
    wavefronts = sum(line.cost for line in tensor.shared.values()) / n_px
    lines = sum(line.n_line for line in tensor.global_.values()) / n_px
    assert wavefronts <= 1.5
    assert lines <= 1.45
    assert tensor.products / n_px <= 0.71


def test_the_source_is_read_about_once(across):
    words = across.of("global", "source.h", "return pf_split(word[0], word[1]", CODE)
    bytes_of_source = 270 * 480 * 3
    # neighbouring tiles share the taps at their edges
    assert bytes_of_source <= words.n_byte <= 1.6 * bytes_of_source


def test_the_work_of_a_frame_is_what_the_estimate_counts(across):
    """Wavefronts of shared memory, requests of global memory, per output pixel."""
    n_px = 112 * 112
    wavefronts = sum(line.cost for line in across.shared.values()) / n_px
    requests = sum(line.requests for line in across.global_.values()) / n_px
    assert wavefronts <= 3.2
    assert requests <= 2.5
