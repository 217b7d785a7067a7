"""Means over clusters, equivalence, families of tests, certified thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as sps

from phasefusion import stats
from phasefusion.errors import StatisticsError


def clustered(n=120, g=35, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, n).astype(float), rng.integers(0, g, n)


def test_cr1_is_that_of_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    diff, cluster = clustered()
    made = stats.clustered_mean(diff, cluster, confidence_level=0.9)
    fit = api.OLS(diff, np.ones(len(diff))).fit(
        cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True
    )
    assert made.mean == pytest.approx(fit.params[0], rel=1e-12)
    assert made.se == pytest.approx(fit.bse[0], rel=1e-12)
    assert made.pvalue == pytest.approx(fit.pvalues[0], rel=1e-10)
    assert [made.low, made.high] == pytest.approx(fit.conf_int(0.1)[0].tolist())
    assert made.df == len(np.unique(cluster)) - 1
    assert made.design_effect == pytest.approx((made.se / made.se_iid) ** 2)


def test_means_do_not_depend_on_the_order():
    rng = np.random.default_rng(1)
    x, cluster = rng.normal(size=200) * 10.0 ** rng.integers(-8, 8, 200), None
    for cluster in (None, rng.integers(0, 30, 200)):
        made = stats.clustered_mean(x, cluster)
        order = rng.permutation(200)
        same = stats.clustered_mean(
            x[order], None if cluster is None else cluster[order]
        )
        assert (made.mean, made.se, made.pvalue) == (same.mean, same.se, same.pvalue)


def test_mean_edges():
    nothing = stats.clustered_mean([])
    assert math.isnan(nothing.mean)
    assert nothing.n == 0
    one = stats.clustered_mean([1.0, 0.0, 1.0], ["v", "v", "v"])
    assert one.mean == pytest.approx(2 / 3)
    assert math.isnan(one.se)
    assert math.isnan(one.low)
    assert one.n_clusters == 1
    gaps = stats.clustered_mean([1.0, math.nan, 0.0], [0, 1, 2])
    assert (gaps.n, gaps.n_clusters, gaps.n_dropped) == (2, 2, 1)
    against = stats.clustered_mean([1.0, -1.0, 1.0, -1.0], [0, 0, 1, 1])
    assert against.se == 0.0
    assert math.isnan(against.se_miller) or against.se_miller >= 0.0
    labels = np.array(["a", ("b", 1), None, "a"], dtype=object)
    assert stats.clustered_mean([1, 0, 1, 0], labels).n_clusters == 3
    with pytest.raises(StatisticsError, match="cluster holds NaN"):
        stats.clustered_mean([1, 0], [0.0, math.nan])


def test_tost_edges():
    one = stats.tost([0.0, 0.0], ["v", "v"], margin=1.0)
    assert not one.equivalent
    assert math.isnan(one.pvalue)
    assert math.isnan(stats.tost([], margin=1.0).pvalue)
    skewed = stats.tost([0.1, 0.2, 0.15, 0.12], margin=(-0.1, 0.5))
    assert (skewed.lower, skewed.upper) == (-0.1, 0.5)
    for margin in (0.0, -1.0, (1.0, 0.0), math.inf):
        with pytest.raises(StatisticsError, match="margins"):
            stats.tost([0.0, 1.0], margin=margin)
    with pytest.raises(StatisticsError, match="alpha"):
        stats.tost([0.0, 1.0], margin=1.0, alpha=0.5)


def test_published_interval():
    made = stats.implied_error(-2.09, 1.56, confidence_level=0.9)
    student = stats.implied_error(-2.09, 1.56, confidence_level=0.9, df=580)
    assert (made.center, made.half_width) == pytest.approx((-0.265, 1.825))
    assert student.se < made.se
    assert made.tost_pvalue(2.5) == pytest.approx(0.02198, abs=1e-5)
    assert student.tost_pvalue(2.09) == pytest.approx(0.05, abs=1e-6)
    with pytest.raises(StatisticsError, match="empty"):
        stats.implied_error(1, 1)


def test_adjusted_pvalues_are_those_of_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(0).random(23) ** 3
    names = {"holm": "holm", "bonferroni": "bonferroni"}
    names |= {"bh": "fdr_bh", "by": "fdr_by"}
    for ours, theirs in names.items():
        want = multitest.multipletests(p, method=theirs)[1]
        np.testing.assert_allclose(stats.adjust_pvalues(p, ours), want, rtol=1e-12)
    gaps = np.insert(p, [0, 5], math.nan)
    adjusted = stats.adjust_pvalues(gaps)
    assert np.isnan(adjusted[[0, 6]]).all()
    np.testing.assert_array_equal(
        adjusted[~np.isnan(adjusted)], stats.adjust_pvalues(p)
    )
    assert len(stats.adjust_pvalues([])) == 0
    with pytest.raises(StatisticsError, match=r"in \[0, 1\]"):
        stats.adjust_pvalues([0.1, 5.0])
    with pytest.raises(StatisticsError, match="method"):
        stats.adjust_pvalues([0.1], "fdr")  # type: ignore[arg-type]


def test_cochran_q_is_that_of_statsmodels():
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    table = np.random.default_rng(2).integers(0, 2, (40, 4))
    made = stats.cochran_q(table)
    other = contingency.cochrans_q(table)
    assert made.q == pytest.approx(other.statistic, rel=1e-12)
    assert made.pvalue == pytest.approx(other.pvalue, rel=1e-10)
    pair = stats.cochran_q(table[:, :2])
    assert pair.q == pytest.approx(
        stats.mcnemar(*stats.discordant(table[:, 0], table[:, 1])).chi2
    )
    same = stats.cochran_q([[1, 1, 1], [0, 0, 0]])
    assert math.isnan(same.q)
    assert same.pvalue == 1.0
    gaps = stats.cochran_q([[1, 0, 1], [1, -1, 0]])
    assert (gaps.n, gaps.n_dropped) == (1, 1)
    with pytest.raises(StatisticsError, match="k >= 2"):
        stats.cochran_q([[1], [0]])


def test_risk_coverage_by_hand():
    made = stats.risk_coverage([3, 2, 2, 1], [0, 1, 0, 1])
    assert made.thresholds.tolist() == [3, 2, 1]
    assert made.n_selected.tolist() == [1, 3, 4]
    assert made.n_errors.tolist() == [0, 1, 2]
    assert made.aurc == pytest.approx((0 + 0.25 + 1 / 3 + 0.5) / 4)
    assert made.e_aurc == pytest.approx(made.aurc - (0 + 0 + 1 / 3 + 0.5) / 4)
    assert made.risk_at([0.25, 0.5, 1.0]).tolist() == [0.0, 0.25, 0.5]
    nothing = stats.risk_coverage([], [])
    assert math.isnan(nothing.aurc)
    assert len(nothing.risk) == 0
    assert np.isnan(nothing.risk_at([0.5])).all()
    gaps = stats.risk_coverage([math.inf, math.nan, 0.0], [0, 1, -1])
    assert (gaps.n, gaps.n_dropped) == (1, 2)
    with pytest.raises(StatisticsError, match="coverage"):
        made.risk_at(0.0)


def test_the_walk_never_skips():
    made = stats.fixed_sequence([25, 50, 100], [3, 4, 8], alpha=0.2, delta=0.1)
    assert made.certified == 0
    assert made.last == -1
    assert made.bonferroni == 2
    assert not made.underpowered
    np.testing.assert_allclose(
        made.pvalues, sps.binom.cdf([3, 4, 8], [25, 50, 100], 0.2), rtol=1e-12
    )
    few = stats.fixed_sequence([10, 50], [0, 0], alpha=0.2, delta=0.1)
    assert few.underpowered
    assert few.certified == 0
    none = stats.fixed_sequence([0, 50], [0, 0], alpha=0.2, delta=0.1)
    assert none.pvalues[0] == 1.0
    empty = stats.fixed_sequence([], [], alpha=0.2, delta=0.1)
    assert empty.certified == 0
    assert empty.underpowered
    wrong = stats.fixed_sequence([5], [5], alpha=0.2, delta=0.1)
    assert wrong.pvalues[0] == 1.0
    for n, k in [([5], [6]), ([5], [-1])]:
        with pytest.raises(StatisticsError, match="n_errors"):
            stats.fixed_sequence(n, k, alpha=0.2, delta=0.1)
    with pytest.raises(StatisticsError, match="alpha"):
        stats.fixed_sequence([5], [0], alpha=20, delta=0.1)


def test_smallest_certifiable_is_smallest():
    for alpha in (0.01, 0.05, 0.2, 0.5, 0.9):
        for delta in (0.01, 0.05, 0.1, 0.5):
            n = stats.smallest_certifiable(alpha, delta)
            assert (1 - alpha) ** n <= delta * (1 + 1e-12)
            assert n == 1 or (1 - alpha) ** (n - 1) > delta * (1 - 1e-12)


def test_control_risk_counts_what_is_selected():
    scores = [0.9, 0.8, 0.8, 0.4, math.nan]
    made = stats.control_risk(
        scores, [0, 1, 0, 1, 0], [0.85, 0.8, 0.1], alpha=0.5, delta=0.9
    )
    assert made.n_selected.tolist() == [1, 3, 4]
    assert made.n_errors.tolist() == [0, 1, 2]
    with pytest.raises(StatisticsError, match="descend"):
        stats.control_risk([1.0], [0], [0.5, 0.5], alpha=0.2, delta=0.1)


def test_hoeffding_bentkus_bounds_the_tail():
    risk = np.linspace(0, 1, 21)
    tail = stats.hoeffding_bentkus(risk, 100, 0.2, binary=True)
    bound = stats.hoeffding_bentkus(risk, 100, 0.2)
    np.testing.assert_allclose(tail, sps.binom.cdf(np.round(100 * risk), 100, 0.2))
    assert (bound >= tail * (1 - 1e-12)).all()
    assert (bound <= 1).all()
    exact = stats.hoeffding_bentkus(0.28, 25, 0.4, binary=True)
    assert exact == pytest.approx(sps.binom.cdf(7, 25, 0.4))
    for risk, n in [(1.5, 10), (0.5, 0), (0.5, 2.5)]:
        with pytest.raises(StatisticsError):
            stats.hoeffding_bentkus(risk, n, 0.2)
