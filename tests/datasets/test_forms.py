"""Every published form of every benchmark, on invented questions of that form."""

import json

import pytest

from phasefusion import datasets
from phasefusion.errors import DatasetError

UID = "0a1b2c3d-0000-4000-8000-00000000000{}"


def read(name, source, **options):
    """Read without videos: those of a form are files that nobody has here."""
    return datasets.read(name, source, missing_videos="keep", **options)


def one(name, row, **options):
    found = read(name, [row], **options)
    assert found.report.read == len(found) == 1
    return found[0]


EGOSCHEMA_ROW = {f"option {k}": f"c does {k}" for k in range(5)} | {
    "q_uid": UID.format(1),
    "google_drive_id": "1abc",
    "question": "What does c do?",
}


class TestEgoSchema:
    def test_questions_without_gold(self):
        item = one("egoschema", EGOSCHEMA_ROW)
        assert item.question_id == item.video_id == UID.format(1)
        assert item.options == tuple(f"c does {k}" for k in range(5))
        assert item.gold is None
        assert item.video.endswith(f"/{UID.format(1)}.mp4")
        assert item.extra["google_drive_id"] == "1abc"

    def test_gold_of_its_own_file(self, tmp_path):
        (tmp_path / "subset_answers.json").write_text(json.dumps({UID.format(2): 3}))
        rows = [EGOSCHEMA_ROW, EGOSCHEMA_ROW | {"q_uid": UID.format(2)}]
        found = read("egoschema", rows, gold=tmp_path / "subset_answers.json")
        assert [item.gold for item in found] == [None, 3]
        assert found.report.with_gold == 1
        as_mapping = read("egoschema", rows, gold={UID.format(2): 3})
        assert as_mapping.items == found.items

    def test_gold_of_other_questions_is_refused(self):
        with pytest.raises(DatasetError, match="no id of the gold is in the questions"):
            read("egoschema", [EGOSCHEMA_ROW], gold={"another": 1})
        found = read(
            "egoschema", [EGOSCHEMA_ROW], gold={"another": 1, UID.format(1): 0}
        )
        assert found.report.finding("gold without question").examples == ("another",)

    @pytest.mark.parametrize(("field", "gold"), [("answer", "2"), ("CA", 2)])
    def test_gold_is_an_index_as_number_or_text(self, field, gold):
        assert one("egoschema", EGOSCHEMA_ROW | {field: gold}).gold == 2

    def test_hub_table(self):
        row = {
            "question_idx": "0",
            "video_idx": UID.format(3),
            "question": "What?",
            "option": ["A. cut", "B. wash", "C. fold", "D. paint", "E. B. rest"],
            "answer": "4",
        }
        item = one("egoschema", row)
        assert item.question_id == UID.format(3)
        assert item.options == ("cut", "wash", "fold", "paint", "B. rest")
        assert item.gold == 4

    def test_a_table_whose_question_id_is_something_else(self, tmp_path):
        head = ",video_name,question_id,question,answer,a0,a1,a2,a3,a4\n"
        line = (
            f"1,{UID.format(4)},1ZdZ8aUc,Why?,to eat.,to run.,to eat.,to hop.,x.,y.\n"
        )
        path = tmp_path / "ego.csv"
        path.write_text(head + line)
        assert datasets.detect(path) == "egoschema"
        (item,) = read("egoschema", path)
        assert item.question_id == UID.format(4)
        assert item.gold == 1


MVBENCH_ROWS = [
    {
        "video": "ZS9XR.mp4",
        "question": "What happened before?",
        "candidates": ["Ate.", "Threw it.", "Ran."],
        "answer": "Threw it.",
        "start": 1.5,
        "end": 12,
        "accurate_start": 2.0,
    },
    {
        "video": "part/b.webm",
        "question": "And then?",
        "candidates": ["yes", "no"],
        "answer": "no",
    },
]


class TestMVBench:
    def test_a_folder_of_a_file_a_task(self, tmp_path):
        inner = tmp_path / "json"
        inner.mkdir()
        for task in ("action_sequence", "scene_transition"):
            (inner / f"{task}.json").write_text(json.dumps(MVBENCH_ROWS))
        found = read("mvbench", tmp_path)
        assert [item.question_id for item in found] == [
            "action_sequence/0",
            "action_sequence/1",
            "scene_transition/0",
            "scene_transition/1",
        ]
        first = found[0]
        assert (first.start, first.end, first.gold) == (1.5, 12.0, 1)
        assert (first.type, first.video_id) == ("action_sequence", "ZS9XR")
        assert first.extra == {"accurate_start": 2.0}
        assert found[1].video_id == "b"
        assert found[1].start is found[1].end is None
        assert len(found.report.files) == 2
        assert datasets.detect(tmp_path) == "mvbench"

    def test_rows_say_their_task(self):
        with pytest.raises(DatasetError, match='pass task="action_sequence"'):
            read("mvbench", MVBENCH_ROWS)
        ids = [item.question_id for item in read("mvbench", MVBENCH_ROWS, task="count")]
        assert ids == ["count/0", "count/1"]
        by_task = read("mvbench", {"a": MVBENCH_ROWS, "b": MVBENCH_ROWS[:1]})
        assert [item.question_id for item in by_task] == ["a/0", "a/1", "b/0"]
        named = [row | {"task": name} for name in "xyx" for row in MVBENCH_ROWS[:1]]
        ids = [item.question_id for item in read("mvbench", named)]
        assert ids == ["x/0", "y/0", "x/1"]

    def test_gold_is_a_text_even_when_it_is_a_number(self):
        row = MVBENCH_ROWS[1] | {"candidates": ["3", "0", "2"], "answer": "2"}
        assert one("mvbench", row, task="count").gold == 2
        row["answer"] = "1"
        found = read("mvbench", [row], task="count")
        assert found[0].gold is None
        assert found.report.unusable_gold[0].kind == "gold not an option"

    def test_bounds_that_are_none(self):
        row = MVBENCH_ROWS[0] | {"end": 1.5}
        found = read("mvbench", [row, MVBENCH_ROWS[1]], task="t")
        assert len(found) == 1
        (left_out,) = found.report.left_out
        assert (left_out.question_id, left_out.kind) == ("t/0", "bad bounds")
        assert "start 1.5 s is not before end 1.5 s" in left_out.reason


VIDEOMME_QUESTION = {
    "question_id": "001-1",
    "task_type": "Counting",
    "question": "How many?",
    "options": ["A. 1.", "B. C. three", "C. Four: 4.", "D. none"],
    "answer": "C",
}
VIDEOMME_NESTED = [
    {
        "video_id": "001",
        "duration": "short",
        "domain": "Sports",
        "sub_category": "Ball",
        "questions": [
            VIDEOMME_QUESTION,
            VIDEOMME_QUESTION
            | {"question_id": "001-2", "answer": None, "response": "A"},
        ],
    }
]
VIDEOMME_V2 = {
    "video_id": "001",
    "url": "https://youtu.be/abcdefghijk",
    "group_type": "logic",
    "group_structure": "[1, 2, 3, 4]",
    "question_id": "001-1",
    "question": "Which?",
    "options": "\n".join(f"{letter}. text {letter}" for letter in "ABCDEFGH"),
    "answer": "H",
    "level": 2,
    "third_head": "order",
}


class TestVideoMme:
    def test_nested(self):
        found = read("videomme", VIDEOMME_NESTED)
        first, second = found
        assert first.options == ("1.", "C. three", "Four: 4.", "none")
        assert (first.gold, second.gold) == (2, None)
        assert (first.benchmark, first.video_id) == ("Video-MME", "001")
        assert first.type == "Counting"
        assert first.strata == {
            "duration": "short",
            "domain": "Sports",
            "sub_category": "Ball",
            "task_type": "Counting",
        }

    def test_flat_rows_find_videos_and_subtitles_by_youtube_id(self, tmp_path):
        row = {k: v for k, v in VIDEOMME_NESTED[0].items() if k != "questions"}
        row |= VIDEOMME_QUESTION | {
            "url": "https://www.youtube.com/watch?v=fFjv93ACGo8"
        }
        for name in (
            "data/fFjv93ACGo8.mp4",
            "data/ffjv93acgo8.mp4",
            "s/fFjv93ACGo8.srt",
        ):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("1\n00:00:01,5 --> 00:00:02,0\nhello\n")
        for more in ({"videoID": "fFjv93ACGo8"}, {}):
            found = datasets.read(
                "Video-MME", [row | more], videos=tmp_path, subtitles=tmp_path / "s"
            )
            assert found[0].video == str(tmp_path / "data/fFjv93ACGo8.mp4")
            assert found[0].video_id == "001"
            assert [cue.text for cue in found[0].subtitles.read()] == ["hello"]
        assert found.report.with_subtitles == 1

    def test_a_video_without_subtitles_is_noted(self, tmp_path):
        found = read("videomme", VIDEOMME_NESTED, subtitles=tmp_path)
        assert found.report.finding("no subtitles").n == 2
        assert all(item.subtitles is None for item in found)

    def test_version_2_has_ids_of_its_own(self, tmp_path):
        item = one("videomme-v2", VIDEOMME_V2)
        assert item.benchmark == "Video-MME@v2"
        assert item.options[7] == "text H"
        assert item.gold == 7
        assert item.strata["group_type"] == "logic"
        assert item.strata["level"] == "2"
        v1 = read("videomme", VIDEOMME_NESTED)[0]
        assert (v1.benchmark, v1.question_id) != (item.benchmark, item.question_id)
        path = tmp_path / "v2.jsonl"
        path.write_text(json.dumps(VIDEOMME_V2))
        assert datasets.detect(path) == "videomme-v2"

    def test_the_wrong_version_is_refused(self):
        with pytest.raises(DatasetError, match="read it as 'videomme-v2'"):
            read("videomme", [VIDEOMME_V2])
        with pytest.raises(DatasetError, match="read it as 'videomme'"):
            read("videomme-v2", VIDEOMME_NESTED)

    def test_words_of_version_2_become_cues(self, tmp_path):
        words = [
            {"text": "so", "start_time": 1.0, "end_time": 1.5},
            {"text": "it", "start_time": 1.5, "end_time": 1.75},
        ]
        lines = "".join(json.dumps(word) + "\n" for word in words)
        (tmp_path / "001.jsonl").write_text(lines)
        item = one("videomme-v2", VIDEOMME_V2, subtitles=tmp_path)
        cues = item.subtitles.read()
        assert [(cue.start_s, cue.text) for cue in cues] == [(1.0, "so"), (1.5, "it")]
        assert cues.path == str(tmp_path / "001.jsonl")


NEXTQA_HEAD = "video,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4\n"


class TestNextQa:
    def test_ids_are_video_and_qid(self, tmp_path):
        path = tmp_path / "val.csv"
        path.write_text(
            NEXTQA_HEAD
            + "2440175990,10,4,4,what,0,6,CH,a,b,c,d,e\n"
            + "13884293626,10,4,4,what,4,6,TP,a,b,c,d,e\n"
        )
        found = read("nextqa", path)
        assert [item.question_id for item in found] == ["2440175990_6", "13884293626_6"]
        assert [item.gold for item in found] == [0, 4]
        assert [item.type for item in found] == ["CH", "TP"]
        assert found[0].extra == {"frame_count": "10", "width": "4", "height": "4"}
        assert datasets.detect(path) == "nextqa"

    def test_hub_rows_have_numbers(self):
        row = {"video": 2440175990, "qid": 6, "question": "what", "answer": 1}
        row |= {"type": "CH", "a0": "a", "a1": "b", "a2": "c", "a3": "d", "a4": "e"}
        item = one("nextqa", row)
        assert (item.question_id, item.video_id, item.gold) == (
            "2440175990_6",
            "2440175990",
            1,
        )

    def test_a_table_that_writes_both_together(self, tmp_path):
        path = tmp_path / "next.csv"
        path.write_text(
            ",video_name,question,answer_number,question_id,question_type,a0,a1,answer\n"
            "0,4010069381,how,1,401006938112,CH,roll,tap,tap\n"
            "1,4010069381,why,0,40100693813,CH,roll,tap,tap\n"
        )
        assert datasets.detect(path) == "nextqa"
        found = read("nextqa", path)
        assert [item.question_id for item in found] == ["4010069381_12", "4010069381_3"]
        assert [item.gold for item in found] == [1, None]
        (problem,) = found.report.unusable_gold
        assert problem.kind == "gold contradicts itself"
        assert "letter of 'roll' and the text of 'tap'" in problem.reason

    def test_an_empty_option_column_keeps_the_others_in_place(self, tmp_path):
        path = tmp_path / "val.csv"
        path.write_text(
            NEXTQA_HEAD
            + "1,10,4,4,what,2,6,CH,a,,c,d,e\n"
            + "2,10,4,4,what,2,6,CH,,b,c,d,e\n"
            + "3,10,4,4,what,2,6,CH,a,b,c,,\n"
        )
        found = read("nextqa", path)
        assert [one.kind for one in found.report.left_out] == ["empty option"] * 2
        assert [one.question_id for one in found.report.left_out] == ["1_6", "2_6"]
        assert found[0].options == ("a", "b", "c")
        assert found[0].gold == 2


LONG_ROW = {
    "id": "86Cxy_0",
    "video_id": "86Cxy",
    "video_path": "86Cxy.mp4",
    "subtitle_path": "86Cxy_en.json",
    "question": "What is said?",
    "candidates": ["a hat", "N/A", "a coat"],
    "correct_choice": 2,
    "position": [128, 256],
    "duration": 188.6,
    "duration_group": 600,
    "question_category": "T2O",
    "topic_category": "KH",
    "level": "L1",
    "starting_timestamp_for_subtitles": 10,
}
LONG_LINES = [{"start": "00:00:12.500", "end": "00:00:14", "line": "a hat"}]
LONG_TEXTS = [{"timestamp": [12.5, None], "text": "a hat"}]


class TestLongVideoBench:
    def test_own_form(self):
        item = one("longvideobench", LONG_ROW)
        assert item.options == ("a hat", "N/A", "a coat")  # a text like any other
        assert (item.gold, item.type) == (2, "T2O")
        assert item.strata == {
            "duration_group": "600",
            "topic_category": "KH",
            "level": "L1",
        }
        assert item.extra["position"] == [128, 256]
        assert item.start is item.end is None
        assert item.subtitles.path.endswith("/86Cxy_en.json")  # not there, and counted

    def test_test_split_has_no_gold(self):
        row = {k: v for k, v in LONG_ROW.items() if k != "correct_choice"}
        assert one("longvideobench", row).gold is None

    def test_fillers_of_the_table_are_no_options(self):
        row = {k: v for k, v in LONG_ROW.items() if k != "candidates"}
        texts = ["a hat", "N/A", "a coat", "N/A", "N/A"]
        row |= {f"option{k}": text for k, text in enumerate(texts)}
        found = read("longvideobench", [row])
        assert found[0].options == ("a hat", "a coat")
        assert found[0].gold == 1
        assert found.report.finding("filler options").examples == ("86Cxy_0: 3",)

    def test_a_filler_that_is_right_is_an_option(self):
        row = {k: v for k, v in LONG_ROW.items() if k != "candidates"}
        row |= {"option0": "a hat", "option1": "a coat", "option2": "N/A"}
        item = one("longvideobench", row)
        assert item.options == ("a hat", "a coat", "N/A")
        assert item.gold == 2

    @pytest.mark.parametrize("gold", [-1, 3, 7])
    def test_gold_outside_is_none(self, gold):
        row = {k: v for k, v in LONG_ROW.items() if k != "candidates"}
        row |= {f"option{k}": text for k, text in enumerate(["x", "y", "z", "N/A"])}
        found = read("longvideobench", [row | {"correct_choice": gold}])
        assert found[0].options[:3] == ("x", "y", "z")
        if gold == 3:  # the filler itself
            assert found[0].options[found[0].gold] == "N/A"
        else:
            assert found[0].gold is None
            assert found.report.unusable_gold[0].kind == "gold not an option"

    @pytest.mark.parametrize("cues", [LONG_LINES, LONG_TEXTS])
    def test_subtitles_in_two_shapes_begin_with_the_video(self, tmp_path, cues):
        folder = tmp_path / "subtitles"
        folder.mkdir()
        (folder / "86Cxy_en.json").write_text(json.dumps(cues))
        item = one("longvideobench", LONG_ROW, subtitles=folder)
        assert item.subtitles.offset_s == 10.0
        (cue,) = item.subtitles.read()
        assert (cue.start_s, cue.text) == (2.5, "a hat")
        inline = one("longvideobench", LONG_ROW | {"subtitles": cues})
        assert inline.subtitles.path is None
        assert inline.subtitles.read().cues == item.subtitles.read().cues

    def test_subtitles_of_no_form_are_noted(self):
        found = read("longvideobench", [LONG_ROW | {"subtitles": [{"at": 1}]}])
        assert found[0].subtitles is None
        assert found.report.finding("unreadable subtitles").n == 1
