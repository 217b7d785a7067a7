"""The records that reading a video gives: facts of the file, frames of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._results import Result
from phasefusion._video_checks import fraction, varies

if TYPE_CHECKING:
    from phasefusion.grid import PhaseGrid

__all__ = ["Clip", "StreamInfo", "VideoInfo", "info_of", "of_part"]

#: Of the contact sheet that a clip shows in a notebook.
_MOST_PICTURES = 64
_PICTURE_PX = 72


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What the container says about one of its streams.

    Attributes
    ----------
    index : int
        Place in the container, the number that ``stream=`` takes.
    kind : str
        "video", "audio", "subtitle", "data" or "attachment".
    codec : str
    width, height : int
        Stored picture size in pixels, 0 when it is no video.
    n_frames_header : int or None
    is_default : bool
        Marked as the one to play.
    is_picture : bool
        A cover or thumbnail; never chosen.
    """

    index: int
    kind: str
    codec: str
    width: int
    height: int
    n_frames_header: int | None
    is_default: bool
    is_picture: bool


@dataclass(frozen=True, slots=True)
class VideoInfo(Result):
    """What the scan of one video stream found.

    Attributes
    ----------
    path : str
    container, codec, pixel_format : str
        FFmpeg's names.
    width, height : int
        Of the delivered frames in pixels: as displayed, rotation applied, the pixel
        aspect ratio not. A later change of resolution is scaled to it.
    rotation : int
        Degrees clockwise by which stored pictures were turned: 0, 90, 180 or 270.
    mirrored : bool
        Whether they were then mirrored left to right.
    fps : Fraction or None
        The container's average frame rate.
    time_base : Fraction
        Seconds in one unit of `Video.pts`.
    n_frames_header : int or None
        Frame count by the container's header, which may be wrong; None without one.
    n_frames : int
        Frames that are there, N. Counted from the packets where their headers agree
        with the timestamps, otherwise by decoding everything.
    duration_s : float
        From the start of the first frame to the end of the last.
    duration_s_header : float or None
        The stream's duration by the container's header, which may be wrong; None
        without one. Some containers count it from time 0 and not from the first frame.
    start_s : float
        Time of the first frame.
    end_pts : int
        When the last frame ends, in units of `time_base`.
    vfr : bool
        Whether the time between frames varies by more than rounding.
    color_space, color_range : str or None
        FFmpeg's names of matrix and range; "unknown" is read as BT.601, limited range
        for YUV.
    sar : Fraction or None
        Pixel aspect ratio, width to height.
    stream_index : int
    streams : tuple of StreamInfo
    counted : str or None
        Why the frames were counted by decoding everything; None when they were not.
    n_cut : int
        Pictures that are decoded but not presented (edit list).
    damaged : bool
        Whether the decoder or the container reader reported an error in the scan.
    size_changes : bool
        Whether a change of resolution was seen in the scan (only when counted).
    """

    path: str
    container: str
    codec: str
    pixel_format: str | None
    width: int
    height: int
    rotation: int
    mirrored: bool
    fps: Fraction | None
    time_base: Fraction
    n_frames_header: int | None
    n_frames: int
    duration_s: float
    duration_s_header: float | None
    start_s: float
    end_pts: int
    vfr: bool
    color_space: str | None
    color_range: str | None
    sar: Fraction | None
    stream_index: int
    streams: tuple[StreamInfo, ...]
    counted: str | None
    n_cut: int
    damaged: bool
    size_changes: bool


def info_of(raw: dict[str, Any], pts: NDArray[np.int64]) -> VideoInfo:
    """Return the facts of a reader, whose frames are shown at `pts`."""
    num, den = raw["time_base"]
    time_base = Fraction(num, den)
    start = int(pts[0]) if len(pts) else 0
    streams = tuple(
        StreamInfo(**{**s, "n_frames_header": s["n_frames_header"] or None})
        for s in raw["streams"]
    )
    return VideoInfo(
        path=raw["path"],
        container=raw["container"],
        codec=raw["codec"],
        pixel_format=raw["pixel_format"],
        width=raw["width"],
        height=raw["height"],
        rotation=raw["rotation"],
        mirrored=raw["mirrored"],
        fps=fraction(raw["fps"]),
        time_base=time_base,
        n_frames_header=raw["n_frames_header"] or None,
        n_frames=raw["n_frames"],
        duration_s=float((raw["end_pts"] - start) * time_base),
        duration_s_header=raw["duration_s_header"] or None,
        start_s=float(start * time_base),
        end_pts=raw["end_pts"],
        vfr=varies(pts),
        color_space=raw["color_space"],
        color_range=raw["color_range"],
        sar=fraction(raw["sar"]),
        stream_index=raw["stream_index"],
        streams=streams,
        counted=raw["why_counted"] if raw["counted"] else None,
        n_cut=raw["n_cut"],
        damaged=raw["damaged"],
        size_changes=raw["size_changes"],
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Clip(Result):
    """The frames that one grid takes from one video.

    Attributes
    ----------
    frames : ndarray, shape (S, b, H, W, 3), uint8
        RGB, of the video's size or the one asked for; float32 of shape (S, b, 3, h, w)
        when normalised. What a frame marked in `missing` shows is no measurement:
        black, or the decoder's patch-up of a damaged picture.
    indices : ndarray, shape (S, b), int64
        Frame indices, 0 to ``info.n_frames - 1``.
    times_s : ndarray, shape (S, b), float64
        Presentation time of each frame in seconds.
    missing : ndarray, shape (S, b), bool
        Frames that do not decode soundly; all False unless ``on_error="mark"``.
    grid : PhaseGrid
    info : VideoInfo
    damaged : ndarray, shape (S, b), bool
        Those of `missing` that the decoder gave nevertheless, with an error in them or
        in a picture that they may refer to.
    span : (int, int) or None
        The frames ``first <= i < end`` that the grid divides; None for all of them.
    span_s : (float, float) or None
        When the first of them begins and how long they last, in seconds of the file's
        clock, by its timestamps.
    """

    frames: NDArray[Any]
    indices: NDArray[np.int64]
    times_s: NDArray[np.float64]
    missing: NDArray[np.bool_]
    grid: PhaseGrid
    info: VideoInfo
    damaged: NDArray[np.bool_] = None  # type: ignore[assignment]
    span: tuple[int, int] | None = None
    span_s: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.damaged is None:
            object.__setattr__(self, "damaged", np.zeros(self.indices.shape, np.bool_))

    def __repr__(self) -> str:
        parts = [f"frames of shape {self.frames.shape}"]
        if self.indices.size:
            parts.append(f"indices {self.indices.min()} to {self.indices.max()}")
        if self.missing.any():
            parts.append(f"{np.count_nonzero(self.missing)} missing")
        # A clip can be made of frames that come from no file.
        path = getattr(self.info, "path", None)
        return f"<Clip {path!r}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        return escape(repr(self)) + self._sheet()

    def _sheet(self) -> str:
        """Contact sheet as a picture; of long clips and of tensors there is none."""
        from base64 import b64encode

        from phasefusion.contact import contact_sheet, png_bytes

        frames = self.frames
        is_picture = frames.dtype == np.uint8 and frames.ndim == 5
        if not is_picture or not 0 < self.indices.size <= _MOST_PICTURES:
            return ""
        if not all(frames.shape):
            return ""
        data = b64encode(png_bytes(contact_sheet(self, width_px=_PICTURE_PX))).decode()
        return f'<br><img alt="contact sheet" src="data:image/png;base64,{data}">'


def of_part(
    clips: Sequence[Clip], info: VideoInfo, pts: NDArray[np.int64], first: int, end: int
) -> list[Clip]:
    """Say of clips that their grids divide the frames ``first <= i < end`` alone."""
    start_pts = int(pts[first])
    end_pts = int(pts[end]) if end < len(pts) else info.end_pts
    ticks = start_pts, end_pts - start_pts
    start_s, length_s = (float(n * info.time_base) for n in ticks)
    span, span_s = (first, end), (start_s, length_s)
    return [replace(clip, span=span, span_s=span_s) for clip in clips]
