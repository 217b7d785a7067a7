"""The command: what it prints, writes and exits with."""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from made_runs import made_run
from pixel_scorer import QUICK, make_clip

from phasefusion import PhaseGrid, read_clip, tinyvlm
from phasefusion.cli.showing import _marked_frames
from phasefusion.errors import (
    DuplicateFrameWarning,
    FrameCountWarning,
    OptionWarning,
)
from phasefusion.records import iter_passes

ROOT = Path(__file__).parents[2]


def test_run_reports_and_writes(call, folder, tmp_path, scored):
    code, out, err = scored("--out", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "phasefusion report: protocol phasefusion" in out
    assert "Answers changed by a half-step shift" in out
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "passes.jsonl",
        "report.json",
        "report.md",
        "run.json",
        "writer.lock",
    }
    assert str(tmp_path / "run" / "report.md") in out
    command = json.loads((tmp_path / "run" / "run.json").read_text())["command"]
    assert command[1:3] == ["run", "questions.jsonl"]


def test_run_has_a_default_folder_and_resumes(call, folder, scored):
    assert scored("--limit", "1")[0] == 0
    first = len(list(iter_passes(folder / "runs" / "questions")))
    assert scored()[0] == 0
    assert len(list(iter_passes(folder / "runs" / "questions"))) > first > 0


def test_json_is_json_alone(call, tmp_path, scored):
    code, out, err = scored("--out", tmp_path / "run", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads((tmp_path / "run/report.json").read_text())


def test_report_again_and_elsewhere(call, tmp_path, scored):
    scored("--out", tmp_path / "run")
    code, out, _ = call("report", tmp_path / "run", "--out", tmp_path / "else")
    assert code == 0
    assert (tmp_path / "else" / "report.md").read_text() == (
        tmp_path / "run" / "report.md"
    ).read_text()
    code, out, _ = call("report", tmp_path / "run", "--json")
    assert json.loads(out)["protocol"] == "phasefusion"


def test_report_that_cannot_be_saved(call, tmp_path, scored):
    scored("--out", tmp_path / "run")
    for name in ("report.json", "report.md"):
        (tmp_path / "run" / name).unlink()
        (tmp_path / "run" / name).mkdir()
    code, out, err = call("report", tmp_path / "run")
    assert code == 0
    assert "Accuracy" in out
    assert "warning: " in err
    assert "cannot be written" in err
    code, _, err = call("report", tmp_path / "run", "--out", tmp_path / "run")
    assert code == 2
    assert "error: " in err


def test_missing_passes_are_warned_of(call, tmp_path):
    made_run(tmp_path / "run", n_items=2, drop="all")
    code, out, err = call("report", tmp_path / "run", "--json")
    n = json.loads(out)["items"]["passes"]
    assert code == 0
    assert err == (
        f"phasefusion: warning: {n} of {n} passes are missing: made missing\n"
    )


@pytest.mark.parametrize("protocol", ["stableeval", "quick"])
def test_other_protocols(call, tmp_path, protocol, scored):
    code, out, _ = scored("--out", tmp_path / "run", "--protocol", protocol)
    assert code == 0
    assert f"protocol {protocol}" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "none.json", "--scorer", "pixel_scorer:make"], "none.json: No such"),
        (
            ["run", "bad.json", "--scorer", "pixel_scorer:make"],
            "bad.json, line 1, column 2: not",
        ),
        (["run", "questions.jsonl"], "either --model or --scorer"),
        (["run", "questions.jsonl", "--scorer", "x"], "MODULE:NAME"),
        (["run", "questions.jsonl", "--scorer", "no.such:x"], "No module named 'no'"),
        (["run", "questions.jsonl", "--scorer", "json:nope"], "no attribute 'nope'"),
        (["run", "questions.jsonl", "--scorer", "json:dumps"], "without arguments"),
        (["run", "q.jsonl", "--protocol", "best"], "'best' is not one of"),
        (
            ["run", "questions.jsonl", "--model", "m", "--constrain", "letters"],
            "give --path generate with it",
        ),
        (
            ["run", "questions.jsonl", "--dry-run", "--constrain", "letters"],
            "give --path generate with it",
        ),
        (
            "run q --model m --path generate --score text --prior blind".split(),
            "--score text and --prior blind cannot be given with --path generate",
        ),
        (["questions", "nosuch"], "nosuch: No such file"),
        (["questions", "no.ending"], "no.ending: No such file"),
        (["questions", "empty.jsonl"], "empty.jsonl: holds no questions"),
        (["questions", "empty.json"], "empty.json: holds no questions"),
        (["questions", "empty.csv"], "empty.csv: holds no questions"),
        (["questions", "ids.csv"], "has no question_id; it has id, video, question"),
        (["run", "ids.csv", "--scorer", "pixel_scorer:make"], "has no question_id"),
        (["capacity", "empty.csv", "--like", "runs/a"], "holds no questions"),
        (["report", "nowhere"], "nowhere: no run here"),
        (["frames", "none.mp4"], "none.mp4"),
        (["frames", "questions.jsonl"], "questions.jsonl"),
        (["frames", "clip0.mp4", "--origin", "2"], "origin"),
        (
            ["frames", "clip0.mp4", "-b", "1000000000"],
            "3 rows of 1000000000 pictures of 160x120 pixels make a sheet of",
        ),
        (["frames", "clip0.mp4", "--width", "1"], "width_px must be 16"),
        (["samplers", "--frames", "0"], "--frames 0 must be in 1.."),
        (["nonsense"], "No such command"),
        (["run"], "Missing argument"),
    ],
)
def test_bad_use_is_one_message_and_exit_2(call, folder, words, message):
    (folder / "bad.json").write_text("{")
    (folder / "empty.jsonl").write_text("")
    (folder / "empty.json").write_text("[]")
    (folder / "empty.csv").write_text("question_id,video,question,A,B\n")
    (folder / "ids.csv").write_text("id,video,question,A,B\n1,clip0.mp4,w?,a,b\n")
    code, out, err = call(*words, columns=300)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_other_settings_exit_2_naming_them(call, tmp_path, scored):
    scored("--out", tmp_path / "run")
    code, _, err = scored("--out", tmp_path / "run", "--seed", "1")
    assert code == 2
    assert "seed: 0 -> 1" in err


def test_warnings_are_one_line(call, folder, tmp_path, monkeypatch):
    row = json.loads((folder / "questions.jsonl").read_text().splitlines()[0])
    row["options"] = ["same", "same", "other"]
    row["answer"] = "C"
    (folder / "twice.jsonl").write_text(json.dumps(row))
    words = ["--scorer", "pixel_scorer:make", *QUICK, "--out", tmp_path / "run"]
    with warnings.catch_warnings():
        warnings.simplefilter("always", OptionWarning)
        code, _, err = call("run", "twice.jsonl", *words)
    assert code == 0
    first = err.splitlines()[0]
    assert first.startswith("phasefusion: warning: ")
    assert first.endswith("[0-0: 'same']")
    assert "repeated option (1): options of equal text count as one" in first


def test_frames_draws_and_lists(call, folder, tmp_path):
    out = tmp_path / "sheet.png"
    code, text, _ = call("frames", "clip0.mp4", "-b", "4", "-s", "2", "--out", out)
    assert code == 0
    assert out.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "40 frames of " in text
    for row in PhaseGrid(4, 2).indices(40).tolist():
        assert " ".join(map(str, row)) in text
    code, text, _ = call("frames", "clip0.mp4", "-b", "4", "--out", out, "--json")
    found = json.loads(text)
    assert found["png"] == str(out)
    assert [phase["phase"] for phase in found["phases"]] == ["1/6", "1/2", "5/6"]
    assert found["phases"][1]["frame_indices"] == [5, 15, 25, 35]
    assert found["phases"][1]["frame_times_s"] == [0.5, 1.5, 2.5, 3.5]


@pytest.fixture(scope="module")
def damaged(folder):
    """A clip of which parts are noise, named for what makes it."""
    sys.path.insert(0, str(ROOT / "tests" / "clips"))
    import make

    try:
        return make.make("corrupted.mp4", folder)
    except make.MissingEncoder as missing:
        pytest.skip(f"this ffmpeg has no {missing}")


def test_frames_of_a_damaged_file_are_marked(call, damaged, tmp_path):
    out = tmp_path / "sheet.png"
    words = ["frames", damaged, "-b", "20", "-s", "2", "--out", out]
    with warnings.catch_warnings():
        warnings.simplefilter("always", FrameCountWarning)
        _, text, err = call(*words, columns=400)
        found = json.loads(call(*words, "--json")[1])
    assert "the file is damaged" in err
    unsound = {"missing": 0, "damaged": 0}
    clip = read_quietly(damaged, PhaseGrid(20, 2))
    for s, row in enumerate(found["phases"]):
        both = sorted(row["missing"] + row["damaged"])
        assert both == clip.indices[s][clip.missing[s]].tolist()
        assert row["damaged"] == clip.indices[s][clip.damaged[s]].tolist()
        for name in unsound:
            unsound[name] += len(row[name])
            assert all(f" {index} ({name})" in text for index in row[name])
    assert unsound["damaged"] > 0
    assert text.count("(missing)") == unsound["missing"]
    assert text.count("(damaged)") == unsound["damaged"]


def test_marks_of_frames():
    row = {"frame_indices": [1, 5, 5, 9], "missing": [5], "damaged": [9]}
    assert _marked_frames(row) == ["1", "5 (missing)", "5 (missing)", "9 (damaged)"]


def read_quietly(path, grid):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_clip(path, grid, on_error="mark")


def test_frames_tells_the_facts_of_the_file(call, folder, tmp_path):
    make_clip(folder / "first.mp4", 40)
    command = ["ffmpeg", "-loglevel", "error", "-y", "-i", folder / "first.mp4"]
    late = folder / "late.mkv"
    command += ["-c", "copy", "-output_ts_offset", "7", late]
    subprocess.run(command, check=True)
    words = ["frames", "late.mkv", "-b", "2", "-o", tmp_path / "sheet"]
    found = json.loads(call(*words, "--json")[1])
    assert found["path"] == "late.mkv"
    assert found["n_frames"] == 40
    assert found["duration_s"] == pytest.approx(4.0)
    start_s = found["start_s"]
    assert start_s == pytest.approx(7.0, abs=0.3)
    assert found["phases"][1]["frame_times_s"][0] == pytest.approx(start_s + 1.0)
    clip = read_clip(late, PhaseGrid(2, 3))
    assert (found["width"], found["height"]) == (clip.info.width, clip.info.height)
    text = call(*words)[1]
    assert f"{found['width']}x{found['height']}, 4.000 s" in text
    assert f"its times start at {start_s:.3f} s" in " ".join(text.split())
    _, text, _ = call("frames", "--help", columns=200)
    assert "in the working directory" in text


def test_a_sheet_is_a_png(call, tmp_path):
    code, out, err = call("frames", "clip0.mp4", "-o", tmp_path / "x.jpg")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "x.jpg: the sheet is a PNG" in err
    assert not (tmp_path / "x.jpg").exists()


def test_samplers_side_by_side(call):
    code, out, _ = call("samplers", "--frames", "300", "--budget", "8", "--json")
    rows = {row["name"]: row for row in json.loads(out)["samplers"]}
    assert code == 0
    assert (
        rows["left"]["frame_indices"]
        == np.arange(8).__mul__(300).__floordiv__(8).tolist()
    )
    refused = [row["note"] for row in rows.values() if row["frame_indices"] is None]
    assert refused
    assert all("goes by frame rate; give fps" in note for note in refused)
    with_fps = json.loads(
        call("samplers", "-n", "300", "-b", "8", "--fps", "30", "--json")[1]
    )
    assert all(row["frame_indices"] for row in with_fps["samplers"])
    code, text, _ = call("samplers", "-n", "300")
    assert "0 37 75 112 150 187 225 262" in text
    for fps in ("-5.0", "0.0", "nan", "inf"):
        code, out, error = call("samplers", "-n", "300", "--fps", fps)
        assert (code, out) == (2, "")
        assert f"--fps {fps} must be " in error


def test_info(call):
    code, out, _ = call("info", "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found["modules"]) == {"_core", "_cuda", "_frames", "_video"}
    assert "libavcodec" in found["phasefusion"]["ffmpeg"]
    code, text, _ = call("info")
    assert "libavcodec" in text


def test_version(call):
    code, out, _ = call("--version")
    assert code == 0
    assert out.startswith("phasefusion ")


@pytest.mark.parametrize(
    "command",
    [None, "run", "demo", "report", "frames", "samplers", "info", "questions"],
)
def test_help_has_examples(call, command):
    code, out, _ = call(*([command] if command else []), "--help")
    assert code == 0
    assert "phasefusion demo" in out if command is None else "Examples:" in out


def test_run_help_agrees_with_the_loader(call):
    from phasefusion.datasets import load_questions

    _, out, _ = call("run", "--help", columns=300)
    text = " ".join(out.split())
    for part in (
        "question_id",
        "video_id",
        "answer",
        "type",
        "start",
        "end",
        "option_0",
    ):
        assert part in text
        assert part in load_questions.__doc__
    assert "relative to the question file" in text
    assert "JSON list" in text
    assert "may have answer" in text


HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {hidden}:
            raise ImportError(f"{{name}} is hidden")
sys.meta_path.insert(0, Hidden())
sys.argv = ["phasefusion", *sys.argv[1:]]
from phasefusion.cli import main
main()
"""


def without(hidden, *words, cwd):
    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", HIDE.format(hidden=hidden), *words],
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "300"},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_ffmpeg_and_torch(folder):
    hidden = {"phasefusion._video", "torch", "transformers"}
    done = without(hidden, "info", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["modules"]["_video"] is None
    assert found["phasefusion"]["ffmpeg"] is None
    assert found["missing"]["_video"] == (
        "decoding (FFmpeg): phasefusion._video is hidden; install the FFmpeg "
        "development packages, 5.1 or newer (apt-get install pkg-config "
        "libavformat-dev libavcodec-dev libavutil-dev libswscale-dev), and install "
        "phasefusion again from its source folder: pip install ."
    )
    done = without(hidden, "samplers", "-n", "30", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = without(hidden, "frames", "clip0.mp4", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        "phasefusion: error: video decoding is not available: phasefusion._video is "
        "hidden; install the FFmpeg development packages, 5.1 or newer (apt-get "
        "install pkg-config libavformat-dev libavcodec-dev libavutil-dev "
        "libswscale-dev), and install phasefusion again from its source folder: pip "
        "install .\n"
    )
    words = ["run", "questions.jsonl", "--model"]
    folder_of_model = str(tinyvlm.model_dir())
    done = without({"torch"}, *words, folder_of_model, cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        "phasefusion: error: scoring with Hugging Face models needs torch, which "
        "cannot be imported (torch is hidden); install it with: pip install torch "
        "transformers pillow\n"
    )
    done = without(hidden, *words, "./none", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == (
        "phasefusion: error: ./none: there is no such folder; give a folder as "
        "save_pretrained writes it, with the processor's files, or an id of the "
        "Hugging Face hub\n"
    )


def test_help_loads_nothing_heavy(folder):
    heavy = {"numpy", "torch", "transformers", "scipy", "jinja2", "orjson"}
    done = without(heavy, "run", "--help", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "--protocol" in done.stdout


def test_no_color_and_a_closed_pipe(folder, tmp_path):
    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    environment = os.environ | {"PYTHONPATH": path, "NO_COLOR": "1", "FORCE_COLOR": "1"}
    command = "from phasefusion.cli import main; main()"
    words = ["run", "questions.jsonl", "--scorer", "pixel_scorer:make", *QUICK]
    words += ["--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-c", command, *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b[3" not in done.stdout
    process = subprocess.Popen(
        [sys.executable, "-c", command, "report", str(tmp_path / "run")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    _, err = process.communicate()
    assert b"Traceback" not in err


def test_interrupted_run_says_that_it_can_go_on(folder, tmp_path):
    import time

    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    words = ["run", "questions.jsonl", "--scorer", "pixel_scorer:make", *QUICK]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from phasefusion.cli import main; main()",
            *words,
            "--out",
            str(tmp_path / "run"),
        ],
        env=os.environ | {"PYTHONPATH": path, "PIXEL_SCORER_DELAY_S": "0.5"},
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts tests in the background has them ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    passes = tmp_path / "run" / "passes.jsonl"
    deadline = time.monotonic() + 60
    while not (passes.exists() and passes.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "phasefusion: stopped; the same command goes on where this one was\n"


def test_clip_of_one_frame(call, folder, tmp_path):
    make_clip(folder / "one.mp4", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("always", DuplicateFrameWarning)
        code, out, err = call(
            "frames", "one.mp4", "--out", tmp_path / "one.png", "-b", "2"
        )
    assert code == 0
    assert "0 0" in out
    assert err.startswith("phasefusion: warning: one.mp4: a clip of n_frames=1 ")


def test_demo_runs_the_shipped_model_and_resumes(call, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    words = ["demo", "--out", tmp_path / "demo", "--quiet", "--limit"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, out, err = call(*words, "2")
        assert code == 0, err
        assert "2 of " in out
        first = (tmp_path / "demo" / "passes.jsonl").read_bytes()
        code, again, _ = call(*words, "2")
    torch.set_num_threads(threads)
    assert code == 0
    assert again == out
    assert (tmp_path / "demo" / "passes.jsonl").read_bytes() == first
    run = json.loads((tmp_path / "demo" / "run.json").read_text())
    assert run["settings"]["scorer"]["model_type"] == "qwen2_5_vl"
    assert run["settings"]["scorer"]["torch"] == torch.__version__
    assert run["settings"]["scorer"]["prompt"]["text"].startswith("{question}")


def test_report_as_a_page(call, scored, tmp_path):
    scored("--out", tmp_path / "run")
    run = tmp_path / "run"
    code, out, _ = call("report", run, "--html", "--strips", "1", "--out", tmp_path)
    assert code == 0
    assert "report.html" in out
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "data:image/" in page
    code, _, err = call("report", run, "--questions", "elsewhere.jsonl")
    assert code == 2
    assert "--html" in err
    code, _, err = call("report", run, "--strips", "2")
    assert code == 2
    assert "--strips is of the page" in err
    code, _, err = call("report", run, "--html", "--strips", "-1")
    assert code == 2
    assert "--strips is -1" in err
