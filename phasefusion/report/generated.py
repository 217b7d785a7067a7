"""What became of generated texts, by arm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from phasefusion.answers import OUTCOMES
from phasefusion.records import Passes, iter_passes
from phasefusion.report.sections import Section, percent

NO_FUSION = (
    "No fusion: generated answers have no posteriors that could be averaged; the vote "
    "of the phases stands in its place."
)


def generated(folder: Path, passes: Passes) -> dict[str, Any] | None:
    """Count the outcomes of generated passes, by recorded arm.

    Parameters
    ----------
    folder : Path
        The run folder.
    passes : Passes
        Its passes.

    Returns
    -------
    dict or None
        By arm: passes by outcome, and right ones with no answer counting as wrong;
        None when nothing was generated, or the run was imported and says it itself.
    """
    no_values = np.isnan(passes.logprobs).any(axis=1)
    said = (passes.answer >= 0) & no_values
    unsaid = [why for why in set(passes.invalid) if why and why.startswith(OUTCOMES)]
    if not said.any() and not unsaid:
        return None
    found: dict[str, Any] = {}
    for row in iter_passes(folder):
        if row.get("path") != "generate" or "source" in row:
            continue
        arm = found.setdefault(
            row["arm"], {"outcomes": Counter(), "passes": 0, "right": 0, "scored": 0}
        )
        arm["passes"] += 1
        arm["outcomes"][row.get("outcome") or "missing"] += 1
        if row["gold"] is not None:
            arm["scored"] += 1
            arm["right"] += row["answer"] == row["gold"]
    return {
        name: {
            "passes": one["passes"],
            **{outcome: one["outcomes"][outcome] for outcome in OUTCOMES},
            "right": one["right"] / one["scored"] if one["scored"] else math.nan,
            "right_of_parsed": (
                one["right"] / one["outcomes"]["parsed"]
                if one["outcomes"]["parsed"]
                else math.nan
            ),
        }
        for name, one in found.items()
    } or None


def section(numbers: Mapping[str, Any] | None) -> Section | None:
    """Lay the outcomes out."""
    if numbers is None:
        return None
    rows = [
        (
            name,
            *(percent(one[outcome] / one["passes"]) for outcome in OUTCOMES),
            percent(one["right"]),
            percent(one["right_of_parsed"]),
            str(one["passes"]),
        )
        for name, one in numbers.items()
    ]
    return Section(
        "Generated answers",
        (
            "arm",
            *(f"{outcome}, %" for outcome in OUTCOMES),
            "right, %",
            "of parsed",
            "passes",
        ),
        tuple(rows),
        "Parsed: the text names one option; invalid: a letter that the question does "
        "not have; refused; unparsed: no option, or more than one; missing: no text. "
        "Right: without an answer counts as wrong; the other tables leave such "
        "questions out.",
    )
