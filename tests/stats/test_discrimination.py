from __future__ import annotations

import math

import numpy as np
import oracle_resampling as oracle
import pytest
from scipy import stats as sps

from phasefusion import _core, stats
from phasefusion.errors import StatisticsError


def scored(n, n_scores, seed=0):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    score = rng.integers(0, n_scores, n) + positive * rng.integers(0, 2, n)
    return positive, score.astype(float)


def ascending(positive, score):
    order = np.lexsort((positive, score))
    new = np.ones(len(order), bool)
    new[1:] = np.diff(score[order]) > 0
    return positive[order], score[order], new


@pytest.mark.parametrize("n", [0, 1, 2, 31, 97])
@pytest.mark.parametrize("n_scores", [1, 4, 1000])
def test_kernels_are_their_twins(n, n_scores):
    positive, score, new = ascending(*scored(n, n_scores, n))
    got = _core.ranking_placements(positive, new)
    assert got.tolist() == oracle.placements2(positive.tolist(), score.tolist())
    if n:
        areas = _core.ranking_bootstrap(positive, new, 12, 5)
        want = oracle.ranking_bootstrap(positive.tolist(), score.tolist(), 12, 5)
        np.testing.assert_array_equal(areas, want)


@pytest.mark.parametrize("n_scores", [2, 7, 10_000])
def test_auroc_is_that_of_scikit_learn_and_scipy(n_scores):
    metrics = pytest.importorskip("sklearn.metrics")
    positive, score = scored(151, n_scores, 3)
    made = stats.auroc(positive, score)
    assert made.value == pytest.approx(
        metrics.roc_auc_score(positive, score), rel=1e-13
    )
    u = sps.mannwhitneyu(score[positive], score[~positive]).statistic
    assert made.value == pytest.approx(u / (made.n_positive * made.n_negative))


def test_delong_is_the_outer_product():
    positive, score = scored(151, 9, 4)
    wins = (score[positive][:, None] > score[~positive]) + 0.5 * (
        score[positive][:, None] == score[~positive]
    )
    m, n = wins.shape
    variance = wins.mean(1).var(ddof=1) / m + wins.mean(0).var(ddof=1) / n
    made = stats.auroc(positive, score)
    assert made.variance == pytest.approx(variance, rel=1e-12)
    assert made.method == "DeLong"


def test_auroc_edges():
    ends = stats.auroc([0, 0, 1, 1, 1], [-math.inf, -2, -1, -0.5, math.inf])
    assert ends.value == 1.0
    assert ends.degenerate
    assert ends.high == 1.0
    assert ends.low == pytest.approx(math.sqrt(0.025))  # two pairs, all concordant
    assert math.isnan(ends.logit_low)
    worst = stats.auroc([1, 1, 0, 0, 0], [-math.inf, -2, -1, -0.5, math.inf])
    assert worst.low == 0.0
    assert worst.high == pytest.approx(1 - math.sqrt(0.025))
    flat = stats.auroc([0, 1, 0, 1], [2, 2, 2, 2])
    assert flat.value == 0.5
    assert (flat.low, flat.high) == pytest.approx(
        (math.sqrt(0.025) / 2, 1 - math.sqrt(0.025) / 2)
    )
    for labels in ([1, 1], [0, 0], []):
        one = stats.auroc(labels, np.arange(len(labels)))
        assert math.isnan(one.value)
        assert math.isnan(one.low)
        assert not one.degenerate
    single = stats.auroc([1, 0, 0], [3, 1, 2])
    assert single.value == 1.0
    assert math.isnan(single.variance)
    gaps = stats.auroc([1, 0, -1, 1, 0], [2, 1, 5, math.nan, math.nan])
    assert (gaps.n_positive, gaps.n_negative, gaps.n_dropped) == (1, 1, 3)
    zeros = stats.auroc([0, 1], [0.0, -0.0])
    assert zeros.value == 0.5
    with pytest.raises(StatisticsError, match=r"positive\[1\] is 2"):
        stats.auroc([0, 2], [1, 2])
    with pytest.raises(StatisticsError, match="differ in length"):
        stats.auroc([0, 1], [1.0])
    with pytest.raises(StatisticsError, match="must be numbers"):
        stats.auroc([0, 1], ["a", "b"])


def test_obuchowski_edges():
    one = stats.auroc([0, 1, 0, 1], [1, 2, 3, 4], cluster=["a"] * 4)
    assert math.isnan(one.variance)
    assert one.n_clusters == 1
    twice = stats.auroc([0, 1, 1] * 2, [1, 2, 0] * 2, cluster=[0, 1, 2] * 2)
    single = stats.auroc([0, 1, 1], [1, 2, 0])
    assert twice.value == single.value
    with pytest.raises(StatisticsError, match="cluster must have shape"):
        stats.auroc([0, 1], [1, 2], cluster=[0])


def test_bootstrap_and_delong_agree():
    positive, score = scored(400, 10_000, 6)
    made = stats.auroc_bootstrap(positive, score, n_resamples=4000, seed=2)
    delong = stats.auroc(positive, score)
    assert made.value == delong.value
    assert made.se == pytest.approx(delong.se, rel=0.05)
    assert made.low == pytest.approx(delong.low, abs=0.15 * made.se)
    order = np.random.default_rng(0).permutation(400)
    same = stats.auroc_bootstrap(positive[order], score[order], n_resamples=50, seed=2)
    np.testing.assert_array_equal(same.replicates, made.replicates[:50])
    rare = stats.auroc_bootstrap([1, 0, 0, 0], [1, 2, 3, 4], n_resamples=100)
    assert rare.n_undefined > 20
    assert len(rare.replicates) == 100 - rare.n_undefined
    nothing = stats.auroc_bootstrap([], [], n_resamples=3)
    assert math.isnan(nothing.value)
    assert nothing.n_undefined == 3


def test_cells_are_not_pooled_in_silence():
    margins = [0.1, 0.2, 3.0, 4.0, 10.0, 20.0, 300.0, 400.0]
    flipped = [1, 0, 1, 0, 1, 1, 0, -1]
    made = stats.flip_auroc(margins, flipped, cell=["a"] * 4 + ["b"] * 4)
    assert made.cells["a"].value == 0.75
    assert made.cells["b"].value == 1.0
    assert made.mean_of_cells == 0.875
    assert made.pooled.n_dropped == 1
    assert made.pooled.value == stats.auroc(flipped, -np.array(margins)).value
    lone = stats.flip_auroc([1, 2], [1, 1])
    assert math.isnan(lone.mean_of_cells)
    clustered = stats.flip_auroc(margins, flipped, cluster=[0, 1, 2, 3] * 2)
    assert clustered.pooled.n_clusters == 4


def test_the_lowest_fifth():
    made = stats.flag_lowest([0.1, 0.5, 0.5, 0.5, 2.0], [0, 1, 0, 1, 1], 0.4)
    assert (made.k, made.threshold) == (2, 0.5)
    assert made.flagged_rate == pytest.approx((0 + 2 / 3) / 2)
    assert made.unflagged_rate == pytest.approx((3 - 2 / 3) / 3)
    assert made.caught == pytest.approx(2 / 9)
    assert stats.flag_lowest(np.arange(15), np.zeros(15), 0.2).k == 3
    assert stats.flag_lowest(np.arange(10), np.zeros(10), 0.3).k == 3
    assert stats.flag_lowest(np.arange(11), np.zeros(11), 0.2).k == 3
    sure = stats.flag_lowest([math.inf, 1.0, math.nan], [0, 1, 1], 0.5)
    assert (sure.n, sure.n_dropped, sure.lift) == (2, 1, math.inf)
    none = stats.flag_lowest([], [])
    assert math.isnan(none.flagged_rate)
    assert math.isnan(none.overall)
    assert none.k == 0
    low, high = made.flagged_interval
    assert 0.0 <= low < made.flagged_rate < high <= 1.0
    with pytest.raises(StatisticsError, match="fraction"):
        stats.flag_lowest([1.0], [1], 20)


def test_what_is_said_of_flags():
    """Where nothing flips there is no lift and no share of flips to speak of."""
    some = stats.flag_lowest([0.1, 0.2, 2.0, 3.0, 4.0], [1, 0, 0, 0, 1], 0.4)
    assert repr(some) == (
        "Flagged(2 flagged of 5: 50.00 % [9.45 %, 90.55 %] of these flip, 33.33 % of "
        "the others, lift 1.5, 50.00 % of flips caught, 0 dropped, wilson at 0.95)"
    )
    one = stats.flag_lowest([0.1, 0.2, 2.0], [0, 0, 0])
    assert repr(one) == (
        "Flagged(1 flagged of 3: no item flips, flagged 0.00 % [0.00 %, 79.35 %], 0 "
        "dropped, wilson at 0.95)"
    )
    assert repr(stats.flag_lowest([], [])).startswith(
        "Flagged(0 flagged of 0: no item,"
    )
    for made in (one, stats.flag_lowest([], []), stats.flag_lowest([1.0], [0])):
        assert "nan" not in repr(made)
    every = stats.flag_lowest([1.0, 2.0], [1, 1], 1.0)
    assert "of the others" not in repr(every)
    assert repr(stats.flag_transfer([1.0, 2.0], [1, 0], 0.5)).startswith(
        "Flagged(0 flagged of 2: 50.00 % of the others flip"
    )


def test_a_threshold_from_elsewhere():
    made = stats.flag_transfer([0.1, 0.5, 0.5, 2.0], [1, 1, 0, 0], 0.5)
    assert (made.k, made.flagged_rate, made.unflagged_rate) == (3, 2 / 3, 0.0)
    nothing = stats.flag_transfer([1.0, 2.0], [1, 0], 0.5)
    assert math.isnan(nothing.flagged_rate)
    assert nothing.unflagged_rate == 0.5
    with pytest.raises(StatisticsError, match="NaN"):
        stats.flag_transfer([1.0], [1], math.nan)
