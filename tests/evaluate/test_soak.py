"""The soak holds in small, and can tell when something does not."""

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pixel_scorer import PixelScorer

from phasefusion.evaluate import evaluate

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("_soak_load")


def test_a_quick_soak_holds():
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--quick"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.count("  holds\n") == 9
    assert made.stdout.endswith("9 tried, 0 failed\n")


def test_a_table_is_of_all_parts_and_has_its_place_before_work_begins(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- soak -->\nas it was\n<!-- end of soak -->\n")
    for words, said in (
        (["--write", str(page), "--quick"], "give --write without --quick"),
        (["--write", str(page), "--parts", "clocks"], "give --write without --quick"),
        (["--write", str(tmp_path / "none.md")], "No such file"),
        (["--write", str(BENCHMARKS / "soak.py")], "the marks <!-- soak --> and"),
    ):
        command = [sys.executable, str(BENCHMARKS / "soak.py"), *words]
        made = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert made.returncode
        assert said in made.stderr
    assert "as it was" in page.read_text()


def samples(*mib, files=4):
    return [
        {"bytes": one * 2**20, "files": files, "items": k, "passes": 10 * k}
        for k, one in enumerate(mib, 1)
    ]


def test_memory_that_grows_is_seen(load):
    assert load._memory({"samples": samples(90, 100, 101, 102, 101)}).ok
    assert not load._memory({"samples": samples(90, 100, 110, 120, 100)}).ok


@pytest.mark.parametrize("name", ["files", "threads", "part"])
def test_what_is_left_behind_is_seen(name, load):
    before = {"files": 4, "threads": 1, "bytes": 0}
    watched = {"before": before, "after": dict(before), "samples": samples(90)}
    assert load._leavings(watched, ["passes.jsonl", "run.json", "writer.lock"]).ok
    if name == "part":
        assert not load._leavings(watched, ["a.part"]).ok
    else:
        watched["after"][name] += 1
        assert not load._leavings(watched, []).ok


def test_a_wrong_record_is_seen(load, tmp_path):
    videos = importlib.import_module("_soak_videos")
    kinds = {
        kind: [path]
        for kind, (path, *_) in videos.make_kinds(tmp_path / "kinds", 1).items()
        if kind.name in ("as shipped", "text", "cut in half")
    }
    questions = tmp_path / "questions.jsonl"
    expected = videos.write_questions(questions, kinds, 6)
    out = tmp_path / "run"
    with pytest.warns(Warning, match="the file is damaged"):
        evaluate(questions, PixelScorer(), out=out, protocol="quick", progress=False)
    assert load._scored(out, expected).ok
    assert not load._scored(out, expected | {"q9": expected["q0"]}).ok
    path = out / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for k, change in enumerate(
        [{"answer": None, "invalid": "x"}, {"invalid": "x"}, {"video_problem": None}]
    ):
        wrong = [dict(row) for row in rows]
        by_kind = {expected[row["question_id"]].name: row for row in wrong}
        by_kind[("as shipped", "text", "cut in half")[k]].update(change)
        copy = tmp_path / f"copy{k}"
        shutil.copytree(out, copy)
        (copy / path.name).write_text("".join(json.dumps(r) + "\n" for r in wrong))
        assert not load._scored(copy, expected).ok, change
