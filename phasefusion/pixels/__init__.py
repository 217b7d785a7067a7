"""The crops, pads, sizes and tensors of Hugging Face processors, torchvision-free.

`pixel_settings` reads what a checkpoint wants, `to_qwen_patches` and
`to_pixel_values` make it from decoded frames, and the functions of sizes and cuts
are there for uses of their own.
"""

from phasefusion.pixels.files import family_settings, find_config, pixel_settings
from phasefusion.pixels.geometry import (
    center_crop,
    longest_edge_size,
    pad_to_square,
    shortest_edge_size,
    smart_resize,
    tile_grid,
    tile_multiple_size,
    within_size,
)
from phasefusion.pixels.rules import (
    Exact,
    LongestEdge,
    ShortestEdge,
    TileGrid,
    TileMultiple,
    Within,
)
from phasefusion.pixels.settings import PatchSettings, PixelSettings, PlaneSettings
from phasefusion.pixels.tensors import to_pixel_values, to_qwen_patches

__all__ = [
    "Exact",
    "LongestEdge",
    "PatchSettings",
    "PixelSettings",
    "PlaneSettings",
    "ShortestEdge",
    "TileGrid",
    "TileMultiple",
    "Within",
    "center_crop",
    "family_settings",
    "find_config",
    "longest_edge_size",
    "pad_to_square",
    "pixel_settings",
    "shortest_edge_size",
    "smart_resize",
    "tile_grid",
    "tile_multiple_size",
    "to_pixel_values",
    "to_qwen_patches",
    "within_size",
]
