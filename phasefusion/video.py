"""Exact frames of a video file by index, all phases of a grid in one decode.

The index of a frame is its place in the decoder's output, counting only the frames that
are presented (an edit list may cut some away). It is never guessed from a frame rate or
found by seeking: a wrong timestamp, a wrong frame count in the header or a missing key
frame cannot put a neighbour in its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._install import FFMPEG
from phasefusion._video_records import Clip, StreamInfo, VideoInfo
from phasefusion._video_source import (
    VideoLimits,
    VideoSource,
    checked_limits,
    hint_at_path,
    positive,
    resolve,
)
from phasefusion._video_source import (
    room_bytes as _room_bytes,
)
from phasefusion.errors import (
    BackendUnavailableError,
    DamagedFrameWarning,
    FrameCountWarning,
    VideoError,
)
from phasefusion.grid import PhaseGrid

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

    from phasefusion._video import Reader

__all__ = [
    "Clip",
    "StreamInfo",
    "Video",
    "VideoInfo",
    "VideoLimits",
    "ffmpeg_versions",
    "read_clip",
    "read_clips",
]

OnError: TypeAlias = Literal["raise", "mark"]

_MAX_THREADS = 64
_MISSING = 2
_DAMAGED = 1


def _backend() -> ModuleType:
    try:
        from phasefusion import _video
    except ImportError as error:
        raise BackendUnavailableError(
            f"video decoding is not available: {error}; {FFMPEG}"
        ) from error
    return _video


def _open_reader(
    path: VideoSource, stream: int, limits: tuple[int, int, int, int, float]
) -> Reader:
    reader_class = _backend().Reader
    name, data = resolve(path, limits[3])
    try:
        reader: Reader = reader_class(name, data, stream, limits)
    except VideoError as error:
        hint = hint_at_path(path)
        if hint:
            raise VideoError(f"{error}{hint}") from None
        raise
    return reader


def ffmpeg_versions() -> dict[str, str]:
    """Versions of the FFmpeg libraries that decode.

    Returns
    -------
    versions : dict of str
        "release" and one entry a library.

    Raises
    ------
    BackendUnavailableError
        If phasefusion was built without FFmpeg.

    Examples
    --------
    >>> sorted(ffmpeg_versions())  # doctest: +SKIP
    ['libavcodec', 'libavformat', 'libavutil', 'libswscale', 'release']
    """
    versions: dict[str, str] = _backend().ffmpeg_versions()
    return versions


def most_frames(grid: PhaseGrid, n_frames: int) -> int:
    """Frames that a grid takes of a clip, at most; the grid itself is not computed."""
    n_wanted = grid.budget * grid.phases
    return n_wanted if grid.short == "repeat" else min(n_wanted, n_frames)


def _fraction(pair: tuple[int, int]) -> Fraction | None:
    num, den = pair
    return Fraction(num, den) if num > 0 and den > 0 else None


def _varies(pts: NDArray[np.int64]) -> bool:
    if len(pts) < 3:
        return False
    steps = np.diff(pts)
    # Rounding to ticks makes steps differ by one; 2 % is below any real change.
    spread = int(steps.max() - steps.min())
    return spread > max(1, int(np.median(steps)) // 50)


def _stream_number(stream: object) -> int:
    if isinstance(stream, str):
        if stream == "best":
            return -1
    elif isinstance(stream, SupportsIndex) and not isinstance(stream, bool):
        number = stream.__index__()
        if 0 <= number < 2**31:
            return number
    raise VideoError(
        f'stream={stream!r} must be "best" or the index of a stream, 0 or more'
    )


def check_threads(threads: SupportsIndex) -> int:
    """Return a number of decoding threads as an int, or say what it may be."""
    return positive("threads", threads, _MAX_THREADS)


def _check_on_error(on_error: object) -> None:
    if on_error not in ("raise", "mark"):
        raise VideoError(f'on_error={on_error!r} must be "raise" or "mark"')


def _cut_short(info: VideoInfo) -> str:
    """Say that the file ends long before its header says; empty when it does not.

    Both readings of a stated duration, from time 0 or from the first frame, must be
    longer than what is there by two frames and by 2 %.
    """
    stated_s = info.duration_s_header
    if stated_s is None or info.n_cut:
        return ""
    lasts_s = max(info.duration_s, info.start_s + info.duration_s)
    slack_s = max(2 * info.duration_s / max(info.n_frames, 1), 0.02 * stated_s)
    if stated_s - lasts_s <= slack_s:
        return ""
    return (
        f"the header says {stated_s:.3f} s, the {info.n_frames} frames that are there "
        f"end at {lasts_s:.3f} s; the file seems to be cut short"
    )


def _listed(indices: NDArray[np.int64]) -> str:
    some = ", ".join(str(i) for i in indices[:20])
    return f"[{some}{', ...' if len(indices) > 20 else ''}]"


class Video:
    """A video file, scanned, giving frames by index.

    Opening reads the compressed file once; nothing is decoded in the background and no
    thread or lock outlives a call, so a process may fork at any time: a forked child
    opens its own `Video`, one of its parent raises there. One `Video` serves one thread
    at a time; a second one gets an error.

    Parameters
    ----------
    path : str or path-like, bytes-like, or binary file object
        A path of a regular file, which is read as it is needed. Or the data of one:
        bytes, bytearray, memoryview, mmap, used in place and pinned while they are
        read. Or a file object, which is read whole at once, from its start if it can
        go there; its position stays. bytes are data, never a path. Playlists, scripts
        and network addresses are refused: nothing else is ever opened.
    stream : "best" or int, default "best"
        Stream to read, as numbered by the container. "best" prefers streams that have
        packets, then the larger picture, then the mark as default, then the lower
        number, and never takes cover pictures.
    threads : int, default 1
        Threads that decode, each its own stretch between key frames, 1 to 64.
    **limits
        What the video may cost, see `VideoLimits`: `max_frames` (4_000_000),
        `max_pixels` of a picture (2**26), `max_seconds` (None), `max_bytes` of the file
        or data (2**36), and `cache_bytes` (2**30), up to which the compressed stream is
        kept in memory until `close`.

    Raises
    ------
    FileNotFoundError, PermissionError
        If the file cannot be opened.
    VideoError
        If it is a directory, empty, no video, has no such stream, is beyond a limit, or
        not one frame of it decodes.
    BackendUnavailableError
        If phasefusion was built without FFmpeg.

    Warns
    -----
    FrameCountWarning
        If the header promises another number of frames than there are, or, where it
        states no number, a duration that is longer by two frames and 2 % or more.

    Examples
    --------
    >>> with Video("clip.mp4") as video:  # doctest: +SKIP
    ...     first, last = video.read([0, len(video) - 1])
    """

    __slots__ = ("_info", "_pts", "_reader", "_threads")

    def __init__(
        self,
        path: VideoSource,
        *,
        stream: Literal["best"] | SupportsIndex = "best",
        threads: SupportsIndex = 1,
        **limits: Unpack[VideoLimits],
    ) -> None:
        self._threads = check_threads(threads)
        number = _stream_number(stream)
        self._reader = _open_reader(path, number, checked_limits(limits))
        self._refresh()
        self._warn_count()

    def _refresh(self) -> None:
        """Take over what the reader knows by now."""
        raw: dict[str, Any] = self._reader.info()
        pts = self._reader.pts()
        pts.flags.writeable = False
        num, den = raw["time_base"]
        time_base = Fraction(num, den)
        start = int(pts[0]) if len(pts) else 0
        streams = tuple(
            StreamInfo(**{**s, "n_frames_header": s["n_frames_header"] or None})
            for s in raw["streams"]
        )
        self._pts = pts
        self._info = VideoInfo(
            path=raw["path"],
            container=raw["container"],
            codec=raw["codec"],
            pixel_format=raw["pixel_format"],
            width=raw["width"],
            height=raw["height"],
            rotation=raw["rotation"],
            mirrored=raw["mirrored"],
            fps=_fraction(raw["fps"]),
            time_base=time_base,
            n_frames_header=raw["n_frames_header"] or None,
            n_frames=raw["n_frames"],
            duration_s=float((raw["end_pts"] - start) * time_base),
            duration_s_header=raw["duration_s_header"] or None,
            start_s=float(start * time_base),
            end_pts=raw["end_pts"],
            vfr=_varies(pts),
            color_space=raw["color_space"],
            color_range=raw["color_range"],
            sar=_fraction(raw["sar"]),
            stream_index=raw["stream_index"],
            streams=streams,
            counted=raw["why_counted"] if raw["counted"] else None,
            n_cut=raw["n_cut"],
            damaged=raw["damaged"],
            size_changes=raw["size_changes"],
        )

    def _warn_count(self) -> None:
        info = self._info
        header = info.n_frames_header
        if header is None:
            text = _cut_short(info)
        elif header == info.n_frames:
            text = ""
        else:
            what = "decode; the file is damaged" if info.damaged else "are there"
            text = f"the header says {header} frames, {info.n_frames} {what}"
            if info.n_cut:
                text += f"; an edit list cuts {info.n_cut} of them"
        if text:
            warnings.warn(
                f"{info.path}: {text}; grids use {info.n_frames}",
                FrameCountWarning,
                stacklevel=3,
            )

    # ------------------------------------------------------------------ facts

    @property
    def info(self) -> VideoInfo:
        """What the scan found."""
        return self._info

    @property
    def pts(self) -> NDArray[np.int64]:
        """Presentation time of every frame, int64 (N,), in units of info.time_base.

        Non-decreasing. Streams without timestamps are timed by their frame rate.
        """
        return self._pts

    @property
    def end_pts(self) -> int:
        """When the last frame ends, in units of info.time_base."""
        return self._info.end_pts

    @property
    def times_s(self) -> NDArray[np.float64]:
        """Presentation time of every frame in seconds, float64 (N,)."""
        base = self._info.time_base
        return self._pts * base.numerator / base.denominator

    def __len__(self) -> int:
        return self._info.n_frames

    def __repr__(self) -> str:
        i = self._info
        size = f"{i.width}x{i.height}"
        return f"<Video {i.path!r}: {i.n_frames} frames of {size}, {i.codec}>"

    # ----------------------------------------------------------------- frames

    def read(
        self, indices: ArrayLike, *, on_error: OnError = "raise"
    ) -> NDArray[np.uint8]:
        """Frames by index, decoded in one pass.

        Parameters
        ----------
        indices : array_like of int, shape (n,)
            0 to ``len(self) - 1``, in any order, repeats allowed.
        on_error : {"raise", "mark"}, default "raise"
            What a frame that does not decode soundly does: raise, or come out as the
            decoder leaves it (black when it gives none) with a warning.

        Returns
        -------
        frames : ndarray, shape (n, H, W, 3), uint8
            RGB, upright.

        Raises
        ------
        IndexError
            If an index is out of range; negative ones are.
        VideoError
            If a wanted frame does not decode soundly; the message lists the indices.
            If the frames would take more than half the memory, or 64 GiB.

        Warns
        -----
        DamagedFrameWarning
            The same with ``on_error="mark"``.
        """
        _check_on_error(on_error)
        wanted = self._checked(indices)
        self._check_room(len(wanted))
        frames = np.empty(
            (len(wanted), self._info.height, self._info.width, 3), np.uint8
        )
        state, _ = self._reader.read(wanted, (frames,), self._threads, False)
        unsound = self._raise_unsound(wanted, state, on_error)
        if unsound:
            warnings.warn(unsound, DamagedFrameWarning, stacklevel=2)
        return frames

    def _check_room(self, n_frames: int) -> None:
        """Refuse more pixels than `_room_bytes` before any memory is taken."""
        height, width = self._info.height, self._info.width
        need_bytes = n_frames * height * width * 3
        if need_bytes > _room_bytes():
            raise VideoError(
                f"{self._info.path}: {n_frames} frames of {width}x{height} take "
                f"{need_bytes / 2**30:.1f} GiB; the limit is "
                f"{_room_bytes() / 2**30:.1f} GiB (half the memory, at most 64 GiB). "
                "Take fewer frames or phases at a time"
            )

    def _checked(self, indices: ArrayLike) -> NDArray[np.int64]:
        array = np.asarray(indices)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise VideoError(
                f"indices must be a list of integers, got shape {array.shape} of "
                f"{array.dtype}"
            )
        n = self._info.n_frames
        bad = np.flatnonzero((array < 0) | (array >= n))
        if len(bad):
            raise IndexError(
                f"{self._info.path}: frame {array[bad[0]]} is out of range; the video "
                f"has {n} frames, 0 to {n - 1}"
            )
        return np.ascontiguousarray(array, dtype=np.int64)

    def _raise_unsound(
        self, wanted: NDArray[np.int64], state: NDArray[np.uint8], on_error: OnError
    ) -> str:
        """Describe the frames that did not decode soundly; raise if that is wanted."""
        missing = np.unique(wanted[state == _MISSING])
        damaged = np.unique(wanted[state == _DAMAGED])
        parts = []
        if len(missing):
            parts.append(f"{len(missing)} do not decode: frames {_listed(missing)}")
        if len(damaged):
            parts.append(f"{len(damaged)} are damaged: frames {_listed(damaged)}")
        if not parts:
            return ""
        text = (
            f"{self._info.path}: of {len(np.unique(wanted))} wanted frames "
            f"{' and '.join(parts)}"
        )
        if on_error == "raise":
            raise VideoError(f'{text}; pass on_error="mark" to go on without them')
        return text

    def _read_grids(self, grids: Sequence[PhaseGrid], on_error: OnError) -> list[Clip]:
        """One decode for all grids; again if damage turns out to have moved frames."""
        self._check_room(sum(most_frames(grid, len(self)) for grid in grids))
        for _ in range(2):
            indices = [grid.select(self._pts, self._info.end_pts) for grid in grids]
            size = (self._info.height, self._info.width, 3)
            frames = [np.empty((i.size, *size), np.uint8) for i in indices]
            wanted = np.concatenate([i.reshape(-1) for i in indices])
            state, damaged = self._reader.read(
                wanted, tuple(frames), self._threads, False
            )
            if not damaged or not self._reader.recount():
                break
            self._refresh()
            if not len(self):
                raise VideoError(
                    f"{self._info.path}: not one frame of it can be decoded"
                )
        self._refresh()
        self._raise_unsound(wanted, state, on_error)
        clips = []
        times_s = self.times_s
        at = 0
        for grid, index, picture in zip(grids, indices, frames, strict=True):
            marks = state[at : at + index.size].reshape(index.shape)
            at += index.size
            clips.append(
                Clip(
                    frames=picture.reshape(*index.shape, *size),
                    indices=index,
                    times_s=times_s[index],
                    missing=marks != 0,
                    grid=grid,
                    info=self._info,
                    damaged=marks == _DAMAGED,
                )
            )
        return clips

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """Release the memory; the facts stay readable. May be called twice."""
        self._reader.close()

    def __enter__(self) -> Video:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_clip(
    path: VideoSource,
    grid: PhaseGrid,
    *,
    stream: Literal["best"] | SupportsIndex = "best",
    threads: SupportsIndex = 1,
    on_error: OnError = "raise",
    **limits: Unpack[VideoLimits],
) -> Clip:
    """Frames of all S phases of a grid, in one decode.

    Parameters
    ----------
    path : str or path-like, bytes-like, or binary file object
        As for `Video`.
    grid : PhaseGrid
    stream, threads, **limits
        As for `Video`.
    on_error : {"raise", "mark"}, default "raise"
        What a frame that does not decode soundly does: raise, or be marked in
        `Clip.missing`.

    Returns
    -------
    clip : Clip

    Raises
    ------
    FileNotFoundError, VideoError, BackendUnavailableError
        As `Video` and `Video.read`.
    GridError
        If the clip is too short for the grid and the grid says so.

    Warns
    -----
    FrameCountWarning
        As `Video`.
    DuplicateFrameWarning
        If the clip is shorter than the grid.

    Examples
    --------
    >>> clip = read_clip("clip.mp4", PhaseGrid(8, 3))  # doctest: +SKIP
    >>> clip.frames.shape  # doctest: +SKIP
    (3, 8, 240, 320, 3)
    """
    return read_clips(
        path, [grid], stream=stream, threads=threads, on_error=on_error, **limits
    )[0]


def read_clips(
    path: VideoSource,
    grids: Sequence[PhaseGrid],
    *,
    stream: Literal["best"] | SupportsIndex = "best",
    threads: SupportsIndex = 1,
    on_error: OnError = "raise",
    **limits: Unpack[VideoLimits],
) -> list[Clip]:
    """Frames of several grids over one video, in one decode of all their frames.

    Parameters
    ----------
    path : str or path-like, bytes-like, or binary file object
    grids : sequence of PhaseGrid
    stream, threads, on_error, **limits
        As for `read_clip`.

    Returns
    -------
    clips : list of Clip
        One for each grid, in order.

    Raises
    ------
    FileNotFoundError, VideoError, BackendUnavailableError, GridError
        As `read_clip`. The limit on memory is one on the frames of all grids together.
    """
    _check_on_error(on_error)
    if not grids:
        raise VideoError("grids is empty; give at least one PhaseGrid")
    with Video(path, stream=stream, threads=threads, **limits) as video:
        return video._read_grids(grids, on_error)
