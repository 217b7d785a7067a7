"""Which questions a second stage is about."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phasefusion.fusion import fuse_items

if TYPE_CHECKING:
    from phasefusion.datasets import Item
    from phasefusion.records import Passes


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
