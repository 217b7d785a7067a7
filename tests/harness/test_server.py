"""A server of the OpenAI protocol: what is sent, what is read, and what goes wrong."""

from __future__ import annotations

import base64
import io
import json
import math
import threading

import numpy as np
import pytest
from harness_clips import make_clip
from server_answers import KEY, OPTIONS, constant, named, scorer_of

import phasefusion as pf
from phasefusion import tinyvlm
from phasefusion.errors import ScoringError


def test_both_forms_of_a_letter_and_content_order(serve, clip):
    server = serve(constant(named(A=0.5, _A=0.1, B=0.2, _C=0.05, The=0.05)))
    orders = [[0, 1, 2], [2, 0, 1]]
    scores = scorer_of(server).score(clip, "Which?", OPTIONS, orders=orders)
    assert scores.shape == (2, 2, 3)
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0]), [0.6, 0.2, 0.05])
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 1]), [0.2, 0.05, 0.6])
    np.testing.assert_allclose(scores.option_mass, 0.85)
    assert scores.pass_notes == {}
    assert scores.bounded == set()


def test_what_is_sent(serve, clip):
    server = serve(constant(named(A=0.5, B=0.2, C=0.05)))
    scorer = scorer_of(server, api_key=KEY, extra_body={"seed": 1, "top_p": None})
    scorer.score(clip, "Which?", OPTIONS, orders=[[2, 1, 0]])
    assert len(server.requests) == 2
    path, body, headers = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    wanted = {"model": "m", "max_tokens": 1, "temperature": 0, "logprobs": True}
    assert wanted.items() <= body.items()
    assert (body["top_logprobs"], body["seed"]) == (20, 1)
    assert "top_p" not in body
    *pictures, text = body["messages"][0]["content"]
    assert text["text"].splitlines()[:4] == ["Which?", "A. blue", "B. green", "C. red"]
    assert len(pictures) == 3
    assert "sk-secret" not in json.dumps(body)


def test_png_keeps_every_pixel(serve, clip):
    image = pytest.importorskip("PIL.Image")
    server = serve(constant(named(A=0.5, B=0.2, C=0.05)))
    scorer_of(server, concurrency=1).score(clip, "?", OPTIONS)
    for s in range(2):
        parts = server.requests[s][1]["messages"][0]["content"][:-1]
        for frame, part in zip(clip.frames[s], parts, strict=True):
            head, _, data = part["image_url"]["url"].partition(",")
            assert head == "data:image/png;base64"
            shown = np.asarray(image.open(io.BytesIO(base64.b64decode(data))))
            np.testing.assert_array_equal(shown, frame)


def test_size_times_and_jpeg(serve, clip):
    image = pytest.importorskip("PIL.Image")
    server = serve(constant(named(A=0.5, B=0.2, C=0.05)))
    scorer = scorer_of(
        server, size=(4, 4), timestamps="text", images="jpeg", concurrency=1
    )
    assert scorer.frame_size(6, 8, 3) == (4, 4)
    scorer.score(clip, "?", OPTIONS)
    parts = server.requests[1][1]["messages"][0]["content"]
    times = [part["text"] for part in parts[:-1] if part["type"] == "text"]
    assert times == [f"<{t:.1f} seconds>" for t in clip.times_s[1]]
    data = parts[1]["image_url"]["url"].partition("base64,")[2]
    assert image.open(io.BytesIO(base64.b64decode(data))).size == (4, 4)


def test_a_video_of_jpeg_frames(serve, clip):
    pytest.importorskip("PIL")
    server = serve(constant(named(A=0.5, B=0.2, C=0.05)))
    scorer_of(server, send="video").score(clip, "?", OPTIONS)
    part = server.requests[0][1]["messages"][0]["content"][0]
    url = part["video_url"]["url"]
    assert url.startswith("data:video/jpeg;base64,")
    assert len(url.split(",")) == 1 + 3


def test_a_letter_that_is_not_named_is_bounded_not_impossible(serve, clip):
    server = serve(constant(named(A=0.6, The=0.2, B=0.1, It=0.04)))
    scores = scorer_of(server, top_logprobs=4).score(clip, "?", OPTIONS)
    assert scores.bounded == {(s, 0) for s in range(len(scores.logprobs))}
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0]), [0.6, 0.1, 0.06])
    np.testing.assert_allclose(scores.option_mass, 0.7)
    note = scores.pass_notes[0, 0]
    assert note.startswith("C not among the 4 tokens")
    assert "lower bound" in note
    # what is left of 1 is less than the least likely token
    server = serve(constant(named(A=0.6, B=0.39, The=0.005)))
    scores = scorer_of(server, top_logprobs=3).score(clip, "?", OPTIONS)
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0, 2]), 0.005)
    server = serve(constant(named(A=0.6, B=0.39, The=0.008)))
    scores = scorer_of(server, top_logprobs=3).score(clip, "?", OPTIONS)
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0, 2]), 0.002, rtol=1e-6)


def test_a_letter_has_two_spellings_and_each_may_be_left_out(serve, clip):
    """Two tokens under the least likely one add up to a letter above it."""
    truth = {"The": 0.41, " A": 0.135, "B": 0.13, " B": 0.13}
    assert truth["B"] + truth[" B"] > truth[" A"]
    server = serve(constant(named(**{t: truth[t] for t in ("The", " A")})))
    scores = scorer_of(server, top_logprobs=2).score(clip, "?", OPTIONS[:2])
    assert not scores.valid.any()
    assert "B not among the 2 tokens" in scores.pass_notes[0, 0]
    assert "the answer need not be A" in scores.pass_notes[0, 0]
    assert np.isnan(scores.option_mass).all()


@pytest.mark.parametrize("top_logprobs", [2, 3])
def test_the_chosen_token_named_beside_the_top_is_no_letter_named(
    serve, clip, top_logprobs
):
    """B is in the answer because it was drawn; C may be as likely as the top allows."""
    server = serve(constant(named(A=0.6, The=0.2, B=0.001)))
    scorer = scorer_of(server, top_logprobs=top_logprobs)
    scores = scorer.score(clip, "?", OPTIONS)
    wanted = [0.6, 0.2, 0.2] if top_logprobs == 2 else [0.6, 0.001, 0.001]
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0]), wanted)
    server = serve(constant(named(The=0.6, It=0.2, B=0.001)))
    scores = scorer_of(server, top_logprobs=2).score(clip, "?", OPTIONS)
    assert not scores.valid.any()
    assert "none of the letters" in scores.pass_notes[0, 0]


def letters_of(options, **probabilities):
    """Tokens of a prompt's letters by the probability of the option that wears each."""
    return {"ABCD"[options.index(o)]: p for o, p in probabilities.items()}


def test_what_was_never_named_never_wins_the_mean_of_passes(serve, clip):
    """Named options take turns under each other; their mean stays above the others."""

    def answer(path, body):
        text = body["messages"][0]["content"][-1]["text"]
        shown = [line[3:] for line in text.splitlines() if line[1:3] == ". "]
        answer.n += 1
        likely, other = ("red", "green") if answer.n % 2 else ("green", "red")
        said = letters_of(shown, **{likely: 0.11, other: 0.05})
        return 200, {}, named(The=0.6, **said)

    answer.n = 0
    scorer = scorer_of(serve(answer), top_logprobs=3, concurrency=1)
    scores = scorer.score(clip, "?", OPTIONS)
    assert scores.valid.all()
    assert (scores.logprobs[:, :, 2] <= scores.logprobs[:, :, :2].min(-1)).all()
    assert int(pf.fuse(scores, over=("phase", "order"), item_id="q").answer) != 2


@pytest.mark.parametrize("seed", range(4))
def test_no_letter_wins_by_lot(serve, clip, seed):
    """One letter named, at the least likely place: the others may be likelier."""
    server = serve(constant(named(The=0.41, _A=0.135)))
    scorer = scorer_of(server, top_logprobs=2)
    scores = scorer.score(clip, "?", ["red", "green", "blue", "pink"])
    fused = pf.fuse(scores, over=("phase", "order"), item_id="q", seed=seed)
    assert int(fused.answer) == -1


def test_a_letter_asked_for_again_in_one_spelling(serve, clip):
    """Its other spelling is still unknown, and may be the answer where A is last."""

    def answer(path, body):
        if "prompt_logprobs" not in body:
            return 200, {}, named(**likely)
        entry = {"decoded_token": body["messages"][-1]["content"], "logprob": -9.0}
        return 200, {}, {"choices": [{}], "prompt_logprobs": [None, {"1": entry}]}

    scorer = scorer_of(serve(answer), reask="prompt_logprobs", top_logprobs=2)
    likely = {"The": 0.41, "_A": 0.135}
    scores = scorer.score(clip, "?", OPTIONS)
    assert not scores.valid.any()
    assert "B, C not among the 2 tokens" in scores.pass_notes[0, 0]
    likely = {"A": 0.8, "The": 0.135}
    scores = scorer.score(clip, "?", OPTIONS)
    np.testing.assert_allclose(scores.logprobs[0, 0], [np.log(0.8), -9.0, -9.0])
    assert scores.pass_notes == {}


@pytest.mark.parametrize("token", ["B", " B", "\u0120B", "\u2581B"])
def test_spellings_of_a_letter(serve, clip, token):
    server = serve(constant(named(A=0.5, C=0.2, **{token: 0.1})))
    scores = scorer_of(server).score(clip, "?", OPTIONS)
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0, 1]), 0.1)


@pytest.mark.parametrize("token", ["\nB", "  B", "B ", "b", "(B", "BB"])
def test_tokens_that_are_no_spelling(serve, clip, token):
    """There are but two whose bounds are counted, those of `HFOptionScorer`."""
    server = serve(constant(named(A=0.5, C=0.2, **{token: 0.1})))
    scores = scorer_of(server).score(clip, "?", OPTIONS)
    assert "B not among the 3 tokens" in scores.pass_notes[0, 0]


def test_no_letter_named_is_a_missing_pass(serve, clip):
    server = serve(constant(named(The=0.9, It=0.05, D=0.01, a=0.01)))
    scores = scorer_of(server).score(clip, "?", OPTIONS)
    assert not scores.valid.any()
    assert "none of the letters" in scores.pass_notes[1, 0]
    assert "'The', 0.9" in scores.pass_notes[1, 0]


def test_frames_that_did_not_decode_are_not_sent(serve):
    """The note is the same wherever in a call the phase is."""
    server = serve(constant(named(A=0.5, B=0.2, C=0.05)))
    clip = make_clip(missing=[(1, 2)])
    scores = scorer_of(server).score(clip, "?", OPTIONS, orders=pf.orders.latin(3))
    assert scores.valid.all(axis=1).tolist() == [True, False]
    assert scores.notes == ()
    why = "frame 5 could not be decoded"
    assert scores.pass_notes == {(1, m): why for m in range(3)}
    assert len(server.requests) == 3


def test_sentinels_are_not_numbers(serve, clip):
    said = named(A=0.6, B=0.2, C=0.1)
    top = said["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    top[2]["logprob"] = -9999.0
    scores = scorer_of(serve(constant(said))).score(clip, "?", OPTIONS)
    assert "C not among the 2 tokens" in scores.pass_notes[0, 0]


@pytest.mark.parametrize("shows_bias", [True, False])
def test_reask_by_bias(serve, clip, shows_bias):
    """The ratios of letters survive a bias, whether or not the answer shows it."""
    truth = {"A": 0.6, "The": 0.3, "B": 0.01, "It": 0.005, "C": 0.004}

    def answer(path, body):
        if path == "/tokenize":
            return 200, {}, {"tokens": [ord(body["prompt"])]}
        if "logit_bias" not in body:
            return 200, {}, named(**dict(list(truth.items())[:4]))
        assert body["logit_bias"] == {str(ord(letter)): 100 for letter in "ABC"}
        if not shows_bias:
            return 200, {}, named(**dict(list(truth.items())[:4]))
        total = sum(truth[letter] for letter in "ABC")
        return 200, {}, named(**{letter: truth[letter] / total for letter in "ABC"})

    server = serve(answer)
    scorer = scorer_of(server, reask="logit_bias", top_logprobs=4)
    scores = scorer.score(clip, "?", OPTIONS)
    found = np.exp(scores.logprobs[0, 0])
    np.testing.assert_allclose(found, [0.6, 0.01, 0.004 if shows_bias else 0.01])
    assert bool(scores.pass_notes) == (not shows_bias)
    np.testing.assert_allclose(scores.option_mass, 0.614 if shows_bias else 0.61)
    tokenized = [body["prompt"] for path, body, _ in server.requests if "tok" in path]
    assert sorted(set(tokenized)) == ["A", "B", "C"]


def test_reask_that_contradicts_the_first_answer_is_not_believed(serve, clip):
    def answer(path, body):
        if "logit_bias" in body:
            return 200, {}, named(A=0.1, B=0.5, C=0.4)
        return 200, {}, named(A=0.6, The=0.3, B=0.01, It=0.005)

    scorer = scorer_of(
        serve(answer),
        reask="logit_bias",
        letter_token_ids={"A": 1, "B": 2, "C": 3},
        top_logprobs=4,
    )
    scores = scorer.score(clip, "?", OPTIONS)
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0, 2]), 0.01)
    assert "C not among" in scores.pass_notes[0, 0]


def test_reask_by_a_prompt_that_ends_in_the_letter(serve, clip):
    def answer(path, body):
        if "prompt_logprobs" not in body:
            return 200, {}, named(A=0.6, The=0.3, B=0.01, It=0.005)
        assert body["continue_final_message"] is True
        assert body["add_generation_prompt"] is False
        assert body["messages"][-1] == {"role": "assistant", "content": "C"}
        entry = {"decoded_token": "C", "logprob": math.log(0.003), "rank": 9}
        return 200, {}, {"choices": [{}], "prompt_logprobs": [None, {"67": entry}]}

    scorer = scorer_of(serve(answer), reask="prompt_logprobs", top_logprobs=4)
    scores = scorer.score(clip, "?", OPTIONS)
    np.testing.assert_allclose(np.exp(scores.logprobs[1, 0]), [0.6, 0.01, 0.003])
    np.testing.assert_allclose(scores.option_mass, 0.613)
    assert scores.pass_notes == {}


def test_reask_whose_prompt_does_not_end_in_the_letter(serve, clip):
    def answer(path, body):
        if "prompt_logprobs" not in body:
            return 200, {}, named(A=0.6, The=0.3, B=0.01, It=0.005)
        entry = {"decoded_token": "<|im_end|>", "logprob": -0.1}
        return 200, {}, {"choices": [{}], "prompt_logprobs": [None, {"9": entry}]}

    scorer = scorer_of(serve(answer), reask="prompt_logprobs", top_logprobs=4)
    scores = scorer.score(clip, "?", OPTIONS)
    np.testing.assert_allclose(np.exp(scores.logprobs[0, 0, 2]), 0.01)
    assert scores.pass_notes


@pytest.mark.parametrize("refused", ["bias", "tokenize", "prompt"])
def test_a_reask_that_is_refused_leaves_the_pass(serve, clip, refused):
    def answer(path, body):
        ends = {"tokenize": "token" in path, "bias": "logit_bias" in body}
        if ends.get(refused) or "prompt_logprobs" in body:
            return 400, {}, {"error": {"message": "not supported here"}}
        if path == "/tokenize":
            return 200, {}, {"tokens": [ord(body["prompt"])]}
        return 200, {}, named(A=0.6, The=0.3, B=0.01, It=0.005)

    reask = "prompt_logprobs" if refused == "prompt" else "logit_bias"
    scorer = scorer_of(serve(answer), reask=reask, top_logprobs=4)
    scores = scorer.score(clip, "?", OPTIONS)
    np.testing.assert_allclose(np.exp(scores.logprobs[1, 0]), [0.6, 0.01, 0.01])
    note = scores.pass_notes[1, 0]
    assert note.startswith("C not among the 4 tokens")
    assert f"asking again by {reask} was refused" in note
    assert "not supported here" in note


@pytest.mark.parametrize(
    "said",
    [
        {"choices": [{"message": {"content": "A"}}]},
        {"choices": [{"logprobs": None}]},
        {"choices": [{"logprobs": {"content": []}}]},
        {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1}]}}]},
    ],
)
def test_a_server_without_log_probabilities(serve, clip, said):
    with pytest.raises(ScoringError, match="without log-probabilities"):
        scorer_of(serve(constant(said))).score(clip, "?", OPTIONS)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"choices": []}, "without a choice"),
        ({"object": "error"}, "without a choice"),
        (b"<html>busy</html>", "no JSON object: <html>busy"),
        (b"[1]", "no JSON object"),
    ],
)
def test_answers_that_are_none(serve, clip, said, message):
    with pytest.raises(ScoringError, match=message):
        scorer_of(serve(constant(said))).score(clip, "?", OPTIONS)


def test_positive_log_probabilities_are_refused(serve, clip):
    said = named(A=0.6, B=0.2)
    said["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["logprob"] = 1.5
    with pytest.raises(ScoringError, match=r"gave 1\.5 as the log-probability"):
        scorer_of(serve(constant(said))).score(clip, "?", OPTIONS)


def test_the_key_is_in_no_text(serve):
    server = serve(constant({}))
    scorer = scorer_of(server, api_key=KEY, headers={"X-Key": KEY})
    text = repr(scorer) + json.dumps(scorer.describe()) + repr(scorer._endpoint)
    assert KEY not in text


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("http://me:secret@host:1/v1", "a user or a password .* give api_key"),
        ("https://secret@host/v1", "a user or a password"),
        ("http://me:sec/ret@host/v1", "no valid host or port"),
        ("http://host:99999/v1", "no valid host or port"),
        ("http://[::1/v1", "no valid host or port"),
        ("http://host/v1?token=secret", r"a \? or # part"),
        ("http://host/v1/chat/completions", "end it before /chat/completions"),
        ("http://host/v1/completions/", "end it before /chat/completions"),
    ],
)
def test_addresses_that_requests_cannot_be_added_to(base_url, message):
    with pytest.raises(ScoringError, match=message) as caught:
        pf.OpenAIScorer(base_url, "m")
    assert "secret" not in str(caught.value)
    assert "ret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "localhost:8000"}, "must be an http or https address"),
        ({"concurrency": 0}, "concurrency 0"),
        ({"model": " "}, "model is ' '; it must be the name"),
        ({"prompt": "Which?"}, "must hold {question} once"),
        ({"prompt": 5}, "must be a PromptTemplate or its text, not 5"),
        ({"images": "gif"}, "images is 'gif'"),
        ({"reask": "please"}, "reask is 'please'"),
        ({"timeout_s": 0}, "timeout_s 0"),
        ({"send": "video", "timestamps": "text"}, "needs send"),
    ],
)
def test_bad_settings(options, message):
    given = {"base_url": "http://localhost/v1", "model": "m", **options}
    with pytest.raises(ScoringError, match=message):
        pf.OpenAIScorer(**given)


def test_a_run_over_a_server(serve, tmp_path):
    """Interrupted by a failing server, and gone on with."""
    healthy = threading.Event()
    answered = []

    def answer(path, body):
        if len(answered) >= 5 and not healthy.is_set():
            return 500, {}, {"error": "down"}
        answered.append(1)
        return 200, {}, named(A=0.6, B=0.3, The=0.05)

    scorer = scorer_of(serve(answer), concurrency=1, retries=0, size=(32, 32))
    given = {"protocol": "quick", "limit": 8, "progress": False, "out": tmp_path}
    with pytest.raises(ScoringError, match="status 500: down"):
        pf.evaluate(tinyvlm.questions_path(), scorer, **given)
    healthy.set()
    run = pf.evaluate(tinyvlm.questions_path(), scorer, **given)
    assert (run.n_passes, run.n_new) == (8, 3)
    with open(tmp_path / "passes.jsonl") as file:
        rows = [json.loads(line) for line in file]
    assert all(row["answer"] == 0 for row in rows)
    assert all("not among the 3 tokens" in row["note"] for row in rows)
