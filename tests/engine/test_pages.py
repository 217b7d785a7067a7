"""The commands that the pages about many machines show are run as they stand there."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pixel_scorer import make_questions

from phasefusion.records import iter_passes, pass_key

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"<!-- runs as it is(?:, where there is (\w+))? -->\n```sh\n(.*?)```", re.DOTALL
)
BLOCKS = [
    pytest.param(needs, text, id=f"{page}-{number}")
    for page in ("many-machines", "capacity")
    for number, (needs, text) in enumerate(
        BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())
    )
]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with questions and a scorer, and programs that are not installed."""
    folder = tmp_path_factory.mktemp("place")
    make_questions(folder, n_clips=3, per_clip=2)
    (folder / "mine.py").write_text("from pixel_scorer import make\n")
    programs = folder / "bin"
    programs.mkdir()
    modules = {"phasefusion": "phasefusion", "torchrun": "torch.distributed.run"}
    modules["accelerate"] = "accelerate.commands.accelerate_cli"
    for name, module in modules.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)
    return folder


def run(place, script):
    environ = os.environ | {
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    environ.pop("RANK", None)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=place,
        env=environ,
        capture_output=True,
        text=True,
    )


def test_there_are_commands():
    assert len(BLOCKS) == 5


@pytest.mark.parametrize(("needs", "script"), BLOCKS)
def test_commands_run(place, needs, script):
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    if "torchrun" in script:
        pytest.importorskip("torch", reason="torchrun is part of torch")
    done = run(place, script)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_of_them_made_one_run(place):
    """Shards, launchers and Ray on the same questions."""
    made = sorted(
        path for path in place.glob("runs/?") if (path / "passes.jsonl").exists()
    )
    if not made:
        pytest.skip("the commands were not run")
    found = [
        {
            pass_key(p): p | {"seconds": None, "decode_seconds": None}
            for p in iter_passes(path)
        }
        for path in made
    ]
    assert all(passes == found[0] for passes in found)
