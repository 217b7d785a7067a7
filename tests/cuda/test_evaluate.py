"""Whole runs whose frames a GPU resizes, on the emulated driver."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("phasefusion._video", reason="built without FFmpeg")
from emulator import forget
from pixel_scorer import QUICK, PixelScorer, make_questions

from phasefusion import evaluate, tinyvlm
from phasefusion.errors import (
    BackendUnavailableError,
    DeviceError,
    FallbackWarning,
    FrameError,
)
from phasefusion.records import iter_passes

ROOT = Path(__file__).parents[2]
SMALL = {"budget": 2, "phases": 2, "dense": 4, "n_orders": 2, "progress": False}
#: What says when and where, and differs from run to run.
MOVING = ("decode_seconds", "score_seconds", "seconds")


class SizedScorer(PixelScorer):
    """Looks at frames of one size."""

    def frame_size(self, height, width, n_frames):
        return (24, 40)


class CudaScorer(SizedScorer):
    frames_device = "cuda"


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    if shutil.which("ffmpeg") is None:
        pytest.skip("the ffmpeg program is not installed")
    return make_questions(tmp_path_factory.mktemp("q"), n_clips=2, per_clip=2)


@pytest.fixture
def nothing(monkeypatch):
    """A machine without a driver."""
    monkeypatch.setenv("PHASEFUSION_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    forget()
    yield
    forget()


def passes(folder):
    """All that was recorded, but for what took how long."""
    found = []
    for row in iter_passes(folder):
        found.append({k: v for k, v in row.items() if k not in MOVING})
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def frames_of(folder):
    return json.loads((folder / "run.json").read_text())["host"].get("frames")


def test_a_run_is_the_same_wherever_frames_are_resized(gpu, questions, tmp_path):
    evaluate(questions, SizedScorer(), out=tmp_path / "cpu", **SMALL)
    assert frames_of(tmp_path / "cpu") is None
    assert gpu.launches() == []
    for name, scorer, options in (
        ("cuda", SizedScorer(), {"frames_device": "cuda"}),
        ("auto", SizedScorer(), {"frames_device": "auto"}),
        ("own", CudaScorer(), {}),
    ):
        gpu.reset()
        evaluate(questions, scorer, out=tmp_path / name, **SMALL, **options)
        assert {kernel for kernel, _ in gpu.launches()} == {"pf_tiled"}
        said = frames_of(tmp_path / name)
        assert said["used"] == "cuda"
        assert said["asked"] == options.get("frames_device", "cuda")
        assert said["gpu"] == "cuemu"
        rows = passes(tmp_path / name)
        assert len(rows) > 20
        assert rows == passes(tmp_path / "cpu")


def test_a_run_goes_on_elsewhere(gpu, questions, tmp_path):
    whole = evaluate(questions, SizedScorer(), out=tmp_path / "cpu", **SMALL)
    out = tmp_path / "run"
    one = evaluate(
        questions, SizedScorer(), out=out, limit=1, frames_device="cuda", **SMALL
    )
    rest = evaluate(questions, SizedScorer(), out=out, **SMALL)
    assert (one.n_new + rest.n_new, rest.n_passes) == (whole.n_new, whole.n_passes)
    assert passes(out) == passes(tmp_path / "cpu")


def test_parts_of_videos(gpu, questions, tmp_path):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    for row in rows:
        row |= {"start": 0.5, "end": 2.5, "video": str(questions.parent / row["video"])}
    path = tmp_path / "parts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate(path, SizedScorer(), out=tmp_path / "cpu", **SMALL)
    evaluate(path, CudaScorer(), out=tmp_path / "cuda", **SMALL)
    assert gpu.launches()
    assert passes(tmp_path / "cpu") == passes(tmp_path / "cuda")


def test_the_shipped_model(gpu, tmp_path):
    pytest.importorskip("transformers")
    from phasefusion.scoring import HFOptionScorer

    made = {}
    for device in ("cpu", "cuda"):
        scorer = HFOptionScorer.from_pretrained(
            tinyvlm.model_dir(), device="cpu", size=(112, 112), frames_device=device
        )
        assert scorer.frames_device == device
        assert "frames_device" not in json.dumps(scorer.describe())
        out = tmp_path / device
        made[device] = evaluate(
            tinyvlm.questions_path(),
            scorer,
            out=out,
            limit=1,
            protocol="quick",
            budget=4,
            progress=False,
        )
    assert made["cuda"].n_new == made["cpu"].n_new > 0
    assert gpu.launches()
    assert frames_of(tmp_path / "cuda")["used"] == "cuda"
    assert passes(tmp_path / "cuda") == passes(tmp_path / "cpu")


def test_frames_that_a_scorer_resizes_itself(gpu):
    """Where the model wants another resize than decoding makes."""
    pytest.importorskip("transformers")
    from phasefusion import PhaseGrid
    from phasefusion.scoring import HFOptionScorer
    from phasefusion.video import Clip

    rng = np.random.default_rng(0)
    clip = Clip(
        frames=rng.integers(0, 256, (1, 2, 96, 60, 3), np.uint8),
        indices=np.zeros((1, 2), np.int64),
        times_s=np.zeros((1, 2)),
        missing=np.zeros((1, 2), bool),
        grid=PhaseGrid(2),
        info=None,
    )
    scores = []
    for device in ("cpu", "cuda"):
        scorer = HFOptionScorer.from_pretrained(
            tinyvlm.model_dir(), device="cpu", size=(112, 112), frames_device=device
        )
        scores.append(scorer.score(clip, "What?", ["a", "b"]).logprobs)
    assert np.array_equal(*scores)
    assert gpu.launches()


def test_without_a_gpu(nothing, questions, tmp_path):
    with pytest.raises(BackendUnavailableError, match="no CUDA driver"):
        evaluate(questions, CudaScorer(), out=tmp_path / "none", **SMALL)
    assert not (tmp_path / "none").exists()
    with pytest.warns(FallbackWarning, match="no CUDA driver") as warned:
        evaluate(
            questions,
            SizedScorer(),
            out=tmp_path / "auto",
            frames_device="auto",
            **SMALL,
        )
    assert sum(w.category is FallbackWarning for w in warned) == 1
    said = frames_of(tmp_path / "auto")
    assert (said["asked"], said["used"]) == ("auto", "cpu")
    assert "no CUDA driver" in said["why"]
    with pytest.raises(FrameError, match="device must be"):
        evaluate(questions, SizedScorer(), out=tmp_path, frames_device="gpu", **SMALL)


def test_a_device_that_breaks_stops_the_run(gpu, questions, tmp_path, monkeypatch):
    monkeypatch.setenv("CUEMU_FAIL", "cuMemcpyDtoHAsync_v2:2:999")
    gpu.reset()
    out = tmp_path / "run"
    with pytest.raises(DeviceError, match="cuMemcpyDtoHAsync"):
        evaluate(questions, CudaScorer(), out=out, **SMALL)
    monkeypatch.delenv("CUEMU_FAIL")
    gpu.reset()
    evaluate(questions, CudaScorer(), out=out, **SMALL)  # goes on
    evaluate(questions, SizedScorer(), out=tmp_path / "cpu", **SMALL)
    assert all(row["invalid"] is None for row in passes(out))
    assert passes(out) == passes(tmp_path / "cpu")


def test_the_command(questions, tmp_path):
    command = [sys.executable, "-m", "phasefusion", "run", questions, "--scorer"]
    command += [ROOT / "tests/cuda/sized_scorer.py:make", "--out", tmp_path / "run"]
    command += [*QUICK, "--frames-device", "auto"]
    environment = {"PHASEFUSION_CUDA_DRIVER": "/nowhere/libcuda.so.1"}
    environment |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("resizing on the CPU") == 1
    said = frames_of(tmp_path / "run")
    assert (said["asked"], said["used"]) == ("auto", "cpu")
