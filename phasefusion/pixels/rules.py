"""How a processor chooses a size: the keys of a preprocessor file as small records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from phasefusion.errors import FrameError
from phasefusion.pixels.geometry import (
    Size,
    longest_edge_size,
    shortest_edge_size,
    tile_grid,
    tile_multiple_size,
    within_size,
)


@dataclass(frozen=True, slots=True)
class Exact:
    """Resize to this height and width, whatever the shape."""

    height_px: int
    width_px: int

    def size(self, height_px: int, width_px: int) -> Size:
        """Return the size that a frame of the given size gets."""
        return self.height_px, self.width_px


@dataclass(frozen=True, slots=True)
class ShortestEdge:
    """Resize by `shortest_edge_size`."""

    shortest_px: int
    longest_px: int | None = None

    def size(self, height_px: int, width_px: int) -> Size:
        """Return the size that a frame of the given size gets."""
        return shortest_edge_size(
            height_px, width_px, self.shortest_px, self.longest_px
        )


@dataclass(frozen=True, slots=True)
class LongestEdge:
    """Resize by `longest_edge_size`."""

    longest_px: int

    def size(self, height_px: int, width_px: int) -> Size:
        """Return the size that a frame of the given size gets."""
        return longest_edge_size(height_px, width_px, self.longest_px)


@dataclass(frozen=True, slots=True)
class Within:
    """Resize by `within_size`."""

    max_height_px: int
    max_width_px: int

    def size(self, height_px: int, width_px: int) -> Size:
        """Return the size that a frame of the given size gets."""
        return within_size(height_px, width_px, self.max_height_px, self.max_width_px)


@dataclass(frozen=True, slots=True)
class TileMultiple:
    """Resize by `tile_multiple_size`."""

    tile_px: int

    def size(self, height_px: int, width_px: int) -> Size:
        """Return the size that a frame of the given size gets."""
        return tile_multiple_size(height_px, width_px, self.tile_px)


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Resize to the grid of whole tiles that `tile_grid` chooses."""

    tile: Size
    min_tiles: int
    max_tiles: int

    def size(self, height_px: int, width_px: int) -> Size:
        """Return the size that a frame of the given size gets."""
        rows, columns = tile_grid(
            height_px, width_px, self.tile, self.min_tiles, self.max_tiles
        )
        return rows * self.tile[0], columns * self.tile[1]


SizeRule: TypeAlias = (
    Exact | ShortestEdge | LongestEdge | Within | TileMultiple | TileGrid
)


def to_dict(rule: SizeRule) -> dict[str, Any]:
    """Return a rule as JSON-able fields."""
    return {"rule": type(rule).__name__, **asdict(rule)}


def size_rule(size: Any, *, int_is_square: bool) -> SizeRule:
    """Read the ``size`` of a preprocessor file that is no Qwen-VL one.

    A bare number is the shortest edge, or both sides where the processor says so; a
    pair is height and width.

    Examples
    --------
    >>> size_rule({"shortest_edge": 224}, int_is_square=True)
    ShortestEdge(shortest_px=224, longest_px=None)
    >>> size_rule(224, int_is_square=True)
    Exact(height_px=224, width_px=224)
    """
    keys = size_keys(size, int_is_square=int_is_square)
    match sorted(keys):
        case ["height", "width"]:
            return Exact(keys["height"], keys["width"])
        case ["shortest_edge"]:
            return ShortestEdge(keys["shortest_edge"])
        case ["longest_edge", "shortest_edge"]:
            return ShortestEdge(keys["shortest_edge"], keys["longest_edge"])
        case ["max_height", "max_width"]:
            return Within(keys["max_height"], keys["max_width"])
    raise FrameError(
        f"size {size!r} of the preprocessor file is not served; served are height and "
        "width, shortest_edge, shortest_edge and longest_edge, max_height and max_width"
    )


def size_keys(size: Any, *, int_is_square: bool) -> dict[str, int]:
    """Return the numbers of a size by name; keys without a value are left out."""
    if isinstance(size, (int, float)) and not isinstance(size, bool):
        size = (size, size) if int_is_square else {"shortest_edge": size}
    if isinstance(size, (list, tuple)) and len(size) == 2:
        size = {"height": size[0], "width": size[1]}
    if not isinstance(size, Mapping):
        raise FrameError(f"size {size!r} of the preprocessor file: need an object")
    keys = {}
    for name, value in size.items():
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value % 1 != 0 or value < 1:
            raise FrameError(
                f"{name} is {value!r} in size {dict(size)!r} of the preprocessor file; "
                "need a positive whole number"
            )
        keys[str(name)] = int(value)
    return keys
