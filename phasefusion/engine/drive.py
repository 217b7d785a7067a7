"""The driver's half of a run by many workers: who does what, and what is on disk.

It knows no Ray either. A `Cluster` starts workers, carries work to them and says what
came of it; everything that is decided, counted and written is decided here.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from phasefusion import errors
from phasefusion._checks import warn
from phasefusion._runner import Runner
from phasefusion._versions import versions
from phasefusion._wording import by_number, counted, item_name
from phasefusion.datasets import Item
from phasefusion.engine.scheduling import Lease, Poison, Scheduler
from phasefusion.engine.scorers import Prepared
from phasefusion.engine.units import CostOf, units_of
from phasefusion.engine.worker import Event, Trouble
from phasefusion.errors import (
    PhaseFusionWarning,
    RecordError,
    ScoringError,
    UsageError,
    WorkerWarning,
)
from phasefusion.progress import Advance, Listener, follow
from phasefusion.records import PassKey, differences, pass_key

if TYPE_CHECKING:
    from phasefusion.protocols import Plan

_TICK_S = 1.0
#: For what a worker has still to say when everything is on disk.
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How much failure a run by many workers bears.

    Attributes
    ----------
    max_attempts : int, default 3
        Workers that may die at one question, or at opening one video, before its
        passes are recorded as missing; workers that may fail at it with an error
        before that error stops the run. A video that is another file stops it at once.
    max_given_up : int, default 10
        Questions and videos that may be given up before the run stops.
    max_restarts : int, default 3
        Times that a worker is started again without any question finished between.
    timeout_s : float, optional
        A worker that says nothing for so long while it works is taken for dead; by
        default one waits. It must exceed what the longest video takes to decode.
    backups : bool, default False
        Whether idle workers at the end of a run do again what others are still at.
    """

    max_attempts: int = 3
    max_given_up: int = 10
    max_restarts: int = 3
    timeout_s: float | None = None
    backups: bool = False

    def __post_init__(self) -> None:
        if self.max_given_up < 0 or self.max_restarts < 0:
            raise UsageError(
                "max_given_up and max_restarts must be >= 0, they are "
                f"{self.max_given_up} and {self.max_restarts}"
            )


@dataclass(frozen=True, slots=True)
class Message:
    """What a cluster says of a worker.

    Attributes
    ----------
    worker : str
    kind : {"ready", "event", "ended", "died"}
        It has started, or could not; it says something; it has said everything about
        its work; it is no more.
    value
        Facts or a Trouble, an Event, None, or the reason.
    """

    worker: str
    kind: Literal["ready", "event", "ended", "died"]
    value: Any = None


class Cluster(Protocol):
    """What carries work to workers."""

    @property
    def n_workers(self) -> int:
        """How many there should be."""

    def start(self, worker: str, plan: Plan) -> None:
        """Begin to start a worker: let it call `Worker.start`."""

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

    def wait(self, timeout_s: float) -> list[Message]:
        """Return what has happened, or nothing after `timeout_s`."""

    def kill(self, worker: str) -> None:
        """End a worker; nothing is heard of it any more."""

    def close(self) -> None:
        """End all workers."""


class ClusterCrew:
    """The workers of a cluster for one run.

    Parameters
    ----------
    connect : callable
        Returns the cluster, when it is needed.
    limits : Limits
    cost_of : callable, optional
        See `units_of`.
    """

    def __init__(
        self,
        connect: Callable[[], Cluster],
        limits: Limits,
        cost_of: CostOf | None = None,
    ) -> None:
        self._connect = connect
        self._limits = limits
        self._cost_of = cost_of
        self._cluster: Cluster | None = None
        self._drive: Drive | None = None
        #: The scorers are elsewhere.
        self.prepared = Prepared(None, {}, {})

    def prepare(self, plan: Plan) -> dict[str, Any]:
        """Start the workers; return what the first one says of its scorers."""
        self._cluster = self._connect()
        self._drive = Drive(self._cluster, self._limits)
        return self._drive.prepare(plan)

    def run(
        self, runner: Runner, items: Sequence[Item], show: bool | Listener | None
    ) -> None:
        """Make every pass of `items` that is not on disk."""
        assert self._drive is not None, "prepare() comes first"
        self._drive.run(runner, items, show, self._cost_of)

    def __enter__(self) -> ClusterCrew:
        return self

    def __exit__(self, *error: object) -> None:
        if self._cluster is not None:
            self._cluster.close()


@dataclass(slots=True)
class _Slot:
    """A place for a worker and those that follow it."""

    number: int
    n_started: int = 0
    n_deaths: int = 0  # since something was last finished

    @property
    def name(self) -> str:
        again = f" (start {self.n_started})" if self.n_started > 1 else ""
        return f"worker {self.number}{again}"


class Drive:
    """Workers from their start to the end of a run.

    Parameters
    ----------
    cluster : Cluster
    limits : Limits
    clock : callable, default time.monotonic
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._limits = limits
        self._clock = clock
        self._slots: dict[str, _Slot] = {}
        self._ready: dict[str, str] = {}  # worker -> where it is
        self._plan: Plan | None = None
        self._facts: dict[str, Any] | None = None
        self._versions = versions()
        self._run: _Run | None = None
        self._stale: set[str] = set()  # have not said everything about a run
        self._ending: set[str] = set()  # of them, those that have nothing left to do
        self._given: set[tuple[str, str]] = set()

    def prepare(self, plan: Plan) -> dict[str, Any]:
        """Start the workers; return what the first one says of its scorers.

        Raises
        ------
        PhaseFusionError
            If no worker can make its scorer; that of the first.
        """
        self._plan = plan
        for number in range(1, self._cluster.n_workers + 1):
            self._start(_Slot(number))
        while self._facts is None:
            self._listen()
        return copy.deepcopy(self._facts["scorers"])

    def run(
        self,
        runner: Runner,
        items: Sequence[Item],
        show: bool | Listener | None,
        cost_of: CostOf | None = None,
    ) -> None:
        """Make every pass of `items` that is not on disk."""
        self._hear_out()
        self._replace_stale()
        total, done, groups = runner.plan(items)
        if groups:
            runner.writer.expect(total - done)
        with follow(total, done, show) as advance:
            run = self._run = _Run(runner, groups, cost_of, self._limits, advance)
            for worker in self._ready:
                run.core.join(worker)
            while not run.core.finished:
                self._fill(run)
                self._listen()
                for lease in run.core.silent(self._clock()):
                    reason = f"it said nothing for {self._limits.timeout_s:g} s"
                    self._lose(lease.worker, reason)
        self._run = None
        self._stale, self._ending = run.busy, run.ending
        run.summarise()

    def _hear_out(self) -> None:
        """Wait for workers that have only to say that they have done all of theirs."""
        until_s = self._clock() + _PATIENCE_S
        while self._stale & self._ending & self._slots.keys():
            if self._clock() > until_s:
                break
            self._listen()

    def _replace_stale(self) -> None:
        """Start workers anew that are still at what others have done in the end."""
        for worker in self._stale & self._slots.keys():
            slot = self._slots.pop(worker)
            self._ready.pop(worker, None)
            self._cluster.kill(worker)
            self._start(slot)
        self._stale = set()

    def _fill(self, run: _Run) -> None:
        """Give every idle worker something to do."""
        for worker in self._ready:
            lease = run.core.lease(worker, self._clock())
            if lease is not None:
                items, done, n_phases = run.take(worker, lease)
                self._cluster.give(
                    worker, run.bare, items, done, n_phases, lease.is_careful
                )

    def _listen(self) -> None:
        for message in self._cluster.wait(_TICK_S):
            if message.worker in self._slots:
                self._hear(message)

    def _hear(self, message: Message) -> None:
        worker = message.worker
        if message.kind == "ready":
            self._welcome(worker, message.value)
        elif message.kind == "died":
            self._lose(worker, f"it died: {message.value}")
        elif message.kind == "ended":
            self._stale.discard(worker)
            if self._run is not None:
                self._run.end(worker)
        elif self._run is not None:
            self._take(self._run, worker, message.value)
        else:
            self._warn(message.value.warnings)

    def _take(self, run: _Run, worker: str, event: Event) -> None:
        self._warn(event.warnings)
        if event.kind == "failed":
            assert event.trouble is not None
            if event.trouble.kind == RecordError.__name__:
                # a video is another file: no worker can do better
                raise event.trouble.error(self._ready[worker])
            self._lose(worker, event.trouble)
        elif run.take_in(worker, event, self._clock()):
            self._slots[worker].n_deaths = 0

    def _start(self, slot: _Slot) -> None:
        slot.n_started += 1
        self._slots[slot.name] = slot
        assert self._plan is not None
        self._cluster.start(slot.name, self._plan)

    def _welcome(self, worker: str, found: dict[str, Any] | Trouble) -> None:
        """Let a worker in, if it is like the others."""
        if isinstance(found, Trouble):
            if self._facts is None:
                raise found.error(worker)
            self._lose(worker, f"it could not start: {found.kind}: {found.text}")
            return
        place = found["place"]
        self._facts = self._facts or found
        # Versions are those of this process, because run.json names them.
        for part, expected, whom in (
            ("versions", self._versions, "this process"),
            ("scorers", self._facts["scorers"], "the others"),
        ):
            changed = differences(_comparable(expected), _comparable(found[part]))
            if changed:
                raise ScoringError(
                    f"{worker} on {place['node']} is not like {whom}, and passes of "
                    "one run must be comparable; make these equal on all machines:"
                    "\n  " + "\n  ".join(changed)
                )
        self._ready[worker] = f"{worker} on {place['node']}"
        if self._run is not None:
            self._run.core.join(worker)

    def _lose(self, worker: str, why: str | Trouble) -> None:
        """Put back what a worker had, and start another in its place."""
        slot = self._slots.pop(worker)
        where = self._ready.pop(worker, worker)
        self._cluster.kill(worker)
        slot.n_deaths += 1
        goes_on = slot.n_deaths <= self._limits.max_restarts
        text = why if isinstance(why, str) else f"{why.kind}: {why.text}"
        if self._run is not None:
            self._run.lose(worker, where, why)
        if not goes_on and not self._slots:
            raise ScoringError(
                f"{where}: {text}; it was the last worker, and started "
                f"{slot.n_deaths} times without finishing anything. What was scored "
                "before is on disk, and the same command goes on from here"
            )
        if goes_on:
            self._start(slot)

    def _warn(self, given: Sequence[Trouble]) -> None:
        """Give the warnings of workers here, each once."""
        for warning in given:
            if (warning.kind, warning.text) in self._given:
                continue
            self._given.add((warning.kind, warning.text))
            kind = getattr(errors, warning.kind, PhaseFusionWarning)
            warn(warning.text, kind)


class _Run:
    """What is to be done, who is at it, and what is on disk."""

    def __init__(
        self,
        runner: Runner,
        groups: Sequence[Sequence[Item]],
        cost_of: CostOf | None,
        limits: Limits,
        advance: Advance,
    ) -> None:
        units, self.items = units_of(runner, groups, cost_of)
        self.runner = runner
        bare: Any = None
        #: What workers get; each has a scorer of its own.
        self.bare = replace(runner, scorer=bare, writer=bare)
        self.core = Scheduler(
            units,
            max_attempts=limits.max_attempts,
            timeout_s=limits.timeout_s,
            backups=limits.backups,
        )
        self._limits = limits
        self._advance = advance
        self._number = {
            (item.benchmark, item.question_id): i for i, item in enumerate(self.items)
        }
        self._done: dict[int, list[PassKey]] = {}
        for key in runner.writer.done:
            self._note(key)
        self._leases: dict[str, Lease] = {}

    @property
    def busy(self) -> set[str]:
        """Workers that have not said everything about their work."""
        return set(self._leases)

    @property
    def ending(self) -> set[str]:
        """Those of `busy` that have done all that they were given."""
        return {w for w, lease in self._leases.items() if self.core.is_done(lease)}

    def _note(self, key: PassKey) -> int | None:
        number = self._number.get(key[:2])
        if number is not None:
            self._done.setdefault(number, []).append(key)
        return number

    def take(
        self, worker: str, lease: Lease
    ) -> tuple[list[Item], list[PassKey], dict[tuple[Any, ...], int]]:
        """Return the items of a lease and what is on disk of them."""
        self._leases[worker] = lease
        numbers = [int(part.name) for part in lease.unit.parts]
        done = [key for number in numbers for key in self._done.get(number, ())]
        n_phases = {key[:4]: self.runner.writer.n_phases[key[:4]] for key in done}
        return [self.items[number] for number in numbers], done, n_phases

    def take_in(self, worker: str, event: Event, now_s: float) -> bool:
        """Write what a worker sent; return whether that finished a question."""
        lease = self._leases[worker]
        if event.kind == "opened":
            self.core.opened(lease, now_s)
            return False
        if event.kind == "begins":
            self.core.begin(lease, str(self._number[event.question]), now_s)
            return False
        self.core.begin(lease, None, now_s)
        writer = self.runner.writer
        new = [r for r in event.records if pass_key(r) not in writer.done]
        for record in new:  # the machine of a worker may have another file
            number = self._number[pass_key(record)[:2]]
            digest = record.get("video_digest")
            self.runner.videos.check(self.items[number].video, digest)
        writer.append(new)
        if new:
            self._advance(len(new), str(new[0]["video_id"]))
        finished = False
        for record in new:
            self._note(pass_key(record))
        for number in {self._number[pass_key(record)[:2]] for record in event.records}:
            # What is on disk counts, not what a worker says.
            if self.runner.n_left(self.items[number]) == 0:
                self.core.acknowledge(lease, str(number), now_s)
                finished = True
        return finished

    def end(self, worker: str) -> None:
        """Take a lease back of which everything was said."""
        lease = self._leases.pop(worker)
        self._give_up(self.core.end(lease), worker, None)

    def lose(self, worker: str, where: str, why: str | Trouble) -> None:
        """Put back what a worker had that died or failed."""
        lease = self._leases.pop(worker, None)
        text = why if isinstance(why, str) else f"{why.kind}: {why.text}"
        if lease is None:
            self.core.leave(worker, text)
            warn(f"{where}, which had nothing to do: {text}", WorkerWarning)
            return
        at = self.core.at(lease)
        place = lease.unit.name if at is None else _named(self.items[int(at)])
        reason = f"{where}, at {place}: {text}"
        warn(f"{reason}; what it had not finished is done again", WorkerWarning)
        self._give_up(self.core.leave(worker, reason), where, why)

    def _give_up(
        self, given: Sequence[Poison], place: str, why: str | Trouble | None
    ) -> None:
        """Record passes that cannot be made as missing, or stop the run."""
        for poison in given:
            last = poison.reasons[-1]
            if isinstance(why, Trouble):
                raise why.error(f"{len(poison.reasons)} workers, the last {place}")
            items = [self.items[int(part)] for part in poison.parts]
            reason = f"worker: {len(poison.reasons)} failed here; the last: {last}"
            if self.runner.on_error == "raise":
                raise ScoringError(f"{_named(items[0])}: {reason}")
            if len(self.core.poisoned) > self._limits.max_given_up:
                raise ScoringError(
                    f"{_named(items[0])}: {reason}. That is number "
                    f"{len(self.core.poisoned)} that no worker gets done; what was "
                    "scored before is on disk, and the same command goes on from here"
                )
            for item in items:
                self.runner.give_up(item, reason, self._advance)

    def summarise(self) -> None:
        """Warn of what was given up."""
        numbers = [int(part) for found in self.core.poisoned for part in found.parts]
        if numbers:
            n, first = len(numbers), self.items[numbers[0]]
            warn(
                f"{counted(n, 'question')} {by_number(n, 'was', 'were')} given up "
                "because workers died there, first: "
                f"{item_name(first.benchmark, first.question_id)}; the passes are "
                "recorded as missing",
                WorkerWarning,
            )


def _comparable(facts: Any) -> Any:
    """Return facts without the places of models that their contents identify."""
    if not isinstance(facts, dict):
        return facts
    is_known = "sha256" in facts
    kept = {k: v for k, v in facts.items() if k != "path" or not is_known}
    return {name: _comparable(value) for name, value in kept.items()}


def _named(item: Item) -> str:
    return f"question {item.question_id!r}"
