"""How long a run will take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from phasefusion.cli.application import (
    JsonFlag,
    app,
    console,
    examples,
    print_table,
)
from phasefusion.errors import UsageError

_HOUR_S = 3600.0


@app.command(
    epilog=examples(
        "phasefusion capacity questions.jsonl --like runs/pilot",
        "phasefusion capacity q.jsonl --like runs/pilot --workers 8,64 --startup 90",
        "phasefusion capacity q.jsonl --like runs/pilot --workers 512 --life 24",
    )
    + "\n\nMake the pilot with the scorer, the protocol and the machine that the run "
    "will have, on some of its questions: phasefusion run q.jsonl --model path --limit "
    "20 --out runs/pilot."
)
def capacity(
    questions: Annotated[Path, typer.Argument(help="JSON, JSONL, CSV or TSV file.")],
    like: Annotated[
        Path, typer.Option(help="Run folder whose times and protocol are taken.")
    ],
    workers: Annotated[
        str, typer.Option(help="Numbers of workers, with commas between.")
    ] = "1,2,4,8,16,32,64",
    startup: Annotated[
        float, typer.Option(help="Seconds until a worker has loaded the model.")
    ] = 0.0,
    life: Annotated[
        float | None, typer.Option(help="Mean hours until a worker fails.")
    ] = None,
    probe: Annotated[
        int, typer.Option(help="Videos to open; file sizes tell of the others.")
    ] = 100,
    as_json: JsonFlag = False,
) -> None:
    """Predict the wall time of a question file from the times of an earlier run."""
    from phasefusion.capacity import Workload, fit, forecast, survey
    from phasefusion.datasets.loading import read_questions
    from phasefusion.records import read_run

    counts = _counts(workers)
    if probe < 1:
        raise typer.BadParameter(f"--probe is {probe}; it must be at least 1")
    items = read_questions(questions, missing_videos="keep")
    videos = survey((item.video for item in items), probed=probe)
    by_id = {item.video_id: videos[item.video] for item in items}
    model = fit(like, videos=by_id, startup_s=startup)
    made = forecast(
        items, model, Workload.of_settings(read_run(like)["settings"]), videos=videos
    )
    conditions: dict[str, Any] = {}
    if life is not None:
        if not life > 0:
            raise typer.BadParameter(f"--life is {life}; it must be above 0")
        conditions["mean_life_s"] = life * _HOUR_S
    outcomes = [made.on(n, **conditions) for n in counts]
    if as_json:
        rows = [
            {
                "workers": n,
                "wall_s": outcome.makespan_s,
                "bound_s": outcome.bound_s,
                "utilisation": outcome.utilisation,
                "failures": outcome.n_failures,
                "lost_s": outcome.lost_s,
            }
            for n, outcome in zip(counts, outcomes, strict=True)
        ]
        found = made.to_dict() | {"model": model.to_dict(), "on": rows}
        print(json.dumps(found, allow_nan=False))
        return
    total = f"{duration(made.total_s)} of one worker"
    parts = [("decoding", made.decode_s), ("visual prefixes", made.prefix_s)]
    parts.append(("orders", made.orders_s))
    listed = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts)
    console().print(
        f"{made.n_questions} questions, {made.n_videos} videos, {made.n_passes} "
        f"passes: {total} ({listed}); the longest video takes "
        f"{duration(made.longest_s)}"
    )
    print_table(
        f"Wall time, fitted to {like} within {model.error:.0%}",
        ["workers", "wall time", "at best", "utilisation", "failures"],
        [
            [
                str(n),
                duration(outcome.makespan_s),
                duration(outcome.bound_s),
                f"{outcome.utilisation:.0%}",
                str(outcome.n_failures),
            ]
            for n, outcome in zip(counts, outcomes, strict=True)
        ],
    )


def _counts(text: str) -> list[int]:
    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--workers {text!r}: not numbers") from None
    if min(counts) < 1:
        raise UsageError(f"--workers {text}: numbers must be at least 1")
    return counts


def duration(seconds: float) -> str:
    """Write seconds as people read them.

    Examples
    --------
    >>> duration(3.21), duration(75), duration(7384), duration(200_000)
    ('3.2 s', '1 min 15 s', '2 h 3 min', '55.6 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    if seconds < 24 * _HOUR_S:
        return f"{int(seconds // _HOUR_S)} h {int(seconds % _HOUR_S // 60)} min"
    return f"{seconds / _HOUR_S:.1f} h"
