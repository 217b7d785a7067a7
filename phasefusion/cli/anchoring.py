"""Options that put grids into a window at an anchor, of `frames` and of `run`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from phasefusion.anchors import Anchor, AnchorRule
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


RunAnchor = Annotated[
    Method | None,
    typer.Option(
        "--anchor",
        help="With --protocol anchored, how anchors are found, else in the middle; "
        "auto tries one way after the other.",
    ),
]
RunPhrase = Annotated[
    str | None,
    typer.Option("--phrase", help="With --anchor, a phrase of all subtitles."),
]
PhraseOf = Annotated[
    str | None,
    typer.Option(
        "--phrase-of", help="Field of the question file with the phrase of a question."
    ),
]
RunAt = Annotated[
    str | None,
    typer.Option("--at", help="With --anchor, a time of every video, as 1:02:03.5."),
]
AtOf = Annotated[
    str | None,
    typer.Option("--at-of", help="Field of the question file with its time."),
]


def anchor_rule(
    protocol: str,
    method: Method | None,
    phrase: str | None,
    phrase_of: str | None,
    at: str | None,
    at_of: str | None,
    window: str | None,
) -> AnchorRule | None:
    """Make the rule of a run; None where nothing about anchors was given.

    What is asked for by a phrase or a time alone goes by that, then down the chain.
    """
    from phasefusion.anchors import AnchorRule
    from phasefusion.protocols import get

    given = {
        "anchor": method,
        "phrase": phrase,
        "phrase-of": phrase_of,
        "at": at,
        "at-of": at_of,
        "window": window,
    }
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if not named:
        return None
    if not any(arm.anchored for arm in get(protocol).arms):
        raise typer.BadParameter(
            f"{' and '.join(named)} can be given with --protocol anchored only"
        )
    return AnchorRule(
        methods=methods_of(method or Method.auto),
        phrase=phrase,
        phrase_field=phrase_of,
        times_s=at,
        times_field=at_of,
        window=window,
    )


def methods_of(method: Method) -> tuple[Any, ...]:
    """Return the chain of a choice: all of it, or one method and the middle."""
    from phasefusion.anchors.finding import METHODS

    if method is Method.auto:
        return METHODS
    return (method.value, "centre")


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
    from phasefusion.anchors.windows import anchor_window
    from phasefusion.errors import FallbackWarning
    from phasefusion.video import Video

    with Video(str(video)) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # all of it is shown
        anchor = find_anchor(
            opened,
            phrase=phrase,
            subtitles=None if subtitles is None else str(subtitles),
            times_s=at,
            methods=methods_of(method),
        )
        first, end = anchor_window(opened, anchor, window=window)
    return WindowGrid.of(grid, first, end), anchor


def lines_of(anchor: Mapping[str, Any], window: list[int]) -> list[str]:
    """Say what was found and what was tried, a line each."""
    found = [f"anchor by {anchor['kind']}: {anchor['why']}"]
    for attempt in anchor["tried"][:-1]:
        found.append(f"  {attempt['kind']}: {attempt['outcome']}, {attempt['why']}")
    return [*found, f"window: frames {window[0]} to {window[1] - 1}"]
