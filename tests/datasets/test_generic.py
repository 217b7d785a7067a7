"""Question files: what is read, and that every bad file says where and why."""

import json
from pathlib import Path

import numpy as np
import pytest

from phasefusion.datasets import Item, load_questions
from phasefusion.errors import DatasetError, OptionWarning

GOOD = {
    "question_id": "q1",
    "video": "clip.mp4",
    "question": "What is seen?",
    "options": ["a cat", "a dog", "a bird"],
    "answer": 1,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "clip.mp4").write_bytes(b"not looked at")
    return tmp_path


def write(folder, *rows, name="set.jsonl"):
    path = folder / name
    if name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(list(rows)))
    return path


def load_one(folder, **changes):
    return load_questions(write(folder, GOOD | changes))[0]


def test_item_of_jsonl(folder):
    item = load_one(folder, type="what", domain="pets", start=1, end=2.5)
    assert item == Item(
        question_id="q1",
        benchmark="set",
        video=str(folder / "clip.mp4"),
        video_id="clip",
        question="What is seen?",
        options=("a cat", "a dog", "a bird"),
        gold=1,
        type="what",
        start=1.0,
        end=2.5,
        extra={"domain": "pets"},
    )


def test_json_list_and_object_read_the_same(folder):
    listed = load_questions(write(folder, GOOD, name="set.json"))
    path = folder / "set.json"
    path.write_text(json.dumps({"questions": [GOOD], "about": "pets"}))
    assert load_questions(path) == listed == load_questions(write(folder, GOOD))


def test_byte_order_mark_and_line_separators_inside_text(folder):
    path = folder / "set.jsonl"
    row = GOOD | {"question": "What\u2028is seen?"}
    path.write_bytes(
        b"\xef\xbb\xbf" + json.dumps(row, ensure_ascii=False).encode() + b"\r\n\n"
    )
    assert [item.question for item in load_questions(path)] == ["What\u2028is seen?"]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("question_id,video,question,options,answer,note", None),
        (
            "question_id,video,question,A,B,C,D,answer",
            "q1,clip.mp4,What is seen?,a cat,a dog,a bird,,B",
        ),
        (
            "question_id,video,question,option_2,option_0,option_1,answer",
            "q1,clip.mp4,What is seen?,a bird,a cat,a dog,1",
        ),
        (
            "question_id,video,question,a0,a1,a2,a3,a4,answer",
            "q1,clip.mp4,What is seen?,a cat,a dog,a bird,,,a dog",
        ),
    ],
)
def test_csv_option_columns(folder, header, row):
    path = folder / "set.csv"
    options = '"[""a cat"", ""a dog"", ""a bird""]"'
    row = row or f"q1,clip.mp4,What is seen?,{options},1,x"
    path.write_text(f"{header}\n{row}\n")
    (item,) = load_questions(path)
    assert item.options == ("a cat", "a dog", "a bird")
    assert item.gold == 1
    assert item.extra == ({"note": "x"} if "note" in header else {})


def test_tsv(folder):
    path = folder / "set.tsv"
    path.write_text("question_id\tvideo\tquestion\tA\tB\n7\tclip.mp4\twhy, then?\tx\ty")
    (item,) = load_questions(path)
    assert (item.question_id, item.options, item.gold) == ("7", ("x", "y"), None)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (2, 2),
        (2.0, 2),
        ("2", 2),
        ("C", 2),
        ("c", 2),
        ("(C)", 2),
        ("C. a bird", 2),
        ("(C) a bird", 2),
        ("a bird", 2),
        (None, None),
        ("", None),
    ],
)
def test_gold_in_every_form(folder, answer, gold):
    assert load_one(folder, answer=answer).gold == gold


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        (3, ["a", "b", "c"]),
        (-1, ["a", "b", "c"]),
        ("D", ["x", "y", "z"]),
        ("3", ["x", "y", "z"]),
        ("C. not a bird", ["a cat", "a dog", "a bird"]),
        ("a fish", ["a cat", "a dog", "a bird"]),
        (True, ["x", "y"]),
        (1.5, ["x", "y"]),
        (["A"], ["x", "y"]),
    ],
)
def test_gold_out_of_range_names_the_item(folder, answer, options):
    with pytest.raises(DatasetError, match=r"set\.jsonl, line 1 \('q1'\): answer"):
        load_one(folder, answer=answer, options=options)


@pytest.mark.parametrize(
    ("answer", "options"),
    [("A", ["B", "A"]), ("1", ["1", "2"]), ("2", ["1", "0", "9"])],
)
def test_gold_with_two_readings(folder, answer, options):
    if answer == "2":  # an index alone: no option reads "2"
        assert load_one(folder, answer=answer, options=options).gold == 2
        return
    with pytest.raises(DatasetError, match="is ambiguous"):
        load_one(folder, answer=answer, options=options)


def test_gold_text_that_occurs_twice_is_all_of_them(folder):
    with pytest.warns(OptionWarning, match="more than once"):
        item = load_one(folder, options=["six", "three", "three"], answer="three")
    assert item.golds == (1, 2)
    assert item.gold == 1


def test_duplicate_options_warn_and_are_grouped(folder):
    with pytest.warns(OptionWarning, match=r"line 1 \('q1'\): options occur more"):
        item = load_one(folder, options=["six", "three", "three", "nine"], answer="C")
    assert item.golds == (1, 2)
    assert item.same_options == (0, 1, 1, 3)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (["A. x", "B. y"], ("x", "y")),
        (["(A) x", "(B) y"], ("x", "y")),
        (["A: x", "B: y. z"], ("x", "y. z")),
        (["A) x", "B) y"], ("x", "y")),
        (["A. x", "y"], ("A. x", "y")),
        ([1, 2.5], ("1", "2.5")),
    ],
)
def test_letters_in_options(folder, given, options):
    assert load_one(folder, options=given, answer=0).options == options


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question_id": None}, r"set.jsonl, line 1: question_id missing"),
        ({"question": "", "video": ""}, r"line 1: video, question missing"),
        ({"question_id": True}, r"question_id must be a text"),
        ({"question": 5}, r"\('q1'\): question must be a text, not 5"),
        ({"options": ["x"]}, r"has 1 option; 2 to 26"),
        ({"options": [str(k) for k in range(27)], "answer": 0}, r"has 27 options"),
        ({"options": "A B"}, r"options must be a list"),
        ({"options": {"A": "x"}}, r"options must be a list"),
        ({"options": ["x", None]}, r"option 1 must be a text, not None"),
        ({"options": ["x", " "]}, r"option 1 is empty"),
        ({"options": ["x  y", "x y"], "answer": 0}, r"all options read"),
        ({"options": ["x", "x"], "answer": 0}, r"all options read 'x'"),
        ({"start": -1}, r"start must be seconds >= 0"),
        ({"end": "soon"}, r"end must be seconds >= 0, not 'soon'"),
        ({"end": "nan"}, r"end must be seconds"),
        ({"start": 2, "end": 2}, r"start 2.0 s is not before end 2.0 s"),
        ({"video": "gone.mp4"}, r"there is no video file .*gone\.mp4"),
    ],
)
def test_bad_items(folder, changes, message):
    with pytest.raises(DatasetError, match=message):
        load_one(folder, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": ["x"]}, r"question 'q': has 1 option; 2 to 26"),
        ({"options": [str(k) for k in range(27)]}, "has 27 options"),
        ({"options": "xy"}, "options must be a list of texts"),
        ({"options": ["x", 2]}, "options must be a list of texts"),
        ({"options": ["x", " "]}, "option 1 is empty"),
        ({"options": ["A. x", "B. x"]}, "all options read 'x'"),
        ({"gold": 2}, r"gold 2 is none of its 2 options; it must be 0\.\.1"),
        ({"gold": -1}, "gold -1"),
        ({"gold": "B"}, "gold 'B'"),
        ({"gold": True}, "gold True"),
        ({"gold": 1.0}, r"gold 1\.0"),
        ({"question_id": 5}, "question 5: question_id is 5, a int; it must be a str"),
        ({"benchmark": None}, "benchmark is None, a NoneType; it must be a str"),
        ({"video": Path("v.mp4")}, r"video is PosixPath\('v.mp4'\), a PosixPath; it"),
        ({"video": None}, "question 'q': video is None, a NoneType; it must be a str"),
        ({"video_id": 3}, "video_id is 3"),
        ({"question": b"What?"}, "question is b'What"),
        ({"type": ["a"]}, r"type is \['a'\], a list; it must be a str or None"),
        ({"start": "1"}, "start is '1', a str; it must be seconds or None"),
        ({"end": [2]}, r"end is \[2\], a list"),
        ({"extra": None}, "extra is None, a NoneType; it must be a dict"),
        ({"strata": "long"}, "strata is 'long', a str; it must be a dict"),
        ({"subtitles": "s.srt"}, "subtitles is 's.srt', a str; it must be a Subtitle"),
    ],
)
def test_items_made_by_hand_are_checked(changes, message):
    fields = {"options": ["x", "y"], "gold": 1, "question_id": "q"}
    fields |= {"benchmark": "set", "video": "clip.mp4", "video_id": "clip"}
    with pytest.raises(DatasetError, match=message):
        Item(**fields | {"question": "What?"} | changes)


@pytest.mark.parametrize(
    "options",
    [
        ["B. red", "A. green"],
        ["(b) red", "(a) green"],
        ["A. red", "C. green", "B. blue"],
        ["[A] red", "[A] green"],
        ["B) red", "C) green", "A) blue"],
        ["B、red", "A: green"],
    ],
)
def test_letters_that_contradict_their_places_are_refused(folder, options):
    path = write(folder, GOOD, GOOD | {"question_id": "q2", "options": options})
    with pytest.raises(DatasetError, match=r"line 2 \('q2'\): the options are ambig"):
        load_questions(path)
    with pytest.raises(DatasetError, match="question 'q': the options are ambiguous"):
        Item("q", "b", "v.mp4", "v", "Which?", options)


@pytest.mark.parametrize(
    "options",
    [
        ["A. Lincoln", "J. Adams"],
        ["B. red", "green"],
        ["C. red", "D. green"],
        ["A red", "B green"],
    ],
)
def test_other_letters_are_text(folder, options):
    assert load_one(folder, options=options, answer=0).options == tuple(options)


@pytest.mark.parametrize(
    ("name", "separator", "word"),
    [
        ("q.csv", ";", "semicolons"),
        ("q.csv", "\t", "tabs"),
        ("q.csv", "|", "bars"),
        ("q.tsv", ",", "commas"),
    ],
)
def test_another_separator_is_named(folder, name, separator, word):
    lines = (
        ["question_id", "video", "question", "A", "B"],
        ["q1", "clip.mp4", "What, then?", "a", "b"],
    )
    path = folder / name
    path.write_text("".join(separator.join(line) + "\n" for line in lines))
    with pytest.raises(DatasetError, match=f"{name}, line 1: .* separated by {word}"):
        load_questions(path)


def test_items_made_by_hand_lose_their_letters():
    item = Item("q", "set", "clip.mp4", "clip", "What?", ["A. x", "B. y"], np.int64(1))
    assert item.options == ("x", "y")
    assert type(item.gold) is int


def test_missing_video_may_be_left_to_the_run(folder):
    path = write(folder, GOOD | {"video": "gone.mp4"})
    (item,) = load_questions(path, check_videos=False)
    assert item.video == str(folder / "gone.mp4")


def test_subtitles_and_strata(folder):
    (folder / "clip.srt").write_text("1\n00:00:01,0 --> 00:00:02,0\nhi\n")
    item = load_one(folder, subtitles="clip.srt", strata={"length": 3})
    assert item.strata == {"length": "3"}
    assert [cue.text for cue in item.subtitles.read()] == ["hi"]
    inline = [{"start": 1, "end": 2, "text": "hi"}]
    said = load_one(folder, subtitles=inline).subtitles.read()
    assert [(cue.start_s, cue.text) for cue in said] == [(1.0, "hi")]
    path = write(folder, GOOD | {"subtitles": "gone.srt"})
    with pytest.raises(DatasetError, match=r"there is no subtitle file .*gone\.srt"):
        load_questions(path)
    (item,) = load_questions(path, check_videos=False)
    assert item.subtitles.path == str(folder / "gone.srt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subtitles": 5}, "subtitles must be a path or a list of cues, not 5"),
        ({"strata": ["x"]}, "strata must be an object of texts"),
        ({"strata": {"x": [1]}}, "strata must be an object of texts"),
        ({"start_frame": 5}, "start_frame needs fps to become seconds"),
        ({"start_frame": 5, "fps": 0}, "start_frame needs fps"),
        ({"start_frame": -5, "fps": 5}, "start_frame must be a frame number >= 0"),
        ({"start": 10**400}, "start must be seconds >= 0"),
        ({"video": "x" * 5000}, "there is no video file"),
    ],
)
def test_bad_fields(folder, changes, message):
    with pytest.raises(DatasetError, match=message):
        load_one(folder, **changes)


def test_video_root(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("questions")
    (item,) = load_questions(write(other, GOOD), video_root=folder)
    assert item.video == str(folder / "clip.mp4")


def test_duplicate_id_names_both_lines(folder):
    with pytest.raises(DatasetError, match=r"line 2: .*'q1' was already used at .*1"):
        load_questions(write(folder, GOOD, GOOD))


def test_same_id_in_two_benchmarks(folder):
    rows = [GOOD | {"benchmark": name} for name in ("a", "b")]
    assert [item.benchmark for item in load_questions(write(folder, *rows))] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("set.txt", "", r"ends in \.json, \.jsonl, \.csv or \.tsv, not in '\.txt'"),
        ("set.jsonl", "", "holds no questions"),
        ("set.json", "[]", "holds no questions"),
        ("set.json", "{}", "must be a list of questions"),
        ("set.json", "[1]", "item 0: a question is a JSON object, not int"),
        ("set.json", "[\n{?}]", "line 2, column 2: not JSON"),
        ("set.jsonl", '{"a": 1}\n{"b"', "line 1: question_id"),
        ("set.jsonl", '{"b"', "line 1, column 5: not JSON"),
        ("set.csv", "question_id,video\nq,v,extra\n", "line 2: has another number"),
        ("set.csv", "question_id,video\nq\n", "line 2: has another number"),
        ("set.csv", "a,a\n1,2\n", "column name occurs twice"),
        (
            "set.csv",
            "question_id,video,question,options\nq,clip.mp4,w?,x;y\n",
            "line 2: options must be a JSON list",
        ),
    ],
)
def test_bad_files(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(DatasetError, match=message):
        load_questions(folder / name)


def test_not_utf8(folder):
    (folder / "set.jsonl").write_bytes(b'{"question": "caf\xe9"}')
    with pytest.raises(DatasetError, match="not UTF-8 text"):
        load_questions(folder / "set.jsonl")


def test_missing_question_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_questions(tmp_path / "none.jsonl")


def test_a_cell_may_be_as_long_as_for_the_other_readers(folder):
    """Subtitles that are written out in a cell, of more than 131072 characters."""
    text = "WEBVTT\n\n00:00.000 --> 00:01.000\n" + "word " * 40_000
    path = folder / "set.csv"
    path.write_text(
        "question_id,video,question,A,B,answer,subtitles\n"
        f'q1,clip.mp4,What?,a cat,a dog,1,"{text}"\n'
    )
    (item,) = load_questions(path)
    assert item.subtitles.text == text
