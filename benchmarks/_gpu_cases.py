"""What `gpu_check` checks: every kernel of frames against the CPU, bit for bit.

Arrays on the device come from a space: torch here, the emulated driver's in the tests.
"""

from __future__ import annotations

import importlib
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
NORM = {"mean": MEAN, "std": STD}
PASSES = ("horizontal", "vertical")
VARIANTS = ("plain", "tiled", "tensor")
DTYPES = ("float32", "float16", "bfloat16")
SMALL = [(1, 1), (7, 5), (61, 83), (120, 213), (271, 480), (480, 270), (854, 480)]
TARGETS = [(1, 1), (14, 28), (112, 112), (300, 17)]
#: Videos; several tiles both ways, and bands of several steps.
LARGE = [
    ((1080, 1920), (448, 448)),
    ((2160, 3840), (336, 588)),
    ((720, 1280), (90, 33)),
]


class TorchSpace:
    """Tensors of torch on the first GPU."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def put(self, values: np.ndarray) -> Any:
        """Copy to the device, on the current stream."""
        return self.torch.from_numpy(values).cuda()

    def get(self, array: Any) -> np.ndarray:
        """Copy bits from the device, when everything is done."""
        self.torch.cuda.synchronize()
        host = array.detach().cpu()
        if host.dtype == self.torch.bfloat16:
            host = host.view(self.torch.int16)
        return host.numpy()

    def poisoned(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Memory in which every byte is 0xFF."""
        made = self.torch.empty(shape, dtype=getattr(self.torch, dtype), device="cuda")
        made.view(self.torch.uint8).fill_(0xFF)
        return made

    @contextmanager
    def side_stream(self) -> Iterator[Any]:
        """Work on another stream, after everything before."""
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            yield side
        self.torch.cuda.current_stream().wait_stream(side)

    def capturing(self, work: Any) -> None:
        """Do work on a stream that is captured into a graph."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            work()


def space() -> Any:
    """Return the space of this run, or None when no framework has this GPU."""
    named = os.environ.get("PHASEFUSION_CHECK_SPACE")  # "module:callable"
    if named:
        module, _, name = named.partition(":")
        return getattr(importlib.import_module(module), name)()
    try:
        import torch
    except ImportError:
        return None
    return TorchSpace() if torch.cuda.is_available() else None


def bits_of(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return the bits of float32 values, rounded to nearest even in that type."""
    if dtype == "float32":
        return values.view(np.uint32)
    if dtype == "float16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def is_same(got: np.ndarray, exact: np.ndarray, dtype: str) -> bool:
    """Whether a result has the bits of the exact values."""
    wanted = bits_of(np.ascontiguousarray(exact), dtype)
    return got.shape == wanted.shape and np.array_equal(got.view(wanted.dtype), wanted)


@contextmanager
def forced(variant: str) -> Iterator[None]:
    """Let one kind of kernels make everything that it can."""
    os.environ["PHASEFUSION_CUDA_VARIANT"] = variant
    try:
        yield
    finally:
        del os.environ["PHASEFUSION_CUDA_VARIANT"]


def batch_of(rng: np.random.Generator, size: tuple[int, int], n: int) -> np.ndarray:
    """Return random frames; every second one is of black and white alone."""
    batch = rng.integers(0, 256, (n, *size, 3), np.uint8)
    batch[1::2] = np.where(batch[1::2] < 128, 0, 255)
    return batch


def wrong_frames(where: Any, rng: np.random.Generator, cases: Any) -> Iterator[Any]:
    """Yield None for a case that is right, and what is wrong otherwise."""
    from phasefusion import cuda, frames

    for source, size, n in cases:
        batch = batch_of(rng, source, n)
        exact = {
            p: frames.resize_normalize(batch, size, **NORM, first_pass=p)
            for p in PASSES
        }
        exact8 = {p: frames.resize(batch, size, first_pass=p) for p in PASSES}
        for first_pass, variant in itertools.product(PASSES, VARIANTS):
            options = {**NORM, "first_pass": first_pass}
            case = [source, size, first_pass, variant]
            with forced(variant):
                host = cuda.resize(batch, size, first_pass=first_pass)
                yield (
                    None
                    if np.array_equal(host, exact8[first_pass])
                    else [*case, "host"]
                )
                if where is None:
                    continue
                there = where.put(batch)
                for dtype in DTYPES:
                    out = where.poisoned(exact[first_pass].shape, dtype)
                    cuda.resize_normalize(there, size, dtype=dtype, out=out, **options)
                    good = is_same(where.get(out), exact[first_pass], dtype)
                    yield None if good else [*case, dtype]


def wrong_yuv(rng: np.random.Generator, sizes: Any) -> Iterator[Any]:
    """NV12 and I420 by every kind of kernels, against one another."""
    from phasefusion import cuda

    for height, width in sizes:
        half = (2, (height + 1) // 2, (width + 1) // 2)
        y = rng.integers(0, 256, (2, height, width), np.uint8)
        u, v = rng.integers(0, 256, (2, *half), np.uint8)
        for matrix in ("bt601", "bt709"):
            made = []
            for given in (
                cuda.YuvFrames(y, np.stack([u, v], -1), matrix=matrix),
                cuda.YuvFrames(y, u, v, matrix=matrix),
            ):
                for variant in VARIANTS:
                    with forced(variant):
                        made.append(cuda.resize(given, (28, 42)))
            good = all(np.array_equal(made[0], other) for other in made[1:])
            yield None if good else [height, width, matrix]


def clips(n: int) -> list[Path]:
    """Return some of the shipped clips, whose pictures have planes."""
    from phasefusion import tinyvlm

    return sorted(tinyvlm.questions_path().parent.glob("*.mp4"))[:n]


@contextmanager
def chunks_of(n_bytes: int) -> Iterator[None]:
    """Let the decoder hand over so many bytes at a time, one frame at least."""
    from phasefusion.cuda import decoding

    usual, decoding.CHUNK_BYTES = decoding.CHUNK_BYTES, n_bytes
    try:
        yield
    finally:
        decoding.CHUNK_BYTES = usual


def wrong_planes(paths: Sequence[Path]) -> Iterator[Any]:
    """Frames that go to the device as the decoder's planes, against the CPU's."""
    from phasefusion import PhaseGrid, Video, cuda, read_clips

    def sizes(height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return {5: (31, 20), 4: None, 3: (300, 17)}[n_frames]

    grids = [PhaseGrid(5, 3), PhaseGrid(4), PhaseGrid(3, 2, "left")]
    for path in paths:
        with Video(path) as video:
            indices = np.arange(0, len(video), 7)
            planes = video.read_planes(indices)  # an error where there are none
            for size, first_pass in itertools.product(((28, 42), (112, 112)), PASSES):
                exact = video.read(indices, size=size, first_pass=first_pass)
                for variant in VARIANTS:
                    with forced(variant):
                        got = cuda.resize(planes, size, first_pass=first_pass)
                    good = np.array_equal(got, exact)
                    yield None if good else [path.name, size, first_pass, variant]
        for norm, filter, threads in itertools.product(
            ({}, NORM), ("bicubic", "bilinear"), (1, 3)
        ):
            options = {"size": sizes, "filter": filter, "threads": threads, **norm}
            wanted = [
                clip.frames.tobytes() for clip in read_clips(path, grids, **options)
            ]
            for n_bytes in (1, 2**17, 2**25):
                with chunks_of(n_bytes):
                    made = read_clips(path, grids, **options, device="cuda")
                good = wanted == [clip.frames.tobytes() for clip in made]
                case = [path.name, filter, threads, n_bytes, sorted(norm)]
                yield None if good else case


def wrong_places(where: Any, rng: np.random.Generator) -> Iterator[Any]:
    """Frames that start anywhere in memory, and rows of patches."""
    from phasefusion import cuda, frames

    wide = where.put(batch_of(rng, (70, 97), 3))
    for skip, width in itertools.product(range(5), (32, 61, 92)):
        cut = wide[:, :, skip : skip + width]
        exact = frames.resize(np.ascontiguousarray(where.get(cut)), (31, 29))
        for variant in VARIANTS:
            with forced(variant):
                good = np.array_equal(where.get(cuda.resize(cut, (31, 29))), exact)
            yield None if good else ["rows", skip, width, variant]
    table = cuda.normalise_table(MEAN, STD)
    rows = []
    for variant in VARIANTS:
        with forced(variant):
            made = cuda.resize_patches(
                wide, (56, 84), table=table, patch=14, merge=2, depth=2
            )
        rows.append(where.get(made))
        yield None if np.array_equal(rows[0], rows[-1]) else ["patches", variant]
    exact = frames.resize_normalize(where.get(wide), (56, 84), **NORM)
    good = np.array_equal(np.sort(np.unique(rows[0])), np.unique(exact))
    yield None if good else ["patches", "values"]


def wrong_streams(where: Any, rng: np.random.Generator) -> Iterator[Any]:
    """Side streams, threads, and a stream that is being captured."""
    from phasefusion import cuda, frames
    from phasefusion.errors import PhaseFusionError

    batch = batch_of(rng, (360, 640), 4)
    exact = frames.resize(batch, (224, 224))
    for turn in range(5):
        with where.side_stream() as side:
            there = where.put(batch)  # on that stream: a race, if it is not waited for
            got = cuda.resize(there, (224, 224), stream=side if turn % 2 else None)
        yield None if np.array_equal(where.get(got), exact) else ["stream", turn]
    found: list[Any] = []

    def work(size: tuple[int, int]) -> None:
        got = where.get(cuda.resize(where.put(batch), size))
        found.append(None if np.array_equal(got, frames.resize(batch, size)) else size)

    threads = [threading.Thread(target=work, args=((60 + i, 50),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield None if found == [None] * 4 else ["threads", found]
    there = where.put(batch)
    try:
        where.capturing(lambda: cuda.resize(there, (224, 224)))
        yield ["a stream in capture was not refused"]
    except PhaseFusionError as error:
        yield None if "captured" in str(error) else ["capture", str(error)]
    got = where.get(cuda.resize(there, (224, 224)))  # afterwards everything goes on
    yield None if np.array_equal(got, exact) else ["after capture"]
