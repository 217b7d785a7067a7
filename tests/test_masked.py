"""What a mask hides is missing, or refused; it is never counted."""

import inspect
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import phasefusion as pf
from phasefusion import fusion, orders, stats
from phasefusion.errors import FrameError, PhaseFusionError, StatisticsError

RNG = np.random.default_rng(8)
N = 12
VIEWS = RNG.dirichlet([1.0, 1.0, 1.0], (N, 3))
X, Y = RNG.normal(size=N), RNG.normal(size=N)
SHARE = RNG.random(N)
UP, DOWN = RNG.integers(0, 2, N), RNG.integers(0, 2, N)
BY = np.arange(N) // 2
ANSWERS = RNG.integers(0, 3, (N, 4))
CUBE = RNG.integers(0, 3, (N, 2, 4))
GOLD = RNG.integers(0, 3, N)
SIZES = np.full(N, 3)
CYCLIC = orders.cyclic(3)
MANY = np.resize(CYCLIC, (4, 3))
BATCHES = {"values": SHARE, "sizes": np.full(N, 50)}
BASELINE = stats.batch_baseline(SHARE, SHARE + 0.1, np.full(N, 50))
FEW = {"n_resamples": 9}

ARGUMENTS = {
    stats.accuracy: {"correct": UP},
    stats.adaptive_curve: {
        "posteriors": VIEWS,
        "thresholds": np.array([2.0, 0.0]),
        "shifted": VIEWS[:, ::-1],
        "gold": GOLD,
        "order": np.array([2, 0, 1]),
        "shifted_order": np.array([1, 0, 2]),
        "n_options": SIZES,
    },
    stats.adaptive_phases: {
        "posteriors": VIEWS,
        "threshold": 1.0,
        "order": np.array([2, 0, 1]),
        "n_options": SIZES,
    },
    stats.adjust_pvalues: {"pvalues": SHARE},
    stats.allocation: {"correct": ANSWERS % 2, "costs": np.arange(4.0) + 1},
    stats.attention_units: {"n_phases": SIZES, "budget": SIZES},
    stats.auroc: {"positive": UP, "score": X, "cluster": BY},
    stats.auroc_bootstrap: {"positive": UP, "score": X, **FEW},
    stats.batch_baseline: {"errors": SHARE + 0.1, **BATCHES},
    stats.batch_chart: {**BATCHES, "baseline": BASELINE},
    stats.bernoulli_cusum: {"outcomes": UP, "p0": 0.2, "p1": 0.4},
    stats.calibrate_adaptive: {
        "posteriors": VIEWS,
        "alpha": 0.2,
        "delta": 0.1,
        "shifted": VIEWS[:, ::-1],
        "thresholds": np.array([2.0, 0.0]),
        "cluster": BY,
        "order": np.array([2, 0, 1]),
        "shifted_order": np.array([1, 0, 2]),
        "n_options": SIZES,
    },
    stats.change_rate: {"a": GOLD, "b": GOLD[::-1]},
    stats.cluster_bootstrap: {"values": X, "cluster": BY, "denominator": SHARE, **FEW},
    stats.cluster_bootstrap_exact: {
        "values": UP,
        "cluster": BY // 2,
        "denominator": UP + 1,
    },
    stats.clustered_mcnemar: {"diff": UP - DOWN, "cluster": BY},
    stats.clustered_mean: {"values": X, "cluster": BY},
    stats.clustered_proportion: {"values": UP, "cluster": BY},
    stats.cmh: {"tables": RNG.integers(1, 9, (3, 2, 2))},
    stats.cochran_q: {"correct": ANSWERS % 2},
    stats.columns_bootstrap: {"values": ANSWERS % 2, "cluster": BY, **FEW},
    stats.confidence_guided: {"posteriors": VIEWS},
    stats.consensus: {
        "votes": ANSWERS,
        "n_options": SIZES,
        "mean_posterior": VIEWS[:, 0],
    },
    stats.consistency: {"answers": ANSWERS},
    stats.consistency_rebalanced_accuracy: {
        "answers": ANSWERS,
        "gold": GOLD,
        "cluster": BY,
    },
    stats.control_risk: {
        "confidence": SHARE,
        "error": UP,
        "thresholds": np.array([0.9, 0.1]),
        "alpha": 0.3,
        "delta": 0.1,
    },
    stats.correlation: {"x": X, "y": Y, "cluster": BY, **FEW},
    stats.cusum: {"values": X, "mean": 0.0, "sigma": 1.0},
    stats.discordant: {"a": UP, "b": DOWN},
    stats.divide_by_prior: {"observed": VIEWS[:, 0], "prior": VIEWS[0, 0]},
    stats.ewma: {"values": X, "mean": 0.0, "sigma": 1.0},
    stats.expected_any_flip: {"counts": np.array([[3, 1], [2, 2]]), "m": 2},
    stats.fixation: {
        "contents": ANSWERS,
        "n_options": 3,
        "letters": ANSWERS[::-1],
        "position_posteriors": np.resize(VIEWS, (N, 4, 3)),
    },
    stats.fixed_sequence: {
        "n_selected": np.array([20, 40]),
        "n_errors": np.array([0, 9]),
        "alpha": 0.3,
        "delta": 0.1,
    },
    stats.flag_lowest: {"margins": SHARE, "flipped": UP},
    stats.flag_transfer: {"margins": SHARE, "flipped": UP, "threshold": 0.5},
    stats.flip_auroc: {"margins": SHARE, "flipped": UP, "cell": BY // 3, "cluster": BY},
    stats.flip_rates: {"answers": ANSWERS},
    stats.flip_ratio: {"flips": UP, "rerun_flips": DOWN, "cluster": BY, **FEW},
    stats.gains_by: {
        "a": UP,
        "b": DOWN,
        "values": SHARE,
        "edges": np.array([0.0, 0.5, 1.0]),
    },
    stats.half_split_residual: {
        "answers": ANSWERS,
        "size": 2,
        "n_options": SIZES,
        "cluster": BY,
    },
    stats.half_step_order: {"order": np.array([2, 0, 1])},
    stats.hoeffding_bentkus: {"risk": SHARE, "n": SIZES, "alpha": 0.2},
    stats.letter_prior: {"observed": VIEWS},
    stats.lost_correct: {"answers": ANSWERS, "gold": GOLD},
    stats.majority_vote: {
        "phase_answers": ANSWERS,
        "n_options": SIZES,
        "mean_posterior": VIEWS[:, 0],
    },
    stats.matched_vote: {"answers": CUBE, "n_options": SIZES, "cluster": BY},
    stats.matched_vote_null: {"answers": CUBE, "n_options": SIZES, "n_permutations": 9},
    stats.order_flip_rates: {"answers": ANSWERS, "orders": MANY},
    stats.p_chart: {"k": SIZES, "n": SIZES * 9},
    stats.paired_difference: {"a": UP, "b": DOWN},
    stats.permutation_marginal: {"observed": VIEWS[0], "orders": CYCLIC},
    stats.pride: {"observed": VIEWS[:, 0], "rotations": VIEWS, "estimated": UP > 0},
    stats.quantile: {"values": X, "q": np.array([0.1, 0.5])},
    stats.random_draw_change_rate: {
        "first": ANSWERS,
        "second": ANSWERS[::-1],
        "cluster": BY,
    },
    stats.rank_reversals: {"scores": X.reshape(4, 3)},
    stats.rarefied_flip_rate: {"answers": ANSWERS, "m": 2},
    stats.risk_coverage: {"confidence": SHARE, "error": UP},
    stats.self_starting_cusum: {**BATCHES, "baseline": BASELINE},
    stats.shared_unstable: {"a": UP, "b": DOWN},
    stats.sign_flip_test: {"cluster_sums": X},
    stats.tie_range: {
        "counts_a": np.array([[2, 2, 0], [1, 3, 0]]),
        "counts_b": np.array([[2, 2, 0], [1, 0, 3]]),
    },
    stats.tost: {"values": SHARE - 0.5, "cluster": BY, "margin": 0.4},
    stats.unanimity: {"answers": ANSWERS, "gold": GOLD, "orders": MANY},
    stats.view_diagnostic: {"pooled": GOLD, "views": ANSWERS, "gold": GOLD},
    stats.worst_case_accuracy: {"answers": ANSWERS, "gold": GOLD},
    fusion.fuse: {"logp": np.log(VIEWS[0])},
    fusion.fuse_items: {"logp": np.log(VIEWS), "n_options": SIZES},
    fusion.margin: {"logp": np.log(VIEWS[0]), "n_options": np.array([3, 3, 2])},
    fusion.position_weighted: {"letter_logits": VIEWS[0], "orders": CYCLIC},
    fusion.posterior: {"logp": np.log(VIEWS[0]), "n_options": np.array([3, 3, 2])},
    orders.answers_to_content: {"answers": ANSWERS, "orders": MANY},
    orders.answers_to_letters: {"answers": ANSWERS, "orders": MANY},
    orders.distinct: {"orders": CYCLIC},
    orders.is_balanced: {"orders": CYCLIC},
    orders.letter_counts: {"orders": CYCLIC},
    orders.to_content: {"letter_values": VIEWS, "orders": CYCLIC},
    orders.to_letters: {"content_values": VIEWS, "orders": CYCLIC},
    orders.validate: {"orders": CYCLIC},
}

ANY_VALUE = ("cluster", "cell", "diff", "scores", "n_options", "estimated")


def takes_arrays(function):
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if "ArrayLike" in str(p.annotation)]


CASES = [(function, name) for function in ARGUMENTS for name in takes_arrays(function)]


def outcome(function, given):
    try:
        made = function(**given)
    except PhaseFusionError as error:
        return str(error)
    if hasattr(made, "__dataclass_fields__"):
        return {name: getattr(made, name) for name in made.__dataclass_fields__}
    return made


def test_every_function_of_arrays_is_here():
    for module in (stats, fusion, orders):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and takes_arrays(function):
                assert set(takes_arrays(function)) <= set(ARGUMENTS[function]), name


@pytest.mark.parametrize(("function", "name"), CASES, ids=lambda x: str(x)[:40])
def test_a_masked_entry_is_missing_or_refused(function, name):
    given = ARGUMENTS[function]
    whole = np.asarray(given[name])
    mask = np.zeros(whole.shape, bool)
    mask[(1,) * whole.ndim] = True
    hidden = whole.copy()
    hidden[mask] = whole[(0,) * whole.ndim]  # a value that could be
    made = outcome(function, given | {name: np.ma.array(hidden, mask=mask)})
    fills = (-1, np.nan) if whole.dtype.kind in "iu" else (np.nan,)
    expected = [
        outcome(function, given | {name: np.where(mask, fill, hidden)})
        for fill in fills
    ]
    if isinstance(made, str) and "is masked, and" in made:
        assert made.startswith(f"{name}[{', '.join('1' * whole.ndim)}] is masked")
        # where -1 and NaN are values as all others, nothing can be missing
        assert name in ANY_VALUE or all(isinstance(one, str) for one in expected)
    else:
        assert any(equal(made, one) for one in expected), (made, expected)


def equal(a, b):
    try:
        np.testing.assert_equal(a, b)
    except AssertionError:
        return repr(a) == repr(b)
    return True


@pytest.mark.parametrize(("function", "name"), CASES, ids=lambda x: str(x)[:40])
def test_a_mask_that_hides_nothing_changes_nothing(function, name):
    given = ARGUMENTS[function]
    made = outcome(function, given | {name: np.ma.array(given[name])})
    assert equal(made, outcome(function, given))


def test_rows_of_which_one_is_masked_count_too():
    rows = [np.ma.array([0, 1, 1], mask=[0, 1, 0]), np.array([2, 2, 0])]
    assert equal(stats.flip_rates(rows), stats.flip_rates([[0, -1, 1], [2, 2, 0]]))


def test_frames_and_places_may_not_be_masked():
    frames = np.ma.array(np.zeros((4, 4, 3), np.uint8), mask=False)
    assert pf.resize(frames, (2, 2)).shape == (2, 2, 3)
    frames[1, 2, 0] = np.ma.masked
    with pytest.raises(FrameError, match=r"frames\[1, 2, 0\] is masked"):
        pf.resize(frames, (2, 2))
    ticks = np.ma.array([0, 1, 2, 3], mask=[0, 0, 1, 0])
    with pytest.raises(PhaseFusionError, match=r"pts\[2\] is masked"):
        pf.PhaseGrid(2).select(ticks, 4)


def test_a_custom_missing_answer_stands_for_a_mask():
    table = np.ma.array([[0, 1, 1], [2, 2, 0]], mask=[[0, 1, 0], [0, 0, 0]])
    made = stats.flip_rates(table, missing=9)
    assert equal(made, stats.flip_rates([[0, 9, 1], [2, 2, 0]], missing=9))


def test_unsigned_answers_do_not_wrap_around():
    table = np.array([[0, 2**64 - 1], [1, 1]], np.uint64)
    said = r"answers hold 18446744073709551615, which is above 2\*\*63-1"
    with pytest.raises(StatisticsError, match=said):
        stats.flip_rates(table)
    assert equal(
        stats.flip_rates(np.array([[0, 1]], np.uint64)), stats.flip_rates([[0, 1]])
    )


def test_exact_numbers_are_numbers():
    given = [Fraction(1, 4), Decimal("0.5"), 1]
    assert equal(stats.clustered_mean(given), stats.clustered_mean([0.25, 0.5, 1.0]))
    with pytest.raises(StatisticsError, match="values must be numbers: dtype object"):
        stats.clustered_mean([Fraction(1, 4), "1"])
