"""Broken kernels are found broken: by their results, by faults, or by the tracer."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import emulator
import pytest

pytestmark = pytest.mark.skipif(
    not emulator.is_possible() or "PHASEFUSION_UNDER_ASAN" in os.environ,
    reason="needs a C++ compiler, and the place of its own sanitizers",
)
HERE = Path(__file__).parent
TENSOR = "resize_tensor.cu"
TILED, PLAIN, SOURCE = "resize_tiled.cu", "resize_plain.cu", "source.h"
FUSE, STATISTICS = "fuse.cu", "statistics.cu"
BARRIER = "        __syncthreads();\n"

#: name: file, what stands there, which one, what is put there, how it may be found.
#: 1 is a wrong result, 2 a fault, 3 a race.
MUTANTS = {
    "no barrier after staging": (TILED, BARRIER, 0, "\n", {1, 3}),
    "no barrier before the next lines": (TILED, BARRIER, 1, "\n", {1, 3}),
    "no barrier before the tile is turned": (
        TILED,
        "    __syncthreads();\n    for",
        0,
        "    for",
        {1, 3},
    ),
    "a barrier that not all come to": (
        TILED,
        BARRIER,
        0,
        "        if (threadIdx.x < 31) { __syncthreads(); }\n",
        {2},
    ),
    "lanes beyond the tile": (TILED, "lane < n_line && ", 0, "", {1, 2, 3}),
    "outputs beyond the tile": (TILED, "if (lane < t.n_a)", 0, "if (true)", {1, 2}),
    "one line too few": (
        TILED,
        "t.end_line = 4 * (b",
        0,
        "t.end_line = -4 + 4 * (b",
        {1},
    ),
    "rows in even words": (TILED, "lane * p.stage_words", 0, "lane * 2", {1, 3}),
    "columns not turned": (TILED, "(4u + x) << 4 * r", 0, "(4u + r) << 4 * r", {1}),
    "the middle byte twice": (TILED, "w.y, middle", 0, "w.x, middle", {1}),
    "signed as unsigned": (
        TILED,
        "pf_gpu_dot_signed(",
        0,
        "pf_gpu_dot_unsigned(",
        {1},
    ),
    "tensor: no barrier after staging": (
        TENSOR,
        "        __syncthreads();\n",
        0,
        "\n",
        {1, 3},
    ),
    "tensor: no barrier before the next lines": (
        TENSOR,
        "        __syncthreads();\n",
        1,
        "\n",
        {1, 3},
    ),
    "tensor: the middle byte twice": (
        TENSOR,
        "middle, middle,",
        0,
        "middle, low,",
        {1},
    ),
    "tensor: the sign forgotten": (TENSOR, "(true, sums", 0, "(false, sums", {1}),
    "tensor: a step too few": (TENSOR, "step < product.n_step", 0, "step < 1", {1}),
    "tensor: one step for all": (
        TENSOR,
        "weight += 3 * PF_GPU_LANES;",
        0,
        "weight += 0;",
        {1},
    ),
    "tensor: halves exchanged": (
        TENSOR,
        "pf_split(three[12]",
        0,
        "pf_split(three[0]",
        {1},
    ),
    "tensor: rows of the wrong lane": (
        TENSOR,
        "+ 6 * (lane % 4)",
        0,
        "+ 6 * (lane / 8)",
        {1},
    ),
    "tensor: the lower rows twice": (TENSOR, "2 * lower + b / 3", 0, "b / 3", {1}),
    "tensor: one factor for both": (TENSOR, "from + 8 * n *", 0, "from + 0 * n *", {1}),
    "tensor: the skew forgotten": (TENSOR, "3 * t.word0 & 3 : 0", 0, "0 : 0", {1}),
    "tensor: the last piece whole": (TENSOR, "n_byte >= 16", 0, "n_byte >= 1", {1, 2}),
    "tensor: rows that start anywhere": (
        TENSOR,
        "& 15u) == 0",
        0,
        "& 0u) == 0",
        {1, 2},
    ),
    "tensor: one side alone": (TENSOR, "side < t.n_a", 0, "side < 1", {1}),
    "tensor: columns beyond the tile": (TENSOR, "x >= t.n_a", 0, "x > 31", {1, 2}),
    "tensor: lines of the next tile": (TENSOR, "t.line0 / 4,", 0, "0,", {1, 2, 3}),
    "tensor: no rounding": (TENSOR, "= 1 << 21;", 0, "= 0;", {1}),
    "tensor: green and blue exchanged": (SOURCE, "0x3410)", 0, "0x3140)", {1}),
    "no rounding": (TILED, "low[3] = {1 << 21,", 0, "low[3] = {0,", {1}),
    "the table of the wrong channel": (SOURCE, "256 * c + v", 0, "v", {1}),
    "green and blue exchanged": (SOURCE, "0x6210", 0, "0x7410", {1}),
    "a word too far": (SOURCE, "x + 4 <= f.across", 0, "x <= f.across", {1, 2}),
    "rows of another word": (SOURCE, "0x1111u * skip", 0, "0u", {1}),
    "chroma of the next row": (SOURCE, "(y >> 1)", 1, "((y + 1) >> 1)", {1, 2}),
    "a pixel too many": (PLAIN, "i < width * height", 0, "i <= width * height", {1, 2}),
    "a tap too few": (PLAIN, "t < n_tap", 0, "t < n_tap - 1", {1}),
    "the sum of another thread": (FUSE, "part[tid + n];\n        }", 1, "0.0;\n}", {1}),
    "no barrier in a sum": (
        FUSE,
        "        __syncthreads();\n        if (tid < n) {",
        0,
        "        if (tid < n) {",
        {1, 3},
    ),
    "the top overwritten too soon": (
        FUSE,
        "    __syncthreads(); /* before",
        0,
        "    /* before",
        {1, 3},
    ),
    "letters for contents": (FUSE, "p.order[at]", 0, "tid", {1}),
    "the mean of all passes": (FUSE, "(double)n_valid :", 0, "(double)p.n_pass :", {1}),
    "ties go to the first": (FUSE, "is_tied && answered", 0, "false", {1}),
    "a margin of nothing": (FUSE, "second < 1e-290", 0, "second < 0.0", {1}),
    "warps that share no item": (FUSE, "threadIdx.x >> 5", 0, "0", {1}),
    "refusals that are forgotten": (STATISTICS, "half & 1u", 0, "half & 0u", {1}),
    "draws that nobody refuses": (STATISTICS, ">= spare ?", 0, ">= 0 ?", {1}),
    "one word for two draws": (STATISTICS, "32 * (i & 1u)", 0, "0", {1}),
    "counts before they are 0": (
        STATISTICS,
        "    __syncthreads();\n",
        0,
        "\n",
        {1, 3},
    ),
    "counts before they are made": (
        STATISTICS,
        "    __syncthreads();\n",
        1,
        "\n",
        {1, 2, 3},
    ),
    "histograms of one channel": (STATISTICS, "(i % 3) *", 0, "0 *", {1}),
    "a pass along the other axis": (PLAIN, "p.is_down ? f.down : f", 0, "f", {1, 2}),
}


def mutate(folder: Path, name: str) -> None:
    file, text, which, other, _ = MUTANTS[name]
    shutil.copytree(emulator.DEVICE_CODE, folder)
    whole = (folder / file).read_text()
    parts = whole.split(text)
    assert len(parts) > which + 1, f"{file} has no such {text!r} any more"
    before, after = text.join(parts[: which + 1]), text.join(parts[which + 1 :])
    (folder / file).write_text(before + other + after)


def probe(
    folder: Path, mode: str, code: Path = emulator.DEVICE_CODE
) -> tuple[int, str]:
    """0, or how something was found, by one build of the emulator."""
    library = emulator.build(folder / mode, mode, code)
    image = folder / "image"
    image.write_bytes(struct.pack("<I", 0xBA55ED50) + bytes(60))
    report = str(folder / "report") if mode == "traced" else "-"
    environment = {**os.environ, "CUEMU_COUNT_EVERY": "0", "CUEMU_ORDER": "s1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(HERE), str(emulator.ROOT), environment.get("PYTHONPATH", "")]
    )
    if mode == "asan":
        runtime = subprocess.run(
            ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True
        )
        environment["LD_PRELOAD"] = runtime.stdout.strip()
        environment["PYTHONMALLOC"] = "malloc"
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
    done = subprocess.run(
        [sys.executable, str(HERE / "probe.py"), str(library), str(image), report],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    code_found = done.returncode if done.returncode in (0, 1) else 2
    if code_found == 0 and "races:" in done.stdout:
        code_found = 3
    return code_found, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["plain", "traced", "asan"])
def test_the_kernels_as_they_are_pass(mode, tmp_path):
    found, said = probe(tmp_path, mode)
    assert found == 0, said


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """How each mutant is found."""

    folders = {name: tmp_path_factory.mktemp("mutant") for name in MUTANTS}

    def judge(name):
        folder = folders[name]
        mutate(folder / "code", name)
        found, said = probe(folder, "plain", folder / "code")
        for mode in ("traced", "asan"):  # what the results do not show
            if found == 0:
                found, said = probe(folder, mode, folder / "code")
        return found, said

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(MUTANTS, pool.map(judge, MUTANTS), strict=True))


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name, verdicts):
    found, said = verdicts[name]
    assert found in MUTANTS[name][-1], f"found as {found}: {said}"


def test_almost_all_device_code_is_run(tmp_path):
    gcov = shutil.which("gcov")
    if gcov is None:
        pytest.skip("no gcov")
    found, said = probe(tmp_path, "covered")
    assert found == 0, said
    folder = tmp_path / "covered"
    subprocess.run(
        [gcov, "-o", str(folder), "kernels.cpp.gcno"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    total = run = 0
    missed = []
    for path in folder.glob("*.gcov"):
        if path.stem not in {p.name for p in emulator.DEVICE_CODE.iterdir()}:
            continue
        lines: dict[int, bool] = {}  # templates come several times
        for line in path.read_text().splitlines():
            count, number, *_ = (part.strip() for part in line.split(":", 2))
            if count not in ("-", "") and number.isdigit() and int(number) > 0:
                ran = not count.startswith(("#", "="))
                lines[int(number)] = lines.get(int(number), False) or ran
        total += len(lines)
        run += sum(lines.values())
        missed += [f"{path.stem}:{n}" for n, ran in lines.items() if not ran]
    assert total > 100
    assert run / total >= 0.95, missed
