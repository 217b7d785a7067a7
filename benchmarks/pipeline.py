"""From a file to the model's input: 24 frames as float32 (24, 3, H, W).

    python benchmarks/pipeline.py [--rounds 5] [--rows 720p] [--json FILE]

Ours is one fused call. Against it: what people put together from public libraries, each
with the fastest resize that it offers for the purpose. Every contender runs in a
process of its own, all in turn, round after round, one thread, processor seconds. The
number that each frame carries is read back from the result, ours is also compared with
Pillow and NumPy on the same frames, value by value, and the others' mean distance from
ours is printed, since some of them resize with another filter.

Exit code 1 when a goal is missed or a result of ours is not exact.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import _clips
import _contenders
import _report
import numpy as np
from _contenders import OURS
from _report import Goal, Row
from _resources import fused
from _worker import Failed, Worker
from barcode import read as read_number
from decode import Times, midpoints, print_times
from numpy.typing import NDArray

N_FRAMES = 24
MEAN = np.array([0.48, 0.46, 0.41], np.float32)
STD = np.array([0.27, 0.26, 0.28], np.float32)
Batch = NDArray[np.float32]
Pipeline = Callable[[str, Sequence[int], tuple[int, int]], Batch]

ROWS = {  # name: clip, size
    "1080p": ("h264_1080p.mp4", (448, 448)),
    "720p": ("h264_720p.mp4", (448, 448)),
    "360p": ("h264_360p.mp4", (224, 224)),
}
GOALS = {
    "torchcodec + torch": Goal(1.5, 2.0),
    "decord + Pillow": Goal(2.2, 3.0),
}


def normalised(pictures: Sequence[NDArray[np.uint8]]) -> Batch:
    """Uint8 pictures (h, w, 3) to planes, by NumPy."""
    out = np.empty((len(pictures), 3, *pictures[0].shape[:2]), np.float32)
    for i, picture in enumerate(pictures):
        planes = picture.transpose(2, 0, 1) * np.float32(1 / 255)
        out[i] = (planes - MEAN[:, None, None]) / STD[:, None, None]
    return out


def by_pillow(frames: Sequence[NDArray[np.uint8]], size: tuple[int, int]) -> Batch:
    from PIL import Image

    how = Image.Resampling.BICUBIC
    small = [Image.fromarray(f).resize(size[::-1], how) for f in frames]
    return normalised([np.asarray(image) for image in small])


def ours() -> Pipeline:
    warnings.simplefilter("ignore")

    def run(path: str, indices: Sequence[int], size: tuple[int, int]) -> Batch:
        batch: Batch = fused(path, 1, size, MEAN, STD)
        return batch

    return run


def decord_pillow() -> Pipeline:
    decoder = _contenders.decord()

    def run(path: str, indices: Sequence[int], size: tuple[int, int]) -> Batch:
        return by_pillow(decoder.read(path, indices, 1), size)

    return run


def torchcodec_torch() -> Pipeline:
    """Resized as uint8 with the channels last: torch's fastest way."""
    import torch

    decoder = _contenders.torchcodec_exact()
    mean, std = torch.from_numpy(MEAN), torch.from_numpy(STD)

    def run(path: str, indices: Sequence[int], size: tuple[int, int]) -> Batch:
        frames = torch.from_numpy(decoder.read(path, indices, 1))
        small = torch.nn.functional.interpolate(
            frames.permute(0, 3, 1, 2), size, mode="bicubic", antialias=True
        )
        planes = small.to(torch.float32, memory_format=torch.contiguous_format)
        planes.mul_(1 / 255).sub_(mean[:, None, None]).div_(std[:, None, None])
        return planes.numpy()

    return run


def opencv_area() -> Pipeline:
    import cv2

    decoder = _contenders.opencv()

    def run(path: str, indices: Sequence[int], size: tuple[int, int]) -> Batch:
        frames = decoder.read(path, indices, 1)
        how = cv2.INTER_AREA
        return normalised(
            [cv2.resize(f, size[::-1], interpolation=how) for f in frames]
        )

    return run


def pyav_swscale() -> Pipeline:
    """PyAV, where swscale converts and resizes in one step."""
    _contenders.av_version()

    def run(path: str, indices: Sequence[int], size: tuple[int, int]) -> Batch:
        wanted, found = set(indices), []
        container, stream = _contenders.av_opened(path, 1)
        height, width = size
        with container:
            for i, frame in enumerate(container.decode(stream)):
                if i not in wanted:
                    continue
                small = frame.reformat(width, height, "rgb24", interpolation="BICUBIC")
                found.append(small.to_ndarray())
                if len(found) == len(wanted):
                    break
        return normalised(found)

    return run


PIPELINES: dict[str, Callable[[], Pipeline]] = {
    OURS: ours,
    "decord + Pillow": decord_pillow,
    "torchcodec + torch": torchcodec_torch,
    "OpenCV, INTER_AREA": opencv_area,
    "PyAV + swscale": pyav_swscale,
}


#: The libraries of each, whose versions are noted.
LIBRARIES = {
    OURS: (),
    "decord + Pillow": ("decord", "pillow"),
    "torchcodec + torch": ("torchcodec", "torch"),
    "OpenCV, INTER_AREA": ("opencv-python-headless",),
    "PyAV + swscale": ("av",),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One timed call: seconds, the numbers seen, and every 16th value."""

    cpu_s: float
    numbers: list[int | None]
    values: Batch


class Timed:
    """In its own process: a pipeline, timed, its result looked at."""

    def __init__(self, name: str) -> None:
        self._name, self._run = name, PIPELINES[name]()

    def versions(self) -> list[str]:
        """Of what it is made of; called first, for it may not be built at all."""
        return _report.versions_of(*LIBRARIES[self._name])

    def run(self, path: str, indices: Sequence[int], size: tuple[int, int]) -> Outcome:
        began = time.process_time()
        batch = self._run(path, indices, size)
        seconds = time.process_time() - began
        pixels = (batch * STD[:, None, None] + MEAN[:, None, None]) * 255
        upright = pixels.transpose(0, 2, 3, 1)
        return Outcome(
            seconds, [read_number(p) for p in upright], batch.ravel()[::16].copy()
        )


class Exact:
    """In its own process: ours against Pillow and NumPy on the same full frames."""

    def differing(self, path: str, size: tuple[int, int]) -> int:
        """Values of float32 that are not bit for bit the same."""
        from phasefusion import PhaseGrid
        from phasefusion.video import read_clip

        frames = read_clip(path, PhaseGrid(N_FRAMES)).frames[0]
        got = fused(path, 1, size, MEAN, STD)
        return int(np.count_nonzero(got != by_pillow(frames, size)))


def workers() -> tuple[dict[str, Worker], dict[str, str]]:
    """A worker for each pipeline that can be built, and why others cannot be."""
    made, left_out = {}, {}
    for name in PIPELINES:
        worker = Worker(functools.partial(Timed, name))
        try:
            worker.call("versions")
        except Failed as missing:
            print(f"{name} is left out: {missing}")
            left_out[name] = str(missing)
            continue
        made[name] = worker
    return made, left_out


def race(
    path: Path,
    size: tuple[int, int],
    running: dict[str, Worker],
    rounds: int,
) -> tuple[Times, dict[str, float]]:
    """Times, and how far each result is from ours on average, in normalised units."""
    indices = midpoints(_clips.CLIPS[path.name].n_frames, N_FRAMES)
    times, values = Times(), {}
    for k in range(rounds + 1):  # the first round is not counted
        for name, worker in running.items():
            if name in times.trouble:
                continue
            try:
                outcome = worker.call("run", str(path), indices, size)
            except Failed as failed:
                times.trouble[name] = str(failed)
                continue
            if outcome.numbers != indices:
                times.trouble[name] = "frames are others"
            values[name] = outcome.values
            if k:
                times.seconds.setdefault(name, []).append(outcome.cpu_s)
    base = values.get(OURS)
    if base is None:
        return times, {}
    return times, {n: float(abs(v - base).mean()) for n, v in values.items()}


def race_rows(key: str, times: Times, n_differing: int) -> list[Row]:
    clip, size = ROWS[key]
    title = f"{N_FRAMES} frames of {_clips.CLIPS[clip].title} to {size[0]} px"
    if n_differing or OURS not in times.sound():
        why = times.trouble.get(OURS, f"{n_differing} values differ from Pillow's")
        return [Row(key, title, None, detail=why, wrong=True)]
    rows = []
    for name in dict.fromkeys([*GOALS, *times.sound()]):
        if name == OURS:
            continue
        row_key, against = f"{key}/{name}", f"{title}, against {name}"
        goal = GOALS.get(name, Goal())
        if name not in times.sound():
            why = times.trouble.get(name, "it cannot be imported")
            rows.append(Row(row_key, against, None, goal=goal, lacking=why))
            continue
        theirs, ours = times.seconds[name], times.seconds[OURS]
        rows.append(_report.ratio_row(row_key, against, theirs, ours, goal, name))
    return rows


def main() -> int:
    parser = _report.parser(__doc__, 5, ROWS)
    _clips.add_argument(parser)
    options = _report.parse(parser, ROWS)
    paths = _clips.make([ROWS[key][0] for key in options.rows], options.clips)
    running, left_out = workers()
    versions = {v for one in running.values() for v in one.call("versions")}
    rows: list[Row] = []
    for key in options.rows:
        name, size = ROWS[key]
        print(f"\n{key}: {_clips.CLIPS[name].title} to {size[0]} px", flush=True)
        with Worker(Exact) as exact:
            n_differing = exact.call("differing", str(paths[name]), size)
        times, apart = race(paths[name], size, running, options.rounds)
        print_times(times)
        print("    mean distance from ours:", end="")
        print(", ".join(f" {n} {v:.4f}" for n, v in apart.items() if n != OURS))
        made = race_rows(key, times, n_differing)
        for row in made:
            _report.print_row(row)
        rows += made
    for worker in running.values():
        worker.stop()
    print()
    return _report.finish(rows, options, versions, left_out)


if __name__ == "__main__":
    sys.exit(main())
