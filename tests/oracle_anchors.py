"""Slow twins of what anchors are found by: colour histograms and motion vectors."""

from __future__ import annotations

import itertools
import math

import numpy as np


def histograms(frames):
    """Pixels of frames (n, pixels, 3) by value, 8 values a bin: (n, 3, 32)."""
    return np.array(
        [[np.histogram(f[:, c], 32, (0, 256))[0] for c in range(3)] for f in frames]
    ).reshape(len(frames), 3, 32)


def histogram_change(counts):
    """Bhattacharyya distance to the frame before, from the sum of shared roots."""
    change = [0.0] * min(len(counts), 1)
    for a, b in itertools.pairwise(counts.astype(np.longdouble)):
        p, q = (x / (3 * x.sum(axis=1, keepdims=True)) for x in (a, b))
        change.append(float(np.sqrt(max(1 - np.sqrt(p * q).sum(), 0))))
    return np.array(change)


def motion_sums(vectors):
    """Area times length, and area, of vectors from the past and from the future.

    Rows of `vectors` are source, w, h, motion_x, motion_y, motion_scale.
    """
    px3, px2, n = [0.0, 0.0], [0, 0], 0
    for source, w, h, x, y, scale in vectors:
        if w * h and scale:
            px3[source >= 0] += w * h * math.hypot(x, y) / scale
            px2[source >= 0] += w * h
            n += 1
    return px3, px2, n


def motion_energy(sums, facts, picture_px2):
    """Displacement a picture and whether it was measured; see _video.motion_energy."""
    energy, measured = [], []
    for f in range(len(sums)):
        px3 = px2 = 0
        for side, places in enumerate((range(f - 1, -1, -1), range(f + 1, len(sums)))):
            known = [
                abs(k - f)
                for k in places
                if facts[k, 5] and facts[k, 3] < facts[f, 3] and abs(k - f) <= 32
            ]
            if known:
                px3 += sums[f, side] / known[0]
                px2 += int(facts[f, side])
        energy.append(px3 / max(px2, picture_px2))
        measured.append(px2 > 0)
    return np.array(energy, float), np.array(measured, bool)
