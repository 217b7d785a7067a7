"""A server of the OpenAI protocol: waiting for it, and giving it up."""

from __future__ import annotations

import threading
import time

import pytest
from harness_clips import make_clip
from server_answers import KEY, OPTIONS, constant, named, scorer_of

import phasefusion as pf
from phasefusion.errors import ScoringError
from phasefusion.harness import _http


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_passes_is_tried_again(serve, status):
    failed = []

    def answer(path, body):
        if len(failed) < 2:
            failed.append(1)
            return status, {}, {"error": {"message": "busy"}}
        return 200, {}, named(A=0.5, B=0.2, C=0.05)

    server = serve(answer)
    scores = scorer_of(server).score(make_clip(n_phases=1), "?", OPTIONS)
    assert scores.valid.all()
    assert len(server.requests) == 3


def test_a_server_says_when_to_try_again(serve):
    waits = []

    def answer(path, body):
        if len(waits) < 2:
            after = "7" if not waits else "Wed, 21 Oct 2015 07:28:00 GMT"
            return 429, {"Retry-After": after}, {"error": "slow down"}
        return 200, {}, {"ok": True}

    server = serve(answer)
    endpoint = _http.Endpoint(server.url, sleep=waits.append)
    assert endpoint.post("chat/completions", {}) == {"ok": True}
    assert waits == [7.0, 0.0]


def test_pauses_grow_and_end(serve):
    waits = []
    server = serve(constant({"error": {"message": "busy"}}, 503))
    endpoint = _http.Endpoint(server.url, retries=7, backoff_s=2, sleep=waits.append)
    with pytest.raises(ScoringError, match=r"status 503: busy \(tried 8 times\)"):
        endpoint.post("x", {})
    assert all(2 * 2**i <= min(w, 60) or w == 60 for i, w in enumerate(waits))
    assert all(w <= 3 * 2**i for i, w in enumerate(waits))
    assert max(waits) <= 60


@pytest.mark.parametrize("status", [401, 403, 404, 307])
def test_what_does_not_pass_is_not_tried_again(serve, clip, status):
    said = {"error": {"message": f"no such key {KEY}"}}
    server = serve(constant(said, status, Location="http://127.0.0.1:9/"))
    with pytest.raises(ScoringError, match=f"status {status}: no such key") as caught:
        scorer_of(server, api_key=KEY, concurrency=1).score(clip, "?", OPTIONS)
    assert KEY not in str(caught.value)
    assert len(server.requests) == 1


def test_a_request_that_is_refused_is_a_missing_pass_once_others_were_not(serve):
    def answer(path, body):
        if "B. green" in body["messages"][0]["content"][-1]["text"]:
            return 200, {}, named(A=0.5, B=0.2, C=0.05)
        return 400, {}, {"error": {"message": "prompt too long"}}

    scorer = scorer_of(serve(answer), concurrency=1)
    clip = make_clip(n_phases=1)
    with pytest.raises(ScoringError, match="prompt too long"):
        scorer.score(clip, "?", OPTIONS, orders=[[1, 0, 2]])
    scores = scorer.score(clip, "?", OPTIONS, orders=[[0, 1, 2], [1, 0, 2]])
    assert scores.valid.tolist() == [[True, False]]
    assert "prompt too long" in scores.pass_notes[0, 1]


def test_time_limit(serve):
    over = threading.Event()

    def answer(path, body):
        over.wait(5)
        return 200, {}, {}

    server = serve(answer)
    endpoint = _http.Endpoint(server.url, timeout_s=0.05, retries=1, backoff_s=0)
    with pytest.raises(ScoringError, match="no answer within the time limit"):
        endpoint.post("x", {})
    over.set()


def test_requests_under_way_at_a_time(serve):
    def answer(path, body):
        time.sleep(0.02)
        return 200, {}, named(A=0.5, B=0.2, C=0.05)

    server = serve(answer)
    orders = pf.orders.all_orders(3)
    scores = scorer_of(server, concurrency=3).score(
        make_clip(), "?", OPTIONS, orders=orders
    )
    assert scores.valid.all()
    assert server.most_at_once == 3
