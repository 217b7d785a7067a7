"""Ten thousand videos, good and bad: memory, files and threads of the run that scores.

The run is a process of its own, so that its memory is nobody else's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from _soak_table import MIB, Tried, python
from _soak_videos import Kind, make_kinds, write_questions

OPTIONS: dict[str, Any] = {"budget": 4, "dense": 10, "n_orders": 1, "threads": 2}
#: Items after which everything is in memory that stays there.
WARM_UP = 0.2
#: What memory may grow by afterwards: keys of passes on disk, and allocators' slack.
BYTES_A_PASS, SLACK_BYTES = 300, 8 * MIB
N_SAMPLES = 200


class CheapScorer:
    """Scores from the mean of the frames alone."""

    def describe(self) -> dict[str, str]:
        return {"model": "cheap"}

    def score(
        self, clip: Any, question: str, options: Any, *, orders: Any = None
    ) -> Any:
        from phasefusion.scoring import OptionScores

        k = len(options)
        orders = np.arange(k)[None] if orders is None else np.asarray(orders)
        means = clip.frames[..., ::16, ::16, :].mean(axis=(1, 2, 3, 4))
        logits = np.sin(means[:, None, None] * np.arange(1, k + 1))
        logits = logits + np.zeros((len(means), len(orders), k))
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        return OptionScores(logits, np.exp(logits).sum(-1), orders)


def usage() -> dict[str, int]:
    """Bytes in memory, open files and threads of this process."""
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "bytes": resident * os.sysconf("SC_PAGE_SIZE"),
        "files": len(os.listdir("/proc/self/fd")) - 1,  # but the listing's own
        "threads": len(os.listdir("/proc/self/task")),
    }


def score_and_watch(questions: str, out: str, n_items: int) -> None:
    """In the process of the run: score, and print what it held along the way."""
    from phasefusion.evaluate import evaluate

    samples: list[dict[str, int]] = []
    seen: set[str] = set()
    every = max(1, n_items // N_SAMPLES)

    def listener(done: int, total: int, video: str) -> None:
        if video in seen:
            return
        seen.add(video)
        if len(seen) % every == 0:
            samples.append(usage() | {"items": len(seen), "passes": done})

    before = usage()
    evaluate(questions, CheapScorer(), out=out, progress=listener, **OPTIONS)
    print(json.dumps({"before": before, "samples": samples, "after": usage()}))


def soak(folder: Path, n_items: int, n_clips: int) -> list[Tried]:
    """Score videos of every kind, and look at memory, leavings and records."""
    kinds = make_kinds(folder / "kinds", n_clips)
    questions = folder / "questions.jsonl"
    expected = write_questions(questions, kinds, n_items)
    out, temporary = folder / "run", folder / "temporary"
    temporary.mkdir()
    begin_s = time.monotonic()
    with open(folder / "said.txt", "wb") as said:
        process = subprocess.run(
            python(__file__, questions, out, n_items),
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | {"TMPDIR": str(temporary)},
        )
    seconds = time.monotonic() - begin_s
    if process.returncode != 0:
        text = (folder / "said.txt").read_text(errors="replace")[-500:]
        return [Tried("soak", f"{n_items:,} videos", f"stopped: {text}", ok=False)]
    watched = json.loads(process.stdout)
    left = sorted(path.name for path in out.iterdir())
    left += sorted(str(path) for path in temporary.rglob("*"))
    n_sound = sum(kind.sound for kind in expected.values())
    return [
        _scored(out, expected),
        Tried(
            "soak",
            f"{n_items:,} videos of {len(kinds)} kinds, {n_sound:,} of them sound",
            f"{seconds:.0f} s, {1000 * seconds / n_items:.0f} ms a video",
        ),
        _memory(watched),
        _leavings(watched, left),
    ]


def _scored(out: Path, expected: dict[str, Kind]) -> Tried:
    """Whether sound videos have answers, and the others reasons, in every pass."""
    from phasefusion.records import iter_passes

    wrong: dict[str, int] = defaultdict(int)
    there: set[str] = set()
    n_passes = 0
    for row in iter_passes(out):
        n_passes += 1
        kind = expected[row["question_id"]]
        there.add(row["question_id"])
        answered = row["answer"] is not None and not row["invalid"]
        refused = str(row["invalid"]).startswith("video: ") and row["answer"] is None
        told = bool(row.get("video_problem")) == kind.damaged
        if not (answered and told if kind.sound else refused):
            wrong[kind.name] += 1
    n_absent = len(expected) - len(there)
    text = f"{n_passes:,} passes, each as it must be"
    if wrong or n_absent:
        text = f"{n_absent} questions absent, wrong passes: {dict(wrong)}"
    what = "every sound video scored, damage named, the others recorded with reasons"
    return Tried("soak", what, text, ok=not wrong and not n_absent)


def _memory(watched: dict[str, Any]) -> Tried:
    samples = watched["samples"]
    warm = samples[int(WARM_UP * len(samples))]
    peak = max(samples, key=lambda sample: int(sample["bytes"]))
    grown = peak["bytes"] - warm["bytes"]
    n_passes = samples[-1]["passes"] - warm["passes"]
    bound = BYTES_A_PASS * n_passes + SLACK_BYTES
    text = (
        f"{warm['bytes'] / MIB:.0f} MiB after {warm['items']:,} videos, at most "
        f"{peak['bytes'] / MIB:.0f} MiB later: {grown / MIB:.1f} MiB more, for "
        f"{n_passes:,} passes (bound {bound / MIB:.1f} MiB)"
    )
    what = f"memory grows by no more than {BYTES_A_PASS} bytes a pass and "
    what += f"{SLACK_BYTES // MIB} MiB"
    return Tried("soak", what, text, ok=grown <= bound)


def _leavings(watched: dict[str, Any], left: list[str]) -> Tried:
    before, after = watched["before"], watched["after"]
    more = {name: after[name] - before[name] for name in ("files", "threads")}
    text = f"{more['files']} open files, {more['threads']} threads more than before"
    ok = not any(more.values())
    extra = [n for n in left if n not in ("passes.jsonl", "run.json", "writer.lock")]
    text += f"; files beside the run: {extra or 'none'}"
    most = max(sample["files"] for sample in watched["samples"]) - before["files"]
    text += f"; at most {most} files open at once"
    return Tried("soak", "nothing is left behind", text, ok=ok and not extra)


if __name__ == "__main__":
    score_and_watch(sys.argv[1], sys.argv[2], int(sys.argv[3]))
