from __future__ import annotations

import itertools
import math

import numpy as np
import oracle_resampling as oracle
import pytest
from scipy import stats as sps

from phasefusion import _core, stats
from phasefusion.errors import StatisticsError

DIFF = [1, 0, -1, 1, 0, 1, -1]
CLUSTER = [0, 0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 581])
def test_resample_indices_are_their_twin(n):
    got = _core.resample_indices(n, 4, 9)
    want = [oracle.Stream(9, r).indices(n, n) for r in range(4)]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "n_clusters", [[1], [3, 40, 5], [400, 100, 60, 21], [1] * 7, [2, 1, 1], [70, 70]]
)
def test_sums_are_their_twin(n_clusters):
    rng = np.random.default_rng(len(n_clusters))
    above = rng.integers(-3, 4, len(n_clusters)).astype(float)
    below = rng.integers(1, 4, len(n_clusters)).astype(float)
    counts = np.array(n_clusters)
    got = _core.resample_sums(above, below, counts, 20, 3)
    want = oracle.resample_sums(above, below, n_clusters, 20, 3)
    np.testing.assert_array_equal(got, want)


def test_monte_carlo_tends_to_the_enumeration():
    exact = stats.cluster_bootstrap_exact(DIFF, CLUSTER)
    by_hand = []
    members = [np.flatnonzero(np.array(CLUSTER) == g) for g in range(4)]
    for drawn in itertools.product(range(4), repeat=4):
        rows = np.concatenate([members[g] for g in drawn])
        by_hand.append(np.mean(np.array(DIFF)[rows]))
    assert exact.n_resamples == 256
    assert exact.mean == pytest.approx(np.mean(by_hand), rel=1e-14)
    assert exact.se == pytest.approx(np.std(by_hand), rel=1e-14)
    for method in ("linear", "inverted_cdf"):
        q = np.linspace(0, 1, 41)
        np.testing.assert_allclose(
            exact.quantile(q, method),
            np.quantile(by_hand, q, method=method),
            rtol=1e-14,
            atol=1e-15,
        )
    made = stats.cluster_bootstrap(DIFF, CLUSTER, n_resamples=40_000, seed=1)
    for value in np.unique(by_hand):
        p = np.mean(np.isclose(by_hand, value))
        share = np.mean(np.isclose(made.replicates, value))
        assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / 40_000)


def test_bootstrap_agrees_with_scipy():
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, 60, 150)
    diff = rng.integers(-1, 2, 150)
    made = stats.cluster_bootstrap(diff, cluster, n_resamples=20_000)
    sums = np.bincount(cluster, diff, 60)
    counts = np.bincount(cluster, minlength=60)
    other = sps.bootstrap(
        (sums, counts),
        lambda s, n, axis=-1: s.sum(axis=axis) / n.sum(axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(4),
    )
    se = other.standard_error
    assert made.se == pytest.approx(se, rel=0.03)
    assert made.low == pytest.approx(other.confidence_interval.low, abs=0.08 * se)
    assert made.high == pytest.approx(other.confidence_interval.high, abs=0.08 * se)


@pytest.mark.parametrize("whole", [True, False])
def test_bootstrap_depends_on_the_seed_alone(whole):
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 40, 90)
    diff = rng.integers(-1, 2, 90) if whole else rng.normal(size=90)
    made = stats.cluster_bootstrap(diff, cluster, n_resamples=300, seed=7)
    order = rng.permutation(90)
    names = np.array([f"q{(g * 17) % 41}" for g in cluster])
    same = stats.cluster_bootstrap(diff[order], names[order], n_resamples=300, seed=7)
    np.testing.assert_array_equal(made.replicates, same.replicates)
    assert repr(made) == repr(same)
    fewer = stats.cluster_bootstrap(diff, cluster, n_resamples=100, seed=7)
    np.testing.assert_array_equal(made.replicates[:100], fewer.replicates)
    other = stats.cluster_bootstrap(diff, cluster, n_resamples=300, seed=8)
    assert (made.replicates != other.replicates).any()


def test_bootstrap_edges():
    nothing = stats.cluster_bootstrap([], n_resamples=5)
    assert math.isnan(nothing.estimate)
    assert math.isnan(nothing.low)
    assert nothing.n == nothing.n_clusters == 0
    one = stats.cluster_bootstrap([1, 0], ["a", "a"], n_resamples=5)
    assert one.estimate == 0.5
    assert math.isnan(one.low)  # one cluster: every resample is the same
    gaps = stats.cluster_bootstrap([1.0, math.nan, 0.0], n_resamples=5)
    assert (gaps.n, gaps.n_dropped, gaps.estimate) == (2, 1, 0.5)
    zero = stats.cluster_bootstrap([1, 1], denominator=[0, 1], n_resamples=400)
    assert zero.n_undefined + len(zero.replicates) == 400
    assert 50 < zero.n_undefined < 150
    assert zero.estimate == 2.0
    exact = stats.cluster_bootstrap_exact([1, 1], denominator=[0, 1])
    assert (exact.n_resamples, exact.n_undefined) == (3, 1)
    assert math.isnan(stats.cluster_bootstrap_exact([]).mean)
    with pytest.raises(StatisticsError, match="9 clusters"):
        stats.cluster_bootstrap_exact(range(9))
    with pytest.raises(StatisticsError, match=r"values\[1\] is inf"):
        stats.cluster_bootstrap([0, math.inf])
    with pytest.raises(StatisticsError, match="differ in length"):
        stats.cluster_bootstrap([0, 1], denominator=[1])
    with pytest.raises(StatisticsError, match="n_resamples"):
        stats.cluster_bootstrap([0, 1], n_resamples=0)
    with pytest.raises(StatisticsError, match="cluster must have shape"):
        stats.cluster_bootstrap([0, 1], [0])


@pytest.mark.parametrize(
    "sums", [[2, -1, 3, 1, 0, 2], [0.5, 0.25, -1.5, 0.75], [0, 0], [3, 0], [-1, -1, -1]]
)
def test_sign_flips_are_scipys(sums):
    made = stats.sign_flip_test(sums)
    assert made.exact
    other = sps.permutation_test(
        (np.array(sums, float),),
        np.sum,
        permutation_type="samples",
        n_resamples=np.inf,
        alternative="two-sided",
    )
    assert made.pvalue == pytest.approx(other.pvalue, rel=1e-12)


def test_sign_flips_of_many_clusters():
    rng = np.random.default_rng(2)
    whole = rng.integers(-2, 3, 300)
    exact = stats.sign_flip_test(whole)
    assert exact.exact
    drawn = stats.sign_flip_test(whole / 3.0, n_resamples=4000, seed=1)
    assert not drawn.exact
    assert drawn.pvalue == pytest.approx(exact.pvalue, abs=0.03)
    again = stats.sign_flip_test(whole[::-1] / 3.0, n_resamples=4000, seed=1)
    assert again.pvalue == drawn.pvalue
    assert stats.sign_flip_test([]).pvalue == 1.0
    assert stats.sign_flip_test([math.nan, 1.0, 1.0]).pvalue == 0.5


@pytest.mark.parametrize(
    ("values", "q", "want"),
    [
        (
            [1, 2, math.inf, math.inf],
            [0, 1 / 3, 0.5, 2 / 3, 1],
            [1, 2, math.inf, math.inf, math.inf],
        ),
        ([-math.inf, 0, 4], [0, 0.25, 0.5, 0.75, 1], [-math.inf, -math.inf, 0, 2, 4]),
        ([math.inf] * 3, [0, 0.5, 0.9], [math.inf] * 3),
        ([-math.inf, math.inf], [0.4, 0.6], [-math.inf, math.inf]),
        ([math.nan, math.inf], 0.5, math.inf),
    ],
)
def test_quantiles_of_infinite_margins(values, q, want):
    np.testing.assert_array_equal(stats.quantile(values, q), want)
    # what the rankings make of them, with warnings as errors
    flipped = np.arange(len(values)) % 2
    stats.auroc(flipped, values)
    stats.flag_lowest(values, flipped)
    stats.risk_coverage(values, flipped)
    stats.control_risk(
        values, flipped, [math.inf, 1.0, -math.inf], alpha=0.2, delta=0.1
    )


def test_quantiles():
    assert stats.quantile([3.0, math.nan, 1.0], 0.5) == 2.0
    assert np.isnan(stats.quantile([], [0.1, 0.2])).all()
    with pytest.raises(StatisticsError, match=r"in \[0, 1\]"):
        stats.quantile([1.0], [95])
    with pytest.raises(StatisticsError, match="method"):
        stats.quantile([1.0], 0.5, "median")  # type: ignore[arg-type]
