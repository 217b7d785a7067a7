"""What the scores of a run are, where they are not those of letters as usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Share of tied passes from which agreement is that of the tie rule.
MANY_TIES = 0.1
#: Median probability of all options together below which it is said.
LITTLE_MASS = 0.5

_TEXTS = {
    "text": "the sum over the tokens of a text",
    "text-normalised": "the mean over the tokens of a text",
}


def shows_options(scorer: Mapping[str, Any]) -> bool:
    """Whether the prompt of a run shows the options, so that their order can matter.

    Parameters
    ----------
    scorer : mapping
        What identifies the scorer in run.json.

    Examples
    --------
    >>> shows_options({"score": "text", "prompt": {"text": "{question} Briefly."}})
    False
    """
    prompt = scorer.get("prompt")
    shown = True
    if scorer.get("score") in _TEXTS and isinstance(prompt, Mapping):
        shown = "{options}" in str(prompt.get("text", "{options}"))
    return bool(scorer.get("shows_options", shown))


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
        what = "without the video" if scorer["prior"] == "blind" else scorer["prior"]
        found.append(
            f"Prior: the scores of the same prompt {what} were subtracted, so these "
            "are not the model's own probabilities."
        )
    if scorer.get("timestamps") == "frozen":
        found.append("The model was told the same frame times in every phase.")
    if scorer.get("constrain") is not None:
        found.append(f"Generated answers were restricted to {scorer['constrain']}.")
    return found
