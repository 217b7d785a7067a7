"""Importing: files in, a run folder and a report out."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from phasefusion.answers import OUTCOMES
from phasefusion.errors import DatasetError
from phasefusion.evaluate import versions
from phasefusion.importers.detect import FORMATS, READERS, Detected, detect_format
from phasefusion.importers.files import read_json
from phasefusion.importers.model import (
    Question,
    RawAnswer,
    RawQuestion,
    Reading,
    Settings,
)
from phasefusion.importers.passes import (
    Made,
    check_golds,
    count_options,
    make_passes,
)
from phasefusion.importers.questions import (
    Key,
    gather,
    resolve,
    with_gold,
    with_reference,
)
from phasefusion.importers.report import ArmCounts, Findings, ImportReport
from phasefusion.importers.rows import GOLDS, first
from phasefusion.records import RunWriter

#: What `protocol` is in the run.json of an imported run.
PROTOCOL = "imported"


@dataclass(frozen=True, slots=True)
class Imported:
    """A run folder after `import_run`.

    Attributes
    ----------
    path : Path
        The run folder.
    report : ImportReport
    """

    path: Path
    report: ImportReport


@dataclass(frozen=True, slots=True)
class QuestionSet:
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
    path = Path(path)
    detected = _format(path, format, settings)
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
    paths = _paths(files, arms)
    settings = Settings(
        benchmark, version, dict(mapping or {}), n_options, lenient, strict
    )
    findings = Findings()
    detected = [_format(path, format, settings) for path in paths]
    readings = [
        READERS[one.format][0](path, settings)
        for path, one in zip(paths, detected, strict=True)
    ]
    _take_notes(readings, findings)
    answers = _named_arms(paths, readings, arms)
    if not answers:
        raise DatasetError(
            f"{paths[0]}: holds questions but no predictions (taken for {detected[0]})"
        )
    raws = _raw_questions(readings, questions, gold, settings, findings)
    resolved = _resolve(raws, settings, findings)
    resolved = count_options(resolved, raws, answers, findings)
    if gold is None:
        rows = [raw for one in readings for raw in one.questions]
        resolved = check_golds(rows, resolved, findings)
    made = list(make_passes(answers, resolved, settings, findings))
    if not made:
        raise DatasetError(f"{paths[0]}: none of its answers belongs to a question")
    for one, raw in zip(made, made, strict=True):
        one.record["source"]["format"] = _format_of(raw, paths, detected)
    made = _in_order(made)
    _more_findings(made, resolved, findings)
    result = ImportReport(
        format=_formats_text(detected),
        files=tuple(
            _file(path, role)
            for path, role in (
                *((path, "results") for path in paths),
                (questions, "questions"),
                (gold, "gold"),
            )
            if path is not None
        ),
        benchmarks=_benchmarks(resolved.values()),
        questions=len({_key(one) for one in made}),
        passes=len(made),
        without_gold=len({_key(one) for one in made if one.record["gold"] is None}),
        arms=_arms(made),
        findings=(),
        harness=_harness(made, findings),
        results={k: v for one in readings for k, v in one.results.items()},
        cannot=tuple(cannot([one.record for one in made])),
    )
    result = replace(result, findings=findings.frozen())
    with RunWriter(out, _description(result, made, settings)) as writer:
        if not writer.done:
            writer.append(one.record for one in made)
    return Imported(Path(out), result)


def _paths(files: str | Path | Sequence[str | Path], arms: Sequence[str]) -> list[Path]:
    given = [files] if isinstance(files, str | Path) else list(files)
    paths = [Path(one) for one in given]
    if not paths:
        raise DatasetError("no file was given; there is nothing to import")
    if arms and len(arms) != len(paths):
        raise DatasetError(
            f"{len(arms)} names of runs were given for {len(paths)} files"
        )
    return paths


def _format(path: Path, format: str, settings: Settings) -> Detected:
    if format == "auto":
        return detect_format(path, lenient=settings.lenient)
    if format not in READERS:
        raise DatasetError(
            f"format {format!r} is not known; the formats are auto, {', '.join(FORMATS)}"
        )
    return Detected(format, "as given")


def _formats_text(detected: Sequence[Detected]) -> str:
    return ", ".join(dict.fromkeys(map(str, detected)))


def _format_of(made: Made, paths: Sequence[Path], detected: Sequence[Detected]) -> str:
    name = made.record["source"]["file"]
    return next(
        one.format for path, one in zip(paths, detected, strict=True) if path.name == name
    )


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
    stems = [path.stem for path in paths]
    if len(set(stems)) < len(stems):
        stems = [str(path.with_suffix("")) for path in paths]
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


def _raw_questions(
    readings: Sequence[Reading],
    questions: str | Path | None,
    gold: str | Path | None,
    settings: Settings,
    findings: Findings,
) -> dict[Key, RawQuestion]:
    own = gather(raw for one in readings for raw in one.questions)
    reference = None
    if questions is not None:
        path = Path(questions)
        reader = READERS[_format(path, "auto", settings).format][0]
        read = reader(path, replace(settings, mapping={}))
        names = {key[0] for key in own}
        if settings.benchmark is None and len(names) == 1:
            (name,) = names
            read = _renamed(read, name)
        reference = gather(read.questions)
        _take_notes([read], findings)
    found = with_reference(own, reference, findings)
    if gold is not None:
        found = with_gold(found, read_gold(Path(gold), settings), findings)
    return found


def _renamed(reading: Reading, benchmark: str) -> Reading:
    """Questions under the benchmark of the results they belong to.

    Files of no benchmark's own form are named after the file, which says nothing.
    """
    return replace(
        reading,
        questions=tuple(replace(raw, benchmark=benchmark) for raw in reading.questions),
    )


def read_gold(path: Path, settings: Settings) -> dict[str, RawQuestion]:
    """Read right answers by id: an object, a two-column table, or a question file.

    Raises
    ------
    DatasetError
        If an id occurs with two right answers, or there is none.
    """
    if path.suffix.lower() == ".json":
        value = read_json(path, lenient=settings.lenient).value
        if isinstance(value, Mapping) and all(
            not isinstance(one, list) for one in value.values()
        ):
            found = {}
            for name, one in value.items():
                given = first(one, GOLDS) if isinstance(one, Mapping) else one
                found[str(name)] = RawQuestion(
                    f"{path}, {name!r}", str(name), "", gold=given
                )
            return found
    plain = replace(settings, mapping={})
    reading = READERS[_format(path, "auto", plain).format][0](path, plain)
    golds: dict[str, RawQuestion] = {}
    for raw in reading.questions:
        if raw.gold in (None, ""):
            continue
        old = golds.setdefault(raw.question_id, raw)
        if old.gold != raw.gold:
            raise DatasetError(
                f"{raw.where}: the gold of {raw.question_id!r} is {raw.gold!r}, at "
                f"{old.where} it is {old.gold!r}"
            )
    for answer in reading.answers:
        if not golds and (answer.index is not None or answer.text is not None):
            break
    else:
        return golds
    return {
        one.question_id: RawQuestion(
            one.where,
            one.question_id,
            "",
            gold=one.text if one.index is None else one.index,
        )
        for one in reading.answers
    }


def _resolve(
    raws: Mapping[Key, RawQuestion], settings: Settings, findings: Findings
) -> dict[Key, Question]:
    resolved = {key: resolve(raw, settings, findings) for key, raw in raws.items()}
    return {key: one for key, one in resolved.items() if one is not None}


def _benchmarks(questions: Iterable[Question]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.benchmark for one in questions))


def _file(path: str | Path, role: str) -> dict[str, str]:
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return {"path": str(path), "role": role, "sha256": digest}


def _key(made: Made) -> Key:
    return made.record["benchmark"], made.record["question_id"]


def _in_order(made: Sequence[Made]) -> list[Made]:
    """Arms by their frames, then by the files; the given order of an item first."""
    arms: dict[str, int | None] = {}
    items: dict[Key, int] = {}
    for one in made:
        arms.setdefault(one.record["arm"], one.record["budget"])
        items.setdefault(_key(one), len(items))
    names = sorted(
        arms, key=lambda name: (arms[name] is None, arms[name] or 0)
    )  # stable
    place = {name: i for i, name in enumerate(names)}

    def rank(one: Made) -> tuple[int, int, bool]:
        order = one.record["order"]
        shuffled = order != sorted(order)
        return place[one.record["arm"]], items[_key(one)], shuffled

    return sorted(made, key=rank)


def _arms(made: Sequence[Made]) -> tuple[ArmCounts, ...]:
    groups: dict[str, list[Made]] = {}
    for one in made:
        groups.setdefault(one.record["arm"], []).append(one)
    found = []
    for name, passes in groups.items():
        letters: dict[str, int] = {}
        for one in passes:
            if one.letter is not None:
                letters[one.letter] = letters.get(one.letter, 0) + 1
        golds = [one for one in passes if one.record["gold"] is not None]
        found.append(
            ArmCounts(
                name=name,
                budget=passes[0].record["budget"],
                passes=len(passes),
                outcomes={
                    outcome: sum(one.parsed.outcome == outcome for one in passes)
                    for outcome in OUTCOMES
                },
                letters=dict(sorted(letters.items())),
                right=sum(o.record["answer"] == o.record["gold"] for o in golds),
                with_gold=len(golds),
            )
        )
    return tuple(found)


def _harness(made: Sequence[Made], findings: Findings) -> dict[str, dict[str, float]]:
    """Means of the harness's own scores, and where they differ from those here."""
    found: dict[str, dict[str, float]] = {}
    for one in made:
        gold = one.record["gold"]
        for name, value in one.record.get("harness", {}).items():
            score = found.setdefault(name, {"n": 0, "sum": 0.0, "differs": 0})
            score["n"] += 1
            score["sum"] += value
            right = gold is not None and one.record["answer"] == gold
            if gold is not None and value in (0.0, 1.0) and right != bool(value):
                score["differs"] += 1
                findings.add(
                    "harness score differs",
                    "the harness counted the answer otherwise than its text is read "
                    "here; both are kept",
                    f"{one.record['question_id']}: {name} {value:g}, "
                    f"{one.parsed.outcome} {one.letter or '-'}",
                )
    return {
        name: {
            "n": score["n"],
            "mean": score["sum"] / score["n"],
            "differs": score["differs"],
        }
        for name, score in found.items()
    }


def _more_findings(
    made: Sequence[Made], questions: Mapping[Key, Question], findings: Findings
) -> None:
    """What only all passes together show: identical runs, answers that are none."""
    for one in made:
        if one.parsed.answer is None:
            findings.add(
                f"answer {one.parsed.outcome}",
                "recorded as missing with its text; never drawn by chance",
                f"{one.record['question_id']}: {one.parsed.reason}",
            )
        if one.record["gold"] is None and "gold missing" not in findings:
            n = len({_key(o) for o in made if o.record["gold"] is None})
            left = [k for k in questions.values() if not k.gold]
            text = "without the right answer there is no accuracy"
            findings.add("gold missing", text, left[0].question_id if left else "", n)
    for a, b, n in identical_runs([one.record for one in made]):
        findings.add(
            "identical runs",
            "identical answers on all items - same evidence? Two such runs are not two "
            "independent draws",
            f"{a} and {b}: all {n} items",
        )
    shown = {raw.video_id for raw in questions.values() if raw.video_id}
    if not shown:
        findings.add(
            "video unknown",
            "the files do not name the videos, so standard errors cannot be clustered "
            "by video",
        )


def identical_runs(
    records: Iterable[Mapping[str, Any]],
) -> list[tuple[str, str, int]]:
    """Pairs of arms that answer every common pass alike, with the number of items.

    Parameters
    ----------
    records : iterable of mapping
        Passes.

    Returns
    -------
    list of (str, str, int)
        Arms that have at least two passes in common and differ in none.
    """
    arms: dict[str, dict[tuple[Any, ...], Any]] = {}
    for row in records:
        key = (
            row["benchmark"],
            row["question_id"],
            row["phase_index"],
            tuple(row["order"]),
        )
        answer = (row["answer"], row["text"] if row["answer"] is None else None)
        arms.setdefault(row["arm"], {})[key] = answer
    found = []
    names = list(arms)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            common = arms[a].keys() & arms[b].keys()
            if len(common) >= 2 and all(arms[a][k] == arms[b][k] for k in common):
                found.append((a, b, len({key[:2] for key in common})))
    return found


def cannot(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which statistics passes cannot give, and why.

    Parameters
    ----------
    records : sequence of mapping
        Passes of one run.

    Returns
    -------
    list of str
        One sentence a statistic; empty when all can be computed.
    """
    found = []
    arms = {row["arm"]: row["budget"] for row in records}
    if all(row["n_phases"] == 1 for row in records):
        budgets = {budget for budget in arms.values() if budget is not None}
        why = "no pass says on which phase of the frame grid it was made"
        if len(budgets) > 1:
            why += "; the runs differ in their number of frames, which is no phase"
        found.append(f"phase flips and phase fusion: {why}")
    if all(row["logprobs"] is None for row in records):
        found.append(
            "posteriors, margins and fusion: there are answers alone, no distribution "
            "over the options"
        )
    orders: dict[tuple[Any, ...], set[tuple[int, ...]]] = {}
    for row in records:
        key = (row["benchmark"], row["question_id"], row["arm"])
        orders.setdefault(key, set()).add(tuple(row["order"]))
    if all(len(one) == 1 for one in orders.values()):
        found.append("order flips: every question was asked in one option order")
    if len(arms) == 1:
        found.append("differences between runs: there is one run")
    return found


def _description(
    report: ImportReport, made: Sequence[Made], settings: Settings
) -> dict[str, Any]:
    """Describe the run for run.json."""
    several = any(one.record["order"] != sorted(one.record["order"]) for one in made)
    return {
        "settings": {
            "protocol": PROTOCOL,
            "format": report.format,
            "orders": {"kind": "recorded" if several else "identity"},
            "seed": 0,
            "strict": settings.strict,
            "sources_sha256": [one["sha256"] for one in report.files],
            "scorer": {"class": "imported answers"},
        },
        "versions": versions(),
        "questions": {"file": None, "n": report.questions},
        "import": report.to_dict(),
        "command": list(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
