"""JSON by orjson, or by the standard library where orjson is not installed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from phasefusion.errors import RecordError

try:
    import orjson
except ImportError:  # pragma: no cover - the fallback is tested by taking it away
    orjson = None  # type: ignore[assignment]


def loads(data: bytes) -> Any:
    """Parse one JSON text; NaN and Infinity are no JSON.

    Raises
    ------
    ValueError
        If it is not JSON, not UTF-8, or nested too deeply.
    """
    if orjson is not None:
        return orjson.loads(data)
    return _loads(data, _refuse_constant)


def loads_lenient(data: bytes) -> Any:
    """Parse one JSON text in which NaN, Infinity and -Infinity are numbers.

    Raises
    ------
    ValueError
        As `loads`.
    """
    return _loads(data, float)


def _loads(data: bytes, constant: Any) -> Any:
    try:
        value = json.loads(data.decode(), parse_constant=constant)
        if b"\\u" in data:  # half of a pair of escapes is a text of no encoding
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise ValueError("an escape is half of a surrogate pair") from None
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Return JSON; NumPy arrays are lists, and what is not finite is null.

    Raises
    ------
    RecordError
        If JSON cannot say it.
    """
    try:
        if orjson is not None:
            options = orjson.OPT_SERIALIZE_NUMPY
            return orjson.dumps(
                value, option=options | (orjson.OPT_INDENT_2 if indent else 0)
            )
        return json.dumps(
            _plain(value),
            ensure_ascii=False,
            allow_nan=False,
            indent=2 if indent else None,
            separators=(",", ": ") if indent else (",", ":"),
        ).encode()
    except (TypeError, ValueError) as error:
        raise RecordError(f"cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    """Replace what the standard library does not write as orjson does."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
