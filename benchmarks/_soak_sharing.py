"""Many readers beside a writer, two writers, and clocks that jump."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _soak_faults import called, last_line, passes, questions_of, run_command
from _soak_load import CheapScorer
from _soak_table import Tried, environment, python

N_THREADS = 50
#: Between two passes or entries of a writer.
PACE_S = 0.1
_CACHE_BYTES = 2_000_000
_DECADE_S = 10 * 365 * 86400
DESCRIPTION: dict[str, Any] = {"settings": {}, "versions": {}}


def a_pass(number: int) -> dict[str, Any]:
    """A pass whose content follows from its number, of a length of its own."""
    return {
        "question_id": f"q{number}",
        "benchmark": "soak",
        "video_id": "v",
        "n_options": 3,
        "gold": 0,
        "arm": "single",
        "shifted": False,
        "budget": 4,
        "n_phases": 1,
        "phase": [1, 2],
        "phase_index": 0,
        "order": [0, 1, 2],
        "logprobs": [-0.5, -1.5, -2.5],
        "answer": 0,
        "text": "x" * (number * 7919 % 5000),
    }


def in_threads(n_threads: int, work: Callable[[int], None]) -> list[str]:
    """Let threads work; what they raised."""
    errors: list[str] = []

    def one(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=one, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def read_run_often(folder: str, seed: str) -> dict[str, Any]:
    """In a process: 50 threads read a run that grows; each must see its beginning."""
    from phasefusion.records import iter_passes, read_passes

    counts = {"reads": 0}
    lock = threading.Lock()

    def work(k: int) -> None:
        rows = list(iter_passes(folder))
        if rows != [a_pass(i) for i in range(len(rows))]:
            raise AssertionError("not the beginning of the run")
        columns = read_passes(folder) if rows else rows
        if len(rows) > len(columns):
            raise AssertionError("passes that were there are not")
        with lock:
            counts["reads"] += 2

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        errors = in_threads(N_THREADS, work)
    return counts | {"errors": errors, "torn": len(said)}


def read_cache_often(folder: str, seed: str) -> dict[str, Any]:
    """In a process: 50 threads get what a writer puts and evicts."""
    from cache_hammer import assert_entry, some

    from phasefusion import FrameCache

    cache = FrameCache(folder, max_bytes=_CACHE_BYTES)
    counts = {"reads": 0, "hits": 0}
    lock = threading.Lock()

    def work(k: int) -> None:
        rng = random.Random(f"{seed}-{k}")
        for _ in range(20):
            number = rng.randrange(40)
            found = cache.get(str(number))
            if found is not None:
                assert_entry(found, some(number, 100_000))
            with lock:
                counts["reads"] += 1
                counts["hits"] += found is not None

    return counts | {"errors": in_threads(N_THREADS, work)}


def _readers(kind: str, folder: Path, n_readers: int) -> list[subprocess.Popen[str]]:
    tests = str(Path(__file__).parents[1] / "tests")
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([tests, env["PYTHONPATH"]])
    return [
        subprocess.Popen(
            python(__file__, kind, folder, k),
            stdout=subprocess.PIPE,
            env=env,
            text=True,
        )
        for k in range(max(1, n_readers // N_THREADS))
    ]


def _while_read(
    readers: list[subprocess.Popen[str]], write: Callable[[int], None]
) -> tuple[list[dict[str, Any]], int]:
    """Write on until every reader has ended; what they say, and how often."""
    n_written = 0
    while any(reader.poll() is None for reader in readers):
        write(n_written)
        n_written += 1
        time.sleep(PACE_S)
    said = [reader.communicate()[0] for reader in readers]
    made = [json.loads(text) if text else {"errors": ["died"]} for text in said]
    return made, n_written


def many_readers(folder: Path, n_readers: int) -> list[Tried]:
    """Readers of one run folder and of one frame cache, beside a writer."""
    from cache_hammer import some

    from phasefusion import FrameCache
    from phasefusion.records import RunWriter

    run, frames = folder / "shared", folder / "frames"
    with RunWriter(run, DESCRIPTION) as writer:
        readers = _readers("run", run, n_readers)
        made, n_written = _while_read(
            readers, lambda number: writer.append([a_pass(number)])
        )
    errors = [error for one in made for error in one["errors"]]
    n_reads, n_torn = (sum(one.get(k, 0) for one in made) for k in ("reads", "torn"))
    text = f"{n_reads:,} reads while {n_written:,} passes were appended: each the "
    text += f"beginning of the run, {n_torn} of them said that a line was torn"
    text = f"{len(errors)} errors: {errors[0]}" if errors else text
    n_threads = len(readers) * N_THREADS
    what = f"{n_threads:,} readers of a run ({len(readers)} processes) and its writer"
    tried = [Tried("sharing", what, text, ok=not errors)]
    cache = FrameCache(frames, max_bytes=_CACHE_BYTES)
    readers = _readers("cache", frames, n_readers)
    made, n_written = _while_read(
        readers, lambda k: cache.put(str(k * 17 % 40), some(k * 17 % 40, 100_000))
    )
    errors = [error for one in made for error in one["errors"]]
    n_reads, n_hits = (sum(one.get(k, 0) for one in made) for k in ("reads", "hits"))
    n_bytes = sum(path.stat().st_size for path in frames.glob("*.frames"))
    parts = list(frames.glob("*.part"))
    text = f"{n_reads:,} reads, {n_hits:,} hits, each right, beside {n_written:,} "
    text += f"puts; {n_bytes / 1e6:.1f} of {_CACHE_BYTES / 1e6:.0f} MB in the end, "
    text += f"{len(parts)} parts left"
    text = f"{len(errors)} errors: {errors[0]}" if errors else text
    what = f"{n_threads:,} readers of a frame cache, and a writer that evicts"
    ok = not errors and not parts and 0 < n_hits and n_bytes <= _CACHE_BYTES
    return [*tried, Tried("sharing", what, text, ok=ok)]


def two_writers(folder: Path, n_items: int) -> list[Tried]:
    """Two commands on one run at once."""
    questions = questions_of(folder, n_items)
    out, path = folder / "run", folder / "run" / "passes.jsonl"
    first = subprocess.Popen(
        run_command(questions, out),
        stdout=subprocess.DEVNULL,
        env=environment() | {"SOAK_DELAY_S": "0.3"},
    )
    while first.poll() is None and not (path.exists() and path.stat().st_size):
        time.sleep(0.01)
    second = called(run_command(questions, out))
    code = first.wait()
    called(run_command(questions, folder / "whole"))
    same = code == 0 and passes(out) == passes(folder / "whole")
    message = last_line(second.stderr)
    ok = second.returncode == 2 and f"process {first.pid} is writing" in message
    text = f"the second ends with exit {second.returncode} and names the first; the "
    text += "first is equal to an undisturbed run" if same else "first is NOT whole"
    text = text if ok else f"exit {second.returncode}: {message}"
    return [Tried("sharing", "two commands on one run", text, ok=ok and same)]


def clocks(folder: Path, n_items: int) -> list[Tried]:
    """A run and a cache under a clock that jumps by up to ten years at every look."""
    from phasefusion.cache import Entry, FrameCache
    from phasefusion.evaluate import evaluate

    questions = questions_of(folder, n_items)
    options: dict[str, Any] = {"budget": 4, "dense": 10, "n_orders": 1}
    seen: list[tuple[int, int]] = []

    def listener(done: int, total: int, video: str) -> None:
        seen.append((done, total))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluate(questions, CheapScorer(), out=folder / "a", progress=False, **options)
        with _jumping(1):
            for name in ("b", "c"):  # decoded, then from the cache
                evaluate(
                    questions,
                    CheapScorer(),
                    out=folder / name,
                    cache=folder / "cache",
                    progress=listener,
                    **options,
                )
    same = passes(folder / "a") == passes(folder / "b") == passes(folder / "c")
    half = len(seen) // 2
    orderly = all(part == sorted(part) for part in (seen[:half], seen[half:]))
    text = "same passes, decoded and cached" if same else "OTHER passes"
    text += "; progress only rises" if orderly else "; progress FALLS"
    what = "the clock jumps by up to ten years at every look"
    tried = [Tried("clocks", f"{what}: run, cache", text, ok=same and orderly)]
    cache = FrameCache(folder / "evicting", max_bytes=10_000)
    rng = random.Random(2)
    with _jumping(3):
        for k in range(300):
            cache.put(str(k), Entry({}, {"text": "x" * 1000}))
            for path in Path(cache.folder).iterdir():
                when_s = time.time()
                if rng.random() < 0.2:
                    os.utime(path, (when_s, when_s))
    n_bytes = sum(path.stat().st_size for path in Path(cache.folder).iterdir())
    text = f"{n_bytes:,} of 10,000 bytes after 300 puts; which entries go is by chance"
    ok = 0 < n_bytes <= 10_000 and cache.get("299") is not None
    tried.append(Tried("clocks", f"{what}: cache eviction", text, ok=ok))
    return tried


class _jumping:
    """time.time and time.time_ns jump; the monotonic clock does not."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._real = time.time, time.time_ns

    def __enter__(self) -> None:
        now, now_ns = self._real

        def jumped_s() -> int:
            return self._rng.randrange(-_DECADE_S, _DECADE_S)

        time.time = lambda: now() + jumped_s()
        time.time_ns = lambda: now_ns() + 10**9 * jumped_s()

    def __exit__(self, *error: object) -> None:
        time.time, time.time_ns = self._real


if __name__ == "__main__":
    read = {"run": read_run_often, "cache": read_cache_often}[sys.argv[1]]
    print(json.dumps(read(*sys.argv[2:])))
