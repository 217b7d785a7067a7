"""Names of devices."""

from __future__ import annotations

import re

#: Where launchers say which process of a machine this is.
LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")

_NUMBERED = re.compile(r"(cuda|cpu|hpu|mps|musa|npu|xla|xpu):\d+")


def without_number(name: str) -> str:
    """Leave out which of several equal devices it is.

    >>> without_number("cuda:1"), without_number("http://localhost:8000")
    ('cuda', 'http://localhost:8000')
    """
    return name.partition(":")[0] if _NUMBERED.fullmatch(name) else name
