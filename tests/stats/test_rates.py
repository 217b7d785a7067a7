"""Intervals, consistency, cost, unanimity, fixation, McNemar."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2, multinomial

from phasefusion import orders, stats
from phasefusion.errors import StatisticsError

METHODS = {"wilson": "wilson", "clopper-pearson": "exact", "wilson-cc": "wilsoncc"}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 7, 97])
def test_intervals_are_scipys(method, level, n):
    for k in {0, 1, n // 2, n - 1, n}:
        want = binomtest(k, n).proportion_ci(level, METHODS[method])
        got = stats.proportion_ci(k, n, level, method)
        assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=1e-12)
        assert got.value == k / n
        assert got.low <= got.value <= got.high


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (14, 599)])
def test_one_sided_bound_is_scipys(k, n):
    want = binomtest(k, n, alternative="less").proportion_ci(0.95, "exact").high
    assert stats.proportion_upper(k, n) == pytest.approx(want, rel=1e-12)


def test_published_wilson_intervals():
    # Newcombe 1998, table I: 81/263, 15/148, 0/20, 1/29.
    for k, n, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        made = stats.proportion_ci(k, n)
        assert (round(made.low, 4), round(made.high, 4)) == (low, high)


def test_no_items_is_undefined():
    nothing = stats.proportion_ci(0, 0)
    assert math.isnan(nothing.value)
    assert math.isnan(nothing.low)
    assert math.isnan(stats.proportion_upper(0, 0))
    assert math.isnan(stats.accuracy([]).value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 2), "0..n"),
        ((-1, 2), "0..n"),
        ((1.0, 2), "must be an int"),
        ((1, 2, 95), "confidence_level"),
        ((1, 2, 0.95, "wald"), "method"),
    ],
)
def test_bad_proportions(arguments, message):
    with pytest.raises(StatisticsError, match=message):
        stats.proportion_ci(*arguments)


def test_accuracy():
    assert stats.accuracy(np.array([1, 0, 1])).k == 2
    with pytest.raises(StatisticsError, match="alone"):
        stats.accuracy([0.5, 1.0])
    with pytest.raises(StatisticsError, match="shape"):
        stats.accuracy([[True]])


def test_consistency_kinds():
    answers = [
        [0, 0, 0, 0],
        [1, 1, 2, 1],
        [2, -1, 3, 2],
        [-1, 0, 0, 0],
        [0, -1, -1, -1],
    ]
    want = {
        "pairwise": [1.0, 0.5, 1 / 3, 1.0, np.nan],
        "modal": [1.0, 0.75, 2 / 3, 1.0, np.nan],
        "unanimous": [1.0, 0.0, 0.0, 1.0, np.nan],
        "anchor": [1.0, 2 / 3, 0.5, np.nan, np.nan],
    }
    for kind, values in want.items():
        macro = stats.consistency(answers, kind, policy="available-macro")
        np.testing.assert_allclose(macro.per_item, values, rtol=1e-15)
        assert macro.mean == pytest.approx(np.nanmean(values))
        complete = stats.consistency(answers, kind)
        assert complete.n_used == 2
        assert complete.n_dropped == 3
        assert complete.mean == pytest.approx(np.mean(values[:2]))
    micro = stats.consistency(answers, policy="available-micro")
    assert micro.mean == pytest.approx((12 + 6 + 2 + 6) / (12 + 12 + 6 + 6))
    with pytest.raises(StatisticsError, match="kind"):
        stats.consistency(answers, "median")


def test_rating_and_attribution():
    assert stats.stableeval_rating(0.85, 0.90) == "high"
    assert stats.stableeval_rating(0.90, 0.85) == "high"
    assert stats.stableeval_rating(0.89, 0.89) == "medium"
    assert stats.stableeval_rating(0.99, 0.7499) == "low"
    assert stats.stableeval_rating(0.75, 0.99) == "medium"
    assert stats.stableeval_rating(0.5, 0.6, thresholds=(0.4, 0.5, 0.6)) == "high"
    assert stats.attribution(0.84, 0.91) == "visual"
    assert stats.attribution(0.91, 0.84) == "language"
    assert stats.attribution(0.84, 0.84) == "cross-modal alignment"
    assert stats.attribution(0.84, 0.87) == "none"
    assert stats.attribution(0.95, 0.95) == "none"
    for bad in (math.nan, 1.2, -0.1):
        with pytest.raises(StatisticsError, match="fpc"):
            stats.stableeval_rating(bad, 0.9)
        with pytest.raises(StatisticsError, match="ooc"):
            stats.attribution(0.9, bad)
    with pytest.raises(StatisticsError, match="ascend"):
        stats.stableeval_rating(0.9, 0.9, thresholds=(0.9, 0.8, 0.7))


def test_attention_units():
    made = stats.attention_units([1, 3, 1, 1, 1, 6, 2], [8, 8, 16, 24, 32, 8, 8])
    assert made.tolist() == [64, 192, 256, 576, 1024, 384, 128]
    with_text = stats.attention_units(3, 8, tokens_per_frame=196, text_tokens=100)
    assert with_text == 3 * (8 * 196 + 100) ** 2
    assert stats.attention_ratio(3, 8, 24) == pytest.approx(1 / 3)
    assert stats.attention_ratio(
        3, 8, 32, tokens_per_frame=10, text_tokens=7
    ) == pytest.approx(3 * 87**2 / 327**2)
    with pytest.raises(StatisticsError, match="n_phases"):
        stats.attention_units(0, 8)
    with pytest.raises(StatisticsError, match="needs tokens_per_frame"):
        stats.attention_units(1, 8, text_tokens=10)
    with pytest.raises(StatisticsError, match="64 bits"):
        stats.attention_units([1], [2**32])


def test_unanimity_and_lost_correct():
    answers = [[0, 0, 0, 0], [1, 1, 2, 1], [2, 2, 2, 2], [3, 3, 3, 0], [1, -1, 1, 1]]
    gold = [0, 1, 1, 3, 1]
    score = stats.unanimity(answers, gold)
    assert (score.k, score.n, score.n_dropped) == (1, 4, 1)
    lost = stats.lost_correct(answers, gold, 0)
    assert (lost.k, lost.n) == (2, 3)
    assert math.isnan(stats.lost_correct([[1, 0]], [0], 0).value)
    with pytest.raises(StatisticsError, match="order must be"):
        stats.lost_correct(answers, gold, 4)
    with pytest.raises(StatisticsError, match="gold answers"):
        stats.unanimity(answers, [0])
    with pytest.raises(StatisticsError, match="gold"):
        stats.unanimity([[0, 0]], [-1])


def test_unanimity_over_rotations():
    rows = np.concatenate([orders.reverse(3), orders.cyclic(3)])
    answers = [[1, 0, 0, 0], [0, 0, 1, 0]]
    assert stats.unanimity(answers, [0, 0]).k == 0
    made = stats.unanimity(answers, [0, 0], orders=rows, orderings="cyclic")
    assert made.k == 1
    with pytest.raises(StatisticsError, match="lack the rotation"):
        stats.unanimity([[0, 0]], [0], orders=rows[:2], orderings="cyclic")
    with pytest.raises(StatisticsError, match="needs orders"):
        stats.unanimity(answers, [0, 0], orderings="cyclic")
    with pytest.raises(StatisticsError, match="4 orders for 2"):
        stats.unanimity([[0, 0]], [0], orders=rows, orderings="cyclic")


@pytest.mark.parametrize(("m", "k"), [(1, 4), (2, 3), (5, 2), (6, 4), (7, 3)])
def test_expected_modal_share_by_enumeration(m, k):
    splits = [c for c in itertools.product(range(m + 1), repeat=k) if sum(c) == m]
    want = sum(max(c) / m * multinomial.pmf(c, m, [1 / k] * k) for c in splits)
    assert stats.expected_modal_share(m, k) == pytest.approx(want, rel=1e-12)


def test_fixation():
    posteriors = [
        [[0.7, 0.1, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1]],
        [[0.25, 0.25, 0.25, 0.25], [0.1, 0.6, 0.2, 0.1]],
    ]
    contents, letters = [[2, 2, 2, 1], [0, 0, 3, 0]], [[0, 1, 1, 0], [1, 2, 1, 1]]
    made = stats.fixation(contents, letters, posteriors, n_options=4)
    assert made.per_item_content.tolist() == [0.75, 0.75]
    assert made.per_item_letter.tolist() == [0.5, 0.75]
    assert made.per_item_position_mass.tolist() == pytest.approx([0.55, 0.425])
    assert made.letter == 0.625
    assert made.chance == stats.expected_modal_share(4, 4)
    alone = stats.fixation(contents, n_options=4)
    assert math.isnan(alone.letter)
    with pytest.raises(StatisticsError, match="letters"):
        stats.fixation(contents, [[0, 1]], n_options=4)
    with pytest.raises(StatisticsError, match="position_posteriors"):
        stats.fixation(contents, None, [[[0.5, 0.5]]] * 2, n_options=4)


@pytest.mark.parametrize(
    ("b", "c"), [(0, 1), (3, 10), (5, 5), (0, 8), (40, 25), (222, 223)]
)
def test_mcnemar_against_the_binomial(b, c):
    made = stats.mcnemar(b, c)
    n = b + c
    exact = binomtest(b, n).pvalue
    assert made.pvalue == pytest.approx(exact, rel=1e-9)
    midp = 2 * binom.cdf(min(b, c), n, 0.5) - binom.pmf(min(b, c), n, 0.5)
    assert made.midp == pytest.approx(min(1.0, midp), rel=1e-9)
    assert made.chi2 == (b - c) ** 2 / n
    assert made.p_chi2 == pytest.approx(chi2.sf(made.chi2, 1), rel=1e-12)
    assert made.chi2_corrected == max(abs(b - c) - 1, 0) ** 2 / n
    assert made.p_chi2_corrected == pytest.approx(chi2.sf(made.chi2_corrected, 1))


def test_mcnemar_edges():
    nothing = stats.mcnemar(0, 0)
    assert nothing.pvalue == nothing.midp == nothing.p_chi2 == 1.0
    assert math.isnan(nothing.chi2)
    assert stats.mcnemar(10_000, 9_000).pvalue < 1e-12
    assert stats.discordant([1, 1, 0, 0], [1, 0, 1, 1]) == (1, 2)
    with pytest.raises(StatisticsError, match="b must be >= 0"):
        stats.mcnemar(-1, 0)
    with pytest.raises(StatisticsError, match="must be an int"):
        stats.mcnemar(1.5, 0)
    with pytest.raises(StatisticsError, match="one shape"):
        stats.discordant([1], [1, 0])
    with pytest.raises(StatisticsError, match="alone"):
        stats.discordant([2], [1])


def test_clustered_mcnemar():
    made = stats.clustered_mcnemar([1, 1, -1, 0, 1], ["a", "a", "b", "b", "c"])
    assert made.cluster_sums.tolist() == [2, -1, 1]
    assert made.z == pytest.approx(2 / math.sqrt(6))
    assert made.pvalue == pytest.approx(chi2.sf(4 / 6, 1))
    assert stats.clustered_mcnemar([1, -1], [0, 0]).pvalue == 1.0
    with pytest.raises(StatisticsError, match="cluster must"):
        stats.clustered_mcnemar([1, 0], [0])
    with pytest.raises(StatisticsError, match="alone"):
        stats.clustered_mcnemar([2], [0])
