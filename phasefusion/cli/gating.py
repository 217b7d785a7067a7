"""The command that lets a candidate through, or does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from phasefusion.cli.application import JsonFlag, app, console, examples


@app.command(
    epilog=examples(
        "phasefusion gate runs/released runs/candidate",
        "phasefusion gate runs/released runs/candidate --rules gate.toml",
        "phasefusion gate runs/released runs/candidate "
        "--save-markdown gate.md --save-junit gate.xml",
    )
    + "\n\nExit status 0: pass; 1: roll back; 3: cannot tell, and how many items "
    "would; 2: bad use or bad input, such as runs that were not measured in one way. "
    "The rules are described in docs/gate.md."
)
def gate(
    baseline: Annotated[
        Path, typer.Argument(metavar="BASELINE", help="Run folder of what is in use.")
    ],
    candidate: Annotated[
        Path, typer.Argument(metavar="CANDIDATE", help="Run folder of what is new.")
    ],
    rules: Annotated[
        Path | None, typer.Option(help="TOML file of margins and floors.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--save-markdown", help="Markdown summary to write.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--save-junit", help="JUnit XML to write.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge a candidate: mean accuracy, FPC and OOC must not fall."""
    from phasefusion.gate import gate as judge

    made = judge(baseline, candidate, rules=rules)
    made.write(markdown=markdown, junit=junit)
    if as_json:
        print(json.dumps(made.to_dict(), allow_nan=False))
    else:
        console().print(made)
    for path in (markdown, junit):
        if path is not None:
            print(f"phasefusion: written: {path}", file=sys.stderr)
    if made.exit_status:
        raise typer.Exit(made.exit_status)
