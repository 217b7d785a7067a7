"""Functions as scorers: what they are given, and every form they may return."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from harness_clips import make_clip

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion.datasets import Item
from phasefusion.errors import OptionError, ScoringError
from phasefusion.records import iter_passes
from phasefusion.reparse import reparse
from phasefusion.scoring import GeneratedAnswers

OPTIONS = ["red", "green", "blue"]


def test_content_order_and_frames_of_the_phase(clip):
    seen = []

    def likes_green(frames, question, options, *, times_s):
        seen.append((frames.mean(), question, tuple(options), times_s.tolist()))
        return [0.5 if option == "green" else 0.2 for option in options]

    scorer = pf.wrap(likes_green, returns="probabilities")
    scores = scorer.score(clip, " Which? ", OPTIONS, orders=pf.orders.reverse(3))
    assert scores.shape == (2, 1, 3)
    np.testing.assert_allclose(np.exp(scores.logprobs[:, 0]), [[0.2, 0.5, 0.2]] * 2)
    np.testing.assert_allclose(scores.option_mass, 0.9)
    assert [one[1:3] for one in seen] == [("Which?", ("blue", "green", "red"))] * 2
    assert [one[0] for one in seen] == [f.mean() for f in clip.frames]
    assert [one[3] for one in seen] == clip.times_s.tolist()


@pytest.mark.parametrize(
    ("returns", "said", "expected", "mass"),
    [
        ("logprobs", [-0.5, -2.0, -3.0], [-0.5, -2.0, -3.0], None),
        ("logprobs", np.float32([-0.5, -2.0, -3.0]), [-0.5, -2.0, -3.0], None),
        ("probabilities", [0.0, 1.0, 0.0], [-np.inf, 0.0, -np.inf], 1.0),
        ("logits", [1000.0, 1000.0, -np.inf], [-np.log(2)] * 2 + [-np.inf], np.nan),
    ],
)
def test_forms_of_a_result(clip, returns, said, expected, mass):
    scores = pf.wrap(lambda f, q, o: said, returns=returns).score(clip, "?", OPTIONS)
    np.testing.assert_allclose(scores.logprobs[0, 0], expected, rtol=1e-6)
    wanted = np.exp(expected).sum() if mass is None else mass
    np.testing.assert_allclose(scores.option_mass[0, 0], wanted, rtol=1e-6)


def test_tensors_of_any_precision(clip):
    torch = pytest.importorskip("torch")
    given = torch.tensor([1.0, 2.0, 4.0], dtype=torch.bfloat16, requires_grad=True)
    scores = pf.wrap(lambda f, q, o: given, returns="logits").score(clip, "?", OPTIONS)
    expected = torch.log_softmax(torch.tensor([1.0, 2.0, 4.0]).double(), 0).numpy()
    np.testing.assert_allclose(scores.logprobs[1, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("said", ["B", "The answer is (C).", "A or B", "", None])
def test_answers_are_kept_as_they_were_written(clip, said):
    scorer = pf.wrap(lambda f, q, o: said, returns="answer")
    orders = pf.orders.cyclic(3)
    answers = scorer.score(clip, "?", OPTIONS, orders=orders)
    assert answers.texts == ((said,) * 3,) * 2
    assert scorer.is_generating
    assert not pf.wrap(lambda f, q, o: [0.1] * 3, returns="logits").is_generating


LIKE_LETTERS = [
    OPTIONS,
    ["B", "A", "C"],
    ["0", "1", "2"],
    ["(B)", "(A)", "(C)"],
    ["none (A)", "all (C)", "(B)"],
]


@pytest.mark.parametrize("options", LIKE_LETTERS)
@pytest.mark.parametrize("chosen", range(3))
def test_a_place_is_the_answer_whatever_options_read_like(tmp_path, options, chosen):
    """In every order, in the record, and after texts are read again."""
    path = sorted(tinyvlm.questions_path().parent.glob("*.mp4"))[0]
    item = Item("1", "b", str(path), "v", "?", tuple(options), 0)
    scorer = pf.wrap(
        lambda f, q, shown: np.int64(shown.index(options[chosen])), returns="answer"
    )
    how = {"protocol": "quick", "budget": 2, "orders": "all", "progress": False}
    pf.evaluate([item], scorer, out=tmp_path, **how)
    rows = list(iter_passes(tmp_path))
    assert [row["answer"] for row in rows] == [chosen] * 6
    for row in rows:
        assert row["text"] == f"({'ABC'[row['order'].index(chosen)]})"
        assert (row["outcome"], row["rule"]) == ("parsed", "place")
    assert reparse(tmp_path, [item]).changed == 0
    assert [row["answer"] for row in iter_passes(tmp_path)] == [chosen] * 6


def test_a_place_of_no_option_is_refused(tmp_path):
    path = sorted(tinyvlm.questions_path().parent.glob("*.mp4"))[0]
    item = Item("1", "b", str(path), "v", "?", tuple(OPTIONS), 0)

    class Places:
        def score(self, clip, question, options, *, orders=None):
            return GeneratedAnswers([["(D)"]], places={(0, 0): 3})

    how = {"protocol": "quick", "budget": 2, "orders": "identity", "progress": False}
    with pytest.raises(ScoringError, match=r"3 is given as the place .* 0\.\.2"):
        pf.evaluate([item], Places(), out=tmp_path, **how)


def test_frames_that_did_not_decode_have_no_answer():
    scorer = pf.wrap(lambda f, q, o: "A", returns="answer")
    answers = scorer.score(make_clip(missing=[(1, 2)]), "?", OPTIONS)
    assert answers.texts == (("A",), (None,))
    assert answers.pass_notes == {(1, 0): "frame 5 could not be decoded"}


@pytest.mark.parametrize("returns", ["logprobs", "probabilities", "logits"])
def test_nan_is_a_missing_pass(clip, returns):
    function = pf.wrap(lambda f, q, o: [np.nan, 0.1, 0.1], returns=returns)
    scores = function.score(clip, "?", OPTIONS)
    assert np.isnan(scores.logprobs).all()
    assert "NaN" in scores.pass_notes[1, 0]


@pytest.mark.parametrize(
    ("returns", "said", "message"),
    [
        ("logprobs", [0.0, 0.0, -5.0], 'add up to 2.00674.*returns="logits"'),
        ("logprobs", [3.0, 1.0, 0.0], "more than 1"),
        ("logprobs", [0.7, 0.2, 0.1], "take the log, or say returns="),
        ("probabilities", [-0.1, 0.5, 0.5], "must be >= 0"),
        ("probabilities", [np.inf, 0.5, 0.5], "add up to inf"),
        ("logits", [1.0, 2.0], r"its shape is \(2,\)"),
        ("logits", "B", "as logits"),
        ("logits", ["0.1", "0.2", "0.3"], "must be real numbers"),
        ("logprobs", [-1.0, "-2", -3.0], "must be real numbers"),
        ("logits", np.array([1j, 2.0, 3.0]), "must be real numbers"),
        ("probabilities", [0.1, 0.2, 0.3 + 0j], "must be real numbers"),
        ("logits", np.array([1.0, "2", 3.0], object), "must be real numbers"),
        ("logits", [b"1", b"2", b"3"], "must be real numbers"),
        ("answer", 3, r"must be 0\.\.2"),
        ("answer", 1.5, "must be a text, the place"),
        ("answer", True, "must be a text, the place"),
    ],
)
def test_wrong_results_are_refused(clip, returns, said, message):
    scorer = pf.wrap(lambda f, q, o: said, returns=returns, name="mine")
    with pytest.raises(ScoringError, match=message) as caught:
        scorer.score(clip, "?", OPTIONS)
    assert "mine" in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [[1, 2, 3], [True, False, True], np.float16([0, 1, 2]), [Fraction(1, 2), 1, 2.0]],
)
def test_real_numbers_of_any_kind_are_taken(clip, said):
    scorer = pf.wrap(lambda f, q, o: said, returns="logits")
    expected = np.asarray(said, np.float64)
    found = scorer.score(clip, "?", OPTIONS).logprobs[0, 0]
    np.testing.assert_allclose(found - found[0], expected - expected[0])


@pytest.mark.parametrize(
    ("logits", "reason"),
    [
        ([-np.inf] * 3, "scores: no option has any probability"),
        ([np.inf, 0.0, 1.0], "scores: +inf; a logit is +inf"),
        ([np.nan, 0.0, 1.0], "scores: NaN; mine returned NaN"),
    ],
)
def test_logits_that_are_no_scores_say_what_they_are(tmp_path, logits, reason):
    scorer = pf.wrap(lambda f, q, o: np.resize(logits, len(o)), returns="logits")
    scorer._name = "mine"
    options = {"protocol": "quick", "limit": 1, "progress": False}
    with pytest.warns(pf.errors.NoAnswerWarning):
        pf.evaluate(tinyvlm.questions_path(), scorer, out=tmp_path, **options)
    (row,) = pf.records.iter_passes(tmp_path)
    assert row["invalid"] == reason


def test_wrong_functions_are_refused():
    with pytest.raises(ScoringError, match="cannot be called with"):
        pf.wrap(lambda frames: [1.0])
    with pytest.raises(ScoringError, match="needs a function"):
        pf.wrap([1.0])
    with pytest.raises(ScoringError, match="returns is 'scores'"):
        pf.wrap(lambda f, q, o: 0, returns="scores")


def test_frames_that_did_not_decode_are_not_shown():
    clip = make_clip(missing=[(1, 2)])
    calls = []
    scorer = pf.wrap(lambda f, q, o: calls.append(1) or [0.1] * 3, returns="logits")
    scores = scorer.score(clip, "?", OPTIONS)
    assert len(calls) == 1
    assert scores.valid[:, 0].tolist() == [True, False]
    assert scores.notes == ()
    assert scores.pass_notes == {(1, 0): "frame 5 could not be decoded"}


def test_repeated_options_are_merged(clip):
    scorer = pf.wrap(lambda f, q, o: [0.2, 0.3, 0.1], returns="probabilities")
    with pytest.warns(pf.errors.OptionWarning):
        scores = scorer.score(clip, "?", ["x", "y", "x"])
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0]), [0.3, 0.3, 0.0])


def test_bad_questions(clip):
    scorer = pf.wrap(lambda f, q, o: [0.1] * 3, returns="logits")
    with pytest.raises(OptionError):
        scorer.score(clip, "?", ["only"])
    with pytest.raises(OptionError):
        scorer.score(clip, " ", OPTIONS)


def test_a_run_with_answers_alone(tmp_path):
    @pf.wrap(returns="answer", name="first or loud")
    def guess(frames, question, options):
        return "cannot tell" if "flash" in question else int(frames.mean()) % 2

    run = pf.evaluate(
        tinyvlm.questions_path(),
        guess,
        out=tmp_path,
        protocol="stableeval",
        budget=4,
        limit=4,
        progress=False,
    )
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    assert settings["scorer"]["model"] == "first or loud"
    assert settings["scorer"]["returns"] == "answer"
    with open(tmp_path / "passes.jsonl") as file:
        rows = [json.loads(line) for line in file]
    unread = [row for row in rows if row["question_id"] == "tinyvlm-0003"]
    assert unread
    assert all(row["text"] == "cannot tell" for row in unread)
    assert all(row["invalid"].startswith("refused: ") for row in unread)
    assert all((row["path"], row["logprobs"]) == ("generate", None) for row in rows)
    assert all(row["text"] in ("(A)", "(B)") for row in rows if row not in unread)
    assert all(row["option_mass"] is None for row in rows)
    report = run.report()
    assert report.numbers["items"]["missing_passes"] == len(unread)
    assert "cannot tell" in str(report)


def test_damage_of_a_frame_is_noted_as_by_other_scorers():
    clip = make_clip()
    clip.damaged[1, 0] = True
    scorer = pf.wrap(lambda f, q, o: [0.0, 1.0, 2.0], returns="logits")
    scores = scorer.score(clip, "q", OPTIONS)
    assert scores.valid.all()
    assert list(scores.pass_notes) == [(1, 0)]
    assert "was decoded with damage" in scores.pass_notes[1, 0]


def test_answers_alone_are_no_posteriors(tmp_path):
    guess = pf.wrap(lambda f, q, o: "A", returns="answer")
    options = {"protocol": "margin", "limit": 2, "progress": False}
    with pytest.raises(ScoringError, match="needs posteriors"):
        pf.evaluate(tinyvlm.questions_path(), guess, out=tmp_path, **options)
