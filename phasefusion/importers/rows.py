"""Fields of foreign rows under the names that are in use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from phasefusion.importers.files import literal, number, text_list

_NUMBERED = re.compile(r"(?:option|choice|a)[ _]?(\d{1,2})", re.IGNORECASE)
_OPTION_LISTS = ("options", "option", "candidates", "choices", "mc_options")
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
    for name in _OPTION_LISTS:
        value = row.get(name)
        if isinstance(value, list | tuple) or (
            isinstance(value, str) and value.lstrip()[:1] in ("[", "(")
        ):
            found = text_list(value)
            if found is None and isinstance(value, list):
                found = _choice_list(value)
            if found:
                return found
    return _lettered(row) or _numbered(row)


def _choice_list(value: list[Any]) -> tuple[str, ...] | None:
    """Options that are objects, {"choice_id": 0, "choice": "..."}, by their id."""
    if not all(isinstance(one, Mapping) and "choice" in one for one in value):
        return None
    ids = [number(one.get("choice_id")) for one in value]
    known = [k for k in ids if k is not None]
    if len(known) == len(value):
        value = [value[i] for i in sorted(range(len(value)), key=known.__getitem__)]
    return tuple(str(one["choice"]) for one in value)


def _lettered(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    found = []
    for code in range(ord("A"), ord("Z") + 1):
        value = row.get(chr(code))
        if value in (None, "") or not isinstance(value, str | int | float):
            break
        found.append(str(value))
    return tuple(found) if len(found) >= 2 else None


def _numbered(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    found: dict[int, str] = {}
    for name, value in row.items():
        match = _NUMBERED.fullmatch(str(name))
        if match and isinstance(value, str | int | float):
            found.setdefault(int(match[1]), str(value))
    texts = [found[k] for k in sorted(found)]
    while texts and texts[-1] in ("", "N/A"):  # the filler of shorter questions
        texts.pop()
    return tuple(texts) if len(texts) >= 2 else None


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
