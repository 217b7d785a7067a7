"""Predicted against measured times of the shipped model.

    python benchmarks/capacity.py [--rounds N] [--json FILE]

A pilot run of the shipped model gives the costs of decoding, visual prefixes and
orders; runs with other questions, protocols and numbers of frames are then predicted
and made. Processor time is compared, which neighbours on the machine lengthen less than
wall time; that is printed beside it, and of the rounds the fastest counts. Exits with 1
when a prediction is off by more than 15 % for the pilot's own protocol, or 35 % for
another.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import Any
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import _report
import torch
from _report import Goal, Row

from phasefusion import tinyvlm
from phasefusion.capacity import Workload, fit, forecast, survey
from phasefusion.datasets import Item, load_questions
from phasefusion.evaluate import evaluate
from phasefusion.records import read_run
from phasefusion.scoring import HFOptionScorer

#: Largest error in percent for the protocol of the pilot, and for others.
GOALS = {True: Goal(15, most=True), False: Goal(35, most=True)}
PILOT = {"protocol": "phasefusion", "budget": 8, "dense": 32, "n_orders": 10}
LATIN = {"protocol": "stableeval", "budget": 8}
#: Name, questions and settings of the runs that are predicted.
RUNS = (
    ("As the pilot, other videos", slice(100, 130), PILOT),
    ("One pass of 8 frames", slice(100, 190), {"protocol": "quick", "budget": 8}),
    ("3 × 8 in Latin orders", slice(100, 160), LATIN),
    ("3 × 16 in Latin orders", slice(100, 130), LATIN | {"budget": 16}),
    ("3 × 4 in ten orders", slice(130, 160), PILOT | {"budget": 4, "dense": 16}),
)


class Apart:
    """The scorer with a call for every arm of every question."""

    def __init__(self, scorer: HFOptionScorer) -> None:
        self.score = scorer.score
        self.frame_size = scorer.frame_size
        self.describe = scorer.describe


@contextmanager
def processor_time():
    """Let the evaluation record processor time in place of wall time."""
    with mock.patch("time.perf_counter", time.process_time):
        yield


def measure(
    scorer: Any, items: list[Item], settings: dict[str, Any]
) -> tuple[float, float, Any, Any]:
    """Run and return processor and wall seconds, the settings, and the fitted costs."""
    videos = survey(item.video for item in items)
    by_id = {(one.benchmark, one.video_id): videos[one.video] for one in items}
    with tempfile.TemporaryDirectory() as folder, processor_time():
        wall_s, cpu_s = time.monotonic(), time.process_time()
        run = evaluate(items, scorer, out=folder, progress=False, **settings)
        cpu_s = time.process_time() - cpu_s
        wall_s = time.monotonic() - wall_s
        return (
            cpu_s,
            wall_s,
            read_run(run.path)["settings"],
            fit(run.path, videos=by_id),
        )


def check_predictions(rounds: int) -> list[Row]:
    """Predict runs of the shipped model and make them."""
    torch.set_num_threads(1)
    scorer = HFOptionScorer.from_pretrained(
        str(tinyvlm.model_dir()), device="cpu", dtype="float32"
    )
    apart = Apart(scorer)
    items = load_questions(tinyvlm.questions_path())
    measure(scorer, items[:2], PILOT)  # what is slow the first time only
    models = {}
    for one in (scorer, apart):
        made = [measure(one, items[:40], PILOT) for _ in range(rounds)]
        cpu_s, wall_s, _, model = min(made, key=lambda pilot: pilot[0])
        print(f"pilot: {cpu_s:.1f} s of processor time, {wall_s:.1f} s of wall time")
        print(f"fitted: {model}")
        models[one] = model
    runs = [(scorer, *run) for run in RUNS]
    runs.append(
        (apart, "As the pilot, every question in calls of its own", *RUNS[0][1:])
    )
    rows = []
    for one, name, part, settings in runs:
        cpu_s = wall_s = math.inf
        for _ in range(rounds):
            one_cpu_s, one_wall_s, found, _ = measure(one, items[part], settings)
            cpu_s, wall_s = min(cpu_s, one_cpu_s), min(wall_s, one_wall_s)
        made = forecast(items[part], models[one], Workload.of_settings(found))
        error = 100 * abs(made.total_s / cpu_s - 1)
        rows.append(
            Row(
                name,
                f"{name}: prediction of {made.n_passes:,} passes, off by",
                error,
                "%",
                goal=GOALS[settings is PILOT],
                ours=made.total_s,
                peer="measured",
                theirs=cpu_s,
                detail=f"wall time {wall_s:.1f} s",
            )
        )
        _report.print_row(rows[-1])
    return rows


def main() -> int:
    options = _report.parse(_report.parser(__doc__, 3))
    rows = check_predictions(options.rounds)
    versions = _report.versions_of("torch", "transformers")
    return _report.finish(rows, options, versions)


if __name__ == "__main__":
    sys.exit(main())
