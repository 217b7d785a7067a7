"""Videos of a soak: sound ones of every structure, and hostile ones that have none."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

N_OPTIONS = 3
#: A quarter turn, a half turn, and a quarter turn of the mirrored picture.
TURNS = ((0, 1), (-1, 0)), ((-1, 0), (0, -1)), ((0, 1), (1, 0))


@dataclass(frozen=True, slots=True)
class Kind:
    """One way in which a video is sound or is not."""

    name: str
    suffix: str
    sound: bool
    damaged: bool = False  # what there is of it is scored, and the record says so


def clips() -> list[Path]:
    """The shipped clips."""
    from phasefusion import tinyvlm

    return sorted(tinyvlm.questions_path().parent.glob("*.mp4"))


def turned(data: bytes, matrix: tuple[tuple[int, int], tuple[int, int]]) -> bytes:
    """The clip with another matrix in its track header."""
    made = bytearray(data)
    a, b, c, d = (v << 16 for row in matrix for v in row)
    at = made.index(b"tkhd") + 4 + 40  # version 0
    struct.pack_into(">9i", made, at, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    return bytes(made)


def huge(data: bytes) -> bytes:
    """The clip with pictures of 65,535 x 65,535, which the codec does not deny."""
    made = bytearray(data)
    at = made.index(b"avc1", made.index(b"stsd"))
    struct.pack_into(">HH", made, at + 28, 65535, 65535)
    at = made.index(b"avcC")
    n_bytes = struct.unpack_from(">I", made, at - 4)[0]
    made[at + 4 : at - 4 + n_bytes] = bytes(n_bytes - 8)
    return bytes(made)


def edits() -> dict[Kind, Callable[[bytes], bytes]]:
    """How a shipped clip becomes each kind that needs no encoder."""
    sound: dict[str, Callable[[bytes], bytes]] = {
        "as shipped": lambda data: data,
        "turned by 90": lambda data: turned(data, TURNS[0]),
        "turned by 180": lambda data: turned(data, TURNS[1]),
        "turned and mirrored": lambda data: turned(data, TURNS[2]),
        "bytes after its end": lambda data: data + b"\xff" * 999,
    }
    hostile: dict[str, Callable[[bytes], bytes]] = {
        "no bytes": lambda data: b"",
        "zero bytes": lambda data: bytes(len(data)),
        "text": lambda data: b"This is no video.\n" * 99,
        "cut in its header": lambda data: data[:40],
        "no header": lambda data: data.replace(b"moov", b"none"),
        "wrong header": lambda data: b"\x1aE\xdf\xa3" + data[4:],
        "a web page": lambda data: b"<!doctype html><title>404</title>" + data[9:99],
        "pictures are noise": lambda data: os.urandom(len(data)),
        "huge size": huge,
    }
    cut = Kind("cut in half", ".mp4", True, damaged=True)
    return (
        {Kind(name, ".mp4", True): edit for name, edit in sound.items()}
        | {cut: lambda data: data[: len(data) // 2]}
        | {Kind(name, ".mp4", False): edit for name, edit in hostile.items()}
    )


def encodings() -> dict[Kind, list[str]]:
    """Options of ffmpeg that make the other kinds of a shipped clip."""
    x264 = ["-c:v", "libx264", "-preset", "ultrafast", "-threads", "1"]
    dropped = ["-vf", "select='not(between(mod(n,50),20,34))'", "-vsync", "passthrough"]
    return {
        Kind("one frame", ".mp4", True): [*x264, "-frames:v", "1"],
        Kind("variable rate", ".mp4", True): [*x264, *dropped],
        Kind("mkv", ".mkv", True): ["-c", "copy"],
        Kind("transport stream", ".ts", True): ["-c", "copy"],
        Kind("fragments", ".mp4", True): [
            *("-c", "copy", "-movflags", "+frag_keyframe+empty_moov")
        ],
        Kind("odd size", ".mkv", True): [
            *("-vf", "scale=101:67", "-frames:v", "20", "-c:v", "ffv1")
        ],
        Kind("sound alone", ".mp4", False): [
            *("-f", "lavfi", "-i", "sine=d=1", "-map", "1", "-c:a", "aac")
        ],
    }


def make_kinds(folder: Path, n_clips: int) -> dict[Kind, list[Path]]:
    """Each kind of the first clips; without ffmpeg's command, those that need none."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[Kind, list[Path]] = {}
    sources = clips()[:n_clips]
    for kind, edit in edits().items():
        for k, source in enumerate(sources):
            path = folder / f"{kind.name}-{k}{kind.suffix}"
            path.write_bytes(edit(source.read_bytes()))
            found.setdefault(kind, []).append(path)
    if shutil.which("ffmpeg") is None:
        return found
    for kind, options in encodings().items():
        path = folder / f"{kind.name}{kind.suffix}"
        begin = ["ffmpeg", "-v", "error", "-y", "-i", str(sources[0])]
        subprocess.run([*begin, *options, str(path)], check=True)
        found[kind] = [path]
    return found


def write_questions(
    path: Path, kinds: dict[Kind, list[Path]], n_items: int
) -> dict[str, Kind]:
    """Write a question a video, all kinds in turn; return the kind of each question.

    Every question has a file name of its own, a link, so that every one is decoded.
    """
    expected: dict[str, Kind] = {}
    folder = path.parent / "videos"
    folder.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for i, (kind, source) in enumerate(islice(_in_turn(kinds), n_items)):
            video = folder / f"{i:06d}{kind.suffix}"
            os.link(source, video)
            expected[f"q{i}"] = kind
            row = {
                "question_id": f"q{i}",
                "video": f"videos/{video.name}",
                "question": f"What is in it, asked for time {i}?",
                "options": [f"thing {c}" for c in range(N_OPTIONS)],
                "answer": i % N_OPTIONS,
            }
            file.write(json.dumps(row) + "\n")
    return expected


def _in_turn(kinds: dict[Kind, list[Path]]) -> Iterator[tuple[Kind, Path]]:
    files = {kind: cycle(paths) for kind, paths in kinds.items()}
    for kind in cycle(kinds):
        yield kind, next(files[kind])
