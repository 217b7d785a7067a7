"""Answers of generated passes told again from the texts that were kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phasefusion._passes import generated_answer
from phasefusion._results import Result
from phasefusion._whole import replace_file
from phasefusion._wording import unwritten
from phasefusion.answers import BY_PLACE
from phasefusion.datasets import Item, load_questions
from phasefusion.datasets.item import item_hash
from phasefusion.errors import RecordError
from phasefusion.records import PASSES_FILE, RunWriter, iter_passes, read_run
from phasefusion.records.files import dump

#: What telling an answer again may change of a record.
_TOLD = ("answer", "invalid", "outcome", "rule")


@dataclass(frozen=True, slots=True, repr=False)
class Reparsed(Result):
    """What telling the answers again did.

    Attributes
    ----------
    passes : int
        Of the run.
    generated : int
        With a text.
    changed : int
        Of which the answer or its outcome is another one now.
    moves : dict of str to int
        Changes by "old outcome -> new outcome", an answer by its content index.
    skipped : dict of str to int
        Generated passes left as they were, by reason.
    """

    passes: int
    generated: int
    changed: int
    moves: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {name: getattr(self, name) for name in Reparsed.__slots__}


def reparse(
    run: str | Path, questions: str | Path | Sequence[Item] | None = None
) -> Reparsed:
    """Tell the answers of generated passes again, by today's `parse_answer`.

    The stored texts are what is read; no model is asked. Everything else of a pass
    stays as it was. The file is replaced whole, or not at all.

    Parameters
    ----------
    run : str or Path
        The run folder.
    questions : str, Path or sequence of Item, optional
        The question file or its items, for the texts of the options; the file of the
        run by default. Questions that are other than when the run was made, or whose
        video has another name, are left alone.

    Returns
    -------
    Reparsed

    Raises
    ------
    FileNotFoundError
        If there is no such run or question file.
    RecordError
        If another process is writing the run, it names no question file, or its files
        cannot be read or written.
    DatasetError
        If the question file cannot be read.
    """
    folder = Path(run)
    described = read_run(folder)
    known = described.get("questions", {})
    given = questions if questions is not None else known.get("file")
    if given is None:
        raise RecordError(
            f"{folder}: run.json names no question file, so the texts of the options "
            "are not known; give the question file"
        )
    if isinstance(given, str | Path):
        given = load_questions(given, check_videos=False)
    items = {(item.benchmark, item.question_id): item for item in given}
    with RunWriter(folder, described):  # nobody writes meanwhile
        telling = _Telling(items, known.get("items", {}))
        lines = [dump(telling.told(row)) for row in iter_passes(folder)]
        if telling.is_edited:
            _replace(folder / PASSES_FILE, b"".join(lines))
    return Reparsed(
        len(lines),
        telling.generated,
        sum(telling.moves.values()),
        dict(sorted(telling.moves.items())),
        dict(sorted(telling.skipped.items())),
    )


class _Telling:
    """Counts what happens to the records of one run."""

    def __init__(
        self,
        items: Mapping[tuple[str, str], Item],
        hashes: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._items = items
        self._hashes = hashes
        self.generated = 0
        #: Whether anything is other than it was, be it a reason alone.
        self.is_edited = False
        self.moves: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    def told(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a record with its answer told again."""
        if row.get("path") != "generate" or not isinstance(row.get("text"), str):
            return row
        if row.get("rule") == BY_PLACE:  # which its text did not tell
            return row
        self.generated += 1
        item = self._items.get((row["benchmark"], row["question_id"]))
        reason = self._why_not(item, row)
        if item is None or reason:
            self.skipped[reason] += 1
            return row
        fresh = generated_answer(row["text"], item, row["order"])
        told = {name: fresh[name] for name in _TOLD}
        before = (row["answer"], row.get("outcome"))
        after = (told["answer"], told["outcome"])
        if before != after:
            self.moves[f"{_shown(*before)} -> {_shown(*after)}"] += 1
        self.is_edited |= any(row.get(name) != value for name, value in told.items())
        return row | told

    def _why_not(self, item: Item | None, row: Mapping[str, Any]) -> str:
        if item is None:
            return "no such question"
        if len(item.options) != row["n_options"]:
            return "the question has another number of options"
        was = self._hashes.get(item.benchmark, {}).get(item.question_id)
        if was is not None and was != item_hash(item):
            return "the question has changed since"
        return ""


def _shown(answer: int | None, outcome: str | None) -> str:
    return f"option {answer}" if answer is not None else str(outcome or "no answer")


def _replace(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data)
    except OSError as error:
        raise RecordError(unwritten(path, error)) from error
