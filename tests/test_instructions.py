"""Hot kernels do not take more instructions than they did."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "instructions.py"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
@pytest.mark.skipif("PHASEFUSION_UNDER_ASAN" in os.environ, reason="under ASan")
def test_no_kernel_takes_more_than_it_did():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_more_is_a_regression(capsys):
    spec = importlib.util.spec_from_file_location("instructions", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    known = dict.fromkeys(script.KERNELS, 1000)
    assert script.compare(known, known, 1.05) == []
    slower = known | {"pf_grid_indices": 1051, "pf_posterior_fuse": 1049}
    assert script.compare(slower, known, 1.05) == [
        "pf_grid_indices: 1.051 times what it took (at most 1.05)"
    ]
    del slower["pf_batch_resize"]
    assert "pf_batch_resize: not counted" in script.compare(slower, known, 1.05)
    assert "1.051" in capsys.readouterr().out
