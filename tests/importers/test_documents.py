"""Logs that number documents, joined with a sidecar or a question file."""

import pytest

from phasefusion.errors import DatasetError

LOG = "20260101_samples_lake_mcq.jsonl"
OPTIONS = ["a boat", "a swan"]


def log(n=3):
    """Documents in an order that is not that of their ids."""
    shown = "What is in picture {i}?\nA. a boat\nB. a swan\nAnswer directly."
    return [
        {"doc_id": i, "target": "B", "filtered_resps": ["B"], "acc": 1.0}
        | {"input": shown.format(i=i)}
        for i in reversed(range(n))
    ]


def docs(n=3, **more):
    """What a sidecar says of them."""
    return [
        {"task": "lake_mcq", "split": "test", "doc_id": i, "prompt": f"picture {i}"}
        | {"options": OPTIONS, "gold": 1, "question_id": f"lake-{i}"}
        | more
        for i in range(n)
    ]


def questions(n=3, text="What is in picture {i}?"):
    return [
        {"question_id": f"lake-{i}", "question": text.format(i=i), "options": OPTIONS}
        | {"answer": "B", "video": f"{i}.mp4"}
        for i in range(n)
    ]


def ids(rows):
    return {row["question_id"]: row["source"]["line"] for row in rows}


@pytest.mark.parametrize("given", ["file", "folder"])
def test_ids_of_the_sidecar(write, take, given):
    path = write("docs.jsonl", docs())
    path = path if given == "file" else path.parent
    report, rows = take(write(LOG, log()), questions=path)
    assert ids(rows) == {"lake-0": 3, "lake-1": 2, "lake-2": 1}
    assert {row["benchmark"] for row in rows} == {"lake_mcq"}
    assert all(row["gold"] == row["answer"] == 1 for row in rows)
    assert report.finding("ids of documents").n == 3


def test_documents_that_were_left_out_or_not_run(write, take):
    rows = docs(4)
    del rows[1]["question_id"]
    report, found = take(write(LOG, log()), questions=write("docs.jsonl", rows))
    assert sorted(ids(found)) == ["lake-0", "lake-2"]
    assert report.finding("unknown id").examples == ("1",)
    assert report.finding("missing id").examples == ("lake-3",)


def test_a_sidecar_of_other_questions_is_refused(write, take):
    other = write("docs.jsonl", docs(options=["a tree", "a swan"]))
    with pytest.raises(DatasetError, match="has another text or other options"):
        take(write(LOG, log()), questions=other)
    other = write("docs.jsonl", docs(task="sea_mcq"))
    with pytest.raises(DatasetError, match=r"joined by the docs\.jsonl of the sidecar"):
        take(write(LOG, log()), questions=other)


def test_ids_by_the_order_of_a_question_file(write, take):
    report, rows = take(write(LOG, log()), questions=write("q.jsonl", questions(5)))
    assert ids(rows) == {"lake-0": 3, "lake-1": 2, "lake-2": 1}
    assert "order of the question file" in report.finding("ids of documents").text


@pytest.mark.parametrize(
    "others",
    [
        questions(2),  # fewer than the numbers
        questions()[::-1],  # in another order
        questions(text="What is in clip {i}?"),
    ],
)
def test_a_question_file_in_another_order_is_not_joined(write, take, others):
    with pytest.raises(DatasetError, match=r"no id .* docs\.jsonl of the sidecar"):
        take(write(LOG, log()), questions=write("q.jsonl", others))


def test_numbers_that_are_the_ids_stay(write, take):
    rows = [row | {"question_id": str(i)} for i, row in enumerate(questions())]
    report, found = take(write(LOG, log()), questions=write("q.jsonl", rows))
    assert sorted(ids(found)) == ["0", "1", "2"]
    assert report.finding("ids of documents") is None
