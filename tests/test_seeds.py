"""Every function with a seed takes the same things for one, and refuses the others."""

import dataclasses
import importlib
import inspect

import numpy as np
import pytest

import phasefusion as pf
from phasefusion import capacity, fusion, importers, orders, planning, simulate, stats
from phasefusion.errors import PhaseFusionError
from phasefusion.protocols import make_plan

RNG = np.random.default_rng(5)
VIEWS = RNG.dirichlet([1.0, 1.0, 1.0], (12, 3))
X = RNG.normal(size=24)
Y = X + RNG.normal(size=24)
UP = (Y > 0.0).astype(int)
BY = np.arange(24) // 3
ANSWERS = RNG.integers(0, 3, (6, 2, 4))
TIED = np.zeros((3, 3))
ROW = {"question_id": "q", "logprobs": [-1.0] * 3, "order": [2, 0, 1], "n_options": 3}
FEW = {"n_resamples": 9}

CALLS = {
    stats.adaptive_curve: lambda s: stats.adaptive_curve(VIEWS, [2.0, 0.0], seed=s),
    stats.adaptive_phases: lambda s: stats.adaptive_phases(VIEWS, 1.0, seed=s),
    stats.auroc_bootstrap: lambda s: stats.auroc_bootstrap(UP, X, seed=s, **FEW),
    stats.calibrate_adaptive: lambda s: stats.calibrate_adaptive(
        VIEWS, alpha=0.2, delta=0.1, seed=s
    ),
    stats.cluster_bootstrap: lambda s: stats.cluster_bootstrap(X, BY, seed=s, **FEW),
    stats.columns_bootstrap: lambda s: stats.columns_bootstrap(
        UP[:, None], BY, seed=s, **FEW
    ),
    stats.confidence_guided: lambda s: stats.confidence_guided(VIEWS, seed=s),
    stats.consensus: lambda s: stats.consensus([0, 1, 2], seed=s),
    stats.correlation: lambda s: stats.correlation(X, Y, cluster=BY, seed=s, **FEW),
    stats.divide_by_prior: lambda s: stats.divide_by_prior(
        VIEWS[:, 0], [0.2, 0.3, 0.5], seed=s
    ),
    stats.flip_ratio: lambda s: stats.flip_ratio(UP, UP[::-1], seed=s, **FEW),
    stats.half_split_residual: lambda s: stats.half_split_residual(
        ANSWERS[:, 0], 2, seed=s
    ),
    stats.majority_vote: lambda s: stats.majority_vote(ANSWERS[0], seed=s),
    stats.matched_vote: lambda s: stats.matched_vote(ANSWERS, splits=2, seed=s),
    stats.matched_vote_null: lambda s: stats.matched_vote_null(
        ANSWERS, n_permutations=9, seed=s
    ),
    stats.permutation_marginal: lambda s: stats.permutation_marginal(
        VIEWS[0], orders.cyclic(3), seed=s
    ),
    stats.pride: lambda s: stats.pride(VIEWS[:, 0], VIEWS, seed=s),
    stats.sign_flip_test: lambda s: stats.sign_flip_test(X, seed=s, **FEW),
    stats.splitmix64: lambda s: stats.splitmix64(s, 3),
    stats.tie_priority: lambda s: stats.tie_priority("q", 5, s),
    pf.fuse: lambda s: pf.fuse(TIED, seed=s),
    fusion.fuse_items: lambda s: fusion.fuse_items(TIED[None], seed=s),
    fusion.position_weighted: lambda s: fusion.position_weighted(
        TIED, orders.cyclic(3), seed=s
    ),
    orders.shared: lambda s: orders.shared(5, 4, s),
    planning.measure: lambda s: planning.measure(X, BY, seed=s, **FEW),
    simulate.Design: lambda s: simulate.Design(seed=s),
    capacity.Conditions: lambda s: capacity.Conditions(2, seed=s),
    capacity.heavy_tailed: lambda s: capacity.heavy_tailed(3, seed=s),
    importers.most_probable: lambda s: importers.most_probable(ROW, seed=s),
    make_plan: lambda s: make_plan("stableeval", orders="shared", seed=s),
    "random": lambda s: pf.PhaseGrid(4, 3).random(s),
}
ELSEWHERE = {pf.evaluate, planning.pilot}  # need a run; below


def with_a_seed():
    modules = "stats fusion orders planning simulate capacity importers protocols"
    for name in modules.split():
        module = importlib.import_module(f"phasefusion.{name}")
        for public in module.__all__:
            found = getattr(module, public)
            if not callable(found) or dataclasses.is_dataclass(found):
                continue
            if "seed" in inspect.signature(found).parameters:
                yield found


def test_every_function_with_a_seed_is_here():
    assert set(with_a_seed()) - ELSEWHERE <= set(CALLS)


@pytest.mark.parametrize("call", CALLS.values(), ids=map(str, CALLS))
def test_the_integers_of_numpy_are_seeds(call):
    wanted = repr(call(7))
    for kind in (np.int64, np.int8, np.uint64, np.uint8):
        assert repr(call(kind(7))) == wanted
    assert repr(call(np.uint64(2**64 - 3))) == repr(call(2**64 - 3))
    call(-1)


def test_seeds_count_modulo_2_to_64():
    for call in (CALLS[orders.shared], CALLS[stats.splitmix64], CALLS["random"]):
        assert repr(call(2**70 + 7)) == repr(call(7))
        assert repr(call(-1)) == repr(call(2**64 - 1))
    assert simulate.Design(seed=2**70 + 7).seed == 7


@pytest.mark.parametrize("seed", [1.0, "1", True, None, [1], np.float64(1.0)], ids=repr)
@pytest.mark.parametrize("call", CALLS.values(), ids=map(str, CALLS))
def test_nothing_else_is(call, seed):
    if seed is None and call is CALLS["random"]:
        return  # draws anew
    with pytest.raises(PhaseFusionError, match=r"must be a whole number"):
        call(seed)


class Nothing:
    def score(self, clip, question, options, *, orders=None):
        raise AssertionError


def test_a_bad_seed_of_a_run_is_refused_before_it_is_read(tmp_path):
    with pytest.raises(PhaseFusionError, match="seed='1' must be a whole number"):
        pf.evaluate([], Nothing(), out=tmp_path / "run", seed="1")
    with pytest.raises(PhaseFusionError, match=r"seed=1\.5 must be a whole number"):
        planning.pilot(tmp_path, seed=1.5)
