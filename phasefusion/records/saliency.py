"""What frames add to answers, beside the passes of a run: ``saliency.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from phasefusion._paths import path_of, run_path
from phasefusion._wording import counted
from phasefusion.errors import RecordError
from phasefusion.records.appending import Appender, lock
from phasefusion.records.files import dump
from phasefusion.records.lines import PassLines, Row

SALIENCY_FILE = "saliency.jsonl"
#: Fields that every line has.
FIELDS = (
    "benchmark",
    "question_id",
    "kind",
    "method",
    "replace",
    "phases",
    "options",
    "order",
    "frame_indices",
    "values",
    "base",
)

SaliencyKey = tuple[Any, ...]


def saliency_key(row: Mapping[str, Any]) -> SaliencyKey:
    """Return what makes a line that line: all that decides its values."""
    return (
        row["benchmark"],
        row["question_id"],
        row["kind"],
        row["method"],
        row["replace"],
        tuple(row["phases"]),
        tuple(row["options"]),
        tuple(row["order"]),
    )


def read_saliency(folder: Any) -> list[dict[str, Any]]:
    """Read the lines of a run; none where it has no such file.

    Of lines about the same phases of the same question by the same method, the last
    one counts.

    Raises
    ------
    RecordError
        Naming the line that is none. A last line that a crash has torn is left out with
        a RecordWarning.
    """
    path = run_path("folder", folder) / SALIENCY_FILE
    if not path.exists():
        return []
    lines = PassLines(path)
    rows = _checked(path, lines.numbered_rows())
    found = {saliency_key(row)[:6]: row for row in rows}
    lines.warn_torn("left out")
    return list(found.values())


def _checked(path: Path, rows: Iterable[tuple[int, Row]]) -> Iterator[Row]:
    for number, row in rows:
        problem = _problem(row)
        if problem:
            raise RecordError(f"{path}, line {number}: {problem}")
        yield row


def _problem(row: Mapping[str, Any]) -> str:
    """Say what is wrong with a line; "" for nothing."""
    absent = [name for name in FIELDS if name not in row]
    if absent:
        return f"has no {', '.join(absent)}"
    n_phases = {"phase": 1, "flip": 2}.get(row["kind"])
    if n_phases is None:
        return f"kind is {row['kind']!r}, not 'phase' or 'flip'"
    for name in ("phases", "options", "base", "values", "frame_indices"):
        value = row[name]
        if not isinstance(value, list) or len(value) != n_phases:
            return f"{name} is {str(value)[:60]}, not a list of {n_phases}"
    for name in ("phases", "options", "order"):
        if not all(type(value) is int for value in row[name]):
            return f"{name} is {row[name]!r}, not a list of integers"
    for values, indices in zip(row["values"], row["frame_indices"], strict=True):
        if not isinstance(values, list) or not isinstance(indices, list):
            return "values and frame_indices are no lists by phase"
        known = (int, float, type(None))
        if len(values) != len(indices) or not all(type(v) in known for v in values):
            return "values are not a number or null a frame"
    return ""


class SaliencyWriter(Appender):
    """Append lines to the file of a run; the only one who does so at a time.

    A line is written by one system call, so that a crash can tear the last one only;
    opening the file again cuts it off with a RecordWarning.

    Parameters
    ----------
    folder : str or Path
        Of the run.

    Attributes
    ----------
    done : set
        The `saliency_key` of every line on disk.

    Raises
    ------
    RecordError
        If another process is writing it, it is damaged or cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__(path_of("folder", folder, "a run folder") / SALIENCY_FILE)
        self.done: set[SaliencyKey] = set()
        try:
            self._open_alone()
        except OSError as error:
            self.close()
            raise self._not_written(error) from error
        except BaseException:
            self.close()
            raise

    def _open_alone(self) -> None:
        self._open()
        if not lock(self._fd):
            raise RecordError(
                f"{self.path}: another process is writing it; wait for it to end"
            )
        rows = _checked(self.path, self._whole_rows())
        self.done = {saliency_key(row) for row in rows}

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one line.

        Raises
        ------
        RecordError
            If it is none, or the disk is full; what was written before stays whole.
        """
        line = dump(row)
        problem = _problem(row)
        if problem:
            raise RecordError(f"{self.path}: a line that {problem}")
        self._append_line(line)
        self.done.add(saliency_key(row))

    def _n_lines(self) -> str:
        return counted(len(self.done), "line")
