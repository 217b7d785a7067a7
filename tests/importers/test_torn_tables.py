"""Tables that would be read as something else than they say are refused, with why."""

import pytest

from phasefusion.audit.sources import Source
from phasefusion.audit.values import Uncomputable
from phasefusion.datasets import load_questions
from phasefusion.errors import DatasetError

HEAD = "question_id,prediction\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('q1,"A\nq2,B\nq3,C\n', r"line 2: a cell begins with a quote that is not cl"),
        ('q1,A\nq2,"B\n\nq3,C', r"line 3: a cell begins with a quote that is not cl"),
        ('q1,A\nq2,"B" or C\n', r"line 3: a text goes on after its closing quote"),
        ('q1,"A\nq2,"B"\n', r"line 3, of the row that begins on line 2: a text goes"),
    ],
)
def test_quotes(write, take, tmp_path, content, message):
    file = write("a.csv", HEAD + content)
    with pytest.raises(DatasetError, match=rf"a\.csv, {message}"):
        take(file)
    with pytest.raises(Uncomputable, match=message):
        Source("a", file).rows()
    (tmp_path / "v.mp4").touch()
    head = "question_id,video,question,A,B\n"
    questions = write("q.csv", head + content.replace(",", ",v.mp4,What?,x,"))
    with pytest.raises(DatasetError, match=rf"q\.csv, {message}"):
        load_questions(questions)


def test_quotes_that_are_whole(write, take):
    rows = 'q1,"A, ""surely"""\nq2,B "maybe"\nq3,"A\nB"\n'
    _, passes = take(write("a.csv", HEAD + rows))
    assert [row["text"] for row in passes] == ['A, "surely"', 'B "maybe"', "A\nB"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.json", "a.jsonl"])
def test_wide_encodings(tmp_path, take, name, encoding):
    file = tmp_path / name
    file.write_bytes((HEAD + "q1,A\n").encode(encoding))
    with pytest.raises(DatasetError, match=r"UTF-16 or UTF-32 .* save the file as UTF"):
        take(file)


def test_other_encodings_name_the_line(tmp_path, take):
    file = tmp_path / "a.csv"
    file.write_bytes((HEAD + "q1,caf\xe9\n").encode("latin1"))
    with pytest.raises(DatasetError, match=r"a\.csv, line 2: not UTF-8 .* iconv"):
        take(file)


@pytest.mark.parametrize(
    ("name", "separator", "word"),
    [
        ("a.csv", ";", "semicolons"),
        ("a.csv", "\t", "tabs"),
        ("a.csv", "|", "bars"),
        ("a.tsv", ",", "commas"),
    ],
)
def test_another_separator(write, take, name, separator, word):
    file = write(name, (HEAD + "q1,A\n").replace(",", separator))
    with pytest.raises(DatasetError, match=f"line 1: .* separated by {word} .* save"):
        take(file)
    with pytest.raises(Uncomputable, match=f"separated by {word}"):
        Source("a", file).rows()
