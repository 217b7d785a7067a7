"""Evaluate a scorer: every arm, phase and option order of a protocol, resumable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from phasefusion._cached_clips import as_cache
from phasefusion._checks import warn
from phasefusion._description import describe_frames, describe_run
from phasefusion._known_videos import known_videos
from phasefusion._paths import path_of
from phasefusion._random import check_seed
from phasefusion._results import Result
from phasefusion._runner import Runner
from phasefusion._versions import versions as versions
from phasefusion._video_checks import check_threads
from phasefusion._wording import counted
from phasefusion.datasets import Dataset, Item
from phasefusion.datasets.item import item_hash
from phasefusion.datasets.loading import read_questions
from phasefusion.engine import EngineArgument, Shard, hire
from phasefusion.engine.shards import part_of
from phasefusion.errors import (
    DatasetError,
    FallbackWarning,
    NoAnswerWarning,
    RecordWarning,
)
from phasefusion.frames import Device, check_device
from phasefusion.protocols import Plan, Protocol, make_plan
from phasefusion.protocols.registry import OrdersName
from phasefusion.protocols.stages import lowest_margins, undecided
from phasefusion.records import RunWriter, _json, read_passes
from phasefusion.records.questions import question_places
from phasefusion.video import CacheArgument

if TYPE_CHECKING:
    from phasefusion.anchors import AnchorRule
    from phasefusion.grid import By, Origin, Short
    from phasefusion.progress import Listener
    from phasefusion.protocols.arms import Arm, Value
    from phasefusion.records import Passes
    from phasefusion.report import Report
    from phasefusion.scoring.protocol import Scorer


@dataclass(frozen=True, slots=True)
class Run(Result):
    """A run folder after `evaluate`.

    Attributes
    ----------
    path : Path
        The run folder.
    n_passes : int
        Passes on disk.
    n_new : int
        Passes that this call made.
    n_answered : int
        Passes on disk that have an answer.
    """

    path: Path
    n_passes: int
    n_new: int
    n_answered: int

    def passes(self) -> Passes:
        """Read all passes into columns."""
        from phasefusion.records import read_passes

        return read_passes(self.path)

    def report(self) -> Report:
        """Compute every statistic of the run."""
        from phasefusion.report import report

        return report(self.path)


def evaluate(
    questions: str | Path | Sequence[Item],
    scorer: Scorer,
    *,
    out: str | Path,
    protocol: str | Protocol = "phasefusion",
    values: Sequence[Value] | None = None,
    budget: int = 8,
    phases: int | None = None,
    origin: Origin = "midpoint",
    by: By = "frames",
    short: Short = "repeat",
    orders: OrdersName | None = None,
    n_orders: int | None = None,
    views: int | None = None,
    dense: int | None = None,
    threshold: float | None = None,
    alpha: float | None = None,
    seed: int = 0,
    limit: int | None = None,
    threads: int = 1,
    on_error: Literal["mark", "raise"] = "mark",
    progress: bool | Listener | None = None,
    cache: CacheArgument = None,
    frames_device: Device | None = None,
    shard: Shard | str | None = None,
    engine: EngineArgument = "local",
    anchor: AnchorRule | None = None,
) -> Run:
    """Score every question in every arm, phase and option order of a protocol.

    Every pass is on disk as soon as it is scored. Calling again with the same
    arguments after a crash, or with a larger `limit`, makes only what is missing.

    Protocols
        * "phasefusion": the S phase views, the union of their frames in one pass, a
          dense pass and the single pass, each on its grid and on its grid moved by
          half a step, all with the same option orders. Fusion and vote follow from
          the phase views when the run is reported. The single pass is not made twice
          where it is one of the views.
        * "stableeval": the S phase views in Latin-square orders.
        * "quick": one pass in the given option order.
        * "adaptive": phases one at a time, each only of the questions whose fused
          margin has not reached the threshold; "confidence-guided": option orders
          likewise.
        * further ones, each for one figure of the paper: see `phasefusion.protocols`.

    Parameters
    ----------
    questions : path or sequence of Item
        A question file or a folder of a dataset, read as `phasefusion.datasets.read`
        does, what that returns, or items. What a file has that cannot be scored is in
        a warning, and the account of all questions is kept in the run.
    scorer : Scorer
        Anything with ``score(clip, question, options, orders=...)``.
    out : str or Path
        The run folder.
    protocol : str or Protocol, default "phasefusion"
        One of `phasefusion.protocols.names`.
    values : sequence, optional
        Of what a sweep varies: budgets, numbers of phases, names of samplers or frames
        that grids are moved by; for repeated runs and random draws, their number.
    budget, phases, origin, by, short
        The phase grid, as in `PhaseGrid`; by default with the phases of the protocol,
        and only 1 where it has one.
    orders : {"identity", "shared", "latin", "cyclic", "ends", "all"}, optional
        Option orders; by default those of the protocol. Orders that repeat, as ten of
        three options must, are scored once, and so is a prompt that shows no options.
    n_orders : int, optional
        How many "shared" orders, 10 by default; refused when others are given.
    views : int, optional
        How many "latin" orders; by default as many as a question has options. Other
        numbers than multiples of that are not balanced, which the report marks, or are
        refused where the protocol promises balance.
    dense : int, optional
        Frames of the dense pass, 32 by default.
    threshold : float, optional
        Of an adaptive protocol: the margin in nats from which no further phase is asked
        for, such as `stats.calibrate_adaptive` finds, or the posterior above which the
        first option order is accepted.
    alpha : float, optional
        Weight of each letter over the one before it, of protocols that have ensembles
        of orders.
    seed : int, default 0
        Of the shared orders and of ties.
    limit : int, optional
        The first `limit` questions only.
    threads : int, default 1
        Decoding threads; results do not depend on it.
    on_error : {"mark", "raise"}, default "mark"
        What a video, or a frame of one, gets that does not decode, a question of which
        the scorer says with an `OptionError`, `QuestionError` or `FrameError` that it
        cannot be scored, and a pass whose scores are NaN, +inf or all -inf: passes
        recorded as missing with the reason, or the error.
    progress : bool or callable, optional
        None is a bar on a terminal and a rare line elsewhere, False is silence, and a
        callable gets ``(passes done, passes in all, video)``.
    cache : FrameCache or path of a folder, optional
        Where decoded frames are kept for the next run over the same videos; by default
        nowhere. Questions with a start or an end are decoded each time.
    frames_device : {"cpu", "cuda", "auto"}, optional
        Where frames are resized as they are decoded, see `read_clip`; by default where
        the scorer says, or else on the CPU. The frames are the same, so that a run may
        go on elsewhere; run.json has, as "frames" of its "host", where it began.
    shard : str or Shard, optional
        ``"2/4"`` is the second of four parts of the questions, cut so that no video is
        in two of them, which goes to a folder of its own, ``OUT.shard-2-of-4``;
        ``"auto"`` takes both numbers from what a launcher says. `merge_shards` makes
        one run of them.
    engine : {"local", "ray"} or RayEngine, default "local"
        Where passes are made: in this process, or by the workers of a Ray cluster, for
        which `scorer` may be a `ScorerSpec` or a function that makes a scorer.
    anchor : AnchorRule, optional
        Where the windows of the protocol "anchored" are; by default where the codec
        sees most motion, else where colours change most, else in the middle.

    Returns
    -------
    Run

    Raises
    ------
    DatasetError, GridError, ScoringError
        For questions, grids and scorers that cannot be used.
    UsageError
        If `questions` or `out` is no path.
    BackendUnavailableError
        If phasefusion was built without FFmpeg; with ``frames_device="cuda"``, if no
        GPU can be used.
    RecordError
        If `out` holds a run with other settings, or passes of a video that is another
        file now; if another process is writing it, or the disk is full.
    VideoError
        If `threads` is out of range; with ``on_error="raise"``, if a video or a frame
        does not decode.

    Warns
    -----
    NoAnswerWarning
        If not one pass of the run has an answer.
    FallbackWarning
        If a phrase or time that `anchor` asks for is not in a video, and another method
        gave its anchor.
    """
    _check_choices(on_error, limit)
    out = path_of("out", out, "the folder of the run")
    if frames_device is not None:
        check_device(frames_device)
    crew = hire(engine, scorer)
    threads, seed = check_threads(threads), check_seed(seed)
    plan = make_plan(
        protocol,
        budget=budget,
        phases=phases,
        origin=origin,
        by=by,
        short=short,
        orders=orders,
        n_orders=n_orders,
        views=views,
        dense=dense,
        seed=seed,
        values=values,
        anchor=anchor,
        threshold=threshold,
        alpha=alpha,
    )
    items, source = _questions(questions)
    if anchor is not None:
        anchor.check(items)
    chosen, part = part_of(items, limit, shard, plan)
    if part is not None:
        out = part.folder(out)
    about: dict[str, Any] = {"questions": source | question_places(source, out)}
    if part is not None:
        about |= part.to_dict()
    frames = None if cache is None else as_cache(cache)
    with crew:  # before anything starts, so that nothing is left when that fails
        facts = crew.prepare(plan) | {"questions_sha256": source["sha256"]}
        plan = plan.as_shown(facts["scorer"])
        orders_of = plan.orders_by_options(len(item.options) for item in items)
        described = describe_run(plan, facts, seed=seed, on_error=on_error)
        scored_with = crew.prepared.scorer
        of_scorer: Device = getattr(scored_with, "frames_device", "cpu")
        where = frames_device or of_scorer
        described["host"] |= describe_frames(where, here=scored_with is not None)
        variants = crew.prepared.variants
        options = orders_of, seed, threads, on_error, frames, variants, frames_device
        with RunWriter(out, described | about) as writer:
            videos = known_videos(writer.folder, writer.digests, items)
            n_old = len(writer.done)
            writer.n_questions = len(chosen)
            _warn_of_more(writer, chosen, limit)
            stages = _stages(plan, chosen, out, seed)
            for n_begun, (arms, some) in enumerate(stages, 1):
                writer.stages_left = len(plan.stages) - n_begun
                runner = Runner(scored_with, writer, arms, *options, videos)
                crew.run(runner, some, progress)
            writer.expect(0)
            _warn_without_answers(writer)
            n = len(writer.done)
            if anchor is not None and n > n_old:
                _warn_of_anchors(writer.folder)
            return Run(Path(out), n, n - n_old, writer.n_answered)


def _warn_of_more(writer: RunWriter, chosen: Sequence[Item], limit: int | None) -> None:
    """Say that a run holds questions beyond its limit: they are not taken away."""
    there = {key[:2] for key in writer.n_phases}
    n_more = len(there - {(item.benchmark, item.question_id) for item in chosen})
    if limit is not None and n_more:
        warn(
            f"{writer.folder}: limit is {limit}, and the run holds {len(there)} "
            f"questions already; the {n_more} beyond the limit stay, and a report is "
            "of all; choose another folder for fewer",
            RecordWarning,
        )


def _check_choices(on_error: str, limit: int | None) -> None:
    if on_error not in ("mark", "raise"):
        raise DatasetError(f'on_error must be "mark" or "raise", not {on_error!r}')
    if limit is not None and limit < 1:
        raise DatasetError(f"limit must be >= 1, not {limit}")


def _warn_without_answers(writer: RunWriter) -> None:
    """Say that nothing came of a run, which ends like any other."""
    if writer.done and not writer.n_answered:
        reason = " ".join(writer.reason.split())
        warn(
            f"{writer.folder}: none of {counted(len(writer.done), 'pass', 'passes')} "
            f"has an answer; the first lacks it because of: {reason}",
            NoAnswerWarning,
        )


def _warn_of_anchors(folder: Path) -> None:
    """Say that windows are not where they were asked for."""
    from phasefusion.report.anchors import reasons_missed, windows_of

    windows, _ = windows_of(folder)
    missed = reasons_missed(windows)
    if missed:
        warn(
            f"{folder}: in {len(missed)} of {counted(len(windows), 'window')} the "
            "phrase or time that was asked for is not there, and another method gave "
            f"the anchor; the first: {missed[0]}",
            FallbackWarning,
        )


def _stages(
    plan: Plan, chosen: Sequence[Item], out: str | Path, seed: int
) -> Iterator[tuple[Sequence[Arm], Sequence[Item]]]:
    """Yield arms and their questions, which may follow from what was scored before."""
    for stage in plan.stages:
        if stage.share < 1:
            chosen = lowest_margins(read_passes(out), chosen, stage.share, seed)
        elif stage.step:
            chosen = undecided(read_passes(out), chosen, plan, stage.step, seed)
        yield stage.arms, chosen


def _questions(
    questions: str | Path | Sequence[Item],
) -> tuple[list[Item], dict[str, Any]]:
    """Items, and what identifies them in run.json."""
    if isinstance(questions, str | Path):
        questions = read_questions(questions)
    if isinstance(questions, Dataset):
        return list(questions), _about(questions)
    if not isinstance(questions, Iterable):
        path_of("questions", questions, "a question file, or a sequence of Item")
    items = list(questions)
    if not items:
        raise DatasetError("questions is empty; there is nothing to score")
    _check_items(items)
    text = _json.dumps([asdict(item) for item in items], sort_keys=True)
    return items, {
        "file": None,
        "sha256": hashlib.sha256(text).hexdigest(),
        "n": len(items),
        "items": _hashes(items),
    }


def _about(dataset: Dataset) -> dict[str, Any]:
    """Identify questions by what they say, wherever files and videos lie."""
    hashes = _hashes(dataset)
    files = dataset.report.files
    text = json.dumps(hashes, sort_keys=True).encode()
    return {
        "file": files[0]["path"] if len(files) == 1 else None,
        "sha256": hashlib.sha256(text).hexdigest(),
        "n": len(dataset),
        "items": hashes,
        "dataset": dataset.report.to_dict(),
    }


def _hashes(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """Short hash of every question by benchmark and id, to name those that change."""
    found: dict[str, dict[str, str]] = {}
    for item in items:
        found.setdefault(item.benchmark, {})[item.question_id] = item_hash(item)
    return found


def _check_items(items: Sequence[Item]) -> None:
    """Refuse what is no item, and an id that would hide the item before it."""
    seen: set[tuple[str, str]] = set()
    for i, item in enumerate(items):
        if not isinstance(item, Item):
            raise DatasetError(
                f"questions[{i}] is a {type(item).__name__}, not an Item; "
                "load_questions makes items of a question file"
            )
        if (item.benchmark, item.question_id) in seen:
            raise DatasetError(
                f"questions[{i}]: question_id {item.question_id!r} was already used; "
                f"ids must be unique within a benchmark ({item.benchmark!r})"
            )
        seen.add((item.benchmark, item.question_id))
