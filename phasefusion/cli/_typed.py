"""What was typed: names of options in messages, and words that say nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def as_typed(message: str, command: Any) -> str:
    """Write arguments of Python as the options of a command that stand for them.

    Errors and warnings speak of ``budget=0`` and ``on_error="mark"``, which whoever
    called a function has written; at a command it was ``--budget 0``, and will be
    ``--on-error mark``.

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
    for param in getattr(command, "params", ()):
        long = [name for name in param.opts if name.startswith("--")]
        if not long:
            continue
        name = re.escape(param.name)
        pattern = rf"""(?<![\w-]){name}=(?:"([^"]*)"|'([^']*)'|([^\s,;:()'"]+))"""
        message = re.sub(
            pattern,
            lambda found, option=long[0]: (  # type: ignore[misc]
                f"{option} {next(filter(None, found.groups()), '')}".rstrip()
            ),
            message,
        )
        message = re.sub(rf"^{name}(?= (?:must|is|has|needs)\b)", long[0], message)
    return message


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
