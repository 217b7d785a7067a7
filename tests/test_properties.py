"""The search for examples that `make properties` runs: it ends in time, and finds."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
import time

from hypothesis import assume, given
from hypothesis import strategies as st

NUMBERS = st.lists(st.integers(0, 10**6), max_size=60)


@given(NUMBERS)
def test_false(numbers):
    time.sleep(0.05)
    assert sum(numbers) < 1000


@given(st.integers(0, 10**9))
def test_true(n):
    assume(n % 2)
    time.sleep(0.01)


def test_other():
    raise AssertionError
"""


@pytest.mark.slow
def test_what_is_found_is_kept(tmp_path):
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "test_made.py").write_text(TESTS)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--properties", "1", "-rs", "-c", "/dev/null"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 failed, 1 skipped, 1 deselected" in told.stdout
    assert "nothing found in the time that there was" in told.stdout
    assert "test_false" in told.stdout
    assert told.returncode == 1
