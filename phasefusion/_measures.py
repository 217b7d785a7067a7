"""Accuracy, FPC and OOC of a run item by item, and how they were measured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._paths import run_path
from phasefusion.errors import RecordError
from phasefusion.records import Passes, read_passes, read_run
from phasefusion.report.items import ItemColumns, cluster_name, contributions
from phasefusion.report.table import Table, build

Key: TypeAlias = tuple[str, str]
Measure: TypeAlias = Literal["accuracy", "fpc", "ooc"]
#: What is judged and watched, in the order in which it is reported.
MEASURES: tuple[Measure, ...] = ("accuracy", "fpc", "ooc")
LABELS: Mapping[Measure, str] = {
    "accuracy": "mean accuracy",
    "fpc": "FPC",
    "ooc": "OOC",
}


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """What every item of a run contributes.

    Attributes
    ----------
    path : Path
    run : mapping
        ``run.json``.
    arm : str
        What accuracy and OOC are of: "phases" (the mean over the phase views), or the
        first arm of a run without them.
    keys : tuple of (str, str)
        Benchmark and question.
    cluster : tuple of tuple of str
        Of every item, by video or by question.
    values : dict of str to ndarray, shape (n,), float64
        By measure, in [0, 1]; NaN where a pass of the item is missing, it has no gold
        (accuracy) or fewer than two answers to agree (FPC, OOC). A text that names no
        option is not right, and agrees with nothing: FPC and OOC leave its item out.
    orders : dict of (str, str) to frozenset
        In which every item was shown.
    gold : dict of (str, str) to (int or None)
    videos : dict of (str, str) to (str or None)
        Digest of the video of every item; None where it is not recorded.
    budgets : tuple of int
        Frames of a pass, where recorded.
    phases : tuple of str
        Phases of the passes in steps, where recorded.
    n_phases, n_orders : int
        The most that an item has.
    n_incomplete : int
        Items of which a pass is missing or names no option.
    """

    path: Path
    run: Mapping[str, Any] = field(repr=False)
    arm: str
    keys: tuple[Key, ...] = field(repr=False)
    cluster: tuple[tuple[str, str, str], ...] = field(repr=False)
    values: Mapping[Measure, NDArray[np.float64]] = field(repr=False)
    orders: Mapping[Key, frozenset[tuple[int, ...]]] = field(repr=False)
    gold: Mapping[Key, int | None] = field(repr=False)
    videos: Mapping[Key, str | None] = field(repr=False)
    budgets: tuple[int, ...]
    phases: tuple[str, ...]
    n_phases: int
    n_orders: int
    n_incomplete: int

    @property
    def sampling(self) -> dict[str, Any]:
        """How frames were taken: the grid, the sampler and the arms that are judged."""
        settings = self.run.get("settings", {})
        wanted = ("phase",) if self.arm == "phases" else (self.arm,)
        arms = [
            entry
            for entry in settings.get("arms", ())
            if entry.get("arm") in wanted and not entry.get("shifted", False)
        ]
        return {
            "arm": self.arm,
            "grid": settings.get("grid"),
            "arms": arms,
            "budgets": list(self.budgets),
            "phases": list(self.phases),
            "n_phases": self.n_phases,
        }

    @property
    def digests(self) -> dict[Key, str]:
        """Hash of every question, where the run recorded it."""
        items = self.run.get("questions", {}).get("items", {})
        return {
            (benchmark, question): digest
            for benchmark, of_items in items.items()
            for question, digest in of_items.items()
        }

    @property
    def items_sha256(self) -> str:
        """Hash of which items there are, whatever their order.

        Items of one id are the same where their questions are, as far as the run
        recorded them, and their right answers.
        """
        digests = self.digests
        text = "\n".join(
            "\t".join((*key, digests.get(key, ""), str(self.gold.get(key))))
            for key in sorted(self.keys)
        )
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def videos_sha256(self) -> str | None:
        """Hash of which files the videos were; None unless that is known of all."""
        if None in self.videos.values():
            return None
        text = "\n".join(
            "\t".join((*key, str(self.videos[key]))) for key in sorted(self.keys)
        )
        return hashlib.sha256(text.encode()).hexdigest()


def measure_run(
    run: Any,
    *,
    cluster: Literal["question", "video"] = "video",
    name: str = "run",
) -> RunMeasures:
    """Read a run and compute what its items contribute.

    Parameters
    ----------
    run : Run, str or Path
    cluster : {'video', 'question'}, default 'video'
    name : str
        Of the argument, in messages.

    Returns
    -------
    RunMeasures

    Raises
    ------
    FileNotFoundError
        If there is no run.
    RecordError
        If its files are damaged or it holds no pass.
    UsageError
        If `run` is neither a run nor a path.
    """
    folder = run_path(name, run)
    described = read_run(folder)
    passes = read_passes(folder)
    if not len(passes):
        raise RecordError(f"{folder}: holds no passes yet; there is nothing to judge")
    table = build(passes, described.get("settings", {}))
    columns = contributions(table)
    arm = "phases" if table.phase_names else columns.arms[0]
    keys = tuple((info.benchmark, info.question_id) for info in table.items)
    consistent = columns.order_flips[arm].pairwise
    fpc = np.full(len(keys), np.nan)
    if len(table.phase_names) > 1:
        fpc = 1.0 - columns.phase_flips_passes.pairwise
    complete = _complete(table, columns)
    of_arm = _recorded(passes, arm)
    return RunMeasures(
        path=folder,
        run=described,
        arm=arm,
        keys=keys,
        cluster=tuple(cluster_name(info, cluster) for info in table.items),
        values={
            "accuracy": _accuracy(table, columns, of_arm.unparsed),
            "fpc": fpc,
            "ooc": 1.0 - consistent,
        },
        orders=_orders(table),
        gold={key: info.gold for key, info in zip(keys, table.items, strict=True)},
        videos={
            key: info.video_digest for key, info in zip(keys, table.items, strict=True)
        },
        budgets=tuple(np.unique(of_arm.budgets).tolist()),
        phases=of_arm.phases,
        n_phases=len(table.phase_names),
        n_orders=int(table.n_orders.max()),
        n_incomplete=int((~complete).sum()),
    )


def _judged(table: Table, columns: ItemColumns) -> tuple[str, ...]:
    """Arms that accuracy is the mean of."""
    return table.phase_names or columns.arms[:1]


def _there(table: Table, columns: ItemColumns) -> NDArray[np.bool_]:
    """Whether an item has each of these arms, shape (n, arms)."""
    names = _judged(table, columns)
    if not table.phase_names:
        return np.ones((len(table.items), 1), bool)
    return np.asarray(np.arange(len(names)) < table.n_phases[:, None])


def _complete(table: Table, columns: ItemColumns) -> NDArray[np.bool_]:
    """Items that have an answer in every order of every phase they have."""
    names = _judged(table, columns)
    answered = [table.arms[name, False].consensus >= 0 for name in names]
    there = _there(table, columns)
    every = (np.stack(answered, axis=1) | ~there).all(axis=1)
    return np.asarray(every & there.any(axis=1), dtype=np.bool_)


def _accuracy(
    table: Table, columns: ItemColumns, unparsed: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Share of an item's passes that are right; NaN unless it has them all.

    A text that names no option is a pass, and is not right: a model must not gain by
    refusing what it would get wrong.
    """
    names = _judged(table, columns)
    answers = np.stack([table.arms[name, False].answer for name in names], axis=1)
    orders = np.arange(table.order.shape[1]) < table.n_orders[:, None]
    wanted = _there(table, columns)[:, :, None] & orders[:, None]
    right = (answers == table.gold[:, None, None]) & wanted
    n = wanted.sum(axis=(1, 2))
    lacking = ((answers < 0) & wanted).sum(axis=(1, 2))
    usable = (n > 0) & (lacking == unparsed) & (table.gold >= 0)
    return np.where(usable, right.sum(axis=(1, 2)) / np.maximum(n, 1), np.nan)


def _orders(table: Table) -> dict[Key, frozenset[tuple[int, ...]]]:
    found = {}
    for info, rows in zip(table.items, table.order.tolist(), strict=True):
        shown = (tuple(row[: info.n_options]) for row in rows if row[0] >= 0)
        found[info.benchmark, info.question_id] = frozenset(shown)
    return found


@dataclass(frozen=True, slots=True)
class _Recorded:
    budgets: NDArray[np.int64]
    phases: tuple[str, ...]
    unparsed: NDArray[np.int64]  # passes by item


def _recorded(passes: Passes, arm: str) -> _Recorded:
    """Collect what the passes of the arm say of their frames."""
    wanted = "phase" if arm == "phases" else arm
    chosen = (passes.arm == wanted) & ~passes.shifted
    budgets = passes.budget[chosen & (passes.budget >= 0)]
    rows = np.unique(passes.phase[chosen & (passes.phase[:, 0] >= 0)], axis=0)
    silent = passes.item[chosen & passes.generated & (passes.answer < 0)]
    unparsed = np.bincount(silent, minlength=len(passes.items))
    return _Recorded(budgets, tuple(f"{p}/{q}" for p, q in rows.tolist()), unparsed)
