"""The command that checks question files, and the options that `run` shares with it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phasefusion._wording import counted
from phasefusion.cli.application import JsonFlag, app, examples
from phasefusion.errors import DatasetError

if TYPE_CHECKING:
    from phasefusion.datasets import Dataset

DATASETS_HELP = (
    "\n\nDatasets, told by their fields or named by --dataset: EgoSchema, "
    "LongVideoBench, MLVU, MVBench, NExT-QA, Perception Test, STAR, TempCompass, "
    "Video-MME, Video-MME-v2 in the JSON, CSV or parquet files that they are published "
    "in. Videos are looked for below --videos by name, with any usual ending; what "
    "cannot be scored is left out and said."
)


class MissingVideos(StrEnum):
    """What videos that are not there do to a dataset."""

    error = "error"
    leave_out = "leave-out"
    keep = "keep"


DatasetName = Annotated[
    str | None,
    typer.Option("--dataset", help="Dataset of the file (told by its fields)."),
]
Videos = Annotated[
    Path | None, typer.Option("--videos", help="Folder of the videos (the file's).")
]
SubtitlesFolder = Annotated[
    Path | None, typer.Option("--subtitles", help="Subtitles: their folder.")
]
GoldFile = Annotated[
    Path | None, typer.Option("--gold", help="File with the right answers, by id.")
]
TaskName = Annotated[
    str | None, typer.Option("--task", help="Task of the file, for MVBench.")
]
Missing = Annotated[
    MissingVideos | None,
    typer.Option(
        "--missing-videos",
        help="Stop, leave their questions out, or leave them to the run.",
    ),
]
Lenient = Annotated[
    bool,
    typer.Option("--lenient", help="Read JSON with commas before closing brackets."),
]

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse more: stop when a question is left out or its gold is no use.",
    ),
]


def read_dataset(
    path: Path,
    name: str | None,
    videos: Path | None,
    subtitles: Path | None,
    gold: Path | None,
    task: str | None,
    missing: MissingVideos | None,
    lenient: bool,
) -> Dataset:
    """Read a dataset as the options of a command say."""
    from phasefusion.datasets import read

    return read(
        name or "auto",
        path,
        videos=videos,
        subtitles=subtitles,
        gold=gold,
        task=task,
        missing_videos=(missing or MissingVideos.error).value,
        lenient=lenient,
    )


@app.command(
    epilog=examples(
        "phasefusion questions val.csv --videos NExTVideo",
        "phasefusion questions MVBench/json --videos MVBench/video",
        "phasefusion questions questions.json --gold subset_answers.json --json",
    )
    + DATASETS_HELP
)
def questions(
    path: Annotated[
        Path, typer.Argument(help="Question file, or folder of such files.")
    ],
    dataset: DatasetName = None,
    videos: Videos = None,
    subtitles: SubtitlesFolder = None,
    gold: GoldFile = None,
    task: TaskName = None,
    missing_videos: Missing = None,
    lenient: Lenient = False,
    strict: Strict = False,
    as_json: JsonFlag = False,
) -> None:
    """Check a question file: what can be scored, what cannot, and why."""
    report = read_dataset(
        path, dataset, videos, subtitles, gold, task, missing_videos, lenient
    ).report
    if as_json:
        print(json.dumps(report.to_dict(), allow_nan=False))
    else:
        for line in report.lines():
            print(line)
    if strict and not report.is_clean:
        raise DatasetError(
            f"{path}: {counted(len(report.left_out), 'question')} left out, "
            f"{len(report.unusable_gold)} kept without gold"
        )
