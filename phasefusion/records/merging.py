"""Putting runs together: every pass once, and no contradiction passed over."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from phasefusion._checks import warn
from phasefusion._file_hash import file_sha256
from phasefusion._paths import PASSES, path_of, run_path
from phasefusion._results import Result
from phasefusion._wording import by_number, counted, item_name
from phasefusion.errors import RecordError, RecordWarning
from phasefusion.records import _json
from phasefusion.records.files import (
    FIXED,
    PASSES_FILE,
    PLANNED,
    RUN_FILE,
    SOURCE,
    PassKey,
    differences,
    pass_key,
    write_whole,
)
from phasefusion.records.lines import Row
from phasefusion.records.tables import (
    _file_of,
    replacing,
    source_blocks,
    valid_blocks,
)
from phasefusion.records.told import told

Keep: TypeAlias = Literal["first", "last"]

#: Conflicts that are kept with their places; all are counted.
LIMIT = 1000
#: Videos and settings that a warning names.
_SHOWN = 3
#: Fields that two makings of one pass do not share: they are no evidence. Which file
#: the video was is a matter of the question, and one of them may not say it.
_NO_EVIDENCE = ("seconds", "decode_seconds", "source", "video_digest")
#: What the passes of an item must agree in.
_OF_ITEM = ("n_options", "gold")
#: Settings in which parts of one run differ.
_OF_PART = ("questions_sha256",)
#: Of a scorer's description, the hash of its code.
_HASH = SOURCE.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two records that cannot both be.

    Attributes
    ----------
    kind : {"pass", "item", "settings"}
        The same pass with other contents; an item with another number of options,
        gold or video file; runs made with other settings.
    first, second : str
        File and line of both.
    fields : tuple of str
        Every difference.
    what : str
        Which pass or item.
    """

    kind: Literal["pass", "item", "settings"]
    first: str
    second: str
    fields: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        return f"{self.second} and {self.first}: {self.what}: {'; '.join(self.fields)}"


@dataclass(frozen=True, slots=True, repr=False)
class Merged(Result):
    """What a merge found and did.

    Attributes
    ----------
    n_passes : int
        Passes in the merged run.
    n_identical : int
        Passes that were there again with the same contents, and left out.
    n_conflicts : int
    conflicts : tuple of Conflict
        The first of them.
    written : Path or None
        None when a conflict was in the way.
    without_run : tuple of Path
        Sources without ``run.json``, as bare pass files are. With any of them the
        merged run has none: how a part was made is not known of the whole.
    """

    n_passes: int
    n_identical: int
    n_conflicts: int
    conflicts: tuple[Conflict, ...]
    written: Path | None
    without_run: tuple[Path, ...] = ()


def merge(
    sources: Sequence[Any],
    out: str | Path,
    *,
    keep: Keep | None = None,
    same_scorer: bool = False,
) -> Merged:
    """Merge runs into one, the passes of one source after those of the one before.

    Passes that are the same in everything but the time they took are written once; if
    one of them alone says which file its video was, that one.
    Passes with the same key (`pass_key`) and other contents are a conflict, and so are
    runs with other settings; nothing is written then unless `keep` says which of them
    is kept. Items whose number of options, gold or video file differ are no one run,
    whatever `keep` is.

    Parameters
    ----------
    sources : sequence of Run, str or Path
        Two or more run folders or pass files.
    out : str or Path
        A run folder to make, or a ``.jsonl`` file.
    keep : {"first", "last"}, optional
    same_scorer : bool, default False
        Whether runs whose scorers differ in the hash of their code alone are of one
        scorer. The merged ``run.json`` has the hash of the first, or last, and those of
        all under ``same_scorer``.

    Returns
    -------
    Merged

    Raises
    ------
    FileNotFoundError
        If a source is not there.
    RecordError
        If a line is no pass, `out` holds passes already, or cannot be written.
    UsageError
        If `out` or one of `sources` is no path.

    Warns
    -----
    RecordWarning
        If there are passes of different files under the id of one video.
    """
    paths = [run_path("source", source, PASSES) for source in sources]
    out = path_of("out", out, "a run folder, or a file of passes")
    if len(paths) < 2:
        raise RecordError("there is nothing to merge: give two or more runs")
    target = out if out.suffix == ".jsonl" else out / PASSES_FILE
    if target.exists():
        raise RecordError(f"{target}: is there already; choose another name")
    return put_together(paths, out, keep=keep, same_scorer=same_scorer, called=out)


def put_together(
    paths: Sequence[Path],
    out: Path,
    *,
    keep: Keep | None = None,
    same_scorer: bool = False,
    called: Path,
) -> Merged:
    """Do what `merge` does, into a place that may be called otherwise afterwards."""
    target = out if out.suffix == ".jsonl" else out / PASSES_FILE
    index = _Index(keep, same_scorer)
    runs = [index.add_file(number, path) for number, path in enumerate(paths)]
    run = index.merge_runs(paths, runs)
    is_stopped = index.has_items or (index.n_conflicts and keep is None)
    if not is_stopped:
        index.warn_of_videos(called)
        _write(paths, index, target, called)
        if run is not None and target.name == PASSES_FILE:
            write_whole(target.parent / RUN_FILE, run)
    return Merged(
        len(index.winner),
        index.n_identical,
        index.n_conflicts,
        tuple(index.described(paths)),
        None if is_stopped else out,
        tuple(path for path, one in zip(paths, runs, strict=True) if one is None),
    )


class _Index:
    """Where every pass is, and what contradicts what."""

    def __init__(self, keep: Keep | None, same_scorer: bool) -> None:
        self.keep = keep
        self.same_scorer = same_scorer
        #: (number of the file, line) of the pass that is written, by key.
        self.winner: dict[PassKey, tuple[int, int]] = {}
        self.n_identical = 0
        self.n_conflicts = 0
        self.has_items = False
        self._digest: dict[PassKey, bytes] = {}
        #: Passes of which the winner does not say which file the video was.
        self._untold: set[PassKey] = set()
        self._items: dict[tuple[str, str], tuple[tuple[int, int], Any]] = {}
        self._digests: dict[tuple[str, str], tuple[tuple[int, int], str]] = {}
        #: Of every video, by benchmark and id: the files it was.
        self._videos: dict[tuple[str, str], set[str]] = {}
        self._pairs: list[tuple[PassKey, tuple[int, int], tuple[int, int]]] = []
        self._other: list[Conflict] = []
        self._paths: list[Path] = []

    def add_file(self, number: int, path: Path) -> dict[str, Any] | None:
        """Take all passes of a source; return its run.json."""
        blocks, run = source_blocks(path)
        self._paths.append(_file_of(path))
        for lines, rows in valid_blocks(_file_of(path), blocks):
            for line, row in zip(lines, rows, strict=True):
                self._add((number, line), row)
        return run

    def _add(self, place: tuple[int, int], row: Row) -> None:
        key = pass_key(row)
        self._check_item(place, row)
        digest, is_told = _digest(row), row.get("video_digest") is not None
        before = self._digest.get(key)
        takes = before is None
        if before == digest:
            self.n_identical += 1
            takes = is_told and key in self._untold
        elif before is not None:
            self.n_conflicts += 1
            if len(self._pairs) < LIMIT:
                self._pairs.append((key, self.winner[key], place))
            takes = self.keep == "last"
        if takes:
            self.winner[key] = place
            self._digest[key] = digest
            (self._untold.discard if is_told else self._untold.add)(key)

    def _check_item(self, place: tuple[int, int], row: Row) -> None:
        values = [row[name] for name in _OF_ITEM]
        key = (row["benchmark"], row["question_id"])
        first, before = self._items.setdefault(key, (place, values))
        fields = tuple(
            f"{name} {then!r} -> {now!r}"
            for name, then, now in zip(_OF_ITEM, before, values, strict=True)
            if then != now
        )
        if not fields:
            first, fields = self._other_video(place, row)
        if not fields:
            return
        self.n_conflicts += 1
        self.has_items = True
        if len(self._other) < LIMIT:
            what = f"question {key[1]!r} of {key[0]!r}"
            self._other.append(
                Conflict("item", self._name(first), self._name(place), fields, what)
            )

    def _other_video(
        self, place: tuple[int, int], row: Row
    ) -> tuple[tuple[int, int], tuple[str, ...]]:
        """Return where a question was about another file, and how that differs."""
        now = row.get("video_digest")
        benchmark, video = row["benchmark"], row.get("video_id")
        if now is not None and video is not None:
            self._videos.setdefault((benchmark, video), set()).add(now)
        here = None if now is None else (place, now)
        first = told(self._digests, (benchmark, row["question_id"]), here)
        if first is None or here is None or first[1] == now:
            return place, ()
        return first[0], (f"video_digest {first[1]!r} -> {now!r}",)

    def warn_of_videos(self, out: Path) -> None:
        """Say that there are several files under the id of one video."""
        names = [
            item_name(*key) for key, files in self._videos.items() if len(files) > 1
        ]
        if names:
            more = ", ..." if len(names) > _SHOWN else ""
            warn(
                f"{out}: {counted(len(names), 'video')} "
                f"{by_number(len(names), 'is', 'are')} of two files or more: "
                f"{', '.join(names[:_SHOWN])}{more}; phasefusion records check names "
                "the lines",
                RecordWarning,
            )

    def _name(self, place: tuple[int, int]) -> str:
        return f"{self._paths[place[0]]}, line {place[1]}"

    def merge_runs(
        self, paths: Sequence[Path], runs: Sequence[dict[str, Any] | None]
    ) -> dict[str, Any] | None:
        """Return run.json of the merged run; None when a source has none."""
        known = [
            (p, run) for p, run in zip(paths, runs, strict=True) if run is not None
        ]
        planned = planned_of([run for _, run in known])
        n_passes, differ = self.n_conflicts, []
        for path, run in known[1:]:
            fields = differences(self._settings(known[0][1]), self._settings(run))
            if fields:
                planned = {}
                differ += fields
                self.n_conflicts += 1
                self._other.append(
                    Conflict(
                        "settings",
                        str(known[0][0] / RUN_FILE),
                        str(path / RUN_FILE),
                        tuple(fields),
                        "the runs were made with other settings",
                    )
                )
        if len(known) < len(paths):
            return None
        chosen = runs[-1 if self.keep == "last" else 0]
        assert chosen is not None
        questions = _questions([run for _, run in known])
        own = {name: value for name, value in chosen.items() if name != "planned"}
        own |= {"questions": questions} | planned | made_of(known)
        return own | _overruled([run for _, run in known], self.keep, differ, n_passes)

    def _settings(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a run must keep from its first pass to its last."""
        found: dict[str, Any] = {}
        for part in FIXED:
            if isinstance(run.get(part), dict):
                found |= {k: v for k, v in run[part].items() if k not in _OF_PART}
        if self.same_scorer and isinstance(found.get("scorer"), dict):
            found["scorer"] = {k: v for k, v in found["scorer"].items() if k != _HASH}
        return found

    def described(self, paths: Sequence[Path]) -> list[Conflict]:
        """Name the differences of passes, which takes reading their lines again."""
        places = {place for _, *both in self._pairs for place in both}
        rows: dict[tuple[int, int], Row] = {}
        for number, path in enumerate(paths) if places else ():
            blocks, _ = source_blocks(path)
            for lines, found in valid_blocks(_file_of(path), blocks):
                for line, row in zip(lines, found, strict=True):
                    if (number, line) in places:
                        rows[number, line] = _evidence(row)
        conflicts = list(self._other)
        for key, first, second in self._pairs:
            what = (
                f"question {key[1]!r}, arm {key[2]}{' shifted' if key[3] else ''}, "
                f"phase {key[4]}, order {list(key[5])}"
            )
            fields = tuple(differences(rows[first], rows[second]))
            conflicts.append(
                Conflict("pass", self._name(first), self._name(second), fields, what)
            )
        return conflicts[:LIMIT]


def _write(paths: Sequence[Path], index: _Index, target: Path, called: Path) -> None:
    """Write the winners, a file after the other."""
    kept = dict.fromkeys(index.winner.values())
    with replacing(target, called) as file:
        for number, path in enumerate(paths):
            blocks, _ = source_blocks(path)
            for lines, rows in valid_blocks(_file_of(path), blocks):
                file.write(
                    b"".join(
                        _json.dumps(row) + b"\n"
                        for line, row in zip(lines, rows, strict=True)
                        if (number, line) in kept
                    )
                )


def _evidence(row: Row) -> Row:
    """Return what of a record two makings of a pass must share; null is as absent."""
    return {
        name: value
        for name, value in row.items()
        if value is not None and name not in _NO_EVIDENCE
    }


def _digest(row: Row) -> bytes:
    evidence = _evidence(row)
    text = _json.dumps([[name, evidence[name]] for name in sorted(evidence)])
    return hashlib.blake2b(text, digest_size=16).digest()


def _overruled(
    runs: Sequence[Mapping[str, Any]],
    keep: Keep | None,
    differ: Sequence[str],
    n_passes: int,
) -> dict[str, Any]:
    """Return what run.json says of contradictions that `keep` decides or decided."""
    before = [known for run in runs for known in conflicts_of(run).values()]
    settings = [*differ, *(one for known in before for one in known["settings"])]
    n_passes += sum(known["passes"] for known in before)
    if not settings and not n_passes:
        return {}
    kept = [keep, *(known["keep"] for known in before), None]
    return {
        "conflicts": {
            "keep": next(filter(None, kept), None),
            "settings": list(dict.fromkeys(settings)),
            "passes": n_passes,
        }
    }


def conflicts_of(run: Mapping[str, Any], *, values: bool = True) -> dict[str, Any]:
    """Return the part of run.json about contradictions, if it has one.

    Without values the settings are named alone, for they may hold paths.
    """
    known = run.get("conflicts")
    if not isinstance(known, dict):
        return {}
    settings = [str(one) for one in known.get("settings") or ()]
    if not values:
        settings = [one.partition(":")[0] for one in settings]
    found = {"keep": known.get("keep"), "settings": settings}
    return {"conflicts": found | {"passes": int(known.get("passes") or 0)}}


def contradictions(run: Mapping[str, Any]) -> str:
    """Say of a merged run how the runs that it was made of contradict each other.

    Parameters
    ----------
    run : mapping
        ``run.json``.

    Returns
    -------
    str
        What it was "merged of"; empty for any other run.

    Examples
    --------
    >>> contradictions({"conflicts": {"keep": "first", "settings": [], "passes": 2}})
    'merged of runs of which 2 passes differed, the first of each being kept'
    """
    found = []
    known = conflicts_of(run).get("conflicts", {"settings": [], "passes": 0})
    if known["settings"]:
        more = len(known["settings"]) - _SHOWN
        shown = "; ".join(known["settings"][:_SHOWN])
        shown += f"; {more} more in run.json" if more > 0 else ""
        found.append(f"made with other settings ({shown})")
    if known["passes"]:
        found.append(
            f"of which {counted(known['passes'], 'pass', 'passes')} differed, the "
            f"{known['keep']} of each being kept"
        )
    if run.get("same_scorer"):
        found.append("whose scorers differ in the hash of their code")
    return f"merged of runs {', and '.join(found)}" if found else ""


def made_of(runs: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what run.json says of the runs that one was made of.

    Of scorers whose code differs, the hashes of all.
    """
    found: dict[str, Any] = {
        "merged_from": [
            {"run": path.name, "passes_sha256": file_sha256(_file_of(path))}
            for path, _ in runs
        ]
    }
    scorers = [(run.get("settings") or {}).get("scorer") for _, run in runs]
    hashes = [one.get(_HASH) if isinstance(one, dict) else None for one in scorers]
    if any(one != hashes[0] for one in hashes):
        found["same_scorer"] = [
            {"run": path.name, _HASH: one}
            for (path, _), one in zip(runs, hashes, strict=True)
        ]
    return found


def planned_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what runs have planned together: nothing unless that is known.

    Of those that have the same questions, the one that planned most counts, as of a run
    and its copy; shards, and parts of a benchmark, add up.
    """
    most: dict[frozenset[Any], dict[Any, dict[str, Any]]] = {}
    for run in runs:
        items = (run.get("questions") or {}).get("items")
        known = run.get("planned") or {}
        planned: dict[str, Any] = {name: known.get(name) for name in PLANNED}
        if not isinstance(items, dict) or None in planned.values():
            return {}
        names = frozenset((one, name) for one in items for name in items[one])
        shard = tuple((run.get("shard") or {}).values())
        parts = most.setdefault(names, {})
        parts[shard] = max(parts.get(shard, planned), planned, key=_planned_size)
    is_apart = sum(map(len, most)) == len(frozenset().union(*most))
    if not is_apart or any(() in parts and len(parts) > 1 for parts in most.values()):
        return {}
    every = [one for parts in most.values() for one in parts.values()]
    return {"planned": {name: sum(one[name] for one in every) for name in PLANNED}}


def _planned_size(planned: Mapping[str, Any]) -> tuple[int, int]:
    return int(planned["questions"]), int(planned["passes"])


def _questions(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put together what runs say about their questions."""
    items: dict[str, dict[str, str]] = {}
    for run in runs:
        of_run = (run.get("questions") or {}).get("items")
        if not isinstance(of_run, dict):
            return {"n": None}  # some may be in several of the runs
        for benchmark, hashes in of_run.items():
            items.setdefault(benchmark, {}).update(hashes)
    return {"n": sum(map(len, items.values())), "items": items}
