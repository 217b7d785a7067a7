"""How the anchors of a run were found, from what its passes say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from phasefusion._wording import by_number, counted
from phasefusion.records import Passes
from phasefusion.report._rows import rows_with
from phasefusion.report.figures.stability import stability_of
from phasefusion.report.figures.strata import table_by
from phasefusion.report.figures.study import Study
from phasefusion.report.figures.table import sections as figure_sections
from phasefusion.report.sections import UNDEFINED, Section, percent

_MAX_REASON = 100


def found_anchors(
    folder: Path, passes: Passes, settings: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Collect every anchor, with all that was tried.

    Parameters
    ----------
    folder : Path
        The run folder, or its pass file.
    passes : Passes
        Its passes.
    settings : mapping
        Of run.json.

    Returns
    -------
    dict or None
        "windows" (a list of "benchmark", "video", "questions", "kind", "time_s",
        "frame", "window", "why", "tried", and "wanted_frames", those of all phases
        together), "methods" (by kind, how often it was "found", "failed" and "not
        asked", and the "reasons" of failures) and "by_kind" (a table of stability by
        method); None for runs without anchors.
    """
    windows, kinds = windows_of(folder)
    if not windows:
        return None
    return {
        "windows": windows,
        "methods": _methods(windows),
        "by_kind": _by_kind(kinds, passes, settings),
    }


def windows_of(
    folder: Path,
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], str]]:
    """Return every window, as `found_anchors` has it, and the method by question."""
    found: dict[tuple[str, str, bytes], dict[str, Any]] = {}
    asked: dict[tuple[str, str, bytes], set[tuple[str, str]]] = {}
    for one in rows_with(folder, "anchor"):
        anchor = one.get("anchor")
        if not isinstance(anchor, Mapping) or "tried" not in anchor:
            continue
        benchmark, video = one["benchmark"], one.get("video_id") or one["question_id"]
        names = {"benchmark": benchmark, "video": video}
        key = benchmark, video, orjson.dumps(anchor, option=orjson.OPT_SORT_KEYS)
        wanted = int(one["budget"] or 0) * int(one["n_phases"])
        found.setdefault(key, {**names, **anchor, "wanted_frames": wanted})
        asked.setdefault(key, set()).add((one["benchmark"], one["question_id"]))
    windows = [
        {**one, "questions": len(asked[key])} for key, one in sorted(found.items())
    ]
    kinds = {
        question: found[key]["kind"]
        for key, of_key in asked.items()
        for question in of_key
    }
    return windows, kinds


def _by_kind(
    kinds: Mapping[tuple[str, str], str], passes: Passes, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Break the anchored arm down by the method that found the anchor."""
    study = Study(passes, settings)
    found = stability_of(study, "anchored")
    assert found is not None  # it has passes, which say so
    of_item = [kinds.get((one.benchmark, one.question_id)) for one in study.items]
    table = table_by(
        found,
        "Anchored frames by method of the anchor",
        "method",
        [
            (kind, np.array([one == kind for one in of_item]))
            for kind in sorted(set(kinds.values()))
        ],
        "",
        "anchors",
    )
    return table.to_dict()


def _methods(windows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count what became of every method, in the order in which they were tried."""
    found: dict[str, Any] = {}
    reasons: dict[str, Counter[str]] = {}
    for one in windows:
        for attempt in one["tried"]:
            kind, outcome = attempt["kind"], attempt["outcome"]
            counts = found.setdefault(
                kind, {"found": 0, "failed": 0, "not asked": 0, "questions": 0}
            )
            counts[outcome] += 1
            if outcome == "found":
                counts["questions"] += one["questions"]
            elif outcome == "failed":
                reasons.setdefault(kind, Counter())[attempt["why"]] += 1
    for kind, counts in found.items():
        common = reasons.get(kind, Counter()).most_common()
        counts["reasons"] = [{"reason": why, "n": n} for why, n in common]
    return found


def anchor_sections(anchors: Mapping[str, Any] | None) -> list[Section]:
    """Lay out what became of every method, and how stable its windows are."""
    if anchors is None:
        return []
    return [
        _methods_section(anchors),
        *figure_sections({"tables": [anchors["by_kind"]]}),
    ]


def _methods_section(anchors: Mapping[str, Any]) -> Section:
    rows = []
    for kind, one in anchors["methods"].items():
        reason = UNDEFINED
        if one["reasons"]:
            first = " ".join(one["reasons"][0]["reason"].split())
            reason = first if len(first) <= _MAX_REASON else f"{first[:97]}..."
        elif one["not asked"]:
            reason = "not asked for"
        rows.append(
            (
                kind,
                str(one["found"]),
                str(one["questions"]),
                str(one["failed"]),
                str(one["not asked"]),
                reason,
            )
        )
    return Section(
        f"Anchors of {counted(len(anchors['windows']), 'window')}",
        ("method", "found", "questions", "failed", "not asked", "reason"),
        tuple(rows),
        "A window is that of a video, or of a question that asks for a moment of its "
        "own. Methods are tried in this order until one finds an anchor; the reason is "
        "the most frequent one. The JSON report has every window, with all that was "
        "tried.",
    )


def sentences(anchors: Mapping[str, Any] | None) -> list[str]:
    """Say by what anchors were found, and how often another method had to do."""
    if anchors is None:
        return []
    windows = anchors["windows"]
    kinds = Counter(one["kind"] for one in windows)
    parts = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
    found = [f"Anchors of {counted(len(windows), 'window')} by method: {parts}."]
    missed = reasons_missed(windows)
    if missed:
        found.append(
            f"In {len(missed)} of them ({percent(len(missed) / len(windows))} %) the "
            "phrase or time that was asked for was not there, and another method had "
            "to do."
        )
    short = sum(
        one["window"][1] - one["window"][0] < one["wanted_frames"] for one in windows
    )
    if short:
        found.append(
            f"{short} of the windows {by_number(short, 'has', 'have')} fewer frames "
            "than the phases show together, so that some are shown again: a longer "
            "window (--window) or a smaller budget would not."
        )
    return found


def reasons_missed(windows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say why windows are not where they were asked for, an entry a failure."""
    return [
        attempt["why"]
        for one in windows
        for attempt in one["tried"]
        if attempt["outcome"] == "failed" and attempt["kind"] in _ASKED
    ]


#: Kinds that need to be asked for: their failure is a fallback.
_ASKED = ("subtitle", "timestamp")
