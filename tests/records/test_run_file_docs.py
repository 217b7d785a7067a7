"""The page about records names every key that a run.json has."""

import json
import re
from pathlib import Path

import pytest
from pixel_scorer import PixelScorer, make_questions

from phasefusion.evaluate import evaluate
from phasefusion.importers import import_run
from phasefusion.records.merging import merge

PAGE = Path(__file__).parents[2] / "docs/records.md"


@pytest.fixture(scope="module")
def named():
    text = PAGE.read_text(encoding="utf-8")
    part = text.split("## run.json")[1].split("\n## ")[0]
    top, settings = part.split("| key of `settings`")
    return tuple(set(re.findall(r"`([a-z_0-9]+)`", one)) for one in (top, settings))


def check(folder, named):
    run = json.loads((folder / "run.json").read_text())
    top, settings = named
    assert set(run) <= top, set(run) - top
    assert set(run["settings"]) <= settings, set(run["settings"]) - settings
    assert set(run["questions"]) <= top
    assert set(run["settings"].get("grid") or {}) <= settings
    assert set(run["versions"]) <= top


def test_of_an_imported_run(tmp_path, named):
    table = tmp_path / "a.csv"
    table.write_text("question_id,prediction,answer\nq1,A,A\nq2,B,A\n")
    check(import_run(table, out=tmp_path / "run").path, named)


@pytest.mark.parametrize("protocol", ["quick", "stableeval"])
def test_of_own_and_merged_runs(tmp_path, named, protocol):
    questions = make_questions(tmp_path, n_clips=1, per_clip=1)
    for name in ("a", "b"):
        evaluate(
            questions,
            PixelScorer(),
            out=tmp_path / name,
            protocol=protocol,
            budget=4,
            progress=False,
        )
    check(tmp_path / "a", named)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "ab", keep="first")
    check(tmp_path / "ab", named)
