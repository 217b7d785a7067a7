"""Which worker does what next: a queue, leases, acknowledgements, retries.

Nothing here knows a cluster, a process or a clock: whoever uses it says what happened
and when, and the same events in the same order give the same decisions. The Ray engine
runs on it, and so does the simulation of `phasefusion.capacity`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from phasefusion.errors import UsageError


@dataclass(frozen=True, slots=True)
class Part:
    """What is acknowledged as a whole: one question.

    Attributes
    ----------
    name : str
        Unique within its unit.
    cost : float, default 1.0
        Expected seconds, or any other unit that all parts share.
    """

    name: str
    cost: float = 1.0


@dataclass(frozen=True, slots=True)
class Unit:
    """What one worker does in one go: the questions of one video.

    Attributes
    ----------
    name : str
        Unique, and what decides between units of one cost.
    parts : tuple of Part
        In the order in which they are done.
    opening : float, default 0.0
        Cost of what comes before the first part: decoding.
    """

    name: str
    parts: tuple[Part, ...]
    opening: float = 0.0

    @property
    def cost(self) -> float:
        """Expected cost of all of it."""
        return self.opening + sum(part.cost for part in self.parts)


@dataclass(frozen=True, slots=True)
class Lease:
    """A unit that a worker has been given.

    Attributes
    ----------
    number : int
        Unique over the whole run; what is said of an old lease has no effect.
    unit : Unit
        With the parts that were left when it was given.
    worker : str
    is_backup : bool
        Whether another worker has the unit too.
    is_careful : bool
        Whether the worker should say which part it begins, and wait until that is
        known, so that a failure is held against the right one.
    """

    number: int
    unit: Unit
    worker: str
    is_backup: bool = False
    is_careful: bool = False


@dataclass(frozen=True, slots=True)
class Poison:
    """What has been given up, because too many workers failed at it.

    Attributes
    ----------
    unit : str
    parts : tuple of str
        One part, or all that were left when it was opening the unit that failed.
    reasons : tuple of str
        Of every attempt.
    """

    unit: str
    parts: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(slots=True)
class _Held:
    """A lease that is out."""

    lease: Lease
    seen_s: float
    is_open: bool = False
    begun: str | None = None
    acknowledged: set[str] = field(default_factory=set)

    def at(self) -> str | None:
        """Return the part it is at; None before the first."""
        if self.begun is not None or not self.is_open:
            return self.begun
        parts = (part.name for part in self.lease.unit.parts)
        return next((name for name in parts if name not in self.acknowledged), None)


@dataclass(slots=True)
class _State:
    """A unit that is not finished."""

    unit: Unit
    left: dict[str, Part]
    held: set[int] = field(default_factory=set)
    failures: dict[str | None, list[str]] = field(default_factory=dict)

    def rest(self) -> Unit:
        return Unit(self.unit.name, tuple(self.left.values()), self.unit.opening)


class Scheduler:
    """Give units to workers, longest first, until every part is settled.

    A part is settled when it has been acknowledged, once, or given up. A worker that
    leaves, or says that it failed, puts back what it had not acknowledged. The failure
    is held against the part that it was at, or against opening the unit; what has
    failed `max_attempts` times is given up, so that one bad video cannot stop a run.

    Parameters
    ----------
    units : sequence of Unit
    max_attempts : int, default 3
    timeout_s : float, optional
        A lease of which nothing has been heard for so long is among `silent`.
    backups : bool, default False
        Whether a worker for which nothing waits gets a copy of the unit with most left
        to do; the first acknowledgement of a part counts.

    Raises
    ------
    UsageError
        If a limit is out of range, or names are not unique.

    Examples
    --------
    >>> short, long = Unit("a", (Part("a1"),)), Unit("b", (Part("b1"), Part("b2", 3.0)))
    >>> work = Scheduler([short, long])
    >>> work.join("w")
    >>> lease = work.lease("w", now_s=0.0)
    >>> lease.unit.name
    'b'
    >>> work.acknowledge(lease, "b1", now_s=1.0)
    True
    >>> work.leave("w", "killed")
    []
    >>> work.join("x")
    >>> [part.name for part in work.lease("x", now_s=2.0).unit.parts]
    ['b2']
    """

    def __init__(
        self,
        units: Sequence[Unit],
        *,
        max_attempts: int = 3,
        timeout_s: float | None = None,
        backups: bool = False,
    ) -> None:
        if max_attempts < 1:
            raise UsageError(f"max_attempts must be >= 1, it is {max_attempts}")
        if timeout_s is not None and not timeout_s > 0:
            raise UsageError(f"timeout_s must be above 0, it is {timeout_s}")
        self._max_attempts = max_attempts
        self._timeout_s = timeout_s
        self._backups = backups
        self._states = {unit.name: _state(unit) for unit in units if unit.parts}
        if len(self._states) < sum(bool(unit.parts) for unit in units):
            raise UsageError("two units have one name; names must be unique")
        self._waiting = [(-s.unit.cost, name) for name, s in self._states.items()]
        heapq.heapify(self._waiting)
        self._held: dict[int, _Held] = {}
        self._workers: dict[str, int | None] = {}  # and what each has
        self._n_leases = 0
        #: What has been given up so far.
        self.poisoned: list[Poison] = []

    @property
    def finished(self) -> bool:
        """Whether every part is settled."""
        return not self._states

    @property
    def n_waiting(self) -> int:
        """Units that no worker has."""
        return len(self._waiting)

    @property
    def n_parts_left(self) -> int:
        """Parts that are not settled."""
        return sum(len(state.left) for state in self._states.values())

    @property
    def leases(self) -> list[Lease]:
        """Leases that are out, oldest first."""
        return [held.lease for held in self._held.values()]

    def join(self, worker: str) -> None:
        """Add a worker; one that took the place of a dead one has a name of its own."""
        if worker in self._workers:
            raise UsageError(f"worker {worker!r} is there already")
        self._workers[worker] = None

    def leave(self, worker: str, reason: str) -> list[Poison]:
        """Take a worker out that has died; return what is given up because of it."""
        number = self._workers.pop(worker, None)
        return [] if number is None else self._put_back(number, reason)

    def lease(self, worker: str, now_s: float) -> Lease | None:
        """Give a worker its next unit; None when it has one, or there is none now."""
        if worker not in self._workers:
            raise UsageError(f"worker {worker!r} has not joined")
        if self._workers[worker] is not None:
            return None
        if self._waiting:
            _, name = heapq.heappop(self._waiting)
            return self._give(self._states[name], worker, now_s)
        state = self._slowest(worker) if self._backups else None
        return None if state is None else self._give(state, worker, now_s)

    def _give(self, state: _State, worker: str, now_s: float) -> Lease:
        self._n_leases += 1
        is_careful = bool(state.failures) or self._max_attempts == 1
        lease = Lease(
            self._n_leases, state.rest(), worker, bool(state.held), is_careful
        )
        self._held[lease.number] = _Held(lease, now_s)
        self._workers[worker] = lease.number
        state.held.add(lease.number)
        return lease

    def _slowest(self, worker: str) -> _State | None:
        """Return the unit with most left that one other worker alone has."""
        found = [
            state
            for state in self._states.values()
            if len(state.held) == 1
            and self._held[next(iter(state.held))].lease.worker != worker
        ]
        return min(found, key=lambda s: (-s.rest().cost, s.unit.name), default=None)

    def opened(self, lease: Lease, now_s: float) -> bool:
        """Note that a worker has opened its unit; later failures are of a part."""
        held = self._hear(lease, now_s)
        if held is not None:
            held.is_open = True
        return held is not None

    def begin(self, lease: Lease, part: str | None, now_s: float) -> bool:
        """Note which part a worker works on; None is none, or that it is not known.

        Where nothing is said, it is the first that is not acknowledged.
        """
        held = self._hear(lease, now_s)
        if held is not None:
            held.begun = part
        return held is not None

    def acknowledge(self, lease: Lease, part: str, now_s: float) -> bool:
        """Note that a part is done; False if that was known, or the lease is old."""
        held = self._hear(lease, now_s)
        if held is None:
            return False
        held.is_open = True
        held.acknowledged.add(part)
        state = self._states.get(lease.unit.name)
        if state is None or part not in state.left:
            return False
        self._settle(state, [part])
        return True

    def is_done(self, lease: Lease) -> bool:
        """Whether a worker has acknowledged every part of a lease that is out."""
        held = self._held.get(lease.number)
        names = {part.name for part in lease.unit.parts}
        return held is not None and names <= held.acknowledged

    def at(self, lease: Lease) -> str | None:
        """Return the part that a worker is at; None before the first and at the end."""
        held = self._held.get(lease.number)
        return None if held is None else held.at()

    def end(self, lease: Lease) -> list[Poison]:
        """Take a lease back that is done; what it left undone counts as a failure."""
        return self._put_back(lease.number, "it ended without all of its passes")

    def silent(self, now_s: float) -> list[Lease]:
        """Leases of which nothing has been heard for `timeout_s`."""
        if self._timeout_s is None:
            return []
        limit_s = now_s - self._timeout_s
        return [held.lease for held in self._held.values() if held.seen_s <= limit_s]

    def _hear(self, lease: Lease, now_s: float) -> _Held | None:
        held = self._held.get(lease.number)
        if held is not None:
            held.seen_s = now_s
        return held

    def _settle(self, state: _State, parts: Iterable[str]) -> None:
        for part in parts:
            del state.left[part]
        if not state.left:
            del self._states[state.unit.name]

    def _put_back(self, number: int, reason: str) -> list[Poison]:
        """End a lease; what is left of its unit waits again, or is given up."""
        held = self._held.pop(number, None)
        if held is None:
            return []
        if held.lease.worker in self._workers:
            self._workers[held.lease.worker] = None
        state = self._states.get(held.lease.unit.name)
        if state is None:
            return []
        state.held.discard(number)
        poison = self._charge(state, held, reason)
        if state.left and not state.held:
            entry = (-state.rest().cost, state.unit.name)
            heapq.heappush(self._waiting, entry)
        return [] if poison is None else [poison]

    def _charge(self, state: _State, held: _Held, reason: str) -> Poison | None:
        """Hold a failure against what the worker was at."""
        at = held.at()
        if at is not None and at not in state.left:
            return None  # another worker has done it
        reasons = state.failures.setdefault(at, [])
        reasons.append(reason)
        if len(reasons) < self._max_attempts:
            return None
        parts = tuple(state.left) if at is None else (at,)
        poison = Poison(state.unit.name, parts, tuple(reasons))
        self.poisoned.append(poison)
        self._settle(state, parts)
        return poison


def _state(unit: Unit) -> _State:
    left = {part.name: part for part in unit.parts}
    if len(left) < len(unit.parts):
        raise UsageError(f"unit {unit.name!r}: two parts have one name")
    return _State(unit, left)
