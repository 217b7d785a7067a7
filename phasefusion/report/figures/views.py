"""Figures of views: ensembles of option orders, and orders asked only in doubt."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phasefusion import orders as option_orders
from phasefusion._wording import counted
from phasefusion.errors import PhaseFusionWarning
from phasefusion.fusion import fuse_items, position_weighted
from phasefusion.protocols.stages import guided, step_posteriors
from phasefusion.report.figures.stability import PRINTED, name_of
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.figures.table import FigureTable, clean, points
from phasefusion.report.items import Column
from phasefusion.report.scored import MASKED
from phasefusion.report.summary import FRAGILE, ROBUST
from phasefusion.stats.consistency import consistency


def ensemble(study: Study) -> list[FigureTable]:
    """Ensembles of the orders of one pass, with and without weights by letter."""
    arm = study.arm("single")
    if arm is None:
        return []
    tables = [balance(study)]
    if arm.fused is None:
        return tables
    kept = ~np.isnan(np.where(study.there[..., None], arm.logp[:, 0], 0.0)).any((1, 2))
    kept &= study.n_orders > 0
    posterior, pooled = _mean_posterior(study, arm, kept)
    return [
        _ensembles(study, arm, kept, pooled),
        *_robustness(study, arm, kept, posterior),
        *tables,
    ]


def balance(study: Study) -> FigureTable:
    """Tell how often each option is at each letter, by number of options."""
    rows = []
    for k in np.unique(study.n_options).tolist():
        items = np.flatnonzero(study.n_options == k)
        most = int(study.n_orders[items].max(initial=0))
        whole = items[(study.order[items, :most, 0] >= 0).all(axis=1)]
        if not most or not len(whole):
            continue
        counts = option_orders.letter_counts(study.order[whole[0], :most, :k])
        same = "balanced" if counts.min() == counts.max() else "unbalanced"
        rows.append((str(k), most, same, counts.min(), counts.max(), len(items)))
    return FigureTable(
        "Balance of the option orders",
        (
            ("options", "text"),
            ("orders", "count"),
            ("letters", "text"),
            ("fewest", "count"),
            ("most", "count"),
            ("n", "count"),
        ),
        clean(rows),
        "Fewest and most: how often an option is at a letter. Where they differ, a "
        "preference for a letter does not cancel in an average over the orders.",
    )


def _mean_posterior(
    study: Study, arm: ArmPasses, kept: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Mean over the orders of each item, and its best option; NaN and -1 elsewhere."""
    posterior = np.full((len(kept), arm.logp.shape[-1]), np.nan)
    answers = np.full(len(kept), -1, np.int64)
    for m in np.unique(study.n_orders[kept]).tolist():
        rows = np.flatnonzero(kept & (study.n_orders == m))
        fused = fuse_items(
            arm.logp[rows, :1, :m],
            n_options=study.n_options[rows],
            over=("phase", "order"),
            item_ids=[study.ids[i] for i in rows.tolist()],
            seed=study.seed,
        )
        posterior[rows], answers[rows] = fused.posterior, fused.answer
    return posterior, answers


def _weighted(
    study: Study,
    arm: ArmPasses,
    kept: NDArray[np.bool_],
    alpha: float,
    mode: Literal["centered", "raw"],
) -> NDArray[np.int64]:
    """Answers of position-weighted ensembles; -1 where an option has no probability."""
    answers = np.full(len(kept), -1, np.int64)
    with warnings.catch_warnings():
        # what raw logits are subject to is said below the table
        warnings.simplefilter("ignore", PhaseFusionWarning)
        for i in np.flatnonzero(kept).tolist():
            k, m = int(study.n_options[i]), int(study.n_orders[i])
            order = study.order[i, :m, :k]
            letters = np.take_along_axis(arm.logp[i, 0, :m, :k], order, axis=1)
            if (np.abs(letters) < MASKED).all():
                answers[i] = position_weighted(
                    letters,
                    order,
                    alpha=alpha,
                    mode=mode,
                    item_id=study.ids[i],
                    seed=study.seed,
                ).answer
    return answers


def _ensembles(
    study: Study, arm: ArmPasses, kept: NDArray[np.bool_], pooled: NDArray[np.int64]
) -> FigureTable:
    alpha = float(study.settings.get("alpha", 0.85))
    one = arm.first
    made = {
        "mean posterior": pooled,
        f"logits, letters weighted {alpha:g}": _weighted(
            study, arm, kept, alpha, "centered"
        ),
        f"raw logits, letters weighted {alpha:g}": _weighted(
            study, arm, kept, alpha, "raw"
        ),
    }
    used = kept & study.complete(one)
    for answers in made.values():
        used &= answers >= 0
    known = np.where(study.gold >= 0, 1.0, np.nan)
    first = one.answer[:, 0]
    given = known * (first == study.gold)
    passes = float(study.n_orders[used].mean()) if used.any() else math.nan
    rows: list[tuple[Any, ...]] = [
        ("given order", 1.0, study.rate(given, used), 0.0, 0.0),
        (
            "any one order, mean",
            1.0,
            study.rate(study.accuracy(one), used),
            *[math.nan] * 2,
        ),
    ]
    for name, answers in made.items():
        right = known * (answers == study.gold)
        differs = (answers != first)[used]
        rows.append(
            (
                name,
                passes,
                study.rate(right, used),
                points(right[used], given[used]),
                float(differs.mean()) if len(differs) else math.nan,
            )
        )
    return FigureTable(
        "Ensembles of option orders",
        (
            ("answers", "text"),
            ("passes", "number"),
            ("right", "rate"),
            ("over given", "points"),
            ("differ from given", "percent"),
        ),
        clean(rows),
        f"{counted(int(used.sum()), 'question')} with all their orders. Weighted: a "
        f"letter weighs {alpha:g} of the one before it, logits less their "
        "mean in each order. Raw: log-probabilities as they were recorded, which are "
        "logits less a constant of the pass that the answer then depends on; the "
        "published recipe has it so.",
    )


def _robustness(
    study: Study,
    arm: ArmPasses,
    kept: NDArray[np.bool_],
    posterior: NDArray[np.float64],
) -> list[FigureTable]:
    """Questions by the greatest posterior of the ensemble, and those at risk."""
    top = posterior.max(axis=1)
    agree = consistency(arm.first.answer, "modal").per_item
    for m in np.unique(study.n_orders[kept]):
        rows = kept & (study.n_orders == m)
        agree[rows] = consistency(arm.first.answer[rows][:, :m], "modal").per_item
    right = study.right(arm.first)
    groups = [
        (f"robust, above {ROBUST:g}", kept & (top > ROBUST)),
        ("between", kept & (top <= ROBUST) & (top >= FRAGILE)),
        (f"at risk, below {FRAGILE:g}", kept & (top < FRAGILE)),
    ]
    n = int(kept.sum())
    rows_of = [
        (
            name,
            int(chosen.sum()),
            study.rate(chosen.astype(np.float64), kept),
            float(agree[chosen].mean()) if chosen.any() else math.nan,
            study.rate(right, chosen),
        )
        for name, chosen in groups
    ]
    shares = FigureTable(
        "Questions by the consistency of their ensemble",
        (
            ("greatest mean posterior", "text"),
            ("questions", "count"),
            ("share", "rate"),
            ("orders agree", "percent"),
            ("right", "rate"),
        ),
        clean(rows_of),
        f"{counted(n, 'question')}. Orders agree: share of the orders that give the "
        "most frequent answer. Right: the plurality of the orders.",
    )
    risky = groups[2][1]
    if not risky.any():
        return [shares]
    return [shares, _at_risk(study, risky, top, agree)]


def _at_risk(
    study: Study, risky: NDArray[np.bool_], top: Column, agree: Column
) -> FigureTable:
    found = np.flatnonzero(risky)
    found = found[np.argsort(top[found], kind="stable")]
    rows = [(name_of(study, i), float(top[i]), float(agree[i])) for i in found.tolist()]
    return FigureTable(
        "Questions at risk",
        (("question", "text"), ("posterior", "percent"), ("orders agree", "percent")),
        clean(rows),
        "Least consistent first.",
        PRINTED,
    )


def confidence_guided(study: Study) -> list[FigureTable]:
    """Answers and passes of views that are asked for only in doubt."""
    names = step_names(study)
    if not names:
        return []
    accept = float(study.settings.get("threshold", 0.85))
    table = step_posteriors(study.passes, names)
    made = guided(table, study.n_options, accept, study.ids, study.seed)
    known = np.where(study.gold >= 0, 1.0, np.nan)
    answered = made.answers >= 0
    first = first_answers(study, names[0])
    used = answered & (first >= 0)
    rows = [
        ("first view", 1.0, 1.0, study.rate(known * (first == study.gold), used), 0.0),
        (
            "confidence-guided",
            made.mean_views,
            passes_made(study, names),
            study.rate(known * (made.answers == study.gold), used),
            float((made.answers != first)[used].mean()) if used.any() else math.nan,
        ),
    ]
    n, dropped = int(used.sum()), int((~answered).sum())
    answers = FigureTable(
        "Views asked for in doubt",
        (
            ("answers", "text"),
            ("passes, expected", "number"),
            ("passes, made", "number"),
            ("right", "rate"),
            ("differ from first", "percent"),
        ),
        clean(rows),
        f"Passes a question; all views would be {len(names)}. Expected: what the rule "
        f"asks for, of {counted(n, 'question')} with an answer. Made: all passes over "
        f"all questions asked, those without an answer ({dropped}) included.",
    )
    return [answers, by_passes(study, made.n_views, made.answers, used, _VIEW_NAMES)]


_VIEW_NAMES = ("first view, sure", "two views", "three views")


def step_names(study: Study) -> list[str]:
    """Names of the arms of an adaptive protocol, in the order in which it asks."""
    entries = sorted(study.entries, key=lambda entry: entry.get("step", 0))
    return [str(entry["arm"]) for entry in entries]


def first_answers(study: Study, name: str) -> NDArray[np.int64]:
    """Pool the orders of the first arm alone; -1 where a pass is missing."""
    table = step_posteriors(study.passes, [name])
    answers = np.full(len(study.items), -1, np.int64)
    there = np.flatnonzero(~np.isnan(table).any(axis=(1, 2)))
    with np.errstate(divide="ignore"):
        logp = np.log(table[there])
    answers[there] = fuse_items(
        logp,
        n_options=study.n_options[there],
        item_ids=[study.ids[i] for i in there.tolist()],
        seed=study.seed,
    ).answer
    return answers


def passes_made(study: Study, names: Sequence[str]) -> float:
    """Count the passes a question that are on disk, answered or not."""
    there = np.isin(study.passes.arm.astype(str), names)
    n = len(np.unique(study.passes.item[there]))
    return float(there.sum()) / n if n else math.nan


def by_passes(
    study: Study,
    n_asked: NDArray[np.int64],
    answers: NDArray[np.int64],
    used: NDArray[np.bool_],
    names: Sequence[str],
) -> FigureTable:
    """Tabulate questions by how much they were asked."""
    right = np.where(study.gold >= 0, answers == study.gold, np.nan).astype(np.float64)
    rows = []
    for asked, name in enumerate(names, 1):
        chosen = used & (n_asked == asked)
        share = study.rate((n_asked == asked).astype(np.float64), used)
        rows.append((name, int(chosen.sum()), share, study.rate(right, chosen)))
    return FigureTable(
        "Questions by what they were asked",
        (
            ("asked", "text"),
            ("questions", "count"),
            ("share", "rate"),
            ("right", "rate"),
        ),
        clean(rows),
    )
