"""All passes of a run by arm, question, view and order, as figures need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.fusion import fuse_items
from phasefusion.records import ItemInfo, Passes
from phasefusion.report.items import Column, Flips, flips_of
from phasefusion.report.rates import Paired, Rates
from phasefusion.report.table import (
    Outcomes,
    OutcomesMaker,
    block_of,
    number_orders,
    wanted_orders,
)


@dataclass(frozen=True, slots=True)
class ArmPasses:
    """What one arm answered, on one origin.

    Attributes
    ----------
    name : str
    logp : ndarray, shape (n, S, M, K), float64
        Content space; NaN where a pass is missing or was generated.
    views : tuple of Outcomes
        Of every phase.
    fused : Outcomes or None
        None for generated answers, which have no posteriors.
    vote : Outcomes
        Plurality of the views.
    n_phases : ndarray, shape (n,), int64
        Views of each item; short clips may have fewer.
    """

    name: str
    logp: NDArray[np.float64]
    views: tuple[Outcomes, ...]
    fused: Outcomes | None
    vote: Outcomes
    n_phases: NDArray[np.int64]

    @property
    def pooled(self) -> Outcomes:
        """Fusion, or the vote where there are no posteriors."""
        return self.vote if self.fused is None else self.fused

    @property
    def first(self) -> Outcomes:
        """The first view."""
        return self.views[0]

    def consensus(self) -> NDArray[np.int64]:
        """Consensus answers by view, shape (n, S)."""
        return np.stack([view.consensus for view in self.views], axis=1)


class Study:
    """The passes of a run.

    Parameters
    ----------
    passes : Passes
    settings : mapping
        Of run.json.

    Attributes
    ----------
    rates : Rates
        Of the items.
    videos : ndarray, shape (n,), int64
        Cluster of each item: its video within its benchmark, or itself without one.
    """

    def __init__(self, passes: Passes, settings: Mapping[str, Any]) -> None:
        self.passes = passes
        self.settings = settings
        self.seed = int(settings.get("seed", 0))
        self.items: tuple[ItemInfo, ...] = passes.items
        #: What ties are broken by: the same question has the same in every benchmark.
        self.ids = [info.question_id for info in self.items]
        self.rates = Rates(self.items)
        self.videos = self.rates.videos
        self.gold = np.array(
            [-1 if info.gold is None else info.gold for info in self.items], np.int64
        )
        self.n_options = np.array([info.n_options for info in self.items], np.int64)
        self._order_index, self.order = number_orders(passes)
        self.n_orders = wanted_orders(self.order, self.n_options)
        self._content = passes.content_logprobs()
        self._known: dict[tuple[str, bool], ArmPasses | None] = {}

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Orders that each item must have, shape (n, M)."""
        return np.arange(self.order.shape[1]) < self.n_orders[:, None]

    @property
    def entries(self) -> list[Mapping[str, Any]]:
        """The arms as run.json describes them."""
        return list(self.settings.get("arms", ()))

    def arm(self, name: str, shifted: bool = False) -> ArmPasses | None:
        """Return the passes of one arm; None without any."""
        key = (name, shifted)
        if key not in self._known:
            self._known[key] = self._made(name, shifted)
        return self._known[key]

    def arms(self) -> list[ArmPasses]:
        """Every arm on the unmoved origin that has passes, as run.json lists them."""
        names = [entry["arm"] for entry in self.entries if not entry["shifted"]]
        found = [self.arm(name) for name in dict.fromkeys(names)]
        return [one for one in found if one is not None]

    def counts(self, name: str) -> NDArray[np.int64]:
        """Count the passes of every item on an unmoved arm, shape (n,)."""
        chosen = (self.passes.arm == name) & ~self.passes.shifted
        found = np.bincount(self.passes.item[chosen], minlength=len(self.items))
        return found.astype(np.int64)

    def budgets(self, name: str) -> NDArray[np.int64]:
        """Most frames of a pass of an unmoved arm, by item; -1 where not known."""
        chosen = (self.passes.arm == name) & ~self.passes.shifted
        found = np.full(len(self.items), -1, np.int64)
        np.maximum.at(found, self.passes.item[chosen], self.passes.budget[chosen])
        return found

    def _made(self, name: str, shifted: bool) -> ArmPasses | None:
        passes = self.passes
        chosen = (passes.arm == name) & (passes.shifted == shifted)
        if not chosen.any():
            return None
        block = block_of(passes, self._content, self._order_index, self.order, chosen)
        n_phases = np.zeros(len(self.items), np.int64)
        np.maximum.at(n_phases, passes.item[chosen], passes.n_phases[chosen])
        make = OutcomesMaker(
            self.n_options, self.n_orders, n_phases, self.ids, self.seed
        )
        views = tuple(make._pass(block, s) for s in range(block.logp.shape[1]))
        has_posteriors = make.has_posteriors(block)
        return ArmPasses(
            name,
            block.logp,
            views,
            make._fusion(block) if has_posteriors else None,
            make._vote(
                np.stack([view.answer for view in views], axis=1),
                np.any(block.asked, axis=1),
            ),
            n_phases,
        )

    def rate(
        self, values: Column, chosen: NDArray[np.bool_] | None = None
    ) -> dict[str, Any]:
        """Mean of a column over chosen items with its interval, as `Rates.rate`."""
        return self.rates.rate(values, chosen)

    def paired(
        self, first: Column, second: Column, chosen: NDArray[np.bool_]
    ) -> Paired:
        """Compare two 0/1 columns on chosen items, as `Rates.paired`."""
        return self.rates.paired(np.where(chosen, first, np.nan), second)

    # -- what items contribute ----------------------------------------------

    def complete(self, *outcomes: Outcomes) -> NDArray[np.bool_]:
        """Items that have an answer in every order of all outcomes."""
        kept = np.ones(len(self.items), bool)
        for one in outcomes:
            kept &= one.consensus >= 0
        return kept

    def accuracy(self, outcomes: Outcomes) -> Column:
        """Share of orders answered right by item; NaN without gold."""
        right = (outcomes.answer == self.gold[:, None]) & self.there
        share = right.sum(axis=1) / np.maximum(self.n_orders, 1)
        return self.where(outcomes, share)

    def right(self, outcomes: Outcomes) -> Column:
        """Whether the consensus is right by item; NaN without gold."""
        return self.where(outcomes, outcomes.consensus == self.gold)

    def first_right(self, outcomes: Outcomes) -> Column:
        """Whether the answer in the first order is right; NaN without gold."""
        known = (outcomes.answer[:, 0] >= 0) & (self.gold >= 0)
        right = outcomes.answer[:, 0] == self.gold
        return np.where(known, right, np.nan).astype(np.float64)

    def where(self, outcomes: Outcomes, values: NDArray[Any]) -> Column:
        """Values of items with an answer in every order, and gold; NaN elsewhere."""
        known = (outcomes.consensus >= 0) & (self.gold >= 0)
        return np.where(known, values, np.nan).astype(np.float64)

    def order_flips(self, outcomes: Outcomes) -> Flips:
        """Flips over the orders by item."""
        return flips_of(outcomes.answer, self.n_orders)

    def phase_flips(self, arm: ArmPasses) -> Flips:
        """Flips of the consensus over the views by item."""
        return flips_of(arm.consensus(), arm.n_phases)

    def pooled_over_orders(
        self, arm: ArmPasses, columns: Sequence[int] | None = None
    ) -> NDArray[np.int64]:
        """Answers after pooling the first view over orders, shape (n,); -1 if missing.

        Orders beyond those of an item do not count; `columns` chooses among the first.
        """
        logp = arm.logp[:, :1]
        there = self.there
        if columns is not None:
            logp, there = logp[:, :, columns], there[:, columns]
        answers = np.full(len(self.items), -1, np.int64)
        for m in np.unique(there.sum(axis=1)):
            rows = np.flatnonzero(there.sum(axis=1) == m)
            if m:
                answers[rows] = fuse_items(
                    logp[rows, :, :m],
                    n_options=self.n_options[rows],
                    over=("phase", "order"),
                    item_ids=[self.ids[i] for i in rows.tolist()],
                    seed=self.seed,
                ).answer
        return answers


__all__ = ["ArmPasses", "Study"]
