"""Memory, threads and forks of one read: what it holds, and what it leaves behind."""

from __future__ import annotations

import inspect
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _report import Goal, Row
from _worker import Worker

MIB = 2**20
SIZE = (448, 448)
N_FRAMES = 24
MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
# What a decoder may hold a thread: references (4 at this level), reordering (2), the
# picture being decoded, the one handed out and two that the pool keeps, each of 12 bits
# a pixel with a tenth for borders and motion vectors.
N_POOL_PICTURES = 10
POOL_BYTES_PER_PX = 1.65


def fused(
    path: str,
    threads: int,
    size: tuple[int, int] = SIZE,
    mean: Any = MEAN,
    std: Any = STD,
) -> Any:
    """24 frames as float32 (24, 3, h, w) in the one call that there is for it."""
    from phasefusion import PhaseGrid, video
    from phasefusion.frames import resize_normalize

    grid = PhaseGrid(N_FRAMES)
    if "size" in inspect.signature(video.read_clip).parameters:
        clip: Any = video.read_clip(
            path, grid, size=size, mean=mean, std=std, threads=threads
        )
        return clip.frames[0]
    frames = video.read_clip(path, grid, threads=threads).frames[0]
    return resize_normalize(frames, size, mean=mean, std=std)


def status_bytes(name: str) -> int:
    """A line of this process's memory figures."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


class Process:
    """In its own process: one read, its memory and its threads looked at."""

    def read(self, path: str, threads: int) -> tuple[int, int]:
        """Bytes above what was there and the output at the peak; threads left."""
        warnings.simplefilter("ignore")
        from phasefusion import tinyvlm

        clips = sorted((Path(tinyvlm.__file__).parent / "clips").glob("*.mp4"))
        fused(str(clips[0]), threads)  # the code is in memory now
        before = status_bytes("VmRSS")
        n_thread = len(os.listdir("/proc/self/task"))
        Path("/proc/self/clear_refs").write_text("5")  # begins a new peak
        out = fused(path, threads)
        above = status_bytes("VmHWM") - before - out.nbytes
        return above, len(os.listdir("/proc/self/task")) - n_thread

    def fork(self, path: str) -> str:
        """What a child sees that reads with the video its parent has open."""
        from phasefusion.errors import VideoError
        from phasefusion.video import Video

        warnings.simplefilter("ignore")
        with Video(path, threads=2) as video:
            mine = video.read([3, 200])
            child = os.fork()
            if child == 0:
                try:
                    same = np.array_equal(video.read([3, 200]), mine)
                    os._exit(0 if same else 2)
                except VideoError:
                    os._exit(1)
                finally:
                    os._exit(3)
            for _ in range(200):
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    answer = ["frames", "error", "wrong frames"]
                    code = os.waitstatus_to_exitcode(status)
                    return answer[code] if code in range(3) else f"exit {code}"
                time.sleep(0.1)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "HANG"


def rows(path: Path) -> list[Row]:
    """Peak memory at one and two threads; threads left; hangs after a fork."""
    from _clips import CLIPS

    clip = CLIPS[path.name]
    n_px = clip.width_px * clip.height_px
    packets = path.stat().st_size
    made = []
    left = []
    for threads in (1, 2):
        with Worker(Process) as worker:
            above, n_left = worker.call("read", str(path), threads)
        left.append(n_left)
        native, pool = 2 * 3 * n_px, int(N_POOL_PICTURES * POOL_BYTES_PER_PX * n_px)
        limit = threads * (native + pool) + packets
        made.append(
            Row(
                f"memory/{threads}",
                f"Peak memory above input and output, {N_FRAMES} frames of "
                f"{clip.title} to {SIZE[0]} px, threads: {threads}",
                above / MIB,
                "MiB",
                goal=Goal(round(limit / MIB, 1), None, most=True),
                detail=f"limit: {threads} x (two native frames {native / MIB:.1f} + "
                f"decoder pool {pool / MIB:.1f}) + packets {packets / MIB:.1f} MiB",
            )
        )
    none = Goal(0, None, most=True)
    made.append(Row("threads", "Threads alive after return", max(left), "", goal=none))
    with Worker(Process) as worker:
        seen = worker.call("fork", str(path))
    made.append(
        Row(
            "fork",
            "Hangs of a forked child that reads with its parent's video",
            float(seen == "HANG"),
            "",
            goal=none,
            detail=f"it gets: {seen}",
            wrong=seen not in ("frames", "error"),
        )
    )
    return made
