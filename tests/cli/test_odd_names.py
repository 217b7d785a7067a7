"""Folders whose names are no text: everything is done in them, and said of them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pixel_scorer import QUICK

from phasefusion import tinyvlm
from phasefusion.errors import RecordError
from phasefusion.records import RunWriter, iter_passes, read_run

NAME = os.fsdecode(b"caf\xe9\n'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("names") / NAME
    made.mkdir()
    shutil.copy(tinyvlm.questions_path().parent / "clip-000.mp4", made / "v.mp4")
    (made / "bad.mp4").write_bytes(b"no video")
    same = {"question": "q?", "options": ["a", "b"], "answer": 0}
    rows = [{"question_id": one, "video": f"{one}.mp4"} | same for one in ("v", "bad")]
    (made / f"{NAME}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return made.parent


def command(folder, *words, codes=(0,)):
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join([tests, *sys.path])
    made = subprocess.run(
        [sys.executable, "-m", "phasefusion", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert made.returncode in codes, made.stderr
    assert "Traceback" not in made.stderr
    return made.stdout


def test_every_command_takes_names_that_are_no_text(folder):
    questions, run = f"{NAME}/{NAME}.jsonl", f"{NAME}/run"
    words = ["--scorer", "pixel_scorer:make", "--protocol", "stableeval", *QUICK]
    command(folder, "run", questions, *words, "--out", run, "--cache", f"{NAME}/cache")
    rows = list(iter_passes(folder / run))
    assert {row["benchmark"] for row in rows} == {"caf\\udce9\n'"}
    by_id = {row["question_id"]: row for row in rows}
    assert by_id["v"]["answer"] is not None
    assert "/caf\\udce9\n'/bad.mp4: it is not a video" in by_id["bad"]["invalid"]
    assert (
        read_run(folder / run)["questions"]["file"]
        == "caf\\udce9\n'/caf\\udce9\n'.jsonl"
    )
    # the same command finds every pass
    command(folder, "run", questions, *words, "--out", run)
    assert list(iter_passes(folder / run)) == rows
    assert "caf\\udce9" in command(folder, "report", run)
    command(folder, "gate", run, run, "--json", codes=(3,))  # too few to decide
    history = f"{NAME}/h.sqlite"
    command(folder, "monitor", "add", history, run, "--at", "2026-11-30")
    command(folder, "monitor", "show", history, "--save-html", f"{NAME}/h.html")


def test_a_question_whose_id_no_file_can_hold_is_refused(tmp_path):
    row = {"question_id": "caf\udce9", "benchmark": "b", "arm": "single"}
    row |= {"phase_index": 0, "order": [0], "n_phases": 1}
    with (
        RunWriter(tmp_path, {"settings": {}, "versions": {}}) as writer,
        pytest.raises(RecordError, match="half of a surrogate pair; give it a name"),
    ):
        writer.append([row])
    assert (tmp_path / "passes.jsonl").read_bytes() == b""
