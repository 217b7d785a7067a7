"""Runs that go on: what is made again, what is refused, and what is said."""

import json

import pytest
from pixel_scorer import PixelScorer, make_questions
from pixel_scorer import short_run as run

import phasefusion as pf
from phasefusion.datasets import load_questions
from phasefusion.engine import merge_shards
from phasefusion.errors import DatasetError, RecordError, RecordWarning
from phasefusion.records import (
    convert,
    export_anonymous,
    iter_passes,
    merge,
    read_run,
)
from phasefusion.records.questions import find_questions


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"))


def test_running_again_changes_nothing(questions, tmp_path):
    run(questions, tmp_path)
    files = [tmp_path / name for name in ("run.json", "passes.jsonl")]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in files]
    scorer = PixelScorer()
    made = run(questions, tmp_path, scorer, threads=2)
    assert made.n_new == 0
    assert scorer.calls == []
    assert before == [(path.read_bytes(), path.stat().st_mtime_ns) for path in files]


def test_a_larger_limit_goes_on(questions, tmp_path):
    first = run(questions, tmp_path, limit=5)
    second = run(questions, tmp_path)
    whole = run(questions, tmp_path.parent / "whole")
    assert first.n_new + second.n_new == second.n_passes == whole.n_passes
    parts, at_once = (pf.report(path).to_dict() for path in (tmp_path, whole.path))
    assert parts.pop("timing").keys() == at_once.pop("timing").keys()
    assert parts == at_once


def test_other_settings_are_refused(questions, tmp_path):
    run(questions, tmp_path, limit=1)
    for options, message in [
        ({"budget": 5}, r"grid\.budget: 4 -> 5"),
        ({"origin": "left"}, r"grid\.origin: \[1, 2\] -> \[0, 1\]"),
        ({"n_orders": 6}, r"orders\.n: 5 -> 6"),
        ({"seed": 3}, "seed: 0 -> 3"),
        ({"scorer": PixelScorer(letter=0.1)}, r"scorer\.letter: 0\.4 -> 0\.1"),
        ({"protocol": "quick"}, "protocol: 'phasefusion' -> 'quick'"),
    ]:
        with pytest.raises(RecordError, match=message):
            run(questions, tmp_path, limit=1, **options)


def refusal(questions, tmp_path, **options):
    with pytest.raises(RecordError) as caught:
        run(questions, tmp_path, limit=1, **options)
    return str(caught.value).split("\n  ")[1:]


def test_refusals_are_a_short_line_a_changed_setting(questions, tmp_path):
    run(questions, tmp_path, limit=1)
    long = PixelScorer()
    long.describe = lambda: {"model": "pixels", "prompt": {"text": "x" * 500}}
    lines = refusal(questions, tmp_path, budget=5, scorer=long)
    assert [line.split(":")[0] for line in lines] == [
        "grid.budget",
        "scorer.letter",
        "scorer.prompt.text",
    ]
    assert all(len(line) < 160 for line in lines)


def test_changed_questions_are_named(questions, tmp_path):
    run(questions, tmp_path, limit=1)
    text = questions.read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    first, last = rows[1]["question_id"], rows[-1]["question_id"]

    def changed(rows):
        questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return refusal(questions, tmp_path)

    try:
        rows[1]["question"] += " Really?"
        rows[2]["options"] = rows[2]["options"][::-1]
        assert changed(rows) == [f"questions: 2 changed, first: {first}"]
        more = [*rows[:-1], rows[-1] | {"question_id": "added", "huge": 2**70}]
        assert changed(more) == [
            f"questions: 2 changed, first: {first}; 1 gone, first: {last}; "
            "1 new, first: added"
        ]
        questions.write_text(text + "\n")  # another file with the same questions
        assert run(questions, tmp_path, limit=1).n_new == 0
        described = json.loads((tmp_path / "run.json").read_text())
        described["settings"]["questions_sha256"] = "0" * 64
        (tmp_path / "run.json").write_text(json.dumps(described))
        assert refusal(questions, tmp_path) == [
            "questions: the file was changed, its questions are the same"
        ]
        del described["questions"]["items"]  # as runs were written before
        (tmp_path / "run.json").write_text(json.dumps(described))
        (line,) = refusal(questions, tmp_path)
        old = described["settings"]["questions_sha256"][:12]
        assert line.startswith(f"questions: another file, SHA-256 {old}... -> ")
    finally:
        questions.write_text(text)


def test_partly_written_arm_is_finished_with_only_what_is_missing(questions, tmp_path):
    whole = run(questions, tmp_path / "whole", limit=4)
    lines = (whole.path / "passes.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (1, 7, 16, 33, len(lines) - 1):
        part = tmp_path / f"part{kept}"
        part.mkdir()
        (part / "run.json").write_bytes((whole.path / "run.json").read_bytes())
        (part / "passes.jsonl").write_bytes(b"".join(lines[:kept]))
        made = run(questions, part, limit=4)
        assert made.n_new == len(lines) - kept
        without_time = [
            [
                json.loads(line) | {"seconds": None, "decode_seconds": None}
                for line in (folder / "passes.jsonl").read_bytes().splitlines()
            ]
            for folder in (part, whole.path)
        ]
        assert without_time[0] == without_time[1]


def test_a_smaller_limit_than_the_run_has_is_said(questions, tmp_path):
    run(questions, tmp_path, limit=3)
    message = "limit is 1, and the run holds 3 questions already; the 2 beyond"
    with pytest.warns(RecordWarning, match=message):
        assert run(questions, tmp_path, limit=1).n_new == 0
    run(questions, tmp_path, limit=3)  # warnings are errors
    run(questions, tmp_path, limit=4)


class Stopping(PixelScorer):
    """Stops like Ctrl-C before the pass of a number."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def describe(self):
        return super().describe() | {"class": "pixel_scorer.PixelScorer"}

    def score(self, clip, question, options, *, orders=None):
        if len(self.calls) == self.after:
            raise KeyboardInterrupt
        return super().score(clip, question, options, orders=orders)


def test_an_unfinished_run_says_so(questions, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(questions, tmp_path, Stopping(5))
    made = pf.report(tmp_path)
    n = len(list(iter_passes(tmp_path)))
    whole = run(questions, tmp_path.parent / "whole-one").n_passes
    assert 0 < n < whole
    items = made.to_dict()["items"]
    assert (items["planned_passes"], items["unfinished"]) == (whole, True)
    said = f"Unfinished: {n} of {whole} passes; the same phasefusion run"
    page = made.save_html(tmp_path).read_text(encoding="utf-8")
    for text in (" ".join(str(made).split()), made.to_markdown(), page):
        assert said in text
        assert "none of them missing" not in text
    run(questions, tmp_path)
    items = pf.report(tmp_path).to_dict()["items"]
    assert (items["planned_passes"], items["unfinished"]) == (whole, False)
    assert "none of them missing" in pf.report(tmp_path).to_markdown()


def test_a_limit_is_no_unfinished_run(questions, tmp_path):
    n = run(questions, tmp_path, limit=3).n_passes
    items = pf.report(tmp_path).to_dict()["items"]
    assert (items["planned_passes"], items["unfinished"]) == (n, False)


def test_a_stage_that_is_to_come_is_unfinished(questions, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(questions, tmp_path, Stopping(2), protocol="adaptive", threshold=1.0)
    planned = json.loads((tmp_path / "run.json").read_text())["planned"]
    assert planned["stages_left"] > 0
    assert pf.report(tmp_path).to_dict()["items"]["unfinished"]
    run(questions, tmp_path, protocol="adaptive", threshold=1.0)
    assert not pf.report(tmp_path).to_dict()["items"]["unfinished"]


def test_shards_are_unfinished_together(questions, tmp_path):
    first = run(questions, tmp_path / "r", shard="1/2").path
    with pytest.raises(KeyboardInterrupt):
        run(questions, tmp_path / "r", Stopping(1), shard="2/2")
    second = tmp_path / "r.shard-2-of-2"
    with pytest.warns(RecordWarning):
        merge_shards([first, second], tmp_path / "r")
    items = pf.report(tmp_path / "r").to_dict()["items"]
    run(questions, tmp_path / "r", shard="2/2")
    n = merge_shards([first, second], tmp_path / "r")
    assert (items["planned_passes"], items["unfinished"]) == (n, True)
    assert not pf.report(tmp_path / "r").to_dict()["items"]["unfinished"]


@pytest.mark.parametrize("how", ["elsewhere", "moved together", "run moved"])
def test_a_run_finds_its_questions(tmp_path, monkeypatch, how):
    (tmp_path / "a").mkdir()
    questions = make_questions(tmp_path / "a", n_clips=1, per_clip=2)
    monkeypatch.chdir(tmp_path / "a")
    here = tmp_path / "a" / "runs" / "one"
    run(questions.name, "runs/one")
    monkeypatch.chdir("/")
    if how == "moved together":
        (tmp_path / "a").rename(tmp_path / "b")
        here = tmp_path / "b" / "runs" / "one"
    if how == "run moved":
        here = here.rename(tmp_path / "run")
    page = pf.report(here).save_html(here).read_text(encoding="utf-8")
    text = load_questions(next(tmp_path.glob(f"?/{questions.name}")))[0].question
    assert text in page
    assert "cannot be read" not in page


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_question_file_is_read_once(tmp_path, monkeypatch, is_changed):
    """Also where no question fits any more, wherever the run says that it lies."""
    questions = make_questions(tmp_path, n_clips=1, per_clip=2)
    monkeypatch.chdir(tmp_path)
    here = run(questions.name, "runs/one").path
    if is_changed:
        questions.write_text(questions.read_text().replace("What", "Which"))
    read, real = [], load_questions
    monkeypatch.setattr(
        "phasefusion.datasets.load_questions",
        lambda *args, **named: read.append(args) or real(*args, **named),
    )
    found = find_questions(read_run(here), folder=here)
    assert len(read) == 1
    assert bool(found.items) is not is_changed
    assert ("others than those that were scored: 2" in found.note) is is_changed


def test_a_lost_question_file_is_missed_where_it_was(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).mkdir()
    questions = make_questions(tmp_path / "a", n_clips=1, per_clip=1)
    monkeypatch.chdir(tmp_path / "a")
    here = run(questions.name, "runs/one").path.resolve()
    monkeypatch.chdir("/")
    here = (tmp_path / "a" / "runs").rename(tmp_path / "b" / "runs") / "one"
    beside = tmp_path / "b" / questions.name
    described = read_run(here)
    away = questions.rename(tmp_path / "away.jsonl")
    note = find_questions(described, folder=here).note
    assert f"(there is no {beside} and no {questions}" in note
    beside.write_text("no questions")  # this is the one that can be mended
    with pytest.raises(DatasetError) as caught:
        load_questions(beside, check_videos=False)
    note = find_questions(described, folder=here).note
    assert " ".join(str(caught.value).split()) in note
    away.rename(questions)
    assert len(find_questions(described, folder=here).items) == 1


def test_copies_of_an_unfinished_run_are_unfinished(questions, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(questions, tmp_path / "r", Stopping(5))
    with pytest.raises(KeyboardInterrupt):
        run(questions, tmp_path / "s", Stopping(6))
    export_anonymous(tmp_path / "r", tmp_path / "anonymous")
    merge([tmp_path / "r", tmp_path / "s"], tmp_path / "merged")
    convert(tmp_path / "r", tmp_path / "bare.jsonl")  # which knows nothing
    for name in ("anonymous", "merged", "bare.jsonl"):
        text = pf.report(tmp_path / name).to_markdown()
        assert ("Unfinished: " in text) == (name != "bare.jsonl")
        assert "none of them missing" not in text
    run(questions, tmp_path / "r")
    export_anonymous(tmp_path / "r", tmp_path / "again")
    assert "none of them missing" in pf.report(tmp_path / "again").to_markdown()


def test_shards_of_two_files_are_named_by_the_run(questions, tmp_path):
    shards = [run(questions, tmp_path / "r", shard=f"{i}/2").path for i in (1, 2)]
    for shard in shards:
        rows = [row | {"video_id": "one"} for row in iter_passes(shard)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (shard / "passes.jsonl").write_text(text)
    with pytest.warns(RecordWarning, match="of two files or more") as caught:
        merge_shards(shards, tmp_path / "r")
    (said,) = {str(one.message) for one in caught}
    assert said.startswith(f"{tmp_path / 'r'}: 1 video is of two files")


def test_a_smaller_limit_leaves_an_unfinished_run_unfinished(questions, tmp_path):
    def items():
        found = pf.report(tmp_path).to_dict()["items"]
        return found["planned_passes"], found["unfinished"]

    with pytest.raises(KeyboardInterrupt):
        run(questions, tmp_path, Stopping(2))
    planned, _ = items()
    n = run(questions, tmp_path, limit=1).n_passes
    assert n < planned
    assert items() == (planned, True)
    assert run(questions, tmp_path).n_passes == planned
    assert items() == (planned, False)
