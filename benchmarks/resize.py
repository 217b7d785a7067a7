"""Time of resize + normalise against Pillow with NumPy, torch, and a copy of the bytes.

Every round runs all contenders on the same frames one after the other; a ratio is the
median over the rounds of peer time / our time, CPU seconds of one thread. The results
that were timed are compared in the same run: our floats must be those of Pillow and
NumPy bit for bit. torch's uint8 result is not exact, its weights have 16 bits where
ours, as Pillow's, have 22; it may be off by two levels.

The bound is what it takes to read the frames and to write the floats at all: a copy of
the frame, and one of as many floats, into memory that is there. Against it ours writes
into memory that is there too (out=), and the ratio is our time / that of the copies,
which must not exceed its goal; every other ratio must reach its goal at every size.
Exit code 1 when a goal is missed.

    python benchmarks/resize.py [--rounds 15] [--frames 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from PIL import Image

from phasefusion import frames as pf

SIZES = [  # source, destination, both (height, width)
    ((720, 1280), (448, 448)),
    ((360, 640), (448, 448)),
    ((1080, 1920), (448, 448)),
    ((720, 1280), (224, 224)),
    ((1080, 1920), (384, 384)),
    ((720, 1280), (560, 1008)),  # multiples of 28 and 56, as Qwen's processors choose
    ((1080, 1920), (392, 728)),
    ((1280, 720), (448, 448)),  # vertical pass first
    ((2160, 3840), (448, 448)),
]
MEAN = np.array([0.48145466, 0.4578275, 0.40821073], np.float32)
STD = np.array([0.26862954, 0.26130258, 0.27577711], np.float32)
TORCH_LEVELS = 2.5  # its weights are coarser: two levels, and a rounding
BOUND = "copy of source and result"
GOALS = {  # instruction set: peer: ratio at least, of the bound at most
    "avx2": {"Pillow + NumPy": 5.0, "torch uint8": 1.0},
    "avx512": {"Pillow + NumPy": 9.0, "torch uint8": 1.6, BOUND: 2.2},
}

Batch = np.ndarray[Any, np.dtype[np.uint8]]
Planes = np.ndarray[Any, np.dtype[np.float32]]
Size = tuple[int, int]
Contender = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One ratio: medians in milliseconds a frame, and its range over the rounds."""

    name: str
    ours_ms: float
    peer: str
    peer_ms: float
    ratio: float
    low: float
    high: float
    goal: float | None
    at_most: bool
    ok: bool


def pillow_numpy(frames: Batch, size: Size) -> Planes:
    out = np.empty((len(frames), 3, *size), np.float32)
    for i, frame in enumerate(frames):
        image = Image.fromarray(frame).resize(size[::-1], Image.Resampling.BICUBIC)
        scaled = np.asarray(image).transpose(2, 0, 1) * np.float32(1 / 255)
        out[i] = (scaled - MEAN[:, None, None]) / STD[:, None, None]
    return out


def torch_contender(frames: Batch, size: Size) -> Contender | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    mean = torch.from_numpy(MEAN)[:, None, None]
    std = torch.from_numpy(STD)[:, None, None]

    def run() -> Planes:
        pixels = torch.from_numpy(frames).permute(0, 3, 1, 2)  # channels last: fastest
        small = torch.nn.functional.interpolate(
            pixels, size, mode="bicubic", antialias=True
        )
        planes = small.to(torch.float32, memory_format=torch.contiguous_format)
        planes.mul_(1 / 255).sub_(mean).div_(std)
        result: Planes = planes.numpy()
        return result

    return run


def our_contender(
    frames: Batch, size: Size, level: Any, out: Planes | None = None
) -> Contender:
    return lambda: pf._resize_normalize(
        frames,
        size,
        mean=MEAN,
        std=STD,
        filter="bicubic",
        first_pass="auto",
        out=out,
        threads=1,
        level=level,
    )


def levels_here() -> list[str]:
    names = ["scalar", "avx2", "avx512"]
    return names[: names.index(pf.cpu_level()) + 1]


def contenders(frames: Batch, size: Size) -> dict[str, Contender]:
    out = np.zeros((len(frames), 3, *size), np.float32)
    spare_frame, spare_planes = np.zeros_like(frames[0]), np.zeros_like(out[0])

    def copy() -> None:
        for frame, planes in zip(frames, out, strict=True):
            np.copyto(spare_frame, frame)
            np.copyto(planes, spare_planes)

    found: dict[str, Contender] = {"Pillow + NumPy": lambda: pillow_numpy(frames, size)}
    by_torch = torch_contender(frames, size)
    if by_torch is not None:
        found["torch uint8"] = by_torch
    for level in levels_here():
        found[level] = our_contender(frames, size, level)
    found[BOUND] = copy
    for level in levels_here():
        found[f"{level}, out="] = our_contender(frames, size, level, out)
    return found


def check(name: str, result: Any, expected: Planes, across: Planes) -> None:
    """Stop when a result that was timed is not what it should be."""
    if name == "torch uint8":
        off = np.abs(result - across).max(axis=(0, 2, 3)) * STD * 255
        if off.max() > TORCH_LEVELS:
            sys.exit(f"torch is off by {off.max():.1f} levels: not the same job")
    elif result is not None and not np.array_equal(result, expected):
        sys.exit(f"{name} differs from Pillow {PIL.__version__} and NumPy")


def measure(
    runs: dict[str, Contender], rounds: int, frames: Batch, size: Size
) -> dict[str, Any]:
    """Seconds a frame of each, run in turns; every result is checked."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    expected = pillow_numpy(frames, size)
    across = pf.resize_normalize(  # torch always begins with the horizontal pass
        frames, size, mean=MEAN, std=STD, first_pass="horizontal"
    )
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.thread_time()
            result = run()
            seconds[name].append((time.thread_time() - start) / len(frames))
            check(name, result, expected, across)
            del result
    return {name: np.array(values) for name, values in seconds.items()}


def compare(name: str, level: str, seconds: dict[str, Any]) -> list[Row]:
    rows = []
    for peer in ("Pillow + NumPy", "torch uint8", BOUND):
        if peer not in seconds:
            continue
        at_most = peer == BOUND
        ours = seconds[f"{level}, out=" if at_most else level]
        ratios = ours / seconds[peer] if at_most else seconds[peer] / ours
        ratio = float(np.median(ratios))
        goal = GOALS.get(level, {}).get(peer)
        met = goal is None or (ratio <= goal if at_most else ratio >= goal)
        rows.append(
            Row(
                f"{name}, {level}",
                float(1e3 * np.median(ours)),
                peer,
                float(1e3 * np.median(seconds[peer])),
                ratio,
                float(ratios.min()),
                float(ratios.max()),
                goal,
                at_most,
                met,
            )
        )
    return rows


def show(row: Row) -> None:
    goal = ""
    if row.goal is not None:
        goal = f"  goal {'<=' if row.at_most else '>='} {row.goal:g}"
        goal += "" if row.ok else "  MISSED"
    print(
        f"  {row.name.split(', ')[1]:7} {row.ours_ms:6.2f} ms  {row.ratio:5.2f}x "
        f"({row.low:.2f} to {row.high:.2f})  {row.peer}, {row.peer_ms:.2f} ms{goal}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows too")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for source, size in SIZES:
        name = f"{source[1]}x{source[0]} -> {size[1]}x{size[0]}"
        frames = rng.integers(0, 256, (options.frames, *source, 3), np.uint8)
        runs = contenders(frames, size)
        if "torch uint8" not in runs and not rows:
            print("torch is not installed: its goals are not checked")
        seconds = measure(runs, options.rounds, frames, size)
        print(f"\n{name}, a frame", flush=True)
        for level in levels_here():
            new = compare(name, level, seconds)
            rows += new
            for row in new:
                show(row)
    missed = [row for row in rows if not row.ok]
    print("\n" + ("goals missed:" if missed else "all goals met"))
    for row in missed:
        print(f"  {row.name}: {row.ratio:.2f}x {row.peer}, goal {row.goal:g}x")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
