"""Robustness under load: what was tried, what came of it. Exit code 1 if one fails.

soak      thousands of videos, good and hostile: memory, leavings, every record
faults    full disks, missing rights, signals at random moments
names     folders, question files and videos of odd names, on the command line
sharing   two writers, a thousand readers of a run and of a frame cache
clocks    a wall clock that jumps
large     videos beyond 2**32 bytes, gigabytes of passes and questions

    python benchmarks/soak.py [--quick] [--parts soak,names] [--items 10000]
                              [--write docs/robustness.md] [--folder DIR]

The full soak takes a quarter of an hour, 6 GB of memory and 4 GB of disk.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import _report
import _soak_faults as faults
import _soak_large as large
import _soak_sharing as sharing
from _soak_load import soak
from _soak_table import Tried, markdown

Step = Callable[[Path], list[Tried]]
SEED = 9


def full(n_items: int) -> dict[str, list[Step]]:
    """Every part, in the sizes that the page speaks of."""
    return {
        "soak": [partial(soak, n_items=n_items, n_clips=5)],
        "faults": [
            partial(faults.full_disk, n_items=44),
            faults.rights,
            partial(faults.signals, n_each=10, seed=SEED),
        ],
        "names": [faults.names],
        "sharing": [
            partial(sharing.two_writers, n_items=6),
            partial(sharing.many_readers, n_readers=1000),
        ],
        "clocks": [partial(sharing.clocks, n_items=44)],
        "large": [
            large.large_videos,
            partial(large.large_passes, n_bytes=2_200_000_000),
            partial(large.large_questions, n_bytes=1_000_000_000),
        ],
    }


def quick(n_items: int) -> dict[str, list[Step]]:
    """Every part but the names and the readers, as small as says anything."""
    return {
        "soak": [partial(soak, n_items=n_items, n_clips=1)],
        "faults": [partial(faults.full_disk, n_items=11)],
        "clocks": [partial(sharing.clocks, n_items=11)],
        "large": [
            partial(large.large_videos, kinds=["mp4"]),
            partial(large.large_questions, n_bytes=1_000_000),
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds, not minutes")
    parser.add_argument("--parts", help="of the list above, with commas between")
    parser.add_argument("--items", type=int, help="videos of the soak")
    page = _report.page_with("soak")
    parser.add_argument("--write", type=page, help="the page with its table")
    parser.add_argument("--folder", type=Path, help="for files, gone afterwards")
    given = parser.parse_args()
    made = quick(given.items or 22) if given.quick else full(given.items or 10_000)
    chosen = given.parts.split(",") if given.parts else list(made)
    unknown = sorted(set(chosen) - set(made))
    if unknown:
        there = ", ".join(made)
        parser.error(f"no part is called {unknown[0]}; there are {there}")
    if given.write is not None and (given.quick or given.parts):
        parser.error("the table is of all parts: give --write without --quick, --parts")
    # A shell that starts this in the background has it ignored, by children as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tried: list[Tried] = []
    for part in chosen:
        for step in made[part]:
            tried += _taken(step, given.folder)
    if given.write is not None:
        _report.replace_between(given.write, "soak", markdown(tried))
    n_failed = sum(one.ok is False for one in tried)
    print(f"{len(tried)} tried, {n_failed} failed")
    return int(n_failed > 0)


def _taken(step: Step, parent: Path | None) -> list[Tried]:
    """Take a step in a folder of its own, and print what came of it."""
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=parent))
    try:
        tried = step(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for one in tried:
        print(f"  {one.part}: {one.what}: {one.measured}  {one.verdict}", flush=True)
    return tried


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
