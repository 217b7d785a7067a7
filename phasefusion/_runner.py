"""Scoring what is missing of a run: one decode a video, one scorer call an arm."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._arm_grids import GridOrError, shown_grids
from phasefusion._checks import warn
from phasefusion._known_videos import KnownVideos
from phasefusion._passes import NO_ANSWER, Answered, has_repeats
from phasefusion._scorer_checks import forget_other_runs, takes_many
from phasefusion._spans import Span, read_span
from phasefusion._video_digest import digest_of_file
from phasefusion._video_fit import SizeRule
from phasefusion.anchors.rule import AnchoredGrid
from phasefusion.datasets import Item
from phasefusion.errors import (
    FallbackWarning,
    FrameError,
    GridError,
    OptionError,
    PhaseFusionError,
    QuestionError,
    ScoringError,
    VideoError,
)
from phasefusion.frames import Device
from phasefusion.grid import PhaseGrid
from phasefusion.progress import Advance, Listener, follow
from phasefusion.protocols.arms import Arm, Prompt
from phasefusion.protocols.plans import orders_of
from phasefusion.records import RunWriter
from phasefusion.scoring.protocol import ScoreRequest
from phasefusion.video import Clip

#: A call that scores several questions ends with the question that reaches this many;
#: what a run that is killed has to do again.
_PASSES_A_CALL = 256

#: Errors of a scorer that say nothing about the next question.
_OF_QUESTION = (OptionError, QuestionError, FrameError)

#: Errors that say nothing about the file that was opened.
_OF_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)

if TYPE_CHECKING:
    from phasefusion.cache import FrameCache
    from phasefusion.scoring.generation import GeneratedAnswers
    from phasefusion.scoring.protocol import OptionScores, Scorer

    Scores: TypeAlias = OptionScores | GeneratedAnswers | ArrayLike

__all__ = ["Arm", "Runner", "Span", "Task", "read_span"]


@dataclass(frozen=True, slots=True)
class Task:
    """One arm of one item; without a clip where no video was read."""

    item: Item
    arm: Arm
    grid: PhaseGrid | None
    clip: Clip | None
    n_frames: int | None = None
    duration_s: float | None = None
    decode_s: float | None = None
    lost: str = ""
    digest: str | None = None

    def fields(self, s: int) -> dict[str, Any]:
        """Return what all passes of phase `s` have in common."""
        item, arm, clip, grid = self.item, self.arm, self.clip, self.grid
        same = item.same_options
        found: dict[str, Any] = {
            "question_id": item.question_id,
            "benchmark": item.benchmark,
            "video_id": item.video_id,
            "type": item.type,
            "n_options": len(item.options),
            "gold": None if item.gold is None else same[item.gold],
            "arm": arm.name,
            "shifted": arm.shifted,
            "budget": 0 if grid is None else grid.budget,
            "n_phases": arm.n_phases,
            "origin": None,
            "phase": None,
            "phase_index": s,
            "video_digest": self.digest,
            "n_frames": self.n_frames,
            "duration_s": self.duration_s,
            "frame_indices": None,
            "frame_times_s": None,
            "decode_seconds": self.decode_s,
        }
        if grid is None:
            found["frame_indices"], found["frame_times_s"] = [], []
        if clip is not None:
            found["n_phases"], found["budget"] = clip.indices.shape
            found["frame_indices"] = clip.indices[s].tolist()
            found["frame_times_s"] = clip.times_s[s].round(6).tolist()
        if grid is not None and not arm.is_chosen:
            phase = Fraction(s + grid.origin) / found["n_phases"]
            found["origin"] = list(grid.origin.as_integer_ratio())
            found["phase"] = list(phase.as_integer_ratio())
        if isinstance(grid, AnchoredGrid):
            found["anchor"] = grid.record(whole=s == 0)
        if has_repeats(item):
            found["same_options"] = list(same)
        if item.strata:
            found["strata"] = dict(item.strata)
        if clip is not None and clip.damaged[s].any():
            found["damaged_frames"] = clip.indices[s][clip.damaged[s]].tolist()
        if self.lost:
            found["video_problem"] = self.lost
        return found | arm.facts()

    def missing_pass(self, s: int, order: NDArray[np.int64], reason: str) -> Any:
        """Return the record of a pass that could not be made."""
        return (
            self.fields(s) | {"order": order.tolist()} | NO_ANSWER | {"invalid": reason}
        )


@dataclass(frozen=True, slots=True)
class Block:
    """Passes of a task that one call can score: phases (of a view) times orders."""

    task: Task
    view: Clip | None
    phases: Sequence[int]
    orders: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Make what the scorer is shown read-only: later questions are shown it too."""
        shown: list[Any] = [self.orders]
        if self.view is not None:
            clip = self.view
            shown += [clip.frames, clip.indices, clip.times_s]
            shown += [clip.missing, clip.damaged]
        for values in shown:
            if isinstance(values, np.ndarray):
                values.flags.writeable = False

    @property
    def n_passes(self) -> int:
        return len(self.phases) * len(self.orders)


@dataclass(frozen=True, slots=True)
class QuestionFault:
    """In place of scores: why a question cannot be scored, whatever others can."""

    reason: str


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
    variants: Mapping[Prompt, Scorer] = field(default_factory=dict)
    #: Where frames are resized; None for as the scorer has it.
    frames_device: Device | None = None
    #: Which files the videos were, for passes that are on disk and those to come.
    videos: KnownVideos = field(default_factory=KnownVideos)
    #: Called when a video has been decoded, before anything of it is scored.
    opened: Callable[[], None] | None = None
    #: Called with the question before each call; every block is then a call of its own.
    begins: Callable[[Item], None] | None = None

    @property
    def frame_size(self) -> SizeRule | None:
        """The size at which the scorer will look at frames, if it says so."""
        return getattr(self.scorer, "frame_size", None)

    @property
    def device(self) -> Device:
        """Where frames are resized as they are decoded."""
        of_scorer: Device = getattr(self.scorer, "frames_device", "cpu")
        return self.frames_device or of_scorer

    def orders(self, item: Item, arm: Arm) -> NDArray[np.int64]:
        """Orders in which an arm shows the options of an item, shape (M, K)."""
        if arm.order is None:
            return self.orders_of[len(item.options)]
        return orders_of({"kind": arm.order}, len(item.options))

    def run(self, items: Sequence[Item], show: bool | Listener | None) -> None:
        """Make every pass of `items` that is not on disk, video by video."""
        total, done, groups = self.plan(items)
        if groups:
            self.writer.expect(total - done)
        with follow(total, done, show) as advance:
            for group in groups:
                self.run_video(group, advance)

    def plan(self, items: Sequence[Item]) -> tuple[int, int, list[list[Item]]]:
        """Count passes, in all and on disk, and group by video what has some left."""
        groups: dict[tuple[Any, ...], list[Item]] = {}
        rules = {arm.anchor for arm in self.arms if arm.anchor is not None}
        total = done = 0
        for item in items:
            left = [self._left(item, arm) for arm in self.arms]
            n_left = sum(int(part.sum()) for part in left)
            n_planned = sum(part.size for part in left)
            total += n_planned
            done += n_planned - n_left
            if n_left:
                # origins are drawn by video_id
                key: tuple[Any, ...] = (item.video, item.video_id)
                key += (item.start, item.end)
                key += tuple(rule.request(item) for rule in rules)
                groups.setdefault(key, []).append(item)
        return total, done, list(groups.values())

    def n_left(self, item: Item) -> int:
        """Count the passes of an item that are not on disk."""
        return sum(int(self._left(item, arm).sum()) for arm in self.arms)

    def give_up(self, item: Item, reason: str, advance: Advance) -> None:
        """Record every pass of an item that is not on disk as missing."""
        digest = self._digest(item)
        for arm in self.arms:
            self._mark_all(item, arm, reason, advance, digest)

    def _digest(self, item: Item) -> str | None:
        """Return the digest of an item's video as it is now; None if it is not there.

        Raises
        ------
        RecordError
            If passes of the run were made of another file.
        """
        digest = digest_of_file(item.video)
        self.videos.check(item.video, digest)
        return digest

    def _left(
        self, item: Item, arm: Arm, n_phases: int | None = None
    ) -> NDArray[np.bool_]:
        """Mark the passes of an arm that are not on disk, shape (S, M).

        A clip too short for all phases has fewer, which is known once it is read: by
        `n_phases`, or from the passes that are on disk.
        """
        orders = [tuple(order) for order in self.orders(item, arm).tolist()]
        head = (item.benchmark, item.question_id, arm.name, arm.shifted)
        if n_phases is None:
            n_phases = self.writer.n_phases.get(head, arm.n_phases)
        return np.array(
            [
                [(*head, s, order) not in self.writer.done for order in orders]
                for s in range(n_phases)
            ]
        )

    def run_video(self, group: Sequence[Item], advance: Advance) -> None:
        """Decode once for all arms, both origins and all questions of a video."""
        arms = [
            arm
            for arm in self.arms
            if any(self._left(item, arm).any() for item in group)
        ]
        if not arms:
            return
        digest = self._digest(group[0])
        blind = [arm for arm in arms if arm.grid is None]
        for item in group:
            self._score_blocks(self._blind_blocks(item, blind, digest), advance)
        seeing = [arm for arm in arms if arm.grid is not None]
        if not seeing:
            return
        begin_s = time.perf_counter()
        try:
            shown, span = self._decoded(group[0], seeing)
        except (VideoError, GridError, FrameError, OSError) as error:
            if self.on_error == "raise" or getattr(error, "errno", 0) in _OF_PROCESS:
                raise
            for item in group:
                for arm in seeing:
                    self._mark_all(item, arm, f"video: {error}", advance, digest)
            return
        decode_s = time.perf_counter() - begin_s
        # it may have changed meanwhile, be gone, or not have been there at first
        digest = self._digest(group[0]) or digest
        decode_s /= max(1, sum(self.n_left(item) for item in group))
        if self.opened is not None:
            self.opened()
        blocks: list[Block] = []
        usable = [(arm, grid) for arm, grid in shown if isinstance(grid, PhaseGrid)]
        for item in group:
            for arm, refused in shown:
                if isinstance(refused, GridError):
                    self._mark_all(item, arm, f"frames: {refused}", advance, digest)
            if span is not None:
                facts = span.n_frames, span.duration_s, decode_s, span.lost, digest
                for (arm, grid), clip in zip(usable, span.clips, strict=True):
                    task = Task(item, arm, grid, clip, *facts)
                    blocks += self._blocks(task, clip, advance)
        self._score_blocks(blocks, advance)

    def _decoded(
        self, item: Item, arms: Sequence[Arm]
    ) -> tuple[list[tuple[Arm, GridOrError]], Span | None]:
        """Decode what arms are shown of a video; None when all grids are refused."""
        shown = shown_grids(item, arms, self.seed, self.threads, self.on_error)
        grids = [grid for _, grid in shown if isinstance(grid, PhaseGrid)]
        if not grids:
            return shown, None
        return shown, read_span(
            item,
            grids,
            self.frame_size,
            self.threads,
            self.on_error,
            self.cache,
            self.device,
        )

    def _blind_blocks(
        self, item: Item, arms: Sequence[Arm], digest: str | None
    ) -> list[Block]:
        """Return what is to be scored of one item without its video."""
        blocks = []
        for arm in arms:
            left = self._left(item, arm)[0]
            if left.any():
                orders = self.orders(item, arm)[left]
                blocks.append(
                    Block(Task(item, arm, None, None, digest=digest), None, [0], orders)
                )
        return blocks

    def _score_blocks(self, blocks: Sequence[Block], advance: Advance) -> None:
        """Score blocks, those of one prompt together, and record their passes."""
        for prompt in dict.fromkeys(block.task.arm.prompt for block in blocks):
            scorer = self.variants.get(prompt, self.scorer)
            same = [block for block in blocks if block.task.arm.prompt == prompt]
            is_many = self.begins is None and takes_many(scorer)
            for some in _calls(same, is_many):
                for block, scores, seconds in self._scored(scorer, some):
                    self.writer.append(self._records(scorer, block, scores, seconds))
                    advance(block.n_passes, block.task.item.video_id)

    def _blocks(self, task: Task, clip: Clip, advance: Advance) -> list[Block]:
        """Return what of one arm of one item is to be scored; mark what cannot be."""
        left = self._left(task.item, task.arm, len(clip.indices))
        undecoded = clip.missing.any(axis=1)
        for s in np.flatnonzero(undecoded):
            rows = left & (np.arange(len(left)) == s)[:, None]
            self._mark(task, rows, f"video: {_unsound(clip, int(s))}", advance)
        left[undecoded] = False
        orders = self.orders(task.item, task.arm)
        return [
            Block(task, view, phases, orders[columns])
            for view, phases, columns in _parts(clip, left)
        ]

    def _scored(
        self, scorer: Scorer, blocks: Sequence[Block]
    ) -> Iterator[tuple[Block, Scores | QuestionFault, float]]:
        """Yield each block's scores, as soon as there are any, and seconds a pass.

        Blocks of one arm, which look at the same clip, are scored together.
        """
        if len(blocks) == 1:
            yield self._alone(scorer, blocks[0])
            return
        by_arm: dict[tuple[str, bool], list[Block]] = {}
        for block in blocks:
            arm = block.task.arm
            by_arm.setdefault((arm.name, arm.shifted), []).append(block)
        for same in by_arm.values():
            yield from self._together(scorer, same)

    def _together(
        self, scorer: Scorer, blocks: Sequence[Block]
    ) -> Iterator[tuple[Block, Scores | QuestionFault, float]]:
        """Score blocks in one call, or where that fails one by one.

        So what can be scored is, and an error names the question.
        """
        requests = [
            ScoreRequest(
                block.view,  # type: ignore[arg-type]
                block.task.item.question,
                block.task.item.options,
                block.orders,
            )
            for block in blocks
        ]
        forget_other_runs(scorer, blocks[0].task.arm)
        start_s = time.perf_counter()
        try:
            made = list(scorer.score_many(requests))  # type: ignore[attr-defined]
            if len(made) != len(blocks):
                raise ScoringError(f"{len(made)} scores for {len(blocks)} requests")
        except Exception as error:
            for block in blocks:
                yield self._alone(scorer, block)
            if len(blocks) > 1:
                warn(
                    f"{type(scorer).__name__}.score_many failed with "
                    f"{type(error).__name__}: {error}; {len(blocks)} questions were "
                    "scored one by one instead",
                    FallbackWarning,
                )
            return
        n_passes = sum(block.n_passes for block in blocks)
        seconds = (time.perf_counter() - start_s) / n_passes
        for block, scores in zip(blocks, made, strict=True):
            yield block, scores, seconds

    def _alone(
        self, scorer: Scorer, block: Block
    ) -> tuple[Block, Scores | QuestionFault, float]:
        forget_other_runs(scorer, block.task.arm)
        start_s = time.perf_counter()
        scores = self._score(scorer, block)
        return block, scores, (time.perf_counter() - start_s) / block.n_passes

    def _score(self, scorer: Scorer, block: Block) -> Scores | QuestionFault:
        """Call the scorer; an exception of it is raised again saying where.

        One that is about this question alone makes its passes missing instead, where
        errors are marked.
        """
        item = block.task.item
        if self.begins is not None:
            self.begins(item)
        where = f"question {item.question_id!r}, arm {block.task.arm.name}"
        clip: Any = block.view  # None is for variants that look at none
        try:
            return scorer.score(clip, item.question, item.options, orders=block.orders)
        except PhaseFusionError as error:
            if self.on_error == "mark" and isinstance(error, _OF_QUESTION):
                return QuestionFault(f"scores: {type(error).__name__}: {error}")
            raise type(error)(f"{where}: {error}") from error
        except Exception as error:
            text = " ".join(str(error).split())
            raise ScoringError(
                f"{where}: {type(scorer).__name__}.score raised "
                f"{type(error).__name__}{f': {text}' if text else ''}; what was scored "
                "before is on disk, and the same command goes on from here"
            ) from error

    def _records(
        self,
        scorer: Scorer,
        block: Block,
        scores: Scores | QuestionFault,
        seconds: float,
    ) -> Iterator[dict[str, Any]]:
        """Yield one record a pass, phase by phase, order by order."""
        task = block.task
        if isinstance(scores, QuestionFault):
            for s in block.phases:
                for order in block.orders:
                    yield task.missing_pass(s, order, scores.reason)
            return
        fields = {s: task.fields(s) for s in block.phases}
        answered = Answered(
            scorer, task.item, task.arm, block.phases, block.orders, seconds, self.seed
        )
        for s, record in answered.records(scores, self.on_error):
            yield fields[s] | record

    def _mark_all(
        self,
        item: Item,
        arm: Arm,
        reason: str,
        advance: Advance,
        digest: str | None,
    ) -> None:
        """Record all passes of an arm of which there are no frames."""
        grid = arm.grid_of(item.video_id, self.seed)
        task = Task(item, arm, grid, None, digest=digest)
        self._mark(task, self._left(item, arm), reason, advance)

    def _mark(
        self, task: Task, left: NDArray[np.bool_], reason: str, advance: Advance
    ) -> None:
        """Record passes that cannot be made, with the reason."""
        orders = self.orders(task.item, task.arm)
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


def _calls(blocks: Sequence[Block], together: bool) -> Iterator[list[Block]]:
    """Cut blocks into calls of the scorer, between questions where it takes several."""
    call: list[Block] = []
    for block in blocks:
        n_passes = sum(other.n_passes for other in call)
        is_next = bool(call) and call[-1].task.item is not block.task.item
        if call and (not together or (is_next and n_passes >= _PASSES_A_CALL)):
            yield call
            call = []
        call.append(block)
    if call:
        yield call


def count_calls(n_passes: Sequence[int]) -> int:
    """Count the calls of an arm in which questions of one video are scored together.

    Parameters
    ----------
    n_passes : sequence of int
        Passes that each question has, over all arms.

    Examples
    --------
    >>> count_calls([100, 100, 100, 100]), count_calls([300, 300]), count_calls([])
    (2, 2, 0)
    """
    calls, held = 0, 0
    for n in n_passes:
        if held == 0 or held >= _PASSES_A_CALL:
            calls, held = calls + 1, 0
        held += n
    return calls


def _parts(
    clip: Clip, left: NDArray[np.bool_]
) -> Iterator[tuple[Clip, list[int], NDArray[np.intp]]]:
    """Cut what is left into calls of the scorer: all at once, or phase by phase."""
    if left.all():
        yield clip, list(range(left.shape[0])), np.arange(left.shape[1])
        return
    for s in np.flatnonzero(left.any(axis=1)).tolist():
        yield one_phase(clip, s), [s], np.flatnonzero(left[s])


def one_phase(clip: Clip, s: int) -> Clip:
    """Return phase `s` of a clip alone."""
    one = slice(s, s + 1)
    return replace(
        clip,
        frames=clip.frames[one],
        indices=clip.indices[one],
        times_s=clip.times_s[one],
        missing=clip.missing[one],
        damaged=clip.damaged[one],
        grid=clip.grid.view(s),
    )
