"""Batches over time: mean accuracy, FPC and OOC, what left its chart, and since when.

A history is an SQLite file of one row a batch and measure. Of every measure there are
two charts against a baseline of the first batches: a p chart, which finds large changes
at once, and a CUSUM, which finds small ones that last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from phasefusion._comparable import (
    Obstacle,
    check_topics,
    enforce,
    sampling_differs,
)
from phasefusion._measures import MEASURES, Measure, RunMeasures, measure_run
from phasefusion._paths import path_of
from phasefusion._results import Result
from phasefusion.errors import HistoryError, RecordError, UsageError
from phasefusion.monitor._history import (
    VIDEOS,
    Batch,
    Value,
    in_utc,
    insert,
    opened,
    other_files,
    read,
    writing,
)
from phasefusion.monitor._watching import Alert, MeasureWatch, Watch, watch
from phasefusion.records import differences
from phasefusion.stats import clustered_mean

__all__ = [
    "Added",
    "Alert",
    "Batch",
    "MeasureWatch",
    "Value",
    "Watch",
    "add",
    "batches",
    "show",
]

_SETTINGS = ("settings", "versions", "model")


@dataclass(frozen=True, slots=True)
class Added(Result):
    """What adding a run did.

    Attributes
    ----------
    batch : Batch
    new : bool
        False if the history had the same batch at that time.
    n_batches : int
        Of the history, with this one.
    """

    batch: Batch
    new: bool
    n_batches: int


def add(
    history: str | Path,
    run: Any,
    *,
    at: str | datetime,
    cluster: Literal["video", "question"] = "video",
    allow: Sequence[str] = (),
) -> Added:
    """Add a run to a history as the batch of a time.

    Several processes may do so at once. A batch may come late: batches are in the order
    of their times. Adding the same numbers at the same time again does nothing.

    Parameters
    ----------
    history : str or Path
        SQLite file; it is made where there is none.
    run : Run, str or Path
        Run folder.
    at : str or datetime
        When it was measured, ISO 8601; without an offset it is UTC.
    cluster : {'video', 'question'}, default 'video'
        What items of one cluster share.
    allow : sequence of str, default ()
        Differences from the first batch that are noted instead of refused: "sampling",
        "orders".

    Returns
    -------
    Added

    Raises
    ------
    FileNotFoundError
        If there is no run.
    HistoryError
        If the history is damaged or something else, or has another batch at that time.
    RecordError
        If files of the run are damaged, nothing can be measured on it, or it was not
        measured like the first batch.
    UsageError
        If `at` is no time or `allow` holds something else.

    Examples
    --------
    >>> import tempfile
    >>> from phasefusion.simulate import corpus
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (run,) = corpus(n_videos=4, orders="cyclic").write(folder, frames=False)
    ...     made = add(f"{folder}/quality.sqlite", run, at="2026-11-30T09:00+01:00")
    >>> made.new, made.batch.at, made.n_batches, sorted(made.batch.values)
    (True, '2026-11-30T08:00:00Z', 1, ['accuracy', 'fpc', 'ooc'])
    """
    when = in_utc(at)
    topics = check_topics(allow, "allow")
    batch = _batch(measure_run(run, cluster=cluster), when)
    path = path_of("history", history, "the file of the history")
    with opened(path, make=True) as connection, writing(connection):
        there = read(connection, path)
        if there:
            notices = enforce(
                _obstacles(there[0], batch),
                topics,
                f"{batch.run} was not measured like the batch of {there[0].at} in "
                f"{path}",
                'allow="{0}" (--allow {0})',
            )
            notices += _other_files(there, batch)
            batch = replace(batch, notices=batch.notices + notices)
        new = insert(connection, path, batch)
        return Added(batch, new, len(there) + new)


def _obstacles(first: Batch, batch: Batch) -> list[Obstacle]:
    found = sampling_differs(first.sampling, batch.sampling)
    orders = differences(dict(first.orders), dict(batch.orders))
    if orders:
        found.append(Obstacle("orders", "; ".join(orders)))
    return found


def _other_files(there: Sequence[Batch], batch: Batch) -> tuple[str, ...]:
    """Say that the videos changed since the same items were last measured."""
    before = [
        one
        for one in there
        if one.at < batch.at
        and one.items_sha256 == batch.items_sha256
        and one.described.get(VIDEOS)
    ]
    if not before or not other_files(before[-1], batch):
        return ()
    return (f"videos are other files than those of the batch of {before[-1].at}",)


def _batch(made: RunMeasures, when: str) -> Batch:
    names = {name: i for i, name in enumerate(dict.fromkeys(made.cluster))}
    labels = np.array([names[name] for name in made.cluster], np.int64)
    values: dict[Measure, Value] = {}
    for measure in MEASURES:
        mean = clustered_mean(made.values[measure], labels)
        if mean.n:
            values[measure] = Value(
                min(1.0, max(0.0, mean.mean)), mean.se, mean.n, mean.n_clusters
            )
    if not values:
        raise RecordError(
            f"{made.path}: no item has all its passes; there is nothing to add"
        )
    notices = []
    if made.n_incomplete:
        notices.append(
            f"{made.n_incomplete} of {len(made.keys)} items lack an answer and are "
            "left out where they do"
        )
    return Batch(
        at=when,
        run=str(made.path),
        n_items=len(made.keys),
        n_incomplete=made.n_incomplete,
        items_sha256=made.items_sha256,
        sampling=made.sampling,
        orders={
            "orders": made.run.get("settings", {}).get("orders"),
            "n_orders": made.n_orders,
        },
        described={part: made.run.get(part, {}) for part in _SETTINGS}
        | {VIDEOS: made.videos_sha256},
        notices=tuple(notices),
        values=values,
    )


def batches(history: str | Path) -> list[Batch]:
    """Return the batches of a history in the order of their times.

    Parameters
    ----------
    history : str or Path

    Returns
    -------
    list of Batch

    Raises
    ------
    HistoryError
        If there is none, or it is damaged or something else.
    """
    path = path_of("history", history, "the file of the history")
    with opened(path, make=False) as connection:
        return read(connection, path)


def show(
    history: str | Path,
    *,
    baseline: int = 10,
    every: float = 370.0,
    width: float | None = None,
    h: float | None = None,
) -> Watch:
    """Chart a history: what left its chart, on which side, and since when.

    Parameters
    ----------
    history : str or Path
    baseline : int, default 10
        So many batches, the first ones, say what is usual. One will do if batches have
        other items each; 5 at least if they have the same.
    every : float, default 370
        All charts together raise one false alarm in about so many batches.
    width, h : float, optional
        Limits of the p charts in sigmas and of the CUSUMs; they follow from `every`.

    Returns
    -------
    Watch

    Raises
    ------
    HistoryError
        If there is none, it is empty, or it is damaged or something else.
    UsageError, StatisticsError
        If a number is out of range.
    """
    there = batches(history)
    if not there:
        raise HistoryError(f"{history}: has no batch yet; add one")
    for name, value in (("width", width), ("h", h)):
        if value is not None and not 0.0 < value < math.inf:
            raise UsageError(f"{name} must be > 0 and finite, it is {value}")
    return watch(there, str(history), baseline=baseline, every=every, width=width, h=h)
