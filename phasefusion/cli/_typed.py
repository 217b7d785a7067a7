"""What was typed: names of options in messages, and words that say nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

#: Texts in quotes, which are somebody else's.
_QUOTED = r"""(?<!\w)(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
#: The value of an argument; what goes on like the path of a file is none.
_VALUE = (
    r"""(?:"([^"]*)"|'([^']*)'"""
    r"""|([^\s,;:()'"/]+?(?:/\d+)?)(?=$|[\s;:()]|[.,](?:\s|$)))"""
)


def as_typed(message: str, command: Any) -> str:
    """Write arguments of Python as the options of a command that stand for them.

    Errors and warnings speak of ``budget=0`` and ``on_error="mark"``, which whoever
    called a function has written; at a command it was ``--budget 0``, and will be
    ``--on-error mark``. Paths and texts in quotes stay as they are.

    Parameters
    ----------
    message : str
    command : command of Typer
        What was called: its options are looked for.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> option = SimpleNamespace(name="on_error", opts=["--on-error"])
    >>> command = SimpleNamespace(params=[option])
    >>> as_typed('kept with on_error="mark"; on_error is None', command)
    'kept with --on-error mark; on_error is None'
    >>> as_typed("on_error is None", command)
    '--on-error is None'
    """
    options = {
        param.name: param
        for param in getattr(command, "params", ())
        if _long(param.opts)
    }
    if not options:
        return message

    def typed(found: re.Match[str]) -> str:
        name, *values = found.groups()
        if name is None:
            return found[0]
        return _option(options[name], next(filter(None, values), "")) or found[0]

    names = "|".join(map(re.escape, options))
    message = re.sub(rf"{_QUOTED}|(?<![^\s(])({names})={_VALUE}", typed, message)
    return re.sub(
        rf"^({names})(?= (?:must|is|has|needs)\b)",
        lambda found: _long(options[found[1]].opts),
        message,
    )


def _long(names: Sequence[str]) -> str:
    return next((name for name in names if name.startswith("--")), "")


def _option(param: Any, value: str) -> str:
    """Write an option with its value, which flags have not; empty where none says it.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> both = {"opts": ["--keep"], "secondary_opts": ["--no-keep"]}
    >>> flag = SimpleNamespace(is_flag=True, **both)
    >>> _option(flag, "True"), _option(flag, "False")
    ('--keep', '--no-keep')
    """
    long = _long(param.opts)
    if not getattr(param, "is_flag", False):
        return f"{long} {value}".rstrip()
    return {"True": long, "False": _long(param.secondary_opts)}.get(value, "")


def empty_word(words: Sequence[str]) -> str | None:
    """Say which word of a command is empty, as a variable that is not set makes it.

    As a path it would be the working directory.

    Examples
    --------
    >>> empty_word(["run", "q.csv", "--out", ""])
    '--out is followed by an empty text'
    >>> empty_word(["report", "--out=", "runs/a"])
    '--out is followed by an empty text'
    >>> empty_word(["report", ""])
    'an argument is an empty text'
    >>> empty_word(["report", "runs/a"])
    """
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word == "" and place and words[place - 1].startswith("-"):
            name = words[place - 1]
        elif word == "":
            return "an argument is an empty text"
        elif not (name.startswith("--") and equals and not value):
            continue
        return f"{name} is followed by an empty text"
    return None
