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

#: A space as it is written, and as byte-pair and SentencePiece tokenizers show it.
_SPACES = ("", " ", "\u0120", "\u2581")
#: Tokens that are one letter: without and with a space in front, as a model has them.
_N_SPELLINGS = 2
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
    spelling_bound : float
        Log-probability that no token left out can exceed.
    bound : float
        Log-probability that no letter left out can exceed, in both its spellings.
    likeliest : str
        The most likely token and its probability, for messages.
    n_named : int
        How many tokens were named.
    """

    logprobs: NDArray[np.float64]
    spelling_bound: float
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
    not among the tokens is not impossible: each of its two spellings is no likelier
    than the least likely token that is named, nor both than all that is left of 1.

    A server names the token that it chose beside the most likely ones when it is not
    among them. Such a token is left out: other letters may be likelier, unnamed.

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
    named = sorted(_named(first), key=lambda pair: -pair[1])[:n_asked]
    by_letter = np.full(n_options, -np.inf)
    seen = np.zeros(n_options, bool)
    for token, logprob in named:
        k = LETTERS.find(token[-1:]) if token[:-1] in _SPACES and token else -1
        if 0 <= k < n_options:
            by_letter[k] = np.logaddexp(by_letter[k], logprob)
            seen[k] = True
    total = math.fsum(math.exp(logprob) for _, logprob in named)
    rest = math.log(max(1.0 - total, _ROUNDING))
    token, top = named[0]
    least = named[-1][1]
    return TopTokens(
        logprobs=np.where(seen, np.minimum(by_letter, 0.0), np.nan),
        spelling_bound=min(least, rest),
        bound=min(least + math.log(_N_SPELLINGS), rest),
        likeliest=f"{token!r}, {math.exp(top):.3g}",
        n_named=len(named),
    )


def entered(
    values: NDArray[np.float64], found: TopTokens
) -> tuple[NDArray[np.float64], float, str]:
    """Enter letters that are not known with as much as cannot change an answer.

    A letter that is still not known gets the most that it can have, but not more than
    the least likely letter that the server named. So it is never above a letter that
    was named, in this pass or in the mean of several. Where it could be the answer all
    the same, because the most that it can have reaches the likeliest letter known, the
    answer is not known, and the pass is missing. So it is where a letter that was asked
    for by itself, in one spelling, could be the answer by its other one.

    Parameters
    ----------
    values : ndarray, shape (K,), float64
        Log-probabilities by letter, those that were asked for again among them; NaN
        where nothing is known.
    found : TopTokens
        What the server named at first.

    Returns
    -------
    logprobs : ndarray, shape (K,), float64
        NaN for a missing pass.
    mass : float
        Probability of the letters that are known; NaN for a missing pass.
    note : str
        What was entered, or why the pass is missing; empty when all was known.
    """
    unknown = np.isnan(values)
    missing = np.full(len(values), np.nan)
    if unknown.all():
        why = (
            f"none of the letters is among the {found.n_named} tokens that the server "
            f"named (likeliest: {found.likeliest})"
        )
        return missing, np.nan, why
    known = np.where(unknown, -np.inf, values)
    best = known.max()
    other = np.minimum(np.logaddexp(known, found.spelling_bound), found.bound)
    most = np.where(unknown, found.bound, other)
    rivals = found.missing & (most >= best) & (known < best)
    if rivals.any():
        why = (
            f"{_names(rivals)} not among the {found.n_named} tokens that the server "
            f"named, and may be as likely as {np.exp(found.bound):.2g}, so the answer "
            f"need not be {LETTERS[int(known.argmax())]}, {np.exp(best):.2g}; "
            "ask for more top_logprobs, or for letters by themselves with reask"
        )
        return missing, np.nan, why
    mass = min(float(np.exp(values[~unknown]).sum()), 1.0)
    if not unknown.any():
        return values, mass, ""
    value = float(np.nanmin([found.bound, *found.logprobs]))
    note = (
        f"{_names(unknown)} not among the {found.n_named} tokens that the server "
        f"named; entered with {np.exp(value):.2g} each, and cannot have more than "
        f"{np.exp(found.bound):.2g}; the option mass is a lower bound"
    )
    return np.where(unknown, value, values), mass, note


def _names(letters: NDArray[np.bool_]) -> str:
    return ", ".join(LETTERS[k] for k in np.flatnonzero(letters))


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
        token = str(entry.get("decoded_token", ""))
        is_letter = token[-1:] == letter and token[:-1] in _SPACES
        if is_letter and isinstance(entry.get("logprob"), int | float):
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
