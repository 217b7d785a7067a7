"""Decoded frames to what a vision tower reads, against the usual ways.

    python benchmarks/pixels.py [--rounds N] [--json FILE]

8 frames of 720 x 1280 become Qwen2-VL's patch rows and InternVL's planes, on one
thread, in turn: by phasefusion, by NumPy's transpose after our own resize, by
transformers' processor on Pillow and, where torchvision can be imported, by its video
processor. Each result is compared with ours in the same run. Exits with 1 when a
result is another one or a goal is missed.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import _report
import numpy as np
from _report import Goal, Row
from _worker import told
from numpy.typing import NDArray

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch

from phasefusion import resize_normalize
from phasefusion.pixels import (
    PatchSettings,
    PlaneSettings,
    pixel_settings,
    to_pixel_values,
    to_qwen_patches,
)

SHAPE = (8, 720, 1280, 3)
LIMITS = {"shortest_edge": 128 * 28**2, "longest_edge": 768 * 28**2}
SIDE = {"height": 448, "width": 448}
# Their time over ours, at least.
GOALS = {"NumPy": Goal(1.4), "pil": Goal(3.0), "torchvision": Goal(2.0)}
#: How far their results may be from ours.
ALLOWED = {"NumPy": 2e-6, "pil": 0.0, "torchvision": 0.031}
NAMES = {
    "NumPy": "our resize and NumPy",
    "pil": "transformers with Pillow",
    "torchvision": "transformers with torchvision",
}
#: Key and title of each task, and whom it has goals against.
TASKS = {
    "qwen-clip": ("Qwen2-VL's rows of a clip of 8 frames", ("NumPy", "torchvision")),
    "qwen-pictures": ("Qwen2-VL's rows of 8 pictures", ("pil",)),
    "internvl": ("InternVL's planes of 8 frames", ("pil", "torchvision")),
}

Floats = NDArray[np.float32]


def numpy_patches(frames: NDArray[np.uint8], settings: PatchSettings) -> Floats:
    """Normalised planes, then the reshape and transpose of the processors."""
    n_frames, height, width, _ = frames.shape
    h, w = settings.frame_size(height, width, n_frames)
    planes = resize_normalize(frames, (h, w), mean=settings.mean, std=settings.std)
    side, merge, depth = settings.patch_px, settings.merge, settings.temporal_frames
    t, gh, gw = n_frames // depth, h // side, w // side
    blocks = planes.reshape(
        t, depth, 3, gh // merge, merge, side, gw // merge, merge, side
    )
    rows = blocks.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return rows.reshape(t * gh * gw, 3 * depth * side * side)


def stock(module: str, name: str, **options: Any) -> Any:
    """Make a processor of transformers; a text says why it cannot be imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = __import__(f"transformers.models.{module}", fromlist=[name])
            return getattr(found, name)(**options)
    except (ImportError, RuntimeError, AttributeError) as error:
        return f"transformers' {name} cannot be made: {told(error)}"


def of_pictures(processor: Any, frames: NDArray[np.uint8]) -> Floats:
    out = processor(list(frames), return_tensors="np")
    return np.asarray(out["pixel_values"], np.float32)


def of_video(processor: Any, frames: NDArray[np.uint8]) -> Floats:
    clip = torch.from_numpy(frames).permute(0, 3, 1, 2)
    out = processor([clip], return_tensors="pt", do_sample_frames=False)
    return out["pixel_values_videos"].numpy()


def timed(run: Callable[..., Floats], processor: Any, *arguments: Any) -> Any:
    """What is timed, or the text that says why it cannot be."""
    if isinstance(processor, str):
        return processor
    return lambda: run(processor, *arguments)


def ways_of_qwen(frames: NDArray[np.uint8]) -> dict[str, Any]:
    settings = pixel_settings({"size": LIMITS}, family="qwen2_vl")
    assert isinstance(settings, PatchSettings)
    ways = {
        "ours": lambda: to_qwen_patches(frames, settings)[0],
        "NumPy": lambda: numpy_patches(frames, settings),
    }
    options = {"size": LIMITS, "cap_pixels_per_frame": False}
    module = "qwen2_vl.video_processing_qwen2_vl"
    video = stock(module, "Qwen2VLVideoProcessor", **options)
    ways["torchvision"] = timed(of_video, video, frames)
    return ways


def ways_of_qwen_pictures(frames: NDArray[np.uint8]) -> dict[str, Any]:
    settings = pixel_settings({"size": LIMITS}, family="qwen2_vl", kind="image")
    assert isinstance(settings, PatchSettings)
    module = "qwen2_vl.image_processing_pil_qwen2_vl"
    pil = stock(module, "Qwen2VLImageProcessorPil", size=LIMITS)
    ways: dict[str, Any] = {
        "ours": lambda: np.concatenate(
            [to_qwen_patches(frame[None], settings)[0] for frame in frames]
        )
    }
    ways["pil"] = timed(of_pictures, pil, frames)
    return ways


def ways_of_internvl(frames: NDArray[np.uint8]) -> dict[str, Any]:
    settings = pixel_settings({"size": SIDE}, family="internvl")
    assert isinstance(settings, PlaneSettings)
    by_pil = replace(settings, backend="pil", first_pass="auto")
    module = "got_ocr2.image_processing_pil_got_ocr2"
    pil = stock(module, "GotOcr2ImageProcessorPil", size=SIDE)
    module = "internvl.video_processing_internvl"
    video = stock(module, "InternVLVideoProcessor", size=SIDE)
    ways: dict[str, Any] = {"ours": lambda: to_pixel_values(frames, by_pil)}
    ways["pil"] = timed(of_pictures, pil, frames)
    ways["torchvision"] = timed(lambda *both: of_video(*both)[0], video, frames)
    return ways


def times_of(ways: dict[str, Any], rounds: int) -> tuple[dict[str, Any], dict]:
    """Processor seconds of each, all ways in turn, and the last results."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    results = {}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            results[name] = way()
            times[name].append(time.process_time() - start)
    return times, results


def task_rows(key: str, ways: dict[str, Any], rounds: int) -> list[Row]:
    title, peers = TASKS[key]
    there = {name: way for name, way in ways.items() if not isinstance(way, str)}
    times, results = times_of(there, rounds)
    rows = []
    for name in peers:
        row_key, against = f"{key}/{name}", f"{title}, against {NAMES[name]}"
        if name not in there:
            lacking = ways[name]
            rows.append(Row(row_key, against, None, goal=GOALS[name], lacking=lacking))
            continue
        away = float(np.abs(results[name] - results["ours"]).max())
        row = _report.ratio_row(
            row_key,
            against,
            times[name],
            times["ours"],
            GOALS[name],
            NAMES[name],
            detail=f"largest difference {away:.1e}",
            wrong=not away <= ALLOWED[name],
        )
        rows.append(row)
    return rows


def main() -> int:
    options = _report.parse(_report.parser(__doc__, 11))
    torch.set_num_threads(1)
    y, x = np.mgrid[: SHAPE[1], : SHAPE[2]]
    picture = 127 + 90 * np.sin(y / 31 + x / 17) + 20 * np.sin(y * x / 997)
    frames = np.repeat(picture.astype(np.uint8)[None, :, :, None], 3, axis=3)
    frames = np.stack([np.roll(frames[0], 13 * i, axis=1) for i in range(SHAPE[0])])
    ways = {
        "qwen-clip": ways_of_qwen(frames),
        "qwen-pictures": ways_of_qwen_pictures(frames),
        "internvl": ways_of_internvl(frames),
    }
    rows = []
    for key, of_task in ways.items():
        made = task_rows(key, of_task, options.rounds)
        for row in made:
            _report.print_row(row)
        rows += made
    versions = _report.versions_of("torch", "torchvision", "transformers", "pillow")
    return _report.finish(rows, options, versions)


if __name__ == "__main__":
    sys.exit(main())
