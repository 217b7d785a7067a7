"""Clips without a file behind them, for tests of harnesses."""

from __future__ import annotations

import numpy as np

from phasefusion.grid import PhaseGrid
from phasefusion.video import Clip


def make_clip(n_phases=2, budget=3, size=(6, 8), seed=0, missing=()):
    rng = np.random.default_rng(seed)
    steps = np.arange(budget * n_phases).reshape(budget, n_phases).T.copy()
    lost = np.zeros(steps.shape, bool)
    for s, i in missing:
        lost[s, i] = True
    return Clip(
        frames=rng.integers(0, 256, (n_phases, budget, *size, 3), dtype=np.uint8),
        indices=steps.astype(np.int64),
        times_s=(steps + 0.5) / 10,
        missing=lost,
        grid=PhaseGrid(budget, n_phases),
        info=None,
    )
