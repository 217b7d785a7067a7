"""How numbers of things and items are said, and texts that no file can hold."""

from __future__ import annotations

from typing import NamedTuple, Self


class Argument(NamedTuple):
    """An argument that an error speaks of: a part of its message that is no path.

    Functions have it as Python does; a command says the option that was typed.

    Attributes
    ----------
    name : str
    shown, typed : str
        Its value, as in Python and as at a command; empty where none is said.

    Examples
    --------
    >>> print(Argument.of("origin", "2"), Argument("origin"))
    origin='2' origin
    """

    name: str
    shown: str = ""
    typed: str = ""

    @classmethod
    def of(cls, name: str, value: object) -> Self:
        """Return an argument with its value."""
        return cls(name, repr(value), str(value))

    def __str__(self) -> str:
        return f"{self.name}={self.shown}" if self.shown else self.name


def counted(n: int, noun: str, plural: str = "") -> str:
    """Say a number of things: "1 item", "2 items".

    >>> counted(1, "pass", "passes"), counted(0, "finding")
    ('1 pass', '0 findings')
    """
    return f"{n} {by_number(n, noun, plural or noun + 's')}"


def by_number(n: int, one: str, more: str) -> str:
    """Choose the word that goes with a number of things, such as its verb.

    >>> by_number(1, "is", "are"), by_number(0, "is", "are")
    ('is', 'are')
    """
    return one if n == 1 else more


def item_name(benchmark: str, question_id: str) -> str:
    """Name a question, or a video, in a list: ids are those of one benchmark.

    >>> item_name("videomme", "001-1")
    'videomme/001-1'
    """
    return f"{benchmark}/{question_id}"


def unwritten(path: object, error: OSError) -> str:
    """Say that a file cannot be written, why, and what to do.

    Examples
    --------
    >>> unwritten("a.csv", OSError(28, "No space left on device"))
    'a.csv: cannot be written: No space left on device; name another place'
    """
    return f"{path}: cannot be written: {error.strerror or error}; name another place"


def encodable(text: str) -> str:
    r"""Write halves of surrogate pairs in a text, which no encoding has, as escapes.

    Python holds the bytes of file names that are no UTF-8 in this way.

    >>> print(encodable("caf\udce9"))
    caf\udce9
    """
    return text.encode(errors="backslashreplace").decode()
