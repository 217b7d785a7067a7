"""Which questions a second stage is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phasefusion.fusion import fuse_items, posterior
from phasefusion.stats.adaptive import adaptive_phases
from phasefusion.stats.guided import Guided, confidence_guided

if TYPE_CHECKING:
    from phasefusion.datasets import Item
    from phasefusion.protocols.plans import Plan
    from phasefusion.records import Passes

#: Orders that two options have: a third view would be one of them again.
_N_ORDERS_OF_TWO = 2
_N_VIEWS = 3


def share_of_lowest(margins: NDArray[np.float64], share: Fraction) -> NDArray[np.bool_]:
    """Mark the share of items with the lowest margins.

    It is rounded down, so that a second stage never costs more than was planned. Of
    equal margins those that come first are taken; items without a margin never are.

    Parameters
    ----------
    margins : ndarray, shape (n,), float64
        In nats; NaN where there is none.
    share : Fraction
        Of all items.

    Returns
    -------
    ndarray, shape (n,), bool

    Examples
    --------
    >>> share_of_lowest(np.array([0.3, 0.1, np.nan, 0.2]), Fraction(1, 2))
    array([False,  True, False,  True])
    """
    n_known = int((~np.isnan(margins)).sum())
    order = np.argsort(margins, kind="stable")  # NaN comes last
    chosen = np.zeros(len(margins), np.bool_)
    chosen[order[: min(floor(len(margins) * share), n_known)]] = True
    return chosen


def lowest_margins(
    passes: Passes, items: Sequence[Item], share: Fraction, seed: int
) -> list[Item]:
    """Return the share of questions with the lowest margins of their first pass.

    Parameters
    ----------
    passes : Passes
    items : sequence of Item
    share : Fraction
        Of all items.
    seed : int
        Of ties.

    Returns
    -------
    list of Item
        In their order.
    """
    known = _first_margins(passes, seed)
    margins = np.array(
        [known.get((item.benchmark, item.question_id), np.nan) for item in items]
    )
    chosen = share_of_lowest(margins, share)
    return [item for item, use in zip(items, chosen, strict=True) if use]


def _first_margins(passes: Passes, seed: int) -> dict[tuple[str, str], float]:
    """Margin of the first single pass of every question, by benchmark and id."""
    chosen = np.flatnonzero((passes.arm == "single") & ~passes.shifted)
    _, first = np.unique(passes.item[chosen], return_index=True)
    rows = chosen[first]
    infos = [passes.items[i] for i in passes.item[rows].tolist()]
    fused = fuse_items(
        passes.content_logprobs()[rows][:, None],
        n_options=np.array([info.n_options for info in infos], np.int64),
        item_ids=[info.question_id for info in infos],
        seed=seed,
    )
    return {
        (info.benchmark, info.question_id): float(margin)
        for info, margin in zip(infos, fused.margin, strict=True)
    }


def undecided(
    passes: Passes, items: Sequence[Item], plan: Plan, step: int, seed: int
) -> list[Item]:
    """Return the questions that an adaptive protocol asks in a step.

    Which those are follows from each question's own passes alone, so that parts of a
    run choose as the whole does. A question of which a pass is missing has no answer,
    and is asked no more.

    Parameters
    ----------
    passes : Passes
        Of all lower steps.
    items : sequence of Item
    plan : Plan
        Of a protocol that adapts something.
    step : int
        Above 0.
    seed : int
        Of ties.

    Returns
    -------
    list of Item
        In their order.
    """
    names = [arm.name for arm in plan.steps[:step]]
    table = step_posteriors(passes, names)
    widths = np.array([info.n_options for info in passes.items], np.int64)
    ids = [info.question_id for info in passes.items]
    assert plan.threshold is not None
    known = ~np.isnan(table).any(axis=(1, 2))
    if plan.protocol.adapts == "phases":
        found = adaptive_phases(
            table,
            plan.threshold,
            order=range(step),
            n_options=widths,
            item_ids=ids,
            seed=seed,
        )
        more = known & ((found.margins < plan.threshold) | np.isinf(plan.threshold))
    else:
        made = guided(table, widths, plan.threshold, ids, seed)
        more = known & (made.n_views > step)
    asked = {
        (info.benchmark, info.question_id)
        for info, use in zip(passes.items, more, strict=True)
        if use
    }
    return [item for item in items if (item.benchmark, item.question_id) in asked]


def step_posteriors(passes: Passes, names: Sequence[str]) -> NDArray[np.float64]:
    """Content-space posterior of each question in each of some arms of one phase.

    Parameters
    ----------
    passes : Passes
    names : sequence of str
        Of arms on the unmoved origin.

    Returns
    -------
    ndarray, shape (n, len(names), K), float64
        Mean over the option orders of a question; 0 beyond its options, NaN where a
        pass is missing or was not asked for.
    """
    n, width = len(passes.items), passes.order.shape[1]
    widths = np.array([info.n_options for info in passes.items], np.int64)
    found = np.full((n, len(names), width), np.nan)
    content = passes.content_logprobs()
    for column, name in enumerate(names):
        rows = np.flatnonzero((passes.arm == name) & ~passes.shifted)
        there = ~np.isnan(content[rows]).any(axis=1)
        p = np.full((len(rows), width), np.nan)
        p[there] = posterior(content[rows[there]])
        item = passes.item[rows]
        count = np.bincount(item, minlength=n)
        total = np.zeros((n, width))
        np.add.at(total, item, p)
        for k in set(widths.tolist()):
            most = count[widths == k].max()  # of a run that is cut off there are less
            whole = (widths == k) & (count == most) & (most > 0)
            found[whole, column] = total[whole] / most
    return found


def guided(
    table: NDArray[np.float64],
    n_options: NDArray[np.int64],
    accept: float,
    item_ids: Sequence[str],
    seed: int,
) -> Guided:
    """Answer from as many of three views as needed; see `stats.confidence_guided`.

    Two options have two orders, so that no third view decides between them: then the
    mean posterior does.

    Parameters
    ----------
    table : ndarray, shape (n, up to 3, K), float64
        As `step_posteriors` gives it.
    n_options : ndarray, shape (n,), int64
    accept : float
    item_ids : sequence of str
    seed : int

    Returns
    -------
    Guided
        `n_views` says 3 of no question of two options.
    """
    n, there, width = table.shape
    views = np.full((n, _N_VIEWS, width), np.nan)
    views[:, :there] = table
    of_two = n_options == _N_ORDERS_OF_TWO
    views[of_two, 2] = views[of_two, :2].mean(axis=1)
    made = confidence_guided(views, accept=accept, item_ids=item_ids, seed=seed)
    n_views = np.where(of_two, np.minimum(made.n_views, 2), made.n_views)
    known = made.answers >= 0
    mean = float(n_views[known].mean()) if known.any() else float("nan")
    return replace(made, n_views=n_views, mean_views=mean)
