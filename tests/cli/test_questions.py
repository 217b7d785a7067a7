"""`phasefusion questions`, and `run` on the files of benchmarks."""

import json

import pytest
from pixel_scorer import QUICK, make_clip

from phasefusion.records import iter_passes, read_run


@pytest.fixture(scope="module")
def nextqa(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nextqa")
    (folder / "videos/in").mkdir(parents=True)
    make_clip(folder / "videos/in/401.mp4", 20)
    make_clip(folder / "videos/402.mkv", 20)
    lines = ["video,frame_count,width,height,question,answer,qid,type,a0,a1,a2"]
    lines += [
        f"{video},20,64,48,what is seen,{qid % 3},{qid},DO,a cat,a dog,a bird"
        for video in (401, 402)
        for qid in (1, 2)
    ]
    lines += ["401,20,64,48,what is seen,0,3,DO,a cat,,a bird"]
    (folder / "val.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_questions_gives_the_account(call, nextqa):
    code, out, err = call("questions", nextqa / "val.csv", "--videos", nextqa)
    assert (code, err) == (0, "")
    head, left_out = out.splitlines()
    assert head == ("NExT-QA (nextqa): 5 questions read, 4 kept, 4 with gold, 2 videos")
    assert left_out == ("  left out, empty option (1): 401_3: option B of 3 is empty")


def test_questions_as_json(call, nextqa):
    words = ["questions", nextqa / "val.csv", "--videos", nextqa, "--json"]
    _, out, _ = call(*words)
    report = json.loads(out)
    assert (report["read"], report["kept"]) == (5, 4)
    assert report["left_out"][0]["question_id"] == "401_3"


def test_missing_videos_stop_or_are_left_out(call, nextqa, tmp_path):
    words = ["questions", nextqa / "val.csv", "--videos", tmp_path]
    code, _, err = call(*words)
    assert code == 2
    assert err.count("\n") == 1
    assert "2 videos of NExT-QA are missing: 2 (401, 402)" in err
    make_clip(tmp_path / "402.mp4", 4)
    code, out, _ = call(*words, "--missing-videos", "leave-out")
    assert code == 0
    assert "missing videos: 1 (401)" in out
    assert "left out, missing video (2): 401_1: video '401' was not found" in out


@pytest.mark.filterwarnings("always::phasefusion.errors.DatasetWarning")
@pytest.mark.parametrize("named", [True, False])
def test_run_scores_a_dataset_and_keeps_the_account(call, nextqa, tmp_path, named):
    words = ["run", nextqa / "val.csv", "--videos", nextqa / "videos"]
    words += ["--dataset", "NExT-QA"] if named else []
    words += ["--scorer", "pixel_scorer:make", "--protocol", "quick", *QUICK]
    code, _, err = call(*words, "--out", tmp_path / "run")
    assert code == 0
    assert "warning: NExT-QA (nextqa): 5 questions read, 4 kept" in err
    passes = list(iter_passes(tmp_path / "run"))
    assert {one["question_id"] for one in passes} == {
        "401_1",
        "401_2",
        "402_1",
        "402_2",
    }
    assert {one["benchmark"] for one in passes} == {"NExT-QA"}
    about = read_run(tmp_path / "run")["questions"]
    assert about["n"] == 4
    assert about["file"] == str(nextqa / "val.csv")
    assert about["dataset"]["left_out"][0]["kind"] == "empty option"
    # The same questions elsewhere are the same run.
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("401.mp4", "402.mkv"):
        (moved / name).symlink_to(next(nextqa.rglob(name)))
    words[3] = moved
    code, _, _ = call(*words, "--out", tmp_path / "run")
    assert code == 0
    assert len(list(iter_passes(tmp_path / "run"))) == len(passes)


def test_strata_are_recorded(call, nextqa, tmp_path):
    row = {
        "question_id": "001-1",
        "video_id": "001",
        "videoID": "402",
        "duration": "short",
        "question": "What?",
        "options": ["A. cat", "B. dog"],
        "answer": "B",
    }
    (tmp_path / "v.jsonl").write_text(json.dumps(row))
    words = ["run", tmp_path / "v.jsonl", "--videos", nextqa, "--protocol", "quick"]
    words += ["--scorer", "pixel_scorer:make", "--quiet", "--out", tmp_path / "run"]
    code, _, err = call(*words)
    assert (code, err) == (0, "")
    (one,) = iter_passes(tmp_path / "run")
    assert one["strata"] == {"duration": "short"}
    assert (one["video_id"], one["gold"]) == ("001", 1)


def test_a_folder_of_a_dataset(call, nextqa, tmp_path):
    rows = [
        {"video": "402.mkv", "question": "q", "candidates": ["x", "y"], "answer": "y"}
    ]
    for task in ("action_count", "state_change"):
        (tmp_path / f"{task}.json").write_text(json.dumps(rows))
    code, out, _ = call("questions", tmp_path, "--videos", nextqa)
    assert code == 0
    assert out.startswith("MVBench (mvbench): 2 questions read, 2 kept")


def test_a_dataset_of_no_such_name(call, nextqa):
    code, _, err = call("questions", nextqa / "val.csv", "--dataset", "nexqa")
    assert code == 2
    assert "dataset 'nexqa' is not one of auto, egoschema" in err


def test_gold_file_and_task(call, nextqa, tmp_path):
    ego = {"q_uid": "402", "question": "q", "option 0": "x", "option 1": "y"}
    (tmp_path / "questions.json").write_text(json.dumps([ego]))
    (tmp_path / "gold.json").write_text(json.dumps({"402": 1}))
    words = ["questions", tmp_path / "questions.json", "--videos", nextqa]
    assert "0 with gold" in call(*words)[1]
    assert "1 with gold" in call(*words, "--gold", tmp_path / "gold.json")[1]


ODD = [
    {"question_id": "a", "answer": 0},
    {"question_id": "a", "answer": 0},
    {"question_id": "b", "answer": "Right"},
    {"question_id": "c", "answer": -1},
    {"question_id": "d", "answer": "yes"},
    {"question_id": "e", "answer": 0, "options": ["left", ""]},
    {"question_id": "f", "answer": 0, "options": None},
    {"question_id": "g", "answer": "N/A"},
]


@pytest.fixture
def odd(folder, tmp_path):
    rows = [
        {"video": str(folder / "clip0.mp4"), "question": "?", "options": ["left", "up"]}
        | row
        for row in ODD
    ]
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.filterwarnings("always::phasefusion.errors.DatasetWarning")
def test_run_scores_what_questions_keeps(call, odd, tmp_path):
    code, out, _ = call("questions", odd, "--json")
    account = json.loads(out)
    assert (code, account["read"], account["kept"]) == (0, 8, 5)
    words = ["run", odd, "--scorer", "pixel_scorer:make", "--protocol", "quick", *QUICK]
    code, _, err = call(*words, "--out", tmp_path / "run")
    assert code == 0
    assert "8 questions read, 5 kept" in err
    assert "left out, repeated (1): a: is the same as" in err
    passes = list(iter_passes(tmp_path / "run"))
    assert {one["question_id"] for one in passes} == set("abcdg")
    assert read_run(tmp_path / "run")["questions"]["dataset"] == account


def test_strict_stops_before_anything_is_scored(call, odd, tmp_path):
    words = ["run", odd, "--scorer", "pixel_scorer:make", "--strict", *QUICK]
    code, _, err = call(*words, "--out", tmp_path / "run")
    assert code == 2
    assert "--strict: odd (plain): 8 questions read, 5 kept" in err
    assert not (tmp_path / "run").exists()
    code, _, err = call("questions", odd, "--strict")
    assert code == 2
    assert "3 questions left out, 4 kept without gold" in err


def test_a_file_that_is_all_right_is_strict(call, folder):
    assert call("questions", folder / "questions.jsonl", "--strict")[0] == 0


def test_a_video_of_any_ending_is_found_where_the_file_says(call, folder, tmp_path):
    (tmp_path / "clip.bin").write_bytes((folder / "clip0.mp4").read_bytes())
    row = {"question_id": "a", "video": "clip.bin", "question": "?"}
    (tmp_path / "q.json").write_text(json.dumps([row | {"options": ["x", "y"]}]))
    code, out, _ = call("questions", tmp_path / "q.json")
    assert code == 0
    assert "1 kept" in out


def test_subtitles_that_are_not_there_are_said(call, folder, tmp_path):
    row = {"question_id": "a", "video": str(folder / "clip0.mp4"), "question": "?"}
    row |= {"options": ["x", "y"], "subtitles": "gone.srt"}
    (tmp_path / "q.json").write_text(json.dumps([row]))
    code, _, error = call("questions", tmp_path / "q.json")
    assert code == 2
    assert "1 subtitle files of q are missing: 1 (gone.srt)" in error
    kept = call("questions", tmp_path / "q.json", "--missing-videos", "keep")
    assert kept[0] == 0
    assert "missing subtitles (1)" in kept[1]


def test_a_terminal_that_does_not_know_its_width(call):
    code, out, _ = call("protocols", columns=0)
    assert code == 0
    assert out == call("protocols", columns=80)[1] != ""
