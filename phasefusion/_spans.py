"""What of a video the arms of a run are shown: one decode of all their grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasefusion._video_checks import MARK, lost_frames
from phasefusion._video_fit import Fit, SizeRule
from phasefusion.datasets import Item
from phasefusion.errors import VideoError
from phasefusion.frames import Device
from phasefusion.grid import PhaseGrid
from phasefusion.video import Clip, Video, VideoInfo, read_clips

if TYPE_CHECKING:
    from phasefusion.cache import FrameCache


@dataclass(frozen=True, slots=True)
class Span:
    """The clips of all grids over a video, or over the part that is asked about."""

    clips: Sequence[Clip]
    n_frames: int
    duration_s: float
    #: What of the whole video is lost, for its passes; "" for nothing.
    lost: str = ""


def read_span(
    item: Item,
    grids: Sequence[PhaseGrid],
    size: SizeRule | None,
    threads: int,
    on_error: Literal["mark", "raise"],
    cache: FrameCache | None = None,
    device: Device = "cpu",
) -> Span:
    """Decode the frames of all grids at once, each at the size that `size` gives.

    They are resized on the device, to the same bytes on each.

    With `Item.start` or `Item.end` the grids divide the frames that begin in
    [start, end), one that does not decode fails the span, and the cache is not asked.

    Raises
    ------
    FileNotFoundError, VideoError, GridError
        As `read_clips`, or if no frame begins between start and end; with "raise" also
        if the file lacks frames that it should have.
    """
    if item.start is None and item.end is None:
        clips = read_clips(
            item.video,
            grids,
            size=size,
            threads=threads,
            on_error=on_error,
            cache=cache,
            device=device,
        )
        info = clips[0].info
        lost = _lost(item, info, on_error)
        return Span(clips, info.n_frames, info.duration_s, lost)
    with Video(item.video, threads=threads) as video:
        first, last = part_of(item, video)
        clips = video._read_part(grids, Fit(size, device=device), first, last)
        assert clips[0].span_s is not None
        lost = _lost(item, video.info, on_error)
        return Span(clips, last - first, clips[0].span_s[1], lost)


def _lost(item: Item, info: VideoInfo, on_error: Literal["mark", "raise"]) -> str:
    """Say what of a video is lost, or refuse it: its grids are over what is left."""
    lost = lost_frames(info)
    if lost and on_error == "raise":
        raise VideoError(
            f"{item.video}: {lost}; ", MARK, " scores what is there and marks it"
        )
    return lost


def part_of(item: Item, video: Video) -> tuple[int, int]:
    """Return the first frame that is asked about, and the first one after them."""
    times_s = video.times_s - video.info.start_s
    first, last = 0, len(video)
    if item.start is not None:
        first = int(np.searchsorted(times_s, item.start))
    if item.end is not None:
        last = int(np.searchsorted(times_s, item.end))
    if first >= last:
        raise VideoError(
            f"{item.video}: no frame begins between start {item.start} s and end "
            f"{item.end} s; the video lasts {video.info.duration_s:.3f} s"
        )
    return first, last
