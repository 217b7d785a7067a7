"""What the traced emulator saw, by the lines of the device code."""

from __future__ import annotations

import ctypes
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Line:
    """Accesses of one line of device code to one kind of memory."""

    requests: int = 0
    cost: int = 0  # sectors of global memory, wavefronts of shared memory
    n_byte: int = 0
    n_line: int = 0  # of 128 bytes, of global memory

    @property
    def per_request(self) -> float:
        return self.cost / self.requests


@dataclass
class Report:
    """One run: keys are "file:line"."""

    races: set[str] = field(default_factory=set)
    shared: dict[str, Line] = field(default_factory=lambda: defaultdict(Line))
    global_: dict[str, Line] = field(default_factory=lambda: defaultdict(Line))
    products: int = 0  # of matrices, by tensor cores

    def of(self, kind: str, file: str, text: str, folder: Path) -> Line:
        """The sum over the lines of a file that hold a text."""
        found = Line()
        lines = (folder / file).read_text().splitlines()
        wanted = {f"{file}:{i}" for i, line in enumerate(lines, 1) if text in line}
        assert wanted, f"{file} has no line with {text!r}"
        for key, line in (self.shared if kind == "shared" else self.global_).items():
            if key in wanted:
                found.requests += line.requests
                found.cost += line.cost
                found.n_byte += line.n_byte
                found.n_line += line.n_line
        return found


def collect(library: Path) -> Report:
    """Take the report of everything since the last one, and name its places."""
    opened = ctypes.CDLL(str(library))
    opened.cuemu_trace_report.restype = ctypes.c_char_p
    rows = [line.split() for line in opened.cuemu_trace_report().decode().splitlines()]
    places = sorted({row[1] for row in rows})
    tool = subprocess.run(
        ["addr2line", "-e", str(library), *places],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {}
    for place, line in zip(places, tool.stdout.splitlines(), strict=True):
        path, _, number = line.split(" ")[0].rpartition(":")
        names[place] = f"{Path(path).name}:{number}"
    counter = ctypes.c_ulonglong.in_dll(opened, "cuemu_n_mma")
    report = Report(products=counter.value)
    counter.value = 0
    for kind, place, *counts in rows:
        if kind == "race":
            report.races.add(names[place])
            continue
        requests, cost, n_byte, n_line = map(int, counts)
        line = (report.shared if kind == "shared" else report.global_)[names[place]]
        line.requests += requests
        line.cost += cost
        line.n_byte += n_byte
        line.n_line += n_line
    return report
