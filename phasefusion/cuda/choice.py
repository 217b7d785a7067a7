"""Which kernels resize: the ones that a device was once seen to run faster.

Both kinds make the same bits. Tensor cores are used where they were measured to be
faster, which takes some milliseconds once a device and version and is kept in
``$XDG_CACHE_HOME/phasefusion``. ``PHASEFUSION_CUDA_VARIANT`` decides without measuring:
``plain``, ``tiled`` or ``tensor`` (where it can, else tiled).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Literal, TypeAlias

from phasefusion.cuda import nvrtc, runtime
from phasefusion.errors import FrameError

__all__ = ["Variant", "measure", "variant_for"]

Variant: TypeAlias = Literal["auto", "plain", "tiled", "tensor", "tensor-first"]

#: Calls that move less are over before a measurement would be.
WORTH_BYTES = 32 << 20
#: What is measured: source, size, frames.
TRIAL = ((1080, 1920), (448, 448), 48)
_N_TURNS = 5
_CHOICES: dict[str, Variant] = {
    "plain": "plain",
    "tiled": "auto",
    "tensor": "tensor-first",
}
_OLDEST = 8  # major compute capability of the instructions that are needed

_lock = threading.Lock()
_settled: dict[tuple[str, int], Variant] = {}


def variant_for(device: runtime.Device, n_bytes: int) -> Variant:
    """Return what resizes a call that moves so many bytes of device memory.

    Raises
    ------
    FrameError
        If ``PHASEFUSION_CUDA_VARIANT`` is none of those.
    """
    wanted = os.environ.get("PHASEFUSION_CUDA_VARIANT", "auto")
    if wanted in _CHOICES:
        return _CHOICES[wanted]
    if wanted != "auto":
        raise FrameError(
            "PHASEFUSION_CUDA_VARIANT must be auto, plain, tiled or tensor; it is "
            f"{wanted!r}"
        )
    if device.capability[0] < _OLDEST:
        return "auto"
    key = (runtime._driver_path(), device.ordinal)
    with _lock:
        if key in _settled:
            return _settled[key]
        times = _recall(device)
        if times is None and n_bytes < WORTH_BYTES:
            return "auto"  # and asked again
        if times is None:
            times = measure(device)
            _keep(device, times)
        faster = times is not None and times["tensor"] < times["tiled"]
        _settled[key] = "tensor-first" if faster else "auto"
        return _settled[key]


def measure(device: runtime.Device) -> dict[str, float] | None:
    """Return milliseconds of a batch by variant, the best of a few turns.

    None when there is no room for it or the device refuses: what cannot be measured is
    not used.
    """
    from phasefusion import _cuda

    best: dict[str, float] = {}
    try:
        for _ in range(_N_TURNS):
            for variant in ("tiled", "tensor"):
                spent = _cuda.measure(device.handle, variant, *TRIAL)
                best[variant] = min(spent, best.get(variant, spent))
    except (RuntimeError, MemoryError, ValueError):
        return None
    return best


def _path(device: runtime.Device) -> Path:
    """Where the times of a device are kept, by all that they depend on."""
    sources = sorted(runtime.KERNELS.glob("*.cu")) + sorted(runtime.KERNELS.glob("*.h"))
    parts = [device.name, device.image, repr(TRIAL), repr(runtime.describe()["cuda"])]
    key = hashlib.sha256("\0".join(parts).encode())
    for source in sources:
        key.update(source.read_bytes())
    major, minor = device.capability
    return nvrtc.cache_folder() / f"times-sm_{major}{minor}-{key.hexdigest()[:32]}.json"


def _recall(device: runtime.Device) -> dict[str, float] | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(_path(device).read_text())
        return {name: float(kept[name]) for name in ("tiled", "tensor")}
    return None


def _keep(device: runtime.Device, times: dict[str, float] | None) -> None:
    if times is not None:
        with contextlib.suppress(OSError):  # then it is measured once a process
            nvrtc._write(_path(device), json.dumps(times).encode())
