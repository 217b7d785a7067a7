"""What was tried, what came of it, and the table of both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Tried:
    """One thing that was tried.

    Attributes
    ----------
    part, what : str
    measured : str
        In words, numbers included.
    ok : bool or None
        Whether that is what must be; None where it could not be tried here.
    """

    part: str
    what: str
    measured: str
    ok: bool | None = True

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "FAILS", None: "not tried"}[self.ok]


def python(script: str, *words: object) -> list[str]:
    """A command line of this interpreter."""
    return [sys.executable, script, *map(str, words)]


def environment() -> dict[str, str]:
    """The environment of a process that shall find the package and these modules."""
    path = os.pathsep.join([str(HERE), str(HERE.parent), *sys.path])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def markdown(tried: Iterable[Tried]) -> str:
    """A table for a page."""
    lines = ["| Tried | Measured | |", "|---|---|---|"]
    lines += [f"| {_cell(t.what)} | {_cell(t.measured)} | {t.verdict} |" for t in tried]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def failed(tried: Sequence[Tried]) -> list[Tried]:
    return [one for one in tried if one.ok is False]
