"""Tensors of Hugging Face processors, from frames on the emulated driver's GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulator import DeviceArray, DLPackArray, forget

from phasefusion import cuda, frames
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceMemoryError,
    FallbackWarning,
    FrameError,
)
from phasefusion.pixels import (
    Exact,
    PatchSettings,
    PlaneSettings,
    ShortestEdge,
    TileMultiple,
    family_settings,
    to_pixel_values,
    to_qwen_patches,
)

PATCHES = {
    "qwen2_vl": replace(family_settings("qwen2_vl"), max_pixels=128 * 28 * 28),
    "odd number": PatchSettings(patch_px=7, merge=1, temporal_frames=3, size=(21, 35)),
    "per clip": replace(
        family_settings("qwen3_vl"), min_pixels=4096, max_pixels=3 * 64 * 64
    ),
}
PLANES = {
    "one resize": PlaneSettings(resizes=(Exact(32, 48),)),
    "none": PlaneSettings(),
    "two resizes": PlaneSettings(
        resizes=(ShortestEdge(40), Exact(24, 24)), filter="lanczos", backend="pil"
    ),
    "crop": PlaneSettings(resizes=(ShortestEdge(30),), crop=(24, 28)),
    "crop alone": PlaneSettings(crop=(20, 21)),
    "tiles": PlaneSettings(resizes=(TileMultiple(24),), tile=(24, 24)),
    "given": PlaneSettings(
        resizes=(TileMultiple(24),), tile=(24, 24), overview="given"
    ),
    "resized": PlaneSettings(
        resizes=(TileMultiple(24),), tile=(24, 24), overview="resized"
    ),
    "one tile": PlaneSettings(
        resizes=(Exact(24, 24),), tile=(24, 24), overview="given"
    ),
    "families": family_settings("llava_next_video"),
}
ON_HOST = {
    "square": PlaneSettings(square=(9, 99, 200), resizes=(Exact(32, 32),)),
    "large crop": PlaneSettings(resizes=(Exact(16, 16),), crop=(20, 31)),
}


def noise(n=3, height=45, width=67):
    rng = np.random.default_rng(n * height)
    return rng.integers(0, 256, (n, height, width, 3), np.uint8)


def planar(n=3, height=45, width=67):
    """Planes, and the frames that the decoder's conversion makes of them."""
    rng = np.random.default_rng(n)
    half = (n, (height + 1) // 2, (width + 1) // 2)
    planes = [rng.integers(0, 256, s, np.uint8) for s in ((n, height, width), half)]
    planes.append(rng.integers(0, 256, half, np.uint8))
    given = cuda.YuvFrames(*planes, matrix="bt709")
    return given, cuda.resize(given, (height, width))


def on_device(gpu, array, kind=DeviceArray):
    made = kind(gpu, array.shape, array.dtype)
    made.memory[...] = array
    return made


@pytest.fixture
def nothing(monkeypatch):
    """A machine without a driver."""
    monkeypatch.setenv("PHASEFUSION_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    forget()
    yield
    forget()


@pytest.mark.parametrize("name", PATCHES)
def test_patches(gpu, name):
    settings = PATCHES[name]
    for n in (4, 3):
        expected, grid = to_qwen_patches(noise(n), settings)
        rows, same_grid = to_qwen_patches(noise(n), settings, device="cuda")
        assert isinstance(rows, np.ndarray)
        assert (rows.tobytes(), same_grid) == (expected.tobytes(), grid)
        for kind in (DeviceArray, DLPackArray):
            there = on_device(gpu, noise(n), kind)
            made, same_grid = to_qwen_patches(there, settings, device="cuda")
            assert type(made) is kind  # it stays where it was
            gpu.synchronize(1)
            assert same_grid == grid
            assert made.memory.tobytes() == expected.tobytes()
    given, rgb = planar()
    expected, grid = to_qwen_patches(rgb, settings)
    rows, same_grid = to_qwen_patches(given, settings, device="cuda")
    assert (rows.tobytes(), same_grid) == (expected.tobytes(), grid)


@pytest.mark.parametrize("name", PLANES)
@pytest.mark.parametrize("size", [(45, 67), (80, 31), (24, 24)])
def test_planes(gpu, name, size):
    settings = PLANES[name]
    array = noise(2, *size)
    expected = to_pixel_values(array, settings)
    made = to_pixel_values(array, settings, device="cuda")
    assert isinstance(made, np.ndarray)
    assert made.shape == expected.shape
    assert made.tobytes() == expected.tobytes()
    there = to_pixel_values(on_device(gpu, array), settings, device="cuda")
    gpu.synchronize(1)
    assert there.shape == expected.shape
    assert there.memory.tobytes() == expected.tobytes()
    given, rgb = planar(2, *size)
    expected = to_pixel_values(rgb, settings)
    made = to_pixel_values(given, settings, device="cuda")
    assert made.shape == expected.shape
    assert made.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["two resizes", "crop", "resized"])
def test_nothing_is_read_before_the_stream_has_passed(gpu, monkeypatch, name):
    monkeypatch.setenv("CUEMU_LAZY", "1")
    expected = to_pixel_values(noise(), PLANES[name])
    there = to_pixel_values(on_device(gpu, noise()), PLANES[name], device="cuda")
    gpu.synchronize(1)
    assert there.memory.tobytes() == expected.tobytes()
    assert to_pixel_values(noise(), PLANES[name], device="cuda").tobytes() == (
        expected.tobytes()
    )


@pytest.mark.parametrize("name", ON_HOST)
def test_what_is_padded_is_padded_on_the_host(gpu, name):
    settings = ON_HOST[name]
    expected = to_pixel_values(noise(), settings)
    made = to_pixel_values(noise(), settings, device="cuda")
    assert made.tobytes() == expected.tobytes()
    with pytest.raises(FrameError, match="on the CPU alone"):
        to_pixel_values(on_device(gpu, noise()), settings, device="cuda")


def test_frames_of_the_size_are_not_sent_away(gpu):
    settings = PATCHES["odd number"]
    there = noise(2, 21, 35)
    expected, _ = to_qwen_patches(there, settings)
    rows, _ = to_qwen_patches(there, settings, device="cuda")
    assert rows.tobytes() == expected.tobytes()
    values = np.zeros((2, 3, 21, 35), np.float32)
    to_qwen_patches(values, settings, device="cuda")  # resized before
    assert gpu.launches() == []


def test_resize_of_a_device(gpu):
    expected = frames.resize(noise(), (20, 30), filter="lanczos")
    made = frames.resize(noise(), (20, 30), filter="lanczos", device="cuda")
    assert np.array_equal(made, expected)
    there = frames.resize(on_device(gpu, noise()), (20, 30), device="auto")
    gpu.synchronize(1)
    assert np.array_equal(there.memory, frames.resize(noise(), (20, 30)))
    with pytest.raises(FrameError, match="device must be"):
        frames.resize(noise(), (20, 30), device="gpu")


def test_memory_that_is_full(gpu, monkeypatch):
    monkeypatch.setenv("CUEMU_FAIL", "cuMemAllocHost_v2:1:2")
    gpu.reset()
    with pytest.raises(DeviceMemoryError):
        frames.resize(noise(), (20, 30), device="cuda")
    gpu.reset()
    with pytest.warns(FallbackWarning, match="does not fit"):
        made = frames.resize(noise(), (20, 30), device="auto")
    assert np.array_equal(made, frames.resize(noise(), (20, 30)))


def test_without_a_gpu(nothing):
    settings = PLANES["two resizes"]
    expected = to_pixel_values(noise(), settings)
    with pytest.warns(FallbackWarning, match="no CUDA driver"):
        made = to_pixel_values(noise(), settings, device="auto")
    assert made.tobytes() == expected.tobytes()
    rows, _ = to_qwen_patches(noise(), PATCHES["odd number"], device="auto")
    same, _ = to_qwen_patches(noise(), PATCHES["odd number"])
    assert rows.tobytes() == same.tobytes()  # and nothing more is said
    with pytest.raises(BackendUnavailableError, match="no CUDA driver"):
        to_pixel_values(noise(), settings, device="cuda")
    planes = noise()[..., 0], noise(3, 23, 34)[..., 0], noise(3, 23, 34)[..., 1]
    with pytest.raises(BackendUnavailableError, match="no CUDA driver"):
        to_qwen_patches(cuda.YuvFrames(*planes), device="auto")


@pytest.mark.parametrize("wrong", [noise()[0], noise()[:0]])
def test_frames_of_another_shape(gpu, wrong):
    there = on_device(gpu, wrong)
    with pytest.raises(FrameError, match="with at least one frame"):
        to_qwen_patches(there, device="cuda")
    with pytest.raises(FrameError, match="with at least one frame"):
        to_pixel_values(there, PLANES["none"], device="cuda")
