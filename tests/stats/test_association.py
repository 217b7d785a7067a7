"""Shared instability, correlations, debiasing, budgets, charts, views."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as sps

from phasefusion import orders, stats
from phasefusion.errors import StatisticsError


def test_shared_unstable_is_fishers():
    a = [1, 1, 1, 0, 0, 0, 1, -1]
    b = [1, 1, 0, 0, 0, 1, 1, 1]
    made = stats.shared_unstable(a, b)
    table = [[3, 1], [1, 2]]
    assert (made.n11, made.n10, made.n01, made.n00) == (3, 1, 1, 2)
    assert (made.n, made.n_dropped) == (7, 1)
    assert made.pvalue == pytest.approx(sps.fisher_exact(table, "greater").pvalue)
    assert made.phi == pytest.approx(np.corrcoef(a[:7], b[:7])[0, 1])
    swapped = stats.shared_unstable(b, a)
    assert (swapped.excess, swapped.phi) == (made.excess, made.phi)
    never = stats.shared_unstable_counts(0, 0, 3, 4)
    assert math.isnan(never.ratio)
    assert math.isnan(never.phi)
    assert never.pvalue == 1.0
    assert math.isnan(stats.shared_unstable([], []).shared)
    with pytest.raises(StatisticsError, match=">= 0"):
        stats.shared_unstable_counts(-1, 0, 0, 0)


def test_cmh_is_that_of_statsmodels():
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    counts = np.random.default_rng(0).integers(1, 30, (4, 2, 2))
    made = stats.cmh(counts)
    other = tables.StratifiedTable(list(counts.astype(float)))
    test = other.test_null_odds(correction=False)
    assert made.chi2 == pytest.approx(test.statistic, rel=1e-12)
    assert made.pvalue == pytest.approx(test.pvalue, rel=1e-10)
    assert made.odds_ratio == pytest.approx(other.oddsratio_pooled, rel=1e-12)
    padded = stats.cmh(np.concatenate([counts, np.zeros((1, 2, 2), int)]))
    assert (padded.chi2, padded.n_strata) == (made.chi2, 4)
    flat = stats.cmh([[[3, 2], [0, 0]]])
    assert math.isnan(flat.chi2)
    assert flat.pvalue == 1.0
    assert math.isnan(flat.odds_ratio)
    assert stats.cmh([[[3, 0], [1, 2]]]).odds_ratio == math.inf
    one = stats.cmh([[[1, 0], [0, 0]], *counts.tolist()])
    assert one.chi2 == pytest.approx(made.chi2)
    with pytest.raises(StatisticsError, match="shape"):
        stats.cmh([[1, 2], [3, 4]])


def test_correlations_are_scipys():
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 6, 50), rng.normal(size=50)
    made = stats.correlation(x, y)
    rank, product = sps.spearmanr(x, y), sps.pearsonr(x, y)
    assert made.spearman == pytest.approx(rank.statistic, rel=1e-12)
    assert made.spearman_p == pytest.approx(rank.pvalue, rel=1e-9)
    assert made.pearson == pytest.approx(product.statistic, rel=1e-12)
    assert made.pearson_p == pytest.approx(product.pvalue, rel=1e-9)
    line = stats.correlation([1, 2, 3], [2, 4, 6])
    assert (line.pearson, line.pearson_p) == (1.0, 0.0)
    assert math.isnan(stats.correlation([1, 1], [1, 2]).pearson)
    two = stats.correlation([1, 2], [1, 2])
    assert two.spearman == 1.0
    assert math.isnan(two.spearman_p)
    assert two.pearson_p == sps.pearsonr([1, 2], [1, 2]).pvalue == 1.0
    assert math.isnan(stats.correlation([], []).spearman)
    gaps = stats.correlation([1, math.nan, 2, 3], [1, 2, 3, math.nan])
    assert (gaps.n, gaps.n_dropped) == (2, 2)


def test_correlation_over_clips():
    rng = np.random.default_rng(2)
    clip = np.repeat(np.arange(30), 3)
    x = rng.normal(size=90)
    y = x + rng.normal(size=90)
    made = stats.correlation(x, y, cluster=clip, n_resamples=400, seed=3)
    low, high = made.pearson_interval
    assert low < made.pearson < high
    assert made.n_clusters == 30
    order = rng.permutation(90)
    same = stats.correlation(
        x[order], y[order], cluster=clip[order] + 7, n_resamples=400, seed=3
    )
    assert same.spearman_interval == made.spearman_interval
    fisher = sps.pearsonr(x, y).confidence_interval()
    assert high - low == pytest.approx(fisher.high - fisher.low, rel=0.5)
    empty = stats.correlation([], [], cluster=[], n_resamples=3)
    assert math.isnan(empty.pearson_interval[0])


def test_pride_recovers_a_letter_prior():
    rng = np.random.default_rng(3)
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    content = rng.dirichlet(np.ones(4), 60)
    cycle = orders.cyclic(4)
    rotations = prior * content[:, cycle]
    single = rotations[:, 0]
    made = stats.pride(single, rotations, fraction=0.2, seed=1)
    np.testing.assert_allclose(made.prior, prior, atol=1e-6)
    assert made.estimated.sum() == 12
    truth = content.argmax(axis=1)
    rest = ~made.estimated
    assert (made.answers[rest] == truth[rest]).all()
    assert ((single.argmax(axis=1) == truth)[rest]).mean() < 1.0
    hidden = np.where(made.estimated[:, None, None], rotations, np.nan)
    same = stats.pride(single, hidden, estimated=made.estimated)
    np.testing.assert_array_equal(same.answers, made.answers)
    assert same.seed is None
    with pytest.raises(StatisticsError, match="rotations must have shape"):
        stats.pride(single, rotations[:, :3])
    with pytest.raises(StatisticsError, match="at least one"):
        stats.pride(single, rotations, estimated=np.zeros(60, bool))
    with pytest.raises(StatisticsError, match="finite probabilities"):
        stats.pride(single, hidden, seed=2)
    with pytest.raises(StatisticsError, match="letters"):
        stats.divide_by_prior(single, [0.5, 0.5])


def test_only_all_permutations_are_full():
    every = orders.all_orders(3)
    p = np.random.default_rng(4).dirichlet(np.ones(3), 6)
    made = stats.permutation_marginal(p, every)
    assert made.full
    np.testing.assert_allclose(
        made.posterior, orders.to_content(p, every).mean(axis=0), rtol=1e-9
    )
    assert not stats.permutation_marginal(p[:3], every[:3]).full
    assert not stats.permutation_marginal(p, every[[0, 0, 1, 2, 3, 4]]).full
    with pytest.raises(StatisticsError, match="do not match"):
        stats.permutation_marginal(p[:2], every)


def test_allocation_is_the_best_of_all():
    rng = np.random.default_rng(5)
    costs = np.array([64.0, 192.0, 576.0])
    for _ in range(20):
        right = rng.integers(0, 2, (5, 3))
        made = stats.allocation(right, costs)
        choices = np.stack(np.meshgrid(*[range(3)] * 5), -1).reshape(-1, 5)
        spent = costs[choices].sum(1)
        solved = right[np.arange(5), choices].sum(1)
        within = spent <= 5 * made.best_cost
        assert made.oracle_accuracy == solved[within].max() / 5
        cheapest = spent[within & (solved == solved[within].max())].min()
        assert made.oracle_cost == pytest.approx(cheapest / 5)
        assert made.headroom >= 0.0
        assert made.unlimited_accuracy == right.any(1).mean()
    none = stats.allocation(np.zeros((0, 2)), [1, 2])
    assert none.best == -1
    assert math.isnan(none.headroom)
    with pytest.raises(StatisticsError, match="positive"):
        stats.allocation([[1, 0]], [0, 1])


def test_charts_by_hand():
    made = stats.cusum([2.0, 2.0, 2.0, -9.0, 2.0], 0.0, 1.0, h=4.0)
    assert made.upper.tolist() == [1.5, 3.0, 4.5, 0.0, 1.5]
    assert made.alarms.tolist() == [2, 3, 4]
    assert made.side == "upper"
    again = stats.cusum([2.0, 2.0, 2.0, 2.0, 2.0], 0.0, 1.0, h=4.0, reset=True)
    assert again.upper.tolist() == [1.5, 3.0, 4.5, 1.5, 3.0]
    assert again.alarms.tolist() == [2]
    assert stats.cusum([], 0.0, 1.0).first_alarm == -1
    bern = stats.bernoulli_cusum([0, 0, 1, -1], 0.9, 0.5, h=3.0)
    step = math.log(0.5 / 0.1)
    assert bern.lower == pytest.approx([step, 2 * step, 2 * step + math.log(5 / 9)])
    assert (bern.upper == 0).all()
    assert bern.first_alarm == 1
    smooth = stats.ewma([1.0, 1.0], 0.0, 1.0, weight=0.5, width=1.0)
    assert smooth.statistic.tolist() == [0.5, 0.75]
    assert smooth.upper == pytest.approx([0.5, math.sqrt(1 / 3 * 15 / 16)])
    assert smooth.alarms.tolist() == [1]
    for call in (
        lambda: stats.cusum([1.0], 0.0, 0.0),
        lambda: stats.cusum([math.nan], 0.0, 1.0),
        lambda: stats.cusum([1.0], 0.0, 1.0, h=0.0),
        lambda: stats.cusum([1.0], 0.0, 1.0, k=-1.0),
        lambda: stats.bernoulli_cusum([1], 0.5, 0.5),
        lambda: stats.ewma([1.0], 0.0, 1.0, weight=0.0),
        lambda: stats.ewma([1.0], 0.0, 1.0, width=0.0),
        lambda: stats.p_chart([2], [1]),
        lambda: stats.p_chart([1, 1], [2, 2], baseline=3),
        lambda: stats.p_chart([1], [2], laney=True),
        lambda: stats.p_chart([1], [2], width=0.0),
    ):
        with pytest.raises(StatisticsError):
            call()


def test_laney_widens_overdispersed_limits():
    k, n = [130, 172, 125, 176, 150], [300] * 5
    plain = stats.p_chart(k, n)
    wide = stats.p_chart(k, n, laney=True)
    z = (np.array(k) / 300 - plain.center) / math.sqrt(
        plain.center * (1 - plain.center) / 300
    )
    factor = np.abs(np.diff(z)).mean() / 1.128
    assert wide.upper - wide.center == pytest.approx(
        factor * (plain.upper - plain.center)
    )
    assert plain.upper[0] < wide.upper[0] < 1.0


def test_flip_ratio_and_its_floor():
    rng = np.random.default_rng(6)
    rerun = rng.random(599) < 0.03
    flips = np.where(rng.random(599) < 0.2, 2 / 3, 0.0)
    made = stats.flip_ratio(flips, rerun, n_resamples=2000)
    assert made.ratio == pytest.approx(flips.mean() / rerun.mean())
    assert made.low < made.ratio < made.high
    assert made.floor < made.floor_upper
    assert made.ratio_lower < made.ratio
    none = stats.flip_ratio([1, 0, 0], [0, 0, 0], n_resamples=10)
    assert none.ratio == math.inf
    assert math.isnan(none.low)
    assert none.n_undefined == 10
    assert none.ratio_lower == pytest.approx(1 / 3 / (1 - 0.05 ** (1 / 3)))
    assert math.isnan(stats.flip_ratio([0.0], [0], n_resamples=10).ratio)
    assert math.isnan(stats.flip_ratio([], [], n_resamples=10).ratio)
    with pytest.raises(StatisticsError, match=r"in \[0, 1\]"):
        stats.flip_ratio([1.5], [0])


def test_random_draws_cluster_by_item():
    first, second = [[0, 1, 2], [1, 1, 1]], [[0, 2, 1], [1, 1, -1]]
    made = stats.random_draw_change_rate(first, second)
    assert made.mean == pytest.approx(2 / 5)
    assert (made.n, made.n_clusters, made.n_dropped) == (5, 2, 1)
    with pytest.raises(StatisticsError, match="shape"):
        stats.random_draw_change_rate([[0]], [[0, 1]])


def test_worst_views():
    answers = [[0, 0, 0], [1, 1, 0], [2, 0, 0], [1, -1, 1]]
    made = stats.worst_case_accuracy(answers, [0, 1, 0, 1])
    assert made.worst.value == pytest.approx(1 / 3)
    assert made.worst.n_dropped == 1
    assert made.view_accuracy == pytest.approx([2 / 3, 1, 2 / 3])
    assert (made.worst_view, made.best) == (0, 1.0)
    empty = stats.worst_case_accuracy(np.zeros((0, 2), int), [])
    assert math.isnan(empty.mean_accuracy)
    assert empty.worst_view == -1
    diagnostic = stats.view_diagnostic([0, 1, 0, 1], answers, [0, 1, 0, 1])
    assert (diagnostic.n, diagnostic.n_dropped, diagnostic.n_disagree) == (3, 1, 2)
    assert diagnostic.pooled_on_disagree == 1.0
    assert [test.b for test in diagnostic.tests] == [1, 0, 1]
    none = stats.view_diagnostic([0], [[0, 0]], [0])
    assert math.isnan(none.pooled_on_disagree)


def test_rank_reversals():
    made = stats.rank_reversals([[0.5, 0.6], [0.55, 0.5], [0.5, 0.4]])
    assert made.reversed_pairs.tolist() == [[0, 1]]
    assert made.rate == pytest.approx(1 / 3)
    assert made.leaders == (0, 1)
    assert made.ranks.tolist() == [[2.5, 1.0], [1.0, 2.0], [2.5, 3.0]]
    assert made.swing[0, 1] == pytest.approx(0.15)
    assert math.isnan(stats.rank_reversals([[0.5]]).rate)
    with pytest.raises(StatisticsError, match="finite"):
        stats.rank_reversals([[0.5, math.nan]])


def test_gains_by_bins():
    a, b = [1, 1, 0, 1, 1], [0, 1, 1, 1, 0]
    short, long = stats.gains_by(a, b, [0.5, 0.9, 1.0, 2.0, math.nan], [0, 1, 2])
    assert (short.n, short.difference) == (2, 0.5)
    assert (long.n, long.difference) == (2, -0.5)
    empty = stats.gains_by(a, b, [9.0] * 5, [0, 1])[0]
    assert math.isnan(empty.difference)
    with pytest.raises(StatisticsError, match="ascend"):
        stats.gains_by(a, b, [0.0] * 5, [1, 1])
