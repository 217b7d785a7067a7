"""Scenes as H.264 files: encode, decode, and a bank of decoded frames for training."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from phasefusion.tinyvlm.world import Scene, render, sample_scene

__all__ = [
    "BANK_GRID",
    "CLIP_PX",
    "bank_scene",
    "build_bank",
    "decode_clip",
    "encode_clip",
    "grid_indices",
    "resize_frames",
]

CLIP_PX = 224
#: Frames kept of each clip of a bank: the grid that holds every phase in twelfths of a
#: step of 8 frames, in sixths of 16, in quarters of 24 and in thirds of 32.
BANK_GRID = 96


def grid_indices(
    n_frames: int, budget: int, phase: tuple[int, int] = (0, 1)
) -> NDArray[np.int64]:
    """Frame indices of a uniform grid at an exact phase.

    Parameters
    ----------
    n_frames, budget : int
        Frames of the clip and of the grid.
    phase : (int, int), default (0, 1)
        Numerator and denominator of the offset in steps, in [0, 1).

    Returns
    -------
    indices : ndarray, shape (budget,), int64
        ``floor((i + phase) * n_frames / budget)`` in exact integers.

    Examples
    --------
    >>> grid_indices(100, 8, (1, 2))
    array([ 6, 18, 31, 43, 56, 68, 81, 93])
    """
    num, den = phase
    return (np.arange(budget) * den + num) * n_frames // (budget * den)


def encode_clip(scene: Scene, path: Path, *, crf: int = 26, gop: int = 75) -> None:
    """Render a scene and write it as an H.264 file with B-frames.

    Parameters
    ----------
    scene : Scene
    path : Path
        The file to write; its folder exists.
    crf, gop : int
        Quality (higher is smaller) and largest distance of key frames.

    Raises
    ------
    RuntimeError
        If ffmpeg fails.
    """
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{CLIP_PX}x{CLIP_PX}", "-r", str(scene.fps), "-i", "-"]
    command += ["-vf", "scale=out_color_matrix=bt709:out_range=tv,format=yuv420p"]
    command += ["-c:v", "libx264", "-preset", "fast", "-crf", str(crf)]
    command += ["-bf", "3", "-g", str(gop), "-threads", "1"]
    command += ["-color_range", "tv", "-colorspace", "bt709"]
    command += ["-color_primaries", "bt709", "-color_trc", "bt709"]
    command += ["-fflags", "+bitexact", "-flags:v", "+bitexact"]
    command += ["-movflags", "+faststart", str(path)]
    frames = render(scene, range(scene.n_frames), side_px=CLIP_PX)
    done = subprocess.run(command, input=frames.tobytes(), capture_output=True)
    if done.returncode:
        raise RuntimeError(f"ffmpeg failed on {path}: {done.stderr.decode()}")


def decode_clip(path: Path) -> NDArray[np.uint8]:
    """Decode all frames of a clip through ffmpeg.

    Returns
    -------
    frames : ndarray, shape (n_frames, 224, 224, 3), uint8
    """
    command = ["ffmpeg", "-v", "error", "-threads", "1", "-i", str(path)]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-fps_mode", "passthrough", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, CLIP_PX, CLIP_PX, 3)


def resize_frames(
    frames: NDArray[np.uint8] | Sequence[NDArray[np.uint8]], side_px: int
) -> NDArray[np.uint8]:
    """Resize frames as Pillow does (bicubic, antialiased)."""
    size, mode = (side_px, side_px), Image.Resampling.BICUBIC
    return np.stack([np.asarray(Image.fromarray(f).resize(size, mode)) for f in frames])


def bank_scene(seed: int, number: int) -> Scene:
    """Scene `number` of the bank with this seed."""
    return sample_scene(np.random.default_rng([seed, number]))


def _bank_clip(number: int, *, folder: Path, seed: int, side_px: int) -> None:
    target = folder / f"{number:05d}.npy"
    if target.exists():
        return
    scene, path = bank_scene(seed, number), folder / f"{number:05d}.mp4"
    encode_clip(scene, path)
    frames = decode_clip(path)
    if len(frames) != scene.n_frames:
        raise RuntimeError(f"{path}: {len(frames)} frames, not {scene.n_frames}")
    kept = resize_frames(frames[grid_indices(scene.n_frames, BANK_GRID)], side_px)
    part = folder / f"{number:05d}.part.npy"
    np.save(part, kept)
    part.rename(target)
    path.unlink()


def build_bank(
    folder: Path, *, n_clip: int, seed: int, side_px: int, workers: int = 2
) -> None:
    """Encode, decode and resize scenes; keep their frames as one array file a clip.

    Parameters
    ----------
    folder : Path
        Made when missing. A clip that is already there is not made again.
    n_clip, seed : int
        The scenes are ``bank_scene(seed, 0 ... n_clip - 1)``.
    side_px : int
        Side of the frames kept.
    workers : int, default 2
        Processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    make = partial(_bank_clip, folder=folder, seed=seed, side_px=side_px)
    with ProcessPoolExecutor(workers) as pool:
        for _ in pool.map(make, range(n_clip), chunksize=8):
            pass
