from __future__ import annotations

import math

import numpy as np
import oracle
import pytest
from scipy.stats import hypergeom

from phasefusion import _core, orders, stats
from phasefusion.errors import OptionError, StatisticsError


def table(n, m, k, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    answers = rng.integers(0, k, (n, m))
    answers[rng.random((n, m)) < missing] = -1
    return answers


@pytest.mark.parametrize(
    "shape", [(0, 3), (1, 1), (7, 2), (31, 3), (257, 13), (3, 300)]
)
@pytest.mark.parametrize("missing", [0.0, 0.2, 1.0])
def test_kernels_are_their_twins(shape, missing):
    answers = table(*shape, 5, missing)
    got = np.stack(_core.flip_counts(answers, 5), axis=-1)
    wide = np.stack(_core.flip_counts(answers, 200), axis=-1)
    np.testing.assert_array_equal(got, wide)
    want = np.array([oracle.flip_counts(row) for row in answers.tolist()]).reshape(
        -1, 4
    )
    np.testing.assert_array_equal(got, want)
    use = np.random.default_rng(1).random(shape[0]) < 0.7
    for left, right in zip(
        _core.flip_pairs(answers, 5, use), oracle.flip_pairs(answers, use), strict=True
    ):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("policy", ["complete", "available-macro", "available-micro"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 2), (193, 13), (40, 255), (9, 256)])
def test_the_quick_kernel_gives_what_the_others_give(shape, policy):
    """Great labels are not for it, so that they take the slower way."""
    answers = table(*shape, 5, 0.05, seed=shape[1])
    quick = stats.flip_rates(answers, policy=policy)
    slow = stats.flip_rates(np.where(answers < 0, -1, answers + 100), policy=policy)
    for name in quick.__slots__:
        np.testing.assert_array_equal(getattr(quick, name), getattr(slow, name))
        assert type(getattr(quick, name)) is type(getattr(slow, name))


def test_rates_by_hand():
    rates = stats.flip_rates([[0, 0, 0], [0, 0, 1], [0, 1, 2], [2, 2, 2], [3, 1, 1]])
    assert rates.per_item_pairwise.tolist() == [0.0, 2 / 3, 1.0, 0.0, 2 / 3]
    assert rates.per_item_any.tolist() == [0, 1, 1, 0, 1]
    assert rates.pairwise == pytest.approx(7 / 15, rel=1e-15)
    assert rates.any == 0.6
    assert rates.n_flipped == 3
    assert rates.n_used == rates.n_complete == 5
    assert rates.n_dropped == 0
    np.testing.assert_allclose(
        rates.pair_matrix, [[0, 0.4, 0.6], [0.4, 0, 0.4], [0.6, 0.4, 0]]
    )
    assert (rates.pair_n == 5).all()


def test_policies_by_hand():
    answers = [[0, 0, 0], [0, 1, -1], [0, 0, 1], [-1, 2, -1], [-1, -1, -1]]
    complete = stats.flip_rates(answers)
    assert complete.n_used == 2
    assert complete.n_dropped == 3
    assert complete.pairwise == pytest.approx(1 / 3)
    assert complete.any == 0.5
    assert complete.pair_n[0, 1] == 2
    macro = stats.flip_rates(answers, policy="available-macro")
    assert macro.n_used == 3
    assert macro.pairwise == pytest.approx((0 + 1 + 2 / 3) / 3)
    assert macro.any == pytest.approx(2 / 3)
    assert macro.per_item_any.tolist() == [0, 1, 1, -1, -1]
    micro = stats.flip_rates(answers, policy="available-micro")
    assert micro.pairwise == pytest.approx((0 + 1 + 2) / (3 + 1 + 3))
    assert macro.pair_n.tolist() == [[3, 3, 2], [3, 4, 2], [2, 2, 2]]
    assert macro.pair_matrix[0, 1] == pytest.approx(1 / 3)
    assert [r.n_complete for r in (complete, macro, micro)] == [2, 2, 2]


def test_one_pass_is_undefined_and_not_zero():
    rates = stats.flip_rates([[0], [1]])
    assert math.isnan(rates.pairwise)
    assert math.isnan(rates.any)
    assert rates.n_used == 0
    assert rates.n_complete == 2
    assert rates.per_item_any.tolist() == [-1, -1]
    assert rates.pair_matrix.tolist() == [[0.0]]
    nothing = stats.flip_rates([[0, -1], [-1, 1]], policy="available-macro")
    assert math.isnan(nothing.pairwise)
    assert math.isnan(nothing.pair_matrix[0, 1])
    assert math.isnan(stats.flip_rates(np.zeros((0, 3), int)).any)


def test_rates_do_not_depend_on_the_order_of_items():
    answers = table(599, 13, 5, 0.1)
    rng = np.random.default_rng(2)
    plain = stats.flip_rates(answers, policy="available-macro")
    for _ in range(5):
        moved = stats.flip_rates(rng.permutation(answers), policy="available-macro")
        assert moved.pairwise == plain.pairwise


def test_macro_is_the_mean_of_the_items():
    answers = table(200, 7, 4, 0.3)
    rates = stats.flip_rates(answers, policy="available-macro")
    assert rates.pairwise == pytest.approx(
        np.nanmean(rates.per_item_pairwise), rel=1e-14
    )


def test_another_missing_value_and_large_labels():
    rates = stats.flip_rates(
        [[99, 0, 1], [2, 2, 2]], missing=99, policy="available-macro"
    )
    assert rates.per_item_any.tolist() == [1, 0]
    big = stats.flip_rates([[10**12, 10**12, 5], [7, 7, -1]], policy="available-macro")
    assert big.per_item_pairwise.tolist() == [2 / 3, 0.0]
    with pytest.raises(StatisticsError, match="300 different answers"):
        stats.flip_rates(np.arange(300).reshape(100, 3) * 10)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([0, 1, 2], "2 dimensions"),
        ([[0, 1], [2]], "cannot be read as an array"),
        ([[0.0, 1.0]], "integers"),
        ([["A", "B"]], "integers"),
        ([[0, -2]], "hold -2"),
        (np.zeros((3, 0), int), "no pass"),
    ],
)
def test_bad_answers_are_refused(answers, message):
    with pytest.raises(StatisticsError, match=message):
        stats.flip_rates(answers)


def test_bad_policy():
    with pytest.raises(StatisticsError, match="policy"):
        stats.flip_rates([[0, 1]], policy="available")


def test_repeated_orders_count_once():
    shared = orders.shared(3, 10)
    assert orders.distinct(shared).sum() == 6
    # An answer that depends on the order alone: repeats add agreeing pairs.
    answers = np.tile(shared[:, 0], (4, 1))
    naive, right = stats.flip_rates(answers), stats.order_flip_rates(answers, shared)
    assert right.pairwise == pytest.approx(0.8)
    assert naive.pairwise < 0.8
    assert naive.any == right.any == 1.0
    assert right.pair_n.shape == (6, 6)


def test_orders_item_by_item():
    three, four = orders.shared(3, 8), orders.shared(4, 8)
    answers = np.stack([three[:, 0], four[:, 0]])
    rates = stats.order_flip_rates(answers, [three, four])
    alone = [
        stats.order_flip_rates(answers[:1], three).pairwise,
        stats.order_flip_rates(answers[1:], four).pairwise,
    ]
    assert rates.per_item_pairwise.tolist() == pytest.approx(alone)
    assert rates.n_used == 2
    answers[0, 0] = -1
    assert stats.order_flip_rates(answers, [three, four]).n_used == 1
    answers[0, 0], answers[0, 7] = 0, -1  # a repeat may be missing
    assert stats.order_flip_rates(answers, [three, four]).n_used == 2


def test_orders_are_checked():
    with pytest.raises(StatisticsError, match="3 orders were given for 2"):
        stats.order_flip_rates([[0, 1]], orders.shared(3, 3))
    with pytest.raises(StatisticsError, match="2 sets of orders for 1"):
        stats.order_flip_rates([[0, 1]], [orders.shared(3, 2)] * 2)
    with pytest.raises(StatisticsError, match="as many orders"):
        stats.order_flip_rates([[0, 1]] * 2, [orders.shared(3, 2), orders.shared(3, 1)])
    with pytest.raises(OptionError, match="no permutation"):
        stats.order_flip_rates([[0, 1]], [[0, 1], [1, 1]])


def test_change_rate():
    changed = stats.change_rate([0, 1, 2, 3, -1], [0, 1, 1, -1, 2])
    assert (changed.k, changed.n, changed.n_dropped) == (1, 3, 2)
    assert math.isnan(stats.change_rate([-1], [0]).value)
    with pytest.raises(StatisticsError, match="a has 2 items"):
        stats.change_rate([0, 1], [0])


@pytest.mark.parametrize("counts", [[6, 3, 1], [3, 3, 2, 2], [10], [0, 4, 1], [1] * 7])
def test_rarefaction_by_enumeration(counts):
    total = sum(counts)
    want = [oracle.expected_any_flip(counts, m) for m in range(1, total + 1)]
    got = stats.expected_any_flip(counts, np.arange(1, total + 1))
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert math.isnan(stats.expected_any_flip(counts, total + 1))


def test_rarefaction_of_many_passes():
    counts = [700, 200, 100]
    for m in (2, 5, 50):
        want = 1 - sum(hypergeom.pmf(m, 1000, n, m) for n in counts)
        assert stats.expected_any_flip(counts, m) == pytest.approx(want, rel=1e-10)
    rows = stats.expected_any_flip([[700, 300], [2, 0], [1, 0]], 2)
    assert rows[1] == 0.0
    assert math.isnan(rows[2])


def test_rarefied_rate():
    answers = table(50, 9, 4, 0.2)
    rates = stats.flip_rates(answers, policy="available-macro")
    assert stats.rarefied_flip_rate(answers, 2) == pytest.approx(rates.pairwise)
    full = table(50, 9, 4)
    assert stats.rarefied_flip_rate(full, 9) == stats.flip_rates(full).any
    assert math.isnan(stats.rarefied_flip_rate([[0, 1]], 3))


def test_rarefaction_is_checked():
    with pytest.raises(StatisticsError, match="m must be"):
        stats.expected_any_flip([1, 2], 0)
    with pytest.raises(StatisticsError, match="counts must be >= 0"):
        stats.expected_any_flip([1, -2], 1)
    with pytest.raises(StatisticsError, match="one m"):
        stats.expected_any_flip([[1, 2]], [1, 2])


def test_repr():
    assert repr(stats.flip_rates([[0, 1]])) == (
        "FlipRates(pairwise=100.00 %, any=100.00 %, 2 passes, 1 items, 0 dropped, "
        "complete)"
    )
