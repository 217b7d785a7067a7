"""Run a scorer over questions: every arm, phase and option order, one decode a video."""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from phasefusion import orders as option_orders
from phasefusion.datasets import Item, load_questions
from phasefusion.errors import DatasetError, GridError, ScoringError, VideoError
from phasefusion.fusion import fuse
from phasefusion.grid import PhaseGrid
from phasefusion.progress import Advance, Listener, follow
from phasefusion.records import RunWriter, pass_key
from phasefusion.scoring.letters import merge_repeats
from phasefusion.video import Clip, read_clips

if TYPE_CHECKING:
    from phasefusion.grid import By, Origin, Short
    from phasefusion.records import Passes
    from phasefusion.report import Report
    from phasefusion.scoring.protocol import OptionScores, Scorer

ProtocolName: TypeAlias = Literal["phasefusion", "stableeval", "quick"]
OrdersName: TypeAlias = Literal["identity", "shared", "latin", "cyclic", "all"]

_ORDERS_OF: dict[str, OrdersName] = {
    "phasefusion": "shared",
    "stableeval": "latin",
    "quick": "identity",
}
_PACKAGES = ("torch", "transformers")


@dataclass(frozen=True, slots=True)
class Arm:
    """One grid that is scored: its name in the records, and on which origin it is."""

    name: str
    shifted: bool
    grid: PhaseGrid


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder after `evaluate`.

    Attributes
    ----------
    path : Path
        The run folder.
    n_passes : int
        Passes on disk.
    n_new : int
        Passes that this call made.
    """

    path: Path
    n_passes: int
    n_new: int

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
    protocol: ProtocolName = "phasefusion",
    budget: int = 8,
    phases: int = 3,
    origin: Origin = "midpoint",
    by: By = "frames",
    short: Short = "repeat",
    orders: OrdersName | None = None,
    n_orders: int = 10,
    dense: int = 32,
    seed: int = 0,
    limit: int | None = None,
    threads: int = 1,
    on_error: Literal["mark", "raise"] = "mark",
    progress: bool | Listener | None = None,
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

    Parameters
    ----------
    questions : path or sequence of Item
        A question file (see `phasefusion.datasets.load_questions`) or its items.
    scorer : Scorer
        Anything with ``score(clip, question, options, orders=...)``.
    out : str or Path
        The run folder.
    protocol : {"phasefusion", "stableeval", "quick"}
    budget, phases, origin, by, short
        The phase grid, as in `PhaseGrid`; "quick" has one phase.
    orders : {"identity", "shared", "latin", "cyclic", "all"}, optional
        Option orders; by default the one of the protocol: "shared", "latin" and
        "identity". Orders that repeat, as ten of three options must, are scored once.
    n_orders : int, default 10
        How many "shared" orders.
    dense : int, default 32
        Frames of the dense pass.
    seed : int, default 0
        Of the shared orders and of ties.
    limit : int, optional
        The first `limit` questions only.
    threads : int, default 1
        Decoding threads; results do not depend on it.
    on_error : {"mark", "raise"}, default "mark"
        What a video, or a frame of one, gets that does not decode: its passes recorded
        as missing with the reason, or the error.
    progress : bool or callable, optional
        None is a bar on a terminal and a rare line elsewhere, False is silence, and a
        callable gets ``(passes done, passes in all, video)``.

    Returns
    -------
    Run

    Raises
    ------
    DatasetError, GridError, ScoringError
        For questions, grids and scorers that cannot be used.
    RecordError
        If `out` holds a run with other settings, another process is writing it, or
        the disk is full.
    VideoError
        With ``on_error="raise"``.
    """
    if protocol not in _ORDERS_OF:
        raise DatasetError(
            f"protocol {protocol!r} is not one of {', '.join(_ORDERS_OF)}"
        )
    if on_error not in ("mark", "raise"):
        raise DatasetError(f'on_error must be "mark" or "raise", not {on_error!r}')
    if limit is not None and limit < 1:
        raise DatasetError(f"limit must be >= 1, not {limit}")
    grid = PhaseGrid(
        budget, 1 if protocol == "quick" else phases, origin, by=by, short=short
    )
    arms = _arms(protocol, grid, dense)
    items, source = _questions(questions)
    order_settings = _order_settings(orders or _ORDERS_OF[protocol], n_orders, seed)
    description = {
        "settings": {
            "protocol": protocol,
            "grid": grid.to_dict(),
            "dense": dense if protocol == "phasefusion" else None,
            "arms": [
                {"arm": arm.name, "shifted": arm.shifted, **arm.grid.to_dict()}
                for arm in arms
            ],
            "orders": order_settings,
            "seed": seed,
            "on_error": on_error,
            "questions_sha256": source["sha256"],
            "scorer": _describe(scorer),
        },
        "versions": versions(),
        "questions": source,
        "host": {"platform": platform.platform(), "machine": platform.machine()},
        "command": list(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with RunWriter(out, description) as writer:
        job = _Job(
            scorer=scorer,
            writer=writer,
            arms=arms,
            orders_of=lambda k: _orders(order_settings, k),
            seed=seed,
            threads=threads,
            on_error=on_error,
        )
        n_before = len(writer.done)
        job.run(items[:limit], progress)
        return Run(Path(out), len(writer.done), len(writer.done) - n_before)


def _arms(protocol: str, grid: PhaseGrid, dense: int) -> list[Arm]:
    """Every grid of the protocol that has passes of its own."""
    if protocol == "quick":
        return [Arm("single", False, grid)]
    if protocol == "stableeval":
        return [Arm("phase", False, grid)]
    single = replace_grid(grid, budget=grid.budget, phases=1)
    arms = []
    for shifted in (False, True):
        view = (lambda g: g.shifted("half")) if shifted else (lambda g: g)
        arms.append(Arm("phase", shifted, view(grid)))
        arms.append(Arm("union", shifted, view(grid.union())))
        if not has_single_view(view(grid), view(single)):
            arms.append(Arm("single", shifted, view(single)))
        dense_grid = replace_grid(grid, budget=dense, phases=1)
        arms.append(Arm("dense", shifted, view(dense_grid)))
    return arms


def replace_grid(grid: PhaseGrid, *, budget: int, phases: int) -> PhaseGrid:
    """Return a grid of another size with the same conventions."""
    return PhaseGrid(budget, phases, grid.origin, by=grid.by, short=grid.short)


def has_single_view(grid: PhaseGrid, single: PhaseGrid) -> bool:
    """Whether the single pass is one of the phase views, on clips of any length.

    With ``short="unique"`` a short clip gets fewer phases, and then it may not be.
    """
    return grid.short != "unique" and single.origin in grid.phase_fractions


def _questions(
    questions: str | Path | Sequence[Item],
) -> tuple[list[Item], dict[str, Any]]:
    """Items, and what identifies them in run.json."""
    if isinstance(questions, str | Path):
        path = Path(questions)
        items = load_questions(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return items, {"file": str(path), "sha256": digest, "n": len(items)}
    items = list(questions)
    if not items:
        raise DatasetError("questions is empty; there is nothing to score")
    text = orjson.dumps([asdict(item) for item in items], option=orjson.OPT_SORT_KEYS)
    return items, {
        "file": None,
        "sha256": hashlib.sha256(text).hexdigest(),
        "n": len(items),
    }


def _order_settings(kind: str, n_orders: int, seed: int) -> dict[str, Any]:
    if kind == "shared":
        return {"kind": kind, "n": n_orders, "seed": seed}
    return {"kind": kind}


def _orders(settings: Mapping[str, Any], n_options: int) -> NDArray[np.int64]:
    """Orders of K options without repeats, shape (M, K), first occurrences first."""
    kind = settings["kind"]
    if kind == "shared":
        table = option_orders.shared(n_options, settings["n"], settings["seed"])
    elif kind == "identity":
        table = option_orders.identity(n_options)
    elif kind == "latin":
        table = option_orders.latin(n_options)
    elif kind == "cyclic":
        table = option_orders.cyclic(n_options)
    elif kind == "all":
        table = option_orders.all_orders(n_options)
    else:
        raise DatasetError(
            f"orders {kind!r} is not one of identity, shared, latin, cyclic, all"
        )
    _, first = np.unique(table, axis=0, return_index=True)
    return table[np.sort(first)]


def _describe(scorer: Scorer) -> dict[str, Any]:
    described = getattr(scorer, "describe", None)
    kind = type(scorer)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        **(described() if callable(described) else {}),
    }


def versions() -> dict[str, Any]:
    """Versions of all that can change a result; None for what is not there."""
    from phasefusion import __version__
    from phasefusion.video import ffmpeg_versions

    found: dict[str, Any] = {
        "phasefusion": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ffmpeg": ffmpeg_versions(),
    }
    for name in _PACKAGES:  # those that the scorer has loaded
        found[name] = metadata.version(name) if name in sys.modules else None
    return found


@dataclass(frozen=True, slots=True)
class _Job:
    """What stays the same over all videos of one call of `evaluate`."""

    scorer: Scorer
    writer: RunWriter
    arms: Sequence[Arm]
    orders_of: Callable[[int], NDArray[np.int64]]
    seed: int
    threads: int
    on_error: Literal["mark", "raise"]

    def run(self, items: Sequence[Item], show: bool | Listener | None) -> None:
        """Make every pass of `items` that is not on disk, video by video."""
        groups: dict[tuple[str, float | None, float | None], list[Item]] = {}
        total = done = 0
        for item in items:
            left = [self._left(item, arm).ravel() for arm in self.arms]
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
        """Passes of an arm that are not on disk, shape (S, M)."""
        order_keys = [
            tuple(order) for order in self.orders_of(len(item.options)).tolist()
        ]
        done = self.writer.done
        head = (item.benchmark, item.question_id, arm.name, arm.shifted)
        return np.array(
            [
                [(*head, s, order) not in done for order in order_keys]
                for s in range(arm.grid.phases if n_phases is None else n_phases)
            ]
        )

    def _run_video(self, group: Sequence[Item], advance: Advance) -> None:
        """Decode once for all arms, both origins and all questions of a video."""
        arms = [
            arm
            for arm in self.arms
            if any(self._left(item, arm).any() for item in group)
        ]
        try:
            clips = read_clips(
                group[0].video,
                [arm.grid for arm in arms],
                threads=self.threads,
                on_error=self.on_error,
            )
        except (VideoError, GridError, FileNotFoundError) as error:
            if self.on_error == "raise":
                raise
            for item in group:
                for arm in arms:
                    left = self._left(item, arm)
                    self._mark(item, arm, None, left, str(error))
                    advance(int(left.sum()), item.video_id)
            return
        for item in group:
            for arm, clip in zip(arms, clips, strict=True):
                self._run_arm(item, arm, clip, advance)

    def _run_arm(self, item: Item, arm: Arm, clip: Clip, advance: Advance) -> None:
        """Score one arm of one item, in as few calls as what is on disk allows."""
        orders = self.orders_of(len(item.options))
        n_phases = clip.frames.shape[0]
        left = self._left(item, arm, n_phases)
        undecoded = clip.missing.any(axis=1)
        for s in np.flatnonzero(undecoded & left.any(axis=1)):
            frames = clip.indices[s][clip.missing[s]].tolist()
            rows = left & (np.arange(n_phases) == s)[:, None]
            self._mark(item, arm, clip, rows, f"frames {frames} did not decode")
            advance(int(rows.sum()), item.video_id)
        left[undecoded] = False
        for view, phases, columns in _blocks(clip, left):
            start_s = time.perf_counter()
            scores = self.scorer.score(
                view, item.question, item.options, orders=orders[columns]
            )
            n_scored = len(phases) * len(columns)
            seconds = (time.perf_counter() - start_s) / n_scored
            self.writer.append(
                self._records(item, arm, clip, scores, phases, orders[columns], seconds)
            )
            advance(n_scored, item.video_id)

    def _records(
        self,
        item: Item,
        arm: Arm,
        clip: Clip,
        scores: OptionScores,
        phases: Sequence[int],
        orders: NDArray[np.int64],
        seconds: float,
    ) -> Iterator[dict[str, Any]]:
        """One record a pass, phase by phase, order by order."""
        content = check_scores(
            self.scorer, scores, (len(phases), len(orders), len(item.options))
        )
        if item.same_options != tuple(range(len(item.options))):
            content = merge_repeats(content, item.same_options)
        flat = content.reshape(1, -1, len(item.options))
        with np.errstate(invalid="ignore"):
            fused = fuse(flat, over="phase", item_id=item.question_id, seed=self.seed)
        answers = np.reshape(fused.answer, content.shape[:2])
        for p, s in enumerate(phases):
            base = self._base(item, arm, s, clip)
            for m, order in enumerate(orders):
                values = content[p, m]
                reason = _why_invalid(values, scores.notes)
                mass = scores.option_mass[p, m]
                yield base | {
                    "order": order.tolist(),
                    "logprobs": None if reason else values[order].tolist(),
                    "answer": None if reason else int(answers[p, m]),
                    "path": "logit",
                    "text": None,
                    "option_mass": float(mass) if np.isfinite(mass) else None,
                    "seconds": seconds,
                    "invalid": reason,
                }

    def _mark(
        self,
        item: Item,
        arm: Arm,
        clip: Clip | None,
        left: NDArray[np.bool_],
        reason: str,
    ) -> None:
        """Record passes that cannot be made, with the reason."""
        orders = self.orders_of(len(item.options))
        self.writer.append(
            self._base(item, arm, int(s), clip)
            | {
                "order": orders[m].tolist(),
                "logprobs": None,
                "answer": None,
                "path": "logit",
                "text": None,
                "option_mass": None,
                "seconds": None,
                "invalid": f"video: {reason}",
            }
            for s, m in np.argwhere(left)
        )

    def _base(self, item: Item, arm: Arm, s: int, clip: Clip | None) -> dict[str, Any]:
        """Return the fields that the passes of one phase share."""
        n_phases, budget = arm.grid.phases, arm.grid.budget
        if clip is not None:
            n_phases, budget = clip.frames.shape[:2]
        phase = Fraction(s + arm.grid.origin) / n_phases
        same = item.same_options
        repeats = same != tuple(range(len(same)))
        n_frames, duration_s = (
            (None, None) if clip is None else (clip.info.n_frames, clip.info.duration_s)
        )
        return {
            "question_id": item.question_id,
            "benchmark": item.benchmark,
            "video_id": item.video_id,
            "type": item.type,
            "n_options": len(item.options),
            "gold": None if item.gold is None else same[item.gold],
            **({"same_options": list(same)} if repeats else {}),
            "arm": arm.name,
            "shifted": arm.shifted,
            "budget": budget,
            "n_phases": n_phases,
            "origin": list(arm.grid.origin.as_integer_ratio()),
            "phase": list(phase.as_integer_ratio()),
            "phase_index": s,
            "n_frames": n_frames,
            "duration_s": duration_s,
            "frame_indices": None if clip is None else clip.indices[s].tolist(),
            "frame_times_s": (
                None if clip is None else clip.times_s[s].round(6).tolist()
            ),
        }


def _blocks(
    clip: Clip, left: NDArray[np.bool_]
) -> Iterator[tuple[Clip, list[int], NDArray[np.intp]]]:
    """Cut what is left into calls of the scorer: all at once, or phase by phase."""
    if left.all():
        yield clip, list(range(left.shape[0])), np.arange(left.shape[1])
        return
    for s in np.flatnonzero(left.any(axis=1)).tolist():
        view = replace(
            clip,
            frames=clip.frames[s : s + 1],
            indices=clip.indices[s : s + 1],
            times_s=clip.times_s[s : s + 1],
            missing=clip.missing[s : s + 1],
            grid=clip.grid.view(s),
        )
        yield view, [s], np.flatnonzero(left[s])


def check_scores(
    scorer: Scorer, scores: OptionScores, shape: tuple[int, int, int]
) -> NDArray[np.float64]:
    """Return the log-probabilities when they are what a scorer must return."""
    name = type(scorer).__name__
    content = np.asarray(scores.logprobs, np.float64)
    mass = np.asarray(scores.option_mass, np.float64)
    if content.shape != shape or mass.shape != shape[:2]:
        raise ScoringError(
            f"{name}.score returned logprobs of shape {content.shape} and option_mass "
            f"of shape {mass.shape} for (phases, orders, options) = {shape}"
        )
    finite = content[np.isfinite(content)]
    if finite.size and finite.max() > 1e-6:
        raise ScoringError(
            f"{name}.score returned a log-probability of {finite.max():.6g}; it must "
            "be <= 0. Logits need a log-softmax first, losses a change of sign"
        )
    return content


def _why_invalid(values: NDArray[np.float64], notes: Sequence[str]) -> str | None:
    """Why the log-probabilities of a pass cannot be used; None when they can."""
    if np.isnan(values).any():
        reason = "scores: NaN"
    elif np.isposinf(values).any():
        reason = "scores: +inf"
    elif not np.isfinite(values).any():
        reason = "scores: no option has any probability"
    else:
        return None
    return "; ".join([reason, *notes])
