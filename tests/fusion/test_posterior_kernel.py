"""The C kernels of posteriors and orders against their twins in oracle.py."""

from __future__ import annotations

import math

import numpy as np
import oracle
import pytest

from phasefusion import _core

NAMES = ("posterior", "margin", "answer", "n_tied", "n_valid")
NAMES += ("pass_answer", "pass_margin", "pass_state")


def cases(shape, seed):
    """Random passes with everything that may go wrong in one of them."""
    rng = np.random.default_rng(seed)
    logp = (
        rng.normal(scale=3.0, size=shape)
        + rng.normal(scale=50.0, size=shape[:1])[:, None, None]
    )
    rows = logp.reshape(-1, shape[2])
    for value in (np.nan, np.inf, -np.inf):
        for row in rng.integers(0, max(len(rows), 1), len(rows) // 8):
            rows[row, rng.integers(shape[2])] = value
    if len(rows) > 4:
        rows[0] = -np.inf
        rows[1] = rows[1, 0]  # all tied
        rows[2] = np.round(rows[2])
    n_options = rng.integers(max(1, shape[2] - 2), shape[2] + 1, shape[0])
    seeds = rng.integers(0, 2**63, shape[0]).astype(np.uint64)
    return logp, n_options, seeds


@pytest.mark.parametrize("shape", oracle.POSTERIOR_SHAPES, ids=str)
@pytest.mark.parametrize("pool", [0, 1])
@pytest.mark.parametrize("missing", [0, 1])
def test_fuse_is_its_twin(shape, pool, missing):
    logp, n_options, seeds = cases(shape, shape[0] + pool)
    got = _core.fuse(logp, n_options, seeds, pool, missing, True)
    want = oracle.fuse(logp, n_options, seeds, pool, missing)
    for name, left, right in zip(NAMES, got, want, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14, err_msg=name)


def test_bits_do_not_depend_on_the_other_items_of_a_block():
    logp, n_options, seeds = cases((70, 3, 5), 1)
    together = _core.fuse(logp, n_options, seeds, 0, 1, True)
    for i in range(70):
        one = slice(i, i + 1)
        alone = _core.fuse(logp[one].copy(), n_options[one], seeds[one], 0, 1, True)
        for left, right in zip(alone, together, strict=True):
            np.testing.assert_array_equal(left, right[one])


@pytest.mark.parametrize("shape", oracle.POSTERIOR_SHAPES, ids=str)
@pytest.mark.parametrize("pool", [0, 1])
@pytest.mark.parametrize("missing", [0, 1])
def test_results_are_the_same_without_those_of_passes(shape, pool, missing):
    logp, n_options, seeds = cases(shape, shape[1])
    whole = _core.fuse(logp, n_options, seeds, pool, missing, True)
    lean = _core.fuse(logp, n_options, seeds, pool, missing, False)
    for place, name in enumerate(NAMES):
        if place in (5, 6):
            assert lean[place].shape == (shape[0], 0)
        else:
            np.testing.assert_array_equal(lean[place], whole[place], err_msg=name)


def test_none_is_all_options():
    logp, _, seeds = cases((40, 3, 5), 4)
    full = np.full(40, 5)
    for named, unnamed in zip(
        _core.fuse(logp, full, seeds, 0, 1, True),
        _core.fuse(logp, None, seeds, 0, 1, True),
        strict=True,
    ):
        np.testing.assert_array_equal(named, unnamed)


def test_nan_of_any_payload_makes_a_pass_invalid():
    bits = [0x7FF8000000000000, 0x7FF0000000000FFF, 0xFFFFFFFFFFFFFFFF]
    rows = np.zeros((3, 1, 3))
    rows[:, 0, 1] = np.array(bits, np.uint64).view(np.float64)
    results = _core.fuse(rows, None, np.zeros(3, np.uint64), 0, 1, True)
    assert (results[7] == 1).all()
    assert (results[2] == -1).all()
    assert np.isnan(results[0]).all()


def test_input_is_left_alone():
    logp, n_options, seeds = cases((9, 3, 4), 2)
    before = logp.copy()
    logp.flags.writeable = False
    _core.fuse(logp, n_options, seeds, 0, 0, True)
    np.testing.assert_array_equal(logp, before)


def test_exponential_over_its_range():
    x = np.concatenate([-np.logspace(-300, 2.85, 4000), -np.linspace(0, 708, 4001)])
    logp = np.stack([np.zeros_like(x), x], axis=-1)[:, None]
    n = len(x)
    no_seeds = np.zeros(n, np.uint64)
    posterior = _core.fuse(logp, None, no_seeds, 0, 0, True)[0]
    odds = [math.exp(value) for value in x]
    np.testing.assert_allclose(posterior[:, 1], odds / (1 + np.array(odds)), rtol=1e-15)


def test_orders_are_mapped_and_checked():
    rng = np.random.default_rng(0)
    orders = np.array([rng.permutation(7) for _ in range(5)])
    values = rng.normal(size=(11, 5, 7))
    content = _core.to_content(values, orders)
    np.testing.assert_array_equal(content, oracle.to_content(values, orders))
    np.testing.assert_array_equal(_core.to_letters(content, orders), values)
    assert _core.bad_order(orders) == -1
    orders[3, 0] = orders[3, 1]
    assert _core.bad_order(orders) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((1, 2)), [2], [0], 0, 0), "3 dimensions"),
        ((np.zeros((1, 2, 2)), [2, 2], [0], 0, 0), "one entry an item"),
        ((np.zeros((1, 2, 2)), [3], [0], 0, 0), "out of range"),
        ((np.zeros((1, 0, 2)), [2], [0], 0, 0), "out of range"),
        ((np.zeros((1, 1, 33)), [2], [0], 0, 0), "out of range"),
        ((np.zeros((1, 1, 2)), [2], [0], 2, 0), "pool"),
        ((np.zeros((1, 1, 2)), [2], [0], 0, -1), "missing"),
    ],
)
def test_kernel_refuses(arguments, message):
    logp, n_options, seeds, pool, missing = arguments
    with pytest.raises(ValueError, match=message):
        _core.fuse(
            logp, np.array(n_options), np.array(seeds, np.uint64), pool, missing, True
        )


def test_mapping_refuses_shapes_and_rows():
    values = np.zeros((1, 2, 3))
    with pytest.raises(ValueError, match="orders"):
        _core.to_content(values, np.array([[0, 1, 2]]))
    with pytest.raises(ValueError, match="orders"):
        _core.to_letters(values, np.array([[0, 1, 2], [0, 0, 1]]))
