"""Claims files as text with places: a small part of YAML, read within limits.

Scalars stay the text that was written, because the digits of a printed figure count:
2.10 says more than 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from phasefusion._install import remedy
from phasefusion.errors import AuditError, BackendUnavailableError

MAX_BYTES = 2 << 20
MAX_DEPTH = 12
MAX_NODES = 100_000
MAX_TEXT = 20_000
_NULLS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: the file, and the line where that is known."""

    file: str
    line: int | None = None
    claim: str | None = None

    def fail(self, message: str) -> NoReturn:
        """Raise an AuditError that begins with the place."""
        line = "" if self.line is None else f", line {self.line}"
        claim = "" if self.claim is None else f", claim {self.claim!r}"
        raise AuditError(f"{self.file}{line}{claim}: {message}")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value of a file.

    Attributes
    ----------
    value : str, None, list of Node, or dict of str to Node
        A scalar is its text, without quotes; None is null.
    place : Place
    """

    value: str | list[Node] | dict[str, Node] | None
    place: Place

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        return "nothing" if self.value is None else "a text"

    def fail(self, message: str) -> NoReturn:
        """Raise an AuditError that names the line."""
        self.place.fail(message)


def read(path: Path) -> Node:
    """Read a YAML or JSON file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Node

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    AuditError
        If it is not UTF-8 or not YAML, if it is too large or nested too deeply, or if
        it holds anchors, aliases, tags or a key twice; the message names the line.
    BackendUnavailableError
        If PyYAML is not installed.
    """
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    place = Place(str(path))
    if len(data) > MAX_BYTES:
        place.fail(f"is larger than {MAX_BYTES >> 20} MB; a claims file is a page")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        Place(str(path), line).fail("is not UTF-8 text; save it as UTF-8")
    if path.suffix.lower() == ".json":
        text = text.replace("\t", " ")  # YAML does not indent with tabs, JSON may
    return parse(text, str(path))


def parse(text: str, name: str) -> Node:
    """Parse the text of a claims file; `name` stands for it in messages."""
    try:
        import yaml
    except ImportError as error:
        raise BackendUnavailableError(
            f"claims files are read with PyYAML: {remedy('pyyaml')}"
        ) from error
    try:
        return _Builder(name, yaml.parse(text, Loader=yaml.SafeLoader)).document()
    except AuditError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        what = error.problem or error.context or "cannot be read"
        _wrong(name, line, what)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        _wrong(name, line, f"the character {error.character!r} is not allowed")
    except ValueError as error:  # PyYAML's own conversion of an escape
        _wrong(name, None, str(error))


def _wrong(name: str, line: int | None, what: str) -> NoReturn:
    Place(name, line).fail(
        f"not YAML: {what}; put texts that hold ': ' or ' #' or begin with a sign "
        "in quotes"
    )


class _Builder:
    """Builds nodes from PyYAML's events, which come one by one and are not trusted."""

    def __init__(self, name: str, events: Iterator[Any]) -> None:
        self._name = name
        self._events = events
        self._left = MAX_NODES

    def document(self) -> Node:
        root: Node | None = None
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                if root is not None:
                    self._fail(event, "a claims file is one YAML document, not several")
                root = self._node(next(self._events), 0)
        if root is None:
            Place(self._name).fail("is empty; a claims file holds 'claims:'")
        return root

    def _node(self, event: Any, depth: int) -> Node:
        kind = type(event).__name__
        self._left -= 1
        if self._left < 0:
            self._fail(event, f"holds more than {MAX_NODES} values")
        if kind == "AliasEvent" or event.anchor is not None:
            self._fail(event, "anchors and aliases are not read; write the value out")
        if event.tag is not None and event.tag != "!":
            self._fail(event, f"tags such as {event.tag!r} are not read; leave it out")
        if depth > MAX_DEPTH:
            self._fail(event, f"is nested more than {MAX_DEPTH} deep")
        place = Place(self._name, event.start_mark.line + 1)
        if kind == "ScalarEvent":
            return Node(self._scalar(event), place)
        if kind == "SequenceStartEvent":
            return Node(self._sequence(depth), place)
        return Node(self._mapping(depth), place)

    def _scalar(self, event: Any) -> str | None:
        text: str = event.value
        if len(text) > MAX_TEXT:
            self._fail(event, f"a text is longer than {MAX_TEXT} characters")
        if event.style is None and text in _NULLS:
            return None
        try:  # JSON writes what is beyond U+FFFF as two escapes
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._fail(event, "half of a surrogate pair is no character")

    def _sequence(self, depth: int) -> list[Node]:
        found = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            found.append(self._node(event, depth + 1))
        return found

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            key = self._node(event, depth + 1).value
            if not isinstance(key, str):
                self._fail(event, "a key must be a text")
            if key in found:
                self._fail(
                    event,
                    f"{key!r} is there twice, first on line {found[key].place.line}",
                )
            found[key] = self._node(next(self._events), depth + 1)
        return found

    def _fail(self, event: Any, message: str) -> NoReturn:
        Place(self._name, event.start_mark.line + 1).fail(message)


def nearest(name: str, known: Any) -> str:
    """Say which known name was probably meant, and what there is otherwise.

    Examples
    --------
    >>> nearest("tolerence", ["tolerance", "unit"])
    "did you mean 'tolerance'?"
    >>> nearest("x", ["tolerance", "unit"])
    'known are tolerance, unit'
    """
    names = sorted(known)
    close = get_close_matches(name, names, 1, 0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(names)}" if names else "there is none"
