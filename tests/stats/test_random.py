from __future__ import annotations

import itertools

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasefusion import _core, stats
from phasefusion.errors import OptionError, StatisticsError

# From the FNV reference distribution's table of test strings.
FNV = {
    "": 0xCBF29CE484222325,
    "a": 0xAF63DC4C8601EC8C,
    "b": 0xAF63DF4C8601F1A5,
    "foobar": 0x85944171F73967E8,
}
# First outputs of the reference C implementation for seed 1234567.
SPLITMIX = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


@pytest.mark.parametrize(("text", "hashed"), FNV.items())
def test_fnv_published_vectors(text, hashed):
    assert stats.fnv1a64(text) == hashed == stats.fnv1a64(text.encode())


def test_splitmix_published_vectors():
    assert stats.splitmix64(1234567, 5).tolist() == SPLITMIX
    assert stats.splitmix64(0, 3).tolist()[0] == 0xE220A8397B1DCDAF


@given(st.text(), st.integers(-(2**70), 2**70))
def test_twins(text, seed):
    assert stats.fnv1a64(text) == oracle.fnv1a64(text.encode())
    draws = oracle.splitmix64(seed)
    assert stats.splitmix64(seed, 4).tolist() == list(itertools.islice(draws, 4))


@given(st.lists(st.text(max_size=5)), st.integers(0, 2**64 - 1))
def test_tie_seeds_are_hashes(ids, seed):
    want = [oracle.fnv1a64(text.encode()) ^ seed for text in ids]
    assert _core.tie_seeds(ids, seed).tolist() == want


@given(st.text(max_size=8), st.integers(1, 32), st.integers(0, 2**64 - 1))
def test_tie_priority_is_its_twin(item_id, n_options, seed):
    draws = oracle.splitmix64(oracle.fnv1a64(item_id.encode()) ^ seed)
    want = oracle.permutation(draws, n_options)
    assert stats.tie_priority(item_id, n_options, seed).tolist() == want


def test_tie_priority_favours_no_option():
    first = [int(stats.tie_priority(f"q{i}", 4)[0]) for i in range(4000)]
    counts = np.bincount(first, minlength=4)
    assert abs(counts - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)


def test_permutations_are_uniform():
    rows = _core.permutations(7, 3, 6000)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == 6
    assert abs(counts - 1000).max() < 5 * np.sqrt(6000 / 6 * 5 / 6)


def test_bad_arguments():
    with pytest.raises(StatisticsError, match="n must be"):
        stats.splitmix64(0, -1)
    with pytest.raises(OptionError, match=r"1\.\.32"):
        stats.tie_priority("q", 33)
    with pytest.raises(TypeError):
        _core.fnv1a64("text")
    with pytest.raises(TypeError):
        _core.tie_seeds([3], 0)
    with pytest.raises(ValueError, match="out of range"):
        _core.permutations(0, -1, 1)
