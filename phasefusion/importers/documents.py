"""Logs that number their documents, joined with the questions that these were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phasefusion._sources.files import read_jsonl
from phasefusion._sources.findings import Findings
from phasefusion._sources.model import RawAnswer, RawQuestion, Reading, Settings
from phasefusion._sources.questions import Key, same_question
from phasefusion.errors import DatasetError

#: What a sidecar of an adapter says of every document, one a line.
DOCS_FILE = "docs.jsonl"
_FIELDS = frozenset(("task", "doc_id", "prompt", "options"))


@dataclass(frozen=True, slots=True)
class Documents:
    """Questions of a sidecar.

    Attributes
    ----------
    questions : tuple of RawQuestion
        Under the ids of its passes.
    ids : mapping of Key to str
        Those ids by task and number of the document.
    """

    questions: tuple[RawQuestion, ...]
    ids: Mapping[Key, str]


def docs_path(path: Path) -> Path:
    """Return the file of a sidecar's folder, or the file itself."""
    return path / DOCS_FILE if path.is_dir() and (path / DOCS_FILE).is_file() else path


def read_documents(path: Path, settings: Settings) -> Documents | None:
    """Read what a sidecar says of its documents; None for any other file.

    Raises
    ------
    DatasetError
        If a line is no JSON object.
    """
    if path.suffix.lower() != ".jsonl":
        return None
    questions: list[RawQuestion] = []
    ids: dict[Key, str] = {}
    for line, row in read_jsonl(path):
        if not row.keys() >= _FIELDS:
            if questions:
                raise DatasetError(f"{path}, line {line}: is of no document")
            return None
        if not isinstance(row.get("question_id"), str):  # left out: nothing was asked
            continue
        benchmark = settings.name(str(row["task"]))
        ids[benchmark, str(row["doc_id"])] = row["question_id"]
        options = row["options"]
        questions.append(
            RawQuestion(
                where=f"{path}, line {line}",
                question_id=row["question_id"],
                benchmark=benchmark,
                options=tuple(map(str, options)) if options else None,
                gold=row.get("gold"),
                gold_kind="index",
            )
        )
    return Documents(tuple(questions), ids) if questions else None


def ids_by_place(
    readings: Sequence[Reading], reference: Sequence[RawQuestion]
) -> dict[Key, str]:
    """Ids of a question file by the numbers of documents, if each has the same text.

    Empty where an id is in the file, is no number of a question in it, or where options
    are others or not known.
    """
    own = [raw for one in readings for raw in one.questions]
    known = {raw.question_id for raw in reference}
    found: dict[Key, str] = {}
    for raw in own:
        place = int(raw.question_id) if raw.question_id.isdecimal() else len(reference)
        if raw.question_id in known or place >= len(reference):
            return {}
        other = reference[place]
        if not (raw.options and other.options and same_question(raw, other)):
            return {}
        found[raw.benchmark, raw.question_id] = other.question_id
    return found


def under_ids(
    readings: Sequence[Reading], ids: Mapping[Key, str], how: str, findings: Findings
) -> list[Reading]:
    """Return readings whose documents have the ids of their questions."""
    if not ids:
        return list(readings)
    first = next(iter(ids.items()))

    def name(one: RawQuestion | RawAnswer) -> str:
        return ids.get((one.benchmark, one.question_id), one.question_id)

    findings.add(
        "ids of documents",
        f"questions have the ids that {how} gives the numbers of documents",
        f"{first[0][1]} is {first[1]}",
        len(ids),
    )
    return [
        replace(
            one,
            questions=tuple(
                replace(raw, question_id=name(raw)) for raw in one.questions
            ),
            answers=tuple(replace(raw, question_id=name(raw)) for raw in one.answers),
        )
        for one in readings
    ]
