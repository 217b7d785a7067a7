"""Instructions that each hot kernel takes, which do not depend on a busy machine.

    python benchmarks/instructions.py [--write]

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
from collections.abc import Callable
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix(".json")
SAME, OTHER = 1.05, 1.5
#: What is counted, and what it is the kernel of.
KERNELS = {
    "pf_batch_resize": "resize and normalise 4 frames of 720p to 448 x 448",
    "pf_patches_from_rgb": "patches of 4 frames of 448 x 448",
    "pf_posterior_fuse": "fuse 600 items x 3 phases x 10 orders x 4 options",
    "pf_flips_summarize": "flip rates of 20,000 items x 13 passes",
    "pf_matched_count": "matched votes of 600 items x 3 phases x 10 orders",
    "pf_consensus_plurality": "consensus of 20,000 items x 10 orders",
    "pf_resample_sums": "2,000 bootstraps of 3,000 items in clusters of 4",
    "pf_ranking_placements": "AUROC of 20,000 items",
    "pf_grid_indices": "2,000 grids of 3 x 8 frames",
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


def compare(counts: dict[str, int], known: dict[str, int], most: float) -> list[str]:
    """Print every count beside the known one; return what is lacking or too much."""
    bad = []
    for name, what in KERNELS.items():
        now, before = counts.get(name), known.get(name)
        if now is None or before is None:
            bad.append(f"{name}: not counted")
            continue
        ratio = now / before
        print(f"{ratio:6.3f}  {now:13,}  {before:13,}  {what}")
        if ratio > most:
            bad.append(f"{name}: {ratio:.3f} times what it took (at most {most})")
    return bad


def main(arguments: list[str] | None = None, tell: Callable[..., None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep what is counted")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work()
        return 0
    if shutil.which("valgrind") is None:
        tell("not counted: valgrind is not installed (apt-get install valgrind)")
        return 0
    counts = count()
    if options.write:
        known = {"compiler": compiler(), "counts": counts}
        FILE.write_text(json.dumps(known, indent=2) + "\n")
    known = json.loads(FILE.read_text())
    most = SAME if known["compiler"] == compiler() else OTHER
    bad = compare(counts, known["counts"], most)
    for line in bad:
        tell(f"regression: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
