"""The scheduling core under any order of events: nothing is lost, nothing twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from phasefusion.engine.scheduling import Part, Scheduler, Unit
from phasefusion.errors import UsageError

UNITS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=7
)


def make_units(shapes):
    return [
        Unit(f"u{i}", tuple(Part(f"p{j}", 1 + (i + j) % 3) for j in range(n)), opening)
        for i, (n, opening) in enumerate(shapes)
    ]


class Machine(RuleBasedStateMachine):
    """A scheduler beside a plain account of what was acknowledged and given up."""

    @initialize(
        shapes=UNITS,
        max_attempts=st.integers(1, 3),
        backups=st.booleans(),
    )
    def start(self, shapes, max_attempts, backups):
        self.units = make_units(shapes)
        self.max_attempts = max_attempts
        self.backups = backups
        self.core = Scheduler(
            self.units,
            max_attempts=max_attempts,
            backups=backups,
            timeout_s=10.0,
        )
        self.all = {(u.name, p.name) for u in self.units for p in u.parts}
        self.settled, self.given_up = set(), set()
        self.live, self.old, self.workers = [], [], []
        self.n_workers = self.n_failures = 0
        self.now_s = 0.0

    def account(self, poison):
        for found in poison:
            assert len(found.reasons) == self.max_attempts
            for part in found.parts:
                assert (found.unit, part) not in self.settled | self.given_up
                self.given_up.add((found.unit, part))

    def drop(self, lease):
        self.live.remove(lease)
        self.old.append(lease)

    @rule()
    def join(self):
        self.n_workers += 1
        self.workers.append(f"w{self.n_workers}")
        self.core.join(self.workers[-1])

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def lease(self, data):
        worker = data.draw(st.sampled_from(self.workers))
        held = [lease for lease in self.live if lease.worker == worker]
        left = self.all - self.settled - self.given_up
        free = left - {
            (lease.unit.name, p.name) for lease in self.live for p in lease.unit.parts
        }
        lease = self.core.lease(worker, self.now_s)
        if held:
            assert lease is None
        elif free:
            assert lease is not None
            assert not lease.is_backup
            costs = {u.name: u for u in self.units}
            rest = {
                name: costs[name].opening
                + sum(p.cost for p in costs[name].parts if (name, p.name) in free)
                for name, _ in free
            }
            assert rest[lease.unit.name] == max(rest.values())
        elif not self.backups:
            assert lease is None
        if lease is None:
            return
        others = [other for other in self.live if other.unit.name == lease.unit.name]
        assert lease.is_backup == bool(others)
        assert len(others) <= (1 if self.backups else 0)
        assert all(other.worker != worker for other in others)
        assert {(lease.unit.name, p.name) for p in lease.unit.parts} <= left
        self.live.append(lease)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def open(self, data):
        assert self.core.opened(data.draw(st.sampled_from(self.live)), self.now_s)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def acknowledge(self, data):
        lease = data.draw(st.sampled_from(self.live))
        part = data.draw(st.sampled_from([p.name for p in lease.unit.parts]))
        is_new = (lease.unit.name, part) not in self.settled | self.given_up
        assert self.core.acknowledge(lease, part, self.now_s) == is_new
        if is_new:
            self.settled.add((lease.unit.name, part))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def put_back(self, data):
        lease = data.draw(st.sampled_from(self.live))
        self.drop(lease)
        self.account(self.core.end(lease))

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def die(self, data):
        worker = data.draw(st.sampled_from(self.workers))
        self.workers.remove(worker)
        for lease in [lease for lease in self.live if lease.worker == worker]:
            self.drop(lease)
        self.account(self.core.leave(worker, "died"))

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def say_of_an_old_lease(self, data):
        lease = data.draw(st.sampled_from(self.old))
        part = lease.unit.parts[0].name
        assert not self.core.acknowledge(lease, part, self.now_s)
        assert not self.core.opened(lease, self.now_s)
        assert not self.core.is_done(lease)
        assert self.core.end(lease) == []

    @rule(seconds=st.floats(0.1, 6.0))
    def wait(self, seconds):
        self.now_s += seconds
        for lease in self.core.silent(self.now_s):
            assert lease in self.live

    @invariant()
    def nothing_is_lost(self):
        left = self.all - self.settled - self.given_up
        assert self.core.n_parts_left == len(left)
        assert self.core.finished == (not left)
        held = {lease.unit.name for lease in self.live}
        waiting = {name for name, _ in left} - held
        assert self.core.n_waiting == len(waiting)
        assert self.core.leases == self.live
        assert {
            (found.unit, part) for found in self.core.poisoned for part in found.parts
        } == self.given_up


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestAnyEvents = Machine.TestCase


def drain(units, n_workers, *, fails=lambda lease, k: False, **options):
    """Work everything off, one event a turn; return the events and the scheduler."""
    core = Scheduler(units, **options)
    events, attempts, joined = [], {}, n_workers
    for w in range(n_workers):
        core.join(f"w{w}")
    workers = [f"w{w}" for w in range(n_workers)]
    for _ in range(10_000):
        if core.finished:
            return events, core
        worker = workers.pop(0)
        lease = core.lease(worker, 0.0)
        if lease is None:
            workers.append(worker)
            continue
        k = attempts[lease.unit.name] = attempts.get(lease.unit.name, 0) + 1
        events.append((worker, lease.unit.name, len(lease.unit.parts)))
        if fails(lease, k):
            core.leave(worker, f"died at {lease.unit.name}")
            joined += 1
            worker = f"w{joined}"
            core.join(worker)
        else:
            core.opened(lease, 0.0)
            for part in lease.unit.parts:
                core.acknowledge(lease, part.name, 0.0)
            core.end(lease)
        workers.append(worker)
    raise AssertionError("it does not end")


@given(UNITS, st.integers(1, 5), st.integers(0, 3))
def test_every_run_ends_and_is_repeatable(shapes, n_workers, n_fails):
    units = make_units(shapes)

    def fails(lease, k):
        return lease.unit.name == "u0" and k <= n_fails

    events, core = drain(units, n_workers, fails=fails)
    again, _ = drain(units, n_workers, fails=fails)
    assert events == again
    assert bool(core.poisoned) == (n_fails >= 3)
    if core.poisoned:
        (poison,) = core.poisoned
        assert poison.unit == "u0"
        assert len(poison.parts) == len(units[0].parts)  # it never opened
        assert poison.reasons == ("died at u0",) * 3


def test_longest_first_and_names_decide_ties():
    units = [Unit(n, (Part("p", c),)) for n, c in [("d", 1), ("b", 2), ("a", 2)]]
    units.append(Unit("c", (Part("p", 1),), opening=4))
    events, _ = drain(units, 1)
    assert [name for _, name, _ in events] == ["c", "a", "b", "d"]


def test_a_bad_part_alone_is_given_up():
    core = Scheduler([Unit("v", (Part("a"), Part("b"), Part("c")))], max_attempts=2)
    for w in ("w1", "w2"):
        core.join(w)
        lease = core.lease(w, 0.0)
        core.opened(lease, 0.0)
        core.acknowledge(lease, "a", 0.0)
        found = core.leave(w, f"{w} was killed")
    assert [(p.unit, p.parts, p.reasons) for p in found] == [
        ("v", ("b",), ("w1 was killed", "w2 was killed"))
    ]
    core.join("w3")
    assert [p.name for p in core.lease("w3", 0.0).unit.parts] == ["c"]


def test_what_is_begun_is_blamed_not_what_comes_first():
    core = Scheduler([Unit("v", (Part("a"), Part("b")))], max_attempts=2)
    careful = []
    for w in ("w1", "w2"):
        core.join(w)
        lease = core.lease(w, 0.0)
        careful.append(lease.is_careful)
        assert core.begin(lease, "a", 0.0)  # something that needs no opening
        core.begin(lease, None, 0.0)
        assert core.at(lease) is None
        core.opened(lease, 0.0)
        assert core.at(lease) == "a"
        core.begin(lease, "b", 0.0)
        assert core.at(lease) == "b"
        found = core.leave(w, "killed")
    assert careful == [False, True]
    assert [poison.parts for poison in found] == [("b",)]
    assert core.n_parts_left == 1
    assert not core.begin(lease, "a", 0.0)


def test_a_death_between_units_is_held_against_none():
    core = Scheduler([Unit("v", (Part("a"),)), Unit("w", (Part("a"),))], max_attempts=1)
    core.join("w1")
    lease = core.lease("w1", 0.0)
    core.acknowledge(lease, "a", 0.0)
    assert core.leave("w1", "killed") == []
    assert core.n_parts_left == 1


def test_silence_is_seen():
    units = [Unit(n, (Part("a"), Part("b"))) for n in "vw"]
    core = Scheduler(units, timeout_s=5.0)
    core.join("w1")
    core.join("w2")
    first, second = core.lease("w1", 0.0), core.lease("w2", 0.0)
    assert core.lease("w1", 0.0) is None
    assert core.silent(4.9) == []
    core.acknowledge(first, "a", 4.9)
    assert core.silent(9.0) == [second]
    assert core.silent(9.9) == [first, second]
    core.leave("w1", "silent")
    core.leave("w2", "silent")
    assert core.silent(99.0) == []


def test_a_lease_is_done_when_its_own_worker_has_said_so():
    core = Scheduler([Unit("v", (Part("a"), Part("b")))], backups=True)
    core.join("w1")
    core.join("w2")
    slow, copy = core.lease("w1", 0.0), core.lease("w2", 0.0)
    core.acknowledge(slow, "a", 1.0)
    assert not core.is_done(slow)
    core.acknowledge(copy, "a", 1.0)
    core.acknowledge(copy, "b", 1.0)
    assert core.finished
    assert core.is_done(copy)
    assert not core.is_done(slow)
    core.end(copy)
    assert not core.is_done(copy)


def test_a_backup_is_given_once_and_its_late_twin_has_no_effect():
    core = Scheduler([Unit("v", (Part("a"), Part("b")))], backups=True)
    for w in ("w1", "w2", "w3"):
        core.join(w)
    slow, copy = core.lease("w1", 0.0), core.lease("w2", 0.0)
    assert copy.is_backup
    assert core.lease("w3", 0.0) is None
    assert core.acknowledge(slow, "a", 1.0)
    assert not core.acknowledge(copy, "a", 1.0)
    assert core.acknowledge(copy, "b", 2.0)
    assert core.finished
    assert core.end(copy) == []
    assert not core.acknowledge(slow, "b", 3.0)


def test_a_backup_goes_to_the_unit_with_most_left_and_a_loser_puts_nothing_back():
    units = [Unit("v", (Part("a", 5.0),)), Unit("w", (Part("a", 3.0), Part("b", 4.0)))]
    core = Scheduler(units, backups=True)
    for w in ("w1", "w2", "w3"):
        core.join(w)
    large, small = core.lease("w1", 0.0), core.lease("w2", 0.0)
    core.acknowledge(large, "b", 1.0)
    copy = core.lease("w3", 1.0)
    assert (small.unit.name, copy.unit.name) == ("v", "v")
    core.leave("w3", "killed")
    assert core.n_waiting == 0, "w2 still has it"
    core.leave("w2", "killed")
    assert core.n_waiting == 1


@pytest.mark.parametrize(
    ("units", "options", "message"),
    [
        ([], {"max_attempts": 0}, "must be >= 1"),
        ([], {"timeout_s": 0}, "timeout_s must be above 0"),
        ([Unit("a", (Part("p"),))] * 2, {}, "two units have one name"),
        ([Unit("a", (Part("p"), Part("p")))], {}, "two parts have one name"),
    ],
)
def test_what_is_refused(units, options, message):
    with pytest.raises(UsageError, match=message):
        Scheduler(units, **options)


def test_unknown_workers_are_refused():
    core = Scheduler([Unit("a", (Part("p"),))])
    with pytest.raises(UsageError, match="has not joined"):
        core.lease("w", 0.0)
    core.join("w")
    with pytest.raises(UsageError, match="there already"):
        core.join("w")
