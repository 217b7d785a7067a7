"""What the readers of benchmarks hand over, and the fields that they share."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phasefusion._sources.files import OPTION_COLUMN, as_id, whole
from phasefusion._sources.model import GoldKind, RawQuestion
from phasefusion._sources.rows import (
    GOLDS,
    OPTION_LISTS,
    first,
    strata_of,
    text_of,
)
from phasefusion.answers import LETTERS, normal
from phasefusion.errors import DatasetError

#: Fields that a question has elsewhere; `Item.extra` keeps all others.
_CONSUMED = {
    *OPTION_LISTS,
    *GOLDS,
    "",
    "question",
    "answer_id",
    "answer_number",
    "correct_choice",
    "start",
    "end",
    "start_frame",
    "end_frame",
    "subtitle",
    "subtitles",
}


#: How alike a name and its misspelling are: one letter of five, two changed places.
_NEAR = 0.75


class LeftOut(Exception):
    """Why a question cannot be scored."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Row:
    """One question as its file has it.

    Attributes
    ----------
    where : str
        File and place, for messages.
    fields : mapping
    task : str
        Name of the file, which benchmarks of one file a task do not repeat inside.
    place : int
        Number of the question in its task, from 0.
    """

    where: str
    fields: Mapping[str, Any]
    task: str = ""
    place: int = 0

    def text(self, name: str) -> str | None:
        """Return a field that is a text or a number, as text."""
        return text_of(self.fields.get(name))

    def name(self, *names: str) -> str:
        """Return the first field that is there and not empty, as a name.

        Raises
        ------
        DatasetError
            If there is none, or it can be no name.
        """
        return as_id(self._stated(names), self.where, names[0])

    def file(self, *names: str) -> str:
        """Return the first field that is there and not empty, as the name of a file.

        White space at its ends is part of it, as it is of names of files.

        Raises
        ------
        DatasetError
            As for `name`.
        """
        value = self._stated(names)
        return value if isinstance(value, str) else as_id(value, self.where, names[0])

    def _stated(self, names: tuple[str, ...]) -> Any:
        value = first(self.fields, names)
        if value is None:
            raise DatasetError(f"{self.where}: has no {' or '.join(names)}")
        return value

    def maybe(self, *names: str) -> str | None:
        """Return the first field that is there, as a name; None without."""
        value = first(self.fields, names)
        ok = isinstance(value, str | int) and not isinstance(value, bool)
        return str(value) if ok else None

    def strata(self, *names: str) -> dict[str, str]:
        """Return the fields of these names that are there."""
        return strata_of(self.fields, names)

    def extra(self, *without: str) -> dict[str, Any]:
        """Return the fields that have no place of their own in an item."""
        return {
            name: value
            for name, value in self.fields.items()
            if name not in _CONSUMED
            and name not in without
            and not OPTION_COLUMN.fullmatch(name)
        }


#: Fields of the project's own form that a question can do without, and other words for
#: what they hold.
_OPTIONAL = {
    "answer": ("gold", "label", "correct", "correct_answer", "solution", "right"),
    "type": ("question_type",),
    "video_id": (),
    "benchmark": (),
    "start": ("start_time", "begin"),
    "end": ("end_time",),
    "strata": ("stratum",),
    "subtitles": ("subs", "srt"),
}
_NEEDED = {"question_id", "video", "question", "options", "start_frame", "end_frame"}


def misspelt(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield fields without a use that look like one which is not there.

    Examples
    --------
    >>> list(misspelt({"anwser": 1, "Gold": 1, "note": 1}))
    [('anwser', 'answer'), ('Gold', 'answer')]
    >>> list(misspelt({"gold": 1, "answer": 1}))
    []
    """
    for name in fields:
        if name in _OPTIONAL or name in _NEEDED or OPTION_COLUMN.fullmatch(name):
            continue
        plain = name.lower().replace("-", "_").replace(" ", "_").strip("_")
        for meant, others in _OPTIONAL.items():
            near = difflib.SequenceMatcher(None, plain, meant).ratio() >= _NEAR
            if fields.get(meant) in (None, "") and (near or plain in others):
                yield name, meant
                break


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it is checked.

    Attributes
    ----------
    question : RawQuestion
    videos : tuple of str
        Names that its video may have, best first.
    cuts : tuple of str
        Names of files that hold the asked part alone; they come before `videos`, and
        have no bounds.
    hint : str
        Part of the path of the video where several have its name.
    bounds : mapping
        The fields that hold them.
    subtitles : tuple of str
        Names that its subtitles may have, where the row names none.
    inline : object
        What the row says of its subtitles: they themselves, or the name of their file.
    offset_s : object
        As in `SubtitleSource`.
    extra : mapping
    notes : tuple of (str, str, str)
        Kind, sentence and example of what was changed.
    """

    question: RawQuestion
    videos: tuple[str, ...]
    cuts: tuple[str, ...] = ()
    hint: str = ""
    bounds: Mapping[str, Any] = field(default_factory=dict)
    subtitles: tuple[str, ...] = ()
    inline: object = None
    offset_s: object = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[tuple[str, str, str], ...] = ()


def index_gold(gold: object) -> GoldKind:
    """Kind of gold that is an index, as a number or a text; or anything else."""
    return "auto" if whole(gold) is None else "index"


def text_gold(gold: object, options: Sequence[str] | None) -> GoldKind:
    """Kind of gold that is the text of an option, but in copies of the benchmark.

    A number is never taken for an index there: "3" may be an option that is missing.
    """
    if isinstance(gold, str) and options is not None:
        texts = {" ".join(option.split()) for option in options}
        if " ".join(gold.split()) in texts or whole(gold) is not None:
            return "text"
    return "auto"


def index_and_text(row: Row, options: Sequence[str] | None) -> tuple[object, GoldKind]:
    """Gold of tables that have it twice, as answer_number and as answer."""
    index, text = whole(row.fields.get("answer_number")), row.text("answer")
    if index is None:
        return text, "text"
    if text and options is not None and 0 <= index < min(len(options), len(LETTERS)):
        if normal(options[index]) != normal(text):
            return f"({LETTERS[index]}) {text}", "auto"  # found to contradict itself
    return index, "index"


def without_filler(
    options: tuple[str, ...], gold: object, filler: str
) -> tuple[tuple[str, ...], object, int]:
    """Take out options that only fill columns; the gold counts among what is left.

    Returns
    -------
    options : tuple of str
    gold : object
    n_dropped : int

    Examples
    --------
    >>> without_filler(("cat", "N/A", "dog"), 2, "N/A")
    (('cat', 'dog'), 1, 1)
    """
    index = whole(gold)
    kept = [k for k, text in enumerate(options) if text.strip() != filler or k == index]
    if index is not None and index in kept:
        gold = kept.index(index)
    elif index is not None and index >= 0:
        gold = max(index, len(options))  # no option, and none of those that are left
    return tuple(options[k] for k in kept), gold, len(options) - len(kept)
