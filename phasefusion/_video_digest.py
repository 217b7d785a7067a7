"""Which file a video was: a digest that is cheap, so that every pass can have it."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from phasefusion._video_source import VideoSource, resolve
from phasefusion._wording import counted
from phasefusion.cache import Stat, file_stat, is_fresh
from phasefusion.errors import RecordError

if TYPE_CHECKING:
    from phasefusion.datasets import Item

#: Of a file up to this size all bytes count, of a larger one blocks.
WHOLE_BYTES = 2**20
BLOCK_BYTES = 2**16
N_BLOCKS = 16
_DIGITS = 16
#: Videos, and questions of one, that a message names.
_SHOWN = 5
_SHOWN_QUESTIONS = 3

#: Benchmark and id of a question.
Key: TypeAlias = tuple[str, str]

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
            found[2], lambda start, n_bytes: os.pread(file.fileno(), n_bytes, start)
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


def digest_of_file(path: str) -> str | None:
    """Return the digest of a file; None where whoever opens it says why it cannot."""
    try:
        return video_digest(path)
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class KnownVideos:
    """The digest that each video of a run had when passes were made of it."""

    digest: dict[str, str] = field(default_factory=dict)

    def check(self, video: str, digest: str | None) -> None:
        """Take the digest of a video; RecordError if it had another one before."""
        known = self.digest.setdefault(video, digest) if digest else None
        if known != digest:
            raise RecordError(
                f"{video}: is another file than the one that passes of this run were "
                f"made of: digest {known} -> {digest}; put the old file back, or "
                "choose another folder; what was scored before is on disk"
            )


def known_videos(
    folder: object, recorded: Mapping[Key, str], items: Iterable[Item]
) -> KnownVideos:
    """Return the videos of a run's passes, if they are the same files now.

    Parameters
    ----------
    folder : path
        The run, for the message.
    recorded : mapping
        The digest in the passes of a question.
    items : iterable of Item
        The questions, with what their videos are now.

    Raises
    ------
    RecordError
        Naming the videos that are other files, and their questions. One that is not
        there is said where it is opened.
    """
    by_video: dict[str, dict[str, str]] = {}
    for item in items:
        digest = recorded.get((item.benchmark, item.question_id))
        if digest is not None:
            by_video.setdefault(item.video, {})[item.question_id] = digest
    found, changed = KnownVideos(), []
    for video, of_question in by_video.items():
        now = digest_of_file(video)
        others = [name for name, then in of_question.items() if now not in (None, then)]
        if others:
            names = ", ".join(others[:_SHOWN_QUESTIONS])
            names += ", ..." if len(others) > _SHOWN_QUESTIONS else ""
            changed.append(
                f"{video}: digest {of_question[others[0]]} -> {now}, "
                f"{counted(len(others), 'question')}: {names}"
            )
        found.digest[video] = now or next(iter(of_question.values()))
    if changed:
        more = ["..."] if len(changed) > _SHOWN else []
        is_one = len(changed) == 1
        raise RecordError(
            f"{folder}: {counted(len(changed), 'video')} "
            f"{'is' if is_one else 'are'} not the {'file' if is_one else 'files'} that "
            f"passes of this run were made of; put the old "
            f"{'file' if is_one else 'files'} back, or choose another folder:\n  "
            + "\n  ".join(changed[:_SHOWN] + more)
        )
    return found
