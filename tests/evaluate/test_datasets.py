"""What `evaluate` makes of datasets: the account is kept, the files may move."""

import pytest
from pixel_scorer import PixelScorer, make_clip

from phasefusion import datasets
from phasefusion.errors import DatasetWarning, RecordError
from phasefusion.evaluate import evaluate
from phasefusion.records import iter_passes, read_run

ROWS = [
    {"q_uid": "v1", "question": "What?", "option 0": "x", "option 1": "y"},
    {"q_uid": "v2", "question": "", "option 0": "x", "option 1": "y"},
]


@pytest.fixture
def videos(tmp_path):
    make_clip(tmp_path / "v1.mp4", 12)
    return tmp_path


def quick(questions, out):
    return evaluate(
        questions,
        PixelScorer(),
        out=out,
        protocol="quick",
        budget=4,
        progress=False,
    )


def read(videos, rows=ROWS, **options):
    return datasets.read("egoschema", rows, videos=videos, **options)


def test_the_account_is_kept_in_the_run(videos):
    found = read(videos)
    run = quick(found, videos / "run")
    about = read_run(run.path)["questions"]
    assert about["dataset"] == found.report.to_dict()
    assert about["file"] is None
    assert (about["n"], run.n_passes) == (1, 1)
    (one,) = iter_passes(run.path)
    assert one["benchmark"] == "EgoSchema"
    assert "strata" not in one


def test_another_account_of_other_questions_is_another_run(videos):
    quick(read(videos), videos / "run")
    assert quick(read(videos), videos / "run").n_new == 0
    changed = read(videos, [ROWS[0] | {"option 1": "z"}])
    with pytest.raises(RecordError, match="v1"):
        quick(changed, videos / "run")


def test_subtitles_may_lie_elsewhere(videos):
    row = ROWS[0] | {"question_id": "q", "video_id": "v1", "options": ["A. x", "B. y"]}
    runs = []
    for name in ("a", "b"):
        folder = videos / name
        folder.mkdir()
        (folder / "v1.srt").write_text("1\n00:00:00,0 --> 00:00:01,0\nhi\n")
        found = datasets.read("videomme", [row], videos=videos, subtitles=folder)
        assert found[0].subtitles.path == str(folder / "v1.srt")
        runs.append(quick(found, videos / "run").n_new)
    assert runs == [1, 0]


def test_a_folder_of_questions(videos):
    rows = '[{"video": "v1", "question": "q", "candidates": ["x", "y"], "answer": "y"}]'
    bad = rows.replace('"y"]', '""]')
    (videos / "json").mkdir()
    (videos / "json" / "state_change.json").write_text(rows)
    (videos / "json" / "action_count.json").write_text(bad)
    with pytest.warns(DatasetWarning, match="2 questions read, 1 kept"):
        run = quick(videos, videos / "run")
    (one,) = iter_passes(run.path)
    assert (one["question_id"], one["gold"]) == ("state_change/0", 1)
