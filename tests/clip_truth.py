"""Check every frame of a folder of barcoded clips against a table of true numbers.

    python tests/clip_truth.py DIR TRUTH.json [NAME ...]

TRUTH.json: {file: {"n": frames, "ids": [number or null, ...], "w", "h": as displayed,
"rotation": [degrees counter-clockwise] or [], "stream": index}}; n = 0 marks a file
that must give a typed error. Prints a line for each failure and "passed/total"; exit
code 1 when one failed. A number of null, and a frame that is marked as damaged, prove
nothing.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
import barcode

from phasefusion import PhaseGrid
from phasefusion.errors import PhaseFusionError, VideoError
from phasefusion.video import Clip, Video, read_clips

MAX_BYTES = 2**28  # of one array of frames
Truth = dict[str, Any]


def turned(true: Truth) -> int:
    """Degrees clockwise by which the frames should have been turned."""
    return int(-true["rotation"][0]) % 360 if true["rotation"] else 0


def check_frames(
    what: str, frames: NDArray[np.uint8], wanted: NDArray[np.int64], true: Truth
) -> list[str]:
    """Failures among frames that should show ids[wanted], turned as they should be."""
    ids, turns = true["ids"], turned(true) // 90
    wrong = []
    for frame, index in zip(frames, wanted.tolist(), strict=True):
        want = ids[index]
        got = barcode.read(np.rot90(frame, turns))  # the strip is upright as stored
        if want is not None and got != want:
            wrong.append(f"{index}: {got} for {want}")
    if not wrong:
        return []
    return [f"{what}: {len(wrong)} of {len(wanted)} wrong ({', '.join(wrong[:5])})"]


def index_sets(n: int, most: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """All kinds of requests: in order, scattered, backwards, repeated, single."""
    rng = np.random.default_rng(n)
    midpoints = (2 * np.arange(24) + 1) * n // 48
    yield "24 midpoints", midpoints
    yield "backwards", midpoints[::-1].copy()
    yield "a random subset", np.sort(rng.choice(n, min(n, 24), replace=False))
    yield "shuffled with repeats", rng.integers(0, n, 24)
    yield "neighbours", np.clip(n // 2 + np.arange(-3, 4), 0, n - 1)
    yield "first and last", np.array([0, n - 1])
    yield "one", rng.integers(0, n, 1)
    yield "all in order", np.linspace(0, n - 1, min(n, most)).astype(np.int64)


def check_clip(what: str, clip: Clip, true: Truth) -> list[str]:
    sound = ~clip.missing
    return check_frames(what, clip.frames[sound], clip.indices[sound], true)


def check_facts(video: Video, true: Truth) -> list[str]:
    info = video.info
    facts = [
        ("frames", len(video), true["n"]),
        ("size", (info.width, info.height), (true["w"], true["h"])),
        ("rotation", info.rotation, turned(true)),
        ("stream", info.stream_index, true["stream"]),
        ("times", len(video.pts), true["n"]),
        ("times fall", bool((np.diff(video.pts) < 0).any()), False),
    ]
    return [f"{name}: {got} for {want}" for name, got, want in facts if got != want]


def check_video(path: Path, true: Truth) -> list[str]:
    """Everything that can be asked of one decodable clip."""
    failures = []
    with Video(path) as video, Video(path, threads=3) as threaded:
        failures += check_facts(video, true)
        if failures:
            return failures
        n = len(video)
        most = MAX_BYTES // (video.info.width * video.info.height * 3)
        for what, wanted in index_sets(n, most):
            try:
                frames = video.read(wanted)
            except VideoError as error:
                if "damaged: frames [" not in str(error):
                    raise
                continue  # announced with its frames; the grids below check the rest
            failures += check_frames(what, frames, wanted, true)
            same = np.array_equal(frames, threaded.read(wanted))
            if not same:
                failures.append(f"{what}: three threads give other frames")
    grids = [
        PhaseGrid(24),
        PhaseGrid(8, 3),
        PhaseGrid(5, 2, "left"),
        PhaseGrid(4, by="time"),
    ]
    for grid, clip in zip(grids, read_clips(path, grids, on_error="mark"), strict=True):
        failures += check_clip(f"{grid}", clip, true)
    return failures


def check_error(path: Path) -> list[str]:
    try:
        with Video(path) as video:
            return [f"opened with {len(video)} frames; a VideoError was due"]
    except VideoError as error:
        if str(path) not in str(error):
            return [f"the message does not name the file: {error}"]
        return []


def main() -> int:
    folder, table = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    names = sys.argv[3:] or sorted(table)
    passed = 0
    warnings.simplefilter("ignore")
    for name in names:
        true = table[name]
        began = time.perf_counter()
        path = folder / name
        try:
            failures = check_video(path, true) if true["n"] else check_error(path)
        except (PhaseFusionError, OSError) as error:
            failures = [f"{type(error).__name__}: {error}"]
        passed += not failures
        print(
            f"{'ok  ' if not failures else 'FAIL'} {name} "
            f"({time.perf_counter() - began:.1f} s)",
            *failures,
            sep="\n     ",
            flush=True,
        )
    print(f"{passed}/{len(names)}")
    return passed != len(names)


if __name__ == "__main__":
    sys.exit(main())
