"""Where nothing varies: no variance can be estimated, and nothing is certified."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion import stats
from phasefusion.errors import StatisticsError


def test_two_identical_items_are_no_equivalence():
    made = stats.tost([0, 0], margin=0.025)
    assert not made.equivalent
    assert math.isnan(made.pvalue)
    assert made.verdict == "not certifiable"
    assert "not certifiable" in repr(made)
    made = stats.tost([0, 0], margin=0.025, limits=(-1, 1))
    assert not made.equivalent
    assert made.pvalue == pytest.approx(0.975**2)
    assert made.verdict == "not certifiable"


@pytest.mark.parametrize("values", [[0.0], [0.5], [-3.0], [0.1]])
@pytest.mark.parametrize("n", [2, 3, 7, 1000])
def test_no_interval_without_variance_and_limits(values, n):
    made = stats.clustered_mean(values * n)
    assert made.se == 0.0
    assert made.degenerate
    for found in (made.low, made.high, made.low_z, made.high_z, made.pvalue):
        assert math.isnan(found)
    assert math.isnan(made.design_effect)
    assert "nothing varies" in repr(made)


def test_rounding_is_no_variance():
    values = np.tile([0.1, 0.2, 0.7], 40)  # every cluster has the same mean
    made = stats.clustered_mean(values, np.repeat(np.arange(40), 3))
    assert made.se == 0.0
    assert math.isnan(made.low)


@pytest.mark.parametrize("n_clusters", [2, 10, 59, 200])
@pytest.mark.parametrize("size", [1, 3])
def test_the_interval_of_no_difference_is_that_of_clusters(n_clusters, size):
    cluster = np.repeat(np.arange(n_clusters), size)
    made = stats.clustered_mean(
        np.zeros(n_clusters * size), cluster, confidence_level=0.9, limits=(-1, 1)
    )
    upper = stats.proportion_upper(0, n_clusters)
    assert (made.low, made.high) == pytest.approx((-upper, upper))
    assert made.pvalue == 1.0
    # items of one video count once
    test = stats.tost(np.zeros(n_clusters * size), cluster, margin=0.05, limits=(-1, 1))
    assert test.pvalue == pytest.approx(0.95**n_clusters)
    assert test.equivalent == (n_clusters >= 59) == (made.high < 0.05)


def test_all_items_on_one_side():
    made = stats.clustered_mean([1] * 10, limits=(-1, 1))
    assert made.pvalue == pytest.approx(2 / 2**10)  # the sign test
    assert made.high == 1.0
    assert made.low == pytest.approx(1 - 2 * (1 - 0.025**0.1))
    assert stats.clustered_mean([1] * 10, limits=(0, 1)).low == pytest.approx(
        0.025**0.1
    )
    outside = stats.tost([1] * 10, margin=0.5, limits=(-1, 1))
    assert outside.pvalue == 1.0
    assert outside.verdict == "not shown equivalent"


def test_clusters_that_cancel_out_are_no_certificate():
    made = stats.tost([1, -1] * 2, [0, 0, 1, 1], margin=0.1, limits=(-1, 1))
    assert made.mean.se == 0.0
    assert not made.equivalent


@pytest.mark.parametrize("share", [0.002, 0.02, 0.1])
@pytest.mark.parametrize("n_clusters", [5, 40, 150])
def test_the_exact_test_keeps_its_level(share, n_clusters):
    # every item is right in both arms but for a share that only A has: the true
    # difference is the margin, and no difference at all is seen with (1 - share)**G
    chance_of_none = (1 - share) ** n_clusters
    made = stats.tost([0] * n_clusters, margin=share, limits=(-1, 1))
    assert made.pvalue == pytest.approx(chance_of_none)
    assert made.equivalent == (chance_of_none < 0.05)


@pytest.mark.parametrize("limits", [(1, -1), (0, 0), (-1, math.inf), (-0.5, 0.5)])
def test_limits_that_cannot_be(limits):
    with pytest.raises(StatisticsError, match="limits"):
        stats.clustered_mean([1, 0, -1], limits=limits)


def test_limits_change_nothing_within_them():
    values = [1, 0, -1, 0, 1, 0] * 4
    made = stats.tost(values, margin=0.5, limits=(-1, 1))
    assert made.pvalue == stats.tost(values, margin=0.5).pvalue
    assert made.mean.low == stats.tost(values, margin=0.5).mean.low


def test_intervals_end_at_what_a_mean_can_be():
    """Three clusters, two of which fell as far as they can: t reaches beyond -1."""
    values, cluster = [-1, -1, -1, -1, 0, 0], [0, 0, 1, 1, 2, 2]
    free = stats.tost(values, cluster, margin=0.5)
    cut = stats.tost(values, cluster, margin=0.5, limits=(-1, 1))
    assert free.mean.low < free.mean.low_z < -1 < cut.mean.mean
    assert cut.mean.low == cut.mean.low_z == -1.0
    assert cut.mean.high == free.mean.high
    assert (cut.pvalue, cut.mean.pvalue) == (free.pvalue, free.mean.pvalue)
    for one in (free.mean, cut.mean):
        assert one.half_width == pytest.approx(free.mean.high - free.mean.mean)
    both = stats.clustered_mean([0, 1], limits=(0, 1))
    assert (both.low, both.high) == (both.low_z, both.high_z) == (0.0, 1.0)
    assert math.isnan(stats.clustered_mean([1, 1], limits=(0, 1)).half_width)
    assert math.isnan(stats.clustered_mean([1], limits=(0, 1)).half_width)


@given(
    st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 4)), min_size=2, max_size=12)
)
def test_no_interval_of_a_difference_leaves_its_limits(pairs):
    made = stats.clustered_mean(*zip(*pairs, strict=True), limits=(-1, 1))
    for low, high in ((made.low, made.high), (made.low_z, made.high_z)):
        if not math.isnan(low):
            assert -1 <= low <= made.mean <= high <= 1


def test_results_of_other_statistics_have_no_interval_of_no_width():
    same = np.zeros((30, 3, 10), int)
    excess = stats.matched_vote(same).interval
    assert excess.low < 0.0 < excess.high
    residual = stats.half_split_residual(same[:, 0])
    assert residual.low == 0.0
    assert residual.high == pytest.approx(1 - 0.025 ** (1 / 30))
    drawn = stats.random_draw_change_rate(same[:, 0], same[:, 0])
    assert (drawn.n_clusters, drawn.high) == (30, pytest.approx(1 - 0.025 ** (1 / 30)))
    right = stats.consistency_rebalanced_accuracy(same[:, 0], np.zeros(30, int))
    assert right.mcqa_interval.low < 1.0 == right.mcqa_interval.high


def test_bootstraps_of_one_value_have_no_interval():
    made = stats.cluster_bootstrap([0] * 50)
    assert (made.estimate, made.se) == (0.0, 0.0)
    assert math.isnan(made.low)
    assert math.isnan(made.high)
    assert math.isnan(stats.cluster_bootstrap([0.1] * 30, [0] * 10 + [1] * 20).low)
    same = stats.flip_ratio([1] * 8, [1] * 8, n_resamples=50)
    assert same.ratio == 1.0
    assert math.isnan(same.low)
    apart = stats.auroc_bootstrap([0] * 5 + [1] * 9, range(14), n_resamples=200)
    assert (apart.low, apart.high) == (pytest.approx(0.025 ** (1 / 5)), 1.0)
    line = stats.correlation(
        range(12), range(12), cluster=np.arange(12) // 2, n_resamples=50
    )
    assert np.isnan(line.spearman_interval).all()


def test_a_floor_of_no_change_is_bounded_by_clusters():
    flips, rerun = [0, 1] * 30, [0] * 60
    made = stats.flip_ratio(
        flips, rerun, cluster=np.repeat(np.arange(20), 3), n_resamples=10
    )
    assert made.floor_upper == pytest.approx(stats.proportion_upper(0, 20))


def test_aurocs_without_variance():
    labels = np.repeat(np.arange(4), 25)
    positive = np.isin(labels, (2, 3))
    apart = stats.auroc(positive, positive, cluster=labels)
    assert apart.low == pytest.approx(0.025**0.5)  # two clusters of a class, not 50
    flat = stats.auroc([0, 1] * 10, [3.0] * 20)
    assert flat.low == pytest.approx(0.025**0.1 / 2)
    assert flat.high == pytest.approx(1 - 0.025**0.1 / 2)


@pytest.mark.parametrize("n", [3, 4, 6])
def test_ranks_that_agree_entirely(n):
    x = list(range(n))
    made = stats.correlation(x, [v**2 for v in x])
    shuffles = list(itertools.permutations(x))
    entire = sum(list(s) in (x, x[::-1]) for s in shuffles)
    assert made.spearman == 1.0
    assert made.spearman_p == pytest.approx(entire / len(shuffles))
    tied = stats.correlation([0, 0, 1, 1], [2, 2, 5, 5])
    assert tied.spearman_p == pytest.approx(2 * 4 / 24)


def test_charts_of_baselines_without_variance():
    none = stats.p_chart([0, 0, 0, 1], [50] * 4, baseline=3)
    assert np.isnan(none.upper).all()
    assert len(none.alarms) == 0
    alike = stats.p_chart([5, 5, 5, 6], [50] * 4, baseline=3, laney=True)
    plain = stats.p_chart([5, 5, 5, 6], [50] * 4, baseline=3)
    np.testing.assert_array_equal(alike.upper, plain.upper)
