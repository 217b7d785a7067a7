"""A bounded folder of decoded frames that several processes may share.

Entries are found by a key that holds everything that decides their content, above all a
hash of the whole video; a file that changes gets other keys. What is read is checked
against a checksum and otherwise decoded again, so an entry that was torn, damaged or
evicted at the wrong moment is never more than a miss.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._checks import warn
from phasefusion._paths import path_of
from phasefusion._video_checks import positive
from phasefusion.errors import FallbackWarning

__all__ = ["Entry", "FrameCache", "content_hash"]

_MAGIC = b"phasefusion frames 1\n"
_SUFFIX = ".frames"
_UNFINISHED = ".part"
#: Files that a killed process left half written go after so long.
_STALE_S = 3600.0
#: A file may change without its time moving on within so long (as for version control).
_SAME_TIME_NS = 2_000_000_000
_CHECKSUM_BYTES = 32
_CHUNK_BYTES = 2**20
_MAX_HEADER_BYTES = 2**28

#: From here on reading a whole file takes longer than reading an entry.
_LARGE_BYTES = 2**24

Stat: TypeAlias = tuple[int, int, int, int, int]

_known: dict[Stat, str] = {}
_MAX_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept under one key.

    Attributes
    ----------
    arrays : dict of ndarray
    facts : dict
        Plain values, as JSON keeps them.
    """

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def file_stat(path: str | os.PathLike[str] | os.PathLike[bytes]) -> Stat:
    """Tell a file from another and from itself after a change."""
    found = os.stat(path)
    return (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,  # the one time that nobody can set back
    )


def is_fresh(stat: Stat, now_ns: int) -> bool:
    """Whether a file changed so lately that another change could bear that time."""
    return max(stat[3:]) >= now_ns - _SAME_TIME_NS


def _hash(data: object) -> Any:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES)  # type: ignore[arg-type]


def content_hash(
    source: str | os.PathLike[str] | os.PathLike[bytes] | memoryview | bytearray,
) -> str:
    """Hash all bytes of a file, or data, to hexadecimal digits.

    That of a file is remembered for as long as its device, inode, size and times of
    change stay, but not if it was changed so lately that the next change could bear the
    same times.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    if isinstance(source, memoryview | bytearray):
        return str(_hash(source).hexdigest())
    stat = file_stat(source)
    if stat in _known:
        return _known[stat]
    began_ns = time.time_ns()
    made = _hash(b"")
    with open(source, "rb", buffering=0) as file:
        while part := file.read(_CHUNK_BYTES):
            made.update(part)
    digest = str(made.hexdigest())
    if file_stat(source) == stat and not is_fresh(stat, began_ns):
        _remember(stat, digest)
    return digest


def _remember(stat: Stat, digest: str) -> str:
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[stat] = digest
    return digest


def _packed(key: str, entry: Entry) -> list[bytes | memoryview]:
    """Lay an entry out as the parts of a file, the checksum of the others last."""
    arrays = {name: np.asarray(a, order="C") for name, a in entry.arrays.items()}
    about = {
        "key": key,
        "arrays": [[n, a.dtype.str, list(a.shape)] for n, a in arrays.items()],
        "facts": dict(entry.facts),
    }
    header = json.dumps(about, allow_nan=False).encode()
    parts: list[bytes | memoryview] = [
        _MAGIC,
        len(header).to_bytes(8, "little"),
        header,
        *(a.reshape(-1).view(np.uint8).data for a in arrays.values() if a.size),
    ]
    made = _hash(b"")
    for part in parts:
        made.update(part)
    return [*parts, made.digest()]


def _unpacked(key: str, data: bytearray) -> Entry | None:
    """Read an entry from the bytes of a file; None when they are no whole one."""
    body = memoryview(data)[:-_CHECKSUM_BYTES]
    if (
        len(data) < len(_MAGIC) + 8 + _CHECKSUM_BYTES
        or data[: len(_MAGIC)] != _MAGIC
        or _hash(body).digest() != data[-_CHECKSUM_BYTES:]
    ):
        return None
    at = len(_MAGIC) + 8
    n_header = int.from_bytes(data[len(_MAGIC) : at], "little")
    if n_header > min(len(body) - at, _MAX_HEADER_BYTES):
        return None
    about = json.loads(bytes(body[at : at + n_header]))
    if about["key"] != key:
        return None
    at += n_header
    arrays = {}
    for name, code, shape in about["arrays"]:
        dtype = np.dtype(code)
        n_items = math.prod(shape)
        made = np.empty(shape, dtype)
        if n_items:
            made.reshape(-1).view(np.uint8)[:] = np.frombuffer(
                body, np.uint8, n_items * dtype.itemsize, at
            )
        at += n_items * dtype.itemsize
        arrays[name] = made
    return Entry(arrays, about["facts"])


class FrameCache:
    """A folder of decoded frames, used by ``read_clips(..., cache=...)``.

    Any number of processes and threads may use one folder at once. Entries are written
    beside the folder's and then renamed, those used longest ago go first when the
    folder is full, and every entry is checked as it is read.

    Parameters
    ----------
    folder : str or path-like
        Made when something is first kept.
    max_bytes : int, default 2**34
        Bytes of all entries together (16 GiB). Processes that write at the same moment
        may go beyond it by what they are writing.

    Examples
    --------
    >>> import tempfile
    >>> cache = FrameCache(tempfile.mkdtemp())
    >>> cache.put("key", Entry({"frames": np.zeros((2, 3), np.uint8)}))
    >>> cache.get("key").arrays["frames"].shape
    (2, 3)
    >>> cache.get("another") is None
    True
    """

    __slots__ = ("_folder", "_known_bytes", "_max_bytes")

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_bytes: SupportsIndex = 2**34,
    ) -> None:
        self._folder = str(path_of("cache", folder, "a folder of frames"))
        self._max_bytes = positive("max_bytes", max_bytes)
        self._known_bytes: int | None = None  # None: the folder was not looked at yet

    @property
    def folder(self) -> str:
        """Where the entries are."""
        return self._folder

    @property
    def max_bytes(self) -> int:
        """Bytes of all entries together, at most."""
        return self._max_bytes

    def __repr__(self) -> str:
        return f"FrameCache({self._folder!r}, max_bytes={self._max_bytes})"

    def content_hash(self, path: str | os.PathLike[str] | os.PathLike[bytes]) -> str:
        """Hash a file as `content_hash` does, or take the hash that is kept of it.

        That of a large file is an entry, too, so that another process does not read it
        all to find its frames. It is kept under device, inode, size and times of
        change, and not of a file that was changed just now.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        stat = file_stat(path)
        is_kept = stat[2] >= _LARGE_BYTES and not is_fresh(stat, time.time_ns())
        if not is_kept or stat in _known:
            return content_hash(path)
        key = f"hash of {json.dumps(stat)}"
        entry = self.get(key)
        if entry is not None:
            return _remember(stat, str(entry.facts["hash"]))
        digest = content_hash(path)
        if stat in _known:  # it did not change meanwhile
            self.put(key, Entry({}, {"hash": digest}))
        return digest

    def _path(self, key: str) -> str:
        name = hashlib.blake2b(key.encode(), digest_size=20).hexdigest()
        return os.path.join(self._folder, name + _SUFFIX)

    def get(self, key: str) -> Entry | None:
        """Return what is kept under a key, or None.

        The arrays are the caller's own. An entry that is not whole is removed.
        """
        path = self._path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                data = bytearray(os.fstat(file.fileno()).st_size)
                n_read = 0
                while part := file.readinto(memoryview(data)[n_read:]):
                    n_read += part
        except OSError:
            return None
        found = _unpacked(key, data) if n_read == len(data) else None
        try:
            if found is None:
                os.unlink(path)
            else:
                os.utime(path)  # used just now
        except OSError:
            pass  # evicted meanwhile, or a folder that may only be read
        return found

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry under a key, in place of what was there.

        One larger than the whole cache is not kept.

        Warns
        -----
        FallbackWarning
            If it cannot be written; nothing else is lost.
        """
        parts = _packed(key, entry)
        n_bytes = sum(len(part) for part in parts)
        if n_bytes > self._max_bytes:
            return
        path = self._path(key)
        part_path = f"{path}.{os.getpid()}-{os.urandom(8).hex()}{_UNFINISHED}"
        try:
            os.makedirs(self._folder, exist_ok=True)
            self._make_room(n_bytes)
            try:
                with open(part_path, "xb", buffering=0) as file:
                    for part in parts:
                        _write(file, part)
                os.replace(part_path, path)
            except BaseException:
                _remove(part_path)
                raise
        except OSError as error:
            warn(
                f"{self._folder}: frames are not cached: {error.strerror or error}",
                FallbackWarning,
            )

    def _make_room(self, n_bytes: int) -> None:
        """Remove what was used longest ago until so many bytes more fit."""
        known = self._known_bytes
        if known is not None and known + n_bytes <= self._max_bytes:
            self._known_bytes = known + n_bytes
            # others write too: look again after a sixteenth of the whole
            if (known + n_bytes) // (self._max_bytes // 16 + 1) == known // (
                self._max_bytes // 16 + 1
            ):
                return
        entries = self._entries()
        total = sum(size for _, size, _ in entries)
        if total + n_bytes > self._max_bytes:
            for _, size, path in sorted(entries):
                _remove(path)
                total -= size
                if total + n_bytes <= 0.9 * self._max_bytes:
                    break
        self._known_bytes = total + n_bytes

    def _entries(self) -> list[tuple[float, int, str]]:
        """List time of use, size and path of entries; stale parts are removed."""
        entries = []
        now = time.time()
        with os.scandir(self._folder) as folder:
            for item in folder:
                is_part = item.name.endswith(_UNFINISHED)
                if not is_part and not item.name.endswith(_SUFFIX):
                    continue
                try:
                    found = item.stat(follow_symlinks=False)
                except OSError:
                    continue
                # a clock that was set back leaves parts that are of the future
                if is_part and abs(now - found.st_mtime) > _STALE_S:
                    _remove(item.path)
                elif not is_part:
                    entries.append((found.st_mtime, found.st_size, item.path))
        return entries


def _write(file: Any, part: bytes | memoryview) -> None:
    view = memoryview(part)
    while view:
        view = view[file.write(view) :]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # somebody else did
