"""Gates as sentences and tables, as Markdown and as JUnit XML."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from phasefusion._measures import LABELS
from phasefusion._wording import counted
from phasefusion.gate._judging import Check
from phasefusion.report import tables
from phasefusion.report.sections import UNDEFINED, Section
from phasefusion.stats._answers import half_up

if TYPE_CHECKING:
    from rich.console import RenderableType

    from phasefusion.gate import GateResult

_STATES = {"held": "held", "fell": "fell", "open": "cannot tell"}
_MOST_SETTINGS = 20
#: What XML 1.0 cannot hold, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def name_of(check: Check) -> str:
    """Name what a check is about."""
    if check.kind == "floor":
        return f"{LABELS[check.measure]} at least {_percent(check.baseline)} %"
    return LABELS[check.measure]


def sentence(check: Check) -> str:
    """Say what a check found."""
    name = LABELS[check.measure]
    bounds = f"[{_points(check.low)}, {_points(check.high)}]"
    if check.kind == "floor":
        moved = f"{name} is {_percent(check.candidate)} %"
        limit = f"{_percent(check.baseline)} %"
        said = {
            "held": f"{moved}, shown to be above {limit}",
            "fell": f"{moved}, shown to be below {limit}",
            "open": f"{moved}, not shown to be above {limit}",
        }[check.state]
        return said + _needed(check)
    moved = f"{name} changed by {_points(check.difference)} points {bounds}"
    limit = f"{_points(check.margin)} points"
    by = "by more than" if check.high < -check.margin else "maybe by"
    said = {
        "held": f"{moved}: no fall of {limit}",
        "fell": f"{moved}: it fell, {by} {limit}",
        "open": f"{moved}: a fall of {limit} is neither shown nor excluded",
    }[check.state]
    return said + _needed(check)


def _sample(n: int, n_clusters: int) -> str:
    return f"{counted(n, 'item')} in {counted(n_clusters, 'cluster')}"


def _needed(check: Check) -> str:
    if check.state != "open":
        return ""
    have = f"{_sample(check.n, check.n_clusters)} are too few"
    if check.needed is None:
        return f"; {have}, and no size can be told from them"
    sample = _sample(check.needed.n, check.needed.n_clusters)
    if check.kind == "change":
        true = "if nothing really fell"
    else:
        true = "if it is really so high"
    if check.needed.n <= check.n:
        have = f"the sample is {_sample(check.n, check.n_clusters)}"
    chance = half_up(100 * check.needed.power, 0)
    return f"; {have}: {true}, {sample} would show it with a chance of {chance} %"


def _title(made: GateResult) -> str:
    return f"phasefusion gate: {made.verdict}"


def _lines(made: GateResult) -> list[str]:
    lines = [f"baseline {made.baseline}, candidate {made.candidate}", *made.reasons]
    return [*lines, *(f"note: {notice}" for notice in made.notices)]


def sections(made: GateResult) -> list[Section]:
    """Lay the checks out; parts without a row are left out."""
    rows = tuple(
        (
            name_of(check),
            _STATES[check.state],
            _percent(check.baseline),
            _percent(check.candidate),
            _points(check.difference),
            f"[{_points(check.low)}, {_points(check.high)}]",
            UNDEFINED if check.kind == "floor" else _points(-check.margin),
            str(check.n),
            str(check.n_clusters),
        )
        for check in made.checks
    )
    level = half_up(100 * (1 - 2 * made.rules.alpha), 0)
    columns = (
        "",
        "state",
        "baseline, %",
        "candidate, %",
        "points",
        f"{level} %",
        "limit",
        "items",
        "clusters",
    )
    note = f"Paired by item, clustered by {made.rules.cluster} (CR1, t)"
    if any(check.counted for check in made.checks):
        note += "; where few clusters changed, bounds are exact ones of their counts"
    left_out = tuple((reason, str(n)) for reason, n in made.left_out.items())
    settings = tuple(
        (name, differs)
        for name, _, differs in (
            entry.partition(": ") for entry in made.settings[:_MOST_SETTINGS]
        )
    )
    more = len(made.settings) - _MOST_SETTINGS
    found = [
        Section("Checks", columns, rows, note + "."),
        Section("Left out", ("reason", "items"), left_out),
        Section(
            "Settings that differ",
            ("setting", "baseline -> candidate"),
            settings,
            f"{more} more are in the JSON output." if more > 0 else "",
        ),
    ]
    return [section for section in found if section.rows]


def rich(made: GateResult) -> RenderableType:
    """Lay a result out for a terminal."""
    return tables.rich(_title(made), _lines(made), sections(made))


def markdown(made: GateResult) -> str:
    """Return a result as Markdown."""
    return tables.markdown(_title(made), _lines(made), sections(made))


def html(made: GateResult) -> str:
    """Return a result as an HTML fragment."""
    return tables.html(_title(made), _lines(made), sections(made))


def junit(made: GateResult) -> str:
    """Return a result as JUnit XML; see `GateResult.to_junit`."""
    cases = [(name_of(check), check.state, sentence(check)) for check in made.checks]
    states = [state for _, state, _ in cases]
    if made.verdict == "cannot tell" and "open" not in states:
        cases.append(("completeness", "open", "; ".join(made.reasons)))
        states.append("open")
    counts = {
        "tests": str(len(cases)),
        "failures": str(states.count("fell")),
        "errors": str(states.count("open")),
    }
    root = ElementTree.Element("testsuites", {"name": "phasefusion", **counts})
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": "phasefusion.gate", "skipped": "0", **counts}
    )
    for name, state, said in cases:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": "phasefusion.gate", "name": name, "time": "0"},
        )
        if state != "held":
            kind = "failure" if state == "fell" else "error"
            outcome = ElementTree.SubElement(
                case, kind, {"message": said, "type": _STATES[state]}
            )
            outcome.text = said
    out = ElementTree.SubElement(suite, "system-out")
    out.text = _NOT_XML.sub("�", "\n".join([_title(made), *_lines(made)]))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _points(value: float) -> str:
    return UNDEFINED if math.isnan(value) else half_up(100 * value, 2)


def _percent(value: float) -> str:
    return UNDEFINED if math.isnan(value) else half_up(100 * value, 2)
