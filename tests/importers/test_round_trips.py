"""Runs of foreign files after they were converted or made anonymous."""

import json
import shutil

import pytest

from phasefusion.importers import accuracy_by, import_run
from phasefusion.records import convert, export_anonymous, iter_passes
from phasefusion.report import report


@pytest.fixture
def run(write, tmp_path):
    rows = [
        {
            "video_id": f"v{i}",
            "duration": "short" if i % 2 else "long",
            "questions": [
                {
                    "question_id": f"{i}-{j}",
                    "question": "Q?",
                    "options": ["A. x", "B. y"],
                    "answer": "A",
                    "task_type": "kind",
                    "response": text,
                }
                for j, text in enumerate(["A", "B", "no idea"])
            ],
        }
        for i in range(4)
    ]
    files = [write(f"{name}.json", rows) for name in ("one", "two")]
    import_run(files, out=tmp_path / "run")
    return tmp_path / "run"


def numbers_of(folder):
    found = report(folder)
    assert str(found)
    assert found.to_markdown()
    return found.numbers


@pytest.mark.parametrize("ending", [".parquet", ".jsonl"])
def test_converted(run, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    table, back = tmp_path / f"table{ending}", tmp_path / "back"
    convert(run, table)
    back.mkdir()
    shutil.copy(run / "run.json", back)
    convert(table, back / "passes.jsonl")
    before, after = numbers_of(run), numbers_of(back)
    assert json.dumps(after["imported"]) == json.dumps(before["imported"])
    assert "duration" in before["imported"]["strata"]
    assert accuracy_by(back, "duration") == accuracy_by(run, "duration")


@pytest.mark.parametrize("hashed", [False, True])
def test_anonymous(run, tmp_path, hashed):
    out = tmp_path / "anonymous"
    renamed = export_anonymous(run, out, hash_ids=hashed).arms
    assert not any("text" in row for row in iter_passes(out))
    before, after = numbers_of(run), numbers_of(out)
    assert after["accuracy"] == {
        renamed[arm]: figures for arm, figures in before["accuracy"].items()
    }


def test_without_what_a_record_may_lack(run, tmp_path):
    """Reports need the fields alone that every record must have."""
    from phasefusion.records import rules

    out = tmp_path / "bare"
    out.mkdir()
    shutil.copy(run / "run.json", out)
    kept = [
        {name: row[name] for name in rules.REQUIRED if name in row}
        for row in iter_passes(run)
    ]
    for row, nothing in zip(kept, ("strata", "group", "type") * 9, strict=False):
        row[nothing] = None
    text = "".join(json.dumps(row) + "\n" for row in kept)
    (out / "passes.jsonl").write_text(text)
    numbers = numbers_of(out)
    assert set(numbers["imported"]["arms"]) == {"one", "two"}


def test_files_of_one_name(write, tmp_path):
    paths = []
    for folder, value in (("f1", {"q": "A"}), ("f2", [{"id": "q", "pred": "B"}])):
        (tmp_path / folder).mkdir()
        paths.append(write(f"{folder}/p.json", value))
    made = import_run(paths, out=tmp_path / "run", benchmark="b", arms=["x", "y"])
    found = [row["source"] for row in iter_passes(tmp_path / "run")]
    assert [(one["format"], one["file_index"]) for one in found] == [
        ("by-id", 0),
        ("csv", 1),
    ]
    assert made.report.files[found[1]["file_index"]]["path"] == str(paths[1])
