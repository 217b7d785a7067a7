"""Time of reading passes and of reporting them, against the best public parsers.

Every round runs all candidates one after the other on the same file; a ratio is the
median over the rounds of peer time / our time, CPU seconds of one thread. What all of
them read is compared in the same run. Exit code 1 when a goal is missed.

load    289,000 passes, 60 MB of JSON Lines, into columns: orjson, DuckDB and PyArrow
        reading the same fields into NumPy arrays, those included that this file does
        not have, without any of the checks; ours must take no more than 1.1 times the
        fastest of them
cache   the same file a second time: 10 times as fast as the first
report  a file of 289,000 passes as the writer makes them, 3 phases x 10 orders and the
        other arms of the protocol, to the full report, in a process of its own: less
        than 10 s of wall clock and 1 GB of memory, from JSON Lines and without a cache

    python benchmarks/records.py [--rounds 7] [--rows load,cache] [--json FILE]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import _report
import numpy as np
import orjson
from _report import Goal, Row

from phasefusion import orders
from phasefusion.records import Passes, read_passes

N_PASSES = 289_000
LOAD_GOAL = Goal(1.1, most=True)
CACHE_GOAL = Goal(10.0)
REPORT_SECONDS = Goal(10.0, most=True)
REPORT_MB = Goal(1000, most=True)
TASKS = ("load", "cache", "report")

Columns = dict[str, Any]
TEXTS = ("question_id", "benchmark", "video_id", "type", "arm", "invalid")
INTEGERS = ("n_options", "gold", "budget", "n_phases", "phase_index", "answer")
INTEGERS += ("shifted", "n_frames")
NUMBERS = ("duration_s", "option_mass", "seconds")
LISTS = ("phase", "order", "logprobs", "same_options")
FIELDS = (*TEXTS, *INTEGERS, *NUMBERS, *LISTS)
#: What the file of the first two tasks has of them.
THERE = ("question_id", "benchmark", "video_id", "n_options", "gold", "arm", "budget")
THERE += ("n_phases", "phase", "phase_index", "order", "logprobs", "answer")
#: (arm, shifted, phases, frames a pass, origin) as `evaluate` makes them.
ARMS = [
    (arm, shifted, n_phases, budget, (Fraction(1, 2) + Fraction(shifted, 2)) % 1)
    for shifted in (False, True)
    for arm, n_phases, budget in (("phase", 3, 8), ("union", 1, 24), ("dense", 1, 32))
]


# ------------------------------------------------------------------------- the files


def make_passes(full: bool) -> Iterator[dict[str, Any]]:
    """Simulated passes; of the phase arm alone and with few fields unless `full`."""
    rng = np.random.default_rng(20261130)
    arms = ARMS if full else ARMS[:1]
    orders_of = {
        k: np.unique(orders.shared(k, 10, 0), axis=0).tolist() for k in (3, 4, 5)
    }
    n, i = 0, 0
    while n < N_PASSES:
        k = (4, 5, 4, 3)[i % 4]
        base = rng.normal(size=k)
        item = {
            "question_id": f"{i:06d}-{i % 7}",
            "benchmark": ("egoschema", "videomme", "mvbench")[i % 3],
            "video_id": f"video{i // 3:05d}",
            "type": ("action", "order", "count")[i % 3] if full else None,
            "n_options": k,
            "gold": int(rng.integers(k)),
        }
        for arm in arms:
            for record in _of_arm(rng, item, base, orders_of[k], arm, full):
                yield record
                n += 1
                if n == N_PASSES:
                    return
        i += 1


def _of_arm(
    rng: np.random.Generator,
    item: dict[str, Any],
    base: np.ndarray[Any, Any],
    option_orders: list[list[int]],
    arm: tuple[str, bool, int, int, Fraction],
    full: bool,
) -> Iterator[dict[str, Any]]:
    name, shifted, n_phases, budget, origin = arm
    for s in range(n_phases):
        of_phase = base + 0.5 * rng.normal(size=len(base))
        frames = np.sort(rng.integers(0, 3000, budget)).tolist()
        for order in option_orders:
            scores = of_phase + 0.3 * rng.normal(size=len(base))
            logp = scores - np.log(np.exp(scores).sum()) - 0.05
            shown = logp[order].tolist()
            record = item | {"arm": name}
            if full:
                record["shifted"] = shifted
            phase = (s + origin) / n_phases
            record |= {
                "budget": budget,
                "n_phases": n_phases,
                "phase": list(phase.as_integer_ratio()),
                "phase_index": s,
                "order": order,
                "logprobs": shown if full else [round(x, 3) for x in shown],
                "answer": int(logp.argmax()),
            }
            if full:
                record |= {
                    "origin": list(origin.as_integer_ratio()),
                    "n_frames": 3000,
                    "duration_s": 100.1,
                    "frame_indices": frames,
                    "frame_times_s": [round(f / 29.97, 6) for f in frames],
                    "path": "logit",
                    "text": None,
                    "option_mass": float(np.exp(logp).sum()),
                    "seconds": float(rng.random()),
                    "invalid": None,
                }
            else:
                del record["type"]
            yield record


def write_run(folder: Path, full: bool) -> Path:
    """Write a run folder of simulated passes; return the path of its passes."""
    folder.mkdir(parents=True)
    grid = {"by": "frames", "short": "repeat"}
    settings = {
        "protocol": "phasefusion",
        "grid": {"budget": 8, "phases": 3, "origin": [1, 2], **grid},
        "dense": 32,
        "arms": [
            {
                "arm": arm,
                "shifted": shifted,
                "budget": budget,
                "phases": n_phases,
                "origin": list(origin.as_integer_ratio()),
                **grid,
            }
            for arm, shifted, n_phases, budget, origin in ARMS
        ],
        "orders": {"kind": "shared", "n": 10, "seed": 0},
        "seed": 0,
        "scorer": {"class": "simulated"},
    }
    run = {"format": 1, "settings": settings, "versions": {}}
    (folder / "run.json").write_text(json.dumps(run))
    path = folder / "passes.jsonl"
    with open(path, "wb") as file:
        for record in make_passes(full):
            file.write(orjson.dumps(record) + b"\n")
    return path


# ------------------------------------------------------------------------- the peers


def by_orjson(path: Path) -> Columns:
    """Parse line by line, then a list and an array a field."""
    with open(path, "rb") as file:
        rows = list(map(orjson.loads, file))
    found: Columns = {}
    for name in FIELDS:
        values = [row.get(name) for row in rows]
        if name in TEXTS:
            found[name] = np.array(values, object)
        elif name in LISTS:
            kind = np.float64 if name == "logprobs" else np.int64
            found[name] = np.fromiter(
                chain.from_iterable(v or () for v in values), kind
            )
        else:
            is_whole = name in INTEGERS and name in THERE
            found[name] = np.array(values, np.int64 if is_whole else np.float64)
    return found


def from_arrow(table: Any) -> Columns:
    found: Columns = {}
    for name in FIELDS:
        column = table[name].combine_chunks()
        if name in TEXTS:
            coded = column.dictionary_encode()
            names = np.array([*coded.dictionary.to_pylist(), None], object)
            codes = coded.indices
            found[name] = names[(codes.fill_null(-1) if codes.null_count else codes)]
        elif name in LISTS:
            found[name] = column.flatten().to_numpy()
        else:
            found[name] = column.to_numpy(zero_copy_only=False)
    return found


def by_duckdb(path: Path) -> Columns:
    import duckdb

    types = dict.fromkeys(TEXTS, "VARCHAR") | dict.fromkeys(INTEGERS, "BIGINT")
    types |= dict.fromkeys(NUMBERS, "DOUBLE") | dict.fromkeys(LISTS, "BIGINT[]")
    types |= {"logprobs": "DOUBLE[]", "shifted": "BOOLEAN"}
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in types.items())
    query = f"FROM read_json(?, format='newline_delimited', columns={{{columns}}})"
    with duckdb.connect(config={"threads": 1}) as connection:
        table = connection.sql(query, params=[str(path)]).to_arrow_table()
        return from_arrow(table)


def by_pyarrow(path: Path) -> Columns:
    import pyarrow as pa
    import pyarrow.json as pj

    kinds = dict.fromkeys(TEXTS, pa.string()) | dict.fromkeys(INTEGERS, pa.int64())
    kinds |= dict.fromkeys(NUMBERS, pa.float64())
    kinds |= dict.fromkeys(LISTS, pa.list_(pa.int64()))
    kinds |= {"logprobs": pa.list_(pa.float64()), "shifted": pa.bool_()}
    options = pj.ParseOptions(
        explicit_schema=pa.schema(list(kinds.items())),
        unexpected_field_behavior="ignore",
    )
    reading = pj.ReadOptions(use_threads=False, block_size=4 << 20)
    return from_arrow(pj.read_json(path, read_options=reading, parse_options=options))


PEERS: dict[str, Callable[[Path], Columns]] = {
    "orjson": by_orjson,
    "DuckDB": by_duckdb,
    "PyArrow": by_pyarrow,
}


def compare(ours: Passes, theirs: Columns) -> None:
    """Both read the same; else nothing is timed."""
    inside = ours.order >= 0
    items = ours.items
    same = {
        "question_id": np.array([x.question_id for x in items], object)[ours.item],
        "benchmark": np.array([x.benchmark for x in items], object)[ours.item],
        "video_id": np.array([x.video_id for x in items], object)[ours.item],
        "arm": ours.arm,
        "n_options": np.array([x.n_options for x in items])[ours.item],
        "gold": np.array([x.gold for x in items])[ours.item],
        "budget": ours.budget,
        "n_phases": ours.n_phases,
        "phase_index": ours.phase_index,
        "answer": ours.answer,
        "phase": ours.phase.ravel(),
        "order": ours.order[inside],
        "logprobs": ours.logprobs[inside],
    }
    for name in THERE:
        np.testing.assert_array_equal(same[name], theirs[name], err_msg=name)


# ----------------------------------------------------------------------- the measures


def seconds(run: Callable[[], Any]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def measure_load(path: Path, rounds: int) -> list[Row]:
    found = read_passes(path, cache=False)
    for peer in PEERS.values():
        compare(found, peer(path))
    del found
    runs = [lambda: read_passes(path, cache=False)]
    runs += [lambda peer=peer: peer(path) for peer in PEERS.values()]
    times = np.array([[seconds(run) for run in runs] for _ in range(rounds)])
    fastest = int(np.median(times[:, 1:], axis=0).argmin())
    title = f"Passes of {path.stat().st_size / 1e6:.0f} MB of JSON Lines into columns"
    rows = []
    for i, name in enumerate(PEERS):
        is_fastest = i == fastest
        row = _report.ratio_row(
            "load" if is_fastest else f"load/{name}",
            f"{title}, time / that of {'the fastest parser' if is_fastest else name}",
            times[:, 0],
            times[:, 1 + i],
            LOAD_GOAL if is_fastest else Goal(most=True),
            name,
            ours_above=True,
        )
        rows.append(row)
    return rows


def measure_cache(path: Path, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        parsed = read_passes(path, cache=False)
        read_passes(path, cache=folder)
        cached = read_passes(path, cache=folder)
        for name in ("item", "order", "logprobs", "answer", "phase", "seconds"):
            np.testing.assert_array_equal(getattr(parsed, name), getattr(cached, name))
        assert parsed.items == cached.items
        assert parsed.invalid == cached.invalid
        del parsed, cached
        runs = [
            lambda: read_passes(path, cache=folder),
            lambda: read_passes(path, cache=False),
        ]
        times = np.array([[seconds(run) for run in runs] for _ in range(rounds)])
    title = "The same file a second time, from the cache, against the first time"
    below, above = times.T
    return [
        _report.ratio_row("cache", title, above, below, CACHE_GOAL, "our first reading")
    ]


REPORT = """
import sys, time
begun = time.perf_counter()
import phasefusion.records.columns as columns
columns._CACHE_BYTES = 1 << 62  # from the lines themselves
from phasefusion import report
made = report(sys.argv[1])
text = made.to_markdown()
wall = time.perf_counter() - begun
status = open("/proc/self/status").read()  # ru_maxrss may be that of the parent
peak = 1024 * int(status.partition("VmHWM:")[2].split()[0])
print(wall, peak, made.numbers["items"]["passes"])
"""


def measure_report(path: Path, rounds: int) -> list[Row]:
    walls, peaks = [], []
    for _ in range(rounds):
        command = [sys.executable, "-c", REPORT, str(path.parent)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        wall, peak, n = out.split()
        assert int(n) == N_PASSES
        walls.append(float(wall))
        peaks.append(float(peak) / 1e6)
    title = f"Full report of {N_PASSES:,} passes, {path.stat().st_size / 1e6:.0f} MB"
    rows = []
    for key, what, unit, values, goal in (
        ("report/time", "wall time", "s", walls, REPORT_SECONDS),
        ("report/memory", "memory at most", "MB", peaks, REPORT_MB),
    ):
        middle = float(np.median(values))
        spread = min(values), max(values)
        rows.append(Row(key, f"{title}: {what}", middle, unit, *spread, goal))
    return rows


def main() -> int:
    options = _report.parse(_report.parser(__doc__, 7, TASKS), TASKS)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if {"load", "cache"} & set(options.rows):
            path = write_run(Path(folder) / "few", full=False)
            print(f"{N_PASSES} passes, {path.stat().st_size / 1e6:.0f} MB")
            if "load" in options.rows:
                rows += measure_load(path, options.rounds)
            if "cache" in options.rows:
                rows += measure_cache(path, options.rounds)
        if "report" in options.rows:
            path = write_run(Path(folder) / "all", full=True)
            rows += measure_report(path, min(options.rounds, 3))
    for row in rows:
        _report.print_row(row)
    versions = _report.versions_of("orjson", "duckdb", "pyarrow")
    return _report.finish(rows, options, versions)


if __name__ == "__main__":
    sys.exit(main())
