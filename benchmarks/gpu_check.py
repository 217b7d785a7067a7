"""Check the GPU path on a real GPU in one run: first that it is right, then how fast.

Every stage has a deadline and runs in a process of its own; what it found is written to
``OUT/gpu_check.json`` as soon as it ends. The exit code says whether all results were
right, and nothing else: a time is a figure, not a verdict.

    python benchmarks/gpu_check.py --out results --budget 400
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
SHAPES = {
    "1080p to 448": ((1080, 1920), (448, 448)),
    "1080p to 588x1036": ((1080, 1920), (588, 1036)),
    "720p to 448": ((720, 1280), (448, 448)),
    "2160p to 448": ((2160, 3840), (448, 448)),
    "portrait to 448": ((1920, 1080), (448, 448)),
}
SMALL = [(1, 1), (7, 5), (61, 83), (120, 213), (271, 480), (480, 270), (854, 480)]
TARGETS = [(1, 1), (14, 28), (112, 112), (300, 17)]
L2_BYTES = 60 << 20


def stage_ceilings() -> dict[str, Any]:
    """Copy rate, pinned upload rate, cost of an empty launch."""
    import torch

    a = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    host = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    one = torch.zeros(1, device="cuda")
    copy_s = timed(lambda: b.copy_(a), 20)
    upload_s = timed(lambda: a[: host.numel()].copy_(host, non_blocking=True), 10)
    return {
        "device": torch.cuda.get_device_name(),
        "driver": torch.version.cuda,
        "copy_gb_s": 2 * a.numel() / copy_s / 1e9,
        "upload_gb_s": host.numel() / upload_s / 1e9,
        "small_launch_us": 1e6 * timed(lambda: one.add_(1), 200),
    }


def timed(work: Callable[[], Any], n: int) -> float:
    """Median seconds of n runs, by events."""
    import torch

    for _ in range(3):
        work()
    pairs = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(n)
    ]
    for begin, end in pairs:
        begin.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(b.elapsed_time(e) for b, e in pairs) / 1e3


def stage_correct() -> dict[str, Any]:
    """Every kernel against the CPU core, bit for bit, results poisoned before."""
    import torch

    from phasefusion import cuda, frames

    rng = np.random.default_rng(time.time_ns())
    wrong, n = [], 0
    side = torch.cuda.Stream()
    for source in SMALL:
        batch = rng.integers(0, 256, (3, *source, 3), np.uint8)
        for size in TARGETS:
            for first_pass in ("horizontal", "vertical"):
                options = {"mean": MEAN, "std": STD, "first_pass": first_pass}
                exact = torch.from_numpy(
                    frames.resize_normalize(batch, size, **options)
                )
                for dtype in (torch.float32, torch.bfloat16, torch.float16):
                    name = str(dtype).removeprefix("torch.")
                    out = torch.full_like(exact, float("nan"), dtype=dtype).cuda()
                    with torch.cuda.stream(side):
                        side.wait_stream(torch.cuda.default_stream())
                        there = torch.from_numpy(batch).cuda()
                        cuda.resize_normalize(
                            there, size, dtype=name, out=out, **options
                        )
                    side.synchronize()
                    n += 1
                    if not torch.equal(out.cpu(), exact.to(dtype)):
                        wrong.append([source, size, first_pass, name])
                n += 1
                host = cuda.resize(batch, size, first_pass=first_pass)
                if not np.array_equal(
                    host, frames.resize(batch, size, first_pass=first_pass)
                ):
                    wrong.append([source, size, first_pass, "host"])
    wrong += yuv_that_is_wrong(rng)
    return {"cases": n, "wrong": wrong, "image": cuda.device(0).image}


def yuv_that_is_wrong(rng: np.random.Generator) -> list[Any]:
    """NV12 and I420 through the tiled kernels against the plain ones of the device."""
    from phasefusion import cuda
    from phasefusion.cuda import images
    from phasefusion.cuda.sources import source_of

    wrong = []
    for height, width in SMALL:
        half = (2, (height + 1) // 2, (width + 1) // 2)
        y = rng.integers(0, 256, (2, height, width), np.uint8)
        u, v = rng.integers(0, 256, (2, *half), np.uint8)
        for matrix in ("bt601", "bt709"):
            made = []
            for given in (
                cuda.YuvFrames(y, np.stack([u, v], -1), matrix=matrix),
                cuda.YuvFrames(y, u, v, matrix=matrix),
            ):
                for variant in ("plain", "tiled"):
                    where = source_of(given, (28, 42), "bicubic", "auto", None, 0)
                    made.append(
                        images._run(
                            where,
                            (28, 42),
                            (2, 28, 42, 3),
                            "uint8",
                            None,
                            (True, 0, 0, 1, 1),
                            None,
                            None,
                            "bicubic",
                            "auto",
                            variant,
                        )
                    )
            if any(not np.array_equal(made[0], other) for other in made[1:]):
                wrong.append([height, width, matrix])
    return wrong


def stage_nvrtc() -> dict[str, Any]:
    """The same once more with kernels that NVRTC has made."""
    os.environ["PHASEFUSION_CUDA_IMAGE"] = "nvrtc"
    return stage_correct()


def stage_scores() -> dict[str, Any]:
    """Posteriors, distances, and the two products of cuBLAS."""
    import torch

    from phasefusion import _core, _frames, cuda

    rng = np.random.default_rng(time.time_ns())
    wrong = []
    logp = rng.normal(0, 3, (5000, 3, 5))
    seeds = rng.integers(0, 2**63, len(logp), np.uint64)
    got = cuda.fuse_items(logp, seeds)
    core = _core.fuse(logp, None, seeds, 0, 0, False)
    if not np.array_equal(got.posterior, core[0]) or not np.array_equal(
        got.answer, core[2]
    ):
        wrong.append("fuse")
    logits = torch.randn(64, 151936, device="cuda", dtype=torch.bfloat16) * 4
    scores, _ = cuda.option_scores(logits, [32, 33, 34, 35])
    exact = torch.log_softmax(logits.double(), -1)[:, 32:36].cpu().numpy()
    if not np.allclose(scores, exact, rtol=1e-12, atol=1e-12):
        wrong.append("option_scores")
    a, b = (torch.randint(0, 256, (40, 90, 160, 3), dtype=torch.uint8) for _ in "ab")
    for kind, metric in enumerate(("absolute", "rms", "histogram")):
        rows = [x.numpy().reshape(40, -1, 3) for x in (a, b)]
        if not np.array_equal(
            cuda.frame_distance(a.cuda(), b.cuda(), metric),
            _frames.distance(*rows, kind),
        ):
            wrong.append(f"distance {metric}")
    values = rng.integers(-1, 2, (3000, 300))
    begin = time.perf_counter()
    sums = cuda.bootstrap_sums(values, n_resamples=10_000, seed=7)
    seconds = time.perf_counter() - begin
    drawn = _core.resample_indices(3000, 64, 7)
    counts = np.stack([np.bincount(row, minlength=3000) for row in drawn])
    if not np.array_equal(sums[:64], counts @ values):
        wrong.append("bootstrap")
    x = rng.integers(-128, 128, (100, 96, 3072), np.int8)
    if not np.array_equal(
        cuda.gram(x)[0], x[0].astype(np.int64) @ x[0].astype(np.int64).T
    ):
        wrong.append("gram")
    return {"wrong": wrong, "bootstrap_10000x3000x300_s": seconds}


def stage_sanitizer() -> dict[str, Any]:
    """Tiny shapes under compute-sanitizer."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"skipped": "no compute-sanitizer", "wrong": []}
    code = (
        "import numpy as np; from phasefusion import cuda;"
        "b = np.zeros((2, 61, 83, 3), np.uint8);"
        "[cuda.resize(b, (37, 41), first_pass=p) for p in ('horizontal', 'vertical')];"
        "cuda.fuse_items(np.zeros((9, 3, 5)), np.arange(9))"
    )
    wrong = []
    for check in ("memcheck", "racecheck", "initcheck"):
        done = subprocess.run(
            [
                tool,
                "--tool",
                check,
                "--error-exitcode",
                "9",
                sys.executable,
                "-c",
                code,
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            wrong.append([check, done.stdout[-2000:]])
    return {"wrong": wrong}


def stage_timing() -> dict[str, Any]:
    """Microseconds a frame, against torch on the same tensors and the copy rate."""
    table = {}
    for name, (source, size) in SHAPES.items():
        for batch in (1, 8, 32, 128):
            table[f"{name}, {batch}"] = time_case(source, size, batch)
    return {"frames": table}


def time_case(
    source: tuple[int, int], size: tuple[int, int], batch: int
) -> dict[str, float]:
    """One shape and batch; inputs take turns, so that none is left in the L2 cache."""
    import torch
    import torch.nn.functional as nn

    from phasefusion import cuda

    mean = torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1)
    std = torch.tensor(STD, device="cuda").view(1, 3, 1, 1)
    frame_bytes = 3 * source[0] * source[1]
    n = max(1, min(8, -(-4 * L2_BYTES // (batch * frame_bytes))))
    shape = (n, batch, *source, 3)
    pool = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
    out = torch.empty((batch, 3, *size), device="cuda")
    turn = itertools.cycle(range(n))

    def ours() -> None:
        cuda.resize_normalize(pool[next(turn)], size, mean=MEAN, std=STD, out=out)

    def theirs() -> Any:
        x = pool[next(turn)].permute(0, 3, 1, 2).float().div_(255)
        x = nn.interpolate(x, size, mode="bicubic", antialias=True)
        return x.sub_(mean).div_(std)

    row = {"ours_us": 1e6 * timed(ours, 30) / batch}
    if batch <= 32:
        row["torch_us"] = 1e6 * timed(theirs, 10) / batch
    moved = frame_bytes + 4 * 3 * size[0] * size[1]
    row["gb_s"] = moved / row["ours_us"] / 1e3
    return row


def stage_upload() -> dict[str, Any]:
    """Frames of the host, there and back, in pinned chunks."""
    from phasefusion import cuda

    batch = np.random.default_rng(0).integers(0, 256, (96, 1080, 1920, 3), np.uint8)
    cuda.resize(batch[:8], (448, 448))
    begin = time.perf_counter()
    cuda.resize(batch, (448, 448))
    seconds = time.perf_counter() - begin
    return {"frames_s": len(batch) / seconds, "gb_s": batch.nbytes / seconds / 1e9}


#: name: what it does, seconds it may take, whether it says what is right
STAGES: dict[str, tuple[Callable[[], dict[str, Any]], int, bool]] = {
    "ceilings": (stage_ceilings, 30, False),
    "correct": (stage_correct, 60, True),
    "nvrtc": (stage_nvrtc, 60, True),
    "scores": (stage_scores, 45, True),
    "sanitizer": (stage_sanitizer, 60, True),
    "timing": (stage_timing, 100, False),
    "upload": (stage_upload, 30, False),
}


def _run_stage(name: str, path: str) -> None:
    try:
        found = STAGES[name][0]()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"[:2000]}
    Path(path).write_text(json.dumps(found, default=str))


def run(name: str, folder: Path, left_s: float) -> dict[str, Any]:
    """One stage in a process of its own, up to its deadline."""
    _, limit_s, _ = STAGES[name]
    path = folder / f"{name}.json"
    process = multiprocessing.get_context("spawn").Process(
        target=_run_stage, args=(name, str(path))
    )
    begin = time.monotonic()
    process.start()
    process.join(max(1.0, min(limit_s, left_s)))
    if process.is_alive():
        process.kill()
        process.join()
        found: dict[str, Any] = {"error": "out of time"}
    elif path.is_file():
        found = json.loads(path.read_text())
    else:
        found = {"error": f"ended with {process.exitcode}"}
    return {**found, "seconds": round(time.monotonic() - begin, 1)}


def main() -> int:
    """Run the stages that the budget allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu_check"))
    parser.add_argument("--budget", type=float, default=400.0, help="seconds in all")
    parser.add_argument("--only", nargs="*", choices=list(STAGES), default=list(STAGES))
    given = parser.parse_args()
    from phasefusion import cuda

    reason = cuda.why()
    if reason is not None:
        print(f"gpu_check: {reason}")
        return 0 if os.environ.get("PHASEFUSION_REQUIRE_CUDA") != "1" else 1
    given.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + given.budget
    results: dict[str, Any] = {"cuda": cuda.describe()}
    right = True
    for name in given.only:
        left = end - time.monotonic()
        results[name] = run(name, given.out, left) if left > 1 else {"error": "no time"}
        (given.out / "gpu_check.json").write_text(json.dumps(results, indent=1))
        print(f"{name}: {json.dumps(results[name])[:300]}", flush=True)
        if STAGES[name][2]:
            right &= results[name].get("wrong") == []
    print(table_of(results))
    return 0 if right else 1


def table_of(results: dict[str, Any]) -> str:
    """Times as Markdown."""
    rate = results.get("ceilings", {}).get("copy_gb_s")
    lines = ["| frames, batch | us a frame | torch us | x torch | of copy rate |"]
    lines.append("|---|---|---|---|---|")
    for name, row in results.get("timing", {}).get("frames", {}).items():
        torch_us = row.get("torch_us")
        ratio = f"{torch_us / row['ours_us']:.1f}" if torch_us else "-"
        share = f"{row['gb_s'] / rate:.0%}" if rate else "-"
        theirs = f"{torch_us:.1f}" if torch_us else "-"
        lines.append(
            f"| {name} | {row['ours_us']:.1f} | {theirs} | {ratio} | {share} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
