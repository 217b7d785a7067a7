"""Letters among the most likely tokens that a server names, and those that are not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.errors import ScoringError
from phasefusion.scoring.letters import LETTERS

#: White space as it is written, and as byte-pair and SentencePiece tokenizers show it.
_SPACE = " \t\r\n\u0120\u010a\u2581"
#: At and below this a server says "unlikely", not a number.
_SENTINEL = -9999.0
#: What is left of 1 after rounding to the digits of a float32.
_ROUNDING = 2.0**-23


@dataclass(frozen=True, slots=True)
class TopTokens:
    """Log-probabilities of a question's letters, as far as a server told them.

    Attributes
    ----------
    logprobs : ndarray, shape (K,), float64
        By letter; NaN where the letter is not among the tokens named.
    bound : float
        Log-probability that no letter left out can exceed.
    likeliest : str
        The most likely token and its probability, for messages.
    n_named : int
        How many tokens were named.
    """

    logprobs: NDArray[np.float64]
    bound: float
    likeliest: str
    n_named: int

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Letters that are not among the tokens, shape (K,)."""
        return np.asarray(np.isnan(self.logprobs), dtype=np.bool_)


def read_answer_position(
    response: Mapping[str, Any], n_options: int, n_asked: int
) -> TopTokens:
    """Read the letters off the first token of a chat completion.

    ``"A"`` and ``" A"`` are one letter, whose probabilities are added. A letter that is
    not among the tokens is not impossible: it is no likelier than the least likely
    token that is named, nor than all that is left of 1.

    Parameters
    ----------
    response : mapping
        The completion, as JSON.
    n_options : int
        K.
    n_asked : int
        How many tokens were asked for.

    Raises
    ------
    ScoringError
        If there are no log-probabilities in it.
    """
    first = _first_token(response)
    named = _named(first)
    by_letter = np.full(n_options, -np.inf)
    seen = np.zeros(n_options, bool)
    for token, logprob in named:
        k = LETTERS.find(token.strip(_SPACE)) if len(token.strip(_SPACE)) == 1 else -1
        if 0 <= k < n_options:
            by_letter[k] = np.logaddexp(by_letter[k], logprob)
            seen[k] = True
    total = math.fsum(math.exp(logprob) for _, logprob in named)
    rest = max(1.0 - total, _ROUNDING)
    ranked = sorted((logprob for _, logprob in named), reverse=True)
    # the chosen token is named beside the top when it is not among them
    bound = min(ranked[:n_asked][-1], math.log(rest))
    token, top = max(named, key=lambda pair: pair[1])
    return TopTokens(
        logprobs=np.where(seen, np.minimum(by_letter, 0.0), np.nan),
        bound=bound,
        likeliest=f"{token!r}, {math.exp(top):.3g}",
        n_named=len(named),
    )


def _first_token(response: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        choice = response["choices"][0]
        content = (choice.get("logprobs") or {}).get("content") or []
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ScoringError(
            f"the server answered without a choice: {str(response)[:200]}"
        ) from None
    if not content or not content[0].get("top_logprobs"):
        raise ScoringError(
            "the server answered without log-probabilities (logprobs, top_logprobs); "
            "it or the model does not give them, so letters cannot be scored. A "
            'function that returns the text can be wrapped: wrap(returns="answer")'
        )
    first: Mapping[str, Any] = content[0]
    return first


def _named(first: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Tokens with their log-probabilities."""
    found = []
    for entry in first["top_logprobs"]:
        logprob = entry.get("logprob")
        if not isinstance(logprob, int | float) or math.isnan(logprob):
            raise ScoringError(f"the server gave no number for a token: {entry!r}")
        if logprob > 1e-3:
            raise ScoringError(
                f"the server gave {logprob} as the log-probability of a token; it must "
                "be <= 0"
            )
        if logprob > _SENTINEL:
            found.append((str(entry.get("token", "")), float(logprob)))
    if not found:
        raise ScoringError("the server named no token with a probability")
    return found


def completed_logprob(response: Mapping[str, Any], letter: str) -> float | None:
    """Log-probability of the last token of a prompt that ends in a letter.

    None when the last token is not the letter, so that nothing was learnt.
    """
    given = response.get("prompt_logprobs")
    if not isinstance(given, Sequence) or not given or not isinstance(given[-1], dict):
        raise ScoringError(
            "the server answered without prompt_logprobs; ask again by another way "
            'than reask="prompt_logprobs"'
        )
    for entry in given[-1].values():
        token = str(entry.get("decoded_token", "")).strip(_SPACE)
        if token == letter and isinstance(entry.get("logprob"), int | float):
            return min(float(entry["logprob"]), 0.0)
    return None


def calibrated(first: TopTokens, second: TopTokens) -> NDArray[np.float64]:
    """Carry letters that a bias brought up back to the scale without it.

    The same bias on all letters leaves their ratios alone, whether or not the server's
    log-probabilities show the bias; so one letter in both answers gives the shift.

    Returns
    -------
    logprobs : ndarray, shape (K,), float64
        Of letters missing in `first`; NaN for the others, and where the two answers do
        not fit together.
    """
    found = np.full(len(first.logprobs), np.nan)
    both = ~first.missing & ~second.missing
    wanted = first.missing & ~second.missing
    if not both.any():
        return found
    shifts = first.logprobs[both] - second.logprobs[both]
    if np.ptp(shifts) > 0.1:
        return found
    shift = shifts[np.argmax(first.logprobs[both])]
    values = second.logprobs + shift
    wanted &= values <= first.bound + 0.1
    found[wanted] = np.minimum(values[wanted], first.bound)
    return found
