"""Reading foreign files: JSON with places, JSON lines, tables, spreadsheets."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from phasefusion._install import remedy
from phasefusion.errors import BackendUnavailableError, DatasetError

TABLES = {".csv": ",", ".tsv": "\t"}
_SPREADSHEETS = {".xlsx", ".xlsm"}
_MAX_BYTES = 2**31
#: Byte order marks of UTF-16 and UTF-32, and where texts without one show their zeros.
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_HEAD_BYTES = 1000
_MAX_CELL = 2**27
#: What separates cells in tables that are called .csv.
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: Columns of one option each: A, option_0, a0.
OPTION_COLUMN = re.compile(r"[A-Z]|(?i:option|choice|a)[ _]?(?P<number>\d{1,2})")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a CSV, TSV or XLSX file, all cells as text.

    Empty cells are absent, but for those of columns that can hold options: between
    others they are options without a text.

    Attributes
    ----------
    path : Path
    columns : tuple of str
    rows : tuple of (int, dict)
        Line of the file, and the cells by column.
    """

    path: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]

    def where(self, line: int) -> str:
        """Return the place of a row, for messages."""
        kind = "row" if self.path.suffix.lower() in _SPREADSHEETS else "line"
        return f"{self.path}, {kind} {line}"


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON file.

    Attributes
    ----------
    path : Path
    value : object
    repairs : tuple of str
        Places at which commas were taken out to read it.
    """

    path: Path
    value: Any
    repairs: tuple[str, ...] = ()


@contextmanager
def opened(path: Path, newline: str) -> Iterator[TextIO]:
    """Open a file as text that is read line by line, or say that it is none.

    Lines keep their ends, which are what `newline` says; any usual one if it is empty.
    """
    _refuse_folder(path)
    with path.open("rb") as file:
        _refuse_wide(path, file.peek(_HEAD_BYTES)[:_HEAD_BYTES])
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline)
        try:
            yield text
        except UnicodeDecodeError:
            raise DatasetError(_no_utf8(path)) from None


def read_text(path: Path) -> str:
    """Return a file as text, or say that it is none."""
    _refuse_folder(path)
    if path.stat().st_size > _MAX_BYTES:
        raise DatasetError(
            f"{path}: larger than {_MAX_BYTES >> 30} GiB; save it as .jsonl, which is "
            "read line by line, or split it"
        )
    data = path.read_bytes()
    _refuse_wide(path, data[:_HEAD_BYTES])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(_no_utf8(path)) from None


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise DatasetError(f"{path}: is a folder; name a file in it")


def _refuse_wide(path: Path, head: bytes) -> None:
    if head.startswith(_WIDE_MARKS) or b"\0" in head:
        raise DatasetError(
            f"{path}: not UTF-8 text: it begins as UTF-16 or UTF-32 does; save the "
            "file as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 FILE"
        )


def _no_utf8(path: Path) -> str:
    """Say where a file is no UTF-8 text: no piece of a character is in two lines."""
    at, where = 0, str(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                at, where = at + error.start, f"{path}, line {number}"
                break
            at += len(line)
    return (
        f"{where}: not UTF-8 text (byte {at}); save the file as UTF-8, or convert it "
        "from what it is: iconv -f LATIN1 -t UTF-8 FILE"
    )


def read_json(path: Path, *, lenient: bool = False) -> Document:
    """Read a JSON file; with `lenient`, one with commas before closing brackets.

    Raises
    ------
    DatasetError
        Naming file, line and column.
    """
    text = read_text(path)
    try:
        return Document(path, loads(text))
    except json.JSONDecodeError as error:
        found = error
    except RecursionError:
        raise DatasetError(f"{path}: nested too deeply to be results") from None
    commas = trailing_commas(text)
    if commas:
        kept = [*text]
        for at in commas:
            kept[at] = " "
        try:
            value = loads("".join(kept))
        except json.JSONDecodeError as error:
            found = error
        else:
            if lenient:
                return Document(path, value, tuple(_place(text, at) for at in commas))
            raise DatasetError(
                f"{path}, {_place(text, _after_comma(text, commas[0]))}: not JSON: a "
                f"comma stands before the closing bracket ({len(commas)} such in the "
                "file); correct the file, or read it with --lenient (lenient=True), "
                "which takes them out and says so"
            )
    raise DatasetError(
        f"{path}, line {found.lineno}, column {found.colno}: not JSON: {found.msg}"
        + _rather(text)
    )


def _rather(text: str) -> str:
    r"""Say what a file that is not JSON looks like, by its first two lines.

    Examples
    --------
    >>> _rather('{"a": 1}\n{"a": 2}\n')
    '; it holds one object a line: name it .jsonl'
    >>> _rather("id,answer\n1,A")
    '; it looks like a table: name it .csv or .tsv'
    """
    end = -1
    for _ in range(3):  # by place: what follows may be two gigabytes
        end = text.find("\n", end + 1)
        if end < 0:
            break
    top = text if end < 0 else text[:end]
    lines = [line for line in top.split("\n") if line.strip()]
    try:
        if len(lines) > 1 and all(isinstance(loads(one), dict) for one in lines[:2]):
            return "; it holds one object a line: name it .jsonl"
    except (json.JSONDecodeError, RecursionError):
        pass
    first = lines[0] if lines else ""
    is_table = ("," in first or "\t" in first) and not set(first) & set("{}[]:")
    return "; it looks like a table: name it .csv or .tsv" if is_table else ""


def loads(text: str) -> Any:
    """Parse JSON; names that occur twice and numbers without end are errors too.

    Of a name that occurs twice the parser would keep one value and drop the other.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # an integer of more than 4300 digits
        raise json.JSONDecodeError(str(error).split(";")[0], text, 0) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"name {twice!r} occurs twice in one object")
    return found


def trailing_commas(text: str) -> list[int]:
    """Places of commas that stand, but for white space, before a closing bracket."""
    found = []
    inside = escaped = False
    comma = -1
    for at, char in enumerate(text):
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
            continue
        if char in "}]" and comma >= 0:
            found.append(comma)
        if char == '"':
            inside = True
        if char == ",":
            comma = at
        elif not char.isspace():
            comma = -1
    return found


def _after_comma(text: str, comma: int) -> int:
    at = comma + 1
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _place(text: str, at: int) -> str:
    before = text[:at]
    column = at - (before.rfind("\n") + 1) + 1
    return f"line {before.count(chr(10)) + 1}, column {column}"


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every object of a JSON lines file with its line.

    Raises
    ------
    DatasetError
        Naming the line that is no JSON object.
    """
    # Split at "\n" alone: other ends of lines may stand in a text.
    with opened(path, "\n") as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, _json_object(line.rstrip("\n"), path, number)


def _json_object(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = loads(line)
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"{path}, line {number}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise DatasetError(f"{path}, line {number}: nested too deeply") from None
    if not isinstance(row, dict):
        raise DatasetError(
            f"{path}, line {number}: must be a JSON object, not {type(row).__name__}"
        )
    return row


def read_table(path: Path, *, exact: bool = False) -> Table:
    """Read a CSV, TSV or XLSX file; with `exact`, no line may lack cells.

    Raises
    ------
    DatasetError
        Naming file and line.
    BackendUnavailableError
        For a spreadsheet without openpyxl.
    """
    suffix = path.suffix.lower()
    if suffix in _SPREADSHEETS:
        return _spreadsheet(path)
    if suffix not in TABLES:
        raise DatasetError(
            f"{path}: a table ends in .csv, .tsv or .xlsx, not in {suffix!r}"
        )
    with opened(path, "") as text:
        return _table(path, separated(path, text, TABLES[suffix]), exact)


def separated(
    path: Path, lines: Iterable[str], separator: str
) -> Iterator[tuple[int, Sequence[str]]]:
    """Split lines into rows of cells, with the last line of each; empty ones go.

    Raises
    ------
    DatasetError
        If quotes are not closed or not doubled, or the first line has another
        separator: what follows would be read as something else than it says.
    """
    reader = csv.reader(lines, delimiter=separator, strict=True)
    limit = csv.field_size_limit(_MAX_CELL)
    begun, is_head = 1, True
    try:
        for cells in reader:
            if len(cells) == 1 and is_head:
                check_separator(path, cells[0], separator)
            if cells:
                yield reader.line_num, cells
                is_head = False
            begun = reader.line_num + 1
    except csv.Error as error:
        raise DatasetError(torn(path, begun, reader.line_num, str(error))) from None
    finally:
        csv.field_size_limit(limit)


def torn(path: Path, begun: int, line: int, error: str) -> str:
    """Say which quotes make no row."""
    if "unexpected end of data" in error:
        return (
            f"{path}, line {begun}: a cell begins with a quote that is not closed "
            "before the end of the file; close it, or double quotes that belong to a "
            'text ("")'
        )
    if "expected after" in error:
        more = "" if line == begun else f", of the row that begins on line {begun}"
        return (
            f"{path}, line {line}{more}: a text goes on after its closing quote; "
            'double quotes that belong to it (""), and close the cell before it'
        )
    return f"{path}, line {line}: {error}"


def check_separator(path: Path, head: str, separator: str) -> None:
    """Refuse a table of one column whose head would be several with another one."""
    for other, name in _SEPARATORS.items():
        if other != separator and other in head:
            raise DatasetError(
                f"{path}, line 1: the columns are separated by {name} ({other!r}), but "
                f"those of a {path.suffix} file must be by {_SEPARATORS[separator]} "
                f"({separator!r}); save it so, or as .jsonl"
            )


def _spreadsheet(path: Path) -> Table:
    try:
        import openpyxl
    except ImportError:
        raise BackendUnavailableError(
            f"{path}: spreadsheets need openpyxl: {remedy('openpyxl')}, or save the "
            "sheet as .csv"
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [
            (number, [_cell(value) for value in cells])
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1)
        ]
        book.close()
    except Exception as error:
        text = " ".join(str(error).split())
        raise DatasetError(
            f"{path}: cannot be read as a spreadsheet: {text or type(error).__name__}"
        ) from error
    return _table(path, [row for row in rows if any(row[1])])


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _table(
    path: Path, rows: Iterable[tuple[int, Sequence[str]]], exact: bool = False
) -> Table:
    rows = iter(rows)
    line, head = next(rows, (0, ()))
    if not line:
        raise DatasetError(f"{path}: is empty")
    columns = [name.strip() for name in head]
    while columns and not columns[-1]:
        columns.pop()
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise DatasetError(
            f"{path}, line {line}: a column name occurs twice: {repeated}"
        )
    found = []
    for number, cells in rows:
        torn = exact and len(cells) < len(columns)
        if torn or any(cells[len(columns) :]):
            raise DatasetError(
                f"{path}, line {number}: has {len(cells)} cells, the header has "
                f"{len(columns)} columns"
            )
        row = {
            name: cell
            for name, cell in zip(columns, cells, strict=False)
            if cell != "" or OPTION_COLUMN.fullmatch(name)
        }
        found.append((number, row))
    return Table(path, tuple(columns), tuple(found))


def literal(text: str) -> Any:
    """Value of a cell that holds a JSON or Python list; None when it is neither."""
    if len(text) > 100_000:
        return None
    try:
        return loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def text_list(value: object) -> tuple[str, ...] | None:
    """Texts of a list, or of a cell that holds one; None when it is none."""
    if isinstance(value, str):
        value = literal(value)
    if isinstance(value, Mapping) or not isinstance(value, list | tuple):
        return None
    if not all(isinstance(one, str | int | float) for one in value):
        return None
    return tuple(str(one) for one in value)


def number_list(value: object) -> tuple[float, ...] | None:
    """Numbers of a list, or of a cell that holds one; None when it is none."""
    if isinstance(value, str):
        value = literal(value)
    if not isinstance(value, list | tuple):
        return None
    found = [number(one) for one in value]
    return tuple(x for x in found if x is not None) if None not in found else None


def number(value: object) -> float | None:
    """Return a finite or infinite float; None for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def whole(value: object) -> int | None:
    """Return a whole number; None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            found = number(text)
            return int(found) if found is not None and _integral(found) else None
        return int(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not _integral(value):
        return None
    return int(value)


def _integral(value: float) -> bool:
    return math.isfinite(value) and value.is_integer() and abs(value) < 2**53


def as_id(value: object, where: str, name: str) -> str:
    """Return an id as text, never as a number that could lose digits."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DatasetError(
            f"{where}: {name} must be a text or a whole number, not {value!r}"
        )
    if isinstance(value, float):
        if not _integral(value):
            raise DatasetError(f"{where}: {name} is {value!r}, which is no id")
        value = int(value)
    text = str(value).strip()
    if not text:
        raise DatasetError(f"{where}: {name} is empty")
    return text
