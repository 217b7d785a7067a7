from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import phasefusion as pf
from phasefusion import fusion
from phasefusion.errors import (
    OptionError,
    OptionWarning,
    PhaseFusionWarning,
    PosteriorError,
)

RNG = np.random.default_rng(11)
LOGP = RNG.normal(scale=2.0, size=(3, 4, 5))  # (S, M, K)


def test_linear_pool_is_the_mean_of_softmaxes():
    fused = pf.fuse(LOGP[:, 0])
    want = softmax(LOGP[:, 0], axis=-1).mean(axis=0)
    np.testing.assert_allclose(fused.posterior, want, rtol=1e-14)
    assert fused.answer == want.argmax()
    first, second = np.sort(want)[::-1][:2]
    assert fused.margin == pytest.approx(math.log(first / second), rel=1e-12)
    assert fused.phase_answers.tolist() == LOGP[:, 0].argmax(-1).tolist()
    assert fused.valid.all()
    assert fused.n_valid == 3
    assert not fused.tied
    assert isinstance(fused.answer, int)
    assert isinstance(fused.margin, float)


def test_loglinear_pool_is_the_mean_of_log_softmaxes():
    fused = pf.fuse(LOGP[:, 0], pool="loglinear")
    want = softmax(log_softmax(LOGP[:, 0], axis=-1).mean(axis=0))
    np.testing.assert_allclose(fused.posterior, want, rtol=1e-13)


def test_orders_are_pooled_on_their_own_or_not():
    by_order = pf.fuse(LOGP)
    assert by_order.posterior.shape == (4, 5)
    assert by_order.phase_answers.shape == (3, 4)
    for m in range(4):
        alone = pf.fuse(LOGP[:, m])
        np.testing.assert_array_equal(by_order.posterior[m], alone.posterior)
        assert by_order.answer[m] == alone.answer
        assert by_order.margin[m] == alone.margin
        np.testing.assert_array_equal(by_order.phase_answers[:, m], alone.phase_answers)
        np.testing.assert_array_equal(by_order.phase_margins[:, m], alone.phase_margins)
    pooled = pf.fuse(LOGP, over=("phase", "order"))
    want = softmax(LOGP, axis=-1).mean(axis=(0, 1))
    np.testing.assert_allclose(pooled.posterior, want, rtol=1e-14)
    np.testing.assert_array_equal(pooled.phase_answers, LOGP.argmax(-1))
    np.testing.assert_allclose(pooled.posterior, by_order.posterior.mean(0), rtol=1e-13)


def test_objects_with_an_array_are_accepted():
    class Scores:
        def __array__(self, dtype=None, copy=None):
            return np.asarray(LOGP, dtype=dtype)

    np.testing.assert_array_equal(pf.fuse(Scores()).posterior, pf.fuse(LOGP).posterior)


def test_phase_names_fix_the_order_of_summation():
    names = [Fraction(1, 6), Fraction(3, 6), Fraction(5, 6)]
    plain = pf.fuse(LOGP, phases=names)
    for perm in ([1, 2, 0], [2, 1, 0], [0, 2, 1]):
        moved = pf.fuse(LOGP[perm], phases=[names[s] for s in perm])
        np.testing.assert_array_equal(moved.posterior, plain.posterior)
        np.testing.assert_array_equal(moved.margin, plain.margin)
        np.testing.assert_array_equal(moved.phase_answers, plain.phase_answers[perm])
    with pytest.raises(PosteriorError, match="2 phases"):
        pf.fuse(LOGP, phases=[0, 1])


def test_missing_passes():
    logp = LOGP.copy()
    logp[1, 2, 3] = np.nan
    logp[2, 0, 0] = np.inf
    logp[0, 1] = -np.inf
    logp[0, 3, 1:] = -np.inf  # legal
    fused = pf.fuse(logp, item_id="q7")
    assert fused.answer.tolist()[:3] == [-1, -1, -1]
    assert not fused.tie_set[:3].any()
    assert fused.tie_set[3].sum() == 1
    assert fused.answer[3] >= 0
    assert np.isnan(fused.posterior[:3]).all()
    assert np.isnan(fused.margin[:3]).all()
    assert fused.n_valid.tolist() == [2, 2, 2, 3]
    assert fused.reasons == (
        "item 'q7', phase 0, order 1: no finite log-probability",
        "item 'q7', phase 1, order 2: NaN",
        "item 'q7', phase 2, order 0: +inf",
    )
    assert fused.phase_answers[1, 2] == -1
    assert np.isnan(fused.phase_margins[1, 2])
    available = pf.fuse(logp, missing="available")
    want = softmax(logp[[0, 2], 2], axis=-1).mean(0)
    np.testing.assert_allclose(available.posterior[2], want, rtol=1e-14)
    with pytest.raises(PosteriorError, match=r"3 invalid passes.*phase 0, order 1"):
        pf.fuse(logp, strict=True)
    everything = pf.fuse([[np.nan, 0.0]], missing="available")
    assert everything.answer == -1
    assert everything.reasons == ("phase 0: NaN",)


def test_veto_of_every_option_is_no_answer():
    logp = [[0.0, -np.inf], [-np.inf, 0.0]]
    fused = pf.fuse(logp, pool="loglinear")
    assert fused.answer == -1
    assert fused.reasons == ("every option is vetoed by a -inf",)
    assert pf.fuse(logp, item_id="x").tied


def test_ties_follow_the_priority_of_the_item():
    logp = [[1.0, 0.0, -2.0], [0.0, 1.0, -2.0]]
    answers = set()
    for i in range(20):
        fused = pf.fuse(logp, item_id=f"q{i}")
        assert fused.tied
        assert fused.margin == 0.0
        assert fused.tie_set.tolist() == [True, True, False]
        order = pf.stats.tie_priority(f"q{i}", 3).tolist()
        assert fused.answer == next(k for k in order if k in (0, 1))
        answers.add(fused.answer)
    assert answers == {0, 1}
    assert pf.fuse([[0.0, 0.0]], item_id="a", seed=1).tied


def test_margin_survives_underflow():
    assert pf.fuse([[0.0, -800.0], [0.0, -900.0]]).margin == pytest.approx(
        800.0 + math.log(2), rel=1e-14
    )
    assert pf.fuse([[0.0, -np.inf]]).margin == math.inf
    assert pf.fuse([[3.0]]).margin == math.inf


def test_large_logits():
    fused = pf.fuse([[1000.0, 1001.0, 999.0], [-1000.0, -1002.0, -1001.0]])
    want = softmax([[0.0, 1.0, -1.0], [0.0, -2.0, -1.0]], axis=-1).mean(0)
    np.testing.assert_allclose(fused.posterior, want, rtol=1e-13)


def test_padding_has_no_mass_and_wins_no_tie():
    logp = np.array([[0.0, 0.0, np.nan, 99.0], [0.0, 0.0, 5.0, 5.0]])
    fused = pf.fuse(logp, n_options=2, item_id="p")
    assert fused.answer in (0, 1)
    assert fused.answer == pf.stats.tie_priority("p", 2)[0]
    assert fused.posterior.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_items_at_once_are_items_alone():
    logp = RNG.normal(size=(40, 3, 2, 6))
    n_options = RNG.integers(2, 7, 40)
    logp[RNG.random(logp.shape[:3]) < 0.05] = np.nan
    ids = [f"bench/{i}" for i in range(40)]
    for over in ("phase", ("phase", "order")):
        together = fusion.fuse_items(
            logp, n_options=n_options, item_ids=ids, over=over, missing="available"
        )
        for i in range(40):
            alone = pf.fuse(
                logp[i],
                n_options=int(n_options[i]),
                item_id=ids[i],
                over=over,
                missing="available",
            )
            np.testing.assert_array_equal(alone.posterior, together.posterior[i])
            np.testing.assert_array_equal(alone.answer, together.answer[i])
            np.testing.assert_array_equal(
                alone.phase_answers, together.phase_answers[i]
            )
            np.testing.assert_array_equal(alone.n_valid, together.n_valid[i])


def test_no_items():
    fused = fusion.fuse_items(np.zeros((0, 3, 4)))
    assert fused.answer.shape == (0,)
    assert fusion.fuse_items(np.zeros((0, 3, 2, 4))).posterior.shape == (0, 2, 4)


def test_float32_is_pooled_in_double():
    logp = np.array([[10.125, 9.875, 3.5], [1.5, 1.25, 1.75]], np.float32)
    want = softmax(logp.astype(float), axis=-1).mean(0)
    np.testing.assert_allclose(pf.fuse(logp).posterior, want, rtol=1e-15)


def test_posterior_and_margin_of_any_shape():
    np.testing.assert_allclose(pf.posterior(LOGP), softmax(LOGP, axis=-1), rtol=1e-14)
    ordered = np.sort(LOGP, axis=-1)
    want = ordered[..., -1] - ordered[..., -2]
    np.testing.assert_array_equal(fusion.margin(LOGP), want)
    assert pf.posterior([0.0, 0.0]).tolist() == [0.5, 0.5]
    assert pf.posterior(np.zeros((0, 3, 4))).shape == (0, 3, 4)
    assert fusion.margin([0.0, 2.0]) == 2.0
    bad = LOGP.copy()
    bad[1, 2, 0] = np.nan
    assert np.isnan(pf.posterior(bad)[1, 2]).all()
    with pytest.raises(PosteriorError, match=r"logp\[1, 2\] has NaN"):
        pf.posterior(bad, strict=True)
    with pytest.raises(PosteriorError, match="logp has no finite"):
        fusion.margin([-np.inf, -np.inf], strict=True)
    ragged = pf.posterior([[0.0, 0.0, 7.0], [0.0, 0.0, 0.0]], n_options=[2, 3])
    assert ragged[0].tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 1.0],), "shape \\(S, K\\)"),
        ((np.zeros((2, 0)),), "1 to 32 options"),
        ((np.zeros((0, 3)),), "no pass"),
        ((np.zeros((1, 33)),), "1 to 32"),
        (([["a", "b"]],), "must be numbers"),
    ],
)
def test_shapes_are_checked(arguments, message):
    with pytest.raises(PosteriorError, match=message):
        pf.fuse(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "mean"}, "pool must be one of"),
        ({"missing": "drop"}, "missing must be one of"),
        ({"over": "order"}, "over must be"),
        ({"over": ("phase",)}, "over must be"),
        ({"n_options": 6}, "n_options must be in 1..5"),
        ({"n_options": [5]}, "n_options of one item"),
    ],
)
def test_rules_are_checked(options, message):
    with pytest.raises(PosteriorError, match=message):
        pf.fuse(LOGP, **options)


def test_item_arguments_are_checked():
    with pytest.raises(PosteriorError, match="2 item ids"):
        fusion.fuse_items(LOGP, item_ids=["a", "b"])
    with pytest.raises(OptionError, match="must be text"):
        fusion.fuse_items(LOGP, item_ids=[1, 2, 3])
    with pytest.raises(PosteriorError, match="n_options"):
        fusion.fuse_items(LOGP, n_options=[5, 5])


def test_repr_fits_a_line():
    text = repr(pf.fuse([[0.0, 1.0], [2.0, 0.0]]))
    assert "\n" not in text
    assert text.startswith("FusedPosterior(answer=0, margin=0.")
    assert "2 of 2 passes valid, linear pool" in text
    assert "(4, 5), 4 of 4 answered" in repr(pf.fuse(LOGP))


def test_result_is_frozen():
    with pytest.raises(AttributeError):
        pf.fuse(LOGP).answer = 3


def test_position_weights():
    letters = RNG.normal(size=(4, 4))
    order = pf.orders.latin(4)
    made = fusion.position_weighted(letters, order, alpha=0.5)
    total = np.zeros(4)
    for v in range(4):
        for p in range(4):
            total[order[v, p]] += 0.5**p * (letters[v, p] - letters[v].mean())
    np.testing.assert_allclose(made.total, total, rtol=1e-12)
    np.testing.assert_allclose(made.posterior, softmax(total), rtol=1e-12)
    assert made.answer == total.argmax()
    with pytest.warns(PhaseFusionWarning, match="constant added"):
        fusion.position_weighted(letters, order, mode="raw")


def test_position_weights_refuse():
    order = pf.orders.latin(3)
    with pytest.raises(PosteriorError, match="do not match"):
        fusion.position_weighted(np.zeros((2, 3)), order)
    with pytest.raises(PosteriorError, match="finite"):
        fusion.position_weighted(np.full((3, 3), -np.inf), order)
    with pytest.raises(PosteriorError, match="alpha"):
        fusion.position_weighted(np.zeros((3, 3)), order, alpha=1.5)
    with pytest.raises(PosteriorError, match="mode"):
        fusion.position_weighted(np.zeros((3, 3)), order, mode="plain")


def test_items_without_their_passes():
    rng = np.random.default_rng(5)
    logp = rng.normal(size=(6, 3, 2, 4))
    logp[1, 0, 0, 2] = np.nan
    whole = fusion.fuse_items(logp, missing="available")
    lean = fusion.fuse_items(logp, missing="available", passes=False)
    np.testing.assert_array_equal(lean.posterior, whole.posterior)
    np.testing.assert_array_equal(lean.margin, whole.margin)
    np.testing.assert_array_equal(lean.valid, whole.valid)
    assert lean.reasons == whole.reasons
    assert lean.phase_answers.shape == lean.phase_margins.shape == (6, 0)


def padded(beyond, rows):
    """Two items, the second with padding."""
    two = [rows, [[0.3, 0.7, beyond], [0.1, 0.9, beyond], [0.5, 0.5, beyond]]]
    fusion.fuse_items(two, n_options=[3, 2])


PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]])


@pytest.mark.parametrize(
    "call",
    [
        lambda p: pf.fuse(p),
        lambda p: pf.fuse(p[:, None], over=("phase", "order")),
        lambda p: fusion.fuse_items(p[None]),
        lambda p: pf.posterior(p),
        lambda p: fusion.margin(p.astype(np.float32)),
        lambda p: pf.fuse(np.vstack([p, np.full(3, np.nan)]), missing="available"),
        lambda p: pf.fuse(np.hstack([p, np.full((3, 1), 9.0)]), n_options=3),
        *(partial(padded, beyond) for beyond in (-np.inf, -1.0, 2.0, np.nan)),
        lambda p: pf.posterior([0.3, 0.7, -1.0], n_options=2),
    ],
)
def test_probabilities_in_the_place_of_logs_are_warned_of(call):
    with pytest.warns(OptionWarning, match="these are probabilities; take the log"):
        call(PROBABILITIES)


@pytest.mark.parametrize(
    "logp",
    [
        np.log(PROBABILITIES[::2]),
        PROBABILITIES + 0.1,
        np.array([[0.7, 0.2, 0.1], [2.0, -1.0, 0.0]]),
        np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.2]]),
        np.zeros((2, 1)),
        [[0.5, 0.5]] * 200 + [[0.5, -0.5]],
    ],
)
def test_logits_are_not_taken_for_probabilities(logp):
    pf.fuse(logp)
    pf.posterior(logp)


def test_complex_logp_is_refused():
    for call in (pf.fuse, pf.posterior):
        with pytest.raises(PosteriorError, match="they are complex"):
            call(LOGP[:, 0] + 0j)
