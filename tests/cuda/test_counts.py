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
TILED = "resize_tiled.cu"
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


@pytest.mark.parametrize("name", ["across", "down"])
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
