"""Every finding about pass files: what no reader minds and what no reader takes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phasefusion._paths import PASSES, run_path
from phasefusion._results import Result
from phasefusion.errors import RecordError
from phasefusion.progress import Advance, Listener, follow
from phasefusion.records import rules
from phasefusion.records.files import (
    PASSES_FILE,
    RUN_FILE,
    PassKey,
    pass_key,
    passes_path,
    read_run,
)
from phasefusion.records.lines import PassLines, Row, is_blank, parse_line
from phasefusion.records.merging import contradictions
from phasefusion.records.told import told

#: Findings that are kept with their place; all are counted.
LIMIT = 1000
_MB = 1_000_000
#: What must be the same in all passes of an item.
_OF_ITEM = ("n_options", "gold", "video_id", "type", "same_options")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes
    ----------
    file : str
    line : int or None
        Counted from 1; None when it is about the file.
    field : str or None
        Of the record; None when it is about the line.
    kind : str
        What sort of thing, as it is counted.
    message : str
    """

    file: str
    line: int | None
    field: str | None
    kind: str
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{where}: {self.message}"


@dataclass(frozen=True, slots=True, repr=False)
class CheckResult(Result):
    """What `check` found.

    Attributes
    ----------
    findings : tuple of Finding
        The first ones, in the order of the lines.
    counts : dict of str to int
        All findings by kind.
    n_passes : int
        Lines that are JSON objects.
    files : tuple of str
    """

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    n_passes: int
    files: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether nothing was found."""
        return not self.counts

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        names = Finding.__slots__
        return {
            "files": list(self.files),
            "passes": self.n_passes,
            "findings": sum(self.counts.values()),
            "by_kind": self.counts,
            "first": [{n: getattr(f, n) for n in names} for f in self.findings],
        }


def check(
    *paths: Any,
    limit: int = LIMIT,
    progress: bool | Listener | None = False,
) -> CheckResult:
    """Check run folders and pass files against the schema and what it cannot say.

    Beside the types of VidMCQ-Flip v1 these are: a permutation as order; lengths;
    answer and gold among the options; log-probabilities that are finite, at most 0,
    and not all of no option; more than one option; the answer being the most probable
    option unless it was generated; the phase following from its index; frames inside
    the clip; items that agree in gold and options; questions and videos that are of one
    file, decoded in one way; passes that are there once in a file; arms as the run
    describes them; torn, empty and overlong lines, keys that are there twice, and NaN.

    Parameters
    ----------
    *paths : Run, str or Path
        Run folders, or ``passes.jsonl`` files.
    limit : int, default 1000
        Findings to keep; the others are counted.
    progress : bool, callable or None, default False
        None shows how far it is on a terminal, and elsewhere a line on stderr every
        half minute; a callable gets MB done, MB in all, and the file.

    Returns
    -------
    CheckResult

    Raises
    ------
    FileNotFoundError
        If there is no such folder or file.
    UsageError
        If one of `paths` is no path.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "passes.jsonl"
    ...     _ = path.write_text('{"question_id": "q1"}')
    ...     found = check(path)
    >>> found.counts
    {'missing': 11}
    >>> found.findings[0].field
    'benchmark'
    """
    found = _Found(limit)
    there = [run_path("path", path, PASSES) for path in paths]
    sizes = [_size_mb(path) for path in there]
    total = sum(sizes)
    with follow(total, 0, progress if total else False, unit="MB") as advance:
        for path, size_mb in zip(there, sizes, strict=True):
            _check_one(path, found, _Steps(advance, path.name, size_mb))
    return CheckResult(
        tuple(found.kept),
        dict(sorted(found.counts.items())),
        found.n_passes,
        tuple(map(str, there)),
    )


@dataclass(slots=True)
class _Found:
    limit: int
    kept: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    n_passes: int = 0

    def add(
        self, file: Path, line: int | None, name: str | None, kind: str, message: str
    ) -> None:
        self.counts[kind] += 1
        if len(self.kept) < self.limit:
            self.kept.append(Finding(str(file), line, name, kind, message))


def _size_mb(path: Path) -> int:
    file = passes_path(path)
    return file.stat().st_size // _MB if file.is_file() else 0


@dataclass(slots=True)
class _Steps:
    """Says how many MB of a file are done, and no more than it has."""

    advance: Advance
    name: str
    size_mb: int
    done_mb: int = 0

    def to(self, n_bytes: int) -> None:
        step_mb = min(n_bytes // _MB, self.size_mb) - self.done_mb
        if step_mb > 0:
            self.done_mb += step_mb
            self.advance(step_mb, self.name)


def _check_one(path: Path, found: _Found, steps: _Steps) -> None:
    arms: Sequence[Mapping[str, Any]] = ()
    if path.is_dir():
        arms = _check_run(path, found)
        if not (path / PASSES_FILE).exists():
            found.add(path, None, None, "file", f"has no {PASSES_FILE}")
            return
    file = passes_path(path)
    checker = _FileChecker(file, _by_name(arms), found)
    lines = PassLines(file)
    try:
        for number, block in lines.blocks():
            for n, line in enumerate(block, number):
                if not is_blank(line):
                    checker.add(n, line)
            steps.to(lines.whole_bytes)
    except RecordError as error:  # a line too long: nothing after it can be read
        place = re.search(r", line (\d+): (.*)", str(error))
        number = int(place[1]) if place else 0
        found.add(file, number, None, "too long", place[2] if place else str(error))
        return
    if lines.torn_line is not None:
        found.add(
            file,
            lines.torn_line,
            None,
            "torn",
            f"the last {lines.torn_bytes} bytes are no whole line; a reader leaves "
            "them out",
        )


def _check_run(folder: Path, found: _Found) -> Sequence[Mapping[str, Any]]:
    """Look at run.json; return its arms."""
    try:
        run = read_run(folder)
    except FileNotFoundError:
        if not folder.exists():
            raise
        found.add(folder, None, None, "run file", f"has no {RUN_FILE}")
        return ()
    except RecordError as error:
        message = str(error).removeprefix(f"{folder / RUN_FILE}: ")
        found.add(folder / RUN_FILE, None, None, "run file", message)
        return ()
    if run.get("conflicts"):
        message = f"the run was {contradictions(run)}"
        found.add(folder / RUN_FILE, None, "conflicts", "run file", message)
    settings = run.get("settings")
    if not isinstance(settings, dict):
        found.add(
            folder / RUN_FILE, None, "settings", "run file", "settings is no object"
        )
        return ()
    arms = settings.get("arms")
    if not isinstance(arms, list):
        return ()
    return [arm for arm in arms if isinstance(arm, dict)]


def _by_name(
    arms: Sequence[Mapping[str, Any]],
) -> dict[tuple[Any, bool], Mapping[str, Any]]:
    return {(arm.get("arm"), bool(arm.get("shifted"))): arm for arm in arms}


class _FileChecker:
    """Goes through the lines of one file."""

    def __init__(
        self,
        path: Path,
        arms: Mapping[tuple[Any, bool], Mapping[str, Any]],
        found: _Found,
    ) -> None:
        self._path = path
        self._arms = arms
        self._found = found
        self._line_of: dict[PassKey, int] = {}
        self._items: dict[tuple[str, str], tuple[int, tuple[Any, ...]]] = {}
        #: Field, kind of its owner, benchmark and id: line, value and digest.
        self._first: dict[tuple[str, ...], tuple[int, Any, str | None]] = {}
        self._said: set[tuple[Any, ...]] = set()

    def add(self, number: int, line: bytes) -> None:
        """Check one line."""
        try:
            row = parse_line(line)
        except ValueError as error:
            self._say(number, None, "not JSON", f"not JSON: {error}")
            return
        if not isinstance(row, dict):
            kind = type(row).__name__
            self._say(number, None, "not JSON", f"a JSON object is wanted, not {kind}")
            return
        self._found.n_passes += 1
        for name in repeated_keys(line, row):
            self._say(number, name, "repeated key", f"{name!r} is there more than once")
        problems = list(rules.structure(row))
        if not problems:
            problems = list(rules.lengths(row))
            if not problems:
                problems = list(rules.meaning(row))
            self._check_item(number, row)
            self._check_video(number, row)
            self._check_arm(number, row)
            self._check_distinct(number, row)
        for kind, name, message in problems:
            self._say(number, name, kind, message)

    def _say(self, number: int, name: str | None, kind: str, message: str) -> None:
        self._found.add(self._path, number, name, kind, message)

    def _check_item(self, number: int, row: Row) -> None:
        values = tuple(row.get(name) for name in _OF_ITEM)
        key = (row["benchmark"], row["question_id"])
        line, before = self._items.setdefault(key, (number, values))
        if values == before:
            return
        for name, now, then in zip(_OF_ITEM, values, before, strict=True):
            if now != then:
                self._say(
                    number,
                    name,
                    "item",
                    f"{name} is {rules.shorten(now)}, and {rules.shorten(then)} in "
                    f"line {line}, of the same question {row['question_id']!r}",
                )

    def _check_video(self, number: int, row: Row) -> None:
        """Find what is of two files, or decoded in two ways: a question, or a video."""
        owners = [("question", row["question_id"]), ("video", row.get("video_id"))]
        for kind, owner in owners:
            key = (kind, row["benchmark"], owner)
            names = "video_digest", "n_frames"
            if owner is None or any(self._differs(number, row, n, key) for n in names):
                return

    def _differs(
        self, number: int, row: Row, name: str, owner: tuple[str, str, str]
    ) -> bool:
        """Whether a field contradicts the first line of its owner that has it."""
        value, digest = row.get(name), row.get("video_digest")
        here = None if value is None else (number, value, digest)
        first = told(self._first, (name, *owner), here)
        if here is None or first is None or first[1] == value:
            return False
        line, before, then = first
        why = "the video is two files"
        if name == "n_frames":
            is_one_file = None not in (digest, then)  # or the digests were named
            if is_one_file and owner[0] == "video":
                return False  # parts of it
            why = "frames may be of two files"
            if is_one_file:
                why = "one file by video_digest, which was decoded in two ways"
        if (name, owner, value) not in self._said:
            self._said.add((name, owner, value))
            self._say(
                number,
                name,
                "video",
                f"{name} is {value}, and {before} in line {line}, of the same "
                f"{owner[0]} {owner[2]!r}: {why}",
            )
        return True

    def _check_arm(self, number: int, row: Row) -> None:
        arm = self._arms.get((row["arm"], row.get("shifted", False)))
        if arm is None:
            return
        for name, of_grid in (("n_phases", "phases"), ("budget", "budget")):
            most = arm.get(of_grid)
            if isinstance(most, int) and row[name] is not None and row[name] > most:
                self._say(
                    number,
                    name,
                    "grid",
                    f"{name} is {row[name]}, and {RUN_FILE} gives arm {row['arm']!r} "
                    f"{most}",
                )
        if row.get("origin") is not None and arm.get("origin") is not None:
            if list(row["origin"]) != list(arm["origin"]):
                self._say(
                    number,
                    "origin",
                    "grid",
                    f"origin is {row['origin']}, and {RUN_FILE} gives arm "
                    f"{row['arm']!r} {arm['origin']}",
                )

    def _check_distinct(self, number: int, row: Row) -> None:
        line = self._line_of.setdefault(pass_key(row), number)
        if line != number:
            self._say(
                number,
                None,
                "repeated pass",
                f"the same pass as line {line} (question {row['question_id']!r}, arm "
                f"{row['arm']!r}, phase {row['phase_index']}, order {row['order']})",
            )


_COLON = re.compile(rb'"\s*:')


def repeated_keys(line: bytes, row: Row) -> Iterator[str]:
    """Yield keys that an object of a line has more than once."""
    # Every key is followed by a quote and a colon; texts may hold more of them, and a
    # count that is too low only costs the time of a second look.
    if len(_COLON.findall(line)) == _count_keys(row):
        return
    names: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(name for name, _ in pairs)
        names.extend(name for name, n in counts.items() if n > 1)
        return dict(pairs)

    json.loads(line, object_pairs_hook=collect)
    yield from dict.fromkeys(names)


def _count_keys(value: Any) -> int:
    if type(value) is dict:
        return len(value) + sum(map(_count_keys, value.values()))
    if type(value) is list and value and type(value[0]) in (dict, list):
        return sum(map(_count_keys, value))
    return 0
