"""Settings from a command line, the run folder, and the cache of posteriors."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from harness_clips import make_clip

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion._description import describe_scorer
from phasefusion._scorer_checks import check_scores
from phasefusion.datasets import load_questions
from phasefusion.errors import GridError, RecordError, ScoringError, UsageError
from phasefusion.harness.knobs import Knobs
from phasefusion.harness.posteriors import CachedScorer, PosteriorCache
from phasefusion.harness.session import DOCS_FILE, Session
from phasefusion.records import check, merge
from phasefusion.scoring import OptionScores

ITEMS = load_questions(tinyvlm.questions_path())[:4]


class Pixels:
    """Log-probabilities that depend on every pixel, time, text and place."""

    def __init__(self):
        self.calls = []

    def score(self, clip, question, options, *, orders=None):
        self.calls.append((len(clip.frames), len(orders)))
        values = np.empty((len(clip.frames), *np.shape(orders)))
        for s, m in np.ndindex(values.shape[:2]):
            place = np.argsort(orders[m])
            x = clip.frames[s].mean() + clip.times_s[s].mean() + len(question)
            values[s, m] = np.sin(x * (1 + np.arange(len(options))) + place)
        return values - np.log(np.exp(values).sum(-1, keepdims=True)) - 0.01


def test_knobs_from_a_command_line():
    given = {
        "phases": "2",
        "budget": 4,
        "origin": 0.25,
        "pretrained": "x",
        "by": "time",
    }
    knobs, rest = Knobs.split(given)
    assert rest == {"pretrained": "x"}
    grid = knobs.grid()
    assert (grid.phases, grid.budget, grid.by) == (2, 4, "time")
    assert grid.origin == Fraction(1, 4)
    assert Knobs.split({"origin": "2/3"})[0].grid().origin == Fraction(2, 3)
    assert Knobs.split({"origin": "left"})[0].grid().origin == 0
    assert Knobs.split({"protocol": "quick"})[0].grid().phases == 1
    assert Knobs.split({"timestamps": True})[0].timestamps == "true"


@pytest.mark.parametrize("value", [2**53 + 1, str(2**53 + 1), np.int64(2**53 + 1)])
def test_a_whole_number_keeps_every_digit(value):
    assert Knobs.split({"seed": value})[0].seed == 2**53 + 1
    assert Knobs.split({"budget": 4.0, "phases": "2.0", "dense": "1e1"})[0].dense == 10


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"phases": "three"}, UsageError, "phases='three' must be a whole number"),
        ({"phases": 2.5}, UsageError, "must be a whole number"),
        ({"phases": "nan"}, UsageError, "must be a whole number"),
        ({"phases": "inf"}, UsageError, "phases='inf' must be a whole number"),
        ({"budget": float("-inf")}, UsageError, "budget=-inf must be a whole number"),
        ({"dense": "1e400"}, UsageError, "must be a whole number"),
        ({"threads": True}, UsageError, "must be a whole number"),
        ({"origin": float("inf")}, GridError, "origin"),
        ({"origin": float("nan")}, GridError, "origin"),
        ({"seed": "9" * 5000}, UsageError, "must be a whole number"),
        ({"phases": 0}, GridError, "phases"),
        ({"budget": -1}, GridError, "budget"),
        (
            {"orders": "random"},
            UsageError,
            "orders='random' is not one of latin|is not",
        ),
        ({"timestamps": "yes"}, UsageError, "true, frozen, base"),
        ({"sidecar": True}, UsageError, "must be a text"),
        ({"protocol": "best"}, UsageError, "protocol='best'"),
        ({"n_orders": 0}, UsageError, "n_orders=0"),
        ({"dense": 0}, UsageError, "dense=0"),
        ({"protocol": "quick", "phases": "3"}, UsageError, "phases=3 has no effect"),
        ({"orders": "cyclic", "n_orders": 4}, UsageError, "these are cyclic"),
    ],
)
def test_knobs_that_cannot_be(given, error, message):
    with pytest.raises(error, match=message):
        Knobs.split(given)


def session_of(tmp_path, **knobs):
    given = {"sidecar": str(tmp_path / "side"), "budget": 4, **knobs}
    return Session(Knobs(**given), {"model": "pixels"}, {"name": "test"})


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"protocol": "quick"},
        {"protocol": "phasefusion", "dense": 6, "n_orders": 3, "seed": 5},
        {"phases": 2, "orders": "cyclic", "origin": "left"},
    ],
)
def test_answers_are_those_of_evaluate(tmp_path, knobs):
    session = session_of(tmp_path, **knobs)
    answers = [session.answer(item, Pixels()) for item in ITEMS]
    session.close()
    given = {"budget": 4, "protocol": "stableeval", **knobs}
    run = pf.evaluate(ITEMS, Pixels(), out=tmp_path / "own", progress=False, **given)

    def rows(folder):
        with open(folder / "passes.jsonl") as file:
            found = [json.loads(line) for line in file]
        return [row | {"seconds": None, "decode_seconds": None} for row in found]

    assert rows(tmp_path / "side") == rows(run.path)
    arm = "single" if knobs.get("protocol") == "quick" else "phase"
    for item, answer in zip(ITEMS, answers, strict=True):
        passes = [
            row
            for row in rows(run.path)
            if row["question_id"] == item.question_id
            and (row["arm"], row["shifted"]) == (arm, False)
        ]
        content = [np.array(r["logprobs"])[np.argsort(r["order"])] for r in passes]
        fused = pf.fuse(
            np.array(content)[:, None],
            over=("phase", "order"),
            item_id=item.question_id,
            seed=knobs.get("seed", 0),
        )
        assert answer.index == fused.answer
        np.testing.assert_allclose(answer.fused.posterior, fused.posterior)
        assert answer.text == "ABCDE"[answer.index]
    report = pf.report(tmp_path / "side")
    assert report.numbers["items"]["with_passes"] == len(ITEMS)


def test_a_session_goes_on_and_refuses_other_settings(tmp_path):
    session = session_of(tmp_path)
    before = session.answer(ITEMS[0], Pixels())
    session.note_doc({"task": "t", "doc_id": 0, "answer": before.text})
    session.close()
    again = session_of(tmp_path)
    scorer = Pixels()
    after = again.answer(ITEMS[0], scorer)
    assert scorer.calls == []
    np.testing.assert_array_equal(after.fused.posterior, before.fused.posterior)
    again.note_doc({"task": "t", "doc_id": 0, "answer": after.text})
    again.close()
    assert (tmp_path / "side" / DOCS_FILE).read_text().count("\n") == 1
    with pytest.raises(RecordError, match="budget: 4 -> 8"):
        session_of(tmp_path, budget=8)


def test_a_session_is_of_one_file_a_video(tmp_path):
    video = tmp_path / "clip.mp4"
    shutil.copy(ITEMS[0].video, video)
    items = [replace(item, video=str(video), video_id="clip") for item in ITEMS]
    session, scorer = session_of(tmp_path), Pixels()
    before = session.answer(items[0], scorer)
    del scorer.calls[:]
    video.rename(tmp_path / "old.mp4")
    (other,) = {item.video for item in ITEMS} - {ITEMS[0].video}
    shutil.copy(other, video)
    said = r"clip\.mp4: is another file than the one that passes"
    with pytest.raises(RecordError, match=said):
        session.answer(items[1], scorer)
    session.close()
    again = session_of(tmp_path)
    for item in items[:2]:  # the first of which has its passes
        with pytest.raises(RecordError, match=said):
            again.answer(item, scorer)
    assert scorer.calls == []
    (tmp_path / "old.mp4").replace(video)
    assert again.answer(items[0], scorer).index == before.index
    video.unlink()  # which is no change
    assert again.answer(items[0], scorer).index == before.index
    again.close()
    assert scorer.calls == []
    assert check(tmp_path / "side").counts == {}


def test_option_texts_as_answers_and_no_sidecar(tmp_path):
    session = Session(Knobs(budget=4, answer="option"), {}, {})
    answer = session.answer(ITEMS[0], Pixels())
    assert answer.text == f"{'ABCD'[answer.index]}. {ITEMS[0].options[answer.index]}"
    folder = session.folder
    assert folder.is_dir()
    session.close()
    assert not folder.exists()


def test_each_process_has_its_folder(tmp_path):
    knobs = Knobs(sidecar=str(tmp_path / "side"))
    for rank in range(2):
        session = Session(knobs, {}, {}, rank=rank, world_size=2)
        assert session.folder.name == f"side.rank{rank}"
        session.close()


def test_what_cannot_be_scored_is_recorded_and_the_session_goes_on(tmp_path):
    session = session_of(tmp_path)
    lost = replace(ITEMS[0], video=str(tmp_path / "none.mp4"), question_id="lost")
    answer = session.answer(lost, Pixels())
    assert (answer.index, answer.text) == (-1, "")
    assert "none.mp4" in answer.reason

    class Nan:
        def score(self, clip, question, options, *, orders):
            return np.full((len(clip.frames), *np.shape(orders)), np.nan)

    assert "NaN" in session.answer(ITEMS[1], Nan()).reason
    assert session.answer(ITEMS[2], Pixels()).text
    session.close()
    items = pf.report(tmp_path / "side").numbers["items"]
    assert items["missing_passes"] == 3 * (4 + 3)
    strict = session_of(tmp_path / "strict", on_error="raise")
    with pytest.raises(FileNotFoundError):
        strict.answer(lost, Pixels())
    strict.close()


def test_sessions_take_threads(tmp_path):
    session = session_of(tmp_path)
    found = {}

    def ask(item):
        found[item.question_id] = session.answer(item, Pixels()).index

    threads = [threading.Thread(target=ask, args=[item]) for item in ITEMS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.close()
    alone = session_of(tmp_path / "alone")
    assert found == {i.question_id: alone.answer(i, Pixels()).index for i in ITEMS}
    alone.close()


def cached(scorer, cache, identity=None, **options):
    shown = options.pop("shown", lambda order: f"prompt {list(order)}")
    return CachedScorer(scorer, cache, identity or {"model": "m"}, shown, **options)


OPTIONS = ["x", "y", "z"]


def test_cache_asks_for_what_is_missing_alone(tmp_path):
    clip, inner = make_clip(n_phases=3), Pixels()
    orders = pf.orders.all_orders(3)
    with_cache = cached(inner, PosteriorCache(tmp_path / "p.db"))
    first = with_cache.score(clip, "q", OPTIONS, orders=orders[:2])
    assert inner.calls == [(3, 2)]
    second = with_cache.score(clip, "q", OPTIONS, orders=orders[1:])
    assert inner.calls[1:] == [(1, 4)] * 3
    np.testing.assert_array_equal(second.logprobs[:, 0], first.logprobs[:, 1])
    plain = Pixels().score(clip, "q", OPTIONS, orders=orders[1:])
    np.testing.assert_array_equal(second.logprobs, plain)
    np.testing.assert_allclose(second.option_mass, np.exp(plain).sum(-1))
    del inner.calls[:]
    again = cached(inner, PosteriorCache(tmp_path / "p.db"))
    third = again.score(clip, "another name", OPTIONS, orders=orders)
    assert inner.calls == []
    assert third.valid.all()


@pytest.mark.parametrize(
    "change",
    ["pixel", "times", "first times", "options", "identity", "prompt", "size"],
)
def test_cache_is_keyed_by_everything_that_matters(tmp_path, change):
    clip, inner, cache = make_clip(), Pixels(), PosteriorCache(tmp_path / "p.db")
    cached(inner, cache).score(clip, "q", OPTIONS, orders=[[0, 1, 2]])
    del inner.calls[:]
    options, other = list(OPTIONS), {}
    if change == "pixel":
        clip.frames[:, 0, 0, 0, 0] ^= 1
    elif change == "times":
        clip = replace(clip, times_s=clip.times_s + 0.001)
    elif change == "first times":
        times_s = clip.times_s.copy()
        times_s[0] += 0.001
        clip = replace(clip, times_s=times_s)
    elif change == "options":
        options[2] = "w"
    elif change == "identity":
        other = {"identity": {"model": "n"}}
    elif change == "prompt":
        other = {"shown": lambda order: "another"}
    elif change == "size":
        frames = clip.frames.reshape(2, 3, 8, 6, 3)
        clip = replace(clip, frames=frames)
    cached(inner, cache, **other).score(clip, "q", options, orders=[[0, 1, 2]])
    assert inner.calls == [(2, 1)]


def test_cache_keeps_no_missing_pass(tmp_path):
    class Sometimes:
        broken = True

        def score(self, clip, question, options, *, orders):
            shape = (len(clip.frames), *np.shape(orders))
            return np.full(shape, np.nan if self.broken else np.log(1 / 3))

    inner, cache = Sometimes(), PosteriorCache(tmp_path / "p.db")
    clip = make_clip(missing=[(1, 0)])
    assert not cached(inner, cache).score(clip, "q", OPTIONS).valid.any()
    assert len(cache) == 0
    inner.broken = False
    assert cached(inner, cache).score(clip, "q", OPTIONS).valid.any()


def test_a_cache_keeps_a_pass_that_adds_up_to_more_than_1(tmp_path):
    """It was checked when it was scored, and is not refused when it comes back."""

    class Bounded:
        def score(self, clip, question, options, *, orders=None):
            shape = (len(clip.frames), *np.shape(orders))
            at = list(np.ndindex(shape[:2]))
            content = np.full(shape, -0.9)
            return OptionScores(content, np.full(shape[:2], 0.4), orders, bounded=at)

    with_cache = cached(Bounded(), PosteriorCache(tmp_path / "p.db"))
    for _ in range(2):
        scores = with_cache.score(make_clip(), "q", OPTIONS)
        assert scores.bounded == set(np.ndindex(scores.shape[:2]))


def test_a_cache_keeps_the_kind_of_scores(tmp_path):
    class Texts:
        def score(self, clip, question, options, *, orders=None):
            shape = (len(clip.frames), *np.shape(orders))
            content, mass = np.full(shape, -0.5), np.full(shape[:2], 1.8)
            return OptionScores(content, mass, orders, kind="text-normalised")

    with_cache = cached(Texts(), PosteriorCache(tmp_path / "p.db"))
    for orders in ([[0, 1, 2]], [[0, 1, 2]], [[0, 1, 2], [2, 1, 0]]):
        scores = with_cache.score(make_clip(), "q", OPTIONS, orders=orders)
        assert (scores.kind, scores.bounded) == ("text-normalised", frozenset())
        check_scores(with_cache, scores, len(scores.logprobs), np.array(orders))


def test_a_cache_of_an_older_format_is_filled_anew(tmp_path):
    older = sqlite3.connect(tmp_path / "p.db")
    older.execute("CREATE TABLE passes (key TEXT PRIMARY KEY, logprobs BLOB)")
    older.close()
    inner = Pixels()
    for _ in range(2):
        cached(inner, PosteriorCache(tmp_path / "p.db")).score(
            make_clip(), "q", OPTIONS, orders=[[0, 1, 2]]
        )
    assert len(inner.calls) == 1


def test_a_cache_that_is_none(tmp_path):
    (tmp_path / "text.db").write_text("no database at all, but long enough " * 40)
    with pytest.raises(RecordError, match="cannot be used as posterior cache"):
        PosteriorCache(tmp_path / "text.db")


def test_a_session_with_a_cache_fills_another_sidecar(tmp_path):
    """What --use_cache of a harness cannot: passes come back, not letters alone."""
    calls = []
    for name, sha256 in (("a", "1"), ("b", "1"), ("c", "2")):
        knobs = Knobs(
            sidecar=str(tmp_path / name), budget=4, cache=str(tmp_path / "p.db")
        )
        described = {
            "model": "pixels",
            "sha256": sha256,
            "device": f"cuda:{len(calls)}",
        }
        session = Session(knobs, described, {"name": "test"})
        inner = Pixels()
        session.answer(ITEMS[0], session.cached(inner, lambda order: str(order)))
        session.close()
        calls.append(len(inner.calls))
    assert calls == [1, 0, 1]
    assert len((tmp_path / "b" / "passes.jsonl").read_text().splitlines()) == 12


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ({}, "the scorer does not"),
        ({"class": "a.B", "model": "mine"}, "mine does not"),
        ({"model": "hub/name", "revision": None}, "hub/name does not"),
    ],
)
def test_a_cache_needs_to_know_whose_posteriors_it_keeps(tmp_path, described, said):
    knobs = Knobs(cache=str(tmp_path / "p.db"))
    with pytest.raises(UsageError, match=said):
        Session(knobs, described, {})
    Session(knobs, {**described, "content": "3"}, {}).close()


def test_generated_answers_are_refused_in_every_mode():
    class Writes:
        def score(self, clip, question, options, *, orders=None):
            return pf.scoring.GeneratedAnswers([["A"] * len(orders)] * len(clip.frames))

    session = Session(Knobs(budget=2), {}, {})
    with pytest.raises(ScoringError, match="no posteriors to fuse"):
        session.answer(ITEMS[0], Writes())
    session.close()


def test_folders_of_several_devices_are_one_run(tmp_path):
    for rank in range(2):
        described = {
            "scorer": "x",
            "device": f"cuda:{rank}",
            "arguments": {"device": f"cuda:{rank}", "device_map": f"cuda:{rank}"},
        }
        knobs = Knobs(sidecar=str(tmp_path / "side"), phases=2, budget=2)
        session = Session(knobs, described, {"name": "t"}, rank=rank, world_size=2)
        session.answer(ITEMS[rank], Pixels())
        session.close()
    parts = [tmp_path / f"side.rank{rank}" for rank in range(2)]
    merged = merge(parts, tmp_path / "whole")
    assert merged.n_conflicts == 0
    assert pf.report(tmp_path / "whole").numbers["items"]["with_passes"] == 2


def test_a_run_is_described_as_evaluate_describes_it(tmp_path):
    scorer = pf.wrap(lambda f, q, o: [0.0] * len(o), returns="logits")
    for engine in ("session", "evaluate"):
        given = {"protocol": "stableeval", "phases": 2, "budget": 2, "seed": 3}
        if engine == "session":
            knobs = Knobs(sidecar=str(tmp_path / engine), **given)
            Session(knobs, describe_scorer(scorer), {}).close()
        else:
            out = tmp_path / engine
            pf.evaluate(ITEMS[:1], scorer, out=out, progress=False, **given)
    found = [
        json.loads((tmp_path / engine / "run.json").read_text())
        for engine in ("session", "evaluate")
    ]
    assert set(found[1]) - set(found[0]) == {"questions", "planned"}
    own = {name: found[0]["settings"].pop(name) for name in ("harness",)}
    assert own == {"harness": {}}
    found[1]["settings"].pop("questions_sha256")
    assert found[0]["settings"] == found[1]["settings"]
