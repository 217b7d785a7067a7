"""Builds the emulated driver, and arrays that lie in its memory."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from phasefusion.cuda import choice, fallback, runtime

ROOT = Path(__file__).parents[2]
EMULATOR = ROOT / "tests" / "emu"
DEVICE_CODE = ROOT / "csrc" / "cuda"
CXX = os.environ.get("CXX", "g++")
FLAGS = (
    "-std=c++17 -g -fPIC -Wall -Wextra -Werror -Wno-unknown-pragmas "
    "-ffp-contract=off -DPF_EMULATED"
).split()
#: What kernels and the rest are built with, beside FLAGS, and what stands for a tracer.
MODES = {
    "plain": ("-O1", "-O1", "untraced.cpp", ""),
    "traced": (
        "-O1 -fsanitize=thread -fno-store-merging -fno-tree-vectorize",
        "-O2",
        "traced.cpp",
        "",
    ),
    "asan": (
        "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined",
        "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined",
        "untraced.cpp",
        "-fsanitize=address,undefined",
    ),
    "covered": ("-O0 --coverage", "-O2", "untraced.cpp", "--coverage"),
}


_lock = threading.Lock()


def is_possible() -> bool:
    """Whether there is a compiler."""
    return shutil.which(CXX) is not None


def _compile(folder: Path, names: list[str], options: str, code: Path) -> list[str]:
    """Object files of sources of the emulator, compiled side by side."""
    includes = [f"-I{code}", f"-I{EMULATOR}", f"-I{ROOT / 'csrc/posterior'}"]
    running = []
    for name in names:
        command = [CXX, *FLAGS, *options.split(), *includes, "-c", str(EMULATOR / name)]
        command += ["-o", str(folder / f"{name}.o")]
        running.append(
            subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        )
    errors = "".join(process.communicate()[1] for process in running)
    if any(process.returncode for process in running):
        raise RuntimeError(errors)
    return [str(folder / f"{name}.o") for name in names]


@functools.cache
def _rest(mode: str) -> list[str]:
    """All but the kernels, which is the same for any device code."""
    _, options, tracer, _ = MODES[mode]
    folder = Path(tempfile.mkdtemp(prefix="cuemu"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    names = ["scheduler.cpp", "machine.cpp", "driver.cpp", "cublas.cpp", tracer]
    return _compile(folder, names, options, DEVICE_CODE)


def build(folder: Path, mode: str = "plain", code: Path = DEVICE_CODE) -> Path:
    """Compile the emulated driver with device code of a folder; its library."""
    folder.mkdir(parents=True, exist_ok=True)
    options, _, _, to_link = MODES[mode]
    with _lock:
        rest = _rest(mode)
    if code != DEVICE_CODE:
        options += " -w"  # what a mutant does may well be worth a warning
    objects = _compile(folder, ["kernels.cpp"], options, code) + rest
    library = folder / "libcuemu.so"
    command = [CXX, "-shared", *to_link.split(), "-o", str(library), *objects, "-ldl"]
    subprocess.run(command, check=True, cwd=folder)
    return library


def forget() -> None:
    """Let the next call look for a driver anew."""
    runtime._drivers.clear()
    runtime._devices.clear()
    fallback._fallen_back.clear()
    choice._settled.clear()


class Emulator:
    """The emulated driver as the tests reach it, beside the code under test."""

    def __init__(self, library: Path) -> None:
        self.path = str(library)
        self._library = ctypes.CDLL(self.path)
        self._library.cuemu_launches.restype = ctypes.c_char_p

    def reset(self) -> None:
        self._library.cuemu_reset()

    def calls(self, name: str) -> int:
        return int(self._library.cuemu_calls(name.encode()))

    def launches(self) -> list[tuple[str, int]]:
        """Kernels and the handles of their streams."""
        lines = self._library.cuemu_launches().decode().splitlines()
        pairs = [line.split() for line in lines]
        return [(name, 0 if at == "(nil)" else int(at, 16)) for name, at in pairs]

    @property
    def live_allocations(self) -> int:
        return int(self._library.cuemu_live_allocations())

    @property
    def context_depth(self) -> int:
        return int(self._library.cuemu_context_depth())

    def _call(self, name: str, *values: object) -> None:
        code = getattr(self._library, name)(*values)
        assert code == 0, f"{name}: {code}"

    def enter(self, device: int = 0) -> None:
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxPushCurrent_v2", context)

    def leave(self) -> None:
        context = ctypes.c_void_p()
        self._call("cuCtxPopCurrent_v2", ctypes.byref(context))

    def allocate(self, n_byte: int, device: int = 0) -> int:
        address = ctypes.c_void_p()
        self.enter(device)
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(n_byte))
        self.leave()
        return int(address.value or 0)

    def free(self, address: int) -> None:
        self.enter()
        self._call("cuMemFree_v2", ctypes.c_void_p(address))
        self.leave()

    def stream(self) -> int:
        handle = ctypes.c_void_p()
        self.enter()
        self._call("cuStreamCreate", ctypes.byref(handle), 1)
        self.leave()
        return int(handle.value or 0)

    def destroy(self, stream: int) -> None:
        self.enter()
        self._call("cuStreamDestroy_v2", ctypes.c_void_p(stream))
        self.leave()

    def synchronize_all(self) -> None:
        self.enter()
        self._call("cuCtxSynchronize")
        self.leave()

    def synchronize(self, stream: int) -> None:
        self.enter()
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))
        self.leave()


class Namespace:
    """The array functions of a framework whose memory is the emulator's."""

    uint8 = np.dtype("u1")
    float16 = np.dtype("f2")
    float32 = np.dtype("f4")
    float64 = np.dtype("f8")
    int32 = np.dtype("i4")
    int64 = np.dtype("i8")
    bfloat16 = np.dtype("V2")

    def __init__(self, like: DeviceArray) -> None:
        self._like = like

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        like = self._like
        return like.kind(like.emulator, shape, dtype, device=like.device)

    def concat(self, arrays: list[DeviceArray], axis: int) -> DeviceArray:
        self._like.emulator.synchronize(1)  # as if queued behind what is on its way
        return self.asarray(np.concatenate([a.memory for a in arrays], axis))

    def asarray(self, values: np.ndarray) -> DeviceArray:
        made = self.empty(values.shape, values.dtype)
        made.memory[...] = values
        return made


class DeviceArray:
    """An array in emulated device memory, seen by ``__cuda_array_interface__``."""

    def __init__(
        self,
        emulator: Emulator,
        shape: tuple[int, ...],
        dtype: np.dtype,
        *,
        device: int = 0,
        stream: int | None = None,
    ) -> None:
        self.emulator, self.device, self.made_on = emulator, device, stream
        n_byte = max(int(np.prod(shape)) * dtype.itemsize, 1)
        self.address = emulator.allocate(n_byte, device)
        buffer = (ctypes.c_ubyte * n_byte).from_address(self.address)
        count = int(np.prod(shape))
        self.memory = np.frombuffer(buffer, dtype, count).reshape(shape)

    def __del__(self) -> None:
        self.emulator.free(self.address)

    def __array_namespace__(self) -> Namespace:
        return Namespace(self)

    @property
    def kind(self) -> type[DeviceArray]:
        return type(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape

    def view(self, memory: np.ndarray) -> DeviceArray:
        """The same kind of array on a part of this one."""
        part = object.__new__(_Part)
        part.whole, part.memory = self, memory
        part.emulator, part.device, part.made_on = self.emulator, self.device, None
        return part

    def __getitem__(self, key: object) -> DeviceArray:
        return self.view(self.memory[key])

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.memory.shape,
            "typestr": self.memory.dtype.str,
            "data": (self.memory.__array_interface__["data"][0], False),
            "strides": self.memory.strides,
            "version": 3,
            "stream": self.made_on,
        }


class Space:
    """Arrays of the emulated device, as `benchmarks/gpu_check.py` wants them."""

    def __init__(self) -> None:
        self.driver = Emulator(Path(os.environ["PHASEFUSION_CUDA_DRIVER"]))
        self._kinds = itertools.cycle([DeviceArray, DLPackArray])

    def put(self, values: np.ndarray) -> DeviceArray:
        made = next(self._kinds)(self.driver, values.shape, values.dtype)
        made.memory[...] = values
        return made

    def get(self, array: DeviceArray) -> np.ndarray:
        self.driver.synchronize_all()
        return array.memory.copy()

    def poisoned(self, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        kind = np.dtype({"bfloat16": "V2"}.get(dtype, dtype))
        made = DeviceArray(self.driver, shape, kind)
        made.memory.view(np.uint8)[...] = 0xFF
        return made

    @contextlib.contextmanager
    def side_stream(self) -> Iterator[int]:
        yield self.driver.stream()

    def capturing(self, work: Callable[[], object]) -> None:
        os.environ["CUEMU_CAPTURING"] = "1"
        try:
            work()
        finally:
            del os.environ["CUEMU_CAPTURING"]


class _Part(DeviceArray):
    whole: DeviceArray

    @property
    def kind(self) -> type[DeviceArray]:
        return type(self.whole)

    def __del__(self) -> None:
        del self.whole


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("n_dim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManaged(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManaged))
_DLManaged._fields_ = (
    ("tensor", _DLTensor),
    ("context", ctypes.c_void_p),
    ("deleter", _DELETER),
)
_CODE = {"u": 1, "f": 2, "i": 0, "V": 4}


class DLPackArray(DeviceArray):
    """The same, seen by DLPack alone; remembers the streams that were asked for."""

    __cuda_array_interface__ = property()  # type: ignore[assignment]
    device_type = 2

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.asked: list[int] = []
        self.lent = 0
        self._kept: list[object] = []

    def __getattribute__(self, name: str) -> object:
        if name == "__cuda_array_interface__":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, self.device

    def __dlpack__(self, *, stream: int) -> object:
        self.asked.append(stream)
        memory = self.memory
        n = memory.ndim
        shape = (ctypes.c_int64 * n)(*memory.shape)
        item = memory.dtype.itemsize
        strides = (ctypes.c_int64 * n)(*(s // item for s in memory.strides))
        tensor = _DLTensor(
            memory.__array_interface__["data"][0],
            self.device_type,
            self.device,
            n,
            _CODE[memory.dtype.kind],
            8 * item,
            1,
            shape,
            strides,
            0,
        )

        def give_back(_: object) -> None:
            self.lent -= 1

        managed = _DLManaged(tensor, None, _DELETER(give_back))
        self._kept.append((managed, shape, strides))
        self.lent += 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(managed), b"dltensor", None)
