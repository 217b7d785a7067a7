"""Distributions over the options of one pass, in letter space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phasefusion._sources.findings import Findings
from phasefusion._sources.model import Question, RawAnswer
from phasefusion.errors import DatasetError
from phasefusion.fusion import fuse_items
from phasefusion.importers.logprobs import answer_position, letter_scores
from phasefusion.scoring.letters import merge_repeats

#: How far from 1 a sum may be that only rounding explains.
SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Distribution:
    """Log-probabilities of a pass.

    Attributes
    ----------
    logprobs : tuple of float
        Letter space, nats; repeated options are added onto the first of them.
    option_mass : float or None
    kind : {"logprobs", "tokens", "verbalised"}
    maxima : tuple of int
        Positions, as shown, of the greatest value before repeats were added.
    """

    logprobs: tuple[float, ...]
    option_mass: float | None
    kind: str
    maxima: tuple[int, ...]


def distribution(
    raw: RawAnswer,
    question: Question,
    order: Sequence[int],
    findings: Findings,
    strict: bool,
) -> Distribution | None:
    """Take the distribution of a pass, whatever form it has.

    Raises
    ------
    DatasetError
        If numbers cannot be what they should be; with `strict` also if probabilities
        do not sum to 1 or a letter is missing among the tokens.
    """
    if raw.logprobs is not None:
        return _from_logprobs(raw, raw.logprobs, question, order)
    if raw.probabilities is not None:
        return _from_probabilities(
            raw, raw.probabilities, question, order, findings, strict
        )
    if raw.tokens:
        return _from_tokens(raw, question, order, findings, strict)
    return None


def _from_logprobs(
    raw: RawAnswer,
    values: Sequence[float],
    question: Question,
    order: Sequence[int],
) -> Distribution | None:
    _check_length(raw, values, question, "log-probabilities")
    if any(value > 1e-6 for value in values):
        raise DatasetError(
            f"{raw.where}: a log-probability is {max(values)}; it must be <= 0. Losses "
            "need a change of sign, probabilities a logarithm"
        )
    if not any(math.isfinite(value) for value in values):
        return None
    return Distribution(
        _merged(values, question, order), raw.option_mass, "logprobs", _maxima(values)
    )


def _from_probabilities(
    raw: RawAnswer,
    values: Sequence[float],
    question: Question,
    order: Sequence[int],
    findings: Findings,
    strict: bool,
) -> Distribution | None:
    _check_length(raw, values, question, "probabilities")
    total = math.fsum(values)
    bad = min(values) < 0 or not math.isfinite(total) or total <= 0
    if bad or abs(total - 1) > SUM_TOLERANCE:
        if strict:
            raise DatasetError(
                f"{raw.where}: the probabilities {list(values)} sum to {total:.6g}, "
                "not to 1"
            )
        kind = "no distribution" if bad else "distribution does not sum to 1"
        text = (
            "left out"
            if bad
            else "the probabilities were divided by their sum (refused under --strict)"
        )
        findings.add(kind, text, f"{raw.question_id}: {total:.4g}")
        if bad:
            return None
    maxima = _maxima(values)
    if len(maxima) > 1:
        findings.add(
            "tied maximum",
            "several options have the greatest probability; the tie priority of the "
            "question chooses, which does not depend on where they were shown",
            raw.question_id,
        )
    logs = [math.log(value / total) if value > 0 else -math.inf for value in values]
    return Distribution(_merged(logs, question, order), None, "verbalised", maxima)


def _from_tokens(
    raw: RawAnswer,
    question: Question,
    order: Sequence[int],
    findings: Findings,
    strict: bool,
) -> Distribution | None:
    shown = (
        question.n_options
        if question.options is None
        else [question.options[k] for k in order]
    )
    at = answer_position(raw.text, raw.tokens, shown)
    found = None
    if at is not None:
        try:
            chosen, tokens = raw.tokens[at]
            found = letter_scores(tokens, question.n_options, chosen=chosen)
        except DatasetError as error:
            raise DatasetError(f"{raw.where}: {error}") from None
    if found is None:
        findings.add(
            "no letter among the tokens",
            "the log-probabilities hold no option letter at the answer; only the text "
            "is used",
            raw.question_id,
        )
        return None
    if found.absent:
        if strict:
            raise DatasetError(
                f"{raw.where}: the letters {', '.join(found.absent)} are not among the "
                f"{len(raw.tokens[at or 0][1])} tokens given; ask for more top_logprobs"
            )
        findings.add(
            "letters absent",
            "not all letters are among the tokens given: an absent one counts as "
            "impossible, though in all its spellings it can have up to the probability "
            "shown (refused under --strict)",
            f"{raw.question_id}: {found.absent} <= {found.bound:.2g}",
        )
    return Distribution(
        _merged(found.logprobs, question, order),
        found.option_mass,
        "tokens",
        _maxima(found.logprobs),
    )


def _check_length(
    raw: RawAnswer, values: Sequence[float], question: Question, name: str
) -> None:
    if len(values) != question.n_options:
        raise DatasetError(
            f"{raw.where}: question {raw.question_id!r} has {question.n_options} "
            f"options and {len(values)} {name}"
        )


def _maxima(values: Sequence[float]) -> tuple[int, ...]:
    best = max(values)
    return tuple(k for k, value in enumerate(values) if value == best)


def _merged(
    values: Sequence[float], question: Question, order: Sequence[int]
) -> tuple[float, ...]:
    """Add repeated options onto the first of equal text, in letter space."""
    if len(set(question.same_options)) == len(order):
        return tuple(float(x) for x in values)
    letters = np.array(values, np.float64)
    content = np.full(len(order), -np.inf)
    content[list(order)] = letters
    merged = merge_repeats(content, question.same_options)
    return tuple(float(x) for x in merged[list(order)])


def best_of(
    content: Sequence[Sequence[float] | NDArray[np.float64]],
    item_ids: Sequence[str],
    *,
    seed: int = 0,
) -> list[int]:
    """Most probable options of passes, each alone; ties by the questions' priority.

    Parameters
    ----------
    content : sequence of (K,) array_like
        Log-probabilities in content space; K can differ.
    item_ids : sequence of str
    seed : int, default 0
        Of the tie priority.

    Returns
    -------
    list of int
        -1 where there is none.

    Examples
    --------
    >>> best_of([[-1.0, -2.0], [-3.0, -1.0, -2.0]], ["a", "b"])
    [0, 1]
    """
    by_width: dict[int, list[int]] = {}
    for i, values in enumerate(content):
        by_width.setdefault(len(values), []).append(i)
    found = [-1] * len(content)
    for rows in by_width.values():
        array = np.array([content[i] for i in rows], np.float64)[:, None, :]
        names = [item_ids[i] for i in rows]
        fused = fuse_items(array, item_ids=names, seed=seed, passes=False)
        for i, answer in zip(rows, np.asarray(fused.answer).tolist(), strict=True):
            found[i] = answer
    return found
