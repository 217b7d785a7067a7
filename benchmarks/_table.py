"""Put what the benchmarks measured into README.md and docs/why-frames-differ.md.

    python benchmarks/_table.py FOLDER

FOLDER holds what the last run of decode.py, pipeline.py, resize.py and agreement.py
left there; the tables between the marks "benchmarks" and "agreement" are replaced. Rows
without a goal are left out; a goal that was missed is shown as such.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import _report
from _report import Goal, Row

ROOT = Path(__file__).parents[1]
LEVELS = {"avx2": "AVX2", "avx512": "AVX-512"}


def resize_rows(entries: list[dict[str, Any]]) -> list[Row]:
    """Of each instruction set and peer, the size at which we gain least."""
    worst: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        level = entry["name"].rpartition(", ")[2]
        if entry["goal"] is None or level not in LEVELS:
            continue
        key = level, entry["peer"]
        sign = 1 if entry["at_most"] else -1
        if key not in worst or sign * entry["ratio"] > sign * worst[key]["ratio"]:
            worst[key] = entry
    rows = []
    for (level, peer), entry in worst.items():
        what = "time / that of" if entry["at_most"] else "against"
        title = f"Resize and normalise, {LEVELS[level]}, {what} {peer}, worst size"
        goal = Goal(entry["goal"], None, entry["at_most"])
        rows.append(Row(f"resize/{level}/{peer}", title, entry["ratio"], goal=goal))
    return rows


def line(row: Row) -> str:
    unit = row.unit.replace("x", " ×").replace("  ", " ")
    sign = "≤" if row.goal.most else "≥"
    spread = ""
    if row.low is not None and row.high is not None:
        spread = f" ({row.low:.2f} to {row.high:.2f})"
    missed = "" if row.met else ", missed"
    value = f"{row.value:.2f}" if row.unit == "x" else f"{row.value:.3g}"
    goal = f"{sign} {row.goal.at_least:g}{unit}{missed}"
    title = row.title[0].upper() + row.title[1:]
    return f"| {title} | {value}{unit}{spread} | {goal} |"


def main() -> None:
    folder = Path(sys.argv[1])
    rows: list[Row] = []
    versions: set[str] = set()
    machine = None
    for name in ("decode", "pipeline", "resize"):
        path = folder / f"{name}.json"
        if not path.exists():
            print(f"{path} is not there: its rows are left out")
            continue
        if name == "resize":
            rows += resize_rows(json.loads(path.read_text()))
            continue
        content, made = _report.load(path)
        rows += made
        versions |= set(content["versions"].values())
        machine = content["machine"]
    if machine is None:
        raise SystemExit(f"nothing to show in {folder}; run the benchmarks first")
    lines = ["| | measured | goal |", "|---|---:|---:|"]
    lines += [line(row) for row in rows if row.goal.at_least is not None]
    lines += [
        "",
        f"{machine['processor']}, {machine['cores']} cores; Python "
        f"{machine['python']}; {', '.join(sorted(versions))}.",
    ]
    _report.replace_between(ROOT / "README.md", "benchmarks", "\n".join(lines))
    if (folder / "agreement.md").exists():
        page = ROOT / "docs" / "why-frames-differ.md"
        text = (folder / "agreement.md").read_text()
        _report.replace_between(page, "agreement", text)


if __name__ == "__main__":
    main()
