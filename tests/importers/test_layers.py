"""Which packages know which: files below questions and results, runs above."""

import ast
from pathlib import Path

import pytest

import phasefusion

ROOT = Path(phasefusion.__file__).parent


def imported(package):
    for path in (ROOT / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                yield f"{node.module}."
            elif isinstance(node, ast.Import):
                yield from (f"{name.name}." for name in node.names)


@pytest.mark.parametrize(
    ("package", "above"),
    [
        ("_sources", ("importers", "datasets", "evaluate", "records", "report")),
        ("importers", ("datasets", "evaluate", "report")),
        ("datasets", ("evaluate", "report", "records")),
    ],
)
def test_what_is_below_knows_nothing_above(package, above):
    found = set(imported(package))
    assert found
    for name in above:
        assert not any(one.startswith(f"phasefusion.{name}.") for one in found), name


def test_datasets_know_one_reader_of_results():
    names = {one for one in imported("datasets") if "importers" in one}
    assert names == {"phasefusion.importers.golds."}
