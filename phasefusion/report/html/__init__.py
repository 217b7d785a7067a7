"""The report as one HTML file that works offline: overview, questions, film strips."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from phasefusion._checks import warn
from phasefusion._paths import path_of, run_path
from phasefusion._whole import replace_text
from phasefusion._wording import counted, unwritten
from phasefusion.errors import RecordError, RecordWarning, UsageError
from phasefusion.records import Passes, read_passes
from phasefusion.records.files import described_run, passes_path
from phasefusion.records.questions import NAME_IT, QuestionTexts, find_questions
from phasefusion.report.headline import headline
from phasefusion.report.html.data import heat_maps, page_data
from phasefusion.report.html.plots import plots
from phasefusion.report.html.rendering import inert_json, rendered
from phasefusion.report.html.shares import Shares, frame_shares, shown
from phasefusion.report.html.strips import Strip, film_strips
from phasefusion.report.html.words import words
from phasefusion.report.sections import sections
from phasefusion.report.table import build

__all__ = ["HTML_FILE", "inert_json", "write_html"]

HTML_FILE = "report.html"
#: Pictures of more bytes together lie beside the file instead of in it.
INLINE_BYTES = 8_000_000
FILES_FOLDER = "report_files"


def write_html(
    run: str | Path,
    numbers: Mapping[str, Any],
    folder: str | Path | None = None,
    *,
    questions: str | Path | None = None,
    n_strips: int = 100,
    inline_bytes: int = INLINE_BYTES,
) -> Path:
    """Write ``report.html`` of a run.

    Parameters
    ----------
    run : str or Path
        The run folder.
    numbers : mapping
        `Report.numbers` of the same run.
    folder : str or Path, optional
        Where the file goes; the folder of the passes by default.
    questions : str or Path, optional
        The question file; by default the one that the run names, where it still lies
        there. Without it questions are shown by their ids, and no frames.
    n_strips : int, default 100
        Questions that get film strips, the least stable first; their videos are
        decoded. With any, those have them too whose frames `saliency` has explained.
    inline_bytes : int, default 8,000,000
        Pictures of more bytes together are written to the folder ``report_files``
        beside the file, and loaded when they are looked at.

    Returns
    -------
    path : Path
        Of the file.

    Raises
    ------
    FileNotFoundError
        If there is no run, or no such question file.
    UsageError
        If a number is negative.
    RecordError
        If the run is damaged, or the file cannot be written.
    DatasetError
        If `questions` is given and cannot be read.

    Warns
    -----
    RecordWarning
        If `questions` is given and lacks questions of the run, or is not given and the
        file that the run names cannot be read; if videos are not the files that were
        scored, of which no frames are shown.
    """
    for name, value in (("n_strips", n_strips), ("inline_bytes", inline_bytes)):
        if value < 0:
            raise UsageError(f"{name} is {value}; it must be at least 0")
    run = run_path("run", run)
    folder = passes_path(run).parent if folder is None else path_of("folder", folder)
    described = described_run(run)
    settings = described.get("settings", {})
    passes = read_passes(run)
    table = build(passes, settings)
    texts = find_questions(described, questions, folder=passes_path(run).parent)
    if texts.is_lost:
        warn(
            f"{run}: {texts.note}; the page shows questions by their ids, without "
            f"frames: {NAME_IT}",
            RecordWarning,
        )
    if questions is not None:
        _warn_of_lacking(Path(questions), passes, texts)
    data = page_data(passes, table, settings, texts)
    shares = frame_shares(run, data["items"])
    explained = {item for item, _ in shares}
    strips = film_strips(run, data["items"], texts, n_strips, explained)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        data["strips"] = _placed(strips, shares, folder, inline_bytes)
        page = _render(numbers, data, plots(numbers, table), heat_maps(table), texts)
        path = folder / HTML_FILE
        replace_text(path, page)
    except OSError as error:
        raise RecordError(unwritten(folder, error)) from error
    return path


def _warn_of_lacking(path: Path, passes: Passes, texts: QuestionTexts) -> None:
    """Say that a question file that was given is not the run's, or not all of it."""
    keys = [(info.benchmark, info.question_id) for info in passes.items]
    n = sum(key in texts.items for key in keys)
    if n < len(keys):
        warn(
            f"{path}: has {n} of the {counted(len(keys), 'question')} of the run, as "
            "they were scored; the page shows the others by their ids, without frames",
            RecordWarning,
        )


def _placed(
    strips: Sequence[Strip], shares: Shares, folder: Path, inline_bytes: int
) -> dict[str, list[dict[str, Any]]]:
    """Give strips by item, with pictures as data or as files beside the page."""
    pictures = {one.picture.name: one.picture for one in strips if one.picture}
    linked = sum(len(one.data) for one in pictures.values()) > inline_bytes
    beside = folder / FILES_FOLDER
    if beside.is_dir():  # of an earlier report, which the file no longer names
        shutil.rmtree(beside)
    if linked:
        beside.mkdir()
        for picture in pictures.values():
            (beside / picture.name).write_bytes(picture.data)
    found: dict[str, list[dict[str, Any]]] = {}
    for one in strips:
        entry = one.to_dict() | {"shares": shown(shares, one)}
        if one.picture:
            entry["source"] = (
                f"{FILES_FOLDER}/{one.picture.name}"
                if linked
                else f"data:{one.picture.kind};base64,"
                + base64.b64encode(one.picture.data).decode()
            )
        found.setdefault(str(one.item), []).append(entry)
    return found


def _render(
    numbers: Mapping[str, Any],
    data: Mapping[str, Any],
    figures: Sequence[Mapping[str, str]],
    heats: Sequence[Mapping[str, Any]],
    texts: QuestionTexts,
) -> str:
    card = {name: value for name, value in numbers["card"].items() if name != "text"}
    return rendered(
        "page.html.jinja",
        ("theme.js", "page.js"),
        title="phasefusion report",
        tag=numbers["protocol"],
        headline=headline(numbers),
        sections=sections(numbers),
        card_text=numbers["card"]["text"],
        card=orjson.dumps(card, option=orjson.OPT_INDENT_2).decode(),
        plots=figures,
        heats=heats,
        texts_note=texts.note,
        main=data["main"],
        words=words(data["main"], data["arms"], numbers["half_step"] is not None),
        data=data,
    )
