"""Nesting and fields by which files of benchmarks are known, results or questions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from phasefusion._sources.options import split_embedded
from phasefusion._sources.rows import OPTION_LISTS, first, numbered_options, options_of
from phasefusion.answers import normal
from phasefusion.errors import DatasetError
from phasefusion.scoring.letters import strip_letters

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: Id of a question of NExT-QA: video and number.
NEXTQA_ID = re.compile(r"\d{6,}_\d{1,3}")
#: What the gold of TempCompass's caption matching begins with.
_LABELS = {"option", "sentence", "caption"}


def benchmark_of(row: Mapping[str, Any]) -> str | None:
    """Tell the benchmark of a row by fields that no other has.

    Examples
    --------
    >>> benchmark_of({"q_uid": "a"}), benchmark_of({"question": "Q?"})
    ('egoschema', None)
    """
    if isinstance(row.get("questions"), list):
        return "videomme"
    if "q_uid" in row:
        return "egoschema"
    return "nextqa" if {"video", "qid", "a0"} <= set(row) else None


def is_tempcompass(value: Mapping[str, Any]) -> bool:
    """Whether an object holds videos, dimensions in them, and lists of questions."""
    one = next(iter(value.values()), None)
    if not isinstance(one, Mapping):
        return False
    inside = [rows for rows in one.values() if isinstance(rows, list)]
    filled = [rows[0] for rows in inside if rows]
    return bool(inside) and all(
        isinstance(row, Mapping) and "question" in row for row in filled
    )


def find_options(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    r"""Options of a row: a list, a text of one a line, or one a field.

    A field that is empty between others is an empty option, so that the numbers of the
    options after it stay.

    Examples
    --------
    >>> find_options({"a0": "cat", "a1": None, "a2": "dog", "a3": None})
    ('cat', '', 'dog')
    >>> find_options({"options": "A. cat\nB. dog"})
    ('cat', 'dog')
    """
    listed = any(isinstance(fields.get(name), list | str) for name in OPTION_LISTS)
    if not listed:
        numbered = numbered_options(fields, filler=("",))
        if numbered is not None:
            return numbered
    found = options_of(fields)
    if found is not None:
        return found
    for name in OPTION_LISTS:
        value = fields.get(name)
        if isinstance(value, str):
            options = split_embedded("\n" + value)[1]
            if options:
                return options
    return None


def embedded(
    text: str | None, options: tuple[str, ...] | None
) -> tuple[str | None, tuple[str, ...] | None]:
    """Split options out of a question that has them, unless they are elsewhere."""
    if options is not None or text is None:
        return text, options
    stem, found = split_embedded(text)
    return (stem, found) if found else (text, None)


def tempcompass_rows(
    where: str, value: object
) -> Iterator[tuple[str, str, str, int, Mapping[str, Any]]]:
    """Yield place, video, dimension, number and fields of nested questions.

    Raises
    ------
    DatasetError
        Naming the place that is not of this form.
    """
    if not isinstance(value, Mapping):
        raise DatasetError(f"{where}: must be an object of videos")
    for video, dimensions in value.items():
        if not isinstance(dimensions, Mapping):
            raise DatasetError(f"{where}, video {video!r}: must be an object")
        for dimension, rows in dimensions.items():
            place = f"{where}, {video}/{dimension}"
            if not isinstance(rows, list):
                raise DatasetError(f"{place}: must be a list of questions")
            for i, row in enumerate(rows):
                if not isinstance(row, Mapping):
                    raise DatasetError(f"{place}, question {i}: must be an object")
                yield f"{place}, question {i}", str(video), str(dimension), i, row


def tempcompass_kind(fields: Mapping[str, Any]) -> str:
    """Name the task of a question; empty for multi-choice."""
    if "mc_question" in fields:
        return "captioning"
    gold = fields.get("answer", fields.get("gt-answer"))
    text = fields.get("question")
    if not isinstance(gold, str) or not isinstance(text, str):
        return ""
    if gold.split(" ", 1)[0].lower() in _LABELS:
        return "caption_matching"
    has_options = find_options(fields) is not None or bool(split_embedded(text)[1])
    return "yes_no" if normal(gold) in ("yes", "no") and not has_options else ""


def tempcompass_id(video: str, dimension: str, kind: str, place: int) -> str:
    """Return the id of a question, made of all that tells it from others."""
    return "/".join([video, dimension, *filter(None, [kind]), str(place)])


def tempcompass_asked(
    fields: Mapping[str, Any], video: str, dimension: str
) -> tuple[str | None, tuple[str, ...] | None, Any, str | None]:
    """Return question, options, gold and group of a question of TempCompass.

    Options stand inside the question, or are yes and no; questions of one group have
    the same.
    """
    text = fields.get("question")
    text, options = embedded(
        text if isinstance(text, str) else None, find_options(fields)
    )
    gold = first(fields, ("answer", "gt-answer"))
    if options is None and normal(str(gold)) in ("yes", "no"):
        options, gold = ("yes", "no"), normal(str(gold))
    if not options:
        return text, None, gold, None
    shown = sorted(normal(option) for option in strip_letters(options)[0])
    return text, options, gold, "\n".join([video, dimension, *shown])
