"""Videos of which a part is lost: marked in every pass, counted, or refused."""

import json
import shutil
import subprocess
from dataclasses import replace

import pytest
from pixel_scorer import PixelScorer

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion._video_checks import lost_frames
from phasefusion.datasets import Item
from phasefusion.errors import FrameCountWarning, VideoError
from phasefusion.records import check, iter_passes
from phasefusion.video import Video

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
        {
            "benchmark": "q",
            "video": "half",
            "questions": 2,
            "answered": 2,
            "reason": said["half"],
        }
    ]
    line = "2 questions are about 1 video of which a part is lost"
    assert f"{line}, and saw what is left: q/half" in report.to_markdown()
    assert line in str(report).replace("\n", " ")
    assert not check(run.path).findings


def test_empty_chunks_of_avi_are_no_lost_frames(tmp_path):
    """AVI has a rate for all frames, and fills a slower part with chunks of nothing."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("the ffmpeg program is not installed")
    source, path = tmp_path / "source.mp4", tmp_path / "slow.avi"
    part = ["-vf", r"select=not(mod(n\,7))", "-fps_mode", "vfr"]
    size = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=25:duration=4"]
    for words in ([*size, source], ["-i", source, *part, path]):
        command = ["ffmpeg", "-loglevel", "quiet", "-y", "-threads", "1", *words]
        if subprocess.run(command).returncode:
            pytest.skip("this ffmpeg cannot make the clip")
    with Video(path) as video:
        info = video.info
    assert info.n_frames_header > 5 * info.n_frames
    assert not info.damaged
    item = Item("1", "b", str(path), "v", "?", ("a", "b"))
    run = pf.evaluate(
        [item], PixelScorer(), out=tmp_path / "run", on_error="raise", **OPTIONS
    )
    assert all(p.get("video_problem") is None for p in iter_passes(run.path))
    assert not run.report().numbers["items"]["incomplete_videos"]
    cut = replace(info, n_frames=5, duration_s=info.duration_s / 3)
    assert "decode" in lost_frames(cut)


def test_raise_stops(questions, tmp_path):
    with pytest.raises(VideoError, match=r"half\.mp4: the header says .* decode"):
        pf.evaluate(
            questions, PixelScorer(), out=tmp_path / "run", on_error="raise", **OPTIONS
        )
    assert {p["video_id"] for p in iter_passes(tmp_path / "run")} == {"whole"}
