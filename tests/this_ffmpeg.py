"""What the FFmpeg under test can read: the one inside the wheel reads less."""

from __future__ import annotations

from functools import cache

import pytest


@cache
def names(kind: str) -> frozenset[str]:
    """All names of its "demuxers" or "decoders"."""
    from phasefusion import _video

    return frozenset(n for name in _video.ffmpeg_parts()[kind] for n in name.split(","))


def need(*, demuxer: str | None = None, decoder: str | None = None) -> None:
    """Skip the test without them."""
    for kind, name in (("demuxers", demuxer), ("decoders", decoder)):
        if name is not None and name not in names(kind):
            pytest.skip(f"this FFmpeg has no {name} among its {kind}")
