"""Where inconsistency comes from: video, language or their alignment, and the evidence.

The attribution is by thresholds on FPC and OOC. What stands behind it are the scores:
how much of their variance phases and orders make, how sure every view is, and what the
place of an option in the prompt adds to its score.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from phasefusion.report.figures.stability import STABLE, UNSTABLE, Stability
from phasefusion.report.figures.table import FigureTable, clean
from phasefusion.report.scored import MASKED
from phasefusion.stats import attribution

#: Variance of scores, in squared nats, that rounding may make.
_NOTHING = 1e-24
#: What each attribution says is at fault.
_DEFECTS = {
    "visual": "video: phases disagree",
    "language": "language: orders disagree",
    "cross-modal alignment": "cross-modal: both disagree",
}


def defects(found: Stability) -> list[FigureTable]:
    """Attribute every question, and show the scores behind it."""
    made = [_by_question(found), _variance(found), _views(found), _places(found)]
    return [table for table in made if table is not None and table.rows]


def _by_question(found: Stability) -> FigureTable:
    """Count questions by what makes them unstable."""
    judged = ~np.isnan(found.fpc) & ~np.isnan(found.ooc)
    kinds = np.full(len(judged), "", object)
    for i in np.flatnonzero(judged).tolist():
        kinds[i] = attribution(float(found.fpc[i]), float(found.ooc[i]))
    stable = judged & (found.fpc > STABLE) & (found.ooc > STABLE)
    groups = [(text, kinds == kind) for kind, text in _DEFECTS.items()]
    groups += [
        ("stable: both agree", stable),
        ("between the thresholds", (kinds == "none") & ~stable),
    ]
    entropy = _by_item(found, found.entropy)
    rows = []
    for name, chosen in groups:
        n = int(chosen.sum())
        known = chosen & ~np.isnan(entropy)
        rows.append(
            (
                name,
                n,
                found.clustered(chosen.astype(np.float64), judged),
                found.clustered(found.accuracy, chosen),
                float(entropy[known].mean()) if known.any() else math.nan,
            )
        )
    return FigureTable(
        "Where questions are unstable",
        (
            ("defect", "text"),
            ("n", "count"),
            ("questions", "rate"),
            ("accuracy", "rate"),
            ("entropy", "number"),
        ),
        clean(rows),
        f"For every question by itself, an axis is unstable below {UNSTABLE:g} and "
        f"stable above {STABLE:g}: only phases unstable points to the video side, only "
        "orders to the language side, both to their alignment. 95 % intervals, "
        "clustered by video. Entropy: of the posterior over the options, in nats, mean "
        "over passes.",
    )


def _by_item(found: Stability, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the passes of every question that is judged; NaN elsewhere.

    Parameters
    ----------
    found : Stability
    values : ndarray, shape (n, S, M)
    """
    there = found.study.there[:, None, :] & np.ones((1, values.shape[1], 1), bool)
    total = np.where(there, values, 0.0).sum(axis=(1, 2))
    mean: NDArray[np.float64] = total / np.maximum(there.sum(axis=(1, 2)), 1)
    return np.where(np.isnan(found.fpc) & np.isnan(found.ooc), np.nan, mean)


def centred_scores(found: Stability, i: int) -> NDArray[np.float64] | None:
    """Log-probabilities of one question less their mean over options, (S, M, K).

    None for a question that lacks a pass or a posterior, or has an option without any
    probability, masked ones included.
    """
    k, m = int(found.study.n_options[i]), int(found.study.n_orders[i])
    z = found.arm.logp[i, :, :m, :k]
    if k < 2 or not m or not (np.abs(z) < MASKED).all():
        return None
    centred: NDArray[np.float64] = z - z.mean(axis=-1, keepdims=True)
    return centred


def parts_of_variance(scores: NDArray[np.float64]) -> tuple[float, float, float]:
    """Variance that phases, orders, and both together make of the scores of an option.

    Parameters
    ----------
    scores : ndarray, shape (S, M, K), float64
        In content space, nats.

    Returns
    -------
    phase, order, both : float
        Mean over options, in squared nats; they add up to the variance over all passes.

    Examples
    --------
    >>> phase_alone = np.array([[[0.0], [0.0]], [[2.0], [2.0]]])
    >>> parts_of_variance(phase_alone)
    (1.0, 0.0, 0.0)
    """
    mean = scores.mean(axis=(0, 1), keepdims=True)
    phase = scores.mean(axis=1, keepdims=True) - mean
    order = scores.mean(axis=0, keepdims=True) - mean
    both = scores - mean - phase - order
    return float((phase**2).mean()), float((order**2).mean()), float((both**2).mean())


def _variance(found: Stability) -> FigureTable | None:
    """Divide the variance of scores between phases and orders."""
    every = (centred_scores(found, i) for i in range(len(found.study.items)))
    parts = np.array([parts_of_variance(z) for z in every if z is not None])
    if not len(parts):
        return None
    means = parts.mean(axis=0)
    total = float(means.sum())
    moved = parts.sum(axis=1) > _NOTHING
    largest = (parts == parts.max(axis=1)[:, None]) & moved[:, None]
    names = ("phase", "option order", "both together")
    rows = [
        (name, value, value / total if total > 0 else math.nan, float(most), len(parts))
        for name, value, most in zip(
            names, means.tolist(), largest.mean(axis=0), strict=True
        )
    ]
    rows.append(("nothing", 0.0, 0.0, float((~moved).mean()), len(parts)))
    return FigureTable(
        "What moves the scores of an option",
        (
            ("moved by", "text"),
            ("variance", "number"),
            ("of it", "percent"),
            ("most, questions", "percent"),
            ("n", "count"),
        ),
        clean(rows),
        "Variance of an option's log-probability over the passes of its question, in "
        "squared nats, scores centred over the options of a pass, mean over options "
        "and questions. Most: share of questions of which this part is the largest.",
    )


def _views(found: Stability) -> FigureTable | None:
    """How sure and how right every phase and every order is."""
    study, entropy = found.study, found.entropy
    judged = ~np.isnan(found.fpc) | ~np.isnan(found.ooc)
    if not judged.any():
        return None
    pooled = found.arm.pooled.consensus
    answers = np.stack([view.answer for view in found.arm.views], axis=1)
    groups = [
        (f"phase {s}", (slice(None), slice(s, s + 1), slice(None)))
        for s in range(answers.shape[1])
    ]
    groups += [
        (f"order {m}", (slice(None), slice(None), slice(m, m + 1)))
        for m in range(answers.shape[2])
    ]
    greatest = np.log(np.maximum(study.n_options, 2))[:, None, None]
    spread = _spread(found)
    rows = []
    for name, cut in groups:
        used = judged[:, None, None] & (answers[cut] >= 0)
        known = used & (study.gold[:, None, None] >= 0)
        right = answers[cut] == study.gold[:, None, None]
        agrees = answers[cut] == pooled[:, None, None]
        rows.append(
            (
                name,
                _mean(entropy[cut], used),
                _mean((entropy / greatest)[cut], used),
                _mean(spread[cut], used),
                _mean(right.astype(np.float64), known),
                _mean(agrees.astype(np.float64), used),
                int(used.sum()),
            )
        )
    return FigureTable(
        "Views: how sure, how right",
        (
            ("view", "text"),
            ("entropy", "number"),
            ("of greatest", "percent"),
            ("logit variance", "number"),
            ("right", "percent"),
            ("agrees", "percent"),
            ("passes", "count"),
        ),
        clean(rows),
        "Entropy of the posterior over the options, in nats, and as a share of log K. "
        "Logit variance: of the log-probabilities over the options of a pass, in "
        "squared nats. Agrees: with the consensus of the fused answers. "
        + (
            "Orders are those that the questions with as many options share."
            if _orders_are_shared(found)
            else "Orders are numbered by question."
        ),
    )


def _orders_are_shared(found: Stability) -> bool:
    study = found.study
    return all(
        bool((orders == orders[:1]).all())
        for k in np.unique(study.n_options).tolist()
        for orders in [study.order[study.n_options == k]]
    )


def _spread(found: Stability) -> NDArray[np.float64]:
    """Variance of log-probabilities over the options of every pass, (n, S, M)."""
    logp, n_options = found.arm.logp, found.study.n_options
    spread = np.full(logp.shape[:3], np.nan)
    for k in np.unique(n_options[n_options > 1]).tolist():
        rows = n_options == k
        z = logp[rows, :, :, :k]
        finite = np.abs(z) < MASKED
        spread[rows] = np.where(finite, z, 0.0).var(axis=-1)
        spread[rows] = np.where(finite.sum(axis=-1) == k, spread[rows], np.nan)
    return spread


def _mean(values: NDArray[np.float64], used: NDArray[np.bool_]) -> float:
    chosen = values[used & ~np.isnan(values)]
    return float(chosen.mean()) if len(chosen) else math.nan


def _places(found: Stability) -> FigureTable | None:
    """Average the scores of the options at every place in the prompt."""
    rows = []
    study = found.study
    for k in np.unique(study.n_options[study.n_options > 1]).tolist():
        by_place = []
        for i in np.flatnonzero(study.n_options == k).tolist():
            z = centred_scores(found, i)
            if z is not None:
                order = study.order[i, : z.shape[1], :k]
                by_place.append(np.take_along_axis(z, order[None], axis=-1))
        if not by_place or by_place[0].shape[1] < 2:
            continue
        for place in range(k):
            scores = [z[..., place] for z in by_place]
            rows.append(
                (
                    f"{chr(ord('A') + place)} of {k}",
                    float(np.mean([one.mean() for one in scores])),
                    float(np.mean([one.var(axis=1).mean() for one in scores])),
                    len(scores),
                )
            )
    if not rows:
        return None
    return FigureTable(
        "Scores by place in the prompt",
        (
            ("letter", "text"),
            ("score", "number"),
            ("variance over orders", "number"),
            ("n", "count"),
        ),
        clean(rows),
        "Centred log-probabilities in nats. Where every option stands at every letter "
        "equally often, contents cancel, and a score other than 0 is a preference for "
        "the letter. A large variance at the first letter points to how options are "
        "embedded, low scores at the last ones to attention that fades.",
    )
