"""Arrays of other frameworks: no copies, their streams, their memory."""

from __future__ import annotations

import numpy as np
import pytest
from emulator import DeviceArray, DLPackArray

from phasefusion import cuda, frames
from phasefusion.cuda import arrays, runtime
from phasefusion.errors import DeviceError, FrameError

NORM = {"mean": [0.5] * 3, "std": [0.25] * 3}
FRAMES = np.random.default_rng(0).integers(0, 256, (3, 19, 24, 3), np.uint8)
EXACT = frames.resize_normalize(FRAMES, (8, 10), **NORM)
BYTES = frames.resize(FRAMES, (8, 10))


def on_device(gpu, kind, values=FRAMES, **options):
    made = kind(gpu, values.shape, values.dtype, **options)
    made.memory[...] = values
    return made


@pytest.mark.parametrize("kind", [DeviceArray, DLPackArray])
def test_results_are_of_the_same_framework(gpu, kind):
    source = on_device(gpu, kind)
    got = cuda.resize_normalize(source, (8, 10), **NORM)
    assert type(got) is kind
    assert np.array_equal(got.memory, EXACT)
    got = cuda.resize(source, (8, 10))
    assert np.array_equal(got.memory, BYTES)
    half = cuda.resize_normalize(source, (8, 10), dtype="float16", **NORM)
    assert np.array_equal(half.memory, EXACT.astype(np.float16))
    assert gpu.calls("cuMemcpyDtoHAsync_v2") == 0  # nothing went through the host
    assert gpu.calls("cuStreamSynchronize") <= 8  # tables alone are waited for


@pytest.mark.parametrize("kind", [DeviceArray, DLPackArray])
def test_out_is_used_as_it_is(gpu, kind):
    source = on_device(gpu, kind)
    out = kind(gpu, EXACT.shape, np.dtype("f4"))
    assert cuda.resize_normalize(source, (8, 10), out=out, **NORM) is out
    assert np.array_equal(out.memory, EXACT)


def test_dlpack_tensors_are_given_back(gpu):
    source = on_device(gpu, DLPackArray)
    got = cuda.resize(source, (8, 10))
    assert (source.lent, got.lent) == (0, 0)
    with pytest.raises(FrameError):
        cuda.resize(source, (8, 10), out=DLPackArray(gpu, (1,), np.dtype("u1")))
    assert source.lent == 0


def test_the_work_is_on_the_callers_stream(gpu):
    stream = gpu.stream()
    source = on_device(gpu, DLPackArray)
    for given in (stream, Ptr(stream), Protocol(stream), Torchlike(stream)):
        gpu.reset()
        cuda.resize(source, (8, 10), stream=given)
        assert [at for _, at in gpu.launches()] == [stream]
    assert set(source.asked) == {stream}
    gpu.reset()
    cuda.resize(source, (8, 10))
    assert [at for _, at in gpu.launches()] == [arrays.LEGACY_STREAM]
    cuda.resize(source, (8, 10), stream=0)  # 0 is what CUDA calls the legacy one
    assert source.asked[-1] == arrays.LEGACY_STREAM


class Ptr:
    def __init__(self, ptr):
        self.ptr = ptr


class Torchlike:
    def __init__(self, handle):
        self.cuda_stream = handle


class Protocol:
    def __init__(self, handle):
        self._handle = handle

    def __cuda_stream__(self):
        return 0, self._handle


@pytest.mark.parametrize("stream", [-1, "legacy", 1.5, True])
def test_what_is_no_stream(gpu, stream):
    with pytest.raises(FrameError, match="stream must be"):
        cuda.resize(on_device(gpu, DeviceArray), (8, 10), stream=stream)


def test_a_stream_of_a_dead_context(gpu):
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_INVALID_HANDLE \(400\)"):
        cuda.resize(on_device(gpu, DeviceArray), (8, 10), stream=0xDEAD00)


def test_lazy_streams_keep_the_order(gpu, monkeypatch):
    runtime.device(0)
    monkeypatch.setenv("CUEMU_LAZY", "1")
    stream = gpu.stream()
    source = on_device(gpu, DeviceArray)
    got = cuda.resize_normalize(source, (8, 10), stream=stream, **NORM)
    assert not np.array_equal(got.memory, EXACT)  # nobody has waited yet
    gpu.synchronize(stream)
    assert np.array_equal(got.memory, EXACT)


def test_the_stream_of_the_producer_is_waited_for(gpu, monkeypatch):
    producer, consumer = gpu.stream(), gpu.stream()
    source = on_device(gpu, DeviceArray, stream=producer)
    cuda.resize(source, (8, 10), stream=consumer)
    assert gpu.calls("cuStreamWaitEvent") == 1
    cuda.resize(source, (8, 10), stream=producer)
    assert gpu.calls("cuStreamWaitEvent") == 1


def test_views_are_read_where_they_lie(gpu):
    whole = on_device(gpu, DeviceArray)
    for part in (whole.memory[:, 2:-1], whole.memory[::2], whole.memory[:, ::-1]):
        host = np.ascontiguousarray(part)
        got = cuda.resize(whole.view(part), (8, 10))
        assert np.array_equal(got.memory, frames.resize(host, (8, 10)))
    cropped = whole.memory[:, :, 3:-4]
    got = cuda.resize(whole.view(cropped), (8, 10))
    exact = frames.resize(np.ascontiguousarray(cropped), (8, 10))
    assert np.array_equal(got.memory, exact)


def test_rows_that_are_not_contiguous_are_refused(gpu):
    whole = on_device(gpu, DeviceArray)
    for part in (whole.memory[..., ::-1], whole.memory[:, :, ::2]):
        with pytest.raises(FrameError, match="contiguous rows"):
            cuda.resize(whole.view(part), (8, 10))


def test_types_and_shapes_that_cannot_be(gpu):
    floats = on_device(gpu, DeviceArray, EXACT)
    with pytest.raises(FrameError, match="frames must be uint8, got f4"):
        cuda.resize(floats, (8, 10))
    with pytest.raises(FrameError, match=r"frames must have shape \(..., height, "):
        cuda.resize(on_device(gpu, DeviceArray, FRAMES[..., :2]), (8, 10))
    with pytest.raises(FrameError, match="frames must be a NumPy array"):
        cuda.resize([[1]], (8, 10))
    source = on_device(gpu, DeviceArray)
    for shape, dtype in [((3, 8, 10, 3), "f4"), ((3, 3, 8, 10), "u1"), ((2,), "f4")]:
        out = DeviceArray(gpu, shape, np.dtype(dtype))
        with pytest.raises(FrameError, match="out must be float32 of shape"):
            cuda.resize_normalize(source, (8, 10), out=out, **NORM)
    wide = DeviceArray(gpu, (3, 8, 11, 3), np.dtype("u1"))
    with pytest.raises(FrameError, match="out must be C-contiguous"):
        cuda.resize(source, (8, 10), out=wide.view(wide.memory[:, :, :10]))
    with pytest.raises(FrameError, match="dtype must be one of"):
        cuda.resize_normalize(source, (8, 10), dtype="float64", **NORM)
    with pytest.raises(FrameError, match="got 'uint8'"):  # two bytes a value in one
        cuda.resize_normalize(source, (8, 10), dtype="uint8", **NORM)


def test_a_tensor_on_another_device(gpu, monkeypatch):
    monkeypatch.setenv("CUEMU_DEVICES", "2")
    runtime._drivers.clear()
    source = on_device(gpu, DeviceArray, device=1)
    got = cuda.resize(source, (8, 10))
    assert got.device == 1
    assert np.array_equal(got.memory, BYTES)
    out = DeviceArray(gpu, BYTES.shape, np.dtype("u1"), device=0)
    with pytest.raises(FrameError, match="out lies on device 0, frames on device 1"):
        cuda.resize(source, (8, 10), out=out)


def test_dlpack_of_other_devices_is_named(gpu):
    class Elsewhere(DLPackArray):
        device_type = 4  # OpenCL

    source = on_device(gpu, Elsewhere)
    with pytest.raises(FrameError, match="NumPy array"):
        cuda.resize(source, (8, 10))


def test_an_address_that_the_driver_does_not_know(gpu):
    class Liar:
        @property
        def __cuda_array_interface__(self):
            return FRAMES.__array_interface__

    with pytest.raises(FrameError, match="driver does not know of"):
        cuda.resize(Liar(), (8, 10))


def test_yuv_planes_of_a_device(gpu):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 256, (2, 20, 24), np.uint8)
    uv = rng.integers(0, 256, (2, 10, 12, 2), np.uint8)
    host = cuda.resize(cuda.YuvFrames(y, uv, matrix="bt709"), (8, 10))
    there = cuda.YuvFrames(
        on_device(gpu, DeviceArray, y), on_device(gpu, DeviceArray, uv), matrix="bt709"
    )
    got = cuda.resize(there, (8, 10))
    assert np.array_equal(got.memory, host)


def test_yuv_that_does_not_fit_together(gpu):
    y = np.zeros((2, 20, 24), np.uint8)
    u = np.zeros((2, 10, 12), np.uint8)
    with pytest.raises(FrameError, match="matrix must be one of"):
        cuda.resize(cuda.YuvFrames(y, u, u, matrix="rgb"), (8, 10))
    with pytest.raises(FrameError, match=r"v must have shape \(2, 10, 12\)"):
        cuda.resize(cuda.YuvFrames(y, u, u[:, 1:]), (8, 10))
    wide = np.zeros((2, 10, 16), np.uint8)[:, :, :12]
    with pytest.raises(FrameError, match="rows of one pitch"):
        cuda.resize(cuda.YuvFrames(y, u, wide), (8, 10))


def test_frames_of_many_kinds_are_refused(gpu):
    with pytest.raises(FrameError, match="2 arrays of frames for 1 sizes"):
        cuda.resize_normalize_many([FRAMES, FRAMES], [(8, 10)], **NORM)
    mixed = [FRAMES, on_device(gpu, DeviceArray)]
    with pytest.raises(FrameError, match="on one device"):
        cuda.resize_normalize_many(mixed, [(8, 10)] * 2, **NORM)
    assert cuda.resize_normalize_many([], [], **NORM) == []
