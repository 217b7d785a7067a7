"""Every block of commands and of Python on the pages is run as it stands there.

A block that cannot be run everywhere has a comment above it that says what it needs
(``<!-- needs: ray -->``) or why it is not run (``<!-- not run: needs a server -->``).
Pages stand in a folder with what they speak of: questions, clips, a scorer, runs.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pixel_scorer import PixelScorer, make_questions

from phasefusion import stats, tinyvlm
from phasefusion.evaluate import evaluate
from phasefusion.records import iter_passes, pass_key

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>needs|not run): (?P<why>[^>]+?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
#: What is data, output or a formula, not something to run.
DATA = {"text", "json", "yaml", "toml", "toctree"}
#: What stands for something of the reader's own.
STAND_INS = {"path-or-id": str(tinyvlm.model_dir())}
#: Pages that begin with runs/a and runs/b there.
SPEAK_OF_RUNS = {"records", "report", "stableeval"}
#: Pages that begin in an empty folder, and bring along what they speak of.
ALONE = {"tutorial"}
PROGRAMS = {
    "phasefusion": "phasefusion",
    "torchrun": "torch.distributed.run",
    "accelerate": "accelerate.commands.accelerate_cli",
}
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Block:
    """A block of a page, and what it needs."""

    page: str
    number: int
    language: str
    text: str
    needs: str | None = None
    not_run: str | None = None

    @property
    def is_doctest(self) -> bool:
        return self.text.startswith(">>> ")


def blocks(page):
    for number, found in enumerate(BLOCK.finditer(page.read_text())):
        marks = {found["mark"]: found["why"]} if found["mark"] else {}
        yield Block(
            page.stem,
            number,
            found["language"],
            found["text"],
            marks.get("needs"),
            marks.get("not run"),
        )


ALL = [block for page in PAGES for block in blocks(page)]


def test_every_block_says_what_it_is():
    languages = {block.language for block in ALL}
    assert languages <= DATA | {"sh", "python"}, languages


def test_every_block_was_found():
    """Fences that the expression misses would not be run."""
    for page in PAGES:
        fences = re.findall(r"^```", page.read_text(), re.MULTILINE)
        assert len(fences) == 2 * len(list(blocks(page))), page


@pytest.fixture(scope="session")
def first_place(tmp_path_factory):
    """What pages speak of: questions, a scorer, clips, runs, programs."""
    folder = tmp_path_factory.mktemp("place")
    make_questions(folder, n_clips=3, per_clip=2)
    shutil.copy(folder / "questions.jsonl", folder / "moved.jsonl")
    shutil.copy(tinyvlm.questions_path().parent / "clip-000.mp4", folder / "clip.mp4")
    (folder / "mine.py").write_text("from pixel_scorer import make\n")
    for name in ("a", "b"):  # of which some pages speak
        options = {"protocol": "stableeval", "budget": 4, "progress": False}
        path = folder / "made" / name
        evaluate(folder / "questions.jsonl", PixelScorer(), out=path, **options)
    programs = folder / "bin"
    programs.mkdir()
    for name, module in PROGRAMS.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        program.chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    return folder


class Place:
    """A folder in which the blocks of one page run one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = os.environ | {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
        }
        self.environ.pop("RANK", None)

    def run(self, block: Block) -> None:
        text = block.text
        for stands, value in STAND_INS.items():
            text = text.replace(stands, value)
        name = f"block{block.number}"
        if block.language == "python":
            self._python(name, text)
        else:
            self._shell(text)

    def _shell(self, text: str) -> None:
        keep = "; export -p > .exported"
        before = "if [ -f .exported ]; then . ./.exported; fi\n"
        self._call(["bash", "-euo", "pipefail", "-c", f"{before}{text}\n:{keep}"])

    def _python(self, name: str, text: str) -> None:
        """Run all blocks up to this one: what the earlier ones defined is used."""
        script = self.folder / "so_far.py"
        so_far = script.read_text() if script.exists() else ""
        script.write_text(f"{so_far}\n# {name}\n{text}")
        self._call([sys.executable, "-W", "ignore", str(script)])

    def _call(self, command: list[str]) -> None:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def places(first_place, tmp_path_factory):
    made: dict[str, Place] = {}

    def place(page: str) -> Place:
        if page not in made:
            folder = tmp_path_factory.mktemp(page.replace(".", "-")) / "place"
            if page in ALONE:
                shutil.copytree(first_place / "bin", folder / "bin", symlinks=True)
            else:
                shutil.copytree(first_place, folder, symlinks=True)
            if page in SPEAK_OF_RUNS:
                (folder / "made").rename(folder / "runs")
            made[page] = Place(folder)
        return made[page]

    return place


RUN = [
    pytest.param(block, id=f"{block.page}-{block.number}")
    for block in ALL
    if block.language in ("sh", "python")
    and not block.is_doctest  # those are run by test_examples
    and block.not_run is None
]


@pytest.mark.parametrize("block", RUN)
def test_blocks_run(places, block):
    for need in (block.needs or "").split():
        if importlib.util.find_spec(need) is None:
            pytest.skip(f"{need} is not installed")
    places(block.page).run(block)


def test_shards_launchers_and_ray_made_one_run(places):
    folder = places("many-machines").folder
    made = sorted(
        path for path in folder.glob("runs/?") if (path / "passes.jsonl").exists()
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


def test_every_statistic_stands_on_the_page():
    page = (ROOT / "docs" / "statistics.md").read_text()
    named = set(re.findall(r"`(?:fusion\.)?([a-z_0-9]+)`", page))
    functions = {n for n in stats.__all__ if inspect.isroutine(getattr(stats, n))}
    assert functions <= named, functions - named
    in_tables = set(re.findall(r"^\| `([a-z_0-9]+)`", page, re.MULTILINE))
    assert in_tables <= functions, in_tables - functions
