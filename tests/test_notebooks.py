"""Every notebook runs from top to bottom."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import run_notebooks

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.skipif(
    "PHASEFUSION_UNDER_ASAN" in os.environ, reason="a kernel of its own, without ASan"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = run_notebooks.missing_packages(path)
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PHASEFUSION_QUESTIONS", "3")  # of each run, to be quick
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=1200, kernel_name="python3")
    client.resources["metadata"] = {"path": str(tmp_path)}
    client.execute()
