"""What became of generated texts, by arm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.answers import OUTCOMES
from phasefusion.records import Passes
from phasefusion.records.files import IMPORTED
from phasefusion.report.sections import Section, percent

NO_FUSION = (
    "No fusion: generated answers have no posteriors that could be averaged; the vote "
    "of the phases stands in its place."
)


def generated(passes: Passes, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Count the outcomes of generated passes, by recorded arm.

    Parameters
    ----------
    passes : Passes
    settings : mapping
        Of run.json.

    Returns
    -------
    dict or None
        By arm: passes by outcome, and right ones with no answer counting as wrong;
        None when nothing was generated, or the run was imported and says it itself.
    """
    said = (passes.answer >= 0) & np.isnan(passes.logprobs).any(axis=1)
    outcome = np.where(said, "parsed", "missing").astype(object)
    for p in np.flatnonzero(passes.answer < 0).tolist():
        kind = (passes.invalid[p] or "").partition(":")[0]
        if kind in OUTCOMES:
            outcome[p] = kind
    if settings.get("protocol") == IMPORTED or not (outcome != "missing").any():
        return None
    gold = np.array([-1 if i.gold is None else i.gold for i in passes.items], np.int64)
    right = passes.answer == gold[passes.item]
    scored = gold[passes.item] >= 0
    found: dict[str, Any] = {}
    for arm in dict.fromkeys(passes.arm.tolist()):
        chosen = passes.arm == arm
        counts = Counter(outcome[chosen].tolist())
        found[str(arm)] = {
            "passes": int(chosen.sum()),
            **{str(name): counts[name] for name in OUTCOMES},
            "right": _mean(right[chosen & scored]),
            "right_of_parsed": _mean(right[chosen & scored & (outcome == "parsed")]),
        }
    return found


def _mean(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else math.nan


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
            *OUTCOMES,
            "right",
            "of parsed",
            "passes",
        ),
        tuple(rows),
        "In percent. Parsed: the text names one option; invalid: a letter that the "
        "question does not have; refused; unparsed: no option, or more than one; "
        "missing: no text. Right: without an answer counts as wrong; the other tables "
        "leave such questions out.",
    )
