"""A gate errs as often as it says, and knows when it cannot tell."""

import numpy as np
import pytest

from phasefusion.gate import MeasureRule, Rules
from phasefusion.gate._judging import FEW, change, decide, floor
from phasefusion.planning import noninferiority_power
from phasefusion.planning.equivalence import clusters_without_difference

TIMES = 1500


def differences(rng, n_clusters, size, mean):
    """Draw differences in -1, 0, 1 that clusters share, with this mean."""
    lean = mean + 0.1 * rng.choice([-1, 1], size=(n_clusters, 1))
    up, down = 0.15 + lean / 2, 0.15 - lean / 2
    drawn = rng.random((n_clusters, size))
    values = np.where(drawn < up, 1.0, np.where(drawn < up + down, -1.0, 0.0))
    return values.ravel(), np.repeat(np.arange(n_clusters), size)


def judged(values, labels, rules=None):
    rules = rules or Rules()
    base = np.zeros(len(values))
    return decide([change("fpc", base, values, labels, rules)], rules)[0]


def rates(mean, n_clusters=60, size=3):
    rng = np.random.default_rng(11)
    rules = Rules(fpc=MeasureRule(margin=0.05))
    states = [
        judged(*differences(rng, n_clusters, size, mean), rules).state
        for _ in range(TIMES)
    ]
    return {state: states.count(state) / TIMES for state in ("held", "fell", "open")}


def test_a_fall_of_the_margin_passes_as_rarely_as_alpha():
    found = rates(-0.05)
    error = np.sqrt(0.05 * 0.95 / TIMES)
    assert found["held"] < 0.05 + 3 * error
    assert found["held"] > 0.05 - 4 * error  # and the bound is used up


def test_what_did_not_fall_is_rolled_back_as_rarely_as_alpha():
    found = rates(0.0)
    error = np.sqrt(0.05 * 0.95 / TIMES)
    assert found["fell"] < 0.05 + 3 * error


def test_large_samples_tell():
    rng = np.random.default_rng(2)
    states = {
        mean: judged(*differences(rng, 4000, 3, mean)).state for mean in (0.0, -0.05)
    }
    assert states == {0.0: "held", -0.05: "fell"}


def test_a_fall_within_the_margin_passes_a_large_sample():
    rng = np.random.default_rng(3)
    rules = Rules(fpc=MeasureRule(margin=0.05))
    made = judged(*differences(rng, 4000, 3, -0.02), rules)
    assert made.state == "held"
    assert made.high < 0.0


def test_a_few_items_without_a_change_show_nothing():
    made = judged(np.zeros(5), np.arange(5))
    assert (made.state, made.se) == ("open", 0.0)
    assert made.low == pytest.approx(-(1 - 0.05 ** (1 / 5)))
    assert made.needed.n == made.needed.n_clusters == 149  # 0.98**149 < 0.05


def test_as_many_as_needed_without_a_change_pass():
    assert judged(np.zeros(149), np.arange(149)).state == "held"
    assert judged(np.zeros(148), np.arange(148)).state == "open"


def test_clusters_are_counted_and_not_items():
    made = judged(np.zeros(1500), np.repeat(np.arange(50), 30))
    assert made.state == "open"
    assert (made.needed.n_clusters, made.needed.n) == (149, 149 * 30)


def test_clusters_of_uneven_size_are_counted_once():
    """Twenty items of six videos: the number of items is not turned back into one."""
    made = judged(np.zeros(20), np.arange(20) % 6)
    assert made.needed.n_clusters == clusters_without_difference(0.02, 0.05) == 149
    assert made.needed.n == 497  # 149 clusters of 20/6 items, rounded up


def test_one_lucky_item_does_not_pass_a_small_sample():
    values = np.zeros(40)
    values[3] = 1.0
    made = judged(values, np.arange(40))
    assert made.counted
    assert made.state == "open"


def test_few_falls_need_a_sign_test():
    values = np.zeros(40)
    values[:4] = -0.9  # t: p = 0.02; signs: 1/16
    made = judged(values, np.arange(40))
    assert (made.state, made.p_fell) == ("open", 1 / 16)
    values[4] = -0.9
    assert judged(values, np.arange(40)).state == "fell"


def test_many_changes_are_left_to_the_interval():
    values = np.zeros(100)
    values[:FEW] = [1.0, -1.0] * (FEW // 2)
    assert not judged(values, np.arange(100)).counted


def test_falls_of_several_measures_are_adjusted_together():
    rules = Rules()
    base, labels = np.zeros(40), np.arange(40)
    values = np.zeros(40)
    values[:5] = -0.9
    still = np.resize([0.5, -0.5], 40)
    checks = [
        change(m, base, v, labels, rules) for m, v in (("fpc", values), ("ooc", still))
    ]
    found = decide(checks, rules)
    assert found[0].p_fell == pytest.approx(2 / 32)
    assert found[0].state == "open"


def test_one_cluster_cannot_tell():
    made = judged(np.array([0.0, -1.0, 1.0]), np.zeros(3, int))
    assert made.state == "open"
    assert made.needed is None


def test_the_needed_sample_has_the_power_that_it_promises():
    rng = np.random.default_rng(8)
    rules = Rules(fpc=MeasureRule(margin=0.04))
    pilot = judged(*differences(rng, 50, 3, 0.0), rules)
    assert pilot.state == "open"
    n_clusters = pilot.needed.n_clusters
    held = sum(
        judged(*differences(rng, n_clusters, 3, 0.0), rules).state == "held"
        for _ in range(300)
    )
    # the pilot's own spread is uncertain, and the plan with it
    plan = noninferiority_power(3 * n_clusters, margin=0.04, sd=np.sqrt(0.3))
    assert 0.8 - 0.15 < held / 300 < 0.97
    assert plan.power > 0.6


@pytest.mark.parametrize(
    ("share", "state"), [(0.95, "held"), (0.75, "fell"), (0.86, "open")]
)
def test_floors(share, state):
    rules = Rules()
    values = np.zeros(200)
    values[: round(200 * share)] = 1.0
    check = floor("fpc", values, np.arange(200), 0.85, rules)
    made = decide([check], rules)[0]
    assert made.state == state
    assert made.difference == pytest.approx(share - 0.85)
    if state == "open":
        assert made.needed.n > 200
        assert made.needed.assumed == pytest.approx(0.01)


def test_a_floor_is_not_shown_by_a_few_perfect_items():
    rules = Rules()
    for n, state in ((5, "open"), (19, "held")):  # 0.85**19 < 0.05
        check = floor("fpc", np.ones(n), np.arange(n), 0.85, rules)
        assert decide([check], rules)[0].state == state
