"""JSON by orjson, and by the standard library where NaN and Infinity may stand."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from phasefusion._wording import encodable
from phasefusion.errors import RecordError


def loads(data: bytes) -> Any:
    """Parse one JSON text; NaN and Infinity are no JSON.

    Raises
    ------
    ValueError
        If it is not JSON, not UTF-8, or nested too deeply.
    """
    return orjson.loads(data)


def why_not(error: ValueError) -> str:
    """Say why a text is not JSON; its place is that in the text, which is one line.

    Examples
    --------
    >>> try:
    ...     loads(b'{"a": }')
    ... except ValueError as error:
    ...     why_not(error)
    'not JSON at column 7: unexpected character'
    """
    said = str(error)
    found = re.fullmatch(r"(.*?)(?:, expected.*)?: line 1 column (\d+) .*", said)
    return (
        f"not JSON: {said}"
        if not found
        else "not JSON at column {1}: {0}".format(*found.groups())
    )


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


def dumps(value: Any, *, indent: bool = False, sort_keys: bool = False) -> bytes:
    r"""Return JSON; NumPy arrays are lists, and what is not finite is null.

    Bytes of file names that are no UTF-8 are written as escapes: ``caf\\udce9``.

    Raises
    ------
    RecordError
        If JSON cannot say it.
    """
    options = orjson.OPT_SERIALIZE_NUMPY
    options |= orjson.OPT_INDENT_2 if indent else 0
    options |= orjson.OPT_SORT_KEYS if sort_keys else 0
    try:
        return orjson.dumps(value, option=options)
    except (TypeError, ValueError) as error:
        said = error
    try:
        return orjson.dumps(_encodable(value), option=options)
    except (TypeError, ValueError):
        raise RecordError(f"cannot be written as JSON: {said}") from said


def _encodable(value: Any) -> Any:
    """Return a value in which every text has an encoding."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: _encodable(getattr(value, name)) for name in names}
    return value


def fields_of(result: Any, **more: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, and what else is given, as JSON values.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     ends: tuple[int, int]
    >>> fields_of(Pair((0, 1)), width=1)
    {'ends': [0, 1], 'width': 1}
    """
    names = [item.name for item in dataclasses.fields(result)]
    values = {name: getattr(result, name) for name in names}
    made: dict[str, Any] = loads(dumps(values | more))
    return made
