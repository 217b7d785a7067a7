"""Shards cover a run, move for nothing, and merge into what one process makes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pass_files import passes_of
from pixel_scorer import PixelScorer, make_questions

from phasefusion.datasets import Item, load_questions
from phasefusion.engine import Shard, merge_shards
from phasefusion.engine.shards import as_shard, launched_device, launched_shard
from phasefusion.errors import RecordError, RecordWarning, UsageError
from phasefusion.evaluate import evaluate
from phasefusion.records import RunWriter, iter_passes, read_run
from phasefusion.report import report

ROOT = Path(__file__).parents[2]
OPTIONS = {"budget": 4, "dense": 10, "n_orders": 3, "progress": False}


def make_items(counts, root="/data"):
    return [
        Item(f"{v}-{q}", "b", f"{root}/x/{v}.mp4", str(v), "?", ("a", "b"))
        for v, n in enumerate(counts)
        for q in range(n)
    ]


COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=40)


@given(COUNTS, st.integers(1, 9), st.integers(1, 60))
def test_every_question_is_in_one_shard_and_every_video_too(counts, n, limit):
    items = make_items(counts)
    parts = [Shard(i + 1, n).part(items, limit) for i in range(n)]
    assert sorted(i.question_id for part in parts for i in part) == sorted(
        i.question_id for i in items[:limit]
    )
    videos = [{item.video for item in part} for part in parts]
    assert sum(map(len, videos)) == len(set.union(*videos))
    order = {item.question_id: i for i, item in enumerate(items)}
    for part in parts:
        places = [order[item.question_id] for item in part]
        assert places == sorted(places)


@given(COUNTS, st.integers(2, 5), st.integers(1, 30), st.integers(0, 30))
def test_a_larger_limit_moves_nothing(counts, n, limit, more):
    items = make_items(counts)
    for shard in (Shard(1, n), Shard(n, n)):
        small = shard.part(items, limit)
        large = shard.part(items, limit + more)
        assert large[: len(small)] == small


@given(COUNTS, st.integers(1, 6))
def test_shards_are_even_and_the_same_on_every_machine(counts, n):
    here = [Shard(i, n).part(make_items(counts)) for i in range(1, n + 1)]
    there = [Shard(i, n).part(make_items(counts, "/mnt/x")) for i in range(1, n + 1)]
    ids = [[item.question_id for item in part] for part in here]
    assert ids == [[item.question_id for item in part] for part in there]
    sizes = [len(part) for part in here]
    assert max(sizes) - min(sizes) <= max(counts)


def test_videos_are_split_by_their_place_not_only_their_name():
    items = [
        Item(str(i), "b", f"/data/{i}/video.mp4", str(i), "?", ("a", "b"))
        for i in range(8)
    ]
    assert [len(Shard(i, 4).part(items)) for i in (1, 2, 3, 4)] == [2, 2, 2, 2]


def test_the_split_stays_what_it_is():
    """A run that was begun in shards must be able to go on after an update."""
    items = make_items([1] * 12)
    found = [[i.video_id for i in Shard(s, 3).part(items)] for s in (1, 2, 3)]
    assert found == SPLIT


SPLIT = [["0", "5", "7", "9"], ["1", "6", "8", "11"], ["2", "3", "4", "10"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0/4", "shard 0/4: shards count from 1 to 4"),
        ("5/4", "shard 5/4: shards count from 1 to 4"),
        ("1/0", "shard 1/0: there must be one shard at least"),
        ("2 of 4", 'must be such as "2/4", or "auto"'),
        ("-1/4", 'must be such as "2/4", or "auto"'),
    ],
)
def test_what_is_no_shard(text, message):
    with pytest.raises(UsageError, match=message):
        as_shard(text)


def test_what_launchers_say():
    torchrun = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
    assert launched_shard(torchrun) == Shard(4, 8)
    assert launched_shard({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}) == Shard(1, 2)
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    assert launched_shard(mpi) == Shard(2, 2)
    with pytest.raises(UsageError, match="none of RANK and WORLD_SIZE"):
        launched_shard({"RANK": "3"})
    with pytest.raises(UsageError, match="RANK is 'x', not a number"):
        launched_shard({"RANK": "x", "WORLD_SIZE": "2"})


def test_the_device_of_a_local_rank(monkeypatch):
    torch = pytest.importorskip("torch")
    assert launched_device({}) is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert launched_device({"LOCAL_RANK": "1"}) == "cuda:1"
    assert launched_device({"SLURM_LOCALID": "0"}) == "cuda:0"
    assert launched_device({"LOCAL_RANK": "2"}) is None


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"), n_clips=4, per_clip=3)


def make_shards(questions, out, n=3, **options):
    return [
        evaluate(
            questions, PixelScorer(), out=out, shard=f"{i}/{n}", **OPTIONS | options
        ).path
        for i in range(1, n + 1)
    ]


def test_merged_shards_are_the_run_of_one_process(questions, tmp_path):
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "whole", **OPTIONS)
    folders = make_shards(questions, tmp_path / "run")
    assert [f.name for f in folders] == [f"run.shard-{i}-of-3" for i in (1, 2, 3)]
    assert read_run(folders[1])["shard"] == {"index": 2, "of": 3}
    assert merge_shards(folders[::-1], tmp_path / "run") == whole.n_passes
    assert passes_of(tmp_path / "run") == passes_of(whole.path)
    ours, theirs = read_run(tmp_path / "run"), read_run(whole.path)
    for part in ("settings", "versions", "questions", "format"):
        assert ours[part] == theirs[part]
    assert "shard" not in ours
    assert len(ours["merged_from"]) == 3
    again = evaluate(questions, PixelScorer(), out=tmp_path / "run", **OPTIONS)
    assert again.n_new == 0


def test_shards_of_a_limit_and_a_merged_run_goes_on(questions, tmp_path):
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "whole", **OPTIONS)
    folders = make_shards(questions, tmp_path / "run", limit=7)
    with pytest.warns(RecordWarning, match="5 of 12 questions have no pass, and 0"):
        merge_shards(folders, tmp_path / "run")
    assert {key[1] for key in passes_of(tmp_path / "run")} == {
        item.question_id for item in load_questions(questions)[:7]
    }
    evaluate(questions, PixelScorer(), out=tmp_path / "run", **OPTIONS)
    assert passes_of(tmp_path / "run") == passes_of(whole.path)


def test_shards_merged_before_their_end_are_merged_again(questions, tmp_path):
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "whole", **OPTIONS)
    folders = make_shards(questions, tmp_path / "run")
    passes = folders[1] / "passes.jsonl"
    lines = passes.read_bytes().splitlines(keepends=True)
    passes.write_bytes(b"".join(lines[:-1]))  # as if it had been stopped
    with pytest.warns(RecordWarning, match=r"0 of 12 .* have no pass, and 1 has fewer"):
        merge_shards(folders, tmp_path / "run")
    evaluate(questions, PixelScorer(), out=tmp_path / "run", shard="2/3", **OPTIONS)
    assert merge_shards(folders, tmp_path / "run") == whole.n_passes
    assert passes_of(tmp_path / "run") == passes_of(whole.path)
    assert {f.name for f in tmp_path.iterdir() if f not in folders} == {"whole", "run"}


def test_a_run_keeps_what_it_has_more_than_its_shards(questions, tmp_path):
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "whole", **OPTIONS)
    folders = make_shards(questions, tmp_path / "run", limit=7)
    with pytest.warns(RecordWarning):
        merge_shards(folders, tmp_path / "run")
    evaluate(questions, PixelScorer(), out=tmp_path / "run", limit=8, **OPTIONS)
    before = passes_of(tmp_path / "run")
    with pytest.warns(RecordWarning, match="4 of 12 questions have no pass"):
        merge_shards(folders, tmp_path / "run")
    assert passes_of(tmp_path / "run") == before
    names = [one["run"] for one in read_run(tmp_path / "run")["merged_from"]]
    assert names == [*(f"run.shard-{i}-of-3" for i in (1, 2, 3)), "run"]
    evaluate(questions, PixelScorer(), out=tmp_path / "run", **OPTIONS)
    assert passes_of(tmp_path / "run") == passes_of(whole.path)


def test_another_run_is_not_replaced(questions, tmp_path):
    folders = make_shards(questions, tmp_path / "run")
    merge_shards(folders, tmp_path / "run")
    before = (tmp_path / "run" / "passes.jsonl").read_bytes()
    other = make_shards(questions, tmp_path / "b", budget=5)
    with pytest.raises(RecordError, match=r"(?s)other settings.*budget: 4 -> 5"):
        merge_shards(other, tmp_path / "run")
    with pytest.raises(RecordError, match="is one of the shards"):
        merge_shards(folders, folders[0])
    rows = [json.loads(line) for line in before.splitlines()]
    rows[0]["answer"] = 1 - rows[0]["answer"]
    changed = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "run" / "passes.jsonl").write_text(changed)
    with pytest.raises(RecordError, match=r"(?s)contradict each other.*answer: "):
        merge_shards(folders, tmp_path / "run")
    assert (tmp_path / "run" / "passes.jsonl").read_text() == changed


def test_a_run_that_is_being_written_is_not_replaced(questions, tmp_path):
    folders, out = make_shards(questions, tmp_path / "run"), tmp_path / "run"
    n_passes = merge_shards(folders, out)
    run = read_run(out)
    described = {part: run[part] for part in ("settings", "versions")}
    row = json.loads((out / "passes.jsonl").read_bytes().splitlines()[0])
    with RunWriter(out, described) as writer:
        with pytest.raises(RecordError, match=f"process {os.getpid()} is writing"):
            merge_shards(folders, out)
        writer.append([row | {"question_id": "one more"}])
    assert len(list(iter_passes(out))) == n_passes + 1


class Killed(BaseException):
    """Nothing catches it."""


@pytest.mark.parametrize("step", range(4))
def test_a_merge_that_was_killed_is_made_again(questions, tmp_path, monkeypatch, step):
    """Stopped before and after each of the files takes its place."""
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "whole", **OPTIONS)
    folders, out = make_shards(questions, tmp_path / "run"), tmp_path / "run"
    left = iter(range(step))

    def replace(source, target, *, real=os.replace):
        if Path(target).parent == out and next(left, None) is None:
            raise Killed
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # nor is it cleaned
        if step < 2:
            with pytest.raises(Killed):
                merge_shards(folders, out)
        else:
            merge_shards(folders, out)
    if step == 3:  # as a version did that wrote passes first, and in place
        (out / "run.json").unlink()
    assert merge_shards(folders, out) == whole.n_passes
    assert passes_of(out) == passes_of(whole.path)
    names = {path.name for path in out.iterdir()}
    assert names == {"passes.jsonl", "run.json", "writer.lock"}


def test_passes_of_unknown_settings_are_not_adopted(questions, tmp_path):
    folders, out = make_shards(questions, tmp_path / "run"), tmp_path / "run"
    out.mkdir()
    row = json.loads((folders[0] / "passes.jsonl").read_bytes().splitlines()[0])
    (out / "passes.jsonl").write_text(json.dumps(row | {"question_id": "x"}) + "\n")
    with pytest.raises(RecordError, match=r"holds 1 pass that no shard has, and no"):
        merge_shards(folders, out)


def test_shards_of_one_scorer_with_other_hashes(questions, tmp_path):
    folders, out = make_shards(questions, tmp_path / "run", n=2), tmp_path / "run"
    for number, folder in enumerate(folders):
        run = read_run(folder)
        run["settings"]["scorer"]["source"] = f"hash {number}"
        (folder / "run.json").write_text(json.dumps(run))
    with pytest.raises(RecordError, match=r"source: 'hash 0' -> 'hash 1'(?s:.*)--same"):
        merge_shards(folders, out)
    n_passes = merge_shards(folders, out, same_scorer=True)
    assert n_passes == sum(len(list(iter_passes(folder))) for folder in folders)
    run = read_run(out)
    assert run["settings"]["scorer"]["source"] == "hash 0"
    assert run["same_scorer"] == [
        {"run": f"run.shard-{number + 1}-of-2", "source": f"hash {number}"}
        for number in range(2)
    ]
    assert merge_shards(folders, out, same_scorer=True) == n_passes
    run["settings"]["scorer"]["class"] = "another"
    (folders[1] / "run.json").write_text(json.dumps(run | {"shard": SECOND}))
    with pytest.raises(RecordError, match=r"class: .* -> 'another'") as caught:
        merge_shards(folders, tmp_path / "other", same_scorer=True)
    assert "--same-scorer" not in str(caught.value)


SECOND = {"index": 2, "of": 2}


def test_one_shard_of_one_is_the_run(questions, tmp_path):
    run = evaluate(
        questions, PixelScorer(), out=tmp_path / "run", shard="1/1", limit=2, **OPTIONS
    )
    assert run.path == tmp_path / "run"
    assert "shard" not in read_run(run.path)


def test_what_is_not_merged(questions, tmp_path):
    a = make_shards(questions, tmp_path / "a")
    with pytest.raises(RecordError, match="1 of 3 shards are missing: 2/3; run them"):
        merge_shards([a[0], a[2]], tmp_path / "out")
    with pytest.raises(RecordError, match="is shard 1, and so is"):
        merge_shards([a[0], a[0], a[1]], tmp_path / "out")
    other = make_shards(questions, tmp_path / "b", n=2)
    with pytest.raises(RecordError, match=r"different numbers: 2 are of 3 \(.*1 is of"):
        merge_shards([*a[:2], other[1]], tmp_path / "out")
    with pytest.raises(RecordError, match="those of 2 are all there: leave the others"):
        merge_shards([a[0], *other], tmp_path / "out")
    differs = make_shards(questions, tmp_path / "c", budget=5)
    with pytest.raises(RecordError, match=r"(?s)other settings than.*budget: 4 -> 5"):
        merge_shards([*a[:2], differs[2]], tmp_path / "out")
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "w", limit=1, **OPTIONS)
    with pytest.raises(RecordError, match="is no shard of a run"):
        merge_shards([*a, whole.path], tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="no run here"):
        merge_shards([*a, tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_contradictions_of_shards_are_named(questions, tmp_path):
    folders = make_shards(questions, tmp_path / "a")
    line = json.loads((folders[0] / "passes.jsonl").read_text().splitlines()[0])
    line["answer"] = 1 - line["answer"]
    line["logprobs"].reverse()
    with open(folders[1] / "passes.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(RecordError, match=r"(?s)contradict each other.*answer"):
        merge_shards(folders, tmp_path / "out")
    assert not (tmp_path / "out" / "passes.jsonl").exists()
    assert not (tmp_path / "out").exists()
    with pytest.raises(RecordError, match="contradict"):
        merge_shards(folders, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep").exists()


def command(*words, **environ):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=os.environ | {"PYTHONPATH": path} | environ,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_launcher_runs_the_shards(questions, tmp_path):
    pytest.importorskip("torch.distributed.run", reason="torchrun is part of torch")
    out = tmp_path / "run"
    run = ["-m", "phasefusion", "run", questions, "--scorer", "pixel_scorer:make"]
    run += ["--budget", "4", "--dense", "10", "--n-orders", "3", "--quiet", "-o", out]
    done = command(
        "-m", "torch.distributed.run", "--nproc-per-node", "2", *run, "--shard", "auto"
    )
    assert done.returncode == 0, done.stderr
    shards = sorted(tmp_path.glob("run.shard-*"))
    assert [path.name[-6:] for path in shards] == ["1-of-2", "2-of-2"]
    assert f"when all shards are: phasefusion merge {out}.shard-*" in done.stdout
    done = command("-m", "phasefusion", "merge", *shards, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "whole", **OPTIONS)
    assert json.loads(done.stdout)["passes"] == whole.n_passes
    assert passes_of(out) == passes_of(whole.path)
    # The order of lines moves the last bit of sums, which no reader sees.
    assert report(out).to_markdown() == report(whole.path).to_markdown()
    done = command(*run, "--shard", "auto")
    assert done.returncode == 2
    assert "shard auto: none of RANK and WORLD_SIZE" in done.stderr
    done = command("-m", "phasefusion", "merge", shards[0], "--out", tmp_path / "x")
    assert done.returncode == 2
    assert "1 of 2 shards are missing: 2/2" in done.stderr
