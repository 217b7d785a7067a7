"""Listing protocols, and the cost of one before it starts."""

import json

import pytest

from phasefusion.protocols import names


def test_protocols_are_listed_with_figure_and_cost(call):
    code, out, _ = call("protocols", columns=200)
    assert code == 0
    for name in names():
        assert name in out
    code, out, _ = call("protocols", "--options", 5, "--json")
    listed = {one["protocol"]: one for one in json.loads(out)}
    assert list(listed) == list(names())
    assert listed["quick"]["passes"] == 1
    assert listed["permutations"]["passes"] == 120
    assert listed["phase-sweep"]["passes"] == 13 * 10
    # 8 and 16 frames for all, 32 for 3/16 of them
    assert listed["margin"]["attention_units"] == 64 + 256 + 3 / 16 * 1024


def test_dry_run_prints_the_cost_and_scores_nothing(call, scored, folder, tmp_path):
    words = ["run", "questions.jsonl", "--protocol", "budget-sweep"]
    words += ["--values", "2,4", "--budget", 4, "--n-orders", 3]
    code, out, _ = call(*words, "--dry-run")
    assert code == 0
    assert "phase flips by frames a pass" in out
    assert "2 frames" in out
    assert not (folder / "runs").exists()
    code, out, _ = call(*words, "--dry-run", "--json")
    cost = json.loads(out)["cost"]
    code, out, _ = scored(*words[2:], "--out", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["items"]["passes"] == cost["passes"]


def test_dry_run_with_frames_that_the_clip_decides(call):
    words = ["run", "questions.jsonl", "--protocol", "sampler-sweep", "--dry-run"]
    code, out, _ = call(*words, "--values", "left,vlmeval-fps")
    assert code == 0
    assert "by clip" in out
    assert "at least" in out


def test_values_that_cannot_be(call):
    words = ["run", "questions.jsonl", "--dry-run", "--protocol"]
    code, _, err = call(*words, "sampler-sweep", "--values", "best")
    assert code == 2
    assert "there is no sampler 'best'" in err
    code, _, err = call(*words, "quick", "--values", "4")
    assert code == 2
    assert "varies nothing" in err


def test_the_scorers_own_settings_are_for_models(scored):
    for option, value in (
        ("--path", "generate"),
        ("--constrain", "letters"),
        ("--prior", "blind"),
    ):
        code, _, err = scored(option, value)
        assert code == 2
        assert f"{option} can be given with --model only" in err


def test_the_anchored_protocol(call, scored, tmp_path):
    words = ["--protocol", "anchored", "--anchor", "motion", "--window", "0.9"]
    code, out, _ = call("run", "questions.jsonl", *words, "--dry-run", "--json")
    assert code == 0
    planned = json.loads(out)
    assert planned["arms"][1]["anchor"]["methods"] == ["motion", "centre"]
    code, out, _ = scored(*words, "--out", tmp_path / "run", "--json")
    assert code == 0
    made = json.loads(out)
    assert made["anchors"]["windows"]
    for one in made["anchors"]["windows"]:
        assert one["kind"] in ("vectors", "flow", "centre")
    again = call("report", tmp_path / "run", "--against", tmp_path / "run")[1]
    assert "Changed against the other run" in again
    assert call("report", tmp_path / "run", "--against", tmp_path / "no")[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--phrase", "look"], "--phrase can be given with --protocol anchored only"),
        (["--protocol", "anchored", "--at", "soon"], "times_s='soon' must be seconds"),
        (["--protocol", "anchored", "--window", "7"], "must be in (0, 1]"),
        (["--protocol", "anchored", "--at-of", "no"], "no question has a field 'no'"),
        (
            ["--protocol", "anchored", "--anchor", "motion", "--phrase", "look"],
            "'subtitle' is not among methods",
        ),
    ],
)
def test_anchors_that_cannot_be(call, words, message):
    code, _, err = call("run", "questions.jsonl", "--dry-run", *words, columns=300)
    assert code == 2
    assert message in " ".join(err.split())
