"""What holds for every set of passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

import phasefusion as pf
from phasefusion import fusion, orders

VALUES = st.floats(-60.0, 60.0, allow_subnormal=False)


# numbers drawn at random may add up to 1
pytestmark = pytest.mark.filterwarnings("ignore::phasefusion.errors.OptionWarning")


@st.composite
def passes(draw, min_passes=1, max_passes=6, values=VALUES):
    shape = (draw(st.integers(min_passes, max_passes)), draw(st.integers(2, 6)))
    return draw(arrays(np.float64, shape, elements=values))


@given(passes(), st.randoms(use_true_random=False))
def test_phase_order_does_not_matter(logp, random):
    names = list(range(len(logp)))
    plain = pf.fuse(logp, phases=names)
    random.shuffle(names)
    moved = pf.fuse(logp[names], phases=names)
    np.testing.assert_array_equal(plain.posterior, moved.posterior)
    assert plain.answer == moved.answer
    unnamed = pf.fuse(logp[names])
    np.testing.assert_allclose(plain.posterior, unnamed.posterior, rtol=1e-15 * 4)


@given(passes(max_passes=1), st.integers(1, 7))
def test_equal_passes_change_nothing(logp, times):
    fused = pf.fuse(np.repeat(logp, times, axis=0))
    np.testing.assert_allclose(fused.posterior, softmax(logp[0]), rtol=1e-13)
    assert fused.answer == pf.fuse(logp).answer


@given(passes(), st.floats(-500.0, 500.0))
def test_a_constant_changes_nothing(logp, constant):
    shifted = logp.copy()
    shifted[0] += constant
    np.testing.assert_allclose(
        pf.fuse(shifted).posterior, pf.fuse(logp).posterior, atol=1e-12
    )


@given(passes(), st.randoms(use_true_random=False))
def test_options_permute_the_result(logp, random):
    perm = list(range(logp.shape[1]))
    random.shuffle(perm)
    plain, moved = pf.fuse(logp), pf.fuse(logp[:, perm])
    np.testing.assert_allclose(moved.posterior, plain.posterior[perm], rtol=1e-14)
    if not plain.tied and plain.margin > 1e-12:
        assert perm[moved.answer] == plain.answer


@given(passes(), st.randoms(use_true_random=False))
def test_letters_do_not_matter_once_in_content_space(logp, random):
    rows = []
    for _ in logp:
        order = list(range(logp.shape[1]))
        random.shuffle(order)
        rows.append(order)
    letters = orders.to_letters(logp, rows)
    back = orders.to_content(letters, rows)
    np.testing.assert_array_equal(pf.fuse(back).posterior, pf.fuse(logp).posterior)


@given(passes(values=st.one_of(VALUES, st.just(-np.inf))))
def test_posteriors_sum_to_one_and_lie_between_the_passes(logp):
    assume(np.isfinite(logp).any(axis=1).all())
    p = pf.posterior(logp)
    q = pf.fuse(logp).posterior
    assert q.sum() == pytest.approx(1.0, abs=1e-14)
    assert (q >= p.min(axis=0) * (1 - 1e-14)).all()
    assert (q <= p.max(axis=0) * (1 + 1e-14)).all()
    assert (q[np.isneginf(logp).all(axis=0)] == 0.0).all()


@given(passes())
def test_loglinear_pool_is_the_sum_of_log_probabilities(logp):
    fused = pf.fuse(logp, pool="loglinear")
    order = np.tile(np.arange(logp.shape[1]), (len(logp), 1))
    weighted = fusion.position_weighted(logp, order, alpha=1.0, mode="logprob")
    mean = softmax(weighted.total / len(logp))
    np.testing.assert_allclose(fused.posterior, mean, rtol=1e-9, atol=1e-300)
    if fused.margin > 1e-9:
        assert fused.answer == weighted.answer == weighted.total.argmax()


@given(passes())
def test_agreeing_views_decide(logp):
    fused = pf.fuse(logp)
    if len(set(fused.phase_answers.tolist())) == 1 and fused.phase_margins.min() > 1e-9:
        assert fused.answer == fused.phase_answers[0]
        assert pf.stats.majority_vote(fused.phase_answers).answers == fused.answer


@given(passes(), st.integers(2, 3))
def test_duplicated_phases_change_nothing(logp, times):
    once, again = pf.fuse(logp), pf.fuse(np.tile(logp, (times, 1)))
    np.testing.assert_allclose(once.posterior, again.posterior, rtol=1e-14)


def test_accuracy_moves_on_disagreements_only():
    rng = np.random.default_rng(3)
    fused = fusion.fuse_items(rng.normal(size=(400, 3, 4)))
    gold = rng.integers(0, 4, 400)
    agree = (fused.phase_answers == fused.phase_answers[:, :1]).all(axis=1)
    assert 0 < agree.sum() < 400
    for s in range(3):
        gained = (fused.answer == gold).astype(int) - (
            fused.phase_answers[:, s] == gold
        )
        assert not gained[agree].any()
