"""A run explained: which questions, which lines, going on, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil

import numpy as np
import pytest

from phasefusion import tinyvlm
from phasefusion.errors import RecordError, RecordWarning, ScoringError, UsageError
from phasefusion.evaluate import evaluate
from phasefusion.grid import PhaseGrid
from phasefusion.records import iter_passes
from phasefusion.records.saliency import SALIENCY_FILE, SaliencyWriter, read_saliency
from phasefusion.saliency import explain_run
from phasefusion.scoring import HFOptionScorer, flip_saliency
from phasefusion.video import read_clip

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LIMIT = 10
LINE = {
    "benchmark": "b",
    "question_id": "q",
    "kind": "phase",
    "method": "occlusion",
    "replace": "mean",
    "phases": [0],
    "options": [1],
    "order": [0, 1],
    "frame_indices": [[3, 9]],
    "values": [[0.5, None]],
    "base": [-0.1],
}


@pytest.fixture(scope="module")
def scorer():
    torch.set_num_threads(1)
    return HFOptionScorer.from_pretrained(
        tinyvlm.model_dir(), device="cpu", dtype="float32"
    )


@pytest.fixture(scope="module")
def made(scorer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    evaluate(
        tinyvlm.questions_path(),
        scorer,
        out=folder,
        protocol="stableeval",
        phases=3,
        limit=LIMIT,
        progress=False,
    )
    return folder


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def answers_of(run):
    """Answers by question and order, then by phase."""
    found: dict = {}
    for row in iter_passes(run):
        by_order = found.setdefault(row["question_id"], {})
        by_order.setdefault(tuple(row["order"]), []).append(row["answer"])
    return found


def shipped_questions():
    text = tinyvlm.questions_path().read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def explain(run, scorer, **options):
    return explain_run(run, scorer, progress=False, **options)


def test_questions_that_flip(run, scorer):
    flipped = {
        question_id: next(o for o, a in orders.items() if len(set(a)) > 1)
        for question_id, orders in answers_of(run).items()
        if any(len(set(answers)) > 1 for answers in orders.values())
    }
    assert 0 < len(flipped) < LIMIT
    done = explain(run, scorer)
    assert (done.n_items, done.n_lines) == (len(flipped), 4 * len(flipped))
    assert done.n_new == done.n_lines
    assert done.skipped == {}
    assert done.apart < 2e-5
    rows = read_saliency(run)
    assert {row["question_id"] for row in rows} == set(flipped)
    for row in rows:
        order = flipped[row["question_id"]]
        assert tuple(row["order"]) == order
        answers = answers_of(run)[row["question_id"]][order]
        assert row["options"] == [answers[s] for s in row["phases"]]
        assert len(set(row["options"])) == len(row["phases"])
        assert row["unit"] == "nats"
        assert row["shared_frames"] == 2


def test_lines_are_what_the_scorer_says(run, scorer):
    explain(run, scorer)
    rows = read_saliency(run)
    questions = {question["question_id"]: question for question in shipped_questions()}
    one = next(row for row in rows if row["kind"] == "phase" and row["phases"] == [2])
    flip = next(
        row
        for row in rows
        if row["kind"] == "flip" and row["question_id"] == one["question_id"]
    )
    question = questions[one["question_id"]]
    recorded = json.loads((run / "run.json").read_text())["settings"]["grid"]
    clip = read_clip(
        tinyvlm.questions_path().parent / question["video"],
        PhaseGrid.from_dict(recorded),
        size=scorer.frame_size,
    )
    asked = (question["question"], question["options"])
    found = scorer.saliency(clip, *asked, order=one["order"], option=one["options"][0])
    assert one["values"][0] == pytest.approx(found.values[2], abs=2e-5)
    assert one["base"] == pytest.approx(found.base[2:], abs=2e-5)
    assert one["frame_indices"][0] == clip.indices[2].tolist()
    found = flip_saliency(
        scorer, clip, *asked, phases=flip["phases"], order=flip["order"]
    )
    assert np.abs(np.array(flip["values"]) - found.values).max() < 2e-5
    assert flip["base"] == pytest.approx(found.log_odds, abs=2e-5)


def test_it_goes_on_where_it_was(run, scorer):
    whole = explain(run, scorer, items="all")
    assert whole.n_items == LIMIT
    path = run / SALIENCY_FILE
    text = path.read_bytes()
    again = explain(run, scorer, items="all")
    assert (again.n_new, again.n_lines) == (0, whole.n_lines)
    assert np.isnan(again.apart)
    assert path.read_bytes() == text
    lines = text.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    with pytest.warns(RecordWarning, match="cut short"):
        again = explain(run, scorer, items="all")
    assert again.n_new == whole.n_lines - 5
    assert sorted(path.read_bytes().splitlines()) == sorted(text.splitlines())


def test_methods_and_ids(run, scorer):
    ids = sorted(answers_of(run))[:2]
    n_phases = 0
    for method, replace in (
        ("occlusion", "mean"),
        ("gradient", "neighbour"),
        ("occlusion", "neighbour"),
    ):
        done = explain(run, scorer, items=ids, method=method, replace=replace)
        assert done.n_items == 2
        phases = {
            json.dumps(row) for row in read_saliency(run) if row["kind"] == "phase"
        }
        assert len(phases) - n_phases == 6  # a flip has the same line for both replaces
        n_phases = len(phases)
    rows = [row for row in read_saliency(run) if row["kind"] == "phase"]
    kinds = {(row["method"], row["replace"]) for row in rows}
    assert kinds == {
        ("occlusion", "mean"),
        ("gradient", None),
        ("occlusion", "neighbour"),
    }
    for row in rows:
        assert (row["emptied"] is None) == (row["replace"] != "mean")


def name_of(line):
    return f"{line.get('benchmark', 'questions')}/{line['question_id']}"


def test_a_video_that_is_another_one(run, scorer, tmp_path):
    lines = shipped_questions()[:LIMIT]
    clips = tinyvlm.questions_path().parent
    for line in lines:
        line["video"] = str(clips / line["video"])
    flipped = {
        question_id
        for question_id, orders in answers_of(run).items()
        if any(len(set(answers)) > 1 for answers in orders.values())
    }
    first, *others = [line for line in lines if line["question_id"] in flipped]
    first["video"] = str(tmp_path / "gone.mp4")
    longer = max(clips.glob("*.mp4"), key=lambda path: path.stat().st_size)
    questions = tmp_path / "moved.jsonl"
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    described = json.loads((run / "run.json").read_text())
    described["questions"].pop("items")  # which would know that videos are others
    (run / "run.json").write_text(json.dumps(described))
    done = explain(run, scorer, questions=questions)
    assert list(done.skipped) == [name_of(first)]
    assert "gone.mp4" in done.skipped[name_of(first)]
    assert done.n_lines == 4 * len(others)
    others[0]["video"] = str(longer)
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / SALIENCY_FILE).unlink()
    done = explain(run, scorer, questions=questions)
    assert "other frames" in done.skipped[name_of(others[0])]


def test_refused(run, scorer, tmp_path):
    with pytest.raises(UsageError, match="question 'no such'"):
        explain(run, scorer, items=["no such"])
    other = HFOptionScorer.from_pretrained(
        tinyvlm.model_dir(), device="cpu", dtype="float32", timestamps="frozen"
    )
    with pytest.raises(ScoringError, match="timestamps: 'true' -> 'frozen'"):
        explain(run, other)
    for one in (object(), Looks()):
        with pytest.raises(ScoringError, match=f"{type(one).__name__} is no HFOption"):
            explain(run, one)
    with pytest.raises(FileNotFoundError):
        explain(tmp_path / "none", scorer)
    described = json.loads((run / "run.json").read_text())
    described["settings"]["arms"] = []
    (run / "run.json").write_text(json.dumps(described))
    with pytest.raises(RecordError, match="no phases on a grid"):
        explain(run, scorer)


class Looks:
    """Has the methods' names, and nothing of what explaining needs."""

    def score(self, clip, question, options, *, orders=None): ...

    def saliency(self, *_, **__): ...


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    real, room = os.write, iter([40])

    def full(fd, data):
        size = next(room, None)
        if size is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[:size])

    with SaliencyWriter(tmp_path) as writer:
        writer.append(LINE)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(RecordError, match=r"No space .*\(1 line\) is whole"):
                writer.append(LINE | {"question_id": "second"})
        assert read_saliency(tmp_path) == [LINE]
        writer.append(LINE | {"question_id": "third"})
    assert [row["question_id"] for row in read_saliency(tmp_path)] == ["q", "third"]


def test_a_second_writer_is_refused(run):
    with SaliencyWriter(run), pytest.raises(RecordError, match="another process"):
        SaliencyWriter(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "both"}, "kind is 'both'"),
        ({"values": [[0.5]]}, "not a number or null a frame"),
        ({"values": 3}, "values is 3, not a list of 1"),
        ({"phases": ["0"]}, "not a list of integers"),
        ({"base": None}, "base is None"),
    ],
)
def test_lines_that_are_none(tmp_path, change, message):
    line = LINE
    path = tmp_path / SALIENCY_FILE
    path.write_text(json.dumps(line) + "\n")
    assert read_saliency(tmp_path) == [line]
    later = line | {"values": [[0.25, 1.0]], "options": [0]}
    path.write_text(json.dumps(line) + "\n" + json.dumps(later) + "\n")
    assert read_saliency(tmp_path) == [later]
    path.write_text(json.dumps(line) + "\n" + json.dumps(line | change) + "\n")
    with pytest.raises(RecordError, match=f"line 2: .*{message}"):
        read_saliency(tmp_path)
    path.write_text(json.dumps({"kind": "phase"}) + "\n")
    with pytest.raises(RecordError, match="line 1: has no benchmark"):
        read_saliency(tmp_path)
