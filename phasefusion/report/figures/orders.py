"""Figures about how a question is put: letters, video, option orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion import orders as option_orders
from phasefusion.fusion import fuse_items, posterior
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.figures.table import FigureTable, clean, points
from phasefusion.report.rates import rate_of
from phasefusion.report.table import Outcomes
from phasefusion.stats import (
    fixation,
    matched_vote,
    pride,
)

#: Orders that vote in sets of four, and that an ensemble is made of.
_N_VOTING = 10
_SIZE = 4
_PRIDE_SHARE, _PRIDE_DRAWS = 0.05, 5


def contrast(study: Study, other: str, labels: tuple[str, str]) -> list[FigureTable]:
    """Compare the single pass with one of another prompt: accuracy and order flips."""
    here, there = study.arm("single"), study.arm(other)
    if here is None or there is None:
        return []
    both = study.complete(here.first, there.first)
    flips = [study.order_flips(arm.first) for arm in (here, there)]
    rows = []
    for label, arm, flip in zip(labels, (here, there), flips, strict=True):
        rows.append(
            (
                label,
                study.rate(study.accuracy(arm.first), both),
                study.rate(study.right(arm.first), both)["value"],
                study.rate(flip.pairwise, both),
                study.rate(flip.any, both),
                int(both.sum()),
            )
        )
    table = FigureTable(
        f"{labels[0].capitalize()} against {labels[1]}",
        (
            ("questions", "text"),
            ("right, all orders", "rate"),
            ("consensus right", "percent"),
            ("two orders differ", "rate"),
            ("any order differs", "rate"),
            ("n", "count"),
        ),
        clean(rows),
        "Questions with an answer in every order both ways.",
    )
    return [table, _changes(study, here.first, there.first, labels)]


def _changes(
    study: Study, here: Outcomes, there: Outcomes, labels: tuple[str, str]
) -> FigureTable:
    both = study.complete(here, there)
    flips = [study.order_flips(one).any for one in (here, there)]
    right = [study.right(one) for one in (here, there)]
    rows = []
    for name, (first, second) in (
        ("changes under some order", flips),
        ("consensus right", right),
    ):
        one = study.paired(second, first, both)
        rows.append((name, one.only_second, one.only_first, one.points, one.p, one.n))
    return FigureTable(
        f"Questions of which it holds for {labels[0]} or {labels[1]} alone",
        (
            ("of the question", "text"),
            (f"{labels[0]} alone", "count"),
            (f"{labels[1]} alone", "count"),
            ("points", "points"),
            ("p", "pvalue"),
            ("n", "count"),
        ),
        clean(rows),
        f"Points: {labels[1]} minus {labels[0]}; {study.rates.test}.",
    )


def pride_figure(study: Study) -> list[FigureTable]:
    """Accuracy in the given order, with the letter prior divided out, and averaged."""
    arm = study.arm("single")
    if arm is None or arm.fused is None:
        return []
    given, debiased, averaged = (np.full(len(study.items), np.nan) for _ in range(3))
    prior_rows = []
    for k in np.unique(study.n_options).tolist():
        rows = _with_rotations(study, arm, k)
        if not len(rows):
            continue
        rotations = _letters(study, arm, rows, option_orders.cyclic(k))
        gold = study.gold[rows]
        known = np.where(gold >= 0, 1.0, np.nan)
        given[rows] = known * (rotations[:, 0].argmax(axis=1) == gold)
        made = [
            pride(
                rotations[:, 0], rotations, fraction=_PRIDE_SHARE, seed=study.seed + r
            )
            for r in range(_PRIDE_DRAWS)
        ]
        debiased[rows] = known * np.mean([one.answers == gold for one in made], axis=0)
        whole = pride(rotations[:, 0], rotations, fraction=1.0)
        averaged[rows] = known * (whole.answers == gold)
        prior_rows.append((k, whole.prior, len(rows)))
    used = study.rate(given)["n"]
    mean_k = float(study.n_options[~np.isnan(given)].mean()) if used else math.nan
    pride_passes = 1 + _PRIDE_SHARE * (mean_k - 1)
    rows_of = [
        ("given order", 1.0, study.rate(given), math.nan),
        ("PriDe", pride_passes, study.rate(debiased), points(debiased, given)),
        ("average of rotations", mean_k, study.rate(averaged), points(averaged, given)),
    ]
    table = FigureTable(
        "Letter prior divided out",
        (
            ("answers", "text"),
            ("passes", "number"),
            ("right", "rate"),
            ("over given", "points"),
        ),
        clean(rows_of),
        f"PriDe: the prior of the letters estimated on {_PRIDE_SHARE:.0%} of the "
        f"questions of each number of options, mean over {_PRIDE_DRAWS} choices of "
        "them. Passes: a question, on average. Questions with all rotations and a "
        f"right answer: {used}.",
    )
    return [table, _priors(prior_rows)]


def _priors(rows: Sequence[tuple[int, NDArray[np.float64], int]]) -> FigureTable:
    width = max((k for k, *_ in rows), default=0)
    letters = [chr(ord("A") + p) for p in range(width)]
    return FigureTable(
        "Prior of the letters",
        (
            ("options", "text"),
            *((letter, "percent") for letter in letters),
            ("n", "count"),
        ),
        tuple(
            (str(k), *prior.tolist(), *[None] * (width - k), n) for k, prior, n in rows
        ),
        "Over all questions with all rotations: geometric mean over the rotations of "
        "a question, mean over questions.",
    )


def columns_of(
    order: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find orders among those of every item.

    Parameters
    ----------
    order : ndarray, shape (n, M, K), int64
    wanted : ndarray, shape (m, K), int64

    Returns
    -------
    ndarray, shape (n, m), int64
        -1 where an item does not have the order.

    Examples
    --------
    >>> columns_of(np.array([[[0, 1], [1, 0]]]), np.array([[1, 0]]))
    array([[1]])
    """
    same = (order[:, None] == wanted[None, :, None]).all(axis=3)
    found = np.where(same.any(axis=2), same.argmax(axis=2), -1)
    return found.astype(np.int64)


def _with_rotations(study: Study, arm: ArmPasses, k: int) -> NDArray[np.intp]:
    """Items of K options with a posterior in every rotation."""
    rows = np.flatnonzero(study.n_options == k)
    at = columns_of(study.order[rows][:, :, :k], option_orders.cyclic(k))
    logp = arm.logp[rows[:, None], 0, at]
    known = (at >= 0).all(axis=1) & ~np.isnan(logp).any(axis=(1, 2))
    kept: NDArray[np.intp] = rows[known]
    return kept


def _letters(
    study: Study,
    arm: ArmPasses,
    rows: NDArray[np.intp],
    wanted: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Posteriors by letter under given orders, shape (n, m, K)."""
    k = wanted.shape[1]
    at = columns_of(study.order[rows][:, :, :k], wanted)
    content = arm.logp[rows[:, None], 0, at][..., :k]
    letters = np.take_along_axis(
        content, np.broadcast_to(wanted, content.shape), axis=2
    )
    return posterior(letters)


def permutations(study: Study) -> list[FigureTable]:
    """Accuracy of the average over all orders, and what is fixed over them."""
    arm = study.arm("single")
    if arm is None:
        return []
    one = arm.first
    full = study.n_orders == np.array([_factorial(k) for k in study.n_options])
    kept = study.complete(one) & full
    rows = [
        ("one order, mean", study.rate(study.accuracy(one), kept)),
        ("given order", study.rate(study.first_right(one), kept)),
        ("plurality of all orders", study.rate(study.right(one), kept)),
    ]
    if arm.fused is not None:
        ten = _ensemble(study, arm, kept)
        everything = study.pooled_over_orders(arm)
        known = study.gold >= 0
        rows += [
            (
                f"average of {_N_VOTING} orders",
                study.rate(np.where(known, ten == study.gold, np.nan), kept),
            ),
            (
                "average of all orders",
                study.rate(np.where(known, everything == study.gold, np.nan), kept),
            ),
        ]
    every = ((one.answer == study.gold[:, None]) | ~study.there).all(axis=1)
    rows.append(("right in all orders", study.rate(study.where(one, every), kept)))
    table = FigureTable(
        "All option orders",
        (("answers", "text"), ("right", "rate")),
        clean(rows),
        f"Questions with all K! orders: {int(kept.sum())}. Averages are of posteriors "
        "by content.",
    )
    return [table, _fixations(study, arm, kept)]


def _factorial(k: int) -> int:
    return math.factorial(int(k))


def _ensemble(
    study: Study, arm: ArmPasses, kept: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Answers of the average over ten shared orders."""
    answers = np.full(len(study.items), -1, np.int64)
    for k in np.unique(study.n_options[kept]).tolist():
        wanted = option_orders.shared(k, _N_VOTING, study.seed)
        wanted = wanted[option_orders.distinct(wanted)]
        rows = np.flatnonzero(kept & (study.n_options == k))
        at = columns_of(study.order[rows][:, :, :k], wanted)
        answers[rows] = fuse_items(
            arm.logp[rows[:, None], 0, at][:, None, :, :k],
            over=("phase", "order"),
            item_ids=[study.ids[i] for i in rows.tolist()],
            seed=study.seed,
        ).answer
    return answers


def _fixations(study: Study, arm: ArmPasses, kept: NDArray[np.bool_]) -> FigureTable:
    rows = []
    for k in np.unique(study.n_options[kept]).tolist():
        chosen = np.flatnonzero(kept & (study.n_options == k))
        n_orders = _factorial(k)
        order = study.order[chosen, :n_orders, :k]
        contents = arm.first.answer[chosen, :n_orders]
        letters = (order == contents[:, :, None]).argmax(axis=2)
        mass = None
        if arm.fused is not None:
            content = arm.logp[chosen, 0, :n_orders, :k]
            mass = posterior(np.take_along_axis(content, order, axis=2))
        made = fixation(contents, letters, mass, n_options=k)
        rows.append(
            (
                str(k),
                made.content,
                made.letter,
                made.position_mass,
                made.chance,
                len(chosen),
            )
        )
    return FigureTable(
        "What stays fixed over the orders",
        (
            ("options", "text"),
            ("content", "percent"),
            ("letter", "percent"),
            ("mass at a position", "percent"),
            ("by chance", "percent"),
            ("n", "count"),
        ),
        clean(rows),
        "Mean over questions of the greatest share of the orders that give one "
        "content, and one letter, and of the greatest mean posterior of a position. "
        "By chance: what uniform draws would give for content and letter.",
    )


def four_votes(study: Study) -> list[FigureTable]:
    """Questions on which two disjoint sets of four orders vote differently."""
    arm = study.arm("single")
    if arm is None:
        return []
    one, flips = arm.first, study.order_flips(arm.first)
    enough = study.n_orders >= 2 * _SIZE
    groups: list[tuple[str, NDArray[np.bool_]]] = [
        (str(k), study.n_options == k) for k in np.unique(study.n_options).tolist()
    ]
    rows = []
    for label, chosen in [*groups, ("all", np.ones(len(enough), bool))]:
        used = chosen & enough & study.complete(one)
        residual = _residual(study, one, used)
        rows.append(
            (
                label,
                residual,
                study.rates.clustered(flips.pairwise, used),
                study.rates.clustered(flips.any, used),
                int((chosen & ~enough).sum()),
                int(used.sum()),
            )
        )
    return [
        FigureTable(
            "Two disjoint votes of four orders",
            (
                ("options", "text"),
                ("votes differ", "rate"),
                ("two orders differ", "rate"),
                ("any order differs", "rate"),
                ("too few orders", "count"),
                ("n", "count"),
            ),
            clean(rows),
            f"All pairs of disjoint sets of four among the first {_N_VOTING} distinct "
            "orders, ties by the question's own priority, intervals clustered by "
            "video. Questions with fewer than eight orders have no such pair.",
        )
    ]


def _residual(study: Study, one: Outcomes, used: NDArray[np.bool_]) -> dict[str, Any]:
    rows = np.flatnonzero(used)
    if not len(rows):
        return rate_of(math.nan, math.nan, math.nan, 0)
    per_item = np.full(len(study.items), np.nan)
    counts = np.minimum(study.n_orders[rows], _N_VOTING)
    for m in np.unique(counts):
        part = rows[counts == m]
        per_item[part] = matched_vote(
            one.answer[part, None, :m],
            size=_SIZE,
            n_options=study.n_options[part],
            item_ids=[study.ids[i] for i in part.tolist()],
            seed=study.seed,
            fractional=False,
        ).per_item_within
    return study.rates.clustered(per_item)


def unlabelled(study: Study) -> list[FigureTable]:
    """Options with letters against options without."""
    return contrast(study, "unlabelled", ("with letters", "without letters"))


def blind(study: Study) -> list[FigureTable]:
    """Questions with the video against questions without."""
    return contrast(study, "blind", ("with video", "without video"))
