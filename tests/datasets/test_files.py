"""Files that questions name: what becomes of missing ones, and names as written."""

import csv
import json
import tracemalloc

import pytest

from phasefusion import datasets
from phasefusion._sources import files
from phasefusion._sources.findings import Finding
from phasefusion.anchors.rule import AnchorRule
from phasefusion.datasets.loading import announce
from phasefusion.datasets.report import DatasetReport
from phasefusion.datasets.videos import Folder
from phasefusion.errors import DatasetError, DatasetWarning
from phasefusion.tinyvlm import questions_path
from phasefusion.video import Video

PLAIN = {
    "question_id": "q",
    "video": "a.mp4",
    "question": "What?",
    "options": ["x", "y"],
    "answer": 0,
}
LONG = {
    "id": "q",
    "video_path": "a.mp4",
    "subtitle_path": "a_en.json",
    "question": "What?",
    "candidates": ["x", "y"],
    "correct_choice": 0,
    "starting_timestamp_for_subtitles": 0,
}
MME = {
    "question_id": "001-1",
    "video_id": "001",
    "videoID": "a",
    "url": "",
    "task_type": "t",
    "question": "What?",
    "options": ["A. x", "B. y", "C. z", "D. w"],
    "answer": "A",
}
SRT = "1\n00:00:01,000 --> 00:00:02,000\nhello\n"
CUES = [{"start": 1, "end": 2, "text": "hello"}]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.mp4").touch()
    return tmp_path


def write(folder, *rows):
    path = folder / "q.json"
    path.write_text(json.dumps(rows))
    return path


def said(item):
    return [cue.text for cue in item.subtitles.read()]


class TestNamedSubtitlesThatAreGone:
    def test_are_an_error_in_the_own_form_as_videos_are(self, folder):
        path = write(
            folder,
            PLAIN | {"subtitles": "gone.srt"},
            PLAIN | {"question_id": "r", "subtitles": "gone.srt"},
            PLAIN | {"question_id": "s"},
        )
        with pytest.raises(
            DatasetError,
            match=r"1 subtitle files of q are missing: 1 \(gone\.srt\); 2 of 3 ques",
        ):
            datasets.read("auto", path)
        with pytest.raises(DatasetError, match="there is no subtitle file"):
            datasets.load_questions(path)

    def test_leave_their_question_out(self, folder):
        path = write(
            folder,
            PLAIN | {"subtitles": "gone.srt"},
            PLAIN | {"question_id": "r"},
        )
        report = datasets.read("auto", path, missing_videos="leave-out").report
        (problem,) = report.left_out
        assert (problem.question_id, problem.kind) == ("q", "missing subtitles")
        assert str(folder / "gone.srt") in problem.reason
        assert report.missing_subtitles == ("gone.srt",)
        assert report.to_dict()["missing_subtitles"] == ["gone.srt"]
        assert "missing subtitles: 1 (gone.srt)" in str(report)

    def test_can_be_left_to_the_run_which_has_the_path(self, folder):
        path = write(folder, PLAIN | {"subtitles": "gone.srt"})
        found = datasets.read("auto", path, missing_videos="keep")
        assert found[0].subtitles.path == str(folder / "gone.srt")
        assert found.report.finding("missing subtitles").n == 1
        assert found.report.with_subtitles == 0
        with pytest.raises(FileNotFoundError):
            found[0].subtitles.read()

    @pytest.mark.parametrize(
        ("form", "row"),
        [
            ("longvideobench", LONG),
            ("videomme", MME | {"subtitles": "a_en.json"}),
            ("longvideobench", LONG | {"subtitle_path": "x", "subtitle": "a_en.json"}),
        ],
    )
    @pytest.mark.parametrize("with_folder", [False, True])
    def test_are_counted_in_benchmarks(self, folder, form, row, with_folder):
        (folder / "s").mkdir()
        where = folder / "s" if with_folder else folder
        options = {"videos": folder, "subtitles": where if with_folder else None}
        found = datasets.read(form, [row], **options)
        assert found[0].subtitles.path == str(where / "a_en.json")
        assert found.report.missing_subtitles == ("a_en.json",)
        assert found.report.finding("missing subtitles").n == 1
        with pytest.warns(DatasetWarning, match="missing subtitles: 1"):
            datasets.load(form, [row], **options)
        (where / "a_en.json").write_text(json.dumps(CUES))
        found = datasets.read(form, [row], **options)
        assert said(found[0]) == ["hello"]
        assert found.report.missing_subtitles == ()
        assert found.report.with_subtitles == 1


def test_an_anchor_says_that_the_subtitles_are_gone():
    path = json.loads(questions_path().read_text().splitlines()[0])["video"]
    videos = questions_path().parent
    row = LONG | {"video_path": path}
    (item,) = datasets.read("longvideobench", [row], videos=videos)
    phrase, subtitles, _ = AnchorRule(phrase="hello").request(item)
    with Video(item.video) as video:
        placed = AnchorRule(methods=("subtitle", "centre"), phrase="hello").place(
            video, phrase=phrase, subtitles=subtitles
        )
    assert placed.anchor.kind == "centre"
    assert "a_en.json" in placed.anchor.tried[0].why
    assert "No such file" in placed.anchor.tried[0].why


class TestWhatARowSaysOfItsSubtitles:
    @pytest.mark.parametrize("name", ["s.txt", "s", " s.srt ", "[en] s.srt"])
    def test_a_named_file_may_have_any_ending(self, folder, name):
        (folder / name).write_text(SRT)
        path = write(folder, PLAIN | {"subtitles": name})
        assert said(datasets.read("auto", path)[0]) == ["hello"]
        assert said(datasets.load_questions(path)[0]) == ["hello"]

    @pytest.mark.parametrize("text", [SRT, json.dumps(CUES), CUES])
    def test_the_subtitles_themselves_also_as_a_text(self, folder, text):
        path = write(folder, PLAIN | {"subtitles": text})
        assert said(datasets.read("auto", path)[0]) == ["hello"]
        assert said(datasets.load_questions(path)[0]) == ["hello"]
        found = datasets.read(
            "longvideobench", [LONG | {"subtitles": text}], videos=folder
        )
        assert said(found[0]) == ["hello"]

    @pytest.mark.parametrize("value", [7, {"at": 1}, [{"at": 1}], '[{"at": 1}]', True])
    def test_what_is_none_is_a_finding(self, folder, value):
        path = write(folder, PLAIN | {"subtitles": value})
        found = datasets.read("auto", path)
        assert found[0].subtitles is None
        assert found.report.finding("unreadable subtitles").n == 1

    def test_an_offset_that_is_none_is_a_finding(self, folder):
        (folder / "a_en.json").write_text(json.dumps(CUES))
        row = LONG | {"starting_timestamp_for_subtitles": "soon"}
        found = datasets.read("longvideobench", [row], videos=folder)
        assert found[0].subtitles.offset_s == 0.0
        assert "'soon'" in str(found.report.finding("unusable offset of subtitles"))


class TestWhiteSpaceAtTheEnds:
    NAME = " a.mp4 "

    def test_belongs_to_names_of_files(self, folder):
        (folder / self.NAME).touch()
        path = write(folder, PLAIN | {"video": self.NAME})
        for (item,) in (datasets.read("auto", path), datasets.load_questions(path)):
            assert item.video == str(folder / self.NAME)
        (folder / self.NAME).unlink()
        with pytest.raises(DatasetError, match="white space at the ends is part of"):
            datasets.read("auto", path)
        with pytest.raises(DatasetError, match="there is no video file"):
            datasets.load_questions(path)

    @pytest.mark.parametrize(
        ("form", "row"),
        [
            ("longvideobench", LONG | {"video_path": NAME}),
            ("mvbench", {"video": NAME, "question": "?", "candidates": ["x", "y"]}),
            ("perceptiontest", {"video_name": NAME, "id": 1, "question": "What?"}),
            ("nextqa", {"video": NAME, "qid": 1, "question": "What?"}),
            ("egoschema", {"q_uid": NAME, "question": "What?"}),
            ("star", {"question_id": "I_1", "video_id": NAME, "question": "What?"}),
            ("mlvu", {"video": NAME, "question": "What?", "task": "t"}),
            ("videomme", MME | {"videoID": NAME}),
            ("tempcompass", {"video_id": NAME, "dim": "d", "question": "What?"}),
        ],
    )
    def test_of_benchmarks_too(self, tmp_path, form, row):
        row = {"options": ["x", "y"], "task": "t"} | row
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / self.NAME).touch()
        (item,) = datasets.read(form, [row], videos=tmp_path)
        assert item.video == str(tmp_path / "deep" / self.NAME)
        assert item.question_id == item.question_id.strip()

    def test_does_not_belong_to_texts(self, folder):
        row = PLAIN | {
            "question_id": " q ",
            "question": " What?\n",
            "options": [" x", "y\t"],
        }
        path = write(folder, row)
        for (item,) in (datasets.read("auto", path), datasets.load_questions(path)):
            assert item.question_id == "q"
            assert (item.question, item.options) == ("What?", ("x", "y"))

    @pytest.mark.parametrize("name", ["question_id", "question"])
    def test_alone_is_no_text(self, folder, name):
        path = write(folder, PLAIN | {name: "  "})
        with pytest.raises(DatasetError, match=f"{name} missing or empty"):
            datasets.load_questions(path)


def test_the_very_name_comes_before_another_ending(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("a.mp4", "a.mkv"):
        (tmp_path / "deep" / name).touch()
    assert Folder(tmp_path).find("a.mkv").path.name == "a.mkv"
    assert Folder(tmp_path).find("a").path.name == "a.mp4"


class TestLargeFiles:
    """Files of lines are never in memory as a whole."""

    ROW = PLAIN | {"question": "x" * 10_000}

    @pytest.fixture(params=[".jsonl", ".csv", ".tsv"])
    def path(self, folder, request):
        path = folder / f"q{request.param}"
        rows = [self.ROW | {"question_id": f"q{k}"} for k in range(800)]
        with path.open("w", newline="") as file:
            if request.param == ".jsonl":
                file.writelines(json.dumps(row) + "\n" for row in rows)
            else:
                separator = "," if request.param == ".csv" else "\t"
                table = csv.DictWriter(file, self.ROW, delimiter=separator)
                table.writeheader()
                cells = [row | {"options": json.dumps(["x", "y"])} for row in rows]
                table.writerows(cells)
        return path

    def test_go_through_in_pieces(self, path):
        tracemalloc.start()
        try:
            if path.suffix == ".jsonl":
                n = sum(1 for _ in files.read_jsonl(path))
            else:
                separator = files.TABLES[path.suffix]
                with files.opened(path, "") as lines:
                    n = sum(1 for _ in files.separated(path, lines, separator)) - 1
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert n == 800
        assert peak < 1e6 < path.stat().st_size / 8 + 1

    def test_are_there_once_as_questions(self, path):
        tracemalloc.start()
        try:
            assert len(datasets.read("auto", path)) == 800
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            assert len(datasets.load_questions(path)) == 800
            own = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert max(peak, own) < 1.6 * path.stat().st_size

    def test_have_no_limit_of_size(self, path, monkeypatch):
        monkeypatch.setattr(files, "_MAX_BYTES", 1000)
        assert len(datasets.read("auto", path)) == 800
        path = write(path.parent, self.ROW)
        with pytest.raises(DatasetError, match=r"larger than .* save it as \.jsonl"):
            datasets.read("auto", path)

    @pytest.mark.parametrize("form", ["jsonl", "csv"])
    def test_name_the_line_that_is_no_text(self, folder, form):
        path = folder / f"q.{form}"
        lines = [b"\xef\xbb\xbf{}" if form == "jsonl" else b"abc"] + [b"{}"] * 9000
        path.write_bytes(b"\n".join([*lines, b'{"a": "caf\xe9"}']))
        at = 6 if form == "jsonl" else 4
        with pytest.raises(
            DatasetError, match=rf"line 9002: not UTF-8 .*\(byte {at + 27010}\)"
        ):
            datasets.read("plain", path)


def test_a_field_that_is_not_used_is_said_once():
    unused = Finding("field not used", "kept as it is", 1, ("note",))
    found = DatasetReport(
        *("plain", "q", (), 1, 1, 1),
        findings=(unused,),
        missing_subtitles=("gone.srt",),
    )
    with pytest.warns(DatasetWarning) as caught:
        announce(found)
    assert "".join(str(one.message) for one in caught).count("field not used") == 1


def test_what_a_file_looks_like_is_told_without_copying_it():
    text = '{"a": 1}\n{"a": 2}\n{"a": 3}\n' + "x" * 2**23
    tracemalloc.start()
    said = files._rather(text)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "name it .jsonl" in said
    assert most < 2**20
