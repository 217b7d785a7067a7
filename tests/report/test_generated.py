"""The table of generated answers: what came of every text, by arm."""

import json

import pytest
from made_runs import made_run

from phasefusion.report import report
from phasefusion.report.sections import sections

#: What becomes of the passes of each question, in turn.
REASONS = (None, "unparsed: two options", "refused: no", "invalid: F", "dark")


def told(folder, protocol="quick", **options):
    """A run of texts; question i has the outcome REASONS[i % 5]."""
    passes = made_run(folder, n_items=20, protocol=protocol, **options)
    for p in passes:
        q = int(p["question_id"][1:])
        reason = REASONS[q % 5]
        p |= {"logprobs": None, "path": "generate", "option_mass": None}
        p |= {"text": "some text", "invalid": reason}
        p["answer"] = None if reason else (p["gold"] or 0) if q < 10 else 0
    (folder / "passes.jsonl").write_text("".join(json.dumps(p) + "\n" for p in passes))
    return passes


def test_outcomes_are_counted(tmp_path):
    passes = told(tmp_path, no_gold=0)
    (one,) = report(tmp_path).numbers["generated"].values()
    kinds = ("parsed", "unparsed", "refused", "invalid", "missing")
    assert {kind: one[kind] for kind in kinds} == dict.fromkeys(kinds, 4)
    assert one["passes"] == 20
    scored = [p for p in passes if p["gold"] is not None]
    right = [p["answer"] == p["gold"] for p in scored]
    assert one["right"] == pytest.approx(sum(right) / 19)
    parsed = [p["answer"] is not None for p in scored]
    assert one["right_of_parsed"] == pytest.approx(sum(right) / sum(parsed))
    (section,) = [
        one
        for one in sections(report(tmp_path).numbers)
        if one.title == "Generated answers"
    ]
    assert section.rows[0][1] == "20.0"
    assert section.rows[0][-1] == "20"


def test_every_arm_has_its_own(tmp_path):
    passes = told(tmp_path, "phasefusion")
    found = report(tmp_path).numbers["generated"]
    assert list(found) == list(dict.fromkeys(p["arm"] for p in passes))
    for arm, one in found.items():
        assert one["passes"] == sum(p["arm"] == arm for p in passes)
        assert one["refused"] == one["passes"] - sum(
            p["arm"] == arm and p["invalid"] != "refused: no" for p in passes
        )


def test_scored_and_imported_passes_have_none(tmp_path):
    made_run(tmp_path / "scored", protocol="quick")
    assert report(tmp_path / "scored").numbers["generated"] is None
    told(tmp_path / "told")
    file = tmp_path / "told" / "run.json"
    run = json.loads(file.read_text())
    run["settings"]["protocol"] = "imported"
    file.write_text(json.dumps(run))
    assert report(tmp_path / "told").numbers["generated"] is None
