"""Evaluate a scorer: every arm, phase and option order of a protocol, resumable."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from phasefusion import orders as option_orders
from phasefusion._cached_clips import as_cache
from phasefusion._runner import Arm, Runner, check_scorer
from phasefusion._versions import versions as versions
from phasefusion._video_checks import check_threads
from phasefusion.datasets import Dataset, Item, load_questions, read
from phasefusion.datasets.loading import warn_about
from phasefusion.errors import DatasetError
from phasefusion.grid import PhaseGrid
from phasefusion.records import RunWriter
from phasefusion.video import CacheArgument

if TYPE_CHECKING:
    from phasefusion.grid import By, Origin, Short
    from phasefusion.progress import Listener
    from phasefusion.records import Passes
    from phasefusion.report import Report
    from phasefusion.scoring.protocol import Scorer

ProtocolName: TypeAlias = Literal["phasefusion", "stableeval", "quick"]
OrdersName: TypeAlias = Literal["identity", "shared", "latin", "cyclic", "all"]

_ORDERS_OF: dict[str, OrdersName] = {
    "phasefusion": "shared",
    "stableeval": "latin",
    "quick": "identity",
}


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
    cache: CacheArgument = None,
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
        A question file (see `phasefusion.datasets.load_questions`), a folder of a
        dataset, its items, or what `phasefusion.datasets.read` returns, whose account
        is then kept in the run.
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
        What a video, or a frame of one, gets that does not decode, and a pass whose
        scores are NaN, +inf or all -inf: passes recorded as missing with the reason, or
        the error.
    progress : bool or callable, optional
        None is a bar on a terminal and a rare line elsewhere, False is silence, and a
        callable gets ``(passes done, passes in all, video)``.
    cache : FrameCache or path of a folder, optional
        Where decoded frames are kept for the next run over the same videos; by default
        nowhere. Questions with a start or an end are decoded each time.

    Returns
    -------
    Run

    Raises
    ------
    DatasetError, GridError, ScoringError
        For questions, grids and scorers that cannot be used.
    BackendUnavailableError
        If phasefusion was built without FFmpeg.
    RecordError
        If `out` holds a run with other settings, another process is writing it, or
        the disk is full.
    VideoError
        If `threads` is out of range; with ``on_error="raise"``, if a video or a frame
        does not decode.
    """
    if protocol not in _ORDERS_OF:
        raise DatasetError(
            f"protocol {protocol!r} is not one of {', '.join(_ORDERS_OF)}"
        )
    if on_error not in ("mark", "raise"):
        raise DatasetError(f'on_error must be "mark" or "raise", not {on_error!r}')
    if limit is not None and limit < 1:
        raise DatasetError(f"limit must be >= 1, not {limit}")
    check_scorer(scorer)
    threads = check_threads(threads)
    grid = PhaseGrid(
        budget, 1 if protocol == "quick" else phases, origin, by=by, short=short
    )
    arms = _arms(protocol, grid, dense)
    items, source = _questions(questions)
    order_settings = _order_settings(orders or _ORDERS_OF[protocol], n_orders, seed)
    orders_of = {
        k: _orders(order_settings, k) for k in {len(item.options) for item in items}
    }
    described = _describe(scorer)
    # Files identify a local model; where they lie may differ when the run goes on.
    place = described.pop("path", None) if "sha256" in described else None
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
            "scorer": described,
        },
        "versions": versions(),
        "questions": source,
        "model": {"path": place},
        "host": {"platform": platform.platform(), "machine": platform.machine()},
        "command": list(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with RunWriter(out, description) as writer:
        runner = Runner(
            scorer=scorer,
            writer=writer,
            arms=arms,
            orders_of=orders_of,
            seed=seed,
            threads=threads,
            on_error=on_error,
            cache=None if cache is None else as_cache(cache),
        )
        n_before = len(writer.done)
        runner.run(items[:limit], progress)
        return Run(Path(out), len(writer.done), len(writer.done) - n_before)


def _arms(protocol: str, grid: PhaseGrid, dense: int) -> list[Arm]:
    """Every grid of the protocol that has passes of its own."""
    if protocol == "quick":
        return [Arm("single", False, grid)]
    if protocol == "stableeval":
        return [Arm("phase", False, grid)]
    single, dense_grid = _resized(grid, grid.budget), _resized(grid, dense)
    arms = []
    for shifted in (False, True):
        phases = _placed(grid, shifted)
        arms.append(Arm("phase", shifted, phases))
        arms.append(Arm("union", shifted, _placed(grid.union(), shifted)))
        if not _has_view(phases, _placed(single, shifted)):
            arms.append(Arm("single", shifted, _placed(single, shifted)))
        arms.append(Arm("dense", shifted, _placed(dense_grid, shifted)))
    return arms


def _resized(grid: PhaseGrid, budget: int) -> PhaseGrid:
    """Return a grid of one phase with the same conventions."""
    return PhaseGrid(budget, 1, grid.origin, by=grid.by, short=grid.short)


def _placed(grid: PhaseGrid, shifted: bool) -> PhaseGrid:
    return grid.shifted("half") if shifted else grid


def _has_view(grid: PhaseGrid, single: PhaseGrid) -> bool:
    """Whether the single pass is one of the phase views, on clips of any length.

    With ``short="unique"`` a short clip gets fewer phases, and then it may not be.
    """
    return grid.short != "unique" and single.origin in grid.phase_fractions


def _questions(
    questions: str | Path | Sequence[Item],
) -> tuple[list[Item], dict[str, Any]]:
    """Items, and what identifies them in run.json."""
    if isinstance(questions, str | Path) and Path(questions).is_dir():
        questions = read("auto", questions)
        warn_about(questions.report)
    if isinstance(questions, Dataset):
        return list(questions), _about(questions)
    if isinstance(questions, str | Path):
        path = Path(questions)
        items = load_questions(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return items, {
            "file": str(path),
            "sha256": digest,
            "n": len(items),
            "items": _hashes(items),
        }
    items = list(questions)
    if not items:
        raise DatasetError("questions is empty; there is nothing to score")
    _check_items(items)
    text = orjson.dumps([asdict(item) for item in items], option=orjson.OPT_SORT_KEYS)
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
        facts = asdict(item) | {"video": Path(item.video).name}
        if item.subtitles is not None and item.subtitles.path is not None:
            facts["subtitles"]["path"] = Path(item.subtitles.path).name
        text = json.dumps(facts, sort_keys=True, default=repr)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        found.setdefault(item.benchmark, {})[item.question_id] = digest
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
