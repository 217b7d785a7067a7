"""What the statistics of a corpus estimate, item by item and in the long run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from phasefusion._random import MASK_64
from phasefusion._results import Result
from phasefusion.fusion import fuse_items
from phasefusion.stats import auroc, consensus, flip_rates, matched_vote

if TYPE_CHECKING:
    from phasefusion.simulate import Corpus

How = Literal["construction", "sample"]
#: Arms of which accuracy and half-step changes are estimands.
COMPARED = ("single", "union", "dense", "fusion")


@dataclass(frozen=True, slots=True)
class Estimand(Result):
    """A true value and how it was found.

    Attributes
    ----------
    value : float
    how : {"construction", "sample"}
        From the numbers the corpus was made with, or by evaluating a large sample.
    se : float
        Standard error of a value from a sample; 0 by construction.
    n : int
        Items of the sample.
    """

    value: float
    how: How
    se: float = 0.0
    n: int = 0

    def __str__(self) -> str:
        if self.how == "construction":
            return f"{self.value:.5g} by construction"
        return f"{self.value:.5g} +- {self.se:.2g}, from {self.n} items"


@dataclass(frozen=True, slots=True)
class _Voted:
    """Answers of an arm by order, and their consensus."""

    answers: NDArray[np.int64]
    consensus: NDArray[np.int64]


def _voted(corpus: Corpus, scores: NDArray[np.float64]) -> _Voted:
    """Answer and vote, from scores (n, S, M, K), which are fused over the phases.

    As in a report, tied votes go to the highest mean posterior.
    """
    fused = fuse_items(
        scores,
        n_options=corpus.n_options,
        item_ids=corpus.question_ids,
        seed=corpus.design.seed,
        passes=False,
    )
    answers: NDArray[np.int64] = fused.answer
    there = np.arange(answers.shape[1]) < corpus.n_orders[:, None]
    mean = np.where(there[..., None], fused.posterior, 0.0).sum(axis=1)
    vote = consensus(
        answers,
        n_options=corpus.n_options,
        mean_posterior=mean / corpus.n_orders[:, None],
        item_ids=corpus.question_ids,
        seed=corpus.design.seed,
    )
    complete = ((answers >= 0) | ~there).all(axis=1)
    return _Voted(answers, np.where(complete, vote.answers, -1))


def _differ(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where((a >= 0) & (b >= 0), (a != b).astype(np.float64), np.nan)


def _share_right(corpus: Corpus, answers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of an item's orders that are answered right; NaN if one is missing."""
    there = np.arange(answers.shape[-1]) < corpus.n_orders[:, None]
    complete = ((answers >= 0) | ~there).all(axis=1)
    right = ((answers == corpus.gold[:, None]) & there).sum(axis=1) / corpus.n_orders
    return np.where(complete, right, np.nan)


def _item_flips(
    answers: NDArray[np.int64], expected: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairwise and any-flip of every item that has all its answers."""
    made = flip_rates(answers, policy="available-macro")
    whole = ((answers >= 0).sum(axis=1) == expected) & (expected >= 2)
    return (
        np.where(whole, made.per_item_pairwise, np.nan),
        np.where(whole, made.per_item_any.astype(np.float64), np.nan),
    )


def columns(corpus: Corpus, model: int) -> dict[str, NDArray[np.float64]]:
    """Contributions of every item; see `Corpus.columns`."""
    made: dict[str, NDArray[np.float64]] = {}
    for arm in COMPARED:
        recorded = "phase" if arm == "fusion" else arm
        here, moved = (
            _voted(corpus, corpus.logits(recorded, model=model, shifted=shifted))
            for shifted in (False, True)
        )
        made[f"accuracy {arm}"] = _share_right(corpus, here.answers)
        made[f"half-step change {arm}"] = _differ(here.consensus, moved.consensus)
        if arm == "single":
            flips = _item_flips(here.answers, corpus.n_orders)
            made["order flip pairwise"], made["order flip any"] = flips
            again = _voted(corpus, corpus.logits("single", model=model, rerun=1))
            made["re-run change"] = _differ(here.consensus, again.consensus)
    made["fusion - dense"] = made["accuracy fusion"] - made["accuracy dense"]
    made["fusion - single"] = made["accuracy fusion"] - made["accuracy single"]
    scores = corpus.logits("phase", model=model)
    views = [_voted(corpus, scores[:, s : s + 1]) for s in range(scores.shape[1])]
    by_phase = np.stack([view.consensus for view in views], axis=1)
    flips = _item_flips(by_phase, np.full(len(by_phase), by_phase.shape[1]))
    made["phase flip pairwise"], made["phase flip any"] = flips
    return made


def vote_columns(corpus: Corpus, model: int = 0) -> NDArray[np.float64]:
    """Excess of disagreement across phases over that within, item by item.

    Of the items that have all orders of the design; NaN for the others.
    """
    views = corpus.answers("phase", model=model)
    whole = np.asarray((views >= 0).all(axis=(1, 2)))
    excess = np.full(len(views), np.nan)
    if whole.any():
        made = matched_vote(
            views[whole],
            n_options=corpus.n_options[whole],
            item_ids=[
                q for q, use in zip(corpus.question_ids, whole, strict=True) if use
            ],
            fractional=False,
        )
        excess[whole] = made.per_item_across - made.per_item_within
    return excess


def margin_and_flip(
    corpus: Corpus, model: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Margin of the first order of the single pass, and whether some order differs."""
    scores = corpus.logits("single", model=model)[:, :, 0]
    fused = fuse_items(scores, n_options=corpus.n_options)
    single = corpus.answers("single", model=model)[:, 0]
    return fused.margin, _item_flips(single, corpus.n_orders)[1]


def large_sample(corpus: Corpus, n_items: int) -> dict[str, Estimand]:
    """Values over corpora with other seeds; see `Corpus.truth`."""
    n_corpora = max(8, math.ceil(n_items / corpus.design.n_items))
    rng = np.random.default_rng([corpus.design.seed & MASK_64, 0x7275])
    found: dict[str, list[float]] = {}
    for seed in rng.integers(2**32, 2**62, n_corpora).tolist():
        other = corpus.with_seed(seed)
        made = {name: _mean(x) for name, x in other.columns().items()}
        made["matched-vote excess"] = _mean(vote_columns(other))
        margin, flip = margin_and_flip(other)
        made["flip AUROC"] = auroc(flip, -margin).value
        for name, value in made.items():
            found.setdefault(name, []).append(value)
    n = n_corpora * corpus.design.n_items
    truth = {name: _estimand(values, n) for name, values in found.items()}
    flips, floor = truth["phase flip pairwise"], truth["re-run change"]
    if floor.value > 0.0 and flips.value > 0.0:
        relative = math.hypot(flips.se / flips.value, floor.se / floor.value)
        ratio = flips.value / floor.value
        truth["flip ratio"] = Estimand(ratio, "sample", ratio * relative, n)
    truth["missing"] = Estimand(corpus.effects.missing, "construction")
    if corpus.effects.phase_sd == 0.0 and corpus.effects.missing == 0.0:
        # views then differ in nothing but noise, within a vote as across
        truth["matched-vote excess"] = Estimand(0.0, "construction")
    return truth


def _estimand(values: list[float], n: int) -> Estimand:
    """Mean over corpora; those without a complete item say nothing."""
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return Estimand(math.nan, "sample", math.nan, n)
    se = float(np.std(known, ddof=1)) / math.sqrt(len(known))
    return Estimand(float(np.mean(known)), "sample", se, n)


def _mean(values: NDArray[np.float64]) -> float:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else math.nan
