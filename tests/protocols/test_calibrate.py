"""A threshold found in a run of all phases, and kept by the run that stops."""

import json
import math

import numpy as np
import pytest
from made_runs import made_run
from protocol_truth import K, RuleScorer, gold_of, run, spread, write_questions
from typer.testing import CliRunner

import phasefusion as pf
from phasefusion import stats
from phasefusion.cli import app
from phasefusion.errors import RecordError, StatisticsError

#: Thresholds that few questions can tell apart, and levels that they can certify.
LEVELS = {"alpha": 0.35, "delta": 0.2}


def by_phase(view, question, order):
    """Surer of some questions; the phase turns one in five, where it is unsure."""
    q, part = int(question), int(view.phase * 6)
    unsure = q % 5 == 1
    wrong = unsure and part < 3
    share = 0.5 + 0.1 * (part % 2) if unsure else 0.9
    return spread((gold_of(q) + wrong) % K, K, share)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    path = write_questions(folder, 20)
    made = run(
        path, folder / "run", RuleScorer(by_phase), "phasefusion", dense=6, n_orders=2
    )
    return path, made


def posteriors(origin, n=20):
    grid = pf.PhaseGrid(4, 3, origin)
    return np.array(
        [
            [np.exp(by_phase(View(grid.phase(s)), str(q), None)) for s in range(3)]
            for q in range(n)
        ]
    )


class View:
    def __init__(self, phase):
        self.phase = phase


@pytest.mark.parametrize("target", ["full", "half-step"])
def test_it_is_the_statistic_on_the_recorded_posteriors(whole, target):
    made = pf.calibrate(whole[1], target=target, **LEVELS, by_video=False)
    here, there = posteriors("midpoint"), posteriors("left")
    expected = stats.calibrate_adaptive(
        here,
        shifted=there if target == "half-step" else None,
        item_ids=[f"q{q}" for q in range(20)],
        **LEVELS,
    )
    np.testing.assert_allclose(made.certified.risks, expected.risks)
    np.testing.assert_allclose(made.certified.mean_phases, expected.mean_phases)
    assert made.threshold == expected.threshold
    assert made.certified.certified == expected.certified > 0
    curve = stats.adaptive_curve(here, shifted=there, gold=np.arange(20) % K)
    np.testing.assert_allclose(made.curve.accuracy, curve.accuracy)
    np.testing.assert_allclose(made.curve.changes, curve.changes)
    assert 0 < curve.changes[0] or 0 < curve.disagreement[-1]


def test_videos_are_clusters(whole):
    by_video = pf.calibrate(whole[1], **LEVELS)
    assert (by_video.certified.n, by_video.certified.n_clusters) == (20, 10)
    both = pf.calibrate(whole[1], orders="all", **LEVELS)
    # the order of the options changes nothing here
    np.testing.assert_allclose(both.curve.mean_phases, by_video.curve.mean_phases)


def test_one_lost_order_is_a_lost_phase_of_the_mean_over_orders(tmp_path):
    """A mean over the orders that are left would be another answer's posterior."""
    made_run(tmp_path, n_items=20, drop={(3, "phase", False, 1, 1)})
    first = pf.calibrate(tmp_path, **LEVELS)
    both = pf.calibrate(tmp_path, orders="all", **LEVELS)
    assert (first.certified.n, first.certified.n_dropped) == (20, 0)
    assert (both.certified.n, both.certified.n_dropped) == (19, 1)


def test_the_run_that_stops_costs_what_was_foretold(whole, tmp_path):
    path, full = whole
    made = pf.calibrate(full, **LEVELS, by_video=False)
    cost = made.certified.mean_phases[made.certified.certified - 1]
    again = run(
        path, tmp_path, RuleScorer(by_phase), "adaptive", threshold=made.threshold
    )
    assert again.n_passes == round(20 * cost) < 60
    (row,) = [r for r in made.rows() if r["answers"] == "adaptive, certified"]
    rows = again.report().numbers["figure"]["tables"][0]["rows"]
    assert rows[1]["right"]["value"] == pytest.approx(row["accuracy"])


def test_command(whole):
    folder = str(whole[1].path)
    levels = ["--alpha", "0.35", "--delta", "0.2"]
    done = CliRunner().invoke(
        app, ["calibrate", folder, "--by-question", *levels, "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    made = pf.calibrate(whole[1], by_video=False, **LEVELS)
    assert found["threshold"] == made.threshold
    assert found["curve"]["thresholds"][0] == "inf"  # all phases, as in run.json
    shown = CliRunner().invoke(app, ["calibrate", folder, "--by-question", *levels])
    assert f"Threshold {made.threshold:g} nats" in " ".join(shown.output.split())
    few = CliRunner().invoke(app, ["calibrate", folder, "--alpha", "0.01"])
    assert few.exit_code == 3
    assert "Nothing is certified" in few.output
    assert "clusters are needed" in " ".join(few.output.split())


def test_a_run_that_was_limited_lacks_nothing(tmp_path):
    path = write_questions(tmp_path, 8)
    scorer = RuleScorer(by_phase)
    made = run(path, tmp_path / "run", scorer, "phasefusion", limit=6, dense=12)
    found = pf.calibrate(made, **LEVELS)
    assert (found.n_questions, found.n_asked, found.unfinished()) == (6, 6, "")


def test_what_a_run_lacks_is_said(whole, tmp_path):
    """Two questions are not begun, one lacks a phase, one a phase of another order."""
    assert pf.calibrate(whole[1], **LEVELS).unfinished() == ""
    lost = {(3, "phase", False, 1, 0), (4, "phase", False, 2, 1)}
    passes = made_run(tmp_path, n_items=20, drop=lost)
    kept = [p for p in passes if p["question_id"] not in ("q18", "q19")]
    text = "".join(json.dumps(p) + "\n" for p in kept)
    (tmp_path / "passes.jsonl").write_text(text)
    made = pf.calibrate(tmp_path, **LEVELS)
    assert (made.n_questions, made.n_asked, made.n_missing) == (20, 18, 1)
    said = (
        "The run is not whole: 2 of 20 questions have no pass and 1 pass of the others "
        "is missing. All of this is of the 17 questions that have every phase"
    )
    assert made.unfinished().startswith(said)
    done = CliRunner().invoke(app, ["calibrate", str(tmp_path)])
    assert said in " ".join(done.output.split())
    found = made.to_dict()
    assert (found["questions"], found["asked"], found["missing_passes"]) == (20, 18, 1)
    every = pf.calibrate(tmp_path, orders="all", **LEVELS)
    assert (every.n_missing, every.certified.n) == (2, 16)
    kept = [p for p in kept if p["question_id"] != "q0" or p["phase_index"] != 2]
    text = "".join(json.dumps(p) + "\n" for p in kept)  # stopped within a question
    (tmp_path / "passes.jsonl").write_text(text)
    assert pf.calibrate(tmp_path, **LEVELS).n_missing == 2


def test_refusals(whole, tmp_path):
    path, full = whole
    with pytest.raises(StatisticsError, match="alpha"):
        pf.calibrate(full, alpha=0)
    with pytest.raises(StatisticsError, match="target"):
        pf.calibrate(full, target="none")
    quick = run(path, tmp_path / "q", RuleScorer(by_phase), "quick")
    with pytest.raises(RecordError, match="no phases to choose among"):
        pf.calibrate(quick)
    latin = run(path, tmp_path / "s", RuleScorer(by_phase), "stableeval")
    assert math.isnan(pf.calibrate(latin, **LEVELS).curve.changes[0])
    with pytest.raises(RecordError, match="half a step"):
        pf.calibrate(latin, target="half-step")
