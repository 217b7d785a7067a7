"""Files, folders, rows and videos: what is found, and that nothing goes in silence."""

import json

import numpy as np
import pytest

from phasefusion import datasets
from phasefusion.datasets.videos import Folder
from phasefusion.errors import BackendUnavailableError, DatasetError, DatasetWarning

ROW = {
    "video": "v1",
    "qid": 1,
    "question": "what is seen",
    "type": "DO",
    "a0": "cat",
    "a1": "dog",
    "answer": 1,
}


def rows(n):
    return [ROW | {"video": f"v{k}"} for k in range(n)]


def read(source, **options):
    options.setdefault("missing_videos", "keep")
    return datasets.read("nextqa", source, **options)


@pytest.fixture
def expected():
    return list(read(rows(3)))


def kept(items):
    """What does not depend on where the file lies."""
    return [(item.question_id, item.options, item.gold, item.type) for item in items]


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".csv", ".tsv", ".parquet"])
def test_every_kind_of_file(tmp_path, expected, ending):
    path = tmp_path / f"val{ending}"
    if ending == ".json":
        path.write_text(json.dumps(rows(3)))
    elif ending == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows(3))))
    elif ending == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows(3)), path)
    else:
        lines = [list(ROW), *([str(x) for x in row.values()] for row in rows(3))]
        separator = "," if ending == ".csv" else "\t"
        path.write_text("".join(separator.join(line) + "\n" for line in lines))
    found = read(path)
    assert kept(found) == kept(expected)
    (file,) = found.report.files
    assert file["path"] == str(path)
    assert len(file["sha256"]) == 64
    assert datasets.detect(path) == "nextqa"
    assert kept(datasets.load_questions(path, check_videos=False)) == kept(expected)


def test_a_file_that_is_no_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "val.parquet"
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(DatasetError, match=r"val\.parquet: not a parquet file"):
        read(path)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "val.parquet").write_bytes(b"PAR1")
    with pytest.raises(BackendUnavailableError, match="need pyarrow: pip install"):
        read(tmp_path / "val.parquet")


def test_rows_of_anything_that_yields_mappings(expected):
    assert kept(read(iter(rows(3)))) == kept(expected)
    assert kept(read(tuple(rows(3)))) == kept(expected)
    table = [
        {
            name: np.str_(x) if isinstance(x, str) else np.int64(x)
            for name, x in r.items()
        }
        for r in rows(3)
    ]
    assert kept(read(table)) == kept(expected)


def test_missing_numbers_and_lists_of_a_data_frame():
    row = {
        "q_uid": "a",
        "question": "What?",
        "option": np.array(["x", "y"], object),
        "answer": float("nan"),
        "frame": np.array([1.5]),
    }
    (item,) = datasets.read("egoschema", [row], missing_videos="keep")
    assert item.options == ("x", "y")
    assert item.gold is None
    assert item.extra == {"q_uid": "a", "frame": [1.5]}


def test_numbers_beyond_any_text():
    rows = [ROW, ROW | {"qid": 10**5000}, ROW | {"qid": 2, 10**5000: 1, "x": 10**5000}]
    found = read(rows)
    assert [item.question_id for item in found] == ["v1_1", "v1_2"]
    assert found[1].extra["x"] is None


class Split(list):
    column_names = ("video", "qid")


def test_splits_are_chosen_by_the_caller():
    splits = {"train": Split(rows(1)), "val": Split(rows(2))}
    with pytest.raises(
        DatasetError, match=r"train, val\); choose one, such as rows\['tr"
    ):
        read(splits)
    assert len(read(splits["val"])) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["a", "b"], r"rows, item 0: a row is a mapping .* to_dict"),
        ([ROW, 5], "rows, item 1: a row is a mapping of names to values, not a int"),
        (7, "a dataset is a path or rows, not a int"),
        ([], "rows: holds no questions"),
        ({"a": [], "b": []}, "must be a list of questions"),
        (
            [{"x": 1}],
            r"none of the 1 questions can be scored as 'nextqa': 1 \(rows, it",
        ),
    ],
)
def test_what_is_no_dataset(source, message):
    with pytest.raises(DatasetError, match=message):
        read(source)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", r"ends in \.json, .*, not in '\.txt'"),
        ("a.json", "[1]", r"a\.json, item 0: a question is an object, not 1"),
        ("a.json", "{?}", r"a\.json, line 1, column 2: not JSON"),
        ("a.json", '[{"a": 1},]', "comma stands before the closing bracket"),
        ("a.csv", "a,a\n1,2\n", "column name occurs twice"),
        ("a.csv", "video,qid,a0,a1\n1,2,x\n", "line 2: has 3 cells, the header has 4"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DatasetError, match=message):
        read(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.json")
    with pytest.raises(DatasetError, match="has no question files"):
        read(tmp_path)


def test_lenient_json_is_said(tmp_path):
    path = tmp_path / "val.json"
    path.write_text(json.dumps(rows(2))[:-1] + ",]")
    found = read(path, lenient=True)
    assert len(found) == 2
    assert found.report.finding("repaired JSON").n == 1


@pytest.mark.parametrize("name", ["Video-MME", "video_mme", "VIDEOMME"])
def test_names_in_any_spelling(name):
    with pytest.raises(DatasetError, match="as 'videomme'"):
        datasets.read(name, [{}])


def test_unknown_names():
    with pytest.raises(DatasetError, match="'videomme3' is not one of auto, egoschema"):
        datasets.read("videomme3", rows(1))
    with pytest.raises(
        DatasetError, match=r"of no known form; .* has x; say which form it is: ego"
    ):
        datasets.read("auto", [{"x": 1}])
    with pytest.raises(DatasetError, match="missing_videos='no' is not one of error"):
        read(rows(1), missing_videos="no")


def test_a_file_of_another_dataset_is_named():
    with pytest.raises(DatasetError, match="it looks like 'nextqa'"):
        datasets.read("star", rows(2))


def test_version_is_part_of_the_key():
    found = read(rows(1), version="2024")
    assert found[0].benchmark == found.report.benchmark == "NExT-QA@2024"


@pytest.mark.parametrize(
    "row",
    [
        {"question_id": 1, "video": "v", "question": "q", "candidates": ["x", "y"]},
        {"question_id": 1, "video": "v", "question": "q", "choices": ["x", "y"]},
        {"question_id": 1, "video_id": "v", "question": "q", "options": ["x", "y"]},
        {"id": 1, "file": "v", "text": "q"},
    ],
)
def test_files_of_nobody_are_not_taken_for_a_benchmark(tmp_path, row):
    path = tmp_path / "own.json"
    path.write_text(json.dumps([row]))
    assert datasets.detect(path) is None
    with pytest.raises(DatasetError, match="missing or empty"):
        datasets.load_questions(path)


def numbered(answers, n_options=3, **more):
    return [
        {"question_id": i, "video": "v.mp4", "question": "?", "answer": answer}
        | {"options": ["x", "y", "z", "w"][:n_options]}
        | more
        for i, answer in enumerate(answers)
    ]


@pytest.mark.filterwarnings("ignore::phasefusion.errors.DatasetWarning")
@pytest.mark.parametrize("kind", [int, str, float])
def test_answers_that_may_count_from_1_are_said_and_kept(kind):
    given = numbered(map(kind, [1, 2, 3, 1, 2, 3]))
    found = datasets.read("plain", given, missing_videos="keep")
    assert [item.gold for item in found] == [1, 2, None] * 2
    (said,) = (one for one in found.report.findings if one.kind.startswith("gold c"))
    assert (said.n, said.examples) == (2, ("2", "5"))
    assert str(said).startswith(
        "gold counted from 1? (2): no right answer is 0, and 2 of 6 are the number of "
        "options; answers that are numbers count from 0"
    )
    with pytest.warns(DatasetWarning, match="if these count from 1 each names the"):
        datasets.load("plain", given, missing_videos="keep")


@pytest.mark.filterwarnings("ignore::phasefusion.errors.DatasetWarning")
@pytest.mark.parametrize(
    "answers",
    [[0, 2, 3], [-1, 2, 3], [1, 2, 1], ["A", "C"], ["x", "z"], [], [None, 2], [1, 4]],
)
def test_answers_that_need_not_count_from_1_are_not_said(answers):
    given = numbered([*answers, None])
    found = datasets.read("plain", given, missing_videos="keep")
    assert "counted from 1" not in str(found.report)


@pytest.mark.filterwarnings("ignore::phasefusion.errors.DatasetWarning")
def test_texts_of_options_that_are_numbers_are_no_places():
    given = numbered(["3", "1"], options=["5", "3", "1"])
    found = datasets.read("plain", given, missing_videos="keep")
    assert "counted from 1" not in str(found.report)


@pytest.mark.parametrize(
    ("names", "answers", "is_said"),
    [
        (("option_1", "option_2"), ("1", "1"), True),
        (("option_1", "option_2"), ("0", "1"), False),
        (("option_1", "option_2"), ("B", "y"), False),
        (("option_0", "option_1"), ("1", "1"), False),
        (("A", "B"), ("1", "1"), False),
    ],
)
def test_columns_named_from_1_speak_for_it(tmp_path, names, answers, is_said):
    path = tmp_path / "q.csv"
    head = ",".join(("question_id", "video", "question", "answer", *names))
    rows = [f"{i},v.mp4,?,{answer},x,y" for i, answer in enumerate(answers)]
    path.write_text("\n".join([head, *rows]) + "\n")
    found = datasets.read("plain", path, missing_videos="keep")
    said = "no right answer is 0, and options are named from 1 on" in str(found.report)
    assert said is is_said
    assert found.report.is_quiet is not is_said
    if answers == ("1", "1"):
        assert [item.gold for item in found] == [1, 1]


# -- videos -----------------------------------------------------------------


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_missing_videos_are_counted_before_anything_is_scored(tmp_path):
    make(tmp_path, "v1.mp4")
    with pytest.raises(DatasetError) as caught:
        read(rows(9), videos=tmp_path, missing_videos="error")
    text = str(caught.value)
    assert "8 videos of NExT-QA are missing: 8 (v0, v2, v3, ...)" in text
    assert "8 of 9 questions are about them" in text


def test_questions_of_missing_videos_are_left_out_and_said(tmp_path):
    make(tmp_path, "v1.mp4")
    found = read(rows(3), videos=tmp_path, missing_videos="leave-out")
    assert [item.video for item in found] == [str(tmp_path / "v1.mp4")]
    assert found.report.missing_videos == ("v0", "v2")
    assert (found.report.read, found.report.kept) == (3, 1)
    assert {one.kind for one in found.report.left_out} == {"missing video"}
    with pytest.warns(DatasetWarning, match=r"left out, missing video \(2\): v0_1"):
        datasets.load("nextqa", rows(3), videos=tmp_path, missing_videos="leave-out")


def test_videos_left_to_the_run(tmp_path):
    found = read(rows(2), videos=tmp_path)
    assert [item.video for item in found] == [
        str(tmp_path / "v0.mp4"),
        str(tmp_path / "v1.mp4"),
    ]
    assert found.report.missing_videos == ("v0", "v1")
    assert found.report.is_clean


def test_videos_are_found_at_any_depth_with_any_ending(tmp_path):
    make(tmp_path, "a/b/v1.webm", "c/v2.MP4", "v3.mkv", "v3.mp4", "v1.txt")
    make(tmp_path, "d/v4.avi", "d/v4.webm", "d/v4.mkv")
    folder = Folder(tmp_path)
    assert folder.find("v1").path == tmp_path / "a/b/v1.webm"
    assert folder.find("v1.mp4").path == tmp_path / "a/b/v1.webm"
    assert folder.find("x/v2.mp4").path == tmp_path / "c/v2.MP4"
    assert folder.find("v3").path == tmp_path / "v3.mp4"
    assert folder.find("v3.mkv").path == tmp_path / "v3.mkv"
    assert folder.find("V3").path is None
    assert folder.find("v4").path == tmp_path / "d/v4.mkv"


def test_links_are_followed_and_circles_end(tmp_path):
    make(tmp_path, "far/in/v1.mp4", "near/v2.mp4")
    (tmp_path / "near/link").symlink_to(tmp_path / "far")
    (tmp_path / "far/in/back").symlink_to(tmp_path / "near")
    folder = Folder(tmp_path / "near")
    assert folder.find("v1").path == tmp_path / "near/link/in/v1.mp4"
    assert folder.find("v2").path == tmp_path / "near/v2.mp4"


def test_names_with_dots_keep_them(tmp_path):
    make(tmp_path, "in/6H78U_11.1_19.6.mp4", "6H78U_11.avi")
    assert Folder(tmp_path).find("6H78U_11.1_19.6").path.name == "6H78U_11.1_19.6.mp4"


def test_a_name_in_two_folders_is_no_answer(tmp_path):
    make(tmp_path, "star/v1.mp4", "clevrer/v1.mp4")
    folder = Folder(tmp_path)
    found = folder.find("v1")
    assert found.path is None
    assert found.problem.startswith("lies in 2 folders, such as")
    assert folder.find("v1", "star/").path == tmp_path / "star/v1.mp4"
    with pytest.raises(DatasetError, match="v1 lies in 2 folders"):
        read([ROW], videos=tmp_path, missing_videos="error")


def test_the_task_says_which_of_two_videos_is_meant(tmp_path):
    make(tmp_path, "star/in/v1.mp4", "clevrer/v1.mp4", "1_plotQA/m.mp4", "2_x/m.mp4")
    row = {"video": "v1.mp4", "question": "q", "candidates": ["x", "y"]}
    tasks = {"Action Sequence": [row], "moving_count": [row]}
    found = datasets.read("mvbench", tasks, videos=tmp_path)
    assert [item.video for item in found] == [
        str(tmp_path / "star/in/v1.mp4"),
        str(tmp_path / "clevrer/v1.mp4"),
    ]
    row |= {"video": "m.mp4", "question_type": "plotQA", "duration": 9}
    (item,) = datasets.read("mlvu", [row], task="1_plotQA", videos=tmp_path)
    assert item.video == str(tmp_path / "1_plotQA/m.mp4")


def test_a_folder_of_frames_is_no_video(tmp_path):
    make(tmp_path, "tvqa/castle_s08/00001.jpg")
    row = {"video": "castle_s08", "question": "what", "candidates": ["a", "b"]}
    row |= {"answer": "b", "start": 0, "end": 5, "fps": 3}
    found = datasets.read(
        "mvbench",
        {"episodic_reasoning": [row], "other": [row | {"video": "v1"}]},
        videos=tmp_path,
        missing_videos="keep",
    )
    assert found.report.missing_videos == ("castle_s08", "v1")
    with pytest.raises(DatasetError, match="castle_s08 is a folder, of frames perhaps"):
        datasets.read("mvbench", {"episodic_reasoning": [row]}, videos=tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, ".", "..", "/", "a/", "//"])
def test_names_that_no_file_has(tmp_path, name):
    assert Folder(tmp_path / "in").find(name).path is None


def test_the_folder_must_be_there(tmp_path):
    with pytest.raises(DatasetError, match="none: is no folder"):
        read(rows(1), videos=tmp_path / "none")
    with pytest.raises(DatasetError, match="none: is no folder"):
        read(rows(1), subtitles=tmp_path / "none")


# -- dirty items --------------------------------------------------------------

DIRTY = [
    ROW,
    ROW | {"qid": 2, "a0": "", "a2": "", "answer": 1},
    ROW | {"qid": 3, "a0": None, "a1": None},
    ROW | {"qid": 4, "question": "  "},
    ROW | {"qid": 5, "a1": "cat "},
    ROW | {"qid": 6, "answer": 2},
    ROW | {"qid": 7, "answer": None},
    ROW | {"qid": 8, "a2": "cat", "answer": 2},
    ROW | {"qid": 9, "a0": "B. cat", "a1": "A. dog"},
    ROW | {"qid": None},
    ROW | {"qid": 1.5},
    ROW,
]


def test_every_question_is_accounted_for():
    report = read(DIRTY).report
    assert report.read == len(DIRTY) == report.kept + len(report.left_out)
    assert [(one.question_id, one.kind) for one in report.left_out] == [
        ("v1_2", "empty option"),
        ("v1_3", "no options"),
        ("v1_4", "empty question"),
        ("v1_5", "unusable options"),
        ("v1_9", "ambiguous letters"),
        ("", "unreadable"),
        ("", "unreadable"),
        ("v1_1", "repeated"),
    ]
    assert report.left_out[5].where == "rows, item 9"
    assert report.left_out[5].reason == "has no qid"
    assert report.left_out[7].reason == "is the same as rows, item 0"
    (gold,) = report.unusable_gold
    assert (gold.question_id, gold.kind) == ("v1_6", "gold not an option")
    assert report.with_gold == 2
    assert not report.is_clean


def test_the_account_can_be_read_and_kept():
    report = read(DIRTY).report
    text = str(report)
    assert text.startswith("NExT-QA (nextqa): 12 questions read, 4 kept, 2 with gold")
    assert "left out, unreadable (2): rows, item 9: has no qid" in text
    assert "kept without gold, gold not an option (1): v1_6: gold 2 is no ind" in text
    again = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert len(again["left_out"]) == 8
    assert again["unusable_gold"][0]["question_id"] == "v1_6"
    with pytest.warns(DatasetWarning, match="12 questions read, 4 kept"):
        datasets.load("nextqa", DIRTY, missing_videos="keep")


def test_right_text_that_occurs_twice_is_all_of_them():
    found = read(DIRTY)
    item = found[3]
    assert item.question_id == "v1_8"
    assert item.golds == (0, 2)
    assert item.same_options == (0, 1, 0)
    assert found.report.finding("gold repeated").examples == ("v1_8: A, C",)
    assert found.report.finding("repeated option").n == 1


def test_a_near_match_is_offered_and_not_taken():
    row = {
        "video": "v1",
        "question": "what",
        "candidates": ["Catching the drone", "Running"],
        "answer": "Catching a flying drone",
        "question_type": "needle",
    }
    found = datasets.read("mlvu", [row], missing_videos="keep")
    assert found[0].gold is None
    assert "the closest is 'Catching the drone', which was not taken" in str(
        found.report
    )


def test_one_id_for_two_questions_is_refused():
    other = ROW | {"question": "another"}
    with pytest.raises(
        DatasetError, match=r"item 1: question id 'v1_1' is that of ano"
    ):
        read([ROW, other])


def test_half_a_surrogate_pair_becomes_a_mark():
    (item,) = read([ROW | {"question": "what \ud800?"}])
    assert item.question == "what \ufffd?"


def test_letters_are_taken_off_exactly_once():
    row = ROW | {"a0": "A. A. Milne", "a1": "B. B. King"}
    assert read([row])[0].options == ("A. Milne", "B. King")


def test_a_dataset_is_a_sequence_of_items():
    found = read(rows(3))
    assert len(found) == 3
    assert found[-1] is found.items[2]
    assert found[:2] == found.items[:2]
    assert found.items[1] in found
