"""Adaptive phases against the slow twin, and what their calibration promises."""

import math

import numpy as np
import oracle_adaptive as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phasefusion as pf
from phasefusion import stats
from phasefusion.errors import StatisticsError


def made_posteriors(rng, n, s, k, spread=1.5, wobble=0.7):
    """Posteriors that share what an item is, and differ by phase."""
    logits = rng.normal(0, spread, (n, 1, k)) + rng.normal(0, wobble, (n, s, k))
    p = np.exp(logits)
    return p / p.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("n_phases", [1, 2, 3, 4, 5, 6, 7, 8, 13])
def test_phase_order_is_farthest_first(n_phases):
    for first in range(n_phases):
        made = stats.phase_order(n_phases, first)
        assert made.tolist() == oracle.farthest_first(n_phases, first)
    assert stats.phase_order(n_phases)[0] == n_phases // 2


def test_powers_of_two_are_bit_reversed():
    assert stats.phase_order(8, 0).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]


@pytest.mark.parametrize("origin", ["left", "midpoint", "1/3"])
@pytest.mark.parametrize("n_phases", [1, 2, 3, 6, 7])
def test_the_twin_is_half_a_step_on(n_phases, origin):
    """Each phase of the walk is moved by the same time: half a step, or just above."""
    grid = pf.PhaseGrid(4, n_phases, origin)
    twin = grid.shifted("half")
    order = stats.phase_order(n_phases)
    there = stats.half_step_order(order, grid.origin)
    shifts = {
        (twin.phase(int(t)) - grid.phase(int(s))) % 1
        for s, t in zip(order, there, strict=True)
    }
    (shift,) = shifts
    even = 0 if n_phases % 2 else 1 / (2 * n_phases)
    assert float(shift) == pytest.approx(0.5 + even)


@given(
    n=st.sampled_from([0, 1, 2, 7, 31]),
    s=st.integers(1, 7),
    k=st.integers(1, 5),
    threshold=st.sampled_from([0.0, 0.2, 1.0, 3.0, math.inf]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_adaptive_phases_is_the_slow_twin(n, s, k, threshold, seed):
    rng = np.random.default_rng(seed)
    p = made_posteriors(rng, n, s, k)
    p[rng.random((n, s)) < 0.1] = np.nan
    level = rng.random((n, s)) < 0.1  # ties
    p[level] = 1 / k
    order = rng.permutation(s)
    ids = [f"item {i}" for i in range(n)]
    made = stats.adaptive_phases(p, threshold, order=order, item_ids=ids, seed=seed % 7)
    for i in range(n):
        answer, n_phases, margin = oracle.adaptive_item(
            p[i], order, threshold, ids[i], seed % 7
        )
        assert (made.answers[i], made.n_phases[i]) == (answer, n_phases)
        if abs(margin) != math.inf:
            assert made.margins[i] == pytest.approx(
                margin, rel=1e-9, abs=1e-12, nan_ok=True
            )
        if not np.isnan(p[i]).any():
            with np.errstate(divide="ignore"):
                whole = pf.fuse(np.log(p[i][order]), item_id=ids[i], seed=seed % 7)
            assert made.full[i] == whole.answer
        else:
            assert made.full[i] == -1


def test_extreme_thresholds():
    p = made_posteriors(np.random.default_rng(1), 200, 6, 4)
    none, everything = (stats.adaptive_phases(p, t) for t in (0.0, math.inf))
    assert none.mean_phases == 1.0
    assert (none.answers == p[:, 3].argmax(axis=1)).all()
    assert everything.mean_phases == 6.0
    assert everything.disagreement == 0.0
    assert (everything.answers == p.mean(axis=1).argmax(axis=1)).all()


def test_no_margin_stops_before_all_phases_at_infinity():
    p = np.array([[[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]] * 4)
    made = stats.adaptive_phases(p, math.inf)
    assert made.answers.tolist() == made.full.tolist() == [1] * 4
    assert made.mean_phases == 3.0
    curve = stats.adaptive_curve(p, [math.inf, 1.0])
    assert curve.mean_phases.tolist() == [3.0, 1.0]
    assert curve.disagreement.tolist() == [0.0, 1.0]


def test_what_is_never_needed_may_be_missing():
    p = np.full((2, 3, 2), np.nan)
    p[0, 1] = [0.95, 0.05]  # stops before it could miss the others
    p[1, 1] = [0.55, 0.45]
    made = stats.adaptive_phases(p, 1.0)
    assert made.answers.tolist() == [0, -1]
    assert made.n_phases.tolist() == [1, 2]
    assert (made.n, made.n_dropped, made.mean_phases) == (1, 1, 1.0)
    assert math.isnan(made.disagreement)


def test_items_of_fewer_options():
    p = np.array([[[0.5, 0.5, 0.0]] * 2, [[0.2, 0.3, 0.5]] * 2])
    ids = [f"q{i}" for i in range(2)]
    made = stats.adaptive_phases(p, 0.3, n_options=[2, 3], item_ids=ids)
    assert made.answers[1] == 2
    alone = pf.fuse(np.log(p[0, :, :2]), item_id="q0")
    assert made.answers[0] == alone.answer
    assert made.n_phases.tolist() == [2, 1]


def test_the_curve_is_adaptive_phases_at_each_threshold():
    rng = np.random.default_rng(3)
    both = made_posteriors(rng, 150, 6, 4)
    p, twin = both[:, ::2], both[:, 1::2]
    p[4, 1], twin[9, 0] = np.nan, np.nan
    gold = np.where(np.arange(150) % 5, rng.integers(0, 4, 150), -1)
    steps = [math.inf, 2.0, 1.0, 0.3, 0.0]
    made = stats.adaptive_curve(p, steps, shifted=twin, gold=gold)
    kept = ~np.isin(np.arange(150), [4, 9])
    assert (made.n, made.n_dropped) == (148, 2)
    for j, threshold in enumerate(steps):
        here = stats.adaptive_phases(p[kept], threshold)
        there = stats.adaptive_phases(twin[kept], threshold, order=[0, 2, 1])
        right = (here.answers == gold[kept])[gold[kept] >= 0]
        assert made.mean_phases[j] == pytest.approx(here.mean_phases)
        assert made.disagreement[j] == pytest.approx(here.disagreement)
        assert made.changes[j] == pytest.approx((here.answers != there.answers).mean())
        assert made.accuracy[j] == pytest.approx(right.mean())
    assert (np.diff(made.mean_phases) <= 0).all()
    assert np.isnan(stats.adaptive_curve(p, steps).changes).all()


def test_calibration_ends_at_the_first_failure():
    """p of each threshold is the binomial tail, and a later pass does not count."""
    from scipy.stats import binom

    p = made_posteriors(np.random.default_rng(5), 400, 3, 4)
    made = stats.calibrate_adaptive(p, alpha=0.05, delta=0.1)
    for j in (0, 50, 90, 101):
        found = stats.adaptive_phases(p, made.thresholds[j])
        k = int((found.answers != found.full).sum())
        assert made.risks[j] == pytest.approx(k / 400)
        assert made.pvalues[j] == pytest.approx(binom.cdf(k, 400, 0.05))
    assert (made.pvalues[: made.certified] <= 0.1).all()
    assert made.pvalues[made.certified] > 0.1
    assert made.threshold == made.thresholds[made.certified - 1]
    assert 1 < made.certified < len(made.thresholds)
    assert 1 < made.mean_phases[made.certified - 1] < 3


def test_nothing_is_certified_where_all_phases_change_too_much():
    p = made_posteriors(np.random.default_rng(6), 300, 6, 4, spread=0.2)
    made = stats.calibrate_adaptive(
        p[:, ::2], shifted=p[:, 1::2], alpha=0.02, delta=0.1
    )
    assert made.certified == 0
    assert math.isnan(made.threshold)
    assert not made.underpowered
    assert "nothing certified" in repr(made)
    few = stats.calibrate_adaptive(p[:20, :3], alpha=0.02, delta=0.1)
    assert few.underpowered
    assert few.certified == 0
    none = stats.calibrate_adaptive(p[:0, :3], alpha=0.02, delta=0.1)
    assert (none.n, none.certified) == (0, 0)


def test_clusters_count_once():
    """A video whose questions all change together is one change, not ten."""
    stays = np.repeat(made_posteriors(np.random.default_rng(7), 40, 1, 4, 3), 3, 1)
    table = np.repeat(stays, 10, axis=0)
    table[:10] = [[0.2, 0.8, 0, 0], [0.6, 0.4, 0, 0], [0.2, 0.8, 0, 0]]
    videos = np.repeat([f"v{i}" for i in range(40)], 10)
    options = {"alpha": 0.1, "delta": 0.1, "order": [1, 0, 2]}
    items = stats.calibrate_adaptive(table, **options)
    grouped = stats.calibrate_adaptive(table, cluster=videos, **options)
    assert items.n_clusters == 400
    assert grouped.n_clusters == 40
    assert items.risks[-1] == pytest.approx(grouped.risks[-1]) == pytest.approx(1 / 40)
    assert items.threshold == 0.0
    expected = stats.hoeffding_bentkus([1 / 40], [40], 0.1)
    assert grouped.pvalues[-1] == pytest.approx(expected[0])
    assert grouped.pvalues[-1] > 10 * items.pvalues[-1]


@pytest.mark.parametrize("is_shifted", [False, True])
def test_the_promise_holds(is_shifted):
    """Of many calibrations, at most delta exceed alpha on the whole population."""
    rng = np.random.default_rng(11)
    world = made_posteriors(rng, 40_000, 6, 3, spread=2.0, wobble=0.5)
    p, twin = world[:, ::2], world[:, 1::2]
    options = {"thresholds": [math.inf, *np.linspace(4, 0, 41)]}
    alpha, delta = (0.12, 0.2) if is_shifted else (0.03, 0.2)
    whole = stats.adaptive_curve(p, shifted=twin, **options)
    true_risk = whole.changes if is_shifted else whole.disagreement
    assert true_risk[-1] > alpha  # one phase alone is too risky: it could go wrong
    broken = certified = 0
    for _ in range(200):
        rows = rng.choice(len(p), 300, replace=False)
        made = stats.calibrate_adaptive(
            p[rows],
            shifted=twin[rows] if is_shifted else None,
            alpha=alpha,
            delta=delta,
            **options,
        )
        certified += made.certified > 0
        broken += made.certified > 0 and true_risk[made.certified - 1] > alpha
    assert certified > 100
    # 200 draws of 0.2 are above 57 once in a thousand
    assert broken <= 57
    assert broken > 0  # not by being idle


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"posteriors": [[0.5, 0.5]]}, "shape"),
        ({"posteriors": [[[0.5, 0.6]]]}, r"posteriors\[0, 0\]"),
        ({"posteriors": [[[1.5, -0.5]]]}, r"posteriors\[0, 0\]"),
        ({"threshold": -1.0}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"order": [0, 0]}, "permutation"),
        ({"order": [0, 1, 2]}, "permutation"),
        ({"n_options": [3]}, "n_options"),
        ({"n_options": [2.0]}, "n_options"),
        ({"item_ids": ["a", "b"]}, "item ids"),
    ],
)
def test_adaptive_phases_refuses(change, what):
    given = {"posteriors": [[[0.5, 0.5], [0.9, 0.1]]], "threshold": 1.0} | change
    with pytest.raises(StatisticsError, match=what):
        stats.adaptive_phases(**given)


def test_calibration_refuses():
    p = [[[0.5, 0.5], [0.9, 0.1]]]
    for change, what in [
        ({"alpha": 0.0}, "alpha"),
        ({"delta": 1.0}, "delta"),
        ({"thresholds": [1.0, 2.0]}, "descend"),
        ({"thresholds": [1.0, -2.0]}, "descend"),
        ({"shifted": [[[0.5, 0.5]]]}, "shifted"),
        ({"cluster": ["a", "b"]}, "cluster"),
    ]:
        with pytest.raises(StatisticsError, match=what):
            stats.calibrate_adaptive(p, **({"alpha": 0.1, "delta": 0.1} | change))
    with pytest.raises(StatisticsError, match="n_phases"):
        stats.phase_order(0)
    with pytest.raises(StatisticsError, match="first"):
        stats.phase_order(3, 3)
