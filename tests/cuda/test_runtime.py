"""What happens when something is missing, full or broken: errors name the cause."""

from __future__ import annotations

import lzma
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emulator import forget

import phasefusion
from phasefusion import cuda, frames
from phasefusion.cuda import nvrtc, runtime
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceError,
    DeviceMemoryError,
    FallbackWarning,
    FrameError,
)

NORM = {"mean": [0.5] * 3, "std": [0.25] * 3}
FRAMES = np.random.default_rng(0).integers(0, 256, (2, 19, 23, 3), np.uint8)
EXACT = frames.resize_normalize(FRAMES, (8, 10), **NORM)


def run(device="cuda", **options):
    return phasefusion.resize_normalize(
        FRAMES, (8, 10), device=device, **NORM, **options
    )


@pytest.fixture
def nothing(monkeypatch):
    """A machine without a driver."""
    monkeypatch.setenv("PHASEFUSION_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    forget()
    yield
    forget()


def test_without_a_driver_there_is_a_reason(nothing):
    assert not cuda.is_available()
    assert "no CUDA driver" in (cuda.why() or "")
    assert "/nowhere/libcuda.so.1" in (cuda.why() or "")
    with pytest.raises(BackendUnavailableError, match="no CUDA driver"):
        run()


def test_auto_falls_back_once_with_the_same_result(nothing):
    with pytest.warns(FallbackWarning, match="no CUDA driver"):
        first = run("auto")
    second = run("auto")  # a second warning would be an error
    assert np.array_equal(first, EXACT)
    assert np.array_equal(second, EXACT)
    out = np.empty_like(EXACT)
    assert run("auto", out=out) is out
    assert np.array_equal(out, EXACT)


def test_auto_gives_torch_its_own_kind(nothing):
    torch = pytest.importorskip("torch")
    with pytest.warns(FallbackWarning):
        got = phasefusion.resize_normalize(
            torch.from_numpy(FRAMES), (8, 10), device="auto", **NORM
        )
    assert isinstance(got, torch.Tensor)
    assert np.array_equal(got.numpy(), EXACT)


def test_a_device_that_has_no_name(nothing):
    with pytest.raises(FrameError, match="device must be cpu, cuda or auto"):
        run("tpu")


def test_an_old_driver_is_named(monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUDA_DRIVER", "libm.so.6")
    forget()
    assert "libm.so.6 has no cuInit; the driver is older" in (cuda.why() or "")
    forget()


def test_a_driver_without_devices(gpu, monkeypatch):
    monkeypatch.setenv("CUEMU_DEVICES", "0")
    assert "CUDA_ERROR_NO_DEVICE" in (cuda.why() or "")


def test_a_device_that_is_not_there(gpu):
    with pytest.raises(BackendUnavailableError, match="no CUDA device 3"):
        cuda.resize(FRAMES, (4, 4), device=3)


def test_an_image_for_other_devices_is_refused_with_its_name(
    gpu, monkeypatch, tmp_path
):
    wrong = tmp_path / "wrong.fatbin"
    wrong.write_bytes(bytes(64))
    monkeypatch.setenv("PHASEFUSION_CUDA_IMAGE", str(wrong))
    with pytest.raises(BackendUnavailableError, match=r"cuModuleLoadData.*\(200\)"):
        run()
    assert "no kernels for device 0 (cuemu, compute capability 9.0)" in (
        cuda.why() or ""
    )
    with pytest.warns(FallbackWarning, match="no kernels for device 0"):
        assert np.array_equal(run("auto"), EXACT)


def test_a_packed_image_is_unpacked_and_a_torn_one_is_named(gpu, monkeypatch, tmp_path):
    packed = tmp_path / "kernels.fatbin.xz"
    image = Path(os.environ["PHASEFUSION_CUDA_IMAGE"]).read_bytes()
    packed.write_bytes(lzma.compress(image))
    monkeypatch.setenv("PHASEFUSION_CUDA_IMAGE", str(packed))
    assert np.array_equal(run(), EXACT)
    for torn in (lzma.compress(image)[:-20], b"not xz at all"):
        packed.write_bytes(torn)
        forget()
        with pytest.raises(BackendUnavailableError, match=r"xz: the file is torn"):
            run()
    monkeypatch.setitem(sys.modules, "lzma", None)
    forget()
    with pytest.raises(BackendUnavailableError, match="built without lzma"):
        run()


def test_no_kernels_at_all(gpu, monkeypatch, tmp_path):
    monkeypatch.setenv("PHASEFUSION_CUDA_IMAGE", str(tmp_path / "none"))
    assert "there are no kernels" in (cuda.why() or "")
    with pytest.raises(BackendUnavailableError, match="not there"):
        run()


def outcome():
    """What an error says, or the result."""
    try:
        return None, run()
    except DeviceError as error:
        return str(error), None


#: Every function of the driver that the way there and back calls.
CALLED = [
    "cuMemAllocHost_v2",
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuLaunchKernel",
    "cuCtxPushCurrent_v2",
]


@pytest.mark.parametrize("name", CALLED)
def test_each_call_that_fails_is_named_and_nothing_is_left(gpu, monkeypatch, name):
    runtime.device(0)
    before = gpu.live_allocations
    for nth in range(1, 50):
        gpu.reset()
        monkeypatch.setenv("CUEMU_FAIL", f"{name}:{nth}:400")
        said, got = outcome()
        if said is None:
            assert np.array_equal(got, EXACT)
            if gpu.calls(name) < nth:
                break
        else:
            assert name in said
            assert "CUDA_ERROR_INVALID_HANDLE (400)" in said
        assert gpu.context_depth == 0
    else:
        pytest.fail("the call never came through")
    assert nth > 1, "the call was never made"
    monkeypatch.delenv("CUEMU_FAIL")
    assert np.array_equal(run(), EXACT)
    kept = 3  # tables
    lost = name == "cuMemFreeAsync"  # what cannot be freed stays
    assert gpu.live_allocations <= before + kept + lost


@pytest.mark.parametrize("name", ["cuMemAlloc_v2", "cuMemAllocAsync"])
def test_full_memory_is_an_error_of_its_own(gpu, monkeypatch, name):
    monkeypatch.setenv("CUEMU_FAIL", f"{name}:1:2")
    with pytest.raises(DeviceMemoryError, match="give fewer frames at a time"):
        run()
    gpu.reset()
    monkeypatch.setenv("CUEMU_FAIL", f"{name}:1:2")
    forget()
    with pytest.warns(FallbackWarning, match="does not fit into the memory"):
        assert np.array_equal(run("auto"), EXACT)


@pytest.mark.parametrize("name", ["cuInit", "cuDeviceGetCount"])
def test_a_driver_that_does_not_start(gpu, monkeypatch, name):
    monkeypatch.setenv("CUEMU_FAIL", f"{name}:1:999")
    assert name in (cuda.why() or "")
    assert "(999)" in (cuda.why() or "")


@pytest.mark.parametrize("name", ["cuDevicePrimaryCtxRetain", "cuModuleGetFunction"])
def test_a_device_that_does_not_start(gpu, monkeypatch, name):
    monkeypatch.setenv("CUEMU_FAIL", f"{name}:1:999")
    with pytest.raises(BackendUnavailableError, match=rf"{name}.*\(999\)"):
        run()


def test_a_lost_device_stays_lost_and_says_so(gpu, monkeypatch):
    monkeypatch.setenv("CUEMU_FAIL", "cuLaunchKernel:1:719")
    with pytest.raises(DeviceError, match="has to be started again"):
        run()
    monkeypatch.delenv("CUEMU_FAIL")
    with pytest.raises(BackendUnavailableError, match="lost to an earlier fault"):
        run()
    with pytest.warns(FallbackWarning, match="lost to an earlier fault"):
        assert np.array_equal(run("auto"), EXACT)


def _in_child(queue):
    try:
        run()
        queue.put("no error")
    except BackendUnavailableError as error:
        queue.put(str(error))


@pytest.mark.skipif("PHASEFUSION_UNDER_ASAN" in os.environ, reason="forks under ASan")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_told_so(gpu):
    run()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    said = queue.get(timeout=60)
    child.join()
    assert "before this process was forked" in said


def test_threads_share_a_device(gpu):
    from concurrent.futures import ThreadPoolExecutor

    sizes = [(3 + i, 20 - i) for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda s: cuda.resize(FRAMES, s), sizes))
    for size, got in zip(sizes, made, strict=True):
        assert np.array_equal(got, frames.resize(FRAMES, size))


def test_memory_for_frames_stays_for_as_long_as_it_is_held(gpu, monkeypatch):
    run()
    before, n_made = gpu.live_allocations, gpu.calls("cuMemAllocHost_v2")
    assert gpu.calls("cuMemFreeHost") == n_made == 1  # each call has its own
    with runtime.held(0):
        with runtime.held(0):
            assert np.array_equal(run(), EXACT)
            there = gpu.live_allocations
            assert there > before
        assert np.array_equal(run(), EXACT)  # held by the outer one still
        assert gpu.live_allocations == there
        assert gpu.calls("cuMemAllocHost_v2") == n_made + 1
        cuda.resize(np.repeat(FRAMES, 9, 0), (8, 10))  # more room
        assert gpu.calls("cuMemAllocHost_v2") == n_made + 2
        assert gpu.live_allocations <= there + 1  # a table of these sizes
        monkeypatch.setenv("CUEMU_FAIL", "cuLaunchKernel:1:400")
        gpu.reset()
        with pytest.raises(DeviceError, match="cuLaunchKernel"):
            run()
        monkeypatch.delenv("CUEMU_FAIL")
        assert np.array_equal(run(), EXACT)
    assert gpu.live_allocations <= before + 1
    with pytest.raises(BackendUnavailableError), runtime.held(99):
        pass


def _release_in_child(queue, held):
    held.__exit__(None, None, None)
    queue.put("released")


@pytest.mark.skipif("PHASEFUSION_UNDER_ASAN" in os.environ, reason="forks under ASan")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_frees_nothing_of_its_parent(gpu):
    held = runtime.held(0)
    with held:
        run()
        n_freed = gpu.calls("cuMemFreeHost")
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_release_in_child, args=(queue, held))
        child.start()
        assert queue.get(timeout=60) == "released"
        child.join()
        assert np.array_equal(run(), EXACT)
        assert gpu.calls("cuMemFreeHost") == n_freed


def test_import_starts_nothing():
    code = (
        "import phasefusion, phasefusion.cuda, sys;"
        "maps = open('/proc/self/maps').read();"
        "assert 'libcuda' not in maps and 'libnvrtc' not in maps"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_of_cuda_is_linked():
    from phasefusion import _cuda

    tool = subprocess.run(
        ["readelf", "-d", str(_cuda.__file__)], capture_output=True, text=True
    )
    if tool.returncode:
        pytest.skip("no readelf")
    needed = [line for line in tool.stdout.splitlines() if "NEEDED" in line]
    assert needed
    assert not [line for line in needed if "cu" in line.split("[")[-1]]


FAKE_NVRTC = r"""
#include <stdio.h>
#include <string.h>
static int n_compiled, refuses;
static char arch[64];
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }
int nvrtcCreateProgram(void **program, const char *text, const char *name, int n,
        const char *const *texts, const char *const *names)
{
    *program = arch;
    refuses = strstr(text, "#error") != NULL;
    for (int i = 0; i < n; i++) { if (strcmp(names[i], "params.h") == 0) return 0; }
    return 9;
}
int nvrtcCompileProgram(void *program, int n, const char *const *options)
{
    n_compiled++;
    for (int i = 0; i < n; i++) snprintf(arch, sizeof arch, "%s", options[0]);
    return refuses ? 6 : 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = 16; return 0; }
int nvrtcGetProgramLog(void *p, char *log) { strcpy(log, "line 1: #error"); return 0; }
int nvrtcGetCUBINSize(void *p, size_t *n) { *n = 64; return 0; }
int nvrtcGetCUBIN(void *p, char *to)
{
    memset(to, 0, 64);
    memcpy(to, "\177ELF", 4);
    strcpy(to + 4, arch);
    return 0;
}
int nvrtcDestroyProgram(void **program) { *program = NULL; return 0; }
int compiled(void) { return n_compiled; }
"""


@pytest.fixture
def fake_nvrtc(tmp_path, monkeypatch):
    """A library with the names of NVRTC that compiles nothing, and how often."""
    import ctypes

    source = tmp_path / "nvrtc.c"
    source.write_text(FAKE_NVRTC)
    library = tmp_path / "libnvrtc.so"
    made = subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, source], capture_output=True
    )
    if made.returncode:
        pytest.skip("no C compiler")
    monkeypatch.setenv("PHASEFUSION_NVRTC", str(library))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ctypes.CDLL(str(library)).compiled


def test_kernels_are_compiled_once_and_kept(gpu, monkeypatch, fake_nvrtc, tmp_path):
    monkeypatch.setenv("PHASEFUSION_CUDA_IMAGE", "nvrtc")
    assert cuda.is_available()
    assert runtime.device(0).image == "NVRTC"
    assert fake_nvrtc() == 1
    forget()
    assert np.array_equal(run(), EXACT)
    assert fake_nvrtc() == 1
    (kept,) = nvrtc.cache_folder().iterdir()
    assert kept.name.startswith("sm_90-13.0-")
    assert b"--gpu-architecture=sm_90" in kept.read_bytes()
    kept.write_bytes(b"torn")
    forget()
    runtime.device(0)
    assert fake_nvrtc() == 2
    monkeypatch.setenv("CUEMU_ARCH", "80")
    forget()
    runtime.device(0)
    assert len(list(nvrtc.cache_folder().iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_no_cache(
    gpu, monkeypatch, fake_nvrtc, tmp_path
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("PHASEFUSION_CUDA_IMAGE", "nvrtc")
    assert np.array_equal(run(), EXACT)


def test_what_nvrtc_says_is_said(fake_nvrtc, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "kernels.cu").write_text("#error no")
    (tmp_path / "source" / "params.h").write_text("")
    with pytest.raises(BackendUnavailableError, match="line 1: #error"):
        nvrtc.compile_cached(tmp_path / "source", (9, 0))


def test_nvrtc_takes_the_kernels(tmp_path, monkeypatch):
    if nvrtc.find() is None:
        pytest.skip("no NVRTC here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = Path(phasefusion.__file__).parent / "cuda" / "kernels"
    for capability in [(8, 0), (9, 0)]:
        assert nvrtc.compile_cached(source, capability).startswith(b"\x7fELF")


def test_info_says_what_was_found(gpu):
    from phasefusion.info import describe

    found = describe()["cuda"]
    assert found["driver"] == gpu.path
    assert (found["cuda"], found["devices"]) == ("13.0", 1)


def test_info_says_why_not(nothing):
    from phasefusion.info import describe

    found = describe()
    assert found["cuda"] is None
    assert "no CUDA driver" in found["missing"]["cuda"]


def test_info_says_what_is_used(gpu, image, monkeypatch):
    monkeypatch.setenv("PHASEFUSION_CUBLAS", gpu.path)
    before = cuda.describe()
    assert before["ready"] == []
    assert gpu.calls("cuDevicePrimaryCtxRetain") == 0
    assert (before["driver"], before["cublas"]) == (gpu.path, gpu.path)
    assert before["kernels"] == [str(image)]
    run()
    (ready,) = cuda.describe()["ready"]
    assert ready.startswith("0: cuemu, ")
    assert ready.endswith(f"kernels of {image}")
    monkeypatch.delenv("PHASEFUSION_CUBLAS")
    assert "libcublas" in cuda.describe()["cublas"] or (
        cuda.describe()["cublas"] == "of the system, if there is one"
    )
    shown = subprocess.run(
        [sys.executable, "-m", "phasefusion", "info"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    assert "cublas" in shown
    assert "ready" in shown
    assert gpu.path in shown
