"""A clip in which one thing happens after the other, at frames that are known."""

from __future__ import annotations

import numpy as np

#: Frames of a clip, where its square starts to run and where it stops, and the cut.
N, RUNS, STOPS, CUT = 100, 40, 50, 75


def running_square() -> np.ndarray:
    """A square that stands, runs, stands; another background from CUT on."""
    frames = np.full((N, 96, 160, 3), (60, 90, 60), np.uint8)
    frames[CUT:] = (40, 40, 120)
    texture = np.random.default_rng(0).integers(150, 256, (32, 32, 3), np.uint8)
    for i in range(N):
        x = 10 + 8 * (min(max(i, RUNS), STOPS) - RUNS)
        frames[i, 32:64, x : x + 32] = texture
    return frames
