"""A scorer for the command line whose frames have a size of their own."""

from __future__ import annotations

from pixel_scorer import PixelScorer


def make():
    """Return a scorer that looks at frames of 24 x 40 pixels."""
    scorer = PixelScorer()
    scorer.frame_size = lambda height, width, n_frames: (24, 40)
    return scorer
