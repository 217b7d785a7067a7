"""Servers that are not there: said soon, or waited for where one answered before."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import replace

import pytest

import phasefusion as pf
from phasefusion.errors import ScoringError
from phasefusion.harness import _http

OPTIONS = ["red", "green", "blue"]


def constant(said, status=200, **headers):
    return lambda path, body: (status, headers, said)


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def refused_at(url, **options):
    waits = []
    endpoint = _http.Endpoint(url, sleep=waits.append, **options)
    with pytest.raises(ScoringError) as caught:
        endpoint.post("x", {})
    return str(caught.value), waits


def test_nobody_there_is_said_after_a_second_try(serve):
    url = f"http://127.0.0.1:{closed_port()}/v1"
    said, waits = refused_at(url)
    assert len(waits) == 1
    assert refused_at(url, retries=0)[1] == []
    assert url in said
    assert "Refused" in said
    assert "see that the server is running" in said
    secure = serve(constant({})).url.replace("http:", "https:")
    said, waits = refused_at(secure)
    assert len(waits) == 1
    assert "SSL" in said
    assert "see that the server is running" in said


def test_a_server_that_is_back_at_the_second_try(serve):
    """As when a worker starts in the second in which a server restarts."""
    server = serve(constant({"id": 1}))
    closed = f"http://127.0.0.1:{closed_port()}/v1"
    endpoint = _http.Endpoint(
        closed, sleep=lambda s: object.__setattr__(endpoint, "base_url", server.url)
    )
    assert endpoint.post("x", {}) == {"id": 1}


def tls_error(text, reason=None):
    error = ssl.SSLError(1, text)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "n_waits"),
    [
        (tls_error("x", "WRONG_VERSION_NUMBER"), 1),
        (tls_error("[SSL] record layer failure (_ssl.c:1033)"), 1),
        (tls_error("x", "RECORD_LAYER_FAILURE"), 1),
        (tls_error("x", "HTTP_REQUEST"), 1),
        (tls_error("[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert"), 5),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), 5),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), 1),
    ],
)
def test_a_proxy_that_restarts_is_waited_for(monkeypatch, error, n_waits):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(socket, "create_connection", fail)
    assert len(refused_at("https://127.0.0.1:1/v1")[1]) == n_waits


@pytest.mark.parametrize(
    ("code", "n_waits"), [(socket.EAI_NONAME, 1), (socket.EAI_AGAIN, 5)]
)
def test_an_unknown_host_is_said_soon(monkeypatch, code, n_waits):
    def fail(*args, **options):
        raise socket.gaierror(code, "no such host")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    said, waits = refused_at("http://nowhere.invalid/v1")
    assert len(waits) == n_waits
    assert "no such host" in said


@pytest.mark.parametrize("status", [200, 404])
def test_who_answered_before_is_waited_for(serve, status):
    server = serve(constant({"error": "no"}, status))
    waits = []
    endpoint = _http.Endpoint(server.url, retries=3, sleep=waits.append)
    if status == 200:
        endpoint.post("x", {})
    else:
        with pytest.raises(ScoringError, match="status 404"):
            endpoint.post("x", {})
    server.close()
    other = replace(endpoint, base_url=server.url + "/")  # as for /tokenize
    with pytest.raises(ScoringError, match=r"Refused.*tried 4 times"):
        other.post("x", {})
    assert len(waits) == 3


def test_a_run_without_a_server_ends_soon(clip):
    scorer = pf.OpenAIScorer(f"http://127.0.0.1:{closed_port()}/v1", "m", backoff_s=0.2)
    begun = time.monotonic()
    with pytest.raises(ScoringError, match="see that the server is running"):
        scorer.score(clip, "?", OPTIONS)
    assert time.monotonic() - begun < 1.0  # six tries take more than six seconds
