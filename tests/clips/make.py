"""Make the test videos: every frame carries its number, see tests/barcode.py.

``make(name, folder)`` builds one clip of `CLIPS`; ``python tests/clips/make.py DIR``
builds them all. Only the ffmpeg program is needed. Codecs that it lacks raise
`MissingEncoder`.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
import barcode

X264 = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "24", "-pix_fmt", "yuv420p"]


class MissingEncoder(Exception):
    """This ffmpeg lacks an encoder that the clip needs."""


@cache
def encoders() -> str:
    command = ["ffmpeg", "-hide_banner", "-encoders"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pictures(
    n: int, width: int = 160, height: int = 96, first: int = 0
) -> NDArray[np.uint8]:
    """Moving colour gradients with a little noise, (n, height, width, 3)."""
    rng = np.random.default_rng(first)
    y, x = np.mgrid[:height, :width]
    frames = np.empty((n, height, width, 3), np.uint8)
    for i in range(n):
        t = 3.0 * (first + i)
        frames[i, ..., 0] = (x * 2 + t) % 256
        frames[i, ..., 1] = 128 + 100 * np.sin((x + y + t) / 20)
        frames[i, ..., 2] = (y * 2 - t) % 256
        noise = rng.integers(-4, 5, (height, width, 1))
        frames[i] = np.clip(frames[i] + noise, 0, 255)
        barcode.draw(frames[i], first + i)
    return frames


def ffmpeg(*arguments: str | Path, stdin: bytes | None = None) -> bytes:
    command = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-y"]
    command += [str(a) for a in arguments]
    made = subprocess.run(command, input=stdin, capture_output=True)
    if made.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{made.stderr.decode()}")
    return made.stdout


def encode(
    path: Path, frames: NDArray[np.uint8], options: Sequence[str], rate: str = "25"
) -> None:
    """Frames through the ffmpeg program with the given encoder options."""
    for codec in [o for o in options if o.startswith("lib")]:
        if codec not in encoders():
            raise MissingEncoder(codec)
    size = f"{frames.shape[2]}x{frames.shape[1]}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", rate, "-i", "-"]
    exact = ["-threads", "1", "-fflags", "+bitexact", "-map_metadata", "-1"]
    ffmpeg(*source, *exact, *options, path, stdin=frames.tobytes())


def x264(parameters: str, *more: str) -> list[str]:
    return [*X264, "-x264-params", f"scenecut=0:{parameters}", *more]


# ------------------------------------------------------------ how clips are made


def plain(options: Sequence[str], n: int = 60, **size: int) -> Callable[[Path], None]:
    return lambda path: encode(path, pictures(n, **size), options)


def copied(
    source: str, *options: str, before: Sequence[str] = ()
) -> Callable[..., None]:
    """Another clip with its packets copied into this file."""

    def build(path: Path) -> None:
        made = make(source, path.parent)
        ffmpeg(
            *before, "-i", made, "-c", "copy", "-fflags", "+bitexact", *options, path
        )

    return build


def edited(source: str, edit: Callable[[bytearray], bytes]) -> Callable[[Path], None]:
    """Another clip with its bytes changed."""

    def build(path: Path) -> None:
        path.write_bytes(edit(bytearray(make(source, path.parent).read_bytes())))

    return build


def turned(data: bytearray, turns: int, mirrored: bool) -> bytes:
    """An MP4 file whose track header asks for quarter turns, then a mirror."""
    matrix = np.linalg.matrix_power(np.array([[0, 1], [-1, 0]]), turns)
    if mirrored:
        matrix = matrix @ np.array([[-1, 0], [0, 1]])
    at = data.index(b"tkhd") + 4 + 40  # version 0
    a, b, c, d = (int(v) << 16 for v in matrix.reshape(-1))
    struct.pack_into(">9i", data, at, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    return bytes(data)


def oriented(turns: int, mirrored: bool) -> Callable[[Path], None]:
    """A clip whose track header asks for quarter turns, then a mirror."""
    return edited("h264.mp4", lambda data: turned(data, turns, mirrored))


def vfr(path: Path) -> None:
    """Frames 20 to 34 of every 50 left out, the rest at their own times."""
    kept = "select='not(between(mod(n,50),20,34))'"
    options = ["-vf", kept, "-vsync", "passthrough", *x264("keyint=30:bframes=2")]
    encode(path, pictures(100), options)


def equal_times(path: Path) -> None:
    """Times that sometimes repeat in a coarse time base."""
    times = "setpts='floor(N*2/3)*3/25/TB'"
    options = ["-vf", times, "-vsync", "passthrough", "-enc_time_base", "1/90000"]
    options += [*x264("keyint=20:bframes=2"), "-video_track_timescale", "90000"]
    encode(path, pictures(60), options)


def jitter(path: Path) -> None:
    """Times that stray by up to half a frame, and a gap of two seconds."""
    times = "setpts='(N+0.45*sin(N)*sin(N/7)+50*gt(N\\,40))/25/TB'"
    options = ["-vf", times, "-vsync", "passthrough", "-enc_time_base", "1/90000"]
    options += [*x264("keyint=20:bframes=2"), "-video_track_timescale", "90000"]
    encode(path, pictures(80), options)


def joined_sizes(path: Path) -> None:
    """A transport stream that changes its resolution half way."""
    small, large = path.parent / "part_small.ts", path.parent / "part_large.ts"
    encode(small, pictures(30), x264("keyint=10:bframes=2"))
    large_frames = pictures(30, 240, 144, first=30)
    later = ["-output_ts_offset", "1.2"]
    encode(large, large_frames, x264("keyint=10:bframes=2", *later))
    path.write_bytes(small.read_bytes() + large.read_bytes())


def two_streams(path: Path) -> None:
    """A small video stream first, a larger one second."""
    small = path.parent / "part_small.mkv"
    large = make("h264.mkv", path.parent)
    encode(small, pictures(60, 96, 64, first=1000), x264("keyint=20"))
    both = ["-map", "0", "-map", "1", "-c", "copy", "-fflags", "+bitexact"]
    ffmpeg("-i", small, "-i", large, *both, path)


def long(path: Path) -> None:
    """Twenty seconds of one group of pictures, large enough to take a while."""
    source = "testsrc2=s=800x480:r=25:d=20,noise=alls=20:allf=t"
    quick = ["-c:v", "libx264", "-preset", "ultrafast", "-crf", "30", "-pix_fmt"]
    ffmpeg("-f", "lavfi", "-i", source, *quick, "yuv420p", "-g", "9999", path)


def covered(path: Path) -> None:
    """A cover picture and sound beside the video."""
    cover = path.parent / "cover.png"
    encode(cover, pictures(1, 320, 240), ["-frames:v", "1"])
    video = make("h264.mkv", path.parent)
    tone = ["-f", "lavfi", "-i", "sine=d=1"]
    maps = ["-map", "1", "-map", "0", "-map", "2", "-c:v", "copy", "-c:a", "aac"]
    ffmpeg(
        "-i", video, "-i", cover, *tone, *maps, "-disposition:v:0", "attached_pic", path
    )


def lying_header(data: bytearray) -> bytes:
    """An AVI whose headers promise 777 frames."""
    struct.pack_into("<I", data, data.index(b"avih") + 8 + 16, 777)
    struct.pack_into("<I", data, data.index(b"strh") + 8 + 32, 777)
    return bytes(data)


def corrupted(data: bytearray) -> bytes:
    """Noise over short stretches in the middle of the pictures."""
    rng = np.random.default_rng(5)
    begin = len(data) * 4 // 10
    for at in range(begin, begin + len(data) // 5, max(len(data) // 150, 30)):
        data[at : at + 20] = rng.bytes(20)
    return bytes(data)


def cut_packets(data: bytearray) -> bytes:
    """A transport stream without its first fifth."""
    return bytes(data[len(data) // 188 // 5 * 188 :])


def sound_only(path: Path) -> None:
    ffmpeg("-f", "lavfi", "-i", "sine=d=1", "-c:a", "aac", path)


def live(path: Path) -> None:
    """WebM as sent over a network: no duration, no cues."""
    frames = pictures(60)
    size = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        "160x96",
        "-r",
        "25",
        "-i",
        "-",
    ]
    options = ["-c:v", "libvpx", "-g", "20", "-f", "webm", "-live", "1", "pipe:1"]
    path.write_bytes(ffmpeg(*size, *options, stdin=frames.tobytes()))


def vp9_sizes(path: Path) -> None:
    """VP9 that changes its resolution at a key frame."""
    parts = []
    for k, (width, height) in enumerate([(160, 96), (240, 144)]):
        part = path.parent / f"part_{k}.ivf"
        options = ["-c:v", "libvpx-vp9", "-g", "15", "-cpu-used", "8"]
        encode(part, pictures(15, width, height, first=15 * k), options)
        parts.append(bytearray(part.read_bytes()))
    header, second = parts[0][:32], parts[1][32:]
    at = 0
    while at < len(second):  # times go on after the first part
        n_byte, time = struct.unpack_from("<IQ", second, at)
        struct.pack_into("<IQ", second, at, n_byte, time + 15)
        at += 12 + n_byte
    path.write_bytes(header + parts[0][32:] + second)


VP9 = ["-c:v", "libvpx-vp9", "-b:v", "300k", "-cpu-used", "6", "-pix_fmt", "yuv420p"]
X265 = ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params"]
QUIET = "log-level=none:pools=none:frame-threads=1"
MPEG4 = ["-c:v", "mpeg4", "-q:v", "4", "-g", "25"]
MPEG2 = ["-c:v", "mpeg2video", "-q:v", "4", "-bf", "2", "-g", "12"]

AOM = ["-c:v", "libaom-av1", "-cpu-used", "8", "-crf", "40", "-g", "40"]
AOM_RESILIENT = ["-usage", "realtime", "-aom-params", "error-resilient=1"]
LAYERS = ["-deadline", "realtime", "-error-resilient", "1", "-lag-in-frames", "0"]
LAYERS += [
    "-ts-parameters",
    "ts_number_layers=2:ts_target_bitrate=200,300:ts_rate_decimator=2,1:"
    "ts_periodicity=2:ts_layer_id=0,1:ts_layering_mode=2",
]
OTHERS: dict[str, Callable[[Path], None]] = {"long.mp4": long}  # without numbers
CLIPS: dict[str, Callable[[Path], None]] = {
    # codecs and the structure of their groups of pictures
    "h264.mp4": plain(x264("keyint=20:bframes=3:b-pyramid=normal")),
    "h264.mkv": plain(x264("keyint=20:bframes=2")),
    "h264_one_key.mp4": plain(x264("keyint=infinite:bframes=3")),
    "h264_open.mp4": plain(x264("keyint=12:min-keyint=12:bframes=3:open-gop=1")),
    "h264_open_short.mkv": plain(
        x264("keyint=4:min-keyint=4:bframes=2:open-gop=1:ref=6")
    ),
    "h264_refresh.mp4": plain(x264("keyint=20:bframes=0:intra-refresh=1")),
    "h264_intra.mp4": plain(x264("keyint=1")),
    "h264_no_b.mp4": plain(x264("keyint=20:bframes=0")),
    "h264_deep.mp4": plain(x264("b-adapt=0:bframes=8:b-pyramid=normal:ref=8"), 17),
    "h264.ts": plain(x264("keyint=20:bframes=2")),
    "h264.h264": plain(x264("keyint=20:bframes=2", "-f", "h264")),
    "hevc.mp4": plain([*X265, f"keyint=20:bframes=3:{QUIET}"]),
    "hevc_open.mkv": plain([*X265, f"keyint=12:min-keyint=12:open-gop=1:{QUIET}"]),
    "hevc_layers.mp4": plain([*X265, f"keyint=24:temporal-layers=3:bframes=3:{QUIET}"]),
    "vp8.webm": plain(["-c:v", "libvpx", "-g", "20", "-auto-alt-ref", "1"]),
    "vp9.webm": plain([*VP9, "-g", "20", "-auto-alt-ref", "1", "-lag-in-frames", "12"]),
    "vp9_sizes.ivf": vp9_sizes,
    "vp9_layers.webm": plain([*VP9, *LAYERS]),
    "vp9_resilient.webm": plain([*VP9, "-g", "30", "-error-resilient", "1"]),
    "live.webm": live,
    "av1.mp4": plain(["-c:v", "libsvtav1", "-preset", "10", "-crf", "40", "-g", "20"]),
    "av1_deep.mkv": plain(
        ["-c:v", "libsvtav1", "-preset", "8", "-crf", "40", "-g", "50"]
    ),
    "av1_aom.mkv": plain(AOM),
    "av1_resilient.mkv": plain([*AOM, *AOM_RESILIENT]),
    "av1.mkv": plain(["-c:v", "libsvtav1", "-preset", "10", "-crf", "40", "-g", "20"]),
    "asp.avi": plain([*MPEG4, "-bf", "2", "-vtag", "XVID"]),
    "asp.mp4": copied("asp.avi"),
    "mpeg2.mpg": plain(MPEG2),
    "mpeg2.ts": plain(MPEG2),
    "mpeg1.mpg": plain(["-c:v", "mpeg1video", "-q:v", "4", "-bf", "2", "-g", "12"]),
    "h263.flv": plain(["-c:v", "flv1", "-q:v", "4"]),
    "wmv.wmv": plain(["-c:v", "wmv2", "-q:v", "4"]),
    "mjpeg.avi": plain(["-c:v", "mjpeg", "-q:v", "4", "-pix_fmt", "yuvj420p"], 30),
    "prores.mov": plain(["-c:v", "prores_ks"], 12),
    "animation.gif": plain([], 20),
    "png.mkv": plain(["-c:v", "png", "-pix_fmt", "rgb24"], 12),
    "still.png": plain(["-frames:v", "1"], 1),
    # pixel formats
    "rgb.mkv": plain(["-c:v", "ffv1", "-pix_fmt", "gbrp"], 12),
    "alpha.mkv": plain(["-c:v", "ffv1", "-pix_fmt", "yuva420p"], 12),
    "h264_422.mp4": plain([*X264[:-1], "yuv422p"], 30),
    "h264_444.mp4": plain([*X264[:-1], "yuv444p"], 30),
    "h264_hi10.mp4": plain([*X264[:-1], "yuv420p10le"], 30),
    "grey.mkv": plain(["-c:v", "ffv1", "-pix_fmt", "gray"], 12),
    "grey12.mkv": plain(["-c:v", "ffv1", "-pix_fmt", "gray12le"], 12),
    "deep16.mkv": plain(["-c:v", "ffv1", "-pix_fmt", "yuv444p16le"], 12),
    "packed.avi": plain(["-c:v", "rawvideo", "-pix_fmt", "yuyv422"], 12),
    "palette.avi": plain(["-c:v", "rawvideo", "-pix_fmt", "pal8"], 12),
    "interlaced.mp4": plain(x264("tff=1:keyint=20", "-flags", "+ilme+ildct"), 30),
    "interlaced.ts": plain([*MPEG2, "-flags", "+ilme+ildct"], 30),
    "odd.webm": plain(VP9, 20, width=161, height=97),
    "tiny.mp4": plain(x264("keyint=20:bframes=2"), 30, width=32, height=32),
    "wide_pixels.mp4": plain(x264("keyint=20:bframes=2", "-aspect", "16:9"), 30),
    "odd_444.mkv": plain([*X264[:-1], "yuv444p"], 20, width=163, height=99),
    # timing and containers
    "fps_23976.mp4": lambda path: encode(
        path, pictures(48), x264("keyint=24"), "24000/1001"
    ),
    "vfr.mp4": vfr,
    "equal_times.mp4": equal_times,
    "jitter.mp4": jitter,
    "coarse_times.mkv": copied("h264.mkv", "-bsf:v", "setts=pts=floor(PTS/80)*80"),
    "fragmented.mp4": copied("h264.mp4", "-movflags", "+frag_keyframe+empty_moov"),
    "offset.ts": copied("h264.mp4", "-output_ts_offset", "10.5"),
    "offset.mkv": copied("h264.mp4", "-output_ts_offset", "7.3"),
    "late.mp4": copied("h264.mp4", before=["-itsoffset", "1"]),
    "edit_list.mp4": copied("h264.mp4", before=["-ss", "1.06"]),
    "fps_60.mp4": lambda path: encode(path, pictures(90), x264("bframes=3"), "60"),
    "one.mp4": plain(x264("keyint=20"), 1),
    "three.mp4": plain(x264("keyint=20:bframes=2"), 3),
    "header_lies.avi": edited("asp.avi", lying_header),
    "cover.mp4": covered,
    "two_streams.mp4": two_streams,
    "sizes.ts": joined_sizes,
    # damaged
    "faststart.mp4": copied("h264.mp4", "-movflags", "+faststart"),
    "truncated.mp4": edited("faststart.mp4", lambda d: bytes(d[: len(d) * 6 // 10])),
    "truncated.mkv": edited("h264.mkv", lambda d: bytes(d[: len(d) * 6 // 10])),
    "half.webm": edited("vp9.webm", lambda d: bytes(d[: len(d) // 2])),
    "with_sound.mkv": copied(
        "h264.mkv", "-c:a", "aac", before=["-f", "lavfi", "-i", "sine=d=6"]
    ),
    "half_with_sound.mkv": edited(
        "with_sound.mkv", lambda d: bytes(d[: len(d) * 3 // 10])
    ),
    "corrupted.mp4": edited("faststart.mp4", corrupted),
    "corrupted.mkv": edited("h264.mkv", corrupted),
    "cut.ts": edited("h264.ts", cut_packets),
    "headless.mp4": edited("h264.mp4", lambda d: bytes(d[: len(d) * 6 // 10])),
    "sound.mp4": sound_only,
    "empty.mp4": lambda path: path.write_bytes(b""),
    "text.mp4": lambda path: path.write_text("this is text, not a video\n" * 40),
}
for _turns in range(4):
    for _mirrored in (False, True):
        _name = f"turned_{90 * _turns}{'_mirrored' if _mirrored else ''}.mp4"
        CLIPS[_name] = oriented(_turns, _mirrored)


def make(name: str, folder: Path) -> Path:
    """The clip of that name in that folder, built when it is not there yet."""
    path = folder / name
    if not path.exists():
        if shutil.which("ffmpeg") is None:
            raise MissingEncoder("ffmpeg")
        part = folder / f"part_{name}"
        (OTHERS | CLIPS)[name](part)
        part.rename(path)
    return path


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in CLIPS:
        try:
            print(make(name, folder))
        except MissingEncoder as missing:
            print(f"{folder / name}: skipped, no {missing}")


if __name__ == "__main__":
    main()
