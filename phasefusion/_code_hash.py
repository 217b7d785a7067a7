"""A hash of code that a user wrote, to tell a changed scorer from the one before."""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from phasefusion._value_hash import value_text

#: Where code lies that the user did not write.
_INSTALLED = tuple(
    Path(sysconfig.get_path(name)).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OURS = Path(__file__).resolve().parent
_REBINDS = ("STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL")
#: Methods that set what an object is; what others set is what it counts and keeps.
_MAKERS = ("__init__", "__new__", "__post_init__")
_MUTATORS = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem"}
_MUTATORS |= {"remove", "setdefault", "update", "appendleft", "popleft"}
#: Functions and objects that are followed, of code that calls half of a project.
_MOST = 2000
_N_DIGITS = 16


def code_hash(thing: object) -> str | None:
    """Hash the source of a function, or of the class of an object, and what they use.

    With the source goes what it uses by name, in whichever of the user's own files that
    stands: functions, classes, objects with their attributes, defaults, closures and
    constants, as far as these are numbers, texts, arrays, tensors, containers of them
    or models of torch (of which a sample of the weights counts). What the code itself
    changes, such as counters and caches, does not count, nor white space and comments,
    nor which of several equal devices it was, in which the workers of a run differ.
    What was installed is known by its version instead.

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
        self._seen: dict[int, object] = {}  # keeps them, so that no id comes again

    def add(self, thing: object) -> None:
        """Add a function, a class, or an object with its class."""
        if id(thing) in self._seen or len(self._seen) >= _MOST:
            return
        self._seen[id(thing)] = thing
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
        elif isinstance(thing, list | tuple):
            self._add_values(enumerate(thing))
        elif isinstance(thing, dict):
            self._add_values((repr(key), value) for key, value in thing.items())
        elif _is_users_class(type(thing)):
            self.add(type(thing))
            if value_text(thing) is None:
                self._add_state(thing)

    def _add_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if not _is_users_class(base):
                continue
            self.parts.append(f"class {base.__qualname__}")
            changed = {name for f in _functions_of(base) for name in _mutated(f)}
            for name, value in sorted(vars(base).items()):
                inner = _function_of(value)
                if inner is not None:
                    self.add(inner)
                elif not name.startswith("__") and name not in changed:
                    self._add_values([(name, value)])

    def _add_state(self, thing: object) -> None:
        """Add the attributes of an object that its own methods leave alone."""
        kinds = [base for base in type(thing).__mro__ if _is_users_class(base)]
        functions = [f for base in kinds for f in _functions_of(base)]
        changed = {name for f in functions for name in _mutated(f)}
        slots = {
            name
            for base in kinds
            for name in vars(base).get("__slots__", ())
            if hasattr(thing, name)
        }
        for name in sorted({*getattr(thing, "__dict__", {}), *slots} - changed):
            self._add_used(name, getattr(thing, name))

    def _add_function(self, function: FunctionType) -> None:
        code = function.__code__
        if not _is_users_file(code.co_filename):
            return
        source = _source(code)
        if source is None:
            return
        self.has_source = True
        self.parts.append(source)
        self._add_values(enumerate(function.__defaults__ or ()))
        self._add_values(sorted((function.__kwdefaults__ or {}).items()))
        rebound = {*_rebound(code), *_mutated(function)}
        for name, cell in zip(
            code.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            if name not in rebound:
                self._add_used(name, value)
        self._add_globals(function, sorted(set(_names(code)) - rebound))

    def _add_globals(self, function: FunctionType, names: Iterable[str]) -> None:
        """Add what a function uses of its module, and of modules that it uses."""
        known: Mapping[str, Any] = function.__globals__
        used = [name for name in names if name in known and name[:2] != "__"]
        for name in used:
            self._add_used(name, known[name])
            if isinstance(known[name], ModuleType) and _is_users_module(known[name]):
                inside = vars(known[name])
                for inner in names:
                    if inner in inside and not isinstance(inside[inner], ModuleType):
                        self._add_used(inner, inside[inner])

    def _add_used(self, name: object, value: object) -> None:
        """Add what is used by name: a value, or code and objects of the user."""
        text = value_text(value)
        if text is not None:
            self.parts.append(f"{name} = {text}")
        self.add(value)

    def _add_values(self, values: Iterable[tuple[object, object]]) -> None:
        for name, value in values:
            self._add_used(name, value)


def _is_users_file(path: str) -> bool:
    """Whether code lies where a user's does: not installed, and not ours."""
    if path.startswith("<frozen"):
        return False
    place = Path(path).resolve()
    if place.is_relative_to(_OURS) or "dist-packages" in place.parts:
        return False
    return not any(place.is_relative_to(folder) for folder in _INSTALLED)


def _is_users_module(module: ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    return path is not None and _is_users_file(path)


def _is_users_class(kind: type) -> bool:
    """Whether a class is the user's; one of a notebook or of a text that was run is."""
    if kind.__module__ == "builtins":
        return False
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None)
    if path is not None:
        return _is_users_file(path)
    return kind.__module__ == "__main__" or module is None


def _functions_of(kind: type) -> Iterator[FunctionType]:
    """Yield the methods of a class that are not part of making an object of it."""
    for name, value in vars(kind).items():
        inner = _function_of(value)
        if inner is not None and name not in _MAKERS:
            yield inner


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
    tree = _tree(text)
    return text if tree is None else ast.unparse(tree)


def _tree(text: str) -> ast.Module | None:
    """Parse a text; None for a lambda within a longer statement."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _mutated(function: FunctionType) -> set[str]:
    """Names of variables and attributes that a function changes in place."""
    text = _source(function.__code__)
    tree = None if text is None else _tree(text)
    found = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(
            node.ctx, ast.Load
        ):
            found.add(_innermost(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _MUTATORS:
                found.add(_innermost(node.func.value))
    return found - {""}


def _innermost(node: ast.expr) -> str:
    """Return what is changed: the attribute of an object, or the variable itself.

    ``self.n = 1`` changes n, ``self.seen[k] = 1`` changes seen, ``cache[k] = 1`` cache.
    """
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


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
