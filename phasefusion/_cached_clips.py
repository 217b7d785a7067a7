"""Clips through a cache of frames: what is known is not decoded again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache as remembered
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._video_checks import check_room, most_frames
from phasefusion._video_fit import Fit, Pixels
from phasefusion._video_records import Clip, StreamInfo, VideoInfo
from phasefusion._video_source import NamedData, VideoSource, resolve
from phasefusion.cache import (
    Entry,
    FrameCache,
    Stat,
    content_hash,
    file_stat,
    is_fresh,
)
from phasefusion.grid import PhaseGrid

_FRACTIONS = ("fps", "time_base", "sar")


@remembered
def _decoder() -> dict[str, Any]:
    """Name what an entry depends on beside the file.

    That is the code that decodes, and what this release says of a video.
    """
    from phasefusion import __version__, _video

    with open(_video.__file__, "rb") as file:
        built = hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    return {
        "built": built,
        "ffmpeg": _video.ffmpeg_versions(),
        "machine": platform.machine(),
        "phasefusion": __version__,
        "facts": [f.name for record in (VideoInfo, StreamInfo) for f in fields(record)],
    }


def _info_to_facts(info: VideoInfo) -> dict[str, Any]:
    facts = {f.name: getattr(info, f.name) for f in fields(VideoInfo)}
    for name in _FRACTIONS:
        value = facts[name]
        facts[name] = None if value is None else [value.numerator, value.denominator]
    facts["streams"] = [
        {f.name: getattr(stream, f.name) for f in fields(StreamInfo)}
        for stream in info.streams
    ]
    return facts


def _info_of_facts(facts: dict[str, Any], path: str) -> VideoInfo:
    made = dict(facts, path=path)
    for name in _FRACTIONS:
        made[name] = None if made[name] is None else Fraction(*made[name])
    made["streams"] = tuple(StreamInfo(**stream) for stream in made["streams"])
    return VideoInfo(**made)


class _Keys:
    """The keys of one video: of the facts of its scan, and of frames of it."""

    def __init__(self, content: str, stream: int, limits: tuple[float, ...]) -> None:
        self._base = {"content": content, "stream": stream, "decoder": _decoder()}
        self._limits = limits

    def scan(self) -> str:
        """Of the scan; one within these limits says nothing of narrower ones."""
        return self._key({"limits": self._limits})

    def frames(
        self, info: VideoInfo, indices: NDArray[np.int64], fit: Fit, shape: Any
    ) -> str:
        made = {
            "stream_index": info.stream_index,
            "rotation": [info.rotation, info.mirrored],
            "n_frames": info.n_frames,
            "indices": indices.tolist(),
            "shape": list(shape),  # stands for the size, which may be a rule
        }
        for part in fields(fit):
            if part.name not in ("size", "device"):  # the pixels do not depend on it
                made[f"fit.{part.name}"] = repr(getattr(fit, part.name))
        return self._key(made)

    def _key(self, more: dict[str, Any]) -> str:
        return json.dumps({**self._base, **more}, sort_keys=True)


class _Scan:
    """What opening a video finds: its facts and the times of its frames."""

    def __init__(self, info: VideoInfo, pts: NDArray[np.int64]) -> None:
        self.info, self.pts = info, pts
        base = info.time_base
        self.times_s = pts * base.numerator / base.denominator

    def shapes(self, grids: Sequence[PhaseGrid], fit: Fit) -> list[Any]:
        """Shape a frame of each grid; more than the memory holds is refused."""
        info = self.info
        most = [most_frames(grid, info.n_frames) for grid in grids]
        shapes = [
            fit.shape(info.height, info.width, min(grid.budget, n))
            for grid, n in zip(grids, most, strict=True)
        ]
        check_room(info.path, list(zip(most, shapes, strict=True)), fit.dtype)
        return shapes

    def clip(self, grid: PhaseGrid, indices: NDArray[np.int64], frames: Pixels) -> Clip:
        """Make a clip of sound frames."""
        return Clip(
            frames=frames,
            indices=indices,
            times_s=self.times_s[indices],
            missing=np.zeros(indices.shape, np.bool_),
            grid=grid,
            info=self.info,
        )


class CachedClips:
    """One call of `read_clips` with a cache.

    Parameters
    ----------
    cache : FrameCache
    source : VideoSource
        As given; a file object is read here, once.
    stream : int
    limits : tuple
        As the reader takes them.
    """

    def __init__(
        self,
        cache: FrameCache,
        source: VideoSource,
        stream: int,
        limits: tuple[int, int, int, int, float],
    ) -> None:
        self._cache = cache
        self._path, self._data = resolve(source, limits[3])
        #: What to open when frames have to be decoded.
        self.source: VideoSource = source
        if self._data is not None:
            self.source = NamedData(str(self._path), self._data)
        max_packets, max_pixels, _, max_bytes, max_s = limits
        narrow = (max_packets, max_pixels, max_bytes, max_s)
        self._keys: _Keys | None = None
        self._stat: Stat | None = None
        self._began_ns = time.time_ns()
        try:
            if self._data is not None:
                content = content_hash(self._data)
            elif not os.path.isfile(self._path):
                return  # opening it says why
            else:
                self._stat = file_stat(self._path)
                if self._stat[2] > max_bytes:
                    return
                content = self._cache.content_hash(self._path)
        except OSError:
            return
        self._content = content
        self._keys = _Keys(content, stream, narrow)

    def scan(self) -> _Scan | None:
        """Return the facts of the video, if they are known."""
        if self._keys is None:
            return None
        entry = self._cache.get(self._keys.scan())
        if entry is None:
            return None
        name = os.fsdecode(self._path)
        return _Scan(_info_of_facts(dict(entry.facts), name), entry.arrays["pts"])

    def clips(
        self, scan: _Scan, grids: Sequence[PhaseGrid], fit: Fit
    ) -> list[Clip | None]:
        """Return the clip of each grid whose frames are known."""
        assert self._keys is not None
        shapes = scan.shapes(grids, fit)
        found: list[Clip | None] = []
        for grid, shape in zip(grids, shapes, strict=True):
            info = scan.info
            indices = grid._frames(scan.pts, info.end_pts, info.path)
            entry = self._cache.get(self._keys.frames(scan.info, indices, fit, shape))
            clip = None
            if entry is not None:
                clip = scan.clip(grid, indices, entry.arrays["frames"])
            found.append(clip)
        return found

    def keep(
        self,
        info: VideoInfo,
        pts: NDArray[np.int64],
        clips: Sequence[Clip],
        fit: Fit,
    ) -> None:
        """Keep what was decoded, unless the file changed under the decoder."""
        if self._keys is None or not self._is_unchanged():
            return
        entry = Entry({"pts": pts}, _info_to_facts(info))
        self._cache.put(self._keys.scan(), entry)
        for clip in clips:
            if clip.missing.any():
                continue  # damage is looked at afresh each time
            shape = clip.frames.shape[-3:]
            key = self._keys.frames(info, clip.indices, fit, shape)
            self._cache.put(key, Entry({"frames": clip.frames}))

    def _is_unchanged(self) -> bool:
        """Whether what was decoded is what was hashed."""
        if self._stat is None or self._data is not None:
            return True
        try:
            same = file_stat(self._path) == self._stat
            if same and is_fresh(self._stat, self._began_ns):
                same = content_hash(self._path) == self._content
        except OSError:
            return False
        return same


def as_cache(cache: FrameCache | str | os.PathLike[str]) -> FrameCache:
    """Return a cache as it is, or one of that folder."""
    return cache if isinstance(cache, FrameCache) else FrameCache(cache)


def read_through(
    cached: CachedClips,
    grids: Sequence[PhaseGrid],
    fit: Fit,
    warn: Callable[[VideoInfo], None],
    decode: Callable[
        [VideoSource, Sequence[PhaseGrid]],
        tuple[list[Clip], VideoInfo, NDArray[np.int64]],
    ],
) -> list[Clip]:
    """Read clips of all grids: known ones from the cache, others in one decode.

    `warn` says what opening the video would have said. `decode` opens a source and
    reads grids of it.
    """
    scan = cached.scan()
    found: list[Clip | None] = [None] * len(grids)
    if scan is not None:
        found = cached.clips(scan, grids, fit)
        if all(clip is not None for clip in found):
            warn(scan.info)
            return [clip for clip in found if clip is not None]
    missing = [k for k, clip in enumerate(found) if clip is None]
    clips, info, pts = decode(cached.source, [grids[k] for k in missing])
    if len(missing) < len(grids) and not (scan and np.array_equal(scan.pts, pts)):
        # Damage in these frames has moved those that were thought known.
        missing = list(range(len(grids)))
        clips, info, pts = decode(cached.source, grids)
    cached.keep(info, pts, clips, fit)
    for k, clip in zip(missing, clips, strict=True):
        found[k] = clip
    return [replace(clip, info=info) for clip in found if clip is not None]
