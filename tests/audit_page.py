"""What docs/audit.md takes from the code: run this file to write it anew.

    python tests/audit_page.py

Between ``<!-- NAME -->`` and ``<!-- end -->`` stands what the code says; a test checks
that it still says so.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from phasefusion import stats
from phasefusion.audit import audit
from phasefusion.audit.arithmetic import FUNCTIONS
from phasefusion.audit.evaluation import signature
from phasefusion.audit.statistics import STATISTICS

PAGE = Path(__file__).parents[1] / "docs" / "audit.md"
_WORDS = ("None", "True", "False")
_PART = re.compile(r"(<!-- (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def call(name: str) -> str:
    """How a function of the language is written, with its defaults."""
    parts = []
    for parameter in signature(name).parameters.values():
        text = parameter.name
        if parameter.kind is parameter.VAR_KEYWORD:
            text = "column=value"
        elif parameter.default is not inspect.Parameter.empty:
            shown = repr(parameter.default)
            text += f"={shown.lower() if shown in _WORDS else shown}"
        elif parameter.kind is parameter.KEYWORD_ONLY:
            text += "="
        parts.append(text)
    return f"`{name}({', '.join(parts)})`"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def functions() -> str:
    groups: dict[str, list[str]] = {}
    for name, one in FUNCTIONS.items():
        groups.setdefault(one.group, []).append(
            f"| {call(name)} | {cell(one.sentence)} |"
        )
    return "\n".join(
        "\n".join([f"**{group[0].upper()}{group[1:]}**", "", "| call | value |"])
        + "\n| --- | --- |\n"
        + "\n".join(rows)
        + "\n"
        for group, rows in groups.items()
    )


def statistics() -> str:
    lines = ["| call | value |", "| --- | --- |"]
    for name in STATISTICS:
        first = (getattr(stats, name).__doc__ or "").strip().splitlines()[0]
        lines.append(f"| {call(name)} | {cell(first)} |")
    return "\n".join(lines) + "\n"


PARTS = {
    "functions": functions,
    "statistics": statistics,
    "paper": lambda: audit("paper").to_markdown(),
    "stableeval": lambda: audit("stableeval").to_markdown(),
}


def filled(text: str) -> str:
    """Put into a page what the code says."""
    return _PART.sub(lambda m: f"{m[1]}{PARTS[m['name']]()}{m[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
