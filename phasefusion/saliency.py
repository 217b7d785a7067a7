"""Saliency of the frames of a run: its questions asked again without each frame."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasefusion._description import describe_scorer
from phasefusion._paths import run_path
from phasefusion._results import Result
from phasefusion._runner import one_phase, read_span
from phasefusion._video_digest import digest_of_file
from phasefusion._wording import item_name
from phasefusion.errors import (
    FrameError,
    GridError,
    OptionError,
    OptionWarning,
    QuestionError,
    RecordError,
    ScoringError,
    UsageError,
    VideoError,
)
from phasefusion.grid import PhaseGrid
from phasefusion.progress import Advance, Listener, follow
from phasefusion.records import differences, iter_passes, read_run
from phasefusion.records.questions import find_questions
from phasefusion.records.saliency import SaliencyWriter, saliency_key
from phasefusion.scoring.saliency import Method, Replace, Saliency, flip_saliency

if TYPE_CHECKING:
    from phasefusion.datasets import Item
    from phasefusion.scoring import FlipSaliency, HFOptionScorer
    from phasefusion.video import Clip

__all__ = ["ExplainedRun", "explain_run"]

_GRID = ("budget", "phases", "origin", "by", "short")
#: What may differ between the scorer of the run and this one: how, not what.
_HOW = ("device", "dtype", "batch_size", "reuse_prefix", "torch", "transformers")
_DIGITS = 6
#: Errors about one question or its video.
_OF_QUESTION = (OptionError, QuestionError, FrameError, VideoError, GridError, OSError)

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class ExplainedRun(Result):
    """What explaining a run did.

    Attributes
    ----------
    path : Path
        Of the file.
    n_items : int
        Questions that were chosen.
    n_lines : int
        Lines on disk for them, of this method.
    n_new : int
        Of these, made by this call.
    apart : float
        Largest difference between log-posteriors of the new lines and those of the run,
        in nats; NaN without new lines. It is the rounding of the model's passes, unless
        precision, device or versions are others now.
    skipped : dict of str to str
        Why a question has none, by its name, benchmark/id.
    """

    path: Path
    n_items: int
    n_lines: int
    n_new: int
    apart: float
    skipped: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        apart = None if np.isnan(self.apart) else self.apart
        return {
            "path": str(self.path),
            "items": self.n_items,
            "lines": self.n_lines,
            "new": self.n_new,
            "apart": apart,
            "skipped": self.skipped,
        }


@dataclass(slots=True)
class _Seen:
    """What a run has recorded of one question, by order and phase."""

    answers: dict[tuple[int, ...], dict[int, int]] = field(default_factory=dict)
    logprobs: dict[tuple[tuple[int, ...], int], Any] = field(default_factory=dict)
    frames: dict[int, list[int]] = field(default_factory=dict)
    #: Digests of the files that passes were made of.
    videos: set[str] = field(default_factory=set)

    @property
    def order(self) -> tuple[int, ...]:
        """The first order in which phases differ; the first where they never do."""
        for order, answers in self.answers.items():
            if len(set(answers.values())) > 1:
                return order
        return next(iter(self.answers))

    @property
    def flip(self) -> tuple[int, int] | None:
        """The first phase, in that order, and the first that answers differently."""
        answers = sorted(self.answers[self.order].items())
        for s, answer in answers:
            if answer != answers[0][1]:
                return answers[0][0], s
        return None


@dataclass(frozen=True, slots=True)
class _Task:
    """One line that is to be made."""

    item: Item
    seen: _Seen
    phases: tuple[int, ...]
    key: Mapping[str, Any]


def explain_run(
    run: Any,
    scorer: HFOptionScorer,
    *,
    items: str | Sequence[str] = "flipped",
    method: Method = "occlusion",
    replace: Replace = "neighbour",
    questions: str | Path | None = None,
    threads: int = 1,
    progress: bool | Listener | None = None,
) -> ExplainedRun:
    """Say what frames add to the answers of a run, in ``saliency.jsonl`` beside it.

    Of each question one order is explained, the first in which phases differ, or the
    first of all: what the frames of each phase add to its answer, and where two phases
    differ, which frames make them. The page of the run shows it. Calling again makes
    only what is missing.

    Parameters
    ----------
    run : Run, str or Path
        The run folder.
    scorer : HFOptionScorer
        That of the run; precision and device may be others.
    items : "flipped", "all" or sequence of str, default "flipped"
        Questions whose phases differ in some order, all, or those of these ids.
    method, replace
        As in `scoring.saliency.saliency`.
    questions : str or Path, optional
        The question file; by default the one that the run names.
    threads : int, default 1
        Decoding threads.
    progress : bool or callable, optional
        As in `evaluate`, by lines.

    Returns
    -------
    ExplainedRun

    Raises
    ------
    FileNotFoundError
        If there is no run, or no such question file.
    RecordError
        If the run has no phases on a grid, names no question file that can be read, or
        its file cannot be written.
    ScoringError
        If the scorer is not that of the run, or no `HFOptionScorer`.
    UsageError
        If there is no question of an id.
    """
    run = run_path("run", run)
    described = read_run(run)
    settings = described.get("settings", {})
    arm, grid = _grid_of(run, settings)
    scorer = _same_scorer(scorer, settings)
    texts = find_questions(described, questions, folder=run).required(run)
    seen = _chosen(run, _recorded(run, arm), items)
    skipped = {
        item_name(*key): "it is not in the question file, or was changed since"
        for key in seen
        if key not in texts.items
    }
    tasks = [
        task
        for key, one in seen.items()
        if key in texts.items
        for task in _tasks(texts.items[key], one, method, replace)
    ]
    with SaliencyWriter(run) as writer:
        left = [task for task in tasks if saliency_key(task.key) not in writer.done]
        maker = _Maker(scorer, grid, writer, method, replace, threads, skipped)
        with follow(len(tasks), len(tasks) - len(left), progress) as advance:
            maker.make(left, advance)
        n_lines = sum(saliency_key(task.key) in writer.done for task in tasks)
    return ExplainedRun(
        writer.path, len(seen), n_lines, maker.n_new, maker.apart, skipped
    )


def _grid_of(run: Path, settings: Mapping[str, Any]) -> tuple[str, PhaseGrid]:
    """Return the arm whose frames are explained, and its grid."""
    for name in ("phase", "single"):
        for entry in settings.get("arms", ()):
            plain = entry.keys() <= {"arm", "shifted", *_GRID}
            on_grid = all(entry.get(part) is not None for part in _GRID)
            if (entry["arm"], entry["shifted"]) == (name, False) and plain and on_grid:
                return name, PhaseGrid.from_dict({part: entry[part] for part in _GRID})
    raise RecordError(
        f"{run}: protocol {settings.get('protocol')!r} has no phases on a grid; there "
        "are no frames to explain"
    )


def _same_scorer(scorer: Any, settings: Mapping[str, Any]) -> HFOptionScorer:
    """Return the scorer with the frame sizes of the run, if it is that of the run."""
    from phasefusion.scoring import HFOptionScorer

    if not isinstance(scorer, HFOptionScorer):
        raise ScoringError(
            f"{type(scorer).__name__} is no HFOptionScorer: frames can be left out and "
            "followed in such a scorer alone"
        )
    budgets = [entry.get("budget") or 0 for entry in settings.get("arms", ())]
    scorer = scorer.pinned(max(budgets))
    recorded, now = dict(settings.get("scorer", {})), describe_scorer(scorer)
    if "sha256" in now:
        now.pop("path", None)
    for part in _HOW:
        recorded.pop(part, None)
        now.pop(part, None)
    other = differences(recorded, now)
    if other:
        raise ScoringError(
            "the scorer is not that of the run, whose answers it cannot explain:\n  "
            + "\n  ".join(other)
        )
    found: HFOptionScorer = scorer
    return found


def _recorded(run: Path, arm: str) -> dict[Key, _Seen]:
    """Gather what the run has of each question, in the order of the file."""
    found: dict[Key, _Seen] = {}
    for row in iter_passes(run):
        if row["arm"] != arm or row.get("shifted"):
            continue
        if row.get("answer") is None or not row.get("frame_indices"):
            continue
        one = found.setdefault((row["benchmark"], row["question_id"]), _Seen())
        order, s = tuple(row["order"]), int(row["phase_index"])
        one.answers.setdefault(order, {})[s] = int(row["answer"])
        one.logprobs[order, s] = row.get("logprobs")
        one.frames[s] = list(row["frame_indices"])
        if row.get("video_digest") is not None:
            one.videos.add(row["video_digest"])
    return found


def _chosen(
    run: Path, seen: Mapping[Key, _Seen], items: str | Sequence[str]
) -> dict[Key, _Seen]:
    if items == "all":
        return dict(seen)
    if items == "flipped":
        return {key: one for key, one in seen.items() if one.flip}
    wanted = [items] if isinstance(items, str) else list(items)
    unknown = sorted(set(wanted) - {question_id for _, question_id in seen})
    if unknown:
        raise UsageError(
            f"{run}: has no answer to a question {', '.join(map(repr, unknown))}"
        )
    return {key: one for key, one in seen.items() if key[1] in wanted}


def _tasks(
    item: Item, seen: _Seen, method: Method, replace: Replace
) -> Iterable[_Task]:
    """Return the lines of a question: one a phase, and one for two that differ."""
    order = seen.order
    answers = seen.answers[order]
    is_gradient = method == "gradient"
    groups: list[tuple[str, str, tuple[int, ...]]] = [
        ("phase", replace, (s,)) for s in sorted(answers)
    ]
    if seen.flip:
        groups.append(("flip", "exchange", seen.flip))
    for kind, put, phases in groups:
        key = {
            "benchmark": item.benchmark,
            "question_id": item.question_id,
            "kind": kind,
            "method": method,
            "replace": None if is_gradient else put,
            "phases": list(phases),
            "options": [answers[s] for s in phases],
            "order": list(order),
        }
        yield _Task(item, seen, phases, key)


@dataclass(slots=True)
class _Maker:
    """Makes lines, one decode a video."""

    scorer: HFOptionScorer
    grid: PhaseGrid
    writer: SaliencyWriter
    method: Method
    replace: Replace
    threads: int
    skipped: dict[str, str]
    n_new: int = 0
    apart: float = np.nan

    def make(self, tasks: Sequence[_Task], advance: Advance) -> None:
        """Make the lines of all tasks; note what cannot be made."""
        by_part: dict[tuple[Any, ...], list[_Task]] = {}
        for task in tasks:
            item = task.item
            by_part.setdefault((item.video, item.start, item.end), []).append(task)
        for part in by_part.values():
            same = self._of_one_file(part, advance)
            if not same:
                continue
            try:
                size = self.scorer.frame_size
                span = read_span(same[0].item, [self.grid], size, self.threads, "mark")
            except _OF_QUESTION as error:
                for task in same:
                    self._skip(task, error)
                    advance(1, task.item.video_id)
                continue
            for task in same:
                self._line(task, span.clips[0])
                advance(1, task.item.video_id)

    def _of_one_file(self, tasks: Sequence[_Task], advance: Advance) -> list[_Task]:
        """Return the tasks whose video is the file that was scored; note the others."""
        now = digest_of_file(tasks[0].item.video)
        same = []
        for task in tasks:
            if now is None or task.seen.videos <= {now}:
                same.append(task)
                continue
            self._skip(task, f"{task.item.video}: is not the file that was scored")
            advance(1, task.item.video_id)
        return same

    def _skip(self, task: _Task, why: object) -> None:
        text = " ".join(str(why).split()) or type(why).__name__
        name = item_name(task.item.benchmark, task.item.question_id)
        self.skipped.setdefault(name, text)

    def _line(self, task: _Task, clip: Clip) -> None:
        for s in task.phases:
            n_phases = len(clip.indices)
            if s >= n_phases or clip.indices[s].tolist() != task.seen.frames[s]:
                self._skip(task, "the video gives other frames than the run was shown")
                return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OptionWarning)  # the run has given them
                made = self._explained(task, clip)
        except _OF_QUESTION as error:
            self._skip(task, error)
            return
        self.writer.append({**task.key, **made})
        self.n_new += 1

    def _explained(self, task: _Task, clip: Clip) -> dict[str, Any]:
        item, order = task.item, task.key["order"]
        asked = (item.question, item.options)
        if len(task.phases) == 2:
            flip = flip_saliency(
                self.scorer,
                clip,
                *asked,
                phases=task.phases,
                answers=task.key["options"],
                order=order,
                method=self.method,
            )
            return _fields(flip, flip.values, flip.log_odds, None)
        (s,), (option,) = task.phases, task.key["options"]
        made = self.scorer.saliency(
            one_phase(clip, s),
            *asked,
            order=order,
            option=option,
            method=self.method,
            replace=self.replace,
        )
        self._compare(task, s, option, float(made.base[0]))
        return _fields(made, made.values, made.base, float(made.emptied[0]))

    def _compare(self, task: _Task, s: int, option: int, base: float) -> None:
        """Keep the largest difference from the log-posteriors of the run."""
        order = tuple(task.key["order"])
        logprobs = task.seen.logprobs[order, s]
        if logprobs is None:
            return
        values = np.array([-np.inf if x is None else x for x in logprobs])
        same = task.item.same_options
        of_option = [i for i, k in enumerate(order) if same[k] == same[option]]
        total = np.logaddexp.reduce(values)
        recorded = np.logaddexp.reduce(values[of_option]) - total
        self.apart = float(np.fmax(self.apart, abs(recorded - base)))


def _fields(
    made: Saliency | FlipSaliency,
    values: NDArray[np.float64],
    base: NDArray[np.float64],
    emptied: float | None,
) -> dict[str, Any]:
    """Return the rest of a line as JSON values."""
    return {
        "frame_indices": made.frame_indices.tolist(),
        "values": [_numbers(row) for row in values],
        "base": _numbers(base),
        "emptied": None if emptied is None else _numbers(np.array([emptied]))[0],
        "unit": "nats",
        "shared_frames": made.shared_frames,
        "note": "; ".join(dict.fromkeys(note for note in made.notes if note)),
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [
        round(value, _DIGITS) if np.isfinite(value) else None
        for value in values.tolist()
    ]
