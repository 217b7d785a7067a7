"""How numbers of things are said."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str = "") -> str:
    """Say a number of things: "1 item", "2 items".

    >>> counted(1, "pass", "passes"), counted(0, "finding")
    ('1 pass', '0 findings')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {plural or noun + 's'}"


def unwritten(path: object, error: OSError) -> str:
    """Say that a file cannot be written, why, and what to do.

    Examples
    --------
    >>> unwritten("a.csv", OSError(28, "No space left on device"))
    'a.csv: cannot be written: No space left on device; name another place'
    """
    return f"{path}: cannot be written: {error.strerror or error}; name another place"
