"""Frames of a video by index: our time against public decoders', frame by frame right.

    python benchmarks/decode.py [--rounds 3] [--rows h264,hevc] [--json FILE]

The clips are made by the ffmpeg program, once, and kept. Every contender that can be
imported runs in a process of its own; within a row all run in turn, round after round,
so that a busy machine hits them alike. The number that each returned frame carries is
read back: a contender that returns another frame than was asked for is named, and its
time does not count. With one thread processor seconds are compared, with two the wall.
The value of a row is the median over the rounds of (best peer's time / ours), best
being the one with the lowest median; its spread is the smallest and the largest round.
A contender that takes over three times as long as the best is not run again. In VP9
made for playback each frame takes over the probabilities of the one before, so that no
decoder can leave one out; live VP9 and AV1 are made so that frames can go missing.
Rows without a goal are there for information, and run when they are named.

Exit code 1 when a row misses what it must reach, or a frame of ours is wrong.
"""

from __future__ import annotations

import functools
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import _clips
import _contenders
import _report
import _resources
from _contenders import OURS
from _report import Goal, Row
from _worker import Failed, Worker
from barcode import read as read_number

PLAIN = "every packet, by the ffmpeg program"
HOPELESS = 3.0  # times the best: not run again


@dataclass(frozen=True, slots=True)
class Contest:
    """A row in which all contenders read the same frames."""

    clip: str
    n_frames: int
    threads: int = 1
    goal: Goal = field(default_factory=Goal)


CONTESTS = {
    "h264": Contest("h264_720p.mp4", 24, 1, Goal(1.5, 2.0)),
    "h264-2-threads": Contest("h264_720p.mp4", 24, 2, Goal(1.7, 2.5)),
    "long": Contest("h264_360p.mp4", 8, 1, Goal(1.6, 2.2)),
    "no-b": Contest("h264_720p_no_b.mp4", 24, 1, Goal(0.95, 1.1)),
    "hevc": Contest("hevc_720p.mp4", 24, 1, Goal(1.3, 1.7)),
    "vp9": Contest("vp9_720p.webm", 24, 1, Goal(1.3, 1.7)),
    "vp9-live": Contest("vp9_720p_live.webm", 24, 1, Goal(1.3, 1.7)),
    "vp9-one-pass": Contest("vp9_720p_one_pass.webm", 24),
    "1080p": Contest("h264_1080p.mp4", 24),
    "av1": Contest("av1_720p.mp4", 24),
    "h264-8": Contest("h264_720p.mp4", 8),
    "long-24": Contest("h264_360p.mp4", 24),
    "no-b-2-threads": Contest("h264_720p_no_b.mp4", 24, 2),
    "hevc-2-threads": Contest("hevc_720p.mp4", 24, 2),
    "vp9-2-threads": Contest("vp9_720p.webm", 24, 2),
}
PLAIN_GOAL = {"h264": Goal(0.6, 0.4, most=True)}  # by row
ONE_CALL_CLIPS = {  # clip: goal of 3 phases x 8 in one call against three
    "h264_1080p.mp4": Goal(1.9, 2.5),
    "h264_720p.mp4": Goal(),
    "h264_360p.mp4": Goal(),
    "hevc_720p.mp4": Goal(),
    "vp9_720p.webm": Goal(),
}
WITH_GOALS = [name for name, contest in CONTESTS.items() if contest.goal.at_least]
DEFAULT_ROWS = [*WITH_GOALS, "one-call", "resources"]
ROWS = [*CONTESTS, "one-call", "resources"]


def midpoints(n_frames: int, n_wanted: int) -> list[int]:
    return [(2 * i + 1) * n_frames // (2 * n_wanted) for i in range(n_wanted)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One timed call."""

    cpu_s: float
    wall_s: float
    numbers: list[int | None] = field(default_factory=list)
    shape: tuple[int, ...] = ()

    def seconds(self, threads: int) -> float:
        return self.cpu_s if threads == 1 else self.wall_s


class Timed:
    """In its own process: a decoder, timed, its frames looked at."""

    def __init__(self, name: str) -> None:
        self._decoder = _contenders.CONTENDERS[name]()

    def version(self) -> str:
        return self._decoder.version

    def read(self, path: str, indices: Sequence[int], threads: int) -> Outcome:
        cpu, wall = time.process_time(), time.perf_counter()
        frames = self._decoder.read(path, indices, threads)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        numbers = [read_number(frame) for frame in frames]
        return Outcome(cpu, wall, numbers, tuple(frames[0].shape))


class TimedCalls:
    """In its own process: three phases of eight frames in one call, and in three."""

    def __init__(self) -> None:
        from phasefusion import PhaseGrid, video

        self._read, self._grid = video.read_clip, PhaseGrid(8, 3)

    def read(self, path: str, calls: int) -> Outcome:
        grid = self._grid
        grids = [grid] if calls == 1 else [grid.view(s) for s in range(3)]
        cpu, wall = time.process_time(), time.perf_counter()
        clips = [self._read(path, grid) for grid in grids]
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        wrong = 0
        for clip in clips:
            frames = clip.frames.reshape(-1, *clip.frames.shape[2:])
            shown = [read_number(frame) for frame in frames]
            wrong += shown != clip.indices.reshape(-1).tolist()
        return Outcome(cpu, wall, [wrong])


def plain_decode(path: str) -> Outcome:
    """Every packet through FFmpeg's own program, one thread, pictures thrown away.

    It reports the processor time of the decoding alone, without its own start.
    """
    command = ["ffmpeg", "-nostdin", "-hide_banner", "-benchmark", "-threads", "1"]
    command += ["-i", path, "-map", "0:v:0", "-vsync", "passthrough", "-f", "null", "-"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"utime=([\d.]+)s stime=([\d.]+)s rtime=([\d.]+)s", made.stderr)
    if found is None:
        raise Failed(f"no times from ffmpeg -benchmark: {made.stderr[-200:]}")
    user, system, wall = (float(text) for text in found.groups())
    return Outcome(user + system, wall)


class Contestants:
    """A worker for each contender that can be imported."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.versions: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        for name in _contenders.CONTENDERS:
            worker = Worker(functools.partial(Timed, name))
            try:
                self.versions[name] = worker.call("version")
            except Failed as missing:
                print(f"{name} is left out: {missing}")
                self.left_out[name] = str(missing)
                continue
            self.workers[name] = worker

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()


@dataclass(slots=True)
class Times:
    """What was measured in a row."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def sound(self) -> list[str]:
        """Contenders that returned what was asked for, fastest first."""
        names = [name for name in self.seconds if name not in self.trouble]
        return sorted(names, key=self.median)


def read_once(
    worker: Worker, times: Times, name: str, contest: Contest, path: Path
) -> None:
    """One call of a contender; a wrong frame or an error goes into `trouble`."""
    n_frames = _clips.CLIPS[contest.clip].n_frames
    indices = midpoints(n_frames, contest.n_frames)
    try:
        if name not in times.seconds:  # what the first call loads is not timed
            worker.call("read", str(path), indices[:1], contest.threads, timeout_s=60)
        outcome = worker.call("read", str(path), indices, contest.threads)
    except Failed as failed:
        times.trouble[name] = str(failed)
        return
    times.seconds.setdefault(name, []).append(outcome.seconds(contest.threads))
    wrong = sum(a != b for a, b in zip(outcome.numbers, indices, strict=True))
    if wrong:
        times.trouble[name] = f"{wrong} of {len(indices)} frames are others"


def rotated(workers: dict[str, Worker], k: int) -> list[tuple[str, Worker]]:
    """Another one first each round: what runs after what is not always the same."""
    items = list(workers.items())
    k %= len(items)
    return items[k:] + items[:k]


def contest_times(
    contest: Contest, path: Path, contestants: Contestants, rounds: int
) -> Times:
    times = Times()
    for k in range(rounds):
        best = times.median(times.sound()[0]) if times.sound() else 0.0
        for name, worker in rotated(contestants.workers, k):
            if name in times.trouble:
                continue
            if k and name != OURS and times.median(name) > HOPELESS * best:
                continue
            read_once(worker, times, name, contest, path)
        if contest.threads == 1:
            plain = plain_decode(str(path)).seconds(1)
            times.seconds.setdefault(PLAIN, []).append(plain)
    return times


def print_times(times: Times) -> None:
    for name, values in sorted(times.seconds.items(), key=lambda kv: kv[1][0]):
        spread = f"({min(values):.3f} to {max(values):.3f}, {len(values)})"
        trouble = f"   WRONG: {times.trouble[name]}" if name in times.trouble else ""
        print(f"    {name:<36} {times.median(name):8.3f} s {spread}{trouble}")
    for name in times.trouble.keys() - times.seconds.keys():
        print(f"    {name:<36} {times.trouble[name]}")


def title_of(contest: Contest) -> str:
    title = f"{contest.n_frames} frames of {_clips.CLIPS[contest.clip].title}"
    if contest.threads > 1:
        title += f", {contest.threads} threads, wall time"
    return title


def no_clip_row(key: str, contest: Contest) -> Row:
    why = f"no ffmpeg program with {_clips.CLIPS[contest.clip].codec}"
    return Row(key, title_of(contest), None, goal=contest.goal, lacking=why)


def contest_rows(key: str, contest: Contest, times: Times) -> list[Row]:
    """Against the best peer, and against a plain decode of every packet."""
    title = title_of(contest)
    if OURS not in times.sound():
        why = times.trouble.get(OURS, "did not run")
        return [Row(key, title, 0.0, goal=contest.goal, detail=why, wrong=True)]
    ours = times.seconds[OURS]
    rows = []
    peers = [name for name in times.sound() if name not in (OURS, PLAIN)]
    against = f"{title}, against the fastest peer"
    if peers:
        theirs = times.seconds[peers[0]]
        rows.append(
            _report.ratio_row(key, against, theirs, ours, contest.goal, peers[0])
        )
    else:
        why = "no other decoder is installed that is right"
        rows.append(Row(key, against, None, goal=contest.goal, lacking=why))
    if PLAIN in times.seconds:
        rows.append(
            _report.ratio_row(
                f"{key}/plain",
                f"{title}, time / plain decode of all packets",
                ours,
                times.seconds[PLAIN],
                PLAIN_GOAL.get(key, Goal(most=True)),
                PLAIN,
                ours_above=True,
            )
        )
    return rows


def one_call_rows(paths: dict[str, Path], rounds: int) -> list[Row]:
    """Three phases of eight frames: one call against three."""
    rows = []
    with Worker(TimedCalls) as worker:
        for name, goal in ONE_CALL_CLIPS.items():
            if name not in paths:
                continue
            seconds: dict[int, list[float]] = {1: [], 3: []}
            worker.call("read", str(paths[name]), 1)
            wrong = 0
            for _ in range(rounds):
                for calls, values in seconds.items():
                    outcome = worker.call("read", str(paths[name]), calls)
                    values.append(outcome.cpu_s)
                    wrong += outcome.numbers[0] or 0
            row = _report.ratio_row(
                f"one-call/{name}",
                f"3 phases × 8 in one call against three, {_clips.CLIPS[name].title}",
                seconds[3],
                seconds[1],
                goal,
                "three calls",
                wrong=wrong > 0,
            )
            _report.print_row(row)
            rows.append(row)
    return rows


def needed_clips(rows: Sequence[str]) -> list[str]:
    names = {CONTESTS[row].clip: None for row in rows if row in CONTESTS}
    if "one-call" in rows:
        names |= dict.fromkeys(ONE_CALL_CLIPS)
    if "resources" in rows:
        names["h264_1080p.mp4"] = None
    able = [name for name in names if _clips.available(_clips.CLIPS[name])]
    for name in names.keys() - set(able):
        print(f"{name} is left out: this ffmpeg has no {_clips.CLIPS[name].codec}")
    return able


def main() -> int:
    parser = _report.parser(__doc__, 3, ROWS)
    parser.set_defaults(rows=",".join(DEFAULT_ROWS))
    _clips.add_argument(parser)
    options = _report.parse(parser, ROWS)
    keys = options.rows
    paths = _clips.make(needed_clips(keys), options.clips)
    rows: list[Row] = []
    contests = {k: CONTESTS[k] for k in keys if k in CONTESTS}
    contestants = Contestants() if contests else None
    for key, contest in contests.items():
        if contest.clip not in paths:
            rows.append(no_clip_row(key, contest))
            continue
        print(f"\n{key}: {_clips.CLIPS[contest.clip].title}", flush=True)
        path = paths[contest.clip]
        times = contest_times(contest, path, contestants, options.rounds)
        print_times(times)
        made = contest_rows(key, contest, times)
        for row in made:
            _report.print_row(row)
        rows += made
    if contestants is not None:
        contestants.stop()
    if "one-call" in keys:
        print("\none-call: phases together or apart")
        rows += one_call_rows(paths, options.rounds)
    if "resources" in keys and "h264_1080p.mp4" in paths:
        print("\nresources: memory and threads")
        made = _resources.rows(paths["h264_1080p.mp4"])
        for row in made:
            _report.print_row(row)
        rows += made
    print()
    versions = contestants.versions.values() if contestants else ()
    left_out = contestants.left_out if contestants else {}
    return _report.finish(rows, options, versions, left_out)


if __name__ == "__main__":
    sys.exit(main())
