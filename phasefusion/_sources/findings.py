"""What readers have to say about files, counted by kind."""

from __future__ import annotations

from dataclasses import dataclass

#: Examples that a finding keeps, and those that are printed.
MAX_EXAMPLES = 100
_PRINTED = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the files that a reader of the numbers must know.

    Attributes
    ----------
    kind : str
        Short name, such as "gold not an option".
    text : str
        What it means and what was done about it.
    n : int
        How often.
    examples : tuple of str
        Ids or places, up to 100.
    """

    kind: str
    text: str
    n: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        some = "; ".join(self.examples[:_PRINTED])
        more = ", ..." if self.n > _PRINTED else ""
        return (
            f"{self.kind} ({self.n}): {self.text}{f' [{some}{more}]' if some else ''}"
        )


class Findings:
    """Collects findings by kind, in order of first occurrence."""

    def __init__(self) -> None:
        self._text: dict[str, str] = {}
        self._n: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def add(self, kind: str, text: str, example: str = "", n: int = 1) -> None:
        """Count one more of a kind; the first text of a kind is kept."""
        self._text.setdefault(kind, text)
        self._n[kind] = self._n.get(kind, 0) + n
        examples = self._examples.setdefault(kind, [])
        if example and len(examples) < MAX_EXAMPLES:
            examples.append(example)

    def __contains__(self, kind: str) -> bool:
        return kind in self._text

    def frozen(self) -> tuple[Finding, ...]:
        """Return everything that was found."""
        return tuple(
            Finding(kind, text, self._n[kind], tuple(self._examples[kind]))
            for kind, text in self._text.items()
        )
