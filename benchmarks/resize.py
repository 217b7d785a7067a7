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

Of every instruction set and peer, the rows that are written are of the size at which
we gain least.

    python benchmarks/resize.py [--rounds 15] [--frames 8] [--json FILE]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import _report
import numpy as np
import PIL
from _report import Goal, Row
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
    "avx2": {"Pillow + NumPy": Goal(5.0), "torch uint8": Goal(1.0)},
    "avx512": {
        "Pillow + NumPy": Goal(9.0),
        "torch uint8": Goal(1.6),
        BOUND: Goal(2.2, most=True),
    },
}
LEVELS = {"scalar": "no vectors", "avx2": "AVX2", "avx512": "AVX-512"}

Batch = np.ndarray[Any, np.dtype[np.uint8]]
Planes = np.ndarray[Any, np.dtype[np.float32]]
Size = tuple[int, int]
Contender = Callable[[], Any]


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
        is_bound = peer == BOUND
        ours = seconds[f"{level}, out=" if is_bound else level]
        above, below = (ours, seconds[peer]) if is_bound else (seconds[peer], ours)
        row = _report.ratio_row(
            f"{level}/{peer}",
            f"{title(level, peer)}, {name}",
            above,
            below,
            GOALS.get(level, {}).get(peer, Goal(most=is_bound)),
            peer,
            ours_above=is_bound,
        )
        rows.append(row)
    return rows


def title(level: str, peer: str) -> str:
    what = "time / that of a" if peer == BOUND else "against"
    return f"Resize and normalise a frame, {LEVELS[level]}, {what} {peer}"


def worst(rows: list[Row]) -> list[Row]:
    """Of each key the row that is nearest to its goal, and goals without any row."""
    found: dict[str, Row] = {}
    for row in rows:
        sign = 1 if row.goal.most else -1
        known = found.get(row.key)
        if known is None or sign * row.value > sign * known.value:
            found[row.key] = row
    for level, goals in GOALS.items():
        for peer, goal in goals.items():
            here = level in levels_here()
            why = f"{peer} is not here" if here else f"no {LEVELS[level]} here"
            row = Row(f"{level}/{peer}", title(level, peer), None, goal=goal)
            found.setdefault(row.key, replace(row, lacking=why))
    return [row for row in found.values() if row.goal.at_least is not None]


def main() -> int:
    parser = _report.parser(__doc__, 15)
    parser.add_argument("--frames", type=int, default=8)
    options = _report.parse(parser)
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    left_out = {}
    for source, size in SIZES:
        name = f"{source[1]} × {source[0]} to {size[1]} × {size[0]}"
        frames = rng.integers(0, 256, (options.frames, *source, 3), np.uint8)
        runs = contenders(frames, size)
        if "torch uint8" not in runs:
            left_out["torch"] = "it is not installed"
        seconds = measure(runs, options.rounds, frames, size)
        print(f"\n{name}, a frame", flush=True)
        for level in levels_here():
            made = compare(name, level, seconds)
            rows += made
            for row in made:
                _report.print_row(row)
    print("\nthe worst of each")
    rows = worst(rows)
    for row in rows:
        _report.print_row(row)
    versions = _report.versions_of("pillow", "torch")
    return _report.finish(rows, options, versions, left_out)


if __name__ == "__main__":
    sys.exit(main())
