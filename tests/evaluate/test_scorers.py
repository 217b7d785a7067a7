"""What a scorer may return, and what a run says of one that fails."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from pixel_scorer import PixelScorer, make_questions

from phasefusion import _runner
from phasefusion.errors import (
    FallbackWarning,
    FrameError,
    OptionError,
    QuestionError,
    ScoringError,
)
from phasefusion.evaluate import evaluate
from phasefusion.records import iter_passes
from phasefusion.scoring import OptionScores

WANTED = (
    "it must be OptionScores, or an array of log-probabilities of shape (phases, "
    "orders, options) = (1, 1, 2)"
)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"), n_clips=1, per_clip=2)


class Changed(PixelScorer):
    """What `change` makes of the scores."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def score(self, clip, question, options, *, orders=None):
        scores = super().score(clip, question, options, orders=orders)
        return self.change(scores)


class Sized(PixelScorer):
    """Looks at frames of a size that depends on how many there are."""

    def __init__(self):
        super().__init__()
        self.shapes = set()

    def frame_size(self, height, width, n_frames):
        assert (height, width) == (48, 64)
        return None if n_frames == 4 else (2 * n_frames, 33)

    def score(self, clip, question, options, *, orders=None):
        self.shapes.add(clip.frames.shape[1:4])
        return super().score(clip, question, options, orders=orders)


def run(questions, out, scorer, **options):
    options = {"protocol": "quick", "budget": 4} | options
    return evaluate(questions, scorer, out=out, progress=False, **options)


def untimed(folder):
    return [p | {"seconds": 0, "decode_seconds": 0} for p in iter_passes(folder)]


@pytest.mark.parametrize(
    "bare",
    [
        lambda scores: scores.logprobs,
        lambda scores: scores.logprobs.tolist(),
        lambda scores: scores.logprobs.astype(np.float64, order="F"),
    ],
)
def test_log_probabilities_alone_are_scores(questions, tmp_path, bare):
    options = {"protocol": "phasefusion", "dense": 10, "n_orders": 3}
    run(questions, tmp_path / "full", Changed(lambda scores: scores), **options)
    run(questions, tmp_path / "bare", Changed(bare), **options)
    full, found = untimed(tmp_path / "full"), untimed(tmp_path / "bare")
    assert len(found) == len(full) > 20
    for left, right in zip(full, found, strict=True):
        assert right.pop("option_mass") == pytest.approx(
            left.pop("option_mass"), abs=1e-15
        )
        assert left == right


def test_rounding_and_texts_may_take_a_sum_above_1(questions, tmp_path):
    run(
        questions,
        tmp_path / "half",
        Changed(lambda x: np.log(1.004 / x.shape[-1]) + 0 * x.logprobs),
    )
    for row in iter_passes(tmp_path / "half"):
        assert row["option_mass"] == pytest.approx(1.004)

    def texts(x):  # "red" and "red and blue": the first has all of the second
        many = np.full(x.shape, -0.1)
        return OptionScores(many, np.exp(many).sum(-1), x.orders, kind="text")

    run(questions, tmp_path / "texts", Changed(texts))
    assert len(list(iter_passes(tmp_path / "texts"))) == 2


@pytest.mark.parametrize("is_bounded", [False, True])
def test_a_note_does_not_excuse_a_sum_above_1(questions, tmp_path, is_bounded):
    """A bound that was entered for an unknown option does."""

    def noted(x):
        found = OptionScores(
            np.full(x.shape, -0.1),
            np.ones(x.shape[:2]),
            x.orders,
            pass_notes={(0, 0): "frame 3 was decoded with damage"},
            bounded=[(0, 0)] if is_bounded else [],
        )
        assert found.bounded == ({(0, 0)} if is_bounded else set())
        return found

    if is_bounded:
        run(questions, tmp_path, Changed(noted))
        assert len(list(iter_passes(tmp_path))) == 2
        return
    with pytest.raises(ScoringError, match=r'add up to 1\.8.*kind="text"'):
        run(questions, tmp_path, Changed(noted))


def test_a_bounded_pass_is_one_of_the_passes():
    with pytest.raises(ScoringError, match=r"bounded names the pass \(1, 0\)"):
        OptionScores([[[-1.0, -1.0]]], [[0.7]], [[0, 1]], bounded=[(0, 0), (1, 0)])


def test_complex_scores_are_refused():
    with pytest.raises(ScoringError, match="must be real, not complex"):
        OptionScores(np.zeros((1, 1, 2), complex), [[1.0]], [[0, 1]])


@pytest.mark.filterwarnings("ignore::phasefusion.errors.NoAnswerWarning")
def test_a_row_of_nan_alone_is_an_invalid_pass(questions, tmp_path):
    run(questions, tmp_path, Changed(lambda scores: scores.logprobs * np.nan))
    for row in iter_passes(tmp_path):
        assert row["invalid"] == "scores: NaN"
        assert row["option_mass"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: None, f"Changed.score returned None, a NoneType; {WANTED}"),
        (lambda x: "A", f"Changed.score returned 'A', a str; {WANTED}"),
        (lambda x: ["A", "B"], f"Changed.score returned ['A', 'B'], a list; {WANTED}"),
        (lambda x: -0.5, f"Changed.score returned -0.5, a float; {WANTED}"),
        (
            lambda x: [[-1.0], [-1.0, -2.0]],
            f"Changed.score returned [[-1.0], [-1.0, -2.0]], a list; {WANTED}",
        ),
        (
            lambda x: x.logprobs[0].tolist(),
            f"Changed.score returned logprobs of shape (1, 2); {WANTED}",
        ),
        (
            lambda x: x.logprobs[..., :1],
            f"Changed.score returned logprobs of shape (1, 1, 1); {WANTED}",
        ),
        (
            lambda x: x.logprobs + 9,
            r"Changed.score returned a log-probability of \d+.\d+; it must be <= 0. "
            "Logits need a log-softmax first, probabilities a logarithm, losses a "
            "change of sign",
        ),
        (
            lambda x: np.full(x.shape, 0.5),
            "Changed.score returned a log-probability of 0.5; it must be <= 0: these "
            "are probabilities; take the log",
        ),
        (
            lambda x: np.full(x.shape, -0.01),
            "Changed.score returned log-probabilities of one pass whose probabilities "
            "add up to 1.9801, more than 1; unnormalised scores need a log-softmax "
            "first. Scores of the texts of options may add up to more: return "
            'OptionScores(..., kind="text"), or "text-normalised" of means per token',
        ),
        (
            lambda x: OptionScores(x.logprobs - 1, x.option_mass + 1, x.orders),
            r"Changed.score returned an option_mass of \d+.\d+; a probability is at "
            "most 1",
        ),
        (
            lambda x: np.zeros(x.shape, complex),
            "Changed.score returned array([[[0.+0.j, 0.+0.j]]]), a ndarray; " + WANTED,
        ),
    ],
)
def test_anything_else_says_what_to_return(questions, tmp_path, change, message):
    with pytest.raises(ScoringError) as caught:
        run(questions, tmp_path, Changed(change), limit=1)
    if r"\d" not in message:
        message = re.escape(message)
    assert re.fullmatch(message, str(caught.value))


def test_what_is_no_scorer_is_refused_before_anything_is_written(tmp_path):
    class NoOrders:
        def score(self, clip, question, options):
            raise AssertionError

    method = "a scorer needs a method score(self, clip, question, options, *, orders)"
    for scorer, message in (
        (
            NoOrders(),
            "NoOrders.score(clip, question, options) cannot be called: got an "
            f"unexpected keyword argument 'orders'; {method}",
        ),
        (object(), f"object has no method score; {method}"),
        (PixelScorer, "PixelScorer is a class; give an object of it: PixelScorer()"),
    ):
        with pytest.raises(ScoringError) as caught:
            run(tmp_path / "none.json", tmp_path / "run", scorer)
        assert str(caught.value) == message
    assert not (tmp_path / "run").exists()


def fail(error):
    def change(scores):
        raise error

    return change


def test_a_scorer_that_raises_is_named_and_can_go_on(questions, tmp_path):
    class Halfway(PixelScorer):
        def score(self, clip, question, options, *, orders=None):
            if question.endswith("1?"):
                raise self.error
            return super().score(clip, question, options, orders=orders)

    scorer = Halfway()
    scorer.error = KeyError("no\nsuch word")
    with pytest.raises(ScoringError) as caught:
        run(questions, tmp_path, scorer)
    assert str(caught.value) == (
        "question '0-1', arm single: Halfway.score raised KeyError: "
        r"'no\nsuch word'; what was scored before is on disk, and the same command "
        "goes on from here"
    )
    assert caught.value.__cause__ is scorer.error
    assert [p["question_id"] for p in iter_passes(tmp_path)] == ["0-0"]
    Halfway.score = PixelScorer.score
    assert run(questions, tmp_path, Halfway()).n_new == 1


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    "edit",
    [
        lambda clip, orders: clip.frames.fill(0),
        lambda clip, orders: clip.frames[0].sort(),
        lambda clip, orders: clip.indices.fill(7),
        lambda clip, orders: clip.times_s.fill(7.0),
        lambda clip, orders: clip.missing.fill(True),
        lambda clip, orders: clip.damaged.fill(True),
        lambda clip, orders: orders.fill(0),
    ],
)
def test_what_a_scorer_is_shown_cannot_be_changed(questions, tmp_path, edit, many):
    class Careless(Together if many else PixelScorer):
        def score(self, clip, question, options, *, orders=None):
            made = super().score(clip, question, options, orders=orders)
            edit(clip, orders)
            return made

    with pytest.raises(ScoringError, match=r"question '0-0', .*read-only"):
        run(questions, tmp_path, Careless())
    assert list(iter_passes(tmp_path)) == []


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            RuntimeError("two\n lines"),
            ScoringError,
            "question '0-0', arm single: Changed.score raised RuntimeError: two lines; "
            "what was scored before is on disk, and the same command goes on from here",
        ),
        (
            ValueError(),
            ScoringError,
            "question '0-0', arm single: Changed.score raised ValueError; what was "
            "scored before is on disk, and the same command goes on from here",
        ),
        (
            OptionError("option 0 is bad"),
            OptionError,
            "question '0-0', arm single: option 0 is bad",
        ),
    ],
)
def test_what_a_failing_scorer_said(questions, tmp_path, error, kind, message):
    with pytest.raises(kind) as caught:
        run(questions, tmp_path, Changed(fail(error)), on_error="raise")
    assert type(caught.value) is kind
    assert str(caught.value) == message
    assert caught.value.__cause__ is error


def test_an_interrupt_stays_an_interrupt(questions, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(questions, tmp_path, Changed(fail(KeyboardInterrupt())))


def test_frames_are_decoded_to_the_size_that_the_scorer_asks_for(questions, tmp_path):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    part = tmp_path / "part.jsonl"
    video = str(questions.parent / rows[0]["video"])
    rows = [rows[0] | {"video": video}, rows[1] | {"video": video, "start": 1.0}]
    part.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scorer = Sized()
    run(part, tmp_path / "run", scorer, protocol="phasefusion", dense=10, n_orders=2)
    passes = list(iter_passes(tmp_path / "run"))
    assert not any(p["invalid"] for p in passes)
    budgets = {p["budget"] for p in passes}
    assert budgets == {4, 10, 12}
    wanted = {(4, 48, 64), (10, 20, 33), (12, 24, 33)}
    assert scorer.shapes == wanted


class Together(PixelScorer):
    """Takes several questions in one call."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def score_many(self, requests):
        self.sizes.append(len(requests))
        return [
            PixelScorer.score(self, r.clip, r.question, r.options, orders=r.orders)
            for r in requests
        ]


class TogetherChanged(Together):
    def score(self, clip, question, options, *, orders=None):
        return super().score(clip, question, options, orders=orders)


FULL = {"protocol": "phasefusion", "budget": 4, "dense": 6, "n_orders": 2}


def test_questions_are_scored_together_an_arm_at_a_time(questions, tmp_path):
    scorer = Together()
    run(questions, tmp_path / "one", PixelScorer(), **FULL)
    run(questions, tmp_path / "all", scorer, **FULL)
    assert sorted(map(str, untimed(tmp_path / "all"))) == sorted(
        map(str, untimed(tmp_path / "one"))
    )
    assert set(scorer.sizes) == {2}  # both questions of the clip
    # In part done, both ways go on with what is left.
    path = tmp_path / "all" / "passes.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2 + 3]), encoding="utf-8")
    run(questions, tmp_path / "all", scorer, **FULL)
    assert sorted(map(str, untimed(tmp_path / "all"))) == sorted(
        map(str, untimed(tmp_path / "one"))
    )


def test_calls_end_after_so_many_passes(questions, tmp_path, monkeypatch):
    monkeypatch.setattr(_runner, "_PASSES_A_CALL", 1)
    scorer = Together()
    run(questions, tmp_path, scorer, **FULL)
    assert set(scorer.sizes) == {1}


def test_another_score_is_not_passed_over(questions, tmp_path):
    scorer = TogetherChanged()
    run(questions, tmp_path / "class", scorer)
    assert scorer.sizes == []
    assert len(scorer.calls) == 2
    scorer = Together()
    scorer.score = PixelScorer().score
    run(questions, tmp_path / "instance", scorer)
    assert scorer.sizes == []


@pytest.mark.parametrize("returned", [fail(KeyError("x")), lambda scores: scores[:1]])
def test_where_a_call_for_all_fails_each_is_scored_alone(questions, tmp_path, returned):
    class Failing(Together):
        def score_many(self, requests):
            return returned(super().score_many(requests))

    run(questions, tmp_path / "one", PixelScorer())
    with pytest.warns(FallbackWarning, match=r"score_many failed with (Key|Scoring)"):
        run(questions, tmp_path / "all", Failing())
    assert untimed(tmp_path / "all") == untimed(tmp_path / "one")


def test_a_question_that_fails_is_named_and_the_others_are_kept(questions, tmp_path):
    class Halfway(Together):
        def score(self, clip, question, options, *, orders=None):
            if question.endswith("1?"):
                raise ValueError("no")
            return super().score(clip, question, options, orders=orders)

        def score_many(self, requests):
            return [
                self.score(r.clip, r.question, r.options, orders=r.orders)
                for r in requests
            ]

    with pytest.raises(ScoringError, match=r"question '.*1'.*raised ValueError: no"):
        run(questions, tmp_path, Halfway())
    assert [p["question_id"] for p in iter_passes(tmp_path)] == ["0-0"]


class OneRefused(Together):
    """Cannot ask the second question."""

    error = OptionError("it holds a control token")

    def score(self, clip, question, options, *, orders=None):
        if question.endswith("1?"):
            raise self.error
        return super().score(clip, question, options, orders=orders)

    def score_many(self, requests):
        self.sizes.append(len(requests))
        return [
            self.score(r.clip, r.question, r.options, orders=r.orders) for r in requests
        ]


@pytest.mark.parametrize("error", [OptionError, QuestionError, FrameError])
def test_a_question_that_cannot_be_asked_leaves_its_passes_missing(
    questions, tmp_path, error
):
    scorer = OneRefused()
    scorer.error = error("it holds a control token")
    with pytest.warns(FallbackWarning, match="scored one by one instead"):
        run(questions, tmp_path, scorer, **FULL)
    passes = list(iter_passes(tmp_path))
    reasons = {(p["question_id"], p["invalid"]) for p in passes}
    reason = f"scores: {error.__name__}: it holds a control token"
    assert reasons == {("0-0", None), ("0-1", reason)}
    n_of = [sum(p["question_id"] == name for p in passes) for name in ("0-0", "0-1")]
    assert n_of[0] == n_of[1]
    assert run(questions, tmp_path, scorer, **FULL).n_new == 0


def test_a_question_that_cannot_be_asked_stops_a_run_that_wants_errors(
    questions, tmp_path
):
    with pytest.raises(OptionError, match="question '0-1', arm single: it holds a"):
        run(questions, tmp_path, OneRefused(), on_error="raise")
    assert [p["question_id"] for p in iter_passes(tmp_path)] == ["0-0"]


def test_an_error_that_is_about_every_question_stops_a_run(questions, tmp_path):
    scorer = OneRefused()
    scorer.error = ScoringError("the server is not there")
    with pytest.raises(ScoringError, match="the server is not there"):
        run(questions, tmp_path, scorer)


def test_the_arms_before_one_that_fails_are_on_disk(questions, tmp_path):
    class Late(Together):
        def score_many(self, requests):
            if len(requests[0].clip.frames[0]) == 6:  # the dense pass
                raise KeyError("dense")
            return super().score_many(requests)

        def score(self, clip, question, options, *, orders=None):
            raise KeyError("dense")

    with pytest.raises(ScoringError, match="raised KeyError: 'dense'"):
        run(questions, tmp_path, Late(), **FULL)
    kept = {(p["question_id"], p["arm"]) for p in iter_passes(tmp_path)}
    assert {("0-0", "phase"), ("0-1", "phase")} <= kept
    assert not any(arm == "dense" for _, arm in kept)
