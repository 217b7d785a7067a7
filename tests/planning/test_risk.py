"""Samples for risk control against the walk itself."""

import math

import pytest

from phasefusion.errors import StatisticsError
from phasefusion.planning import risk_items, risk_power
from phasefusion.stats import fixed_sequence, smallest_certifiable


@pytest.mark.parametrize(
    ("n", "allowed"), [(10, -1), (25, 2), (50, 5), (100, 14), (250, 41)]
)
def test_allowed_errors_of_the_published_levels(n, allowed):
    plan = risk_power(n, alpha=0.2, delta=0.1)
    assert plan.allowed_errors == allowed
    assert plan.n_min == 11
    assert plan.power == float(allowed >= 0)


@pytest.mark.parametrize(
    ("alpha", "delta"), [(0.2, 0.1), (0.05, 0.05), (0.5, 0.3), (0.9, 0.1), (0.3, 0.99)]
)
@pytest.mark.parametrize("n", [1, 2, 11, 37])
def test_power_is_the_chance_that_the_walk_begins(n, alpha, delta):
    risk = alpha / 2
    plan = risk_power(n, alpha=alpha, delta=delta, risk=risk)
    total, allowed = 0.0, -1
    for k in range(n + 1):
        if fixed_sequence([n], [k], alpha=alpha, delta=delta).certified:
            total += math.comb(n, k) * risk**k * (1 - risk) ** (n - k)
            allowed = k
    assert plan.allowed_errors == allowed
    assert plan.power == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "delta", "risk", "power"),
    [
        (0.2, 0.1, 0.0, 0.8),
        (0.2, 0.1, 0.1, 0.8),
        (0.1, 0.05, 0.06, 0.9),
        (0.05, 0.1, 0.02, 0.7),
        (0.02, 0.05, 0.012, 0.8),
    ],
)
def test_items_are_the_fewest(alpha, delta, risk, power):
    plan = risk_items(alpha=alpha, delta=delta, risk=risk, power=power)
    assert plan.power >= power == plan.target
    for n in range(1, plan.n):
        assert risk_power(n, alpha=alpha, delta=delta, risk=risk).power < power


def test_without_errors_the_fewest_are_those_that_certify():
    for alpha, delta in ((0.2, 0.1), (0.05, 0.01), (0.7, 0.5)):
        n = risk_items(alpha=alpha, delta=delta).n
        assert n == smallest_certifiable(alpha, delta)


def test_too_few_items_say_so():
    assert "none certify: at least 11 items are needed" in repr(
        risk_power(10, alpha=0.2, delta=0.1)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: risk_power(0, alpha=0.2, delta=0.1), "n must be a whole number >= 1"),
        (lambda: risk_power(9, alpha=20, delta=0.1), "alpha must be in"),
        (lambda: risk_power(9, alpha=0.2, delta=0.1, risk=10), "risk must be in"),
        (
            lambda: risk_items(alpha=0.2, delta=0.1, risk=0.2),
            "certified only by mistake",
        ),
        (lambda: risk_items(alpha=0.2, delta=0.1, power=1.0), "power must be in"),
    ],
)
def test_what_is_out_of_range_is_refused(call, message):
    with pytest.raises(StatisticsError, match=message):
        call()
