"""What compiled code says, uses, imports and changes."""

from __future__ import annotations

import contextlib
import dis
import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

_REBINDS = ("STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL")
_SETS = ("STORE_ATTR", "DELETE_ATTR")
_ITEMS = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_OUTER = ("LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF")
_MEMBER = ("LOAD_ATTR", "LOAD_METHOD")
_MUTATORS = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem"}
_MUTATORS |= {"remove", "setdefault", "update", "appendleft", "popleft", "copy_"}
_HAS_DOCSTRING = 0x4000000  # of Python 3.13


def code_text(code: CodeType) -> str:
    """Return a digest of what code does: no names of files, lines or docstrings."""
    digest = hashlib.sha256()
    _feed(digest, code)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: object) -> None:
    if isinstance(value, CodeType):
        digest.update(value.co_code + value.co_exceptiontable)
        names = value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars
        counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount
        flags = value.co_flags & ~_HAS_DOCSTRING
        digest.update(repr((names, counts, flags)).encode())
        for const in _constants(value):
            _feed(digest, const)
    elif isinstance(value, tuple):
        digest.update(b"(")
        for one in value:
            _feed(digest, one)
        digest.update(b")")
    elif isinstance(value, frozenset):
        digest.update(repr(sorted(map(repr, value))).encode())
    elif isinstance(value, int) and not isinstance(value, bool):
        digest.update(hex(value).encode() + b"\0")  # of any length
    else:
        digest.update(repr(value).encode(errors="surrogatepass") + b"\0")


def _constants(code: CodeType) -> tuple[object, ...]:
    """Return the constants of code, of a function's docstring only its place."""
    consts = code.co_consts
    is_function = bool(code.co_flags & 0x1) and not code.co_name.startswith("<")
    if is_function and consts and isinstance(consts[0], str):
        return (None, *consts[1:])
    return consts


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield code and all code inside it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from codes_of(value)


def names_of(code: CodeType) -> Iterator[str]:
    """Yield names of globals, attributes and modules that code uses."""
    for one in codes_of(code):
        yield from one.co_names


def imported_files(function: FunctionType) -> Iterator[Path]:
    """Yield the files of modules that a function imports when it is called."""
    package = function.__globals__.get("__package__") or ""
    for one in codes_of(function.__code__):
        levels = [0]
        for step in dis.get_instructions(one):
            if step.opname == "LOAD_CONST" and type(step.argval) is int:
                levels.append(step.argval)
            elif step.opname == "IMPORT_NAME":
                with contextlib.suppress(Exception):  # importing its parents may fail
                    name = "." * levels[-1] + str(step.argval)
                    whole = importlib.util.resolve_name(name, package)
                    spec = importlib.util.find_spec(whole)
                    if spec is not None and spec.origin and spec.has_location:
                        yield Path(spec.origin)


@dataclass(slots=True)
class Changes:
    """Names that code gives new values, or changes what they hold.

    Attributes
    ----------
    names : set of str
        Of globals and of outer functions.
    attributes : set of str
        Of objects, whichever.
    """

    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)

    def has(self, name: str, is_attribute: bool) -> bool:
        """Whether a value of that name may be another one after a call."""
        return name in (self.attributes if is_attribute else self.names)

    def read(self, code: CodeType, *, attributes: bool = False) -> None:
        """Take what code changes in place; with `attributes` also which it sets."""
        for one in codes_of(code):
            before: list[dis.Instruction] = []
            for step in dis.get_instructions(one):
                if step.opname in _REBINDS:
                    if step.argval not in one.co_cellvars:
                        self.names.add(str(step.argval))
                elif step.opname in _SETS:
                    if attributes:
                        self.attributes.add(str(step.argval))
                elif step.opname in _ITEMS:
                    self._add(_container(before, step))
                elif step.opname in _MEMBER and step.argval in _MUTATORS and before:
                    self._add(before[-1])
                if step.opname not in ("CACHE", "PUSH_NULL", "PRECALL"):
                    before.append(step)

    def _add(self, loaded: dis.Instruction | None) -> None:
        """Add what an instruction loads; a local variable is nobody else's."""
        if loaded is None:
            return
        if loaded.opname in _OUTER:
            self.names.add(str(loaded.argval))
        elif loaded.opname in _MEMBER:
            self.attributes.add(str(loaded.argval))


def _container(
    before: list[dis.Instruction], store: dis.Instruction
) -> dis.Instruction | None:
    """Return what loads the container of ``container[key] = value``.

    Its text begins where that of the whole target does, and it is the last that does.
    """
    place = store.positions
    if place is None or place.lineno is None:
        return before[-2] if len(before) > 1 else None
    start = place.lineno, place.col_offset
    for step in reversed(before):
        at = step.positions
        is_load = step.opname in (*_OUTER, *_MEMBER, "LOAD_FAST")
        if is_load and at is not None and (at.lineno, at.col_offset) == start:
            found: dis.Instruction = step
            return found
    return None
