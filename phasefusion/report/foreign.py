"""Tables of runs that were read from foreign files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from phasefusion.report.rates import P_SHOWN, TESTS
from phasefusion.report.sections import UNDEFINED, Section, percent

_MAX_PAIRS = 45
_MAX_ARMS = 6


def foreign_sections(numbers: Mapping[str, Any], cluster: str) -> list[Section]:
    """Lay out arms, pairs of arms, what all arms give, and strata.

    Parameters
    ----------
    numbers : mapping
        As `imported` gives them.
    cluster : {"video", "question"}
        What the questions share.
    """
    found = [_arms(numbers), _pairs(numbers, cluster), _over_arms(numbers)]
    found += [_stratum(name, one) for name, one in numbers["strata"].items()]
    return [one for one in found if one is not None]


def _counted(one: Mapping[str, Any] | None) -> str:
    """Format "36/72 = 50.0"."""
    if one is None:
        return UNDEFINED
    return f"{one['right']}/{one['n']} = {percent(one['value'])}"


def _points(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{100 * value:.2f}"


def _p(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.3g}"


def _arms(numbers: Mapping[str, Any]) -> Section:
    rows = [
        (
            name,
            UNDEFINED if one["budget"] is None else str(one["budget"]),
            _counted(one["accuracy"]),
            _counted(one["answered"]),
            str(one["no_answer"]),
            _points(one["se_as_if_independent"]),
            _points(one["se_by_video"]),
            str(one["videos"] or UNDEFINED),
        )
        for name, one in numbers["arms"].items()
    ]
    return Section(
        "Imported runs",
        (
            "run",
            "frames",
            "right, %",
            "of answered, %",
            "no answer",
            "SE independent",
            "SE by video",
            "videos",
        ),
        tuple(rows),
        "In the first option order asked. Right: no answer counts as wrong; of "
        "answered: those without one are left out. Standard errors of the first, in "
        "points: as if questions were independent, and clustered by video.",
    )


def _pairs(numbers: Mapping[str, Any], cluster: str) -> Section | None:
    rows = [
        (
            " - ".join(pair["arms"]),
            f"{pair['differ']}/{pair['n']} = {percent(pair['rate'])}",
            str(pair["only_first"]),
            str(pair["only_second"]),
            _p(pair[P_SHOWN[cluster]]),
            "identical: same evidence?" if pair["identical"] else "",
        )
        for pair in numbers["pairs"][:_MAX_PAIRS]
    ]
    if not rows:
        return None
    return Section(
        "Differences between imported runs",
        ("runs", "answers differ, %", "only first right", "only second", "p", "note"),
        tuple(rows),
        f"Where both answered; {TESTS[cluster]}. Runs of different numbers of frames "
        "see different evidence; these are no phase flips.",
    )


def _over_arms(numbers: Mapping[str, Any]) -> Section | None:
    one = numbers["over_arms"]
    if one is None:
        return None
    flips = one["any_flip"]
    rows = (
        ("right in any run", _counted(one["oracle"])),
        ("right in all runs", _counted(one["unanimous"])),
        ("right by majority, ties wrong", _counted(one["majority"])),
        ("ties of the majority", str(one["ties"])),
        (
            "answers not the same in all runs",
            f"{flips['flips']}/{flips['n']} = {percent(flips['value'])}",
        ),
        ("two runs differ, %", percent(one["pairwise"])),
        (
            f"two of the {len(one['distinct_arms'])} that are not identical differ, %",
            percent(one["pairwise_distinct"]),
        ),
    )
    return Section(
        f"Over {len(one['arms'])} imported runs",
        ("of questions", "n and %"),
        rows,
        f"Runs: {', '.join(one['arms'])}. Runs without frames are left out.",
    )


def _stratum(name: str, by_arm: Mapping[str, Any]) -> Section:
    arms = list(by_arm)[:_MAX_ARMS]
    values = dict.fromkeys(value for arm in arms for value in by_arm[arm])
    return Section(
        f"Right by {' '.join(name.split())}",
        (name, *(f"{arm}, %" for arm in arms)),
        tuple(
            (value, *(_counted(by_arm[arm].get(value)) for arm in arms))
            for value in values
        ),
        "No answer counts as wrong.",
    )
