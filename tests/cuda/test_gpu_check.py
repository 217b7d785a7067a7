"""The check of a real GPU, run on one that is not there, or on none."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import emulator
import pytest

HERE = Path(__file__).parent
SCRIPT = emulator.ROOT / "benchmarks" / "gpu_check.py"


def check(folder, *arguments, **environment):
    """Run the script; its exit code, its words, and what it wrote."""
    paths = [str(HERE), str(emulator.ROOT), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(folder / "out"), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        capture_output=True,
        text=True,
        timeout=500,
    )
    written = folder / "out" / "gpu_check.json"
    found = json.loads(written.read_text()) if written.is_file() else None
    return done.returncode, done.stdout + done.stderr, found


@pytest.fixture
def there(gpu, tmp_path):
    """The environment of a check on the emulated driver."""
    return {
        "PHASEFUSION_CHECK_SPACE": "emulator:Space",
        "PHASEFUSION_CHECK_QUICK": "1",
        "PHASEFUSION_NVRTC": "/nowhere/libnvrtc.so",
        "PATH": str(tmp_path),  # no tools of a toolkit
    }


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpu_check"] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.modules.pop("gpu_check", None)
        sys.path.remove(str(SCRIPT.parent))


@pytest.mark.parametrize(("required", "code"), [("0", 0), ("1", 1)])
def test_without_a_gpu_it_says_so(tmp_path, required, code):
    found = check(
        tmp_path,
        PHASEFUSION_CUDA_DRIVER="/nowhere/libcuda.so.1",
        PHASEFUSION_REQUIRE_CUDA=required,
    )
    assert found[0] == code
    assert "no GPU, nothing was checked: no CUDA driver" in found[1]
    assert list(found[2]) == ["no_gpu"]


def test_all_is_right_on_the_emulated_device(tmp_path, there):
    stages = ["correct", "nvrtc", "streams", "scores", "sanitizer", "ncu"]
    code, said, found = check(tmp_path, "--only", *stages, CUEMU_LAZY="1", **there)
    assert code == 0, said
    assert said.rstrip().endswith("right")
    assert found["right"] is True
    assert found["correct"]["cases"] == 2 * 3 * (1 + 3) + 2 + 15 * 3 + 4
    assert found["correct"]["arrays"] == "Space"
    assert found["streams"] == {"cases": 8, "wrong": [], **seconds(found["streams"])}
    assert found["nvrtc"]["skipped"] == "no NVRTC"
    assert found["sanitizer"]["skipped"] == "no compute-sanitizer"
    assert found["scores"]["skipped"] == "no torch with this GPU"
    assert found["ncu"]["skipped"] == "no ncu"


def test_planes_of_the_decoder_are_right_on_the_emulated_device(tmp_path, there):
    code, said, found = check(tmp_path, "--only", "planes", CUEMU_LAZY="1", **there)
    assert code == 0, said
    assert found["planes"]["cases"] == 2 * 2 * 3 + 2 * 2 * 2 * 3
    assert found["planes"]["wrong"] == []
    assert len(found["planes"]["clips"]) == 1


def seconds(stage):
    return {"seconds": stage["seconds"]}


def test_one_wrong_kernel_is_an_exit_code(tmp_path, there):
    code_folder = tmp_path / "code"
    shutil.copytree(emulator.DEVICE_CODE, code_folder)
    file = code_folder / "resize_tensor.cu"
    text = file.read_text()
    assert "= 1 << 21;" in text
    file.write_text(text.replace("= 1 << 21;", "= 0;"))  # sums are not rounded
    library = emulator.build(tmp_path / "broken", "plain", code_folder)
    code, said, found = check(
        tmp_path,
        "--only",
        "correct",
        "planes",
        **there | {"PHASEFUSION_CUDA_DRIVER": str(library)},
    )
    assert code == 1
    assert said.rstrip().endswith("WRONG")
    wrong = found["correct"]["wrong"]
    assert {case[3] for case in wrong if len(case) == 5} == {"tensor"}
    assert {case[2] for case in wrong if len(case) == 5} == {"horizontal"}
    assert len(wrong) < found["correct"]["cases"]
    wrong = found["planes"]["wrong"]
    assert {(case[2], case[3]) for case in wrong} == {("horizontal", "tensor")}


def test_a_stage_that_is_late_is_wrong_and_keeps_what_it_has(tmp_path, there):
    slow = {**there, "PHASEFUSION_CHECK_QUICK": "0"}
    code, _, found = check(tmp_path, "--only", "correct", "--budget", "5", **slow)
    assert code == 1
    assert found["correct"]["error"] == "out of time"
    code, _, found = check(tmp_path, "--only", "streams", "--budget", "0", **there)
    assert (code, found["streams"]) == (1, {"error": "no time"})


def test_a_stage_that_breaks_off_is_wrong(tmp_path, there):
    broken = {**there, "PHASEFUSION_CHECK_SPACE": "emulator:Nowhere"}
    code, _, found = check(tmp_path, "--only", "streams", **broken)
    assert code == 1
    assert "AttributeError" in found["streams"]["error"]


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 1)])
def test_the_sanitizers_verdict_counts(tmp_path, there, fails, code):
    tool = tmp_path / "compute-sanitizer"
    what = "echo a race; exit 9" if fails else 'shift 4; exec "$@"'
    tool.write_text(f"#!/bin/sh\n{what}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    got, said, found = check(tmp_path, "--only", "sanitizer", **there)
    assert got == code, said
    assert found["sanitizer"]["done"] == ["memcheck", "racecheck", "initcheck"]
    assert len(found["sanitizer"]["wrong"]) == 3 * fails


NCU = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","pf_tensor(pf_gpu_resize)","dram__bytes.sum","Mbyte","8.91"
"0","7","pf_tensor(pf_gpu_resize)","smsp__inst_executed.sum","inst","1,800,000"
"1","7","pf_tiled(pf_gpu_resize)","dram__bytes.sum","Mbyte","8.95"
==PROF== Disconnected
"""


def test_metrics_are_read(script):
    found = script.kernels_of(NCU)
    assert found["pf_tensor(pf_gpu_resize)"] == {
        "dram__bytes.sum": "8.91 Mbyte",
        "smsp__inst_executed.sum": "1,800,000 inst",
    }
    assert list(found) == ["pf_tensor(pf_gpu_resize)", "pf_tiled(pf_gpu_resize)"]
    assert script.kernels_of("==ERROR== no permission") == {}


def test_stages_fit_into_the_budget_and_times_never_judge(script):
    assert sum(stage.limit_s for stage in script.STAGES.values()) <= 420
    judging = {name for name, stage in script.STAGES.items() if stage.judges}
    right = {"correct", "nvrtc", "planes", "streams", "scores", "sanitizer"}
    assert judging == right
    timing, correct = script.STAGES["timing"], script.STAGES["correct"]
    assert script.is_right(timing, {"error": "no torch"})
    assert script.is_right(correct, {"wrong": []})
    for found in ({}, {"wrong": ["x"]}, {"wrong": [], "error": "out of time"}):
        assert not script.is_right(correct, found)


def test_the_table(script):
    row = {"tiled_us": 5.04, "tensor_us": 2.5, "torch_us": 25.0, "gb_s": 3450.0}
    results = {"ceilings": {"copy_gb_s": 4312.5}, "timing": {"frames": {"a, 8": row}}}
    assert script.table_of(results).splitlines()[-1] == (
        "| a, 8 | 5.0 | 2.5 | 25.0 | - | 10.0 | 80% |"
    )
    bare = {
        "timing": {"frames": {"b, 128": {"tiled_us": 5, "tensor_us": 6, "gb_s": 1}}}
    }
    assert script.table_of(bare).splitlines()[-1] == (
        "| b, 128 | 5.0 | 6.0 | - | - | - | - |"
    )


def test_rounding_to_the_types_of_vision_towers(script):
    torch = pytest.importorskip("torch")
    import numpy as np

    values = np.random.default_rng(0).normal(0, 3, 4000).astype(np.float32)
    for dtype in script.cases.DTYPES:
        exact = torch.from_numpy(values).to(getattr(torch, dtype))
        bits = exact.view({2: torch.int16, 4: torch.int32}[exact.element_size()])
        assert script.cases.is_same(bits.numpy(), values, dtype)
        assert not script.cases.is_same(bits.numpy()[::-1].copy(), values, dtype)
