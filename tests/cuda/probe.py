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
                for variant in ("plain", "tiled"):
                    where = source_of(given, size, "bicubic", first_pass, None, 0)
                    made.append(
                        images._run(
                            where,
                            size,
                            (2, *size, 3),
                            "uint8",
                            None,
                            (True, 0, 0, 1, 1),
                            None,
                            None,
                            "bicubic",
                            first_pass,
                            variant,
                        )
                    )
                good &= np.array_equal(*made)
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
    good = True
    for given in (rows.view(view), tight):
        for first_pass in ("horizontal", "vertical"):
            got = cuda.resize(given, (9, 20), first_pass=first_pass)
            exact = frames.resize(given.memory.copy(), (9, 20), first_pass=first_pass)
            good &= np.array_equal(got.memory, exact)
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
