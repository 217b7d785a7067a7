"""The command that turns foreign result files into a run."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from phasefusion.cli.application import JsonFlag, examples
from phasefusion.cli.records import records

_MAP_HELP = (
    "FIELD=COLUMN for tables; join several columns with +, as in "
    "question_id=video+qid. Fields: question_id, answer, gold, video_id, question, "
    "options, type, arm, budget, order, logprobs, probabilities, phase, phase_index, "
    "n_phases, group. May be given several times."
)


class Format(StrEnum):
    """Forms of result files."""

    auto = "auto"
    lmms_eval = "lmms-eval"
    vlmevalkit = "vlmevalkit"
    videomme = "videomme"
    mlvu = "mlvu"
    tempcompass = "tempcompass"
    nextqa = "nextqa"
    egoschema = "egoschema"
    logprobs = "logprobs"
    order_sweep = "order-sweep"
    wide = "wide"
    by_id = "by-id"
    csv = "csv"


@records.command(
    "import",
    epilog=examples(
        "phasefusion records import auto predictions.json --out runs/a",
        "phasefusion records import wide runs.csv --gold gold.json --out runs/b",
        "phasefusion records import nextqa pred.json --questions val.csv --out runs/c",
        "phasefusion records import csv log.csv --map question_id=video+qid "
        "--map answer=said --out runs/d",
    )
    + "\n\nAnswers that name no option, or two, are recorded as missing with their "
    "text. Afterwards: phasefusion report RUN",
)
def import_(
    form: Annotated[
        Format, typer.Argument(metavar="FORMAT", help="auto tells it by the files.")
    ],
    files: Annotated[list[Path], typer.Argument(help="Result files of one format.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write: the run folder.")
    ],
    gold: Annotated[
        Path | None, typer.Option(help="File with the right answers, by id.")
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            help="Question file: of any format; for a log of lmms-eval also docs.jsonl "
            "of the sidecar."
        ),
    ] = None,
    maps: Annotated[list[str] | None, typer.Option("--map", help=_MAP_HELP)] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Name of the benchmark, in place of the usual.")
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(help="Of the benchmark; ids of two versions are never joined."),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(help="Arm: name of a run, once for every file (the file names)."),
    ] = None,
    n_options: Annotated[
        int | None,
        typer.Option(min=2, max=26, help="Options a question: where no file has them."),
    ] = None,
    lenient: Annotated[
        bool,
        typer.Option(
            "--lenient", help="Read JSON with commas before closing brackets."
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse more: probabilities that do not sum to 1 and token lists that "
            "lack a letter.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Turn result files of other programs into a run, and say what is in them."""
    from phasefusion.importers import import_run

    made = import_run(
        files,
        out=out,
        format=form.value,
        gold=gold,
        questions=questions,
        mapping=_mapping(maps or []),
        benchmark=benchmark,
        version=version,
        arms=arm or (),
        n_options=n_options,
        lenient=lenient,
        strict=strict,
    )
    if as_json:
        print(json.dumps(made.report.to_dict() | {"run": str(out)}, allow_nan=False))
        return
    for line in made.report.lines():
        print(line)
    print(f"written: {out}")


def _mapping(maps: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in maps:
        field, equals, column = one.partition("=")
        if not (field and equals and column):
            raise typer.BadParameter(f"--map {one}: must be FIELD=COLUMN")
        if field in found:
            raise typer.BadParameter(f"--map {one}: {field} was mapped already")
        found[field] = column
    return found
