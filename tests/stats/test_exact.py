"""Exact tails against whole numbers, and at counts that cannot be looped over."""

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion import stats
from phasefusion.errors import StatisticsError
from phasefusion.planning import risk_items, risk_power
from phasefusion.stats._exact import (
    binomial_cdf,
    binomial_halves,
    binomial_log_pmf,
    hypergeometric_tail,
)


@given(st.integers(0, 80), st.integers(0, 80), st.sampled_from([0.001, 0.2, 0.5, 0.9]))
def test_binomial_counts(k, n, share):
    exact = Fraction(share)
    pmf = [math.comb(n, x) * exact**x * (1 - exact) ** (n - x) for x in range(n + 1)]
    assert binomial_cdf(k, n, share) == pytest.approx(
        float(sum(pmf[: k + 1])), rel=1e-12
    )
    assert binomial_cdf(-1, n, share) == 0.0
    if k <= n:
        found = math.exp(binomial_log_pmf(k, n, share))
        assert found == pytest.approx(float(pmf[k]), rel=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 11, 999, 1200])
def test_halves(n):
    want = [math.comb(n, k) / 2**n if n < 1000 else None for k in range(n + 1)]
    found = binomial_halves(n)
    assert found.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_array_equal(found, found[::-1])
    if n < 950:
        assert found == pytest.approx(want, rel=1e-13)
    middle = math.comb(n, n // 2) * 10**30 // 2**n / 10**30
    assert found[n // 2] == pytest.approx(middle, rel=1e-13)


@given(st.data())
def test_fisher_is_the_sum_of_counts(data):
    n = data.draw(st.integers(1, 40))
    marked, drawn = (data.draw(st.integers(0, n)) for _ in range(2))
    k = data.draw(st.integers(-1, n + 1))
    ways = sum(
        math.comb(marked, x) * math.comb(n - marked, drawn - x)
        for x in range(max(k, 0), min(marked, drawn) + 1)
    )
    want = ways / math.comb(n, drawn)
    assert hypergeometric_tail(k, n, marked, drawn) == pytest.approx(want, abs=1e-13)


def seconds(call):
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


@pytest.mark.parametrize(
    ("b", "c"), [(10**9, 10**9 + 50_000), (10**9 + 1, 10**9), (10**12, 10**12 + 10**6)]
)
def test_mcnemar_of_huge_counts(b, c):
    made, took = seconds(lambda: stats.mcnemar(b, c))
    assert took < 1.0
    # with so many pairs mid-p and chi-square are one
    assert made.midp == pytest.approx(made.p_chi2, rel=1e-6)
    # what was seen counts half: by Stirling's formula its chance is
    n, gap = b + c, abs(b - c)
    seen = math.sqrt(2 / (math.pi * n)) * math.exp(-(gap**2) / (2 * n))
    if made.pvalue < 1.0:
        assert made.pvalue - made.midp == pytest.approx(seen, rel=1e-3)


@pytest.mark.parametrize("n", [999, 1000, 1001, 1002, 5000])
def test_mcnemar_on_both_sides_of_whole_numbers(n):
    for b in (n // 2 - 40, n // 2 - 3):
        made = stats.mcnemar(b, n - b)
        tail = sum(math.comb(n, k) for k in range(b + 1))
        assert made.pvalue == pytest.approx(2 * tail / 2**n, rel=1e-11)
        assert made.midp == pytest.approx(
            (2 * tail - math.comb(n, b)) / 2**n, rel=1e-11
        )


def test_other_tests_of_huge_counts():
    half = 5 * 10**8
    shared, took = seconds(
        lambda: stats.shared_unstable_counts(
            half // 2 + 20_000, half // 2, half // 2, half // 2
        )
    )
    assert took < 1.0
    z = shared.phi * math.sqrt(shared.n)
    assert shared.pvalue == pytest.approx(0.5 * math.erfc(z / math.sqrt(2)), rel=1e-3)
    interval, took = seconds(
        lambda: stats.proportion_ci(10**9, 2 * 10**9, method="clopper-pearson")
    )
    assert took < 1.0
    assert interval.high - 0.5 == pytest.approx(1.96 * 0.5 / math.sqrt(2e9), rel=1e-3)
    walk, took = seconds(
        lambda: stats.fixed_sequence(
            [10**9], [2 * 10**8 - 20_000], alpha=0.2, delta=0.1
        )
    )
    assert took < 1.0
    sigma = math.sqrt(1e9 * 0.16)
    assert walk.pvalues[0] == pytest.approx(
        0.5 * math.erfc(20_000 / sigma / math.sqrt(2)), rel=2e-3
    )


@pytest.mark.parametrize(
    "sums",
    [[1] * 9, [2] * 5 + [1] * 4, [1, 1, 1, 2, 2, 3, 5, 5, 5, 5, 0, -3], [7, -7, 3, 3]],
)
def test_sign_flips_of_repeated_sums(sums):
    total = abs(sum(sums))
    signs = itertools.product((1, -1), repeat=len(sums))
    hits = sum(
        abs(sum(x * s for x, s in zip(sums, sign, strict=True))) >= total
        for sign in signs
    )
    made = stats.sign_flip_test(sums)
    assert made.exact
    assert made.pvalue == pytest.approx(hits / 2 ** len(sums), rel=1e-12)


def test_sign_flips_of_many_equal_sums():
    made, took = seconds(lambda: stats.sign_flip_test([1] * 50_200 + [-1] * 49_800))
    assert took < 2.0
    assert made.pvalue == pytest.approx(stats.mcnemar(50_200, 49_800).pvalue, rel=1e-9)
    mixed, took = seconds(lambda: stats.sign_flip_test([1] * 30_000 + [-2] * 15_050))
    assert took < 4.0
    sigma = math.sqrt(30_000 + 4 * 15_050)
    assert mixed.pvalue == pytest.approx(math.erfc(99 / sigma / math.sqrt(2)), abs=0.01)


def exact_modal_share(m, k):
    """E[max] / M over every outcome of M draws from K."""
    total = sum(
        max(map(draw.count, range(k))) for draw in itertools.product(range(k), repeat=m)
    )
    return total / k**m / m


@pytest.mark.parametrize(
    ("m", "k"), [(1, 1), (1, 5), (2, 2), (3, 4), (5, 3), (8, 2), (6, 5)]
)
def test_modal_shares(m, k):
    assert stats.expected_modal_share(m, k) == pytest.approx(
        exact_modal_share(m, k), rel=1e-12
    )


def test_modal_shares_of_many_passes():
    for m, k in ((500, 5), (10_000, 10_000), (30_000, 4)):
        share, took = seconds(lambda m=m, k=k: stats.expected_modal_share(m, k))
        assert took < 3.0
        assert 1 / k < share < 1 / k + 6 * math.sqrt(1 / m / k) + 10 / m
    assert stats.expected_modal_share(10**4, 1) == 1.0
    with pytest.raises(StatisticsError, match="n_passes is 200000"):
        stats.expected_modal_share(200_000, 4)


def test_plans_of_large_samples():
    plan, took = seconds(lambda: risk_power(10**8, alpha=0.2, delta=0.1, risk=0.19))
    assert took < 1.0
    k = plan.allowed_errors
    assert binomial_cdf(k, 10**8, 0.2) <= 0.1 < binomial_cdf(k + 1, 10**8, 0.2)
    plan, took = seconds(lambda: risk_items(alpha=0.2, delta=0.1, risk=0.199))
    assert took < 6.0
    assert plan.power >= 0.8
