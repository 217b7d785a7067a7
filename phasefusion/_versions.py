"""What the passes of a run were made with."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from phasefusion.video import ffmpeg_versions


def versions() -> dict[str, Any]:
    """Versions of what all passes of a run must share.

    Those of the scorer's libraries are a matter of its ``describe()``.
    """
    from phasefusion import __version__

    return {
        "phasefusion": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ffmpeg": ffmpeg_versions(),
    }
