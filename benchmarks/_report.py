"""Rows of a benchmark: printed, written as JSON, and judged by their goals."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


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

    def reached(self, value: float) -> bool:
        if self.aim is None:
            return False
        return value <= self.aim if self.most else value >= self.aim

    def __str__(self) -> str:
        if self.at_least is None:
            return "no goal"
        sign = "<=" if self.most else ">="
        aim = f", aim {self.aim:g}" if self.aim is not None else ""
        return f"goal {sign} {self.at_least:g}{aim}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a benchmark's table."""

    key: str
    title: str
    value: float
    unit: str = "x"
    low: float | None = None  # spread over the rounds
    high: float | None = None
    goal: Goal = field(default_factory=Goal)
    detail: str = ""
    wrong: bool = False  # our own result is not right: no time counts

    @property
    def met(self) -> bool:
        return self.goal.met(self.value) and not self.wrong

    @property
    def shown(self) -> str:
        return f"{self.value:.3g}{self.unit}"

    @property
    def verdict(self) -> str:
        if self.wrong:
            return "WRONG"
        if self.goal.at_least is None:
            return ""
        if not self.met:
            return "MISSED"
        return "met, aim too" if self.goal.reached(self.value) else "met"


def ratio_row(
    key: str,
    title: str,
    above: Sequence[float],
    below: Sequence[float],
    goal: Goal,
    detail: str = "",
    wrong: bool = False,
) -> Row:
    """Above / below, round by round: the median, the smallest and the largest."""
    ratios = [a / b for a, b in zip(above, below, strict=False)]
    middle = statistics.median(ratios)
    return Row(key, title, middle, "x", min(ratios), max(ratios), goal, detail, wrong)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":")[1] for line in lines if line.startswith("model name")]
        return names[0].strip()
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
    }


def print_row(row: Row) -> None:
    spread = ""
    if row.low is not None and row.high is not None:
        spread = f" ({row.low:.2f} to {row.high:.2f})"
    print(f"  {row.title}: {row.shown}{spread}  {row.goal}  {row.verdict}", flush=True)
    if row.detail:
        print(f"      {row.detail}", flush=True)


def add_arguments(parser: argparse.ArgumentParser, rounds: int, rows: Any) -> None:
    parser.add_argument(
        "--rounds", type=int, default=rounds, help="default %(default)s"
    )
    parser.add_argument(
        "--rows", default=",".join(rows), help="which, by name: %(default)s"
    )
    parser.add_argument("--clips", type=Path, help="folder to keep the clips in")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows too")


def chosen(parser: argparse.ArgumentParser, text: str, rows: Any) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in rows]
    if unknown:
        parser.error(f"no such rows: {', '.join(unknown)}; there are {', '.join(rows)}")
    return names


def finish(
    rows: Sequence[Row],
    versions: dict[str, str],
    path: Path | None,
    seconds: Any = None,
) -> int:
    """Print what was missed, write the JSON; the exit code."""
    missed = [row for row in rows if not row.met]
    if missed:
        print("goals missed:")
        for row in missed:
            print_row(row)
    else:
        print("all goals that were measured are met")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "machine": machine(),
            "versions": versions,
            "rows": [asdict(row) | {"met": row.met} for row in rows],
            "seconds": seconds,
        }
        path.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if missed else 0


def replace_between(path: Path, key: str, text: str) -> None:
    """Put text between the marks `<!-- key -->` and `<!-- end of key -->` of a file."""
    begin, end = f"<!-- {key} -->", f"<!-- end of {key} -->"
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path}: the marks {begin} and {end} are not there")
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def load(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """The content of a JSON file and its rows."""
    content = json.loads(path.read_text())
    rows = []
    for made in content["rows"]:
        del made["met"]
        rows.append(Row(**made | {"goal": Goal(**made["goal"])}))
    return content, rows
