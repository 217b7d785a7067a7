"""Anchors: where in a clip to look, and grids of frames in a window there.

`find_anchor` goes down a chain of methods (a phrase in the subtitles, given times, the
peak of motion, the largest change of colours, the middle) and records what it tried.
`anchor_grid` lays a phase grid into a window at an anchor; `read_clip` takes it as any
other grid.
"""

from __future__ import annotations

from phasefusion.anchors.curves import (
    Curve,
    colour_change,
    flow_motion,
    vector_motion,
)
from phasefusion.anchors.finding import find_anchor
from phasefusion.anchors.records import Anchor, Attempt
from phasefusion.anchors.rule import AnchorRule
from phasefusion.anchors.windows import WindowGrid, anchor_grid

__all__ = [
    "Anchor",
    "AnchorRule",
    "Attempt",
    "Curve",
    "WindowGrid",
    "anchor_grid",
    "colour_change",
    "find_anchor",
    "flow_motion",
    "vector_motion",
]
