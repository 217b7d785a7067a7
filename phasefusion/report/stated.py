"""Answers that were read from texts, beside the probabilities of the same passes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from phasefusion.records import Passes

#: Log-probabilities this close are equal, in nats: what rounding of sums leaves.
_TIE_NATS = 1e-9


def stated_answers(passes: Passes) -> dict[str, int] | None:
    """Count how often a text states another option than the most probable one.

    Parameters
    ----------
    passes : Passes

    Returns
    -------
    dict or None
        Of passes with a text and a distribution: "passes", "not_most_probable" (the
        stated option has less than the greatest probability) and "no_answer" (the text
        states none); None without such passes.
    """
    best = passes.logprobs.max(axis=1, initial=-np.inf)
    both = passes.generated & np.isfinite(best)
    n = int(both.sum())
    if not n:
        return None
    answer = passes.answer[both]
    stated = answer >= 0
    rows = np.flatnonzero(both)[stated]
    own = passes.content_logprobs()[rows, answer[stated]]
    return {
        "passes": n,
        "not_most_probable": int((own < best[rows] - _TIE_NATS).sum()),
        "no_answer": int((~stated).sum()),
    }


def sentences(stated: Mapping[str, int] | None) -> list[str]:
    """Say where texts and probabilities do not agree; nothing where they do."""
    if stated is None:
        return []
    found = []
    if stated["not_most_probable"]:
        found.append(
            f"In {stated['not_most_probable']} of {stated['passes']} passes the stated "
            "answer is not the most probable option; the stated one counts as the "
            "answer, and margins and fusion are those of the probabilities."
        )
    if stated["no_answer"]:
        found.append(
            f"In {stated['no_answer']} of {stated['passes']} passes with probabilities "
            "the text states no option; they have no answer, and their probabilities "
            "count in margins and fusion alone."
        )
    return found
