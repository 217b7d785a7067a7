"""Histories on disk: batches in, batches out, two writers, damage."""

import json
import shutil
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from made_runs import made_run

from phasefusion import monitor
from phasefusion.errors import (
    BackendUnavailableError,
    HistoryError,
    RecordError,
    UsageError,
)
from phasefusion.monitor._history import in_utc
from phasefusion.report import report
from phasefusion.simulate import Effects, corpus

DESIGN = {"n_videos": 8, "orders": "cyclic"}


def run_of(folder, seed=0, **design):
    return corpus(**(DESIGN | design), seed=seed).write(folder, frames=False)[0]


@pytest.fixture
def run(tmp_path):
    return run_of(tmp_path / "run")


@pytest.fixture
def history(tmp_path):
    return tmp_path / "quality.sqlite"


def test_a_batch_comes_back_as_it_went_in(history, run):
    made = monitor.add(history, run, at="2026-11-30")
    assert (made.new, made.n_batches) == (True, 1)
    assert monitor.batches(history) == [made.batch]
    numbers = report(run).numbers["consistency"]
    values = made.batch.values
    assert values["fpc"].mean == pytest.approx(numbers["fpc"]["pairwise"]["value"])
    assert values["ooc"].mean == pytest.approx(numbers["ooc"]["pairwise"]["value"])
    assert (values["fpc"].n, values["fpc"].n_clusters) == (24, 8)
    assert made.batch.described["settings"]["scorer"]["id"] == "simulated-0"


def test_clusters_of_questions(history, run):
    made = monitor.add(history, run, at="2026-11-30", cluster="question")
    assert made.batch.values["ooc"].n_clusters == 24


def test_the_same_again_is_no_new_batch(history, run):
    monitor.add(history, run, at="2026-11-30")
    made = monitor.add(history, run, at="2026-11-30T01:00+01:00")
    assert (made.new, made.n_batches) == (False, 1)


def test_another_batch_at_the_same_time(history, run, tmp_path):
    monitor.add(history, run, at="2026-11-30")
    with pytest.raises(HistoryError, match="another batch at 2026-11-30T00:00:00Z"):
        monitor.add(history, run_of(tmp_path / "b", 1), at="2026-11-30")
    assert len(monitor.batches(history)) == 1


def test_batches_are_in_the_order_of_their_times(history, tmp_path):
    for seed, at in enumerate(["2026-11-03", "2026-11-01", "2026-11-02"]):
        monitor.add(history, run_of(tmp_path / at, seed), at=at)
    assert [one.at[:10] for one in monitor.batches(history)] == [
        "2026-11-01",
        "2026-11-02",
        "2026-11-03",
    ]


@pytest.mark.parametrize(
    "wrong", ["yesterday", "2026-13-01", "", "0001-01-01T00:00+01:00"]
)
def test_no_time(history, run, wrong):
    with pytest.raises(UsageError, match="is no time"):
        monitor.add(history, run, at=wrong)
    assert not history.exists()


def test_times():
    zone = timezone(timedelta(hours=-5))
    assert in_utc(datetime(2026, 1, 1, 20, tzinfo=zone)) == "2026-01-02T01:00:00Z"
    assert in_utc("2026-01-02T01:00:00.9Z") == "2026-01-02T01:00:00Z"


@pytest.mark.parametrize(
    ("changes", "topic", "said"),
    [
        ({"budget": 4}, "sampling", "grid.budget: 8 -> 4"),
        ({"orders": "all"}, "orders", "'cyclic' -> 'all'"),
    ],
)
def test_another_way_of_measuring(history, run, tmp_path, changes, topic, said):
    monitor.add(history, run, at="2026-11-29")
    other = run_of(tmp_path / "b", 1, **changes)
    with pytest.raises(RecordError, match=f"--allow {topic}") as caught:
        monitor.add(history, other, at="2026-11-30")
    assert said in str(caught.value)
    made = monitor.add(history, other, at="2026-11-30", allow=[topic])
    assert said in made.batch.notices[0]
    assert "note: 2026-11-30T00:00:00Z" in str(monitor.show(history)).replace("\n", " ")
    with pytest.raises(UsageError, match="is not one of"):
        monitor.add(history, other, at="2026-11-30", allow=["all"])


def of_files(run, folder, digits):
    """Copy a run, with the digests of its videos: of question i by digit i."""
    shutil.copytree(run, folder)
    path = folder / "passes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    names = list(dict.fromkeys(row["question_id"] for row in rows))
    for row in rows:
        digit = (digits * len(names))[names.index(row["question_id"])]
        row["video_digest"] = None if digit == "-" else digit * 16
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_other_video_files_are_noted(history, run, tmp_path):
    monitor.add(history, run, at="2026-11-01")  # which does not say
    said = []
    for day, digits in enumerate(["01", "01", "-1", "02", "02", "01"], 2):
        batch_run = of_files(run, tmp_path / str(day), digits)
        made = monitor.add(history, batch_run, at=f"2026-11-{day:02d}")
        said.append([notice for notice in made.batch.notices if "file" in notice])
    since = "videos are other files than those of the batch of 2026-11-{}T00:00:00Z"
    assert said == [[], [], [], [since.format("03")], [], [since.format("06")]]
    other = run_of(tmp_path / "other", 1)
    monitor.add(history, of_files(other, tmp_path / "more", "34"), at="2026-11-08")
    made = monitor.add(history, tmp_path / "6", at="2026-11-09")
    assert made.batch.notices == (since.format("07"),)
    shown = monitor.show(history).notices
    assert f"2026-11-09T00:00:00Z: {since.format('07')}" in shown


def test_missing_passes_are_noted(history, tmp_path):
    (lossy,) = corpus(Effects(missing=0.03), **DESIGN).write(tmp_path, frames=False)
    made = monitor.add(history, lossy, at="2026-11-30")
    assert made.batch.n_incomplete > 0
    assert "items lack an answer" in made.batch.notices[0]
    assert made.batch.values["accuracy"].n == 24 - made.batch.n_incomplete


def test_nothing_to_add(history, tmp_path):
    made_run(tmp_path / "lost", protocol="stableeval", drop="all")
    with pytest.raises(RecordError, match="nothing to add"):
        monitor.add(history, tmp_path / "lost", at="2026-11-30")
    assert not history.exists()


WRITER = """
import sys
from phasefusion import monitor
history, run, first = sys.argv[1:]
for i in range(4):
    monitor.add(history, run, at=f"2026-11-{int(first) + i:02d}")
"""


def test_two_writers_at_once_lose_nothing(history, run):
    made = [
        subprocess.Popen([sys.executable, "-c", WRITER, history, run, str(first)])
        for first in (1, 11)
    ]
    assert [one.wait(120) for one in made] == [0, 0]
    days = [int(one.at[8:10]) for one in monitor.batches(history)]
    assert days == [1, 2, 3, 4, 11, 12, 13, 14]
    with sqlite3.connect(history) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_writer_waits_for_another(history, run):
    monitor.add(history, run, at="2026-11-29")
    holder = sqlite3.connect(history, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    command = [sys.executable, "-c", WRITER, history, run, "1"]
    waiting = subprocess.Popen(command)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(3)
    assert len(monitor.batches(history)) == 1  # and readers do not wait
    holder.execute("ROLLBACK")
    holder.close()
    assert waiting.wait(60) == 0
    assert len(monitor.batches(history)) == 5


FIRST = """
import sys
from phasefusion import errors, monitor
history, run, at = sys.argv[1:]
try:
    monitor.add(history, run, at=at)
except errors.RecordError:
    print("refused")
"""


def test_of_two_first_batches_the_later_must_be_like_the_other(history, run, tmp_path):
    other = run_of(tmp_path / "b", 1, budget=4)
    made = [
        subprocess.Popen(
            [sys.executable, "-c", FIRST, history, folder, f"2026-11-{day}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder, day in ((run, 10), (other, 11))
    ]
    said = sorted(one.communicate(timeout=120)[0] for one in made)
    assert said == ["", "refused\n"]
    assert len(monitor.batches(history)) == 1


def statement(history, text):
    connection = sqlite3.connect(history)
    connection.executescript(text)
    connection.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("UPDATE measure SET mean = 'high'", "is damaged: measure"),
        ("UPDATE measure SET mean = 2.0", "is damaged: measure"),
        ("UPDATE measure SET n_clusters = 0", "is damaged: measure"),
        ("UPDATE measure SET name = name || 's'", "measure '[a-z]+s'"),
        ("UPDATE batch SET sampling = '{'", "is damaged: batch 1"),
        ("UPDATE batch SET at = 'noon'", "is damaged: batch 1"),
        ("DROP TABLE measure", "cannot be used"),
        ("PRAGMA user_version = 9", "has tables of version 9"),
        ("PRAGMA application_id = 7", "SQLite file of something else"),
    ],
)
def test_damage_inside(history, run, text, said):
    monitor.add(history, run, at="2026-11-30")
    statement(history, text)
    for call in (
        lambda: monitor.show(history),
        lambda: monitor.add(history, run, at="2026-12-01"),
    ):
        with pytest.raises(HistoryError, match=said) as caught:
            call()
        assert str(history) in str(caught.value)


def test_a_damaged_file(history, run):
    monitor.add(history, run, at="2026-11-30")
    whole = history.read_bytes()
    for damaged in (whole[:5000], b"not a history", whole[:100] + b"\xff" * 3000):
        history.write_bytes(damaged)
        with pytest.raises(HistoryError, match=str(history)):
            monitor.show(history)
        with pytest.raises(HistoryError):
            monitor.add(history, run, at="2026-12-01")


def test_every_flipped_page_is_read_or_refused(history, run):
    monitor.add(history, run, at="2026-11-30")
    whole = bytearray(history.read_bytes())
    for place in range(0, len(whole), 997):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        history.write_bytes(damaged)
        try:
            assert len(monitor.batches(history)) <= 1
        except HistoryError:
            pass


def test_no_history(history, tmp_path):
    with pytest.raises(HistoryError, match="monitor add makes one"):
        monitor.show(history)
    assert not history.exists()
    with pytest.raises(HistoryError):
        monitor.show(tmp_path)


def test_an_empty_file_becomes_a_history(history, run):
    history.touch()
    with pytest.raises(HistoryError):
        monitor.show(history)
    assert monitor.add(history, run, at="2026-11-30").n_batches == 1


def parsed(path):
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_prometheus(history, tmp_path):
    for i in range(12):
        effects = Effects(phase_sd=3.0) if i == 11 else Effects()
        made = corpus(effects, n_videos=20, orders="cyclic", seed=i)
        (run,) = made.write(tmp_path / str(i), frames=False)
        monitor.add(history, run, at=f"2026-11-{i + 1:02d}")
    watch = monitor.show(history)
    assert watch.state == "alarm"
    path = watch.write_prometheus(tmp_path / "phasefusion.prom")
    found = parsed(path)
    head = "phasefusion_monitor_"
    name = ("history", "quality")
    assert found[head + "batches", name] == 12
    assert found[head + "last_batch_timestamp_seconds", name] == 1794441600
    fpc = next(one for one in watch.measures if one.measure == "fpc")
    labels = (name, ("measure", "fpc"))
    assert found[head + "ratio", *labels] == fpc.values[-1]
    assert found[head + "lower_ratio", *labels] == fpc.lower[-1]
    alarm = (("chart", "p_chart"), *labels, ("side", "fell"))
    assert found[head + "alarm", *alarm] == 1
    assert found[head + "alarm_since_timestamp_seconds", *alarm] == 1794441600
    quiet = (("chart", "p_chart"), *labels, ("side", "rose"))
    assert found[head + "alarm", *quiet] == 0
    watch.write_prometheus(path, name="nightly")
    assert parsed(path)[head + "batches", ("history", "nightly")] == 12
    with pytest.raises(RecordError, match="cannot be written"):
        watch.write_prometheus(tmp_path / "no" / "x.prom")


def test_prometheus_is_optional(history, run, monkeypatch, tmp_path):
    monitor.add(history, run, at="2026-11-30")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    watch = monitor.show(history)
    with pytest.raises(BackendUnavailableError, match="prometheus-client"):
        watch.write_prometheus(tmp_path / "x.prom")
