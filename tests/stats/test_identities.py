"""What holds for every table of answers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from phasefusion import stats


@st.composite
def tables(draw, min_passes=2, max_passes=8, low=0, k=None):
    n, m = draw(st.integers(1, 12)), draw(st.integers(min_passes, max_passes))
    k = draw(st.integers(2, 5)) if k is None else k
    return draw(arrays(np.int64, (n, m), elements=st.integers(low, k - 1)))


@st.composite
def graded(draw):
    answers = draw(tables(k=4))
    gold = draw(arrays(np.int64, len(answers), elements=st.integers(0, 3)))
    return answers, gold


def maxdis(m, k):
    q, r = divmod(m, k)
    same = r * math.comb(q + 1, 2) + (k - r) * math.comb(q, 2)
    return 1 - same / math.comb(m, 2)


@given(tables(low=-1))
def test_pairwise_is_below_any(answers):
    rates = stats.flip_rates(answers, policy="available-macro")
    defined = rates.per_item_any >= 0
    assert (rates.per_item_pairwise[defined] <= rates.per_item_any[defined]).all()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_rarefaction_grows_and_is_concave(counts):
    total = sum(counts)
    if total < 2:
        return
    any_flip = stats.expected_any_flip(counts, np.arange(1, total + 1))
    steps = np.diff(any_flip)
    assert any_flip[0] == 0.0
    assert (steps >= -1e-15).all()
    assert (np.diff(steps) <= 1e-14).all()
    answers = np.repeat(np.arange(len(counts)), counts)[None]
    rates = stats.flip_rates(answers)
    assert any_flip[1] == rates.pairwise
    assert any_flip[-1] == rates.any


@given(tables(min_passes=3, k=4))
def test_pairwise_is_within_its_bounds(answers):
    m = answers.shape[1]
    rates = stats.flip_rates(answers)
    assert rates.any * 2 / m <= rates.pairwise * (1 + 1e-14)
    assert rates.pairwise <= rates.any * maxdis(m, 4) * (1 + 1e-14)


def test_bounds_for_thirteen_phases():
    assert maxdis(13, 4) == pytest.approx(63 / 78)
    assert maxdis(13, 5) == pytest.approx(67 / 78)
    assert maxdis(3, 4) == 1.0


@given(tables(max_passes=2, min_passes=2))
def test_two_passes_have_one_rate(answers):
    rates = stats.flip_rates(answers)
    assert rates.pairwise == rates.any == rates.pair_matrix[0, 1]


@given(tables())
def test_pair_matrix_has_the_rates_as_mean_and_is_a_metric(answers):
    rates = stats.flip_rates(answers)
    m = answers.shape[1]
    off = rates.pair_matrix[~np.eye(m, dtype=bool)]
    assert off.mean() == pytest.approx(rates.pairwise, abs=1e-14)
    for policy in ("available-macro", "available-micro"):
        same = stats.flip_rates(answers, policy=policy)
        assert same.pairwise == rates.pairwise
        assert same.any == rates.any
    f = rates.pair_matrix
    np.testing.assert_array_equal(f, f.T)
    for s, t, u in itertools.permutations(range(m), 3):
        assert f[s, u] <= f[s, t] + f[t, u] + 1e-15


@given(graded())
def test_accuracy_moves_no_more_than_answers(case):
    answers, gold = case
    rates = stats.flip_rates(answers)
    right = answers == gold[:, None]
    for s, t in itertools.combinations(range(answers.shape[1]), 2):
        b, c = stats.discordant(right[:, s], right[:, t])
        moved = stats.accuracy(right[:, s]).value - stats.accuracy(right[:, t]).value
        changed = stats.change_rate(answers[:, s], answers[:, t])
        assert abs(moved) <= rates.pair_matrix[s, t] + 1e-15
        assert abs(b - c) <= b + c <= changed.k
        assert changed.value == rates.pair_matrix[s, t]


@given(tables())
def test_any_is_between_the_worst_pair_and_a_spanning_tree(answers):
    rates = stats.flip_rates(answers)
    f = rates.pair_matrix
    m = len(f)
    assert f.max() <= rates.any <= f[0].sum() + 1e-15
    assert rates.any <= sum(f[s, s + 1] for s in range(m - 1)) + 1e-15


@given(tables(min_passes=1), st.randoms(use_true_random=False))
def test_consensus(answers, random):
    ids = [f"q{i}" for i in range(len(answers))]
    order = list(range(answers.shape[1]))
    random.shuffle(order)
    for rule in ("priority", "lowest"):
        made = stats.consensus(answers, n_options=5, rule=rule, item_ids=ids)
        moved = stats.consensus(answers[:, order], n_options=5, rule=rule, item_ids=ids)
        np.testing.assert_array_equal(made.answers, moved.answers)
        unanimous = (answers == answers[:, :1]).all(axis=1)
        np.testing.assert_array_equal(made.answers[unanimous], answers[unanimous, 0])
        one = stats.consensus(answers[:, :1], n_options=5, rule=rule, item_ids=ids)
        np.testing.assert_array_equal(one.answers, answers[:, 0])


@given(graded())
def test_unanimity_is_what_an_order_keeps(case):
    answers, gold = case
    right = answers == gold[:, None]
    score = stats.unanimity(answers, gold).value
    accuracies = right.mean(axis=0)
    for order, accuracy in enumerate(accuracies):
        lost = stats.lost_correct(answers, gold, order).value
        kept = 0.0 if accuracy == 0 else accuracy * (1 - lost)
        assert score == pytest.approx(kept, abs=1e-14)
    assert score <= accuracies.min() <= accuracies.mean() + 1e-15
    assert score <= 1 - stats.flip_rates(answers).any + 1e-15


@given(tables())
def test_fluctuation_is_one_pair_of_any_flip(answers):
    rates = stats.flip_rates(answers)
    fluctuation = stats.change_rate(answers[:, 0], answers[:, -1]).value
    assert fluctuation == rates.pair_matrix[0, -1]
    assert fluctuation <= rates.any


@given(tables(k=4))
def test_modal_share(answers):
    m = answers.shape[1]
    modal = stats.consistency(answers, "modal").per_item
    rates = stats.flip_rates(answers)
    squares = 1 - (m - 1) / m * rates.per_item_pairwise
    assert (modal >= max(1 / 4, 1 / m)).all()
    np.testing.assert_array_equal(modal == 1.0, rates.per_item_any == 0)
    assert (modal**2 <= squares + 1e-14).all()
    assert (squares <= modal + 1e-14).all()


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar(b, c):
    made, mirrored = stats.mcnemar(b, c), stats.mcnemar(c, b)
    assert made.pvalue == mirrored.pvalue
    assert made.midp == mirrored.midp
    assert 0.0 < made.midp <= made.pvalue <= 1.0
    if abs(b - c) <= 1:
        assert made.pvalue == 1.0
    if b + c:
        assert made.chi2_corrected <= made.chi2
        diff = [1] * b + [-1] * c
        clustered = stats.clustered_mcnemar(diff, range(b + c))
        assert clustered.chi2 == pytest.approx(made.chi2)


@given(tables(low=-1), st.sampled_from(["complete", "available-macro"]))
def test_consistency_is_one_minus_flip(answers, policy):
    rates = stats.flip_rates(answers, policy=policy)
    kinds = {
        kind: stats.consistency(answers, kind, policy=policy)
        for kind in ("pairwise", "unanimous", "modal")
    }
    if rates.n_used == 0:
        assert all(math.isnan(made.mean) for made in kinds.values())
        return
    assert kinds["pairwise"].mean == pytest.approx(1 - rates.pairwise, abs=1e-14)
    assert kinds["unanimous"].mean == pytest.approx(1 - rates.any, abs=1e-14)
    means = [kinds[kind].mean for kind in ("unanimous", "pairwise", "modal")]
    assert means == sorted(means)


@given(st.integers(1, 20), st.integers(1, 64))
def test_cost_of_a_dense_pass(s, b):
    ratio = stats.attention_units(s, b) / stats.attention_units(1, s * b)
    assert ratio == pytest.approx(1 / s)
    assert stats.attention_ratio(s, b, s * b) == pytest.approx(1 / s)
