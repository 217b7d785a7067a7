"""Passes as arrays by item, phase and order, and what every arm answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.fusion import fuse_items
from phasefusion.grid import PhaseGrid
from phasefusion.records import ARMS as RECORDED
from phasefusion.records import ItemInfo, Passes
from phasefusion.records.files import IMPORTED
from phasefusion.stats import consensus, majority_vote

#: Arms in the order in which they are reported; "phase 0", "phase 1", ... come second.
ARMS = ("single", "fusion", "vote", "union", "dense")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What one arm answered on one origin, by item and order.

    Attributes
    ----------
    answer : ndarray, shape (n, M), int64
        Content index; -1 where a pass of the arm is missing.
    margin : ndarray, shape (n, M), float64
        Log of best over second best, in nats; NaN where there is no posterior.
    tied : ndarray, shape (n, M), bool
    consensus : ndarray, shape (n,), int64
        Plurality over the orders; -1 unless every order has an answer.
    consensus_tied : ndarray, shape (n,), bool
    asked : ndarray, shape (n, M), bool
        Whether a pass of the arm is recorded, with an answer or without.
    """

    answer: NDArray[np.int64]
    margin: NDArray[np.float64]
    tied: NDArray[np.bool_]
    consensus: NDArray[np.int64]
    consensus_tied: NDArray[np.bool_]
    asked: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Table:
    """All passes of a run by item.

    Attributes
    ----------
    items : tuple of ItemInfo
    gold : ndarray, shape (n,), int64
        -1 where it is not known.
    n_orders : ndarray, shape (n,), int64
        Orders that each item must have, as many as any item of its number of options
        has; the first is order 0. An item of an unfinished run may have fewer.
    order : ndarray, shape (n, M, K), int64
        -1 beyond an item's orders and options.
    n_phases : ndarray, shape (n,), int64
        Phases of each item; 0 without phase passes.
    pooled_top : ndarray, shape (n,), float64
        Greatest posterior after pooling phases and orders; NaN where one is missing.
    arms : mapping from (str, bool) to Outcomes
        By arm and whether it is on the shifted origin; phase views are "phase 0", ...
    missing_is_wrong : bool
        Whether accuracy counts a question without an answer as wrong, as it does for
        imported runs, where a model was asked and named no option. In a run made here
        what is missing could not be scored, and such questions are left out.
    """

    items: tuple[ItemInfo, ...]
    gold: NDArray[np.int64]
    n_options: NDArray[np.int64]
    n_orders: NDArray[np.int64]
    order: NDArray[np.int64]
    n_phases: NDArray[np.int64]
    pooled_top: NDArray[np.float64]
    arms: Mapping[tuple[str, bool], Outcomes]
    missing_is_wrong: bool = False

    @property
    def phase_names(self) -> tuple[str, ...]:
        """The phase views, in order."""
        return tuple(f"phase {s}" for s in range(int(self.n_phases.max(initial=0))))

    @property
    def shared_orders(self) -> bool:
        """Whether items of one number of options have the same orders, in one order.

        Of the orders that all items have; those of a sweep may be drawn by item.
        """
        n_orders = int(self.n_orders.min()) if len(self.n_orders) else 0
        return all(
            (one == one[:1]).all()
            for k in np.unique(self.n_options)
            for one in [self.order[self.n_options == k, :n_orders]]
        )

    def phase_consensus(self, shifted: bool = False) -> NDArray[np.int64]:
        """Consensus answers by phase, shape (n, S)."""
        views = [self.arms[name, shifted].consensus for name in self.phase_names]
        return np.stack(views, axis=1)

    def phase_answers(self, shifted: bool = False) -> NDArray[np.int64]:
        """Answers by phase and order, shape (n, S, M)."""
        views = [self.arms[name, shifted].answer for name in self.phase_names]
        return np.stack(views, axis=1)


@dataclass(frozen=True, slots=True)
class _Block:
    """Log-probabilities and answers of one recorded arm, shape (n, S, M, K), (n, S, M).

    A pass that is not there is NaN and -1, not generated and not asked.
    """

    logp: NDArray[np.float64]
    answer: NDArray[np.int64]
    asked: NDArray[np.bool_]
    generated: NDArray[np.bool_]


def _of_protocol(passes: Passes, settings: Mapping[str, Any]) -> Passes:
    """Return the passes of the arms that the general report is about.

    Those that a protocol adds under other names are for its own figure. Runs of which
    the arms are not described, as imported ones, keep all.
    """
    if not settings.get("arms"):
        return passes
    chosen = np.isin(passes.arm.astype(str), RECORDED)
    if chosen.all() or not chosen.any():
        return passes
    columns = {
        name: getattr(passes, name)[chosen]
        for name in Passes.__slots__
        if name not in ("items", "invalid")
    }
    invalid = tuple(
        why for why, keep in zip(passes.invalid, chosen, strict=True) if keep
    )
    return Passes(items=passes.items, invalid=invalid, **columns)


def build(passes: Passes, settings: Mapping[str, Any]) -> Table:
    """Arrange passes by item and derive single, fusion and vote.

    Parameters
    ----------
    passes : Passes
    settings : mapping
        The settings of the run: its grid and its seed.

    Returns
    -------
    Table
    """
    seed = int(settings.get("seed", 0))
    passes = _of_protocol(passes, settings)
    order_index, order = number_orders(passes)
    n_options = np.array([info.n_options for info in passes.items], np.int64)
    n_orders = wanted_orders(order, n_options)
    gold = [-1 if info.gold is None else info.gold for info in passes.items]
    names = dict.fromkeys(("phase", "single", "union", "dense", *passes.arm))
    of_arms = {name: passes.arm == name for name in names}
    is_phase = of_arms["phase"]
    n_phases = np.zeros(len(passes.items), np.int64)
    np.maximum.at(n_phases, passes.item[is_phase], passes.n_phases[is_phase])
    make = OutcomesMaker(
        n_options=n_options,
        n_orders=n_orders,
        n_phases=n_phases,
        ids=[info.question_id for info in passes.items],
        seed=seed,
    )
    content = passes.content_logprobs()
    pooled_top = np.full(len(passes.items), np.nan)
    arms: dict[tuple[str, bool], Outcomes] = {}
    for shifted in (False, True):
        blocks = {}
        for name, of_arm in of_arms.items():
            chosen = of_arm & (passes.shifted == shifted)
            if chosen.any():
                blocks[name] = block_of(passes, content, order_index, order, chosen)
        single = _single_phase(settings, shifted)
        for name, outcomes in make.arms(blocks, single).items():
            arms[name, shifted] = outcomes
        if "phase" in blocks and not shifted:
            pooled_top = make.pooled_top(blocks["phase"])
    return Table(
        items=passes.items,
        gold=np.array(gold, np.int64),
        n_options=n_options,
        n_orders=n_orders,
        order=order,
        n_phases=n_phases,
        pooled_top=pooled_top,
        arms=arms,
        missing_is_wrong=settings.get("protocol") == IMPORTED,
    )


def arm_logprobs(
    passes: Passes, settings: Mapping[str, Any]
) -> dict[str, NDArray[np.float64]]:
    """Content-space log-probabilities of every recorded arm on the unshifted origin.

    Returns
    -------
    dict of str to ndarray, shape (n, S, M, K), float64
        NaN where a pass is missing or has no posterior, -inf beyond an item's options;
        phases and orders are numbered as in the table. An arm without passes is left
        out.
    """
    passes = _of_protocol(passes, settings)
    order_index, order = number_orders(passes)
    content = passes.content_logprobs()
    found = {}
    for name in dict.fromkeys(passes.arm[~passes.shifted].tolist()):
        chosen = (passes.arm == name) & ~passes.shifted
        found[str(name)] = block_of(passes, content, order_index, order, chosen).logp
    return found


def number_orders(passes: Passes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order number of every pass, and the orders of every item.

    The orders of an item are numbered as they come in the file.
    """
    code = _codes_of_rows(passes.order)
    pair = passes.item * (int(code.max(initial=0)) + 1) + code
    _, first, of_pair = np.unique(pair, return_index=True, return_inverse=True)
    items = passes.item[first]
    by_item = np.lexsort((first, items))
    begun = np.searchsorted(items[by_item], items[by_item], side="left")
    number = np.empty(len(first), np.int64)
    number[by_item] = np.arange(len(first)) - begun
    most = int(number.max(initial=-1)) + 1
    order = np.full((len(passes.items), most, passes.order.shape[1]), -1, np.int64)
    order[items, number] = passes.order[first]
    return number[of_pair], order


def _codes_of_rows(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give equal rows of orders, padded with -1, equal numbers from 0."""
    code = np.zeros(len(rows), np.int64)
    base = rows.shape[1] + 1
    for column in rows.T:
        if code.max(initial=0) >= 2**62 // base:  # would not fit; number again
            code = np.unique(code, return_inverse=True)[1]
        code = code * base + column + 1
    return np.unique(code, return_inverse=True)[1].astype(np.int64)


def wanted_orders(
    order: NDArray[np.int64], n_options: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Orders that each item has to have for its rates to be those of the others."""
    wanted: NDArray[np.int64] = (order[:, :, 0] >= 0).sum(axis=1)
    for k in np.unique(n_options):
        wanted[n_options == k] = wanted[n_options == k].max()
    return wanted


def block_of(
    passes: Passes,
    content: NDArray[np.float64],
    order_index: NDArray[np.int64],
    order: NDArray[np.int64],
    chosen: NDArray[np.bool_],
) -> _Block:
    """Return passes as items, phases and orders; `chosen` are those of one arm."""
    n_items, n_orders, width = order.shape
    n_phases = int(passes.n_phases[chosen].max())
    logp = np.full((n_items, n_phases, n_orders, width), np.nan)
    answer = np.full(logp.shape[:3], -1, np.int64)
    where = (passes.item[chosen], passes.phase_index[chosen], order_index[chosen])
    logp[where] = content[chosen]
    answer[where] = passes.answer[chosen]
    asked = np.zeros(answer.shape, bool)
    asked[where] = True
    generated = np.zeros(answer.shape, bool)
    generated[where] = passes.generated[chosen]
    return _Block(logp, answer, asked, generated)


def _single_phase(settings: Mapping[str, Any], shifted: bool) -> Fraction | None:
    """Phase of the single pass on this origin, in steps; None for a foreign run."""
    drawn = any("draw" in entry for entry in settings.get("arms", ()))
    if "grid" not in settings or drawn:
        return None
    grid = PhaseGrid.from_dict(settings["grid"])
    origin = grid.origin
    return (origin + Fraction(1, 2)) % 1 if shifted else origin


@dataclass(frozen=True, slots=True)
class OutcomesMaker:
    """Turns recorded passes of one origin into the outcomes of every arm."""

    n_options: NDArray[np.int64]
    n_orders: NDArray[np.int64]
    n_phases: NDArray[np.int64]
    ids: Sequence[str]
    seed: int

    def arms(
        self, blocks: Mapping[str, _Block], single: Fraction | None
    ) -> dict[str, Outcomes]:
        """Outcomes by arm; an arm without passes is left out."""
        made = {
            name: self._pass(block, 0)
            for name, block in blocks.items()
            if name != "phase"
        }
        if "phase" in blocks:
            block = blocks["phase"]
            views = [self._pass(block, s) for s in range(block.logp.shape[1])]
            made |= {f"phase {s}": view for s, view in enumerate(views)}
            if self.has_posteriors(block):
                made["fusion"] = self._fusion(block)
            views_answer = np.stack([v.answer for v in views], axis=1)
            made["vote"] = self._vote(views_answer, np.any(block.asked, axis=1))
            view = self._single_view(single, block.logp.shape[1])
            if "single" not in made and view is not None:
                made["single"] = made[f"phase {view}"]
        return made

    def has_posteriors(self, block: _Block) -> bool:
        """Whether answers come with log-probabilities, as generated ones do not.

        Passes that are all missing say nothing against it.
        """
        answered = block.answer >= 0
        with_values: NDArray[np.bool_] = np.logical_not(
            np.isnan(block.logp).any(axis=-1)
        )
        return bool(with_values[answered].any() or not answered.any())

    def pooled_top(self, block: _Block) -> NDArray[np.float64]:
        """Pool all phases and orders of every item; its greatest posterior."""
        fused = fuse_items(
            block.logp,
            n_options=self.n_options,
            over=("phase", "order"),
            missing="available",
            item_ids=self.ids,
            seed=self.seed,
        )
        wanted = self.n_phases * self.n_orders
        top: NDArray[np.float64] = fused.posterior.max(axis=1)
        top[(fused.n_valid != wanted) | (wanted == 0)] = np.nan
        return top

    def _single_view(self, single: Fraction | None, n_phases: int) -> int | None:
        """Tell which phase view is the single pass, if one is on every clip.

        Both grids have the same origin o in dense steps, so it is the view s with
        (s + o) / S = o.
        """
        if single is None or not np.isin(self.n_phases, (0, n_phases)).all():
            return None
        view = single * (n_phases - 1)
        return view.numerator if view.denominator == 1 else None

    def _pass(self, block: _Block, s: int) -> Outcomes:
        fused = fuse_items(
            block.logp[:, s : s + 1],
            n_options=self.n_options,
            item_ids=self.ids,
            seed=self.seed,
        )
        # What a text says is its answer; probabilities beside it give the margin.
        said = block.generated[:, s] | (fused.answer < 0)
        answer = np.where(said, block.answer[:, s], fused.answer)
        return self._outcomes(
            answer,
            fused.posterior,
            fused.margin,
            fused.tied & ~said,
            block.asked[:, s],
        )

    def _fusion(self, block: _Block) -> Outcomes:
        n_items, _, n_orders, width = block.logp.shape
        answer = np.full((n_items, n_orders), -1, np.int64)
        posterior = np.full((n_items, n_orders, width), np.nan)
        margin = np.full(answer.shape, np.nan)
        tied = np.zeros(answer.shape, bool)
        for n_phases in np.unique(self.n_phases[self.n_phases > 0]):
            rows = np.flatnonzero(self.n_phases == n_phases)
            fused = fuse_items(
                block.logp[rows, :n_phases],
                n_options=self.n_options[rows],
                item_ids=[self.ids[i] for i in rows.tolist()],
                seed=self.seed,
            )
            answer[rows] = fused.answer
            posterior[rows] = fused.posterior
            margin[rows] = fused.margin
            tied[rows] = fused.tied
        return self._outcomes(
            answer, posterior, margin, tied, np.any(block.asked, axis=1)
        )

    def _vote(self, views: NDArray[np.int64], asked: NDArray[np.bool_]) -> Outcomes:
        """Plurality of the phase views, shape (n, S, M), order by order."""
        n_items, n_phases, n_orders = views.shape
        there = np.arange(n_phases)[:, None] < self.n_phases[:, None, None]
        complete = ((views >= 0) | ~there).all(axis=1) & (self.n_phases > 0)[:, None]
        by_order = np.moveaxis(np.where(there, views, -1), 2, 1)
        vote = majority_vote(
            by_order.reshape(n_items * n_orders, n_phases),
            n_options=np.repeat(self.n_options, n_orders),
            item_ids=np.repeat(self.ids, n_orders).tolist(),
            seed=self.seed,
        )
        shape = (n_items, n_orders)
        return self._outcomes(
            np.where(complete, vote.answers.reshape(shape), -1),
            np.full((*shape, int(self.n_options.max())), np.nan),
            np.full(shape, np.nan),
            (vote.n_tied > 1).reshape(shape) & complete,
            asked,
        )

    def _outcomes(
        self,
        answer: NDArray[np.int64],
        posterior: NDArray[np.float64],
        margin: NDArray[np.float64],
        tied: NDArray[np.bool_],
        asked: NDArray[np.bool_],
    ) -> Outcomes:
        there = np.arange(answer.shape[1]) < self.n_orders[:, None]
        answer = np.where(there, answer, -1)
        complete = ((answer >= 0) | ~there).all(axis=1) & (self.n_orders > 0)
        mean = np.where(there[..., None], posterior, 0.0).sum(axis=1)
        mean /= np.maximum(self.n_orders, 1)[:, None]
        vote = consensus(
            answer,
            n_options=self.n_options,
            mean_posterior=mean,
            item_ids=self.ids,
            seed=self.seed,
        )
        return Outcomes(
            answer=answer,
            margin=np.where(there, margin, np.nan),
            tied=tied & there,
            consensus=np.where(complete, vote.answers, -1),
            consensus_tied=(vote.n_tied > 1) & complete,
            asked=asked & there,
        )
