"""Runs every kernel once on an emulated driver, in a process of its own.

``python probe.py LIBRARY IMAGE REPORT``: exit 0 when all results are those of the core,
1 when not, 2 when the driver reports a fault. With a traced library, REPORT gets the
races and the counts by line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

MEAN, STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]
SIZES = [((61, 83), (37, 41)), ((9, 12), (40, 35))]


def check_resize(cuda, frames, source_of, images) -> bool:
    rng = np.random.default_rng(7)
    good = True
    for source, size in SIZES:
        batch = rng.integers(0, 256, (2, *source, 3), np.uint8)
        y = rng.integers(0, 256, (2, *source), np.uint8)
        half = (2, (source[0] + 1) // 2, (source[1] + 1) // 2)
        u, v = rng.integers(0, 256, (2, *half), np.uint8)
        yuv = [cuda.YuvFrames(y, np.stack([u, v], -1)), cuda.YuvFrames(y, u, v)]
        for first_pass in ("horizontal", "vertical"):
            exact = frames.resize_normalize(
                batch, size, mean=MEAN, std=STD, first_pass=first_pass
            )
            for dtype in ("float32", "float16"):
                got = cuda.resize_normalize(
                    batch,
                    size,
                    mean=MEAN,
                    std=STD,
                    first_pass=first_pass,
                    dtype=dtype,
                )
                good &= np.array_equal(got, exact.astype(dtype))
            for given in (batch, *yuv):
                made = []
                variants = ["plain", "tiled", "tensor"]
                for variant in variants[: 2 + (first_pass == "horizontal")]:
                    where = source_of(given, size, "bicubic", first_pass, None, 0)
                    recipe = images.Recipe(first_pass=first_pass, variant=variant)
                    made.append(images.make(where, size, (2, *size, 3), recipe))
                good &= all(np.array_equal(made[0], other) for other in made[1:])
                if given is batch:
                    exact8 = frames.resize(batch, size, first_pass=first_pass)
                    good &= np.array_equal(made[0], exact8)
    return good


def check_words(library, cuda, frames) -> bool:
    """Rows on the device that start anywhere in a word."""
    import emulator

    rng = np.random.default_rng(8)
    driver = emulator.Emulator(Path(library))
    rows = emulator.DeviceArray(driver, (17, 3 * 31 + 2), np.dtype("u1"))
    rows.memory[...] = rng.integers(0, 256, rows.memory.shape)
    shape, strides = (17, 31, 3), (rows.memory.strides[0], 3, 1)
    view = np.lib.stride_tricks.as_strided(rows.memory[:, 1:], shape, strides)
    tight = emulator.DeviceArray(driver, (17, 30, 3), np.dtype("u1"))
    tight.memory[...] = rng.integers(0, 256, tight.memory.shape)
    # rows of whole 16 bytes, the last of which memory ends within
    pieces = emulator.DeviceArray(driver, (69 * 96 + 3 * 29,), np.dtype("u1"))
    pieces.memory[...] = rng.integers(0, 256, pieces.memory.shape)
    narrow = np.lib.stride_tricks.as_strided(pieces.memory, (70, 29, 3), (96, 3, 1))
    good = True
    for given in (rows.view(view), tight, pieces.view(narrow)):
        for first_pass in ("horizontal", "vertical"):
            exact = frames.resize(given.memory.copy(), (9, 20), first_pass=first_pass)
            for variant in ("tiled", "tensor"):
                os.environ["PHASEFUSION_CUDA_VARIANT"] = variant
                got = cuda.resize(given, (9, 20), first_pass=first_pass)
                good &= np.array_equal(got.memory, exact)
    # two tiles in both directions, and lines in several goes
    wide = emulator.DeviceArray(driver, (150, 64, 3), np.dtype("u1"))
    wide.memory[...] = rng.integers(0, 256, wide.memory.shape)
    got = cuda.resize(wide, (70, 41), first_pass="horizontal")
    exact = frames.resize(wide.memory.copy(), (70, 41), first_pass="horizontal")
    del os.environ["PHASEFUSION_CUDA_VARIANT"]
    return good and np.array_equal(got.memory, exact)


def check_scores(library, cuda) -> bool:
    """Log-softmax, pools with ties and vetoes, counts, distances."""
    import emulator

    from phasefusion import _core, _frames

    rng = np.random.default_rng(9)
    driver = emulator.Emulator(Path(library))
    good = True
    logits = rng.normal(0, 3, (3, 300)).astype(np.float32)
    bits = (logits.view(np.uint32) >> 16).astype(np.uint16)
    halves = logits.astype(np.float16)
    halves[0, :3] = [6e-8, np.inf, 3e-5]
    for values in (logits, halves, bits.view("V2")):
        rows = emulator.DeviceArray(driver, values.shape, values.dtype)
        rows.memory[...] = values
        got, mass = cuda.option_scores(rows, [7, 1, 290], [2, 0, 1])
        if values.dtype.kind == "V":
            values = (bits.astype(np.uint32) << 16).view(np.float32)
        x = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            top = x.max(1, keepdims=True)
            norm = x - top - np.log(np.exp(x - top).sum(1, keepdims=True))
        wanted = norm[:, [1, 290, 7]]
        good &= np.allclose(got, wanted, rtol=1e-13, equal_nan=True)
        good &= np.allclose(mass, np.exp(wanted).sum(1), rtol=1e-12, equal_nan=True)
    logp = rng.normal(0, 2, (21, 3, 5))
    logp[2:6, :, 1] = logp[2:6, :, 3]  # ties
    logp[2:6, :, [0, 2, 4]] = -50.0
    logp[7:9] = logp[7:9, :1] * 800.0  # posteriors that underflow
    logp[9, :2] = np.nan
    logp[10, 1] = np.inf
    logp[11, :, 2] = -np.inf
    seeds = rng.integers(0, 2**63, len(logp), np.uint64)
    for missing in ("complete", "available"):
        got = cuda.fuse_items(logp, seeds, missing=missing)
        core = _core.fuse(logp, None, seeds, 0, int(missing == "available"), False)
        good &= np.array_equal(got.posterior, core[0], equal_nan=True)
        good &= np.allclose(got.margin, core[1], rtol=1e-15, equal_nan=True)
        for mine, theirs in zip(
            (got.answer, got.n_tied, got.n_valid), core[2:5], strict=True
        ):
            good &= np.array_equal(mine, theirs)
    os.environ["PHASEFUSION_CUBLAS"] = library
    for n in (301, 48887):  # of the second, one draw in 90000 is refused
        values = rng.integers(-3, 4, (n, 2))
        drawn = _core.resample_indices(n, 4, 3)
        counts = np.stack([np.bincount(row, minlength=n) for row in drawn])
        sums = cuda.bootstrap_sums(values, n_resamples=4, seed=3)
        good &= np.array_equal(sums, counts @ values)
    a, b = rng.integers(0, 256, (2, 2, 9, 31, 3), np.uint8)
    pair = []
    for array in (a, b):
        pair.append(emulator.DeviceArray(driver, array.shape, array.dtype))
        pair[-1].memory[...] = array
    for kind, metric in enumerate(("absolute", "rms", "histogram")):
        core = _frames.distance(a.reshape(2, -1, 3), b.reshape(2, -1, 3), kind)
        good &= np.array_equal(cuda.frame_distance(*pair, metric), core)
    return good


def main() -> int:
    library, image, report = sys.argv[1:]
    os.environ["PHASEFUSION_CUDA_DRIVER"] = library
    os.environ["PHASEFUSION_CUDA_IMAGE"] = image
    from phasefusion import cuda, frames
    from phasefusion.cuda import images
    from phasefusion.cuda.sources import source_of
    from phasefusion.errors import PhaseFusionError

    try:
        good = check_resize(cuda, frames, source_of, images)
        good &= check_words(library, cuda, frames)
        good &= check_scores(library, cuda)
    except PhaseFusionError as error:
        print(error)
        return 2
    if report != "-":
        import tracing

        found = tracing.collect(Path(library))
        Path(report).write_text(json.dumps(sorted(found.races)))
        if found.races:
            print("races:", *sorted(found.races))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
