"""The first sentences of a report: what a run found, and what it lacks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from phasefusion._wording import by_number, counted
from phasefusion.records.files import IMPORTED, RECORDED
from phasefusion.report.anchors import sentences as anchors_sentences
from phasefusion.report.figures.stableeval import sentences as stableeval_sentences
from phasefusion.report.generated import NO_FUSION
from phasefusion.report.imported import headline as imported_headline
from phasefusion.report.missing import (
    incomplete_sentence,
    missing_sentence,
    unfinished_sentence,
)
from phasefusion.report.scored import LITTLE_MASS, MANY_TIES
from phasefusion.report.sections import measures_consistency, percent
from phasefusion.report.stated import sentences as stated_sentences

_ARMS = ("single", "fusion", "union", "dense")
_MAX_ARMS = 8
NO_GOLD = "No question has a right answer, so there is no accuracy."


def title(numbers: Mapping[str, Any]) -> str:
    """Name a report; run.json need not say of which protocol it is."""
    protocol = numbers["protocol"]
    return "phasefusion report" + ("" if protocol is None else f": protocol {protocol}")


def headline(numbers: Mapping[str, Any]) -> list[str]:
    """Say in a few sentences what the run found."""
    lines = []
    items = numbers["items"]
    missing, unfinished = missing_sentence(items), unfinished_sentence(items)
    is_known = items["planned_passes"] is not None
    whole = is_known and not missing and not unfinished
    lines.append(
        f"{items['with_passes']} of {_questions(items['questions'])}"
        f"{_videos(items)}, {counted(items['passes'], 'pass', 'passes')}"
        f"{', none of them missing.' if whole else '.'}"
    )
    found = [_shared_videos(items), unfinished, missing]
    found += [_few_left(items), _one_option(items)]
    found += [incomplete_sentence(items), _accuracy_sentence(numbers)]
    lines += [line for line in found if line]
    lines += numbers["card"]["scored"]
    lines += [line for line in (_ties(numbers), _little_mass(numbers)) if line]
    lines += stated_sentences(numbers["stated"])
    lines += _changes(numbers)
    if numbers.get("generated") and "vote" in numbers["accuracy"]:
        lines.append(NO_FUSION)
    figure = numbers.get("figure")
    if figure and numbers["protocol"] == "stableeval":
        lines += stableeval_sentences(numbers["consistency"], figure["tables"])
    elif figure and not figure["is_further"]:
        section = figure["section"]
        where = f"in brackets the paper's{', section ' if section else ''}{section}"
        if section == "StableEval":  # which gives no numbers to compare with
            where = section
        lines.append(f"The figure of this protocol ({where}): {figure['reproduces']}.")
    lines += anchors_sentences(numbers.get("anchors"))
    if "imported" in numbers:
        lines += imported_headline(numbers["imported"])
    return lines


def _changes(numbers: Mapping[str, Any]) -> list[str]:
    """Say how often another phase, half a step and another order change answers."""
    lines = []
    flips = numbers["phase_flips"]
    if flips is not None and flips["consensus"]["pairwise"]["n"]:
        lines.append(
            "Another phase of the frame grid changes "
            f"{percent(flips['consensus']['pairwise']['value'])} % of the consensus "
            f"answers; {percent(flips['consensus']['any']['value'])} % change over all "
            "phases."
        )
    if not measures_consistency(numbers):
        lines.append(
            "Consistency is not measured: it takes two phases, or two option orders, "
            "that answer the same questions."
        )
    half = numbers["half_step"]
    if half is not None:
        parts = [
            f"{percent(values['consensus']['value'])} % for {arm}"
            for arm, values in half["arms"].items()
            if values["consensus"]["n"]
        ]
        if parts:
            lines.append(f"A half-step shift changes answers: {', '.join(parts)}.")
    flips = numbers["order_flips"]
    if flips is not None:
        values = flips["arms"][flips["by_options_of"]]
        if values["pairwise"]["n"]:
            lines.append(
                f"Another option order changes {percent(values['pairwise']['value'])} "
                "% of the answers at a fixed phase; "
                f"{percent(values['any']['value'])} % of the questions change under "
                "some order."
            )
    return lines


def _accuracy_sentence(numbers: Mapping[str, Any]) -> str:
    """Name the accuracy of the arms, of a run without arms of ours that of its own."""
    values = {
        arm: rates["order_averaged"]["value"]
        for arm, rates in numbers["accuracy"].items()
        if not math.isnan(rates["order_averaged"]["value"])
    }
    usual = [*_ARMS, *(["vote"] if "fusion" not in values else [])]
    arms = [arm for arm in usual if arm in values] or list(values)
    if not arms:
        items = numbers["items"]
        no_gold = items["without_gold"] == items["with_passes"]
        return NO_GOLD if no_gold else ""
    parts = [f"{arm} {percent(values[arm])} %" for arm in arms[:_MAX_ARMS]]
    if len(arms) > len(parts):
        parts.append(f"{len(arms) - len(parts)} more in the table")
    foreign = numbers["protocol"] in (IMPORTED, RECORDED, None)
    over = ""
    if numbers["order_flips"] is not None:
        over = ", mean over orders"
    elif numbers["card"]["shows_options"] and not foreign:
        over = ", in one option order"
    return f"Accuracy{over}: {', '.join(parts)}{_policy(numbers, arms[:_MAX_ARMS])}."


def _ties(numbers: Mapping[str, Any]) -> str:
    """Say that answers are those of the tie rule, where many are."""
    tied = numbers["consistency"]["tied_passes"]
    if not tied >= MANY_TIES:
        return ""
    return (
        f"In {percent(tied)} % of the passes several options share the greatest score "
        "and a tie rule chose the answer, the same in every phase and order; agreement "
        "is that of the rule, and consistency is not rated."
    )


def _little_mass(numbers: Mapping[str, Any]) -> str:
    """Say that the model would answer something else; texts have little anyway.

    So it is with arms that score texts, and of no video there is nothing to say.
    """
    if numbers["card"]["score"] not in (None, "letter"):
        return ""
    median = min(
        (
            values["median"]
            for values in numbers["option_mass"].values()
            if values["prompt"] == "letters"
        ),
        default=math.nan,
    )
    if not median < LITTLE_MASS:
        return ""
    return (
        "The model gives the options together a probability of only "
        f"{median:.2g} (median over passes): it would mostly say something else, and "
        "the answers are the likeliest of what it hardly says."
    )


def _questions(n: int | None) -> str:
    return "an unknown number of questions" if n is None else counted(n, "question")


def _videos(items: Mapping[str, Any]) -> str:
    return f" on {counted(items['videos'], 'video')}" if items["videos"] else ""


def _shared_videos(items: Mapping[str, Any]) -> str:
    """Say what it does to intervals and tests that questions share videos."""
    if items["cluster"] != "video":
        return ""
    if items["videos"] == 1:
        return (
            "All questions share one video: intervals are those of a single one, and "
            "nothing can be tested."
        )
    return (
        "Questions share videos, so intervals and paired tests are clustered by video."
    )


def _policy(numbers: Mapping[str, Any], arms: Sequence[str]) -> str:
    """Say what the accuracies do with missing answers, and what the other way gives."""
    found = {
        arm: values
        for arm, values in ((arm, numbers["accuracy"][arm]) for arm in arms)
        if values["answered"]["order_averaged"]["n"]
        < values["missing_wrong"]["order_averaged"]["n"]
    }
    if not found:
        return ""
    wrong = numbers["items"]["missing_answers"] == "wrong"
    other = "answered" if wrong else "missing_wrong"
    parts = [
        f"{arm} {percent(values[other]['order_averaged']['value'])} %"
        for arm, values in found.items()
    ]
    if wrong:
        return f" (missing answers count as wrong; answered only: {', '.join(parts)})"
    return (
        " (questions that lack a pass are left out; counted as wrong: "
        f"{', '.join(parts)})"
    )


def _one_option(items: Mapping[str, Any]) -> str:
    """Say that questions without a choice are there."""
    n = items["one_option"]
    if not n:
        return ""
    have = by_number(n, "question has", "questions have")
    return (
        f"{n} {have} one option: any answer is right, so every rate leaves "
        f"{by_number(n, 'it', 'them')} out."
    )


def _few_left(items: Mapping[str, Any]) -> str:
    """Warn when missing passes leave fewer than half of the questions to compare."""
    if items["missing_answers"] == "wrong":
        return ""
    lacking = sum(entry["missing_passes"] > 0 for entry in items["dropped"])
    left = items["with_passes"] - len(items["dropped"])
    if not lacking or 2 * left >= items["with_passes"]:
        return ""
    lack = by_number(lacking, "lacks one that is", "lack one or more that are")
    return (
        f"Only {left} of {counted(items['with_passes'], 'question')} "
        f"{by_number(left, 'has', 'have')} every pass, and the comparisons of arms "
        f"rest on {by_number(left, 'it', 'them')} alone; {lacking} {lack} missing."
    )
