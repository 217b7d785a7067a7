"""Passes of made-up models, with effects that are known.

A corpus has items in clusters (questions of videos), latent utilities of their options,
effects of the phase, of the order and of the position, and noise in every pass. It is
written as run folders, so that everything that reads runs works on it, and it knows
what the statistics of its runs estimate: see `Corpus.truth`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._paths import path_of
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.fusion import fuse_items
from phasefusion.grid import PhaseGrid
from phasefusion.simulate._truth import Estimand, columns, large_sample
from phasefusion.simulate._world import (
    LOSS,
    MASS,
    NOISE,
    Design,
    Effects,
    Model,
    World,
    make_model,
    make_world,
    phase_effect,
    stream,
)

__all__ = ["Corpus", "Design", "Effects", "Estimand", "corpus"]

#: Arms that are recorded; "fusion" follows from the phases.
RECORDED = ("phase", "single", "union", "dense")


def corpus(effects: Effects | None = None, **design: Any) -> Corpus:
    """Draw a corpus.

    Parameters
    ----------
    effects : Effects, optional
    **design
        The fields of `Design`, such as ``n_videos=50, n_models=2, seed=1``.

    Returns
    -------
    Corpus

    Raises
    ------
    StatisticsError, GridError, OptionError
        If a number is out of range.

    Examples
    --------
    >>> made = corpus(n_videos=4, seed=1)
    >>> made.answers("phase").shape
    (12, 3, 10)
    >>> print(made)
    Corpus of 12 questions on 4 videos, 1 model, seed 1
    """
    return Corpus(Design(**design), Effects() if effects is None else effects)


@dataclass(frozen=True, slots=True)
class Corpus(Result):
    """Items and models; passes are drawn when they are asked for, the same every time.

    Attributes
    ----------
    design : Design
    effects : Effects
    world : World
        The items.
    """

    design: Design
    effects: Effects = field(default_factory=Effects)
    world: World = field(init=False, repr=False, compare=False)
    _models: dict[int, Model] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "world", make_world(self.design, self.effects))

    def __str__(self) -> str:
        n = self.design.n_models
        return (
            f"Corpus of {self.design.n_items} questions on {self.design.n_videos} "
            f"videos, {n} model{'s' if n > 1 else ''}, seed {self.design.seed}"
        )

    @property
    def gold(self) -> NDArray[np.int64]:
        """Right options, shape (n,)."""
        return self.world.gold

    @property
    def n_options(self) -> NDArray[np.int64]:
        """Options of every item, shape (n,)."""
        return self.world.n_options

    @property
    def n_orders(self) -> NDArray[np.int64]:
        """Orders of every item, shape (n,)."""
        return self.world.n_orders

    @property
    def video(self) -> NDArray[np.int64]:
        """Video of every item, shape (n,): its cluster."""
        return self.world.video

    @property
    def question_ids(self) -> list[str]:
        """Names of the items."""
        return [f"q{i:06d}" for i in range(self.design.n_items)]

    def grid(self, arm: str, shifted: bool = False) -> PhaseGrid:
        """Grid of a recorded arm.

        Raises
        ------
        StatisticsError
            If there is no such arm.
        """
        grid = self.design.grid
        if arm == "union":
            grid = grid.union()
        elif arm in ("single", "dense"):
            frames = self.design.budget if arm == "single" else self.design.dense
            grid = PhaseGrid(frames, 1, grid.origin)
        elif arm != "phase":
            raise StatisticsError(f"arm {arm!r} is not one of {', '.join(RECORDED)}")
        return grid.shifted("half") if shifted else grid

    def logits(
        self, arm: str, *, model: int = 0, shifted: bool = False, rerun: int = 0
    ) -> NDArray[np.float64]:
        """Scores of every option of every pass, in nats up to a constant.

        Parameters
        ----------
        arm : {"phase", "single", "union", "dense"}
        model : int, default 0
        shifted : bool, default False
            On the grid moved by half a step.
        rerun : int, default 0
            Passes with everything as it was but the noise.

        Returns
        -------
        ndarray, shape (n, S, M, K), float64
            In content order; -inf beyond an item's options, NaN beyond its orders and
            in a pass that is missing.

        Raises
        ------
        StatisticsError
            If there is no such arm or model.
        """
        if not 0 <= model < self.design.n_models:
            raise StatisticsError(
                f"model {model} of {self.design.n_models}; numbers begin at 0"
            )
        view = self._view_of_single(arm, shifted)
        if view is not None:
            whole = self.logits("phase", model=model, shifted=shifted, rerun=rerun)
            return whole[:, view : view + 1]
        world, effects, seed = self.world, self.effects, self.design.seed
        grid = self.grid(arm, shifted)
        made = self._model(model)
        n, n_orders, width = world.order.shape
        shape = (n, grid.phases, n_orders, width)
        place = (model, rerun, RECORDED.index(arm), int(shifted))
        scores = effects.noise_sd * stream(seed, NOISE, *place).normal(size=shape)
        lost = stream(seed, LOSS, *place).random(shape[:3])
        times = max(1, round(grid.budget / self.design.budget))
        phases = np.array([float(grid.phase(s)) for s in range(grid.phases)])
        scores += phase_effect(made, phases, times)[:, :, None]
        scores += (made.base[:, None] + made.place)[:, None]
        gain = effects.budget_gain * math.log2(grid.budget / self.design.budget)
        scores[np.arange(n), :, :, world.gold] += gain
        scores = np.where(world.inside[:, None, None], scores, -np.inf)
        there = np.arange(n_orders) < world.n_orders[:, None]
        scores[~there[:, None] | (lost < effects.missing)] = np.nan
        return scores

    def _view_of_single(self, arm: str, shifted: bool) -> int | None:
        """Tell which phase view the single pass is; its passes are then the same."""
        if arm != "single":
            return None
        phases = self.grid("phase", shifted)
        wanted = self.grid("single", shifted).phase(0)
        views = [phases.phase(s) for s in range(phases.phases)]
        return views.index(wanted) if wanted in views else None

    def _model(self, number: int) -> Model:
        if number not in self._models:
            self._models[number] = make_model(self.world, number)
        return self._models[number]

    def logprobs(
        self, arm: str, *, model: int = 0, shifted: bool = False, rerun: int = 0
    ) -> NDArray[np.float64]:
        """Log-probabilities of every option, as a scorer returns them.

        A little mass lies outside the options. Arguments and result as in `logits`.
        """
        scores = self.logits(arm, model=model, shifted=shifted, rerun=rerun)
        top = scores.max(axis=-1, keepdims=True)
        total = np.log(np.exp(scores - top).sum(axis=-1, keepdims=True)) + top
        place = (model, rerun, RECORDED.index(arm), int(shifted))
        outside = stream(self.design.seed, MASS, *place).exponential(
            0.02, scores.shape[:3]
        )
        made: NDArray[np.float64] = scores - total - outside[..., None]
        return made

    def answers(
        self, arm: str, *, model: int = 0, shifted: bool = False, rerun: int = 0
    ) -> NDArray[np.int64]:
        """Content index that every pass answers, shape (n, S, M); -1 if it is missing.

        For the arm "fusion" the shape is (n, M). Arguments as in `logits`.
        """
        scores = self.logits(
            "phase" if arm == "fusion" else arm,
            model=model,
            shifted=shifted,
            rerun=rerun,
        )
        if arm == "fusion":
            fused = fuse_items(
                scores,
                n_options=self.n_options,
                item_ids=self.question_ids,
                seed=self.design.seed,
                passes=False,
            )
            made: NDArray[np.int64] = fused.answer
            return made
        missing = np.isnan(scores[..., 0])
        best = np.where(missing[..., None], -np.inf, scores).argmax(axis=-1)
        return np.where(missing, -1, best)

    def columns(self, model: int = 0) -> dict[str, NDArray[np.float64]]:
        """Return what every item contributes to every estimand, shape (n,) each.

        NaN where an item contributes nothing: `Estimand` says of what they are means.
        """
        return columns(self, model)

    def truth(self, *, n_items: int = 20_000) -> dict[str, Estimand]:
        """Values of what the statistics estimate, for corpora of this kind.

        Parameters
        ----------
        n_items : int, default 20_000
            At least so many items are drawn, in corpora of this design with seeds of
            their own, to evaluate what follows from no formula.

        Returns
        -------
        dict of str to Estimand
            Each says its value, how it was found and, if from a sample, its standard
            error.
        """
        return large_sample(self, n_items)

    def with_seed(self, seed: int) -> Corpus:
        """Another corpus of the same kind."""
        return Corpus(replace(self.design, seed=seed), self.effects)

    def write(
        self,
        folder: str | Path,
        *,
        reruns: int = 0,
        frames: bool = True,
        protocol: str = "phasefusion",
    ) -> list[Path]:
        """Write every model and re-run as a run folder of its own.

        Parameters
        ----------
        folder : str or Path
            ``folder/model-0``, ``folder/model-0-rerun-1``, ... are made.
        reruns : int, default 0
        frames : bool, default True
            Whether passes say which frames they saw.
        protocol : str, default "phasefusion"
            Whose arms are written. The phases and the option orders are those of the
            design whatever the protocol has: "phase-sweep" is of use with
            ``phases=13``, "pride" with ``orders="cyclic"`` and "permutations" with
            ``orders="all"``.

        Returns
        -------
        list of Path
            The run folders.

        Raises
        ------
        RecordError
            If a folder holds another run or cannot be written.
        DatasetError
            If there is no such protocol.
        StatisticsError
            If it has arms that no corpus has: other prompts, samplers, budgets, random
            origins.
        """
        from phasefusion.simulate._writing import write

        return write(
            self, path_of("folder", folder, "a folder"), reruns, frames, protocol
        )
