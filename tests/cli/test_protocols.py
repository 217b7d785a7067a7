"""Listing protocols, and the cost of one before it starts."""

import json
import shutil

import pytest

from phasefusion import tinyvlm
from phasefusion.protocols import names
from phasefusion.records import read_run


def test_protocols_are_listed_with_figure_and_cost(call):
    code, out, _ = call("protocols", columns=200)
    assert code == 0
    for name in names():
        assert name in out
    code, out, _ = call("protocols", "--n-options", 5, "--json")
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


@pytest.mark.parametrize("score", ["letter", "text"])
def test_dry_run_knows_whether_options_are_shown(
    call, folder, tmp_path, monkeypatch, score
):
    """Texts are asked for without options, and so in one order."""
    pytest.importorskip("transformers")
    words = ["run", "questions.jsonl", "--score", score, "--protocol", "stableeval"]
    words += ["--phases", 3, "--budget", 2, "--limit", 2]
    words += ["--model", tinyvlm.model_dir(), "--device", "cpu"]
    code, out, _ = call(*words, "--dry-run", "--json")
    assert code == 0
    plan = json.loads(out)
    assert (plan["orders"]["kind"] == "identity") == (score == "text")
    code, out, _ = call(*words, "--out", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["items"]["passes"] == plan["cost"]["passes"]
    made = read_run(tmp_path / "run")["settings"]
    assert (made["orders"], made["arms"]) == (plan["orders"], plan["arms"])


def test_dry_run_of_a_shard_is_its_cost(call, scored, tmp_path):
    words = ["run", "questions.jsonl", "--protocol", "quick", "--dry-run"]
    whole = json.loads(call(*words, "--json")[1])["cost"]
    costs = []
    for index in (1, 2):
        shard = ("--shard", f"{index}/2")
        found = json.loads(call(*words, *shard, "--json")[1])
        assert found["shard"] == {"index": index, "of": 2}
        costs.append(found["cost"])
        out = tmp_path / "run"
        code, text, _ = scored(*words[2:4], *shard, "--out", out, "--json")
        assert code == 0
        assert json.loads(text)["passes"] == found["cost"]["passes"]
    assert sum(cost["passes"] for cost in costs) == whole["passes"]
    assert all(0 < cost["questions"] < whole["questions"] for cost in costs)
    _, text, _ = call(*words, "--shard", "2/2", columns=200)
    assert "shard 2/2 of the questions" in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shard", "5/4"), "shards count from 1 to 4"),
        (("--shard", "half"), "--shard must be such as"),
        (("--shard", "1/2", "--protocol", "margin"), "which no shard knows"),
        (("--workers", "2"), "--workers goes with --engine ray"),
        (("--threads", "0"), "--threads 0 must be"),
        (("--scorer", "a:b", "--device", "cpu"), "with --model only"),
        (("--scorer", "a:b", "--model", "m"), "either --model or --scorer"),
        (("--protocol", "pride", "--path", "generate"), "needs posteriors"),
        (("--protocol", "quick", "--phases", "3"), "--phases 3 has no effect"),
        (("--orders", "all", "--n-orders", "3"), "--n-orders 3 has no effect"),
    ],
)
def test_dry_run_refuses_what_a_run_does(call, words, message):
    code, out, err = call("run", "questions.jsonl", "--dry-run", *words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", "").split())


def test_options_that_a_protocol_does_not_heed_are_said(call):
    words = ["run", "questions.jsonl", "--dry-run", "--protocol", "quick"]
    code, _, err = call(*words, "--dense", 3, "--n-orders", 2, columns=200)
    assert code == 0
    assert "--dense 3 has no effect: protocol 'quick' has no dense pass" in err
    assert "--n-orders 2 has no effect: it counts shared orders" in err
    assert call(*words)[2] == ""


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
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    again = call("report", tmp_path / "run", "--against", tmp_path / "copy")[1]
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
