"""Comparisons as tables: in a terminal, as Markdown and as HTML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from phasefusion._wording import counted, item_name
from phasefusion.compare._causes import MEANING, ItemDifference
from phasefusion.report import tables
from phasefusion.report.sections import UNDEFINED, Section
from phasefusion.stats._answers import half_up

if TYPE_CHECKING:
    from rich.console import RenderableType

    from phasefusion.compare import Comparison, Outcome, SideSummary

#: Items and settings that a table shows; the files have all.
_MOST_ITEMS = 20
_MOST_SETTINGS = 20
_MOST_IDS = 3
#: Longest text of a model in a table.
_MOST_TEXT = 30


def rich(made: Comparison) -> RenderableType:
    """Lay a comparison out for a terminal."""
    return tables.rich(_title(made), _lines(made), sections(made))


def markdown(made: Comparison) -> str:
    """Return a comparison as Markdown."""
    return tables.markdown(_title(made), _lines(made), sections(made))


def html(made: Comparison) -> str:
    """Return a comparison as an HTML fragment."""
    return tables.html(_title(made), _lines(made), sections(made))


def _title(made: Comparison) -> str:
    return f"A: {made.a.arm} of {made.a.path} - B: {made.b.arm} of {made.b.path}"


def _lines(made: Comparison) -> list[str]:
    n = made.outcome.n if made.outcome else 0
    have = "both runs have"
    first = f"{counted(n, 'item')} compared of {made.n_common} that {have}."
    if made.outcome is not None:
        n_clusters = made.outcome.difference.n_clusters
        first += f" Clustered by {made.cluster}: {counted(n_clusters, 'cluster')}."
    return [first, *(f"note: {notice}" for notice in made.notices)]


def sections(made: Comparison) -> list[Section]:
    """Lay the numbers out; parts without a row are left out."""
    found = [
        _accuracy(made),
        _tests(made),
        _answers(made),
        _causes(made),
        _left_out(made),
        _settings(made),
        _items(made),
    ]
    return [section for section in found if section.rows]


def _accuracy(made: Comparison) -> Section:
    rows = []
    for name, side in (("A", made.a), ("B", made.b)):
        rows.append((f"{name}: {side.arm}", *_share(side), str(side.n_items)))
    if made.outcome is not None:
        mean = made.outcome.difference
        rows.append(
            (
                "A - B, points",
                _points(mean.mean),
                f"[{_points(mean.low)}, {_points(mean.high)}]",
                "",
            )
        )
    note = "No item with gold is left to compare."
    if made.outcome is not None:
        mean = made.outcome.difference
        note = (
            f"Of the difference the interval is {mean.method}, clustered by "
            f"{made.cluster} ({counted(mean.n_clusters, 'cluster')}); of the "
            "accuracies Wilson's, items independent."
        )
    return Section(
        "Accuracy",
        ("", "consensus, %", "95 %", "items of the run"),
        tuple(rows),
        f"Consensus: the plurality over the option orders. {note}",
    )


def _share(side: SideSummary) -> tuple[str, str]:
    if side.accuracy is None:
        return UNDEFINED, UNDEFINED
    low, high = side.accuracy.low, side.accuracy.high
    return _percent(side.accuracy.value), f"[{_percent(low)}, {_percent(high)}]"


def _tests(made: Comparison) -> Section:
    outcome = made.outcome
    rows: list[tuple[str, ...]] = []
    if outcome is not None:
        rows = [
            ("McNemar, exact", _p(outcome.mcnemar.pvalue), _discordant(outcome)),
            ("McNemar, mid-p", _p(outcome.mcnemar.midp), ""),
            (
                f"McNemar, clustered by {made.cluster}",
                _p(outcome.clustered.pvalue),
                counted(len(outcome.clustered.cluster_sums), "cluster"),
            ),
            _equivalence(made, outcome),
        ]
    return Section("Tests", ("test", "p", ""), tuple(rows))


def _discordant(outcome: Outcome) -> str:
    return f"{outcome.only_a} only A, {outcome.only_b} only B"


def _equivalence(made: Comparison, outcome: Outcome) -> tuple[str, ...]:
    level = half_up(100 * outcome.tost.mean.confidence_level, 0)
    low, high = outcome.tost.mean.low, outcome.tost.mean.high
    return (
        f"equivalence within {_points(made.margin)} points",
        _p(outcome.tost.pvalue),
        f"{outcome.tost.verdict}: {level} % interval [{_points(low)}, {_points(high)}]",
    )


def _answers(made: Comparison) -> Section:
    differ = made.differ
    rows = [
        (
            "answers differ",
            str(differ.k),
            f"{_percent(differ.value)} % [{_percent(differ.low)}, "
            f"{_percent(differ.high)}] of {differ.n} that both answer",
        )
    ]
    outcome = made.outcome
    if outcome is not None:
        rows += [
            (label, str(k), f"{_percent(k / outcome.n)} % of {outcome.n}")
            for label, k in (
                ("both right", outcome.both),
                ("only A right", outcome.only_a),
                ("only B right", outcome.only_b),
                ("both wrong, same answer", outcome.neither_same),
                ("both wrong, different answers", outcome.neither_different),
                ("both wrong, not both answered", outcome.neither_unknown),
            )
        ]
    return Section("Answers", ("", "items", ""), tuple(rows))


def _causes(made: Comparison) -> Section:
    rows = []
    for cause, n in made.causes.items():
        judged = [
            (bool(item.correct_a), bool(item.correct_b))
            for item in made.items
            if item.cause == cause and None not in (item.correct_a, item.correct_b)
        ]
        only_a, only_b = judged.count((True, False)), judged.count((False, True))
        rows.append((cause, str(n), str(only_a), str(only_b), MEANING[cause]))
    return Section(
        "Why items differ",
        ("cause", "items", "only A right", "only B right", ""),
        tuple(rows),
        "One cause an item, the first that holds in this order.",
    )


def _left_out(made: Comparison) -> Section:
    rows = []
    for part in made.left_out:
        ids = ", ".join("/".join(key) for key in part.items[:_MOST_IDS])
        more = ", ..." if len(part.items) > _MOST_IDS else ""
        rows.append((part.reason, str(len(part.items)), ids + more))
    return Section("Left out", ("reason", "items", ""), tuple(rows))


def _settings(made: Comparison) -> Section:
    rows = [
        (name, change)
        for name, _, change in (
            entry.partition(": ") for entry in made.settings[:_MOST_SETTINGS]
        )
    ]
    n_more = len(made.settings) - _MOST_SETTINGS
    note = f"{n_more} more are in the JSON output." if n_more > 0 else ""
    return Section("Settings that differ", ("setting", "A -> B"), tuple(rows), note)


def _items(made: Comparison) -> Section:
    rows = [_item(item) for item in made.items[:_MOST_ITEMS]]
    n_more = len(made.items) - _MOST_ITEMS
    note = "Answers are content indices."
    if n_more > 0:
        note += f" {n_more} more are in the JSON output and the file of --save-items."
    columns = ("item", "cause", "A", "B", "gold", "detail", "text of A", "text of B")
    return Section(f"Items that differ ({len(made.items)})", columns, tuple(rows), note)


def _item(item: ItemDifference) -> tuple[str, ...]:
    gold = {item.gold_a, item.gold_b} - {None}
    return (
        item_name(item.benchmark, item.question_id),
        item.cause,
        UNDEFINED if item.answer_a is None else str(item.answer_a),
        UNDEFINED if item.answer_b is None else str(item.answer_b),
        " or ".join(map(str, sorted(g for g in gold if g is not None))) or UNDEFINED,
        item.detail,
        _cut(item.text_a),
        _cut(item.text_b),
    )


def _cut(text: str | None) -> str:
    """Cut a text of a model to what a cell can hold."""
    if text is None:
        return UNDEFINED
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_TEXT else flat[: _MOST_TEXT - 3] + "..."


def _points(value: float) -> str:
    return UNDEFINED if math.isnan(value) else half_up(100 * value, 2)


def _percent(value: float) -> str:
    return UNDEFINED if math.isnan(value) else half_up(100 * value, 2)


def _p(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.4g}"
