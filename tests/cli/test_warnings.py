"""How the command prints warnings, and what it does where they are errors."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from pixel_scorer import make_clip

from phasefusion._checks import warn
from phasefusion.cli import application
from phasefusion.errors import DatasetWarning, OptionWarning

ROOT = Path(__file__).parents[2]


@pytest.fixture
def short(folder):
    """A clip of so few frames that grids repeat some."""
    return make_clip(folder / "short.mp4", n_frames=6)


def command(*words, cwd):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "PYTHONWARNINGS": "error",
    }
    return subprocess.run(
        [sys.executable, "-m", "phasefusion", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
    )


def test_a_warning_that_is_an_error_is_one_line(folder, short):
    done = command("frames", "short.mp4", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("phasefusion: error: short.mp4: a clip of n_frames=6")
    assert done.stderr.endswith("DuplicateFrameWarning was to be an error\n")
    assert done.stderr.count("\n") == 1


def test_one_of_another_package_too(call, monkeypatch):
    def deprecated(*args, **options):
        raise DeprecationWarning("use the\nother one")

    monkeypatch.setattr("phasefusion.info.build_lines", deprecated)
    code, out, err = call("--version")
    assert (code, out) == (2, "")
    assert err == (
        "phasefusion: error: use the; other one; DeprecationWarning was to be an "
        "error\n"
    )


def test_a_run_says_it_of_its_questions(folder, short):
    rows = [
        {"question_id": "a", "video": "short.mp4", "question": "?", "options": o}
        for o in (["x", "y"], ["x", "y"])
    ]
    (folder / "twice.json").write_text(json.dumps(rows))
    words = ["run", "twice.json", "--scorer", "pixel_scorer:make", "--out", "twice"]
    done = command(*words, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("phasefusion: error: twice (plain): 2 questions read")
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_lines_of_a_warning_are_lines(call, monkeypatch, folder):
    def say(*args, **options):
        warn("one\n  two\x1b[31m", DatasetWarning)
        warn("three", OptionWarning)
        raise SystemExit

    monkeypatch.setattr("phasefusion.info.build_lines", say)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        _, _, err = call("--version")
    assert err == (
        "phasefusion: warning: one\n      two\\x1b[31m\nphasefusion: warning: three\n"
    )
    assert application.one_line("a\nb") == "a\\nb"
