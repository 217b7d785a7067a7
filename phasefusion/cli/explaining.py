"""The command that says which frames the answers of a run rest on."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from phasefusion._scorers import load_model, load_scorer
from phasefusion._wording import counted
from phasefusion.cli.application import JsonFlag, app, examples

#: Options of the model that are as they were in the run.
_AS_THEN = ("score", "prior", "dtype", "letter_variants", "timestamps")


class Method(StrEnum):
    """How a frame's share is found."""

    occlusion = "occlusion"
    gradient = "gradient"


class Replace(StrEnum):
    """What occlusion puts in the place of a frame."""

    neighbour = "neighbour"
    mean = "mean"


@app.command(
    epilog=examples(
        "phasefusion saliency runs/a --model path/or/id",
        "phasefusion saliency runs/a --model path --items all --replace mean",
        "phasefusion saliency runs/a --model path --items q17 --method gradient",
    )
    + "\n\nAfterwards: phasefusion report RUN --html"
)
def saliency(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    model: Annotated[
        str | None,
        typer.Option(help="Hugging Face model: the run's, a folder or an id."),
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="MODULE:NAME or FILE.py:NAME of a scorer: the run's, which must be an "
            "HFOptionScorer."
        ),
    ] = None,
    items: Annotated[
        list[str] | None,
        typer.Option(
            metavar="flipped|all|ID",
            help="Questions whose phases differ in some order, all, or one; an id may "
            "be given several times.",
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="How: replace frames one at a time, or gradient times pixels."
        ),
    ] = Method.occlusion,
    replace: Annotated[
        Replace,
        typer.Option(help="By the frame before it, or by the mean colour."),
    ] = Replace.neighbour,
    questions: Annotated[
        Path | None, typer.Option(help="Question file: (the one that the run names).")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="torch device of --model, such as cpu or cuda:0.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Decoding threads.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say which frames the answers of a run rest on, for its page.

    Stopped at any moment, the same command goes on where it was.
    """
    from phasefusion.records import read_run
    from phasefusion.saliency import explain_run

    if (model is None) == (scorer is None):
        raise typer.BadParameter("give either --model or --scorer")
    if scorer is not None and device is not None:
        raise typer.BadParameter("--device goes with --model only")
    names = items or ["flipped"]
    if len(names) > 1 and {"flipped", "all"} & set(names):
        raise typer.BadParameter("--items flipped and --items all stand alone")
    settings = read_run(run).get("settings", {})
    if model is not None:
        as_then = settings.get("scorer", {})
        options = {name: as_then[name] for name in _AS_THEN if name in as_then}
        if method is Method.gradient:
            options["dtype"] = "float32"
        made = load_model(model, device=device, **options)
    else:
        made = load_scorer(str(scorer))
    done = explain_run(
        run,
        made,  # type: ignore[arg-type]
        items=names[0] if names[0] in ("flipped", "all") else names,
        method=method.value,
        replace=replace.value,
        questions=questions,
        threads=threads,
        progress=False if quiet else None,
    )
    for question, why in done.skipped.items():
        print(f"phasefusion: warning: {question} left out: {why}", file=sys.stderr)
    if as_json:
        print(json.dumps(done.to_dict()))
        return
    print(
        f"{counted(done.n_items, 'question')}, {counted(done.n_lines, 'line')}, "
        f"{done.n_new} of them new"
        + (
            f"; log-posteriors are at most {done.apart:.2g} nats from the run's"
            if done.n_new and done.apart == done.apart
            else ""
        )
    )
    print(f"written: {done.path}")
