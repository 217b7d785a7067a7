"""Paths that callers give, checked before anything is done with them."""

from __future__ import annotations

import os
from pathlib import Path

from phasefusion.errors import UsageError

#: What has passes.
PASSES = "a Run, a run folder, or a file of passes"


def path_of(name: str, value: object, what: str = "a path") -> Path:
    """Return a path, or say which argument is none.

    Parameters
    ----------
    name : str
        Of the argument.
    value : object
    what : str
        What the argument may be.

    Raises
    ------
    UsageError
        If it is neither a text nor path-like, or it is the empty text; ``Path("")`` is
        the working directory, as everywhere in Python.

    Examples
    --------
    >>> path_of("out", "runs/a")
    PosixPath('runs/a')
    >>> path_of("out", None)
    Traceback (most recent call last):
        ...
    phasefusion.errors.UsageError: out is None; it must be a path (str or Path)
    """
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        shown = "None" if value is None else f"{value!r:.60}, a {type(value).__name__}"
        raise UsageError(f"{name} is {shown}; it must be {what} (str or Path)")
    return Path(os.fsdecode(value))


def run_path(name: str, run: object, what: str = "a Run, or a run folder") -> Path:
    """Return the path of a run, or say which argument is none.

    Parameters
    ----------
    name : str
        Of the argument.
    run : Run, str or Path
    what : str
        What the argument may be.

    Raises
    ------
    UsageError
        If it is neither a run nor a path.
    """
    return path_of(name, getattr(run, "path", run), what)
