"""What the tests of the command share."""

import sys
import warnings

import pytest
from pixel_scorer import QUICK, make_questions

from phasefusion.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    make_questions(path, n_clips=2, per_clip=2)
    return path


@pytest.fixture
def call(monkeypatch, capsys, folder):
    """Run the command in this process; return exit code, stdout and stderr."""

    def run(*words, columns=100):
        monkeypatch.setattr(sys, "argv", ["phasefusion", *map(str, words)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setenv("COLUMNS", str(columns))
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out = capsys.readouterr()
        return code, out.out, out.err

    monkeypatch.chdir(folder)
    return run


@pytest.fixture
def scored(call):
    """Run the command on the questions of `folder` with the scorer of the tests."""

    def run(*more):
        words = ["run", "questions.jsonl", "--scorer", "pixel_scorer:make"]
        return call(*words, *QUICK, *more)

    return run
