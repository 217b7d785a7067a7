"""What phasefusion reads from each file of some folders, as JSON with digests.

    python tests/wheel/digests.py FOLDER ... > digests.json

Run by two installations, the outputs say whether they read the same. It needs nothing
but phasefusion, and lists the shared libraries that were used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from phasefusion import PhaseGrid, _video
from phasefusion.errors import PhaseFusionError
from phasefusion.subtitles import read_subtitles
from phasefusion.video import Video, ffmpeg_versions, read_clip

MAX_FRAMES = 400
CHUNK_FRAMES = 16


def frames(path: Path) -> dict[str, Any]:
    """Facts, times, and digests of frames: whole ones in order, and fitted ones."""
    with Video(path) as video:
        info = dataclasses.asdict(video.info)
        n = min(len(video), MAX_FRAMES)
        whole = hashlib.sha256()
        for start in range(0, n, CHUNK_FRAMES):
            wanted = range(start, min(start + CHUNK_FRAMES, n))
            whole.update(video.read(list(wanted), on_error="mark").tobytes())
        times = hashlib.sha256(video.pts.tobytes()).hexdigest()
    fit = {"size": (56, 56), "mean": [0.5] * 3, "std": [0.5] * 3}
    clip = read_clip(path, PhaseGrid(4, phases=3), on_error="mark", **fit)
    del info["path"]
    return {
        "info": {key: str(value) for key, value in info.items()},
        "times": times,
        "frames": whole.hexdigest(),
        "fitted": hashlib.sha256(clip.frames.tobytes()).hexdigest(),
        "missing": int(clip.missing.sum()),
    }


def subtitles(path: Path) -> list[tuple[float, str]]:
    """Start and text of every cue."""
    return [(cue.start_s, cue.text) for cue in read_subtitles(path)]


def outcome(read: Callable[[Path], Any], path: Path) -> Any:
    """What was read, or the kind of error."""
    try:
        return read(path)
    except PhaseFusionError as error:
        return type(error).__name__


def libraries() -> list[str]:
    """Paths of the shared libraries in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count("/") > 0}
    return sorted(path for path in paths if ".so" in path)


def main() -> None:
    warnings.simplefilter("ignore")
    files = {}
    for folder in map(Path, sys.argv[1:]):
        for path in sorted(p for p in folder.iterdir() if p.is_file()):
            files[f"{folder.name}/{path.name}"] = {
                "video": outcome(frames, path),
                "subtitles": outcome(subtitles, path),
            }
    made = {
        "numpy": numpy.__version__,
        "versions": ffmpeg_versions(),
        "parts": _video.ffmpeg_parts(),
        "libraries": libraries(),
        "files": files,
    }
    json.dump(made, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
