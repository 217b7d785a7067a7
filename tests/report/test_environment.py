"""What a run was made with, and what changed against another one."""

import json
import shutil

import pytest
from made_runs import made_run

from phasefusion.grid import PhaseGrid
from phasefusion.pixels import PatchSettings
from phasefusion.report import report
from phasefusion.report.card import sampling_card
from phasefusion.report.environment import environment
from phasefusion.report.sections import sections


def changed(folder, **parts):
    """Write a run of which parts of run.json are others."""
    made_run(folder, protocol="stableeval", **parts.pop("options", {}))
    run = json.loads((folder / "run.json").read_text())
    for name, value in parts.items():
        run[name] = run.get(name, {}) | value
    (folder / "run.json").write_text(json.dumps(run))
    return folder


ITEMS = {"made": {"q0": "a", "q1": "b", "q2": "c"}}
HOST = {"machine": "x86_64", "platform": "Linux-6"}


@pytest.fixture
def old(tmp_path):
    return changed(tmp_path / "old", host=HOST, questions={"items": ITEMS})


def titles(found):
    return {section.title: section for section in sections(found.numbers)}


def test_the_fingerprint_is_of_all_but_the_machine(old, tmp_path):
    run = json.loads((old / "run.json").read_text())
    one = environment(run)
    assert environment(run | {"host": {}, "command": ["x"]})["id"] == one["id"]
    for part, value in (("settings", {"seed": 7}), ("versions", {"numpy": "1"})):
        other = environment(run | {part: run[part] | value})
        assert other["id"] != one["id"]
    found = titles(report(old))["Environment"]
    assert ("fingerprint", one["id"]) in found.rows
    assert ("machine", "x86_64") in found.rows


def test_what_changed_is_listed(old, tmp_path):
    items = {"made": {"q0": "a", "q1": "B", "q3": "d"}}
    new = changed(
        tmp_path / "new",
        options={"budget": 6},
        host=HOST | {"machine": "aarch64"},
        versions={"phasefusion": "1"},
        questions={"items": items},
    )
    found = report(new, against=old)
    rows = {one["what"]: one for one in found.numbers["against"]["differences"]}
    assert rows["settings.grid.budget"]["other"] == "4"
    assert rows["settings.grid.budget"]["this"] == "6"
    assert rows["versions.phasefusion"]["this"] == "'1'"
    assert rows["host.machine"]["this"] == "'aarch64'"
    assert found.numbers["against"]["questions"] == {
        "same": 1,
        "changed": 1,
        "only_other": 1,
        "only_this": 1,
    }
    for text in (str(found), found.to_markdown()):
        assert "Changed against the other run" in text
        assert "settings.grid.budget" in text
        assert "not the same questions throughout" in " ".join(text.split())
    json.dumps(found.to_dict(), allow_nan=False)


def test_runs_that_are_the_same(old, tmp_path):
    found = report(old, against=shutil.copytree(old, tmp_path / "same"))
    shown = titles(found)
    assert shown["Changed against the other run"].rows == (("nothing", "–", "–"),)
    for row in shown["Numbers against the other run"].rows:
        assert row[-1] in ("+0.0", "–")
    assert "not the same" not in shown["Numbers against the other run"].note
    assert "against" not in report(old).numbers


def test_a_gain_of_accuracy_with_less_consistency_is_said(old, tmp_path):
    found = report(old, against=shutil.copytree(old, tmp_path / "same"))
    for one in found.numbers["against"]["measures"]:
        if one["measure"].startswith("accuracy"):
            one["other"] -= 0.1
        if one["measure"] == "FPC":
            one["other"] += 0.1
    note = titles(found)["Numbers against the other run"].note
    assert note.startswith("Accuracy rose and FPC fell")


def test_other_numbers_of_questions_are_said(old, tmp_path):
    fewer = changed(
        tmp_path / "fewer", options={"n_items": 6}, questions={"items": ITEMS}
    )
    note = titles(report(fewer, against=old))["Numbers against the other run"].note
    assert "The other run scored 14 questions, this one 6." in note


def test_videos_that_are_other_files_are_said(old, tmp_path):
    new = shutil.copytree(old, tmp_path / "same")
    for run, digit in ((old, "0"), (new, "f")):
        path = run / "passes.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            number = int(row["question_id"].removeprefix("q"))
            if number < 5 and row["phase_index"]:  # some passes of some questions
                row["video_digest"] = (digit if number < 2 else "0") * 16
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = report(new, against=old)
    assert found.numbers["against"]["videos"] == {"other": 2, "both": 5}
    shown = titles(found)
    said = "other files for 2 of 5 questions"
    assert shown["Changed against the other run"].rows == (("videos", "–", said),)
    assert said in shown["Numbers against the other run"].note
    assert said in found.to_markdown()


def test_runs_without_a_common_question_are_not_compared(old, tmp_path):
    other = changed(tmp_path / "other", questions={"items": {"else": {"q0": "a"}}})
    note = titles(report(other, against=old))["Numbers against the other run"].note
    assert note.startswith("No question is the same in both runs")
    assert "gain" not in note


def test_a_run_that_does_not_list_its_questions(old, tmp_path):
    bare = changed(tmp_path / "bare")
    found = report(bare, against=old)
    assert found.numbers["against"]["questions"] is None
    assert "does not list its questions" in str(found)


def test_the_card_says_convention_and_phases(old):
    card = report(old).numbers["card"]
    assert card["convention"] == "midpoints"
    assert card["phases_of_a_step"] == ["1/6", "1/2", "5/6"]
    assert card["frames_a_pass"] == 4
    assert "  " not in card["text"]
    assert "protocol: stableeval of phasefusion 0." in card["text"]
    assert "Model: made" in card["text"]


@pytest.mark.parametrize("size", [(56, 84), None])
def test_the_card_gives_limits_of_pixels_where_there_is_no_size(size):
    settings = {
        "grid": PhaseGrid(4, 3).to_dict(),
        "scorer": {
            "pixels": json.loads(json.dumps(PatchSettings(size=size).to_dict()))
        },
    }
    text = sampling_card({"settings": settings})["text"]
    assert ("min_pixels 100352, max_pixels 602112" in text) == (size is None)
    assert ("size [56, 84]" in text) == (size is not None)
    assert "rounding of torchvision" in text
