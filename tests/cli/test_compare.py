"""`phasefusion compare`."""

import csv
import json

import pytest
from compare_runs import answer, write_run
from made_runs import made_run

import phasefusion
from phasefusion.compare import compare


@pytest.fixture
def runs(tmp_path):
    a = write_run(tmp_path / "a", [answer(f"q{i}", i % 2) for i in range(12)])
    b = write_run(tmp_path / "b", [answer(f"q{i}", i % 3) for i in range(12)])
    return a, b


def test_tables(call, runs):
    code, out, err = call("compare", *runs, columns=120)
    assert (code, err) == (0, "")
    made = compare(*runs)
    assert "12 items compared of 12" in out
    assert f"Items that differ ({len(made.items)})" in out
    assert "equivalence within 2.50 points is not certifiable" in out


def test_json(call, runs):
    code, out, _ = call(
        "compare",
        *runs,
        "--json",
        "--margin",
        5,
        "--cluster",
        "video",
        "--answer",
        "first",
    )
    assert code == 0
    expected = compare(*runs, margin=0.05, cluster="video", answer="first")
    assert json.loads(out) == expected.to_dict()
    assert json.loads(out)["margin"] == 0.05


def test_markdown(call, runs):
    code, out, _ = call("compare", *runs, "--markdown")
    assert code == 0
    assert out == compare(*runs).to_markdown()


def test_items_are_written_as_csv(call, runs, tmp_path):
    path = tmp_path / "items.csv"
    code, out, err = call("compare", *runs, "--json", "--save-items", path)
    assert code == 0
    json.loads(out)
    assert err == f"phasefusion: written: {path}\n"
    with open(path, encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(compare(*runs).items)


def test_arms(call, tmp_path):
    made_run(tmp_path, n_items=10)
    words = ["compare", tmp_path, tmp_path, "--arm", "fused", "--against", "union"]
    code, out, _ = call(*words, "--json")
    assert code == 0
    assert json.loads(out)["b"]["arm"] == "union"
    assert json.loads(out)["a"]["arm"] == "fusion"


def test_bad_use_is_said_in_a_line(call, runs):
    code, _, err = call("compare", runs[0], "none")
    assert code == 2
    said = "none: no run here: there is no run.json; check the path"
    assert err == f"phasefusion: error: {said}\n"
    code, _, err = call("compare", *runs, "--arm", "dense")
    assert code == 2
    assert "has no arm 'dense'; it has single" in err
    code, _, err = call("compare", *runs, "--markdown", "--json")
    assert code == 2
    assert "give either --markdown or --json" in err
    code, _, err = call("compare", *runs, "--margin", 0)
    assert code == 2
    assert "--margin is 0; it is in percent" in " ".join(err.split())


def test_help_has_examples(call):
    code, out, _ = call("compare", "--help")
    assert code == 0
    assert "phasefusion compare runs/a runs/b" in out


def test_the_function_is_public():
    assert phasefusion.compare is compare
    assert phasefusion.planning.tost_items
