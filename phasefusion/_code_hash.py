"""A hash of code that a user wrote, to tell a changed scorer from the one before."""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from phasefusion._bytecode import Changes, code_text, imported_files, names_of
from phasefusion._value_hash import value_digest

#: Where code lies that the user did not write.
_INSTALLED = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")
)
_PACKAGES = ("site-packages", "dist-packages")
_OURS = Path(__file__).resolve().parent
#: Methods that make an object what it is; what others set is what it counts and keeps.
_MAKERS = ("__init__", "__new__", "__post_init__")
#: Functions and objects that are followed, and entries of a container that are.
_MOST = 10_000
_MOST_ENTRIES = 1000
_N_DIGITS = 16


def code_hash(thing: object) -> str | None:
    """Hash the code of a function, or of an object and its class, and what it uses.

    With the code goes what it uses by name, in whichever of the user's own files that
    stands: functions, also behind decorators, classes, objects with their attributes,
    defaults, closures and constants, as far as these are numbers, texts, arrays,
    tensors, containers of them or modules of torch (of large weights a sample counts).
    What the code itself changes, such as counters and caches, does not count, nor
    comments, nor folders, nor which of several equal devices it was. What was installed
    is known by its version instead.

    Parameters
    ----------
    thing : object

    Returns
    -------
    str or None
        None where no code of the user's is reached.

    Examples
    --------
    >>> code_hash(len) is None
    True
    >>> code_hash(lambda: 1) == code_hash(lambda: 1) != code_hash(lambda: 2)
    True
    """
    walk = _Walk()
    walk.follow(thing)
    if not walk.has_code:
        return None
    whole = "\0".join(sorted(walk.parts())).encode(errors="surrogatepass")
    return hashlib.sha256(whole).hexdigest()[:_N_DIGITS]


class _Walk:
    """All code and all values that are reached, each once; no order matters."""

    def __init__(self) -> None:
        self.has_code = False
        self._code: set[str] = set()
        self._changes = Changes()
        #: Whether it is an attribute, the label, the name, and the value.
        self._values: list[tuple[bool, str, str, object]] = []
        self._seen: dict[int, object] = {}  # keeps them, so that no id comes again
        self._waiting: list[object] = []

    def follow(self, thing: object) -> None:
        """Take a thing, and all that it leads to."""
        self._wait(thing)
        while self._waiting:
            self._take(self._waiting.pop())

    def parts(self) -> Iterator[str]:
        """Yield a text for all code, and for every value that no code changes."""
        yield from self._code
        for is_attribute, label, name, value in self._values:
            if not self._changes.has(name, is_attribute):
                digest = value_digest(value)
                if digest is not None:
                    yield f"{label} {name} {digest}"

    def _wait(self, thing: object) -> None:
        if isinstance(thing, str | bytes | int | float | complex | ModuleType | None):
            return
        if id(thing) in self._seen:
            return
        if len(self._seen) >= _MOST:
            self._code.add("and more than is followed")
            return
        self._seen[id(thing)] = thing
        self._waiting.append(thing)

    def _value(self, is_attribute: bool, label: str, name: object, value: Any) -> None:
        """Remember a value that is used by a name, and follow what it leads to."""
        self._values.append((is_attribute, label, str(name), value))
        self._wait(value)

    def _take(self, thing: object) -> None:
        if not isinstance(thing, type):
            self._wait(_own(thing, "__wrapped__"))
        if isinstance(thing, functools.partial):
            self._wait(thing.func)
            for name, value in (*enumerate(thing.args), *thing.keywords.items()):
                self._value(False, "partial", name, value)
        elif isinstance(thing, MethodType):
            self._wait(thing.__func__)
            self._wait(thing.__self__)
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, list | tuple | set | frozenset | dict):
            entries = thing.values() if isinstance(thing, dict) else thing
            for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False):
                self._wait(entry)
        else:
            self._object(thing)

    def _object(self, thing: object) -> None:
        kind = type(thing)
        if not _is_users_class(kind):
            return
        self._wait(kind)
        if value_digest(thing) is not None:  # a module of torch: its weights
            self._value(True, kind.__qualname__, "", thing)
        for name, value in _attributes(thing):
            if name not in ("_parameters", "_buffers"):
                self._value(True, kind.__qualname__, name, value)

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            if not _is_users_class(base):
                continue
            makers = _makers(base)
            for name, value in vars(base).items():
                if isinstance(value, functools.cached_property):
                    self._changes.attributes.add(name)
                inner = _function_of(value)
                if inner is not None:
                    self._wait(inner)
                    if name not in makers:
                        self._changes.read(inner.__code__, attributes=True)
                elif name[:2] != "__":
                    self._value(True, base.__qualname__, name, value)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        closure = {name: value for name, cell in cells for value in _content(cell)}
        if not _is_users_file(code.co_filename):
            for value in closure.values():  # of a decorator: what it decorates
                if isinstance(value, FunctionType | MethodType | functools.partial):
                    self._wait(value)
            return
        self.has_code = True
        label = function.__qualname__
        self._code.add(f"{label} {code_text(code)}")
        is_method = "." in label and not label.rpartition(".")[0].endswith("<locals>")
        self._changes.read(code, attributes=not is_method)
        for path in imported_files(function):
            if _is_users_file(str(path)):
                self._code.add(f"{path.name} {_file_text(path)}")
        defaults = enumerate(function.__defaults__ or ())
        for name, value in (*defaults, *(function.__kwdefaults__ or {}).items()):
            self._value(False, f"{label} default", name, value)
        for name, value in closure.items():
            self._value(False, label, name, value)
        self._used(label, function.__globals__, set(names_of(code)), set())

    def _used(
        self, label: str, space: dict[str, Any], names: set[str], modules: set[int]
    ) -> None:
        """Take what a function uses of its module, and of modules in it."""
        for name in names & space.keys():
            value = space[name]
            if not isinstance(value, ModuleType):
                if name[:2] != "__":
                    self._value(False, label, name, value)
            elif id(value) not in modules and _is_users_module(value):
                modules.add(id(value))
                inside = f"{label} {value.__name__.rpartition('.')[2]}"
                self._used(inside, vars(value), names, modules)


def _content(cell: Any) -> Iterator[object]:
    """Yield what a closure holds; nothing where it is not bound yet."""
    try:
        yield cell.cell_contents
    except ValueError:
        return


def _makers(kind: type) -> set[str]:
    """Methods that make an object: the usual ones, and what these alone call."""
    methods = {name: _function_of(value) for name, value in vars(kind).items()}
    called = {
        name: set(names_of(method.__code__))
        for name, method in methods.items()
        if method is not None
    }
    usual = {name for name in _MAKERS if name in called}
    by_makers = set().union(*(called[name] for name in usual)) & called.keys()
    by_others = set().union(
        *(names for name, names in called.items() if name not in usual | by_makers)
    )
    return usual | (by_makers - by_others)


def _function_of(value: object) -> FunctionType | None:
    """Return the function in a class attribute, without its decorators."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    for _ in range(_MOST_ENTRIES):
        inner = _own(value, "__wrapped__")
        if inner is None:
            break
        value = inner
    return value if isinstance(value, FunctionType) else None


def _attributes(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object without running code of its class."""
    held = _own(thing, "__dict__")
    if isinstance(held, dict):
        yield from ((str(name), value) for name, value in held.items())
    for base in type(thing).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            value = _own(thing, name)
            if name not in ("__dict__", "__weakref__") and value is not None:
                yield name, value


def _own(thing: object, name: str) -> object:
    """Return an attribute as `object` finds it; None where there is none."""
    try:
        found: object = object.__getattribute__(thing, name)
    except Exception:  # a property may raise anything
        return None
    return found


def _is_users_file(path: str) -> bool:
    """Whether code lies where a user's does: not installed, and not ours."""
    if path.startswith("<frozen"):
        return False
    place = Path(path).resolve()
    if place.is_relative_to(_OURS) or any(name in place.parts for name in _PACKAGES):
        return False
    return not any(place.is_relative_to(folder) for folder in _INSTALLED)


def _is_users_module(module: ModuleType) -> bool:
    paths: Iterable[str] = getattr(module, "__path__", ())
    place = getattr(module, "__file__", None) or next(iter(paths), None)
    return place is not None and _is_users_file(str(place))


def _is_users_class(kind: type) -> bool:
    """Whether a class is the user's, by where its methods or its module lie."""
    if kind.__module__ == "builtins":
        return False
    for value in vars(kind).values():
        if isinstance(value, FunctionType) and value.__module__ == kind.__module__:
            return _is_users_file(value.__code__.co_filename) or (
                value.__code__.co_filename == "<string>"  # a dataclass writes some
                and _is_users_name(kind.__module__)
            )
    return _is_users_name(kind.__module__)


def _is_users_name(name: str) -> bool:
    module = sys.modules.get(name)
    return name == "__main__" or module is None or _is_users_module(module)


@functools.lru_cache(maxsize=64)
def _file_code(path: Path, modified_ns: int) -> CodeType | None:
    try:
        return compile(path.read_bytes(), path.name, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return None


def _file_text(path: Path) -> str:
    """Return what a module says that a function imports when it is called."""
    try:
        code = _file_code(path, path.stat().st_mtime_ns)
    except OSError:
        return ""
    return "" if code is None else code_text(code)
