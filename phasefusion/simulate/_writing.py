"""Corpora as run folders."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasefusion.errors import StatisticsError
from phasefusion.grid import PhaseGrid
from phasefusion.protocols import get
from phasefusion.protocols.arms import ArmSpec
from phasefusion.records import RunWriter

if TYPE_CHECKING:
    from phasefusion.simulate import Corpus

_FPS = 30.0


def write(
    corpus: Corpus, folder: Path, reruns: int, frames: bool, protocol: str
) -> list[Path]:
    """Write a run folder a model and re-run; see `Corpus.write`."""
    chosen = arms(corpus, protocol)
    paths = []
    for model in range(corpus.design.n_models):
        for rerun in range(reruns + 1):
            name = f"model-{model}" + (f"-rerun-{rerun}" if rerun else "")
            path = folder / name
            with RunWriter(
                path,
                _description(corpus, model, rerun, protocol, chosen),
                fsync_every_s=3600.0,
            ) as writer:
                for arm, shifted in chosen:
                    records = _records(corpus, arm, shifted, model, rerun, frames)
                    writer.append(records)
            paths.append(path)
    return paths


def arms(corpus: Corpus, protocol: str = "phasefusion") -> list[tuple[str, bool]]:
    """List the recorded arms, the single pass only where it is none of the views."""
    wanted = get(protocol)
    specs = wanted.arms
    for spec in specs:
        if spec != ArmSpec(spec.grid, twin=spec.twin) or wanted.varies:
            raise StatisticsError(
                f"protocol {protocol!r} varies prompts, samplers, budgets, origins or "
                "repetitions, which no corpus has"
            )
    names = [spec.grid for spec in specs]
    found: list[tuple[str, bool]] = []
    for shifted in (False, True):
        views = corpus.grid("phase", shifted)
        single = corpus.grid("single", shifted).phase(0)
        is_view = single in [views.phase(s) for s in range(views.phases)]
        for name in names:
            if name == "single" and "phase" in names and is_view:
                continue
            if not shifted or specs[names.index(name)].twin:
                found.append((name, shifted))
    return found


def _description(
    corpus: Corpus,
    model: int,
    rerun: int,
    protocol: str,
    chosen: list[tuple[str, bool]],
) -> dict[str, Any]:
    from phasefusion import __version__

    design = corpus.design
    kinds: dict[str, Any] = {"kind": design.orders}
    if design.orders == "shared":
        kinds |= {"n": design.n_orders, "seed": design.seed}
    made_with = {"design": _plain(asdict(design)), "effects": asdict(corpus.effects)}
    digest = hashlib.sha256(repr(made_with).encode()).hexdigest()
    questions = _hashes(corpus)
    of_questions = hashlib.sha256(repr(questions).encode()).hexdigest()
    return {
        "settings": {
            "protocol": protocol,
            "grid": design.grid.to_dict(),
            "dense": design.dense,
            "arms": [
                {"arm": arm, "shifted": shifted, **corpus.grid(arm, shifted).to_dict()}
                for arm, shifted in chosen
            ],
            "orders": kinds,
            "seed": design.seed,
            "on_error": "mark",
            "questions_sha256": of_questions,
            "scorer": {
                "class": "phasefusion.simulate.Corpus",
                "id": f"simulated-{model}",
                "rerun": rerun,
                "simulation_sha256": digest,
            },
        },
        "versions": {
            "phasefusion": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "questions": {
            "file": None,
            "sha256": of_questions,
            "n": design.n_items,
            "items": questions,
        },
        "model": {"path": None},
        "simulation": made_with,
    }


def _hashes(corpus: Corpus) -> dict[str, dict[str, str]]:
    """Short hash of every question by benchmark and id: of all that is asked of it."""
    world, names = corpus.world, corpus.design.benchmarks
    found: dict[str, dict[str, str]] = {}
    for i, question_id in enumerate(corpus.question_ids):
        video = int(world.video[i])
        asked = (video, int(world.n_options[i]), int(world.gold[i]))
        digest = hashlib.sha256(repr(asked).encode()).hexdigest()[:12]
        found.setdefault(names[video % len(names)], {})[question_id] = digest
    return found


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fractions as text, mappings with text as keys."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Fraction):
            made[name] = str(value)
        elif isinstance(value, Mapping):
            made[name] = {str(k): v for k, v in value.items()}
        else:
            made[name] = value
    return made


def _frames_of(
    corpus: Corpus, grid: PhaseGrid
) -> dict[int, tuple[list[list[int]], list[list[float]]]]:
    """Frame indices and times of every video, by phase."""
    found = {}
    for video, n_frames in dict(
        zip(corpus.video.tolist(), corpus.world.n_frames.tolist(), strict=True)
    ).items():
        indices = grid.indices(n_frames)
        found[video] = (indices.tolist(), (indices / _FPS).round(6).tolist())
    return found


def _records(
    corpus: Corpus, arm: str, shifted: bool, model: int, rerun: int, frames: bool
) -> Iterator[dict[str, Any]]:
    """Yield one record a pass, item by item, phase by phase, order by order."""
    world, design = corpus.world, corpus.design
    grid = corpus.grid(arm, shifted)
    content = corpus.logprobs(arm, model=model, shifted=shifted, rerun=rerun)
    letters = np.take_along_axis(content, np.maximum(world.order, 0)[:, None], axis=3)
    missing = np.isnan(content[..., 0])
    mass = np.exp(content).sum(axis=3)
    answers = np.where(missing[..., None], -np.inf, content).argmax(axis=3)
    shown = _frames_of(corpus, grid) if frames else {}
    phases = [grid.phase(s) for s in range(grid.phases)]
    names = design.benchmarks
    lists = world.order.tolist()
    for i, question_id in enumerate(corpus.question_ids):
        video, k = int(world.video[i]), int(world.n_options[i])
        n_frames = int(world.n_frames[i])
        head = {
            "question_id": question_id,
            "benchmark": names[video % len(names)],
            "video_id": f"v{video:05d}",
            "type": None,
            "n_options": k,
            "gold": int(world.gold[i]),
            "arm": arm,
            "shifted": shifted,
            "budget": grid.budget,
            "n_phases": grid.phases,
            "origin": list(grid.origin.as_integer_ratio()),
        }
        orders = [row[:k] for row in lists[i][: int(world.n_orders[i])]]
        rows = letters[i, :, :, :k].tolist()
        for s, phase in enumerate(phases):
            fields = head | {
                "phase": list(phase.as_integer_ratio()),
                "phase_index": s,
                "n_frames": n_frames,
                "duration_s": n_frames / _FPS,
                "frame_indices": shown[video][0][s] if frames else None,
                "frame_times_s": shown[video][1][s] if frames else None,
            }
            for m, order in enumerate(orders):
                lost = bool(missing[i, s, m])
                yield fields | {
                    "order": order,
                    "logprobs": None if lost else rows[s][m],
                    "answer": None if lost else int(answers[i, s, m]),
                    "path": "logit",
                    "text": None,
                    "option_mass": None if lost else float(mass[i, s, m]),
                    "seconds": None,
                    "invalid": "simulated: lost" if lost else None,
                }
