"""Commands that keep batches over time and say what changed."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from phasefusion.cli.application import JsonFlag, app, console, examples

monitor = typer.Typer(
    no_args_is_help=True,
    help="Batches over time: what left its chart, and since when.",
    epilog="A history is an SQLite file; see docs/gate.md.",
)
app.add_typer(monitor, name="monitor")


class By(StrEnum):
    """What items of one cluster share."""

    video = "video"
    question = "question"


class Allowed(StrEnum):
    """Differences from the first batch that are noted instead of refused."""

    sampling = "sampling"
    orders = "orders"


History = Annotated[Path, typer.Argument(metavar="HISTORY", help="SQLite file.")]


@monitor.command(
    epilog=examples(
        "phasefusion monitor add quality.sqlite runs/2026-11-30 --at 2026-11-30",
        "phasefusion monitor add quality.sqlite runs/night --at 2026-11-30T02:00+01:00",
    )
)
def add(
    history: History,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    at: Annotated[
        str, typer.Option(metavar="WHEN", help="ISO 8601; UTC without an offset.")
    ],
    cluster: Annotated[By, typer.Option(help="What dependent items share.")] = By.video,
    allow: Annotated[
        list[Allowed] | None,
        typer.Option(help="Difference from the first batch to note, not to refuse."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Add a run to a history as the batch of a time."""
    from phasefusion import monitor as module

    made = module.add(
        history,
        run,
        at=at,
        cluster=cluster.value,
        allow=[one.value for one in allow or ()],
    )
    for notice in made.batch.notices:
        print(f"phasefusion: warning: {notice}", file=sys.stderr)
    if as_json:
        values = {name: value.mean for name, value in made.batch.values.items()}
        print(
            json.dumps(
                {
                    "at": made.batch.at,
                    "new": made.new,
                    "n_batches": made.n_batches,
                    "values": values,
                }
            )
        )
        return
    said = "added" if made.new else "already there"
    print(f"{said}: the batch of {made.batch.at}; {made.n_batches} in {history}")


@monitor.command(
    epilog=examples(
        "phasefusion monitor show quality.sqlite",
        "phasefusion monitor show quality.sqlite --baseline 20 --every 1000",
        "phasefusion monitor show quality.sqlite --html quality.html",
        "phasefusion monitor show quality.sqlite --prometheus phasefusion.prom",
    )
    + "\n\nExit status 1 while an alert is active."
)
def show(
    history: History,
    baseline: Annotated[
        int, typer.Option(help="Batches, from the first, that say what is usual.")
    ] = 10,
    every: Annotated[
        float, typer.Option(help="Batches to one false alarm of all charts together.")
    ] = 370.0,
    width: Annotated[
        float | None, typer.Option(help="Limits of the p charts, in sigmas.")
    ] = None,
    h: Annotated[float | None, typer.Option(help="Limit of the CUSUMs.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="File for a page of the charts, to write.")
    ] = None,
    prometheus: Annotated[
        Path | None, typer.Option(help="File for the textfile collector to write.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Its label history; the file's name by default.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Chart a history: what left its chart, on which side, and since when."""
    from phasefusion import monitor as module

    if markdown and as_json:
        raise typer.BadParameter("give either --markdown or --json")
    made = module.show(history, baseline=baseline, every=every, width=width, h=h)
    written = []
    if html is not None:
        written.append(made.save_html(html))
    if prometheus is not None:
        written.append(made.write_prometheus(prometheus, name=name))
    if as_json:
        print(json.dumps(made.to_dict(), allow_nan=False))
    elif markdown:
        print(made.to_markdown(), end="")
    else:
        console().print(made)
    for path in written:
        print(f"phasefusion: written: {path}", file=sys.stderr)
    if made.exit_status:
        raise typer.Exit(made.exit_status)
