"""What a made-up corpus is drawn from: items, effects and the scores of a pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from phasefusion import orders as option_orders
from phasefusion._random import MASK_64, MAX_OPTIONS, check_seed
from phasefusion.errors import StatisticsError
from phasefusion.grid import PhaseGrid

#: Harmonics of the effect of the phase; the amplitude of harmonic h goes with 1/h.
HARMONICS = 12

# Streams of random numbers, so that no part of a corpus depends on another being made.
ITEMS, COMMON, MODEL, NOISE, LOSS, MASS = range(6)


@dataclass(frozen=True, slots=True)
class Effects:
    """How strongly everything moves the log-odds of the options, in nats.

    Attributes
    ----------
    ability : float
        Mean lead of the right option.
    video_sd, item_sd : float
        Spread of that lead over videos and over the questions of a video: the first
        makes the questions of a video alike.
    option_sd : float
        Spread of every option of a question, whatever is shown.
    phase_sd : float
        Spread of every option over the phases of the grid, a smooth periodic function
        of the phase. A grid of c times the budget sees the mean over c phases, so that
        only every c-th harmonic is left of it.
    order_sd : float
        Spread of every option over the positions at which it may stand.
    position_bias : float
        Lead of the first position over the last one, whatever stands there.
    noise_sd : float
        Spread of every option of every pass, drawn anew in a re-run.
    budget_gain : float
        What every doubling of the frames adds to the ability.
    shared : float
        Share of the variances of options, phase and order that all models have in
        common, in [0, 1].
    missing : float
        Chance of a pass to be missing, in [0, 1).
    """

    ability: float = 1.2
    video_sd: float = 0.6
    item_sd: float = 1.0
    option_sd: float = 0.8
    phase_sd: float = 0.3
    order_sd: float = 0.4
    position_bias: float = 0.3
    noise_sd: float = 0.1
    budget_gain: float = 0.05
    shared: float = 0.5
    missing: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not math.isfinite(value):
                raise StatisticsError(f"{item.name} must be finite, it is {value}")
            if item.name.endswith("_sd") and value < 0.0:
                raise StatisticsError(f"{item.name} must be >= 0, it is {value}")
        if not 0.0 <= self.shared <= 1.0:
            raise StatisticsError(f"shared must be in [0, 1], it is {self.shared}")
        if not 0.0 <= self.missing < 1.0:
            raise StatisticsError(f"missing must be in [0, 1), it is {self.missing}")


def _default_options() -> Mapping[int, float]:
    return {3: 0.2, 4: 0.5, 5: 0.3}


@dataclass(frozen=True, slots=True)
class Design:
    """How many of everything, and how it is shown.

    Attributes
    ----------
    n_videos, questions_per_video : int
        Videos are the clusters.
    n_models : int
    benchmarks : tuple of str
        Videos are dealt to them in turn.
    n_options : mapping of int to float
        Weight of every number of options, 2 to 32.
    budget, phases, origin
        The phase grid, as in `PhaseGrid`.
    dense : int
        Frames of the dense pass.
    orders : {"shared", "cyclic", "identity", "all"}
    n_orders : int
        How many "shared" orders; those that repeat are left out.
    seed : int
    """

    n_videos: int = 200
    questions_per_video: int = 3
    n_models: int = 1
    benchmarks: tuple[str, ...] = ("sim-a", "sim-b")
    n_options: Mapping[int, float] = field(default_factory=_default_options)
    budget: int = 8
    phases: int = 3
    origin: str | int | Fraction = "midpoint"
    dense: int = 32
    orders: str = "shared"
    n_orders: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))
        for name in ("n_videos", "questions_per_video", "n_models", "n_orders"):
            if getattr(self, name) < 1:
                raise StatisticsError(f"{name} must be >= 1")
        if not self.benchmarks:
            raise StatisticsError("benchmarks is empty; give one name at least")
        if self.orders not in ("shared", "cyclic", "identity", "all"):
            raise StatisticsError(
                f"orders must be shared, cyclic, identity or all, not {self.orders!r}"
            )
        for k, weight in self.n_options.items():
            if not (2 <= k <= MAX_OPTIONS and weight >= 0.0):
                raise StatisticsError(
                    f"n_options[{k}] is {weight}: numbers of options are 2 to "
                    f"{MAX_OPTIONS}, weights >= 0"
                )
        if not sum(self.n_options.values()) > 0.0:
            raise StatisticsError("n_options has no weight above 0")
        if self.dense < self.budget:
            raise StatisticsError(
                f"the dense pass has {self.dense} frames, fewer than {self.budget}"
            )

    @property
    def n_items(self) -> int:
        """Questions in all."""
        return self.n_videos * self.questions_per_video

    @property
    def grid(self) -> PhaseGrid:
        """The phase grid."""
        return PhaseGrid(self.budget, self.phases, self.origin)

    def orders_of(self, k: int) -> NDArray[np.int64]:
        """Orders of K options without repeats, shape (M, K)."""
        if self.orders == "shared":
            table = option_orders.shared(k, self.n_orders, self.seed)
        elif self.orders == "cyclic":
            table = option_orders.cyclic(k)
        elif self.orders == "all":
            table = option_orders.all_orders(k)
        else:
            table = option_orders.identity(k)
        return table[option_orders.distinct(table)]


def stream(seed: int, *place: int) -> np.random.Generator:
    """Make the generator of one part of a corpus."""
    return np.random.default_rng(np.random.SeedSequence([seed & MASK_64, *place]))


@dataclass(frozen=True, slots=True)
class World:
    """Items of a corpus and everything about them that does not change.

    Attributes
    ----------
    n_options, gold, video : ndarray, shape (n,), int64
    order : ndarray, shape (n, M, K), int64
        ``order[i, m, position] = content``; -1 beyond an item's orders and options.
    n_orders : ndarray, shape (n,), int64
    n_frames : ndarray, shape (n,), int64
    """

    design: Design
    effects: Effects
    n_options: NDArray[np.int64]
    gold: NDArray[np.int64]
    video: NDArray[np.int64]
    order: NDArray[np.int64]
    n_orders: NDArray[np.int64]
    n_frames: NDArray[np.int64]
    lead: NDArray[np.float64]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Options that there are, shape (n, K)."""
        return np.arange(self.order.shape[2]) < self.n_options[:, None]


def make_world(design: Design, effects: Effects) -> World:
    """Draw the items."""
    rng = stream(design.seed, ITEMS)
    n, per_video = design.n_items, design.questions_per_video
    video = np.repeat(np.arange(design.n_videos), per_video)
    names = np.array(sorted(design.n_options), np.int64)
    weights = np.array([design.n_options[int(k)] for k in names], np.float64)
    n_options = rng.choice(names, n, p=weights / weights.sum())
    gold = (rng.random(n) * n_options).astype(np.int64)
    lead = effects.ability + effects.video_sd * rng.normal(size=design.n_videos)[video]
    lead = lead + effects.item_sd * rng.normal(size=n)
    n_frames = rng.integers(240, 3600, design.n_videos)[video]
    tables = {int(k): design.orders_of(int(k)) for k in np.unique(n_options)}
    most = max(len(table) for table in tables.values())
    order = np.full((n, most, int(n_options.max())), -1, np.int64)
    n_orders = np.zeros(n, np.int64)
    for k, table in tables.items():
        rows = np.flatnonzero(n_options == k)
        order[rows[:, None], np.arange(len(table)), :k] = table
        n_orders[rows] = len(table)
    return World(
        design, effects, n_options, gold, video, order, n_orders, n_frames, lead
    )


@dataclass(frozen=True, slots=True)
class Model:
    """What one model makes of the items, in nats.

    Attributes
    ----------
    base : ndarray, shape (n, K)
        Of every option, whatever is shown.
    wave : ndarray, shape (n, K, H, 2)
        Cosine and sine of every harmonic of the phase.
    place : ndarray, shape (n, M, K)
        Of every option in every order.
    """

    base: NDArray[np.float64]
    wave: NDArray[np.float64]
    place: NDArray[np.float64]


def make_model(world: World, number: int) -> Model:
    """Draw one model."""
    effects, seed = world.effects, world.design.seed
    n, n_orders, width = world.order.shape
    common = stream(seed, COMMON)
    own = stream(seed, MODEL, number)
    part = math.sqrt(effects.shared), math.sqrt(1.0 - effects.shared)

    def drawn(*shape: int) -> NDArray[np.float64]:
        return part[0] * common.normal(size=shape) + part[1] * own.normal(size=shape)

    base = effects.option_sd * drawn(n, width)
    base[np.arange(n), world.gold] += world.lead
    amplitude = 1.0 / np.arange(1, HARMONICS + 1)
    amplitude *= effects.phase_sd / math.sqrt((amplitude**2).sum())
    wave = drawn(n, width, HARMONICS, 2) * amplitude[:, None]
    by_position = effects.order_sd * drawn(n, width, width)  # content, position
    steps = np.maximum(world.n_options - 1, 1)[:, None]
    bias = effects.position_bias * (0.5 - np.arange(width) / steps)
    by_position += bias[:, None, :]
    place = np.zeros((n, n_orders, width))
    item, m, position = np.nonzero(world.order >= 0)
    content = world.order[item, m, position]
    place[item, m, content] = by_position[item, content, position]
    return Model(base, wave, place)


def phase_effect(
    model: Model, phases: NDArray[np.float64], times: int
) -> NDArray[np.float64]:
    """Effect of the phase at every phase of a grid of so many times the budget.

    The mean of a periodic function over `times` equally spaced phases keeps those of
    its harmonics that `times` divides.

    Parameters
    ----------
    model : Model
    phases : ndarray, shape (S,), float64
        In steps of the grid itself.
    times : int
        Frames of the grid over those of one pass.

    Returns
    -------
    ndarray, shape (n, S, K), float64
    """
    kept = np.arange(times, HARMONICS + 1, times)
    angle = 2.0 * np.pi * np.outer(kept // times, phases)
    turned = np.stack([np.cos(angle), np.sin(angle)])  # (2, h, S)
    waves = model.wave[:, :, kept - 1, :]
    effect: NDArray[np.float64] = np.einsum("nkhc,chs->nsk", waves, turned)
    return effect
