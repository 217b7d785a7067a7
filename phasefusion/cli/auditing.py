"""The command that checks claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phasefusion._whole import replace_text
from phasefusion.cli.application import (
    WRONG,
    JsonFlag,
    MarkdownFlag,
    app,
    console,
    examples,
)
from phasefusion.errors import AuditError, UsageError

if TYPE_CHECKING:
    from phasefusion.audit import Claims


@app.command(
    epilog=examples(
        "phasefusion audit paper",
        "phasefusion audit paper --only 'tost.*' --json",
        "phasefusion audit claims.yaml main=runs/a scores=results.json",
        "phasefusion audit --draft runs/a/report.json --out claims.yaml",
    )
    + "\n\nA claims file (YAML or JSON) lists what a text prints and how each figure "
    "is computed; shipped by name: paper, stableeval. Runs and files are given by the "
    "names that the claims file uses, or in the order in which it names those that "
    "it gives no path. Keys of the file: format, title, source, note, runs, figures, "
    "claims; of a claim: id, text, quote, where, source, note, published, unit, "
    "tolerance, compute, holds, recorded, readings, expect; of a figure: value, unit, "
    "where, exact, note. docs/audit.md explains them, the expressions of compute and "
    "holds, and every function there. Exit status 1: a claim has another verdict than "
    "the file expects (with --strict, also one that cannot be computed)."
)
def audit(
    claims: Annotated[
        str | None, typer.Argument(help="Claims file, or the name of a shipped one.")
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="NAME=PATH of runs and result files.", metavar="[RUN]..."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only claims whose id is this, or matches it (* and ?)."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Refuse more: claims that cannot be computed fail too."
        ),
    ] = False,
    markdown: MarkdownFlag = False,
    draft: Annotated[
        Path | None,
        typer.Option(
            help="Draft a claims file from a report.json, report.md or run folder."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write: the file of --draft."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check what a text claims against runs, result files and its own arithmetic."""
    from phasefusion.audit import SHIPPED, load_claims
    from phasefusion.audit import audit as check

    if draft is not None:
        if claims is not None:
            raise typer.BadParameter("--draft takes no claims file; it makes one")
        _draft(draft, out)
        return
    if out is not None:
        raise typer.BadParameter("--out goes with --draft only")
    if claims is None:
        raise typer.BadParameter(
            f"give a claims file, or one of the shipped: {', '.join(SHIPPED)}"
        )
    if markdown and as_json:
        raise typer.BadParameter("give --markdown or --json")
    loaded = load_claims(claims)
    made = check(loaded, _bound(loaded, runs or []), only=only or None)
    if as_json:
        print(json.dumps(made.to_dict(), allow_nan=False))
    elif markdown:
        print(made.to_markdown(), end="")
    else:
        console().print(made)
    if made.surprises or (strict and made.unknown):
        raise typer.Exit(WRONG)


def _bound(claims: Claims, given: list[str]) -> dict[str, Path]:
    """Bind runs to names; those without one fill what the file leaves open."""
    found: dict[str, Path] = {}
    nameless = []
    for one in given:
        name, mark, path = one.partition("=")
        if mark and name.isidentifier():
            if name in found:
                raise UsageError(f"{name} is given twice")
            found[name] = Path(path)
        else:
            nameless.append(one)
    open_names = [
        name for name, path in claims.runs.items() if path is None and name not in found
    ]
    if len(nameless) > len(open_names):
        named = ", ".join(claims.runs) or "none"
        raise UsageError(
            f"{nameless[len(open_names)]}: {claims.name} leaves no run open for it "
            f"(it names {named}); give it as NAME=PATH"
        )
    return found | dict(zip(open_names, map(Path, nameless), strict=False))


def _draft(report: Path, out: Path | None) -> None:
    from phasefusion.audit import draft

    text = draft(report)
    if out is None:
        print(text, end="")
        return
    if out.exists():
        raise AuditError(f"{out} is there already; remove it or give another --out")
    replace_text(out, text)
    print(f"written: {out} ({text.count('  - id: ')} claims)")
