"""Time of resize + normalise against Pillow with NumPy and against torch.

Every round runs all candidates on the same frames one after the other; a ratio is the
median over the rounds of peer time / our time, CPU seconds of one thread. Before
anything is timed, our pixels are compared with Pillow's and our floats with NumPy's.

Goals: resize + normalise at 1280x720 to 448x448 at least 5x (AVX2) and 9x (AVX-512)
as fast as Pillow and NumPy; at least 1.0x and 1.6x as fast as torch at every size but
the last two, which are there for information. torch's uint8 result is not exact: its
weights have 16 bits where ours, as Pillow's, have 22. Exit code 1 when a goal is
missed.

    python benchmarks/resize.py [--rounds 15] [--frames 8]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from phasefusion import frames as pf

SIZES = [  # source, destination, both (height, width)
    ((720, 1280), (448, 448)),
    ((360, 640), (448, 448)),
    ((1080, 1920), (448, 448)),
    ((720, 1280), (224, 224)),
    ((1080, 1920), (384, 384)),
    ((1280, 720), (448, 448)),
    ((2160, 3840), (448, 448)),
]
N_GOAL_SIZES = 5
MEAN = np.array([0.48145466, 0.4578275, 0.40821073], np.float32)
STD = np.array([0.26862954, 0.26130258, 0.27577711], np.float32)
PILLOW_GOAL = {"avx2": 5.0, "avx512": 9.0}  # at SIZES[0]
TORCH_GOAL = {"avx2": 1.0, "avx512": 1.6}  # at the first N_GOAL_SIZES

Batch = np.ndarray[Any, np.dtype[np.uint8]]


def pillow_resize(frames: Batch, size: tuple[int, int]) -> list[Image.Image]:
    how = Image.Resampling.BICUBIC
    return [Image.fromarray(frame).resize(size[::-1], how) for frame in frames]


def pillow_numpy(frames: Batch, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    out = np.empty((len(frames), 3, *size), np.float32)
    for i, image in enumerate(pillow_resize(frames, size)):
        planes = np.asarray(image).transpose(2, 0, 1)
        scaled = planes * np.float32(1 / 255)
        out[i] = (scaled - MEAN[:, None, None]) / STD[:, None, None]
    return out


def torch_candidate() -> Callable[[Batch, tuple[int, int]], Any] | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    mean = torch.from_numpy(MEAN)[:, None, None]
    std = torch.from_numpy(STD)[:, None, None]

    def run(frames: Batch, size: tuple[int, int]) -> torch.Tensor:
        pixels = torch.from_numpy(frames).permute(0, 3, 1, 2)  # channels last: fastest
        small = torch.nn.functional.interpolate(
            pixels, size, mode="bicubic", antialias=True
        )
        planes = small.to(torch.float32, memory_format=torch.contiguous_format)
        return planes.mul_(1 / 255).sub_(mean).div_(std)

    return run


def our_candidate(level: str) -> Callable[[Batch, tuple[int, int]], Any]:
    def run(frames: Batch, size: tuple[int, int]) -> Any:
        return pf._resize_normalize(
            frames,
            size,
            mean=MEAN,
            std=STD,
            filter="bicubic",
            first_pass="auto",
            out=None,
            threads=1,
            level=level,
        )

    return run


def levels_here() -> list[str]:
    names = ["scalar", "avx2", "avx512"]
    return names[: names.index(pf.cpu_level()) + 1]


def check(frames: Batch, size: tuple[int, int]) -> None:
    """Stop when one value differs from Pillow and NumPy."""
    expected = pillow_numpy(frames, size)
    for level in levels_here():
        if not np.array_equal(our_candidate(level)(frames, size), expected):
            sys.exit(f"{level} differs from Pillow {Image.__version__} at {size}")


def measure(
    candidates: dict[str, Callable[[Batch, tuple[int, int]], Any]],
    frames: Batch,
    size: tuple[int, int],
    rounds: int,
) -> dict[str, np.ndarray[Any, Any]]:
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            start = time.thread_time()
            run(frames, size)
            seconds[name].append((time.thread_time() - start) / len(frames))
    return {name: np.array(values) for name, values in seconds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--frames", type=int, default=8)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    candidates: dict[str, Callable[[Batch, tuple[int, int]], Any]] = {
        "pillow resize": pillow_resize,
        "pillow+numpy": pillow_numpy,
    }
    torch = torch_candidate()
    if torch is None:
        print("torch is not installed: its goals are not checked")
    else:
        candidates["torch u8+norm"] = torch
    candidates |= {level: our_candidate(level) for level in levels_here()}
    peers = [name for name in candidates if name not in levels_here()]

    missed = []
    for source, size in SIZES:
        frames = rng.integers(0, 256, (options.frames, *source, 3), np.uint8)
        check(frames[:1], size)
        seconds = measure(candidates, frames, size, options.rounds)
        print(f"\n{source[1]}x{source[0]} -> {size[1]}x{size[0]}, ms a frame")
        for name, values in seconds.items():
            print(f"  {name:14} {1e3 * np.median(values):7.2f}", end="")
            if name in peers:
                print()
                continue
            ratio = {p: float(np.median(seconds[p] / values)) for p in peers}
            print("".join(f"   {ratio[p]:5.2f}x {p}" for p in peers))
            goals = {}
            if (source, size) in SIZES[:N_GOAL_SIZES]:
                goals["torch u8+norm"] = TORCH_GOAL.get(name, 0.0)
            if (source, size) == SIZES[0]:
                goals["pillow+numpy"] = PILLOW_GOAL.get(name, 0.0)
            missed += [
                f"{name} at {source}->{size}: {ratio[peer]:.2f}x {peer}, goal {goal}x"
                for peer, goal in goals.items()
                if peer in ratio and ratio[peer] < goal
            ]
    print("\n" + "\n".join(["goals missed:", *missed] if missed else ["all goals met"]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
