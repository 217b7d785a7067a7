"""A run by the workers of a Ray cluster, written by this process alone."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from phasefusion._install import remedy
from phasefusion._runner import Runner
from phasefusion.datasets import Item
from phasefusion.engine.drive import ClusterCrew, Limits, Message
from phasefusion.engine.spec import PackedFactory, ScorerFactory, as_factory
from phasefusion.engine.units import CostOf
from phasefusion.engine.worker import Worker
from phasefusion.errors import BackendUnavailableError, ScoringError, UsageError
from phasefusion.records import PassKey

if TYPE_CHECKING:
    from phasefusion.protocols import Plan

#: Events of a worker that the cluster holds; it is told to wait beyond.
_EVENTS_AHEAD = 4
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class RayEngine:
    """How to use a Ray cluster.

    One worker a device holds the scorer; videos are given out one at a time, longest
    first. Every worker must see the videos under the paths of this process.

    Attributes
    ----------
    workers : int, optional
        By default as many as the cluster has devices for.
    address : str, optional
        Of the cluster. By default the one that this process is connected to, that
        RAY_ADDRESS names or that runs on this machine, else one of this machine alone
        that lives as long as the run; "local" is the last.
    cpus : float, default 1
        Processor cores of a worker.
    gpus : float, optional
        GPUs of a worker; by default 1 where the cluster has any, else 0.
    limits : Limits
        On attempts, silence and what may be given up.
    cost_of : callable, optional
        What videos and questions are expected to cost, such as that of a
        `capacity.CostModel`; by default sizes of files and numbers of passes decide.
    start : mapping
        More keywords of ``ray.init``.
    """

    workers: int | None = None
    address: str | None = None
    cpus: float = 1.0
    gpus: float | None = None
    limits: Limits = field(default_factory=Limits)
    cost_of: CostOf | None = None
    start: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"workers must be >= 1, it is {self.workers}")

    def hire(self, scorer: object) -> ClusterCrew:
        """Return workers that make a scorer each; they start when first needed.

        Raises
        ------
        BackendUnavailableError
            If Ray is not installed.
        """
        factory = as_factory(scorer)
        try:
            ray = importlib.import_module("ray")
        except ImportError as error:
            message = f"engine ray: {error}; {remedy('ray')}"
            raise BackendUnavailableError(message) from error
        return ClusterCrew(
            lambda: _RayCluster(ray, self, factory), self.limits, self.cost_of
        )


class _RayCluster:
    """Workers as actors, their events as streams of objects."""

    def __init__(self, ray: Any, engine: RayEngine, factory: ScorerFactory) -> None:
        self._ray = ray
        self._is_ours = not ray.is_initialized()
        self._actors: dict[str, Any] = {}
        self._watched: dict[Any, str] = {}  # a stream, or the end of a start -> worker
        self._runner: tuple[Runner, Any] | None = None
        if self._is_ours:
            start = {"include_dashboard": False, "logging_level": logging.ERROR}
            ray.init(engine.address, **start | dict(engine.start))
        try:
            self._actor, self.n_workers = self._resources(engine)
            packed = PackedFactory(
                ray.cloudpickle.dumps(factory), tuple(map(os.path.abspath, sys.path))
            )
            self._factory = ray.put(packed)
        except BaseException:
            self.close()
            raise

    def _resources(self, engine: RayEngine) -> tuple[Any, int]:
        """Return the actor's class, and how many there are to be."""
        nodes = [n["Resources"] for n in self._ray.nodes() if n["Alive"]]
        has_gpus = any(node.get("GPU", 0) for node in nodes)
        gpus = float(has_gpus) if engine.gpus is None else engine.gpus
        wanted = {"CPU": engine.cpus, "GPU": gpus}
        wanted = {name: amount for name, amount in wanted.items() if amount}
        room = sum(
            min((int(node.get(name, 0) // wanted[name]) for name in wanted), default=1)
            for node in nodes
        )
        if room < 1:
            raise ScoringError(
                f"engine ray: no machine of the cluster has room for a worker, which "
                f"needs {wanted}; give fewer cpus or gpus, or add machines"
            )
        remote = self._ray.remote(
            num_cpus=engine.cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0
        )
        return remote(Worker), engine.workers or room

    def start(self, worker: str, plan: Plan) -> None:
        """Begin to start a worker."""
        actor = self._actors[worker] = self._actor.remote(self._factory)
        self._watched[actor.start.remote(plan)] = worker

    def give(
        self,
        worker: str,
        runner: Runner,
        items: Sequence[Item],
        done: Iterable[PassKey],
        n_phases: Mapping[tuple[Any, ...], int],
        is_careful: bool,
    ) -> None:
        """Let a worker call `Worker.work`."""
        work = self._actors[worker].work.options(
            num_returns="streaming",
            _generator_backpressure_num_objects=1 if is_careful else _EVENTS_AHEAD,
        )
        shared = self._shared(runner)
        stream = work.remote(shared, list(items), done, n_phases, is_careful)
        self._watched[stream] = worker

    def _shared(self, runner: Runner) -> Any:
        """Return the runner as an object of the cluster, which it becomes once."""
        if self._runner is None or self._runner[0] is not runner:
            self._runner = runner, self._ray.put(runner)
        return self._runner[1]

    def wait(self, timeout_s: float) -> list[Message]:
        """Return what has happened, or nothing after `timeout_s`."""
        found, _ = self._ray.wait(list(self._watched), timeout=timeout_s)
        return [self._message(ref, self._watched.pop(ref)) for ref in found]

    def _message(self, ref: Any, worker: str) -> Message:
        is_start = isinstance(ref, self._ray.ObjectRef)
        try:
            if is_start:
                return Message(worker, "ready", self._ray.get(ref))
            event = self._ray.get(next(ref))
        except StopIteration:
            return Message(worker, "ended")
        except self._ray.exceptions.RayError as error:
            return Message(worker, "died", _first_line(error))
        self._watched[ref] = worker  # behind the others, so that each has its turn
        return Message(worker, "event", event)

    def kill(self, worker: str) -> None:
        """End a worker; nothing is heard of it any more."""
        actor = self._actors.pop(worker, None)
        for ref in [ref for ref, name in self._watched.items() if name == worker]:
            del self._watched[ref]
        if actor is not None:
            self._ray.kill(actor, no_restart=True)

    def close(self) -> None:
        """End all workers, and the cluster if it was started for them."""
        for worker in list(self._actors):
            self.kill(worker)
        if self._is_ours:
            self._ray.shutdown()


def _first_line(error: Exception) -> str:
    """Return what a message of Ray begins with; it can go on for pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:_MAX_TEXT] if lines else type(error).__name__
