"""What the scores of a run are, where they are not those of letters as usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phasefusion.records.scorers import shows_options

#: Share of tied passes from which agreement is that of the tie rule.
MANY_TIES = 0.1
#: Median probability of all options together below which it is said.
LITTLE_MASS = 0.5
#: Nats that no model's scores are apart; a mask's are, whose least number stands for
#: minus infinity.
MASKED = 1e30

_TEXTS = {
    "text": "the sum over the tokens of a text",
    "text-normalised": "the mean over the tokens of a text",
}


def scoring_sentences(scorer: Mapping[str, Any]) -> list[str]:
    """Say what was scored and subtracted; nothing for the letters' own scores.

    Parameters
    ----------
    scorer : mapping
        What identifies the scorer in run.json.
    """
    found = []
    score = scorer.get("score")
    if score in _TEXTS:
        where = (
            "options were shown as well"
            if shows_options(scorer)
            else "the prompt shows no options, so there is no order to change"
        )
        found.append(
            f"Texts of the options were scored, not letters ({_TEXTS[score]}); {where}."
        )
    if scorer.get("prior") is not None:
        what = f"another prompt ({scorer['prior']})"
        if scorer["prior"] == "blind":
            what = "the same prompt without the video"
        found.append(
            f"Prior: the scores of {what} were subtracted, so these are not the "
            "model's own probabilities."
        )
    if scorer.get("timestamps") == "frozen":
        found.append("The model was told the same frame times in every phase.")
    if scorer.get("constrain") is not None:
        found.append(f"Generated answers were restricted to {scorer['constrain']}.")
    return found
