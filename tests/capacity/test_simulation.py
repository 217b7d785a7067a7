"""The simulation keeps its books, and its schedule is that of the core."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasefusion.capacity import Conditions, bound_s, heavy_tailed, simulate
from phasefusion.engine.scheduling import Part, Unit
from phasefusion.errors import UsageError

SHAPES = st.lists(
    st.tuples(st.floats(0, 50), st.lists(st.floats(0.1, 20), min_size=1, max_size=4)),
    min_size=1,
    max_size=30,
)


def make_units(shapes):
    return [
        Unit(str(i), tuple(Part(str(j), c) for j, c in enumerate(costs)), opening)
        for i, (opening, costs) in enumerate(shapes)
    ]


@settings(max_examples=150)
@given(
    SHAPES,
    st.integers(1, 9),
    st.sampled_from([0.0, 30.0]),
    st.sampled_from([math.inf, 500.0, 60.0]),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
    st.integers(0, 5),
)
def test_all_time_is_accounted_for(
    shapes, n_workers, startup_s, life_s, slow, backups, seed
):
    units = make_units(shapes)
    made = simulate(
        units,
        Conditions(
            n_workers,
            startup_s=startup_s,
            mean_life_s=life_s,
            slow_share=slow,
            slow_factor=3.0,
            backups=backups,
            seed=seed,
        ),
    )
    parts = (made.useful_s, made.slow_s, made.lost_s, made.down_s, made.idle_s)
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(n_workers * made.makespan_s, abs=1e-6)
    if not made.n_given_up:
        assert made.useful_s == pytest.approx(sum(unit.cost for unit in units))
        assert made.makespan_s >= made.bound_s - 1e-6
    if life_s == math.inf:
        assert made.n_failures == made.n_given_up == 0
        if not backups:
            assert made.lost_s == 0
        if not slow:
            assert made.slow_s == 0


@given(SHAPES, st.integers(1, 9))
def test_no_worker_waits_while_there_is_work(shapes, n_workers):
    """Graham's bound of every schedule that is so, of whatever order."""
    units = make_units(shapes)
    costs = [unit.cost for unit in units]
    most = sum(costs) / n_workers + (1 - 1 / n_workers) * max(costs)
    assert simulate(units, Conditions(n_workers)).makespan_s <= most + 1e-6


def least_makespan(costs, n_workers):
    """The best of all schedules, each tried."""
    found = {(0.0,) * n_workers}
    for cost in costs:
        found = {
            tuple(sorted((*loads[:i], loads[i] + cost, *loads[i + 1 :])))
            for loads in found
            for i in range(n_workers)
        }
    return min(max(loads) for loads in found)


@given(st.lists(st.floats(0.1, 20), min_size=1, max_size=8), st.integers(1, 3))
def test_longest_first_is_within_its_bound(costs, n_workers):
    """Graham's 4/3 - 1/(3m) of the best schedule, which is not below `bound_s`."""
    units = make_units([(0.0, [cost]) for cost in costs])
    best = least_makespan(costs, n_workers)
    assert bound_s(units, n_workers) <= best + 1e-9
    made = simulate(units, Conditions(n_workers))
    assert best - 1e-9 <= made.makespan_s
    assert made.makespan_s <= (4 / 3 - 1 / (3 * n_workers)) * best + 1e-9


def test_by_hand():
    units = make_units([(1.0, [2.0]), (0.0, [4.0, 1.0])])
    made = simulate(units, Conditions(2, startup_s=10.0))
    assert (made.makespan_s, made.bound_s) == (15.0, 15.0)
    assert (made.useful_s, made.down_s, made.idle_s) == (8.0, 20.0, 2.0)
    assert made.utilisation == pytest.approx(8 / 30)
    slow = simulate(units[:1], Conditions(1, slow_share=1.0, slow_factor=2.0))
    assert (slow.makespan_s, slow.slow_s) == (6.0, 3.0)


def test_what_a_failure_costs():
    """One worker, one long question: a failure undoes all that was done of it."""
    units = make_units([(5.0, [10.0])])
    for seed in range(20):
        made = simulate(
            units, Conditions(1, mean_life_s=20.0, max_attempts=99, seed=seed)
        )
        if made.n_failures:
            assert made.lost_s == pytest.approx(made.makespan_s - 15.0)
            assert made.lost_by_failure_s <= 15.0
            break
    else:
        raise AssertionError("no seed fails")


def test_a_backup_saves_a_run_from_its_slowest_worker():
    units = make_units([(0.0, [10.0])] * 8)
    conditions = {"slow_share": 0.25, "slow_factor": 10.0}
    plain = simulate(units, Conditions(4, **conditions))
    saved = simulate(units, Conditions(4, backups=True, **conditions))
    assert plain.makespan_s == 100.0
    assert saved.makespan_s == pytest.approx(30.0)
    assert saved.lost_s > 0


def test_a_thousand_workers_and_the_same_again():
    videos = heavy_tailed(3000, seed=3)
    units = [
        Unit(
            f"{i}",
            tuple(Part(str(q), 12.0) for q in range(v["questions"])),
            0.02 * v["duration_s"],
        )
        for i, v in enumerate(videos)
    ]
    conditions = Conditions(1000, startup_s=60.0, mean_life_s=20_000.0, seed=1)
    made = simulate(units, conditions)
    assert made == simulate(units, conditions)
    assert made.n_failures > 0
    assert made.n_given_up == 0


@pytest.mark.parametrize(
    "options",
    [
        {"n_workers": 0},
        {"n_workers": 1, "mean_life_s": 0.0},
        {"n_workers": 1, "slow_factor": 0.5},
        {"n_workers": 1, "startup_s": -1.0},
    ],
)
def test_what_is_refused(options):
    with pytest.raises(UsageError, match="must be"):
        Conditions(**options)
