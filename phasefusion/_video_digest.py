"""Which file a video was: a digest that is cheap, so that every pass can have it."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable

from phasefusion._video_source import VideoSource, resolve
from phasefusion.cache import Stat, file_stat, is_fresh

#: Of a file up to this size all bytes count, of a larger one blocks.
WHOLE_BYTES = 2**20
BLOCK_BYTES = 2**16
N_BLOCKS = 16
_DIGITS = 16

_known: dict[Stat, str] = {}
_MAX_KNOWN = 100_000


def video_digest(source: VideoSource) -> str:
    """Tell a video from another that took its place.

    It is the first 16 hexadecimal digits of the SHA-256 of the size in bytes as decimal
    digits, a colon, and the content: all of it up to 1 MiB, and of more 16 blocks of
    64 KiB, block i from byte ``i * (size - 65536) // 15``. Other files than the one
    have other digests unless they are of one size and differ between the blocks alone,
    so equal digests are no proof that files are equal.

    That of a file is remembered as `cache.content_hash` does it.

    Parameters
    ----------
    source : path, bytes-like or binary file object
        As `read_clip` takes it.

    Returns
    -------
    str

    Raises
    ------
    OSError
        If the file cannot be read, or is none, as a pipe.

    Examples
    --------
    >>> video_digest(b"any bytes")
    '00b3b3b25e1d448a'
    """
    path, data = resolve(source, 2**53)
    if data is not None:
        view = memoryview(data)
        return _digest(len(view), lambda start, n_bytes: view[start : start + n_bytes])
    found = file_stat(path)
    if found in _known:
        return _known[found]
    began_ns = time.time_ns()
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(f"{os.fsdecode(path)}: it is no regular file")
    with open(path, "rb", buffering=0) as file:
        made = _digest(
            found[2], lambda start, n_bytes: _read(file.fileno(), start, n_bytes)
        )
    if file_stat(path) == found and not is_fresh(found, began_ns):
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[found] = made
    return made


def _digest(size_bytes: int, read: Callable[[int, int], bytes | memoryview]) -> str:
    made = hashlib.sha256(b"%d:" % size_bytes)
    if size_bytes <= WHOLE_BYTES:
        made.update(read(0, size_bytes))
    else:
        for i in range(N_BLOCKS):
            start = i * (size_bytes - BLOCK_BYTES) // (N_BLOCKS - 1)
            made.update(read(start, BLOCK_BYTES))
    return made.hexdigest()[:_DIGITS]


def _read(fd: int, start: int, n_bytes: int) -> bytes:
    """Read bytes of a file, all of them: one call may return fewer."""
    parts = []
    while n_bytes:
        part = os.pread(fd, n_bytes, start)
        if not part:
            raise OSError(f"the file ends at byte {start}: it became shorter meanwhile")
        parts.append(part)
        start, n_bytes = start + len(part), n_bytes - len(part)
    return b"".join(parts)


def digest_of_file(path: str) -> str | None:
    """Return the digest of a file; None where whoever opens it says why it cannot."""
    try:
        return video_digest(path)
    except (OSError, ValueError):
        return None
