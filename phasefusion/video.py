"""Exact frames of a video file by index, all phases of a grid in one decode.

The index of a frame is its place in the decoder's output, counting only the frames that
are presented (an edit list may cut some away). It is never guessed from a frame rate or
found by seeking: a wrong timestamp, a wrong frame count in the header or a missing key
frame cannot put a neighbour in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._cached_clips import CachedClips, as_cache, read_through
from phasefusion._checks import warn
from phasefusion._install import FFMPEG
from phasefusion._video_checks import (
    DAMAGED,
    MARK,
    check_grids,
    check_indices,
    check_on_error,
    check_room,
    check_threads,
    most_frames,
    stream_number,
    unsound,
    warn_count,
)
from phasefusion._video_fit import Fit, FrameSize, Pixels
from phasefusion._video_records import Clip, StreamInfo, VideoInfo, info_of, of_part
from phasefusion._video_source import (
    VideoLimits,
    VideoSource,
    checked_limits,
    hint_at_path,
    resolve,
)
from phasefusion._wording import counted
from phasefusion.errors import (
    BackendUnavailableError,
    DamagedFrameWarning,
    VideoError,
)
from phasefusion.frames import Device, Filter, FirstPass
from phasefusion.grid import PhaseGrid

if TYPE_CHECKING:
    import os
    from types import ModuleType, TracebackType

    from phasefusion._video import Reader
    from phasefusion.cache import FrameCache
    from phasefusion.cuda import YuvFrames

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
CacheArgument: TypeAlias = "FrameCache | str | os.PathLike[str] | None"
_Decoded: TypeAlias = "tuple[list[Clip], VideoInfo, NDArray[np.int64]]"


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
    >>> sorted(ffmpeg_versions())
    ['libavcodec', 'libavformat', 'libavutil', 'libswscale', 'release']
    """
    versions: dict[str, str] = _backend().ffmpeg_versions()
    return versions


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
        If the header promises another number of frames than there are; or, where it
        states no number, a duration that is longer by two frames and 2 % or more, or
        less than half as long; or if the container is damaged.

    Examples
    --------
    >>> from phasefusion import tinyvlm
    >>> path = tinyvlm.questions_path().parent / "clip-000.mp4"
    >>> with Video(path) as video:
    ...     first, last = video.read([0, len(video) - 1])
    >>> first.shape
    (224, 224, 3)
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
        number = stream_number(stream)
        self._reader = _open_reader(path, number, checked_limits(limits))
        self._refresh()
        warn_count(self._info)

    def _refresh(self) -> None:
        """Take over what the reader knows by now."""
        raw: dict[str, Any] = self._reader.info()
        pts = self._reader.pts()
        pts.flags.writeable = False
        self._pts = pts
        self._info = info_of(raw, pts)

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
        what = f"{counted(i.n_frames, 'frame')} of {i.width}x{i.height}, {i.codec}"
        return f"<Video {i.path!r}: {what}>"

    # ----------------------------------------------------------------- frames

    def read(
        self,
        indices: ArrayLike,
        *,
        size: FrameSize = None,
        mean: ArrayLike | None = None,
        std: ArrayLike | None = None,
        filter: Filter = "bicubic",
        first_pass: FirstPass = "auto",
        device: Device = "cpu",
        on_error: OnError = "raise",
    ) -> Pixels:
        """Frames by index, decoded in one pass.

        With `size`, or `mean` and `std`, every frame is resized and normalised as it is
        decoded, so that frames of the video's own size are never held together.

        Parameters
        ----------
        indices : array_like of int, shape (n,)
            0 to ``len(self) - 1``, in any order, repeats allowed.
        size : (int, int) or callable, optional
            Height and width of the result, or what gives them (or None) when called
            with the video's height and width and the number of frames.
        mean, std : three floats, optional
            As for `resize_normalize`.
        filter, first_pass
            As for `resize`.
        device : {"cpu", "cuda", "auto"}, default "cpu"
            Where frames are resized and normalised, with the same pixels in the host's
            memory. A GPU gets the decoder's planes as far as `read_planes` does, and
            RGB of others. "auto" is the CPU, said once, without a usable GPU.
        on_error : {"raise", "mark"}, default "raise"
            What a frame that does not decode soundly does: raise, or come out as the
            decoder leaves it (black when it gives none) with a warning.

        Returns
        -------
        frames : ndarray
            uint8 RGB, upright, of shape (n, H, W, 3), or (n, h, w, 3) with `size`, byte
            for byte what `resize` makes of them. With `mean` and `std` float32 of shape
            (n, 3, h, w), bit for bit what `resize_normalize` makes.

        Raises
        ------
        IndexError
            If an index is out of range; negative ones are.
        FrameError
            If the size, mean, std, filter or first_pass is not valid.
        VideoError
            If a wanted frame does not decode soundly; the message lists the indices.
            If the result would take more than half the memory, or 64 GiB.
        BackendUnavailableError, DeviceMemoryError, DeviceError
            As `resize_normalize`, with another device than "cpu".

        Warns
        -----
        DamagedFrameWarning
            The same with ``on_error="mark"``.
        """
        check_on_error(on_error)
        fit = Fit.checked(size, mean, std, filter, first_pass, device)
        wanted = self._checked(indices)
        shape = fit.shape(self._info.height, self._info.width, len(wanted))
        check_room(self._info.path, [(len(wanted), shape)], fit.dtype)
        frames = fit.empty(len(wanted), shape, self._threads)
        state, _ = fit.read(self._reader, wanted, [frames], self._threads)
        self._raise_unsound(wanted, state, on_error, DamagedFrameWarning)
        return frames

    def read_planes(
        self, indices: ArrayLike, *, on_error: OnError = "raise"
    ) -> YuvFrames:
        """Frames by index as the decoder has them: Y, and U and V of half the size.

        `phasefusion.cuda.resize` and its like take them, half the bytes of RGB, with
        the same result. Pictures are upright.

        Parameters
        ----------
        indices, on_error
            As for `read`.

        Returns
        -------
        frames : YuvFrames
            In the host's memory, with matrix and range.

        Raises
        ------
        IndexError, VideoError
            As `read`; and if the pictures have not 8 bits and chroma of half the size,
            differ in matrix, range or size, or are turned so that an odd side is
            reversed, after which other pixels would share chroma. As `read` it warns.

        Notes
        -----
        A sample of chroma is that of the four pixels that it covers, wherever it was
        taken by the stream's word, as in all conversions here.

        Examples
        --------
        >>> from phasefusion import tinyvlm
        >>> path = tinyvlm.questions_path().parent / "clip-000.mp4"
        >>> with Video(path) as video:
        ...     frames = video.read_planes([0, 1])
        >>> frames.y.shape, frames.u.shape, frames.matrix, frames.full_range
        ((2, 224, 224), (2, 112, 112), 'bt709', False)
        """
        from phasefusion.cuda.decoding import read_planes

        check_on_error(on_error)
        wanted = self._checked(indices)
        frames, state = read_planes(self._reader, self._info, wanted, self._threads)
        self._raise_unsound(wanted, state, on_error, DamagedFrameWarning)
        return frames

    def _checked(self, indices: ArrayLike) -> NDArray[np.int64]:
        return check_indices(self._info.path, self._info.n_frames, indices)

    def _raise_unsound(
        self,
        wanted: NDArray[np.int64],
        state: NDArray[np.uint8],
        on_error: OnError,
        warning: type[Warning] | None = None,
    ) -> None:
        """Raise, or warn of, frames that did not decode soundly."""
        text = unsound(self._info.path, wanted, state)
        if text and on_error == "raise":
            raise VideoError(f"{text}; pass ", MARK, " to go on without them")
        if text and warning is not None:
            warn(text, warning)

    def _read_grids(
        self, grids: Sequence[PhaseGrid], fit: Fit, on_error: OnError
    ) -> list[Clip]:
        """One decode for all grids; again if damage turns out to have moved frames."""
        for _ in range(2):
            clips, state, damaged = self._decode(grids, fit, 0, len(self))
            if not damaged or not self._reader.recount():
                break
            self._refresh()
            if not len(self):
                raise VideoError(
                    f"{self._info.path}: not one frame of it can be decoded"
                )
        self._refresh()
        wanted = np.concatenate([clip.indices.reshape(-1) for clip in clips])
        self._raise_unsound(wanted, state, on_error)
        times_s = self.times_s
        return [
            replace(clip, times_s=times_s[clip.indices], info=self._info)
            for clip in clips
        ]

    def _read_part(
        self, grids: Sequence[PhaseGrid], fit: Fit, first: int, end: int
    ) -> list[Clip]:
        """Grids that divide the frames ``first <= i < end`` alone."""
        clips, state, _ = self._decode(grids, fit, first, end)
        wanted = np.concatenate([clip.indices.reshape(-1) for clip in clips])
        self._raise_unsound(wanted, state, "raise")
        return of_part(clips, self._info, self._pts, first, end)

    def _decode(
        self, grids: Sequence[PhaseGrid], fit: Fit, first: int, end: int
    ) -> tuple[list[Clip], NDArray[np.uint8], bool]:
        """Clips of what one decode gives, the state of their frames, and errors met."""
        height, width = self._info.height, self._info.width
        most = [most_frames(grid, end - first) for grid in grids]
        shapes = [
            fit.shape(height, width, min(grid.budget, n))
            for grid, n in zip(grids, most, strict=True)
        ]
        check_room(self._info.path, list(zip(most, shapes, strict=True)), fit.dtype)
        pts = self._pts[first:end]
        end_pts = int(self._pts[end]) if end < len(self) else self._info.end_pts
        path = self._info.path
        indices = [grid._frames(pts, end_pts, path) + first for grid in grids]
        frames = [
            fit.empty(index.size, shape, self._threads)
            for index, shape in zip(indices, shapes, strict=True)
        ]
        wanted = np.concatenate([index.reshape(-1) for index in indices])
        state, damaged = fit.read(self._reader, wanted, frames, self._threads)
        clips = []
        at = 0
        for grid, index, pixels in zip(grids, indices, frames, strict=True):
            marks = state[at : at + index.size].reshape(index.shape)
            at += index.size
            clips.append(
                Clip(
                    frames=pixels.reshape(*index.shape, *pixels.shape[1:]),
                    indices=index,
                    times_s=self.times_s[index],
                    missing=marks != 0,
                    grid=grid,
                    info=self._info,
                    damaged=marks == DAMAGED,
                )
            )
        return clips, state, damaged

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
    size: FrameSize = None,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    stream: Literal["best"] | SupportsIndex = "best",
    threads: SupportsIndex = 1,
    on_error: OnError = "raise",
    cache: CacheArgument = None,
    device: Device = "cpu",
    **limits: Unpack[VideoLimits],
) -> Clip:
    """Frames of all S phases of a grid, in one decode.

    Parameters
    ----------
    path : str or path-like, bytes-like, or binary file object
        As for `Video`.
    grid : PhaseGrid
    size, mean, std, filter, first_pass, device
        As for `Video.read`: resized and normalised frame by frame, as they are decoded.
        A callable size gets the number of frames of one phase.
    stream, threads, **limits
        As for `Video`.
    on_error : {"raise", "mark"}, default "raise"
        What a frame that does not decode soundly does: raise, or be marked in
        `Clip.missing`.
    cache : FrameCache or path of a folder, optional
        Where frames are kept from call to call; by default nowhere. Entries are found
        by a hash of the whole file, so it is read once each time it changed.

    Returns
    -------
    clip : Clip
        ``frames`` has shape (S, b, H, W, 3), uint8; (S, b, h, w, 3) with `size`; and
        (S, b, 3, h, w), float32, with `mean` and `std`.

    Raises
    ------
    FileNotFoundError, VideoError, FrameError, BackendUnavailableError
        As `Video` and `Video.read`.
    UsageError
        If an argument cannot be, whatever is in the file.
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
    >>> from phasefusion import tinyvlm
    >>> path = tinyvlm.questions_path().parent / "clip-000.mp4"
    >>> clip = read_clip(path, PhaseGrid(8, 3), size=(224, 224))
    >>> clip.frames.shape
    (3, 8, 224, 224, 3)
    """
    return read_clips(
        path,
        [grid],
        size=size,
        mean=mean,
        std=std,
        filter=filter,
        first_pass=first_pass,
        stream=stream,
        threads=threads,
        on_error=on_error,
        cache=cache,
        device=device,
        **limits,
    )[0]


def read_clips(
    path: VideoSource,
    grids: Sequence[PhaseGrid],
    *,
    size: FrameSize = None,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    filter: Filter = "bicubic",
    first_pass: FirstPass = "auto",
    stream: Literal["best"] | SupportsIndex = "best",
    threads: SupportsIndex = 1,
    on_error: OnError = "raise",
    cache: CacheArgument = None,
    device: Device = "cpu",
    **limits: Unpack[VideoLimits],
) -> list[Clip]:
    """Frames of several grids over one video, in one decode of all their frames.

    Parameters
    ----------
    path : str or path-like, bytes-like, or binary file object
    grids : sequence of PhaseGrid
    size, mean, std, filter, first_pass, stream, threads, on_error, cache, device
    **limits
        As for `read_clip`. A callable size may give each grid its own.

    Returns
    -------
    clips : list of Clip
        One for each grid, in order.

    Raises
    ------
    FileNotFoundError, VideoError, FrameError, BackendUnavailableError, GridError
        As `read_clip`. The limit on memory is one on the frames of all grids together.
    """
    check_on_error(on_error)
    fit = Fit.checked(size, mean, std, filter, first_pass, device)
    grids = check_grids(grids)

    def decode(source: VideoSource, missing: Sequence[PhaseGrid]) -> _Decoded:
        with Video(source, stream=stream, threads=threads, **limits) as video:
            clips = video._read_grids(missing, fit, on_error)
            return clips, video.info, video.pts

    if cache is None:
        return decode(path, grids)[0]
    check_threads(threads)
    return read_through(
        CachedClips(
            as_cache(cache), path, stream_number(stream), checked_limits(limits)
        ),
        grids,
        fit,
        warn_count,
        decode,
    )
