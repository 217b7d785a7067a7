"""How stable every question is over phases and option orders, and what follows.

Stability is that of single passes: of two phases at the same option order (FPC), and of
two orders at the same phase (OOC), both as in the general table of consistency.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._wording import by_number, item_name
from phasefusion.fusion import fuse_items
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.items import Column, flips_of
from phasefusion.report.scored import MANY_TIES
from phasefusion.report.sections import percent
from phasefusion.stats import stableeval_rating

#: A question whose phases agree less is for the bank to drop.
DROP_BELOW = 0.8
#: Above the first an axis is stable, below the second unstable, as in `attribution`.
STABLE, UNSTABLE = 0.90, 0.85
#: A question that is answered right less often is one the model does not know.
LOW_ACCURACY = 0.5
#: Pooled posterior below which no option stands out.
FRAGILE = 0.55
#: Questions of a list that are printed; the JSON report has all.
PRINTED = 20


@dataclass(frozen=True, eq=False)
class Stability:
    """What every question contributes; arrays of shape (n,), NaN where undefined.

    A question with one option, or one that lacks a pass, contributes nothing.

    Attributes
    ----------
    study : Study
    arm : ArmPasses
    fpc, ooc : ndarray
        Chance that two phases, and that two option orders, agree.
    accuracy : ndarray
        Share of right passes over all phases and orders.
    posterior : ndarray, shape (n, S, M, K)
        NaN without a posterior, 0 beyond the options of a question.
    """

    study: Study
    arm: ArmPasses
    fpc: Column
    ooc: Column
    accuracy: Column
    posterior: NDArray[np.float64]

    @cached_property
    def pooled_top(self) -> Column:
        """Greatest posterior after pooling phases and orders."""
        fused = fuse_items(
            self.arm.logp,
            n_options=self.study.n_options,
            over=("phase", "order"),
            missing="available",
            item_ids=self.study.ids,
            seed=self.study.seed,
        )
        top: Column = fused.posterior.max(axis=1)
        top[np.isnan(self.fpc) | (fused.n_valid == 0)] = np.nan
        return top

    @cached_property
    def entropy(self) -> NDArray[np.float64]:
        """Of every pass in nats, shape (n, S, M)."""
        p = self.posterior
        logs = np.log(p, out=np.zeros_like(p), where=p > 0)
        found: NDArray[np.float64] = -(p * logs).sum(axis=-1)
        return found

    @property
    def tied(self) -> float:
        """Share of the passes of which a tie rule chose the answer."""
        there = self.study.there & (self.study.n_options > 1)[:, None]
        hits = [view.tied[there & (view.answer >= 0)] for view in self.arm.views]
        each = np.concatenate(hits)
        return float(each.mean()) if len(each) else math.nan

    @property
    def to_drop(self) -> NDArray[np.bool_]:
        """Questions that the bank should drop."""
        return self.fpc < DROP_BELOW

    @property
    def gaps(self) -> NDArray[np.bool_]:
        """Questions that are wrong and stable: what the model does not know."""
        stable = (self.fpc > STABLE) & (self.ooc > STABLE)
        return stable & (self.accuracy < LOW_ACCURACY)

    def clustered(
        self, values: Column, chosen: NDArray[np.bool_] | None = None
    ) -> dict[str, Any]:
        """Mean of a column over chosen questions, clustered by video."""
        return self.study.rates.clustered(values, chosen)


def stability_of(study: Study, name: str = "phase") -> Stability | None:
    """Measure every question on the passes of one arm; None without any."""
    arm = study.arm(name)
    if arm is None:
        return None
    answers = np.stack([view.answer for view in arm.views], axis=1)
    n, n_phases, n_orders = answers.shape
    by_order = np.moveaxis(answers, 1, 2).reshape(n * n_orders, n_phases)
    over_phases = flips_of(by_order, np.repeat(arm.n_phases, n_orders)).pairwise
    over_phases = np.where(study.there, over_phases.reshape(n, n_orders), 0.0)
    over_orders = np.stack(
        [flips_of(view.answer, study.n_orders).pairwise for view in arm.views], axis=1
    )
    choice = study.n_options > 1
    right = np.stack([study.accuracy(view) for view in arm.views], axis=1)
    return Stability(
        study,
        arm,
        np.where(choice, 1 - over_phases.sum(axis=1) / study.n_orders, np.nan),
        np.where(choice, 1 - _over_views(over_orders, arm.n_phases), np.nan),
        np.where(choice, _over_views(right, arm.n_phases), np.nan),
        _posteriors(arm.logp, study.n_options),
    )


def _over_views(
    values: NDArray[np.float64], n_phases: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Mean over the phases that an item has; short clips may have fewer."""
    beyond = np.arange(values.shape[1]) >= n_phases[:, None]
    sums = np.where(beyond, 0.0, values).sum(axis=1)
    return np.asarray(sums / np.maximum(n_phases, 1))


def _posteriors(
    logp: NDArray[np.float64], n_options: NDArray[np.int64]
) -> NDArray[np.float64]:
    beyond = np.arange(logp.shape[-1]) >= n_options[:, None, None, None]
    known = ~np.isnan(logp).any(axis=-1, keepdims=True)
    scores = np.where(beyond | ~known, -np.inf, logp)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    p: NDArray[np.float64] = weights / np.where(total > 0, total, np.nan)
    return p


def summary(found: Stability) -> FigureTable:
    """Mean accuracy, FPC and OOC with intervals, and how firm the rating is."""
    rows = [
        ("Mean Acc", found.clustered(found.accuracy)),
        ("frame-phase consistency (FPC)", found.clustered(found.fpc)),
        ("option-order consistency (OOC)", found.clustered(found.ooc)),
    ]
    return FigureTable(
        "StableEval",
        (("", "text"), ("questions", "rate"), ("n", "count")),
        clean([(name, one, one["n"]) for name, one in rows]),
        "Mean Acc: right answers over all phases and option orders. FPC and OOC: "
        "chance that two phases at one order, and two orders at one phase, agree. "
        "95 % intervals, clustered by video. "
        + _firmness(found, rows[1][1], rows[2][1]),
    )


def _firmness(found: Stability, fpc: dict[str, Any], ooc: dict[str, Any]) -> str:
    """Say whether the rating would be another one at the ends of the intervals."""
    if found.tied >= MANY_TIES:
        return f"Not rated: a tie rule chose {percent(found.tied)} % of the answers."
    ends = [(fpc[end], ooc[end]) for end in ("low", "value", "high")]
    if any(math.isnan(value) for both in ends for value in both):
        return "No rating: an axis has fewer than two passes a question."
    low, here, high = (stableeval_rating(*both) for both in ends)
    if low == here == high:
        return f"Rating {here}, also at both ends of the intervals."
    return (
        f"Rating {here}; at the low ends of both intervals it would be {low}, at the "
        f"high ends {high}: more questions would settle it."
    )


def bank(found: Stability) -> FigureTable:
    """Count what a bank of questions would keep, drop and learn from."""
    judged = ~np.isnan(found.fpc)
    kept = judged & ~found.to_drop
    rows = [
        ("all judged", judged),
        ("to keep", kept),
        ("to drop", judged & found.to_drop),
        ("wrong and stable", judged & found.gaps),
    ]
    n_not = int((~judged).sum())
    lacking = f" {n_not} not judged: they lack a pass." if n_not else ""
    return FigureTable(
        "The question bank",
        (
            ("questions", "text"),
            ("n", "count"),
            ("accuracy", "rate"),
            ("FPC", "rate"),
            ("OOC", "rate"),
        ),
        clean(
            [
                (
                    name,
                    int(chosen.sum()),
                    *(
                        found.clustered(column, chosen)
                        for column in (found.accuracy, found.fpc, found.ooc)
                    ),
                )
                for name, chosen in rows
            ]
        ),
        f"To drop: FPC below {DROP_BELOW:g}. Wrong and stable: FPC and OOC above "
        f"{STABLE:g}, right in fewer than {percent(LOW_ACCURACY)} % of the passes; "
        "what the model does not know. What is dropped was chosen by this run, so FPC "
        f"of the rest is above that of a new run.{lacking}",
    )


def drop_list(found: Stability) -> FigureTable:
    """List the questions that the bank should drop, the least stable first."""
    chosen = np.flatnonzero(found.to_drop)
    order = chosen[np.argsort(found.fpc[chosen], kind="stable")]
    rows = [
        (
            name_of(found.study, i),
            found.fpc[i],
            found.ooc[i],
            found.accuracy[i],
            _reason(found, i),
        )
        for i in order.tolist()
    ]
    return FigureTable(
        f"Questions to drop ({len(rows)})",
        (
            ("question", "text"),
            ("FPC", "percent"),
            ("OOC", "percent"),
            ("right", "percent"),
            ("reason", "text"),
        ),
        clean(rows),
        f"FPC below {DROP_BELOW:g}: the phase chooses the answer. Letters are those of "
        f"the options as the question file gives them. Orders disagree: OOC below "
        f"{UNSTABLE:g}; no clear favourite: pooled over phases and orders, no option "
        f"has a posterior of {FRAGILE:g}.",
        PRINTED,
    )


def gap_list(found: Stability) -> FigureTable:
    """List the questions that are wrong and stable, the surest first."""
    chosen = np.flatnonzero(found.gaps)
    top = np.nan_to_num(found.pooled_top[chosen])
    order = chosen[np.lexsort((-top, found.accuracy[chosen]))]
    answers = found.arm.pooled.consensus
    rows = [
        (
            name_of(found.study, i),
            _letter(int(answers[i])),
            _letter(int(found.study.gold[i])),
            found.accuracy[i],
            found.pooled_top[i],
        )
        for i in order.tolist()
    ]
    return FigureTable(
        f"Wrong and stable ({len(rows)})",
        (
            ("question", "text"),
            ("answer", "text"),
            ("right one", "text"),
            ("right", "percent"),
            ("posterior", "percent"),
        ),
        clean(rows),
        "Neither phase nor order moves these answers, so the model, or the key, is "
        "wrong. Posterior: of the answer, pooled over phases and orders. Letters are "
        "those of the options as the question file gives them.",
        PRINTED,
    )


def name_of(study: Study, i: int) -> str:
    """Benchmark and id of a question."""
    return item_name(study.items[i].benchmark, study.items[i].question_id)


def _letter(content: int) -> str:
    if content < 0:
        return "none"
    return chr(ord("A") + content) if content < 26 else str(content)


def _reason(found: Stability, i: int) -> str:
    return "; ".join(_reasons(found, i))


def _reasons(found: Stability, i: int) -> Iterator[str]:
    """Say which phases disagree, and what else is unsure about a question."""
    answers = [int(view.consensus[i]) for view in found.arm.views]
    answers = answers[: int(found.arm.n_phases[i])]
    yield _split(answers)
    if found.ooc[i] < UNSTABLE:
        yield "orders disagree too"
    if found.pooled_top[i] < FRAGILE:
        yield "no clear favourite"


def _split(answers: Sequence[int]) -> str:
    """Say what the consensus of every phase is."""
    by_answer = {a: [s for s, b in enumerate(answers) if b == a] for a in answers}
    if len(by_answer) == 1:
        return f"all phases: {_letter(answers[0])}, but not in every order"
    parts = sorted(by_answer.items(), key=lambda pair: (-len(pair[1]), pair[1]))
    return ", ".join(
        f"{by_number(len(where), 'phase', 'phases')} "
        f"{' and '.join(map(str, where))}: {_letter(answer)}"
        for answer, where in parts
    )
