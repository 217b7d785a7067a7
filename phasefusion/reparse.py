"""Answers of generated passes told again from the texts that were kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phasefusion._passes import generated_answer
from phasefusion._paths import run_path
from phasefusion._results import Result
from phasefusion._whole import replace_file
from phasefusion._wording import unwritten
from phasefusion.answers import BY_PLACE
from phasefusion.datasets import Item
from phasefusion.errors import RecordError
from phasefusion.records import PASSES_FILE, RunWriter, iter_passes, read_run
from phasefusion.records.files import dump
from phasefusion.records.questions import QuestionTexts, find_questions

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


def reparse(run: Any, questions: str | Path | Sequence[Item] | None = None) -> Reparsed:
    """Tell the answers of generated passes again, by today's `parse_answer`.

    The stored texts are what is read; no model is asked. Everything else of a pass
    stays as it was. The file is replaced whole, or not at all.

    Parameters
    ----------
    run : Run, str or Path
        The run folder.
    questions : str, Path or sequence of Item, optional
        The question file or its items, for the texts of the options; the file of the
        run by default, found from any directory. Questions that are other than when
        the run was made, or whose video has another name, are left alone.

    Returns
    -------
    Reparsed

    Raises
    ------
    FileNotFoundError
        If there is no such run or question file.
    RecordError
        If another process is writing the run, its question file is not found, or its
        files cannot be read or written.
    DatasetError
        If the question file cannot be read.
    """
    folder = run_path("run", run)
    described = read_run(folder)
    texts = find_questions(described, questions, folder=folder).required(folder)
    with RunWriter(folder, described):  # nobody writes meanwhile
        telling = _Telling(texts)
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

    def __init__(self, texts: QuestionTexts) -> None:
        self._texts = texts
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
        key = row["benchmark"], row["question_id"]
        item = self._texts.items.get(key)
        if item is None or len(item.options) != row["n_options"]:
            reason = "no such question"
            if item is not None:
                reason = "the question has another number of options"
            elif key in self._texts.changed:
                reason = "the question has changed since"
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


def _shown(answer: int | None, outcome: str | None) -> str:
    return f"option {answer}" if answer is not None else str(outcome or "no answer")


def _replace(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data)
    except OSError as error:
        raise RecordError(unwritten(path, error)) from error
