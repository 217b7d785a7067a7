"""Build the self-contained wheel: FFmpeg inside, its licences, and the checks.

    python tools/wheel/wheel.py --libraries FOLDER --sources FOLDER --out dist

FOLDER of the libraries is what ``libraries.sh`` made, that of the sources what
``sources.sh`` fetched. Beside the wheel, OUT gets the source archive of phasefusion and
``sources/``, an archive of what the libraries were built from: who passes the wheel on
passes that on with it. SOURCE_DATE_EPOCH, by default the time of the last commit, is
the time of every file in there.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUNDLED = ("libavcodec", "libavformat", "libavutil", "libswscale")
LICENSE = "Apache-2.0 AND LGPL-2.1-or-later AND BSD-2-Clause"
EARLIEST_S = 315532800  # 1980, where the clock of zip files starts


def run(*command: str | Path, **variables: str) -> str:
    """Run quietly with these variables added; the log and an exit when it fails."""
    done = subprocess.run(
        command,
        env=os.environ | variables,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\nwheel: failed: {' '.join(map(str, command))}")
    return done.stdout


def epoch() -> int:
    """Time for every file: that asked for, or that of the last commit."""
    asked = os.environ.get("SOURCE_DATE_EPOCH")
    if asked is None:
        command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        try:
            asked = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout
        except (OSError, subprocess.CalledProcessError):
            asked = str(EARLIEST_S)
    return max(int(asked), EARLIEST_S)


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plain(info: tarfile.TarInfo, when: int) -> tarfile.TarInfo:
    """Take out of an archive's entry who made it, and when."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime, info.pax_headers = when, {}
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info


def sdist(folder: Path, when: int) -> Path:
    """Build the source archive, the same whenever it is built."""
    made = folder / "made"
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", made, ROOT)
    (first,) = made.glob("*.tar.gz")
    last = folder / first.name
    with (
        tarfile.open(first) as old,
        last.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=when) as packed,
        tarfile.open(fileobj=packed, mode="w") as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda entry: entry.name):
            new.addfile(plain(entry, when), old.extractfile(entry))
    return last


def built(source: Path, folder: Path, libraries: Path, when: int) -> Path:
    """Build the plain wheel from the source archive, in a folder of its own.

    It is the same one each time: nvcc derives names inside the kernels from it.
    """
    work = libraries.parent / "source"
    shutil.rmtree(work, ignore_errors=True)
    with tarfile.open(source) as archive:
        archive.extractall(work, filter="data")
    (root,) = work.iterdir()
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("-o", folder, root),
        PKG_CONFIG_LIBDIR=str(libraries / "lib" / "pkgconfig"),
        # Python's own linker command may name folders of this machine.
        LDSHARED=f"{os.environ.get('CC', 'cc')} -pthread -shared",
        LDFLAGS=f"{os.environ.get('LDFLAGS', '')} -Wl,-s -Wl,--build-id=none",
        SOURCE_DATE_EPOCH=str(when),
    )
    shutil.rmtree(work)
    (wheel,) = folder.glob("*.whl")
    return wheel


def source_files(sources: Path) -> list[Path]:
    """Every .dsc and the files that it names, whose digests are checked."""
    found = []
    for dsc in sorted(sources.glob("*.dsc")):
        found.append(dsc)
        listed = re.search(r"^Checksums-Sha256:\n((?: .*\n)+)", dsc.read_text(), re.M)
        if listed is None:
            raise SystemExit(f"wheel: {dsc} names no files")
        for line in listed[1].splitlines():
            digest, _, name = line.split()
            if sha256(sources / name) != digest:
                raise SystemExit(f"wheel: {sources / name} is not what {dsc.name} says")
            found.append(sources / name)
    return found


def notice(files: list[Path]) -> str:
    """Say what is inside, under which licence, and where its source is."""
    lines = [f"{sha256(path)}  {path.name}" for path in files]
    options = (HERE / "ffmpeg.options").read_text()
    return f"""\
Libraries inside this wheel
===========================

This wheel of phasefusion (Apache-2.0, see LICENSE) holds, in phasefusion.libs, shared
libraries of FFmpeg: {", ".join(BUNDLED)}. They are free
software under the GNU Lesser General Public License, version 2.1 or later
(FFmpeg-LGPL-2.1.txt, FFmpeg-LICENSE.md); no part of FFmpeg under the GPL was built.
libavcodec contains dav1d, under the two-clause BSD licence (dav1d-BSD-2-Clause.txt).

They come without any warranty. You may replace them by other builds of the same
versions: put these in place of the files in phasefusion.libs, under the same names.

Source
------
They were built, unchanged, from these source packages of Debian, patches of Debian's
included (SHA-256 of each file):

{chr(10).join(lines)}

The archive phasefusion-*-ffmpeg-sources.tar that goes with this wheel holds these
files, and the scripts and options that build them (tools/wheel in the source of
phasefusion). Whoever passes on this wheel has to offer that archive in the same place.
If you have got the wheel without it: the packages can be had from Debian's archive
under the names above for as long as it keeps them (apt-get source).

Options of the build
--------------------

{options}"""


def readable(name: str) -> zipfile.ZipInfo:
    """Describe a file that everybody may read; auditwheel sets its time."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o100644 << 16
    return info


def add_licences(wheel: Path, folder: Path, texts: dict[str, bytes]) -> Path:
    """Copy the wheel with these licence texts, and metadata that name them."""
    made = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w") as new:
        (record,) = (n for n in old.namelist() if n.endswith(".dist-info/RECORD"))
        about = record.removesuffix("RECORD")
        held = {name: old.read(name) for name in old.namelist() if name != record}
        metadata = held[f"{about}METADATA"].decode()
        files = "".join(f"License-File: {name}\n" for name in texts)
        metadata, n_changed = re.subn(
            r"^License-Expression: Apache-2\.0\n((?:.+\n)*?)(License-File: LICENSE\n)",
            rf"License-Expression: {LICENSE}\n\1\2{files}",
            metadata,
            count=1,
            flags=re.M,
        )
        if n_changed != 1:
            raise SystemExit("wheel: its metadata name the licence in another way")
        held[f"{about}METADATA"] = metadata.encode()
        held |= {f"{about}licenses/{name}": text for name, text in texts.items()}
        lines = []
        for name, data in held.items():
            new.writestr(readable(name), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            lines.append(f"{name},sha256={digest.decode().rstrip('=')},{len(data)}\n")
        new.writestr(readable(record), "".join([*lines, f"{record},,\n"]))
    return made


def repaired(wheel: Path, folder: Path, libraries: Path, when: int) -> Path:
    """Put the libraries inside, and tag it by the oldest C library it runs on."""
    command = [sys.executable, "-m", "auditwheel", "repair", "-z", "9", "-w", folder]
    run(
        *command,
        wheel,
        LD_LIBRARY_PATH=str(libraries / "lib"),
        SOURCE_DATE_EPOCH=str(when),
    )
    (made,) = folder.glob("*.whl")
    return made


def source_archive(path: Path, files: list[Path], when: int) -> None:
    """Put the source packages, and what builds them, into one archive."""
    root = path.name.removesuffix(".tar")
    scripts = [file for file in HERE.iterdir() if file.is_file()]
    with tarfile.open(path, "w") as archive:
        for file in sorted([*files, *scripts], key=lambda file: file.name):
            archive.add(file, f"{root}/{file.name}", filter=lambda i: plain(i, when))


def check(wheel: Path, source: Path) -> None:
    """Only the libraries of this build are inside, all of them, and the ABI holds."""
    with zipfile.ZipFile(wheel) as held:
        kernels = [n for n in held.namelist() if n.endswith("kernels.fatbin.xz")]
        inside = {
            Path(entry.filename).name: entry.file_size
            for entry in held.infolist()
            if ".libs/" in entry.filename and not entry.is_dir()
        }
    names = sorted(name.split("-", 1)[0] for name in inside)
    if names != sorted(BUNDLED):
        raise SystemExit(f"wheel: it holds the libraries {names}, not {BUNDLED}")
    run(sys.executable, "-m", "abi3audit", "--strict", wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    shown = run(sys.executable, "-m", "auditwheel", "show", wheel)
    tag = re.search(r'"(manylinux_\w+)"', shown)
    print(f"wheel: {wheel.name}, {wheel.stat().st_size / 1e6:.2f} MB")
    print(f"wheel: SHA-256 {sha256(wheel)}")
    print(f"wheel: {tag[1] if tag else 'no manylinux tag'}; abi3audit and twine agree")
    for name, n_byte in sorted(inside.items()):
        print(f"wheel: {n_byte / 1e6:6.2f} MB  {name}")
    print(
        "wheel: compiled GPU kernels are inside"
        if kernels
        else "wheel: no compiled GPU kernels inside (no nvcc, or PHASEFUSION_CUDA=off);"
        " NVRTC compiles the packaged sources where there is a GPU"
    )


def main() -> None:
    """Build, repair and check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("libraries", "sources", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    when = epoch()
    libraries, sources = options.libraries.resolve(), options.sources.resolve()
    out = options.out.resolve()
    files = source_files(sources)
    texts = {"BUNDLED.txt": notice(files).encode()}
    for path in sorted((libraries / "licences").iterdir()):
        texts[path.name] = path.read_bytes()
    with tempfile.TemporaryDirectory() as name:
        steps = [Path(name) / part for part in ("source", "built", "full", "last")]
        for folder in steps:
            folder.mkdir()
        source = sdist(steps[0], when)
        wheel = built(source, steps[1], libraries, when)
        wheel = add_licences(wheel, steps[2], texts)
        wheel = repaired(wheel, steps[3], libraries, when)
        check(wheel, source)
        (out / "sources").mkdir(parents=True, exist_ok=True)
        for old in [*out.glob("*.whl"), *out.glob("*.tar.gz"), *out.glob("sources/*")]:
            old.unlink()
        for made in (wheel, source):
            shutil.move(made, out / made.name)
    version = wheel.name.split("-")[1]
    source_archive(
        out / "sources" / f"phasefusion-{version}-ffmpeg-sources.tar", files, when
    )


if __name__ == "__main__":
    main()
