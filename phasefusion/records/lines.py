"""Pass files as numbered lines: bounded in memory, whatever the bytes are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from phasefusion._checks import warn
from phasefusion.errors import RecordError, RecordWarning
from phasefusion.records import _json

#: A line of more bytes is refused before it is parsed.
MAX_LINE_BYTES = 100_000_000
_BLOCK_BYTES = 1 << 20
#: Longer than it takes to append a line.
_APPEND_S = 0.02
_BOM = b"\xef\xbb\xbf"

Row: TypeAlias = dict[str, Any]


class PassLines:
    """The lines of a pass file in blocks, without what a crash has torn.

    A byte order mark and blank lines are passed over, and CR before LF is white space.
    The last line is torn when it is not JSON, as after a power failure, which may leave
    zero bytes; what follows the last LF is torn unless it is JSON.

    Parameters
    ----------
    path : Path
    complete_last : bool, default False
        Whether what follows the last LF is torn even if it is JSON, as it is for who
        wants to append.

    Attributes
    ----------
    whole_bytes, torn_bytes : int
        Length of what is whole and of what is not, once all blocks were taken.
    torn_line : int or None
        Number of the line that is torn.
    """

    def __init__(self, path: Path, *, complete_last: bool = False) -> None:
        self.path = path
        self.whole_bytes = 0
        self.torn_bytes = 0
        self.torn_line: int | None = None
        self._complete_last = complete_last
        self._rest: list[bytes] = []
        self._number = 1

    def blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the number of a line, and it and lines after it, without their LF.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        RecordError
            If a line is too long.
        """
        with open(self.path, "rb") as file:
            data, more = self._take(file), True
            while more:
                after = self._take(file)
                more = bool(after)
                if not more:  # only now it is known which line is the last
                    data = self._without_torn(data)
                if data:
                    self.whole_bytes += len(data)
                    yield self._number, _split(data, is_first=self._number == 1)
                self._number += data.count(b"\n")
                data = after

    def rows(self) -> Iterator[tuple[Sequence[int], list[Row]]]:
        """Yield passes as dicts with the numbers of their lines, block by block.

        Raises
        ------
        FileNotFoundError, RecordError
            As `blocks`, and for a line that is not a JSON object.
        """
        for number, lines in self.blocks():
            try:
                rows = list(map(_json.loads, lines))
            except ValueError:
                yield self._one_by_one(number, lines)
                continue
            if set(map(type, rows)) - {dict}:
                yield self._one_by_one(number, lines)
            else:
                yield range(number, number + len(rows)), rows

    def numbered_rows(self) -> Iterator[tuple[int, Row]]:
        """Yield every pass after the number of its line; raises as `rows`."""
        for numbers, rows in self.rows():
            yield from zip(numbers, rows, strict=True)

    def _one_by_one(
        self, number: int, lines: Sequence[bytes]
    ) -> tuple[list[int], list[Row]]:
        numbers, rows = [], []
        for n, line in enumerate(lines, number):
            if is_blank(line):
                continue
            try:
                row = parse_line(line)
            except ValueError as error:
                where = f"{self.path}, line {n}"
                raise RecordError(
                    f"{where}: {_json.why_not(error)}; phasefusion records check says "
                    "everything that is wrong with the file"
                ) from None
            if not isinstance(row, dict):
                raise RecordError(
                    f"{self.path}, line {n}: a pass is a JSON object, "
                    f"not {type(row).__name__}"
                )
            numbers.append(n)
            rows.append(row)
        return numbers, rows

    def _take(self, file: BinaryIO) -> bytes:
        """Read on to the end of a line; nothing when there is no further end."""
        while data := file.read(_BLOCK_BYTES):
            first = data.find(b"\n")
            n_bytes = sum(map(len, self._rest))
            if n_bytes + (first if first >= 0 else len(data)) > MAX_LINE_BYTES:
                number = self._number + self._pending_lines
                raise RecordError(
                    f"{self.path}, line {number}: longer than {MAX_LINE_BYTES} bytes; "
                    "that is no pass, and it was not read"
                )
            if first < 0:
                self._rest.append(data)
                continue
            end = data.rfind(b"\n") + 1
            whole = b"".join([*self._rest, data[:end]])
            self._rest = [data[end:]]
            self._pending_lines = whole.count(b"\n")
            return whole
        return b""

    _pending_lines = 0

    def _without_torn(self, data: bytes) -> bytes:
        """Return the last whole lines, and what follows the last LF if it is whole."""
        rest = b"".join(self._rest)
        if rest and not self._complete_last and (is_blank(rest) or _is_json(rest)):
            return data + rest
        last = data.rfind(b"\n", 0, max(len(data) - 1, 0)) + 1
        if not is_blank(data[last:]) and not _is_json(data[last:]):
            data, rest = data[:last], data[last:] + rest
        if rest:
            self.torn_bytes = len(rest)
            self.torn_line = self._number + data.count(b"\n")
        return data

    def warn_torn(self, action: str) -> None:
        """Say that a crash has cut the last line, if so, and what happens to it.

        A line that somebody is writing just now is not torn.
        """
        if self.torn_bytes and (self._complete_last or not self._is_growing()):
            warn(
                f"{self.path}: the last line ({self.torn_bytes} bytes) was cut short "
                f"by a crash and is {action}",
                RecordWarning,
            )

    def _is_growing(self) -> bool:
        """Whether the file changes: a line takes far less time than this waits."""
        seen_bytes = self.whole_bytes + self.torn_bytes
        time.sleep(_APPEND_S)
        try:
            return self.path.stat().st_size != seen_bytes
        except OSError:
            return False


def parse_line(line: bytes) -> Any:
    """Parse a line in which NaN and Infinity may stand for numbers.

    Raises
    ------
    ValueError
        If it is not JSON for another reason.
    """
    try:
        return _json.loads(line)
    except ValueError:
        if b"NaN" not in line and b"Infinity" not in line:
            raise
        return _json.loads_lenient(line)


def is_blank(line: bytes) -> bool:
    """Whether a line is white space only."""
    return not line or line.isspace()


def _is_json(line: bytes) -> bool:
    try:
        parse_line(line)
    except ValueError:
        return False
    return True


def _split(data: bytes, *, is_first: bool) -> list[bytes]:
    lines = data.split(b"\n")
    if is_first and lines[0].startswith(_BOM):
        lines[0] = lines[0][len(_BOM) :]
    if not lines[-1]:
        lines.pop()
    return lines
