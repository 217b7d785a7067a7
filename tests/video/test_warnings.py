"""Warnings name the file, and point at the user's line however deep the call."""

from __future__ import annotations

import warnings

import pytest

from phasefusion import FrameCache, PhaseGrid, read_clip, read_clips
from phasefusion.errors import (
    DamagedFrameWarning,
    DuplicateFrameWarning,
    FrameCountWarning,
)
from phasefusion.video import Video

LONG = PhaseGrid(8)


def read_marked(path, cache):
    with Video(path) as video:
        video.read(range(len(video)), on_error="mark")


CALLS = {
    "open": (FrameCountWarning, "header_lies.avi", lambda p, cache: Video(p).close()),
    "clip": (FrameCountWarning, "header_lies.avi", lambda p, cache: read_clip(p, LONG)),
    "clips": (DuplicateFrameWarning, "three.mp4", lambda p, _: read_clips(p, [LONG])),
    "cached": (
        DuplicateFrameWarning,
        "three.mp4",
        lambda p, cache: read_clip(p, LONG, cache=cache),
    ),
    "counted": (
        FrameCountWarning,
        "header_lies.avi",
        lambda p, cache: read_clip(p, LONG, cache=cache),
    ),
    "damaged": (DamagedFrameWarning, "corrupted.mp4", read_marked),
}


@pytest.mark.parametrize("name", CALLS)
def test_where_a_warning_points_and_what_it_names(name, clip, tmp_path):
    category, file, call = CALLS[name]
    path = clip(file)
    cache = FrameCache(tmp_path)
    for _ in range(2):  # the second time through what the cache knows
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(path, cache)
        (found,) = [w for w in caught if w.category is category]
        assert found.filename == __file__
        assert str(found.message).startswith(f"{path}: ")
