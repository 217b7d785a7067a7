"""What a pilot estimates, against the report, plain loops and enumeration."""

import itertools
import json
import math
from collections import defaultdict

import numpy as np
import pytest
from compare_runs import answer, write_run
from made_runs import made_run

from phasefusion.errors import RecordError, StatisticsError
from phasefusion.planning import Design, Estimate, measure, pilot
from phasefusion.report import report
from phasefusion.stats import clustered_mean, clustered_proportion


def plain_icc(values, cluster):
    """One-way analysis of variance, by the book."""
    groups = defaultdict(list)
    for value, label in zip(values, cluster, strict=True):
        groups[label].append(value)
    n, k = len(values), len(groups)
    mean = sum(values) / n
    between = sum(len(g) * (sum(g) / len(g) - mean) ** 2 for g in groups.values())
    within = sum((x - sum(g) / len(g)) ** 2 for g in groups.values() for x in g)
    ms_between, ms_within = between / (k - 1), within / (n - k)
    typical = (n - sum(len(g) ** 2 for g in groups.values()) / n) / (k - 1)
    return (ms_between - ms_within) / (ms_between + (typical - 1) * ms_within)


@pytest.mark.parametrize("seed", range(5))
def test_design_effect_and_icc(seed):
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 12, 40)
    values = rng.choice([-1.0, 0.0, 1.0], 40) + 0.3 * cluster
    made = measure(values, cluster, n_resamples=50)
    mean = clustered_mean(values, cluster)
    assert made.design_effect.value == pytest.approx(mean.design_effect)
    assert made.icc.value == pytest.approx(plain_icc(values, cluster))
    assert (made.mean.value, made.mean.low) == (mean.mean, mean.low)
    sizes = np.unique(cluster, return_counts=True)[1]
    assert made.cluster_cv == pytest.approx(sizes.std() / sizes.mean())
    assert made.cluster_size == pytest.approx(40 / len(sizes))


def test_intervals_are_those_of_every_resample():
    values = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    cluster = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3, 4])
    effects, iccs = [], []
    for drawn in itertools.product(range(5), repeat=5):
        rows = [np.flatnonzero(cluster == g) for g in drawn]
        x = values[np.concatenate(rows)]
        labels = np.repeat(np.arange(5), [len(r) for r in rows])
        if len(set(x.tolist())) < 2:
            continue
        effects.append(clustered_mean(x, labels).design_effect)
        if len(x) > 5:
            iccs.append(plain_icc(x.tolist(), labels.tolist()))
    made = measure(values, cluster, n_resamples=40_000)
    for found, all_of_them in ((made.design_effect, effects), (made.icc, iccs)):
        every = np.array(all_of_them)
        ranks = [
            (np.mean(every < bound - 1e-9), np.mean(every <= bound + 1e-9))
            for bound in (found.low, found.high)
        ]
        # the share of resamples below a bound, to the error of drawing them
        assert ranks[0][0] - 0.004 <= 0.025 <= ranks[0][1] + 0.004
        assert ranks[1][0] - 0.004 <= 0.975 <= ranks[1][1] + 0.004


def test_the_estimators_find_what_was_put_in():
    rng = np.random.default_rng(8)
    icc, size, n_clusters = 0.3, 4, 60
    cluster = np.repeat(np.arange(n_clusters), size)
    found = []
    for _ in range(300):
        own = rng.random((n_clusters, size)) < 0.4
        shared = rng.random((n_clusters, 1)) < 0.4
        values = np.where(rng.random((n_clusters, 1)) < icc, shared, own)
        made = measure(values.ravel().astype(float), cluster, n_resamples=1)
        found.append((made.icc.value, made.design_effect.value))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(300)
    # both are ratios: a bias of the order of 1 / clusters
    assert mean[0] == pytest.approx(icc, abs=4 * error[0] + 0.01)
    effect = Design.from_icc(icc, size).design_effect
    assert mean[1] == pytest.approx(effect, abs=4 * error[1] + 0.03)


def test_the_interval_of_a_clustered_rate_covers_it():
    rng = np.random.default_rng(10)
    icc, size, n_clusters, rate, draws = 0.3, 4, 80, 0.7, 1000
    cluster = np.repeat(np.arange(n_clusters), size)
    inside = 0
    for _ in range(draws):
        own = rng.random((n_clusters, size)) < rate
        shared = rng.random((n_clusters, 1)) < rate
        values = np.where(rng.random((n_clusters, 1)) < icc, shared, own)
        mean = measure(values.ravel().astype(float), cluster, n_resamples=1).mean
        inside += mean.low <= rate <= mean.high
    slack = 3 * math.sqrt(0.95 * 0.05 / draws)
    # the design effect is estimated too: a point less
    assert 0.94 - slack <= inside / draws <= 0.95 + slack


def test_the_order_of_the_items_decides_nothing():
    rng = np.random.default_rng(9)
    values, cluster = rng.random(60), rng.integers(0, 20, 60)
    order = rng.permutation(60)
    names = np.array([f"v{g}" for g in cluster])
    one = measure(values, cluster)
    other = measure(values[order], names[order])
    assert one.design_effect.low == pytest.approx(other.design_effect.low, rel=1e-9)
    assert one.icc.high == pytest.approx(other.icc.high, rel=1e-9)


def test_singletons_have_no_design_effect_to_estimate():
    made = measure([1.0, 0.0, math.nan, 1.0])
    assert made.n == made.n_clusters == 3
    assert made.design_effect.value == 1.0
    assert math.isnan(made.design_effect.low)
    assert math.isnan(made.icc.value)
    assert made.design() == Design()
    nothing = measure([math.nan])
    assert (nothing.n, nothing.n_clusters) == (0, 0)
    assert math.isnan(nothing.mean.value)


def test_intervals_of_rates_are_those_of_clustered_shares():
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(7), 5)
    values = (rng.random(35) < np.repeat(rng.random(7), 5)).astype(float)
    for x in (values, np.zeros(35), np.ones(35)):
        mean = measure(x, cluster, n_resamples=1).mean
        made = clustered_proportion(x, cluster)
        assert (mean.low, mean.high) == pytest.approx((made.low, made.high), rel=1e-9)
    assert made.n_effective == 7


def test_equal_values_have_no_design_effect():
    made = measure([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1])
    assert math.isnan(made.design_effect.value)
    assert made.design() == Design(1.0, 2.0)


def test_a_design_for_other_clusters_comes_from_the_icc():
    made = measure([1, 1, 0, 0, 1, 1, 0, 1], [0, 0, 1, 1, 2, 2, 3, 3])
    assert made.design(5).design_effect == pytest.approx(1 + 4 * made.icc.value)
    assert made.design().design_effect == made.design_effect.value
    apart = measure([1, 0, 0, 1, 1, 0], [0, 0, 1, 1, 2, 2])
    assert apart.design_effect.value < 1
    assert apart.design() == Design(1.0, 2.0)
    assert apart.design(3) == Design(1.0, 3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pilots")
    made_run(folder / "a", n_items=40)
    made_run(folder / "b", n_items=40, seed=1)
    return folder


def test_a_pilot_says_what_the_report_says(runs):
    made = pilot(runs / "a")
    numbers = report(runs / "a").numbers
    for entry in numbers["comparisons"]:
        pair = made.pair("fusion", entry["against"])
        only = entry["consensus"]["only_arm"] + entry["consensus"]["only_against"]
        assert pair.discordance.mean.value == only / entry["n"]
        points = entry["consensus"]["points"]
        assert 100 * pair.difference.mean.value == pytest.approx(points)
    for arm, values in numbers["accuracy"].items():
        assert made.rates[f"accuracy, {arm}"].mean.value == values["consensus"]["value"]
    flips = numbers["phase_flips"]["consensus"]
    found = made.rates["phase flips, pairwise"].mean.value
    assert found == pytest.approx(flips["pairwise"]["value"])
    for arm, values in numbers["half_step"]["arms"].items():
        found = made.rates[f"half-step change, {arm}"].mean.value
        assert found == values["consensus"]["value"]
    changed = numbers["half_step"]["fusion_against"]["union"]
    pair = made.pair("fusion", "union", "half-step change")
    only = changed["only_arm"] + changed["only_against"]
    assert pair.discordance.mean.value == only / 40


def test_clusters_are_videos_where_questions_share_them(runs):
    made = pilot(runs / "a")
    assert (made.cluster, made.n, made.n_clusters) == ("video", 40, 20)
    made = pilot(runs / "a", cluster="question")
    assert (made.cluster, made.n_clusters) == ("question", 40)
    assert made.pairs[0].difference.design_effect.value == 1.0


def test_several_runs_are_pooled_by_question(runs):
    made = pilot(runs / "a", runs / "b", cluster="question")
    assert (made.n, made.n_clusters) == (80, 40)
    one, other = (pilot(runs / name, cluster="question") for name in "ab")
    mean = (
        one.rates["accuracy, fusion"].mean.value
        + other.rates["accuracy, fusion"].mean.value
    ) / 2
    assert made.rates["accuracy, fusion"].mean.value == pytest.approx(mean)
    assert made.rates["accuracy, fusion"].cluster_size == 2.0
    # margins of two models have two scales
    assert {"single, run 1", "single, run 2"} <= set(made.auroc)


def test_a_run_of_one_arm_has_rates_alone(tmp_path):
    made_run(tmp_path, protocol="quick", n_items=12)
    made = pilot(tmp_path)
    assert made.pairs == ()
    assert set(made.rates) == {"accuracy, single"}
    with pytest.raises(StatisticsError, match="it has no two arms on the same items"):
        made.pair("fusion", "single")
    (notice,) = made.notices
    assert notice.startswith("one arm only, single: differences of arms")
    assert "phasefusion plan equivalence" in notice
    assert notice in made._repr_html_()


def test_runs_without_a_common_arm_say_so(tmp_path):
    runs = [
        write_run(tmp_path / arm, [answer("q", 0, arm=arm)]) for arm in ("8f", "16f")
    ]
    few, notice = pilot(*runs).notices
    assert few.startswith("all items are of one question: how much others would")
    assert "no two arms that all of the runs have (they have 8f, 16f)" in notice


@pytest.mark.parametrize("per_video", [1, 4])
def test_no_discordance_is_symmetric_about_no_difference(tmp_path, per_video):
    # both arms right on the same items, and then one arm never the better one
    run = write_run(
        tmp_path,
        [
            answer(f"q{i}", i % 2, arm=arm, video_id=f"v{i // per_video}")
            for i in range(8)
            for arm in ("8f", "16f")
        ],
    )
    made = pilot(run)
    n_clusters = 8 // per_video
    assert made.cluster == ("question" if per_video == 1 else "video")
    (pair,) = [p for p in made.pairs if p.of == "accuracy"]
    bound = 1 - 0.025 ** (1 / n_clusters)
    assert pair.difference.mean.value == 0.0
    assert pair.difference.mean.low == pytest.approx(-bound)
    assert pair.difference.mean.high == pytest.approx(bound)
    assert pair.discordance.mean.low == 0.0
    assert pair.discordance.mean.high > 0.3
    assert any("no item differs for 8f - 16f (accuracy)" in n for n in made.notices)


def test_a_difference_of_one_sign_is_no_rate():
    values = [1] * 3 + [0] * 27
    mean = clustered_mean(values)
    made = measure(values, signed=True).mean
    assert (made.low, made.high) == (mean.low, mean.high)
    assert made.low < 0.0 < measure(values).mean.low
    with pytest.raises(StatisticsError, match="outside the limits"):
        measure([2.0, 0.0], signed=True)


def test_a_pilot_is_json(runs):
    made = pilot(runs / "a")
    text = json.dumps(made.to_dict(), allow_nan=False)
    found = json.loads(text)
    assert found["pairs"][0]["arm"] == "fusion"
    assert found["auroc"]["single"]["value"] == made.auroc["single"].value
    assert "40 items in 20 clusters by video" in repr(made)


def test_a_pilot_prints_as_tables(runs):
    made = pilot(runs / "a")
    rates, pairs = made.sections()
    shown = {row[0]: row[1] for row in rates.rows}
    assert shown["accuracy, fusion"] == made.rates["accuracy, fusion"].mean.text(100, 1)
    assert not any("phase 0" in name for name in shown)
    assert len(pairs.rows) == len(made.pairs)
    assert made._repr_html_().count("<table>") == 2
    assert Estimate(0.1251, 0.1, 0.25).text(100, 1) == "12.5 [10.0, 25.0]"
    assert Estimate(1.0, math.nan, math.nan).text() == "1.00"
    assert Estimate(math.nan, math.nan, math.nan).text() == "–"


def test_what_is_no_pilot(tmp_path, runs):
    with pytest.raises(StatisticsError, match="at least one run"):
        pilot()
    with pytest.raises(FileNotFoundError):
        pilot(tmp_path / "none")
    with pytest.raises(StatisticsError, match="cluster must be one of"):
        pilot(runs / "a", cluster="benchmark")
    with pytest.raises(StatisticsError, match="n_resamples must be >= 1"):
        measure([1.0], n_resamples=0)
    made_run(tmp_path / "empty", n_items=1)
    (tmp_path / "empty" / "passes.jsonl").write_text("")
    with pytest.raises(RecordError, match="holds no passes yet"):
        pilot(tmp_path / "empty")
