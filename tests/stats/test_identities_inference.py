"""What holds for every sample: matched votes, tests, rankings, risk, charts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from phasefusion import _core, orders, stats
from phasefusion._random import tie_seeds

counts = st.integers(0, 60)
shares = st.floats(0.01, 0.5)


@st.composite
def phased(draw, n_phases=(2, 3)):
    n, s = draw(st.integers(1, 5)), draw(st.integers(*n_phases))
    m = draw(st.integers(2, 6))
    return draw(arrays(np.int64, (n, s, m), elements=st.integers(0, 3)))


@st.composite
def samples(draw, min_size=2):
    n = draw(st.integers(min_size, 25))
    values = draw(arrays(np.int64, n, elements=st.integers(-1, 1)))
    return values, draw(arrays(np.int64, n, elements=st.integers(0, 8)))


@st.composite
def rankings(draw):
    n = draw(st.integers(1, 30))
    positive = draw(arrays(np.bool_, n))
    return positive, draw(arrays(np.int64, n, elements=st.integers(-4, 4)))


# ---------------------------------------------------------------- 16: matched votes


@given(phased())
def test_halves_can_be_swapped(answers):
    seeds = tie_seeds([str(i) for i in range(len(answers))])
    n_options, m = np.full(len(answers), 4), answers.shape[2]
    halves = np.array(list(itertools.product((0, 1, 2), repeat=m)), np.uint8)
    sound = (halves == 1).any(1) & (halves == 2).any(1)
    halves = halves[sound]
    swapped = np.where(halves > 0, 3 - halves, 0).astype(np.uint8)
    one = _core.matched_votes(answers, n_options, halves, seeds, True)
    two = _core.matched_votes(answers, n_options, swapped, seeds, True)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@given(phased(), st.integers(0, 2**64 - 1))
def test_relabelling_whole_phases_is_no_null(answers, seed):
    made = stats.matched_vote(answers)
    order = np.random.default_rng(seed).permutation(answers.shape[1])
    same = stats.matched_vote(answers[:, order])
    assert (made.within, made.across) == (same.within, same.across)
    assert 0.0 <= made.within <= 1.0
    assert made.excess == pytest.approx(made.across - made.within, abs=1e-14)


@given(st.lists(st.permutations(range(3)), min_size=1, max_size=4), st.integers(2, 6))
def test_a_phase_effect_alone_is_all_across(phases, m):
    answers = np.repeat(np.array(phases)[:, :, None], m, axis=2)
    made = stats.matched_vote(answers)
    assert (made.within, made.across) == (0.0, 1.0)
    assert (made.within_fractional, made.across_fractional) == (0.0, 1.0)


@settings(max_examples=15)
@given(phased(n_phases=(2, 2)), st.sampled_from(["lowest", "priority"]))
def test_permuted_phases_have_no_excess_on_average(answers, rule):
    """Over all permutations within item and order, exactly."""
    item = answers[0, :, :4]
    swaps = list(itertools.product((0, 1), repeat=item.shape[1]))
    every = np.stack([np.where(np.array(swap), item[::-1], item) for swap in swaps])
    made = stats.matched_vote(every, rule=rule, item_ids=["q"] * len(every))
    assert made.excess == pytest.approx(0.0, abs=1e-14)
    assert made.across_fractional == pytest.approx(made.within_fractional, abs=1e-14)


# ---------------------------------------------------------------- 20, 21: tests


@given(counts, counts)
def test_mcnemar_is_symmetric_and_ordered(b, c):
    made, other = stats.mcnemar(b, c), stats.mcnemar(c, b)
    assert (made.pvalue, made.midp, made.chi2_corrected) == (
        other.pvalue,
        other.midp,
        other.chi2_corrected,
    ) or b + c == 0
    assert made.midp <= made.pvalue <= 1.0
    if abs(b - c) <= 1:
        assert made.pvalue == 1.0
    if b + c:
        assert made.chi2_corrected <= made.chi2
        diff = np.repeat([1, -1], [b, c])
        clustered = stats.clustered_mcnemar(diff, np.arange(b + c))
        assert clustered.chi2 == pytest.approx(made.chi2)


@given(samples())
def test_singletons_have_the_usual_error(sample):
    values, _ = sample
    made = stats.clustered_mean(values)
    usual = values.std(ddof=1) / math.sqrt(len(values))
    assert made.se == pytest.approx(usual, abs=1e-12)
    assert made.se == pytest.approx(made.se_iid, abs=1e-12)
    assert made.se_miller == pytest.approx(made.se_iid, abs=1e-12)


@given(samples())
def test_duplicating_every_observation_changes_nothing(sample):
    values, cluster = sample
    made = stats.clustered_mean(values, cluster)
    twice = stats.clustered_mean(np.tile(values, 2), np.tile(cluster, 2))
    assert twice.se == pytest.approx(made.se, abs=1e-12, nan_ok=True)
    assert twice.mean == pytest.approx(made.mean, abs=1e-14)


@given(samples(), st.floats(0.01, 1.5), st.sampled_from([0.025, 0.05, 0.1]))
def test_tost_is_the_interval_in_the_margin(sample, margin, alpha):
    values, cluster = sample
    made = stats.tost(values, cluster, margin=margin, alpha=alpha)
    if math.isnan(made.mean.se):
        assert not made.equivalent
    elif min(abs(made.mean.low + margin), abs(made.mean.high - margin)) > 1e-9:
        assert made.equivalent == (-margin < made.mean.low and made.mean.high < margin)
    assert made.mean.confidence_level == pytest.approx(1 - 2 * alpha)


# ---------------------------------------------------------------- 22: bootstrap


@given(arrays(np.int64, 6, elements=st.integers(-1, 1)), st.integers(0, 99))
def test_endpoints_are_attainable_and_clusters_have_no_order(values, seed):
    cluster = [0, 0, 1, 2, 2, 3]
    exact = stats.cluster_bootstrap_exact(values, cluster)
    made = stats.cluster_bootstrap(values, cluster, n_resamples=41, seed=seed)
    assert np.isin(made.replicates.round(12), exact.values.round(12)).all()
    ends = np.round([made.low, made.high], 12)
    same = len(set(made.replicates.tolist())) == 1
    assert np.isnan(ends).all() if same else np.isin(ends, exact.values.round(12)).all()
    order = np.random.default_rng(seed).permutation(6)
    moved = stats.cluster_bootstrap_exact(values[order], np.array(cluster)[order])
    np.testing.assert_array_equal(moved.values, exact.values)
    np.testing.assert_array_equal(moved.weights, exact.weights)
    assert exact.weights.sum() == exact.n_resamples == 4**4


def test_bootstrap_error_tends_to_cr0():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(600), 2)
    values = rng.integers(-1, 2, 1200)
    made = stats.cluster_bootstrap(values, cluster, n_resamples=20_000)
    assert made.se / stats.clustered_mean(values, cluster).se_cr0 == pytest.approx(
        1.0, abs=0.02
    )


# ---------------------------------------------------------------- 23, 24: ranking


@given(rankings())
def test_auroc_turns_with_classes_and_scores(ranking):
    positive, score = ranking
    made = stats.auroc(positive, score)
    turned = stats.auroc(~positive, score)
    negated = stats.auroc(positive, -score)
    mapped = stats.auroc(positive, np.exp(score.astype(float)) * 3 - 7)
    assert turned.value == pytest.approx(1 - made.value, nan_ok=True)
    assert negated.value == pytest.approx(1 - made.value, nan_ok=True)
    assert mapped.value == made.value or math.isnan(made.value)
    for other in (turned, negated, mapped):
        assert other.variance == pytest.approx(made.variance, nan_ok=True, abs=1e-15)
    if not math.isnan(made.low):
        assert 0.0 <= made.low <= made.value <= made.high <= 1.0
    if not math.isnan(made.logit_low):
        assert made.logit_low <= made.value <= made.logit_high


@given(rankings())
def test_obuchowski_is_delong_for_singletons(ranking):
    positive, score = ranking
    made = stats.auroc(positive, score)
    single = stats.auroc(positive, score, cluster=np.arange(len(score)))
    assert single.value == made.value or math.isnan(made.value)
    assert single.variance == pytest.approx(made.variance, nan_ok=True, abs=1e-15)


@given(rankings(), st.integers(1, 20))
def test_flagged_and_unflagged_make_the_overall_rate(ranking, percent):
    flipped, margin = ranking
    made = stats.flag_lowest(margin, flipped, percent / 20)
    inside = made.k * made.flagged_rate
    outside = (made.n - made.k) * made.unflagged_rate if made.n > made.k else 0.0
    assert (inside + outside) / made.n == pytest.approx(made.overall, abs=1e-14)
    order = np.random.default_rng(percent).permutation(len(margin))
    same = stats.flag_lowest(margin[order], flipped[order], percent / 20)
    assert same.flagged_rate == made.flagged_rate


# ---------------------------------------------------------------- 25, 26: risk


@given(rankings())
def test_risk_at_full_coverage_is_the_error_rate(ranking):
    error, confidence = ranking
    made = stats.risk_coverage(confidence, error)
    assert made.risk[-1] == pytest.approx(error.mean())
    assert made.coverage[-1] == 1.0
    assert made.e_aurc >= -1e-14
    oracle = stats.risk_coverage(~error, error)
    assert oracle.aurc <= made.aurc + 1e-14
    flat = stats.risk_coverage(np.zeros(len(error)), error)
    assert flat.aurc == pytest.approx(error.mean())
    order = np.random.default_rng(0).permutation(len(error))
    same = stats.risk_coverage(confidence[order], error[order])
    assert (same.aurc, same.e_aurc) == (made.aurc, made.e_aurc)


@given(st.lists(st.tuples(counts, counts), max_size=6), shares, shares, shares)
def test_certified_thresholds_are_a_prefix(pairs, alpha, delta, factor):
    n = np.cumsum([max(p) for p in pairs], dtype=int)
    k = np.cumsum([min(p) for p in pairs], dtype=int)
    made = stats.fixed_sequence(n, k, alpha=alpha, delta=delta)
    assert (made.pvalues[: made.certified] <= delta).all()
    if made.certified < len(n):
        assert made.pvalues[made.certified] > delta
    stricter = stats.fixed_sequence(n, k, alpha=alpha, delta=delta * factor)
    assert stricter.certified <= made.certified
    safer = stats.fixed_sequence(n, k, alpha=alpha * factor, delta=delta)
    assert safer.certified <= made.certified
    if len(n) and n[0] < made.n_min:
        assert made.underpowered
        assert made.certified == 0


# ---------------------------------------------------------------- 27, 28


@given(counts, counts, counts, counts)
def test_shared_mass_is_within_its_bounds(n11, n10, n01, n00):
    n = n11 + n10 + n01 + n00
    made = stats.shared_unstable_counts(n11, n10, n01, n00)
    if not n:
        return
    a, b = (n11 + n10) / n, (n11 + n01) / n
    assert max(0.0, a + b - 1) - 1e-14 <= made.shared <= min(a, b) + 1e-14
    assert made.excess == pytest.approx(made.shared - a * b, abs=1e-14)
    assert 0.0 <= made.pvalue <= 1.0
    swapped = stats.shared_unstable_counts(n11, n01, n10, n00)
    assert swapped.shared == made.shared
    assert swapped.pvalue == pytest.approx(made.pvalue)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_independence_has_no_excess(a, b, c, d):
    made = stats.shared_unstable_counts(a * c, a * d, b * c, b * d)
    assert made.excess == 0.0
    assert made.phi == 0.0
    assert made.ratio == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_pvalues_are_ordered(p):
    made = {
        name: stats.adjust_pvalues(p, name)  # type: ignore[arg-type]
        for name in ("bonferroni", "holm", "bh", "by")
    }
    last_bit = 1 + 1e-15
    assert (made["holm"] <= made["bonferroni"] * last_bit).all()
    assert (made["bh"] <= made["holm"] * last_bit).all()
    assert (made["bh"] <= made["by"] * last_bit).all()
    order = np.argsort(p, kind="stable")
    for adjusted in made.values():
        assert (np.diff(adjusted[order]) >= 0).all()
        assert (adjusted >= p).all()
    assert all(stats.adjust_pvalues(p[:1], name) == p[0] for name in ("holm", "bh"))


# ---------------------------------------------------------------- 29: debiasing


@given(st.integers(2, 5), st.integers(0, 2**32))
def test_content_alone_shows_no_letter_prior(k, seed):
    content = np.random.default_rng(seed).dirichlet(np.ones(k))
    rotations = content[orders.cyclic(k)]
    np.testing.assert_allclose(stats.letter_prior(rotations), 1 / k, atol=1e-6)
    uniform = np.full(k, 1 / k)
    made = stats.divide_by_prior(rotations, uniform)
    np.testing.assert_array_equal(made.answers, rotations.argmax(axis=1))
    np.testing.assert_allclose(made.posterior, rotations, atol=1e-8)


# ---------------------------------------------------------------- 30: consistency


@given(arrays(np.int64, (7, 5), elements=st.integers(-1, 3)))
def test_consistency_is_one_minus_flips(answers):
    flips = stats.flip_rates(answers, policy="available-macro")
    pairwise, unanimous, modal = (
        stats.consistency(answers, kind, policy="available-macro")  # type: ignore[arg-type]
        for kind in ("pairwise", "unanimous", "modal")
    )
    assert pairwise.mean == pytest.approx(1 - flips.pairwise, nan_ok=True)
    assert unanimous.mean == pytest.approx(1 - flips.any, nan_ok=True)
    defined = ~np.isnan(pairwise.per_item)
    a, b, c = (made.per_item[defined] for made in (unanimous, pairwise, modal))
    assert (a <= b).all()
    assert (b <= c + 1e-15).all()


# ---------------------------------------------------------------- 31: CUSUM

walks = st.lists(st.floats(-5, 5), min_size=1, max_size=30)


@given(walks, st.floats(0.5, 5))
def test_cusum_is_never_negative_and_starts_again(values, h):
    made = stats.cusum(values, 0.0, 1.0, h=h)
    assert (made.upper >= 0).all()
    assert (made.lower >= 0).all()
    assert stats.cusum(values, 0.0, 1.0, h=math.inf).first_alarm == -1
    again = stats.cusum(values, 0.0, 1.0, h=h, reset=True)
    assert again.first_alarm == made.first_alarm
    if made.first_alarm >= 0:
        rest = values[made.first_alarm + 1 :]
        tail = stats.cusum(rest, 0.0, 1.0, h=h, reset=True)
        np.testing.assert_array_equal(
            again.upper[len(values) - len(rest) :], tail.upper
        )
        np.testing.assert_array_equal(
            again.lower[len(values) - len(rest) :], tail.lower
        )
    mirror = stats.cusum([-v for v in values], 0.0, 1.0, h=h)
    np.testing.assert_array_equal(mirror.upper, made.lower)


@pytest.mark.parametrize(("shift", "side"), [(3.0, "upper"), (-3.0, "lower")])
def test_the_sign_of_a_shift_picks_the_side(shift, side):
    assert stats.cusum([shift] * 5, 0.0, 1.0).side == side


# ---------------------------------------------------------------- 16, 23, 29, 31


@given(st.integers(0, 3), st.integers(1, 4), st.integers(2, 3), st.integers(2, 6))
def test_constant_answers_have_no_changes(answer, n, n_phases, n_orders):
    made = stats.matched_vote(np.full((n, n_phases, n_orders), answer))
    assert made.within == made.across == made.excess == 0.0
    assert made.within_fractional == made.across_fractional == 0.0


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_drawn_splits_tend_to_all_splits(seed):
    answers = np.random.default_rng(seed).integers(0, 3, (20, 3, 6))
    every = stats.matched_vote(answers, seed=seed)  # which also breaks ties
    drawn = stats.matched_vote(answers, splits=4000, seed=seed)
    assert every.n_splits == 10
    assert drawn.within == pytest.approx(every.within, abs=0.02)
    assert drawn.across == pytest.approx(every.across, abs=0.02)


@given(rankings())
def test_auroc_is_the_share_of_ordered_pairs(ranking):
    positive, score = ranking
    made = stats.auroc(positive, score)
    pairs = list(itertools.product(score[positive], score[~positive]))
    if not pairs:
        assert math.isnan(made.value)
        return
    wins = sum((a > b) + (a == b) / 2 for a, b in pairs)
    assert made.value == pytest.approx(wins / len(pairs), abs=1e-14)
    stretched = stats.auroc(positive, np.exp(score / 3.0) - 7.0)
    assert stretched.value == made.value
    np.testing.assert_equal(stretched.variance, made.variance)


@given(arrays(np.float64, (5, 4), elements=st.floats(0.01, 1.0)))
def test_a_uniform_prior_changes_no_answer(raw):
    observed = raw / raw.sum(axis=1, keepdims=True)
    made = stats.divide_by_prior(observed, np.full(4, 0.25))
    top = np.sort(observed, axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-9
    assert (made.answers == observed.argmax(axis=1))[clear].all()
    np.testing.assert_allclose(made.posterior, observed, atol=1e-8)


@given(st.lists(st.floats(-50, 50), max_size=20))
def test_a_chart_without_a_limit_has_no_alarm(values):
    made = stats.cusum(values, 0.0, 1.0, h=math.inf)
    assert len(made.alarms) == 0
