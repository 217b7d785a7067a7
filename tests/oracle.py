"""Slow, obvious NumPy twins of every C kernel, and the cases they are compared on.

What "equal" means, by class of kernel:

==== ========================================= ======================================
E0   grid, orders, uint8 resize                bit-identical to the twin here
E1   normalise (float32, no fused multiply-add) bit-identical to NumPy's float32 steps
E2   posterior, fusion, closed-form statistics rtol 1e-12
==== ========================================= ======================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# ---------------------------------------------------------------- grid


def grid_indices(n: int, b: int, phases: int, num: int, den: int) -> NDArray[np.int64]:
    """Python integers of any size, one division a frame."""
    rows = [
        [((i * phases + s) * den + num) * n // (phases * b * den) for i in range(b)]
        for s in range(phases)
    ]
    return np.array(rows, np.int64)


def grid_frames_at(
    pts: Sequence[int], end_pts: int, b: int, phases: int, num: int, den: int
) -> NDArray[np.int64]:
    """Every grid time as a fraction, every frame tried against it."""
    index = np.empty((phases, b), np.int64)
    for s in range(phases):
        for i in range(b):
            part = Fraction((i * phases + s) * den + num, phases * b * den)
            t = pts[0] + part * (end_pts - pts[0])
            index[s, i] = max(k for k in range(len(pts)) if pts[k] <= t)
    return index


def rounded(x: Fraction, bits: int) -> Fraction:
    """x to the nearest binary number of so many significant bits, halves to even."""
    if x == 0:
        return x
    high = abs(x.numerator).bit_length() - x.denominator.bit_length()
    unit = Fraction(2) ** (high - bits)
    while abs(x) >= unit * 2**bits:
        unit *= 2
    return round(x / unit) * unit


def float32(x: Fraction) -> Fraction:
    return rounded(x, 24)


def float64(x: Fraction) -> Fraction:
    return rounded(x, 53)


def sampler_linspace(first: int, last: int, n: int, to_even: bool) -> list[int]:
    step = float64(Fraction(last - first, n - 1)) if n > 1 else Fraction(0)
    at = [float64(float64(i * step) + first) for i in range(n)]
    if n > 1:
        at[-1] = Fraction(last)
    return [round(x) if to_even else math.floor(x) for x in at]


def sampler_torch_linspace(last: int, n: int) -> list[int]:
    """One rounding a value: multiplication and subtraction are fused."""
    stop = float32(Fraction(last))
    if n == 1:
        return [0]
    step = float32(stop / float32(Fraction(n - 1)))
    front = [float32(step * i) for i in range(n // 2)]
    back = [float32(stop - step * (n - 1 - i)) for i in range(n // 2, n)]
    return [round(x) for x in front + back]


def sampler_torch_arange(start: float, stop: float, step: float) -> list[int]:
    """Lots of eight while sixteen are left, each counted from a rounded first value."""
    n = math.ceil((stop - start) / step)
    start_, step_ = Fraction(start), Fraction(step)
    value = []
    for i in range(n):
        lot = i // 8 * 8 if i < n // 16 * 16 else i
        first = float32(float64(start_ + lot * step_))
        value.append(float32(float64(first + (i - lot) * step_)))
    return [math.floor(x) for x in value]


def sampler_multiples(first: int, step: float, n: int) -> list[int]:
    return [int((first + i) * step) for i in range(n)]


def sampler_segments(last: int, n: int) -> list[int]:
    seg = last / n
    return [int(seg / 2 + round(seg * i)) for i in range(n)]


# ---------------------------------------------------------------- posterior

# ---------------------------------------------------------------- statistics

# ---------------------------------------------------------------- frames


# ---------------------------------------------------------------- video

LUMA_WEIGHTS = {  # of red and blue
    "bt709": (0.2126, 0.0722),
    "fcc": (0.30, 0.11),
    "bt601": (0.299, 0.114),
    "smpte240m": (0.212, 0.087),
    "bt2020": (0.2627, 0.0593),
}


def yuv_factors(matrix: str, full: bool, depth: int) -> list[float]:
    """Of luma; red by V, green by U and V, blue by U."""
    red, blue = LUMA_WEIGHTS[matrix]
    green = 1 - red - blue
    scale = 2 ** (depth - 8)
    luma = 255 / (2**depth - 1) if full else 255 / (219 * scale)
    chroma = 255 / (2**depth - 1) if full else 255 / (224 * scale)
    return [
        luma,
        2 * (1 - red) * chroma,
        -2 * blue * (1 - blue) / green * chroma,
        -2 * red * (1 - red) / green * chroma,
        2 * (1 - blue) * chroma,
    ]


def spread_chroma(c: NDArray[np.uint16], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Each sample over the pixels it covers."""
    tall = c.repeat(1 if c.shape[0] == shape[0] else 2, axis=0)
    wide = tall.repeat(1 if c.shape[1] == shape[1] else 2, axis=1)
    return wide[: shape[0], : shape[1]].astype(np.int64)


def yuv_terms(
    y: NDArray[np.uint16],
    u: NDArray[np.uint16],
    v: NDArray[np.uint16],
    full: bool,
    depth: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    middle = 128 << (depth - 8)
    black = 0 if full else 16 << (depth - 8)
    luma = y.astype(np.int64) - black
    blue = spread_chroma(u, y.shape) - middle
    red = spread_chroma(v, y.shape) - middle
    return luma, blue, red


def yuv_to_rgb(
    y: NDArray[np.uint16],
    u: NDArray[np.uint16],
    v: NDArray[np.uint16],
    matrix: str,
    full: bool,
    depth: int,
) -> NDArray[np.uint8]:
    """In integers of 20 fraction bits, rounded half up."""
    factors = [round(k * 2**20) for k in yuv_factors(matrix, full, depth)]
    ky, krv, kgu, kgv, kbu = factors
    luma, cb, cr = yuv_terms(y, u, v, full, depth)
    rgb = [ky * luma + krv * cr, ky * luma + kgu * cb + kgv * cr, ky * luma + kbu * cb]
    return np.clip((np.stack(rgb, axis=-1) + 2**19) >> 20, 0, 255).astype(np.uint8)


def yuv_to_rgb_real(
    y: NDArray[np.uint16],
    u: NDArray[np.uint16],
    v: NDArray[np.uint16],
    matrix: str,
    full: bool,
    depth: int,
) -> NDArray[np.float64]:
    """In real numbers, unrounded."""
    ky, krv, kgu, kgv, kbu = yuv_factors(matrix, full, depth)
    luma, cb, cr = yuv_terms(y, u, v, full, depth)
    rgb = [ky * luma + krv * cr, ky * luma + kgu * cb + kgv * cr, ky * luma + kbu * cb]
    return np.clip(np.stack(rgb, axis=-1), 0.0, 255.0)
