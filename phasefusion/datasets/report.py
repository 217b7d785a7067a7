"""What reading a dataset has to say: what was kept, what was left out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from phasefusion._results import Result, fields_html, table_html
from phasefusion._sources.golds import FROM_ONE
from phasefusion._wording import counted
from phasefusion.datasets.item import Item

if TYPE_CHECKING:
    from phasefusion._sources.findings import Finding

#: Ids and names that are printed of a long list.
_PRINTED = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a question was left out, or has no gold though its file states one.

    Attributes
    ----------
    question_id : str
        Empty where even that cannot be read.
    kind : str
        Short name, such as "empty option" or "missing video".
    reason : str
    where : str
        File and place.
    """

    question_id: str
    kind: str
    reason: str
    where: str

    def __str__(self) -> str:
        return f"{self.question_id or self.where}: {self.reason}"


@dataclass(frozen=True, slots=True, repr=False)
class DatasetReport(Result):
    """Account of every question of a dataset.

    Attributes
    ----------
    name : str
        Of the reader, as in `phasefusion.datasets.names`.
    benchmark : str
    files : tuple of dict
        Path and SHA-256 of every file; empty for rows.
    read, kept : int
        Questions that the files have, and those that can be scored. Together with
        `left_out` they add up.
    with_gold : int
        Kept questions whose right answer is known.
    left_out : tuple of Problem
    unusable_gold : tuple of Problem
        Questions that were kept without gold: the file states one that is none of the
        options, contradicts itself or could be several.
    findings : tuple of Finding
        What else a reader of the numbers must know, with examples.
    videos : int
        Different videos of the kept questions.
    missing_videos : tuple of str
        Names of videos that were not found, in order of first appearance.
    with_subtitles : int
        Questions that have subtitles.
    missing_subtitles : tuple of str
        Names of subtitle files that questions name and that were not found. Kept
        questions have the path in `Item.subtitles`.
    """

    name: str
    benchmark: str
    files: tuple[Mapping[str, str], ...]
    read: int
    kept: int
    with_gold: int
    left_out: tuple[Problem, ...] = ()
    unusable_gold: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    videos: int = 0
    missing_videos: tuple[str, ...] = ()
    with_subtitles: int = 0
    missing_subtitles: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether every question was kept, with all that its file states."""
        return not (self.left_out or self.unusable_gold)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to warn of: all is there and means what it says."""
        is_sure = self.finding(FROM_ONE) is None
        return self.is_clean and is_sure and not self.missing_subtitles

    def finding(self, kind: str) -> Finding | None:
        """Return the finding of a kind, None when there is none."""
        return next((one for one in self.findings if one.kind == kind), None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "name": self.name,
            "benchmark": self.benchmark,
            "files": [dict(one) for one in self.files],
            "read": self.read,
            "kept": self.kept,
            "with_gold": self.with_gold,
            "left_out": [_problem(one) for one in self.left_out],
            "unusable_gold": [_problem(one) for one in self.unusable_gold],
            "findings": [
                {
                    "kind": one.kind,
                    "text": one.text,
                    "n": one.n,
                    "examples": list(one.examples),
                }
                for one in self.findings
            ],
            "videos": self.videos,
            "missing_videos": list(self.missing_videos),
            "with_subtitles": self.with_subtitles,
            "missing_subtitles": list(self.missing_subtitles),
        }

    def lines(self) -> Iterator[str]:
        """Say it in lines of text."""
        yield (
            f"{self.benchmark} ({self.name}): {counted(self.read, 'question')} read, "
            f"{self.kept} kept, {self.with_gold} with gold, "
            f"{counted(self.videos, 'video')}"
            + (
                f", {self.with_subtitles} with subtitles (for anchors; no model is "
                "shown them)"
                if self.with_subtitles
                else ""
            )
        )
        if self.missing_videos:
            yield f"  missing videos: {some(self.missing_videos)}"
        if self.missing_subtitles:
            yield f"  missing subtitles: {some(self.missing_subtitles)}"
        yield from _grouped("left out", self.left_out)
        yield from _grouped("kept without gold", self.unusable_gold)
        for one in self.findings:
            yield f"  {one}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _problem(one: Problem) -> dict[str, str]:
    return {
        "question_id": one.question_id,
        "kind": one.kind,
        "reason": one.reason,
        "where": one.where,
    }


def _grouped(what: str, problems: Sequence[Problem]) -> Iterator[str]:
    """One line a kind, with the first of it."""
    for kind, n in Counter(one.kind for one in problems).items():
        examples = [str(one) for one in problems if one.kind == kind][:_PRINTED]
        more = "; ..." if n > _PRINTED else ""
        yield f"  {what}, {kind} ({n}): {'; '.join(examples)}{more}"


def some(names: Sequence[str]) -> str:
    """Count names and show the first ones.

    >>> some(["a", "b", "c", "d"])
    '4 (a, b, c, ...)'
    """
    more = ", ..." if len(names) > _PRINTED else ""
    return f"{len(names)} ({', '.join(names[:_PRINTED])}{more})"


@dataclass(frozen=True, slots=True, repr=False)
class Dataset(Sequence[Item], Result):
    """Questions that can be scored, and the account of all.

    Attributes
    ----------
    items : tuple of Item
        In the order of the files.
    report : DatasetReport
    """

    items: tuple[Item, ...]
    report: DatasetReport

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self.items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def _rows(self) -> list[tuple[str, str]]:
        about = self.report
        return [
            ("benchmark", about.benchmark),
            ("questions", str(len(self))),
            ("left out", str(len(about.left_out))),
            ("with gold", str(about.with_gold)),
            ("videos", str(about.videos)),
        ]

    def _repr_html_(self) -> str:
        columns = ("question_id", "question", "options", "gold")
        shown = [
            (item.question_id, item.question, item.options, item.gold)
            for item in self.items
        ]
        return fields_html("Dataset", self._rows()) + table_html(columns, shown)
