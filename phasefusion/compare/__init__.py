"""Two runs on the same questions: what differs, by how much, and why."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from phasefusion._paths import path_of
from phasefusion._results import Result, plain_text
from phasefusion._whole import replace_text
from phasefusion._wording import Argument, by_number, counted, unwritten
from phasefusion.compare._causes import (
    CAUSES,
    MEANING,
    Cause,
    ItemDifference,
    difference,
)
from phasefusion.compare._notices import notices as find_notices
from phasefusion.compare._sides import (
    Answer,
    Key,
    Side,
    chosen_cluster,
    cluster_labels,
    differences_of,
    gold_differs,
    gold_of,
    load,
)
from phasefusion.errors import RecordError, StatisticsError
from phasefusion.records import _json, run_differences
from phasefusion.report.items import CLUSTERS, Cluster
from phasefusion.stats import (
    ClusteredMcNemar,
    ClusteredMean,
    McNemar,
    Proportion,
    Tost,
    accuracy,
    clustered_mcnemar,
    clustered_mean,
    discordant,
    mcnemar,
    proportion_ci,
    tost,
)
from phasefusion.stats._answers import check_choice
from phasefusion.stats._numbers import fraction_in

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "CAUSES",
    "MEANING",
    "Cause",
    "Comparison",
    "ItemDifference",
    "LeftOut",
    "Outcome",
    "SideSummary",
    "compare",
]

Unparsed: TypeAlias = Literal["wrong", "drop"]
_ANSWERS = ("consensus", "first")
_UNPARSED = ("wrong", "drop")
_SETTINGS = ("settings", "versions", "model")


@dataclass(frozen=True, slots=True)
class SideSummary(Result):
    """One side of a comparison.

    Attributes
    ----------
    path, arm : str
    n_items : int
        Items of the run.
    n_unparsed, n_missing : int
        Of the items that both runs have: text without an option, no pass.
    accuracy : Proportion or None
        On the items compared, as if they were independent; None without gold.
    """

    path: str
    arm: str
    n_items: int
    n_unparsed: int
    n_missing: int
    accuracy: Proportion | None


@dataclass(frozen=True, slots=True, repr=False)
class LeftOut(Result):
    """Items that are not in the comparison of accuracy.

    Attributes
    ----------
    reason : str
    items : tuple of (str, str)
        Benchmark and question.
    """

    reason: str
    items: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Outcome(Result):
    """How the items compared come out.

    Attributes
    ----------
    both, only_a, only_b : int
        Items that both, or only one side answers right.
    neither_same, neither_different, neither_unknown : int
        Items that both get wrong: with the same answer, with different ones, and where
        one of them or both gave no answer.
    difference : ClusteredMean
        A minus B, a fraction, with its 95 % interval. Where no cluster differs from the
        mean, as when both sides are right on the same items, no variance can be
        estimated and it is the exact interval of the share of clusters that do.
    mcnemar : McNemar
        Exact and mid-p.
    clustered : ClusteredMcNemar
    tost : Tost
        At the margin, with its 90 % interval; its `verdict` is the sentence for it.
    """

    both: int
    only_a: int
    only_b: int
    neither_same: int
    neither_different: int
    neither_unknown: int
    difference: ClusteredMean
    mcnemar: McNemar
    clustered: ClusteredMcNemar
    tost: Tost

    @property
    def n(self) -> int:
        """Items compared."""
        return self.difference.n


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """Two runs on the same questions.

    It prints as tables in a terminal (``print``, ``rich.print``) and in a notebook.

    Attributes
    ----------
    a, b : SideSummary
    n_common : int
        Items that both runs have.
    outcome : Outcome or None
        Accuracies and tests; None where no item with gold is left.
    differ : Proportion
        Share of items whose answers differ, of those that both answer.
    items : tuple of ItemDifference
        Every item that the runs do not have alike, in the order of A.
    left_out : tuple of LeftOut
    settings : tuple of str
        What was set differently, as "key: A -> B".
    notices : tuple of str
        What to know before the numbers are used.
    cluster : {'question', 'video'}
        What the items of one cluster share, as given or as chosen.
    answer : {'consensus', 'first'}
    unparsed : {'wrong', 'drop'}
    margin : float
        Of the equivalence test, a fraction.
    """

    a: SideSummary
    b: SideSummary
    n_common: int
    outcome: Outcome | None
    differ: Proportion
    items: tuple[ItemDifference, ...]
    left_out: tuple[LeftOut, ...]
    settings: tuple[str, ...]
    notices: tuple[str, ...]
    cluster: Literal["question", "video"]
    answer: Answer
    unparsed: Unparsed
    margin: float

    @property
    def causes(self) -> dict[Cause, int]:
        """Number of differing items by cause."""
        counts = Counter(item.cause for item in self.items)
        return {cause: counts[cause] for cause in CAUSES if counts[cause]}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; what is not defined is None."""
        fields = dataclasses.asdict(self) | {"causes": self.causes}
        if self.outcome is not None:
            n_clusters = len(self.outcome.clustered.cluster_sums)
            fields["outcome"]["clustered"] = {
                "z": self.outcome.clustered.z,
                "chi2": self.outcome.clustered.chi2,
                "pvalue": self.outcome.clustered.pvalue,
                "n_clusters": n_clusters,
            }
        found: dict[str, Any] = _json.loads(_json.dumps(fields))
        return found

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        from phasefusion.compare._render import markdown

        return markdown(self)

    def write_items(self, path: str | Path) -> Path:
        """Write the differing items as CSV, a row an item.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path

        Raises
        ------
        RecordError
            If it cannot be written.
        """
        path = path_of("path", path, "the file to write")
        names = [field.name for field in dataclasses.fields(ItemDifference)]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(item, name) for name in names] for item in self.items)
        try:
            replace_text(path, text.getvalue())
        except OSError as error:
            raise RecordError(unwritten(path, error)) from error
        return path

    def __rich__(self) -> RenderableType:
        from phasefusion.compare._render import rich

        return rich(self)

    def __str__(self) -> str:
        return plain_text(self)

    def __repr__(self) -> str:
        n = self.outcome.n if self.outcome else 0
        text = f"Comparison({self.a.arm} of {self.a.path} and {self.b.arm} of "
        text += f"{self.b.path}: {n} of {counted(self.n_common, 'item')}"
        if self.outcome:
            mean = self.outcome.difference
            text += f", A - B {100 * mean.mean:+.2f} points [{100 * mean.low:.2f}, "
            text += f"{100 * mean.high:.2f}], p={self.outcome.mcnemar.pvalue:.4g}"
        n_differ = len(self.items)
        verb = by_number(n_differ, "differs", "differ")
        return text + f", {counted(n_differ, 'item')} {verb})"

    def _repr_html_(self) -> str:
        from phasefusion.compare._render import html

        return html(self)


def compare(
    a: Any,
    b: Any,
    *,
    arm: str | None = None,
    against: str | None = None,
    answer: Answer = "consensus",
    cluster: Cluster = "auto",
    unparsed: Unparsed = "wrong",
    margin: float = 0.025,
    alpha: float = 0.05,
) -> Comparison:
    """Compare what two runs answered to the same questions.

    Parameters
    ----------
    a, b : Run, str or Path
        Run folders, made here or imported from the log of a harness. Items are the same
        when benchmark and question id are.
    arm, against : str, optional
        Arm of A and of B: "single", "phase 0", "fusion" (or "fused"), "vote", "union",
        "dense", or as an importer named it. By default the fused answer where the run
        has one, else the single pass; B takes the arm of A where it has it.
    answer : {'consensus', 'first'}, default 'consensus'
        Plurality over the option orders, or the answer in the first order.
    cluster : {'auto', 'question', 'video'}, default 'auto'
        What items of one cluster share; by default, as in `planning.pilot`, the video
        where several questions are about one, else the question. The result says which.
    unparsed : {'wrong', 'drop'}, default 'wrong'
        A text that names no option is no right answer, or the item is left out.
    margin : float, default 0.025
        Of the equivalence test: 2.5 points.
    alpha : float, default 0.05
        Of each one-sided test; its interval has level 1 - 2 alpha.

    Returns
    -------
    Comparison
        The same for every order of the passes.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    RecordError
        If files are damaged, an arm is not there or the runs share no item.
    StatisticsError
        If an argument is out of range.
    UsageError
        If `a` or `b` is neither a run nor a path.
    """
    check_choice(answer, _ANSWERS, "answer")
    check_choice(cluster, CLUSTERS, "cluster")
    check_choice(unparsed, _UNPARSED, "unparsed")
    fraction_in(margin, "margin")
    if not 0.0 < alpha < 0.5:
        raise StatisticsError(Argument("alpha"), f" must be in (0, 0.5), it is {alpha}")
    first = load(a, arm, answer, name="A")
    second = load(b, against or arm, answer, name="B", other=first.arm)
    common = [key for key in first.items if key in second.items]
    if not common:
        raise RecordError(_nothing_shared(first, second))
    gold = {key: gold_of(first.items[key], second.items[key]) for key in common}
    keys = [*first.items, *(key for key in second.items if key not in first.items)]
    found = (
        difference(key, first.items.get(key), second.items.get(key), gold.get(key))
        for key in keys
    )
    left_out = _left_out(first, second, gold, unparsed)
    dropped = {key for part in left_out for key in part.items}
    used = [key for key in common if key not in dropped]
    by = chosen_cluster(first, second, common, cluster)
    outcome = _outcome(first, second, gold, used, by, margin, alpha)
    return Comparison(
        a=_summary(first, second, common, used, gold),
        b=_summary(second, first, common, used, gold),
        n_common=len(common),
        outcome=outcome,
        differ=_differ(first, second, common),
        items=tuple(item for item in found if item is not None),
        left_out=left_out,
        settings=_settings(first, second),
        notices=find_notices(
            first, second, common, used, outcome, by, unparsed, margin, alpha
        ),
        cluster=by,
        answer=answer,
        unparsed=unparsed,
        margin=margin,
    )


def _nothing_shared(a: Side, b: Side) -> str:
    (one, *_), (other, *_) = a.items, b.items
    advice = "an import can give the benchmark another name (--benchmark)"
    if one[0] == other[0]:
        advice = (
            "the benchmark is the same and the ids are others; an import takes ids "
            "from other columns (--map question_id=COLUMN), and those of an lmms-eval "
            "log from its sidecar (--questions SIDECAR/docs.jsonl)"
        )
    return (
        f"{a.path} and {b.path} share no item; the first of each is "
        f"{'/'.join(one)} and {'/'.join(other)}. Items are the same when benchmark and "
        f"question id are; {advice}"
    )


def _left_out(
    a: Side, b: Side, gold: dict[Key, int | None], unparsed: Unparsed
) -> tuple[LeftOut, ...]:
    """Items that accuracy cannot be compared on, by the first reason that holds."""
    found: dict[str, list[Key]] = {}

    def add(reason: str, key: Key) -> None:
        found.setdefault(reason, []).append(key)

    for key, given in a.items.items():
        other = b.items.get(key)
        if other is None:
            add("only in A", key)
            continue
        states = (given.state, other.state)
        if given.info.n_options != other.info.n_options:
            add("another number of options", key)
        elif given.info.n_options == 1:
            add("one option: there is nothing to choose", key)
        elif "missing" in states:
            add(f"no pass in {_names(states, 'missing')}", key)
        elif unparsed == "drop" and "unparsed" in states:
            add(f"no option named in {_names(states, 'unparsed')}", key)
        elif gold_differs(given, other):
            add("gold differs", key)
        elif gold[key] is None:
            add("gold is not known", key)
    for key in b.items:
        if key not in a.items:
            add("only in B", key)
    return tuple(LeftOut(reason, tuple(keys)) for reason, keys in found.items())


def _names(states: Iterable[str], state: str) -> str:
    return " and ".join(n for n, s in zip("AB", states, strict=True) if s == state)


def _outcome(
    a: Side,
    b: Side,
    gold: dict[Key, int | None],
    used: list[Key],
    cluster: Literal["question", "video"],
    margin: float,
    alpha: float,
) -> Outcome | None:
    if not used:
        return None
    right = [np.array([s.items[k].answer == gold[k] for k in used]) for s in (a, b)]
    same = np.array([a.items[k].answer == b.items[k].answer for k in used])
    known = np.array([None not in (a.items[k].answer, b.items[k].answer) for k in used])
    values = differences_of(a, b, used)
    labels = cluster_labels(a, b, used, cluster)
    only_a, only_b = discordant(*right)
    neither = ~right[0] & ~right[1]
    return Outcome(
        both=int((right[0] & right[1]).sum()),
        only_a=only_a,
        only_b=only_b,
        neither_same=int((neither & known & same).sum()),
        neither_different=int((neither & known & ~same).sum()),
        neither_unknown=int((neither & ~known).sum()),
        difference=clustered_mean(values, labels, limits=(-1.0, 1.0)),
        mcnemar=mcnemar(only_a, only_b),
        clustered=clustered_mcnemar(values, labels),
        tost=tost(values, labels, margin=margin, alpha=alpha, limits=(-1.0, 1.0)),
    )


def _differ(a: Side, b: Side, common: list[Key]) -> Proportion:
    """Share of different answers among the items that both answer.

    Where the options are not the same in number, or other ones are right, the content
    indices of the two runs may not mean the same option.
    """
    n = changed = 0
    for key in common:
        one, other = a.items[key], b.items[key]
        same_content = one.info.n_options == other.info.n_options
        if not same_content or gold_differs(one, other) or one.info.n_options == 1:
            continue
        if one.answer is not None and other.answer is not None:
            n += 1
            changed += one.answer != other.answer
    return proportion_ci(changed, n, n_dropped=len(common) - n)


def _summary(
    side: Side,
    other: Side,
    common: list[Key],
    used: list[Key],
    gold: dict[Key, int | None],
) -> SideSummary:
    states = Counter(side.items[key].state for key in common)
    right = [side.items[key].answer == gold[key] for key in used]
    return SideSummary(
        path=str(side.path),
        arm=side.arm,
        n_items=len(side.items),
        n_unparsed=states["unparsed"],
        n_missing=states["missing"],
        accuracy=accuracy(right) if right else None,
    )


def _settings(a: Side, b: Side) -> tuple[str, ...]:
    """Everything that was set differently in the two runs."""
    return tuple(run_differences(a.run, b.run, _SETTINGS))
