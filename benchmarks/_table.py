"""The tables of docs/performance.md and README.md, from what the benchmarks found.

    python benchmarks/_table.py

`make bench` does this at its end; by itself it writes the same tables again from the
files in benchmarks/results, after a change of their form. Every goal has a line,
missed or not; a benchmark that left no file is named with the command that runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _report
from _report import Row

#: The benchmarks in the order of the page, and what each is about.
BENCHMARKS = {
    "decode": "frames of a video by index",
    "pipeline": "from a file to the model's input",
    "resize": "resize and normalise",
    "pixels": "tensors of models' processors",
    "sweep": "phases and orders on one prefix",
    "stats": "statistics",
    "records": "reading and reporting passes",
    "capacity": "predicted times of runs",
    "instructions": "instructions of kernels",
}
#: The lines that README has, by benchmark and key.
EXCERPT = (
    ("decode", "h264"),
    ("decode", "vp9"),
    ("decode", "one-call/h264_1080p.mp4"),
    ("decode", "memory/1"),
    ("pipeline", "720p/torchcodec + torch"),
    ("resize", "avx2/Pillow + NumPy"),
    ("sweep", "time"),
    ("stats", "fusion/SciPy softmax"),
)
HEAD = "| goal | ours | peer | ratio | wanted | verdict |"
RULE = "|---|---:|---|---:|---:|---|"


@dataclass(frozen=True, slots=True)
class Found:
    """What one benchmark left: where, when and with what it ran, and its rows."""

    content: dict[str, Any]
    rows: list[Row]

    @property
    def goals(self) -> list[Row]:
        return [row for row in self.rows if row.goal.at_least is not None or row.wrong]


def read(folder: Path) -> dict[str, Found]:
    """What is there, by benchmark."""
    paths = {name: folder / f"{name}.json" for name in BENCHMARKS}
    return {
        name: Found(*_report.load(path))
        for name, path in paths.items()
        if path.exists()
    }


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def verdict(row: Row) -> str:
    return f"**{row.verdict}**" if row.missed else row.verdict


def ratio_text(value: float) -> str:
    """Three digits, as far as they say something."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def ratio_cell(row: Row) -> str:
    if row.unit != "x" or row.value is None:
        return ""
    spread = ""
    if row.low is not None and row.high is not None and row.low != row.high:
        spread = f" ({ratio_text(row.low)} to {ratio_text(row.high)})"
    return f"{ratio_text(row.value)} ×{spread}"


def cells(row: Row) -> list[str]:
    """Goal, ours, peer, ratio, wanted, verdict."""
    ours = peer = ""
    if row.unit != "x" and row.value is not None:
        ours = _report.amount(row.value, row.unit)
        if row.low is not None and row.high is not None and row.low != row.high:
            low, high = (_report.amount(v, row.unit) for v in (row.low, row.high))
            ours += f" ({low} to {high})"
    elif row.ours is not None:
        ours = _report.amount(row.ours, row.measure)
    if row.unit == "%" and row.ours is not None:
        ours += f" ({_report.amount(row.ours, row.measure)})"
    if row.theirs is not None:
        peer = f"{_report.amount(row.theirs, row.measure)} ({row.peer})"
    sign = "≤" if row.goal.most else "≥"
    wanted = ""
    if row.goal.at_least is not None:
        if row.unit == "x":
            wanted = f"{sign} {row.goal.at_least:.3g} ×"
        else:
            wanted = f"{sign} {_report.amount(row.goal.at_least, row.unit)}"
    return [row.title, ours, peer, ratio_cell(row), wanted.strip(), verdict(row)]


def line(parts: list[str]) -> str:
    return f"| {' | '.join(cell(part) for part in parts)} |"


def machine_letters(found: dict[str, Found]) -> dict[str, str]:
    """A letter for each machine, by its description."""
    described = dict.fromkeys(
        describe(one.content["machine"]) for one in found.values()
    )
    return {text: chr(ord("A") + i) for i, text in enumerate(described)}


def describe(machine: dict[str, Any]) -> str:
    cores = "core" if machine["cores"] == 1 else "cores"
    return (
        f"{machine['processor']}, {machine['cores']} {cores}, "
        f"{machine['instructions'].upper()}, {machine['system']}"
    )


def summary(found: dict[str, Found]) -> str:
    rows = [row for one in found.values() for row in one.goals]
    n_missed = sum(row.missed for row in rows)
    n_lacking = sum(row.value is None and not row.wrong for row in rows)
    n_absent = len(BENCHMARKS) - len(found)
    parts = [f"{len(rows)} goals: {len(rows) - n_missed - n_lacking} met"]
    parts.append(f"{n_missed} missed")
    if n_lacking:
        parts.append(
            f"{n_lacking} not measured for want of a peer or of an instruction set"
        )
    if n_absent:
        parts.append(f"{n_absent} of {len(BENCHMARKS)} benchmarks not run")
    return ", ".join(parts) + "."


def goal_lines(found: dict[str, Found]) -> list[str]:
    """The table of all goals, with a line above those of each benchmark."""
    letters = machine_letters(found)
    lines = [f"{HEAD} machine |", f"{RULE}---|"]
    for name, what in BENCHMARKS.items():
        if name not in found:
            lacking = f"not measured: `make bench ONLY={name}`"
            lines.append(line([f"**{name}**: {what}", "", "", "", "", lacking, ""]))
            continue
        one = found[name]
        letter = letters[describe(one.content["machine"])]
        lines.append(line([f"**{name}**: {what}", "", "", "", "", "", ""]))
        lines += [line([*cells(row), letter]) for row in one.goals]
    return lines


def run_lines(found: dict[str, Found]) -> list[str]:
    """When and with what each benchmark ran, its machine, and what was left out."""
    letters = machine_letters(found)
    lines = [
        "| benchmark | date | commit | machine | load | rounds | took | with |",
        "|---|---|---|---|---:|---:|---:|---|",
    ]
    for name, one in found.items():
        content = one.content
        busy = content["busy_at_start"]
        took = content["seconds"]
        lines.append(
            line(
                [
                    name,
                    content["date"],
                    content["commit"] or "not known",
                    letters[describe(content["machine"])],
                    "not noted" if busy is None else f"{busy:.0%}",
                    str(content["rounds"]),
                    "not noted" if took is None else f"{took:.0f} s",
                    ", ".join(content["versions"]),
                ]
            )
        )
    lines += ["", *(f"{letter}: {text}." for text, letter in letters.items())]
    left_out = [
        f"* {name}: {cell(peer)} ({cell(why)})"
        for name, one in found.items()
        for peer, why in one.content["left_out"].items()
    ]
    if left_out:
        lines += ["", "Left out, since they could not be run:", "", *left_out]
    return lines


def page(found: dict[str, Found]) -> str:
    """All that docs/performance.md has between its marks."""
    return "\n".join([summary(found), "", *goal_lines(found), "", *run_lines(found)])


def excerpt(found: dict[str, Found]) -> str:
    """The lines of README."""
    lines = [HEAD, RULE]
    for name, key in EXCERPT:
        rows = (
            [row for row in found[name].rows if row.key == key] if name in found else []
        )
        lines += [line(cells(row)) for row in rows]
    return "\n".join([*lines, "", summary(found)])


def write(root: Path) -> None:
    """Put the tables into the pages below a folder, from the results below it."""
    found = read(root / "benchmarks" / "results")
    for name in BENCHMARKS:
        if name not in found:
            print(f"{name} was not measured: make bench ONLY={name}")
    if not found:
        raise SystemExit(f"nothing to show below {root}; run the benchmarks first")
    _report.replace_between(
        root / "docs" / "performance.md", "performance", page(found)
    )
    _report.replace_between(root / "README.md", "performance", excerpt(found))


if __name__ == "__main__":
    write(_report.ROOT)
