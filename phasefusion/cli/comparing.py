"""The command that compares two runs."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from phasefusion.cli.application import (
    ALPHA_HELP,
    CLUSTER_HELP,
    MARGIN_HELP,
    JsonFlag,
    MarkdownFlag,
    app,
    console,
    examples,
    fraction_of_percent,
)


class Answers(StrEnum):
    """Which answer of an item is compared."""

    consensus = "consensus"
    first = "first"


class Clusters(StrEnum):
    """What items of one cluster share."""

    auto = "auto"
    question = "question"
    video = "video"


class Unparsed(StrEnum):
    """What a text that names no option is."""

    wrong = "wrong"
    drop = "drop"


@app.command(
    epilog=examples(
        "phasefusion compare runs/a runs/b",
        "phasefusion compare runs/a runs/b --arm single --cluster video",
        "phasefusion compare runs/a runs/a --arm fused --against union",
        "phasefusion compare runs/a runs/b --save-items differ.csv",
        "phasefusion compare runs/a runs/b --markdown > compare.md",
    )
)
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Run folder.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Run folder.")],
    arm: Annotated[
        str | None,
        typer.Option(
            help="Arm: of both; single, 'phase 0', fused, vote, union, dense, or as "
            "imported (fused where there is one, else single)."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare with: another arm, of B.")
    ] = None,
    answer: Annotated[
        Answers, typer.Option(help="Plurality over option orders, or the first.")
    ] = Answers.consensus,
    cluster: Annotated[
        Clusters,
        typer.Option(help=CLUSTER_HELP),
    ] = Clusters.auto,
    unparsed: Annotated[
        Unparsed, typer.Option(help="Texts that name no option.")
    ] = Unparsed.wrong,
    margin: Annotated[float, typer.Option(min=0, max=100, help=MARGIN_HELP)] = 2.5,
    alpha: Annotated[float, typer.Option(help=ALPHA_HELP)] = 0.05,
    items: Annotated[
        Path | None,
        typer.Option("--save-items", help="CSV file to write, a row a differing item."),
    ] = None,
    markdown: MarkdownFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare two runs on the same questions: accuracy, answers, and why they differ.

    Runs made here and runs imported from the logs of a harness can be compared.
    """
    from phasefusion.compare import compare as make

    if markdown and as_json:
        raise typer.BadParameter("give either --markdown or --json")
    made = make(
        a,
        b,
        arm=arm,
        against=against,
        answer=answer.value,
        cluster=cluster.value,
        unparsed=unparsed.value,
        margin=fraction_of_percent("--margin", margin, closed=False),
        alpha=alpha,
    )
    if items is not None:
        made.write_items(items)
    if as_json:
        print(json.dumps(made.to_dict(), allow_nan=False))
    elif markdown:
        print(made.to_markdown(), end="")
    else:
        console().print(made)
    if items is not None:
        print(f"phasefusion: written: {items}", file=sys.stderr)
