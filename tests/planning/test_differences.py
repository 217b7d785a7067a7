"""Powers of McNemar's test against enumeration and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion.errors import StatisticsError
from phasefusion.planning import (
    Design,
    discordance_of,
    mcnemar_difference,
    mcnemar_items,
    mcnemar_power,
)
from phasefusion.planning.differences import critical_counts
from phasefusion.stats import clustered_mcnemar, discordant, mcnemar

PVALUE = {"exact": "pvalue", "mid-p": "midp"}


def enumerated(n, difference, discordance, alpha, test):
    """Try the test on every pair of discordant counts, each with its chance."""
    up, down = (discordance + difference) / 2, (discordance - difference) / 2
    total = 0.0
    for b in range(n + 1):
        for c in range(n - b + 1):
            if getattr(mcnemar(b, c), PVALUE[test]) <= alpha:
                ways = math.comb(n, b) * math.comb(n - b, c)
                total += ways * up**b * down**c * (1 - discordance) ** (n - b - c)
    return total


@pytest.mark.parametrize("test", ["exact", "mid-p"])
@pytest.mark.parametrize(
    ("n", "difference", "discordance", "alpha"),
    [
        (2, 0.1, 0.5, 0.6),
        (5, 0.2, 0.9, 0.1),
        (12, -0.3, 0.5, 0.05),
        (40, 0.1, 0.2, 0.05),
        (41, 0.4, 0.4, 0.01),
        (40, 0.0, 1.0, 0.05),
    ],
)
def test_power_is_that_of_the_test_on_every_outcome(
    n, difference, discordance, alpha, test
):
    plan = mcnemar_power(
        n, difference=difference, discordance=discordance, alpha=alpha, test=test
    )
    expected = enumerated(n, difference, discordance, alpha, test)
    assert plan.power == pytest.approx(expected, abs=1e-12)
    size = enumerated(n, 0.0, discordance, alpha, test)
    assert plan.size == pytest.approx(size, abs=1e-12)


@pytest.mark.parametrize("test", ["exact", "mid-p"])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2, 0.6])
def test_critical_counts_are_those_of_the_test(alpha, test):
    found = critical_counts(np.arange(121), alpha, test)
    for n, critical in enumerate(found.tolist()):
        passes = [
            getattr(mcnemar(k, n - k), PVALUE[test]) <= alpha
            for k in range((n + 1) // 2)
        ]
        assert passes == sorted(passes, reverse=True)
        assert critical == sum(passes) - 1


@given(
    st.integers(2, 3000),
    st.floats(0.01, 1.0),
    st.sampled_from([0.01, 0.05, 0.1]),
)
def test_the_exact_test_keeps_its_size(n, discordance, alpha):
    plan = mcnemar_power(n, difference=0.0, discordance=discordance, alpha=alpha)
    assert plan.power == plan.size <= alpha
    loose = mcnemar_power(
        n, difference=0.0, discordance=discordance, alpha=alpha, test="mid-p"
    )
    assert loose.power >= plan.power


@given(st.floats(-1.0, 1.0), st.integers(2, 500))
def test_the_arms_may_be_swapped(share, n):
    discordance = 0.25
    one, other = (
        mcnemar_power(n, difference=d, discordance=discordance)
        for d in (share * discordance, -share * discordance)
    )
    assert one.power == pytest.approx(other.power, abs=1e-12)
    assert one.power_normal == pytest.approx(other.power_normal, abs=1e-12)


def test_the_normal_law_is_that_of_simulated_chi_square_tests():
    rng = np.random.default_rng(1)
    n, difference, discordance, draws = 800, 0.04, 0.15, 200_000
    plan = mcnemar_power(n, difference=difference, discordance=discordance)
    law = [(discordance + difference) / 2, (discordance - difference) / 2]
    b, c, _ = rng.multinomial(n, [*law, 1 - discordance], size=draws).T
    share = float(np.mean((b - c) ** 2 > 3.841458820694124 * (b + c)))
    slack = 4 * math.sqrt(share * (1 - share) / draws)
    # counts are whole, the law is not: half a point
    assert plan.power_normal == pytest.approx(share, abs=slack + 0.005)
    assert plan.power < plan.power_normal


def test_power_with_clusters_is_that_of_simulated_tests():
    rng = np.random.default_rng(2)
    n_clusters, size, icc, difference, discordance = 200, 3, 0.25, 0.06, 0.2
    law = [
        (discordance - difference) / 2,
        1 - discordance,
        (discordance + difference) / 2,
    ]
    draws = 3000
    cluster = np.repeat(np.arange(n_clusters), size)
    hits = 0
    for _ in range(draws):
        own = rng.choice([-1, 0, 1], p=law, size=(n_clusters, size))
        shared = rng.choice([-1, 0, 1], p=law, size=(n_clusters, 1))
        values = np.where(rng.random((n_clusters, 1)) < icc, shared, own)
        hits += clustered_mcnemar(values.ravel(), cluster).pvalue <= 0.05
    share = hits / draws
    slack = 3 * math.sqrt(share * (1 - share) / draws) + 0.02
    design = Design.from_icc(icc, size)
    plan = mcnemar_power(
        n_clusters * size, difference=difference, discordance=discordance, design=design
    )
    assert plan.power_normal == pytest.approx(share, abs=slack)
    assert plan.power == pytest.approx(share, abs=slack + 0.03)
    naive = mcnemar_power(
        n_clusters * size, difference=difference, discordance=discordance
    )
    assert naive.power > share + 2 * slack


@pytest.mark.parametrize("test", ["exact", "mid-p"])
@pytest.mark.parametrize(
    ("difference", "discordance", "power", "design"),
    [
        (0.03, 0.15, 0.8, Design()),
        (-0.081, 0.163, 0.9, Design()),
        (0.2, 0.2, 0.8, Design()),
        (0.05, 0.2, 0.8, Design.from_icc(0.2, 3)),
    ],
)
def test_items_are_the_fewest(difference, discordance, power, design, test):
    common = {
        "difference": difference,
        "discordance": discordance,
        "design": design,
        "test": test,
    }
    plan = mcnemar_items(power=power, **common)
    for more in range(30):
        assert mcnemar_power(plan.n + more, **common).power >= power
    assert mcnemar_power(plan.n - 1, **common).power < power
    assert mcnemar_power(plan.n_normal, **common).power_normal >= power
    assert mcnemar_power(plan.n_normal - 1, **common).power_normal < power


def test_difference_is_the_smallest():
    plan = mcnemar_difference(587, discordance=0.2, power=0.9)
    assert plan.power >= 0.9
    less = plan.difference - 1e-6
    assert mcnemar_power(587, difference=less, discordance=0.2).power < 0.9


def test_a_large_sample_is_planned_by_the_normal_law():
    plan = mcnemar_items(difference=0.001, discordance=0.15)
    assert plan.n == plan.n_normal > 1_000_000
    assert math.isnan(plan.power)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_discordance_is_that_of_the_items(pairs):
    a, b = (np.array(column) for column in zip(*pairs, strict=True))
    both = float((a & b).mean())
    expected = sum(discordant(a, b)) / len(pairs)
    found = discordance_of(float(a.mean()), float(b.mean()), both)
    assert found == pytest.approx(expected, abs=1e-12)


def test_discordance_of_independent_arms():
    assert discordance_of(0.6, 0.5) == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    with pytest.raises(StatisticsError, match=r"both is 50 %; .* from 0 % to 10 %"):
        discordance_of(0.2, 0.1, 0.5)
    with pytest.raises(StatisticsError, match="first must be in"):
        discordance_of(18.2, 10.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mcnemar_items(difference=0.0, discordance=0.2), "difference of 0"),
        (
            lambda: mcnemar_items(difference=0.3, discordance=0.2),
            "at least as many as the difference",
        ),
        (
            lambda: mcnemar_difference(5, discordance=0.2),
            "detect no difference with a power of 0.8",
        ),
        (
            lambda: mcnemar_power(9, difference=0.1, discordance=0.2, test="chi2"),
            "test must be one of",
        ),
        (
            lambda: mcnemar_items(difference=1e-6, discordance=1.0),
            "more than 100000000 items",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(call, message):
    with pytest.raises(StatisticsError, match=message):
        call()
