"""The figure of phases that are added until the fused margin is wide enough."""

from __future__ import annotations

import math

import numpy as np

from phasefusion.protocols.stages import step_posteriors
from phasefusion.report.figures.study import Study
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.figures.views import (
    by_passes,
    first_answers,
    passes_made,
    step_names,
)
from phasefusion.stats.adaptive import adaptive_phases


def adaptive(study: Study) -> list[FigureTable]:
    """Answers and passes of phases that are asked for one at a time."""
    names = step_names(study)
    if not names or "threshold" not in study.settings:
        return []
    threshold = float(study.settings["threshold"])
    table = step_posteriors(study.passes, names)
    made = adaptive_phases(
        table,
        threshold,
        order=range(len(names)),
        n_options=study.n_options,
        item_ids=study.ids,
        seed=study.seed,
    )
    first = first_answers(study, names[0])
    used = (made.answers >= 0) & (first >= 0)
    known = np.where(study.gold >= 0, 1.0, np.nan)
    orders = float(study.n_orders[used].mean()) if used.any() else math.nan
    reached = (
        float((made.margins >= threshold)[used].mean()) if used.any() else math.nan
    )
    rows = [
        (
            "one phase",
            1.0,
            orders,
            study.rate(known * (first == study.gold), used),
            0.0,
        ),
        (
            f"adaptive, at most {len(names)}",
            made.mean_phases,
            passes_made(study, names),
            study.rate(known * (made.answers == study.gold), used),
            float((made.answers != first)[used].mean()) if used.any() else math.nan,
        ),
    ]
    n, dropped = int(used.sum()), made.n_dropped
    answers = FigureTable(
        "Phases until the margin is wide enough",
        (
            ("answers", "text"),
            ("phases", "number"),
            ("passes made", "number"),
            ("right", "rate"),
            ("differ from one", "percent"),
        ),
        clean(rows),
        f"Threshold {threshold:g} nats, reached by {100 * reached:.1f} % of the {n} "
        f"questions; the others have all {len(names)} phases. A question. Passes made "
        f"include those of questions without an answer ({dropped}). What the threshold "
        "changes is not seen here, where the other phases were not scored: "
        "phasefusion calibrate tells it of a run that has them all.",
    )
    labels = [str(t) if t > 1 else "1 phase" for t in range(1, len(names) + 1)]
    return [answers, by_passes(study, made.n_phases, made.answers, used, labels)]
