"""Runs of generated answers: outcomes, votes in place of fusion, answers told again."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from pixel_scorer import make_questions
from protocol_truth import write_questions

import phasefusion as pf
from phasefusion import _passes
from phasefusion.answers import ParsedAnswer
from phasefusion.datasets import load_questions
from phasefusion.errors import OptionWarning, RecordError, ScoringError
from phasefusion.evaluate import evaluate
from phasefusion.records import check, iter_passes
from phasefusion.reparse import reparse
from phasefusion.scoring import GeneratedAnswers

#: What extractors in use make an answer of, and what a text says: content index as
#: shown in the given order, or the outcome.
TRAPS = [
    ("Cannot determine.", "refused"),
    ("A man walks past, so the answer is C", 2),
    ("A and B", "unparsed"),
    ("It is a dog", "unparsed"),
    ("The correct answer is (B).", 1),
    ("Based on the video, the answer is C.", 2),
    ("E. all of the above", "invalid"),
    ("C. A pretty girl", 2),
    ("It is not A. It is B", 1),
    ("D because A, B and C are wrong", 3),
    ("I'm sorry, I cannot see the video.", "refused"),
    ("<think>It could be A", "unparsed"),
    ("text 2 of 0", 2),
    (" B", 1),
]


class Writes:
    """Returns texts by ``rule(question, order, s)``."""

    is_generating = True

    def __init__(self, rule):
        self.rule = rule

    def describe(self):
        return {"model": "writes"}

    def score(self, clip, question, options, *, orders=None):
        return GeneratedAnswers(
            [
                [self.rule(question, tuple(order), s) for order in np.asarray(orders)]
                for s in range(len(clip.frames))
            ]
        )


def run(questions, out, scorer, **options):
    options = {"budget": 2, "progress": False, "protocol": "quick"} | options
    return evaluate(questions, scorer, out=out, **options)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = write_questions(tmp_path_factory.mktemp("clips"), 1)
    row = json.loads(path.read_text())
    rows = [row | {"question_id": f"q{i}", "question": str(i)} for i in range(14)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_traps_are_told_apart_and_never_guessed(questions, tmp_path):
    made = run(questions, tmp_path, Writes(lambda q, order, s: TRAPS[int(q)][0]))
    passes = {p["question_id"]: p for p in iter_passes(tmp_path)}
    for i, (text, said) in enumerate(TRAPS):
        p = passes[f"q{i}"]
        assert (p["path"], p["text"]) == ("generate", text)
        assert (p["logprobs"], p["option_mass"]) == (None, None)
        if isinstance(said, int):
            assert (p["answer"], p["outcome"], p["invalid"]) == (said, "parsed", None)
        else:
            assert (p["answer"], p["outcome"]) == (None, said), text
            assert p["invalid"].startswith(f"{said}: ")
    counts = made.report().numbers["generated"]["single"]
    wanted = [said if isinstance(said, str) else "parsed" for _, said in TRAPS]
    for outcome in ("parsed", "invalid", "refused", "unparsed", "missing"):
        assert counts[outcome] == wanted.count(outcome)
    assert counts["right"] == 0  # gold is option 0 in all of them
    assert check(tmp_path).is_right


def test_answers_are_content_in_every_order(questions, tmp_path):
    """Always the letter B: the content that stands second, another in each order."""
    run(questions, tmp_path, Writes(lambda q, order, s: "B"), orders="all", limit=2)
    passes = list(iter_passes(tmp_path))
    assert len(passes) == 48
    assert all(p["answer"] == p["order"][1] for p in passes)


def test_without_posteriors_phases_vote(questions, tmp_path):
    """Two phases say the text of option 1, one that of option 2; no fusion."""

    def rule(q, order, s):
        return f"text {(1, 1, 2)[s]} of 0"

    made = run(
        questions, tmp_path, Writes(rule), protocol="phasefusion", dense=5, n_orders=3
    )
    numbers = made.report().numbers
    assert "fusion" not in numbers["accuracy"]
    assert numbers["accuracy"]["vote"]["consensus"]["n"] == 14
    table = made.report()
    assert "No fusion: generated answers have no posteriors" in str(table)
    assert "Vote against the other arms" in table.to_markdown()
    assert numbers["phase_flips"]["consensus"]["any"]["value"] == 1
    assert numbers["phase_flips"]["consensus"]["pairwise"]["value"] == pytest.approx(
        2 / 3
    )
    for arm in ("single", "vote", "union", "dense"):
        assert numbers["accuracy"][arm]["consensus"]["value"] == 0


def test_the_vote_is_right_where_two_phases_are(tmp_path):
    path = write_questions(tmp_path, 8)

    def rule(q, order, s):
        right = int(q) % 4
        said = right if (s != 1 or int(q) < 4) and int(q) != 7 else (right + 1) % 4
        return "ABCD"[order.index(said)]

    made = run(path, tmp_path / "run", Writes(rule), protocol="stableeval")
    accuracy = made.report().numbers["accuracy"]
    assert accuracy["vote"]["consensus"]["value"] == 7 / 8
    assert accuracy["phase 1"]["consensus"]["value"] == 4 / 8
    (row,) = [
        row
        for row in made.report().numbers["comparisons"]
        if row["against"] == "single"
    ]
    assert (row["arm"], row["consensus"]["only_arm"]) == ("vote", 3)


@pytest.mark.filterwarnings("ignore::phasefusion.errors.NoAnswerWarning")
def test_a_text_that_is_not_there_is_a_missing_pass(questions, tmp_path):
    class Nothing(Writes):
        def score(self, clip, question, options, *, orders=None):
            return GeneratedAnswers([[None]], notes=("the logits hold NaN",))

    run(questions, tmp_path, Nothing(None), limit=1)
    (row,) = iter_passes(tmp_path)
    assert row["invalid"] == "no text; the logits hold NaN"
    assert row["path"] == "generate"
    with pytest.raises(ScoringError, match=r"order \[0, 1, 2, 3\]: no text; the log"):
        run(questions, tmp_path / "b", Nothing(None), limit=1, on_error="raise")


def test_texts_of_another_shape_are_refused(questions, tmp_path):
    class Wrong(Writes):
        def score(self, clip, question, options, *, orders=None):
            return GeneratedAnswers([["A", "B"]])

    message = r"texts of shape \(1, 2\); it must be \(phases, orders\) = \(1, 1\)"
    with pytest.raises(ScoringError, match=message):
        run(questions, tmp_path, Wrong(None))


@pytest.mark.filterwarnings("ignore::phasefusion.errors.NoAnswerWarning")
def test_an_outcome_is_no_error(questions, tmp_path):
    scorer = Writes(lambda q, order, s: "no idea")
    made = run(questions, tmp_path, scorer, on_error="raise", limit=2)
    assert made.n_passes == 2


def test_repeated_options_are_one_answer(tmp_path):
    path = make_questions(tmp_path, n_clips=1, per_clip=1)
    row = json.loads(path.read_text()) | {"options": ["x", "y", "x"], "answer": 2}
    path.write_text(json.dumps(row))
    with pytest.warns(OptionWarning):
        run(path, tmp_path / "run", Writes(lambda q, order, s: "C"))
    (p,) = iter_passes(tmp_path / "run")
    assert (p["answer"], p["gold"]) == (0, 0)


# -- telling answers again ----------------------------------------------------


@pytest.fixture
def told_badly(questions, tmp_path, monkeypatch):
    """A run whose answers were told by an extractor that takes the first capital."""

    def first_capital(text, options):
        found = [c for c in text if c in "ABCD"]
        if not found:
            return ParsedAnswer(None, "unparsed", reason="none")
        return ParsedAnswer("ABCD".index(found[0]), "parsed", "capital")

    with monkeypatch.context() as patch:
        patch.setattr(_passes, "parse_answer", first_capital)
        run(questions, tmp_path, Writes(lambda q, order, s: TRAPS[int(q)][0]))
    return tmp_path


def test_answers_are_told_again_from_the_texts(told_badly, questions, tmp_path):
    path = told_badly / "passes.jsonl"
    rows = [json.loads(line) | {"kept": 1} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fresh = run(
        questions, tmp_path / "fresh", Writes(lambda q, order, s: TRAPS[int(q)][0])
    )
    made = reparse(told_badly)
    assert (made.passes, made.generated, made.skipped) == (14, 14, {})
    assert made.changed == sum(made.moves.values()) > 5
    assert made.moves["option 2 -> refused"] == 1  # "Cannot determine." said C
    again = list(iter_passes(told_badly))
    assert [p.pop("kept") for p in again] == [1] * 14
    timeless = {"seconds": 0, "decode_seconds": 0}
    untimed = [p | timeless for p in again]
    assert untimed == [p | timeless for p in iter_passes(fresh.path)]
    before = path.read_bytes()
    assert reparse(told_badly).changed == 0
    assert path.read_bytes() == before


def test_questions_that_changed_are_left_alone(told_badly, questions, tmp_path):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[0]["options"][0] = "another text"
    rows[1]["options"] = rows[1]["options"][:3]
    (tmp_path / "clip0.mp4").write_bytes((questions.parent / "clip0.mp4").read_bytes())
    other = tmp_path / "other.jsonl"
    rows = [row | {"benchmark": "questions"} for row in rows[:-1]]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = reparse(told_badly, other)
    assert made.skipped == {
        "no such question": 1,
        "the question has changed since": 2,
    }


def test_another_number_of_options_is_left_alone(told_badly, questions):
    path = told_badly / "run.json"
    described = json.loads(path.read_text())
    described["questions"]["items"] = {}
    path.write_text(json.dumps(described))
    items = load_questions(questions)
    fewer = [replace(item, options=item.options[:3], gold=None) for item in items]
    assert reparse(told_badly, fewer).skipped == {
        "the question has another number of options": 14
    }


def test_questions_are_found_from_any_directory(questions, tmp_path, monkeypatch):
    folder = shutil.copytree(questions.parent, tmp_path / "asked")
    monkeypatch.chdir(folder)
    run(questions.name, tmp_path / "run", Writes(lambda q, order, s: "A"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert reparse(tmp_path / "run").generated == 14
    (folder / questions.name).unlink()
    with pytest.raises(RecordError, match=r"cannot be read .* --questions FILE"):
        reparse(tmp_path / "run")


def test_runs_that_cannot_be_told_again(questions, tmp_path):
    scorer = Writes(lambda q, order, s: "A")
    run(load_questions(questions)[:1], tmp_path / "items", scorer)
    with pytest.raises(RecordError, match="names no question file"):
        reparse(tmp_path / "items")
    assert reparse(tmp_path / "items", questions).generated == 1
    with pytest.raises(FileNotFoundError):
        reparse(tmp_path / "nowhere")


def test_the_command(told_badly, questions, tmp_path, capsys, monkeypatch):
    import sys

    from phasefusion.cli import main

    words = ["phasefusion", "records", "reparse", str(told_badly)]
    monkeypatch.setattr(sys, "argv", [*words, "--json"])
    main()
    found = json.loads(capsys.readouterr().out)
    assert found["generated"] == 14
    monkeypatch.setattr(sys, "argv", words)
    main()
    assert "14 of 14 passes have a text; 0 answers" in capsys.readouterr().out
    path = told_badly / "passes.jsonl"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    main()
    assert "1 of 1 pass has a text; 0 answers are" in capsys.readouterr().out


def test_the_report_counts_what_the_file_says(told_badly):
    reparse(told_badly)
    counts = pf.report(told_badly).numbers["generated"]["single"]
    assert counts["parsed"] == sum(isinstance(said, int) for _, said in TRAPS)
