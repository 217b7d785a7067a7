"""Which kernels resize: by one measurement, by the environment, or as ever."""

from __future__ import annotations

import json

import numpy as np
import pytest
from emulator import DeviceArray, forget

from phasefusion import cuda, frames
from phasefusion.cuda import choice, nvrtc, runtime
from phasefusion.errors import FrameError

SMALL = ((40, 60), (16, 16), 3)
FASTER = "pf_tensor:1.0,pf_tiled:2.0"
SLOWER = "pf_tensor:2.0,pf_tiled:1.0"


@pytest.fixture
def batch(gpu, monkeypatch):
    """Frames on the device, with every call worth a small measurement."""
    monkeypatch.setattr(choice, "TRIAL", SMALL)
    monkeypatch.setattr(choice, "WORTH_BYTES", 0)
    values = np.random.default_rng(0).integers(0, 256, (2, 50, 70, 3), np.uint8)
    made = DeviceArray(gpu, values.shape, values.dtype)
    made.memory[...] = values
    return made


def kernels_of(gpu, batch, **options):
    """The kernels of one resize, whose bytes are checked too."""
    gpu.reset()
    got = cuda.resize(batch, (20, 30), **options)
    exact = frames.resize(batch.memory.copy(), (20, 30), **options)
    assert np.array_equal(got.memory, exact)
    return [name for name, _ in gpu.launches()]


@pytest.mark.parametrize(
    ("times", "expected"), [(FASTER, "pf_tensor"), (SLOWER, "pf_tiled")]
)
def test_the_faster_kernels_are_used_and_measured_once(
    gpu, batch, monkeypatch, times, expected
):
    monkeypatch.setenv("CUEMU_TIMES", times)
    first = kernels_of(gpu, batch)
    assert len(first) > 1  # those of the measurement
    assert first[-1] == expected
    assert gpu.calls("cuEventElapsedTime") == 2 * choice._N_TURNS
    assert kernels_of(gpu, batch) == [expected]
    monkeypatch.setenv("CUEMU_TIMES", "")
    forget()  # another process
    assert kernels_of(gpu, batch) == [expected]
    (kept,) = nvrtc.cache_folder().iterdir()
    slow, fast = (2.0, 1.0) if expected == "pf_tensor" else (1.0, 2.0)
    assert json.loads(kept.read_text()) == {"tiled": slow, "tensor": fast}


def test_without_a_difference_nothing_changes(gpu, batch):
    assert kernels_of(gpu, batch)[-1] == "pf_tiled"


def test_nothing_is_left_of_a_measurement(gpu, batch, monkeypatch):
    monkeypatch.setenv("CUEMU_TIMES", FASTER)
    device = runtime.device(0)
    before = gpu.live_allocations
    assert choice.measure(device) == {"tiled": 2.0, "tensor": 1.0}
    assert gpu.live_allocations == before + 2 * 2 + 1  # tables of weights and of places


def test_small_calls_and_frames_of_the_host_are_not_worth_it(gpu, batch, monkeypatch):
    monkeypatch.setattr(choice, "WORTH_BYTES", 2 * 3 * (50 * 70 + 20 * 30))
    monkeypatch.setenv("CUEMU_TIMES", FASTER)
    cuda.resize(batch.memory.copy(), (20, 30))
    assert gpu.calls("cuEventElapsedTime") == 0
    one = batch.view(batch.memory[:1])
    assert kernels_of(gpu, one) == ["pf_tiled"]
    assert kernels_of(gpu, batch)[-1] == "pf_tensor"
    assert kernels_of(gpu, one) == ["pf_tensor"]


def test_pictures_that_go_down_first_or_are_too_large_go_as_before(
    gpu, batch, monkeypatch
):
    monkeypatch.setenv("PHASEFUSION_CUDA_VARIANT", "tensor")
    assert kernels_of(gpu, batch, first_pass="vertical") == ["pf_turned"]
    monkeypatch.setenv("CUEMU_SHARED", "101376")  # a block's, of an RTX 30
    forget()
    sizes = [(1100, 600), (50, 70), (2, 9001), (60, 40)]
    wanted = [(16, 20), (20, 30), (3, 2), (10, 35)]
    clips = [
        np.random.default_rng(1).integers(0, 256, (*s, 3), np.uint8) for s in sizes
    ]
    there = [DeviceArray(gpu, clip.shape, clip.dtype) for clip in clips]
    for array, clip in zip(there, clips, strict=True):
        array.memory[...] = clip
    gpu.reset()
    norm = {"mean": [0.5] * 3, "std": [0.25] * 3}
    made = cuda.resize_normalize_many(there, wanted, **norm)
    names = [name for name, _ in gpu.launches()]
    assert sorted(names) == ["pf_pass", "pf_pass", "pf_tensor", "pf_tiled", "pf_turned"]
    for got, clip, size in zip(made, clips, wanted, strict=True):
        assert np.array_equal(got.memory, frames.resize_normalize(clip, size, **norm))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("plain", "pf_pass"), ("tiled", "pf_tiled"), ("tensor", "pf_tensor")],
)
def test_the_environment_decides_without_measuring(
    gpu, batch, monkeypatch, wanted, expected
):
    monkeypatch.setenv("PHASEFUSION_CUDA_VARIANT", wanted)
    assert set(kernels_of(gpu, batch)) == {expected}
    assert gpu.calls("cuEventElapsedTime") == 0


def test_an_environment_that_names_nothing(gpu, batch, monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUDA_VARIANT", "fast")
    with pytest.raises(FrameError, match="PHASEFUSION_CUDA_VARIANT must be auto"):
        cuda.resize(batch, (20, 30))


def test_old_devices_are_not_asked(gpu, batch, monkeypatch):
    monkeypatch.setenv("CUEMU_ARCH", "75")
    forget()
    assert kernels_of(gpu, batch) == ["pf_tiled"]
    monkeypatch.setenv("PHASEFUSION_CUDA_VARIANT", "tensor")
    assert kernels_of(gpu, batch) == ["pf_tiled"]


#: What the measurement calls; the last of these it does not get to.
MEASURED = ["cuMemAllocAsync", "cuEventCreate", "cuEventRecord", "cuMemsetD8Async"]
MEASURED += ["cuEventElapsedTime", "cuMemFreeAsync", "cuStreamSynchronize"]


@pytest.mark.parametrize("name", MEASURED)
def test_a_measurement_that_fails_changes_nothing(gpu, batch, monkeypatch, name):
    runtime.device(0)
    gpu.reset()
    monkeypatch.setenv("CUEMU_TIMES", FASTER)
    monkeypatch.setenv("CUEMU_FAIL", f"{name}:1:2")
    assert choice.measure(runtime.device(0)) is None
    assert gpu.context_depth == 0
    monkeypatch.delenv("CUEMU_FAIL")
    monkeypatch.setattr(choice, "measure", lambda device: None)
    assert kernels_of(gpu, batch) == ["pf_tiled"]
    assert not nvrtc.cache_folder().exists()


def test_a_torn_or_foreign_cache_is_measured_anew(gpu, batch, monkeypatch):
    monkeypatch.setenv("CUEMU_TIMES", FASTER)
    kernels_of(gpu, batch)
    (kept,) = nvrtc.cache_folder().iterdir()
    for content in ("{", "[]", '{"tiled": 1}', '{"tiled": null, "tensor": 1}'):
        kept.write_text(content)
        forget()
        assert kernels_of(gpu, batch)[-1] == "pf_tensor"
        assert gpu.calls("cuEventElapsedTime") == 2 * choice._N_TURNS
        assert json.loads(kept.read_text()) == {"tiled": 2.0, "tensor": 1.0}


def test_what_cannot_be_measured(gpu):
    from phasefusion import _cuda

    handle = runtime.device(0).handle
    for source, size, n in [
        ((0, 5), (4, 4), 1),
        ((5, 5), (4, 0), 1),
        ((5, 5), (4, 4), 0),
    ]:
        with pytest.raises(ValueError, match="a size is out of range"):
            _cuda.measure(handle, "tiled", source, size, n)
    with pytest.raises(ValueError, match="unknown variant"):
        _cuda.measure(handle, "best", (5, 5), (4, 4), 1)
