"""Pages of the reference that are made of the code: Python names and commands."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, get_args, get_origin

import typer

#: Modules of the reference, under the heading where they stand.
MODULES = {
    "From a video to posteriors": (
        "grid",
        "samplers",
        "video",
        "frames",
        "pixels",
        "orders",
        "scoring",
        "fusion",
        "contact",
    ),
    "Runs": (
        "evaluate",
        "datasets",
        "protocols",
        "engine",
        "records",
        "cache",
        "subtitles",
        "anchors",
        "answers",
        "reparse",
        "capacity",
    ),
    "What a run says": (
        "stats",
        "report",
        "compare",
        "planning",
        "audit",
        "calibrate",
        "saliency",
        "gate",
        "monitor",
        "simulate",
    ),
    "Other programs and machines": ("harness", "importers", "cuda", "tinyvlm"),
    "When something is wrong": ("errors", "frame_check"),
}


def write(folder: Path) -> None:
    """Write the pages, where they are not there already."""
    (folder / "api").mkdir(parents=True, exist_ok=True)
    _replace(folder / "commands.md", "\n".join(_commands()))
    _replace(folder / "api.md", "\n".join(_api()))
    for modules in MODULES.values():
        for name in modules:
            _replace(folder / "api" / f"{name}.md", "\n".join(_module_page(name)))


def _replace(path: Path, text: str) -> None:
    """Write a file if that changes it, so that a second build does little."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _api() -> Iterator[str]:
    top = {name: _module_of(name) for name in _top_level()}
    links = (f"{{py:obj}}`{n} <phasefusion.{m}.{n}>`" for n, m in top.items())
    yield "# Python\n"
    yield (
        "Names are public where they stand here, and keep their meaning as "
        "[versions](../versions.md) says. Everything is reached from its module; what "
        f"is used most, from `phasefusion` itself: {', '.join(links)}.\n"
    )
    for heading, modules in MODULES.items():
        yield f":::{{toctree}}\n:caption: {heading}\n:maxdepth: 1\n"
        yield from (f"api/{name}" for name in modules)
        yield ":::\n"


def _module_page(name: str) -> Iterator[str]:
    module = importlib.import_module(f"phasefusion.{name}")
    yield f"# phasefusion.{name}\n"
    yield "```{eval-rst}"
    yield f".. automodule:: phasefusion.{name}"
    yield "   :no-members:\n"
    yield ".. autosummary::\n"
    names = _documented(module)
    yield from (f"   {one}" for one in names)
    yield ""
    for one in names:
        is_class = inspect.isclass(getattr(module, one))
        kind = "class" if is_class else "function"
        yield f".. auto{kind}:: {one}"
        yield "   :members:\n" if is_class else ""
    yield "```\n"


def _top_level() -> list[str]:
    import phasefusion

    return [
        name for name in phasefusion.__all__ if callable(getattr(phasefusion, name))
    ]


def _module_of(name: str) -> str:
    """Return the public module that has a name of the package."""
    import phasefusion

    return phasefusion._HOME[name]


def _documented(module: Any) -> list[str]:
    """Names of classes and functions of a module; aliases of types are left out."""
    public = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and name[0] != "_"
    ]
    values = {name: getattr(module, name) for name in public}
    return [
        name
        for name, value in values.items()
        if inspect.isclass(value) or inspect.isroutine(value)
        if not isinstance(value, GenericAlias)
    ]


def _commands() -> Iterator[str]:
    from phasefusion.cli import app

    yield "# Commands\n"
    yield (
        "Every command explains itself with `--help`. Results go to standard output, "
        "everything else to standard error.\n"
    )
    root: Any = typer.main.get_command(app)
    yield from _command(root, "phasefusion", 2)


def _command(command: Any, name: str, level: int) -> Iterator[str]:
    for word, inner in sorted(getattr(command, "commands", {}).items()):
        if inner.hidden:
            continue
        whole = f"{name} {word}"
        yield f"{'#' * level} {whole}\n"
        yield f"{_text(inner.help)}\n"
        if hasattr(inner, "commands"):
            yield from _command(inner, whole, level + 1)
            continue
        yield "| argument | meaning | default |"
        yield "|---|---|---|"
        yield from (_row(one) for one in inner.params if not getattr(one, "hidden", 0))
        yield ""
        yield from _epilog(inner.epilog or "")


def _epilog(text: str) -> Iterator[str]:
    """Examples as one block, and what else is said as paragraphs."""
    parts = [part for part in text.split("\n\n") if part.strip()]
    commands = [part.strip() for part in parts if part.startswith("phasefusion ")]
    if commands:
        yield "```text"
        yield from commands
        yield "```\n"
    for part in parts:
        if part.strip() not in (*commands, "Examples:"):
            yield f"{_text(part)}\n"


def _row(one: Any) -> str:
    if one.param_type_name == "argument":
        names = f"`{one.metavar or one.name.upper()}`"
    else:
        names = ", ".join(f"`{o}`" for o in (*one.opts, *one.secondary_opts))
    default = one.default
    shown = "" if default in (None, False, ()) or callable(default) else f"`{default}`"
    if one.required:
        shown = "(needed)"
    choices = _choices(one)
    listed = f" One of {', '.join(f'`{c}`' for c in choices)}." if choices else ""
    return f"| {names} | {_text(one.help)}{listed} | {shown} |"


def _choices(one: Any) -> list[str]:
    """Return what an argument may be, where that is a list."""
    kind = one.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [str(member.value) for member in kind]
    return list(get_args(kind)) if get_origin(kind) is Literal else []


def _text(text: str | None) -> str:
    """Plain words as Markdown: options as code, nothing of it taken for a mark."""
    words = re.sub(r"([\\`*_|<\[])", r"\\\1", " ".join((text or "").split()))
    return re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", words)
