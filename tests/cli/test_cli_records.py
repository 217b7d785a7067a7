"""phasefusion records: what it prints, writes and exits with."""

import json

import pytest
from made_runs import made_run
from pass_files import text
from sample_passes import make_pass

from phasefusion.records import iter_passes, read_run


@pytest.fixture
def run(tmp_path):
    made_run(tmp_path / "run", n_items=3)
    return tmp_path / "run"


def test_check(call, run, tmp_path):
    code, out, err = call("records", "check", run)
    assert (code, err) == (0, "")
    n = len(list(iter_passes(run)))
    assert out == f"{n} passes: nothing found\n"
    bad = tmp_path / "bad.jsonl"
    bad.write_text(text(make_pass(1, answer=0)) + "{\n" * 5 + text(make_pass(2)))
    code, out, err = call("records", "check", run, bad, "--limit", "3")
    assert (code, err) == (1, "")
    assert f"{bad}, line 1: answer is 0, and the most probable option is 2" in out
    assert "... and 3 more; see --limit" in out
    assert "6 findings" in out
    code, out, _ = call("records", "check", bad, "--json")
    assert code == 1
    assert json.loads(out)["by_kind"] == {"answer": 1, "not JSON": 5}
    bad.write_text("{\n")
    code, out, _ = call("records", "check", bad)
    assert "1 finding in 0 passes" in " ".join(out.split())
    bad.write_text(text(make_pass(1)))
    assert call("records", "check", bad)[1] == "1 pass: nothing found\n"
    code, _, err = call("records", "check", tmp_path / "nothing")
    assert code == 2
    assert err.startswith("phasefusion: error: ")
    assert "nothing" in err


def test_convert(call, run, tmp_path):
    pytest.importorskip("pyarrow")
    code, out, err = call("records", "convert", run, tmp_path / "a.parquet")
    assert (code, err) == (0, "")
    assert str(tmp_path / "a.parquet") in out
    code, out, _ = call(
        "records", "convert", tmp_path / "a.parquet", tmp_path / "a.jsonl", "--json"
    )
    assert json.loads(out)["passes"] == len(list(iter_passes(run)))
    assert len(list(iter_passes(tmp_path / "a.jsonl"))) == json.loads(out)["passes"]
    code, _, err = call("records", "convert", run, tmp_path / "a.xlsx")
    assert code == 2
    assert "end its name in one of" in err


def test_merge(call, run, tmp_path):
    made_run(tmp_path / "again", n_items=3)
    words = ["records", "merge", run, tmp_path / "again"]
    code, out, err = call(*words, "--out", tmp_path / "one")
    assert (code, err) == (0, "")
    n = len(list(iter_passes(run)))
    assert f"{n} passes; {n} identical ones left out" in out
    assert read_run(tmp_path / "one")["merged_from"][1]["run"] == "again"
    path = tmp_path / "again" / "passes.jsonl"
    first, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps(json.loads(first) | {"text": "other"}) + "\n" + rest)
    code, out, err = call(*words, "--out", tmp_path / "two")
    assert (code, err) == (1, "")
    assert f"{path}, line 1 and {run / 'passes.jsonl'}, line 1: question 'q0'" in out
    assert "text: (absent) -> 'other'" in out
    assert "not written" in out
    assert not (tmp_path / "two").exists()
    code, out, _ = call(*words, "--out", tmp_path / "two", "--keep", "last", "--json")
    assert code == 0
    assert json.loads(out)["conflicts"] == 1
    assert [row["text"] for row in iter_passes(tmp_path / "two")].count("other") == 1
    bare = tmp_path / "bare.jsonl"
    bare.write_text((run / "passes.jsonl").read_text())
    code, out, _ = call("records", "merge", run, bare, "--out", tmp_path / "four")
    assert code == 0
    assert f"without run.json, which these do not have: {bare}" in out
    words = ["records", "merge", run, bare, "--out", tmp_path / "five", "--json"]
    code, out, _ = call(*words)
    assert json.loads(out)["without_run"] == [str(bare)]
    code, _, err = call("records", "merge", run, "--out", tmp_path / "three")
    assert code == 2
    assert "two or more" in err


def test_export(call, run, tmp_path):
    words = ["records", "export", run, "--out", tmp_path / "public"]
    code, _, err = call(*words)
    assert code == 2
    assert "--anonymous" in err
    code, _, err = call(*words, "--anonymous", "--salt", "s")
    assert code == 2
    code, out, err = call(*words, "--anonymous", "--hash-ids", "--salt", "s")
    assert (code, err) == (0, "")
    assert "left out: text, type" in out
    assert next(iter_passes(tmp_path / "public"))["question_id"] != "q0"
    code, out, _ = call(
        *["records", "export", run, "--anonymous", "--json"], "-o", tmp_path / "a.jsonl"
    )
    assert json.loads(out)["hashed"] is False


def test_describe(call, run, tmp_path):
    code, out, err = call("records", "describe", run)
    assert (code, err) == (0, "")
    assert out.startswith("# Datasheet\n")
    code, out, _ = call(
        "records", "describe", run, "--out", tmp_path / "a.md", "--json"
    )
    assert json.loads(out)["runs"][0]["items"] == 3
    assert (tmp_path / "a.md").read_text().startswith("# Datasheet")
    code, _, err = call("records", "describe", tmp_path / "nothing")
    assert code == 2


@pytest.mark.parametrize("name", ["check", "convert", "merge", "export", "describe"])
def test_every_command_shows_examples(call, name):
    code, out, _ = call("records", name, "--help")
    assert code == 0
    assert f"phasefusion records {name} " in out
