"""Finding the files of videos and subtitles by name, in a folder and below it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phasefusion._wording import encodable
from phasefusion.datasets.item import Item

#: Endings of video files; of two files of one name the first of these is taken.
VIDEO_SUFFIXES = (
    ".mp4",
    ".mkv",
    ".webm",
    ".avi",
    ".mov",
    ".m4v",
    ".mpg",
    ".mpeg",
    ".flv",
    ".wmv",
    ".ts",
    ".3gp",
    ".ogv",
    ".gif",
)
SUBTITLE_SUFFIXES = (".srt", ".vtt", ".ass", ".ssa", ".json", ".jsonl")


def is_file(path: Path) -> bool:
    """Whether there is such a file; False for what cannot be a path."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or a NUL in it
        return False


@dataclass(frozen=True, slots=True)
class Found:
    """Outcome of looking for a name.

    Attributes
    ----------
    path : Path or None
    problem : str
        Why there is none; empty where it is simply not there.
    """

    path: Path | None = None
    problem: str = ""


@dataclass(slots=True)
class Folder:
    """Files of some kinds in a folder and below, by name without the ending.

    The folder is walked once, and only if a file does not lie where its name says.

    Attributes
    ----------
    root : Path
    suffixes : sequence of str
        In order of preference.
    """

    root: Path
    suffixes: Sequence[str] = VIDEO_SUFFIXES
    _names: Mapping[str, list[Path]] | None = field(default=None, init=False)
    _folders: set[str] = field(default_factory=set, init=False)

    def find(self, name: str, hint: str = "") -> Found:
        """Look for a file by its name, with or without ending and folders.

        Parameters
        ----------
        name : str
            Such as "abc", "abc.mp4" or "part1/abc.mp4".
        hint : str, optional
            Part of the path of the one that is meant where several have the name.

        Returns
        -------
        Found
        """
        found = self._exactly(name, hint)
        bare = name.strip()
        if found.path is None and not found.problem and bare != name:
            near = self._exactly(bare, hint).path
            if near is not None:
                found = Found(
                    problem="was not found: white space at the ends is part of a "
                    f"name, and {near} is there without it"
                )
        return found

    def _exactly(self, name: str, hint: str) -> Found:
        if not name or "\0" in name:
            return Found()
        direct = self.root / name
        if self._is_kind(name) and is_file(direct):
            return Found(direct)
        for suffix in self.suffixes:
            path = Path(f"{direct}{suffix}")
            if is_file(path):
                return Found(path)
        return self._below(name, hint)

    def _is_kind(self, name: str) -> bool:
        return _ending(name) in self.suffixes

    def _below(self, name: str, hint: str) -> Found:
        """Look for the file name alone in all folders."""
        if self._names is None:
            self._names = self._walk()
        base = name.rstrip("/").rpartition("/")[2]
        stem = os.path.splitext(base)[0] if self._is_kind(base) else base
        paths = self._names.get(stem, [])
        if not paths:
            if base in self._folders:
                return Found(problem="is a folder, of frames perhaps, and no file")
            return Found()
        if hint:
            paths = [path for path in paths if hint in path.as_posix()] or paths
        parents = {path.parent for path in paths}
        if len(parents) > 1:
            places = ", ".join(sorted(parent.as_posix() for parent in parents)[:2])
            return Found(problem=f"lies in {len(parents)} folders, such as {places}")
        return Found(min(paths, key=lambda path: self._preference(path, base)))

    def _preference(self, path: Path, wanted: str) -> tuple[bool, int, str]:
        rank = self.suffixes.index(_ending(path.name))
        return path.name != wanted, rank, path.name

    def _walk(self) -> dict[str, list[Path]]:
        """Every file of the kinds by its stem; names of videos know upper case."""
        found: dict[str, list[Path]] = {}
        seen: set[str] = set()
        for folder, inner, files in os.walk(self.root, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link to where the walk has been
                inner.clear()
                continue
            seen.add(real)
            inner.sort()
            self._folders.update(inner)
            for file in sorted(files):
                if self._is_kind(file):
                    stem = os.path.splitext(file)[0]
                    found.setdefault(stem, []).append(Path(folder, file))
        return found


def _ending(name: str) -> str:
    """Return the ending that says the kind; white space may follow it in a name."""
    return os.path.splitext(name)[1].rstrip().lower()


def first_found(folder: Folder, names: Iterable[str], hint: str = "") -> Found:
    """Return the first of several names that is there, or the first problem."""
    problem = Found()
    for name in names:
        found = folder.find(name, hint)
        if found.path is not None:
            return found
        problem = problem if problem.problem else found
    return problem


def told_apart(items: Iterable[Item], root: Path) -> list[Item]:
    """Give videos of one name in several folders, or with several endings, ids apart.

    Questions about one video are a cluster, and name it by its file as a rule; where
    that name is that of several files, those are named by their path below `root`.

    Examples
    --------
    >>> from phasefusion.datasets import Item
    >>> one = Item("a", "b", "/v/s1/video.mp4", "video", "What?", ("x", "y"))
    >>> two = Item("c", "b", "/v/s2/video.mp4", "video", "What?", ("x", "y"))
    >>> [item.video_id for item in told_apart([one, two], Path("/v"))]
    ['s1/video.mp4', 's2/video.mp4']
    >>> told_apart([one, one], Path("/v"))[1].video_id
    'video'
    """
    found = list(items)
    named: dict[tuple[str, str], set[str]] = {}
    for item in found:
        if item.video_id == encodable(Path(item.video).stem):
            named.setdefault((item.benchmark, item.video_id), set()).add(item.video)
    shared = {path for paths in named.values() if _are_several(paths) for path in paths}
    for k, item in enumerate(found):
        if item.video in shared and (item.benchmark, item.video_id) in named:
            path = Path(os.path.relpath(item.video, root)).as_posix()
            found[k] = copy.copy(item)  # its options are checked, and have no letters
            object.__setattr__(found[k], "video_id", encodable(path))
    return found


def _are_several(paths: set[str]) -> bool:
    return len(paths) > 1 and len(set(map(_real, paths))) > 1


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL in it
        return path
