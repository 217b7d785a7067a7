"""Commands that show frames, samplers and what is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasefusion._wording import counted
from phasefusion.cli.anchoring import (
    AnchorOption,
    At,
    Phrase,
    SubtitleFile,
    Window,
    anchored_grid,
    lines_of,
)
from phasefusion.cli.application import (
    WRONG,
    Budget,
    By,
    JsonFlag,
    Origin,
    Phases,
    app,
    examples,
    print_table,
)
from phasefusion.errors import FrameError

if TYPE_CHECKING:
    from phasefusion.video import Clip


@app.command(
    epilog=examples(
        "phasefusion frames clip.mp4",
        "phasefusion frames clip.mp4 -b 16 -s 2 --out sheet.png",
        'phasefusion frames clip.mp4 --anchor auto --phrase "pour the water"',
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
            help="Where to write: a PNG (<video>.grids.png in the working directory).",
        ),
    ] = None,
    width: Annotated[int, typer.Option(help="Width: of a picture, in pixels.")] = 160,
    anchor: AnchorOption = None,
    phrase: Phrase = None,
    subtitles: SubtitleFile = None,
    at: At = None,
    window: Window = None,
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
            help="How often: one frame of so many is compared with --check, 1 for all "
            "(all of up to 240, then so many that it is 240 at most)."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Draw the frames of every phase grid of a video, a row a phase.

    Frames that do not decode are crossed out; damaged ones have a red border. With
    --anchor the grids divide a window alone, and their origin is left unless given.
    """
    if check:
        _refuse_grid_options(context)
        _check_frames(video, every, as_json)
        return
    if every is not None:
        raise typer.BadParameter("--every goes with --check only")
    from phasefusion.contact import contact_sheet, picture_size, write_png
    from phasefusion.grid import PhaseGrid
    from phasefusion.video import read_clip

    if out is not None and out.suffix.lower() not in ("", ".png"):
        raise FrameError(f"--out {out}: the sheet is a PNG; end its name in .png")
    if anchor is None:
        _refuse_anchor_options(context)
    elif not _is_given(context, "origin"):
        origin = "left"  # the first frame is the anchor's
    grid = PhaseGrid(budget, phases, origin, by=by.value)
    found_anchor = None
    if anchor is not None:
        grid, found_anchor = anchored_grid(
            video, grid, anchor, phrase, subtitles, at, window
        )
    size = picture_size(grid.phases, width)
    clip = read_clip(str(video), grid, on_error="mark", size=size)
    path = out or Path(f"{video.name}.grids.png")
    write_png(path, contact_sheet(clip, width_px=width))
    rows = _rows_of(clip)
    if as_json:
        facts = {
            "path": str(video),
            "n_frames": clip.info.n_frames,
            "duration_s": clip.info.duration_s,
            "start_s": clip.info.start_s,
            "width": clip.info.width,
            "height": clip.info.height,
        }
        if found_anchor is not None:
            facts["anchor"] = found_anchor.to_dict()
        found = facts | {"grid": grid.to_dict(), "png": str(path), "phases": rows}
        print(json.dumps(found))
        return
    print_table(
        f"{video.name}: {counted(clip.info.n_frames, 'frame')} of {clip.info.width}x"
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
    if found_anchor is not None:
        window_frames = grid.to_dict()["window"]
        print(*lines_of(found_anchor.to_dict(), window_frames), sep="\n")
    print(f"written: {path}")


def _refuse_anchor_options(context: typer.Context) -> None:
    """Raise where an option of anchors is given without --anchor."""
    for name in ("phrase", "subtitles", "at", "window"):
        if _is_given(context, name):
            raise typer.BadParameter(f"--{name} goes with --anchor only")


def _rows_of(clip: Clip) -> list[dict[str, Any]]:
    """Say which frames each phase has."""
    return [
        {
            "phase": str(clip.grid.phase(s)),
            "frame_indices": clip.indices[s].tolist(),
            "frame_times_s": clip.times_s[s].round(6).tolist(),
            "missing": clip.indices[s][clip.missing[s] & ~clip.damaged[s]].tolist(),
            "damaged": clip.indices[s][clip.damaged[s]].tolist(),
        }
        for s in range(len(clip.indices))
    ]


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _refuse_grid_options(context: typer.Context) -> None:
    """--check compares the frames of no grid and draws none."""
    for option in context.command.params:
        name = option.name or ""
        if _is_given(context, name) and name not in (
            "video",
            "check",
            "every",
            "as_json",
        ):
            raise typer.BadParameter(f"{option.opts[0]} does not go with --check")


def _check_frames(video: Path, every: int | None, as_json: bool) -> None:
    from phasefusion.frame_check import check_frames

    if every is not None and every < 1:
        raise typer.BadParameter(f"--every is {every}; it must be at least 1")
    found = check_frames(str(video), every=every, progress=None)
    if as_json:
        print(json.dumps(found.to_dict()))
    else:
        print(f"{video.name}: ", end="")
        print(*found.lines(), sep="\n")
    if not found.is_right:
        raise typer.Exit(WRONG)


def _marked_frames(row: Mapping[str, Any]) -> list[str]:
    """Frame indices as text, each with what is wrong with it."""
    marks = dict.fromkeys(row["missing"], " (missing)")
    marks |= dict.fromkeys(row["damaged"], " (damaged)")
    return [f"{index}{marks.get(index, '')}" for index in row["frame_indices"]]


@app.command(
    epilog=examples(
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
    print_table(
        f"{counted(n_frames, 'frame')}, budget {budget}",
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


@app.command(epilog=examples("phasefusion info", "phasefusion info --json"))
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
        print_table(
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
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
