"""Result and question files in the forms of the benchmarks themselves."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from phasefusion._sources.files import (
    TABLES,
    Document,
    as_id,
    number,
    read_json,
    read_jsonl,
    read_table,
    whole,
)
from phasefusion._sources.model import (
    GoldKind,
    RawAnswer,
    RawQuestion,
    Reading,
    Settings,
)
from phasefusion._sources.rows import (
    GOLDS,
    PREDICTIONS,
    first,
    has,
    options_of,
    strata_of,
    text_of,
    video_of,
)
from phasefusion._sources.shapes import (
    embedded,
    tempcompass_asked,
    tempcompass_id,
    tempcompass_kind,
    tempcompass_rows,
)
from phasefusion._wording import by_number, counted
from phasefusion.errors import DatasetError


def _repair_notes(document: Document) -> tuple[tuple[str, str, str], ...]:
    """Say that commas were taken out to read a file."""
    n = len(document.repairs)
    if not n:
        return ()
    text = (
        f"{counted(n, 'comma')} before closing brackets {by_number(n, 'was', 'were')} "
        "taken out: the file is no JSON"
    )
    return (("repaired JSON", text, f"{document.path.name}, {document.repairs[0]}"),)


def _answer(
    question: RawQuestion, value: object, path: Path, line: int | None, **more: Any
) -> RawAnswer:
    """Make a pass of a prediction that is a text, a number or nothing."""
    index = None if isinstance(value, str) else whole(value)
    return RawAnswer(
        where=question.where,
        line=line,
        file=path.name,
        question_id=question.question_id,
        benchmark=question.benchmark,
        text=text_of(value) if index is None else None,
        index=index,
        digits_are_index=True,
        displayed=question.options,
        **more,
    )


# -- Video-MME ------------------------------------------------------------


def read_videomme(path: Path, settings: Settings) -> Reading:
    """Read Video-MME's own result form: videos, each with its questions.

    Raises
    ------
    DatasetError
        Naming the place that is not of this form.
    """
    document = read_json(path, lenient=settings.lenient)
    benchmark = settings.name("Video-MME")
    questions, answers = [], []
    for where, video, row in _videomme_rows(path, document.value):
        if "question_id" not in row:
            raise DatasetError(f"{where}: has no question_id")
        kind = first(row, ("task_type",))
        question = RawQuestion(
            where=where,
            question_id=as_id(row["question_id"], where, "question_id"),
            benchmark=benchmark,
            question=text_of(row.get("question")),
            options=options_of(row),
            gold=row.get("answer"),
            video_id=str(first(video, ("video_id", "videoID")) or ""),
            type=None if kind is None else str(kind),
            strata=strata_of(
                {**video, **row}, ("duration", "domain", "sub_category", "task_type")
            ),
        )
        questions.append(question)
        if has(row, PREDICTIONS):
            answers.append(_answer(question, first(row, PREDICTIONS), path, None))
    return Reading(tuple(questions), tuple(answers), _repair_notes(document))


def _videomme_rows(
    path: Path, value: object
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    if not isinstance(value, list):
        raise DatasetError(f"{path}: must be a list of videos")
    for i, video in enumerate(value):
        inside = video.get("questions") if isinstance(video, Mapping) else None
        if not isinstance(inside, list):
            raise DatasetError(f"{path}, item {i}: must be a video with questions")
        for j, row in enumerate(inside):
            where = f"{path}, item {i}, question {j}"
            if not isinstance(row, Mapping):
                raise DatasetError(f"{where}: must be an object")
            yield where, video, row


# -- MLVU -----------------------------------------------------------------


def read_mlvu(path: Path, settings: Settings) -> Reading:
    """Read MLVU's lists: questions, with predictions, or a submission of letters.

    Raises
    ------
    DatasetError
        If the file is not a list of objects.
    """
    document = read_json(path, lenient=settings.lenient)
    benchmark = settings.name("MLVU")
    questions, answers = [], []
    for i, row in enumerate(_objects(path, document.value)):
        where = f"{path}, item {i}"
        name = first(row, ("source", "question_id", "id"))
        question_id = f"{path.stem}#{i}" if name is None else name
        text, options = embedded(text_of(row.get("question")), options_of(row))
        kind = first(row, ("question_type", "task_type"))
        gold = row.get("answer") if "answer" in row else first(row, GOLDS)
        question = RawQuestion(
            where=where,
            question_id=as_id(question_id, where, "question_id"),
            benchmark=benchmark,
            question=text,
            options=options,
            gold=gold,
            gold_kind=_text_gold(gold, options),
            video_id=video_of(row),
            type=None if kind is None else str(kind),
            duration_s=_duration_s(row.get("duration")),
        )
        questions.append(question)
        letter = row.get("option")
        if isinstance(letter, str):
            answers.append(_answer(question, letter, path, None))
        elif has(row, PREDICTIONS):
            answers.append(_answer(question, first(row, PREDICTIONS), path, None))
    return Reading(tuple(questions), tuple(answers), _repair_notes(document))


def _duration_s(value: object) -> float | None:
    """Return a length in seconds; None for what can be none, as -1 for unknown."""
    found = number(value)
    return None if found is None or not 0.0 <= found < math.inf else found


def _text_gold(gold: object, options: tuple[str, ...] | None) -> GoldKind:
    """Gold of the question files is a text; that of results may have its letter."""
    if isinstance(gold, str) and options is not None and not re.match(r"\(", gold):
        return "text"
    return "auto"


def _objects(path: Path, value: object) -> list[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        value = next((one for one in value.values() if isinstance(one, list)), value)
    if not isinstance(value, list) or not all(isinstance(r, Mapping) for r in value):
        raise DatasetError(f"{path}: must be a list of objects")
    return value


# -- TempCompass ----------------------------------------------------------


def read_tempcompass(path: Path, settings: Settings) -> Reading:
    """Read TempCompass's nested form: video, dimension, list of questions.

    Options are split out of the question; the id is made of video, dimension and place.

    Raises
    ------
    DatasetError
        Naming the place that is not of this form.
    """
    document = read_json(path, lenient=settings.lenient)
    benchmark = settings.name("TempCompass")
    questions, answers = [], []
    for where, video, dimension, i, row in tempcompass_rows(str(path), document.value):
        text, options, gold, group = tempcompass_asked(row, video, dimension)
        kind = tempcompass_kind(row)
        question = RawQuestion(
            where=where,
            question_id=tempcompass_id(video, dimension, kind, i),
            benchmark=benchmark,
            question=text or "",
            options=options,
            gold=gold,
            video_id=video,
            type=dimension,
            group=group,
        )
        questions.append(question)
        names = ("prediction", "video-llm-prediction")
        if has(row, names):
            rating = number(row.get("rating"))
            harness = {} if rating is None else {"rating": rating}
            value = first(row, names)
            answers.append(_answer(question, value, path, None, harness=harness))
    return Reading(tuple(questions), tuple(answers), _repair_notes(document))


# -- NExT-QA --------------------------------------------------------------


def read_nextqa(path: Path, settings: Settings) -> Reading:
    """Read NExT-QA's csv of questions or its json of predictions.

    ``qid`` is unique within a video only; the id is ``video_qid``, as in the json.

    Raises
    ------
    DatasetError
        Naming the place that is not of this form.
    """
    benchmark = settings.name("NExT-QA")
    if path.suffix.lower() != ".json":
        return _nextqa_table(path, benchmark)
    document = read_json(path, lenient=settings.lenient)
    return by_id(path, document, benchmark, numbered=True)


def _nextqa_table(path: Path, benchmark: str) -> Reading:
    table = read_table(path)
    lacking = {"video", "qid"} - set(table.columns)
    if lacking:
        raise DatasetError(f"{path}: has no column {', '.join(sorted(lacking))}")
    questions, answers = [], []
    for line, row in table.rows:
        where = table.where(line)
        question = RawQuestion(
            where=where,
            question_id=f"{row.get('video', '')}_{row.get('qid', '')}",
            benchmark=benchmark,
            question=row.get("question"),
            options=options_of(row),
            gold=row.get("answer"),
            gold_kind="index",
            video_id=row.get("video", ""),
            type=row.get("type"),
        )
        questions.append(question)
        if has(row, PREDICTIONS):
            value = first(row, PREDICTIONS)
            index = whole(value)
            given = value if index is None else index
            answers.append(_answer(question, given, path, line))
    return Reading(tuple(questions), tuple(answers))


# -- EgoSchema ------------------------------------------------------------


def read_egoschema(path: Path, settings: Settings) -> Reading:
    """Read EgoSchema's questions, answers, submissions and the like by ``q_uid``.

    Raises
    ------
    DatasetError
        Naming the place that is not of this form.
    """
    benchmark = settings.name("EgoSchema")
    suffix = path.suffix.lower()
    if suffix in TABLES:
        table = read_table(path)
        rows = [(table.where(line), line, dict(row)) for line, row in table.rows]
        return _ego_rows(path, benchmark, rows)
    if suffix == ".jsonl":
        lines = [(f"{path}, line {line}", line, row) for line, row in read_jsonl(path)]
        return _ego_rows(path, benchmark, lines)
    document = read_json(path, lenient=settings.lenient)
    if isinstance(document.value, list):
        items = [
            (f"{path}, item {i}", i, row)
            for i, row in enumerate(_objects(path, document.value))
        ]
        return _ego_rows(path, benchmark, items)
    return by_id(path, document, benchmark, numbered=True)


def _ego_rows(path: Path, benchmark: str, rows: list[tuple[str, int, Any]]) -> Reading:
    questions, answers = [], []
    for where, line, row in rows:
        uid = first(row, ("q_uid", "uid", "question_id", "id"))
        if uid is None:
            raise DatasetError(f"{where}: has no q_uid")
        options = options_of(row)
        said = first(row, PREDICTIONS)
        gold = first(row, GOLDS)
        if options is None and said is None and not has(row, PREDICTIONS):
            said, gold = gold, None  # a submission has q_uid and answer alone
        question = RawQuestion(
            where=where,
            question_id=as_id(uid, where, "q_uid"),
            benchmark=benchmark,
            question=text_of(row.get("question")),
            options=options,
            gold=gold,
            gold_kind="auto" if whole(gold) is None else "index",
            video_id=str(uid),
        )
        questions.append(question)
        if said is not None or has(row, PREDICTIONS):
            index = whole(said)
            given = said if index is None else index
            answers.append(_answer(question, given, path, line))
    return Reading(tuple(questions), tuple(answers))


def by_id(
    path: Path, document: Document, benchmark: str, *, numbered: bool = False
) -> Reading:
    """Read {id: prediction} or {id: {"prediction": ..., "answer": ...}}."""
    if not isinstance(document.value, Mapping):
        raise DatasetError(f"{path}: must be an object of predictions by id")
    questions, answers = [], []
    for name, row in document.value.items():
        where = f"{path}, {name!r}"
        value, gold = row, None
        if isinstance(row, Mapping):
            value = first(row, (*PREDICTIONS, "final_pred"))
            gold = first(row, GOLDS)
        elif isinstance(row, list | bool):
            raise DatasetError(f"{where}: must be an answer, not {row!r}")
        question = RawQuestion(
            where=where,
            question_id=as_id(name, where, "id"),
            benchmark=benchmark,
            gold=gold,
            gold_kind="auto" if whole(gold) is None else "index",
            video_id=str(name).rpartition("_")[0] if benchmark == "NExT-QA" else "",
        )
        questions.append(question)
        # Of these two benchmarks the answers are numbers, and options can be too.
        index = whole(value) if numbered else None
        given = value if index is None else index
        answers.append(_answer(question, given, path, None))
    return Reading(tuple(questions), tuple(answers), _repair_notes(document))
