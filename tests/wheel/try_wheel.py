"""Install a wheel into clean environments and compare what it reads with this build.

    python tests/wheel/try_wheel.py WHEEL FOLDER [--clips FOLDER] [--with PYTHON ...]

In FOLDER it makes the clips and the environments, two for each interpreter: with the
oldest NumPy there is for it from 2.0 on, and with the newest. It runs with the
installation to compare with, which has an FFmpeg of its own. Every clip has to come
out the same, pixel for pixel, but those in a codec that the wheel leaves out: these
have to be refused. No environment variable of the caller reaches the wheel, and of
FFmpeg only the libraries inside it may be loaded.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "clips"))
import make

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LEFT_OUT = {"wmv.wmv", "prores.mov"}
WANTED = {"h264", "hevc", "vp8", "vp9", "libdav1d", "mpeg4", "mpeg2video", "mjpeg"}
FOREIGN = re.compile(r"/lib(av|sw|postproc|dav1d|x26|vpx|aom|svtav1|va|vdpau|drm)")
OLDEST_NUMPY = {(3, 11): "2.0.*", (3, 12): "2.0.*", (3, 13): "2.1.*"}
SUBRIP = "1\n00:00:00,100 --> 00:00:01,000\nfirst <i>line</i>\n\n"
SUBRIP += "2\n00:00:01,000 --> 00:00:02,000\nsecond\n"
SUBTITLED = {
    "mov_text.mp4": "mov_text",
    "subrip.mkv": "subrip",
    "ass.mkv": "ass",
    "webvtt.mkv": "webvtt",
    "alone.srt": "subrip",
    "alone.vtt": "webvtt",
    "alone.ass": "ass",
}


def made_clips(folder: Path) -> Path:
    """Every clip of the tests that this machine can make, and some with subtitles."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in make.CLIPS:
        try:
            make.make(name, folder)
        except make.MissingEncoder as missing:
            print(f"{name}: not made, no {missing}")
    lines = folder / "lines.srt"
    lines.write_text(SUBRIP)
    for name, codec in SUBTITLED.items():
        source = [] if name.startswith("alone") else ["-i", folder / "h264.mp4"]
        copied = ["-c:v", "copy"] if source else []
        if not (folder / name).exists():
            make.ffmpeg(*source, "-i", lines, *copied, "-c:s", codec, folder / name)
    return folder


def digests(python: str | Path, folders: list[Path], **variables: str) -> Any:
    """What one installation reads; the reason on stderr when it cannot."""
    done = subprocess.run(
        [python, "-P", HERE / "digests.py", *folders],
        env=variables or None,
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def environment(folder: Path, python: str, numpy: str, wheel: Path) -> Path:
    """A fresh environment with the wheel and that NumPy; its interpreter."""
    made = folder / "bin" / "python"
    subprocess.run([python, "-I", "-m", "venv", "--clear", folder], check=True)
    install = [made, "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, f"numpy{numpy}", wheel], check=True)
    return made


def differences(ours: Any, theirs: Any) -> list[str]:
    """One line for each thing that is not as it should be; theirs is the wheel."""
    wrong = [
        f"no decoder {name}" for name in sorted(WANTED - {*theirs["parts"]["decoders"]})
    ]
    if theirs["parts"]["license"] != "LGPL version 2.1 or later":
        wrong.append(f"the licence is {theirs['parts']['license']}")
    for path in theirs["libraries"]:
        if FOREIGN.search(path) and "/phasefusion.libs/" not in path:
            wrong.append(f"{path} was loaded")
    if sum("/phasefusion.libs/" in path for path in theirs["libraries"]) != 4:
        wrong.append("not four libraries of the wheel were loaded")
    for name, want in ours["files"].items():
        got = theirs["files"][name]
        if Path(name).name in LEFT_OUT:
            want = {"video": "VideoError", "subtitles": want["subtitles"]}
        for part in ("video", "subtitles"):
            if got[part] != want[part]:
                wrong.append(f"{name}: {part}: {got[part]}\n  instead of {want[part]}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=Path, action="append", default=[])
    parser.add_argument("--with", dest="pythons", nargs="+", default=[sys.executable])
    options = parser.parse_args()
    folder, wheel = options.folder.resolve(), options.wheel.resolve()
    shipped = ROOT / "phasefusion" / "tinyvlm" / "clips"
    clips = [shipped, made_clips(folder / "clips")]
    clips += [path.resolve() for path in options.clips]
    ours = digests(sys.executable, clips)
    n_read = sum(isinstance(f["video"], dict) for f in ours["files"].values())
    print(f"{len(ours['files'])} files, {n_read} with frames that this build reads")
    failed = False
    for python in options.pythons:
        asked = "import sys; print(*sys.version_info[:2])"
        text = subprocess.check_output([python, "-c", asked], text=True)
        version = tuple(map(int, text.split()))
        oldest = f"=={OLDEST_NUMPY.get(version, '2.*')}"
        for age, numpy in (("oldest", oldest), ("newest", ">=2.0")):
            venv = folder / f"venv-{version[0]}.{version[1]}-{age}"
            installed = environment(venv, python, numpy, wheel)
            theirs = digests(installed, clips, PATH="/usr/bin:/bin")
            wrong = differences(ours, theirs)
            failed = failed or bool(wrong)
            what = f"Python {version[0]}.{version[1]}, NumPy {theirs['numpy']}"
            print(f"{what}: {'FAILED' if wrong else 'the same'}", *wrong, sep="\n  ")
    sys.exit(failed)


if __name__ == "__main__":
    main()
