"""The emulated driver behind the shipped host code."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import emulator
import pytest
from emulator import forget


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> emulator.Emulator:
    """The emulated driver, built once."""
    if not emulator.is_possible():
        pytest.skip(f"no C++ compiler named {emulator.CXX}")
    folder = tmp_path_factory.mktemp("cuemu")
    return emulator.Emulator(emulator.build(folder))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that the emulated driver takes for kernels."""
    path = tmp_path_factory.mktemp("image") / "kernels.fatbin"
    path.write_bytes(struct.pack("<I", 0xBA55ED50) + bytes(60))
    return path


@pytest.fixture
def gpu(
    emulated: emulator.Emulator,
    image: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[emulator.Emulator]:
    """A GPU that is not there; nothing may be left over on it."""
    monkeypatch.setenv("PHASEFUSION_CUDA_DRIVER", emulated.path)
    monkeypatch.setenv("PHASEFUSION_CUDA_IMAGE", str(image))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    emulated.reset()
    forget()
    yield emulated
    emulated.reset()
    assert emulated.context_depth == 0
    forget()
