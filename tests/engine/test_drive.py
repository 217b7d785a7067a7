"""Runs by many workers without a cluster: they die, raise, fall silent, and differ."""

import json
import os
import random
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pass_files import passes_of
from pixel_scorer import PixelScorer, make_clip, make_questions

from phasefusion import _runner
from phasefusion._known_videos import KnownVideos
from phasefusion.engine import Limits, ScorerSpec
from phasefusion.engine.drive import ClusterCrew, Message
from phasefusion.engine.spec import as_factory
from phasefusion.engine.worker import Worker
from phasefusion.errors import (
    DuplicateFrameWarning,
    RecordError,
    ScoringError,
    UsageError,
    VideoError,
    WorkerWarning,
)
from phasefusion.evaluate import evaluate
from phasefusion.records import read_run

OPTIONS = {"budget": 4, "dense": 10, "n_orders": 3, "progress": False}


class Cluster:
    """Workers in this process; `fate` says of every message what becomes of it.

    fate(worker, items, message) -> "keep" | "die" | "hang". Which worker is heard next
    is drawn.
    """

    def __init__(
        self, factory, *, n_workers=2, seed=0, fate=None, facts=None, died=None
    ):
        self.n_workers = n_workers
        self._factory = factory
        self._rng = random.Random(seed)
        self._fate = fate or (lambda worker, items, message: "keep")
        self._died = died or (lambda: False)
        self._facts = facts or (lambda worker, found: found)
        self._workers, self._streams, self._items = {}, {}, {}
        self._started, self._hung = [], set()
        self.log = []

    def start(self, worker, plan):
        self._plan = plan
        self._workers[worker] = Worker(self._factory)
        self._started.append(worker)
        self.log.append(("start", worker))

    def give(self, worker, runner, items, done, n_phases, is_careful):
        assert runner.scorer is None
        assert worker not in self._streams
        self._items[worker] = [item.question_id for item in items]
        self._streams[worker] = self._workers[worker].work(
            runner, items, done, n_phases, is_careful
        )
        self.log.append(("give", worker, tuple(self._items[worker])))

    def wait(self, timeout_s):
        if self._started:
            worker = self._started.pop(0)
            found = self._facts(worker, self._workers[worker].start(self._plan))
            return [Message(worker, "ready", found)]
        speaking = sorted(self._streams.keys() - self._hung)
        if not speaking:
            return []
        worker = self._rng.choice(speaking)
        event = None if self._died() else next(self._streams[worker], None)
        if self._died():  # and what it has said with it, as far as it was not heard
            self._streams.pop(worker).close()
            return [Message(worker, "died", "signal 9")]
        if event is None:
            del self._streams[worker]
            return [Message(worker, "ended")]
        message = Message(worker, "event", event)
        fate = self._fate(worker, self._items[worker], message)
        if fate == "die":
            self._streams.pop(worker).close()
            return [Message(worker, "died", "signal 9")]
        if fate == "hang":
            self._hung.add(worker)
            return []
        return [message]

    def kill(self, worker):
        self.log.append(("kill", worker))
        self._workers.pop(worker, None)
        stream = self._streams.pop(worker, None)
        if stream is not None:
            stream.close()
        if worker in self._started:
            self._started.remove(worker)

    def close(self):
        for worker in list(self._workers):
            self.kill(worker)


class Engine:
    """Keeps the cluster it made."""

    def __init__(self, limits=None, **cluster):
        self._limits, self._made_of = limits or Limits(), cluster
        self.cluster = None

    def hire(self, scorer):
        self.cluster = Cluster(as_factory(scorer), **self._made_of)
        return ClusterCrew(lambda: self.cluster, self._limits)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"), n_clips=3, per_clip=3)


@pytest.fixture(scope="module")
def whole(questions, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    return passes_of(evaluate(questions, PixelScorer(), out=out, **OPTIONS).path)


@contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WorkerWarning)
        yield


@pytest.mark.parametrize("n_workers", [1, 2, 5])
def test_equals_a_run_in_one_process(questions, whole, tmp_path, n_workers):
    engine = Engine(n_workers=n_workers, seed=n_workers)
    seen = []
    options = OPTIONS | {"progress": lambda *numbers: seen.append(numbers)}
    run = evaluate(questions, PixelScorer, out=tmp_path, engine=engine, **options)
    assert passes_of(run.path) == whole
    assert run.n_new == len(whole)
    assert seen[-1][:2] == (len(whole), len(whole))
    given = [entry[2] for entry in engine.cluster.log if entry[0] == "give"]
    assert len(given) == 3, "a video is decoded once"
    assert engine.cluster._workers == {}


@pytest.mark.parametrize("seed", range(6))
def test_equals_it_whoever_dies_when(questions, whole, tmp_path, seed):
    rng = random.Random(seed)

    def fate(worker, items, message):
        return "die" if rng.random() < 0.15 else "keep"

    limits = Limits(max_attempts=50, max_restarts=50, backups=seed % 2 == 1)
    engine = Engine(limits, n_workers=2 + seed % 2, seed=seed, fate=fate)
    with pytest.warns(
        WorkerWarning, match="signal 9; what it had not finished is done"
    ):
        run = evaluate(questions, PixelScorer(), out=tmp_path, engine=engine, **OPTIONS)
    assert passes_of(run.path) == whole
    assert ("kill", "worker 1") in engine.cluster.log


@pytest.mark.parametrize("n_events", [1, 7, 20, 41])
def test_a_driver_that_is_stopped_goes_on(questions, whole, tmp_path, n_events):
    heard = []

    def fate(worker, items, message):
        heard.append(message)
        if len(heard) == n_events:
            raise KeyboardInterrupt
        return "keep"

    engine = Engine(fate=fate)
    with pytest.raises(KeyboardInterrupt):
        evaluate(questions, PixelScorer(), out=tmp_path, engine=engine, **OPTIONS)
    assert engine.cluster._workers == {}
    part = passes_of(tmp_path)
    assert len(part) < len(whole)
    run = evaluate(questions, PixelScorer(), out=tmp_path, engine=Engine(), **OPTIONS)
    assert run.n_new == len(whole) - len(part)
    assert passes_of(tmp_path) == whole


def test_only_what_is_missing_is_asked_for(questions, whole, tmp_path):
    evaluate(questions, PixelScorer(), out=tmp_path, limit=4, **OPTIONS)
    n_before = len(passes_of(tmp_path))
    scorer = PixelScorer()
    run = evaluate(questions, scorer, out=tmp_path, engine=Engine(), **OPTIONS)
    assert passes_of(tmp_path) == whole
    assert run.n_new == len(whole) - n_before
    assert sum(shape[0] * n for shape, n, _ in scorer.calls) == run.n_new


@pytest.mark.parametrize("knows", [True, False])
def test_a_worker_with_another_file_stops_the_run(tmp_path, monkeypatch, knows):
    """Of a video in two parts, the second is decoded where the file is another.

    The worker finds it out by what it was told of the run, at once and alone; or else
    the driver by its passes.
    """
    questions = make_questions(tmp_path, n_clips=1, per_clip=2)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[1]["end"] = 2.0
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = OPTIONS | {"out": tmp_path / "run"}
    evaluate(questions, PixelScorer(), limit=1, **options)
    n_before = len(passes_of(tmp_path / "run"))
    real = Worker.work

    def other(self, runner, *rest):
        runner = runner if knows else replace(runner, videos=KnownVideos())
        with monkeypatch.context() as patch:
            patch.setattr(_runner, "digest_of_file", lambda path: "f" * 16)
            yield from real(self, runner, *rest)

    monkeypatch.setattr(Worker, "work", other)
    engine = Engine(n_workers=1)
    where = "^worker 1 on .*" if knows else "^"
    with pytest.raises(RecordError, match=rf"{where}.*clip0\.mp4: is another file"):
        evaluate(questions, PixelScorer(), engine=engine, **options)
    assert [entry for entry in engine.cluster.log if entry[0] == "start"] == [
        ("start", "worker 1")
    ]
    assert len(passes_of(tmp_path / "run")) == n_before


def test_a_question_that_kills_is_given_up_and_no_other(questions, whole, tmp_path):
    def fate(worker, items, message):
        ids = {record["question_id"] for record in message.value.records}
        return "die" if "1-1" in ids else "keep"

    engine = Engine(fate=fate)
    with pytest.warns(WorkerWarning) as given:
        evaluate(questions, PixelScorer(), out=tmp_path, engine=engine, **OPTIONS)
    found = passes_of(tmp_path)
    assert found.keys() == whole.keys()
    for key, record in found.items():
        if key[1] != "1-1":
            assert record == whole[key]
        else:
            assert record["answer"] is None
            assert "worker: 3 failed here; the last: worker" in record["invalid"]
            assert "at question '1-1': it died: signal 9" in record["invalid"]
    texts = [str(w.message) for w in given]
    assert len(texts) == 4
    assert "1 question was given up because workers died there" in texts[-1]
    assert "first: questions/1-1; the passes are" in texts[-1]


def test_a_video_that_kills_is_given_up_whole(questions, whole, tmp_path):
    def fate(worker, items, message):
        return "die" if items[0][0] == "2" else "keep"

    engine = Engine(Limits(max_attempts=2), fate=fate)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        evaluate(questions, PixelScorer(), out=tmp_path, engine=engine, **OPTIONS)
    found = passes_of(tmp_path)
    assert found.keys() == whole.keys()
    assert "3 questions were given up" in str(given[-1].message)
    assert {k[1] for k, p in found.items() if p["invalid"]} == {"2-0", "2-1", "2-2"}
    assert all("clip2.mp4" in p["invalid"] for p in found.values() if p["invalid"])
    for key, record in found.items():  # a repaired file in its place is another one
        assert record["video_digest"] == whole[key]["video_digest"]


def test_strict_runs_and_hopeless_ones_stop(questions, tmp_path):
    def fate(worker, items, message):
        return "die" if message.value.kind == "passes" else "keep"

    strict = OPTIONS | {"on_error": "raise"}
    with quiet(), pytest.raises(ScoringError, match=r"question '.*3 failed here"):
        evaluate(
            questions,
            PixelScorer(),
            out=tmp_path / "a",
            engine=Engine(Limits(max_restarts=9), fate=fate),
            **strict,
        )
    with (
        quiet(),
        pytest.raises(ScoringError, match="number 2 that no worker gets done"),
    ):
        evaluate(
            questions,
            PixelScorer(),
            out=tmp_path / "b",
            engine=Engine(Limits(max_restarts=99, max_given_up=1), fate=fate),
            **OPTIONS,
        )
    with quiet(), pytest.raises(ScoringError, match="last worker, and started 3 times"):
        evaluate(
            questions,
            PixelScorer(),
            out=tmp_path / "c",
            engine=Engine(Limits(max_restarts=2), fate=fate),
            **OPTIONS,
        )


class Moody(PixelScorer):
    """Raises at one question, the first `n_times`."""

    n_raised = 0
    n_times = 1

    def score(self, clip, question, options, *, orders=None):
        if question == "What is in part 1?" and Moody.n_raised < self.n_times:
            Moody.n_raised += 1
            raise RuntimeError("CUDA error: out of memory")
        return super().score(clip, question, options, orders=orders)


def test_an_error_of_a_scorer_is_tried_again(questions, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(Moody, "n_raised", 0)
    engine = Engine(n_workers=1)
    with pytest.warns(WorkerWarning, match=r"'.-1': ScoringError: .*out of memory"):
        evaluate(questions, Moody, out=tmp_path, engine=engine, **OPTIONS)
    assert passes_of(tmp_path) == whole
    assert [e for e in engine.cluster.log if e[0] == "start"] == [
        ("start", "worker 1"),
        ("start", "worker 1 (start 2)"),
    ]


def test_an_error_that_stays_stops_the_run_with_its_class(
    questions, tmp_path, monkeypatch
):
    monkeypatch.setattr(Moody, "n_raised", 0)
    monkeypatch.setattr(Moody, "n_times", 1000)
    wanted = r"3 workers, the last worker .*: question '.-1', arm phase: .*of memory"
    with quiet(), pytest.raises(ScoringError, match=wanted):
        evaluate(questions, Moody, out=tmp_path, engine=Engine(), **OPTIONS)
    assert len(passes_of(tmp_path)) > 0


def test_videos_that_do_not_decode_are_as_in_one_process(questions, tmp_path):
    bad = questions.parent / "clip9.mp4"
    bad.write_bytes(b"no video")
    rows = questions.read_text().splitlines()
    rows.append(rows[0].replace("clip0", "clip9").replace('"0-0"', '"9-0"'))
    path = questions.parent / "with_bad.jsonl"
    path.write_text("\n".join(rows) + "\n")
    evaluate(path, PixelScorer(), out=tmp_path / "a", **OPTIONS)
    evaluate(path, PixelScorer(), out=tmp_path / "b", engine=Engine(), **OPTIONS)
    assert passes_of(tmp_path / "a") == passes_of(tmp_path / "b")
    strict = OPTIONS | {"on_error": "raise"}
    with quiet(), pytest.raises(VideoError, match=r"clip9\.mp4"):
        evaluate(path, PixelScorer(), out=tmp_path / "c", engine=Engine(), **strict)


def test_short_clips_and_warnings_of_workers(tmp_path):
    make_clip(tmp_path / "clip0.mp4", 7)
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"question_id": "a", "video": "clip0.mp4", "question": "?", '
        '"options": ["x", "y"]}\n'
    )
    scorer = PixelScorer()
    with pytest.warns(DuplicateFrameWarning) as given:
        evaluate(path, scorer, out=tmp_path / "r", engine=Engine(), **OPTIONS)
    assert all(w.filename == __file__ for w in given), "at the user's line"
    unique = OPTIONS | {"short": "unique"}
    evaluate(path, scorer, out=tmp_path / "a", **unique)
    evaluate(path, scorer, out=tmp_path / "b", engine=Engine(), **unique)
    assert passes_of(tmp_path / "a") == passes_of(tmp_path / "b")


def test_a_silent_worker_is_replaced(questions, whole, tmp_path):
    def fate(worker, items, message):
        return "hang" if worker == "worker 1" else "keep"

    engine = Engine(Limits(timeout_s=0.3), fate=fate)
    with pytest.warns(WorkerWarning, match=r"it said nothing for 0\.3 s"):
        evaluate(questions, PixelScorer(), out=tmp_path, engine=engine, **OPTIONS)
    assert passes_of(tmp_path) == whole


def test_a_worker_that_cannot_start_says_why(questions, tmp_path):
    def make():
        raise ScoringError("/models/x: is not there")

    with pytest.raises(ScoringError, match="worker 1: /models/x: is not there"):
        evaluate(questions, make, out=tmp_path / "a", engine=Engine(), **OPTIONS)
    with pytest.raises(ScoringError, match="worker 1: dict has no method score"):
        evaluate(questions, dict, out=tmp_path / "b", engine=Engine(), **OPTIONS)
    assert not (tmp_path / "a").exists()


def other_versions(worker, found):
    found["versions"] |= {"phasefusion": "0.0.1", "ffmpeg": {"libavcodec": "1.2.3"}}
    return found


def test_workers_of_other_versions_than_run_json_would_name_are_refused(
    questions, tmp_path
):
    """Also where all workers are of the same ones."""
    engine = Engine(facts=other_versions)
    with pytest.raises(ScoringError, match=r"(?s)is not like this process.* -> '0\.0"):
        evaluate(questions, PixelScorer(), out=tmp_path / "r", engine=engine, **OPTIONS)
    assert engine.cluster._workers == {}
    assert not (tmp_path / "r").exists()


MARGIN = {"budget": 2, "dense": 5, "protocol": "margin", "progress": False}


def test_a_second_stage_goes_on_with_the_same_workers(questions, tmp_path):
    engine = Engine()
    run = evaluate(questions, PixelScorer, out=tmp_path / "a", engine=engine, **MARGIN)
    assert [entry for entry in engine.cluster.log if entry[0] == "start"] == [
        ("start", "worker 1"),
        ("start", "worker 2"),
    ]
    alone = evaluate(questions, PixelScorer(), out=tmp_path / "b", **MARGIN)
    assert passes_of(run.path) == passes_of(alone.path)


def test_arguments_are_looked_at_before_workers_start(questions, tmp_path):
    for wrong, error in (({"shard": "1/2"}, UsageError), ({"cache": 7}, Exception)):
        engine = Engine()
        with pytest.raises(error):
            evaluate(
                questions,
                PixelScorer,
                out=tmp_path / "r",
                engine=engine,
                **MARGIN,
                **wrong,
            )
        assert engine.cluster.log == []


def test_no_worker_outlives_a_run_folder_that_is_refused(questions, tmp_path):
    evaluate(questions, PixelScorer(), out=tmp_path, limit=1, **OPTIONS)
    engine = Engine()
    other = OPTIONS | {"budget": 5}
    with pytest.raises(RecordError):
        evaluate(questions, PixelScorer(), out=tmp_path, engine=engine, **other)
    assert engine.cluster._workers == {}


def test_workers_that_differ_are_refused(questions, tmp_path):
    def facts(worker, found):
        if worker == "worker 2":
            found["versions"]["numpy"] = "1.0"
        return found

    with pytest.raises(ScoringError, match=r"(?s)worker 2 on .*numpy: .* -> '1\.0'"):
        evaluate(
            questions,
            PixelScorer(),
            out=tmp_path,
            engine=Engine(facts=facts),
            **OPTIONS,
        )


class Deadly(PixelScorer):
    """Ends its worker at one question, whatever is still on its way."""

    dead = False

    def __init__(self):
        super().__init__()
        Deadly.dead = False

    def score(self, clip, question, options, *, orders=None):
        if question == "What is in part 1?" and "thing 1 of 1" in options:
            Deadly.dead = True
            raise RuntimeError
        return super().score(clip, question, options, orders=orders)


class Together(Deadly):
    """Takes several questions in a call."""

    def score_many(self, requests):
        return [
            self.score(r.clip, r.question, r.options, orders=r.orders) for r in requests
        ]


@pytest.mark.parametrize("scorer", [Deadly, Together])
@pytest.mark.parametrize("max_attempts", [1, 3])
def test_what_a_death_takes_with_it_is_held_against_no_other_question(
    questions, whole, tmp_path, monkeypatch, max_attempts, scorer
):
    monkeypatch.setattr(Deadly, "dead", False)

    def died():
        time.sleep(0.02)  # the worker runs ahead of what is heard of it
        return Deadly.dead

    engine = Engine(Limits(max_attempts=max_attempts), n_workers=1, died=died)
    with quiet():
        evaluate(questions, scorer, out=tmp_path, engine=engine, **OPTIONS)
    found = passes_of(tmp_path)
    assert {key[1] for key, record in found.items() if record["invalid"]} == {"1-1"}
    assert found.keys() == whole.keys()


class Varied(PixelScorer):
    """Has a second form of the question."""

    def variant(self, name):
        return PixelScorer(letter={"unlabelled": 0.1}[name])


@pytest.mark.parametrize("protocol", ["margin", "unlabelled", "random-draws"])
@pytest.mark.parametrize("backups", [False, True])
def test_protocols_with_stages_prompts_and_draws(
    questions, tmp_path, protocol, backups
):
    options = {"protocol": protocol, "budget": 3, "dense": 10, "progress": False}
    here = evaluate(questions, Varied(), out=tmp_path / "here", **options)
    engine = Engine(Limits(backups=backups), n_workers=3, seed=4)
    there = evaluate(
        questions, Varied, out=tmp_path / "there", engine=engine, **options
    )
    assert passes_of(there.path) == passes_of(here.path)
    assert read_run(there.path)["settings"] == read_run(here.path)["settings"]
    if backups:
        kinds = {entry[0] for entry in engine.cluster.log}
        assert kinds == {"start", "give", "kill"}


@pytest.mark.parametrize(
    ("spec", "error"), [("foo", UsageError), ("no_module:x", ScoringError)]
)
def test_a_scorer_by_a_wrong_name_is_an_error_of_ours(questions, tmp_path, spec, error):
    with pytest.raises(error, match="--scorer"):
        evaluate(questions, ScorerSpec(scorer=spec), out=tmp_path / "r", **OPTIONS)


def test_the_engine_needs_no_command_line():
    code = (
        "import sys\n"
        "from phasefusion.engine import ScorerSpec, drive, local, worker\n"
        "ScorerSpec(scorer='pixel_scorer:PixelScorer').make()\n"
        "print([name for name in ('typer', 'phasefusion.evaluate', 'phasefusion.cli')\n"
        "       if name in sys.modules])\n"
    )
    path = os.pathsep.join(
        [os.path.dirname(sys.modules["pixel_scorer"].__file__), *sys.path]
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
