"""Videos of more than 2**32 bytes, and files of passes and questions of gigabytes."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Container, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from _resources import status_bytes
from _soak_sharing import a_pass
from _soak_table import MIB, Tried, environment, python
from _soak_videos import clips

HOLE_BYTES = 2**32 + 2**28
_INNER = (b"moov", b"trak", b"mdia", b"minf", b"stbl")
_CLUSTER, _VOID, _SEGMENT = b"\x1fC\xb6u", b"\xec", b"\x18S\x80g"
_TEXT_BYTES = 2000


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content of the boxes of an mp4."""
    at = 0
    while at < len(data):
        n_bytes, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + n_bytes]
        at += n_bytes


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", len(content) + 8, kind) + content


def samples_of(data: bytes) -> list[bytes]:
    """The compressed pictures of an mp4 of one track."""
    tables = dict(_tables(data))
    same, n = struct.unpack_from(">II", tables[b"stsz"], 4)
    sizes = [same] * n if same else struct.unpack_from(f">{n}I", tables[b"stsz"], 12)
    n_chunks = struct.unpack_from(">I", tables[b"stco"], 4)[0]
    chunks = struct.unpack_from(f">{n_chunks}I", tables[b"stco"], 8)
    n_runs = struct.unpack_from(">I", tables[b"stsc"], 4)[0]
    runs = list(struct.iter_unpack(">III", tables[b"stsc"][8 : 8 + 12 * n_runs]))
    found = []
    for number, at in enumerate(chunks, 1):
        per_chunk = [n for first, n, _ in runs if first <= number][-1]
        for _ in range(per_chunk):
            n_bytes = sizes[len(found)]
            found.append(data[at : at + n_bytes])
            at += n_bytes
    return found


def _tables(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    for kind, content in boxes(data):
        if kind in _INNER:
            yield from _tables(content)
        else:
            yield kind, content


def _with_places(data: bytes, places: list[int]) -> bytes:
    """The boxes with each sample a chunk of its own, at a place of 64 bits."""
    made = b""
    for kind, content in boxes(data):
        if kind in _INNER:
            made += box(kind, _with_places(content, places))
        elif kind == b"stsc":
            made += box(kind, struct.pack(">IIIII", 0, 1, 1, 1, 1))
        elif kind == b"stco":
            head = struct.pack(">II", 0, len(places))
            made += box(b"co64", head + struct.pack(f">{len(places)}Q", *places))
        else:
            made += box(kind, content)
    return made


def large_mp4(path: Path, source: bytes) -> None:
    """The samples of a clip, the second half of them behind 2**32 bytes of nothing."""
    samples = samples_of(source)
    top = dict(boxes(source))
    begin = box(b"ftyp", top[b"ftyp"])
    at = len(begin) + 16
    places = [at + done for done in accumulate(map(len, samples), initial=0)][:-1]
    half = len(samples) // 2
    places[half:] = [place + HOLE_BYTES for place in places[half:]]
    n_bytes = 16 + sum(map(len, samples)) + HOLE_BYTES
    with open(path, "wb") as file:
        file.write(begin + struct.pack(">I4sQ", 1, b"mdat", n_bytes))
        for place, sample in zip(places, samples, strict=True):
            file.seek(place)
            file.write(sample)
        moov = next(content for kind, content in boxes(source) if kind == b"moov")
        file.write(box(b"moov", _with_places(moov, places)))


def large_mkv(path: Path, source: Path) -> None:
    """A clip as Matroska with a Void element of more than 2**32 bytes in the middle."""
    live = ["-c", "copy", "-f", "matroska", "-live", "1", "-cluster_time_limit", "500"]
    command = ["ffmpeg", "-v", "error", "-i", str(source), *live, "pipe:1"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    clusters = [k for k in range(len(data)) if data.startswith(_CLUSTER, k)]
    at = clusters[len(clusters) // 2]
    with open(path, "wb") as file:
        file.write(data[:at] + _VOID + struct.pack(">Q", (1 << 56) | HOLE_BYTES))
        file.seek(HOLE_BYTES, os.SEEK_CUR)
        file.write(data[at:])


def large_videos(folder: Path, kinds: Container[str] = ("mp4", "mkv")) -> list[Tried]:
    """Videos of which half lies beyond 2**32 bytes, and their clip."""
    from phasefusion.video import Video

    clip = clips()[0]
    with Video(clip) as video:
        expected, times = video.read(range(len(video))), video.times_s
    made: dict[str, Callable[[Path], None]] = {
        "mp4": lambda path: large_mp4(path, clip.read_bytes()),
    }
    if shutil.which("ffmpeg") and "mkv" in kinds:
        made["mkv"] = lambda path: large_mkv(path, clip)
    tried = []
    for kind, build in made.items():
        path = folder / f"large.{kind}"
        build(path)
        n_bytes = path.stat().st_size
        begin_s = time.monotonic()
        with Video(path, max_bytes=2 * HOLE_BYTES) as video:
            frames, apart = video.read(range(len(video))), video.times_s - times
        seconds = time.monotonic() - begin_s
        same = np.array_equal(frames, expected) and np.abs(apart).max() < 1e-3
        text = f"{n_bytes:,} bytes: all {len(frames)} frames and times are those of "
        text += f"the clip, {seconds:.1f} s" if same else "the clip: NO"
        what = f"{kind} with half of its pictures behind 2^32 bytes (sparse)"
        tried.append(Tried("large", what, text, ok=same and n_bytes > 2**32))
        path.unlink()
    return tried


def peak_of(kind: str, path: Path) -> dict[str, Any]:
    """Read a file in a process of its own: seconds, and bytes at the peak."""
    command = python(__file__, kind, path)
    made = subprocess.run(command, capture_output=True, text=True, env=environment())
    if made.returncode != 0:
        raise RuntimeError(made.stderr[-500:])
    found: dict[str, Any] = json.loads(made.stdout)
    return found


def _read(kind: str, path: str) -> dict[str, Any]:
    from phasefusion.datasets import read
    from phasefusion.records import iter_passes, read_passes

    readers: dict[str, Callable[[], int]] = {
        "rows": lambda: sum(1 for _ in iter_passes(path)),
        "columns": lambda: len(read_passes(path, cache=False)),
        "questions": lambda: len(read("plain", path, missing_videos="keep")),
    }
    begin_s = time.monotonic()
    n = readers[kind]()
    seconds = time.monotonic() - begin_s
    # ru_maxrss would begin at what the parent has
    return {"n": n, "seconds": seconds, "bytes": status_bytes("VmHWM")}


def write_lines(
    path: Path,
    n_bytes: int,
    own: Callable[[int], dict[str, Any]],
    same: dict[str, Any],
) -> int:
    """Write rows of what is their own and what all have; return how many there are."""
    n = n_written = 0
    rest = {name: value for name, value in same.items() if name not in own(0)}
    tail = json.dumps(rest)[1:].encode() + b"\n"
    with open(path, "wb") as file:
        while n_written < n_bytes:
            n_written += file.write(json.dumps(own(n))[:-1].encode() + b", " + tail)
            n += 1
    return n


def large_passes(folder: Path, n_bytes: int) -> list[Tried]:
    """A file of passes with texts, read row by row and into columns."""
    path = folder / "passes.jsonl"
    same = a_pass(0) | {"text": "x" * _TEXT_BYTES}
    n = write_lines(path, n_bytes, lambda n: {"question_id": f"q{n}"}, same)
    size = path.stat().st_size
    limits = {"rows": 256 * MIB, "columns": size // 2 + 256 * MIB}
    tried = []
    for kind, limit in limits.items():
        found = peak_of(kind, path)
        text = f"{found['n']:,} passes in {found['seconds']:.1f} s, at most "
        text += f"{found['bytes'] / MIB:,.0f} MiB (bound {limit / MIB:,.0f})"
        what = f"passes.jsonl of {size / 1e9:.2g} GB, {kind}"
        ok = found["n"] == n and found["bytes"] <= limit
        tried.append(Tried("large", what, text, ok=ok))
    path.unlink()
    return tried


def large_questions(folder: Path, n_bytes: int) -> list[Tried]:
    """A question file of long questions."""
    path = folder / "questions.jsonl"
    same = {"question": "x" * _TEXT_BYTES, "options": ["a", "b", "c"], "answer": 1}
    n = write_lines(
        path,
        n_bytes,
        lambda n: {"question_id": f"q{n}", "video": f"{n % 1000}.mp4"},
        same,
    )
    size = path.stat().st_size
    found = peak_of("questions", path)
    limit = 4 * size + 256 * MIB
    text = f"{found['n']:,} questions in {found['seconds']:.1f} s, at most "
    text += f"{found['bytes'] / MIB:,.0f} MiB (bound: 4 times the file and 256 MiB)"
    ok = found["n"] == n and found["bytes"] <= limit
    path.unlink()
    return [Tried("large", f"question file of {size / 1e9:.2g} GB", text, ok=ok)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(_read(sys.argv[1], sys.argv[2])))
