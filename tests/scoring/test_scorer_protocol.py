"""The protocol is one method; what it returns checks itself."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from phasefusion.errors import BackendUnavailableError, OptionError, ScoringError
from phasefusion.scoring import HFOptionScorer, OptionScores, Scorer
from phasefusion.scoring.protocol import check_clip, check_orders, check_question


class LongestText:
    """A whole scorer in one method: the longer the option, the better."""

    def score(self, clip, question, options, *, orders=None):
        orders = check_orders(orders, len(options))
        lengths = np.array([len(text) for text in options], dtype=float)
        logp = lengths - np.log(np.exp(lengths).sum())
        shape = (len(clip.frames), *orders.shape)
        return OptionScores(
            np.broadcast_to(logp, shape), np.ones(shape[:2]), orders, "text"
        )


def test_one_method_makes_a_scorer(build):
    scorer = LongestText()
    assert isinstance(scorer, Scorer)
    assert not isinstance(object(), Scorer)
    scores = scorer.score(build.clip(3), "?", ["a", "abc"], orders=[[0, 1], [1, 0]])
    assert np.asarray(scores).shape == (3, 2, 2)
    assert (scores.logprobs.argmax(axis=-1) == 1).all()
    np.testing.assert_array_equal(scores.letter_logprobs.argmax(axis=-1), [[1, 0]] * 3)


def test_scores_convert_to_arrays():
    scores = OptionScores([[[-1.0, -2.0]]], [[0.5]], [[0, 1]])
    assert np.asarray(scores).dtype == np.float64
    assert np.asarray(scores, dtype=np.float32).dtype == np.float32
    copy = np.array(scores)
    copy[0, 0, 0] = 7
    assert scores.logprobs[0, 0, 0] == -1
    with pytest.raises(ValueError, match="read-only"):
        scores.logprobs[0, 0, 0] = 7


def test_letter_space_undoes_the_order():
    rng = np.random.default_rng(3)
    orders = np.array([rng.permutation(5) for _ in range(4)])
    logp = rng.normal(size=(2, 4, 5))
    letters = OptionScores(logp, np.ones((2, 4)), orders).letter_logprobs
    for s in range(2):
        for m in range(4):
            for pos in range(5):
                assert letters[s, m, pos] == logp[s, m, orders[m, pos]]


def test_valid_passes():
    rows = [[-1.0, -2.0], [-1.0, np.nan], [-np.inf, -2.0], [-np.inf, -np.inf]]
    scores = OptionScores([rows], [[1, 1, 1, 0]], [[0, 1]] * 4)
    assert scores.valid.tolist() == [[True, False, True, False]]


@pytest.mark.parametrize(
    ("logprobs", "mass", "message"),
    [
        (np.zeros((1, 2)), np.zeros(1), r"\(1, 2\).*must be \(S, M, K\)"),
        (np.zeros((2, 3, 2)), np.zeros((2, 3)), r"\(2, 3, 2\).*must be \(S, M, K\)"),
        (np.zeros((2, 1, 2)), np.zeros(2), "option_mass has shape"),
    ],
)
def test_shapes_that_do_not_fit(logprobs, mass, message):
    with pytest.raises(ScoringError, match=message):
        OptionScores(logprobs, mass, [[0, 1]])


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([[0, 1], [1, 1]], r"orders\[1\] is \[1, 1\]"),
        ([[1, 2]], r"orders\[0\] is \[1, 2\]"),
        ([[0, 1, 2]], r"shape \(1, 3\); for 2 options"),
        (np.zeros((0, 2), int), r"shape \(0, 2\)"),
        ([[0.0, 1.0]], "they are float64"),
        (1, r"shape \(\)"),
    ],
)
def test_orders_that_are_none(orders, message):
    with pytest.raises(OptionError, match=message):
        check_orders(orders, 2)


def test_one_order_may_be_flat():
    assert check_orders([1, 0], 2).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("question", "message"), [(" ", "is empty"), (None, "is None; it must be a str")]
)
def test_questions_that_are_none(question, message):
    with pytest.raises(OptionError, match=message):
        check_question(question)


@pytest.mark.parametrize("library", ["torch", "transformers"])
def test_a_missing_library_is_named_with_its_remedy(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(BackendUnavailableError, match=rf"{library}.*pip install"):
        HFOptionScorer(None)


@pytest.mark.parametrize("clip", [None, np.zeros((1, 2, 8, 8, 3), np.uint8), "a.mp4"])
def test_what_is_no_clip_is_refused(clip):
    with pytest.raises(ScoringError, match=r"it must be a Clip, as read_clip gives it"):
        check_clip(clip)
