"""How long the videos of a question file are, by opening some of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from phasefusion.engine.units import size_bytes
from phasefusion.errors import VideoError
from phasefusion.video import Video

#: Videos that are opened; the others are judged by the size of their file.
PROBED = 100


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """What decoding a video depends on.

    Attributes
    ----------
    n_frames : int
    megapixels : float
        Of one frame.
    """

    n_frames: int
    megapixels: float = 1.0


def survey(paths: Iterable[str], *, probed: int = PROBED) -> dict[str, VideoFacts]:
    """Open some videos, spread over all of them, and judge the others by their size.

    A video that cannot be opened, or is not there, counts as one of no frames: it costs
    what opening it does.

    Parameters
    ----------
    paths : iterable of str
        Repeats are opened once.
    probed : int, default 100
        Videos to open at most.

    Returns
    -------
    dict
        Facts by path.
    """
    sizes = {path: size_bytes(path) for path in dict.fromkeys(paths)}
    there = sorted(path for path, size in sizes.items() if size)
    places = np.linspace(0, len(there) - 1, min(probed, len(there))).round()
    found = {there[int(i)]: _probe(there[int(i)]) for i in places}
    n_bytes = sum(sizes[path] for path in found)
    by_byte = sum(facts.n_frames for facts in found.values()) / max(1, n_bytes)
    pixels = [facts.megapixels for facts in found.values() if facts.n_frames]
    usual = float(np.median(pixels)) if pixels else 1.0
    return {
        path: found.get(path) or VideoFacts(round(by_byte * size), usual)
        for path, size in sizes.items()
    }


def _probe(path: str) -> VideoFacts:
    try:
        with Video(path) as video:
            info = video.info
            return VideoFacts(len(video), info.width * info.height / 1e6)
    except (VideoError, OSError):
        return VideoFacts(0, 0.0)
