from __future__ import annotations

import itertools
import math

import numpy as np
import oracle_resampling as oracle
import pytest

from phasefusion import _core, stats
from phasefusion._random import tie_seeds
from phasefusion.errors import StatisticsError

UNIT = 720_720**2


def answers_of(n, s, m, k, seed=0):
    return np.random.default_rng(seed).integers(0, k, (n, s, m))


def all_halves(m, size):
    rows = []
    for first in itertools.combinations(range(m), size):
        rest = [o for o in range(m) if o not in first and o > first[0]]
        for second in itertools.combinations(rest, size):
            rows.append([1 if o in first else 2 * (o in second) for o in range(m)])
    return np.array(rows, np.uint8)


@pytest.mark.parametrize("shape", [(0, 2, 4), (1, 1, 2), (5, 3, 6), (7, 2, 7)])
@pytest.mark.parametrize("k", [2, 5, 13])
def test_kernel_is_its_twin(shape, k):
    answers = answers_of(*shape, k)
    n_options = np.full(len(answers), k)
    halves = all_halves(shape[2], shape[2] // 2)
    seeds = tie_seeds([str(i) for i in range(len(answers))])
    for tie in (None, seeds):
        got = _core.matched_votes(answers, n_options, halves, tie, True)
        want = oracle.matched_votes(answers, n_options, halves, tie)
        assert [tuple(map(int, row[:3])) for row in zip(*got, strict=True)] == [
            row[:3] for row in want
        ]
        for i, row in enumerate(want):
            assert (got[3][i], got[4][i]) == (row[3] * UNIT, row[4] * UNIT)


def test_all_splits_are_there():
    for m, size, n in [(10, 5, 126), (4, 2, 3), (7, 3, 70), (10, 4, 1575), (2, 1, 1)]:
        made = stats.matched_vote(answers_of(1, 2, m, 3), size=size, fractional=False)
        assert made.n_splits == n == len(all_halves(m, size))
    halves = {tuple(row) for row in all_halves(10, 5).tolist()}
    assert len(halves) == 126


def test_a_pure_phase_effect_and_none():
    phases = [[[s] * 10 for s in range(3)]]
    made = stats.matched_vote(phases)
    assert (made.within, made.across, made.excess) == (0.0, 1.0, 1.0)
    same = stats.matched_vote([[[2] * 10] * 3] * 4)
    assert (same.within, same.across, same.tie_rate) == (0.0, 0.0, 0.0)
    assert same.interval.se == 0.0
    lone = stats.matched_vote([[[0, 1, 0, 1]]])
    assert math.isnan(lone.across)
    assert math.isnan(lone.excess)
    assert math.isnan(lone.across_fractional)


def test_drawn_splits_tend_to_all():
    answers = answers_of(40, 3, 10, 4, 2)
    every = stats.matched_vote(answers)
    drawn = stats.matched_vote(answers, splits=3000, seed=5)
    assert drawn.n_splits == 3000
    assert drawn.within == pytest.approx(every.within, abs=0.01)
    assert drawn.across == pytest.approx(every.across, abs=0.01)
    fifty = stats.matched_vote(answers, splits=50)
    assert fifty.n_splits == 50
    assert fifty.within == pytest.approx(every.within, abs=0.05)


def test_items_with_a_gap_are_left_out():
    answers = answers_of(6, 2, 4, 3)
    full = stats.matched_vote(answers[1:], item_ids=list("bcdef"))
    answers[0, 1, 2] = -1
    made = stats.matched_vote(answers, item_ids=list("abcdef"))
    assert (made.n_used, made.n_dropped) == (5, 1)
    assert (made.within, made.across) == (full.within, full.across)
    assert np.isnan(made.per_item_within[0])
    assert made.interval.n_dropped == 1
    empty = stats.matched_vote(np.full((3, 2, 4), -1))
    assert math.isnan(empty.within)
    assert empty.n_used == 0


def test_ties_go_by_item_and_not_by_row():
    answers = answers_of(30, 3, 4, 4, 8)
    ids = [f"q{i}" for i in range(30)]
    order = np.random.default_rng(1).permutation(30)
    made = stats.matched_vote(answers, item_ids=ids, n_options=4)
    same = stats.matched_vote(
        answers[order], item_ids=[ids[i] for i in order], n_options=4
    )
    assert repr(made) == repr(same)
    np.testing.assert_array_equal(made.per_item_within[order], same.per_item_within)
    assert made.tie_rate > 0.2
    assert stats.matched_vote(answers, rule="lowest").within != made.within


def test_what_votes_leave():
    answers = answers_of(20, 1, 10, 3, 3)
    made = stats.half_split_residual(answers[:, 0], size=4)
    assert made.mean == pytest.approx(stats.matched_vote(answers, size=4).within)
    assert made.n == 20


def test_null_of_permuted_phases():
    rng = np.random.default_rng(4)
    noise = rng.integers(0, 3, (60, 3, 6))
    made = stats.matched_vote_null(noise, n_permutations=199, seed=3)
    assert made.pvalue > 0.01
    assert abs(made.null.mean()) < 4 * made.null.std() / math.sqrt(199)
    effect = np.broadcast_to(rng.integers(0, 3, (60, 3, 1)), (60, 3, 6))
    assert stats.matched_vote_null(effect, n_permutations=99).pvalue == 0.01
    ids = [str(i) for i in range(60)]
    order = rng.permutation(60)
    same = stats.matched_vote_null(
        noise[order], n_permutations=199, seed=3, item_ids=[ids[i] for i in order]
    )
    np.testing.assert_array_equal(made.null, same.null)
    shuffled = _core.matched_shuffle(noise, tie_seeds(ids), 9)
    np.testing.assert_array_equal(np.sort(shuffled, 1), np.sort(noise, 1))
    assert (shuffled != noise).any()
    with pytest.raises(StatisticsError, match="single phase"):
        stats.matched_vote_null(noise[:, :1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 3}, "size must be in 1..2"),
        ({"splits": 0}, "splits must be"),
        ({"rule": "posterior"}, "rule must be"),
        ({"item_ids": ["a"]}, "1 item ids"),
        ({"n_options": 1}, "not below"),
        ({"n_options": 33}, "n_options must be"),
        ({"n_options": [3]}, "one entry an item"),
    ],
)
def test_wrong_arguments(change, message):
    with pytest.raises(StatisticsError, match=message):
        stats.matched_vote(answers_of(2, 2, 4, 3), **change)


def test_wrong_tables():
    with pytest.raises(StatisticsError, match="3 dimensions"):
        stats.matched_vote([[0, 1]])
    with pytest.raises(StatisticsError, match="2 to 255 orders"):
        stats.matched_vote([[[0]]])
    with pytest.raises(StatisticsError, match="more than 200000"):
        stats.matched_vote(np.zeros((1, 1, 30), int))
    with pytest.raises(StatisticsError, match="16 different answers"):
        stats.matched_vote(np.arange(18).reshape(1, 1, 18), splits=2)


@pytest.mark.parametrize("rule", ["priority", "lowest"])
def test_many_different_answers(rule):
    """26 options, each once a phase: a half votes for the preferred one of its own."""
    k = 26
    table = np.stack([np.arange(k), np.roll(np.arange(k), 9)])[None]
    ids = ["q7"]
    made = stats.matched_vote(
        table, n_options=k, splits=40, rule=rule, item_ids=ids, fractional=False, seed=3
    )
    rank = np.arange(k)
    if rule == "priority":
        rank = np.argsort(stats.tie_priority("q7", k, seed=3))
    halves = stats.matched._halves(k, k // 2, 40, 3)
    votes = [
        [
            [min(view[half == h].tolist(), key=rank.__getitem__) for h in (1, 2)]
            for view in table[0]
        ]
        for half in halves
    ]
    within = np.mean([a != b for split in votes for a, b in split])
    across = np.mean([s[i][0] != s[1 - i][1] for s in votes for i in (0, 1)])
    assert made.within == pytest.approx(within)
    assert made.across == pytest.approx(across)
    assert made.tie_rate == 1.0
