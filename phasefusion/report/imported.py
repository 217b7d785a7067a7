"""Statistics of runs that were read from foreign files: arms without phases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from phasefusion.importers.analysis import (
    ArmTable,
    Row,
    accuracy_by,
    arm_table,
    group_flips,
    property_of,
    strata_of,
)
from phasefusion.importers.checks import cannot, identical_runs
from phasefusion.report.items import ItemId
from phasefusion.report.rates import Rates
from phasefusion.stats import (
    accuracy,
    clustered_mean,
    flip_rates,
    majority_vote,
    unanimity,
)
from phasefusion.stats.proportions import Proportion

Numbers = dict[str, Any]

#: Strata with more values are no breakdown but names.
_MAX_VALUES = 40


def imported(rows: Sequence[Row]) -> Numbers:
    """Compute what passes of foreign files give without a grid.

    Parameters
    ----------
    rows : sequence of mapping
        All passes of the run.

    Returns
    -------
    dict
        "arms", "pairs", "over_arms", "strata", "groups" and "cannot".
    """
    table = arm_table(rows)
    rates = _rates(table)
    same = {frozenset(pair[:2]) for pair in identical_runs(rows)}
    return {
        "arms": {name: _arm(table, rates, j) for j, name in enumerate(table.arms)},
        "pairs": [
            _pair(table, rates, i, j) | {"identical": frozenset({a, b}) in same}
            for (i, a), (j, b) in combinations(enumerate(table.arms), 2)
        ],
        "over_arms": _over_arms(table, same),
        "strata": _strata(rows),
        "groups": _groups(rows, table.arms),
        "cannot": cannot(rows),
    }


def _proportion(found: Proportion) -> Numbers:
    return {
        "right": found.k,
        "n": found.n,
        "value": found.value,
        "low": found.low,
        "high": found.high,
    }


def _rates(table: ArmTable) -> Rates:
    """Tell which questions share videos."""
    pairs = zip(table.items, table.videos, strict=True)
    return Rates([ItemId(*key, video) for key, video in pairs])


def _arm(table: ArmTable, rates: Rates, j: int) -> Numbers:
    """Accuracy with no answer as wrong, and over answers, and its standard errors."""
    known = (table.gold >= 0) & table.asked[:, j]
    right = table.answers[known, j] == table.gold[known]
    answered = table.answers[known, j] >= 0
    named = all(video for video, use in zip(table.videos, known, strict=True) if use)
    videos = rates.videos[known] if named else None
    mean = clustered_mean(right.astype(float), videos, limits=(0.0, 1.0))
    return {
        "budget": table.budgets[j],
        "accuracy": _proportion(accuracy(right)),
        "answered": _proportion(accuracy(right[answered])),
        "no_answer": int((table.answers[table.asked[:, j], j] < 0).sum()),
        "se_as_if_independent": mean.se_iid,
        "se_by_video": mean.se if named else math.nan,
        "videos": mean.n_clusters if named else 0,
    }


def _pair(table: ArmTable, rates: Rates, i: int, j: int) -> Numbers:
    """Disagreement of two arms where both answer, and McNemar where both were asked."""
    a, b = table.answers[:, i], table.answers[:, j]
    both = (a >= 0) & (b >= 0)
    known = table.asked[:, i] & table.asked[:, j] & (table.gold >= 0)
    right = [np.where(known, side == table.gold, np.nan) for side in (a, b)]
    test = rates.paired(*right)
    n, n_differ = int(both.sum()), int((a[both] != b[both]).sum())
    return {
        "arms": [table.arms[i], table.arms[j]],
        "differ": n_differ,
        "n": n,
        "rate": n_differ / n if n else math.nan,
        "only_first": test.only_first,
        "only_second": test.only_second,
        "p": test.exact,
        "p_clustered": test.clustered,
        "n_scored": test.n,
    }


def _over_arms(table: ArmTable, same: set[frozenset[str]]) -> Numbers | None:
    """Oracle, unanimity and majority over the arms that see frames."""
    chosen = [j for j, budget in enumerate(table.budgets) if budget != 0]
    if len(chosen) < 2:
        return None
    distinct = [
        j
        for place, j in enumerate(chosen)
        if not any(
            frozenset({table.arms[i], table.arms[j]}) in same for i in chosen[:place]
        )
    ]
    known = table.gold >= 0
    answers, gold = table.answers[:, chosen], table.gold
    flips = flip_rates(answers)
    vote = majority_vote(
        answers,
        n_options=table.n_options,
        item_ids=[name for _, name in table.items],
    )
    decided = (vote.n_tied == 1) & known
    right = answers == gold[:, None]
    found: Numbers = {
        "arms": [table.arms[j] for j in chosen],
        "distinct_arms": [table.arms[j] for j in distinct],
        "any_flip": {"flips": flips.n_flipped, "n": flips.n_used, "value": flips.any},
        "pairwise": flips.pairwise,
        "pairwise_distinct": (
            flip_rates(table.answers[:, distinct]).pairwise
            if len(distinct) > 1
            else math.nan
        ),
        "ties": int((vote.n_tied[known] > 1).sum()),
        "decided": int(decided.sum()),
    }
    if not known.any():
        return found | {"oracle": None, "unanimous": None, "majority": None}
    return found | {
        "oracle": _proportion(accuracy(right[known].any(axis=1))),
        "unanimous": _proportion(unanimity(answers[known], gold[known])),
        "majority": _proportion(
            accuracy(((vote.answers == gold) & decided)[known]),
        ),
    }


def _strata(rows: Sequence[Row]) -> Numbers:
    """Accuracy of every arm by the properties of the questions."""
    names = {name: None for row in rows for name in strata_of(row)}
    # The type of a question is often one of its strata already.
    types = [row.get("type") for row in rows]
    if not any([property_of(row, name) for row in rows] == types for name in names):
        names = {"type": None, **names}
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    found: Numbers = {}
    for name in names:
        values = {
            arm: accuracy_by(of_arm, name)
            for arm in arms
            if (of_arm := [row for row in rows if _has(row, name, arm)])
        }
        known = {value for by in values.values() for value in by}
        if 1 < len(known) <= _MAX_VALUES:
            found[name] = {
                arm: {value: _proportion(one) for value, one in by.items()}
                for arm, by in values.items()
            }
    return found


def _has(row: Row, name: str, arm: str) -> bool:
    return row["arm"] == arm and property_of(row, name) is not None


def _groups(rows: Sequence[Row], arms: Sequence[str]) -> Numbers | None:
    if not any(row.get("group") is not None for row in rows):
        return None
    found = {}
    for arm in arms:
        one = group_flips(rows, arm=arm)
        found[arm] = {"flips": one.flips, "groups": one.groups, "value": one.rate}
    return found


def headline(numbers: Mapping[str, Any]) -> list[str]:
    """Say what foreign files gave, and what they cannot give."""
    found = []
    for pair in numbers["pairs"]:
        if pair["identical"]:
            a, b = pair["arms"]
            found.append(
                f"{a} and {b} give identical answers on all {pair['n']} questions - "
                "same evidence? They are no two independent draws."
            )
    groups = numbers["groups"]
    if groups is not None:
        parts = [f"{one['flips']}/{one['groups']} for {a}" for a, one in groups.items()]
        found.append(
            "Questions with one option set change their option text in "
            f"{', '.join(parts)} groups; their wording and their option order change "
            "together, so this is no effect of the order alone."
        )
    found += [f"Cannot be computed: {text}." for text in numbers["cannot"]]
    return found
