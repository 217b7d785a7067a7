from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion import orders
from phasefusion.errors import OptionError, OptionWarning


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 26])
def test_every_set_is_made_of_permutations(k):
    made = [orders.identity(k), orders.reverse(k), orders.cyclic(k), orders.latin(k)]
    made += [orders.shared(k), orders.shared(k, 3, seed=5)]
    for rows in made:
        assert rows.dtype == np.int64
        assert rows.shape[1] == k
        assert (np.sort(rows, axis=1) == np.arange(k)).all()


@pytest.mark.parametrize("k", [2, 3, 5, 7])
def test_cyclic_puts_every_content_at_every_letter_once(k):
    square = orders.cyclic(k)
    for place in range(k):
        assert sorted(square[:, place]) == list(range(k))
    assert [tuple(row) for row in square] == [
        tuple((p + v) % k for p in range(k)) for v in range(k)
    ]


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_latin_with_more_views(k):
    """Each further K are a square of their own, until all orders are there once."""
    n = math.factorial(k)
    made = orders.latin(k, n)
    assert sorted(map(tuple, made)) == list(itertools.permutations(range(k)))
    np.testing.assert_array_equal(made[:k], orders.cyclic(k))
    for v in range(1, n + 1):
        some = orders.latin(k, v, unbalanced="allow")
        np.testing.assert_array_equal(some, made[:v])
        counts = orders.letter_counts(some)
        assert counts.sum(axis=0).tolist() == counts.sum(axis=1).tolist() == [v] * k
        assert orders.is_balanced(some) == (v % k == 0) == (np.ptp(counts) == 0)
        assert np.ptp(counts) <= 1


@pytest.mark.parametrize("k", [3, 5, 7])
def test_latin_squares_of_a_prime_balance_pairs(k):
    """Every two contents are at every two letters once."""
    made = orders.latin(k, k * (k - 1))
    for p, q in itertools.combinations(range(k), 2):
        there = sorted(zip(made[:, p].tolist(), made[:, q].tolist(), strict=True))
        assert there == sorted(itertools.permutations(range(k), 2))


def test_latin_refuses():
    with pytest.warns(OptionWarning, match="multiple of 4"):
        assert orders.latin(4, 6).shape == (6, 4)
    with pytest.raises(OptionError, match="6 views of 4 options are not balanced"):
        orders.latin(4, 6, unbalanced="error")
    for n_views in (0, 25):
        with pytest.raises(OptionError, match=r"1\.\.24, the number of orders of 4"):
            orders.latin(4, n_views)


def test_orders_of_views():
    assert orders.ends(2).tolist() == [[0, 1], [1, 0]]
    assert orders.ends(5)[1].tolist() == [4, 1, 2, 3, 0]
    assert orders.pairs(5).tolist() == [[1, 0, 3, 2, 4]]
    assert orders.halves(5).tolist() == [[2, 3, 4, 0, 1]]
    klein = [orders.identity(4), orders.pairs(4), orders.halves(4), orders.reverse(4)]
    assert orders.is_balanced(np.concatenate(klein))


def test_all_orders():
    got = [tuple(row) for row in orders.all_orders(4)]
    assert got == list(itertools.permutations(range(4)))
    with pytest.raises(OptionError, match="362880 orders"):
        orders.all_orders(9)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("n", [1, 2, 7, 10, 24, 130])
def test_shared_is_distinct_while_it_can_be(k, n):
    rows = orders.shared(k, n, seed=3)
    assert rows.shape == (n, k)
    assert rows[0].tolist() == list(range(k))
    mask = orders.distinct(rows)
    n_distinct = min(n, math.factorial(k))
    assert mask[:n_distinct].all()
    assert not mask[n_distinct:].any()
    assert len({tuple(row) for row in rows}) == n_distinct


@given(k=st.integers(2, 6), n=st.integers(1, 20), seed=st.integers(-(2**70), 2**70))
def test_a_smaller_shared_set_is_a_prefix(k, n, seed):
    np.testing.assert_array_equal(
        orders.shared(k, n, seed), orders.shared(k, n + 7, seed)[:n]
    )


def test_shared_does_not_move():
    # Runs are compared over years: these rows may never change.
    pinned = [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [4, 0, 3, 1, 2], [0, 3, 2, 4, 1]]
    assert orders.shared(5, 4, seed=1).tolist() == pinned
    assert orders.shared(4, 10).tolist() != orders.shared(4, 10, seed=1).tolist()


def test_distinct_of_nothing():
    assert orders.distinct(np.zeros((0, 4), int)).shape == (0,)


@st.composite
def mapped(draw):
    k = draw(st.integers(2, 6))
    rows = draw(st.lists(st.permutations(range(k)), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return np.array(rows), rng.normal(size=(3, len(rows), k))


@given(mapped())
def test_content_and_letters_are_inverse(case):
    rows, values = case
    content = orders.to_content(values, rows)
    np.testing.assert_array_equal(orders.to_letters(content, rows), values)
    letters = values.argmax(-1)
    contents = orders.answers_to_content(letters, rows)
    np.testing.assert_array_equal(contents, content.argmax(-1))
    np.testing.assert_array_equal(orders.answers_to_letters(contents, rows), letters)


def test_answers_keep_missing():
    rows = [[1, 0, 2], [2, 1, 0]]
    assert orders.answers_to_content([-1, 0], rows).tolist() == [-1, 2]
    assert orders.answers_to_letters([-1, 0], rows).tolist() == [-1, 2]
    assert orders.answers_to_content([[0, 1], [2, -1]], [1, 0, 2]).tolist() == [
        [1, 0],
        [2, -1],
    ]


@pytest.mark.parametrize("k", [0, 1, 27, -3, 2.0, True, "4"])
def test_number_of_options_is_checked(k):
    with pytest.raises(OptionError, match="number of options"):
        orders.identity(k)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1], [1, 1]], r"orders\[1\] is \[1, 1\]"),
        ([[0, 2]], "no permutation of 0..1"),
        ([[0, -1]], "no permutation"),
        ([[0.0, 1.0]], "integers"),
        ([[0, 1], [0]], "cannot be read as an array"),
        (np.zeros((2, 0), int), "integers of shape"),
        (np.zeros((1, 1, 1), int), "integers of shape"),
        ([list(range(27))], "letters end at 26"),
    ],
)
def test_bad_orders_are_named(rows, message):
    with pytest.raises(OptionError, match=message):
        orders.validate(rows)


def test_shapes_and_answers_are_checked():
    with pytest.raises(OptionError, match="shape \\(2, 3\\)"):
        orders.to_content(np.zeros((3, 3)), [[0, 1, 2], [2, 1, 0]])
    with pytest.raises(OptionError, match="columns"):
        orders.answers_to_content([0, 1, 2], [[0, 1, 2], [2, 1, 0]])
    with pytest.raises(OptionError, match="from 0 to 3"):
        orders.answers_to_content([0, 3], [[0, 1, 2], [2, 1, 0]])
    with pytest.raises(OptionError, match="float64"):
        orders.answers_to_content([0.0, 1.0], [[0, 1, 2], [2, 1, 0]])
    with pytest.raises(OptionError, match="n must be"):
        orders.shared(4, 0)
