"""Every way in which a machine may lack a GPU: named when one is required, and else it
goes without, with one warning and the same bits."""

from __future__ import annotations

import multiprocessing
import os
import warnings

import numpy as np
import pytest
from emulator import DeviceArray, forget

import phasefusion
from phasefusion import cuda, frames
from phasefusion.cuda import runtime
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceError,
    DeviceMemoryError,
    FallbackWarning,
    PhaseFusionError,
)

NORM = {"mean": [0.5] * 3, "std": [0.25] * 3}
FRAMES = np.random.default_rng(0).integers(0, 256, (2, 19, 23, 3), np.uint8)
EXACT = frames.resize_normalize(FRAMES, (8, 10), **NORM)

#: What is wrong: environment, type of the error, what it says.
CASES = {
    "no driver": (
        {"PHASEFUSION_CUDA_DRIVER": "/nowhere/libcuda.so.1"},
        BackendUnavailableError,
        "no CUDA driver: /nowhere/libcuda.so.1: cannot open",
    ),
    "a driver of before CUDA 11.2": (
        {"PHASEFUSION_CUDA_DRIVER": "libm.so.6"},
        BackendUnavailableError,
        "libm.so.6 has no cuInit; the driver is older than CUDA 11.2",
    ),
    "no device": (
        {"CUEMU_DEVICES": "0"},
        BackendUnavailableError,
        "CUDA_ERROR_NO_DEVICE (100)",
    ),
    "a driver that does not start": (
        {"CUEMU_FAIL": "cuInit:1:999"},
        BackendUnavailableError,
        "cuInit: unknown error (999)",
    ),
    "an image of another kind": (
        {"CUEMU_FAIL": "cuModuleLoadData:1:200"},
        BackendUnavailableError,
        "compute capability 9.0): ",
    ),
    "no code for the device": (
        {"CUEMU_FAIL": "cuModuleLoadData:1:209"},
        BackendUnavailableError,
        "CUDA_ERROR_NO_BINARY_FOR_GPU (209)",
    ),
    "PTX that is damaged": (
        {"CUEMU_FAIL": "cuModuleLoadData:1:218"},
        BackendUnavailableError,
        "(218)",
    ),
    "a driver older than the compiler": (
        {"CUEMU_FAIL": "cuModuleLoadData:1:222"},
        BackendUnavailableError,
        "(222)",
    ),
    "a kernel that is missing": (
        {"CUEMU_FAIL": "cuModuleGetFunction:1:500"},
        BackendUnavailableError,
        "cuModuleGetFunction",
    ),
    "no memory for frames": (
        {"CUEMU_FAIL": "cuMemAlloc_v2:1:2"},
        DeviceMemoryError,
        "CUDA_ERROR_OUT_OF_MEMORY (2); give fewer frames",
    ),
    "no page-locked memory": (
        {"CUEMU_FAIL": "cuMemAllocHost_v2:1:2"},
        DeviceMemoryError,
        "cuMemAllocHost_v2: CUDA_ERROR_OUT_OF_MEMORY (2)",
    ),
    "no memory for what kernels are told": (
        {"CUEMU_FAIL": "cuMemAllocAsync:1:2"},
        DeviceMemoryError,
        "cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY (2)",
    ),
}


def run(device):
    return phasefusion.resize_normalize(FRAMES, (8, 10), device=device, **NORM)


def on_device(gpu, device=0):
    made = DeviceArray(gpu, FRAMES.shape, FRAMES.dtype, device=device)
    made.memory[...] = FRAMES
    return made


@pytest.fixture(params=CASES)
def case(request, gpu, monkeypatch):
    environment, kind, said = CASES[request.param]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PHASEFUSION_NVRTC", "/nowhere/libnvrtc.so")
    return kind, said


def test_the_cause_is_named(case, gpu):
    kind, said = case
    with pytest.raises(kind) as found:
        run("cuda")
    assert type(found.value) is kind
    assert said in str(found.value)
    assert gpu.context_depth == 0


def test_auto_does_without_it_and_says_so_once(case, gpu):
    _, said = case
    with pytest.warns(FallbackWarning) as warned:
        first = run("auto")
    assert len(warned) == 1
    assert said in str(warned[0].message)
    assert "on the CPU, with the same result" in str(warned[0].message)
    assert np.array_equal(first, EXACT)
    gpu.reset()  # and it fails again
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(run("auto"), EXACT)


def test_a_device_that_is_not_there_for_frames_that_are(gpu, monkeypatch):
    monkeypatch.setenv("CUEMU_DEVICES", "2")
    forget()
    there = on_device(gpu, device=1)
    got = cuda.resize(there, (8, 10))
    assert np.array_equal(got.memory, frames.resize(FRAMES, (8, 10)))
    assert runtime.device(1).ordinal == 1
    monkeypatch.setenv("CUEMU_DEVICES", "1")
    forget()
    with pytest.raises(BackendUnavailableError, match="no CUDA device 1, only 1"):
        cuda.resize(there, (8, 10))


@pytest.mark.parametrize("name", ["cuStreamIsCapturing", "cuLaunchKernel"])
def test_a_context_that_was_destroyed(gpu, monkeypatch, name):
    there = on_device(gpu)
    cuda.resize(there, (8, 10))
    gpu.reset()
    monkeypatch.setenv("CUEMU_FAIL", f"{name}:1:709")
    with pytest.raises(DeviceError, match=r"CONTEXT_IS_DESTROYED \(709\).*again"):
        cuda.resize(there, (8, 10))
    monkeypatch.delenv("CUEMU_FAIL")
    with pytest.raises(BackendUnavailableError, match="lost to an earlier fault"):
        cuda.resize(there, (8, 10))


def test_a_stream_that_was_destroyed(gpu):
    there = on_device(gpu)
    stream = gpu.stream()
    assert cuda.resize(there, (8, 10), stream=stream) is not None
    gpu.destroy(stream)
    with pytest.raises(DeviceError, match=r"INVALID_HANDLE \(400\)"):
        cuda.resize(there, (8, 10), stream=stream)
    got = cuda.resize(there, (8, 10))  # nothing else is lost
    assert np.array_equal(got.memory, frames.resize(FRAMES, (8, 10)))


def test_a_stream_that_is_captured_into_a_graph(gpu, monkeypatch):
    there = on_device(gpu)
    monkeypatch.setenv("CUEMU_CAPTURING", "1")
    for resize in (cuda.resize, phasefusion.resize_normalize):
        options = {} if resize is cuda.resize else {**NORM, "device": "auto"}
        with pytest.raises(DeviceError, match="being captured into a graph"):
            resize(there, (8, 10), **options)
    assert gpu.launches() == []
    monkeypatch.delenv("CUEMU_CAPTURING")
    assert cuda.resize(there, (8, 10)) is not None


def _in_child(queue):
    said = []
    try:
        run("cuda")
    except PhaseFusionError as error:
        said.append((type(error).__name__, str(error)))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        same = [np.array_equal(run("auto"), EXACT) for _ in range(2)]
    queue.put((said, same, [str(w.message) for w in warned]))


@pytest.mark.skipif("PHASEFUSION_UNDER_ASAN" in os.environ, reason="forks under ASan")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_is_told_so_and_auto_goes_on_without(gpu):
    run("cuda")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    said, same, warned = queue.get(timeout=60)
    child.join()
    assert [kind for kind, _ in said] == ["BackendUnavailableError"]
    assert "before this process was forked" in said[0][1]
    assert same == [True, True]
    assert len(warned) == 1
    assert "before this process was forked" in warned[0]
