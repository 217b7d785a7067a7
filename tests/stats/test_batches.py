"""Charts of clustered batches: false alarms, detection, and what is refused."""

import numpy as np
import pytest
from batch_series import item_values, summaries
from scipy.special import ndtr

from phasefusion.errors import StatisticsError
from phasefusion.stats import (
    batch_baseline,
    batch_chart,
    cusum,
    cusum_limit,
    self_starting_cusum,
)

N_BASE, N_AFTER = 10, 40


@pytest.fixture(scope="module")
def good_series():
    """Means, errors and sizes of 120 series of batches of one corpus, in control.

    60 videos of three questions a batch; no video is in two batches of a series.
    """
    rng = np.random.default_rng(1)
    made = []
    for seed in range(3):
        values, videos = item_values(n_videos=6000, seed=seed)
        for _ in range(20):
            drawn = rng.permutation(6000).reshape(2, N_BASE + N_AFTER, 60)
            made += [summaries(values, videos, batches) for batches in drawn]
    return made


def of_measures(series):
    for means, errors, sizes in series:
        for j in range(means.shape[1]):
            base = batch_baseline(means[:N_BASE, j], errors[:N_BASE, j], sizes[:N_BASE])
            yield base, means[N_BASE:, j], sizes[N_BASE:]


@pytest.mark.parametrize("width", [2.5, 3.0])
def test_good_batches_are_outside_as_rarely_as_promised(good_series, width):
    shares = np.array(
        [
            len(batch_chart(x, n, base, width=width).alarms) / N_AFTER
            for base, x, n in of_measures(good_series)
        ]
    )
    error = shares.std() / np.sqrt(len(shares))  # series are independent, batches not
    assert len(shares) == 360
    assert abs(shares.mean() - 2 * ndtr(-width)) < 3.5 * error


def test_independent_items_would_alarm_far_too_often(good_series):
    outside = total = 0
    for base, x, n in of_measures(good_series):
        half = 3.0 * np.sqrt(base.center * (1 - base.center) / 9 / n)
        outside += int((np.abs(x - base.center) > half).sum())
        total += len(x)
    assert outside / total > 10 * 2 * ndtr(-3.0)


def test_a_cusum_alarms_as_rarely_as_with_a_known_baseline(good_series):
    h = cusum_limit(60)
    rng = np.random.default_rng(2)
    found, known = [], []
    for base, x, n in of_measures(good_series):
        found.append(self_starting_cusum(x, n, base, h=h).first_alarm >= 0)
        normal = rng.normal(size=N_AFTER)
        known.append(cusum(normal, 0.0, 1.0, h=h).first_alarm >= 0)
    error = np.sqrt(2 * 0.25 / len(found))
    assert 0.2 < np.mean(known) < 0.8
    assert abs(np.mean(found) - np.mean(known)) < 3.5 * error


def test_the_baseline_is_the_clustered_estimate_of_all_items():
    values, videos = item_values(n_videos=300, seed=9)
    means, errors, sizes = summaries(values, videos, np.arange(300).reshape(5, 60))
    base = batch_baseline(means[:, 0], errors[:, 0], sizes)
    assert base.center == pytest.approx(values[:, 0].mean())
    _, whole, _ = summaries(values, videos, np.arange(300)[None])
    assert base.error == pytest.approx(whole[0, 0], rel=0.05)
    assert base.dispersion == 1.0


def test_batches_that_differ_more_than_clusters_explain_widen_the_limits():
    rng = np.random.default_rng(0)
    n = np.full(20, 200)
    x = 0.8 + 0.08 * rng.normal(size=20)
    base = batch_baseline(x, np.full(20, 0.02), n)
    assert base.pvalue < 1e-6
    assert 2.5 < base.dispersion < 5.0  # 0.08 / 0.02
    chart = batch_chart([0.7], [200], base)
    assert chart.method.startswith("Laney's p' chart")
    assert len(chart.alarms) == 0
    calm = batch_baseline(0.8 + 0.02 * rng.normal(size=20), np.full(20, 0.02), n)
    assert calm.dispersion == 1.0
    assert len(batch_chart([0.7], [200], calm).alarms) == 1


@pytest.mark.parametrize("n_base", [5, 10, 25])
def test_few_dispersed_batches_do_not_alarm_more_often(n_base):
    rng = np.random.default_rng(4)
    n = np.full(n_base + 10, 100)
    shares = []
    for _ in range(400):
        x = 0.5 + 0.03 * rng.normal(size=n_base + 10)
        errors = np.full(n_base, 0.02)
        base = batch_baseline(x[:n_base], errors, n[:n_base], same_items=True)
        alarms = batch_chart(x[n_base:], n[n_base:], base, width=2.0).alarms
        shares.append(len(alarms) / 10)
    error = np.std(shares) / 20
    assert np.mean(shares) < 2 * ndtr(-2.0) + 3 * error
    assert np.mean(shares) > 0.4 * 2 * ndtr(-2.0)


def test_the_same_items_again_are_compared_with_themselves():
    """Reruns differ by much less than samples of other items."""
    rng = np.random.default_rng(3)
    x = 0.8 + 0.002 * rng.normal(size=12)
    n = np.full(12, 300)
    base = batch_baseline(x, np.full(12, 0.03), n, same_items=True)
    assert base.dispersion < 0.15
    assert batch_chart([0.80, 0.77], [300, 300], base).alarms.tolist() == [1]
    with pytest.raises(StatisticsError, match="give 5 at least"):
        batch_baseline(x[:4], np.full(4, 0.03), n[:4], same_items=True)


def test_nothing_varies():
    base = batch_baseline([0.8] * 5, [0.03] * 5, [100] * 5, same_items=True)
    assert base.unit > 0.0
    assert len(batch_chart([0.8, 0.805], [100, 100], base).alarms) == 0
    assert len(batch_chart([0.78], [100], base).alarms) == 1
    perfect = batch_baseline([1.0, 1.0], [0.0, 0.0], [100, 100])
    assert batch_chart([1.0, 0.95], [100, 100], perfect).alarms.tolist() == [1]


def test_a_shift_is_found_on_its_side_and_ends_with_its_cause():
    base = batch_baseline([0.8] * 10, [0.02] * 10, [300] * 10)
    x = [0.8] * 5 + [0.77] * 12 + [0.8] * 10
    found = self_starting_cusum(x, [300] * len(x), base, h=4.0)
    assert found.side == "lower"
    assert 5 <= found.first_alarm < 12
    assert found.alarms[-1] < 17 + 4
    assert max(found.lower) <= 5.0
    up = self_starting_cusum([1.6 - v for v in x], [300] * len(x), base, h=4.0)
    np.testing.assert_allclose(up.upper, found.lower)


def test_a_cusum_without_a_limit_never_alarms():
    base = batch_baseline([0.8] * 3, [0.02] * 3, [300] * 3)
    found = self_starting_cusum([0.1] * 20, [300] * 20, base, h=float("inf"))
    assert found.first_alarm == -1
    assert (found.lower >= 0.0).all()
    assert (found.upper == 0.0).all()


@pytest.mark.parametrize(("arl", "k"), [(100, 0.5), (370, 0.5), (200, 1.0)])
def test_the_limit_gives_the_run_length(arl, k):
    h = cusum_limit(arl, k=k)
    rng = np.random.default_rng(6)
    lengths = []
    for _ in range(300):
        high = low = 0.0
        length = 0
        while max(high, low) <= h:
            z = rng.normal()
            high, low = max(0.0, high + z - k), max(0.0, low - z - k)
            length += 1
        lengths.append(length)
    error = np.std(lengths) / np.sqrt(len(lengths))
    assert abs(np.mean(lengths) - arl) < 3.5 * error + 0.05 * arl


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda b: batch_baseline([], [], []), "no batch of the baseline"),
        (lambda b: batch_baseline([0.5], [np.nan], [3]), "no batch of the baseline"),
        (lambda b: batch_baseline([0.5], [0.1, 0.1], [3]), "differ in length"),
        (lambda b: batch_baseline([0.5], [0.1], [0]), "sizes must be >= 1"),
        (lambda b: batch_chart([np.nan], [3], b), "must not hold NaN"),
        (lambda b: batch_chart([0.5], [3], b, width=0), "width must be > 0"),
        (lambda b: self_starting_cusum([0.5], [3], b, h=0), "h must be > 0"),
        (lambda b: self_starting_cusum([0.5], [3], b, k=-1), "k must be >= 0"),
        (lambda b: cusum_limit(1), "arl > 2"),
    ],
)
def test_refused(call, said):
    base = batch_baseline([0.8], [0.02], [300])
    with pytest.raises(StatisticsError, match=said):
        call(base)


def test_a_baseline_of_single_clusters_says_what_to_take():
    with pytest.raises(StatisticsError, match=r"Take batches of several videos, or"):
        batch_baseline([0.8] * 3, [np.nan] * 3, [100] * 3)
