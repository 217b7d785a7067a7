"""How long a run will take."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion._wording import counted
from phasefusion.cli.application import (
    JsonFlag,
    app,
    console,
    examples,
    print_table,
)
from phasefusion.errors import UsageError

if TYPE_CHECKING:
    from phasefusion.capacity import CostModel

_HOUR_S = 3600.0
#: Fewer calls than this say little about the next ones.
_FEW_CALLS = 10
#: Relative error of a fit beyond which its forecast is no figure.
_BAD_FIT = 0.5


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
    questions: Annotated[
        Path, typer.Argument(help="Question file: JSON, JSONL, CSV or TSV.")
    ],
    like: Annotated[
        Path, typer.Option(help="Run folder whose times and protocol are taken.")
    ],
    workers: Annotated[
        str, typer.Option(help="Workers: numbers of them, with commas between.")
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
    by_id = {(one.benchmark, one.video_id): videos[one.video] for one in items}
    model = fit(like, videos=by_id, startup_s=startup)
    _warn(model, [path for path, facts in videos.items() if not facts.n_frames])
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
        f"{counted(made.n_questions, 'question')}, {counted(made.n_videos, 'video')}, "
        f"{counted(made.n_passes, 'pass', 'passes')}: {total} ({listed}); "
        f"the longest video takes {duration(made.longest_s)}"
    )
    print_table(
        f"Wall time, fitted to {like} {_fitted(model)}",
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


def _fitted(model: CostModel) -> str:
    """Say how well the pilot was met, where that says anything."""
    calls = counted(model.n_calls, "call")
    if math.isnan(model.error):
        return f"({calls}, too few kinds of them to check the fit)"
    return f"within {model.error:.0%} ({calls})"


def _warn(model: CostModel, unread: Sequence[str]) -> None:
    """Say on stderr why a forecast is not to be relied on."""
    lines = []
    if unread:
        more = ", ..." if len(unread) > 1 else ""
        lines.append(
            f"{counted(len(unread), 'video')} cannot be opened and count as if they had"
            f" no frames: {unread[0]}{more}"
        )
    if model.n_calls < _FEW_CALLS:
        lines.append(
            f"the pilot has {counted(model.n_calls, 'call')} of the scorer, the first "
            "of which may have warmed it up: make it longer"
        )
    if model.error > _BAD_FIT:
        lines.append(
            f"the pilot's own calls are missed by {model.error:.0%} on average: the "
            "forecast may be as wrong; make the pilot longer, on an idle machine"
        )
    for line in lines:
        print(f"phasefusion: warning: {line}", file=sys.stderr)


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
