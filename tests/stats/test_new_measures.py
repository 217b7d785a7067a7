"""Distinctness, rebalanced accuracy, guided views, clustered shares, ranges of ties."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import phasefusion as pf
from phasefusion import _frames, stats
from phasefusion.errors import StatisticsError
from phasefusion.fusion import fuse_items
from phasefusion.planning import Design

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 7), (2, 10923), (2, 4097)])
def test_distance_is_its_twin(kind, shape):
    a, b = (RNG.integers(0, 256, (*shape, 3)).astype(np.uint8) for _ in range(2))
    got = _frames.distance(a, b, kind)
    np.testing.assert_allclose(got, oracle.distance(a, b, kind), rtol=1e-13)


@pytest.mark.parametrize("metric", ["absolute", "rms", "histogram"])
def test_distances_are_between_none_and_all(metric):
    black = np.zeros((2, 3, 4, 5, 3), np.uint8)
    np.testing.assert_array_equal(
        stats.visual_distinctness(black, black, metric=metric), np.zeros((2, 3))
    )
    np.testing.assert_array_equal(
        stats.visual_distinctness(black, black + np.uint8(255), metric=metric), 1.0
    )
    a, b = (RNG.integers(0, 256, (6, 9, 3)).astype(np.uint8) for _ in range(2))
    made = stats.visual_distinctness(a, b, metric=metric)
    assert made.shape == ()
    assert made == stats.visual_distinctness(b, a, metric=metric)


def test_histograms_do_not_see_where_things_are():
    frame = RNG.integers(0, 256, (6, 9, 3)).astype(np.uint8)
    moved = frame[::-1, ::-1]
    assert stats.visual_distinctness(frame, moved, metric="histogram") == 0.0
    assert stats.visual_distinctness(frame, moved) > 0.1


def test_cosine_of_features():
    a = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    b = np.array([[2.0, 0.0], [-1.0, -1.0], [1.0, 0.0]])
    made = stats.visual_distinctness(a, b, metric="cosine")
    np.testing.assert_allclose(made, [0.0, 2.0, np.nan], atol=1e-15)


def test_distance_grows_with_the_offset_of_what_moves():
    """A bar that moves by a pixel a frame, seen by three grids of four frames."""
    frames = np.zeros((48, 4, 60, 3), np.uint8)
    for i, frame in enumerate(frames):
        frame[:, i : i + 10] = 255
    grid = pf.PhaseGrid(4, 3)
    views = frames[grid.indices(48)]
    phases = [grid.phase(s) for s in range(3)]
    made = stats.distinctness_curve(views, phases, step_s=1.2)
    np.testing.assert_allclose(made.offset, [1 / 3, 1 / 3, 2 / 3])
    np.testing.assert_allclose(made.offset_s, made.offset * 1.2)
    np.testing.assert_allclose(made.distance, [8 / 60, 8 / 60, 16 / 60])
    assert made.pairs.tolist() == [[0, 1], [1, 2], [0, 2]]
    assert isinstance(phases[0], Fraction)
    found = stats.correlation(made.offset, made.distance)
    assert found.spearman == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("a", "b", "metric", "message"),
    [
        (np.zeros((2, 2, 3), np.uint8), np.zeros((2, 3, 3), np.uint8), "rms", "shape"),
        (np.zeros((2, 2, 3)), np.zeros((2, 2, 3)), "rms", "uint8"),
        (np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.uint8), "rms", "H, W, 3"),
        (np.zeros((0, 2, 3), np.uint8), np.zeros((0, 2, 3), np.uint8), "rms", "H, W"),
        ([np.nan], [1.0], "cosine", "finite"),
        (["a"], ["b"], "cosine", "numbers"),
        ([1.0], [1.0], "ssim", "metric"),
    ],
)
def test_distinctness_refuses(a, b, metric, message):
    with pytest.raises(StatisticsError, match=message):
        stats.visual_distinctness(a, b, metric=metric)


def test_curves_need_views_and_phases():
    views = np.zeros((2, 1, 2, 2, 3), np.uint8)
    with pytest.raises(StatisticsError, match="S >= 2"):
        stats.distinctness_curve(views[:1], [0.5])
    with pytest.raises(StatisticsError, match="phases"):
        stats.distinctness_curve(views, [0.5])


TABLES = arrays(np.int64, (12, 4), elements=st.integers(0, 2))


@given(TABLES, arrays(np.int64, 12, elements=st.integers(0, 2)))
def test_rebalanced_accuracy_lies_below_accuracy(answers, gold):
    made = stats.consistency_rebalanced_accuracy(answers, gold)
    worst = stats.worst_case_accuracy(answers, gold)
    assert made.mcqa == pytest.approx((answers[:, 0] == gold).mean())
    assert made.bmca == pytest.approx(worst.worst.value)  # right in all views
    assert made.cora <= made.mcqa + 1e-15
    assert made.ci == pytest.approx(1 - made.mcqa + made.bmca)
    loose = stats.consistency_rebalanced_accuracy(answers, gold, threshold=0.25)
    assert loose.bmca == pytest.approx(loose.mcqa)  # one view is the original itself
    half = stats.consistency_rebalanced_accuracy(answers, gold, threshold=0.5)
    assert made.bmca <= half.bmca <= loose.bmca


def test_rebalanced_accuracy_says_its_formula_and_what_it_left_out():
    made = stats.consistency_rebalanced_accuracy(
        [[0, 0], [0, -1], [1, 0]], [0, 0, 0], original=1, cluster=["a", "a", "b"]
    )
    assert (made.n, made.n_dropped, made.mcqa, made.bmca) == (2, 1, 1.0, 0.5)
    assert "CoRA = MCQA (1 - (MCQA - BMCA))" in str(made)
    assert "CoRA = MCQA" in made._repr_html_()
    three = [[0] * 3 + [1] * 7]
    enough = stats.consistency_rebalanced_accuracy(three, [0], threshold=0.3)
    assert enough.bmca == 1.0
    for threshold in (0.0, 1.1, np.nan):
        with pytest.raises(StatisticsError, match=r"threshold must be in \(0, 1\]"):
            stats.consistency_rebalanced_accuracy([[0, 0]], [0], threshold=threshold)
    for options in ({"original": -1}, {"original": 2}):
        with pytest.raises(StatisticsError, match="original"):
            stats.consistency_rebalanced_accuracy([[0, 0]], [0], **options)
    with pytest.raises(StatisticsError, match="gold"):
        stats.consistency_rebalanced_accuracy([[0, 0]], [0, 1])


@pytest.mark.parametrize(
    "of_gold",
    [
        stats.consistency_rebalanced_accuracy,
        stats.worst_case_accuracy,
        stats.unanimity,
        stats.lost_correct,
        lambda views, gold: stats.view_diagnostic([0, 1, 1], views, gold),
    ],
)
def test_right_answers_that_are_not_known_are_not_wrong_answers(of_gold):
    views = [[0, 0], [1, 1], [1, 0]]
    of_gold(views, [0, 1, 1])
    with pytest.raises(StatisticsError, match=r"gold\[1\] is -1.*leave items"):
        of_gold(views, [0, -1, 1])
    with pytest.raises(StatisticsError, match="2 gold answers for 3 items"):
        of_gold(views, [0, 1])


def test_worst_cases_by_item_and_by_view_are_told_apart():
    made = stats.worst_case_accuracy([[0, 1], [1, 0], [0, 0]], [0, 0, 0])
    assert made.worst.value == pytest.approx(1 / 3)
    assert made.worst_view_accuracy == pytest.approx(2 / 3)
    assert "every view" in str(made)
    assert "worst view" in str(made)


def guided_by_hand(views, accept):
    tops = [int(np.argmax(view)) for view in views]
    if max(views[0]) > accept:
        return tops[0], 1
    if tops[0] == tops[1]:
        return tops[0], 2
    if tops[2] in tops[:2]:
        return tops[2], 3
    return int(np.argmax(np.mean(views, axis=0))), 3


def test_guided_views_are_those_by_hand():
    posteriors = RNG.dirichlet([0.7] * 4, (200, 3))
    made = stats.confidence_guided(posteriors, accept=0.8)
    wanted = [guided_by_hand(views, 0.8) for views in posteriors]
    assert list(zip(made.answers, made.n_views, strict=True)) == wanted
    assert set(made.n_views) == {1, 2, 3}
    assert made.mean_views == pytest.approx(np.mean([n for _, n in wanted]))
    assert made.accepted == pytest.approx(np.mean([n == 1 for _, n in wanted]))


def test_guided_views_that_are_not_needed_may_be_missing():
    table = np.full((3, 3, 2), np.nan)
    table[0, 0] = 0.9, 0.1
    table[1, :2] = 0.6, 0.4
    table[2, 0], table[2, 1] = (0.6, 0.4), (0.4, 0.6)
    made = stats.confidence_guided(table)
    assert made.answers.tolist() == [0, 0, -1]
    assert (made.n, made.n_dropped) == (2, 1)


def names_of(n):
    return [f"set/{i}" for i in range(n)]


def test_ties_of_guided_views_are_broken_as_in_the_fusion():
    n = 40
    names = names_of(n)
    tied = np.broadcast_to([0.4, 0.4, 0.2], (n, 3, 3))
    made = stats.confidence_guided(tied, item_ids=names, seed=5)
    fused = fuse_items(np.log(tied), item_ids=names, seed=5)
    assert fused.tied.all()
    np.testing.assert_array_equal(made.answers, fused.answer)
    assert set(made.answers.tolist()) == {0, 1}  # not the first one of every item
    assert (made.tie_rate, made.mean_views) == (1.0, 2.0)
    other = stats.confidence_guided(tied, item_ids=names, seed=6)
    assert (other.answers != made.answers).any()
    # every view has its own answer, and their mean is level within rounding
    ring = np.array([[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
    made = stats.confidence_guided(np.broadcast_to(ring, (n, 3, 3)), item_ids=names)
    wanted = [stats.tie_priority(name, 3)[0] for name in names]
    np.testing.assert_array_equal(made.answers, wanted)
    assert made.tie_rate == 1.0
    assert "ties 100.00 %" in repr(made)
    with pytest.raises(StatisticsError, match="1 item ids were given for 40"):
        stats.confidence_guided(tied, item_ids=["a"])


def test_ties_that_were_not_looked_at_are_not_counted():
    sure, level = [0.9, 0.1], [0.5, 0.5]
    made = stats.confidence_guided([[sure, level, level], [[0.6, 0.4], sure, level]])
    assert made.tie_rate == 0.0


def test_ties_of_debiased_answers_are_broken_by_their_items():
    names = names_of(40)
    level = np.full((40, 3), 1 / 3)
    wanted = [stats.tie_priority(name, 3, 9)[0] for name in names]
    made = stats.divide_by_prior(level, [1 / 3] * 3, item_ids=names, seed=9)
    np.testing.assert_array_equal(made.answers, wanted)
    assert made.tied.all()
    marginals = [
        stats.permutation_marginal(
            [[1 / 3] * 3] * 3, pf.orders.cyclic(3), item_id=name, seed=9
        )
        for name in names
    ]
    assert [one.answer for one in marginals] == wanted
    assert all(one.tied for one in marginals)
    cycles = np.full((40, 3, 3), 1 / 3)
    debiased = stats.pride(level, cycles, item_ids=names, seed=9)
    np.testing.assert_array_equal(debiased.answers, wanted)
    assert debiased.n_tied == 40


@pytest.mark.parametrize(
    "table", [np.ones((2, 2, 2)), np.full((1, 3, 2), 0.7), [[[1.5, -0.5]] * 3]]
)
def test_guided_views_refuse(table):
    with pytest.raises(StatisticsError):
        stats.confidence_guided(table)


@given(st.integers(0, 10**6))
def test_clustered_shares_of_single_items_are_wilson(seed):
    rng = np.random.default_rng(seed)
    values = rng.random(40) < 0.3
    made = stats.clustered_proportion(values, np.arange(40))
    plain = stats.proportion_ci(int(values.sum()), 40)
    assert (made.k, made.n, made.n_clusters) == (plain.k, 40, 40)
    np.testing.assert_allclose([made.low, made.high], [plain.low, plain.high])


def test_clusters_that_agree_count_once():
    values = np.repeat([1, 0, 0, 1, 0, 0, 0, 0, 1, 0], 3)
    made = stats.clustered_proportion(values, np.repeat(np.arange(10), 3))
    assert made.design_effect == pytest.approx(3.0, rel=0.15)
    assert made.n_effective == pytest.approx(10, rel=0.15)
    alone = stats.proportion_ci(9, 30)
    assert made.low < alone.low < alone.high < made.high
    assert np.isnan(stats.clustered_proportion([1, 0], [0, 0]).low)
    left = stats.clustered_proportion([1, -1, 0, np.nan], [0, 0, 1, 1])
    assert (left.n, left.n_dropped) == (2, 2)


@pytest.mark.parametrize("value", [0, 1])
def test_clusters_in_which_nothing_varies_are_no_independent_items(value):
    made = stats.clustered_proportion([value] * 60, [0] * 30 + [1] * 30)
    plain = stats.proportion_ci(2 * value, 2)
    assert (made.n, made.n_effective, made.design_effect) == (60, 2.0, 30.0)
    assert (made.low, made.high) == (plain.low, plain.high)
    # the ICC is known from elsewhere
    known = Design.from_icc(0.1, 30).design_effect
    made = stats.clustered_proportion(
        [value] * 60, [0] * 30 + [1] * 30, design_effect=known
    )
    assert made.design_effect == known
    assert made.n_effective == pytest.approx(60 / 3.9)
    assert plain.low <= made.low < made.high <= plain.high
    one = stats.clustered_proportion([value] * 60, [0] * 60, design_effect=known)
    assert (one.low, one.high) == (made.low, made.high)
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(StatisticsError, match="design_effect"):
            stats.clustered_proportion([0], [0], design_effect=wrong)


def winners(counts):
    return [k for k, n in enumerate(counts) if n == max(counts)]


@given(*(arrays(np.int64, (6, 3), elements=st.integers(0, 3)) for _ in range(2)))
def test_range_of_ties_is_that_over_all_choices(a, b):
    made = stats.tie_range(a, b)
    kept = [(x, y) for x, y in zip(a, b, strict=True) if x.sum() and y.sum()]
    if not kept:
        assert np.isnan(made.low)
        return
    least = most = expected = 0.0
    for x, y in kept:
        choices = [p != q for p, q in itertools.product(winners(x), winners(y))]
        least += min(choices)
        most += max(choices)
        expected += np.mean(choices)
    n = len(kept)
    np.testing.assert_allclose(
        [made.low, made.high, made.expected], np.array([least, most, expected]) / n
    )
    assert (made.n, made.n_dropped) == (n, 6 - n)


def test_range_of_ties_refuses():
    with pytest.raises(StatisticsError, match="shape"):
        stats.tie_range([[1, 0]], [[1, 0, 0]])
    with pytest.raises(StatisticsError, match=">= 0"):
        stats.tie_range([[1, -1]], [[1, 0]])
