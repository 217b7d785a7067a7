"""Pass records of foreign answers: parsed, ordered, with their distributions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from phasefusion._sources.files import whole
from phasefusion._sources.findings import Findings
from phasefusion._sources.model import Question, RawAnswer, RawQuestion, Settings
from phasefusion._sources.options import order_of, resolve_gold
from phasefusion._sources.questions import Key
from phasefusion.answers import LETTERS, ParsedAnswer, normal, parse_answer
from phasefusion.errors import DatasetError, OptionError
from phasefusion.importers.distributions import Distribution, best_of, distribution
from phasefusion.scoring.letters import strip_letters

#: Names of arms that mean something to the report.
_OWN_ARMS = ("phase", "fusion", "vote", "union", "dense")
_MAX_ALTERNATIVES = 5040

#: Runs and copies show the same options in the same few orders.
_order_of = lru_cache(maxsize=2**14)(order_of)

PassId = tuple[str, str, str, int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Made:
    """A pass record, and what is counted of it.

    Attributes
    ----------
    record : dict
        As it is written.
    parsed : ParsedAnswer
    letter : str or None
        The letter that was answered, as shown.
    maxima : tuple of int
        Content of the greatest probabilities; empty without a distribution.
    """

    record: dict[str, Any]
    parsed: ParsedAnswer
    letter: str | None
    maxima: tuple[int, ...] = ()


def count_options(
    questions: Mapping[Key, Question],
    raws: Mapping[Key, RawQuestion],
    answers: Sequence[RawAnswer],
    findings: Findings,
) -> dict[Key, Question]:
    """Fill in unknown numbers of options: the last letter in use."""
    unknown = {key for key, one in questions.items() if one.n_options == 0}
    if not unknown:
        return dict(questions)
    most: Counter[str] = Counter()
    for raw in answers:
        if (raw.benchmark, raw.question_id) in unknown:
            said = position_of(raw, None)
            if said is None:
                said = parse_answer(raw.text, len(LETTERS)).answer
            lists = (raw.logprobs, raw.probabilities, raw.order, raw.displayed)
            n = max(map(len, filter(None, lists)), default=0)
            most[raw.benchmark] = max(most[raw.benchmark], n, (said or 0) + 1)
    for key in unknown:
        for k in questions[key].gold:
            most[key[0]] = max(most[key[0]], k + 1)
    found = dict(questions)
    for key in unknown:
        n_options = min(max(most[key[0]], 2), len(LETTERS))
        gold = resolve_gold(raws[key].gold, None, n_options, raws[key].gold_kind)
        found[key] = replace(
            questions[key],
            n_options=n_options,
            gold=gold.indices,
            same_options=tuple(range(n_options)),
        )
    for benchmark, n in most.items():
        n = min(max(n, 2), len(LETTERS))
        text = (
            "the files do not show the options; their number was taken from the last "
            "letter in use (give it: --n-options)"
        )
        findings.add("number of options", text, f"{benchmark}: {n}", len(unknown))
    return found


def check_golds(
    rows: Sequence[RawQuestion], questions: Mapping[Key, Question], findings: Findings
) -> dict[Key, Question]:
    """Leave the gold out where rows of a question disagree about it."""
    found = dict(questions)
    for raw in rows:
        key = (raw.benchmark, raw.question_id)
        question = found.get(key)
        if question is None or raw.gold in (None, "") or not question.gold:
            continue
        options = None if raw.options is None else strip_letters(raw.options)[0]
        gold = resolve_gold(raw.gold, options, question.n_options, raw.gold_kind)
        order = order_in(options, None, question, raw.where)
        content = {question.same_options[order[k]] for k in gold.indices}
        wanted = {question.same_options[k] for k in question.gold}
        if not content or content == wanted:
            continue
        findings.add(
            "gold differs",
            "files or copies of a question disagree about the right option; left out "
            "of every rate that needs it",
            f"{raw.question_id}: {_letters(wanted)} and {_letters(content)} "
            f"({raw.where})",
        )
        found[key] = replace(question, gold=())
    return found


def _letters(indices: set[int]) -> str:
    return "/".join(LETTERS[k] for k in sorted(indices))


def order_in(
    displayed: Sequence[str] | None,
    stated: Sequence[int] | None,
    question: Question,
    where: str,
) -> tuple[int, ...]:
    """Order in which the options of a pass were shown.

    Raises
    ------
    DatasetError
        If the options shown are not those of the question.
    """
    n_options = question.n_options
    if stated is not None:
        if len(stated) != n_options:
            raise DatasetError(
                f"{where}: order has {len(stated)} places, question "
                f"{question.question_id!r} has {n_options} options"
            )
        return tuple(stated)
    if displayed is None or question.options is None:
        return tuple(range(n_options))
    try:
        return _order_of(tuple(displayed), question.options)
    except OptionError as error:
        raise DatasetError(
            f"{where}: question {question.question_id!r}: {error}"
        ) from None


def make_passes(
    answers: Sequence[RawAnswer],
    questions: Mapping[Key, Question],
    settings: Settings,
    findings: Findings,
) -> Iterator[Made]:
    """Turn answers into pass records, leaving out what belongs to no usable question.

    Raises
    ------
    DatasetError
        If two answers of one pass differ, or as the parts say.
    """
    drafts = list(_drafts(answers, questions, settings, findings))
    wanted = [(i, draft.found) for i, draft in enumerate(drafts) if draft.found]
    wanted = [(i, found) for i, found in wanted if drafts[i].is_replaced]
    content = [in_content(found, drafts[i].order) for i, found in wanted]
    names = [drafts[i].raw.question_id for i, _ in wanted]
    best = dict(zip((i for i, _ in wanted), best_of(content, names), strict=True))
    taken: dict[PassId, tuple[RawAnswer, Made]] = {}
    for i, draft in enumerate(drafts):
        raw, question, order = draft.raw, draft.question, draft.order
        key = (raw.benchmark, raw.question_id, draft.arm, raw.phase_index, order)
        made = _make(draft, best.get(i))
        if key in taken:
            other, before = taken[key]
            free = _free_order(key, taken, question)
            if raw.extra.get("sweep") and free is not None:
                findings.add(
                    "repeated prompt",
                    "orders that only swap options of equal text are one prompt, no "
                    "new draw",
                    raw.question_id,
                )
                key = (*key[:4], free)
                draft = _draft(raw, question, free, settings, Findings())
                made = _make(draft, best.get(i))
            else:
                _check_same(raw, other, made, before, findings)
                continue
        taken[key] = (raw, made)
        yield made


@dataclass(frozen=True, slots=True)
class _Draft:
    """A pass before the answers of distributions are known."""

    raw: RawAnswer
    question: Question
    order: tuple[int, ...]
    arm: str
    parsed: ParsedAnswer
    found: Distribution | None
    is_replaced: bool


def _drafts(
    answers: Sequence[RawAnswer],
    questions: Mapping[Key, Question],
    settings: Settings,
    findings: Findings,
) -> Iterator[_Draft]:
    for raw in answers:
        question = questions.get((raw.benchmark, raw.question_id))
        if question is None:
            findings.add(
                "answer left out",
                "its question is unusable or unknown",
                raw.question_id,
            )
            continue
        shown = None if raw.displayed is None else strip_letters(raw.displayed)[0]
        order = order_in(shown, raw.order, question, raw.where)
        yield _draft(raw, question, order, settings, findings)


def _draft(
    raw: RawAnswer,
    question: Question,
    order: tuple[int, ...],
    settings: Settings,
    findings: Findings,
) -> _Draft:
    arm = _arm(raw)
    parsed = _parse(raw, question, order)
    found = distribution(raw, question, order, findings, settings.strict)
    is_replaced = False
    if found is not None:
        _check_stated(raw, parsed, found, findings)
        is_replaced = _replaces(raw, parsed, found)
    return _Draft(raw, question, order, arm, parsed, found, is_replaced)


def _arm(raw: RawAnswer) -> str:
    """Name of the arm; names that mean phases need phases."""
    if raw.arm is None:
        return "phase" if raw.n_phases > 1 else "single"
    own = raw.arm in _OWN_ARMS or raw.arm.startswith("phase ")
    if own and raw.phase is None:
        raise DatasetError(
            f"{raw.where}: {raw.arm!r} is the name of an arm on a known grid, but the "
            "file does not say the phase; map the column that does (--map "
            "phase=COLUMN), or name the run otherwise"
        )
    return raw.arm


def _check_same(
    raw: RawAnswer, other: RawAnswer, made: Made, before: Made, findings: Findings
) -> None:
    """Drop an answer that is there already; refuse one that contradicts it."""
    names = ("answer", "text", "logprobs")
    if any(made.record[name] != before.record[name] for name in names):
        raise DatasetError(
            f"{raw.where}: question {raw.question_id!r} has another answer at "
            f"{other.where}, in the same run and option order; name the run or the id "
            "by the columns that tell them apart (--map arm=COLUMN, "
            "--map question_id=COLUMN+COLUMN)"
        )
    findings.add(
        "duplicate id", "the same answer occurs again; counted once", raw.question_id
    )


def _free_order(
    key: PassId, taken: Mapping[PassId, object], question: Question
) -> tuple[int, ...] | None:
    """Another order that shows the same texts and is not taken."""
    order = key[4]
    same = question.same_options
    groups = [[k for k in range(len(order)) if same[k] == j] for j in sorted(set(same))]
    every = itertools.product(*(itertools.permutations(group) for group in groups))
    for permuted in itertools.islice(every, _MAX_ALTERNATIVES):
        renamed = {
            old: new
            for group, images in zip(groups, permuted, strict=True)
            for old, new in zip(group, images, strict=True)
        }
        other = tuple(renamed[k] for k in order)
        if (*key[:4], other) not in taken:
            return other
    return None


def _make(draft: _Draft, best: int | None) -> Made:
    """Make the record of a pass; `best` is the answer of its distribution."""
    raw, question, order = draft.raw, draft.question, draft.order
    parsed, found = draft.parsed, draft.found
    same = question.same_options
    answer = None if parsed.answer is None else same[order[parsed.answer]]
    letter = None if parsed.answer is None else LETTERS[parsed.answer]
    path = "generate"
    maxima = () if found is None else tuple(order[k] for k in found.maxima)
    if draft.is_replaced and best is not None:
        path, answer = "logit", best
        # The position of the first equal option, as the letter that was credited.
        letter = LETTERS[order.index(answer)]
        parsed = ParsedAnswer(order.index(answer), "parsed", "logprobs")
    record = _fields(raw, question, draft.arm) | {
        "order": list(order),
        "logprobs": None if found is None else list(found.logprobs),
        "answer": answer,
        "path": path,
        "text": raw.text,
        "option_mass": None if found is None else found.option_mass,
        "seconds": None,
        "invalid": None if answer is not None else f"{parsed.outcome}: {parsed.reason}",
        "outcome": parsed.outcome,
        "rule": parsed.rule,
        "source": {"format": raw.format, "file": raw.file, "line": raw.line},
    }
    if raw.file_index is not None:
        record["source"]["file_index"] = raw.file_index
    if question.group is not None and question.options is not None:
        text = None if answer is None else normal(question.options[answer])
        record["choice"] = text
    if found is not None:
        record["distribution"] = found.kind
        if found.kind == "verbalised":
            record["maxima"] = list(maxima)
    return Made(record, parsed, letter, maxima)


def _fields(raw: RawAnswer, question: Question, arm: str) -> dict[str, Any]:
    gold = question.gold
    found: dict[str, Any] = {
        "question_id": question.question_id,
        "benchmark": question.benchmark,
        "video_id": question.video_id or None,
        "type": question.type,
        "n_options": question.n_options,
        "gold": question.same_options[gold[0]] if gold else None,
        "arm": arm,
        "shifted": False,
        "budget": raw.budget,
        "n_phases": raw.n_phases,
        "phase": None if raw.phase is None else list(raw.phase.as_integer_ratio()),
        "phase_index": raw.phase_index,
        "n_frames": None,
        "duration_s": question.duration_s,
        "frame_indices": None,
        "frame_times_s": None,
    }
    if len(set(question.same_options)) < question.n_options:
        found["same_options"] = list(question.same_options)
    if len(gold) > 1:
        found["gold_set"] = list(gold)
    if question.strata:
        found["strata"] = dict(question.strata)
    if question.group is not None:
        found["group"] = question.group
    if raw.harness:
        found["harness"] = dict(raw.harness)
    return found | dict(raw.extra)


def position_of(raw: RawAnswer, shown: Sequence[str] | None) -> int | None:
    """Position that an answer states as a number; None where it states none.

    Digits as a text are one in predictions, unless they are the text of an option.
    """
    if raw.index is not None or raw.text is None or not raw.digits_are_index:
        return raw.index
    said = raw.text.strip()
    if not (said.isascii() and said.isdigit()):
        return None
    return None if said in map(normal, shown or ()) else whole(said)


def _parse(raw: RawAnswer, question: Question, order: Sequence[int]) -> ParsedAnswer:
    shown = (
        None if question.options is None else tuple(question.options[k] for k in order)
    )
    index = position_of(raw, shown)
    if raw.failed and raw.text is None and index is None:
        return ParsedAnswer(None, "missing", reason=raw.failed)
    if index is None:
        return parse_answer(raw.text, question.n_options if shown is None else shown)
    if not 0 <= index < question.n_options:
        reason = f"index {index} is not one of 0..{question.n_options - 1}"
        return ParsedAnswer(None, "invalid", reason=reason)
    if raw.index is not None and raw.text is not None and shown is not None:
        if normal(raw.text) != normal(shown[index]):
            reason = f"index {index} is not the option of the text {raw.text!r}"
            return ParsedAnswer(None, "unparsed", reason=reason)
    return ParsedAnswer(index, "parsed", "index")


def _replaces(raw: RawAnswer, parsed: ParsedAnswer, found: Distribution) -> bool:
    """Whether the answer is that of the distribution, not that of the text.

    It is where the text states none, and where its letter is the most probable one.
    """
    if raw.text is None and raw.index is None:
        return True
    stated = parsed.answer is None or parsed.answer in found.maxima
    return found.kind == "tokens" and stated


def _check_stated(
    raw: RawAnswer, parsed: ParsedAnswer, found: Distribution, findings: Findings
) -> None:
    if parsed.answer is None or parsed.answer in found.maxima:
        return
    findings.add(
        "answer is not the maximum",
        "the option that the text states is not the most probable one; both are kept",
        raw.question_id,
    )


def in_content(found: Distribution, order: Sequence[int]) -> list[float]:
    """Log-probabilities of a pass in content space."""
    content = [0.0] * len(order)
    for k, value in zip(order, found.logprobs, strict=True):
        content[k] = value
    return content
