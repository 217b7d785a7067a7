"""Grids inside a window of a clip, and the window at an anchor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, SupportsIndex, TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _checks
from phasefusion._video_source import VideoLimits, VideoSource
from phasefusion._wording import Argument
from phasefusion.anchors.records import Anchor
from phasefusion.errors import GridError, UsageError
from phasefusion.grid import By, Origin, PhaseGrid, Short
from phasefusion.video import Video

__all__ = ["WindowGrid", "anchor_grid", "anchor_window", "frame_at", "opened"]

Align: TypeAlias = Literal["start", "centre"]
AtEnd: TypeAlias = Literal["shift", "cut"]
Share: TypeAlias = "float | Fraction | str"

#: Of the clip's duration: the upper end of the 5 to 10 % of the protocol's author, who
#: widens it to 15 % around the middle of a clip where nothing better is known.
WINDOW = Fraction(1, 10)
WINDOW_AT_CENTRE = Fraction(15, 100)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class WindowGrid(PhaseGrid):
    """A `PhaseGrid` over the frames ``first <= i < end`` of a clip alone.

    Steps, phases and shifts are those of the window; indices count from the start of
    the clip.

    Parameters
    ----------
    first, end : int
        Frames of the window, ``0 <= first < end``.
    budget, phases, origin, by, short
        As for `PhaseGrid`.

    Raises
    ------
    GridError
        As `PhaseGrid`, or if the window holds no frame.

    Examples
    --------
    >>> grid = WindowGrid(100, 160, budget=4, phases=3, origin="left")
    >>> grid.indices(300)
    array([[100, 115, 130, 145],
           [105, 120, 135, 150],
           [110, 125, 140, 155]])
    >>> grid.shifted("half").view(0).indices(300)
    array([[102, 117, 132, 147]])
    """

    first: int
    end: int

    def __init__(
        self,
        first: SupportsIndex,
        end: SupportsIndex,
        budget: SupportsIndex,
        phases: SupportsIndex = 1,
        origin: Origin = "midpoint",
        *,
        by: By = "frames",
        short: Short = "repeat",
    ) -> None:
        PhaseGrid.__init__(self, budget, phases, origin, by=by, short=short)
        object.__setattr__(self, "first", _checks.whole("first", first))
        object.__setattr__(self, "end", _checks.whole("end", end))
        if not 0 <= self.first < self.end <= _checks.INT64_MAX:
            raise GridError(
                f"first={self.first}, end={self.end}: a window needs 0 <= first < end"
            )

    @classmethod
    def of(cls, grid: PhaseGrid, first: int, end: int) -> WindowGrid:
        """Move a grid over a whole clip into a window.

        >>> WindowGrid.of(PhaseGrid(2, 3, "left"), 10, 22).dense(60)
        array([10, 12, 14, 16, 18, 20])
        """
        return cls(
            first,
            end,
            grid.budget,
            grid.phases,
            grid.origin,
            by=grid.by,
            short=grid.short,
        )

    @property
    def n_window(self) -> int:
        """Frames of the window."""
        return self.end - self.first

    def shape(self, n_frames: SupportsIndex) -> tuple[int, int]:
        """Phases and frames a phase, as `PhaseGrid.shape` of a clip like the window."""
        return self._inside(_checks.clip_frames(n_frames)).shape(self.n_window)

    def indices(self, n_frames: SupportsIndex) -> NDArray[np.int64]:
        """Frame indices of every phase, dividing the frames of the window equally.

        Parameters
        ----------
        n_frames : int
            Frames of the whole clip.

        Returns
        -------
        indices : ndarray, shape (S, b), int64

        Raises
        ------
        GridError
            As `PhaseGrid.indices`, or if the clip ends before the window.

        Warns
        -----
        DuplicateFrameWarning
            If the window has fewer than S * b frames with ``short="repeat"``.
        """
        inside = self._inside(_checks.clip_frames(n_frames))
        return inside.indices(self.n_window) + self.first

    def step_frames(self, n_frames: SupportsIndex) -> Fraction:
        """Length of one step in frames, ``(end - first) / b``."""
        return self._inside(_checks.clip_frames(n_frames)).step_frames(self.n_window)

    def to_dict(self) -> dict[str, Any]:
        """Give the grid as JSON-able values, with the window as [first, end].

        >>> WindowGrid(10, 22, 4).to_dict()["window"]
        [10, 22]
        """
        return {**PhaseGrid.to_dict(self), "window": [self.first, self.end]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> WindowGrid:
        """Make the grid that `to_dict` wrote; a GridError for any other record.

        >>> WindowGrid.from_dict(WindowGrid(10, 22, 4).to_dict()).dense(60)
        array([11, 14, 17, 20])
        """
        rest = dict(record)
        window = rest.pop("window", None)
        if not isinstance(window, (list, tuple)) or len(window) != 2:
            raise GridError(f"window={window!r} must be [first, end]")
        return cls.of(PhaseGrid.from_dict(rest), *window)

    def __repr__(self) -> str:
        inner = PhaseGrid.__repr__(self)
        return f"WindowGrid({self.first}, {self.end}, {inner.partition('(')[2]}"

    def _with(
        self,
        *,
        budget: int | None = None,
        phases: int | None = None,
        origin: Fraction | None = None,
    ) -> WindowGrid:
        grid = PhaseGrid._with(self, budget=budget, phases=phases, origin=origin)
        return WindowGrid.of(grid, self.first, self.end)

    def _frames(
        self, pts: ArrayLike, end_pts: SupportsIndex, path: str = ""
    ) -> NDArray[np.int64]:
        ticks, end = _checks.timeline(pts, end_pts)
        inside = self._inside(len(ticks), path)
        stop = int(ticks[self.end]) if self.end < len(ticks) else end
        name = f"{path}{', ' if path else ''}its window [{self.first}, {self.end})"
        return inside._frames(ticks[self.first : self.end], stop, name) + self.first

    def _inside(self, n: int, path: str = "") -> PhaseGrid:
        """Return the grid over the window; a GridError for a clip that ends before."""
        if self.end > n:
            raise GridError(
                f"{path}{': ' if path else ''}the window [{self.first}, {self.end}) "
                f"ends after the clip of n_frames={n}"
            )
        return PhaseGrid(
            self.budget, self.phases, self.origin, by=self.by, short=self.short
        )


def anchor_grid(
    source: Video | VideoSource,
    anchor: Anchor | float,
    budget: SupportsIndex,
    phases: SupportsIndex = 1,
    origin: Origin = "left",
    *,
    window: Share | None = None,
    window_s: float | Fraction | None = None,
    align: Align | None = None,
    at_end: AtEnd = "shift",
    by: By = "frames",
    short: Short = "repeat",
    threads: SupportsIndex = 1,
    **limits: Unpack[VideoLimits],
) -> WindowGrid:
    """Lay S grids of b frames into a window at an anchor.

    With ``align="start"`` and the left origin, the first frame of phase 0 is the one on
    screen at the anchor. The other phases follow at 1/S of a step each, so all first
    frames lie within ``window / b`` of it; a grid moved by half a step moves with its
    window. All bounds are computed in exact fractions of a tick.

    Parameters
    ----------
    source : Video, or as for `Video`
        The clip; a `Video` stays open.
    anchor : Anchor or float
        As found by `find_anchor`, or seconds from the first frame.
    budget, phases, origin, by, short
        As for `PhaseGrid`, but that the origin is "left".
    window : float, Fraction or "p/q", default 1/10
        Length as a share of the clip's duration, 0 < window <= 1; 15/100 for an anchor
        of the kind "centre". A float is read as the decimal number that it prints as.
    window_s : float or Fraction, optional
        Length in seconds instead.
    align : {"start", "centre"}, optional
        Whether the window begins at the anchor or lies around it; "start", but "centre"
        for an anchor of that kind.
    at_end : {"shift", "cut"}, default "shift"
        What a window beyond the clip does: move inside, keeping its length, so that
        the anchor is no longer its first frame; or lose what is outside, keeping the
        frame at the anchor.
    threads, **limits
        As for `Video`, where `source` is none.

    Returns
    -------
    grid : WindowGrid

    Raises
    ------
    GridError
        If the window or the grid cannot be.
    UsageError
        If the anchor lies outside the clip.

    Examples
    --------
    >>> from phasefusion import read_clip
    >>> from phasefusion.tinyvlm import questions_path
    >>> path = questions_path().parent / "clip-000.mp4"
    >>> grid = anchor_grid(path, 4.0, budget=4, phases=3)
    >>> grid
    WindowGrid(120, 156, budget=4, phases=3, origin='left', by='frames', short='repeat')
    >>> read_clip(path, grid).indices
    array([[120, 129, 138, 147],
           [123, 132, 141, 150],
           [126, 135, 144, 153]])
    """
    whole = PhaseGrid(budget, phases, origin, by=by, short=short)
    with opened(source, threads, limits) as video:
        first, end = anchor_window(
            video, anchor, window=window, window_s=window_s, align=align, at_end=at_end
        )
    return WindowGrid.of(whole, first, end)


def anchor_window(
    video: Video,
    anchor: Anchor | float,
    *,
    window: Share | None = None,
    window_s: float | Fraction | None = None,
    align: Align | None = None,
    at_end: AtEnd = "shift",
    frames: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """Frames ``first <= i < end`` of the window at an anchor; see `anchor_grid`.

    They are those on screen at any time of the window, one at least. With `frames`
    the window lies among those, and its share is one of their duration.
    """
    at_centre = isinstance(anchor, Anchor) and anchor.kind == "centre"
    if align is None:
        align = "centre" if at_centre else "start"
    _checks.one_of("align", align, ("start", "centre"))
    _checks.one_of("at_end", at_end, ("shift", "cut"))
    if isinstance(anchor, Anchor):
        frame = anchor.frame
        if not 0 <= frame < len(video):
            raise UsageError(
                f"{video.info.path}: the anchor is frame {frame}, the clip has "
                f"{len(video)}; was it found in another video?"
            )
    else:
        frame = frame_at(video, anchor)
    default = WINDOW_AT_CENTRE if at_centre else WINDOW
    (first, end), (low, high) = part_of(video, frames)
    if not first <= frame < end:
        raise UsageError(
            f"{video.info.path}: the anchor is frame {frame}, outside frames="
            f"{(first, end)}"
        )
    tick_s = video.info.time_base
    share = default if window is None and window_s is None else window
    length = window_length(share, window_s, high - low, tick_s)
    start = Fraction(int(video.pts[frame]))
    if align == "centre":
        start -= length / 2
    stop = start + length
    if at_end == "shift":
        moved = min(max(start, low), max(high - length, low)) - start
        start, stop = start + moved, stop + moved
    found = _frames_between(video, max(start, low), min(stop, high))
    return max(found[0], first), min(found[1], end)


def part_of(
    video: Video, frames: tuple[int, int] | None
) -> tuple[tuple[int, int], tuple[Fraction, Fraction]]:
    """Frames of a part, all without one, and when it begins and ends, in ticks.

    Raises
    ------
    UsageError
        If the clip has no such frames.
    """
    n = len(video)
    first, end = (0, n) if frames is None else frames
    if not 0 <= first < end <= n:
        raise UsageError(
            f"{video.info.path}: frames={(first, end)} must be 0 <= first < end <= {n}"
        )
    stop = int(video.pts[end]) if end < n else video.end_pts
    return (first, end), (Fraction(int(video.pts[first])), Fraction(stop))


def _frames_between(video: Video, start: Fraction, stop: Fraction) -> tuple[int, int]:
    """Frames shown in [start, stop), times in ticks; the first of them at least."""
    first = int(np.searchsorted(video.pts, math.floor(start), side="right")) - 1
    end = int(np.searchsorted(video.pts, math.ceil(stop), side="left"))
    first = max(first, 0)
    return first, max(end, first + 1)


def window_length(
    window: Share | None,
    window_s: float | Fraction | None,
    duration: Fraction,
    tick_s: Fraction,
) -> Fraction:
    """Length of a window in ticks, from a share of the duration or from seconds.

    Raises
    ------
    GridError
        If not one of the two is given, or it cannot be.
    """
    if window is not None and window_s is not None:
        raise GridError(
            f"window={window!r} and window_s={window_s!r}: give one of them"
        )
    if window_s is not None:
        seconds = _decimal("window_s", window_s)
        if seconds <= 0:
            raise GridError(f"window_s={window_s!r} must be above 0")
        return seconds / tick_s
    share = Fraction(-1) if window is None else _decimal("window", window)
    if not 0 < share <= 1:
        raise GridError(
            Argument.of("window", window), " must be in (0, 1], a share of the duration"
        )
    return share * duration


def _decimal(name: str, value: Share) -> Fraction:
    if isinstance(value, (float, np.floating)):
        return Fraction(repr(_checks.finite(name, value)))
    return _checks.fraction(name, value, "a number")


def frame_at(video: Video, time_s: float | Fraction) -> int:
    """Return the frame on screen at a time, seconds from the first frame.

    Times in seconds are rounded, so one that lies within a microsecond before a frame
    is that frame's.
    """
    seconds = _decimal("anchor", time_s)
    last = Fraction(video.end_pts - int(video.pts[0])) * video.info.time_base
    if not 0 <= seconds <= last:
        raise UsageError(
            f"{video.info.path}: {float(seconds):.3f} s is outside the clip, which "
            f"lasts {float(last):.3f} s"
        )
    ticks = (seconds + Fraction(1, 10**6)) / video.info.time_base
    at = math.floor(ticks) + int(video.pts[0])
    return max(int(np.searchsorted(video.pts, at, side="right")) - 1, 0)


@contextmanager
def opened(
    source: Video | VideoSource, threads: SupportsIndex, limits: Any
) -> Iterator[Video]:
    """Open a source, or leave a `Video` open that is one already."""
    if isinstance(source, Video):
        yield source
        return
    with Video(source, threads=threads, **limits) as video:
        yield video
