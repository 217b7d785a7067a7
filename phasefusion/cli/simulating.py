"""The command that makes runs with known effects."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion.cli.application import (
    Budget,
    JsonFlag,
    Origin,
    Phases,
    examples,
    print_table,
)
from phasefusion.cli.records import records
from phasefusion.errors import StatisticsError

if TYPE_CHECKING:
    from phasefusion.simulate import Estimand


@records.command(
    epilog=examples(
        "phasefusion records simulate --out runs/made",
        "phasefusion records simulate --out runs/made --n-models 2 --reruns 1 --truth",
        "phasefusion records simulate --out runs/flat --effect phase_sd=0",
    )
)
def simulate(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Where to write: the folder of the runs."),
    ],
    videos: Annotated[
        int, typer.Option("--n-videos", min=1, help="Videos, the clusters.")
    ] = 200,
    questions: Annotated[
        int, typer.Option("--questions-per-video", min=1, help="Questions a video.")
    ] = 3,
    models: Annotated[int, typer.Option("--n-models", min=1, help="Models.")] = 1,
    reruns: Annotated[int, typer.Option(min=0, help="Re-runs of every model.")] = 0,
    budget: Budget = 8,
    phases: Phases = 3,
    origin: Origin = "midpoint",
    dense: Annotated[int, typer.Option(help="Frames of the dense pass.")] = 32,
    orders: Annotated[
        str, typer.Option(help="Option orders: shared, cyclic, identity or all.")
    ] = "shared",
    n_orders: Annotated[int, typer.Option(min=1, help="Shared orders.")] = 10,
    options: Annotated[
        str,
        typer.Option(
            "--n-options", help="Options a question: numbers and their weights."
        ),
    ] = "3=0.2,4=0.5,5=0.3",
    effect: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE in nats, again for more: ability, video_sd, item_sd, "
            "option_sd, phase_sd, order_sd, position_bias, noise_sd, budget_gain, "
            "shared, missing."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed: the same makes the same runs.")
    ] = 0,
    truth: Annotated[
        bool,
        typer.Option("--truth", help="Also evaluate what the statistics estimate."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make runs of made-up models, with effects of phase and order that are known.

    Every command that reads runs works on them.
    """
    from phasefusion.simulate import Effects, corpus

    made = corpus(
        Effects(**_effects(effect or [], [f.name for f in fields(Effects)])),
        n_videos=videos,
        questions_per_video=questions,
        n_models=models,
        budget=budget,
        phases=phases,
        origin=origin,
        dense=dense,
        orders=orders,
        n_orders=n_orders,
        n_options=_options(options),
        seed=seed,
    )
    paths = made.write(out, reruns=reruns)
    found = made.truth() if truth else {}
    if as_json:
        values = {name: asdict(value) for name, value in found.items()}
        runs = [str(path) for path in paths]
        print(json.dumps({"runs": runs, "items": made.design.n_items, "truth": values}))
        return
    print(made)
    for path in paths:
        print(f"  {path}")
    if found:
        print_table("What the statistics estimate", *_truth_table(found))
    print(f"Next: phasefusion report {paths[0]}")


def _truth_table(found: dict[str, Estimand]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [name, f"{value.value:.4f}", f"{value.se:.4f}", value.how]
        for name, value in found.items()
    ]
    return ["estimand", "value", "standard error", "by"], rows


def _effects(given: list[str], names: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in names:
            raise StatisticsError(
                f"--effect {text}: {name!r} is not one of {', '.join(names)}"
            )
        found[name] = _number(value, f"--effect {text}")
    return found


def _options(text: str) -> dict[int, float]:
    found: dict[int, float] = {}
    for part in text.split(","):
        count, _, weight = part.partition("=")
        if not count.strip().isdecimal():
            raise StatisticsError(
                f"--n-options {text}: {count!r} is no number of options; give such as "
                "4 or 3=0.5,4=0.5"
            )
        found[int(count)] = _number(weight or "1", f"--n-options {text}")
    return found


def _number(text: str, where: str) -> Any:
    try:
        return float(text)
    except ValueError:
        raise StatisticsError(f"{where}: {text!r} is no number") from None
