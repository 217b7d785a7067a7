"""The files on which public decoders and a plain decode in order disagree.

    python benchmarks/agreement.py [DIR [TRUTH.json]] [--write FILE] [--json FILE]

Without DIR the test suite's own clips are made and used. Every frame of these files
carries its number, so that what comes back can be identified. Truth is the output of
the ffmpeg program decoding everything in order, or the table that is given. Each
decoder is asked for 24 frames at the middles of 24 equal parts, once with the true
number of frames and once with the number that it reports itself, which is what its
users do; each in a process of its own, for at most --timeout seconds.

--write puts the table of the files on which not all are right between the marks of a
file. Exit code 1 when
phasefusion counts other frames than are there or returns one that was not asked for.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import _clips
import _contenders
import _report
import _truth
from _contenders import OURS
from _truth import Truth
from _worker import Failed, Worker
from decode import midpoints

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "clips"))
import make

N_WANTED = 24
HIGHEST = 2**31  # of a frame count that can be meant
Seen = tuple[int | None, int, int, int]  # number, orientation, height, width


class Looked:
    """In its own process: a decoder, and what its frames show."""

    def __init__(self, name: str) -> None:
        self._decoder = _contenders.CONTENDERS[name]()
        self._name = name
        warnings.simplefilter("ignore")

    def start(self) -> str:
        return self._decoder.version

    def count(self, path: str) -> int:
        return self._decoder.count(path)

    def look(self, path: str, indices: Sequence[int]) -> list[Seen | None]:
        """What each frame shows; None for one that is returned marked as damaged."""
        if self._name == OURS:
            return self._look_at_ours(path, indices)
        frames = self._decoder.read(path, indices, 1)
        return [(*_truth.read(frame), *frame.shape[:2]) for frame in frames]

    def _look_at_ours(self, path: str, indices: Sequence[int]) -> list[Seen | None]:
        from phasefusion import PhaseGrid
        from phasefusion.video import read_clip

        clip = read_clip(path, PhaseGrid(N_WANTED), on_error="mark")
        if clip.indices[0].tolist() != list(indices):
            raise IndexError(f"{clip.info.n_frames} frames are there")
        return [
            None if missing else (*_truth.read(frame), *frame.shape[:2])
            for frame, missing in zip(clip.frames[0], clip.missing[0], strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Answer:
    """How 24 frames compare with the truth."""

    error: str = ""
    n_right: int = 0
    n_known: int = 0  # whose number is readable in a decode in order
    n_marked: int = 0  # returned as damaged
    turned: bool = False
    resized: bool = False

    @property
    def right(self) -> bool:
        return (
            not (self.error or self.turned or self.resized)
            and self.n_right == self.n_known
        )

    def __str__(self) -> str:
        if self.error:
            return "TIMEOUT" if self.error == "TIMEOUT" else "err"
        flags = "R" * self.turned + "S" * self.resized
        marked = f", {self.n_marked} marked" if self.n_marked else ""
        return f"{self.n_right}/{self.n_known}{flags}{marked}"


def judged(seen: Sequence[Seen | None], truth: Truth) -> Answer:
    """Compare what came back with the frames that are at these places in truth."""
    right = known = marked = 0
    turned = resized = False
    for what, index in zip(seen, midpoints(truth.n_frames, N_WANTED), strict=True):
        wanted = truth.numbers[index]
        if what is None:
            marked += 1
        elif wanted is not None:
            number, orientation, height, width = what
            known += 1
            right += number == wanted
            turned |= number is not None and orientation != truth.orientation
            resized |= (height, width) != (truth.height_px, truth.width_px)
    return Answer("", right, known, marked, turned, resized)


@dataclass(frozen=True, slots=True)
class Cell:
    """One decoder on one file."""

    n_frames: int | None  # as it reports
    with_true_n: Answer
    with_own_n: Answer

    @property
    def right(self) -> bool:
        return self.with_own_n.right

    @property
    def silent(self) -> bool:
        """Other frames than a user asked for, and nothing said."""
        return not self.right and not self.with_own_n.error

    def shown(self, n_true: int) -> str:
        n = "-" if self.n_frames is None else f"{self.n_frames}"
        if self.n_frames is not None and abs(self.n_frames) > HIGHEST:
            n = f"{self.n_frames:.0e}"
        if self.with_own_n.error and self.with_true_n.error:
            return f"{n} {self.with_true_n}"
        own = "" if self.n_frames == n_true else f" (own n: {self.with_own_n})"
        return f"{n} {self.with_true_n}{own}"


def ask(
    worker: Worker, path: Path, n_frames: int, truth: Truth, timeout_s: float
) -> Answer:
    """24 frames of a file that is said to have so many."""
    if n_frames < 1 or truth.n_frames < 1:
        return Answer(f"{n_frames} frames of {truth.n_frames}")
    indices = midpoints(n_frames, N_WANTED)
    try:
        seen = worker.call("look", str(path), indices, timeout_s=timeout_s)
    except Failed as failed:
        return Answer(str(failed))
    return judged(seen, truth)


def cell(worker: Worker, path: Path, truth: Truth, timeout_s: float) -> Cell:
    n_frames = None
    own = Answer("no frame count")
    try:
        n_frames = worker.call("count", str(path), timeout_s=timeout_s)
    except Failed as failed:
        own = Answer(str(failed))
    true = ask(worker, path, truth.n_frames, truth, timeout_s)
    if n_frames == truth.n_frames:
        own = true
    elif n_frames is not None:
        own = ask(worker, path, n_frames, truth, timeout_s)
    return Cell(n_frames, true, own)


def error_is_due(cells: dict[str, Cell]) -> dict[str, bool]:
    """For a file without a frame: whether each decoder gives an error."""
    return {name: bool(cell.with_own_n.error) for name, cell in cells.items()}


Table = dict[str, tuple[Truth, dict[str, Cell]]]


def right_on(truth: Truth, cells: dict[str, Cell], name: str) -> bool:
    if truth.n_frames == 0:
        return error_is_due(cells)[name]
    return cells[name].right


def markdown(table: Table, names: Sequence[str]) -> str:
    """The files on which not all are right, and how often each is."""
    lines = ["| clip | frames | " + " | ".join(names) + " |"]
    lines.append("|---|---:|" + "---|" * len(names))
    n_agreed = 0
    for clip, (truth, cells) in table.items():
        if all(right_on(truth, cells, name) for name in names):
            n_agreed += 1
            continue
        texts = [cells[name].shown(truth.n_frames) for name in names]
        marks = ["" if right_on(truth, cells, n) else "**" for n in names]
        shown = [f"{m}{text}{m}" for m, text in zip(marks, texts, strict=True)]
        lines.append(f"| {clip} | {truth.n_frames} | " + " | ".join(shown) + " |")
    sums = []
    for name in names:
        good = sum(right_on(t, c, name) for t, c in table.values())
        silent = sum(c[name].silent for t, c in table.values() if t.n_frames)
        sums.append(f"{good} ({silent} / {len(table) - good - silent})")
    total = f"right of {len(table)} (silently wrong / error)"
    lines.append(f"| **{total}** | | " + " | ".join(sums) + " |")
    lines.append("")
    lines.append(f"On {n_agreed} further clips all of them are right.")
    return "\n".join(lines)


def truths(folder: Path | None, table: Path | None) -> dict[Path, Truth]:
    """The files to look at and what they hold."""
    if folder is None:
        folder = _clips.cache_folder().with_name("test-clips")
        folder.mkdir(parents=True, exist_ok=True)
        for name in make.CLIPS:
            try:
                make.make(name, folder)
            except make.MissingEncoder as missing:
                print(f"{name} is left out: this ffmpeg has no {missing}")
        names = [name for name in make.CLIPS if (folder / name).exists()]
        return {folder / name: _truth.sequential(folder / name) for name in names}
    if table is not None:
        entries: dict[str, Any] = json.loads(table.read_text())
        known = {n: e for n, e in entries.items() if (folder / n).exists()}
        return {folder / n: _truth.from_table(folder / n, e) for n, e in known.items()}
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {path: _truth.sequential(path) for path in files}


def workers() -> tuple[dict[str, Worker], dict[str, str]]:
    running, versions = {}, {}
    for name in _contenders.CONTENDERS:
        worker = Worker(functools.partial(Looked, name))
        try:
            versions[name] = worker.call("start")
        except Failed as missing:
            print(f"{name} is left out: {missing}")
            continue
        running[name] = worker
    return running, versions


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", metavar="DIR")
    parser.add_argument("truth", type=Path, nargs="?", metavar="TRUTH.json")
    parser.add_argument("--timeout", type=float, default=20, help="seconds a call")
    page = _report.page_with("agreement")
    parser.add_argument("--write", type=page, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    running, versions = workers()
    table: Table = {}
    for path, truth in truths(options.folder, options.truth).items():
        cells = {
            name: cell(worker, path, truth, options.timeout)
            for name, worker in running.items()
        }
        table[path.name] = truth, cells
        bad = [n for n in running if not right_on(truth, cells, n)]
        print(f"{path.name}: {', '.join(bad) or 'all right'}", flush=True)
    for worker in running.values():
        worker.stop()
    text = markdown(table, list(running))
    print(f"\n{text}")
    asked = ", ".join(sorted(set(versions.values())))
    if options.write is not None:
        _report.replace_between(options.write, "agreement", f"{text}\n\n{asked}.")
    if options.json is not None:
        content = {
            clip: {"n": truth.n_frames} | {n: asdict(c) for n, c in cells.items()}
            for clip, (truth, cells) in table.items()
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    wrong = [clip for clip, (t, c) in table.items() if not right_on(t, c, OURS)]
    if wrong:
        print(f"phasefusion is not right on {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
