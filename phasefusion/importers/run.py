"""Importing: files in, a run folder and a report out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from phasefusion._file_hash import file_sha256
from phasefusion._paths import path_of
from phasefusion._results import Result
from phasefusion._sources.files import TABLES, read_table
from phasefusion._sources.findings import Findings
from phasefusion._sources.model import (
    Question,
    RawAnswer,
    RawQuestion,
    Reading,
    Settings,
)
from phasefusion._sources.questions import (
    Key,
    gather,
    resolve,
    with_reference,
)
from phasefusion._versions import versions
from phasefusion.errors import DatasetError
from phasefusion.importers.checks import (
    add_findings,
    arm_counts,
    cannot,
    harness_scores,
    item_of,
)
from phasefusion.importers.detect import READERS, Detected, format_of
from phasefusion.importers.documents import (
    docs_path,
    ids_by_place,
    read_documents,
    under_ids,
)
from phasefusion.importers.golds import read_gold, with_gold
from phasefusion.importers.passes import (
    Made,
    check_golds,
    count_options,
    make_passes,
)
from phasefusion.importers.report import ImportReport
from phasefusion.importers.tables import no_answers
from phasefusion.records import RunWriter, pass_key
from phasefusion.records.files import IMPORTED


@dataclass(frozen=True, slots=True, repr=False)
class Imported(Result):
    """A run folder after `import_run`.

    Attributes
    ----------
    path : Path
        The run folder.
    report : ImportReport
    """

    path: Path
    report: ImportReport


@dataclass(frozen=True, slots=True, repr=False)
class QuestionSet(Result):
    """Questions of a file, checked.

    Attributes
    ----------
    questions : tuple of Question
        Those that can be scored, in file order.
    report : ImportReport
        With what was rejected, and why.
    """

    questions: tuple[Question, ...]
    report: ImportReport


def read_questions(
    path: str | Path,
    *,
    format: str = "auto",
    benchmark: str | None = None,
    version: str | None = None,
    mapping: Mapping[str, str] | None = None,
    lenient: bool = False,
) -> QuestionSet:
    """Read the questions of a foreign file and check options and gold.

    Parameters
    ----------
    path : str or Path
    format, benchmark, version, mapping, lenient
        As in `import_run`.

    Returns
    -------
    QuestionSet

    Raises
    ------
    DatasetError
        If the file cannot be read, or one id names several questions.
    FileNotFoundError
        If it is not there.
    """
    settings = Settings(benchmark, version, dict(mapping or {}), lenient=lenient)
    findings = Findings()
    path = path_of("path", path, "a file of questions")
    detected = format_of(path, format, settings)
    reading = READERS[detected.format][0](path, settings)
    _take_notes([reading], findings)
    resolved = _resolve(gather(reading.questions), settings, findings)
    made = ImportReport(
        format=str(detected),
        files=(_file(path, "questions"),),
        benchmarks=_benchmarks(resolved.values()),
        questions=len(resolved),
        passes=0,
        without_gold=sum(not one.gold for one in resolved.values()),
        arms=(),
        findings=findings.frozen(),
    )
    return QuestionSet(tuple(resolved.values()), made)


def import_run(
    files: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    format: str = "auto",
    gold: str | Path | None = None,
    questions: str | Path | None = None,
    mapping: Mapping[str, str] | None = None,
    benchmark: str | None = None,
    version: str | None = None,
    arms: Sequence[str] = (),
    n_options: int | None = None,
    lenient: bool = False,
    strict: bool = False,
) -> Imported:
    """Turn result files of other programs into a run that `report` reads.

    Answers are extracted by `phasefusion.answers.parse_answer`; those that are invalid,
    refused, unparsed or missing become missing passes with that reason and their text.
    Questions are joined by benchmark, version and id, which stay text.

    Parameters
    ----------
    files : path or sequence of path
        Result files of one format. Several become an arm each when they answer the same
        questions.
    out : str or Path
        The run folder; it must not hold a run of other settings.
    format : str, default "auto"
        One of `FORMATS`, or "auto" to tell it by the files.
    gold : path, optional
        File with the right answers, by id; it counts before what the results say.
    questions : path, optional
        File with the questions, of any format; their options are the content order.
        For a log of lmms-eval, which numbers its documents, also the ``docs.jsonl`` of
        the sidecar of that run, or a question file in the order that the task read.
    mapping : mapping of str to str, optional
        Field to column for tables, such as ``{"question_id": "video+qid"}``.
    benchmark, version : str, optional
        Name and version to record instead of those of the format.
    arms : sequence of str, optional
        Names of the runs, one a file; the file names by default.
    n_options : int, optional
        Options of every question, where no file shows them.
    lenient : bool, default False
        Read JSON with commas before closing brackets, and say so.
    strict : bool, default False
        Refuse probabilities that do not sum to 1 and truncated token lists.

    Returns
    -------
    Imported

    Raises
    ------
    DatasetError
        If a file cannot be read, ids collide, or nothing can be joined.
    RecordError
        If `out` holds another run, or cannot be written.
    FileNotFoundError
        If a file is not there.
    """
    paths, out = _paths(files, arms), path_of("out", out, "a run folder")
    gold = None if gold is None else path_of("gold", gold, "a file of answers")
    settings = Settings(
        benchmark, version, dict(mapping or {}), n_options, lenient, strict
    )
    findings = Findings()
    detected = [format_of(path, format, settings) for path in paths]
    readings = [
        READERS[one.format][0](path, settings)
        for path, one in zip(paths, detected, strict=True)
    ]
    readings = _with_sources(readings, detected)
    _take_notes(readings, findings)
    reference = None
    if questions is not None:
        questions = docs_path(path_of("questions", questions, "a file of questions"))
        readings, reference = _joined(readings, detected, questions, settings, findings)
    answers = _named_arms(paths, readings, arms)
    if not answers:
        raise DatasetError(
            f"{paths[0]}: holds questions but no predictions (taken for {detected[0]})"
            f"{_remedy(paths[0])}"
        )
    own = gather(raw for one in readings for raw in one.questions)
    raws = with_reference(own, reference, findings)
    if gold is not None:
        raws = with_gold(
            raws,
            read_gold(gold, settings),
            findings,
        )
    resolved = _resolve(raws, settings, findings)
    resolved = count_options(resolved, raws, answers, findings)
    if gold is None:
        rows = [raw for one in readings for raw in one.questions]
        resolved = check_golds(rows, resolved, findings)
    made = list(make_passes(answers, resolved, settings, findings))
    if not made:
        raise DatasetError(f"{paths[0]}: none of its answers belongs to a question")
    made = _in_order(made)
    add_findings(made, resolved, findings)
    result = ImportReport(
        format=_formats_text(detected),
        files=_files(paths, questions, gold),
        benchmarks=_benchmarks(resolved.values()),
        questions=len({item_of(one) for one in made}),
        passes=len(made),
        without_gold=len({item_of(one) for one in made if one.record["gold"] is None}),
        arms=arm_counts(made),
        findings=(),
        harness=harness_scores(made, findings),
        results={k: v for one in readings for k, v in one.results.items()},
        cannot=tuple(cannot([one.record for one in made])),
    )
    result = replace(result, findings=findings.frozen())
    with RunWriter(out, _description(result, made, settings)) as writer:
        writer.append(
            one.record for one in made if pass_key(one.record) not in writer.done
        )
    return Imported(out, result)


def _files(
    paths: Sequence[Path], questions: str | Path | None, gold: str | Path | None
) -> tuple[dict[str, str], ...]:
    """Describe what was read."""
    read: list[tuple[str | Path | None, str]] = [(path, "results") for path in paths]
    read += [(questions, "questions"), (gold, "gold")]
    return tuple(_file(path, role) for path, role in read if path is not None)


def _remedy(path: Path) -> str:
    """Say what to do with a table that holds no predictions."""
    if path.suffix.lower() not in (*TABLES, ".xlsx", ".xlsm"):
        return ""
    return f"; {no_answers(read_table(path))}"


def _paths(files: str | Path | Sequence[str | Path], arms: Sequence[str]) -> list[Path]:
    is_one = isinstance(files, str | Path) or not isinstance(files, Iterable)
    given: Any = [files] if is_one else files
    paths = [path_of("files", one, "a file of results") for one in given]
    if not paths:
        raise DatasetError("no file was given; there is nothing to import")
    if arms and len(arms) != len(paths):
        raise DatasetError(
            f"{len(arms)} names of runs were given for {len(paths)} files"
        )
    return paths


def _formats_text(detected: Sequence[Detected]) -> str:
    return ", ".join(dict.fromkeys(map(str, detected)))


def _with_sources(
    readings: Sequence[Reading], detected: Sequence[Detected]
) -> list[Reading]:
    """Let every answer say which file it is of, and of what form that is."""
    several = len(readings) > 1
    return [
        replace(
            reading,
            answers=tuple(
                replace(raw, format=one.format, file_index=i if several else None)
                for raw in reading.answers
            ),
        )
        for i, (reading, one) in enumerate(zip(readings, detected, strict=True))
    ]


def _take_notes(readings: Iterable[Reading], findings: Findings) -> None:
    for reading in readings:
        for kind, text, example in reading.notes:
            findings.add(kind, text, example)


def _named_arms(
    paths: Sequence[Path], readings: Sequence[Reading], arms: Sequence[str]
) -> list[RawAnswer]:
    """Answers of all files; files about the same questions are runs of their own."""
    ids = [{(a.benchmark, a.question_id) for a in one.answers} for one in readings]
    overlap = any(
        ids[i] & ids[j] for i in range(len(ids)) for j in range(i + 1, len(ids))
    )
    stems = _short_names(paths)
    found = []
    for i, reading in enumerate(readings):
        name = arms[i] if arms else stems[i] if overlap else None
        for raw in reading.answers:
            if name is None:
                found.append(raw)
            else:
                arm = name if raw.arm is None else f"{name} {raw.arm}"
                found.append(replace(raw, arm=arm))
    return found


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of paths that differ, without suffixes if they can.

    >>> _short_names([Path("/home/me/a/p.json"), Path("/home/me/b/p.json")])
    ['a/p', 'b/p']
    """
    whole = [path.resolve() for path in paths]
    for n_parts in range(1, max(len(path.parts) for path in whole) + 1):
        for ends in (
            [path.with_suffix("").parts[-n_parts:] for path in whole],
            [path.parts[-n_parts:] for path in whole],
        ):
            names = ["/".join(parts) for parts in ends]
            if len(set(names)) == len(names):
                return names
    return [path.stem for path in paths]  # one file twice


def _joined(
    readings: Sequence[Reading],
    detected: Sequence[Detected],
    path: Path,
    settings: Settings,
    findings: Findings,
) -> tuple[list[Reading], dict[Key, RawQuestion]]:
    """Read the questions; results that number their documents get the ids of these."""
    documents = read_documents(path, settings)
    if documents is not None:
        found = under_ids(readings, documents.ids, "the sidecar", findings)
        return found, gather(documents.questions)
    reader = READERS[format_of(path, "auto", settings).format][0]
    read = reader(path, replace(settings, mapping={}))
    names = {raw.benchmark for one in readings for raw in one.questions}
    own_names = {raw.benchmark for raw in read.questions}
    if settings.benchmark is None and len(names) == len(own_names) == 1:
        (name,) = names
        read = _renamed(read, name)
    _take_notes([read], findings)
    ids: dict[Key, str] = {}
    if all(one.format == "lmms-eval" for one in detected):
        ids = ids_by_place(readings, read.questions)
    found = under_ids(readings, ids, "the order of the question file", findings)
    return found, gather(read.questions)


def _renamed(reading: Reading, benchmark: str) -> Reading:
    """Questions under the benchmark of the results they belong to.

    Files of no benchmark's own form are named after the file, which says nothing.
    """
    return replace(
        reading,
        questions=tuple(replace(raw, benchmark=benchmark) for raw in reading.questions),
    )


def _resolve(
    raws: Mapping[Key, RawQuestion], settings: Settings, findings: Findings
) -> dict[Key, Question]:
    resolved = {key: resolve(raw, settings, findings) for key, raw in raws.items()}
    return {key: one for key, one in resolved.items() if one is not None}


def _benchmarks(questions: Iterable[Question]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.benchmark for one in questions))


def _file(path: str | Path, role: str) -> dict[str, str]:
    return {"path": str(path), "role": role, "sha256": file_sha256(path)}


def _in_order(made: Sequence[Made]) -> list[Made]:
    """Arms by their frames, then by the files; the given order of an item first."""
    arms: dict[str, int | None] = {}
    items: dict[Key, int] = {}
    for one in made:
        arms.setdefault(one.record["arm"], one.record["budget"])
        items.setdefault(item_of(one), len(items))
    names = sorted(
        arms, key=lambda name: (arms[name] is None, arms[name] or 0)
    )  # stable
    place = {name: i for i, name in enumerate(names)}

    def rank(one: Made) -> tuple[int, int, int, bool]:
        row = one.record
        shuffled = row["order"] != sorted(row["order"])
        return place[row["arm"]], items[item_of(one)], row["phase_index"], shuffled

    return sorted(made, key=rank)


def _description(
    report: ImportReport, made: Sequence[Made], settings: Settings
) -> dict[str, Any]:
    """Describe the run for run.json."""
    several = any(one.record["order"] != sorted(one.record["order"]) for one in made)
    return {
        "settings": {
            "protocol": IMPORTED,
            "format": report.format,
            "orders": {"kind": "recorded" if several else "identity"},
            "seed": 0,
            "strict": settings.strict,
            "benchmarks": list(report.benchmarks),
            "mapping": dict(settings.mapping),
            "arms": [],
            "runs": [one.name for one in report.arms],
            "sources_sha256": [one["sha256"] for one in report.files],
            "scorer": {"class": "imported answers"},
        },
        "versions": versions(),
        "questions": {"file": None, "n": report.questions},
        "import": report.to_dict(),
        "command": list(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
