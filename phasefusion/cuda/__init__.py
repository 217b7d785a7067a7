"""Frames and posteriors on a GPU: the same bits as on the CPU, where they are.

Optional in every way: nothing of CUDA is linked, imported or started before the first
call of a function here, and without a GPU `is_available` says so and `why` says why.
"""

from __future__ import annotations

from phasefusion.cuda.images import (
    DType,
    YuvFrames,
    normalise_table,
    resize,
    resize_normalize,
    resize_normalize_many,
    resize_patches,
)
from phasefusion.cuda.runtime import Device, describe, device, is_available, why
from phasefusion.cuda.scores import FusedItems, fuse_items, option_scores
from phasefusion.cuda.statistics import bootstrap_sums, frame_distance, gram

__all__ = [
    "DType",
    "Device",
    "FusedItems",
    "YuvFrames",
    "bootstrap_sums",
    "describe",
    "device",
    "frame_distance",
    "fuse_items",
    "gram",
    "is_available",
    "normalise_table",
    "option_scores",
    "resize",
    "resize_normalize",
    "resize_normalize_many",
    "resize_patches",
    "why",
]
