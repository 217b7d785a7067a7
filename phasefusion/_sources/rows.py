"""Fields of foreign rows under the names that are in use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from phasefusion._sources.files import OPTION_COLUMN, literal, text_list, whole
from phasefusion.answers import LETTERS

OPTION_LISTS = ("options", "option", "candidates", "choices", "mc_options")
_VIDEO_NAMES = ("videoID", "video_id", "video", "video_name", "video_path", "q_uid")

#: Names under which predictions are found.
PREDICTIONS = (
    "prediction",
    "pred",
    "response",
    "predicted_answer",
    "model_answer",
    "model_output",
    "output",
    "video-llm-prediction",
)
#: Names under which gold is found.
GOLDS = ("answer", "gt-answer", "gt", "gold", "truth", "CA", "correct_answer", "label")


def first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first field that is there and not empty."""
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def has(row: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """Whether any of the fields exists, empty or not."""
    return any(name in row for name in names)


def options_of(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Find the options of a row: a list, lettered columns or numbered columns."""
    for name in OPTION_LISTS:
        value = row.get(name)
        if isinstance(value, list | tuple) or (
            isinstance(value, str) and value.lstrip()[:1] in ("[", "(")
        ):
            found = text_list(value)
            if found is None and isinstance(value, list):
                found = _choice_list(value)
            if found:
                return found
    return _lettered(row) or numbered_options(row)


def _choice_list(value: list[Any]) -> tuple[str, ...] | None:
    """Options that are objects, {"choice_id": 0, "choice": "..."}, by their id."""
    if not all(isinstance(one, Mapping) and "choice" in one for one in value):
        return None
    ids = [whole(one.get("choice_id")) for one in value]
    texts = {k: str(one["choice"]) for k, one in zip(ids, value, strict=True)}
    known = {k: text for k, text in texts.items() if k is not None and 0 <= k < 100}
    if len(known) == len(value) > 0:
        return _placed(known)
    return tuple(str(one["choice"]) for one in value)


def _placed(found: Mapping[int, str]) -> tuple[str, ...]:
    """Texts at their numbers, from 0 or 1; a gap is an option without a text."""
    start = 0 if 0 in found else 1
    return tuple(found.get(k, "") for k in range(start, max(found) + 1))


def _lettered(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Options of columns A, B, ...; one that is empty or absent between two is empty.

    Two absent letters end them: what comes then is another column, such as Q.
    """
    found: list[str] = []
    for name, after in pairwise(f"{LETTERS} "):
        if name not in row and after not in row:
            break
        found.append(text_of(row.get(name)) or "")
    return without_end(found, ("",)) if "A" in row else None


def numbered_options(
    row: Mapping[str, Any], filler: Sequence[str] = ("", "N/A")
) -> tuple[str, ...] | None:
    """Options of numbered columns; those that are empty at the end are none.

    A column that is empty between others is an option without a text, so that the
    numbers of the options after it stay.

    Examples
    --------
    >>> numbered_options({"option_0": "cat", "option_1": "", "option_2": "dog"})
    ('cat', '', 'dog')
    >>> numbered_options({"a1": "cat", "a2": "dog", "a3": "N/A"})
    ('cat', 'dog')
    """
    found: dict[int, str] = {}
    for name, value in row.items():
        match = OPTION_COLUMN.fullmatch(str(name))
        if match and match["number"]:
            found.setdefault(int(match["number"]), text_of(value) or "")
    return without_end(_placed(found), filler) if found else None


def without_end(texts: Sequence[str], filler: Sequence[str]) -> tuple[str, ...] | None:
    """Texts up to the last that is no filler of shorter questions; None below two."""
    n = len(texts)
    while n and texts[n - 1].strip() in filler:
        n -= 1
    return tuple(texts[:n]) if n >= 2 else None


def video_of(row: Mapping[str, Any]) -> str:
    """Name of the video, empty where the row has none."""
    value = first(row, _VIDEO_NAMES)
    return str(value) if isinstance(value, str | int) else ""


def text_of(value: object) -> str | None:
    """Return generated text, or None for nothing at all."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return str(value) if isinstance(value, str | int | float) else None


def strata_of(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    """Fields to break results down by, those that are there."""
    return {
        name: str(row[name])
        for name in names
        if isinstance(row.get(name), str | int) and row[name] != ""
    }


def dotted(row: Mapping[str, Any], path: str) -> Any:
    """Value at a path such as "doc.question_id"; None where there is none."""
    if path in row:
        return row[path]
    found: Any = row
    for name in path.split("."):
        if isinstance(found, str) and found[:1] == "{":
            found = literal(found)
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found
