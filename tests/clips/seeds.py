"""Make small files for the fuzzers to start from: ``seeds.py video|subtitle DIR``.

Every container, codec and structure of `make.CLIPS` in few small pictures; every
subtitle format, in a file of its own and in containers. What this ffmpeg cannot make
is left out.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import make

MOST_BYTES = 100_000
X264, X265, VP9 = make.x264, make.X265, make.VP9

VIDEOS: dict[str, Sequence[str]] = {
    "h264.mp4": X264("keyint=6:bframes=3:b-pyramid=normal"),
    "h264_open.mp4": X264("keyint=4:min-keyint=4:bframes=2:open-gop=1:ref=4"),
    "h264_refresh.mp4": X264("keyint=6:bframes=0:intra-refresh=1"),
    "h264_interlaced.mp4": X264("tff=1:keyint=6", "-flags", "+ilme+ildct"),
    "h264_444.mp4": [*make.X264[:-1], "yuv444p"],
    "h264_fragmented.mp4": X264("keyint=4", "-movflags", "+frag_keyframe+empty_moov"),
    "h264.mkv": X264("keyint=6:bframes=2"),
    "h264.ts": X264("keyint=6:bframes=2"),
    "h264.h264": X264("keyint=6:bframes=2", "-f", "h264"),
    "hevc.mp4": [*X265, f"keyint=6:bframes=3:{make.QUIET}"],
    "hevc_open.mkv": [*X265, f"keyint=4:min-keyint=4:open-gop=1:{make.QUIET}"],
    "hevc_layers.mp4": [*X265, f"keyint=8:temporal-layers=3:bframes=3:{make.QUIET}"],
    "vp8.webm": ["-c:v", "libvpx", "-g", "6", "-auto-alt-ref", "1"],
    "vp9.webm": [*VP9, "-g", "6", "-auto-alt-ref", "1", "-lag-in-frames", "8"],
    "vp9.ivf": [*VP9, "-g", "6"],
    "asp.avi": [*make.MPEG4, "-bf", "2", "-vtag", "XVID"],
    "asp.mp4": [*make.MPEG4, "-bf", "2"],
    "mpeg2.mpg": make.MPEG2,
    "mpeg2.ts": make.MPEG2,
    "mpeg1.mpg": ["-c:v", "mpeg1video", "-q:v", "8", "-bf", "2", "-g", "6"],
    "h263.flv": ["-c:v", "flv1", "-q:v", "8"],
    "wmv.wmv": ["-c:v", "wmv2", "-q:v", "8"],
    "mjpeg.avi": ["-c:v", "mjpeg", "-q:v", "8", "-pix_fmt", "yuvj420p"],
    "prores.mov": ["-c:v", "prores_ks"],
    "animation.gif": [],
    "rgb.mkv": ["-c:v", "ffv1", "-pix_fmt", "gbrp"],
    "alpha.mkv": ["-c:v", "ffv1", "-pix_fmt", "yuva420p"],
    "grey.mkv": ["-c:v", "ffv1", "-pix_fmt", "gray"],
    "grey12.mkv": ["-c:v", "ffv1", "-pix_fmt", "gray12le"],
    "deep16.mkv": ["-c:v", "ffv1", "-pix_fmt", "yuv444p16le"],
    "packed.avi": ["-c:v", "rawvideo", "-pix_fmt", "yuyv422"],
    "png.mkv": ["-c:v", "png", "-pix_fmt", "rgb24"],
    "bt709.mp4": [*make.X264, "-colorspace", "bt709", "-color_range", "pc"],
    "bt2020.mp4": [*make.X264, "-colorspace", "bt2020nc"],
    "h264_422.mp4": [*make.X264[:-1], "yuv422p"],
    "h264_hi10.mp4": [*make.X264[:-1], "yuv420p10le"],
    "odd.webm": [*VP9, "-pix_fmt", "yuv420p"],
    "odd_444.mkv": [*make.X264[:-1], "yuv444p"],
    "palette.avi": ["-c:v", "rawvideo", "-pix_fmt", "pal8"],
}
# Whole clips of `make.CLIPS`: what cannot be had by other options alone.
CLIPS = (
    "vfr.mp4 edit_list.mp4 late.mp4 offset.ts offset.mkv sizes.ts two_streams.mp4 "
    "turned_90.mp4 turned_180_mirrored.mp4 turned_270_mirrored.mp4 "
    "vp9_sizes.ivf live.webm truncated.mkv cut.ts one.mp4 "
    "header_lies.avi equal_times.mp4 corrupted.mp4 av1.mp4 av1.mkv"
).split()

SRT = (
    "1\n00:00:00,100 --> 00:00:01,000\n<i>one</i> &lt;b&gt;\n\n"
    "2\n0:1,5 -> 0:2\ntwo\n3\n"
)
VTT = (
    "WEBVTT\nLanguage: en\n\nNOTE x\n\nid\n00:00.100 --> 00:01.000 align:start\n"
    "<v Bob>one</v> <00:00.500>two &amp;lt;\n"
)
ASS = (
    "[Script Info]\nScriptType: v4.00+\n[V4+ Styles]\nFormat: Name, Fontname\n"
    "Style: Default,Arial\n[Events]\nFormat: Layer, Start, End, Style, Name, "
    "MarginL, MarginR, MarginV, Effect, Text\n"
    "Dialogue: 0,0:00:00.10,0:00:01.00,Default,,0,0,0,,{\\i1}one{\\i0}\\Ntwo\n"
    "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\p1}m 0 0{\\p0}\\{three\\}\n"
)
SMI = "<SAMI><BODY><SYNC Start=100><P>one &amp;<SYNC Start=900><P>&nbsp;</BODY></SAMI>"
SUB = "{0}{25}first|line\n{30}{50}{y:i}second\n{60}{70}third\n{80}{90}fourth\n"
TEXTS = {
    "a.srt": SRT.encode(),
    "a.vtt": VTT.encode(),
    "a.ass": ASS.encode(),
    "a16.srt": SRT.encode("utf-16"),
    "a16.ass": ASS.encode("utf-16-be"),
    "latin.srt": SRT.replace("one", "ün").encode("latin-1"),
    "crlf.srt": SRT.replace("\n", "\r\r\n").encode(),
    "a.smi": SMI.encode(),
    "a.sub": SUB.encode(),
    "a.lrc": b"[00:01.00]one\n[00:02.50]two\n",
    "a.mpl": b"[0][25]one|two\n[30][50]/three\n[60][70]four\n",
    "a.sbv": b"0:00:01.000,0:00:02.000\none\n\n0:00:03.000,0:00:04.000\ntwo\n",
    "a.jss": b"#T 100\n0:00:01.00 0:00:02.00 D one\n0:00:02.00 0:00:03.00 D two\n",
    "a.rt": b"<window duration=9><time begin=1/>one<time begin=2/><clear/>two</window>",
    "a.scc": b"Scenarist_SCC V1.0\n\n00:00:01:00\t9420 9420 c8e9 942f 942f\n",
    "words.txt": b"<i>{\\an8}a &amp; b</i>\\N{\\p1}m 0 0{\\p0}<br><!-- --><00:01.000>",
}
MUXED = {
    "a.mp4": ("mov_text", "a.srt"),
    "a.mkv": ("srt", "a.srt"),
    "ass.mkv": ("ass", "a.ass"),
    "a.webm": ("webvtt", "a.vtt"),
    "a.mov": ("mov_text", "a.srt"),
}


def mux(path: Path, codec: str, texts: Sequence[Path]) -> None:
    """A few grey pictures and some subtitle streams."""
    video = ["libvpx", "-b:v", "20k"] if path.suffix == ".webm" else ["mpeg4"]
    arguments: list[str | Path] = ["-f", "lavfi", "-i", "color=gray:s=32x16:r=2:d=2"]
    maps = ["-map", "0"]
    for i, text in enumerate(texts, 1):
        arguments += ["-i", text]
        maps += ["-map", str(i)]
    options = ["-c:v", *video, "-c:s", codec, "-metadata:s:s:0", "language=eng"]
    make.ffmpeg(*arguments, *maps, *options, "-fflags", "+bitexact", path)


def make_videos(folder: Path) -> None:
    even, odd = make.pictures(10, 64, 48), make.pictures(5, 51, 37)
    for name, options in VIDEOS.items():
        frames = (
            odd if name.startswith("odd") else even[: 5 if "ffv1" in options else 10]
        )
        attempt(folder / name, lambda p, f=frames, o=options: make.encode(p, f, o))
    with tempfile.TemporaryDirectory() as other:
        for name in CLIPS:
            attempt(
                folder / name,
                lambda p: p.write_bytes(make.make(p.name, Path(other)).read_bytes()),
            )


def make_subtitles(folder: Path) -> None:
    for name, data in TEXTS.items():
        (folder / name).write_bytes(data)
    with tempfile.TemporaryDirectory() as other:
        sound_srt = Path(other) / "sound.srt"
        sound_srt.write_text(
            SRT.replace("0:1,5 -> 0:2", "00:00:01,500 --> 00:00:02,000")
        )
        for name, (codec, text) in MUXED.items():
            source = sound_srt if text == "a.srt" else folder / text
            attempt(folder / name, lambda p, c=codec, s=source: mux(p, c, [s, s]))


def attempt(path: Path, build: Callable[[Path], object]) -> None:
    """Build a file, unless it is there or this ffmpeg cannot."""
    if path.exists():
        return
    try:
        build(path)
    except (make.MissingEncoder, RuntimeError, OSError) as missing:
        print(f"{path}: left out: {str(missing).splitlines()[-1]}")
        path.unlink(missing_ok=True)
        return
    if path.stat().st_size > MOST_BYTES:
        path.unlink()


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    {"video": make_videos, "subtitle": make_subtitles}[kind](folder)


if __name__ == "__main__":
    main()
