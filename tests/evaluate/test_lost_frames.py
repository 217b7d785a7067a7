"""Videos of which a part is lost: marked in every pass, counted, or refused."""

import json

import pytest
from pixel_scorer import PixelScorer

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion.errors import FrameCountWarning, VideoError
from phasefusion.records import check, iter_passes

OPTIONS = {"budget": 4, "protocol": "quick", "progress": False}

pytestmark = pytest.mark.filterwarnings("ignore::phasefusion.errors.FrameCountWarning")


def halved(data):
    """First half of a file whose table of frames comes first."""
    assert data.index(b"moov") < data.index(b"mdat")
    return data[: len(data) // 2]


@pytest.fixture
def questions(tmp_path):
    whole = next(iter(sorted(tinyvlm.questions_path().parent.glob("*.mp4"))))
    (tmp_path / "whole.mp4").write_bytes(whole.read_bytes())
    (tmp_path / "half.mp4").write_bytes(halved(whole.read_bytes()))
    rows = [
        {"question_id": f"{name}{part}", "video": f"{name}.mp4", "question": "Which?"}
        | {"options": ["x", "y"], "answer": 0}
        | ({"start": 0, "end": 0.5} if part else {})
        for name in ("whole", "half")
        for part in ("", "-part")
    ]
    path = tmp_path / "q.json"
    path.write_text(json.dumps(rows))
    return path


def test_passes_say_what_is_lost_and_the_report_counts_them(questions, tmp_path):
    with pytest.warns(FrameCountWarning):
        run = pf.evaluate(questions, PixelScorer(), out=tmp_path / "run", **OPTIONS)
    said = {p["question_id"]: p.get("video_problem") for p in iter_passes(run.path)}
    assert said["whole"] is said["whole-part"] is None
    assert said["half"].startswith("the header says ")
    assert said["half-part"] == said["half"]
    report = run.report()
    assert report.numbers["items"]["incomplete_videos"] == [
        {"video": "half", "questions": 2, "reason": said["half"]}
    ]
    line = "2 questions are about 1 video of which a part is lost"
    assert line in report.to_markdown()
    assert line in str(report).replace("\n", " ")
    assert not check(run.path).findings


def test_raise_stops(questions, tmp_path):
    with pytest.raises(VideoError, match=r"half\.mp4: the header says .* decode"):
        pf.evaluate(
            questions, PixelScorer(), out=tmp_path / "run", on_error="raise", **OPTIONS
        )
    assert {p["video_id"] for p in iter_passes(tmp_path / "run")} == {"whole"}
