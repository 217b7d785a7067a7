"""Check the GPU path on a real GPU in one run: first that it is right, then how fast.

Every stage has a deadline and runs in a process of its own, 420 seconds in all at most;
what it found is written to ``OUT/gpu_check.json`` as soon as it ends. The exit code
says whether all results were right, and nothing else: a time is a figure, no verdict.
Without a GPU it says so, and that is no fault unless ``PHASEFUSION_REQUIRE_CUDA=1``.

    python benchmarks/gpu_check.py --out results
"""

from __future__ import annotations

import argparse
import csv
import io
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _gpu_cases as cases
import numpy as np

SHAPES = {
    "1080p to 448": ((1080, 1920), (448, 448)),
    "1080p to 588x1036": ((1080, 1920), (588, 1036)),
    "720p to 448": ((720, 1280), (448, 448)),
    "2160p to 448": ((2160, 3840), (448, 448)),
    "portrait to 448": ((1920, 1080), (448, 448)),
}
BATCHES = (32, 8, 128, 1)
TIMED = ("tiled", "tensor")
L2_BYTES = 60 << 20
METRICS = (
    "dram__bytes.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "gpu__time_duration.sum",
)
#: What a small run of every kernel of frames is, for the tools of the toolkit.
SMALL_RUN = """
import os
import numpy as np
from phasefusion import cuda
b = np.random.default_rng(0).integers(0, 256, (2, 61, 83, 3), np.uint8)
for variant in ("plain", "tiled", "tensor"):
    os.environ["PHASEFUSION_CUDA_VARIANT"] = variant
    for first_pass in ("horizontal", "vertical"):
        cuda.resize(b, (70, 41), first_pass=first_pass)
cuda.fuse_items(np.zeros((9, 3, 5)), np.arange(9))
"""
#: The frame that the emulator's counts are of.
COUNTED_RUN = """
import os
import numpy as np
from phasefusion import cuda
b = np.random.default_rng(0).integers(0, 256, (1, 1080, 1920, 3), np.uint8)
for variant in ("tiled", "tensor"):
    os.environ["PHASEFUSION_CUDA_VARIANT"] = variant
    cuda.resize_normalize(
        b, (448, 448), mean=[0.5] * 3, std=[0.25] * 3, first_pass="horizontal"
    )
"""

Keep = Callable[[dict[str, Any]], None]


def collect(found: dict[str, Any], checks: Any, keep: Keep) -> None:
    """Count cases, and list those that are wrong."""
    for said in checks:
        found["cases"] += 1
        if said is not None:
            found["wrong"].append(said)
            keep(found)


def stage_ceilings(keep: Keep) -> dict[str, Any]:
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
        "torch": torch.__version__,
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


def stage_correct(keep: Keep) -> dict[str, Any]:
    """Every kernel of frames against the CPU core, bit for bit."""
    from phasefusion import cuda

    seed = time.time_ns()
    rng = np.random.default_rng(seed)
    where = cases.space()
    found = {"cases": 0, "wrong": [], "seed": seed, "arrays": type(where).__name__}
    found["image"] = cuda.device().image
    small = list(itertools.product(cases.SMALL, cases.TARGETS, (3,)))
    if os.environ.get("PHASEFUSION_CHECK_QUICK") == "1":
        small, large = [((61, 83), (37, 41), 2)], []
    else:
        large = [(source, size, 2) for source, size in cases.LARGE]
    collect(found, cases.wrong_frames(where, rng, small), keep)
    collect(found, cases.wrong_yuv(rng, [case[0] for case in small]), keep)
    if where is not None:
        collect(found, cases.wrong_places(where, rng), keep)
    collect(found, cases.wrong_frames(where, rng, large), keep)
    return found


def stage_nvrtc(keep: Keep) -> dict[str, Any]:
    """The same once more with kernels that NVRTC has made."""
    from phasefusion.cuda import nvrtc

    if nvrtc.find() is None:
        return {"skipped": "no NVRTC", "wrong": []}
    os.environ["PHASEFUSION_CUDA_IMAGE"] = "nvrtc"
    return stage_correct(keep)


def stage_planes(keep: Keep) -> dict[str, Any]:
    """Frames of videos, whose planes the decoder hands to the device in chunks."""
    quick = os.environ.get("PHASEFUSION_CHECK_QUICK") == "1"
    paths = cases.clips(1 if quick else 6)
    found: dict[str, Any] = {"cases": 0, "wrong": [], "clips": [p.name for p in paths]}
    collect(found, cases.wrong_planes(paths), keep)
    return found


def stage_streams(keep: Keep) -> dict[str, Any]:
    """Streams, threads and graphs."""
    where = cases.space()
    if where is None:
        return {"skipped": "no framework with arrays on this GPU", "wrong": []}
    found: dict[str, Any] = {"cases": 0, "wrong": []}
    checks = cases.wrong_streams(where, np.random.default_rng(time.time_ns()))
    collect(found, checks, keep)
    return found


def stage_scores(keep: Keep) -> dict[str, Any]:
    """Posteriors, distances, and the two products of cuBLAS."""
    if not isinstance(cases.space(), cases.TorchSpace):
        return {"skipped": "no torch with this GPU", "wrong": []}
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


def stage_sanitizer(keep: Keep) -> dict[str, Any]:
    """Tiny shapes under compute-sanitizer."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"skipped": "no compute-sanitizer", "wrong": []}
    found: dict[str, Any] = {"wrong": [], "done": []}
    for check in ("memcheck", "racecheck", "initcheck"):
        command = [tool, "--tool", check, "--error-exitcode", "9"]
        done = subprocess.run(
            [*command, sys.executable, "-c", SMALL_RUN], capture_output=True, text=True
        )
        if done.returncode:
            found["wrong"].append([check, done.stdout[-2000:], done.stderr[-500:]])
        found["done"].append(check)
        keep(found)
    return found


def stage_timing(keep: Keep) -> dict[str, Any]:
    """Microseconds a frame, against torch on the same tensors and the copy rate."""
    found: dict[str, Any] = {"frames": {}}
    end = time.monotonic() + 0.9 * STAGES["timing"].limit_s
    for batch, (name, (source, size)) in itertools.product(BATCHES, SHAPES.items()):
        if time.monotonic() > end:
            found["left_out"] = f"{name}, {batch} and what follows"
            break
        found["frames"][f"{name}, {batch}"] = time_case(source, size, batch)
        keep(found)
    return found


def time_case(
    source: tuple[int, int], size: tuple[int, int], batch: int
) -> dict[str, float]:
    """One shape and batch; inputs take turns, so that none is left in the L2 cache."""
    import torch

    from phasefusion import cuda

    frame_bytes = 3 * source[0] * source[1]
    n = max(1, min(8, -(-4 * L2_BYTES // (batch * frame_bytes))))
    shape = (n, batch, *source, 3)
    pool = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
    out = torch.empty((batch, 3, *size), device="cuda")
    turn = itertools.cycle(range(n))
    row: dict[str, float] = {}

    def ours() -> None:
        cuda.resize_normalize(pool[next(turn)], size, **cases.NORM, out=out)

    for variant in TIMED:
        with cases.forced(variant):
            row[f"{variant}_us"] = 1e6 * timed(ours, 30) / batch
    if batch <= 32:
        for name, theirs in peers(size).items():
            spent = timed(lambda do=theirs: do(pool[next(turn)]), 8)
            row[f"{name}_us"] = 1e6 * spent / batch
    moved = frame_bytes + 4 * 3 * size[0] * size[1]
    row["gb_s"] = moved / min(row[f"{v}_us"] for v in TIMED) / 1e3
    return row


def peers(size: tuple[int, int]) -> dict[str, Callable[[Any], Any]]:
    """Antialiased resizes of the same tensors, each followed by normalising."""
    import torch
    import torch.nn.functional as nn

    mean = torch.tensor(cases.MEAN, device="cuda").view(1, 3, 1, 1)
    std = torch.tensor(cases.STD, device="cuda").view(1, 3, 1, 1)

    def by_torch(frames: Any) -> Any:
        x = frames.permute(0, 3, 1, 2).float().div_(255)
        x = nn.interpolate(x, size, mode="bicubic", antialias=True)
        return x.sub_(mean).div_(std)

    found: dict[str, Callable[[Any], Any]] = {"torch": by_torch}
    try:
        from torchvision.transforms.v2 import functional as vision
    except ImportError:
        return found

    def by_torchvision(frames: Any) -> Any:
        x = vision.resize(frames.permute(0, 3, 1, 2), list(size), 3, antialias=True)
        return vision.to_dtype(x, torch.float32, scale=True).sub_(mean).div_(std)

    found["torchvision"] = by_torchvision
    return found


def stage_choice(keep: Keep) -> dict[str, Any]:
    """What the one measurement says that decides between the kernels."""
    from phasefusion import cuda
    from phasefusion.cuda import choice

    times = choice.measure(cuda.device())
    return {"milliseconds": times, "frames": choice.TRIAL[2]}


def stage_ncu(keep: Keep) -> dict[str, Any]:
    """Counts of the device, for the emulator's to be compared with."""
    tool = shutil.which("ncu")
    if tool is None:
        return {"skipped": "no ncu"}
    command = [tool, "--csv", "--clock-control", "none", "--metrics", ",".join(METRICS)]
    done = subprocess.run(
        [*command, sys.executable, "-c", COUNTED_RUN], capture_output=True, text=True
    )
    kernels = kernels_of(done.stdout)
    if not kernels:
        return {"skipped": f"ncu found nothing: {(done.stdout + done.stderr)[-500:]}"}
    return {"kernels": kernels}


def kernels_of(text: str) -> dict[str, dict[str, str]]:
    """Metrics by kernel, of what ncu writes as CSV below its own remarks."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    found: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        name, metric = row.get("Kernel Name"), row.get("Metric Name")
        if name and metric:
            value = f"{row.get('Metric Value')} {row.get('Metric Unit')}"
            found.setdefault(name, {})[metric] = value
    return found


def stage_upload(keep: Keep) -> dict[str, Any]:
    """Frames of the host, there and back, in pinned chunks."""
    from phasefusion import cuda

    batch = np.random.default_rng(0).integers(0, 256, (96, 1080, 1920, 3), np.uint8)
    cuda.resize(batch[:8], (448, 448))
    begin = time.perf_counter()
    cuda.resize(batch, (448, 448))
    seconds = time.perf_counter() - begin
    return {"frames_s": len(batch) / seconds, "gb_s": batch.nbytes / seconds / 1e9}


@dataclass(frozen=True)
class Stage:
    """What it does, seconds it may take, and whether it says what is right."""

    work: Callable[[Keep], dict[str, Any]]
    limit_s: float
    judges: bool


STAGES = {
    "ceilings": Stage(stage_ceilings, 30, False),
    "correct": Stage(stage_correct, 70, True),
    "nvrtc": Stage(stage_nvrtc, 55, True),
    "planes": Stage(stage_planes, 30, True),
    "streams": Stage(stage_streams, 20, True),
    "scores": Stage(stage_scores, 40, True),
    "sanitizer": Stage(stage_sanitizer, 60, True),
    "choice": Stage(stage_choice, 15, False),
    "timing": Stage(stage_timing, 45, False),
    "ncu": Stage(stage_ncu, 35, False),
    "upload": Stage(stage_upload, 20, False),
}


def _run_stage(name: str, path: str) -> None:
    def keep(found: dict[str, Any]) -> None:
        text = json.dumps({**found, "error": "out of time, or ended"}, default=str)
        write(Path(path), text)

    try:
        found = STAGES[name].work(keep)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"[:2000]}
    write(Path(path), json.dumps(found, default=str))


def write(path: Path, text: str) -> None:
    """Write a file that is whole at every moment."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def run(name: str, folder: Path, left_s: float) -> dict[str, Any]:
    """One stage in a process of its own, up to its deadline."""
    path = folder / f"{name}.json"
    path.unlink(missing_ok=True)
    process = multiprocessing.get_context("spawn").Process(
        target=_run_stage, args=(name, str(path))
    )
    begin = time.monotonic()
    process.start()
    process.join(max(1.0, min(STAGES[name].limit_s, left_s)))
    late = process.is_alive()
    if late:
        process.kill()
        process.join()
    found = json.loads(path.read_text()) if path.is_file() else {}
    if late:
        found["error"] = "out of time"
    elif not found:
        found["error"] = f"ended with {process.exitcode}"
    return {**found, "seconds": round(time.monotonic() - begin, 1)}


def is_right(stage: Stage, found: dict[str, Any]) -> bool:
    """Whether a stage that judges came to its end and found nothing wrong."""
    return not stage.judges or ("error" not in found and found.get("wrong") == [])


def main() -> int:
    """Run the stages that the budget allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu_check"))
    parser.add_argument("--budget", type=float, default=420.0, help="seconds in all")
    parser.add_argument("--only", nargs="*", choices=list(STAGES), default=list(STAGES))
    given = parser.parse_args()
    from phasefusion import cuda

    end = time.monotonic() + given.budget
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "gpu_check.json"
    reason = cuda.why()
    if reason is not None:
        print(f"gpu_check: no GPU, nothing was checked: {reason}")
        write(path, json.dumps({"no_gpu": reason}, indent=1))
        return 0 if os.environ.get("PHASEFUSION_REQUIRE_CUDA") != "1" else 1
    results: dict[str, Any] = {"cuda": cuda.describe()}
    right = True
    for name in given.only:
        left = end - time.monotonic()
        results[name] = run(name, given.out, left) if left > 1 else {"error": "no time"}
        right &= is_right(STAGES[name], results[name])
        results["right"] = right
        write(path, json.dumps(results, indent=1))
        print(f"{name}: {json.dumps(results[name])[:300]}", flush=True)
    print(table_of(results))
    print("right" if right else "WRONG")
    return 0 if right else 1


def table_of(results: dict[str, Any]) -> str:
    """Times as Markdown."""
    rate = results.get("ceilings", {}).get("copy_gb_s")
    names = [*TIMED, "torch", "torchvision"]
    head = " | ".join(f"{name}, us a frame" for name in names)
    lines = [f"| frames, batch | {head} | x torch | of copy rate |"]
    lines.append("|---" * (len(names) + 3) + "|")
    for name, row in results.get("timing", {}).get("frames", {}).items():
        cells = [f"{row[f'{n}_us']:.1f}" if f"{n}_us" in row else "-" for n in names]
        ours = min(row[f"{n}_us"] for n in TIMED)
        cells.append(f"{row['torch_us'] / ours:.1f}" if "torch_us" in row else "-")
        cells.append(f"{row['gb_s'] / rate:.0%}" if rate else "-")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
