"""`phasefusion run --shard`, `merge` and `capacity`: words, messages, exit statuses."""

import json

import pytest
from pixel_scorer import QUICK, make_questions

from phasefusion.records import iter_passes, read_run


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"), n_clips=3, per_clip=2)


def run(call, questions, out, *words):
    scorer = ("--scorer", "pixel_scorer:make")
    return call("run", questions, *scorer, "--out", out, *QUICK, *words)


def take(run, seconds):
    """Let every pass of a run have taken `seconds` of its record."""
    path = run / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row | {"seconds": seconds(row)} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_shards_and_their_merge(call, questions, tmp_path):
    out = tmp_path / "run"
    code, text, _ = run(call, questions, out, "--shard", "1/2")
    assert code == 0
    assert "run.shard-1-of-2" in text
    assert f"phasefusion merge {out}.shard-* --out {out}" in text
    assert "accuracy" not in text, "a report is of the whole run"
    code, text, _ = run(call, questions, out, "--shard", "2/2", "--json")
    found = json.loads(text)
    assert found["shard"] == "2-of-2"
    assert found["new"] == found["passes"] > 0
    shards = [tmp_path / f"run.shard-{i}-of-2" for i in (1, 2)]
    code, _, err = call("merge", shards[0], "--out", out)
    assert (code, err) == (
        2,
        "phasefusion: error: 1 of 2 shards are missing: 2/2; run them, or give their "
        "folders\n",
    )
    described = read_run(shards[1])
    described["settings"]["scorer"]["source"] = "another"
    (shards[1] / "run.json").write_text(json.dumps(described))
    code, _, err = call("merge", *shards, "--out", out)
    assert code == 2
    assert "merge with --same-scorer" in " ".join(err.split())
    words = ("records", "merge", *shards, "--out", tmp_path / "any")
    assert call(*words)[0] == 1
    assert call(*words, "--same-scorer")[0] == 0
    assert len(read_run(tmp_path / "any")["same_scorer"]) == 2
    words = (*shards, "--out", out, "--same-scorer", "--json")
    code, text, _ = call("merge", *words)
    assert code == 0
    n_passes = sum(len(list(iter_passes(shard))) for shard in shards)
    assert json.loads(text) == {"run": str(out), "passes": n_passes, "shards": 2}
    code, text, _ = run(call, questions, out)
    assert code == 0
    assert "accuracy" in text
    assert len(list(iter_passes(out))) == n_passes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shard", "3/2"), "shard 3/2: shards count from 1 to 2"),
        (("--shard", "half"), 'shard must be such as "2/4"'),
        (("--workers", "2"), "--workers goes with --engine ray"),
        (("--shard", "1/2", "--protocol", "margin"), "which no shard knows"),
    ],
)
def test_what_cannot_be(call, questions, tmp_path, words, message):
    code, _, err = run(call, questions, tmp_path / "run", *words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_a_device_of_every_worker(call, questions, tmp_path):
    words = ("--model", "x", "--device", "cuda:1", "--engine", "ray")
    code, _, err = call("run", questions, *words, "--out", tmp_path / "run")
    assert code == 2
    assert "every worker has a device of its own" in " ".join(err.split())


def test_capacity(call, questions, tmp_path):
    run(call, questions, tmp_path / "pilot", "--limit", "4")
    take(tmp_path / "pilot", lambda row: row["budget"] / 100 + row["n_options"] / 1000)
    words = ("capacity", questions, "--like", tmp_path / "pilot")
    code, text, err = call(*words, "--workers", "1,3", "--startup", 60, "--json")
    assert (code, err) == (0, "")
    made = json.loads(text)
    assert made["n_questions"] == 6
    assert made["n_videos"] == 3
    assert made["model"]["startup_s"] == 60
    one, three = made["on"]
    assert one["wall_s"] == pytest.approx(60 + made["total_s"])
    assert one["wall_s"] > three["wall_s"] >= three["bound_s"] - 1e-9 > 60
    code, text, _ = call(*words, "--workers", "2", "--life", 24)
    assert code == 0
    assert "6 questions, 3 videos" in text
    for bad in (("--workers", "x"), ("--workers", "0"), ("--life", 0), ("--probe", 0)):
        code, _, err = call(*words, *bad)
        assert code == 2
        assert bad[0] in err
    code, _, err = call("capacity", questions, "--like", tmp_path / "nothing")
    assert code == 2
    assert "no run" in err or "nothing" in err


def test_a_pilot_of_one_pass_is_no_pilot(call, questions, tmp_path):
    words = ("--protocol", "quick", "--limit", "1")
    run(call, questions, tmp_path / "pilot", *words)
    code, text, err = call("capacity", questions, "--like", tmp_path / "pilot")
    assert code == 0
    assert "the pilot has 1 call of the scorer" in err
    text = " ".join(text.split())
    assert "(1 call, too few kinds of them to check the fit)" in text
    assert "within" not in text


def test_a_bad_fit_and_missing_videos_are_said(call, questions, tmp_path):
    run(call, questions, tmp_path / "pilot")
    # more frames take less time: no costs can meet that
    take(
        tmp_path / "pilot",
        lambda row: 8.0 ** (4 - row["budget"] / 4) / (1 + row["n_options"]),
    )
    gone = {"question_id": "x", "video": "gone.mp4", "question": "?"}
    (tmp_path / "q.json").write_text(json.dumps([gone | {"options": ["a", "b"]}]))
    words = ("capacity", tmp_path / "q.json", "--like", tmp_path / "pilot")
    code, _, err = call(*words)
    assert code == 0
    assert (
        f"1 video cannot be opened and count as if they had no frames: {tmp_path}"
        in err
    )
    assert "the pilot's own calls are missed by " in err


@pytest.mark.filterwarnings("ignore::phasefusion.errors.NoAnswerWarning")
def test_a_shard_without_an_answer_ends_with_an_error(call, tmp_path):
    questions = make_questions(tmp_path, n_clips=2, per_clip=1)
    for clip in tmp_path.glob("clip*.mp4"):
        clip.write_bytes(b"no video")
    code, text, err = run(call, questions, tmp_path / "run", "--shard", "1/2")
    assert code == 2
    assert "run.shard-1-of-2" in text
    assert "no pass of the run has an answer" in err
