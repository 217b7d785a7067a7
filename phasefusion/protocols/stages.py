"""Which questions a second stage is about."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np

from phasefusion.fusion import fuse_items

if TYPE_CHECKING:
    from phasefusion.datasets import Item
    from phasefusion.records import Passes


def first_margins(passes: Passes, seed: int) -> dict[tuple[str, str], float]:
    """Return the margin of the first single pass of every question, in nats.

    Parameters
    ----------
    passes : Passes
    seed : int
        Of ties.

    Returns
    -------
    dict
        By benchmark and question id; questions without such a pass are left out.
    """
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
        if not np.isnan(margin)
    }


def lowest_margins(
    passes: Passes, items: Sequence[Item], share: Fraction, seed: int
) -> list[Item]:
    """Return the share of questions with the lowest margins of their first pass.

    It is rounded down, so that a second stage never costs more than was planned. Of
    equal margins the questions that come first are taken.

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
    margins = first_margins(passes, seed)
    keys = [(item.benchmark, item.question_id) for item in items]
    known = [i for i, key in enumerate(keys) if key in margins]
    known.sort(key=lambda i: margins[keys[i]])
    taken = sorted(known[: floor(len(items) * share)])
    return [items[i] for i in taken]
