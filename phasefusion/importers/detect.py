"""Telling what form a foreign file has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from phasefusion._paths import path_of
from phasefusion._results import Result
from phasefusion._sources.files import Table, read_json, read_jsonl, read_table
from phasefusion._sources.model import Reading, Settings
from phasefusion._sources.rows import PREDICTIONS
from phasefusion._sources.shapes import NEXTQA_ID, UUID, benchmark_of, is_tempcompass
from phasefusion.errors import DatasetError
from phasefusion.importers.benchmarks import (
    by_id,
    read_egoschema,
    read_mlvu,
    read_nextqa,
    read_tempcompass,
    read_videomme,
)
from phasefusion.importers.harness import read_lmms_eval, read_vlmevalkit
from phasefusion.importers.logprobs import holds_choices, read_logprobs
from phasefusion.importers.tables import (
    frames_of,
    is_run,
    read_csv,
    read_order_sweep,
    read_wide,
    sweep_heads,
)

Reader: TypeAlias = Callable[[Path, Settings], Reading]


def read_by_id(path: Path, settings: Settings) -> Reading:
    """Read an object of answers by question id.

    Raises
    ------
    DatasetError
        If the file is no such object.
    """
    document = read_json(path, lenient=settings.lenient)
    return by_id(path, document, settings.name(path.stem))


_WHY = {
    "videomme": "videos with questions",
    "egoschema": "rows have q_uid",
    "nextqa": "rows have video, qid and a0",
}

#: Reader of every format, and what it is, for the help.
READERS: dict[str, tuple[Reader, str]] = {
    "lmms-eval": (read_lmms_eval, "samples JSONL of lmms-eval"),
    "vlmevalkit": (read_vlmevalkit, "xlsx, tsv or csv of VLMEvalKit"),
    "videomme": (read_videomme, "Video-MME's result JSON"),
    "mlvu": (read_mlvu, "MLVU's lists and submissions"),
    "tempcompass": (read_tempcompass, "TempCompass's predictions and evaluations"),
    "nextqa": (read_nextqa, "NExT-QA's csv and json"),
    "egoschema": (read_egoschema, "EgoSchema's questions, answers and submissions"),
    "logprobs": (read_logprobs, "OpenAI and vLLM responses with log-probabilities"),
    "order-sweep": (read_order_sweep, "a table of several option orders a row"),
    "wide": (read_wide, "a table of one column a run"),
    "by-id": (read_by_id, "a JSON object of answers by id"),
    "csv": (read_csv, "a table or JSON rows with --map"),
}
FORMATS = tuple(READERS)


@dataclass(frozen=True, slots=True)
class Detected(Result):
    """What a file was taken for.

    Attributes
    ----------
    format : str
        One of `FORMATS`.
    reason : str
        What it was told by.
    """

    format: str
    reason: str

    def __str__(self) -> str:
        return f"{self.format} ({self.reason})"


def detect_format(path: str | Path, *, lenient: bool = False) -> Detected:
    """Tell the form of a file by its name and what is in it.

    Parameters
    ----------
    path : str or Path
    lenient : bool, default False
        Read JSON with commas before closing brackets.

    Returns
    -------
    Detected

    Raises
    ------
    DatasetError
        If it cannot be read, or is of no known form.
    FileNotFoundError
        If it is not there.
    """
    path = path_of("path", path, "a file of results")
    suffix = path.suffix.lower()
    found: Detected | None
    if suffix == ".jsonl":
        rows = read_jsonl(path)
        first = next(rows, None)
        found = None if first is None else _of_line(first[1])
    elif suffix == ".json":
        found = _of_json(read_json(path, lenient=lenient).value)
    elif suffix in (".csv", ".tsv", ".xlsx", ".xlsm"):
        found = _of_table(read_table(path))
    else:
        raise DatasetError(
            f"{path}: result files end in .json, .jsonl, .csv, .tsv or .xlsx, not in "
            f"{suffix!r}"
        )
    if found is None:
        raise DatasetError(
            f"{path}: is of no known form; say which: {', '.join(FORMATS)}"
        )
    return found


def _of_line(row: Mapping[str, Any]) -> Detected | None:
    if "doc_id" in row and {"filtered_resps", "resps", "target"} & set(row):
        return Detected("lmms-eval", "lines have doc_id and responses")
    if _is_response(row):
        return Detected("logprobs", "lines are responses of a server")
    known = benchmark_of(row)
    if known == "egoschema":
        return Detected(known, _WHY[known])
    return Detected("csv", "lines are objects of no harness")


def _is_response(row: Mapping[str, Any]) -> bool:
    if {"custom_id", "response", "error"} <= set(row):
        return True  # batch output, of requests that failed too
    inner: Any = row.get("response", row)
    if isinstance(inner, Mapping):
        inner = inner.get("body", inner)
    return holds_choices(inner)


def _of_json(value: object) -> Detected | None:
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, Mapping)]
        if not rows or len(rows) != len(value):
            return None
        return _of_list(rows[0])
    if isinstance(value, Mapping) and value:
        return _of_object(value)
    return None


def _of_list(row: Mapping[str, Any]) -> Detected | None:
    known = benchmark_of(row)
    if known is not None:
        return Detected(known, _WHY[known])
    if _is_response(row):
        return Detected("logprobs", "a list of responses of a server")
    if "candidates" in row or {"question_type", "option"} <= set(row):
        return Detected("mlvu", "a list of objects with candidates or options")
    return Detected("csv", "a list of objects of no harness")


def _of_object(value: Mapping[str, Any]) -> Detected | None:
    name, one = next(iter(value.items()))
    if is_tempcompass(value):
        return Detected("tempcompass", "videos, dimensions, lists of questions")
    if _is_response(value):
        return Detected("logprobs", "a response of a server")
    if isinstance(one, list):
        if one and isinstance(one[0], Mapping):
            return _of_list(one[0])
        return None
    if UUID.fullmatch(name):
        return Detected("egoschema", "answers by q_uid")
    if isinstance(one, Mapping):
        if not set(one) & {*PREDICTIONS, "answer"}:
            return None
        if NEXTQA_ID.fullmatch(name):
            return Detected("nextqa", "predictions by video_qid")
        return Detected("by-id", "predictions by id")
    return Detected("by-id", "answers by id")


def _of_table(table: Table) -> Detected:
    columns = set(table.columns)
    if sweep_heads(table.columns) and any("_response" in name for name in columns):
        return Detected("order-sweep", "columns of several option orders")
    known = benchmark_of(dict.fromkeys(columns))
    if known == "nextqa":
        return Detected(known, _WHY[known])
    if {"index", "prediction"} <= columns and columns & {"A", "candidates", "g_index"}:
        return Detected("vlmevalkit", "columns index, prediction and options")
    if known is not None:
        return Detected(known, _WHY[known])
    runs = _runs(table)
    several = len(runs) >= 2 or any(frames_of(name) is not None for name in runs)
    if several and not columns & set(PREDICTIONS):
        return Detected("wide", f"a column a run: {', '.join(runs[:6])}")
    if several:
        also = f"{', '.join(runs[:6])} may be runs, and are read as such by wide"
        return Detected("csv", f"a table of no harness; {also}")
    return Detected("csv", "a table of no harness")


def _runs(table: Table) -> Sequence[str]:
    known = {"answer", "gold", "label", "gt", "truth", "type", *PREDICTIONS}
    return [
        name
        for name in table.columns
        if name not in known
        and len(name) > 1
        and is_run(name, [row.get(name, "") for _, row in table.rows])
    ]


def format_of(path: Path, format: str, settings: Settings) -> Detected:
    """Return the form of a file, as given or told by what is in it.

    Raises
    ------
    DatasetError
        As `detect_format`, or if the given one is none.
    """
    if format == "auto":
        return detect_format(path, lenient=settings.lenient)
    if format not in READERS:
        raise DatasetError(
            f"format {format!r} is not one of auto, {', '.join(FORMATS)}"
        )
    return Detected(format, "as given")
