"""Good, bad and drifting series get the right verdicts, with what and since when."""

import json
from dataclasses import replace

import numpy as np
import pytest
from batch_series import batch, item_values

from phasefusion._measures import measure_run
from phasefusion.errors import StatisticsError, UsageError
from phasefusion.monitor._watching import watch
from phasefusion.simulate import Effects, corpus

N = 40
CHANGED = 22  # first batch that is not as before
PER_BATCH = 60


def days(n):
    start = np.datetime64("2026-01-01")
    return [f"{start + i}T00:00:00Z" for i in range(n)]


def series(kind, seed=0):
    """Batches of fresh videos; effects change at `CHANGED`, or drift from there on."""
    found = []
    for i, at in enumerate(days(N)):
        late = max(0, i - CHANGED + 1)
        effects = Effects()
        if kind == "bad" and late:
            effects = Effects(phase_sd=0.9)
        elif kind == "drifting":
            effects = Effects(ability=1.2 - 0.06 * late)
        values, videos = item_values(effects, n_videos=PER_BATCH, seed=1000 * seed + i)
        described = {"model": {"path": "new" if kind == "bad" and late else "old"}}
        found.append(batch(at, values, videos, items=str(i), described=described))
    return found


def shown(batches, **options):
    given = {"baseline": 10, "every": 370.0, "width": None, "h": None}
    return watch(batches, "h.sqlite", **(given | options))


def test_a_good_series_is_in_control():
    made = shown(series("good"))
    assert (made.state, made.exit_status, made.alerts) == ("in control", 0, ())
    assert [one.measure for one in made.measures] == ["accuracy", "fpc", "ooc"]


def test_a_bad_series_alarms_at_once_and_says_what_changed():
    made = shown(series("bad"))
    assert (made.state, made.exit_status) == ("alarm", 1)
    fpc = made.measures[1]
    assert fpc.state == "alarm"
    chart = next(a for a in fpc.alerts if a.chart == "p chart")
    assert (chart.side, chart.active) == ("fell", True)
    assert chart.since == chart.found == days(N)[CHANGED]
    assert chart.changes == ("model.path: 'old' -> 'new'",)
    assert chart.value < chart.center - 0.1
    assert "what changed then: model.path" in str(made).replace("\n", " ")


@pytest.mark.parametrize(
    ("same_items", "said"), [(True, ("videos: other files",)), (False, ())]
)
def test_an_alert_says_that_videos_are_other_files(same_items, said):
    batches = series("bad")
    for i, one in enumerate(batches):
        items = "same" if same_items and i >= CHANGED - 1 else str(i)
        described = {"videos_sha256": "new" if i >= CHANGED else "old"}
        batches[i] = replace(one, items_sha256=items, described=described)
    fpc = shown(batches).measures[1]
    chart = next(a for a in fpc.alerts if a.chart == "p chart")
    assert chart.changes == said


def test_a_drifting_series_alarms_by_its_sum_and_dates_the_drift():
    made = shown(series("drifting"))
    accuracy = made.measures[0]
    assert accuracy.state == "alarm"
    alert = next(a for a in accuracy.alerts if a.chart == "CUSUM")
    assert (alert.side, alert.active) == ("fell", True)
    began, found = days(N).index(alert.since), days(N).index(alert.found)
    assert CHANGED - 6 <= began <= CHANGED + 8
    assert began < found < N - 1
    # no single batch of the beginning of the drift was outside its limits
    outside = [a.found for a in accuracy.alerts if a.chart == "p chart"]
    assert not outside or min(outside) >= alert.since


def test_what_is_over_is_listed_and_not_active():
    batches = series("good")
    one = batches[20].values["ooc"]
    values = batches[20].values | {"ooc": replace(one, mean=one.mean - 0.3)}
    batches[20] = replace(batches[20], values=values)
    made = shown(batches)
    assert made.state == "in control"
    alert = next(a for a in made.alerts if a.chart == "p chart")
    assert (alert.measure, alert.since, alert.last) == ("ooc", days(N)[20], days(N)[20])
    assert not alert.active


def test_all_charts_together_rarely_alarm():
    """Good series of 30 watched batches, with one false alarm in 370 to be expected."""
    alarmed = sum(bool(shown(series("good", seed)).alerts) for seed in range(1, 9))
    assert alarmed <= 3  # 8 of 30 / 370: P(4 or more) = 0.003


def test_the_limits_share_the_false_alarms():
    made = shown(series("good")[:15], every=100.0)
    from scipy.special import ndtr

    assert 2 * ndtr(-made.width) * 6 * 100 == pytest.approx(1.0)
    given = shown(series("good")[:15], width=3.0, h=4.0)
    assert (given.width, given.h) == (3.0, 4.0)


def test_while_the_baseline_is_collected():
    made = shown(series("good")[:7])
    assert (made.state, made.exit_status, made.n_baseline) == ("baseline", 0, 7)
    assert made.measures[0].baseline is None
    assert made.notices == ("the baseline is being collected: 7 of 10 batches",)
    assert shown(series("good")[:10]).measures[0].baseline.n_batches == 10


def test_the_same_items_again():
    values, videos = item_values(n_videos=PER_BATCH, seed=4)
    rng = np.random.default_rng(0)
    batches = []
    for at in days(14):
        noisy = np.clip(values + 0.02 * rng.normal(size=values.shape), 0, 1)
        batches.append(batch(at, noisy, videos))
    made = shown(batches)
    assert made.same_items
    assert made.measures[0].baseline.dispersion < 0.3
    assert "have the same items" in made.notices[0]
    with pytest.raises(UsageError, match="give a baseline of 5 at least"):
        shown(batches, baseline=3)
    others = [*batches, batch("2026-02-01T00:00:00Z", values, videos, items="other")]
    assert "1 batch has other items" in shown(others).notices[1]


def test_a_measure_that_some_batches_lack():
    batches = series("good")[:16]
    del batches[12].values["fpc"]
    made = shown(batches)
    assert [len(one.at) for one in made.measures] == [16, 15, 16]
    assert "1 batch has no FPC and is passed over" in made.notices


@pytest.mark.parametrize("wrong", [{"baseline": 0}, {"every": 1.0}])
def test_numbers_out_of_range(wrong):
    with pytest.raises(UsageError):
        shown(series("good")[:2], **wrong)


def test_nothing_measured():
    values, videos = item_values(n_videos=2)
    empty = replace(batch("2026-01-01T00:00:00Z", values, videos), values={})
    with pytest.raises(StatisticsError, match="has a measure"):
        shown([empty])


def test_numbers_for_a_page():
    made = shown(series("bad")[:25])
    fields = made.to_dict()
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    one = fields["measures"][1]
    n = {len(one[name]) for name in ("at", "values", "errors", "sizes", "lower")}
    n |= {len(one[name]) for name in ("upper", "cusum_fell", "cusum_rose")}
    assert n == {25}
    assert one["lower"][:10] == [None] * 10
    assert one["alerts"][0]["found"] == days(N)[CHANGED]
    assert made.to_markdown().startswith("# phasefusion monitor: alarm")
    assert "<td" in made._repr_html_()
    assert repr(made).startswith("Watch(alarm: 25 batches, 10 of them the baseline")


def test_items_are_the_same_where_their_questions_are(tmp_path):
    """Nightly corpora number their questions alike, and ask others."""
    hashes = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        night = corpus(n_videos=6, orders="cyclic", seed=seed)
        (run,) = night.write(tmp_path / name, frames=False)
        hashes.append(measure_run(run).items_sha256)
    assert hashes[0] == hashes[1] != hashes[2]
