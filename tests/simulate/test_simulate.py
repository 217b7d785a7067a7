"""Corpora: the same every time, with the effects they were given, readable as runs."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import phasefusion as pf
from phasefusion import stats
from phasefusion.cli import app
from phasefusion.errors import OptionError, StatisticsError
from phasefusion.records import read_passes
from phasefusion.simulate import Design, Effects, corpus
from phasefusion.simulate._world import HARMONICS, make_model, phase_effect

QUIET = Effects(noise_sd=0.0)


def test_the_same_seed_makes_the_same_passes():
    one, same, other = (corpus(n_videos=5, seed=s) for s in (1, 1, 2))
    for arm in ("phase", "single", "union", "dense"):
        np.testing.assert_array_equal(one.logits(arm), same.logits(arm))
        assert not np.array_equal(one.logits(arm), other.logits(arm))


def test_models_and_passes_do_not_depend_on_what_else_is_made():
    alone, many = corpus(n_videos=5, seed=1), corpus(n_videos=5, n_models=3, seed=1)
    many.logits("dense", model=2)
    np.testing.assert_array_equal(alone.logits("phase"), many.logits("phase"))
    assert not np.array_equal(many.logits("phase"), many.logits("phase", model=1))
    with pytest.raises(StatisticsError, match="model 3"):
        many.logits("phase", model=3)
    with pytest.raises(StatisticsError, match="arm 'vote'"):
        many.logits("vote")


def test_passes_have_the_shape_of_their_items():
    made = corpus(n_videos=30, n_options={2: 1, 3: 1, 8: 1}, seed=4)
    scores = made.logits("phase")
    inside = np.arange(8) < made.n_options[:, None]
    there = np.arange(10) < made.n_orders[:, None]
    assert set(made.n_orders[made.n_options == 2]) == {2}
    assert set(made.n_orders[made.n_options == 3]) == {6}
    assert set(made.n_orders[made.n_options == 8]) == {10}
    finite = np.isfinite(scores)
    np.testing.assert_array_equal(
        finite,
        np.broadcast_to((inside[:, None] & there[:, :, None])[:, None], finite.shape),
    )
    answers = made.answers("phase")
    assert ((answers >= 0) == np.broadcast_to(there[:, None], answers.shape)).all()
    assert (answers < made.n_options[:, None, None]).all()
    assert (made.gold < made.n_options).all()


def test_the_single_pass_is_the_view_that_it_repeats():
    made = corpus(n_videos=6, seed=2)
    np.testing.assert_array_equal(made.logits("single"), made.logits("phase")[:, 1:2])
    even = corpus(n_videos=6, seed=2, phases=2)
    assert even.grid("single").phase(0) not in [
        even.grid("phase").phase(s) for s in (0, 1)
    ]
    assert even.logits("single").shape[1] == 1


def test_without_noise_a_rerun_changes_nothing():
    made = corpus(QUIET, n_videos=8, seed=3)
    np.testing.assert_array_equal(made.logits("phase"), made.logits("phase", rerun=1))
    assert (made.columns()["re-run change"] == 0).all()
    noisy = corpus(n_videos=8, seed=3)
    assert not np.array_equal(noisy.logits("phase"), noisy.logits("phase", rerun=1))


def test_without_an_effect_of_the_phase_views_are_re_runs():
    still = corpus(dataclasses.replace(QUIET, phase_sd=0.0), n_videos=8, seed=3)
    answers = still.answers("phase")
    assert (answers == answers[:, :1]).all()
    columns = still.columns()
    assert (
        columns["phase flip any"].max() == columns["half-step change single"].max() == 0
    )
    assert still.truth(n_items=24)["matched-vote excess"].how == "construction"


def test_without_an_effect_of_the_order_orders_agree():
    flat = dataclasses.replace(QUIET, order_sd=0.0, position_bias=0.0)
    made = corpus(flat, n_videos=8, seed=3)
    assert made.columns()["order flip any"].max() == 0
    biased = corpus(dataclasses.replace(flat, position_bias=2.0), n_videos=30, seed=3)
    place = (biased.world.order == biased.answers("single")[:, 0][:, :, None]).argmax(2)
    there = np.arange(place.shape[1]) < biased.n_orders[:, None]
    shares = np.bincount(place[there], minlength=5) / there.sum()
    assert shares[0] > shares[1] > shares[3]


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_denser_grid_sees_the_mean_over_its_components(times):
    made = corpus(n_videos=3, seed=1)
    model = make_model(made.world, 0)
    phase = np.array([0.1, 0.7])
    parts = (phase[:, None] + np.arange(times)) / times
    mean = phase_effect(model, parts.ravel(), 1)
    mean = mean.reshape(len(mean), 2, times, -1).mean(axis=2)
    np.testing.assert_allclose(phase_effect(model, phase, times), mean, atol=1e-12)


def test_the_effect_of_the_phase_is_periodic_and_as_large_as_said():
    effects = Effects(phase_sd=0.5)
    made = corpus(effects, n_videos=700, seed=1)
    model = make_model(made.world, 0)
    grid = np.arange(4 * HARMONICS) / (4 * HARMONICS)
    effect = phase_effect(model, grid, 1)
    assert effect.std() == pytest.approx(0.5, rel=0.05)
    np.testing.assert_allclose(phase_effect(model, grid + 1, 1), effect, atol=1e-9)


def test_missing_passes_are_as_many_as_said():
    made = corpus(Effects(missing=0.2), n_videos=60, seed=3)
    there = np.arange(made.answers("phase").shape[2]) < made.n_orders[:, None]
    lost = made.answers("phase") < 0
    share = (lost & there[:, None]).sum() / (there.sum() * 3)
    assert share == pytest.approx(0.2, abs=0.02)
    assert made.truth(n_items=10)["missing"].value == 0.2


def test_models_share_what_they_are_told_to():
    alike = corpus(Effects(shared=1.0, noise_sd=0.0), n_videos=5, n_models=2, seed=1)
    np.testing.assert_array_equal(alike.logits("phase"), alike.logits("phase", model=1))
    apart = corpus(Effects(shared=0.0), n_videos=300, n_models=2, seed=1)
    first, second = (make_model(apart.world, m).wave[:, 0, 0, 0] for m in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


def test_report_on_a_written_run_gives_the_columns(tmp_path):
    made = corpus(Effects(missing=0.01), n_videos=20, n_models=2, seed=7)
    paths = made.write(tmp_path, reruns=1)
    assert [path.name for path in paths] == [
        "model-0",
        "model-0-rerun-1",
        "model-1",
        "model-1-rerun-1",
    ]
    for model in (0, 1):
        found = pf.report(paths[2 * model]).to_dict()
        columns = made.columns(model)
        for arm in ("single", "union", "dense", "fusion"):
            value = found["half_step"]["arms"][arm]["consensus"]["value"]
            whole = ~np.isnan(
                [
                    columns[f"half-step change {a}"]
                    for a in ("single", "union", "dense", "fusion")
                ]
            ).any(axis=0)
            assert value == pytest.approx(
                columns[f"half-step change {arm}"][whole].mean(), abs=0.02
            )
    passes = read_passes(paths[0])
    there = np.arange(made.world.order.shape[1]) < made.n_orders[:, None]
    assert len(passes) == there.sum() * (3 + 1 + 1) * 2
    assert (passes.answer >= 0).mean() == pytest.approx(0.99, abs=0.005)


def test_written_passes_are_those_of_the_corpus(tmp_path):
    made = corpus(n_videos=3, seed=7)
    (path,) = made.write(tmp_path)
    passes = read_passes(path)
    chosen = (passes.arm == "phase") & ~passes.shifted
    logp = made.logprobs("phase")
    rows = np.flatnonzero(chosen)
    order = [tuple(o[o >= 0].tolist()) for o in passes.order[rows]]
    for row, key in zip(rows, order, strict=True):
        i, s = passes.item[row], passes.phase_index[row]
        k = len(key)
        m = [tuple(o[:k].tolist()) for o in made.world.order[i]].index(key)
        np.testing.assert_allclose(
            passes.logprobs[row, :k], logp[i, s, m, list(key)], rtol=1e-12
        )
    lines = (path / "passes.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert len(first["frame_indices"]) == 8
    assert first["frame_times_s"][1] == pytest.approx(first["frame_indices"][1] / 30)


def test_estimates_come_to_the_truth():
    made = corpus(n_videos=40, seed=11)
    truth = made.truth(n_items=4000)
    sample = corpus(n_videos=700, seed=12)
    for name, values in sample.columns().items():
        got = stats.clustered_mean(values, sample.video)
        error = np.hypot(got.se, truth[name].se)
        assert abs(got.mean - truth[name].value) < 4 * error, name
        assert truth[name].how == "sample"
        assert "from" in str(truth[name])


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"n_videos": 0}, "n_videos"),
        ({"benchmarks": ()}, "benchmarks"),
        ({"n_options": {1: 1}}, r"n_options\[1\]"),
        ({"n_options": {4: 0}}, "no weight"),
        ({"orders": "latin"}, "latin"),
        ({"dense": 4}, "dense"),
    ],
)
def test_designs_that_cannot_be(design, message):
    with pytest.raises(StatisticsError, match=message):
        Design(**design)


@pytest.mark.parametrize(
    ("effects", "message"),
    [
        ({"noise_sd": -1.0}, "noise_sd"),
        ({"shared": 1.5}, "shared"),
        ({"missing": 1.0}, "missing"),
        ({"ability": float("nan")}, "ability"),
    ],
)
def test_effects_that_cannot_be(effects, message):
    with pytest.raises(StatisticsError, match=message):
        Effects(**effects)


def test_all_orders_of_many_options_are_refused():
    with pytest.raises(OptionError):
        corpus(n_videos=1, orders="all", n_options={12: 1})


def test_command(tmp_path):
    command = ["records", "simulate", "--out", str(tmp_path / "a"), "--n-videos", "4"]
    made = CliRunner().invoke(
        app,
        [*command, "--n-options", "4", "--effect", "noise_sd=0", "--truth", "--json"],
    )
    assert made.exit_code == 0, made.output
    found = json.loads(made.output)
    assert found["items"] == 12
    assert found["truth"]["re-run change"]["value"] == 0.0
    assert len(read_passes(found["runs"][0]).items) == 12
    text = CliRunner().invoke(app, [*command[:3], str(tmp_path / "b"), *command[4:]])
    assert "model-0" in text.output
    assert "Next: phasefusion report" in text.output


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--effect", "noise=1"), "noise"),
        (("--effect", "noise_sd=x"), "'x' is no number"),
        (("--n-options", "four"), "four"),
    ],
)
def test_command_refuses(tmp_path, option, message):
    made = CliRunner().invoke(
        app, ["records", "simulate", "--out", str(tmp_path), *option]
    )
    assert isinstance(made.exception, StatisticsError)
    assert message in str(made.exception)
