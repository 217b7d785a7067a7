"""The command that tells generated answers again from their texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phasefusion._wording import by_number, counted
from phasefusion.cli.application import JsonFlag, examples
from phasefusion.cli.questions import (
    DatasetName,
    MissingVideos,
    Videos,
    read_dataset,
)
from phasefusion.cli.records import records

if TYPE_CHECKING:
    from phasefusion.datasets import Dataset


@records.command(
    epilog=examples(
        "phasefusion records reparse runs/a",
        "phasefusion records reparse runs/a --questions questions.jsonl --json",
    )
    + "\n\nAfterwards: phasefusion report RUN"
)
def reparse(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    questions: Annotated[
        Path | None, typer.Option(help="Question file: (the one that the run names).")
    ] = None,
    dataset: DatasetName = None,
    videos: Videos = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell generated answers again from the texts on disk; no model is asked."""
    from phasefusion.reparse import reparse as tell_again

    source: Path | Dataset | None = questions
    if questions is not None and (questions.is_dir() or dataset or videos):
        missing = MissingVideos.keep
        source = read_dataset(
            questions, dataset, videos, None, None, None, missing, False
        )
    made = tell_again(run, source)
    if as_json:
        print(json.dumps(made.to_dict()))
        return
    print(
        f"{made.generated} of {counted(made.passes, 'pass', 'passes')} "
        f"{by_number(made.generated, 'has', 'have')} a text; "
        f"{counted(made.changed, 'answer')} "
        f"{by_number(made.changed, 'is another one', 'are other ones')} now"
    )
    for move, n in made.moves.items():
        print(f"  {move}: {n}")
    for reason, n in made.skipped.items():
        print(f"  left as they were, {reason}: {n}")
