"""Logs of evaluation harnesses: lmms-eval's samples, VLMEvalKit's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from phasefusion._sources.files import (
    Table,
    as_id,
    literal,
    number,
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
from phasefusion._sources.rows import (
    GOLDS,
    PREDICTIONS,
    dotted,
    first,
    options_of,
    strata_of,
    text_of,
    video_of,
)
from phasefusion.answers import LETTERS
from phasefusion.errors import DatasetError
from phasefusion.scoring.letters import strip_letters

_TASK = re.compile(r"(?P<stamp>.*?)_?samples_(?P<task>.+)\.jsonl")
#: Fields of a samples line that are no score.
_NO_SCORE = frozenset(
    "doc_id doc target arguments resps filtered_resps doc_hash prompt_hash target_hash "
    "input input_media token_counts filter".split()
)
_STRATA = ("duration", "domain", "sub_category", "task_type", "category", "split")
_TYPES = ("task_type", "question_type", "question_category", "type", "category")


def read_lmms_eval(path: Path, settings: Settings) -> Reading:
    """Read ``<stamp>_samples_<task>.jsonl`` and the results file beside it.

    Raises
    ------
    DatasetError
        Naming the line that is no sample.
    """
    match = _TASK.fullmatch(path.name)
    task = match["task"] if match else path.stem
    benchmark = settings.name(task)
    questions: list[RawQuestion] = []
    answers: list[RawAnswer] = []
    hashes: list[object] = []
    losses = 0
    for line, row in read_jsonl(path):
        where = f"{path}, line {line}"
        if "doc_id" not in row:
            raise DatasetError(f"{where}: has no doc_id; it is no lmms-eval sample")
        hashes.append(row.get("doc_hash"))
        question = _lmms_question(row, where, benchmark, settings)
        questions.append(question)
        for answer, is_loss in _lmms_answers(row, where, line, path, question):
            answers.append(answer)
            losses += is_loss
    notes = _hash_notes(hashes)
    if losses:
        notes.append(
            (
                "losses",
                "option scores are losses (all >= 0); their sign was changed",
                f"{losses} passes",
            )
        )
    results, more = _lmms_results(path, match["stamp"] if match else "", task)
    return Reading(tuple(questions), tuple(answers), (*notes, *more), results)


def _lmms_question(
    row: Mapping[str, Any], where: str, benchmark: str, settings: Settings
) -> RawQuestion:
    doc = row.get("doc") if isinstance(row.get("doc"), Mapping) else {}
    assert isinstance(doc, Mapping)
    shown = row.get("input")
    text: str | None = shown if isinstance(shown, str) else None
    options = options_of(doc)
    question = text_of(doc.get("question"))
    if options is None and text is not None:
        split, found = split_embedded(text)
        options, question = found or None, question or split
    name = settings.mapping.get("question_id")
    question_id = dotted(row, name) if name else row["doc_id"]
    gold = row.get("target")
    if gold in (None, "") or isinstance(gold, list | Mapping):
        gold = first(doc, GOLDS)
    kind = first(doc, _TYPES)
    return RawQuestion(
        where=where,
        question_id=as_id(question_id, where, name or "doc_id"),
        benchmark=benchmark,
        question=question,
        options=options,
        gold=gold,
        video_id=video_of(doc),
        type=None if kind is None else str(kind),
        strata=strata_of(doc, _STRATA),
    )


def _lmms_answers(
    row: Mapping[str, Any],
    where: str,
    line: int,
    path: Path,
    question: RawQuestion,
) -> Iterator[tuple[RawAnswer, bool]]:
    """Yield the passes of a line: one, or one a repeat."""
    raw, filtered = row.get("resps"), _flat(row.get("filtered_resps"))
    # What the model wrote goes first: a filter may draw an option by chance.
    if raw is None or not any(_flat(raw)):
        raw = row.get("filtered_resps", raw)
    harness = _lmms_scores(row)
    extra = {}
    if any(filtered) and filtered != _flat(raw):
        extra["filtered"] = filtered[:1]
    common: dict[str, Any] = {
        "where": where,
        "line": line,
        "file": path.name,
        "question_id": question.question_id,
        "benchmark": question.benchmark,
        "displayed": question.options,
        "harness": harness,
        "extra": extra,
    }
    scores = _loglikelihoods(raw)
    if scores is not None:
        n_options = len(question.options) if question.options else len(scores)
        is_loss = min(scores) >= 0 and max(scores) > 0
        if len(scores) != n_options or (min(scores) < 0 < max(scores)):
            yield RawAnswer(**common, text=f"scores {list(scores)}"), False
            return
        values = tuple(-x for x in scores) if is_loss else scores
        yield RawAnswer(**common, logprobs=values), is_loss
        return
    texts = _flat(raw)
    for i, text in enumerate(texts or [None]):
        arm = f"repeat {i + 1}" if len(texts) > 1 else None
        yield RawAnswer(**common, text=text, arm=arm), False


def _flat(value: object) -> list[str | None]:
    """Texts of a response, however deeply the version in use nests them."""
    if isinstance(value, list | tuple):
        return [text for part in value[:1000] for text in _flat(part)]
    return [text_of(value)]


def _loglikelihoods(value: object) -> tuple[float, ...] | None:
    """Scores by option, where the responses are (score, is greedy) pairs."""
    if not isinstance(value, list) or not value:
        return None
    found = []
    for part in value:
        while isinstance(part, list) and len(part) == 1:
            part = part[0]
        if isinstance(part, str) and re.match(r"\s*[(\[]\s*-?[\d.einf]+\s*,", part):
            part = literal(part)
        if not isinstance(part, list | tuple) or len(part) != 2:
            return None
        score = number(part[0]) if not isinstance(part[0], str) else None
        if score is None or not isinstance(part[1], bool):
            return None
        found.append(score)
    return tuple(found) if len(found) >= 2 else None


def _lmms_scores(row: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name, value in row.items():
        if name in _NO_SCORE:
            continue
        if isinstance(value, Mapping):
            said = first(value, ("pred_answer", "parsed_pred", "pred", "prediction"))
            gold = first(value, GOLDS)
            if "score" in value or "correct" in value:
                score = number(first(value, ("score", "correct")))
            elif said is not None and gold is not None:
                score = float(str(said).strip() == str(gold).strip())
            else:
                score = None
        else:
            score = float(value) if isinstance(value, bool) else number(value)
        if score is not None:
            found[str(name)] = score
    return found


def _hash_notes(hashes: Sequence[object]) -> list[tuple[str, str, str]]:
    if len(hashes) < 2 or len({str(one) for one in hashes}) > 1:
        return []
    if hashes[0] is None:
        return []
    return [
        (
            "doc_hash is constant",
            "doc_hash is constant: no doc was logged, so it identifies nothing; "
            "questions are told apart by task and doc_id",
            str(hashes[0])[:16],
        )
    ]


def _lmms_results(
    path: Path, stamp: str, task: str
) -> tuple[dict[str, float | None], list[tuple[str, str, str]]]:
    """Numbers of the results file with the same stamp; text such as "N/A" is None."""
    beside = path.with_name(f"{stamp}_results.json" if stamp else "results.json")
    if not beside.is_file():
        return {}, []
    try:
        value = read_json(beside).value
    except DatasetError as error:
        return {}, [("results file", f"not read: {error}", beside.name)]
    part = dotted(value, f"results.{task}") if isinstance(value, Mapping) else None
    if not isinstance(part, Mapping):
        return {}, []
    found = {
        str(name): number(one) if not isinstance(one, str) else None
        for name, one in part.items()
        if name != "alias"
    }
    total = dotted(value, f"n-samples.{task}.effective")
    if isinstance(total, int):
        found["n-samples"] = float(total)
    return found, []


# -- VLMEvalKit -----------------------------------------------------------

#: Kind, sentence and example; see `Reading`.
Note: TypeAlias = tuple[str, str, str]

_OFFSETS = tuple(10**k for k in range(6, 13))


def read_vlmevalkit(path: Path, settings: Settings) -> Reading:
    """Read a VLMEvalKit table: index, question, A.., answer, prediction.

    Circular copies, at index + r * 10^6 or with a g_index, become passes of their base
    question in another option order.

    Raises
    ------
    DatasetError
        If a column that is needed is not there, or a row has no index.
    """
    table = read_table(path)
    for name in ("index", "prediction"):
        if name not in table.columns:
            raise DatasetError(
                f"{path}: has no column {name!r}; the columns are "
                f"{', '.join(table.columns)}"
            )
    benchmark = settings.name(_vlm_dataset(path))
    rows = [(line, row, _vlm_index(table, line, row)) for line, row in table.rows]
    offset, note = _offset(path, rows, "g_index" in table.columns)
    questions, answers = [], []
    for line, row, index in rows:
        base, copy = _group(row, index, offset, table.where(line))
        question = _vlm_question(table, line, row, base, copy, benchmark)
        questions.append(question)
        answers.append(
            RawAnswer(
                where=table.where(line),
                line=line,
                file=path.name,
                question_id=question.question_id,
                benchmark=benchmark,
                text=row.get("prediction"),
                displayed=question.options,
                harness=_vlm_scores(row),
                extra={"index": str(index)} if copy else {},
            )
        )
    return Reading(tuple(questions), tuple(answers), note)


def _vlm_dataset(path: Path) -> str:
    """Dataset of ``<model>_<dataset>.xlsx``, as far as the name tells it."""
    stem = re.sub(r"_(?:[\w.-]+_result|score|openai_result)$", "", path.stem)
    return stem.split("_", 1)[1] if "_" in stem else stem


def _vlm_index(table: Table, line: int, row: Mapping[str, str]) -> int:
    index = whole(row.get("index"))
    if index is None:
        raise DatasetError(
            f"{table.where(line)}: index must be a whole number, not "
            f"{row.get('index')!r}"
        )
    return index


def _vlm_scores(row: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name in ("hit", "score"):
        value = number(row.get(name))
        if value is not None:
            found[name] = value
    return found


def _offset(
    path: Path, rows: Sequence[tuple[int, dict[str, str], int]], has_group: bool
) -> tuple[int | None, tuple[Note, ...]]:
    """Distance of circular copies in the index; None without copies.

    It is 10^6, and larger powers of ten for tables with large indices: the first under
    which the rows of every group ask one question with the same options, some group
    has several, and copies are numbered below the number of options. Rows may be
    missing, the first of a group too.

    Raises
    ------
    DatasetError
        If rows look like copies of each other and no distance fits.
    """
    large = [index for *_, index in rows if index >= _OFFSETS[0]]
    if has_group or not large:
        return None, ()
    for offset in _OFFSETS:
        if _fits(rows, offset):
            if offset == _OFFSETS[0]:
                return offset, ()
            text = f"circular copies are {offset} apart in the index, not 10^6"
            return offset, (("circular copies", text, str(offset)),)
    pair = _likely_copy(rows)
    if pair is not None:
        raise DatasetError(
            f"{path}: rows of index {pair[0]} and {pair[1]} ask one question with the "
            "same options, as circular copies do, but no distance of copies fits all "
            "rows; name the question of every row in a column g_index"
        )
    text = (
        "an index of 10^6 or more is that of a circular copy as a rule; none of these "
        "repeats a question, so each is one of its own"
    )
    return None, (("large index", text, str(large[0])),)


def _asked(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return what copies of a question have in common."""
    options = options_of(row)
    if options is None:
        options = text_list(row.get("candidates"))
    shown = sorted(" ".join(text.split()) for text in strip_letters(options or ())[0])
    return (" ".join(row.get("question", "").split()), video_of(row), *shown)


def _fits(rows: Sequence[tuple[int, dict[str, str], int]], offset: int) -> bool:
    groups: dict[int, tuple[str, ...]] = {}
    for _, row, index in rows:
        asked = _asked(row)
        n_options = len(asked) - 2
        if groups.setdefault(index % offset, asked) != asked:
            return False
        if not 0 <= index // offset < (n_options or len(LETTERS)):
            return False
    return len(groups) < len({index for *_, index in rows})


def _likely_copy(
    rows: Sequence[tuple[int, dict[str, str], int]],
) -> tuple[int, int] | None:
    """Two indices that are copies by their question, options and distance."""
    seen: dict[tuple[int, tuple[str, ...]], int] = {}
    for _, row, index in rows:
        old = seen.setdefault((index % _OFFSETS[0], _asked(row)), index)
        if old != index:
            return old, index
    return None


def _group(
    row: Mapping[str, str], index: int, offset: int | None, where: str
) -> tuple[int, int]:
    """Return base index and number of the copy."""
    if "g_index" in row:
        base = whole(row["g_index"])
        if base is None:
            raise DatasetError(f"{where}: g_index is {row['g_index']!r}")
        return base, 0 if base == index else 1
    if offset is None:
        return index, 0
    return index % offset, index // offset


def _vlm_question(
    table: Table,
    line: int,
    row: Mapping[str, str],
    base: int,
    copy: int,
    benchmark: str,
) -> RawQuestion:
    options = options_of(row)
    if options is None and "candidates" in row:
        options = text_list(row["candidates"])
    kind = first(row, _TYPES)
    return RawQuestion(
        where=table.where(line),
        question_id=str(base),
        benchmark=benchmark,
        question=row.get("question"),
        options=options,
        gold=first(row, GOLDS),
        video_id=video_of(row),
        type=kind,
        strata=strata_of(row, _STRATA),
        copy=copy,
    )


#: Columns by which a table is told to be of this form.
VLM_COLUMNS = frozenset({"index", "question", "prediction"})
__all__ = ["PREDICTIONS", "VLM_COLUMNS", "read_lmms_eval", "read_vlmevalkit"]
