"""The driver, the devices, and the kernels on them; nothing happens before first use.

Environment: ``PHASEFUSION_CUDA_DRIVER`` is the driver library to open instead of
``libcuda.so.1``, ``PHASEFUSION_CUDA_IMAGE`` a file with kernels to load instead of the
packaged ones (packed, when its name ends in .xz), ``PHASEFUSION_CUDA_DEVICE`` the
device of frames of the host.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasefusion._devices import LOCAL_RANKS
from phasefusion.cuda import nvrtc
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceError,
    DeviceMemoryError,
    UsageError,
)

__all__ = [
    "Device",
    "device",
    "held",
    "is_available",
    "own_device",
    "translated",
    "why",
]

#: Codes of the driver for images that another compiler might make right.
_WRONG_IMAGE = {200, 209, 218, 222}
_LOST = {700, 709, 719}

#: Kernels and their sources, put here by the build.
KERNELS = Path(__file__).with_name("kernels")


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU with our kernels on it."""

    handle: Any
    ordinal: int
    name: str
    capability: tuple[int, int]
    image: str  # which kernels were loaded


_lock = threading.RLock()
_drivers: dict[str, Any] = {}  # by path: a capsule, or the reason why there is none
_devices: dict[tuple[str, int], Device] = {}


def is_available() -> bool:
    """Whether there is a GPU that can be used.

    The driver is asked at most once; no context is made and no memory is taken, so
    kernels may still turn out not to fit the device (`why` says so from then on).

    Examples
    --------
    >>> from phasefusion import cuda
    >>> cuda.is_available() == (cuda.why() is None)
    True
    """
    return why() is None


def why() -> str | None:
    """Say what keeps GPUs from being used; None when nothing does."""
    try:
        driver()
    except BackendUnavailableError as error:
        return str(error)
    with _lock:
        failed = _drivers.get(f"{_driver_path()} kernels")
    if failed is not None:
        return str(failed)
    if not any(source.there() for source in _images()):
        return (
            "there are no kernels: phasefusion was built without nvcc, and NVRTC was "
            "not found; install torch with CUDA or nvidia-cuda-nvrtc, or build with "
            "nvcc"
        )
    return None


def _driver_path() -> str:
    return os.environ.get("PHASEFUSION_CUDA_DRIVER", "libcuda.so.1")


def driver() -> Any:
    """Return the open driver; BackendUnavailableError says why there is none."""
    path = _driver_path()
    with _lock:
        if path not in _drivers:
            try:
                from phasefusion import _cuda

                _drivers[path] = _cuda.open(path)
            except ImportError as error:
                _drivers[path] = f"phasefusion was built without _cuda: {error}"
            except RuntimeError as error:
                _drivers[path] = str(error.args[0])
        found = _drivers[path]
    if isinstance(found, str):
        raise BackendUnavailableError(found)
    return found


def device(ordinal: int = 0) -> Device:
    """Return a device with kernels loaded, made ready at the first call.

    Raises
    ------
    BackendUnavailableError
        If there is no driver, no such device, or no kernels for it.
    """
    found = driver()
    key = (_driver_path(), ordinal)
    with _lock:
        if key not in _devices:
            _devices[key] = _make_ready(found, ordinal)
        return _devices[key]


def own_device() -> int:
    """Return the number of the GPU that frames of the host go to.

    That is ``PHASEFUSION_CUDA_DEVICE``, or the place of this process on its machine by
    what a launcher says, where there are so many GPUs; or 0.

    Raises
    ------
    BackendUnavailableError
        If there is no driver.
    UsageError
        If the variable is no number.
    """
    from phasefusion import _cuda

    for name in ("PHASEFUSION_CUDA_DEVICE", *LOCAL_RANKS):
        given = os.environ.get(name)
        if given is None:
            continue
        if not given.isascii() or not given.isdigit():
            raise UsageError(f"{name} is {given!r}; it must be the number of a device")
        number = int(given)
        if name == "PHASEFUSION_CUDA_DEVICE":
            return number
        _, n_devices = _cuda.driver_info(driver())
        # else the launcher has shown each process one device only
        return number if number < n_devices else 0
    return 0


def describe() -> dict[str, Any]:
    """Report the driver, the devices and the libraries, without making a context.

    Returns
    -------
    dict
        "driver", "cuda", "devices"; "kernels", where they may come from, of which the
        first that fits the device is used; "cublas", which the products of statistics
        need; and "ready", the devices that this process has used.
    """
    from phasefusion import _cuda
    from phasefusion.cuda.statistics import find_blas

    version, n_devices = _cuda.driver_info(driver())
    with _lock:
        path = _driver_path()
        ready = [found for (where, _), found in _devices.items() if where == path]
    return {
        "driver": path,
        "cuda": f"{version // 1000}.{version % 1000 // 10}",
        "devices": n_devices,
        "kernels": [source.name for source in _images() if source.there()],
        "cublas": find_blas() or "of the system, if there is one",
        "ready": [
            f"{gpu.ordinal}: {gpu.name}, {gpu.capability[0]}.{gpu.capability[1]}, "
            f"kernels of {gpu.image}"
            for gpu in ready
        ],
    }


class _File:
    """Kernels in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path) if path.parent != KERNELS else path.name

    def there(self) -> bool:
        return self.path.is_file()

    def read(self, capability: tuple[int, int]) -> bytes:
        image = self.path.read_bytes()
        if self.path.suffix != ".xz":
            return image
        try:
            import lzma

            return lzma.decompress(image)
        except ImportError as error:
            raise ValueError("this Python was built without lzma") from error
        except (lzma.LZMAError, EOFError) as error:
            raise ValueError(f"the file is torn: {error}") from error


class _Compiled:
    """Kernels that NVRTC makes from the packaged source."""

    name = "NVRTC"

    def there(self) -> bool:
        return nvrtc.find() is not None and (KERNELS / "kernels.cu").is_file()

    def read(self, capability: tuple[int, int]) -> bytes:
        return nvrtc.compile_cached(KERNELS, capability)


def _images() -> list[_File | _Compiled]:
    """Where kernels may come from, best first."""
    wanted = os.environ.get("PHASEFUSION_CUDA_IMAGE")
    if wanted == "nvrtc":
        return [_Compiled()]
    if wanted is not None:
        return [_File(Path(wanted))]
    return [_File(KERNELS / "kernels.fatbin.xz"), _Compiled()]


def _make_ready(driver: Any, ordinal: int) -> Device:
    from phasefusion import _cuda

    try:
        handle = _cuda.device(driver, ordinal)
    except (RuntimeError, MemoryError) as error:
        raise BackendUnavailableError(str(error.args[0])) from error
    except ValueError as error:
        raise BackendUnavailableError(f"there is no CUDA device {ordinal}") from error
    name, capability, _, _ = _cuda.device_info(handle)
    refused = []
    for source in _images():
        if not source.there():
            refused.append(f"{source.name}: not there")
            continue
        try:
            _cuda.load(handle, source.read(capability))
        except RuntimeError as error:
            if len(error.args) == 2 and error.args[1] not in _WRONG_IMAGE:
                raise BackendUnavailableError(str(error.args[0])) from error
            refused.append(f"{source.name}: {error.args[0]}")
            continue
        except ValueError as error:
            refused.append(f"{source.name}: {error}")
            continue
        except (OSError, MemoryError) as error:
            raise BackendUnavailableError(
                f"kernels of {source.name} could not be loaded: {error}"
            ) from error
        return Device(handle, ordinal, name, capability, source.name)
    reason = (
        f"no kernels for device {ordinal} ({name}, compute capability "
        f"{capability[0]}.{capability[1]}): {'; '.join(refused)}"
    )
    _drivers[f"{_driver_path()} kernels"] = reason
    raise BackendUnavailableError(reason)


@contextmanager
def held(ordinal: int) -> Iterator[None]:
    """Keep the page-locked memory that frames of the host travel through, and the rest.

    Without it, every call that sends frames makes and frees its own.
    """
    from phasefusion import _cuda

    handle = device(ordinal).handle
    with translated("holding the memory for frames"):
        _cuda.hold(handle)
    try:
        yield
    finally:
        _cuda.release(handle)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the driver says into the project's errors."""
    try:
        yield
    except MemoryError as error:
        if not error.args:
            raise
        raise DeviceMemoryError(
            f"{what} does not fit into the memory of the GPU: {error.args[0]}; give "
            "fewer frames at a time"
        ) from error
    except RuntimeError as error:
        if len(error.args) != 2:
            raise
        text, code = error.args
        if code == 0:
            raise BackendUnavailableError(str(text)) from error
        advice = "; the process has to be started again" if code in _LOST else ""
        raise DeviceError(f"{what}: {text}{advice}") from error
