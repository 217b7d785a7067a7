"""Right answers of a file of any form, and questions that take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from phasefusion._sources.files import read_json
from phasefusion._sources.findings import Findings
from phasefusion._sources.golds import Golds, golden
from phasefusion._sources.model import RawQuestion, Settings
from phasefusion._sources.questions import LEFT_OUT, Key, some
from phasefusion._sources.rows import GOLDS, first
from phasefusion.errors import DatasetError
from phasefusion.importers.detect import READERS, format_of


def with_gold(
    questions: Mapping[Key, RawQuestion], golds: Golds, findings: Findings
) -> dict[Key, RawQuestion]:
    """Take the gold from a file of its own.

    Raises
    ------
    DatasetError
        If no id is in both, the file does not say which of several benchmarks it is
        about, or has another question under an id.
    """
    benchmarks = {benchmark for benchmark, _ in questions}
    by_name = any(name in benchmarks for name, _ in golds.keys)
    found = {}
    for key, raw in questions.items():
        gold = golds.take(*key, by_name=by_name)
        if gold is None:
            findings.add("id without gold", "the gold file does not have it", key[1])
            found[key] = raw
            continue
        found[key], problem = golden(raw, gold)
        if problem is not None:
            findings.add(problem.kind, LEFT_OUT, f"{key[1]}: {problem.reason}")
    if questions and not golds.taken:
        names = ", ".join(name for _, name in golds.keys[:3])
        raise DatasetError(
            f"no id of the results is in the gold file: results have "
            f"{some(questions)}, gold has {names}"
        )
    golds.check(benchmarks)
    for key in golds.keys:
        if key not in golds.taken:
            findings.add("gold without answer", "the results do not have it", key[1])
    return found


def read_gold(path: Path, settings: Settings) -> Golds:
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
            return Golds(str(path), _by_id(f"{path}, ", value))
    plain = replace(settings, mapping={})
    reading = READERS[format_of(path, "auto", plain).format][0](path, plain)
    given = [raw for raw in reading.questions if raw.gold not in (None, "")]
    if given or all(one.index is None and one.text is None for one in reading.answers):
        return Golds(str(path), given)
    return Golds(
        str(path),
        (
            RawQuestion(
                one.where,
                one.question_id,
                one.benchmark,
                options=one.displayed,
                gold=one.text if one.index is None else one.index,
            )
            for one in reading.answers
        ),
    )


def _by_id(where: str, value: Mapping[str, Any]) -> Iterable[RawQuestion]:
    for name, one in value.items():
        given = first(one, GOLDS) if isinstance(one, Mapping) else one
        yield RawQuestion(f"{where}{name!r}", str(name), "", gold=given)
