"""What a claims file holds, checked when it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from phasefusion._paths import path_of
from phasefusion._results import Result
from phasefusion.audit import evaluation, language, rounding
from phasefusion.audit.figures import Figure, parse_figure
from phasefusion.audit.reading import Node, Place, nearest, read
from phasefusion.errors import AuditError

FORMAT = 1
#: Claims files that are part of the package, by name.
SHIPPED = ("paper", "stableeval")
VERDICTS = ("agrees", "differs", "cannot be computed", "ambiguous", "inconsistent")
MAX_CLAIMS = 5000

T = TypeVar("T")
#: An expression, or lists and mappings of them.
Formula = Any


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression with its text and its line."""

    text: str
    term: language.Term
    place: Place


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a claim.

    Attributes
    ----------
    name : str
    compute : Expression, list or mapping of them, or None
    holds : Expression or None
    """

    name: str
    compute: Formula
    holds: Expression | None


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a text states.

    Attributes
    ----------
    id, text, quote, where, source, note : str
        What is claimed, in a sentence, its own words, and where they are printed.
    published : Figure, list or mapping of figures, or None
        What `compute` must come to.
    compute, holds : Expression or None
        What is computed, and what must be true of it and of the figures.
    recorded : number, list or mapping, or None
        What `compute` came to when the file was written.
    tolerance : float or None
        Difference allowed from the published figures; None: the printed digits.
    readings : tuple of Reading
        Where the text can be understood in several ways.
    expect : str
        The verdict that the file says is right.
    """

    id: str
    text: str
    quote: str
    where: str
    source: str
    note: str
    published: Any
    compute: Formula
    holds: Expression | None
    recorded: Any
    tolerance: float | None
    readings: tuple[Reading, ...]
    expect: str
    place: Place

    @property
    def expressions(self) -> list[Expression]:
        """Every expression of the claim."""
        found = [*_flat(self.compute), *_flat(self.holds)]
        for one in self.readings:
            found += [*_flat(one.compute), *_flat(one.holds)]
        return found


@dataclass(frozen=True, slots=True, repr=False)
class Claims(Result):
    """A claims file.

    Attributes
    ----------
    name : str
        The file, or the name of a shipped one.
    title, source, note : str
    figures : mapping of str to Figure
        The printed figures that expressions use.
    runs : mapping of str to (Path or None)
        Runs and files, with the path that the file gives.
    claims : tuple of Claim
    """

    name: str
    title: str
    source: str
    note: str
    figures: Mapping[str, Figure]
    runs: Mapping[str, Path | None]
    claims: tuple[Claim, ...]


def load_claims(path: str | Path) -> Claims:
    """Read a claims file.

    Parameters
    ----------
    path : str or Path
        A YAML or JSON file, or the name of a shipped one: "paper" or "stableeval".

    Returns
    -------
    Claims

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    AuditError
        Naming the file, the line and the claim, if something in it cannot be.
    BackendUnavailableError
        If PyYAML is not installed.

    Examples
    --------
    >>> str(load_claims("paper").figures["fusion_change"])
    '10.1 %'
    """
    path = path_of("path", path, "a claims file")
    name = str(path)
    if name in SHIPPED:
        folder = resources.files("phasefusion.audit") / "claims"
        with resources.as_file(folder / f"{name}.yaml") as file:
            return _File(read(file), name, file.parent).claims()
    return _File(read(path), name, path.parent).claims()


def _flat(formula: Formula) -> list[Expression]:
    if formula is None:
        return []
    if isinstance(formula, Expression):
        return [formula]
    parts = formula.values() if isinstance(formula, dict) else formula
    return [one for part in parts for one in _flat(part)]


# ------------------------------------------------------------------ checking nodes


def _mapping(node: Node, known: tuple[str, ...], what: str) -> dict[str, Node]:
    """Return a mapping in which no key is unknown and none is null."""
    if not isinstance(node.value, dict):
        node.fail(f"{what} must be a mapping, it is {node.kind}")
    for key, value in node.value.items():
        if key not in known:
            value.fail(f"{what} has no key {key!r}: {nearest(key, known)}")
    return {key: one for key, one in node.value.items() if one.value is not None}


def _text(node: Node, what: str) -> str:
    if not isinstance(node.value, str):
        node.fail(f"{what} must be a text, it is {node.kind}")
    return node.value


def _optional(parts: Mapping[str, Node], key: str, default: str = "") -> str:
    return " ".join(_text(parts[key], key).split()) if key in parts else default


def _number(node: Node, what: str) -> int | float:
    text = _text(node, what)
    try:
        found: int | float = int(text) if len(text) <= 20 else float(text[:40])
    except ValueError:
        try:
            found = float(text[:40])
        except ValueError:
            node.fail(f"{what} must be a number, it is {text[:40]!r}")
    if not abs(found) <= 1e15:
        node.fail(f"{what} must be a number up to 1e15, it is {text[:40]!r}")
    return found


def _shaped(node: Node, leaf: Callable[[Node], T]) -> Any:
    """Convert the leaves of a scalar, list or mapping."""
    if isinstance(node.value, list):
        return [_shaped(one, leaf) for one in node.value]
    if isinstance(node.value, dict):
        return {key: _shaped(one, leaf) for key, one in node.value.items()}
    return leaf(node)


_TOP = ("format", "title", "source", "note", "runs", "figures", "claims")
_FIGURE = ("value", "unit", "where", "exact", "note")
_READING = ("name", "compute", "holds", "note")
_CLAIM = (
    "id",
    "text",
    "quote",
    "where",
    "source",
    "note",
    "published",
    "unit",
    "compute",
    "holds",
    "recorded",
    "tolerance",
    "readings",
    "expect",
)


class _File:
    """Turns the nodes of one file into claims."""

    def __init__(self, root: Node, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._root = root
        self._top = _mapping(root, _TOP, "a claims file")
        self._figures: dict[str, Figure] = {}
        self._runs: dict[str, Path | None] = {}

    def claims(self) -> Claims:
        top = self._top
        if "format" in top and top["format"].value != str(FORMAT):
            top["format"].fail(f"this version reads format {FORMAT}")
        if "claims" not in top or not isinstance(top["claims"].value, list):
            self._root.fail("has no list 'claims:'; each claim is an entry of it")
        self._read_figures()
        self._read_runs()
        nodes = top["claims"].value
        if not 1 <= len(nodes) <= MAX_CLAIMS:
            top["claims"].fail(f"holds {len(nodes)} claims; 1 to {MAX_CLAIMS} are read")
        claims = [self._claim(node) for node in nodes]
        first: dict[str, Claim] = {}
        for one in claims:
            other = first.setdefault(one.id, one)
            if other is not one:
                one.place.fail(f"the claim of line {other.place.line} has the same id")
        return Claims(
            self._name,
            _optional(top, "title"),
            _optional(top, "source"),
            _optional(top, "note"),
            self._figures,
            self._runs,
            tuple(claims),
        )

    def _read_figures(self) -> None:
        node = self._top.get("figures")
        if node is None:
            return
        if not isinstance(node.value, dict):
            node.fail("figures must be a mapping of names to printed figures")
        for name, one in node.value.items():
            self._check_name(name, one, "figure")
            self._figures[name] = self._figure(one, name)

    def _check_name(self, name: str, node: Node, what: str) -> None:
        valid = name.isascii() and name.isidentifier() and not name.startswith("_")
        if not valid or name in language.WORDS or name == rounding.VALUE:
            node.fail(
                f"{name!r} cannot name a {what}: letters, digits and _ can, beginning "
                f"with a letter, but not {', '.join((*language.WORDS, 'value'))}"
            )

    def _figure(self, node: Node, name: str, unit: str = "") -> Figure:
        where, exact = "", False
        if isinstance(node.value, dict):
            parts = _mapping(node, _FIGURE, f"figure {name!r}")
            if "value" not in parts:
                node.fail(f"figure {name!r} has no 'value'")
            unit, where = _optional(parts, "unit"), _optional(parts, "where")
            if "exact" in parts and parts["exact"].value not in ("true", "false"):
                parts["exact"].fail("exact is true or false")
            exact = "exact" in parts and parts["exact"].value == "true"
            node = parts["value"]
        text = _text(node, f"figure {name!r}" if name else "published")
        try:
            return parse_figure(text, name, unit=unit, where=where, exact=exact)
        except AuditError as error:
            node.fail(str(error))

    def _read_runs(self) -> None:
        node = self._top.get("runs")
        if node is None:
            return
        names = node.value
        if isinstance(names, list):
            names = {_text(one, "a run"): Node(None, one.place) for one in names}
        if not isinstance(names, dict):
            node.fail("runs must be a list of names, or a mapping of names to paths")
        for name, one in names.items():
            self._check_name(name, one, "run")
            if name in self._figures:
                one.fail(f"{name!r} names a figure already")
            given = None if one.value is None else self._folder / _text(one, "a path")
            self._runs[name] = given

    # -------------------------------------------------------------- claims

    def _claim(self, node: Node) -> Claim:
        if not isinstance(node.value, dict):
            node.fail(f"a claim must be a mapping, it is {node.kind}")
        given = node.value.get("id")
        if given is None or not given.value:
            node.fail("a claim has no 'id'; give every claim one of its own")
        name = _text(given, "id")
        place = Place(node.place.file, node.place.line, name)
        parts = _mapping(_within(node, name), _CLAIM, "a claim")
        if "text" not in parts:
            place.fail("has no 'text'; say in a sentence what is claimed")
        self._check_parts(parts, place)
        return Claim(
            id=name,
            text=_optional(parts, "text"),
            quote=_optional(parts, "quote"),
            where=_optional(parts, "where"),
            source=_optional(parts, "source", _optional(self._top, "source")),
            note=_optional(parts, "note"),
            published=self._published(parts),
            compute=self._formula(parts.get("compute")),
            holds=self._holds(parts),
            recorded=self._recorded(parts),
            tolerance=self._tolerance(parts),
            readings=self._readings(parts),
            expect=self._expect(parts),
            place=place,
        )

    def _check_parts(self, parts: Mapping[str, Node], place: Place) -> None:
        if not {"compute", "holds", "readings"} & set(parts):
            place.fail("has nothing to check; give it 'compute', 'holds' or 'readings'")
        for key in ("recorded", "published"):
            if key in parts and not {"compute", "readings"} & set(parts):
                parts[key].fail(f"{key!r} needs 'compute', which must come to it")
        checks = {"published", "holds", "recorded", "readings"}
        if not checks & set(parts):
            place.fail(
                "computes something but compares it with nothing; give it 'published' "
                "(what is printed), 'holds' (what must be true) or 'recorded' (what "
                "it came to)"
            )
        if "tolerance" in parts and "published" not in parts:
            parts["tolerance"].fail("'tolerance' is of the 'published' figures")

    def _published(self, parts: Mapping[str, Node]) -> Any:
        if "published" not in parts:
            return None
        unit = _optional(parts, "unit")

        def leaf(node: Node) -> Figure:
            text = _text(node, "published")
            if text in self._figures:
                return self._figures[text]
            if text[:1].isalpha():
                node.fail(
                    f"there is no figure {text!r}: {nearest(text, self._figures)}"
                )
            return self._figure(node, "", unit)

        return _shaped(parts["published"], leaf)

    def _expression(self, node: Node) -> Expression:
        text = _text(node, "an expression")
        try:
            term = language.parse(text)
            evaluation.check(term, self._figures, set(self._runs))
        except AuditError as error:
            node.fail(str(error))
        return Expression(text, term, node.place)

    def _formula(self, node: Node | None) -> Formula:
        return None if node is None else _shaped(node, self._expression)

    def _holds(self, parts: Mapping[str, Node]) -> Expression | None:
        return self._expression(parts["holds"]) if "holds" in parts else None

    def _recorded(self, parts: Mapping[str, Node]) -> Any:
        if "recorded" not in parts:
            return None
        return _shaped(parts["recorded"], lambda node: _number(node, "recorded"))

    def _tolerance(self, parts: Mapping[str, Node]) -> float | None:
        if "tolerance" not in parts or parts["tolerance"].value == "digits":
            return None
        node = parts["tolerance"]
        found = _number(node, "tolerance, unless it is 'digits',")
        if found < 0:
            node.fail(f"tolerance must not be negative, it is {found}")
        return found

    def _readings(self, parts: Mapping[str, Node]) -> tuple[Reading, ...]:
        if "readings" not in parts:
            return ()
        node = parts["readings"]
        if not isinstance(node.value, list) or len(node.value) < 2:
            node.fail("readings must be a list of at least two")
        found = []
        for one in node.value:
            inside = _mapping(one, _READING, "a reading")
            if "name" not in inside:
                one.fail("a reading has no 'name'; say how it understands the claim")
            if "holds" not in inside and not {"compute", "published"} <= {
                *inside,
                *parts,
            }:
                one.fail("a reading needs 'holds', or 'compute' and a published figure")
            found.append(
                Reading(
                    _optional(inside, "name"),
                    self._formula(inside.get("compute")),
                    self._holds(inside),
                )
            )
        return tuple(found)

    def _expect(self, parts: Mapping[str, Node]) -> str:
        if "expect" not in parts:
            return "agrees"
        text = _text(parts["expect"], "expect")
        if text not in VERDICTS:
            parts["expect"].fail(f"expect is {text!r}: {nearest(text, VERDICTS)}")
        return text


def _within(node: Node, claim: str) -> Node:
    """Give every node of a claim a place that names the claim."""
    place = Place(node.place.file, node.place.line, claim)
    value = node.value
    if isinstance(value, dict):
        value = {key: _within(one, claim) for key, one in value.items()}
    elif isinstance(value, list):
        value = [_within(one, claim) for one in value]
    return Node(value, place)
