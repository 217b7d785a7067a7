"""A hash of code that a user wrote, to tell a changed scorer from the one before."""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

from phasefusion._devices import without_number

#: Modules of base classes that say nothing about a scorer.
_NO_CODE = ("abc", "builtins", "collections", "phasefusion", "typing")
_REBINDS = ("STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL")
_N_DIGITS = 16


def code_hash(thing: object) -> str | None:
    """Hash the source of a function, or of the class of an object.

    With it goes what the code uses by name and what it is made of: defaults, closures,
    functions of the same module that it calls and constants, as far as these are
    numbers, texts or tuples of them; not what it counts itself, nor the state of an
    object. White space and comments do not count, nor which of several equal devices
    it was, in which the workers of a run differ.

    Parameters
    ----------
    thing : object

    Returns
    -------
    str or None
        None where no source can be read, as of code that was typed into an interpreter.

    Examples
    --------
    >>> code_hash(len) is None
    True
    """
    found = _Collected()
    found.add(thing)
    if not found.has_source:
        return None
    whole = "\0".join(found.parts).encode()
    return hashlib.sha256(whole).hexdigest()[:_N_DIGITS]


class _Collected:
    """Texts of all code that was reached, each once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.has_source = False
        self._seen: set[int] = set()

    def add(self, thing: object) -> None:
        """Add a function, a class, or the class of any other object."""
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, functools.partial):
            self.add(thing.func)
            self._add_values(enumerate(thing.args))
            self._add_values(sorted(thing.keywords.items()))
        elif isinstance(thing, MethodType):
            self.add(thing.__func__)
            self.add(thing.__self__)
        elif isinstance(thing, FunctionType):
            self._add_function(thing)
        elif isinstance(thing, type):
            self._add_class(thing)
        else:
            self.add(type(thing))

    def _add_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if base.__module__.partition(".")[0] in _NO_CODE:
                continue
            self.parts.append(f"class {base.__qualname__}")
            for name, value in sorted(vars(base).items()):
                inner = _function_of(value)
                if inner is not None:
                    self.add(inner)
                elif not name.startswith("__"):
                    self._add_values([(name, value)])

    def _add_function(self, function: FunctionType) -> None:
        code = function.__code__
        source = _source(code)
        if source is None:
            return
        self.has_source = True
        self.parts.append(source)
        self._add_values(enumerate(function.__defaults__ or ()))
        self._add_values(sorted((function.__kwdefaults__ or {}).items()))
        rebound = set(_rebound(code))
        for name, cell in zip(
            code.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            if name not in rebound:
                self._add_used(name, value, None)
        known: Mapping[str, Any] = function.__globals__
        for name in sorted(set(_names(code)) - rebound):
            if name in known and not name.startswith("__"):
                self._add_used(name, known[name], function.__module__)

    def _add_used(self, name: str, value: object, module: str | None) -> None:
        """Add code that is used by name, of `module` alone if given, or a constant."""
        if isinstance(value, FunctionType | MethodType | functools.partial):
            if module is None or getattr(value, "__module__", module) == module:
                self.add(value)
        else:
            self._add_values([(name, value)])

    def _add_values(self, values: Iterable[tuple[object, object]]) -> None:
        self.parts += [f"{name} = {_text(v)}" for name, v in values if _is_plain(v)]


def _function_of(value: object) -> FunctionType | None:
    """Return the function in a class attribute, if there is one."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    return value if isinstance(value, FunctionType) else None


def _source(code: CodeType) -> str | None:
    """Return the source without comments and layout; as it is where it is a part."""
    try:
        text = textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError, IndentationError):
        return None
    try:
        return ast.unparse(ast.parse(text))
    except (SyntaxError, ValueError):  # a lambda within a longer statement
        return text


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _names(code: CodeType) -> Iterator[str]:
    """Names that the code may look up in its module."""
    for one in _codes(code):
        yield from one.co_names


def _rebound(code: CodeType) -> Iterator[str]:
    """Names outside the code that it gives new values, such as counters."""
    for one in _codes(code):
        for step in dis.get_instructions(one):
            if step.opname in _REBINDS:
                yield str(step.argval)


def _text(value: object) -> str:
    return repr(without_number(value) if isinstance(value, str) else value)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, bytes, complex, float, int, str)
