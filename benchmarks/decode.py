"""Frames of a video: our time against a plain decode of every packet, and the peers.

    python benchmarks/decode.py [VIDEO ...]

Without arguments two clips are made with the ffmpeg program: 720p with B frames, and a
long small one. Each contender runs in turn, several times; medians are compared. The
goals are ratios, so the machine matters little. Exit code 1 when a goal is missed.

* a plain decode: every packet through the same library, one thread, no pixels kept
* PyAV, decord, torchcodec: only when they can be imported
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from phasefusion import PhaseGrid
from phasefusion.video import Video, read_clip

ROUNDS = int(os.environ.get("PHASEFUSION_BENCH_ROUNDS", "5"))
Contenders = dict[str, Callable[[], object]]
GOALS = {  # contender: the highest ratio of our time to its time
    "plain decode": 0.6,  # what is not reference pictures, and the conversion
    "plain decode, 8 frames": 0.5,
    "three calls": 1 / 1.9,
    "PyAV": 1 / 1.5,
    "decord": 1 / 1.5,
    "torchcodec": 1 / 1.5,
}


def make_clip(path: Path, size: str, seconds: int) -> Path:
    source = f"testsrc2=s={size}:r=25:d={seconds},noise=alls=6:allf=t:all_seed=3"
    options = ["-c:v", "libx264", "-preset", "fast", "-crf", "26", "-bf", "3"]
    options += ["-g", "250", "-pix_fmt", "yuv420p"]
    command = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", source, *options]
    subprocess.run([*command, str(path)], check=True)
    return path


def medians(contenders: Contenders) -> dict[str, float]:
    """Seconds of each, run in turns so that a busy machine hits all alike.

    Processor seconds, since all but one use a single thread; for that one, the wall.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            clock = time.perf_counter if "threads" in name else time.process_time
            began = clock()
            run()
            seconds[name].append(clock() - began)
    return {name: statistics.median(times) for name, times in seconds.items()}


def plain_decode(path: Path) -> None:
    """Every packet through the decoder, pictures thrown away."""
    with Video(path) as video:
        video._reader.recount()


def peers(path: Path, indices: list[int]) -> Contenders:
    """Collect the usual way to get these frames with each peer that is installed."""
    found: Contenders = {}
    try:
        import av

        def by_av() -> object:
            wanted = set(indices)
            with av.open(str(path)) as container:
                frames = enumerate(container.decode(video=0))
                return [f.to_ndarray(format="rgb24") for i, f in frames if i in wanted]

        found["PyAV"] = by_av
    except ImportError:
        pass
    try:
        import decord

        def by_decord() -> object:
            reader = decord.VideoReader(str(path), num_threads=1)
            return reader.get_batch(indices).asnumpy()

        found["decord"] = by_decord
    except ImportError:
        pass
    try:
        from torchcodec.decoders import VideoDecoder

        def by_torchcodec() -> object:
            decoder = VideoDecoder(str(path), num_ffmpeg_threads=1)
            return decoder.get_frames_at(indices).data

        found["torchcodec"] = by_torchcodec
    except (ImportError, RuntimeError, OSError):
        pass
    return found


def bench(path: Path) -> bool:
    """Whether every goal is met on this video."""
    grid, sparse = PhaseGrid(8, 3), PhaseGrid(8)
    views = [grid.view(s) for s in range(3)]
    with Video(path) as video:
        indices = sorted(grid.indices(len(video)).ravel().tolist())
        print(f"{video!r}")
    ours: Contenders = {
        "24 frames": lambda: read_clip(path, grid),
        "24 frames, 2 threads": lambda: read_clip(path, grid, threads=2),
        "8 frames": lambda: read_clip(path, sparse),
    }
    others: Contenders = {
        "plain decode": lambda: plain_decode(path),
        "three calls": lambda: [read_clip(path, view) for view in views],
        **peers(path, indices),
    }
    seconds = medians({**ours, **others})
    seconds["plain decode, 8 frames"] = seconds["plain decode"]
    good = True
    for name in ours:
        print(f"  {'ours, ' + name:<26} {seconds[name]:8.3f} s")
    for name in [n for n in GOALS if n in seconds]:
        mine = seconds["8 frames" if name.endswith("8 frames") else "24 frames"]
        ratio = mine / seconds[name]
        met = ratio <= GOALS[name]
        good = good and met
        print(
            f"  {name:<26} {seconds[name]:8.3f} s   ours takes {ratio:.2f} of it, "
            f"goal {GOALS[name]:.2f} {'met' if met else 'MISSED'}"
        )
    return good


def main() -> int:
    warnings.simplefilter("ignore")
    paths = [Path(name) for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        if not paths:
            paths = [
                make_clip(Path(folder) / "720p.mp4", "1280x720", 24),
                make_clip(Path(folder) / "small.mp4", "480x272", 90),
            ]
        results = [bench(path) for path in paths]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
