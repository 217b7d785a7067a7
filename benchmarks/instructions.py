"""Instructions that each hot kernel takes, which do not depend on a busy machine.

    python benchmarks/instructions.py [--write] [--json FILE]

Valgrind counts what the kernels execute on fixed inputs, up to AVX2, which it knows.
Counts are compared with those of benchmarks/instructions.json: more than 5 % above, or
50 % where another compiler made the modules, is a regression, and the exit status 1.
With --write the file is made anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import _report
import numpy as np
from _report import Goal, Row

FILE = Path(__file__).with_suffix(".json")
SAME, OTHER = 1.05, 1.5
#: What is counted, and what it is the kernel of.
KERNELS = {
    "pf_batch_resize": "resize and normalise 4 frames of 720p to 448 × 448",
    "pf_patches_from_rgb": "make patches of 4 frames of 448 × 448",
    "pf_posterior_fuse": "fuse 600 items × 3 phases × 10 orders × 4 options",
    "pf_flips_summarize": "take flip rates of 20,000 items × 13 passes",
    "pf_matched_count": "count matched votes of 600 items × 3 phases × 10 orders",
    "pf_consensus_plurality": "find the consensus of 20,000 items × 10 orders",
    "pf_resample_sums": "draw 2,000 bootstraps of 3,000 items in clusters of 4",
    "pf_ranking_placements": "take the AUROC of 20,000 items",
    "pf_grid_indices": "make 2,000 grids of 3 × 8 frames",
}


def work() -> None:
    """Call every kernel once, on inputs that are the same everywhere."""
    import phasefusion as pf
    from phasefusion import stats
    from phasefusion.fusion import fuse_items

    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (4, 720, 1280, 3), np.uint8)
    mean, std = (0.48, 0.45, 0.4), (0.26, 0.26, 0.27)
    pf.resize_normalize(frames, (448, 448), mean=mean, std=std)
    settings = pf.pixels.PatchSettings(mean=mean, std=std)
    pf.pixels.to_qwen_patches(np.ascontiguousarray(frames[:, :448, :448]), settings)
    logp = rng.normal(size=(600, 3, 10, 4))
    fuse_items(logp, over=("phase", "order"))
    answers = rng.integers(0, 4, (20_000, 13))
    stats.flip_rates(answers)
    stats.consensus(answers[:, :10])
    stats.matched_vote(rng.integers(0, 4, (600, 3, 10)))
    values = rng.integers(0, 2, 3000).astype(float)
    clusters = np.arange(3000) // 4
    stats.cluster_bootstrap(values, clusters, n_resamples=2000, seed=0)
    stats.auroc(rng.integers(0, 2, 20_000), rng.normal(size=20_000))
    for n_frames in range(100, 2100):
        pf.PhaseGrid(8, 3).indices(n_frames)


def count() -> dict[str, int]:
    """Return the instructions of every kernel, with all that it calls."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        command += ["--collect-atstart=no", "-q"]
        command += [f"--toggle-collect={name}" for name in KERNELS]
        command += [sys.executable, __file__, "--work"]
        environ = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=environ)
        told = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return {
        name: int(found[1].replace(",", ""))
        for name in KERNELS
        if (found := re.search(rf"^ *([\d,]+) \(.*:{name}\b", told, re.MULTILINE))
    }


def compiler() -> str:
    """Return the compiler that a build here uses, with its version."""
    command = (sysconfig.get_config_var("CC") or "cc").split()[0]
    told = subprocess.run(
        [shutil.which(os.environ.get("CC", command)) or "cc", "--version"],
        capture_output=True,
        text=True,
    )
    return told.stdout.partition("\n")[0]


def rows_of(counts: dict[str, int], known: dict[str, int], most: float) -> list[Row]:
    """Every count beside the known one."""
    rows = []
    for name, what in KERNELS.items():
        now, before = counts.get(name), known.get(name)
        goal = Goal(most, most=True)
        title = f"Instructions to {what}"
        if now is None or before is None:
            lacking = f"{name} was not counted"
            rows.append(Row(name, title, None, goal=goal, lacking=lacking, wrong=True))
            continue
        rows.append(
            Row(
                name,
                title,
                now / before,
                goal=goal,
                ours=now,
                peer="the count that is kept",
                theirs=before,
                measure="",
            )
        )
    return rows


def main() -> int:
    parser = _report.parser(__doc__, 1)
    parser.add_argument("--write", action="store_true", help="keep what is counted")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().work:
        work()
        return 0
    options = _report.parse(parser)
    if shutil.which("valgrind") is None:
        print("not counted: valgrind is not installed (apt-get install valgrind)")
        goal = Goal(SAME, most=True)
        lacking = "valgrind is not installed"
        rows = [
            Row(name, f"Instructions to {what}", None, goal=goal, lacking=lacking)
            for name, what in KERNELS.items()
        ]
        return _report.finish(rows, options)
    counts = count()
    if options.write:
        known = {"compiler": compiler(), "counts": counts}
        FILE.write_text(json.dumps(known, indent=2) + "\n")
    known = json.loads(FILE.read_text())
    most = SAME if known["compiler"] == compiler() else OTHER
    rows = rows_of(counts, known["counts"], most)
    for row in rows:
        _report.print_row(row)
    return _report.finish(rows, options, [compiler()])


if __name__ == "__main__":
    sys.exit(main())
