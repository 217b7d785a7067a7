"""Widths of intervals against enumeration and simulation."""

import math

import numpy as np
import pytest

from phasefusion.errors import StatisticsError
from phasefusion.planning import (
    Design,
    auroc_items,
    auroc_width,
    floor_items,
    floor_upper,
    hanley_mcneil,
    interval_items,
    interval_width,
)
from phasefusion.stats import auroc, clustered_mean, proportion_ci, proportion_upper


@pytest.mark.parametrize("method", ["wilson", "clopper-pearson"])
@pytest.mark.parametrize("n", [2, 7, 40, 211])
@pytest.mark.parametrize("rate", [0.0, 0.03, 0.5, 0.81, 1.0])
def test_half_width_is_the_mean_over_every_count(n, rate, method):
    plan = interval_width(n, rate=rate, method=method, confidence_level=0.9)
    expected = 0.0
    for k in range(n + 1):
        made = proportion_ci(k, n, 0.9, method)
        chance = math.comb(n, k) * rate**k * (1 - rate) ** (n - k)
        expected += chance * (made.high - made.low) / 2
    assert plan.half_width == pytest.approx(expected, rel=1e-9)


def test_half_width_of_a_clustered_mean_is_that_of_simulated_ones():
    rng = np.random.default_rng(3)
    n_clusters, size, rate, icc = 120, 3, 0.6, 0.2
    cluster = np.repeat(np.arange(n_clusters), size)
    halves = []
    for _ in range(2000):
        own = rng.random((n_clusters, size)) < rate
        shared = rng.random((n_clusters, 1)) < rate
        right = np.where(rng.random((n_clusters, 1)) < icc, shared, own)
        made = clustered_mean(right.ravel().astype(float), cluster)
        halves.append((made.high - made.low) / 2)
    plan = interval_width(
        n_clusters * size,
        rate=rate,
        method="clustered-mean",
        design=Design.from_icc(icc, size),
    )
    # the root of a variance is a little smaller on average: a hundredth of it
    slack = 4 * np.std(halves) / math.sqrt(2000) + 0.01 * plan.half_width
    assert plan.half_width == pytest.approx(np.mean(halves), abs=slack)


def test_a_design_effect_divides_the_sample():
    design = Design(1.5, 3.0)
    clustered = interval_width(900, rate=0.4, design=design)
    assert clustered.half_width == interval_width(600, rate=0.4).half_width


@pytest.mark.parametrize("method", ["wilson", "clopper-pearson", "clustered-mean"])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.97])
@pytest.mark.parametrize("design", [Design(), Design.from_icc(0.2, 4)])
def test_items_are_the_fewest(method, rate, design):
    common = {"rate": rate, "method": method, "design": design}
    plan = interval_items(half_width=0.03, **common)
    assert plan.half_width <= 0.03
    assert plan.target == 0.03
    assert interval_width(plan.n + 20, **common).half_width <= 0.03
    assert interval_width(plan.n - 1, **common).half_width > 0.03


def test_a_large_sample_is_planned_by_the_normal_law():
    exact = interval_width(200_000, rate=0.3)
    beyond = interval_width(200_001, rate=0.3)
    assert beyond.half_width == pytest.approx(exact.half_width, rel=1e-4)


def test_no_change_bounds_the_floor():
    plan = floor_upper(599, flip_rate=0.187)
    assert plan.upper == proportion_upper(0, 599)
    assert plan.ratio == pytest.approx(0.187 / plan.upper)
    assert math.isnan(floor_upper(599).ratio)


@pytest.mark.parametrize("upper", [0.5, 0.037, 0.01, 0.001])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_floor_items_are_the_fewest(upper, level):
    plan = floor_items(upper=upper, confidence_level=level)
    assert plan.upper <= upper * (1 + 1e-9)
    if plan.n > 1:
        assert proportion_upper(0, plan.n - 1, level) > upper


def test_floor_items_for_a_ratio():
    plan = floor_items(flip_rate=0.187, ratio=8.0)
    assert plan.ratio >= 8.0
    assert floor_upper(plan.n - 1, flip_rate=0.187).ratio < 8.0


def test_variance_of_exponential_scores_is_that_of_simulated_ones():
    rng = np.random.default_rng(4)
    # P(positive > negative) = rate / (rate + 1) for exponential scores
    area, m, n, draws = 0.8, 60, 40, 4000
    values = []
    classes = np.repeat([1, 0], [m, n])
    for _ in range(draws):
        positive = rng.exponential(area / (1 - area), m)
        negative = rng.exponential(1.0, n)
        values.append(auroc(classes, np.concatenate([positive, negative])).value)
    assert np.mean(values) == pytest.approx(
        area, abs=4 * np.std(values) / math.sqrt(draws)
    )
    expected = hanley_mcneil(area, m, n)
    # the variance of a variance, with room for a kurtosis other than the normal one
    slack = 5 * math.sqrt(2 / draws) * expected
    assert np.var(values) == pytest.approx(expected, abs=slack)
    plan = auroc_width(m + n, auroc=area, positive_share=m / (m + n))
    assert plan.se == math.sqrt(expected)
    assert (plan.n_positive, plan.n_negative) == (m, n)
    assert plan.half_width == pytest.approx(1.959964 * plan.se, rel=1e-6)


def test_auroc_items_are_the_fewest():
    plan = auroc_items(half_width=0.03, auroc=0.831, positive_share=0.567)
    assert plan.half_width <= 0.03 == plan.target
    less = auroc_width(plan.n - 1, auroc=0.831, positive_share=0.567)
    assert less.half_width > 0.03


def test_a_pilot_gives_its_own_variance():
    rng = np.random.default_rng(6)
    classes = rng.random(80) < 0.4
    scores = rng.normal(size=80) + classes
    made = auroc(classes, scores, cluster=np.arange(80) // 2)
    plan = auroc_width(80, pilot=made)
    assert plan.se == pytest.approx(made.se)
    assert plan.method == "pilot"
    assert auroc_width(320, pilot=made).se == pytest.approx(made.se / 2)
    items = auroc_items(half_width=0.04, pilot=made)
    assert items.half_width <= 0.04 < auroc_width(items.n - 1, pilot=made).half_width


def test_a_pilot_predicts_the_width_of_a_larger_sample():
    rng = np.random.default_rng(7)

    def drawn(n):
        classes = rng.random(n) < 0.5
        return auroc(classes, rng.normal(size=n) + 1.2 * classes)

    plan = auroc_width(4000, pilot=drawn(1000))
    assert plan.se == pytest.approx(drawn(4000).se, rel=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: interval_width(600, rate=60.0), r"rate must be in \[0, 1\]"),
        (lambda: interval_width(600, rate=0.6, method="wald"), "method must be one"),
        (
            lambda: interval_width(600, rate=1.0, method="clustered-mean"),
            "without variance the clustered mean has no interval",
        ),
        (lambda: interval_items(rate=0.6, half_width=3.0), "half_width must be in"),
        (lambda: interval_width(600, rate=0.6, confidence_level=95), "confidence_le"),
        (lambda: floor_upper(0), "n must be a whole number >= 1"),
        (lambda: floor_items(), "give either upper, or flip_rate and ratio"),
        (lambda: floor_items(upper=0.1, ratio=2.0), "give either upper, or flip"),
        (lambda: floor_items(flip_rate=0.2, ratio=0.0), "ratio must be > 0"),
        (lambda: floor_items(upper=1.0), "upper must be in"),
        (lambda: auroc_width(500), "give auroc and positive_share, or a pilot"),
        (
            lambda: auroc_width(3, auroc=0.8, positive_share=0.01),
            "leave a class empty",
        ),
        (
            lambda: auroc_width(500, pilot=auroc([0, 0, 1, 1], [1, 2, 3, 4])),
            "the pilot has no variance to scale",
        ),
        (
            lambda: auroc_width(9, auroc=0.8, pilot=auroc([0, 1, 1], [1, 0, 2])),
            "not both",
        ),
        (
            lambda: auroc_items(half_width=0.0, auroc=0.8, positive_share=0.5),
            "half_width must be in",
        ),
    ],
)
def test_what_is_out_of_range_is_refused(call, message):
    with pytest.raises(StatisticsError, match=message):
        call()
