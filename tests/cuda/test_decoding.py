"""Frames that go to the kernels as the decoder has them, on the emulated driver."""

from __future__ import annotations

import shutil
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("phasefusion._video", reason="built without FFmpeg")
sys.path.insert(0, str(Path(__file__).parents[1] / "clips"))
import make
from emulator import forget

from phasefusion import PhaseGrid, cuda, frames, read_clip, read_clips, tinyvlm
from phasefusion.cuda import decoding
from phasefusion.errors import (
    BackendUnavailableError,
    DamagedFrameWarning,
    DeviceError,
    DeviceMemoryError,
    FallbackWarning,
    FrameCountWarning,
    FrameError,
    UsageError,
    VideoError,
)
from phasefusion.video import Video

MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
SIZE = (30, 41)
MATRICES = {
    "bt601": "smpte170m",
    "bt709": "bt709",
    "bt2020": "bt2020nc",
    "fcc": "fcc",
    "smpte240m": "smpte240m",
}
TURNS = [f"turned_{90 * k}{m}.mp4" for k in range(4) for m in ("", "_mirrored")]

#: What reverses no side: upright pictures, and those whose sides change places.
STAYING = [(0, False), (1, True)]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Path of a clip by name, see tests/clips/make.py."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("the ffmpeg program is not installed")
    folder = tmp_path_factory.mktemp("clips")

    def path(name):
        try:
            return make.make(name, folder)
        except make.MissingEncoder as missing:
            pytest.skip(f"this ffmpeg has no {missing}")

    return path


@pytest.fixture(scope="module")
def shipped():
    return sorted((tinyvlm.questions_path().parent).glob("*.mp4"))[:2]


def coloured(path, matrix, wide, options=(), **size):
    """A clip that says that it is of a matrix and range; every byte is possible."""
    rng = np.random.default_rng(3)
    shape = (3, size.get("height", 50), size.get("width", 66), 3)
    noise = rng.integers(0, 256, shape, np.uint8)
    about = ["-colorspace", MATRICES[matrix], "-color_range", "pc" if wide else "tv"]
    codec = options or ["-c:v", "libx264", "-qp", "1", "-pix_fmt", "yuv420p"]
    make.encode(path, noise, [*codec, *about])
    return path


def same_both_ways(path, indices, *, planar=True, **options):
    """Pixels of both devices are the same, and come by planes if these can be had."""
    with Video(path) as video:
        whole = video.read(indices, **options)
        small = video.read(indices, size=SIZE, device="cuda", **options)
        assert small.tobytes() == frames.resize(whole, SIZE).tobytes()
        norm = {"mean": MEAN, "std": STD}
        values = video.read(indices, size=SIZE, device="cuda", **norm, **options)
        assert values.dtype == np.float32
        expected = frames.resize_normalize(whole, SIZE, **norm)
        assert values.tobytes() == expected.tobytes()
        if not planar:
            with pytest.raises(VideoError, match="read gives any picture as RGB"):
                video.read_planes(indices, **options)
            return None
        planes = video.read_planes(indices, **options)
    height, width = whole.shape[1:3]
    assert cuda.resize(planes, (height, width)).tobytes() == whole.tobytes()
    return planes


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("matrix", MATRICES)
def test_every_matrix_and_range(gpu, tmp_path, matrix, wide):
    path = coloured(tmp_path / "clip.mkv", matrix, wide)
    planes = same_both_ways(path, [0, 2, 1])
    assert (planes.matrix, planes.full_range) == (matrix, wide)


def test_shipped_clips(gpu, shipped):
    for path in shipped:
        with Video(path) as video:
            last = len(video) - 1
        same_both_ways(path, [last, 0, last // 2, 0])


@pytest.mark.parametrize(
    "name",
    ["odd.webm", "mjpeg.avi", "wide_pixels.mp4", "alpha.mkv", "vp8.webm", *TURNS],
)
def test_planes_of_many_kinds(gpu, clip, name):
    planes = same_both_ways(clip(name), [5, 0, 9])
    assert planes.full_range == (name == "mjpeg.avi")


def test_nv12_is_taken_apart(gpu, tmp_path):
    options = ["-c:v", "rawvideo", "-pix_fmt", "nv12"]
    path = coloured(tmp_path / "clip.nut", "bt601", False, options, width=67)
    assert Video(path).info.pixel_format == "nv12"
    same_both_ways(path, [2, 0])


@pytest.mark.parametrize(
    "name",
    [
        "h264_422.mp4",
        "odd_444.mkv",
        "h264_hi10.mp4",
        "rgb.mkv",
        "grey.mkv",
        "packed.avi",
        "palette.avi",
        "sizes.ts",
    ],
)
@pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")
def test_other_pictures_become_rgb_first(gpu, clip, name):
    last = 40 if name == "sizes.ts" else 7  # behind the change of size
    same_both_ways(clip(name), [0, last, 2], planar=False)


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_turn_that_moves_chroma_makes_rgb_first(gpu, clip, tmp_path, turns, mirrored):
    plain = tmp_path / "odd.mp4"
    make.ffmpeg("-i", clip("odd.webm"), "-c", "copy", plain)
    path = tmp_path / "turned.mp4"
    path.write_bytes(make.turned(bytearray(plain.read_bytes()), turns, mirrored))
    with Video(path) as video:
        assert (video.info.rotation, video.info.mirrored) == (90 * turns, mirrored)
    same_both_ways(path, [3, 1], planar=(turns, mirrored) in STAYING)


def assert_held_once(gpu, n_calls, n_sizes):
    """Page-locked memory is made for a call, not for a chunk, and nothing stays."""
    n_made = gpu.calls("cuMemAllocHost_v2")
    assert n_calls <= n_made <= n_calls * n_sizes
    assert gpu.calls("cuMemFreeHost") == n_made
    assert gpu.calls("cuStreamCreate") <= n_calls + 1  # and the one of the device
    assert gpu.calls("cuMemcpyHtoDAsync_v2") > 10 * n_calls  # chunks


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n_held", [1, 4])
def test_chunks(gpu, clip, monkeypatch, threads, n_held):
    path = clip("h264.mp4")
    monkeypatch.setattr(decoding, "CHUNK_BYTES", n_held * 160 * 96 * 3 // 2)
    grids = [PhaseGrid(5, 3), PhaseGrid(4), PhaseGrid(3, 1, "left")]

    def size(height, width, n_frames):
        return {5: (31, 20), 4: None, 3: (64, 64)}[n_frames]

    options = {"size": size, "threads": threads, "mean": MEAN, "std": STD}
    expected = read_clips(path, grids, **options)
    got = read_clips(path, grids, **options, device="cuda")
    for one, other in zip(got, expected, strict=True):
        assert one.frames.tobytes() == other.frames.tobytes()
        assert np.array_equal(one.indices, other.indices)
    repeated = np.array([7, 7, 1, 30, 7, 59, 1])
    with Video(path, threads=threads) as video:
        same = video.read(repeated, size=SIZE)
        assert np.array_equal(video.read(repeated, size=SIZE, device="cuda"), same)
        assert not len(video.read([], size=SIZE, device="cuda"))
        assert video.read_planes([]).y.shape == (0, 96, 160)
    assert_held_once(gpu, n_calls=2, n_sizes=2)
    names = {name for name, _ in gpu.launches()}
    assert names == {"pf_tiled"}
    assert all(stream for _, stream in gpu.launches())  # on streams of their own
    assert not [t for t in threading.enumerate() if t is not threading.main_thread()]


@pytest.mark.parametrize("name", ["corrupted.mp4", "cut.ts", "corrupted.mkv"])
def test_damaged_clips(gpu, clip, monkeypatch, name):
    monkeypatch.setattr(decoding, "CHUNK_BYTES", 4 * 160 * 96 * 3 // 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameCountWarning)
        warnings.simplefilter("ignore", DamagedFrameWarning)
        path = clip(name)
        grid = PhaseGrid(8, 3)
        options = {"size": SIZE, "on_error": "mark"}
        expected = read_clip(path, grid, **options)
        got = read_clip(path, grid, **options, device="cuda")
        assert np.array_equal(got.frames, expected.frames)
        assert np.array_equal(got.missing, expected.missing)
        assert np.array_equal(got.damaged, expected.damaged)
        with Video(path) as video:
            every = np.arange(len(video))
            planes = video.read_planes(every, on_error="mark")
            whole = video.read(every, on_error="mark")
    assert np.array_equal(cuda.resize(planes, whole.shape[1:3]), whole)


@pytest.mark.parametrize(
    ("variables", "device"),
    [
        ({}, 0),
        ({"PHASEFUSION_CUDA_DEVICE": "1"}, 1),
        ({"LOCAL_RANK": "1"}, 1),
        ({"LOCAL_RANK": "2"}, 0),  # each process sees a device of its own
        ({"SLURM_LOCALID": "1", "PHASEFUSION_CUDA_DEVICE": "0"}, 0),
    ],
)
def test_which_gpu_it_is(gpu, clip, monkeypatch, variables, device):
    monkeypatch.setenv("CUEMU_DEVICES", "2")
    forget()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Video(clip("h264.mp4")) as video:
        same = video.read([3, 4], size=SIZE)
        assert np.array_equal(video.read([3, 4], size=SIZE, device="cuda"), same)
        whole = video.read([3, 4])
    assert np.array_equal(frames.resize(whole, SIZE, device="cuda"), same)
    (ready,) = cuda.describe()["ready"]
    assert ready.startswith(f"{device}: ")


def test_a_device_that_is_no_number(gpu, clip, monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUDA_DEVICE", "first")
    with (
        Video(clip("h264.mp4")) as video,
        pytest.raises(UsageError, match="PHASEFUSION_CUDA_DEVICE is 'first'"),
    ):
        video.read([3], size=SIZE, device="auto")


def test_frames_that_stay_as_they_are_need_no_gpu(gpu, clip):
    with Video(clip("h264.mp4")) as video:
        same = video.read([3, 4])
        assert np.array_equal(video.read([3, 4], device="cuda"), same)
    assert gpu.launches() == []


def test_filters_reach_the_kernels(gpu, clip):
    path = clip("h264.mp4")
    for options in ({"filter": "lanczos"}, {"first_pass": "vertical"}):
        expected = read_clip(path, PhaseGrid(3), size=SIZE, **options)
        got = read_clip(path, PhaseGrid(3), size=SIZE, **options, device="cuda")
        assert np.array_equal(got.frames, expected.frames)


def test_a_cache_does_not_ask_where(gpu, clip, tmp_path):
    path = clip("h264.mp4")
    first = read_clip(path, PhaseGrid(3), size=SIZE, cache=tmp_path, device="cuda")
    n_launched = len(gpu.launches())
    second = read_clip(path, PhaseGrid(3), size=SIZE, cache=tmp_path, device="cpu")
    assert np.array_equal(first.frames, second.frames)
    third = read_clip(path, PhaseGrid(3), size=SIZE, cache=tmp_path, device="cuda")
    assert np.array_equal(first.frames, third.frames)
    assert len(gpu.launches()) == n_launched  # it was there


def test_without_a_gpu(clip, monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    forget()
    with Video(clip("h264.mp4")) as video:
        same = video.read([3, 4], size=SIZE)
        with pytest.warns(FallbackWarning, match="no CUDA driver"):
            got = video.read([3, 4], size=SIZE, device="auto")
        again = video.read([3, 4], size=SIZE, device="auto")  # not warned of twice
        assert np.array_equal(got, same)
        assert np.array_equal(again, same)
        with pytest.raises(BackendUnavailableError, match="no CUDA driver"):
            video.read([3, 4], size=SIZE, device="cuda")
        with pytest.raises(FrameError, match="device must be cpu, cuda or auto"):
            video.read([3, 4], size=SIZE, device="gpu")
    forget()


def test_memory_that_runs_out_in_between(gpu, clip, monkeypatch):
    monkeypatch.setattr(decoding, "CHUNK_BYTES", 2 * 160 * 96 * 3 // 2)
    indices = list(range(12))
    with Video(clip("h264.mp4"), threads=2) as video:
        same = video.read(indices, size=SIZE)
        monkeypatch.setenv("CUEMU_FAIL", "cuMemcpyHtoDAsync_v2:3:2")
        gpu.reset()
        with pytest.raises(DeviceMemoryError, match="does not fit"):
            video.read(indices, size=SIZE, device="cuda")
        gpu.reset()
        with pytest.warns(FallbackWarning, match="does not fit"):
            got = video.read(indices, size=SIZE, device="auto")
        assert np.array_equal(got, same)
        monkeypatch.setenv("CUEMU_FAIL", "cuMemcpyHtoDAsync_v2:2:999")
        gpu.reset()
        with pytest.raises(DeviceError, match="cuMemcpyHtoDAsync"):
            video.read(indices, size=SIZE, device="auto")
        monkeypatch.delenv("CUEMU_FAIL")
        assert np.array_equal(video.read(indices, size=SIZE, device="cuda"), same)


def test_what_a_reader_of_chunks_does_not_take(clip):
    indices = np.arange(3)
    with Video(clip("h264.mp4")) as video:
        reader = video._reader
        rgb = np.empty((2, 96, 160, 3), np.uint8)
        for wrong in (
            (),
            ((),),
            ((rgb[:, :-1],),),
            ((rgb.astype(np.int8),),),
            ((rgb,), (rgb[:1],)),
            ((rgb, rgb),),
            ((rgb[..., 0], rgb[..., 0], rgb[..., 0]),),
            (("no array",),),
            ("no tuple",),
        ):
            with pytest.raises(ValueError, match="chunks must be tuples"):
                reader.read_chunks(indices, wrong, lambda *about: True, 1)
        with pytest.raises(ValueError, match="number of frames a chunk"):
            reader.read_chunks(indices, ((rgb[:0],),), lambda *about: True, 1)
        calls = []

        def enough(*about):
            calls.append(about[0])
            return False

        assert reader.read_chunks(indices, ((rgb,),), enough, 1) is None
        assert calls == [0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_listener_that_raises_ends_the_reading(clip):
    def broken(*about):
        raise RuntimeError("on purpose")

    with Video(clip("h264.mp4")) as video:
        rgb = np.empty((2, 96, 160, 3), np.uint8)
        assert video._reader.read_chunks(np.arange(5), ((rgb,),), broken, 2) is None
        assert video.read([0]).shape == (1, 96, 160, 3)
