"""What the paper's main protocol shows beside the general tables of a report."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasefusion._wording import counted
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.rates import mean_rate, rate_of
from phasefusion.report.table import Outcomes
from phasefusion.stats import auroc, clustered_mean, flag_lowest, matched_vote, tost

#: Margin of equivalence of the paper, as a fraction.
MARGIN = 0.025
_LOWEST = 0.2
#: Of the flips by margin, by whether questions share videos.
_MARGIN_INTERVALS = (
    "AUROC with DeLong's interval, the rates with Wilson's.",
    "AUROC with Obuchowski's interval, clustered by video; those of the rates are "
    "Wilson's, as if no question shared a video.",
)


def phasefusion(study: Study) -> list[FigureTable]:
    """Compute matched votes, the equivalence of fusion, and flips by margin."""
    arm = study.arm("phase")
    if arm is None:
        return []
    made = [_matched(study, arm), _equivalence(study, arm)]
    single = study.arm("single")
    one = arm.views[len(arm.views) // 2] if single is None else single.first
    return [*(table for table in made if table is not None), *_margins(study, one)]


def _matched(study: Study, arm: ArmPasses) -> FigureTable | None:
    """Votes of halves of the orders, within a phase and across phases."""
    n_views = len(arm.views)
    answers = np.stack([view.answer for view in arm.views], axis=1)
    whole = study.complete(*arm.views) & (arm.n_phases == n_views)
    whole &= study.n_orders >= 2
    if n_views < 2 or not whole.any():
        return None
    within, across = (np.full(len(study.items), np.nan) for _ in range(2))
    for m in np.unique(study.n_orders[whole]):
        rows = np.flatnonzero(whole & (study.n_orders == m))
        found = matched_vote(
            answers[rows, :, :m],
            n_options=study.n_options[rows],
            splits="all" if m <= 12 else 500,
            item_ids=[study.ids[i] for i in rows.tolist()],
            seed=study.seed,
            fractional=False,
        )
        within[rows], across[rows] = found.per_item_within, found.per_item_across
    videos = study.videos[whole]
    excess = clustered_mean((across - within)[whole], videos, limits=(-1.0, 1.0))
    rows_of = [
        *(
            (name, mean_rate(clustered_mean(votes[whole], videos, limits=(0.0, 1.0))))
            for name, votes in (("within a phase", within), ("across phases", across))
        ),
        (
            "due to the phase",
            rate_of(excess.mean, excess.low, excess.high, excess.n),
        ),
    ]
    return FigureTable(
        "Votes of two halves of the orders that differ",
        (("halves", "text"), ("questions", "rate")),
        clean(rows_of),
        f"{counted(int(whole.sum()), 'question')}. Both comparisons have the same "
        "number of votes on each side, so the noise of voting cancels in "
        "their difference. Intervals clustered by video.",
    )


def _equivalence(study: Study, arm: ArmPasses) -> FigureTable | None:
    """Fusion against the passes of more frames, within a margin fixed beforehand."""
    ours = study.accuracy(arm.pooled)
    rows: list[tuple[Any, ...]] = []
    for name in ("union", "dense"):
        other = study.arm(name)
        if other is None:
            continue
        difference = ours - study.accuracy(other.first)
        known = ~np.isnan(difference)
        if not known.any():
            continue
        videos = study.videos[known]
        made = tost(difference[known], videos, margin=MARGIN, limits=(-1.0, 1.0))
        low, high = 100 * made.mean.low, 100 * made.mean.high
        n = made.mean.n
        rows.append(
            (name, 100 * made.mean.mean, low, high, made.pvalue, made.verdict, n)
        )
    if not rows:
        return None
    pool = "vote" if arm.fused is None else "fusion"
    return FigureTable(
        f"Equivalence of {pool} within {100 * MARGIN:g} points",
        (
            ("against", "text"),
            ("points", "points"),
            ("low", "points"),
            ("high", "points"),
            ("p", "pvalue"),
            ("verdict", "text"),
            ("n", "count"),
        ),
        clean(rows),
        "Accuracy over all orders, difference with its 90 % interval; two one-sided "
        "tests at 5 %, clustered by video. Where no video differs from the mean the "
        "interval and the test are exact ones for so many videos.",
    )


def _margins(study: Study, one: Outcomes) -> list[FigureTable]:
    """Whether the margin of the first order tells which questions change."""
    flips = study.order_flips(one).any
    margins = one.margin[:, 0]
    known = ~np.isnan(flips) & ~np.isnan(margins)
    if not known.any():
        return []
    changed = flips[known] == 1
    shared = study.rates.by == "video"
    videos = study.videos[known] if shared else None
    area = auroc(changed, -margins[known], cluster=videos)
    flagged = flag_lowest(margins[known], changed, _LOWEST)
    n_others = flagged.n - flagged.k
    rows = [
        (
            area.value,
            area.low,
            area.high,
            rate_of(flagged.flagged_rate, *flagged.flagged_interval, flagged.k),
            rate_of(flagged.unflagged_rate, *flagged.unflagged_interval, n_others),
            flagged.caught if changed.any() else math.nan,
            flagged.n,
        )
    ]
    return [
        FigureTable(
            "Order flips by the margin of one pass",
            (
                ("", "text"),
                ("AUROC", "number"),
                ("low", "number"),
                ("high", "number"),
                ("lowest fifth flips", "rate"),
                ("others flip", "rate"),
                ("flips caught", "percent"),
                ("n", "count"),
            ),
            clean([("single", *row) for row in rows]),
            "A low margin of the single pass in the first order, against changing "
            f"under some order. {_MARGIN_INTERVALS[shared]}",
        )
    ]
