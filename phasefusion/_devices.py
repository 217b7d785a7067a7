"""Names of devices."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<=[a-z]):\d+$")


def without_number(name: str) -> str:
    """Leave out which of several equal devices it is.

    >>> without_number("cuda:1"), without_number("cpu")
    ('cuda', 'cpu')
    """
    return _NUMBER.sub("", name)
