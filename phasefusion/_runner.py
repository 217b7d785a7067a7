"""Scoring what is missing of a run: one decode a video, one scorer call an arm."""

from __future__ import annotations

import inspect
import reprlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._video_fit import Fit, SizeRule
from phasefusion.datasets import Item
from phasefusion.errors import (
    GridError,
    PhaseFusionError,
    ScoringError,
    VideoError,
)
from phasefusion.fusion import fuse
from phasefusion.grid import PhaseGrid
from phasefusion.progress import Advance, Listener, follow
from phasefusion.records import RunWriter
from phasefusion.scoring.letters import merge_repeats
from phasefusion.video import Clip, Video, read_clips

if TYPE_CHECKING:
    from phasefusion.cache import FrameCache
    from phasefusion.scoring.protocol import OptionScores, Scorer


@dataclass(frozen=True, slots=True)
class Arm:
    """One grid that is scored: its name in the records, and on which origin it is."""

    name: str
    shifted: bool
    grid: PhaseGrid


@dataclass(frozen=True, slots=True)
class Span:
    """The clips of all grids over a video, or over the part that is asked about."""

    clips: Sequence[Clip]
    n_frames: int
    duration_s: float


def read_span(
    item: Item,
    grids: Sequence[PhaseGrid],
    size: SizeRule | None,
    threads: int,
    on_error: Literal["mark", "raise"],
    cache: FrameCache | None = None,
) -> Span:
    """Decode the frames of all grids at once, each at the size that `size` gives.

    With `Item.start` or `Item.end` the grids divide the frames that begin in
    [start, end), one that does not decode fails the span, and the cache is not asked.

    Raises
    ------
    FileNotFoundError, VideoError, GridError
        As `read_clips`, or if no frame begins between start and end.
    """
    if item.start is None and item.end is None:
        clips = read_clips(
            item.video,
            grids,
            size=size,
            threads=threads,
            on_error=on_error,
            cache=cache,
        )
        info = clips[0].info
        return Span(clips, info.n_frames, info.duration_s)
    with Video(item.video, threads=threads) as video:
        times_s = video.times_s - video.info.start_s
        first, last = 0, len(video)
        if item.start is not None:
            first = int(np.searchsorted(times_s, item.start))
        if item.end is not None:
            last = int(np.searchsorted(times_s, item.end))
        if first >= last:
            raise VideoError(
                f"{item.video}: no frame begins between start {item.start} s and end "
                f"{item.end} s; the video lasts {video.info.duration_s:.3f} s"
            )
        clips = video._read_part(grids, Fit(size), first, last)
        end_pts = int(video.pts[last]) if last < len(video) else video.end_pts
        ticks = end_pts - int(video.pts[first])
        return Span(clips, last - first, float(ticks * video.info.time_base))


@dataclass(frozen=True, slots=True)
class Task:
    """One arm of one item; without a clip where the video could not be read."""

    item: Item
    arm: Arm
    clip: Clip | None
    n_frames: int | None = None
    duration_s: float | None = None

    def fields(self, s: int) -> dict[str, Any]:
        """Return what all passes of phase `s` have in common."""
        item, arm, clip = self.item, self.arm, self.clip
        n_phases, budget = arm.grid.phases, arm.grid.budget
        if clip is not None:
            n_phases, budget = clip.indices.shape
        same = item.same_options
        phase = Fraction(s + arm.grid.origin) / n_phases
        found: dict[str, Any] = {
            "question_id": item.question_id,
            "benchmark": item.benchmark,
            "video_id": item.video_id,
            "type": item.type,
            "n_options": len(item.options),
            "gold": None if item.gold is None else same[item.gold],
            "arm": arm.name,
            "shifted": arm.shifted,
            "budget": budget,
            "n_phases": n_phases,
            "origin": list(arm.grid.origin.as_integer_ratio()),
            "phase": list(phase.as_integer_ratio()),
            "phase_index": s,
            "n_frames": self.n_frames,
            "duration_s": self.duration_s,
            "frame_indices": None,
            "frame_times_s": None,
        }
        if has_repeats(item):
            found["same_options"] = list(same)
        if item.strata:
            found["strata"] = dict(item.strata)
        if clip is not None:
            found["frame_indices"] = clip.indices[s].tolist()
            found["frame_times_s"] = clip.times_s[s].round(6).tolist()
            if clip.damaged[s].any():
                found["damaged_frames"] = clip.indices[s][clip.damaged[s]].tolist()
        return found

    def missing_pass(self, s: int, order: NDArray[np.int64], reason: str) -> Any:
        """Return the record of a pass that could not be made."""
        return self.fields(s) | {
            "order": order.tolist(),
            "logprobs": None,
            "answer": None,
            "path": "logit",
            "text": None,
            "option_mass": None,
            "seconds": None,
            "invalid": reason,
        }


def has_repeats(item: Item) -> bool:
    """Whether two options read the same."""
    return len(set(item.same_options)) < len(item.options)


@dataclass(frozen=True, slots=True)
class Runner:
    """What stays the same over all videos of one call of `evaluate`."""

    scorer: Scorer
    writer: RunWriter
    arms: Sequence[Arm]
    orders_of: Mapping[int, NDArray[np.int64]]
    seed: int
    threads: int
    on_error: Literal["mark", "raise"]
    cache: FrameCache | None = None

    @property
    def frame_size(self) -> SizeRule | None:
        """The size at which the scorer will look at frames, if it says so."""
        return getattr(self.scorer, "frame_size", None)

    def run(self, items: Sequence[Item], show: bool | Listener | None) -> None:
        """Make every pass of `items` that is not on disk, video by video."""
        groups: dict[tuple[str, float | None, float | None], list[Item]] = {}
        total = done = 0
        for item in items:
            left = [self._left(item, arm) for arm in self.arms]
            n_left = sum(int(part.sum()) for part in left)
            n_planned = sum(part.size for part in left)
            total += n_planned
            done += n_planned - n_left
            if n_left:
                groups.setdefault((item.video, item.start, item.end), []).append(item)
        with follow(total, done, show) as advance:
            for group in groups.values():
                self._run_video(group, advance)

    def _left(
        self, item: Item, arm: Arm, n_phases: int | None = None
    ) -> NDArray[np.bool_]:
        """Mark the passes of an arm that are not on disk, shape (S, M).

        A clip too short for all phases has fewer, which is known once it is read: by
        `n_phases`, or from the passes that are on disk.
        """
        orders = [tuple(order) for order in self.orders_of[len(item.options)].tolist()]
        head = (item.benchmark, item.question_id, arm.name, arm.shifted)
        if n_phases is None:
            n_phases = self.writer.n_phases.get(head, arm.grid.phases)
        return np.array(
            [
                [(*head, s, order) not in self.writer.done for order in orders]
                for s in range(n_phases)
            ]
        )

    def _run_video(self, group: Sequence[Item], advance: Advance) -> None:
        """Decode once for all arms, both origins and all questions of a video."""
        arms = [
            arm
            for arm in self.arms
            if any(self._left(item, arm).any() for item in group)
        ]
        grids = [arm.grid for arm in arms]
        try:
            span = read_span(
                group[0],
                grids,
                self.frame_size,
                self.threads,
                self.on_error,
                self.cache,
            )
        except (VideoError, GridError, FileNotFoundError) as error:
            if self.on_error == "raise":
                raise
            for item in group:
                for arm in arms:
                    task, left = Task(item, arm, None), self._left(item, arm)
                    self._mark(task, left, f"video: {error}", advance)
            return
        for item in group:
            for arm, clip in zip(arms, span.clips, strict=True):
                task = Task(item, arm, clip, span.n_frames, span.duration_s)
                self._run_task(task, clip, advance)

    def _run_task(self, task: Task, clip: Clip, advance: Advance) -> None:
        """Score one arm of one item, in as few calls as what is on disk allows."""
        left = self._left(task.item, task.arm, len(clip.indices))
        undecoded = clip.missing.any(axis=1)
        for s in np.flatnonzero(undecoded):
            rows = left & (np.arange(len(left)) == s)[:, None]
            self._mark(task, rows, f"video: {_unsound(clip, int(s))}", advance)
        left[undecoded] = False
        orders = self.orders_of[len(task.item.options)]
        for view, phases, columns in _blocks(clip, left):
            start_s = time.perf_counter()
            scores = self._score(task, view, orders[columns])
            n_scored = len(phases) * len(columns)
            seconds = (time.perf_counter() - start_s) / n_scored
            self.writer.append(
                self._records(task, scores, phases, orders[columns], seconds)
            )
            advance(n_scored, task.item.video_id)

    def _score(
        self, task: Task, view: Clip, orders: NDArray[np.int64]
    ) -> OptionScores | ArrayLike:
        """Call the scorer; an exception of it is raised again saying where."""
        item = task.item
        where = f"question {item.question_id!r}, arm {task.arm.name}"
        try:
            return self.scorer.score(view, item.question, item.options, orders=orders)
        except PhaseFusionError as error:
            raise type(error)(f"{where}: {error}") from error
        except Exception as error:
            text = " ".join(str(error).split())
            raise ScoringError(
                f"{where}: {type(self.scorer).__name__}.score raised "
                f"{type(error).__name__}{f': {text}' if text else ''}; what was scored "
                "before is on disk, and the same command goes on from here"
            ) from error

    def _records(
        self,
        task: Task,
        scores: OptionScores | ArrayLike,
        phases: Sequence[int],
        orders: NDArray[np.int64],
        seconds: float,
    ) -> Iterator[dict[str, Any]]:
        """Yield one record a pass, phase by phase, order by order."""
        item = task.item
        shape = (len(phases), len(orders), len(item.options))
        content, option_mass = check_scores(self.scorer, scores, shape)
        notes: Sequence[str] = getattr(scores, "notes", ())
        pass_notes: Mapping[Any, str] = getattr(scores, "pass_notes", {})
        if has_repeats(item):
            content = merge_repeats(content, item.same_options)
        fused = fuse(
            content.reshape(1, -1, shape[2]), item_id=item.question_id, seed=self.seed
        )
        answers = np.reshape(fused.answer, shape[:2])
        for p, s in enumerate(phases):
            fields = task.fields(s)
            for m, order in enumerate(orders):
                values = content[p, m]
                own = [pass_notes[p, m]] if (p, m) in pass_notes else []
                reason = _why_invalid(values, [*own, *notes])
                if reason is not None and self.on_error == "raise":
                    raise ScoringError(
                        f"question {item.question_id!r}, arm {task.arm.name}, phase "
                        f"{s}, order {order.tolist()}: {reason}"
                    )
                if reason is not None:
                    record = task.missing_pass(s, order, reason)
                    yield record | {"seconds": seconds}
                    continue
                mass = float(option_mass[p, m])
                yield fields | {
                    "order": order.tolist(),
                    "logprobs": values[order].tolist(),
                    "answer": int(answers[p, m]),
                    "path": "logit",
                    "text": None,
                    "option_mass": mass if np.isfinite(mass) else None,
                    "seconds": seconds,
                    "invalid": None,
                    **({"note": own[0]} if own else {}),
                }

    def _mark(
        self, task: Task, left: NDArray[np.bool_], reason: str, advance: Advance
    ) -> None:
        """Record passes that cannot be made, with the reason."""
        orders = self.orders_of[len(task.item.options)]
        self.writer.append(
            task.missing_pass(int(s), orders[m], reason) for s, m in np.argwhere(left)
        )
        advance(int(left.sum()), task.item.video_id)


def _unsound(clip: Clip, s: int) -> str:
    """Say which frames of phase s did not decode soundly."""
    damaged = clip.indices[s][clip.damaged[s]].tolist()
    lost = clip.indices[s][clip.missing[s] & ~clip.damaged[s]].tolist()
    parts = []
    if lost:
        parts.append(f"frames {lost} do not decode")
    if damaged:
        parts.append(f"frames {damaged} are damaged")
    return " and ".join(parts)


def _blocks(
    clip: Clip, left: NDArray[np.bool_]
) -> Iterator[tuple[Clip, list[int], NDArray[np.intp]]]:
    """Cut what is left into calls of the scorer: all at once, or phase by phase."""
    if left.all():
        yield clip, list(range(left.shape[0])), np.arange(left.shape[1])
        return
    for s in np.flatnonzero(left.any(axis=1)).tolist():
        one = slice(s, s + 1)
        view = replace(
            clip,
            frames=clip.frames[one],
            indices=clip.indices[one],
            times_s=clip.times_s[one],
            missing=clip.missing[one],
            damaged=clip.damaged[one],
            grid=clip.grid.view(s),
        )
        yield view, [s], np.flatnonzero(left[s])


def check_scorer(scorer: object) -> None:
    """Refuse what has no method ``score`` that can be called as a run calls it.

    Raises
    ------
    ScoringError
        Saying how the method must look.
    """
    name = type(scorer).__name__
    wanted = "a scorer needs a method score(self, clip, question, options, *, orders)"
    score = getattr(scorer, "score", None)
    if isinstance(scorer, type):
        raise ScoringError(
            f"{scorer.__name__} is a class; give an object of it: {scorer.__name__}()"
        )
    if not callable(score):
        raise ScoringError(f"{name} has no method score; {wanted}")
    try:
        signature = inspect.signature(score)
    except (TypeError, ValueError):  # a compiled function may have none
        return
    try:
        signature.bind(None, "", (), orders=None)
    except TypeError as error:
        raise ScoringError(
            f"{name}.score{signature} cannot be called: {error}; {wanted}"
        ) from None


def check_scores(
    scorer: Scorer, scores: object, shape: tuple[int, int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return log-probabilities and option mass of what a scorer returned.

    Parameters
    ----------
    scorer : Scorer
        Named in messages.
    scores : OptionScores or array_like, shape (S, M, K)
        Of an array the option mass is the sum of its exponentials over the options.
    shape : (int, int, int)
        (S, M, K).

    Returns
    -------
    logprobs : ndarray, shape (S, M, K), float64
    option_mass : ndarray, shape (S, M), float64

    Raises
    ------
    ScoringError
        If it is neither, a shape is another one, or a log-probability is above 0.
    """
    name = type(scorer).__name__
    wanted = (
        "it must be OptionScores, or an array of log-probabilities of shape "
        f"(phases, orders, options) = {shape}"
    )
    has_mass = hasattr(scores, "logprobs") and hasattr(scores, "option_mass")
    content = _numbers(getattr(scores, "logprobs", scores))
    if content is None or (content.ndim == 0 and not has_mass):
        raise ScoringError(
            f"{name}.score returned {reprlib.repr(scores)}, a "
            f"{type(scores).__name__}; {wanted}"
        )
    if content.shape != shape:
        raise ScoringError(
            f"{name}.score returned logprobs of shape {content.shape}; {wanted}"
        )
    finite = content[np.isfinite(content)]
    if finite.size and finite.max() > 1e-6:
        raise ScoringError(
            f"{name}.score returned a log-probability of {finite.max():.6g}; it must "
            "be <= 0. Logits need a log-softmax first, losses a change of sign"
        )
    if not has_mass:
        return content, np.exp(content).sum(axis=-1)
    mass = _numbers(getattr(scores, "option_mass", None))
    if mass is None or mass.shape != shape[:2]:
        found = "what is no number" if mass is None else f"shape {mass.shape}"
        raise ScoringError(
            f"{name}.score returned option_mass of {found}; it must have the shape "
            f"(phases, orders) = {shape[:2]}"
        )
    return content, mass


def _numbers(values: object) -> NDArray[np.float64] | None:
    """Return values as an array of float64; None when they are no real numbers."""
    try:
        table = np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        return None
    return table.astype(np.float64) if table.dtype.kind in "iuf" else None


def _why_invalid(values: NDArray[np.float64], notes: Sequence[str]) -> str | None:
    """Say why the log-probabilities of a pass cannot be used; None when they can."""
    if np.isnan(values).any():
        reason = "scores: NaN"
    elif np.isposinf(values).any():
        reason = "scores: +inf"
    elif not np.isfinite(values).any():
        reason = "scores: no option has any probability"
    else:
        return None
    return "; ".join([reason, *notes])
