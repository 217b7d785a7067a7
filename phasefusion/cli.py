"""The phasefusion command."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion._scorers import load_model, load_scorer
from phasefusion.errors import (
    FrameError,
    PhaseFusionError,
    PhaseFusionWarning,
    RecordError,
)

if TYPE_CHECKING:
    from rich.console import Console


BAD_USE = 2
_WRONG = 1
_INTERRUPTED = 130
#: Questions of `demo`; 40 s of processor time on a 2020s core.
_DEMO_LIMIT = 100

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure how the sampling phase and the option order move a video model's "
    "multiple-choice answers, and remove the phase by fusing offset grids.",
    epilog="Start with: phasefusion demo",
)


class Protocol(StrEnum):
    """What `run` scores."""

    phasefusion = "phasefusion"
    stableeval = "stableeval"
    quick = "quick"


class Orders(StrEnum):
    """Option orders of `run`."""

    identity = "identity"
    shared = "shared"
    latin = "latin"
    cyclic = "cyclic"
    all = "all"


class By(StrEnum):
    """What a grid divides equally."""

    frames = "frames"
    time = "time"


class Short(StrEnum):
    """What a clip with too few frames gets."""

    repeat = "repeat"
    unique = "unique"
    error = "error"


class OnError(StrEnum):
    """What a video that does not decode, or a pass without scores, does to a run."""

    mark = "mark"
    stop = "raise"


class Score(StrEnum):
    """What is scored of an option."""

    letter = "letter"
    text = "text"


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Budget = Annotated[int, typer.Option("--budget", "-b", help="Frames a pass.")]
Phases = Annotated[int, typer.Option("--phases", "-s", help="Offset grids.")]
Origin = Annotated[
    str, typer.Option(help="left, midpoint, or a fraction of a dense step such as 1/3.")
]


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *lines])


_QUESTION_FILE = (
    "\n\nQuestion file: every question has question_id, video (a path relative to the "
    "question file), question and options, and may have answer (0-based number, "
    "letter or text of the option; without it there is no accuracy), type, "
    "benchmark, video_id, start and end (seconds). JSON and JSONL give options as a "
    "list; CSV and TSV as a JSON list in a column options, or in columns A, B, C, ... "
    "or option_0, option_1, ... of which the last may be empty."
)


@app.command(
    epilog=_examples(
        "phasefusion run questions.jsonl --model path/or/id --out runs/a",
        "phasefusion run q.csv --model path --protocol stableeval --budget 16",
        "phasefusion run q.json --scorer mypackage.scorers:make --limit 20",
    )
    + _QUESTION_FILE
)
def run(
    questions: Annotated[Path, typer.Argument(help="JSON, JSONL, CSV or TSV file.")],
    model: Annotated[
        str | None, typer.Option(help="Hugging Face model: a folder or an id.")
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="MODULE:NAME or FILE.py:NAME of a scorer, or of a function that "
            "makes one."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder (runs/<questions>).")
    ] = None,
    protocol: Annotated[Protocol, typer.Option()] = Protocol.phasefusion,
    budget: Budget = 8,
    phases: Phases = 3,
    origin: Origin = "midpoint",
    by: Annotated[By, typer.Option(help="Divide frames or time equally.")] = By.frames,
    short: Annotated[
        Short, typer.Option(help="For clips of fewer than budget * phases frames.")
    ] = Short.repeat,
    orders: Annotated[
        Orders | None, typer.Option(help="Option orders (by protocol).")
    ] = None,
    n_orders: Annotated[int, typer.Option(help="How many shared orders.")] = 10,
    dense: Annotated[int, typer.Option(help="Frames of the dense pass.")] = 32,
    score: Annotated[
        Score | None,
        typer.Option(help="Score option letters (the default) or texts, of --model."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="torch device of --model, such as cpu or cuda:0.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of shared orders and ties.")] = 0,
    limit: Annotated[
        int | None,
        typer.Option(help="Only the first questions; raise it later."),
    ] = None,
    threads: Annotated[int, typer.Option(help="Decoding threads.")] = 1,
    on_error: Annotated[
        OnError, typer.Option(help="Record videos that do not decode, or stop.")
    ] = OnError.mark,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder where decoded frames are kept for the next run."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Score a question file and report.

    Stopped at any moment, the same command goes on where it was.
    """
    if (model is None) == (scorer is None):
        raise typer.BadParameter("give either --model or --scorer")
    _check_limit(limit)
    options: dict[str, Any] = {}
    if score is not None:
        options["score"] = score.value
    if device is not None:
        options["device"] = device
    if scorer is not None and options:
        raise typer.BadParameter(
            f"--{' and --'.join(options)} can be given with --model only; a scorer of "
            "--scorer sets its own"
        )
    made = load_model(model, **options) if model else load_scorer(str(scorer))
    out = out or Path("runs") / questions.stem
    _evaluate_and_report(
        as_json,
        questions,
        made,
        out=out,
        protocol=protocol.value,
        budget=budget,
        phases=phases,
        origin=origin,
        by=by.value,
        short=short.value,
        orders=None if orders is None else orders.value,
        n_orders=n_orders,
        dense=dense,
        seed=seed,
        limit=limit,
        threads=threads,
        on_error=on_error.value,
        cache=cache,
        progress=False if quiet else None,
    )


@app.command(
    epilog=_examples("phasefusion demo", "phasefusion demo --limit 8 --out runs/try")
)
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Run folder.")] = Path(
        "runs/demo"
    ),
    limit: Annotated[int, typer.Option(help="Questions.")] = _DEMO_LIMIT,
    threads: Annotated[int, typer.Option(help="Decoding threads.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run the small shipped model on the shipped clips and report."""
    from phasefusion import tinyvlm

    _check_limit(limit)
    scorer = load_model(str(tinyvlm.model_dir()), device="cpu", dtype="float32")
    import torch

    torch.set_num_threads(1)  # so small a model is slowed down by more
    _evaluate_and_report(
        as_json,
        tinyvlm.questions_path(),
        scorer,
        out=out,
        limit=limit,
        threads=threads,
        progress=False if quiet else None,
    )


def _check_limit(limit: int | None) -> None:
    """Refuse an empty run before a model is loaded for it."""
    if limit is not None and limit < 1:
        raise typer.BadParameter(f"--limit is {limit}; it must be at least 1")


def _evaluate_and_report(as_json: bool, *args: Any, **options: Any) -> None:
    from phasefusion.evaluate import evaluate

    try:
        finished = evaluate(*args, **options)
    except KeyboardInterrupt:
        print(
            "phasefusion: stopped; the same command goes on where this one was",
            file=sys.stderr,
        )
        raise typer.Exit(_INTERRUPTED) from None
    _show_report(finished.path, None, as_json)


@app.command(
    epilog=_examples(
        "phasefusion report runs/a",
        "phasefusion report runs/a --json > report.json",
        "phasefusion report runs/a --save results",
    )
)
def report(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    save: Annotated[
        Path | None,
        typer.Option(help="Folder for report.json and report.md (the run's)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Report a run, finished or not; write report.json and report.md."""
    _show_report(run, save, as_json)


def _show_report(run: Path, folder: Path | None, as_json: bool) -> None:
    from phasefusion.report import report as make_report
    from phasefusion.report.sections import missing_sentence

    made = make_report(run)
    missing = missing_sentence(made.numbers["items"])
    if missing:
        print(f"phasefusion: warning: {missing}", file=sys.stderr)
    paths: tuple[Path, ...] = ()
    try:
        paths = made.save(folder or run)
    except RecordError as error:  # a run that may only be read can be reported too
        if folder is not None:
            raise
        print(f"phasefusion: warning: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps(made.to_dict(), allow_nan=False))
        return
    console = _console()
    console.print(made)
    if paths:
        console.print("written: " + ", ".join(map(str, paths)), soft_wrap=True)


@app.command(
    epilog=_examples(
        "phasefusion frames clip.mp4",
        "phasefusion frames clip.mp4 -b 16 -s 2 --out sheet.png",
        "phasefusion frames clip.mp4 --check --every 1",
    )
)
def frames(
    context: typer.Context,
    video: Annotated[Path, typer.Argument(help="A video file.")],
    budget: Budget = 8,
    phases: Phases = 3,
    origin: Origin = "midpoint",
    by: Annotated[By, typer.Option(help="Divide frames or time equally.")] = By.frames,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="PNG to write (<video>.grids.png in the working directory).",
        ),
    ] = None,
    width: Annotated[int, typer.Option(help="Width of a picture in pixels.")] = 160,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Draw nothing: compare frames as they are read here with a sequential "
            "decode of the whole video; exit 1 when one differs. Takes --every and "
            "--json only.",
        ),
    ] = False,
    every: Annotated[
        int | None,
        typer.Option(
            help="With --check, compare every so-manieth frame, 1 for all (all of up "
            "to 240, then so many that it is 240 at most)."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Draw the frames of every phase grid of a video, a row a phase.

    Frames that do not decode are crossed out; damaged ones have a red border.
    """
    if check:
        _refuse_grid_options(context)
        _check_frames(video, every, as_json)
        return
    if every is not None:
        raise typer.BadParameter("--every goes with --check only")
    from phasefusion.contact import contact_sheet, write_png
    from phasefusion.grid import PhaseGrid
    from phasefusion.video import read_clip

    if out is not None and out.suffix.lower() not in ("", ".png"):
        raise FrameError(f"--out {out}: the sheet is a PNG; end its name in .png")
    grid = PhaseGrid(budget, phases, origin, by=by.value)
    clip = read_clip(str(video), grid, on_error="mark")
    path = out or Path(f"{video.name}.grids.png")
    write_png(path, contact_sheet(clip, width_px=width))
    rows = [
        {
            "phase": str(grid.phase(s)),
            "frame_indices": clip.indices[s].tolist(),
            "frame_times_s": clip.times_s[s].round(6).tolist(),
            "missing": clip.indices[s][clip.missing[s] & ~clip.damaged[s]].tolist(),
            "damaged": clip.indices[s][clip.damaged[s]].tolist(),
        }
        for s in range(len(clip.indices))
    ]
    if as_json:
        facts = {
            "path": str(video),
            "n_frames": clip.info.n_frames,
            "duration_s": clip.info.duration_s,
            "start_s": clip.info.start_s,
            "width": clip.info.width,
            "height": clip.info.height,
        }
        found = facts | {"grid": grid.to_dict(), "png": str(path), "phases": rows}
        print(json.dumps(found))
        return
    _print_table(
        f"{video.name}: {clip.info.n_frames} frames of {clip.info.width}x"
        f"{clip.info.height}, {clip.info.duration_s:.3f} s; its times start at "
        f"{clip.info.start_s:.3f} s",
        ["phase (of a step)", "frames", "times (s)"],
        [
            [
                str(row["phase"]),
                " ".join(_marked_frames(row)),
                " ".join(f"{t:.2f}" for t in row["frame_times_s"]),
            ]
            for row in rows
        ],
    )
    print(f"written: {path}")


def _refuse_grid_options(context: typer.Context) -> None:
    """--check compares the frames of no grid and draws none."""
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        given = source is not None and source.name != "DEFAULT"
        if given and name not in ("video", "check", "every", "as_json"):
            raise typer.BadParameter(f"{option.opts[0]} does not go with --check")


def _check_frames(video: Path, every: int | None, as_json: bool) -> None:
    from phasefusion.frame_check import check_frames

    if every is not None and every < 1:
        raise typer.BadParameter(f"--every is {every}; it must be at least 1")
    found = check_frames(str(video), every=every)
    if as_json:
        print(json.dumps(found.to_dict()))
    else:
        print(f"{video.name}: ", end="")
        print(*found.lines(), sep="\n")
    if not found.is_right:
        raise typer.Exit(_WRONG)


def _marked_frames(row: Mapping[str, Any]) -> list[str]:
    """Frame indices as text, each with what is wrong with it."""
    marks = dict.fromkeys(row["missing"], " (missing)")
    marks |= dict.fromkeys(row["damaged"], " (damaged)")
    return [f"{index}{marks.get(index, '')}" for index in row["frame_indices"]]


@app.command(
    epilog=_examples(
        "phasefusion samplers --frames 300 --budget 8",
        "phasefusion samplers --frames 300 --budget 8 --fps 30 --json",
    )
)
def samplers(
    n_frames: Annotated[
        int, typer.Option("--frames", "-n", help="Frames of the clip.")
    ],
    budget: Budget = 8,
    fps: Annotated[
        float | None, typer.Option(help="Frames a second, for samplers by rate.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show which frames the samplers in use take, side by side."""
    from phasefusion import samplers as registry

    rows = []
    for row in registry.side_by_side(n_frames, budget, fps):
        sampler = registry.get(row.name)
        rows.append(
            {
                "name": row.name,
                "family": row.family,
                "formula": sampler.formula,
                "source": sampler.source,
                "frame_indices": row.indices.tolist() or None,
                "note": row.note,
            }
        )
    if as_json:
        print(json.dumps({"frames": n_frames, "budget": budget, "samplers": rows}))
        return
    _print_table(
        f"{n_frames} frames, budget {budget}",
        ["sampler", "family", "frames", "note"],
        [
            [
                str(row["name"]),
                str(row["family"]),
                " ".join(map(str, row["frame_indices"] or ())),
                str(row["note"]),
            ]
            for row in rows
        ],
    )


@app.command(epilog=_examples("phasefusion info", "phasefusion info --json"))
def info(as_json: JsonFlag = False) -> None:
    """Show what is installed, what is missing, and why."""
    from phasefusion.info import describe

    found = describe()
    if as_json:
        print(json.dumps(found))
        return
    for title, part in found.items():
        if not part:
            continue
        _print_table(
            title,
            ["", ""],
            [[name, _plain(value)] for name, value in part.items()],
            header=False,
        )


def _plain(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return str(value)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _print_table(
    title: str, columns: list[str], rows: list[list[str]], *, header: bool = True
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title_justify="left", show_header=header)
    table.title = Text(title)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    _console().print(table)


def _version(wanted: bool) -> None:
    if wanted:
        from phasefusion import __version__

        print(f"phasefusion {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show it."),
    ] = False,
) -> None:
    pass


def _show_warning(plain: Callable[..., None]) -> Callable[..., None]:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        *rest: Any,
        **more: Any,
    ) -> None:
        if issubclass(category, PhaseFusionWarning):
            print(f"phasefusion: warning: {message}", file=sys.stderr)
        else:
            plain(message, category, filename, lineno, *rest, **more)

    return show


def main() -> None:
    """Run the command; bad input is one line on stderr and exit status 2."""
    warnings.showwarning = _show_warning(warnings.showwarning)
    try:
        app()
    except PhaseFusionError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of our output has gone, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> None:
    print(f"phasefusion: error: {message}", file=sys.stderr)
    sys.exit(BAD_USE)
