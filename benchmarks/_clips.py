"""The videos that are timed: made by the ffmpeg program, every frame numbered.

A zoom into fractal detail that also pans, under a moving test card with a little
noise, at the bit rates that video sites use. A strip on top carries the frame's number
(tests/barcode.py), so that what a decoder returns can be checked for being the frame
that was asked for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import barcode

X264 = ("-c:v", "libx264", "-preset", "medium")


@dataclass(frozen=True, slots=True)
class Clip:
    """How one clip is made; `title` says in print what it is."""

    name: str
    title: str
    width_px: int
    height_px: int
    rate: int
    seconds: int
    options: tuple[str, ...]
    passes: int = 1

    @property
    def n_frames(self) -> int:
        return self.rate * self.seconds

    @property
    def codec(self) -> str:
        return self.options[1]


def bitrate(kbps: int) -> tuple[str, ...]:
    return (
        *("-b:v", f"{kbps}k", "-maxrate", f"{2 * kbps}k"),
        *("-bufsize", f"{4 * kbps}k"),
    )


VP9 = (
    *("-c:v", "libvpx-vp9", *bitrate(1000), "-g", "128", "-row-mt", "1"),
    *("-deadline", "good", "-cpu-used", "5", "-tile-columns", "2"),
)
TEMPORAL_LAYERS = ":".join(
    [
        "ts_number_layers=3:ts_target_bitrate=500,800,1000:ts_rate_decimator=4,2,1",
        "ts_periodicity=4:ts_layer_id=0,2,1,2:ts_layering_mode=3",
    ]
)
CLIPS = {
    clip.name: clip
    for clip in [
        Clip(
            *("h264_720p.mp4", "60 s 720p H.264", 1280, 720, 25, 60),
            (*X264, *bitrate(1500), "-g", "250", "-bf", "3"),
        ),
        Clip(
            *("h264_360p.mp4", "180 s 360p H.264", 640, 360, 25, 180),
            (*X264, *bitrate(500), "-g", "250", "-bf", "3"),
        ),
        Clip(
            *("h264_1080p.mp4", "10 s 1080p H.264", 1920, 1080, 30, 10),
            (*X264, *bitrate(4000), "-g", "250", "-bf", "3"),
        ),
        Clip(
            *("h264_720p_no_b.mp4", "24 s 720p H.264, no B frames", 1280, 720, 25, 24),
            (*X264, *bitrate(1500), "-g", "250", "-bf", "0"),
        ),
        Clip(
            *("hevc_720p.mp4", "60 s 720p HEVC", 1280, 720, 25, 60),
            (
                *("-c:v", "libx265", "-preset", "fast", *bitrate(1000)),
                *("-x265-params", "log-level=none:keyint=250", "-tag:v", "hvc1"),
            ),
        ),
        Clip(
            *("vp9_720p.webm", "60 s 720p VP9, two passes", 1280, 720, 25, 60),
            (*VP9, "-auto-alt-ref", "6", "-lag-in-frames", "25"),
            passes=2,
        ),
        Clip(
            *("vp9_720p_one_pass.webm", "60 s 720p VP9, one pass", 1280, 720, 25, 60),
            (*VP9, "-auto-alt-ref", "1", "-lag-in-frames", "25"),
        ),
        Clip(
            *("vp9_720p_live.webm", "60 s 720p VP9, live layers", 1280, 720, 25, 60),
            (
                *("-c:v", "libvpx-vp9", "-b:v", "1000k", "-minrate", "1000k"),
                *("-maxrate", "1000k", "-g", "250", "-row-mt", "1", "-cpu-used", "7"),
                *("-deadline", "realtime", "-error-resilient", "1"),
                *("-lag-in-frames", "0", "-ts-parameters", TEMPORAL_LAYERS),
            ),
        ),
        Clip(
            *("av1_720p.mp4", "60 s 720p AV1", 1280, 720, 25, 60),
            ("-c:v", "libsvtav1", "-preset", "9", "-b:v", "900k", "-g", "250"),
        ),
    ]
}


@cache
def encoders() -> str:
    command = ["ffmpeg", "-hide_banner", "-encoders"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def available(clip: Clip) -> bool:
    """Whether the ffmpeg program is there and can make this clip."""
    return shutil.which("ffmpeg") is not None and clip.codec in encoders()


def cache_folder() -> Path:
    """Where clips are kept when no folder is given."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "phasefusion" / "bench-clips"


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--clips", type=Path, default=cache_folder(), help="folder to keep the clips in"
    )


def source_graph(width: int, height: int, rate: int, seconds: int) -> str:
    """A filter graph that draws the pictures and numbers them, output [out]."""
    timing = f"r={rate}"
    half = f"s={width // 2}x{height // 2}:{timing}"
    cell = "235*eq(X\\,0)+16*eq(X\\,1)"  # white, black, then bits and their opposite
    bit = "abs(mod(floor(N/pow(2\\,X-2))\\,2)-Y)"
    strip = f"if(lt(X\\,2)\\,{cell}\\,16+219*{bit})"
    return ";".join(
        [
            f"mandelbrot={half}:maxiter=400:start_scale=1.5:end_scale=0.004:"
            f"end_pts={rate * seconds},scroll=horizontal=0.004:vertical=0.002,"
            f"trim=duration={seconds},scale={width}:{height},format=yuv420p[ground]",
            f"testsrc2={half}:d={seconds},format=yuv420p[card]",
            "[ground][card]overlay=x='W/4+W/5*sin(t)':y='H/4+H/5*cos(t*1.3)',"
            "noise=alls=5:allf=t:all_seed=3[moving]",
            f"color=s={barcode.N_CELL}x2:{timing}:d={seconds},format=gray,"
            f"geq=lum='{strip}',scale={width}:{barcode.strip_rows(height)}"
            ":flags=neighbor,format=yuv420p[strip]",
            "[moving][strip]overlay=eof_action=endall[out]",
        ]
    )


def ffmpeg(*arguments: str) -> None:
    command = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-y"]
    subprocess.run([*command, *arguments], check=True)


def master(clip: Clip, folder: Path) -> Path:
    """The pictures of a clip, nearly lossless; shared by clips of the same shape."""
    shape = (clip.width_px, clip.height_px, clip.rate)
    seconds = max(
        other.seconds
        for other in CLIPS.values()
        if (other.width_px, other.height_px, other.rate) == shape
    )
    path = folder / f"pictures_{clip.height_px}p.mkv"
    if not path.exists():
        part = path.with_name(f"part_{path.name}")
        quick = ("-c:v", "libx264", "-preset", "ultrafast", "-qp", "16")
        graph = source_graph(*shape, seconds)
        ffmpeg("-filter_complex", graph, "-map", "[out]", *quick, str(part))
        part.rename(path)
    return path


def make(names: list[str], folder: Path) -> dict[str, Path]:
    """Paths of the clips by name; those not there yet are made. Says what it does."""
    folder.mkdir(parents=True, exist_ok=True)
    masters = set()
    paths = {}
    for name in names:
        clip = CLIPS[name]
        paths[name] = path = folder / name
        if path.exists():
            continue
        print(f"making {path} ({clip.title}); once", flush=True)
        pictures = master(clip, folder)
        masters.add(pictures)
        part = path.with_name(f"part_{name}")
        length = ("-t", str(clip.seconds), "-pix_fmt", "yuv420p", "-an")
        log = folder / f"part_{path.stem}"  # of the first pass, for the second
        for k in range(clip.passes):
            which = ("-pass", str(k + 1), "-passlogfile", str(log))
            passing = which if clip.passes > 1 else ()
            ffmpeg("-i", str(pictures), *length, *clip.options, *passing, str(part))
        part.rename(path)
        for left in folder.glob(f"{log.name}*.log"):
            left.unlink()
    for pictures in masters:
        pictures.unlink()
    return paths


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder()
    for path in make([n for n, c in CLIPS.items() if available(c)], folder).values():
        print(path, f"{path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
