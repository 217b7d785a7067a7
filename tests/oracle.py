"""Slow, obvious NumPy twins of every C kernel, and the cases they are compared on.

What "equal" means, by class of kernel:

==== ========================================= ======================================
E0   grid, orders, uint8 resize                bit-identical to the twin here
E1   normalise (float32, no fused multiply-add) bit-identical to NumPy's float32 steps
E2   posterior, fusion, closed-form statistics rtol 1e-12
==== ========================================= ======================================
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
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


# ---------------------------------------------------------------- frames


def distance(a, b, kind):
    """Distances of frames (n, pixels, 3); see _frames.distance."""
    found = []
    for x, y in zip(a.astype(int), b.astype(int), strict=True):
        if kind == 0:
            found.append(np.abs(x - y).mean() / 255)
        elif kind == 1:
            found.append(math.sqrt(((x - y) ** 2).mean()) / 255)
        else:
            shares = [
                np.array([np.bincount(z[:, c] // 8, minlength=32) for c in range(3)])
                for z in (x, y)
            ]
            found.append(np.abs(shares[0] - shares[1]).sum() / (6 * len(x)))
    return np.array(found)


# ---------------------------------------------------------------- choices


def fnv1a64(data):
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = ((hashed ^ byte) * 0x100000001B3) % 2**64
    return hashed


def splitmix64(seed):
    """Endless splitmix64 with Python's integers."""
    state = seed % 2**64
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % 2**64
        yield mixed ^ (mixed >> 31)


def permutation(draws, n):
    """Fisher-Yates from the last place down, on a generator of 64-bit numbers."""
    values = list(range(n))
    for i in range(n - 1, 0, -1):
        draw = next(draws)
        while draw >= 2**64 - 2**64 % (i + 1):
            draw = next(draws)
        j = draw % (i + 1)
        values[i], values[j] = values[j], values[i]
    return values


def tie_break(seed, tied, n_options):
    preferred = permutation(splitmix64(seed), n_options)
    return next(k for k in preferred if k in tied)


# ---------------------------------------------------------------- posterior

EPS = np.finfo(float).eps
# (n_items, n_passes, n_options): around the 32 lanes of a block, primes, one of each
POSTERIOR_SHAPES = [
    (0, 3, 4),
    (1, 1, 1),
    (1, 1, 2),
    (1, 3, 4),
    (7, 2, 5),
    (31, 3, 3),
    (32, 1, 4),
    (33, 3, 5),
    (97, 13, 8),
    (2, 3, 32),
]


def pass_state(row):
    if np.isnan(row).any():
        return 1
    if np.isposinf(row).any():
        return 2
    return 0 if np.isfinite(row).any() else 3


def softmax(row):
    e = [math.exp(z - max(row)) for z in row]
    return np.array(e) / math.fsum(e)


def pick(p, seed):
    """Answer and size of the tie set of one posterior."""
    tied = {k for k in range(len(p)) if p[k] >= max(p) - 4 * EPS * max(p)}
    return tie_break(seed, tied, len(p)), len(tied)


def top_two(values):
    values = sorted(values, reverse=True)
    return values[0] - values[1] if len(values) > 1 else math.inf


def log_softmax(row):
    return row - max(row) - math.log(math.fsum(math.exp(z - max(row)) for z in row))


def log_mean_exp(values):
    top = max(values)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(v - top) for v in values) / len(values))


def fuse(logp, n_options, tie_seeds, pool, missing):
    """Twin of the kernel, one item and one pass at a time; same eight results."""
    n, n_passes, width = logp.shape
    posterior = np.full((n, width), np.nan)
    margin, answer = np.full(n, np.nan), np.full(n, -1)
    n_tied, n_valid = np.zeros(n, int), np.zeros(n, int)
    pass_answer, pass_margin = (
        np.full((n, n_passes), -1),
        np.full((n, n_passes), np.nan),
    )
    state = np.zeros((n, n_passes), np.uint8)
    for i in range(n):
        k, seed = int(n_options[i]), int(tie_seeds[i])
        kept = []
        for s in range(n_passes):
            row = logp[i, s, :k]
            state[i, s] = pass_state(row)
            if state[i, s] == 0:
                pass_answer[i, s], tied = pick(softmax(row), seed)
                pass_margin[i, s] = 0.0 if tied > 1 else top_two(row)
                kept.append(row)
        n_valid[i] = len(kept)
        if not kept or (missing == 0 and len(kept) < n_passes):
            continue
        if pool == 0:
            q = np.mean([softmax(row) for row in kept], axis=0)
            logs = [log_mean_exp(c) for c in zip(*map(log_softmax, kept), strict=True)]
        else:
            logs = np.mean([row - max(row) for row in kept], axis=0)
            if max(logs) == -math.inf:
                continue
            q = softmax(logs)
        posterior[i] = 0.0
        posterior[i, :k] = q
        answer[i], n_tied[i] = pick(q, seed)
        margin[i] = 0.0 if n_tied[i] > 1 else top_two(logs)
    return posterior, margin, answer, n_tied, n_valid, pass_answer, pass_margin, state


def to_content(values, orders):
    content = np.empty_like(values)
    for m, order in enumerate(orders):
        for place, k in enumerate(order):
            content[:, m, k] = values[:, m, place]
    return content


# ---------------------------------------------------------------- statistics


def flip_counts(row):
    """n_valid, n_agreeing, n_distinct, n_modal of one item, pair by pair."""
    valid = [a for a in row if a >= 0]
    agreeing = sum(a == b for a, b in itertools.permutations(valid, 2))
    counts = Counter(valid)
    return len(valid), agreeing, len(counts), max(counts.values(), default=0)


def flip_pairs(answers, use):
    n, m = answers.shape
    differ, both = np.zeros((m, m), int), np.zeros((m, m), int)
    for i, s, t in itertools.product(range(n), range(m), range(m)):
        if use[i] and answers[i, s] >= 0 and answers[i, t] >= 0:
            both[s, t] += 1
            differ[s, t] += answers[i, s] != answers[i, t]
    return differ, both


def expected_any_flip(counts, n_draws):
    """By enumeration of all draws; exact."""
    passes = [k for k, n in enumerate(counts) for _ in range(n)]
    draws = list(itertools.combinations(passes, n_draws))
    if not draws:
        return math.nan
    return float(Fraction(sum(len(set(draw)) > 1 for draw in draws), len(draws)))


def plurality(votes, n_options, seed, mean_posterior, rule):
    """Answer, size of the tie set and counts of one item."""
    votes = [v for v in votes if v >= 0]
    counts = [votes.count(k) for k in range(n_options)]
    if not votes:
        return -1, 0, counts
    tied = {k for k in range(n_options) if counts[k] == max(counts)}
    if rule == "lowest":
        return min(tied), len(tied), counts
    if rule == "first":
        return next(v for v in votes if v in tied), len(tied), counts
    best = tied
    if rule == "posterior" and not any(math.isnan(mean_posterior[k]) for k in tied):
        top = max(mean_posterior[k] for k in tied)
        best = {k for k in tied if mean_posterior[k] >= top - 4 * EPS * abs(top)}
    return tie_break(seed, best, n_options), len(tied), counts


# ---------------------------------------------------------------- frames

# (source, destination), both (height, width)
FRAME_SIZES = [
    ((1, 1), (1, 1)),
    ((1, 1), (9, 7)),
    ((9, 7), (1, 1)),
    ((1, 97), (13, 5)),
    ((97, 1), (5, 13)),
    ((64, 64), (64, 64)),  # no pass
    ((101, 103), (101, 50)),  # horizontal pass alone
    ((101, 103), (47, 103)),  # vertical pass alone
    ((37, 53), (19, 23)),  # primes, down
    ((19, 23), (53, 61)),  # primes, up
    ((40, 63), (320, 504)),  # 8x up
    ((16, 16), (17, 15)),
    ((3, 2000), (50, 7)),
    ((2000, 3), (7, 50)),
    ((2, 2731), (3, 2)),
    ((240, 426), (224, 224)),
    ((426, 240), (224, 224)),  # portrait: Pillow 13 starts with the vertical pass
    ((60, 50), (40, 40)),  # 20 rows and 10 columns less: still the horizontal one
    ((61, 50), (40, 40)),
    ((480, 853), (224, 224)),  # a weight of "hamming" near a rounding boundary
    ((360, 640), (448, 448)),
]
FRAME_SIZES_LARGE = [
    ((720, 1280), (448, 448)),
    ((1080, 1920), (384, 384)),
    ((2160, 3840), (448, 448)),
]


def _box(x):
    return 1.0 if -0.5 < x <= 0.5 else 0.0


def _bilinear(x):
    return max(0.0, 1.0 - abs(x))


def _hamming(x):
    # 0.54 and 0.46 are float32 in Pillow
    if x == 0.0:
        return 1.0
    if abs(x) >= 1.0:
        return 0.0
    angle = abs(x) * math.pi
    window = float(np.float32(0.54)) + float(np.float32(0.46)) * math.cos(angle)
    return math.sin(angle) / angle * window


def _bicubic(x, a=-0.5):
    x = abs(x)
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    if x < 2.0:
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a
    return 0.0


def _sinc(x):
    return 1.0 if x == 0.0 else math.sin(x * math.pi) / (x * math.pi)


def _lanczos(x):
    return _sinc(x) * _sinc(x / 3.0) if -3.0 <= x < 3.0 else 0.0


FILTERS = {  # value, support in pixels
    "box": (_box, 0.5),
    "bilinear": (_bilinear, 1.0),
    "hamming": (_hamming, 1.0),
    "bicubic": (_bicubic, 2.0),
    "lanczos": (_lanczos, 3.0),
}
WEIGHT_BITS = 22


def resize_weights(n_source, n_result, filter):
    """First source pixel and integer weights of every resized pixel."""
    value, support = FILTERS[filter]
    scale = n_source / n_result
    widen = max(scale, 1.0)
    weights = []
    for x in range(n_result):
        centre = (x + 0.5) * scale
        first = max(int(centre - support * widen + 0.5), 0)
        end = min(int(centre + support * widen + 0.5), n_source)
        real = [value((i - centre + 0.5) * (1.0 / widen)) for i in range(first, end)]
        total = 0.0
        for v in real:
            total += v
        scaled = [(v / total if total else v) * 2**WEIGHT_BITS for v in real]
        whole = [int(v - 0.5 if v < 0 else v + 0.5) for v in scaled]
        weights.append((first, np.array(whole, np.int64)))
    return weights


def _resize_rows(image, n_rows, filter):
    """Resize axis 0; no pass when it keeps its size."""
    if len(image) == n_rows:
        return image
    half = 1 << (WEIGHT_BITS - 1)
    wide = image.astype(np.int64)
    rows = [
        (np.tensordot(w, wide[first : first + len(w)], 1) + half) >> WEIGHT_BITS
        for first, w in resize_weights(len(image), n_rows, filter)
    ]
    return np.clip(np.stack(rows), 0, 255).astype(np.uint8)


def is_vertical_first(source, size):
    """Pillow's rule since 13.0, from (height, width) to (height, width)."""
    height_lost, width_lost = source[0] - size[0], source[1] - size[1]
    return height_lost > 0 and width_lost != 0 and height_lost > 2 * width_lost


def resize(image, size, filter="bicubic", vertical_first=None):
    """Resize uint8 (H, W, 3) in two passes, rounded to uint8 in between."""
    if vertical_first is None:
        vertical_first = is_vertical_first(image.shape, size)

    def vertical(pixels):
        return _resize_rows(pixels, size[0], filter)

    def horizontal(pixels):
        turned = pixels.transpose(1, 0, 2)
        return _resize_rows(turned, size[1], filter).transpose(1, 0, 2)

    return (
        horizontal(vertical(image)) if vertical_first else vertical(horizontal(image))
    )


def normalise(image, mean, std):
    """Turn uint8 (..., H, W, 3) into float32 planes, one float32 step a time."""
    unit = image.astype(np.float32) * np.float32(1 / 255)
    centred = unit - np.asarray(mean, np.float32)
    return np.moveaxis(centred / np.asarray(std, np.float32), -1, -3)


def to_values(frames, table):
    """Turn uint8 (n, H, W, 3) into float32 planes by looking each byte up."""
    planes = [np.asarray(table)[c][frames[..., c]] for c in range(3)]
    return np.stack(planes, axis=1)


def patch_rows(planes, side, merge, depth):
    """Write every row of planes (n, 3, H, W) from its definition, patch by patch."""
    planes = list(planes)
    while len(planes) % depth:
        planes.append(planes[-1])
    _, height, width = planes[0].shape
    rows = []
    for t in range(0, len(planes), depth):
        for block_y in range(0, height, side * merge):
            for block_x in range(0, width, side * merge):
                for j in range(merge):
                    for i in range(merge):
                        y, x = block_y + j * side, block_x + i * side
                        row = [
                            planes[t + d][c, y : y + side, x : x + side].ravel()
                            for c in range(3)
                            for d in range(depth)
                        ]
                        rows.append(np.concatenate(row))
    return np.array(rows)


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
