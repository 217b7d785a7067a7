"""Batches over time in an SQLite file that several processes may write."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from phasefusion._measures import MEASURES, Measure
from phasefusion._results import Result
from phasefusion._wording import encodable
from phasefusion.errors import HistoryError, UsageError
from phasefusion.records import _json as records_json

#: Version of the tables; a file of a later one is refused.
SCHEMA_VERSION = 1
#: Marks the file as a history ("PFmo").
APPLICATION_ID = 0x50466D6F
VIDEOS = "videos_sha256"
_BUSY_S = 30.0
_TABLES = """
CREATE TABLE batch (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL UNIQUE,
    run TEXT NOT NULL,
    n_items INTEGER NOT NULL,
    n_incomplete INTEGER NOT NULL,
    items_sha256 TEXT NOT NULL,
    sampling TEXT NOT NULL,
    orders TEXT NOT NULL,
    described TEXT NOT NULL,
    notices TEXT NOT NULL
);
CREATE TABLE measure (
    batch INTEGER NOT NULL REFERENCES batch (id),
    name TEXT NOT NULL,
    mean REAL NOT NULL,
    error REAL,
    n INTEGER NOT NULL,
    n_clusters INTEGER NOT NULL,
    PRIMARY KEY (batch, name)
);
"""


@dataclass(frozen=True, slots=True)
class Value:
    """One measure of a batch.

    Attributes
    ----------
    mean, error : float
        Over its items, with the clustered standard error; NaN for a single cluster.
    n, n_clusters : int
    """

    mean: float
    error: float
    n: int
    n_clusters: int


@dataclass(frozen=True, slots=True, repr=False)
class Batch(Result):
    """One batch of a history.

    Attributes
    ----------
    at : str
        When, in UTC: ``2026-11-30T08:00:00Z``.
    run : str
        The run folder, as it was given.
    n_items, n_incomplete : int
        Items, and those of which a pass is missing.
    items_sha256 : str
        Hash of which items there are.
    sampling, orders : mapping
        How frames were taken and options shown.
    described : mapping
        Settings, versions and model of the run, and under `VIDEOS` a hash of which
        files its videos were, None unless that is known of all.
    notices : tuple of str
    values : dict of str to Value
        By measure; one that the run does not have is left out.
    """

    at: str
    run: str
    n_items: int
    n_incomplete: int
    items_sha256: str
    sampling: Mapping[str, Any] = field(repr=False)
    orders: Mapping[str, Any] = field(repr=False)
    described: Mapping[str, Any] = field(repr=False)
    notices: tuple[str, ...]
    values: Mapping[Measure, Value]


def other_files(one: Batch, other: Batch) -> bool:
    """Whether the same items are about other video files, if both batches say it."""
    files = {batch.described.get(VIDEOS) for batch in (one, other)}
    same_items = one.items_sha256 == other.items_sha256
    return same_items and None not in files and len(files) > 1


def in_utc(when: str | datetime) -> str:
    """Return a time as text in UTC that sorts as time does.

    Parameters
    ----------
    when : str or datetime
        ISO 8601; without an offset it is UTC.

    Raises
    ------
    UsageError
        If it is no time.

    Examples
    --------
    >>> in_utc("2026-11-30T09:00+01:00"), in_utc("2026-11-30")
    ('2026-11-30T08:00:00Z', '2026-11-30T00:00:00Z')
    """
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) else when
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{when!r} is no time; write it as 2026-11-30 or 2026-11-30T08:00+01:00"
        ) from error
    moment = moment.replace(microsecond=0, tzinfo=None)
    return moment.isoformat() + "Z"


@contextlib.contextmanager
def opened(path: Path, *, make: bool) -> Iterator[sqlite3.Connection]:
    """Open a history, make it where it is not there, and close it.

    Raises
    ------
    HistoryError
        For whatever SQLite says of the file, and for a file that is none of ours.
    """
    if not make and not path.exists():
        raise HistoryError(f"{path}: there is no history; monitor add makes one")
    connection = None
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        _prepare(connection, path, make)
        yield connection
    except sqlite3.OperationalError as error:
        raise HistoryError(f"{path}: cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise HistoryError(f"{path}: is no history or is damaged: {error}") from error
    finally:
        if connection is not None:
            connection.close()


def _prepare(connection: sqlite3.Connection, path: Path, make: bool) -> None:
    ours = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and ours != APPLICATION_ID:
        raise HistoryError(f"{path}: is an SQLite file of something else")
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise HistoryError(f"{path}: is damaged: {' '.join(str(found).split())}")
    connection.execute("PRAGMA foreign_keys = ON")
    if make:
        _write_ahead(connection)
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise HistoryError(
            f"{path}: has tables of version {version}, this phasefusion reads version "
            f"{SCHEMA_VERSION}"
        )


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; SQLite does not wait for others by itself here."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep other writers out from here on; what fails leaves nothing behind."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def insert(connection: sqlite3.Connection, path: Path, batch: Batch) -> bool:
    """Add a batch, while `writing`; tell whether it was new.

    Raises
    ------
    HistoryError
        If there is another batch of that time.
    """
    there = [one for one in read(connection, path) if one.at == batch.at]
    if there:
        if _same(there[0], batch):
            return False
        raise HistoryError(
            f"{path}: has another batch at {batch.at}, of {there[0].run}; give this "
            "one its own time"
        )
    made = connection.execute(
        "INSERT INTO batch (at, run, n_items, n_incomplete, items_sha256, sampling,"
        " orders, described, notices) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            batch.at,
            encodable(batch.run),
            batch.n_items,
            batch.n_incomplete,
            batch.items_sha256,
            *map(_json, (batch.sampling, batch.orders, batch.described)),
            _json(batch.notices),
        ),
    )
    connection.executemany(
        "INSERT INTO measure VALUES (?, ?, ?, ?, ?, ?)",
        [
            (made.lastrowid, name, v.mean, v.error, v.n, v.n_clusters)
            for name, v in batch.values.items()
        ],
    )
    return True


def _json(value: Any) -> str:
    return records_json.dumps(value, sort_keys=True).decode()


def _same(one: Batch, other: Batch) -> bool:
    """Whether two batches have the same numbers, wherever their runs lie."""

    def numbers(batch: Batch) -> str:
        return _json([batch.items_sha256, batch.n_incomplete, dict(batch.values)])

    return numbers(one) == numbers(other)


def read(connection: sqlite3.Connection, path: Path) -> list[Batch]:
    """Return all batches in the order of their times.

    Raises
    ------
    HistoryError
        If a row does not hold what it must.
    """
    values: dict[int, dict[Measure, Value]] = {}
    rows = connection.execute(
        "SELECT batch, name, mean, error, n, n_clusters FROM measure"
    )
    for batch, name, mean, error, n, n_clusters in rows:
        known = next((m for m in MEASURES if m == name), None)
        error = math.nan if error is None else error
        sound = isinstance(mean, float) and 0.0 <= mean <= 1.0
        sound = sound and isinstance(error, float) and not error < 0.0
        sound = sound and isinstance(n, int) and isinstance(n_clusters, int)
        if known is None or not sound or not 1 <= n_clusters <= n:
            raise HistoryError(
                f"{path}: is damaged: measure {name!r} of batch {batch} is "
                f"{(mean, error, n, n_clusters)}"
            )
        values.setdefault(batch, {})[known] = Value(mean, error, n, n_clusters)
    found = []
    rows = connection.execute(
        "SELECT id, at, run, n_items, n_incomplete, items_sha256, sampling, orders, "
        "described, notices FROM batch ORDER BY at"
    )
    for row in rows:
        try:
            sampling, orders, described, notices = map(orjson.loads, row[6:])
            if in_utc(str(row[1])) != row[1]:
                raise ValueError(f"time {row[1]!r}")
            batch = Batch(
                at=row[1],
                run=str(row[2]),
                n_items=int(row[3]),
                n_incomplete=int(row[4]),
                items_sha256=str(row[5]),
                sampling=dict(sampling),
                orders=dict(orders),
                described=dict(described),
                notices=tuple(map(str, notices)),
                values=values.get(row[0], {}),
            )
        except (ValueError, TypeError) as error:
            raise HistoryError(
                f"{path}: is damaged: batch {row[0]}: {error}"
            ) from error
        found.append(batch)
    return found
