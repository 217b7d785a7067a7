"""What a stand-in for a server of the OpenAI protocol answers, and its scorer."""

from __future__ import annotations

import math

import phasefusion as pf

OPTIONS = ["red", "green", "blue"]
KEY = "sk-secret-123"


def named(**probabilities):
    """Tokens with their probabilities as a chat completion has them."""
    top = [
        {"token": token.replace("_", " "), "logprob": math.log(p), "bytes": None}
        for token, p in probabilities.items()
    ]
    first = {"token": top[0]["token"], "logprob": top[0]["logprob"]}
    content = [{**first, "top_logprobs": top}]
    return {
        "choices": [{"message": {"content": "A"}, "logprobs": {"content": content}}]
    }


def constant(said, status=200, **headers):
    return lambda path, body: (status, headers, said)


def scorer_of(server, **options):
    options = {"backoff_s": 0.001, "retries": 2, **options}
    return pf.OpenAIScorer(server.url, "m", **options)
