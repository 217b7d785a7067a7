"""Hot kernels do not take more instructions than they did."""

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


def test_more_is_a_regression():
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import instructions as script
    finally:
        sys.path.remove(str(SCRIPT.parent))
    known = dict.fromkeys(script.KERNELS, 1000)
    assert not any(row.missed for row in script.rows_of(known, known, 1.05))
    slower = known | {"pf_grid_indices": 1051, "pf_posterior_fuse": 1049}
    missed = [row for row in script.rows_of(slower, known, 1.05) if row.missed]
    assert [(row.key, row.value) for row in missed] == [("pf_grid_indices", 1.051)]
    del slower["pf_batch_resize"]
    lacking = script.rows_of(slower, known, 1.05)[0]
    assert lacking.missed
    assert "pf_batch_resize was not counted" in lacking.lacking
