"""One cause for every item that two runs do not have alike."""

import csv
import json

import pytest
from compare_runs import answer, write_run

from phasefusion.compare import CAUSES, MEANING, compare
from phasefusion.errors import RecordError


def only_item(tmp_path, a, b, hashes=None):
    """Compare two passes of one question; the item that differs, or None."""
    runs = [
        write_run(
            tmp_path / name,
            [answer("other", 0), *passes],
            hashes=hashes and {"quiz": {"q": hashes[side]}},
        )
        for side, (name, passes) in enumerate((("a", a), ("b", b)))
    ]
    items = compare(*runs).items
    assert len(items) <= 1
    return items[0] if items else None


def test_nothing_differs(tmp_path):
    assert (
        only_item(tmp_path, [answer("q", 2)], [answer("q", 2, text="(C) so")]) is None
    )


def test_the_model_changed_its_mind(tmp_path):
    frames = {"frame_indices": [3, 9, 15]}
    item = only_item(tmp_path, [answer("q", 2, **frames)], [answer("q", 0, **frames)])
    assert (item.cause, item.detail) == ("answer", "same frames and orders")
    assert (item.answer_a, item.answer_b) == (2, 0)
    assert (item.text_a, item.text_b) == ("C.", "A.")
    assert (item.correct_a, item.correct_b) == (False, True)


def test_frames_that_were_not_recorded(tmp_path):
    item = only_item(tmp_path, [answer("q", 2, frame_indices=[3])], [answer("q", 0)])
    assert item.cause == "answer"
    assert item.detail == "frames are not recorded in B"
    # nothing beside it says that the evidence was the same
    assert "same" not in MEANING[item.cause]


def test_other_frames(tmp_path):
    item = only_item(
        tmp_path,
        [answer("q", 2, frame_indices=[3, 9, 15, 20, 25, 30])],
        [answer("q", 0, frame_indices=[3, 10])],
    )
    assert item.cause == "frames"
    assert item.detail == "5 only in A: 9, 15, 20, 25, ...; 1 only in B: 10"


def test_another_number_of_frames(tmp_path):
    item = only_item(tmp_path, [answer("q", 2, budget=16)], [answer("q", 0, budget=32)])
    assert (item.cause, item.detail) == ("frames", "16 and 32 frames a pass")
    unknown = answer("q", 0, frame_indices=[1])
    item = only_item(tmp_path / "unknown", [answer("q", 2)], [unknown | {"budget": 8}])
    assert item.cause == "answer"


def test_other_orders(tmp_path):
    item = only_item(
        tmp_path,
        [answer("q", 2, frame_indices=[3])],
        [answer("q", 0, frame_indices=[4], order=[1, 0, 2, 3])],
    )
    assert item.cause == "options"
    assert item.detail == "order [0, 1, 2, 3] and [1, 0, 2, 3]"
    # content, not letters: both say B, and mean other options
    item = only_item(
        tmp_path / "letters",
        [answer("q", 1)],
        [answer("q", 0, order=[1, 0, 2, 3])],
    )
    assert item.text_a == item.text_b == "B."
    assert item.cause == "options"


def test_another_question_under_the_id(tmp_path):
    item = only_item(tmp_path, [answer("q", 2)], [answer("q", 0)], ["12ab", "34cd"])
    assert item.cause == "options"
    assert "another question under this id" in item.detail
    same = only_item(
        tmp_path / "same", [answer("q", 2)], [answer("q", 0)], ["12ab", "12ab"]
    )
    assert same.cause == "answer"


def test_another_number_of_options(tmp_path):
    item = only_item(tmp_path, [answer("q", 2)], [answer("q", 2, order=[0, 1, 2])])
    assert (item.cause, item.detail) == ("options", "4 and 3 options")


def test_another_gold(tmp_path):
    item = only_item(tmp_path, [answer("q", 2)], [answer("q", 2, gold=1)])
    assert (item.cause, item.detail) == ("gold", "0 and 1")
    assert (item.gold_a, item.gold_b) == (0, 1)
    assert item.correct_a is item.correct_b is None


def test_a_text_without_an_option(tmp_path):
    item = only_item(
        tmp_path,
        [answer("q", None, text="I cannot see the video.")],
        [answer("q", 0, frame_indices=[1])],
    )
    assert (item.cause, item.detail) == ("parse", "A: unparsed: names no option")
    assert item.text_a == "I cannot see the video."
    assert (item.answer_a, item.correct_a, item.correct_b) == (None, False, True)


def test_a_text_that_is_read_differently(tmp_path):
    item = only_item(
        tmp_path,
        [answer("q", 1, text="A or B")],
        [answer("q", 0, text="A or B")],
    )
    assert item.cause == "parse"
    assert item.detail == "the same text is read as different options"


def test_two_texts_without_an_option_are_alike(tmp_path):
    both = [answer("q", None, text="none"), answer("q", None, text="neither")]
    assert only_item(tmp_path, both[:1], both[1:]) is None


def test_two_texts_without_an_option_are_not_the_same_wrong_answer(tmp_path):
    texts = [answer("none", None, text="none"), answer("one", None, text="none")]
    wrong = [answer("same", 1), answer("different", 1)]
    a = write_run(tmp_path / "a", [*texts, *wrong])
    b = write_run(
        tmp_path / "b",
        [texts[0], answer("one", 1), answer("same", 1), answer("different", 2)],
    )
    outcome = compare(a, b).outcome
    assert outcome.n == 4
    assert (outcome.neither_same, outcome.neither_different) == (1, 1)
    assert outcome.neither_unknown == 2
    assert "both wrong, not both answered" in compare(a, b).to_markdown()


def test_a_pass_that_could_not_be_made(tmp_path):
    lost = answer("q", None, path="logit", text=None, invalid="video: does not open")
    item = only_item(tmp_path, [answer("q", 0)], [lost])
    assert (item.cause, item.detail) == ("missing", "B: video: does not open")
    assert item.correct_a is True
    assert item.correct_b is None
    made = compare(tmp_path / "a", tmp_path / "b")
    assert [(p.reason, p.items) for p in made.left_out] == [
        ("no pass in B", (("quiz", "q"),))
    ]
    assert made.b.n_missing == 1
    assert only_item(tmp_path / "both", [lost], [lost]) is None
    made = compare(tmp_path / "both" / "a", tmp_path / "both" / "b")
    assert made.left_out[0].reason == "no pass in A and B"


def test_a_question_that_one_run_does_not_have(tmp_path):
    item = only_item(tmp_path, [answer("q", 0)], [])
    assert (item.cause, item.detail) == ("missing", "B does not have the question")
    made = compare(tmp_path / "a", tmp_path / "b")
    assert made.left_out[0].reason == "only in A"
    item = only_item(tmp_path / "swapped", [], [answer("q", 0)])
    assert item.detail == "A does not have the question"


def test_an_unfinished_run(tmp_path):
    orders = [[0, 1, 2, 3], [1, 2, 3, 0]]
    a = write_run(
        tmp_path / "a", [answer(q, 0, order=o) for q in ("q1", "q2") for o in orders]
    )
    b = write_run(
        tmp_path / "b",
        [answer("q1", 0, order=o) for o in orders] + [answer("q2", 0)],
    )
    item = compare(a, b).items[0]
    assert (item.question_id, item.cause) == ("q2", "missing")
    assert item.detail == "B: not every pass has been made yet"


def test_every_cause_is_explained():
    assert set(MEANING) == set(CAUSES)


@pytest.fixture
def many(tmp_path):
    """A pair of runs with an item of every cause."""
    frames = {"frame_indices": [1, 2]}
    a = [
        answer("gone", 0),
        answer("options", 0),
        answer("gold", 0),
        answer("parse", 0),
        answer("frames", 0, **frames),
        answer("answer", 0, **frames, video_id="clip"),
        answer("same", 0, text='a "B", or\n<b>|x'),
    ]
    b = [
        answer("options", 0, order=[0, 1]),
        answer("gold", 0, gold=3),
        answer("parse", None, text='=1+1, "so"\nwhat | <i>'),
        answer("frames", 1, frame_indices=[5]),
        answer("answer", 1, **frames),
        answer("same", 0),
        answer("new", 0),
    ]
    return (
        write_run(tmp_path / "a", a, settings={"model": "one"}),
        write_run(tmp_path / "b", b, settings={"model": "two"}),
    )


def test_counts_by_cause(many):
    made = compare(*many)
    assert made.causes == {
        "missing": 2,
        "options": 1,
        "gold": 1,
        "parse": 1,
        "frames": 1,
        "answer": 1,
    }
    assert list(made.causes) == list(CAUSES)
    assert made.settings == ("settings.model: 'one' -> 'two'",)
    assert "the gold of 1 item differs" in " ".join(made.notices)
    # neither the item of another gold nor that of other options is counted
    assert (made.differ.k, made.differ.n, made.differ.n_dropped) == (2, 3, 3)


def test_items_as_csv(many, tmp_path):
    made = compare(*many)
    path = made.write_items(tmp_path / "items.csv")
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["question_id"] for row in rows] == [
        item.question_id for item in made.items
    ]
    row = next(row for row in rows if row["cause"] == "parse")
    assert row["text_b"] == '=1+1, "so"\nwhat | <i>'
    assert (row["answer_a"], row["answer_b"]) == ("0", "")
    assert next(r for r in rows if r["cause"] == "answer")["video_id"] == "clip"
    with pytest.raises(RecordError, match="cannot be written"):
        made.write_items(tmp_path / "none" / "items.csv")


def test_all_is_in_the_json(many):
    made = compare(*many)
    found = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert found["causes"] == made.causes
    assert len(found["items"]) == len(made.items)
    assert found["outcome"]["mcnemar"]["b"] == made.outcome.only_a
    assert found["outcome"]["clustered"]["n_clusters"] == made.outcome.n
    assert found["a"]["accuracy"]["k"] == made.a.accuracy.k


def test_tables(many):
    made = compare(*many)
    text = str(made)
    assert made.outcome.n == 4
    assert "4 items compared of 6 that both runs have." in text
    for title in ("Accuracy", "Tests", "Answers", "Why items differ", "Left out"):
        assert f"\n{title}" in text
    page = made.to_markdown()
    assert "## Items that differ (7)" in page
    for line in page.splitlines():  # a table stays a table, whatever a model writes
        if line.startswith("|"):
            assert line.endswith("|")
    assert "&lt;i>" in page
    assert "<i>" not in page
    fragment = made._repr_html_()
    assert "&lt;i&gt;" in fragment
    assert "<i>" not in fragment
    assert repr(made).startswith("Comparison(single of ")
    assert "7 items differ" in repr(made)


def test_columns_of_a_table_are_even(many):
    page = compare(*many).to_markdown()
    counts = set()
    for line in page.replace("\\|", "").splitlines():
        if line.startswith("|"):
            counts.add(line.count("|"))
        elif counts:
            assert len(counts) == 1
            counts = set()
