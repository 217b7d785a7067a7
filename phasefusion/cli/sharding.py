"""Runs in parts: what `run` needs for shards and engines, and putting shards together.

What a worker is and who does what is in `phasefusion.engine`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion._scorers import load_model, load_scorer
from phasefusion._wording import counted
from phasefusion.cli.application import JsonFlag, SameScorer, app, examples
from phasefusion.errors import UsageError

if TYPE_CHECKING:
    from phasefusion.engine import EngineArgument
    from phasefusion.evaluate import Run


class EngineName(StrEnum):
    """Where `run` makes passes."""

    local = "local"
    ray = "ray"


ShardOption = Annotated[
    str | None,
    typer.Option(
        help="Only this part of the questions, such as 2/4, in a folder of its own; "
        "auto is the part of this process under torchrun, accelerate launch, srun or "
        "mpirun."
    ),
]
EngineOption = Annotated[
    EngineName, typer.Option(help="Score in this process, or by a Ray cluster.")
]
WorkersOption = Annotated[
    int | None, typer.Option(help="Workers: of --engine ray (one a device).")
]


def find_scorer(
    model: str | None,
    scorer: str | None,
    options: Mapping[str, Any],
    engine: EngineName,
    shard: str | None,
) -> Any:
    """Make the scorer, or say how workers make it."""
    options = dict(options)
    if engine is EngineName.ray:
        from phasefusion.engine import ScorerSpec

        if ":" in str(options.get("device", "")):
            raise typer.BadParameter(
                f"--device {options['device']}: every worker has a device of its own; "
                "leave the number out"
            )
        return ScorerSpec(model=model, scorer=scorer, options=options)
    if scorer is not None:
        try:
            return load_scorer(scorer)
        except UsageError as error:
            raise typer.BadParameter(str(error)) from None
    if shard == "auto" and "device" not in options:
        from phasefusion.engine.shards import launched_device

        device = launched_device(os.environ)
        options |= {} if device is None else {"device": device}
    return load_model(str(model), **options)


def find_engine(
    engine: EngineName, workers: int | None, device: str | None
) -> EngineArgument:
    """Return the engine with what the command line says of it."""
    if engine is EngineName.local:
        if workers is not None:
            raise typer.BadParameter("--workers goes with --engine ray")
        return "local"
    from phasefusion.engine import RayEngine

    return RayEngine(workers=workers, gpus=0.0 if device == "cpu" else None)


def show_shard(run: Run, shard: str, as_json: bool) -> None:
    """Say where a shard is; a report is of the whole run."""
    whole, _, name = run.path.name.rpartition(".shard-")
    if as_json:
        found = {"run": str(run.path), "shard": name, "passes": run.n_passes}
        print(json.dumps(found | {"new": run.n_new}))
        return
    folder = run.path.with_name(whole)
    passes = counted(run.n_passes, "pass", "passes")
    print(f"written: {run.path}, {passes}, {run.n_new} of them new")
    print(f"when all shards are: phasefusion merge {folder}.shard-* --out {folder}")


@app.command(
    epilog=examples(
        "phasefusion merge runs/a.shard-* --out runs/a",
        "phasefusion run q.jsonl --model path --shard 1/2 --out runs/a",
    )
)
def merge(
    shards: Annotated[
        list[Path], typer.Argument(metavar="SHARD...", help="Run folders, all of them.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write: the run folder.")
    ],
    same_scorer: SameScorer = False,
    as_json: JsonFlag = False,
) -> None:
    """Make one run of all its shards; the same command then goes on with it."""
    from phasefusion.engine import merge_shards

    n_passes = merge_shards(shards, out, same_scorer=same_scorer)
    if as_json:
        print(json.dumps({"run": str(out), "passes": n_passes, "shards": len(shards)}))
    else:
        passes = counted(n_passes, "pass", "passes")
        print(f"written: {out}, {passes} of {counted(len(shards), 'shard')}")
