"""Workers that fail and lag, on the real scheduling core with a clock of our own."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasefusion._random import MASK_64, check_seed
from phasefusion._results import Result
from phasefusion.engine.scheduling import Lease, Scheduler, Unit
from phasefusion.errors import UsageError


@dataclass(frozen=True, slots=True)
class Conditions:
    """What workers are like.

    Attributes
    ----------
    n_workers : int
    startup_s : float, default 0.0
        Until a worker can begin, the first time and after every failure.
    mean_life_s : float, default inf
        Mean time to the failure of a worker, exponential.
    slow_share, slow_factor : float, default 0.0 and 1.0
        Share of workers that take so many times as long.
    backups : bool, default False
        See `Scheduler`.
    max_attempts : int, default 3
    seed : int, default 0
    """

    n_workers: int
    startup_s: float = 0.0
    mean_life_s: float = math.inf
    slow_share: float = 0.0
    slow_factor: float = 1.0
    backups: bool = False
    max_attempts: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))
        if self.n_workers < 1:
            raise UsageError(f"n_workers must be >= 1, it is {self.n_workers}")
        if not self.mean_life_s > 0 or self.slow_factor < 1 or self.startup_s < 0:
            raise UsageError(
                "mean_life_s must be > 0, slow_factor >= 1 and startup_s >= 0; they "
                f"are {self.mean_life_s}, {self.slow_factor} and {self.startup_s}"
            )


@dataclass(frozen=True, slots=True)
class Outcome(Result):
    """Where the time of all workers went.

    ``n_workers * makespan_s`` is the sum of the times below it.

    Attributes
    ----------
    makespan_s : float
        From the start to the last acknowledgement.
    bound_s : float
        What no schedule can beat: a start, and the mean load or the longest video.
    useful_s : float
        Work that was acknowledged, at the speed of a worker that is not slow.
    slow_s : float
        What slow workers took longer for it.
    lost_s : float
        Work that a failure undid, or that another worker did as well.
    down_s : float
        Starting, and starting again.
    idle_s : float
        Having nothing to do.
    n_failures : int
    n_given_up : int
        Questions that were given up.
    """

    n_workers: int
    makespan_s: float
    bound_s: float
    useful_s: float
    slow_s: float
    lost_s: float
    down_s: float
    idle_s: float
    n_failures: int
    n_given_up: int

    @property
    def utilisation(self) -> float:
        """Share of the workers' time that was useful."""
        total_s = self.n_workers * self.makespan_s
        return self.useful_s / total_s if total_s else 1.0

    @property
    def lost_by_failure_s(self) -> float:
        """Work and starting time that a failure cost on average."""
        return self.lost_s / self.n_failures if self.n_failures else 0.0


@dataclass(slots=True)
class _Worker:
    """One incarnation of a worker."""

    slot: int
    speed: float
    began_s: float
    idle_since_s: float = 0.0
    lease: Lease | None = None
    step: int = 0  # 0 is opening, i is part i
    step_began_s: float = 0.0
    pending: list[float] = field(default_factory=list)  # not yet acknowledged


def simulate(units: Sequence[Unit], conditions: Conditions) -> Outcome:
    """Work units off on workers that start, fail and are slow as they are said to.

    Costs of units are seconds. The decisions are those of `Scheduler`, as in a run.

    Examples
    --------
    >>> from phasefusion.engine import Part
    >>> units = [Unit(str(i), (Part("q", 3.0),), opening=1.0) for i in range(4)]
    >>> outcome = simulate(units, Conditions(2))
    >>> outcome.makespan_s, outcome.bound_s, outcome.utilisation
    (8.0, 8.0, 1.0)
    """
    return _Simulation(units, conditions).run()


class _Simulation:
    def __init__(self, units: Sequence[Unit], conditions: Conditions) -> None:
        self._units = units
        self._conditions = conditions
        self._core = Scheduler(
            units,
            max_attempts=conditions.max_attempts,
            backups=conditions.backups,
        )
        self._rng = np.random.default_rng(conditions.seed & MASK_64)
        n_slow = round(conditions.slow_share * conditions.n_workers)
        slow = self._rng.permutation(conditions.n_workers) < n_slow
        self._speeds = np.where(slow, conditions.slow_factor, 1.0)
        self._events: list[tuple[float, int, str, str]] = []
        self._n_events = 0
        self._workers: dict[str, _Worker] = {}
        self._idle: dict[str, None] = {}
        self._n_started = [0] * conditions.n_workers
        self._down_since_s = [0.0] * conditions.n_workers
        self._sums = dict.fromkeys(("useful", "slow", "lost", "down", "idle"), 0.0)
        self._opened: set[str] = set()  # units whose opening has come to some use
        self._n_failures = 0
        self._now_s = 0.0

    def run(self) -> Outcome:
        """Return what became of it."""
        for slot in range(self._conditions.n_workers):
            self._start(slot)
        while not self._core.finished:
            self._now_s, _, kind, name = heapq.heappop(self._events)
            if kind == "start":
                self._join(int(name))
            elif name in self._workers:
                self._die(name) if kind == "die" else self._step(name)
        return self._outcome()

    def _at(self, seconds: float, kind: str, name: str) -> None:
        self._n_events += 1
        heapq.heappush(
            self._events, (self._now_s + seconds, self._n_events, kind, name)
        )

    def _start(self, slot: int) -> None:
        self._down_since_s[slot] = self._now_s
        self._at(self._conditions.startup_s, "start", str(slot))

    def _join(self, slot: int) -> None:
        self._n_started[slot] += 1
        name = f"{slot}.{self._n_started[slot]}"
        self._sums["down"] += self._now_s - self._down_since_s[slot]
        self._down_since_s[slot] = math.inf
        self._workers[name] = _Worker(slot, float(self._speeds[slot]), self._now_s)
        self._core.join(name)
        if math.isfinite(self._conditions.mean_life_s):
            life_s = self._rng.exponential(self._conditions.mean_life_s)
            self._at(life_s, "die", name)
        self._ask(name)

    def _ask(self, name: str) -> None:
        """Give a worker its next unit, or let it wait."""
        worker = self._workers[name]
        lease = self._core.lease(name, self._now_s)
        worker.lease, worker.step, worker.pending = lease, 0, []
        if lease is None:
            worker.idle_since_s = self._now_s
            self._idle[name] = None
        else:
            self._begin(name, lease.unit.opening)

    def _begin(self, name: str, cost_s: float) -> None:
        worker = self._workers[name]
        worker.step_began_s = self._now_s
        self._at(cost_s * worker.speed, "step", name)

    def _step(self, name: str) -> None:
        """Note that a worker has opened its unit, or done a part of it."""
        worker = self._workers[name]
        assert worker.lease is not None
        unit = worker.lease.unit
        if worker.step == 0:
            self._core.opened(worker.lease, self._now_s)
            worker.pending.append(unit.opening)
        else:
            part = unit.parts[worker.step - 1]
            new = self._core.acknowledge(worker.lease, part.name, self._now_s)
            self._account(worker, part.cost, new)
        worker.step += 1
        if worker.step <= len(unit.parts):
            self._begin(name, unit.parts[worker.step - 1].cost)
        else:
            self._lose(worker)
            self._core.end(worker.lease)
            self._ask(name)

    def _account(self, worker: _Worker, cost_s: float, new: bool) -> None:
        """Count a part, and what opening the unit was good for."""
        assert worker.lease is not None
        name = worker.lease.unit.name
        if not new:
            self._sums["lost"] += cost_s * worker.speed
            return
        useful = cost_s
        if worker.pending and name not in self._opened:
            self._opened.add(name)
            useful += worker.pending.pop()
        self._sums["useful"] += useful
        self._sums["slow"] += useful * (worker.speed - 1)

    def _lose(self, worker: _Worker) -> None:
        """Count an opening that was of no use, or was done before."""
        self._sums["lost"] += sum(worker.pending) * worker.speed
        worker.pending = []

    def _die(self, name: str) -> None:
        worker = self._workers.pop(name)
        self._n_failures += 1
        if worker.lease is None:
            self._sums["idle"] += self._now_s - worker.idle_since_s
            self._idle.pop(name, None)
        else:
            self._lose(worker)
            self._sums["lost"] += self._now_s - worker.step_began_s
        self._core.leave(name, "failed")
        self._start(worker.slot)
        self._wake()

    def _wake(self) -> None:
        """Let workers that wait ask again, as far as there is something for them."""
        while self._core.n_waiting and self._idle:
            name = next(iter(self._idle))
            del self._idle[name]
            worker = self._workers[name]
            self._sums["idle"] += self._now_s - worker.idle_since_s
            self._ask(name)

    def _outcome(self) -> Outcome:
        """Close the books at the last acknowledgement."""
        sums, now_s = self._sums, self._now_s
        for worker in self._workers.values():
            if worker.lease is None:
                sums["idle"] += now_s - worker.idle_since_s
            else:
                self._lose(worker)
                sums["lost"] += now_s - worker.step_began_s
        sums["down"] += sum(now_s - s for s in self._down_since_s if s <= now_s)
        n_workers = self._conditions.n_workers
        given_up = sum(len(poison.parts) for poison in self._core.poisoned)
        return Outcome(
            n_workers=n_workers,
            makespan_s=now_s,
            bound_s=bound_s(self._units, n_workers) + self._conditions.startup_s,
            **{f"{name}_s": value for name, value in sums.items()},
            n_failures=self._n_failures,
            n_given_up=given_up,
        )


def bound_s(units: Sequence[Unit], n_workers: int) -> float:
    """Return what no schedule can beat: the mean load, or the longest unit."""
    costs = [unit.cost for unit in units if unit.parts]
    return max(sum(costs) / n_workers, max(costs, default=0.0))


def heavy_tailed(
    n_videos: int,
    *,
    seed: int = 0,
    median_s: float = 60.0,
    sigma: float = 1.2,
    longest_s: float = 7200.0,
    questions: float = 3.0,
) -> list[dict[str, Any]]:
    """Draw videos whose lengths are log-normal, as those of mixed benchmarks are.

    Parameters
    ----------
    n_videos : int
    seed : int
    median_s, sigma : float
        Median length, and the standard deviation of its logarithm.
    longest_s : float
        Longer ones are cut.
    questions : float
        Mean number of questions a video, geometric from 1.

    Returns
    -------
    list of dict
        "duration_s" and "questions" of every video.

    Examples
    --------
    >>> videos = heavy_tailed(1000, seed=1)
    >>> lengths = sorted(video["duration_s"] for video in videos)
    >>> lengths[-1] / lengths[500] > 20
    True
    """
    rng = np.random.default_rng(check_seed(seed) & MASK_64)
    lengths = np.minimum(rng.lognormal(math.log(median_s), sigma, n_videos), longest_s)
    counts = rng.geometric(1 / questions, n_videos)
    return [
        {"duration_s": float(length), "questions": int(count)}
        for length, count in zip(lengths, counts, strict=True)
    ]
