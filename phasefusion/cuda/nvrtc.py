"""Compiles the packaged kernels for one device, when there is no image for it.

NVRTC comes with torch, or as a package of its own; what it made is kept in
``$XDG_CACHE_HOME/phasefusion``.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import sysconfig
import tempfile
from pathlib import Path

from phasefusion.errors import BackendUnavailableError

__all__ = ["compile_cached", "find"]

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
_FOLDERS = ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib")
#: Kept apart from nvcc's only by the architecture; see `NVCC_FLAGS` of setup.py.
_OPTIONS = ("--std=c++17", "--fmad=false")


def find() -> ctypes.CDLL | None:
    """Open NVRTC: the one that is loaded already, a package's, or the system's.

    ``PHASEFUSION_NVRTC`` names another library.
    """
    wanted = os.environ.get("PHASEFUSION_NVRTC")
    if wanted is not None:
        return _open(wanted, 0)
    for name in _NAMES:
        loaded = _open(name, os.RTLD_NOLOAD)
        if loaded is not None:
            return loaded
    roots = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    for root in sorted(roots):
        for folder in _FOLDERS:
            for name in _NAMES:
                path = Path(root, folder, name)
                packaged = _open(str(path), 0) if path.is_file() else None
                if packaged is not None:
                    return packaged
    for name in _NAMES:
        system = _open(name, 0)
        if system is not None:
            return system
    return None


def _open(name: str, mode: int) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name, mode=mode | os.RTLD_NOW)
    except OSError:
        return None


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "phasefusion", "kernels")


def compile_cached(folder: Path, capability: tuple[int, int]) -> bytes:
    """Make a cubin of the sources in a folder, or take the one made before.

    Raises
    ------
    BackendUnavailableError
        If there is no NVRTC, or it refuses.
    """
    library = find()
    if library is None:
        raise BackendUnavailableError("NVRTC was not found")
    sources = {path.name: path.read_bytes() for path in sorted(folder.glob("*.*"))}
    sources = {n: s for n, s in sources.items() if n.endswith((".cu", ".h"))}
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    options = (f"--gpu-architecture=sm_{capability[0]}{capability[1]}", *_OPTIONS)
    key = hashlib.sha256(repr((sorted(sources.items()), options)).encode()).hexdigest()
    name = f"sm_{capability[0]}{capability[1]}-{major.value}.{minor.value}-{key[:32]}"
    path = cache_folder() / f"{name}.cubin"
    with contextlib.suppress(OSError):
        kept = path.read_bytes()
        if kept.startswith(b"\x7fELF"):  # not torn, whatever happened to the file
            return kept
    made = _compile(library, sources, options)
    with contextlib.suppress(OSError):  # a cache that cannot be written is no cache
        _write(path, made)
    return made


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def _compile(
    library: ctypes.CDLL, sources: dict[str, bytes], options: tuple[str, ...]
) -> bytes:
    program = ctypes.c_void_p()
    others = {n: s for n, s in sources.items() if n != "kernels.cu"}
    texts = (ctypes.c_char_p * len(others))(*others.values())
    names = (ctypes.c_char_p * len(others))(*(n.encode() for n in others))
    given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    main = sources["kernels.cu"]
    size = ctypes.c_size_t()
    if library.nvrtcCreateProgram(
        ctypes.byref(program), main, b"kernels.cu", len(others), texts, names
    ):
        raise BackendUnavailableError("NVRTC could not be started")
    try:
        if library.nvrtcCompileProgram(program, len(options), given):
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            text = log.value.decode(errors="replace").strip()
            raise BackendUnavailableError(f"NVRTC refuses the kernels: {text[:500]}")
        if library.nvrtcGetCUBINSize(program, ctypes.byref(size)) or not size.value:
            raise BackendUnavailableError(f"NVRTC made no cubin for {options[0]}")
        cubin = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, cubin)
        return cubin.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
