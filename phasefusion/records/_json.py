"""JSON by orjson, and by the standard library where NaN and Infinity may stand."""

from __future__ import annotations

import json
from typing import Any

import orjson

from phasefusion.errors import RecordError


def loads(data: bytes) -> Any:
    """Parse one JSON text; NaN and Infinity are no JSON.

    Raises
    ------
    ValueError
        If it is not JSON, not UTF-8, or nested too deeply.
    """
    return orjson.loads(data)


def loads_lenient(data: bytes) -> Any:
    """Parse one JSON text in which NaN, Infinity and -Infinity are numbers.

    Raises
    ------
    ValueError
        As `loads`.
    """
    try:
        value = json.loads(data.decode(), parse_constant=float)
        if b"\\u" in data:  # half of a pair of escapes is a text of no encoding
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise ValueError("an escape is half of a surrogate pair") from None
    return value


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Return JSON; NumPy arrays are lists, and what is not finite is null.

    Raises
    ------
    RecordError
        If JSON cannot say it.
    """
    try:
        options = orjson.OPT_SERIALIZE_NUMPY
        return orjson.dumps(
            value, option=options | (orjson.OPT_INDENT_2 if indent else 0)
        )
    except (TypeError, ValueError) as error:
        raise RecordError(f"cannot be written as JSON: {error}") from error
