"""The simulation study in small: nothing that should hold is far off."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def coverage():
    spec = importlib.util.spec_from_file_location("coverage_study", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def result(coverage):
    return coverage.run(120, 12_000, seed=1)


def test_intervals_cover_and_tests_keep_their_level(coverage, result):
    assert list(coverage.problems(*result)) == []


def test_everything_that_is_promised_is_studied(result):
    study, recovered = result
    names = " ".join(study.lines)
    for word in (
        "wilson",
        "clopper-pearson",
        "CR1",
        "bootstrap",
        "DeLong",
        "Obuchowski",
        "TOST",
        "McNemar exact",
        "McNemar mid-p",
        "sign-flip",
        "risk control",
        "permutation",
        "matched-vote",
        "re-run floor",
        "half-step",
    ):
        assert word in names, word
    assert len(recovered) >= 12


def test_exact_lines_are_exact(result):
    study, _ = result
    line = study.lines["clopper-pearson, n = 30, at 95 %, least"]
    assert line.exact
    assert line.share >= 0.95
    assert study.lines["McNemar exact, 20 discordant"].share == pytest.approx(
        0.0414, abs=1e-4
    )


def test_what_does_not_hold_is_found(coverage):
    study = coverage.Study()
    for name, kind, share in (("short", "interval", 0.85), ("loud", "test", 0.12)):
        line = study.line(name, kind, 0.95 if kind == "interval" else 0.05)
        line.n, line.hits = 1000, 1000 * share
    wrong = list(coverage.problems(study, [coverage.Recovery("off", 0.5, 0.6, 0.01)]))
    assert len(wrong) == 3
    assert "MISSED" in coverage.page(study, [], 1000)


def test_the_page_in_the_documentation_is_of_this_study(coverage, result):
    page = (PATH.parents[1] / "docs" / "coverage.md").read_text()
    study, recovered = result
    for name in [*study.lines, *(r.name for r in recovered)]:
        assert f"| {name} |" in page, name
    assert "MISSED" not in page
