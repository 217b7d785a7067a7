"""Rows of a benchmark: printed, written as JSON, and judged by their goals."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: Of the machine's time; with more of it taken by others figures are not good.
QUIET = 0.1


@dataclass(frozen=True, slots=True)
class Goal:
    """What a value must reach ("at least") and should ("aim"); `most`: not exceed."""

    at_least: float | None = None
    aim: float | None = None
    most: bool = False

    def met(self, value: float) -> bool:
        if self.at_least is None:
            return True
        return value <= self.at_least if self.most else value >= self.at_least

    def __str__(self) -> str:
        if self.at_least is None:
            return "no goal"
        sign = "<=" if self.most else ">="
        aim = f", aim {self.aim:g}" if self.aim is not None else ""
        return f"goal {sign} {self.at_least:g}{aim}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a benchmark's table: what is judged, and what it was made of.

    `value` is a ratio where `unit` is "x", else what was measured itself. `ours` and
    `theirs` are what a ratio is of, in the unit `measure`; seconds are of processor
    time unless the title says otherwise. `peer` is what we are compared with.
    """

    key: str
    title: str
    value: float | None  # None: not measured, and `lacking` says why
    unit: str = "x"
    low: float | None = None  # spread over the rounds
    high: float | None = None
    goal: Goal = field(default_factory=Goal)
    ours: float | None = None
    peer: str = ""
    theirs: float | None = None
    measure: str = "s"
    detail: str = ""
    lacking: str = ""
    wrong: bool = False  # our own result is not right: no time counts

    @property
    def missed(self) -> bool:
        """Whether it was measured and is not good enough, or our result is wrong."""
        if self.wrong:
            return True
        return self.value is not None and not self.goal.met(self.value)

    @property
    def verdict(self) -> str:
        if self.wrong:
            return "wrong result"
        if self.value is None:
            return f"not measured: {self.lacking}"
        if self.goal.at_least is None:
            return ""
        return "missed" if self.missed else "met"


def amount(value: float, unit: str) -> str:
    """A measured value with its unit, times in the unit that suits them."""
    if unit == "s":
        names = ((1, "s"), (1e3, "ms"), (1e6, "µs"))
        suiting = [one for one in names if abs(value) * one[0] >= 0.9995]
        factor, unit = (suiting or names[-1:])[0]
        value *= factor
    if value == int(value):
        text = f"{int(value):,}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def ratio_row(
    key: str,
    title: str,
    above: Sequence[float],
    below: Sequence[float],
    goal: Goal,
    peer: str,
    *,
    ours_above: bool = False,
    **more: Any,
) -> Row:
    """Above / below, round by round: the median, the smallest and the largest.

    Above are the peer's values, unless `ours_above`.
    """
    ratios = [float(a / b) for a, b in zip(above, below, strict=False)]
    ours, theirs = (above, below) if ours_above else (below, above)
    return Row(
        key,
        title,
        statistics.median(ratios),
        "x",
        min(ratios),
        max(ratios),
        goal,
        float(statistics.median(ours)),
        peer,
        float(statistics.median(theirs)),
        **more,
    )


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":")[1] for line in lines if line.startswith("model name")]
        return names[0].strip()
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    from phasefusion.frames import cpu_level

    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "instructions": cpu_level(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions_of(*libraries: str) -> list[str]:
    """Name and version of each that is installed."""
    found = []
    for name in libraries:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return found


def commit() -> str:
    """The commit that is measured, or nothing where that cannot be known."""
    command = ["git", "-C", str(ROOT)]
    code = ["csrc", "phasefusion", "setup.py"]
    try:
        told = [
            subprocess.run(
                [*command, *what], capture_output=True, text=True, check=True
            ).stdout.strip()
            for what in (
                ["rev-parse", "--short=10", "HEAD"],
                ["status", "--porcelain", "--", *code],
            )
        ]
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told[0] + (" and changes" if told[1] else "")


def busy_share(seconds: float = 1.0) -> float | None:
    """The share of the machine's time that others take while this process sleeps."""

    def ticks() -> tuple[int, int]:
        numbers = Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
        found = [int(number) for number in numbers]
        return sum(found), found[3] + found[4]  # all of them, idle and waiting

    try:
        total, idle = ticks()
        time.sleep(seconds)
        all_now, idle_now = ticks()
    except (OSError, ValueError, IndexError):
        return None
    return 1 - (idle_now - idle) / max(all_now - total, 1)


@dataclass(frozen=True, slots=True)
class Begun:
    """When a benchmark began, and how much others worked then."""

    script: str
    time: float
    busy: float | None


def print_row(row: Row) -> None:
    if row.value is None:
        print(f"  {row.title}: {row.verdict}", flush=True)
        return
    value = f"{row.value:.3g}x" if row.unit == "x" else amount(row.value, row.unit)
    spread = ""
    if row.low is not None and row.high is not None:
        spread = f" ({row.low:.2f} to {row.high:.2f})"
    verdict = row.verdict.upper() if row.missed else row.verdict
    print(f"  {row.title}: {value}{spread}  {row.goal}  {verdict}", flush=True)
    sides = []
    if row.ours is not None:
        sides.append(f"ours {amount(row.ours, row.measure)}")
    if row.theirs is not None:
        sides.append(f"{row.peer} {amount(row.theirs, row.measure)}")
    sides += [row.detail] if row.detail else []
    if sides:
        print(f"      {'; '.join(sides)}", flush=True)


def parser(doc: str, rounds: int, rows: Iterable[str] = ()) -> argparse.ArgumentParser:
    """What every benchmark takes: rounds, a file for the rows, and which of them."""
    made = argparse.ArgumentParser(description=doc.splitlines()[0])
    made.add_argument("--rounds", type=int, default=rounds, help="default %(default)s")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows too")
    if rows:
        made.add_argument(
            "--rows", default=",".join(rows), help="which, by name: %(default)s"
        )
    return made


def parse(made: argparse.ArgumentParser, rows: Iterable[str] = ()) -> Any:
    """The options, `rows` a list of known names; `begun` says when, and beside what."""
    options = made.parse_args()
    if rows:
        names = [name for name in options.rows.split(",") if name]
        unknown = [name for name in names if name not in rows]
        if unknown:
            known = ", ".join(rows)
            made.error(f"no such rows: {', '.join(unknown)}; there are {known}")
        options.rows = names
    options.begun = Begun(Path(made.prog).stem, time.time(), busy_share())
    if (options.begun.busy or 0) > QUIET:
        print(
            f"other programs take {options.begun.busy:.0%} of this machine: "
            "measure again when it is quiet"
        )
    return options


def finish(
    rows: Sequence[Row],
    options: Any,
    versions: Iterable[str] = (),
    left_out: Mapping[str, str] | None = None,
) -> int:
    """Print what was missed, write the JSON; the exit code.

    `versions` are those of peers, `left_out` says why others were not measured.
    """
    import numpy as np

    import phasefusion

    missed = [row for row in rows if row.missed]
    if missed:
        print("goals missed:")
        for row in missed:
            print_row(row)
    else:
        print("all goals that were measured are met")
    if options.json is not None:
        begun = options.begun
        found = {
            f"phasefusion {phasefusion.__version__}",
            f"Python {platform.python_version()}",
            f"NumPy {np.__version__}",
        }
        content = {
            "date": time.strftime("%Y-%m-%d", time.gmtime(begun.time)),
            "commit": commit(),
            "machine": machine(),
            "busy_at_start": begun.busy,
            "rounds": options.rounds,
            "seconds": round(time.time() - begun.time, 1),
            "versions": sorted(found.union(versions), key=str.lower),
            "left_out": dict(left_out or {}),
            "rows": [asdict(row) | {"verdict": row.verdict} for row in rows],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if missed else 0


def replace_between(path: Path, key: str, text: str) -> None:
    """Put text between the marks `<!-- key -->` and `<!-- end of key -->` of a file."""
    before, after = _around(path, key)
    begin, end = _marks(key)
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def page_with(key: str) -> Callable[[str], Path]:
    """Make a type of argument: a page with these marks, looked for before the work."""

    def page(word: str) -> Path:
        try:
            _around(Path(word), key)
        except OSError as error:
            raise argparse.ArgumentTypeError(f"{word}: {error.strerror}") from error
        return Path(word)

    return page


def _marks(key: str) -> tuple[str, str]:
    return f"<!-- {key} -->", f"<!-- end of {key} -->"


def _around(path: Path, key: str) -> tuple[str, str]:
    """What stands before and behind the marks of a file, which must be there."""
    begin, end = _marks(key)
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path}: the marks {begin} and {end} are not there")
    return before, after


def load(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """The content of a JSON file and its rows."""
    content = json.loads(path.read_text())
    rows = []
    for made in content["rows"]:
        del made["verdict"]
        rows.append(Row(**made | {"goal": Goal(**made["goal"])}))
    return content, rows
