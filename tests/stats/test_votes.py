from __future__ import annotations

import math

import numpy as np
import oracle
import pytest
from scipy.stats import mode

from phasefusion import _core, stats
from phasefusion.errors import StatisticsError

RULES = ("posterior", "priority", "lowest", "first")


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (50, 2), (101, 4), (40, 10)])
@pytest.mark.parametrize("rule", RULES)
def test_kernel_is_its_twin(shape, rule):
    rng = np.random.default_rng(shape[0])
    n_options = rng.integers(2, 6, shape[0])
    votes = rng.integers(-1, n_options[:, None], shape)
    posterior = rng.dirichlet(np.ones(5), shape[0]).reshape(shape[0], 5).round(1)
    posterior[rng.random(shape[0]) < 0.1] = np.nan
    seeds = rng.integers(0, 2**63, shape[0]).astype(np.uint64)
    got = _core.consensus(votes, n_options, seeds, posterior, 5, RULES.index(rule))
    for i in range(shape[0]):
        k = int(n_options[i])
        answer, n_tied, counts = oracle.plurality(
            votes[i].tolist(), k, int(seeds[i]), posterior[i], rule
        )
        assert got[0][i] == answer
        assert got[1][i] == n_tied
        assert got[2][i].tolist() == counts + [0] * (5 - k)


def test_lowest_is_scipys_mode():
    votes = np.random.default_rng(0).integers(0, 4, (200, 5))
    made = stats.consensus(votes, rule="lowest")
    np.testing.assert_array_equal(made.answers, mode(votes, axis=1).mode)
    assert made.tie_rate == pytest.approx(np.mean(made.n_tied > 1))


def test_one_item():
    made = stats.consensus([3, 2, 2, 3], n_options=4, rule="first")
    assert made.answers == 3
    assert made.n_tied == 2
    assert made.counts.tolist() == [0, 0, 2, 2]
    assert made.tied_answers.tolist() == [False, False, True, True]
    nothing = stats.consensus([-1, -1], n_options=4)
    assert nothing.answers == -1
    assert nothing.n_tied == 0
    assert not nothing.tied_answers.any()
    assert math.isnan(nothing.tie_rate)


def test_posterior_breaks_ties_then_priority():
    votes = [[0, 0, 1, 1]] * 30
    ids = [f"q{i}" for i in range(30)]
    made = stats.consensus(votes, mean_posterior=[[0.3, 0.4, 0.3]] * 30, item_ids=ids)
    assert made.rule == "posterior"
    assert set(made.answers.tolist()) == {1}
    flat = stats.consensus(votes, mean_posterior=[[0.4, 0.4, 0.2]] * 30, item_ids=ids)
    neutral = stats.consensus(votes, n_options=3, item_ids=ids)
    np.testing.assert_array_equal(flat.answers, neutral.answers)
    assert set(neutral.answers.tolist()) == {0, 1}


def test_ties_of_an_item_are_the_same_in_every_arm():
    ids = [f"q{i}" for i in range(50)]
    a = stats.consensus([[0, 1]] * 50, n_options=4, item_ids=ids)
    b = stats.consensus([[1, 0]] * 50, n_options=4, item_ids=ids)
    np.testing.assert_array_equal(a.answers, b.answers)
    moved = stats.consensus([[0, 1]] * 50, n_options=4, item_ids=ids, seed=1)
    assert (a.answers != moved.answers).any()


def test_majority_vote_is_neutral_by_default():
    posterior = [[0.9, 0.1]] * 40
    ids = [f"q{i}" for i in range(40)]
    vote = stats.majority_vote([[0, 1]] * 40, mean_posterior=posterior, item_ids=ids)
    assert vote.rule == "priority"
    assert vote.tie_rate == 1.0
    assert set(vote.answers.tolist()) == {0, 1}
    first = stats.majority_vote([[1, 0]], rule="first")
    assert first.answers.tolist() == [1]


@pytest.mark.parametrize(
    ("votes", "options", "message"),
    [
        ([[0, 1]], {"rule": "random"}, "rule must be"),
        ([[0, 1]], {"rule": "posterior"}, "needs mean_posterior"),
        ([[0, 3]], {"n_options": 3}, r"votes\[0, 1\] is 3"),
        ([[0, 1]], {"n_options": 40}, r"1\.\.32"),
        ([[0, 1]], {"n_options": [2, 2]}, "one entry an item"),
        ([[0, 1]], {"item_ids": ["a", "b"]}, "2 item ids"),
        ([[0, 1]], {"mean_posterior": [[0.5, 0.5]] * 2}, "one row"),
        ([[0, 2]], {"mean_posterior": [[0.5, 0.5]]}, "has 2 options"),
        ([[0, 1]], {"mean_posterior": [[0.5, 0.5]], "n_options": 3}, r"1\.\.2"),
        ([[0.5, 1]], {}, "integers"),
    ],
)
def test_bad_votes(votes, options, message):
    with pytest.raises(StatisticsError, match=message):
        stats.consensus(votes, **options)


def test_repr():
    assert repr(stats.consensus([[0, 1], [1, 1]], rule="lowest")) == (
        "Consensus(2 items, 0 without a vote, tie_rate=50.00 %, lowest)"
    )
