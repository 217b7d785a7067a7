"""Many columns resampled together: against a slow twin, and what must not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasefusion import _core, stats
from phasefusion.errors import StatisticsError
from phasefusion.stats import columns


def slow_replicates(values, cluster, n_resamples, seed):
    """Item by item, in the order of clusters that the rows of sums give."""
    values = np.asarray(values, float)
    values = values[~np.isnan(values).all(axis=1)] if cluster is None else values
    cluster = np.arange(len(values)) if cluster is None else np.asarray(cluster)
    groups = [values[cluster == name] for name in dict.fromkeys(cluster.tolist())]
    has_gaps = np.isnan(values).any()

    def held(rows):
        above = np.nansum(rows, axis=0).astype(np.int64)
        below = (~np.isnan(rows)).sum(axis=0).astype(np.int64)
        below = below if has_gaps else below[:1]
        return np.concatenate([above, below]).tobytes()

    groups.sort(key=held)
    made = np.empty((n_resamples, values.shape[1]))
    for r, drawn in enumerate(
        _core.resample_indices(len(groups), n_resamples, seed % 2**64)
    ):
        rows = np.concatenate([groups[g] for g in drawn])
        for j, column in enumerate(rows.T):
            known = column[~np.isnan(column)]
            made[r, j] = known.sum() / len(known) if len(known) else math.nan
    return made


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_replicates_are_those_of_a_slow_twin(gaps, clustered):
    rng = np.random.default_rng(4)
    values = rng.integers(-2, 3, (31, 5)).astype(float)
    if gaps:
        values[rng.random(values.shape) < 0.3] = np.nan
    cluster = rng.integers(0, 9, 31) if clustered else None
    made = stats.columns_bootstrap(values, cluster, n_resamples=60, seed=2**64 - 3)
    expected = slow_replicates(values, cluster, 60, 2**64 - 3)
    assert np.array_equal(made.replicates, expected, equal_nan=True)
    assert np.allclose(made.estimate, np.nanmean(values, axis=0))
    assert np.array_equal(made.n, (~np.isnan(values)).sum(axis=0))
    assert made.n_clusters == (len(set(cluster)) if clustered else 31)
    for j in range(5):
        column = expected[:, j]
        assert made.se[j] == column[~np.isnan(column)].std(ddof=1)
        low, high = np.nanpercentile(column, [2.5, 97.5])
        assert (made.low[j], made.high[j]) == pytest.approx((low, high), rel=1e-12)


def test_chunks_do_not_matter(monkeypatch):
    values = np.random.default_rng(0).integers(0, 2, (17, 3))
    whole = stats.columns_bootstrap(values, n_resamples=50, seed=9)
    monkeypatch.setattr(columns, "_CHUNK_VALUES", 17 * 7)
    parts = stats.columns_bootstrap(values, n_resamples=50, seed=9)
    assert np.array_equal(whole.replicates, parts.replicates)


def test_neither_order_nor_names_matter():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2, (40, 4))
    cluster = rng.integers(0, 12, 40)
    order = rng.permutation(40)
    one = stats.columns_bootstrap(values, cluster, n_resamples=80)
    names = np.array([f"video {97 * c % 13}" for c in cluster])
    other = stats.columns_bootstrap(values[order], names[order], n_resamples=80)
    assert np.array_equal(one.replicates, other.replicates)
    again = stats.columns_bootstrap(values, cluster, n_resamples=80, seed=1)
    assert not np.array_equal(one.replicates, again.replicates)


def test_one_column_agrees_with_the_bootstrap_of_one():
    rng = np.random.default_rng(2)
    values = rng.integers(0, 2, 300)
    cluster = rng.integers(0, 60, 300)
    many = stats.columns_bootstrap(values[:, None], cluster, n_resamples=20_000)
    one = stats.cluster_bootstrap(values, cluster, n_resamples=20_000)
    assert many.estimate[0] == one.estimate
    assert many.se[0] == pytest.approx(one.se, rel=0.03)
    assert many.low[0] == pytest.approx(one.low, abs=0.2 * one.se)
    assert many.high[0] == pytest.approx(one.high, abs=0.2 * one.se)


def test_columns_share_their_resamples():
    rng = np.random.default_rng(3)
    first = rng.integers(0, 2, 50)
    values = np.stack([first, first, 1 - first], axis=1)
    made = stats.columns_bootstrap(values, n_resamples=40)
    assert np.array_equal(made.replicates[:, 0], made.replicates[:, 1])
    assert np.allclose(made.replicates[:, 0] + made.replicates[:, 2], 1.0)


def test_without_items():
    made = stats.columns_bootstrap(np.empty((0, 2)), n_resamples=5)
    assert np.isnan(made.estimate).all()
    assert np.isnan(made.low).all()
    assert made.n.tolist() == [0, 0]
    gaps = stats.columns_bootstrap([[np.nan, 1.0], [np.nan, 0.0]], n_resamples=50)
    assert math.isnan(gaps.estimate[0])
    assert gaps.estimate[1] == 0.5
    assert "2 columns, 2 clusters" in repr(gaps)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([[0.5]], {}, r"values\[0, 0\] is 0.5; they must be whole"),
        ([[np.inf]], {}, "whole numbers"),
        ([[1e16]], {}, "whole numbers"),
        ([[2.0**52], [2.0**52]], {}, r"below 2\*\*53"),
        ([1, 0], {}, r"shape \(n, k\)"),
        ([["a"]], {}, "must be numbers"),
        ([[1]], {"n_resamples": 0}, "n_resamples must be >= 1"),
        ([[1]], {"device": "gpu"}, "device"),
        ([[1]], {"cluster": [1, 2]}, "cluster must have shape"),
        ([[1]], {"confidence_level": 1.0}, "confidence_level"),
    ],
)
def test_what_is_refused(values, options, message):
    with pytest.raises(StatisticsError, match=message):
        stats.columns_bootstrap(values, **options)
