"""The plain-C tests, compiled with the sanitizers and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = sorted((ROOT / "tests" / "c").glob("test_*.c"))
# Kernels that choose their instruction set are tried without the wider ones too.
DISPATCHED = [
    ROOT / "tests/c" / f"test_{x}.c"
    for x in ("distance", "patches", "posterior", "resample", "stats")
]
PROGRAMS = [(path, "AVX512") for path in TESTS]
PROGRAMS += [(path, cap) for path in DISPATCHED for cap in ("SCALAR", "AVX2")]
CC = os.environ.get("CC", "cc")
FLAGS = (
    "-std=c11 -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined "
    "-fno-sanitize-recover=undefined -ffp-contract=off -Wall -Wextra -Icsrc"
).split()


def with_headers(path: Path) -> str:
    """Text of a test and of the headers beside it that it includes."""
    text = path.read_text()
    for name in re.findall(r'#include "(\w+\.h)"', text):
        text += with_headers(path.parent / name)
    return text


def ffmpeg_flags() -> list[str]:
    libraries = ["libavformat", "libavcodec", "libavutil", "libswscale"]
    command = ["pkg-config", "--cflags", "--libs", *libraries]
    return subprocess.run(command, capture_output=True, text=True).stdout.split()


@pytest.mark.skipif(shutil.which(CC) is None, reason=f"no C compiler named {CC}")
@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ, reason="an interpreter under ASan"
)
@pytest.mark.parametrize(
    ("source", "cap"), PROGRAMS, ids=[f"{path.stem}-{cap}" for path, cap in PROGRAMS]
)
def test_plain_c_is_clean_under_sanitizers(
    source: Path, cap: str, tmp_path: Path
) -> None:
    stage = source.stem.removeprefix("test_")
    # A first line "// uses: frames grid" names further stages.
    stages = [stage, "base"]
    first = source.read_text().splitlines()[0]
    if first.startswith("// uses:"):
        stages += first.removeprefix("// uses:").split()
    sources = [str(path) for s in stages for path in (ROOT / "csrc" / s).glob("*.c")]
    replaced = sorted(set(re.findall(r"\b__wrap_(\w+)", with_headers(source))))
    wrap = [f"-Wl,--wrap={name}" for name in replaced]
    libraries = ["-lm", "-pthread"] + (ffmpeg_flags() if "video" in stages else [])
    program = tmp_path / source.stem
    build = [
        CC,
        *FLAGS,
        f"-DPF_CPU_CAP=PF_CPU_{cap}",
        str(source),
        *sources,
        *wrap,
        "-o",
        str(program),
        *libraries,
    ]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    run = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 failed" in run.stdout
