"""What a video can be given as, and what reading it may cost."""

from __future__ import annotations

import io
import math
import os
from typing import (
    TYPE_CHECKING,
    NamedTuple,
    Protocol,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
)
from typing import TypedDict as _TypedDict

from phasefusion import _video_checks
from phasefusion._video_checks import positive
from phasefusion.errors import UsageError, VideoError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["BinaryFile", "VideoLimits", "VideoSource"]

_MAX_BYTES = 2**36
_CHUNK_BYTES = 2**20
_PATH_BYTES = 4096


class BinaryFile(Protocol):
    """A file object that was opened for reading bytes."""

    def read(self, size: int = ..., /) -> bytes:
        """Return up to so many bytes, none at the end."""


VideoSource: TypeAlias = (
    "str | os.PathLike[str] | os.PathLike[bytes] | ReadableBuffer | BinaryFile"
    "| NamedData"
)

#: A path and None, or what to call the data and the data.
ResolvedSource: TypeAlias = (
    "tuple[str | os.PathLike[str] | os.PathLike[bytes], memoryview | bytearray | None]"
)


class NamedData(NamedTuple):
    """Data with what to call them: a file object that was read already."""

    name: str
    data: memoryview | bytearray


class VideoLimits(_TypedDict, total=False):
    """What reading a video may cost; what goes beyond raises before it is spent.

    Attributes
    ----------
    max_frames : int, default 4_000_000
        Packets of the stream, of which a frame is one (44 hours at 25 a second).
    max_pixels : int, default 2**26
        Pixels of one picture (8192x8192).
    max_seconds : float or None, default None
        From the first frame to the end of the last; None for any.
    max_bytes : int, default 2**36
        Bytes of the file or data (64 GiB). A file object is read into memory, so half
        the memory is a limit for it too.
    cache_bytes : int, default 2**30
        Streams up to this size are kept in memory, compressed; larger ones are read
        again by each call. No limit on what can be read.
    """

    max_frames: SupportsIndex
    max_pixels: SupportsIndex
    max_seconds: SupportsFloat | None
    max_bytes: SupportsIndex
    cache_bytes: SupportsIndex


_DEFAULTS: VideoLimits = {
    "max_frames": 4_000_000,
    "max_pixels": 2**26,
    "max_seconds": None,
    "max_bytes": _MAX_BYTES,
    "cache_bytes": 2**30,
}


#: What somebody calls who wants a section.
_OF_A_PART = {"start", "end", "start_s", "end_s", "duration", "duration_s", "stop"}


def _seconds(value: object) -> float:
    """Return max_seconds for the C side, where 0 is no limit."""
    if value is None:
        return 0.0
    if isinstance(value, SupportsFloat) and not isinstance(value, bool):
        number = float(value)
        if 0 < number < math.inf:
            return number
    raise UsageError(f"max_seconds={value!r} must be None or a number above 0")


def checked_limits(limits: VideoLimits) -> tuple[int, int, int, int, float]:
    """Limits as the C side takes them, defaults filled in."""
    unknown = sorted(set(limits) - set(_DEFAULTS))
    if unknown and unknown[0] in _OF_A_PART:
        raise TypeError(
            f"unknown option {unknown[0]!r}: the whole video is read. For a part of it "
            "open Video(path), whose times_s say which frames those are, and read "
            "first + grid.indices(n_frames)"
        )
    if unknown:
        raise TypeError(
            f"unknown option {unknown[0]!r}; limits are {', '.join(_DEFAULTS)}"
        )
    given: VideoLimits = {**_DEFAULTS, **limits}
    return (
        positive("max_frames", given["max_frames"]),
        positive("max_pixels", given["max_pixels"], 2**31 - 1),
        positive("cache_bytes", given["cache_bytes"]),
        positive("max_bytes", given["max_bytes"], 2**53),
        _seconds(given["max_seconds"]),
    )


def _name_of(source: object) -> str:
    name = getattr(source, "name", None)
    if isinstance(name, bytes | os.PathLike):
        name = os.fsdecode(name)
    if isinstance(name, str) and name and "\0" not in name:
        return name
    return f"<{type(source).__name__}>"


def _is_seekable(file: object) -> bool:
    try:
        return bool(file.seekable())  # type: ignore[attr-defined]
    except AttributeError:
        return hasattr(file, "seek") and hasattr(file, "tell")


def _check_bytes(name: str, n_bytes: int, max_bytes: int) -> None:
    if n_bytes > max_bytes:
        raise VideoError(
            f"{name}: it has more bytes than max_bytes={max_bytes} allows; pass a "
            "higher max_bytes to read it"
        )
    most_bytes = _video_checks.room_bytes()
    if n_bytes > most_bytes:
        raise VideoError(
            f"{name}: a file object is read into memory and this one has more than "
            f"{most_bytes} bytes, half the memory; give the path of a file instead"
        )


def _read_all(file: BinaryFile, name: str, max_bytes: int) -> bytearray:
    """All bytes of a file object from its start; its position stays as it was.

    One that cannot go back is read from where it is.
    """
    seeker = file if _is_seekable(file) else None
    back = 0 if seeker is None else seeker.tell()  # type: ignore[attr-defined]
    data = bytearray()
    try:
        if seeker is not None:
            n_bytes = seeker.seek(0, os.SEEK_END)  # type: ignore[attr-defined]
            _check_bytes(name, n_bytes or 0, max_bytes)
            seeker.seek(0)  # type: ignore[attr-defined]
        while True:
            part: object = file.read(_CHUNK_BYTES)
            if not isinstance(part, bytes | bytearray | memoryview):
                raise VideoError(
                    f"{name}: read() gave {type(part).__name__} and not bytes; open "
                    'the file with mode "rb"'
                )
            if not part:
                return data
            _check_bytes(name, len(data) + len(part), max_bytes)
            data += part
    finally:
        if seeker is not None:
            seeker.seek(back)  # type: ignore[attr-defined]


def _view(source: ReadableBuffer) -> memoryview | None:
    """View the bytes of a buffer in place; None when there is no such view of it."""
    try:
        view = memoryview(source)
        return view.cast("B") if view.nbytes else memoryview(b"")
    except TypeError:
        return None


def resolve(source: VideoSource, max_bytes: int) -> ResolvedSource:
    """Path and None for a file of the system, otherwise a name and the data.

    Buffers are taken in place. File objects are read whole: the decoding threads then
    need neither the GIL nor an object that others may move, close or fork.
    """
    if isinstance(source, str | os.PathLike):
        return source, None
    if isinstance(source, NamedData):
        return source
    name = _name_of(source)
    if isinstance(source, io.TextIOBase):
        raise VideoError(f'{name}: is open for text; open the file with mode "rb"')
    if len(getattr(source, "shape", ())) > 1 and not isinstance(source, memoryview):
        raise VideoError(
            f"{name} of shape {source.shape}: frames are not the data of a video, "  # type: ignore[union-attr]
            "which are one row of bytes; resize takes frames, and a scorer of your own "
            "a Clip"
        )
    if type(source) is io.BytesIO:
        return name, source.getbuffer()
    view = _view(source)  # type: ignore[arg-type]
    if view is not None:
        return name, view
    if callable(getattr(source, "read", None)):
        return name, _read_all(source, name, max_bytes)  # type: ignore[arg-type]
    raise VideoError(
        f"a video is given as a path (str or os.PathLike), as its data (bytes, "
        f"bytearray, contiguous memoryview) or as a binary file object, not as "
        f"{type(source).__name__}"
    )


def hint_at_path(source: object) -> str:
    """Say so when data that are no video are the path of a file."""
    if (
        isinstance(source, bytes)
        and 0 < len(source) < _PATH_BYTES
        and b"\0" not in source
        and os.path.exists(source)
    ):
        return "; bytes are the data of a video: give a path as os.fsdecode(path)"
    return ""
