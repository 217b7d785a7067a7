"""Measure every goal of speed and memory, keep what was found, write the tables.

    python benchmarks/bench.py [NAME ...] [--rounds N] [--into FOLDER]

Each benchmark runs in a process of its own, one after the other, and leaves its rows
in benchmarks/results; those that are not named keep what is there. Then the tables go
into docs/performance.md and README.md. A benchmark that ends without rows is named, and
what it left before stays.

--into has all of this done in a copy, so that the repository stays as it is. Exit code
1 when a goal is missed or a benchmark failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _report
import _table

HERE = Path(__file__).parent
PAGES = ("README.md", "docs/performance.md")


def copy_into(folder: Path) -> None:
    """What the tables are made of and go into, as far as it is not there."""
    for name in PAGES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            shutil.copy(_report.ROOT / name, path)
    for path in (HERE / "results").glob("*.json"):
        there = folder / "benchmarks" / "results" / path.name
        there.parent.mkdir(parents=True, exist_ok=True)
        if not there.exists():
            shutil.copy(path, there)


def run(name: str, results: Path, more: list[str]) -> str:
    """Run one; what became of it."""
    print(f"\n== {name}: {_table.BENCHMARKS[name]}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(made)]
        status = subprocess.run([*command, *more]).returncode
        if not made.exists():
            return f"FAILED with exit status {status}"
        results.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, results / f"{name}.json")
    return "goals missed" if status else "met"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    parser.add_argument("--rounds", type=int, help="default: as each has it")
    parser.add_argument("--into", type=Path, metavar="FOLDER", default=_report.ROOT)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in _table.BENCHMARKS]
    if unknown:
        known = ", ".join(_table.BENCHMARKS)
        parser.error(f"no such benchmarks: {', '.join(unknown)}; there are {known}")
    if options.into != _report.ROOT:
        copy_into(options.into)
    more = [] if options.rounds is None else ["--rounds", str(options.rounds)]
    told = []
    for name in [n for n in _table.BENCHMARKS if n in (options.names or [n])]:
        begun = time.monotonic()
        became = run(name, options.into / "benchmarks" / "results", more)
        told.append((name, time.monotonic() - begun, became))
    print()
    for name, took, became in told:
        print(f"{name:14} {took:6.0f} s  {became}")
    print(f"{'all':14} {sum(took for _, took, _ in told):6.0f} s")
    _table.write(options.into)
    print(_table.summary(_table.read(options.into / "benchmarks" / "results")))
    return 0 if all(became == "met" for _, _, became in told) else 1


if __name__ == "__main__":
    sys.exit(main())
