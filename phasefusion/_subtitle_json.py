"""Subtitles in JSON, as Whisper and its relatives write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from phasefusion.errors import VideoError

__all__ = ["looks_like_json", "read_json"]

#: start_us, end_us or None, text
RawCue = tuple[int, int | None, str]

_JSON_START = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*["}]|\[\s*[\]{])')
_CLOCK = re.compile(r"\s*(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:[.,](\d+))?\s*")
_MOST_US = 10**15


def looks_like_json(start: bytes) -> bool:
    """Tell JSON from the subtitle formats that begin with a brace or a bracket.

    Examples
    --------
    >>> looks_like_json(b'{"text": ""}'), looks_like_json(b"[Script Info]")
    (True, False)
    """
    return _JSON_START.match(start) is not None


class _Problem(Exception):
    """What is wrong with one item."""


def _number_us(value: object, unit_us: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Problem(f"{what}={value!r} is no number")
    if not abs(value) * unit_us <= _MOST_US:  # nor NaN
        raise _Problem(f"{what}={value!r} is no time in a video")
    return round(value * unit_us)


def _time_us(value: object, what: str) -> int:
    """Seconds, or hours:minutes:seconds as text, in microseconds."""
    if not isinstance(value, str):
        return _number_us(value, 1_000_000, what)
    match = _CLOCK.fullmatch(value)
    if match is None:
        raise _Problem(f'{what}={value!r} is no time; write seconds or "h:mm:ss.fff"')
    hours, minutes, seconds, fraction = match.groups()
    whole_s = (int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)
    return _number_us(whole_s, 1_000_000, what) + int(f"{fraction or ''}000000"[:6])


def _item(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Problem(f"it is a {type(value).__name__}, not an object")
    return value


def _text(item: dict[str, Any], *keys: str) -> str:
    for key in keys:
        if isinstance(item.get(key), str):
            text: str = item[key]
            return text
    raise _Problem(f"it has no {' or '.join(keys)} that is a string")


def _key(item: dict[str, Any], key: str) -> object:
    if key not in item:
        raise _Problem(f"it has no {key!r}")
    return item[key]


def _segment(value: object) -> RawCue:
    """Of Whisper, WhisperX and lists of LongVideoBench."""
    item = _item(value)
    if "timestamp" in item and "start" not in item:
        return _chunk(value)
    start_us = _time_us(_key(item, "start"), "start")
    end = _key(item, "end")
    end_us = None if end is None else _time_us(end, "end")
    return start_us, end_us, _text(item, "text", "line")


def _chunk(value: object) -> RawCue:
    """Of the speech pipeline of transformers: a pair, whose end may be null."""
    item = _item(value)
    pair = _key(item, "timestamp")
    if not isinstance(pair, list) or len(pair) != 2:
        raise _Problem(f"timestamp={pair!r} is no [start, end]")
    end_us = None if pair[1] is None else _time_us(pair[1], "timestamp[1]")
    return _time_us(pair[0], "timestamp[0]"), end_us, _text(item, "text")


def _offsets(value: object) -> RawCue:
    """Of whisper.cpp: milliseconds."""
    item = _item(value)
    pair = _key(item, "offsets")
    if not isinstance(pair, dict):
        raise _Problem(f"offsets={pair!r} is no object")
    start_us = _number_us(_key(pair, "from"), 1000, "offsets.from")
    end_us = _number_us(_key(pair, "to"), 1000, "offsets.to")
    return start_us, end_us, _text(item, "text")


_FORMS: tuple[tuple[str, Callable[[object], RawCue]], ...] = (
    ("segments", _segment),
    ("transcription", _offsets),
    ("chunks", _chunk),
)


def _language(document: object) -> str | None:
    if not isinstance(document, dict):
        return None
    result = document.get("result")
    places = (document, result if isinstance(result, dict) else {})
    for place in places:
        if isinstance(place.get("language"), str) and place["language"]:
            language: str = place["language"]
            return language
    return None


def _items(name: str, document: object) -> tuple[str, list[Any], Any]:
    if isinstance(document, list):
        return "", document, _segment
    if isinstance(document, dict):
        for key, read in _FORMS:
            if isinstance(document.get(key), list):
                return key, document[key], read
    known = ", ".join(repr(key) for key, _ in _FORMS)
    raise VideoError(
        f"{name}: it is JSON but no transcript; it must be a list of segments or an "
        f"object with one of {known}"
    )


def read_json(name: str, data: bytes, max_cues: int) -> tuple[list[RawCue], str | None]:
    """Cues in the order of the file, and the language that it states."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise VideoError(f"{name}: it is not valid JSON: {error}") from None
    key, items, read = _items(name, document)
    if len(items) > max_cues:
        raise VideoError(
            f"{name}: it has more cues than max_cues={max_cues} allows ({len(items)}); "
            "pass a higher max_cues to read it"
        )
    cues = []
    for i, item in enumerate(items):
        try:
            cues.append(read(item))
        except _Problem as problem:
            raise VideoError(f"{name}: {key}[{i}]: {problem}") from None
    return cues, _language(document)
