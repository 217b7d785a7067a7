"""Tables of a Markdown report, as they were printed."""

from __future__ import annotations

import re

from phasefusion._markdown import cells_of, plain
from phasefusion.report.sections import Section

#: A number in a cell, as claims are drafted from and computed from.
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_RULE = re.compile(r"\|(?: ?:?-{3,}:? ?\|)+")


def read_tables(text: str) -> list[Section]:
    """Read the tables of a Markdown text.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of Section
        Every table under the heading before it; rows with another number of cells than
        the head are left out.
    """
    found: list[Section] = []
    title = ""
    lines = text.split("\n")  # names may hold what else ends lines
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("#"):
            title = line.lstrip("#").strip()
        if i + 1 < len(lines) and _RULE.fullmatch(lines[i + 1].strip()):
            head = cells_of(line)
            rows = []
            i += 2
            while i < len(lines) and lines[i].lstrip().startswith("|"):
                cells = cells_of(lines[i])
                if len(cells) == len(head):
                    rows.append(cells)
                i += 1
            found.append(Section(plain(flat(title)), head, tuple(rows)))
            continue
        i += 1
    return found


def flat(text: str) -> str:
    """Return a text as a table prints it, for comparison: white space is a blank."""
    return " ".join(text.split())
