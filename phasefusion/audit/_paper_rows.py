"""Where the figures that the paper publishes are in the reports of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from phasefusion.report.figures.table import Kind

Numbers: TypeAlias = Mapping[str, Any]
Finder: TypeAlias = Callable[[Numbers], Any]


def at(*path: str) -> Finder:
    """Find a number of a report by its path."""

    def find(numbers: Numbers) -> Any:
        value: Any = numbers
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    return find


def cell(title: str, row: str, column: str) -> Finder:
    """Find a value of a run's figure by table, row and column.

    Beginnings of the title and of the row are enough.
    """

    def find(numbers: Numbers) -> Any:
        for table in (numbers.get("figure") or {"tables": ()})["tables"]:
            first = table["columns"][0]["name"]
            if table["title"].startswith(title):
                for values in table["rows"]:
                    if values[first].startswith(row):
                        return values.get(column)
        return None

    return find


def _value(found: Any) -> float:
    """Return the number of a rate or of a number; NaN of nothing."""
    if isinstance(found, Mapping):
        found = found["value"]
    return math.nan if found is None else float(found)


def _points(ours: Finder, theirs: Finder) -> Finder:
    return lambda numbers: 100 * (_value(ours(numbers)) - _value(theirs(numbers)))


def _ratio(ours: Finder, theirs: Finder) -> Finder:
    def find(numbers: Numbers) -> float:
        below = _value(theirs(numbers))
        return _value(ours(numbers)) / below if below > 0 else math.nan

    return find


def _pairs(choose: Callable[[Sequence[float]], float]) -> Finder:
    """Find the smallest or greatest share of two samplers that differ."""

    def find(numbers: Numbers) -> float:
        found = [
            _value(row["questions"])
            for table in (numbers.get("figure") or {"tables": ()})["tables"]
            if table["title"] == _PAIRS
            for row in table["rows"]
            if " - " in row["samplers"]
        ]
        return choose(found) if found else math.nan

    return find


def _samplers(choose: Callable[[Sequence[float]], float]) -> Finder:
    def find(numbers: Numbers) -> float:
        found = [
            row["consensus right"]
            for table in (numbers.get("figure") or {"tables": ()})["tables"]
            if table["title"] == "Deployed samplers"
            for row in table["rows"]
            if row["sampler"] != "(exact grid)"
        ]
        return choose(found) if found else math.nan

    return find


def _fixed(column: str) -> Finder:
    """Find what stays fixed, over questions of every number of options."""

    def find(numbers: Numbers) -> Any:
        tables = (numbers.get("figure") or {"tables": ()})["tables"]
        rows = [
            r for t in tables if t["title"].startswith("What stays") for r in t["rows"]
        ]
        n = sum(row["n"] for row in rows)
        if not n:
            return math.nan
        return float(sum(row["n"] * row[column] for row in rows)) / n

    return find


_SWEEP = "Consensus answers over the phases"
_BUDGETS = "By frames a pass"
_COUNTS = "Fusion by number of phases"
_ORDERS_8 = cell(_BUDGETS, "8", "fusion right")
_CHANGE = ("half_step", "arms")
_PAIRS = "Consensus answers that differ between samplers"
_LETTERS, _VIDEO = "With letters against", "With video against"

#: By section: label, published figures, protocol, how it is found, kind.
ROWS: Mapping[str, tuple[tuple[str, str, str, Finder, Kind], ...]] = {
    "Option order (2.1, 3.2, A)": (
        ("answers that flip over the orders, single pass", "order_least order_most",
         "phasefusion", at("order_flips", "arms", "single", "any"), "rate"),
        ("the same, three options", "three_options",
         "phasefusion", at("order_flips", "by_options", "3", "any"), "rate"),
        ("the same, four options", "four_options",
         "phasefusion", at("order_flips", "by_options", "4", "any"), "rate"),
        ("the same, five options", "five_options",
         "phasefusion", at("order_flips", "by_options", "5", "any"), "rate"),
        ("order flips before pooling phases", "order_before",
         "phasefusion", at("order_flips", "arms", "single", "any"), "rate"),
        ("order flips after pooling phases", "order_after",
         "phasefusion", at("order_flips", "arms", "fusion", "any"), "rate"),
    ),
    "Phase (2.2, A)": (
        ("consensus of two phases differs", "phase_q3 phase_q25 phase_iv25 phase_iv35",
         "phasefusion", at("phase_flips", "consensus", "pairwise"), "rate"),
        ("accuracy at phase 0", "iv25_0 iv35_0",
         "phasefusion", at("accuracy", "phase 0", "consensus"), "rate"),
        ("accuracy at phase 1", "iv25_1 iv35_1",
         "phasefusion", at("accuracy", "phase 1", "consensus"), "rate"),
        ("accuracy at phase 2", "iv25_2 iv35_2",
         "phasefusion", at("accuracy", "phase 2", "consensus"), "rate"),
        ("half votes differ within a phase", "within_q3 within_q25 within_iv25",
         "phasefusion", cell("Votes of two halves", "within", "questions"), "rate"),
        ("half votes differ across phases", "across_q3 across_q25 across_iv25",
         "phasefusion", cell("Votes of two halves", "across", "questions"), "rate"),
        ("phase flips over the floor of repeated runs",
         "floor_ratio_q3 floor_ratio_q25", "reruns",
         cell("Phase flips in units", "two phases", "ratio"), "number"),
        ("13 phases, two of them differ", "dense_pairwise",
         "phase-sweep", cell(_SWEEP, "two phases", "questions"), "rate"),
        ("13 phases, some differ", "dense_any",
         "phase-sweep", cell(_SWEEP, "all ", "questions"), "rate"),
    ),
    "Frames a pass (2.2, 4.1)": (
        ("4 frames, two phases differ", "ego_4 vmme_4",
         "budget-sweep", cell(_BUDGETS, "4", "two phases differ"), "rate"),
        ("32 frames, two phases differ", "ego_32 vmme_32",
         "budget-sweep", cell(_BUDGETS, "32", "two phases differ"), "rate"),
        ("fusion of 3 x 8 over one pass of 16", "over_middle",
         "budget-sweep", _points(_ORDERS_8, cell(_BUDGETS, "16", "one pass right")),
         "points"),
    ),
    "Deployed samplers (2.3, A)": (
        ("left and midpoint differ", "sampler_flip",
         "sampler-sweep", cell(_PAIRS, "left - midpoint", "questions"), "rate"),
        ("the two most alike differ", "sampler_flip_least",
         "sampler-sweep", _pairs(min), "percent"),
        ("any two differ", "sampler_any",
         "sampler-sweep", cell(_PAIRS, "any two", "questions"), "rate"),
        ("lowest accuracy", "sampler_low",
         "sampler-sweep", _samplers(min), "percent"),
        ("highest accuracy", "sampler_high",
         "sampler-sweep", _samplers(max), "percent"),
        ("range of the accuracies", "sampler_range",
         "sampler-sweep", _points(_samplers(max), _samplers(min)), "points"),
    ),
    "Fusion: accuracy and cost (Table 1, 4.1, E)": (
        ("fusion right", "fusion_accuracy",
         "phasefusion", at("accuracy", "fusion", "consensus"), "rate"),
        ("majority vote right", "vote_accuracy",
         "phasefusion", at("accuracy", "vote", "consensus"), "rate"),
        ("fusion over one pass, mean over orders", "gain_q3 gain_q25",
         "phasefusion", _points(at("accuracy", "fusion", "order_averaged"),
                                at("accuracy", "single", "order_averaged")), "points"),
        ("fusion over 32 frames", "difference",
         "phasefusion", cell("Equivalence of", "dense", "points"), "points"),
        ("90 % interval, low end", "ci_low",
         "phasefusion", cell("Equivalence of", "dense", "low"), "points"),
        ("90 % interval, high end", "ci_high",
         "phasefusion", cell("Equivalence of", "dense", "high"), "points"),
        ("fusion over the 24-frame union (published: generated)", "union_q3 union_q25",
         "phasefusion", cell("Equivalence of", "union", "points"), "points"),
        ("attention units of fusion", "fusion_units",
         "phasefusion", at("cost", "fusion", "attention_units"), "count"),
        ("over those of 32 frames", "attention_share",
         "phasefusion", _ratio(at("cost", "fusion", "attention_units"),
                               at("cost", "dense", "attention_units")), "number"),
        ("passes of fusion", "cost_factor",
         "phasefusion", at("cost", "fusion", "passes"), "count"),
    ),
    "Fusion: reproducibility (Table 1, 4.2, E, F)": (
        ("half a step changes, one pass", "single_change",
         "phasefusion", at(*_CHANGE, "single", "consensus"), "rate"),
        ("half a step changes, 24-frame union", "union_change",
         "phasefusion", at(*_CHANGE, "union", "consensus"), "rate"),
        ("half a step changes, fusion", "fusion_change",
         "phasefusion", at(*_CHANGE, "fusion", "consensus"), "rate"),
        ("the same by pass, one pass", "single_origin",
         "phasefusion", at(*_CHANGE, "single", "passes"), "rate"),
        ("the same by pass, fusion", "fusion_origin",
         "phasefusion", at(*_CHANGE, "fusion", "passes"), "rate"),
        ("damping", "damping", "phasefusion",
         _ratio(at(*_CHANGE, "single", "passes"), at(*_CHANGE, "fusion", "passes")),
         "number"),
        ("two random origins differ, one pass", "single_draws", "random-draws",
         cell("Answers that differ between", "one grid", "answers differ"), "rate"),
        ("two random origins differ, fusion", "fusion_draws", "random-draws",
         cell("Answers that differ between", "fusion", "answers differ"), "rate"),
    ),
    "Order flips told by the margin (4.3)": (
        ("AUROC of a low margin", "flip_auroc", "phasefusion",
         cell("Order flips by", "single", "AUROC"), "number"),
        ("lowest fifth flips", "flagged", "phasefusion",
         cell("Order flips by", "single", "lowest fifth flips"), "rate"),
        ("others flip", "unflagged", "phasefusion",
         cell("Order flips by", "single", "others flip"), "rate"),
    ),
    "Interventions (B)": (
        ("two votes of four orders differ", "residual",
         "four-votes", cell("Two disjoint", "all", "votes differ"), "rate"),
        ("flips with letters", "labels_flips",
         "unlabelled", cell(_LETTERS, "with letters", "any order differs"), "rate"),
        ("flips without letters", "no_labels_flips",
         "unlabelled", cell(_LETTERS, "without", "any order differs"), "rate"),
        ("flips with the video", "video_flips",
         "blind", cell(_VIDEO, "with video", "any order differs"), "rate"),
        ("flips without the video", "blind_flips",
         "blind", cell(_VIDEO, "without", "any order differs"), "rate"),
        ("right with the video", "video_accuracy",
         "blind", cell(_VIDEO, "with video", "right, all orders"), "rate"),
        ("right without the video", "blind_accuracy",
         "blind", cell(_VIDEO, "without", "right, all orders"), "rate"),
    ),
    "Fixation and debiasing (D)": (
        ("content fixed over the orders", "content_fixation",
         "permutations", _fixed("content"), "number"),
        ("letter fixed over the orders", "letter_fixation",
         "permutations", _fixed("letter"), "number"),
        ("mass at a position", "mass_fixation",
         "permutations", _fixed("mass at a position"), "number"),
        ("given order right", "plain_accuracy",
         "pride", cell("Letter prior", "given", "right"), "rate"),
        ("PriDe right", "pride_accuracy",
         "pride", cell("Letter prior", "PriDe", "right"), "rate"),
        ("average of ten orders right", "ensemble_accuracy",
         "permutations", cell("All option", "average of 10", "right"), "rate"),
        ("average of all orders right", "permutation_accuracy",
         "permutations", cell("All option", "average of all", "right"), "rate"),
    ),
    "Number of phases (F, G)": (
        ("fusion of 3 right", "s3_accuracy",
         "phase-counts", cell(_COUNTS, "3", "right"), "percent"),
        ("3 over 2", "s3_over_s2",
         "phase-counts", cell("Numbers of", "3 over 2", "points"), "points"),
        ("3 over 2, p", "s3_p",
         "phase-counts", cell("Numbers of", "3 over 2", "p"), "pvalue"),
        ("fusion of 3 where its views differ", "s3_disputed",
         "phase-counts", cell(_COUNTS, "3", "right there"), "percent"),
        ("views of 3 there, mean", "view_0 view_1 view_2",
         "phase-counts", cell(_COUNTS, "3", "views there"), "percent"),
        ("fusion of 6 right", "s6_accuracy",
         "phase-counts", cell(_COUNTS, "6", "right"), "percent"),
        ("6 over 3", "s6_gain",
         "phase-counts", cell("Numbers of", "6 over 3", "points"), "points"),
        ("6 over 3, p", "s6_p",
         "phase-counts", cell("Numbers of", "6 over 3", "p"), "pvalue"),
        ("6 and 3 differ", "s6_changed",
         "phase-counts", cell("Numbers of", "6 over 3", "answers differ"), "percent"),
    ),
}  # fmt: skip

#: Published figures that no run of a model here gives, and why.
CANNOT: Mapping[str, str] = {
    "matching_before matching_after": (
        "Seven LoRA arms were trained on 4,996 questions; nothing is trained here."
    ),
    "seconds_fusion seconds_union": (
        "Seconds of one L40S at batch 1; those of another machine say nothing about it."
    ),
    "ratio_ego ratio_vmme": (
        "The floor of repeated runs at 32 frames, on two benchmarks. The shipped model "
        "on a CPU repeats itself exactly, so its floor is 0 at every budget; with your "
        "model: protocol reruns, budget=32."
    ),
    "gain_short n_short p_short gain_short_main gain_long n_long p_long "
    "gain_long_main": (
        "A split of the gain at a phase offset of one second. Offsets in the shipped "
        "clips are 0.6 s at most, and no simulated effect knows seconds."
    ),
    "quartile_1 quartile_2 quartile_3 quartile_4": (
        "Gains by visual distinctness need long natural clips of differing content; "
        "the shipped ones are drawn alike."
    ),
}

#: What the paper fixed or counted, which is no result.
SETTINGS = (
    "phases budget dense_budget middle_budget union_budget middle_units margin "
    "observations questions phase_items phase_items_least order_n reverse_n orders "
    "cells cell_questions one_in_five dense_phases samplers shift_n alpha delta "
    "blind_gap"
)
