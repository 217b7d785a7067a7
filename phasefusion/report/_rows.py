"""Passes that have a rare field, without parsing those that have not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from phasefusion.records.files import passes_path


def rows_with(folder: Path, field: str) -> Iterator[dict[str, Any]]:
    """Yield the passes of a run folder, or of its pass file, that name a field."""
    name = b'"%b"' % field.encode()
    with passes_path(folder).open("rb") as lines:
        for line in lines:
            if name not in line:
                continue
            try:
                one: dict[str, Any] = orjson.loads(line)
            except orjson.JSONDecodeError:  # a line that is being written
                continue
            yield one
