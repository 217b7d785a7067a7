"""Questions about a window at an anchor of their video, in place of all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from phasefusion.anchors.finding import METHODS, Method
from phasefusion.anchors.records import Anchor
from phasefusion.anchors.rule import AnchorRule
from phasefusion.anchors.windows import Align, AtEnd, Share
from phasefusion.datasets.item import Item
from phasefusion.errors import VideoError
from phasefusion.video import Video

__all__ = ["anchored"]


def anchored(
    items: Iterable[Item],
    *,
    phrase: Callable[[Item], str | None] | None = None,
    times_s: Callable[[Item], Any] | None = None,
    methods: Sequence[Method] = METHODS,
    at: Literal["start", "middle", "end"] = "start",
    least_peak: float = 2.0,
    window: Share | None = None,
    window_s: float | None = None,
    align: Align | None = None,
    at_end: AtEnd = "shift",
    threads: int = 1,
) -> list[Item]:
    """Give every question the bounds of a window at an anchor of its video.

    What comes back goes into `evaluate` like any other questions, so every protocol can
    be run on windows. For the frame of the anchor to be the first of the first phase,
    evaluate with ``origin="left"``.

    Parameters
    ----------
    items : iterable of Item
        Those that have a start or an end keep them; so do those whose video cannot be
        read, which `evaluate` reports.
    phrase : callable, optional
        What to look for in the subtitles of an item, `Item.subtitles` or those of its
        video; None for nothing.
    times_s : callable, optional
        Times of an item from its metadata, as for `find_anchor`; None for none.
    methods, at, least_peak
        As for `find_anchor`.
    window, window_s, align, at_end
        As for `anchor_grid`.
    threads : int, default 1

    Returns
    -------
    items : list of Item
        With `start` and `end`, ``strata["anchor"]`` naming the kind, and
        ``extra["anchor"]`` holding what was tried.

    Raises
    ------
    UsageError, GridError
        As `find_anchor` and `anchor_grid`.

    Warns
    -----
    FallbackWarning
        As `find_anchor`.

    Examples
    --------
    >>> from phasefusion.datasets import load_questions
    >>> from phasefusion.tinyvlm import questions_path
    >>> item = anchored(load_questions(questions_path())[:1], methods=["centre"])[0]
    >>> round(item.start, 3), round(item.end, 3), item.strata
    (5.067, 6.867, {'anchor': 'centre'})
    """
    rule = AnchorRule(
        methods=tuple(methods),
        at=at,
        least_peak=least_peak,
        window=window,
        window_s=window_s,
        align=align,
        at_end=at_end,
    )
    made = []
    known: dict[Any, tuple[Anchor, float | None, float | None] | None] = {}
    for item in items:
        if item.start is not None or item.end is not None:
            made.append(item)
            continue
        said = phrase(item) if phrase is not None else None
        times = times_s(item) if times_s is not None else None
        key = (item.video, said, item.subtitles if said else None, repr(times))
        if key not in known:
            try:
                with Video(item.video, threads=threads) as video:
                    placed = rule.place(
                        video,
                        phrase=said,
                        subtitles=item.subtitles if said else None,
                        times_s=times,
                    )
                    bounds = _bounds(video, placed.first, placed.end)
                    known[key] = (placed.anchor, *bounds)
            except (VideoError, OSError):
                known[key] = None
        found = known[key]
        made.append(item if found is None else _placed(item, *found))
    return made


def _bounds(video: Video, first: int, end: int) -> tuple[float | None, float | None]:
    """Start and end as `Item` counts, at the times of the frames to the last bit."""
    times_s = video.times_s - video.info.start_s
    return (
        float(times_s[first]) if first > 0 else None,
        float(times_s[end]) if end < len(video) else None,
    )


def _placed(item: Item, anchor: Anchor, start: float | None, end: float | None) -> Item:
    return replace(
        item,
        start=start,
        end=end,
        extra={**item.extra, "anchor": anchor.to_dict()},
        strata={**item.strata, "anchor": anchor.kind},
    )
