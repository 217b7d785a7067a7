"""Options of `phasefusion frames` that put the grids into a window at an anchor."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from phasefusion.anchors import Anchor
    from phasefusion.grid import PhaseGrid


class Method(StrEnum):
    """How the anchor is found; auto is the whole chain."""

    auto = "auto"
    subtitle = "subtitle"
    timestamp = "timestamp"
    motion = "motion"
    vectors = "vectors"
    flow = "flow"
    histogram = "histogram"
    centre = "centre"


AnchorOption = Annotated[
    Method | None,
    typer.Option(
        "--anchor",
        help="Put the grids into a window at an anchor found this way, else in the "
        "middle; auto tries one way after the other.",
    ),
]
Phrase = Annotated[
    str | None, typer.Option(help="With --anchor, a phrase of the subtitles.")
]
SubtitleFile = Annotated[
    Path | None,
    typer.Option(
        "--subtitles", help="With --phrase, a subtitle file instead of the video's."
    ),
]
At = Annotated[
    str | None,
    typer.Option("--at", help="With --anchor, a time in seconds or as 1:02:03.5."),
]
Window = Annotated[
    str | None,
    typer.Option(
        help="With --anchor, the window's length as a share of the clip (0.1; 0.15 in "
        "the middle)."
    ),
]


def anchored_grid(
    video: Path,
    grid: PhaseGrid,
    method: Method,
    phrase: str | None,
    subtitles: Path | None,
    at: str | None,
    window: str | None,
) -> tuple[PhaseGrid, Anchor]:
    """Find the anchor and lay the grid into the window there."""
    import warnings

    from phasefusion.anchors import WindowGrid, find_anchor
    from phasefusion.anchors.finding import METHODS
    from phasefusion.anchors.windows import anchor_window
    from phasefusion.errors import FallbackWarning
    from phasefusion.video import Video

    if method is Method.auto:
        methods: Any = METHODS
    else:
        methods = [method.value, "centre"]
    with Video(str(video)) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # all of it is shown
        anchor = find_anchor(
            opened,
            phrase=phrase,
            subtitles=None if subtitles is None else str(subtitles),
            times_s=at,
            methods=methods,
        )
        first, end = anchor_window(opened, anchor, window=window)
    return WindowGrid.of(grid, first, end), anchor


def lines_of(anchor: Mapping[str, Any], window: list[int]) -> list[str]:
    """Say what was found and what was tried, a line each."""
    found = [f"anchor by {anchor['kind']}: {anchor['why']}"]
    for attempt in anchor["tried"][:-1]:
        found.append(f"  {attempt['kind']}: {attempt['outcome']}, {attempt['why']}")
    return [*found, f"window: frames {window[0]} to {window[1] - 1}"]
