"""Runs that go on: what is made again, what is refused, and what is said."""

import json

import pytest
from pixel_scorer import PixelScorer, make_questions
from pixel_scorer import short_run as run

import phasefusion as pf
from phasefusion.errors import RecordError, RecordWarning


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
