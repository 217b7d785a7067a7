"""Commands that score questions and report runs."""

from __future__ import annotations

import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion._scorers import load_model
from phasefusion.cli.anchoring import (
    AtOf,
    PhraseOf,
    RunAnchor,
    RunAt,
    RunPhrase,
    Window,
    anchor_rule,
)
from phasefusion.cli.application import (
    BAD_USE,
    Budget,
    By,
    JsonFlag,
    Origin,
    app,
    examples,
)
from phasefusion.cli.protocols import parse_values, print_plan, warn_of_no_effect
from phasefusion.cli.questions import (
    DATASETS_HELP,
    DatasetName,
    GoldFile,
    Lenient,
    Missing,
    MissingVideos,
    Strict,
    SubtitlesFolder,
    TaskName,
    Videos,
    read_dataset,
)
from phasefusion.cli.reports import show_report
from phasefusion.cli.sharding import (
    EngineName,
    EngineOption,
    ShardOption,
    WorkersOption,
    find_engine,
    find_scorer,
    show_shard,
)
from phasefusion.errors import DatasetWarning, NoAnswerWarning

if TYPE_CHECKING:
    from phasefusion.datasets import Dataset

_INTERRUPTED = 130
#: Questions of `demo`; 40 s of processor time on a 2020s core.
_DEMO_LIMIT = 100


class Orders(StrEnum):
    """Option orders of `run`."""

    identity = "identity"
    shared = "shared"
    latin = "latin"
    cyclic = "cyclic"
    ends = "ends"
    all = "all"


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
    text_normalised = "text-normalised"


class AnswerPath(StrEnum):
    """Where answers of `--model` come from."""

    logit = "logit"
    generate = "generate"


class Constrain(StrEnum):
    """What a generated answer is restricted to."""

    letters = "letters"


class FramesDevice(StrEnum):
    """Where frames are resized."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"


class Prior(StrEnum):
    """What is subtracted from scores."""

    blind = "blind"


_QUESTION_FILE = (
    "\n\nQuestion file: every question has question_id, video (a path relative to the "
    "question file), question and options, and may have answer (0-based number, "
    "letter or text of the option; without it there is no accuracy), type, "
    "benchmark, video_id, start and end (seconds). JSON and JSONL give options as a "
    "list; CSV and TSV as a JSON list in a column options, or in columns A, B, C, ... "
    "or option_0, option_1, ... of which the last may be empty."
)


def _known_protocol(context: typer.Context, name: str) -> str:
    if context.resilient_parsing:  # the shell asks what could stand here
        return name
    from phasefusion.protocols import names  # loads NumPy, which --help does not

    if name not in names():
        listed = ", ".join(map(repr, names()))
        raise typer.BadParameter(f"{name!r} is not one of {listed}")
    return name


def _protocols_from(incomplete: str) -> list[str]:
    """Names of protocols for the shell to complete."""
    from phasefusion.protocols import names

    return [name for name in names() if name.startswith(incomplete)]


@app.command(
    epilog=examples(
        "phasefusion run questions.jsonl --model path/or/id --out runs/a",
        "phasefusion run q.csv --model path --protocol stableeval --budget 16",
        "phasefusion run q.csv --protocol budget-sweep --values 8,16 --dry-run",
        'phasefusion run q.csv --protocol anchored --phrase "look at" --model path',
        "phasefusion run q.json --scorer mypackage.scorers:make --limit 20",
        "phasefusion run val.csv --dataset nextqa --videos NExTVideo --model path",
    )
    + _QUESTION_FILE
    + DATASETS_HELP
)
def run(
    questions: Annotated[
        Path, typer.Argument(help="Question file, or folder of a dataset's files.")
    ],
    model: Annotated[
        str | None, typer.Option(help="Hugging Face model: a folder or an id.")
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="MODULE:NAME or FILE.py:NAME of a scorer: or of a function that makes "
            "one."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where to write: the run folder (runs/<questions>)."
        ),
    ] = None,
    dataset: DatasetName = None,
    videos: Videos = None,
    subtitles: SubtitlesFolder = None,
    gold: GoldFile = None,
    task: TaskName = None,
    missing_videos: Missing = None,
    lenient: Lenient = False,
    strict: Strict = False,
    protocol: Annotated[
        str,
        typer.Option(
            callback=_known_protocol,
            autocompletion=_protocols_from,
            metavar="NAME",
            help="What to score: phasefusion protocols lists them.",
        ),
    ] = "phasefusion",
    values: Annotated[
        str | None,
        typer.Option(help="Of a sweep, such as 4,8,16,32 or left,interior."),
    ] = None,
    anchor: RunAnchor = None,
    phrase: RunPhrase = None,
    phrase_of: PhraseOf = None,
    at: RunAt = None,
    at_of: AtOf = None,
    window: Window = None,
    budget: Budget = 8,
    phases: Annotated[
        int | None,
        typer.Option("--phases", "-s", help="Offset grids: by protocol unless given."),
    ] = None,
    origin: Origin = "midpoint",
    by: Annotated[By, typer.Option(help="Divide frames or time equally.")] = By.frames,
    short: Annotated[
        Short, typer.Option(help="For clips of fewer than budget * phases frames.")
    ] = Short.repeat,
    orders: Annotated[
        Orders | None, typer.Option(help="Option orders: by protocol unless given.")
    ] = None,
    n_orders: Annotated[
        int | None, typer.Option(min=1, help="Shared orders: 10.")
    ] = None,
    views: Annotated[
        int | None, typer.Option(help="How many Latin orders (as many as options).")
    ] = None,
    dense: Annotated[
        int | None, typer.Option(min=1, help="Frames of the dense pass: 32.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Of adaptive: nats of margin (phasefusion calibrate finds them); of "
            "confidence-guided: posterior."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--letter-weight",
            help="Weight of a letter over the one before, in ensembles.",
        ),
    ] = None,
    score: Annotated[
        Score | None,
        typer.Option(help="Score option letters (the default) or texts, of --model."),
    ] = None,
    path: Annotated[
        AnswerPath,
        typer.Option(help="Score options of --model, or let it write its answers."),
    ] = AnswerPath.logit,
    constrain: Annotated[
        Constrain | None,
        typer.Option(help="With --path generate: valid letters of a question alone."),
    ] = None,
    prior: Annotated[
        Prior | None,
        typer.Option(help="Subtract the scores without the video, of --model."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="torch device of --model, such as cpu or cuda:0.")
    ] = None,
    frames_device: Annotated[
        FramesDevice | None,
        typer.Option(help="Where frames are resized (cpu); auto: on a GPU if any."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed: of shared orders and ties.")
    ] = 0,
    limit: Annotated[
        int | None,
        typer.Option(help="At most so many: the first questions; raise it later."),
    ] = None,
    threads: Annotated[int, typer.Option(help="Decoding threads.")] = 1,
    on_error: Annotated[
        OnError, typer.Option(help="Record videos that do not decode, or stop.")
    ] = OnError.mark,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder where decoded frames are kept for the next run."),
    ] = None,
    shard: ShardOption = None,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what would be scored and its cost."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Score a question file and report.

    Stopped at any moment, the same command goes on where it was.
    """
    _check_limit(limit)
    _check_threads(threads)
    if scorer is None:
        _check_answers(protocol, path, score, constrain, prior)
    settings: dict[str, Any] = {
        "protocol": protocol,
        "values": parse_values(values),
        "budget": budget,
        "phases": phases,
        "origin": origin,
        "by": by.value,
        "short": short.value,
        "orders": None if orders is None else orders.value,
        "n_orders": n_orders,
        "views": views,
        "dense": dense,
        "threshold": threshold,
        "alpha": alpha,
        "seed": seed,
        "anchor": anchor_rule(protocol, anchor, phrase, phrase_of, at, at_of, window),
    }
    _check_one(model, scorer, dry_run)
    given = {
        "score": score,
        "path": None if path is AnswerPath.logit else path,
        "constrain": constrain,
        "prior": prior,
        "device": device,
    }
    options = _model_options(scorer, given)
    resizes_on = None if frames_device is None else frames_device.value
    if model is not None and resizes_on is not None:
        options["frames_device"] = resizes_on
    counts = {"phases": None, "n_orders": n_orders, "dense": dense}
    warn_of_no_effect(protocol, settings["orders"], counts)
    hired = find_engine(engine, workers, device)
    of_dataset = (dataset, videos, subtitles, gold, task, missing_videos)
    if dry_run:
        source = _source(questions, of_dataset, lenient, strict, MissingVideos.keep)
        known = _known_scorer(score)
        print_plan(source, limit, shard, as_json, known, **settings)
        return
    source = _source(questions, of_dataset, lenient, strict)
    made = find_scorer(model, scorer, options, engine, shard)
    out = out or Path("runs") / questions.stem
    _evaluate_and_report(
        as_json,
        source,
        made,
        out=out,
        **settings,
        limit=limit,
        threads=threads,
        on_error=on_error.value,
        cache=cache,
        frames_device=resizes_on,
        shard=shard,
        engine=hired,
        progress=False if quiet else None,
    )


def _check_one(model: str | None, scorer: str | None, dry_run: bool) -> None:
    if (model is None) == (scorer is None) and not (dry_run and model is None):
        raise typer.BadParameter("give either --model or --scorer")


def _model_options(scorer: str | None, given: dict[str, Any]) -> dict[str, str]:
    """Return what was given for --model, which --scorer does without."""
    options = {name: str(one) for name, one in given.items() if one is not None}
    if scorer is not None and options:
        raise typer.BadParameter(
            f"--{' and --'.join(options)} can be given with --model only; a scorer of "
            "--scorer sets its own"
        )
    return options


@app.command(
    epilog=examples("phasefusion demo", "phasefusion demo --limit 8 --out runs/try")
)
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write: the run folder.")
    ] = Path("runs/demo"),
    limit: Annotated[
        int, typer.Option(help="At most so many: the first questions.")
    ] = _DEMO_LIMIT,
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


def _source(
    questions: Path,
    of_dataset: tuple[Any, ...],
    lenient: bool,
    strict: bool,
    missing: MissingVideos | None = None,
) -> Dataset:
    """Read the questions that the options speak of, as `questions` does."""
    from phasefusion._checks import warn  # loads NumPy
    from phasefusion.datasets.loading import announce

    name, videos, subtitles, gold, task, stated = of_dataset
    source = read_dataset(
        questions, name, videos, subtitles, gold, task, stated or missing, lenient
    )
    announce(source.report, strict=strict)
    if not source.report.with_gold:
        warn(
            "no question has a right answer, so there will be no accuracy; it is read "
            "from the field answer, or from --gold FILE",
            DatasetWarning,
        )
    return source


def _known_scorer(score: Score | None) -> dict[str, Any]:
    """Return what a model of --model will say of itself, as far as a plan needs it."""
    if score is None or score is Score.letter:
        return {}
    from phasefusion.scoring.letters import TEXT_PROMPT  # loads NumPy

    return {"shows_options": TEXT_PROMPT.lists_options}


def _check_threads(threads: int) -> None:
    """Refuse what the decoder would, before anything is read."""
    from phasefusion._video_checks import check_threads  # loads NumPy

    check_threads(threads)


def _check_limit(limit: int | None) -> None:
    """Refuse an empty run before a model is loaded for it."""
    if limit is not None and limit < 1:
        raise typer.BadParameter(f"--limit is {limit}; it must be at least 1")


def _check_answers(
    protocol: str,
    path: AnswerPath,
    score: Score | None,
    constrain: Constrain | None,
    prior: Prior | None,
) -> None:
    """Refuse what the other kind of answers has, before a model is loaded for it."""
    if path is AnswerPath.logit:
        if constrain is not None:
            raise typer.BadParameter(
                f"--constrain {constrain} is about written answers; give "
                "--path generate with it"
            )
        return
    given = {"score": score, "prior": prior}
    wrong = [f"--{name} {one}" for name, one in given.items() if one is not None]
    if wrong:
        raise typer.BadParameter(
            f"{' and '.join(wrong)} cannot be given with --path generate: written "
            "answers have no scores"
        )
    from phasefusion.protocols import PROTOCOLS

    if PROTOCOLS[protocol].needs_posteriors:
        raise typer.BadParameter(
            f"--protocol {protocol} needs posteriors, which written answers (--path "
            "generate) have not"
        )


def _evaluate_and_report(as_json: bool, *args: Any, **options: Any) -> None:
    from phasefusion.evaluate import evaluate

    shard = options.get("shard")
    try:
        with warnings.catch_warnings():
            if shard is None:  # the report says how many passes are missing, and why
                warnings.simplefilter("ignore", NoAnswerWarning)
            finished = evaluate(*args, **options)
    except KeyboardInterrupt:
        print(
            "phasefusion: stopped; the same command goes on where this one was",
            file=sys.stderr,
        )
        raise typer.Exit(_INTERRUPTED) from None
    if shard is not None and ".shard-" in finished.path.name:
        show_shard(finished, shard, as_json)
    else:
        show_report(finished.path, None, as_json)
    if finished.n_passes and not finished.n_answered:
        print(
            "phasefusion: error: no pass of the run has an answer; see the reasons "
            "above",
            file=sys.stderr,
        )
        raise typer.Exit(BAD_USE)


@app.command(
    epilog=examples(
        "phasefusion report runs/a",
        "phasefusion report runs/a --json > report.json",
        "phasefusion report runs/a --out results",
        "phasefusion report runs/a --html --strips 20",
        "phasefusion report runs/new --against runs/old",
    )
)
def report(
    run: Annotated[Path, typer.Argument(help="Run folder, or pass file.")],
    save: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Where to write: the folder of report.json and report.md (the run's).",
        ),
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Write report.html too, a page to show.")
    ] = False,
    frames: Annotated[
        int | None,
        typer.Option(
            "--strips",
            help="Questions of the page with film strips, the least stable first "
            "(100); their videos are decoded.",
        ),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(help="Question file: of the page (the one that the run names)."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Compare with: another run folder; what was set and installed "
            "differently there, and its numbers."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Report a run, finished or not; write report.json and report.md."""
    given = {"strips": frames, "questions": questions}
    for name, value in given.items():
        if not html and value is not None:
            raise typer.BadParameter(f"--{name} is of the page; give --html with it")
    if frames is not None and frames < 0:
        raise typer.BadParameter(f"--strips is {frames}; it must be at least 0")
    page: dict[str, Any] = {"questions": questions}
    page |= {} if frames is None else {"n_strips": frames}
    show_report(run, save, as_json, page if html else None, against)
