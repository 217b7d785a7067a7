"""What run.json says of how a scorer scored, in words that are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Scores of texts of options, and not of letters.
TEXT_SCORES = ("text", "text-normalised")

#: What decides the meaning of scores, and the words for it.
_WORDS: dict[str, tuple[str, ...]] = {
    "prior": ("blind",),
    "timestamps": ("true", "frozen"),
    "constrain": ("letters",),
    "letter_variants": ("sum", "in-context"),
    "answers": ("generated",),
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
    if scorer.get("score") in TEXT_SCORES and isinstance(prompt, Mapping):
        shown = "{options}" in str(prompt.get("text", "{options}"))
    return bool(scorer.get("shows_options", shown))


def way_of_scoring(scorer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reader of the scores must know, without texts or names.

    A scorer of somebody else may say other things under these names; of those, only
    that they are there is kept, as "other".

    Parameters
    ----------
    scorer : mapping
        What identifies the scorer in run.json.

    Examples
    --------
    >>> way_of_scoring({"prior": "blind", "timestamps": "frozen", "path": "/a"})
    {'prior': 'blind', 'timestamps': 'frozen'}
    >>> way_of_scoring({"score": "text", "prompt": {"text": "{question}"}})
    {'shows_options': False}
    """
    found: dict[str, Any] = {}
    for name, words in _WORDS.items():
        value = scorer.get(name)
        if value is not None:
            found[name] = value if value in words else "other"
    if not shows_options(scorer):
        found["shows_options"] = False
    return found
