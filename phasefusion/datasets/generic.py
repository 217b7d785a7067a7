"""Question files in the project's own form: JSON, JSON lines, CSV or TSV."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from phasefusion._checks import warn
from phasefusion._paths import path_of
from phasefusion._sources import files
from phasefusion._sources.options import resolve_gold
from phasefusion._wording import encodable
from phasefusion.datasets._subtitles import text_in
from phasefusion.datasets.item import (
    Item,
    SubtitleSource,
    bounds,
    checked_options,
    lettered,
)
from phasefusion.datasets.loading import MissingVideos, detect, load
from phasefusion.datasets.videos import is_file, told_apart
from phasefusion.errors import BackendUnavailableError, DatasetError, OptionWarning
from phasefusion.scoring.letters import first_equal

_FIELDS = ("question_id", "video", "question", "options")
_KNOWN = {
    *_FIELDS,
    "answer",
    "benchmark",
    "video_id",
    "type",
    "start",
    "end",
    "start_frame",
    "end_frame",
    "strata",
    "subtitles",
}
_OPTION_COLUMN = re.compile(r"([A-Z])|(?:option|a)[ _]?(\d+)")


def load_questions(
    path: str | Path,
    *,
    video_root: str | Path | None = None,
    check_videos: bool = True,
) -> list[Item]:
    """Read and check a question file.

    The fields of a question are ``question_id``, ``video`` (a path relative to the
    question file or to `video_root`), ``question``, ``options`` and ``answer``
    (0-based index, letter, or the text of the option; absent or empty when it is not
    known), and optionally ``type``, ``benchmark``, ``video_id``, ``start`` and ``end``
    (seconds; or ``start_frame`` and ``end_frame`` with ``fps``), ``strata`` (an object
    of further properties) and ``subtitles`` (a path, or a list of cues). Everything
    else is kept in `Item.extra`. A CSV file gives the options as
    a JSON list in one column, or in columns ``A B C ...`` or ``option_0 option_1 ...``
    of which an item may leave the last ones empty. Letters in front of all options are
    taken off when they run A, B, C, ...; the same letters in another order are refused.

    Files of the benchmarks of `phasefusion.datasets.names` are told by their fields and
    read as `phasefusion.datasets.load` does; what that leaves out is in a warning.

    Parameters
    ----------
    path : str or Path
        A ``.json`` file (a list of objects, or an object whose ``questions`` is one),
        a ``.jsonl`` file, or a ``.csv`` or ``.tsv`` file with a header line.
    video_root : str or Path, optional
        The folder that video paths are relative to; that of `path` by default.
    check_videos : bool, default True
        Whether a video file that does not exist is an error already here.

    Returns
    -------
    list of Item
        In file order.

    Raises
    ------
    DatasetError
        Naming the file, the line and the question.
    FileNotFoundError
        If the question file itself is not there.
    UsageError
        If `path` is no path.
    """
    path = path_of("path", path, "a question file")
    root = path.parent if video_root is None else Path(video_root)
    benchmark = _benchmark(path)
    if benchmark is not None:
        root = path if path.is_dir() and video_root is None else root
        missing: MissingVideos = "error" if check_videos else "keep"
        return load(benchmark, path, videos=root, missing_videos=missing)
    items: list[Item] = []
    seen: dict[tuple[str, str], str] = {}
    for where, row in _rows(path):
        item = _item(row, where, encodable(path.stem), root.resolve(), check_videos)
        key = (item.benchmark, item.question_id)
        if key in seen:
            raise DatasetError(
                f"{where}: question_id {item.question_id!r} was already used at "
                f"{seen[key]}; ids must be unique within a benchmark"
            )
        seen[key] = where
        items.append(item)
    if not items:
        raise DatasetError(f"{path}: holds no questions")
    return told_apart(items, root.resolve())


def _benchmark(path: Path) -> str | None:
    """Name of the benchmark whose own form a file has, if it is none of ours."""
    try:
        found = detect(path)
    except (DatasetError, BackendUnavailableError):
        if path.is_dir():
            raise
        return None  # what is wrong with it is said when it is read
    return None if found == "plain" else found


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every question of the file with the place it was found at."""
    suffix = path.suffix.lower()
    if suffix not in {".json", ".jsonl", ".csv", ".tsv"}:
        raise DatasetError(
            f"{path}: a question file ends in .json, .jsonl, .csv or .tsv, "
            f"not in {suffix!r}"
        )
    if suffix == ".json":
        yield from _objects(path, files.read_json(path).value)
    elif suffix == ".jsonl":
        for number, row in files.read_jsonl(path):
            yield f"{path}, line {number}", row
    else:
        separator = "\t" if suffix == ".tsv" else ","
        with files.opened(path, "") as text:
            yield from _csv_rows(path, text, separator)


def _objects(path: Path, data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Questions of a JSON file."""
    if isinstance(data, dict):
        data = data.get("questions")
    if not isinstance(data, list):
        raise DatasetError(
            f"{path}: must be a list of questions, or an object whose "
            '"questions" is one'
        )
    for i, row in enumerate(data):
        where = f"{path}, item {i}"
        if not isinstance(row, dict):
            raise DatasetError(
                f"{where}: a question is a JSON object, not {type(row).__name__}"
            )
        yield where, row


def _csv_rows(
    path: Path, lines: Iterable[str], delimiter: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = files.separated(path, lines, delimiter)
    _, columns = next(rows, (0, ()))
    if len(set(columns)) != len(columns):
        raise DatasetError(
            f"{path}, line 1: a column name occurs twice: {list(columns)}"
        )
    option_columns = _option_columns(columns)
    for line, cells in rows:
        where = f"{path}, line {line}"
        if len(cells) != len(columns):
            raise DatasetError(
                f"{where}: has another number of cells than the header, which has "
                f"{len(columns)}"
            )
        raw = dict(zip(columns, cells, strict=True))
        row: dict[str, Any] = {
            name: cell
            for name, cell in raw.items()
            if name not in option_columns and (cell != "" or name in _FIELDS)
        }
        if option_columns:
            options = [raw[name] for name in option_columns]
            while options and options[-1] == "":
                options.pop()
            row["options"] = options
        elif "options" in row:
            row["options"] = _option_list(row["options"], where)
        yield where, row


def _option_columns(columns: Sequence[str]) -> list[str]:
    """Columns that hold one option each, in option order; none if a column has all."""
    if "options" in columns:
        return []
    found = []
    for name in columns:
        match = _OPTION_COLUMN.fullmatch(name)
        if match:
            letter, number = match.groups()
            found.append((ord(letter) - ord("A") if letter else int(number), name))
    return [name for _, name in sorted(found)]


def _option_list(cell: str, where: str) -> Any:
    try:
        return json.loads(cell)
    except json.JSONDecodeError:
        raise DatasetError(
            f'{where}: options must be a JSON list such as ["a cat", "a dog"], '
            f"not {cell!r}"
        ) from None


def _item(
    row: Mapping[str, Any], where: str, benchmark: str, root: Path, check: bool
) -> Item:
    missing = [name for name in _FIELDS if _is_empty(row.get(name), name)]
    if missing:
        raise DatasetError(f"{where}: {', '.join(missing)} missing or empty")
    question_id = row["question_id"]
    if isinstance(question_id, bool) or not isinstance(question_id, str | int):
        raise DatasetError(
            f"{where}: question_id must be a text or a whole number, "
            f"not {question_id!r}"
        )
    where = f"{where} ({question_id!r})"
    video = root / _text(row, "video", where)
    if check and not is_file(video):
        raise DatasetError(f"{where}: there is no video file {video}")
    options = _options(row["options"], where)
    start, end = bounds(row, where)
    kind = row.get("type")
    return Item(
        question_id=str(question_id).strip(),
        benchmark=str(row.get("benchmark") or benchmark),
        video=str(video),
        video_id=str(row.get("video_id") or encodable(video.stem)),
        question=_text(row, "question", where).strip(),
        options=lettered(options),
        gold=_gold(row.get("answer"), options, where),
        type=None if kind in (None, "") else str(kind),
        start=start,
        end=end,
        extra={name: value for name, value in row.items() if name not in _KNOWN},
        strata=_strata(row, where),
        subtitles=_subtitles(row, where, root, check),
    )


def _is_empty(value: object, name: str) -> bool:
    """Whether a field says nothing; white space may be the name of a file."""
    blank = isinstance(value, str) and name != "video" and not value.strip()
    return blank or value in (None, "")


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise DatasetError(f"{where}: {name} must be a text, not {value!r}")
    return value


def _strata(row: Mapping[str, Any], where: str) -> dict[str, str]:
    given = row.get("strata")
    if given in (None, ""):
        return {}
    if not isinstance(given, Mapping) or not all(
        isinstance(value, str | int | float) for value in given.values()
    ):
        raise DatasetError(
            f"{where}: strata must be an object of texts, such as "
            f'{{"duration": "short"}}, not {given!r}'
        )
    return {str(name): str(value) for name, value in given.items()}


def _subtitles(
    row: Mapping[str, Any], where: str, root: Path, check: bool
) -> SubtitleSource | None:
    given = row.get("subtitles")
    if given in (None, ""):
        return None
    if not isinstance(given, str | list):
        raise DatasetError(
            f"{where}: subtitles must be a path or a list of cues, not {given!r}"
        )
    path = root / str(given)
    there = isinstance(given, str) and is_file(path)
    text = None if there else text_in(given)
    if text is not None:
        return SubtitleSource(text=text)
    if check and not there:
        raise DatasetError(f"{where}: there is no subtitle file {path}")
    return SubtitleSource(path=str(path))


def _options(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DatasetError(f"{where}: options must be a list of texts, not {value!r}")
    given = [_option(text, k, where) for k, text in enumerate(value)]
    options = checked_options(given, where)
    repeats = {options[j] for k, j in enumerate(first_equal(options)) if k != j}
    if repeats:
        warn(
            f"{where}: options occur more than once: {sorted(repeats)}; their "
            "probabilities are added and count as one option",
            OptionWarning,
        )
    return options


def _option(text: Any, k: int, where: str) -> str:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise DatasetError(f"{where}: option {k} must be a text, not {text!r}")
    return str(text).strip()


def _gold(answer: Any, options: tuple[str, ...], where: str) -> int | None:
    """Content index of the answer, or an error when it could be more than one."""
    gold = resolve_gold(answer, options, len(options))
    if gold.kind == "gold missing":
        return None
    if gold.kind == "gold ambiguous":
        raise DatasetError(f"{where}: answer {answer!r} is ambiguous: {gold.reason}")
    if gold.kind:
        raise DatasetError(
            f"{where}: answer {answer!r} cannot be used: {gold.reason}; give "
            f"0..{len(options) - 1}, A..{chr(ord('A') + len(options) - 1)} or the text "
            "of an option"
        )
    return gold.indices[0]
