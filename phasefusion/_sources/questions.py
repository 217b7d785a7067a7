"""Questions of all files brought together: checked, joined by id, given their gold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from phasefusion._sources.findings import Findings
from phasefusion._sources.model import GoldKind, Question, RawQuestion, Settings
from phasefusion._sources.options import Gold, order_of, resolve_gold
from phasefusion._wording import counted
from phasefusion.answers import LETTERS
from phasefusion.errors import DatasetError
from phasefusion.scoring.letters import first_equal, misplaced, strip_letters

Key: TypeAlias = tuple[str, str]

LEFT_OUT = "left out of every rate that needs the right answer, never counted wrong"


def resolve(
    raw: RawQuestion, settings: Settings, findings: Findings
) -> Question | None:
    """Check a question as a file states it.

    Returns
    -------
    Question or None
        None when it cannot be scored; why is among the findings.
    """
    problem = _unusable(raw)
    options: tuple[str, ...] | None = None
    if raw.options is not None:
        options, _ = strip_letters(raw.options)
        problem = problem or _unusable_options(options) or misplaced(raw.options)
    if problem:
        findings.add(
            "unusable question",
            f"{problem}; rejected",
            f"{raw.question_id}: {problem}",
        )
        return None
    n_options = len(options) if options else settings.n_options or 0
    gold = resolve_gold(raw.gold, options, n_options, raw.gold_kind)
    if gold.kind and gold.kind != "gold missing":
        findings.add(gold.kind, LEFT_OUT, f"{raw.question_id}: {gold.reason}")
    same = first_equal(options) if options else tuple(range(n_options))
    if options:
        _repeat_findings(raw.question_id, options, same, gold.indices, findings)
    return Question(
        question_id=raw.question_id,
        benchmark=raw.benchmark,
        video_id=raw.video_id,
        options=options,
        n_options=n_options,
        gold=gold.indices,
        same_options=same,
        where=raw.where,
        question=raw.question,
        type=raw.type,
        strata=raw.strata,
        duration_s=raw.duration_s,
        group=raw.group,
    )


def _unusable(raw: RawQuestion) -> str:
    if raw.options is not None and raw.question is not None:
        if not raw.question.strip():
            return "the question is empty"
    return ""


def _unusable_options(options: Sequence[str]) -> str:
    if not 2 <= len(options) <= len(LETTERS):
        return (
            f"has {counted(len(options), 'option')}; there must be 2 to {len(LETTERS)}"
        )
    if not any(text.strip() for text in options):
        return "all options are empty"
    if len(set(first_equal(options))) < 2:
        return f"all options read {options[0]!r}"
    return ""


def _repeat_findings(
    question_id: str,
    options: Sequence[str],
    same: Sequence[int],
    gold: Sequence[int],
    findings: Findings,
) -> None:
    if not all(text.strip() for text in options):
        places = [LETTERS[k] for k, text in enumerate(options) if not text.strip()]
        findings.add(
            "empty option",
            "kept: the other options can be told apart",
            f"{question_id}: {', '.join(places)}",
        )
    repeats = {options[j] for k, j in enumerate(same) if k != j}
    if not repeats:
        return
    example = f"{question_id}: {', '.join(map(repr, sorted(repeats)))}"
    findings.add(
        "repeated option",
        "options of equal text count as one: an answer that moves between them is no "
        "flip",
        example,
    )
    if len(gold) > 1:
        letters = ", ".join(LETTERS[k] for k in gold)
        findings.add(
            "gold repeated",
            "the right text occurs several times; each of them is right",
            f"{question_id}: {letters}",
        )


def same_question(a: RawQuestion, b: RawQuestion) -> bool:
    """Whether two rows of one id can be one question, as far as both say."""
    if a.video_id and b.video_id and a.video_id != b.video_id:
        return False
    if a.question and b.question and a.question.split() != b.question.split():
        return False
    if a.options and b.options:
        shown = [sorted(strip_letters(raw.options or ())[0]) for raw in (a, b)]
        return shown[0] == shown[1]
    return True


def restated(
    raw: RawQuestion, options: Sequence[str] | None
) -> tuple[object, GoldKind, Gold | None]:
    """Gold of a statement as it counts among its options in another order.

    Parameters
    ----------
    raw : RawQuestion
        Its gold counts in the order of its own options, if it has some.
    options : sequence of str or None
        The same options in the order that is wanted, letters in front included.

    Returns
    -------
    gold : object
        None where the gold names none of its own options.
    kind : {"auto", "index", "letter", "text"}
    problem : Gold or None
        Why it names none.

    Raises
    ------
    OptionError
        If the options are others.

    Examples
    --------
    >>> raw = RawQuestion("", "q", "b", options=("dog", "cat"), gold="A")
    >>> restated(raw, ["cat", "dog"])
    (1, 'index', None)
    """
    if raw.options is None or options is None:
        return raw.gold, raw.gold_kind, None
    own, wanted = strip_letters(raw.options)[0], strip_letters(options)[0]
    order = order_of(own, wanted)
    if order == tuple(range(len(own))):
        return raw.gold, raw.gold_kind, None
    found = resolve_gold(raw.gold, own, len(own), raw.gold_kind)
    if found.kind:
        return None, "auto", found
    return order[found.indices[0]], "index", None


def gather(raws: Iterable[RawQuestion]) -> dict[Key, RawQuestion]:
    """Keep the first statement of every question; what it lacks comes from others.

    Raises
    ------
    DatasetError
        If one id names different questions.
    """
    found: dict[Key, RawQuestion] = {}
    clashes: dict[Key, tuple[str, str]] = {}
    for raw in raws:
        key = (raw.benchmark, raw.question_id)
        old = found.get(key)
        if old is None:
            found[key] = raw
        elif not same_question(old, raw):
            clashes.setdefault(key, (old.where, raw.where))
        elif raw.copy < old.copy:
            found[key] = _filled(raw, old)
        else:
            found[key] = _filled(old, raw)
    if clashes:
        (_, name), places = next(iter(clashes.items()))
        raise DatasetError(
            f"{places[1]}: question id {name!r} is that of another question at "
            f"{places[0]} ({len(clashes)} ids name several questions; there are "
            f"{len(found)} different ids). Name the columns that identify a question "
            "together, such as --map question_id=video+qid"
        )
    return found


def _filled(old: RawQuestion, new: RawQuestion) -> RawQuestion:
    """Fill in what a statement lacks; the gold of a copy counts in its own order."""
    gold, kind = old.gold, old.gold_kind
    if gold in (None, ""):
        gold, kind, problem = restated(new, old.options)
        if problem is not None:
            gold, kind = old.gold, old.gold_kind
    return replace(
        old,
        question=old.question or new.question,
        options=old.options or new.options,
        gold=gold,
        gold_kind=kind,
        video_id=old.video_id or new.video_id,
        type=old.type or new.type,
        strata={**new.strata, **old.strata},
        duration_s=old.duration_s if old.duration_s is not None else new.duration_s,
        group=old.group or new.group,
    )


def with_reference(
    own: Mapping[Key, RawQuestion],
    reference: Mapping[Key, RawQuestion] | None,
    findings: Findings,
) -> dict[Key, RawQuestion]:
    """Take questions from a question file; what a result file says must agree with it.

    Raises
    ------
    DatasetError
        If no id is in both, or texts of one id differ.
    """
    if reference is None:
        return dict(own)
    found: dict[Key, RawQuestion] = {}
    for key, raw in own.items():
        known = reference.get(key)
        if known is None:
            findings.add(
                "unknown id",
                "answers to ids that the question file does not have; left out",
                raw.question_id,
            )
            continue
        if not same_question(known, raw):
            raise DatasetError(
                f"{raw.where}: question {raw.question_id!r} has another text or other "
                f"options than at {known.where}; these are different versions of it"
            )
        found[key] = _filled(known, raw)
    if own and not found:
        advice = ""
        if all(name.isdecimal() for _, name in own):
            advice = (
                ". Results that number their documents, as logs of lmms-eval do, are "
                "joined by the docs.jsonl of the sidecar of the run, or by a file with "
                "the same questions and options in the order of the task"
            )
        raise DatasetError(
            f"no id of the results is in the question file: results have "
            f"{some(own)}, questions have {some(reference)}{advice}"
        )
    for key in reference:
        if key not in own:
            findings.add(
                "missing id", "questions without an answer; not recorded", key[1]
            )
    return found


def some(keys: Iterable[Key]) -> str:
    """Name a few questions, for messages."""
    return ", ".join(f"{name} of {benchmark}" for benchmark, name in list(keys)[:3])
