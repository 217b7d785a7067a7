"""Tables of no harness: mapped columns, a column a run, a sweep of option orders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from phasefusion._sources.files import (
    Table,
    number,
    number_list,
    read_json,
    read_jsonl,
    read_table,
    text_list,
    whole,
)
from phasefusion._sources.model import (
    RawAnswer,
    RawQuestion,
    Reading,
    Settings,
)
from phasefusion._sources.options import split_embedded
from phasefusion._sources.rows import GOLDS, dotted, options_of
from phasefusion.answers import LETTERS
from phasefusion.errors import DatasetError

#: Fields that a mapping may name, with the columns that are tried without one.
FIELDS: dict[str, tuple[str, ...]] = {
    "question_id": ("question_id", "q_uid", "sample_id", "qid", "id", "index"),
    "answer": ("prediction", "pred", "response", "model_answer", "output"),
    "gold": GOLDS,
    "video_id": ("video_id", "videoID", "video", "video_name"),
    "question": ("question",),
    "options": (),
    "type": ("type", "task_type", "question_type"),
    "arm": ("arm", "run"),
    "budget": ("budget", "frames", "n_frames", "nframes"),
    "order": ("order",),
    "logprobs": ("logprobs",),
    "probabilities": ("probabilities", "proba", "probs"),
    "phase": ("phase",),
    "phase_index": ("phase_index",),
    "n_phases": ("n_phases",),
    "group": ("group",),
    "benchmark": ("benchmark",),
}
_FRAMES = re.compile(r"(?:^|_)(\d+) ?(?:f|frames?)(?:_|$)", re.IGNORECASE)
_BLIND = re.compile(r"(?:^|_)(?:text_?only|blind|no_?video)(?:_|$)", re.IGNORECASE)
_CHOICE = re.compile(r"\(?[A-Za-z]\)?\.?")
_SWEEP = re.compile(r"(?P<head>.*?)(?P<k>\d+)_options")


def read_csv(path: Path, settings: Settings) -> Reading:
    """Read a table, or JSON objects, one row a pass, by a mapping of fields to columns.

    Without a mapping the usual names are tried.

    Raises
    ------
    DatasetError
        If a mapped column is not there, or no column can be the id or the answer.
    """
    names: set[str] = set()
    rows = list(_rows(path, settings, names))
    columns = _columns(path, settings.mapping, names)
    questions, answers = [], []
    for where, line, row in rows:
        question = _question(row, where, path, columns, settings)
        questions.append(question)
        if {"answer", "logprobs", "probabilities"} & set(columns):
            answers.append(_mapped(row, where, line, path, columns, question))
    return Reading(tuple(questions), tuple(answers))


def _rows(
    path: Path, settings: Settings, names: set[str]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield place, line and fields of every row, and collect the names of fields."""
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        for line, row in read_jsonl(path):
            names.update(row)
            yield f"{path}, line {line}", line, row
    elif suffix == ".json":
        value = read_json(path, lenient=settings.lenient).value
        if isinstance(value, Mapping):
            value = value.get("questions", value)
        if not isinstance(value, list) or not all(isinstance(r, dict) for r in value):
            raise DatasetError(f"{path}: must be a list of objects")
        for i, row in enumerate(value):
            names.update(row)
            yield f"{path}, item {i}", i, row
    else:
        table = read_table(path)
        names.update(table.columns)
        for line, cells in table.rows:
            yield table.where(line), line, dict(cells)


def _columns(
    path: Path, mapping: Mapping[str, str], names: set[str]
) -> dict[str, tuple[str, ...]]:
    """Columns of every field that is there."""
    unknown = sorted(set(mapping) - set(FIELDS))
    if unknown:
        raise DatasetError(
            f"--map {unknown[0]}: is no field; the fields are {', '.join(FIELDS)}"
        )
    found: dict[str, tuple[str, ...]] = {}
    for field, usual in FIELDS.items():
        if field in mapping:
            wanted = tuple(mapping[field].split("+"))
            lacking = [n for n in wanted if n not in names and "." not in n]
            if lacking:
                raise DatasetError(
                    f"{path}: has no column {lacking[0]!r} for --map "
                    f"{field}={mapping[field]}; it has {', '.join(sorted(names))}"
                )
            found[field] = wanted
        else:
            name = next((one for one in usual if one in names), None)
            if name is not None:
                found[field] = (name,)
    if "question_id" not in found:
        raise DatasetError(
            f"{path}: has no column that could be the id; name one, or several that "
            "together identify a question: --map question_id=video+qid; it has "
            f"{', '.join(sorted(names))}"
        )
    if found.get("gold") == found.get("answer"):
        found.pop("gold", None)
    return found


def _get(row: Mapping[str, Any], columns: tuple[str, ...] | None) -> Any:
    if columns is None:
        return None
    if len(columns) == 1:
        return dotted(row, columns[0])
    values = [dotted(row, name) for name in columns]
    return None if None in values else "_".join(map(str, values))


def _question(
    row: Mapping[str, Any],
    where: str,
    path: Path,
    columns: Mapping[str, tuple[str, ...]],
    settings: Settings,
) -> RawQuestion:
    options = text_list(_get(row, columns.get("options"))) or options_of(row)
    text = _get(row, columns.get("question"))
    if options is None and isinstance(text, str):
        split, found = split_embedded(text)
        options, text = (found, split) if found else (None, text)
    question_id = _get(row, columns["question_id"])
    if question_id in (None, ""):
        raise DatasetError(f"{where}: {'+'.join(columns['question_id'])} is empty")
    video = _get(row, columns.get("video_id"))
    kind, group, own = (
        _get(row, columns.get(name)) for name in ("type", "group", "benchmark")
    )
    named = settings.benchmark is None and own not in (None, "")
    return RawQuestion(
        where=where,
        question_id=str(question_id),
        benchmark=settings.name(str(own) if named else path.stem),
        question=text if isinstance(text, str) else None,
        options=options,
        gold=_get(row, columns.get("gold")),
        video_id="" if video is None else str(video),
        type=None if kind in (None, "") else str(kind),
        group=None if group in (None, "") else str(group),
    )


def _mapped(
    row: Mapping[str, Any],
    where: str,
    line: int,
    path: Path,
    columns: Mapping[str, tuple[str, ...]],
    question: RawQuestion,
) -> RawAnswer:
    given = {name: _get(row, columns.get(name)) for name in FIELDS}
    value = given["answer"]
    index = None if isinstance(value, str) else whole(value)
    phase = _phase(given["phase"], where)
    n_phases = whole(given["n_phases"]) or 1
    phase_index = whole(given["phase_index"]) or 0
    if not 0 <= phase_index < n_phases:
        remedy = ""
        if columns.get("n_phases") is None:
            remedy = (
                "; no column says how many phases there are: give it by --map "
                "n_phases=COLUMN"
            )
        raise DatasetError(
            f"{where}: phase_index {phase_index} is none of {n_phases} phases{remedy}"
        )
    arm = given["arm"]
    return RawAnswer(
        where=where,
        line=line,
        file=path.name,
        question_id=question.question_id,
        benchmark=question.benchmark,
        text=None if index is not None or value is None else str(value),
        index=index,
        digits_are_index=True,
        arm=None if arm in (None, "") else str(arm),
        budget=whole(given["budget"]),
        displayed=question.options,
        order=_order(given["order"], where),
        logprobs=_numbers(given["logprobs"], where, "logprobs"),
        probabilities=_numbers(given["probabilities"], where, "probabilities"),
        phase=phase,
        phase_index=phase_index,
        n_phases=n_phases,
    )


def _phase(value: object, where: str) -> Fraction | None:
    if value in (None, ""):
        return None
    if isinstance(value, list) and len(value) == 2:
        value = f"{value[0]}/{value[1]}"
    try:
        phase = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        phase = Fraction(-1)
    if not 0 <= phase < 1:
        raise DatasetError(
            f"{where}: phase must be a fraction of a step such as 1/6, not {value!r}"
        )
    return phase


def _order(value: object, where: str) -> tuple[int, ...] | None:
    """Order of a pass: [2, 0, 1], or "CAB"; order[pos] = content."""
    if value in (None, ""):
        return None
    numbers = number_list(value)
    if numbers is None and isinstance(value, str) and value.isalpha():
        numbers = tuple(float(LETTERS.find(letter)) for letter in value.upper())
    order = () if numbers is None else tuple(whole(x) for x in numbers)
    known = sorted(k for k in order if k is not None)
    if not order or known != list(range(len(order))):
        raise DatasetError(
            f"{where}: order must hold every option once, as [2, 0, 1] or CAB, "
            f"not {value!r}"
        )
    return tuple(k for k in order if k is not None)


def _numbers(value: object, where: str, name: str) -> tuple[float, ...] | None:
    if value in (None, ""):
        return None
    found = number_list(value)
    if not found:
        raise DatasetError(f"{where}: {name} must be a list of numbers, not {value!r}")
    return found


# -- a column a run ---------------------------------------------------------


def read_wide(path: Path, settings: Settings) -> Reading:
    """Read a table of one column a run, letters in them, one row a question.

    A name such as ``16f`` gives the frames of the run; runs are ordered by it, not by
    text.

    Raises
    ------
    DatasetError
        If no column holds answers.
    """
    table = read_table(path)
    columns = _columns(path, settings.mapping, set(table.columns))
    used = {name for names in columns.values() for name in names}
    runs = [
        name
        for name in table.columns
        if name not in used
        and name not in LETTERS
        and is_run(name, [row.get(name, "") for _, row in table.rows])
    ]
    if not runs:
        raise DatasetError(
            f"{path}: no column holds the answers of a run: option letters, or texts "
            f"under a name such as 16f; {no_answers(table)}"
        )
    runs.sort(key=lambda name: (frames_of(name) is None, frames_of(name) or 0))
    questions = [
        _question(row, table.where(line), path, columns, settings)
        for line, row in table.rows
    ]
    answers = [
        RawAnswer(
            where=question.where,
            line=line,
            file=path.name,
            question_id=question.question_id,
            benchmark=question.benchmark,
            text=row.get(run),
            arm=run,
            budget=frames_of(run),
            displayed=question.options,
        )
        for run in runs
        for question, (line, row) in zip(questions, table.rows, strict=True)
    ]
    return Reading(tuple(questions), tuple(answers))


def is_choice(cells: list[str]) -> bool:
    """Whether a column holds option letters, or nothing, alone.

    >>> is_choice(["A", "", "(b)"]), is_choice(["A", "cat"]), is_choice([""])
    (True, False, False)
    """
    given = [cell.strip() for cell in cells if cell.strip()]
    return bool(given) and all(_CHOICE.fullmatch(cell) for cell in given)


def is_run(name: str, cells: list[str]) -> bool:
    """Whether a column holds the answers of a run: letters, or texts by frames.

    Numbers under such a name are no answers: they may be scores as well as indices.

    >>> is_run("16f", ["It is A", "B"]), is_run("said", ["A"]), is_run("16f", ["1"])
    (True, True, False)
    """
    given = [cell for cell in cells if cell.strip()]
    if is_choice(given):
        return True
    named = frames_of(name) is not None
    return named and any(number(cell) is None for cell in given)


def no_answers(table: Table) -> str:
    """Say what to do with a table in which no answers are found."""
    numeric = [
        name
        for name in table.columns
        if frames_of(name) is not None
        and any(number(row.get(name)) is not None for _, row in table.rows)
    ]
    if numeric:
        return (
            f"{', '.join(numeric[:6])} hold numbers, which can be scores: a run is "
            "made of answers. With one column a run (format wide) put the option "
            "letter that was answered into every cell"
        )
    return (
        "name the column that holds them (--map answer=COLUMN), or with one column a "
        f"run put option letters into it and read it as wide; it has "
        f"{', '.join(table.columns)}"
    )


def frames_of(name: str) -> int | None:
    """Frames that a run's name gives; None when it gives none.

    >>> frames_of("128f_151k"), frames_of("textonly"), frames_of("large")
    (128, 0, None)
    """
    match = _FRAMES.search(name)
    if match:
        return int(match[1])
    return 0 if _BLIND.search(name) else None


# -- a sweep of option orders -------------------------------------------------


def read_order_sweep(path: Path, settings: Settings) -> Reading:
    """Read a table with the options of a question shown in several orders in one row.

    For every order k it has ``<head>k_options`` and any of ``_response_proba``
    (numbers as shown), ``_response_idx`` and ``_response`` (text).

    Raises
    ------
    DatasetError
        Naming the row of which the options cannot be read.
    """
    table = read_table(path)
    heads = sweep_heads(table.columns)
    if not heads:
        raise DatasetError(f"{path}: has no columns such as pos_0_options")
    benchmark = settings.name(path.stem)
    named = [n for n in FIELDS["question_id"] if n in table.columns]
    questions, answers = [], []
    for i, (line, row) in enumerate(table.rows):
        where = table.where(line)
        question_id = row.get(settings.mapping.get("question_id", (*named, "")[0]), i)
        options = text_list(row.get("options", ""))
        gold = row.get("answer")
        question = RawQuestion(
            where=where,
            question_id=str(question_id),
            benchmark=benchmark,
            question=row.get("question"),
            options=options,
            gold=gold,
            gold_kind="text" if options and gold in options else "auto",
            type=row.get("type", row.get("source")),
        )
        questions.append(question)
        for head in heads:
            answers.append(_sweep_answer(row, head, where, line, path, question))
    return Reading(tuple(questions), tuple(answers))


def sweep_heads(columns: tuple[str, ...]) -> list[str]:
    """Heads of the columns of every order, by their numbers."""
    found = [m for m in map(_SWEEP.fullmatch, columns) if m]
    found.sort(key=lambda m: int(m["k"]))
    return [f"{m['head']}{m['k']}" for m in found]


def _sweep_answer(
    row: Mapping[str, str],
    head: str,
    where: str,
    line: int,
    path: Path,
    question: RawQuestion,
) -> RawAnswer:
    displayed = text_list(row.get(f"{head}_options", ""))
    if displayed is None:
        raise DatasetError(
            f"{where}: {head}_options must be a list of texts, not "
            f"{row.get(f'{head}_options')!r}"
        )
    index = whole(row.get(f"{head}_response_idx"))
    cell = row.get(f"{head}_response_proba")
    return RawAnswer(
        where=where,
        line=line,
        file=path.name,
        question_id=question.question_id,
        benchmark=question.benchmark,
        text=row.get(f"{head}_response"),
        index=index,
        displayed=displayed,
        probabilities=_numbers(cell, where, f"{head}_response_proba"),
        logprobs=_numbers(row.get(f"{head}_response_logprobs"), where, "logprobs"),
        extra={"sweep": head},
    )


__all__ = [
    "FIELDS",
    "frames_of",
    "is_choice",
    "is_run",
    "no_answers",
    "number",
    "read_csv",
    "read_order_sweep",
    "read_wide",
    "sweep_heads",
]
