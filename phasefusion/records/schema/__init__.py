"""The JSON Schema of a pass, VidMCQ-Flip v1."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

FILE = "vidmcq-flip-v1.json"


def pass_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one line of ``passes.jsonl``.

    Examples
    --------
    >>> pass_schema()["title"]
    'VidMCQ-Flip v1 pass'
    """
    text = files(__name__).joinpath(FILE).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
