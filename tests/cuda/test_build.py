"""What nvcc makes of the kernels, and what the build packages."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path

import emulator
import pytest

ROOT = emulator.ROOT
CODE = emulator.DEVICE_CODE


def nvcc() -> str:
    found = shutil.which(os.environ.get("NVCC", "nvcc"))
    if found is None and Path("/usr/local/cuda/bin/nvcc").is_file():
        found = "/usr/local/cuda/bin/nvcc"
    if found is None:
        pytest.skip("no nvcc")
    return found


#: Registers a thread, at most: what leaves room for as many blocks as were planned.
REGISTERS = {
    "pf_pass": 64,
    "pf_tiled": 64,
    "pf_turned": 80,
    "pf_tensor": 128,
    "pf_option_scores": 64,
    "pf_fuse_passes": 64,
    "pf_resample_counts": 64,
    "pf_frame_distance": 64,
}


@pytest.fixture(scope="module", params=["80", "90", "100"])
def compiled(request, tmp_path_factory):
    """What ptxas says about each kernel, and its code in PTX."""
    folder = tmp_path_factory.mktemp("nvcc")
    common = [nvcc(), "-std=c++17", "-O3", "-fmad=false", f"-arch=sm_{request.param}"]
    common += [f"-I{ROOT / 'csrc/posterior'}", str(CODE / "kernels.cu")]
    verbose = ["-cubin", "-Xptxas", "-v", "-o", str(folder / "cubin")]
    said = subprocess.run([*common, *verbose], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    ptx = folder / "ptx"
    subprocess.run([*common, "-ptx", "-o", str(ptx)], check=True)
    return said.stderr, ptx.read_text(), folder / "cubin"


def usage(said: str) -> dict[str, tuple[int, int, int]]:
    """Registers, bytes of spill stores and of spill loads, by kernel."""
    pattern = (
        r"Compiling entry function '(\w+)'.*?"
        r"(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers"
    )
    found = re.findall(pattern, said, re.DOTALL)
    return {name: (int(r), int(s), int(ld)) for name, s, ld, r in found}


def test_no_kernel_spills_and_registers_stay_below_the_ceiling(compiled):
    found = usage(compiled[0])
    assert set(found) == set(REGISTERS)
    for name, (registers, stores, loads) in found.items():
        assert (stores, loads) == (0, 0), f"{name} spills"
        assert registers <= REGISTERS[name], name


def test_the_instructions_that_were_meant(compiled):
    _, ptx, _ = compiled
    kernels = dict(re.findall(r"\.entry (\w+)\((.*?)\n}", ptx, re.DOTALL))
    for name in ("pf_tiled", "pf_turned"):
        assert "dp4a.u32.u32" in kernels[name]
        assert "dp4a.u32.s32" in kernels[name]
        assert "prmt.b32" in kernels[name]
        assert "ld.global.nc.v4.u32" in kernels[name]  # weights
    assert kernels["pf_tensor"].count("mma.sync.aligned.m16n8k32") == 18
    assert kernels["pf_tensor"].count(".s32.s8.u8.s32") == 6  # the highest bytes
    for load in ("ld.global.nc.v4.u32", "st.shared.v4.u32"):
        assert load in kernels["pf_tensor"]
    for name, body in kernels.items():
        # products and sums are rounded apart, as on the CPU
        assert not re.search(r"\bfma\.rn\.f(32|64)\b", body), name


def test_products_of_matrices_are_instructions(compiled):
    """In machine code: integer products of 16 by 8 by 32, and nothing on a stack."""
    if (tool := disassembler()) is None:
        pytest.skip("no nvdisasm")
    cubin = compiled[2]
    said = subprocess.run([tool, "-c", cubin], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    code = dict(
        re.findall(r"\.text\.(\w+):\n(.*?)(?=\n//-|\Z)", said.stdout, re.DOTALL)
    )
    assert set(code) >= set(REGISTERS)
    for name in ("pf_tiled", "pf_turned", "pf_tensor"):
        assert not re.search(r"\b(LDL|STL)\b", code[name]), f"{name} has a stack"
    for tiled in ("pf_tiled", "pf_turned"):
        assert "IDP.4A" in code[tiled]
    assert code["pf_tensor"].count("IMMA.16832.U8.U8") == 12
    assert code["pf_tensor"].count("IMMA.16832.S8.U8") == 6
    assert "LDG.E.128" in code["pf_tensor"]
    assert "STS.128" in code["pf_tensor"]


def disassembler():
    """The path of nvdisasm: of the environment, or of a Python package."""
    root = Path(sysconfig.get_paths()["purelib"], "nvidia")
    places = [os.environ.get("NVDISASM", "nvdisasm")]
    places += [str(path) for path in root.glob("*/bin/nvdisasm")]
    return next(filter(None, map(shutil.which, places)), None)


def test_every_kernel_is_known_everywhere():
    text = "".join(path.read_text() for path in CODE.glob("*.cu"))
    kernels = set(
        re.findall(r"PF_KERNEL\s*(?:__launch_bounds__\([^)]*\))?\s*(\w+)", text)
    )
    assert kernels == set(REGISTERS)
    exported = (emulator.EMULATOR / "kernels.cpp").read_text()
    listed = (ROOT / "csrc" / "host" / "device.h").read_text()
    for name in kernels:
        assert f"CUEMU_EXPORT({name}, " in exported
        assert f"X({name})" in listed


def build(tmp_path, **environment):
    command = [sys.executable, "setup.py", "build_ext"]
    command += ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path)]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PKG_CONFIG": "/bin/false", **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_without_nvcc_the_sources_are_packaged(tmp_path):
    made = build(tmp_path, NVCC="/nowhere/nvcc")
    assert made.returncode == 0, made.stderr
    assert "building without compiled GPU kernels: nvcc was not found" in made.stdout
    folder = tmp_path / "lib" / "phasefusion" / "cuda" / "kernels"
    names = {path.name for path in folder.iterdir()}
    assert names == {p.name for p in CODE.iterdir()} | {"exponential.h"}
    made = build(tmp_path, NVCC="/nowhere/nvcc", PHASEFUSION_CUDA="on")
    assert made.returncode != 0
    assert "PHASEFUSION_CUDA=on, but nvcc was not found" in made.stdout + made.stderr


def parts_of(tmp_path):
    """What GPUs add to a wheel, but the image."""
    made = tmp_path / "lib" / "phasefusion"
    yield from (p for p in (made / "cuda" / "kernels").iterdir() if p.suffix != ".xz")
    yield from made.glob("_cuda*.so")
    yield from (ROOT / "phasefusion" / "cuda").glob("*.py")


@pytest.mark.slow
def test_with_nvcc_one_image_is_packaged(tmp_path):
    made = build(tmp_path, NVCC=nvcc(), PHASEFUSION_CUDA="on")
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "lib" / "phasefusion" / "cuda" / "kernels"
    image = (folder / "kernels.fatbin.xz").read_bytes()
    assert lzma.decompress(image)[:4] == b"\x50\xed\x55\xba"
    assert len(image) <= 72_000
    # beside it: the sources, the host code and the Python modules
    rest = sum(len(zlib.compress(path.read_bytes(), 9)) for path in parts_of(tmp_path))
    assert len(image) + rest <= 150_000
