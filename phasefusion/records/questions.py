"""The texts of questions, which passes do not carry, from the question file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion.errors import PhaseFusionError

if TYPE_CHECKING:
    from phasefusion.datasets import Item


@dataclass(frozen=True, slots=True)
class QuestionTexts:
    """Questions by benchmark and id, and why there are none where there are none."""

    items: Mapping[tuple[str, str], Item] = field(default_factory=dict)
    note: str = ""


def find_questions(
    run: Mapping[str, Any], path: str | Path | None = None
) -> QuestionTexts:
    """Read the question file that is given, or that the run names if it can be read.

    Raises
    ------
    FileNotFoundError, DatasetError
        If `path` is given and cannot be read.
    """
    from phasefusion.datasets import load_questions

    if path is not None:
        return _by_id(load_questions(path, check_videos=False), run)
    named = run.get("questions", {}).get("file")
    if not named:
        return QuestionTexts(note="The run names no question file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run has given them
            return _by_id(load_questions(named, check_videos=False), run)
    except (OSError, PhaseFusionError) as error:
        reason = " ".join(str(error).split())
        return QuestionTexts(
            note=f"The question file that the run names cannot be read ({reason})"
        )


def _by_id(items: list[Item], run: Mapping[str, Any]) -> QuestionTexts:
    """Take the questions that say what they said when the run scored them."""
    from phasefusion.datasets.item import item_hash

    hashes = run.get("questions", {}).get("items") or {}
    found, n_changed = {}, 0
    for one in items:
        known = hashes.get(one.benchmark, {}).get(one.question_id)
        if known is not None and known != item_hash(one):
            n_changed += 1
        else:
            found[one.benchmark, one.question_id] = one
    note = "Questions of the file that are others than those that were scored: "
    note = f"{note}{n_changed}" if n_changed else ""
    return QuestionTexts(found, note)
