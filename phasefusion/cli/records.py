"""Commands that check, convert, merge, export and describe passes on disk."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from phasefusion._wording import by_number, counted
from phasefusion.cli.application import (
    WRONG,
    JsonFlag,
    SameScorer,
    app,
    examples,
    print_table,
)

records = typer.Typer(
    no_args_is_help=True,
    help="Check, convert, merge, export and describe passes on disk.",
    epilog=examples(
        "phasefusion records check runs/a",
        "phasefusion records convert runs/a a.parquet",
    )
    + "\n\nA run is a folder with run.json and passes.jsonl, as phasefusion run "
    "writes it; most commands take a passes.jsonl alone as well.",
)
app.add_typer(records, name="records")

_RUN = "Run folder, or a .jsonl, .parquet or .arrow file of passes."


class Keep(StrEnum):
    """Which of two contradicting passes stays."""

    first = "first"
    last = "last"


@records.command(
    epilog=examples(
        "phasefusion records check runs/a",
        "phasefusion records check runs/a/passes.jsonl runs/b --json",
    )
    + "\n\nExit status 1 when anything was found. The fields are described in "
    "docs/records.md."
)
def check(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, pass files.")
    ],
    limit: Annotated[
        int, typer.Option(help="At most so many: findings to show; all are counted.")
    ] = 20,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check passes: types, permutations, answers, phases, repeats, damage."""
    from phasefusion.records import check as check_files

    if limit < 0:
        raise typer.BadParameter(f"--limit is {limit}; it must be at least 0")
    found = check_files(*runs, limit=limit, progress=False if quiet else None)
    n_findings = sum(found.counts.values())
    if as_json:
        print(json.dumps(found.to_dict()))
    elif found.is_right:
        print(f"{counted(found.n_passes, 'pass', 'passes')}: nothing found")
    else:
        for finding in found.findings:
            print(finding)
        if n_findings > len(found.findings):
            print(f"... and {n_findings - len(found.findings)} more; see --limit")
        print_table(
            f"{counted(n_findings, 'finding')} in "
            f"{counted(found.n_passes, 'pass', 'passes')}",
            ["kind", "findings"],
            [[kind, str(n)] for kind, n in found.counts.items()],
        )
    if not found.is_right:
        raise typer.Exit(WRONG)


@records.command(
    epilog=examples(
        "phasefusion records convert runs/a a.parquet",
        "phasefusion records convert runs/a a.csv",
        "phasefusion records convert a.parquet passes.jsonl",
    )
)
def convert(
    run: Annotated[Path, typer.Argument(help=_RUN)],
    out: Annotated[
        Path, typer.Argument(help="File to write: .parquet, .arrow, .csv or .jsonl.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Write all passes of a run as one table, every field kept."""
    from phasefusion.records import convert as convert_passes

    n = convert_passes(run, out)
    if as_json:
        print(json.dumps({"path": str(out), "passes": n}))
    else:
        print(f"written: {out}, {counted(n, 'pass', 'passes')}")


@records.command(
    epilog=examples(
        "phasefusion records merge runs/a runs/b --out runs/ab",
        "phasefusion records merge runs/a runs/again --out runs/new --keep last",
    )
    + "\n\nExit status 1, and nothing written, when passes contradict each other and "
    "no --keep says which of them stays."
)
def merge(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN...", help="Runs to merge.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Where to write: a run folder or .jsonl file."
        ),
    ],
    keep: Annotated[
        Keep | None, typer.Option(help="Which of two contradicting passes stays.")
    ] = None,
    same_scorer: SameScorer = False,
    limit: Annotated[
        int, typer.Option(help="At most so many: conflicts to show.")
    ] = 20,
    as_json: JsonFlag = False,
) -> None:
    """Merge runs, every pass once; report passes that contradict each other."""
    from phasefusion.records import merge as merge_runs

    if len(runs) < 2:
        raise typer.BadParameter("give two or more runs")
    if limit < 0:
        raise typer.BadParameter(f"--limit is {limit}; it must be at least 0")
    made = merge_runs(
        runs,
        out,
        keep=None if keep is None else keep.value,
        same_scorer=same_scorer,
    )
    shown = made.conflicts[:limit]
    if as_json:
        names = ("kind", "first", "second", "what", "fields")
        found = {
            "written": None if made.written is None else str(made.written),
            "passes": made.n_passes,
            "identical": made.n_identical,
            "conflicts": made.n_conflicts,
            "without_run": list(map(str, made.without_run)),
            "first": [{n: getattr(c, n) for n in names} for c in shown],
        }
        print(json.dumps(found))
    else:
        for conflict in shown:
            print(conflict)
        if made.n_conflicts > len(shown):
            print(f"... and {made.n_conflicts - len(shown)} more; see --limit")
        ones = by_number(made.n_identical, "one", "ones")
        counts = f"{made.n_identical} identical {ones} left out"
        if made.n_conflicts:
            counts += f", {counted(made.n_conflicts, 'conflict')}"
        if made.written is None:
            print(f"not written: {counts}")
        else:
            n = counted(made.n_passes, "pass", "passes")
            print(f"written: {made.written}, {n}; {counts}")
            if made.without_run and made.written.suffix != ".jsonl":
                lacking = ", ".join(map(str, made.without_run))
                print(f"without run.json, which these do not have: {lacking}")
    if made.written is None:
        raise typer.Exit(WRONG)


@records.command(
    epilog=examples(
        "phasefusion records export runs/a --anonymous --out public/a",
        "phasefusion records export runs/a --anonymous --hash-ids --salt secret "
        "--out public/a",
    )
)
def export(
    run: Annotated[Path, typer.Argument(help=_RUN)],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Where to write: a run folder or .jsonl file."
        ),
    ],
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous",
            help="Ids and numbers only: no texts, paths, reasons or unknown fields.",
        ),
    ] = False,
    hash_ids: Annotated[
        bool, typer.Option("--hash-ids", help="Question and video ids become hashes.")
    ] = False,
    salt: Annotated[
        str | None,
        typer.Option(help="Of --hash-ids; a random one that nobody keeps by default."),
    ] = None,
    types: Annotated[
        bool, typer.Option("--types", help="Keep the names of question types.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write passes that may be published where their benchmark may not."""
    from phasefusion.records import export_anonymous

    if not anonymous:
        raise typer.BadParameter(
            "the one form of export is --anonymous; records convert copies everything"
        )
    if salt is not None and not hash_ids:
        raise typer.BadParameter("--salt goes with --hash-ids only")
    made = export_anonymous(run, out, hash_ids=hash_ids, salt=salt, types=types)
    if as_json:
        found = {
            "path": str(made.path),
            "passes": made.n_passes,
            "left_out": made.left_out,
            "arms": made.arms,
            "hashed": made.is_hashed,
        }
        print(json.dumps(found))
        return
    print(f"written: {made.path}, {counted(made.n_passes, 'pass', 'passes')}")
    if made.left_out:
        print(f"left out: {', '.join(made.left_out)}")
    for name, new in made.arms.items():
        print(f"arm {name!r} is now {new!r}")


@records.command(
    epilog=examples(
        "phasefusion records describe runs/a",
        "phasefusion records describe runs/a runs/b --out datasheet.md",
        "phasefusion records describe runs/a --json",
    )
)
def describe(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, pass files.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write: Markdown, or JSON by .json."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a datasheet: what is in the passes, what is missing, how it was made."""
    from phasefusion.records import describe as describe_runs

    sheet = describe_runs(*runs)
    if out is not None:
        sheet.save(out)
    if as_json:
        print(json.dumps(sheet.to_dict()))
    elif out is None:
        print(sheet.to_markdown(), end="")
    else:
        print(f"written: {out}")
