"""What every item contributes to every rate; NaN where it contributes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion.records import ItemInfo
from phasefusion.report.table import ARMS, Outcomes, Table
from phasefusion.stats import flip_rates

Column = NDArray[np.float64]
Cluster: TypeAlias = Literal["auto", "question", "video"]
CLUSTERS = ("auto", "question", "video")


@dataclass(frozen=True, slots=True)
class Flips:
    """Flips of one kind by item; NaN with fewer than two answers or one missing."""

    pairwise: Column
    any: Column


@dataclass(frozen=True, slots=True)
class Right:
    """Whether one arm is right, by item; NaN where the item does not count."""

    order_averaged: Column
    first_order: Column
    consensus: Column


@dataclass(frozen=True, slots=True)
class ItemColumns:
    """Contributions of all items; every array has shape (n,).

    An item with one option contributes nothing: there is nothing to choose.

    Attributes
    ----------
    arms : tuple of str
        Arms on the unshifted origin, in the order of the report.
    accuracy, first_order, consensus : dict of str to ndarray
        Share of orders answered right, whether the first order was, and whether the
        plurality over orders was, by arm; these are `missing_wrong` where the table
        says that a missing answer is wrong, else `answered`.
    answered : dict of str to Right
        Of items that have an answer in every order.
    missing_wrong : dict of str to Right
        Of items that the arm was asked, whatever came of it: an order without an answer
        is not right, and neither is a consensus that lacks one.
    phase_flips : Flips
        Of the consensus answers over the phases.
    phase_flips_passes : Flips
        Of single passes over the phases, mean over the orders.
    order_flips : dict of str to Flips
        Over the orders, by arm; "phases" is the mean over the phase views.
    change, change_passes : dict of str to ndarray
        Whether the consensus answer, and the share of orders whose answer, differs
        between an arm and its half-step shift.
    """

    arms: tuple[str, ...]
    accuracy: dict[str, Column]
    first_order: dict[str, Column]
    consensus: dict[str, Column]
    answered: dict[str, Right]
    missing_wrong: dict[str, Right]
    phase_flips: Flips
    phase_flips_passes: Flips
    order_flips: dict[str, Flips]
    change: dict[str, Column]
    change_passes: dict[str, Column]


class ItemId(NamedTuple):
    """Of an item what tells it, and its video, apart from others."""

    benchmark: str
    question_id: str
    video_id: str | None


def cluster_name(
    info: ItemInfo | ItemId, by: Literal["question", "video"]
) -> tuple[str, str, str]:
    """Name the cluster of an item: within its benchmark, its video or itself.

    An item without a video is its own cluster: what is not known is not shared.
    """
    if by == "video" and info.video_id:
        return info.benchmark, "video", info.video_id
    return info.benchmark, "question", info.question_id


def cluster_labels(
    infos: Iterable[ItemInfo | ItemId], by: Literal["question", "video"]
) -> NDArray[np.int64]:
    """Label the clusters of items, as `cluster_name` tells them apart.

    Parameters
    ----------
    infos : iterable of ItemInfo or ItemId
    by : {"question", "video"}

    Returns
    -------
    ndarray, shape (n,), int64
        From 0, as they come.
    """
    numbers: dict[tuple[str, str, str], int] = {}
    names = (cluster_name(info, by) for info in infos)
    return np.array([numbers.setdefault(one, len(numbers)) for one in names], np.int64)


def choose_cluster(
    infos: Iterable[ItemInfo | ItemId], cluster: Cluster
) -> Literal["question", "video"]:
    """Choose what the items of a cluster share, where it is not given.

    That is the video where several questions are about one, for their answers depend on
    each other, else the question.
    """
    if cluster != "auto":
        return cluster
    known = list(infos)
    by_video, by_question = (
        {cluster_name(info, by) for info in known} for by in ("video", "question")
    )
    return "video" if len(by_video) < len(by_question) else "question"


def contributions(table: Table) -> ItemColumns:
    """Compute what every item contributes.

    Parameters
    ----------
    table : Table

    Returns
    -------
    ItemColumns
    """
    arms = arm_names(table)
    there = np.arange(table.order.shape[1]) < table.n_orders[:, None]
    order_flips = {
        arm: flips_of(table.arms[arm, False].answer, table.n_orders) for arm in arms
    }
    if table.phase_names:
        order_flips["phases"] = Flips(
            np.mean([order_flips[name].pairwise for name in table.phase_names], axis=0),
            np.mean([order_flips[name].any for name in table.phase_names], axis=0),
        )
    answered: dict[str, Right] = {}
    missing_wrong: dict[str, Right] = {}
    for arm in arms:
        outcomes = table.arms[arm, False]
        judged = (table.gold >= 0) & (table.n_options > 1)
        complete = judged & (outcomes.consensus >= 0)
        answered[arm] = _right(table, outcomes, complete, there)
        asked = judged & outcomes.asked.any(axis=1)
        missing_wrong[arm] = _right(table, outcomes, asked, outcomes.asked)
    headline = missing_wrong if table.missing_is_wrong else answered
    change, change_passes = _changes(table, arms, there)
    return ItemColumns(
        arms=arms,
        accuracy={arm: right.order_averaged for arm, right in headline.items()},
        first_order={arm: right.first_order for arm, right in headline.items()},
        consensus={arm: right.consensus for arm, right in headline.items()},
        answered=answered,
        missing_wrong=missing_wrong,
        phase_flips=_of_choices(table, _phase_flips(table)),
        phase_flips_passes=_of_choices(table, _phase_flips_passes(table, there)),
        order_flips=order_flips,
        change=change,
        change_passes=change_passes,
    )


def without_orders(columns: ItemColumns) -> ItemColumns:
    """Leave out what orders change, for prompts that show no options.

    Their scores are the same in every order because nothing else was asked, which is no
    finding about the model.
    """
    none = {
        arm: Flips(
            np.full_like(flips.pairwise, np.nan), np.full_like(flips.any, np.nan)
        )
        for arm, flips in columns.order_flips.items()
    }
    return replace(columns, order_flips=none)


def arm_names(table: Table) -> tuple[str, ...]:
    """Arms of the table on the unshifted origin, phase views after single.

    Those that importers named come last, in the order of the file.
    """
    foreign = [name for name, shifted in table.arms if not shifted]
    wanted = dict.fromkeys(("single", *table.phase_names, *ARMS[1:], *foreign))
    return tuple(name for name in wanted if (name, False) in table.arms)


def _right(
    table: Table,
    outcomes: Outcomes,
    counts: NDArray[np.bool_],
    orders: NDArray[np.bool_],
) -> Right:
    """Whether an arm is right on the items that count, over their orders."""
    right = outcomes.answer == table.gold[:, None]
    return Right(
        order_averaged=_where(counts, _mean_over(right, orders)),
        first_order=_where(counts & orders[:, 0], right[:, 0]),
        consensus=_where(counts, outcomes.consensus == table.gold),
    )


def _where(usable: NDArray[np.bool_], values: NDArray[np.generic]) -> Column:
    return np.where(usable, values, np.nan).astype(np.float64)


def _mean_over(values: NDArray[np.bool_], there: NDArray[np.bool_]) -> Column:
    counts = np.maximum(there.sum(axis=1), 1)
    mean: Column = (values & there).sum(axis=1) / counts
    return mean


def flips_of(answers: NDArray[np.int64], n_wanted: NDArray[np.int64]) -> Flips:
    """Flips by row of answers, shape (n, m), of which each row wants so many."""
    rates = flip_rates(answers, policy="available-macro")
    usable = (n_wanted >= 2) & ((answers >= 0).sum(axis=1) == n_wanted)
    return Flips(
        _where(usable, rates.per_item_pairwise), _where(usable, rates.per_item_any)
    )


def _of_choices(table: Table, flips: Flips) -> Flips:
    """Flips of the items that have something to choose."""
    chosen = table.n_options > 1
    return Flips(_where(chosen, flips.pairwise), _where(chosen, flips.any))


def _phase_flips(table: Table) -> Flips:
    if not table.phase_names:
        return _no_flips(table)
    return flips_of(table.phase_consensus(), table.n_phases)


def _phase_flips_passes(table: Table, there: NDArray[np.bool_]) -> Flips:
    if not table.phase_names:
        return _no_flips(table)
    answers = np.moveaxis(table.phase_answers(), 1, 2)
    n_items, n_orders, n_phases = answers.shape
    flips = flips_of(answers.reshape(-1, n_phases), np.repeat(table.n_phases, n_orders))
    shape = (n_items, n_orders)
    return Flips(
        *(
            np.where(there, values.reshape(shape), 0.0).sum(axis=1) / table.n_orders
            for values in (flips.pairwise, flips.any)
        )
    )


def _no_flips(table: Table) -> Flips:
    none = np.full(len(table.items), np.nan)
    return Flips(none, none)


def _changes(
    table: Table, arms: tuple[str, ...], there: NDArray[np.bool_]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """Compare every arm with its half-step shift; phase views are left out.

    View s of the shifted grid is not view s moved by half a step.
    """
    change: dict[str, Column] = {}
    change_passes: dict[str, Column] = {}
    for arm in arms:
        if arm in table.phase_names or (arm, True) not in table.arms:
            continue
        here: Outcomes = table.arms[arm, False]
        moved: Outcomes = table.arms[arm, True]
        usable = (here.consensus >= 0) & (moved.consensus >= 0)
        usable &= table.n_options > 1
        change[arm] = _where(usable, here.consensus != moved.consensus)
        differs = here.answer != moved.answer
        change_passes[arm] = _where(usable, _mean_over(differs, there))
    return change, change_passes
