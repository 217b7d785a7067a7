"""What was typed: names of options in messages, and words that say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phasefusion._wording import Argument
from phasefusion.errors import PhaseFusionError


def as_typed(error: PhaseFusionError, command: Any) -> str:
    """Return the message of an error, its arguments as the options that they are.

    Whoever called a function has written ``budget=0``; at a command it was
    ``--budget 0``. The rest of a message, such as a path, stays as it is.

    Parameters
    ----------
    error : PhaseFusionError
    command : command of Typer
        What was called: its options are looked for.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> option = SimpleNamespace(name="n_orders", opts=["--n-orders"])
    >>> command = SimpleNamespace(params=[option])
    >>> error = PhaseFusionError(Argument.of("n_orders", 0), " in n_orders=0/run.json")
    >>> as_typed(error, command)
    '--n-orders 0 in n_orders=0/run.json'
    """
    options = {
        param.name: name
        for param in getattr(command, "params", ())
        for name in param.opts
        if name.startswith("--")
    }

    def typed(part: object) -> str:
        if not isinstance(part, Argument) or part.name not in options:
            return str(part)
        return f"{options[part.name]} {part.typed}".rstrip()

    return "".join(map(typed, error.args))


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
