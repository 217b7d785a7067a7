"""Parts of a run for machines that share nothing but the question file."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion._checks import warn
from phasefusion._devices import LOCAL_RANKS
from phasefusion._paths import path_of, run_path
from phasefusion._random import fnv1a64
from phasefusion._wording import Argument, by_number, counted
from phasefusion.datasets import Item
from phasefusion.errors import RecordError, RecordWarning, UsageError
from phasefusion.records.appending import locked_run
from phasefusion.records.files import (
    PASSES_FILE,
    RUN_FILE,
    changes,
    iter_passes,
    pass_key,
    read_run,
    write_whole,
)
from phasefusion.records.questions import question_places

if TYPE_CHECKING:
    from phasefusion.protocols import Plan

#: What a message lists at most.
_SHOWN = 10
#: Begins the name of the folder in which a run is put together.
_MERGING = ".merging-"
_SAME_SCORER = (
    "nothing else differs: merge with --same-scorer (same_scorer=True) if it is one "
    "scorer, as where its code or an object names a path of each machine"
)

_TEXT = re.compile(r"(\d+)/(\d+)")
#: Where launchers say which process this is, counted from 0, and of how many: torchrun
#: and accelerate, Slurm, Open MPI.
_RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of a run.

    Attributes
    ----------
    index : int
        Which one, from 1.
    of : int
        How many there are.

    Raises
    ------
    UsageError
        If `index` is not in 1..`of`.

    Examples
    --------
    >>> Shard(2, 4).folder("runs/a").name
    'a.shard-2-of-4'
    """

    index: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.of:
            raise UsageError(
                f"shard {self.index}/{self.of}: "
                + (
                    f"shards count from 1 to {self.of}"
                    if self.of > 0
                    else "there must be one shard at least, such as 1/1"
                )
            )

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def to_dict(self) -> dict[str, Any]:
        """Return what run.json says of it; of one of one, nothing."""
        return {} if self.of == 1 else {"shard": asdict(self)}

    def folder(self, out: str | Path) -> Path:
        """Return the run folder of this shard, beside that of the whole run.

        One shard of one is the whole run.
        """
        out = path_of("out", out, "the folder of the run")
        if self.of == 1:
            return out
        return out.with_name(f"{out.name}.shard-{self.index}-of-{self.of}")

    def part(self, items: Sequence[Item], limit: int | None = None) -> list[Item]:
        """Return what this shard has of the first `limit` items.

        Whole videos are dealt out, those with most questions first, each to the shard
        that has fewest by then; a hash of the path decides between equals. It depends
        on the list of items alone, so every machine finds the same; a larger `limit`
        adds items and moves none. Paths count from the folder that all videos share,
        which may have another name on each machine.
        """
        names = video_names(items)
        shards = _deal(names, self.of)
        return [
            item
            for item, name in zip(items[:limit], names, strict=False)
            if shards[name] == self.index - 1
        ]


def video_names(items: Sequence[Item]) -> list[str]:
    """Return the path of each item's video, from the folder that all share.

    Examples
    --------
    >>> items = [
    ...     Item(str(i), "b", f"/data/{name}", name, "?", ("a", "b"))
    ...     for i, name in enumerate(["x/1.mp4", "x/1.mp4", "y/1.mp4"])
    ... ]
    >>> video_names(items)
    ['x/1.mp4', 'x/1.mp4', 'y/1.mp4']
    """
    videos = [os.path.abspath(item.video) for item in items]
    shared = os.path.commonpath({os.path.dirname(v) for v in videos} or {os.sep})
    return [Path(video).relative_to(shared).as_posix() for video in videos]


def _deal(names: Sequence[str], n_shards: int) -> dict[str, int]:
    """Map every name to a shard, so that occurrences are spread evenly."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    loads = [0] * n_shards
    shards: dict[str, int] = {}
    for name in sorted(counts, key=lambda n: (-counts[n], fnv1a64(n), n)):
        shards[name] = loads.index(min(loads))
        loads[shards[name]] += counts[name]
    return shards


def as_shard(shard: Shard | str | None) -> Shard | None:
    """Return a shard of its text, ``"2/4"``, or of what the launcher says, ``"auto"``.

    Raises
    ------
    UsageError
        If it cannot be understood, or no launcher says anything.
    """
    if shard is None or isinstance(shard, Shard):
        return shard
    if shard == "auto":
        return launched_shard(os.environ)
    found = _TEXT.fullmatch(shard)
    if found is None:
        raise UsageError(
            Argument("shard"), f' must be such as "2/4", or "auto", not {shard!r}'
        )
    return Shard(int(found[1]), int(found[2]))


def check_stages(shard: Shard, plan: Plan) -> None:
    """Refuse shards of a protocol that chooses among all questions.

    Raises
    ------
    UsageError
        If it does, and there is more than one shard.
    """
    if shard.of > 1 and any(stage.share < 1 for stage in plan.stages):
        raise UsageError(
            f"protocol {plan.protocol.name!r} chooses questions by the margins of all "
            "of them, which no shard knows; run it in one, or with engine ray"
        )


def part_of(
    items: Sequence[Item], limit: int | None, shard: Shard | str | None, plan: Plan
) -> tuple[Sequence[Item], Shard | None]:
    """Return the questions that a run scores, and which shard that is.

    Raises
    ------
    UsageError
        If the shard cannot be understood, or the protocol cannot be cut.
    """
    part = as_shard(shard)
    if part is None:
        return items[:limit], None
    check_stages(part, plan)
    return part.part(items, limit), part


def launched_shard(environ: Mapping[str, str]) -> Shard:
    """Return the shard of a process that torchrun, accelerate, Slurm or MPI started.

    Raises
    ------
    UsageError
        If the environment does not say which one this is.

    Examples
    --------
    >>> launched_shard({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"})
    Shard(index=1, of=2)
    """
    for rank, size in _RANKS:
        if rank in environ and size in environ:
            return Shard(_number(environ, rank) + 1, _number(environ, size))
    names = ", ".join(f"{rank} and {size}" for rank, size in _RANKS)
    raise UsageError(
        f"shard auto: none of {names} is set; start the command with accelerate "
        "launch, torchrun or srun, or give the shard, such as 1/4"
    )


def launched_device(environ: Mapping[str, str]) -> str | None:
    """Return the CUDA device of this process, by its number on this machine.

    None where no launcher gives a number, or there is no such device: the launcher may
    have shown each process one device only.
    """
    found = next((name for name in LOCAL_RANKS if name in environ), None)
    if found is None:
        return None
    import torch

    number = _number(environ, found)
    return f"cuda:{number}" if number < torch.cuda.device_count() else None


def _number(environ: Mapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except ValueError:
        raise UsageError(f"{name} is {environ[name]!r}, not a number") from None


def merge_shards(
    folders: Sequence[str | Path], out: str | Path, *, same_scorer: bool = False
) -> int:
    """Make one run of all its shards.

    It is the run that one process would have made, but for the order of its lines and
    its times, and goes on as such: with a larger `limit` of `evaluate`, for instance.
    Shards that were merged before they were finished are merged again into the same
    folder, which keeps what it has more. Nobody else can write that run meanwhile, and
    a crash leaves what was there, to be merged again.

    Parameters
    ----------
    folders : sequence of str or Path
        Every shard of one run, in any order.
    out : str or Path
        The run folder to make.
    same_scorer : bool, default False
        Whether shards whose scorers differ in the hash of their code alone are of one
        scorer, as where it names a path of each machine. ``run.json`` then has the hash
        of the first shard, and those of all under ``same_scorer``.

    Returns
    -------
    int
        Passes in it.

    Raises
    ------
    FileNotFoundError
        If a folder holds no run.
    RecordError
        If shards are missing, there twice or of different runs, their passes contradict
        each other or those of `out`, `out` holds another run or is being written, or
        cannot be.

    Warns
    -----
    RecordWarning
        If questions have no pass, or fewer than others: as with a limit, or of shards
        that are not finished.
    """
    paths = [run_path("folder", folder) for folder in folders]
    out = path_of("out", out, "the folder of the run")
    runs = [read_run(path) for path in paths]
    shards = [_shard_of(path, run) for path, run in zip(paths, runs, strict=True)]
    _check_complete(paths, shards)
    _check_same(paths, runs, same_scorer)
    if any(out.resolve() == path.resolve() for path in paths):
        raise RecordError(f"{out}: is one of the shards; choose another folder")
    paths = [path for _, path in sorted(zip(shards, paths, strict=True))]
    with locked_run(out):
        try:
            n_passes = _replace(out, paths, same_scorer)
        except OSError as error:
            raise RecordError(f"{out}: cannot be written: {error}") from error
    _warn_of_few(out)
    return n_passes


def _replace(out: Path, paths: list[Path], same_scorer: bool) -> int:
    """Put the run of all shards, in their order, in place of what `out` holds."""
    from phasefusion.records.merging import made_of, planned_of, put_together

    for left in out.glob(f"{_MERGING}*"):  # by a merge that was killed
        shutil.rmtree(left)
    more = _more_of(out, paths, same_scorer)
    # here and not beside it, as only a file of one file system takes another's place
    with tempfile.TemporaryDirectory(dir=out, prefix=_MERGING) as name:
        folder = Path(name)
        sources = [*paths, out] if (out / PASSES_FILE).exists() else paths
        merged = put_together(sources, folder, same_scorer=same_scorer, called=out)
        if merged.written is None:
            conflicts = "\n  ".join(map(str, merged.conflicts[:_SHOWN]))
            raise RecordError(
                f"{out}: not written, because passes contradict each other in "
                f"{merged.n_conflicts} places:\n  {conflicts}"
            )
        parts = [(path, read_run(path)) for path in [*paths, *more]]
        whole = parts[0][1] | made_of(parts)
        whole.pop("shard")
        whole.pop("planned", None)
        whole |= planned_of([run for _, run in parts])
        source = whole.get("questions") or {}
        if source.get("absolute"):
            lies = {"file": source["absolute"]}
            whole["questions"] = source | question_places(lies, out)
        write_whole(folder / RUN_FILE, whole)
        for file in (RUN_FILE, PASSES_FILE):
            os.replace(folder / file, out / file)
    return merged.n_passes


def _more_of(out: Path, paths: Sequence[Path], same_scorer: bool) -> list[Path]:
    """Return `out` if it has passes that no shard has; refuse those of another run."""
    is_run = (out / RUN_FILE).exists()
    if is_run:
        changed = changes(read_run(out), read_run(paths[0]), same_scorer=same_scorer)
        if changed:
            raise RecordError(
                f"{out}: holds a run with other settings; choose another folder:\n  "
                + "\n  ".join(changed)
            )
    if not (out / PASSES_FILE).exists():
        return []
    there = {pass_key(row) for path in paths for row in iter_passes(path)}
    n_more = sum(pass_key(row) not in there for row in iter_passes(out))
    if n_more and not is_run:
        raise RecordError(
            f"{out}: holds {counted(n_more, 'pass', 'passes')} that no shard has, and "
            f"no {RUN_FILE}, so their settings are unknown; choose another folder"
        )
    return [out] if n_more else []


def _warn_of_few(out: Path) -> None:
    """Say which questions lack passes, as far as other questions tell."""
    run = read_run(out)
    n_passes: Counter[tuple[str, str]] = Counter()
    n_options: dict[tuple[str, str], int] = {}
    # of an adaptive protocol: what not all questions are asked
    later = {arm["arm"] for arm in run["settings"]["arms"] if arm.get("step")}
    for row in iter_passes(out):
        item = row["benchmark"], row["question_id"]
        n_passes[item] += row["arm"] not in later
        n_options[item] = row["n_options"]
    most: dict[int, int] = {}
    for item, n in n_passes.items():
        most[n_options[item]] = max(n, most.get(n_options[item], 0))
    is_exact = run["settings"]["grid"]["short"] != "unique"  # else clips differ too
    n_few = sum(is_exact and n < most[n_options[i]] for i, n in n_passes.items())
    n_all = run["questions"]["n"]
    n_none = n_all - len(n_passes)
    if n_none or n_few:
        warn(
            f"{out}: {n_none} of {counted(n_all, 'question')} "
            f"{by_number(n_none, 'has', 'have')} no pass, and {n_few} "
            f"{by_number(n_few, 'has', 'have')} fewer than others. If "
            "that is no limit, run the shards to their end, and merge them again into "
            "the same folder",
            RecordWarning,
        )


def _shard_of(path: Path, run: Mapping[str, Any]) -> tuple[int, int]:
    """Return which shard a run says it is, and of how many."""
    shard = run.get("shard")
    if not isinstance(shard, dict):
        raise RecordError(
            f"{path}: is no shard of a run; phasefusion records merge puts any runs "
            "together"
        )
    return int(shard["index"]), int(shard["of"])


def _check_complete(paths: Sequence[Path], shards: Sequence[tuple[int, int]]) -> None:
    """Refuse shards that are not exactly all of one run."""
    of = shards[0][1]
    if any(n_shards != of for _, n_shards in shards):
        raise RecordError(_of_several_runs(paths, shards))
    seen: dict[int, Path] = {}
    for path, (index, _) in zip(paths, shards, strict=True):
        if index in seen:
            raise RecordError(f"{path}: is shard {index}, and so is {seen[index]}")
        seen[index] = path
    missing = [f"{index}/{of}" for index in range(1, of + 1) if index not in seen]
    if missing:
        raise RecordError(
            f"{len(missing)} of {of} shards are missing: "
            f"{', '.join(missing[:_SHOWN])}; run them, or give their folders"
        )


def _of_several_runs(paths: Sequence[Path], shards: Sequence[tuple[int, int]]) -> str:
    """Say which folders are of how many shards, and which set is whole."""
    sets: dict[int, list[int]] = {}
    for k, (_, of) in enumerate(shards):
        sets.setdefault(of, []).append(k)
    said = [
        f"{counted(len(places), 'is', 'are')} of {of} "
        f"({', '.join(str(paths[k]) for k in places[:_SHOWN])})"
        for of, places in sets.items()
    ]
    whole = [
        of
        for of, places in sets.items()
        if {shards[k][0] for k in places} == set(range(1, of + 1))
    ]
    advice = "leave out all but those of one number"
    if len(whole) == 1:
        advice = f"those of {whole[0]} are all there: leave the others out"
    return f"shards are of different numbers: {'; '.join(said)}; {advice}"


def _check_same(
    paths: Sequence[Path], runs: Sequence[Mapping[str, Any]], same_scorer: bool
) -> None:
    """Refuse shards of different runs."""
    for path, run in zip(paths[1:], runs[1:], strict=True):
        changed = changes(runs[0], run, same_scorer=same_scorer)
        if changed:
            if not changes(runs[0], run, same_scorer=True):
                changed.append(_SAME_SCORER)
            raise RecordError(
                f"{path}: was made with other settings than {paths[0]}:\n  "
                + "\n  ".join(changed)
            )
