"""Made result files in the forms of harnesses and benchmarks; all content invented."""

import json

import pytest

from phasefusion.importers import import_run
from phasefusion.records import iter_passes


@pytest.fixture
def write(tmp_path):
    """Write a file by its name: JSON values, lists of lines, or text."""

    def put(name, value):
        path = tmp_path / name
        if isinstance(value, str):
            path.write_text(value, encoding="utf-8")
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in value))
        else:
            path.write_text(json.dumps(value))
        return path

    return put


@pytest.fixture
def take(tmp_path):
    """Import files; return the report and the passes."""
    count = iter(range(100))

    def run(files, **options):
        out = tmp_path / f"run{next(count)}"
        made = import_run(files, out=out, **options)
        return made.report, list(iter_passes(out))

    return run


@pytest.fixture
def lake():
    """One question as most forms have it."""
    return {
        "question": "What floats on the lake?",
        "options": ["A. a boat", "B. a swan", "C. a log"],
        "answer": "B",
    }
