"""The command that finds the threshold of adaptive phases."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from phasefusion.cli.application import JsonFlag, app, console, examples


class Target(StrEnum):
    """What may change."""

    full = "full"
    half_step = "half-step"


class PooledOrders(StrEnum):
    """Option orders that a phase is asked in."""

    first = "first"
    all = "all"


@app.command(
    epilog=examples(
        "phasefusion run val.jsonl --model path --phases 6 --out runs/all",
        "phasefusion calibrate runs/all --alpha 0.05 --delta 0.1",
        "phasefusion run test.jsonl --model path --phases 6 --protocol adaptive "
        "--threshold 1.4",
    )
    + "\n\nExit status 0; 3 when no threshold can be certified; 2 for bad input. What "
    "is certified and what it costs is described in docs/adaptive.md."
)
def calibrate(
    run: Annotated[
        Path, typer.Argument(help="Run folder in which all phases were scored.")
    ],
    alpha: Annotated[
        float, typer.Option(help="Share of answers that may be changed.")
    ] = 0.05,
    delta: Annotated[
        float, typer.Option(help="Probability that more are, allowed.")
    ] = 0.1,
    target: Annotated[
        Target,
        typer.Option(help="Changed against all phases, or against half a step on."),
    ] = Target.full,
    orders: Annotated[
        PooledOrders,
        typer.Option(help="Ask in the first option order, or average over all."),
    ] = PooledOrders.first,
    by_question: Annotated[
        bool,
        typer.Option(
            "--by-question", help="Take questions of one video for independent."
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Find the margin from which the protocol adaptive may stop asking for phases."""
    from phasefusion.calibrate import calibrate as find

    named: Any = {"target": target.value, "orders": orders.value}
    made = find(run, alpha=alpha, delta=delta, by_video=not by_question, **named)
    if as_json:
        print(json.dumps(made.to_dict(), allow_nan=False))
    else:
        console().print(made)
    if not made.certified.certified:
        raise typer.Exit(3)
