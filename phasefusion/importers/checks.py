"""What is counted over all passes of an import, and what cannot be computed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phasefusion._sources.findings import Findings
from phasefusion._sources.model import Question
from phasefusion._sources.questions import Key
from phasefusion.answers import LETTERS, OUTCOMES, parse_answer
from phasefusion.importers.passes import Made
from phasefusion.importers.report import ArmCounts

#: Words in the name of a metric that is 1 for right and 0 for wrong; the second ones
#: at its end, as "score" in the metrics that are named after a benchmark.
_OF_RIGHT = frozenset("acc accuracy correct correctness em hit right".split())
_OF_RIGHT_AT_THE_END = frozenset(("match", "score", "rating"))
#: Words of metrics about something else, whatever their last word is.
_OF_OTHER_THINGS = frozenset(
    "bleu bert bertscore cider confidence format length meteor parse parsed parsing "
    "rouge similarity stderr time tokens".split()
)


def item_of(made: Made) -> Key:
    """Benchmark and id of a pass."""
    return made.record["benchmark"], made.record["question_id"]


def arm_counts(made: Sequence[Made]) -> tuple[ArmCounts, ...]:
    """Count outcomes, letters and right answers of every arm."""
    groups: dict[str, list[Made]] = {}
    for one in made:
        groups.setdefault(one.record["arm"], []).append(one)
    found = []
    for name, passes in groups.items():
        letters: dict[str, int] = {}
        for one in passes:
            if one.letter is not None:
                letters[one.letter] = letters.get(one.letter, 0) + 1
        golds = [one for one in passes if one.record["gold"] is not None]
        found.append(
            ArmCounts(
                name=name,
                budget=passes[0].record["budget"],
                passes=len(passes),
                outcomes={
                    outcome: sum(one.parsed.outcome == outcome for one in passes)
                    for outcome in OUTCOMES
                },
                letters=dict(sorted(letters.items())),
                right=sum(o.record["answer"] == o.record["gold"] for o in golds),
                with_gold=len(golds),
            )
        )
    return tuple(found)


def harness_scores(
    made: Sequence[Made], findings: Findings
) -> dict[str, dict[str, float]]:
    """Means of the harness's own scores, and where they differ from those here.

    Only those that say whether an answer is right can differ.
    """
    values: dict[str, list[float]] = {}
    for one in made:
        for name, value in one.record.get("harness", {}).items():
            values.setdefault(name, []).append(value)
    found: dict[str, dict[str, float]] = {}
    for name, all_of in values.items():
        found[name] = {"n": len(all_of), "mean": sum(all_of) / len(all_of)}
        if says_right(name) and set(all_of) <= {0.0, 1.0}:
            found[name]["differs"] = 0
    for one in made:
        gold = one.record["gold"]
        for name, value in one.record.get("harness", {}).items():
            if "differs" not in found[name] or gold is None:
                continue
            if (one.record["answer"] == gold) != bool(value):
                found[name]["differs"] += 1
                findings.add(
                    "harness score differs",
                    "the harness counted the answer otherwise than its text is read "
                    "here; both are kept",
                    f"{one.record['question_id']}: {name} {value:g}, "
                    f"{one.parsed.outcome} {one.letter or '-'}",
                )
    return found


def says_right(name: str) -> bool:
    """Whether a metric, by its name, is about right and wrong answers.

    Examples
    --------
    >>> [says_right(n) for n in ("exact_match", "acc_norm", "mvbench_score")]
    [True, True, True]
    >>> [says_right(n) for n in ("parsed", "format_score", "n_tokens")]
    [False, False, False]
    """
    words = re.findall(r"[a-z]+", name.lower())
    if not words or _OF_OTHER_THINGS.intersection(words):
        return False
    return bool(_OF_RIGHT.intersection(words)) or words[-1] in _OF_RIGHT_AT_THE_END


def add_findings(
    made: Sequence[Made], questions: Mapping[Key, Question], findings: Findings
) -> None:
    """Add what only all passes show: answers that are none, identical runs."""
    for one in made:
        if one.parsed.answer is None:
            findings.add(
                f"answer {one.parsed.outcome}",
                "recorded as missing with its text; never drawn by chance",
                f"{one.record['question_id']}: {one.parsed.reason}",
            )
        if one.record["gold"] is None and "gold missing" not in findings:
            n = len({item_of(o) for o in made if o.record["gold"] is None})
            left = [k for k in questions.values() if not k.gold]
            text = "without the right answer there is no accuracy"
            findings.add("gold missing", text, left[0].question_id if left else "", n)
    _add_filtered(made, questions, findings)
    for a, b, n in identical_runs([one.record for one in made]):
        findings.add(
            "identical runs",
            "identical answers on all items - same evidence? Two such runs are not two "
            "independent draws",
            f"{a} and {b}: all {n} items",
        )
    shown = {raw.video_id for raw in questions.values() if raw.video_id}
    if not shown:
        findings.add(
            "video unknown",
            "the files do not name the videos, so standard errors cannot be clustered "
            "by video",
        )


def _add_filtered(
    made: Sequence[Made], questions: Mapping[Key, Question], findings: Findings
) -> None:
    """Say that filtered responses were not read, and where they name other options."""
    for one in made:
        filtered = one.record.get("filtered")
        if not filtered:
            continue
        name = one.record["question_id"]
        findings.add(
            "filtered response not used",
            "resps is what the model wrote and is read; filtered_resps of the same "
            "line is kept beside it, for a filter may draw an option by chance",
            f"{name}: {filtered[0]!r}",
        )
        question = questions.get(item_of(one))
        shown: Sequence[str] | int = one.record["n_options"]
        if question is not None and question.options is not None:
            shown = [question.options[k] for k in one.record["order"]]
        said = parse_answer(filtered[0], shown)
        letter = None if said.answer is None else LETTERS[said.answer]
        if letter != one.letter:
            findings.add(
                "filtered response differs",
                "filtered_resps names another option than the text of the model, or "
                "one where that names none",
                f"{name}: {letter or said.outcome}, the text {one.letter or 'none'}",
            )


def identical_runs(
    records: Iterable[Mapping[str, Any]],
) -> list[tuple[str, str, int]]:
    """Pairs of arms that answer every common pass alike, with the number of items.

    Parameters
    ----------
    records : iterable of mapping
        Passes.

    Returns
    -------
    list of (str, str, int)
        Arms with at least two answers in common that differ in no common pass.
    """
    arms: dict[str, dict[tuple[Any, ...], Any]] = {}
    for row in records:
        key = (
            row["benchmark"],
            row["question_id"],
            row["phase_index"],
            tuple(row["order"]),
        )
        answer = (row["answer"], row.get("text") if row["answer"] is None else None)
        arms.setdefault(row["arm"], {})[key] = answer
    found = []
    names = list(arms)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            common = arms[a].keys() & arms[b].keys()
            same = all(arms[a][k] == arms[b][k] for k in common)
            answered = sum(arms[a][k][0] is not None for k in common)
            if same and answered >= 2:
                found.append((a, b, len({key[:2] for key in common})))
    return found


def cannot(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which statistics passes cannot give, and why.

    Parameters
    ----------
    records : sequence of mapping
        Passes of one run.

    Returns
    -------
    list of str
        One sentence a statistic; empty when all can be computed.
    """
    found = []
    arms = {row["arm"]: row["budget"] for row in records}
    if all(row["n_phases"] == 1 for row in records):
        budgets = {budget for budget in arms.values() if budget is not None}
        why = "no pass says on which phase of the frame grid it was made"
        if len(budgets) > 1:
            why += "; the runs differ in their number of frames, which is no phase"
        found.append(f"phase flips and phase fusion: {why}")
    if all(row["logprobs"] is None for row in records):
        found.append(
            "posteriors, margins and fusion: there are answers alone, no distribution "
            "over the options"
        )
    orders: dict[tuple[Any, ...], set[tuple[int, ...]]] = {}
    for row in records:
        key = (row["benchmark"], row["question_id"], row["arm"])
        orders.setdefault(key, set()).add(tuple(row["order"]))
    if all(len(one) == 1 for one in orders.values()):
        found.append("order flips: every question was asked in one option order")
    if len(arms) == 1:
        found.append("differences between runs: there is one run")
    return found
