"""A run killed at random moments and resumed loses nothing and repeats nothing."""

import json
import os
import random
import subprocess
import sys
import textwrap
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest
from pass_files import TIMELESS
from pixel_scorer import PixelScorer, make_questions

from phasefusion.errors import RecordError, RecordWarning
from phasefusion.evaluate import evaluate
from phasefusion.records import iter_passes, pass_key
from phasefusion.report import report

OPTIONS = {"budget": 4, "dense": 10, "n_orders": 5, "progress": False}

CODE = textwrap.dedent(
    """
    import json, sys, warnings
    from pixel_scorer import PixelScorer
    from phasefusion.errors import RecordWarning
    from phasefusion.evaluate import evaluate
    warnings.simplefilter("ignore", RecordWarning)
    scorer = PixelScorer(delay_s=0.003)
    print("ready", flush=True)
    evaluate(sys.argv[1], scorer, out=sys.argv[2], **json.loads(sys.argv[3]))
    """
)


def start(questions, out):
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", CODE, str(questions), str(out), json.dumps(OPTIONS)],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def without_timing(made):
    return json.dumps(
        {name: part for name, part in made.to_dict().items() if name != "timing"}
    )


def test_killed_and_resumed_equals_uninterrupted(tmp_path):
    questions = make_questions(tmp_path)
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "whole", **OPTIONS)
    total_bytes = (whole.path / "passes.jsonl").stat().st_size
    rng = random.Random(20)
    out = tmp_path / "killed"
    path = out / "passes.jsonl"
    sizes = [0]
    for target_bytes in sorted(rng.randrange(total_bytes) for _ in range(8)):
        process = start(questions, out)
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None:
            if path.exists() and path.stat().st_size > target_bytes:
                break
            time.sleep(0.0005)
        process.kill()
        process.communicate()
        sizes.append(path.stat().st_size)
    assert sizes == sorted(sizes)
    assert len({size for size in sizes if size < total_bytes}) > 4, "killed too late"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        evaluate(questions, PixelScorer(), out=out, **OPTIONS)
    counts = Counter(map(pass_key, iter_passes(out)))
    assert set(counts.values()) == {1}
    assert counts.keys() == {pass_key(p) for p in iter_passes(whole.path)}
    killed, uninterrupted = report(out), report(whole.path)
    assert without_timing(killed) == without_timing(uninterrupted)
    assert killed.to_markdown() == uninterrupted.to_markdown()


def test_resume_after_a_torn_line(tmp_path):
    questions = make_questions(tmp_path, n_clips=1, per_clip=2)
    whole = evaluate(questions, PixelScorer(), out=tmp_path / "run", **OPTIONS)
    path = whole.path / "passes.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + 3])
    with pytest.warns(RecordWarning, match="cut short by a crash and is left out"):
        partial = report(whole.path)
    assert partial.numbers["items"]["passes"] < whole.n_passes
    with pytest.warns(RecordWarning, match="cut short by a crash and is made again"):
        evaluate(questions, PixelScorer(), out=whole.path, **OPTIONS)
    again = [json.loads(line) | TIMELESS for line in path.read_bytes().splitlines()]
    first = [json.loads(line) | TIMELESS for line in data.splitlines()]
    assert again == first


def test_two_processes_on_one_run(tmp_path):
    questions = make_questions(tmp_path, n_clips=2)
    process = start(questions, tmp_path / "run")
    try:
        deadline = time.monotonic() + 60
        path = tmp_path / "run" / "passes.jsonl"
        while not (path.exists() and path.stat().st_size):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(RecordError, match=f"process {process.pid} is writing"):
            evaluate(questions, PixelScorer(), out=tmp_path / "run", **OPTIONS)
    finally:
        process.kill()
        process.communicate()
