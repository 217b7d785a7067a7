"""Question files in the project's own form: JSON, JSON lines, CSV or TSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, SupportsIndex

from phasefusion._checks import warn
from phasefusion.errors import DatasetError, OptionWarning
from phasefusion.orders import MAX_LETTERS
from phasefusion.scoring.letters import first_equal, strip_letters

_FIELDS = ("question_id", "video", "question", "options")
_KNOWN = {
    *_FIELDS,
    "answer",
    "benchmark",
    "video_id",
    "type",
    "start",
    "end",
}
_OPTION_COLUMN = re.compile(r"([A-Z])|(?:option|a)[ _]?(\d+)")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: A letter in front of an option, in every form that `strip_letters` takes off.
_IN_FRONT = re.compile(
    r"\s*(?:\(([A-Za-z])\)|\[([A-Za-z])\]|([A-Za-z])[.):、])\s*\S.*", re.DOTALL
)
_LETTERED = re.compile(r"\(?([A-Z])[.):]\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Item:
    """One multiple-choice question about one video.

    Attributes
    ----------
    question_id : str
        Unique within `benchmark`.
    benchmark : str
        Where the question comes from; the name of the question file by default.
    video : str
        Absolute path of the video file.
    video_id : str
        Name of the video; questions about one video form a cluster.
    question : str
        The question alone, without options or instructions.
    options : tuple of str
        2 to 26 option texts in content order; letters in front that run A, B, C, ...
        are taken off.
    gold : int or None
        Content index of the right option, 0-based; None when it is not known.
    type : str or None
        Kind of question, for breakdowns.
    start, end : float or None
        Bounds of the part of the video that is asked about, in seconds.
    extra : dict
        Fields of the question file that have no meaning here, kept as they were.

    Raises
    ------
    DatasetError
        Naming the question, if its options cannot be lettered and told apart, or the
        gold is none of them.
    """

    question_id: str
    benchmark: str
    video: str
    video_id: str
    question: str
    options: tuple[str, ...]
    gold: int | None = None
    type: str | None = None
    start: float | None = None
    end: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"question {self.question_id!r}"
        options = _checked_options(self.options, where)
        object.__setattr__(self, "options", options)
        if self.gold is None:
            return
        known = isinstance(self.gold, SupportsIndex) and not isinstance(self.gold, bool)
        if not known or int(self.gold) not in range(len(options)):
            raise DatasetError(
                f"{where}: gold {self.gold!r} is none of its {len(options)} options; "
                f"it must be 0..{len(options) - 1}, or None where it is not known"
            )
        object.__setattr__(self, "gold", int(self.gold))

    @property
    def same_options(self) -> tuple[int, ...]:
        """First option of equal text for each option; ``range(K)`` as a rule."""
        return first_equal(self.options)


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
    (seconds). Everything else is kept in `Item.extra`. A CSV file gives the options as
    a JSON list in one column, or in columns ``A B C ...`` or ``option_0 option_1 ...``
    of which an item may leave the last ones empty. Letters in front of all options are
    taken off when they run A, B, C, ...; the same letters in another order are refused.

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
    """
    path = Path(path)
    root = path.parent if video_root is None else Path(video_root)
    items: list[Item] = []
    seen: dict[tuple[str, str], str] = {}
    for where, row in _rows(path):
        item = _item(row, where, path.stem, root.resolve(), check_videos)
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
    return items


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every question of the file with the place it was found at."""
    suffix = path.suffix.lower()
    if suffix not in {".json", ".jsonl", ".csv", ".tsv"}:
        raise DatasetError(
            f"{path}: a question file ends in .json, .jsonl, .csv or .tsv, "
            f"not in {suffix!r}"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8"
        ) from None
    if suffix == ".json":
        yield from _json_rows(path, text)
    elif suffix == ".jsonl":
        yield from _jsonl_rows(path, text)
    else:
        yield from _csv_rows(path, text, "\t" if suffix == ".tsv" else ",")


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"{path}, line {error.lineno}: not JSON: {error.msg}"
        ) from None
    if isinstance(data, dict):
        data = data.get("questions")
    if not isinstance(data, list):
        raise DatasetError(
            f"{path}: must be a list of questions, or an object whose "
            '"questions" is one'
        )
    for i, row in enumerate(data):
        where = f"{path}, item {i}"
        yield where, _object(row, where)


def _jsonl_rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    # Split at "\n" alone: other separators of str.splitlines may stand in a text.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DatasetError(
                f"{where}: not JSON: {error.msg} at column {error.colno}"
            ) from None
        yield where, _object(row, where)


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DatasetError(
            f"{where}: a question is a JSON object, not {type(row).__name__}"
        )
    return row


def _csv_rows(
    path: Path, text: str, delimiter: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    columns = list(reader.fieldnames or ())
    if len(set(columns)) != len(columns):
        raise DatasetError(f"{path}, line 1: a column name occurs twice: {columns}")
    if len(columns) == 1:
        _check_separator(path, columns[0], delimiter)
    option_columns = _option_columns(columns)
    try:
        for raw in reader:
            where = f"{path}, line {reader.line_num}"
            if None in raw or None in raw.values():
                raise DatasetError(
                    f"{where}: has another number of cells than the header, which "
                    f"has {len(columns)}"
                )
            row: dict[str, Any] = {
                name: cell
                for name, cell in raw.items()
                if name not in option_columns and (cell != "" or name in _FIELDS)
            }
            if option_columns:
                cells = [raw[name] for name in option_columns]
                while cells and cells[-1] == "":
                    cells.pop()
                row["options"] = cells
            elif "options" in row:
                row["options"] = _option_list(row["options"], where)
            yield where, row
    except csv.Error as error:
        raise DatasetError(f"{path}, line {reader.line_num}: {error}") from None


def _check_separator(path: Path, header: str, delimiter: str) -> None:
    """Say so when a header of one column is one with another separator."""
    for other, name in _SEPARATORS.items():
        if other != delimiter and other in header:
            raise DatasetError(
                f"{path}, line 1: the columns are separated by {name} ({other!r}), but "
                f"those of a {path.suffix} file must be by {_SEPARATORS[delimiter]} "
                f"({delimiter!r}); save it so, or as .jsonl"
            )


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
    missing = [name for name in _FIELDS if row.get(name) in (None, "")]
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
    if check and not video.is_file():
        raise DatasetError(f"{where}: there is no video file {video}")
    options = _options(row["options"], where)
    start, end = _seconds(row, "start", where), _seconds(row, "end", where)
    if start is not None and end is not None and not start < end:
        raise DatasetError(f"{where}: start {start} s is not before end {end} s")
    kind = row.get("type")
    return Item(
        question_id=str(question_id),
        benchmark=str(row.get("benchmark") or benchmark),
        video=str(video),
        video_id=str(row.get("video_id") or video.stem),
        question=_text(row, "question", where),
        options=options,
        gold=_gold(row.get("answer"), options, where),
        type=None if kind in (None, "") else str(kind),
        start=start,
        end=end,
        extra={name: value for name, value in row.items() if name not in _KNOWN},
    )


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise DatasetError(f"{where}: {name} must be a text, not {value!r}")
    return value


def _seconds(row: Mapping[str, Any], name: str, where: str) -> float | None:
    value = row.get(name)
    if value in (None, ""):
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise DatasetError(f"{where}: {name} must be seconds >= 0, not {value!r}")
    return seconds


def _options(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DatasetError(f"{where}: options must be a list of texts, not {value!r}")
    given = [_option(text, k, where) for k, text in enumerate(value)]
    options = _checked_options(given, where)
    repeats = {options[j] for k, j in enumerate(first_equal(options)) if k != j}
    if repeats:
        warn(
            f"{where}: options occur more than once: {sorted(repeats)}; their "
            "probabilities are added and count as one option",
            OptionWarning,
        )
    return options


def _checked_options(given: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the option texts without letters in front, or say what is wrong."""
    if isinstance(given, str) or not all(isinstance(text, str) for text in given):
        raise DatasetError(f"{where}: options must be a list of texts, not {given!r}")
    if not 2 <= len(given) <= MAX_LETTERS:
        raise DatasetError(
            f"{where}: has {len(given)} options; 2 to {MAX_LETTERS} can be lettered"
        )
    _check_letters(given, where)
    options, _ = strip_letters([text.strip() for text in given])
    for k, text in enumerate(options):
        if not text:
            raise DatasetError(f"{where}: option {k} is empty")
    if set(first_equal(options)) == {0}:
        raise DatasetError(f"{where}: all options read {options[0]!r}")
    return options


def _check_letters(given: Sequence[str], where: str) -> None:
    """Refuse options that carry the letters A to the K-th in another order.

    Those may be the letters to answer with, which contradict the places, or no letters
    at all but initials; other letters, as in "A. Lincoln" and "J. Adams", are text.
    """
    matches = [_IN_FRONT.fullmatch(text) for text in given]
    letters = "".join((m[1] or m[2] or m[3]).upper() for m in matches if m)
    in_order = "".join(chr(ord("A") + k) for k in range(len(given)))
    if len(letters) == len(given) and letters != in_order and {*letters} <= {*in_order}:
        raise DatasetError(
            f"{where}: the options are ambiguous: they carry the letters "
            f"{', '.join(letters)} at the places of {', '.join(in_order)}; take the "
            "letters off or put the options in the order of their letters"
        )


def _option(text: Any, k: int, where: str) -> str:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise DatasetError(f"{where}: option {k} must be a text, not {text!r}")
    return str(text).strip()


def _gold(answer: Any, options: tuple[str, ...], where: str) -> int | None:
    """Content index of the answer, or an error when it could be more than one."""
    if answer is None or answer == "":
        return None
    if isinstance(answer, bool) or not isinstance(answer, str | int):
        raise DatasetError(
            f"{where}: answer must be an index, a letter or the text of an option, "
            f"not {answer!r}"
        )
    if isinstance(answer, int):
        readings = {answer} if 0 <= answer < len(options) else set()
    else:
        readings = set(_readings(answer.strip(), options))
    if not readings:
        raise DatasetError(
            f"{where}: answer {answer!r} is none of the {len(options)} options: give "
            f"0..{len(options) - 1}, A..{chr(ord('A') + len(options) - 1)} or a text"
        )
    if len(readings) > 1:
        raise DatasetError(
            f"{where}: answer {answer!r} is ambiguous: it could be option "
            f"{' or '.join(map(str, sorted(readings)))}; give a 0-based number"
        )
    return readings.pop()


def _readings(answer: str, options: tuple[str, ...]) -> Iterable[int]:
    """Every option index that the text could mean."""
    yield from (k for k, text in enumerate(options) if text == answer)
    if re.fullmatch(r"[A-Za-z]|\([A-Za-z]\)", answer):
        k = ord(answer.strip("()").upper()) - ord("A")
        if k < len(options):
            yield k
    if re.fullmatch(r"\d+", answer) and int(answer) < len(options):
        yield int(answer)
    match = _LETTERED.fullmatch(answer)
    if match:
        k = ord(match.group(1)) - ord("A")
        if k < len(options) and options[k] == match.group(2).strip():
            yield k
