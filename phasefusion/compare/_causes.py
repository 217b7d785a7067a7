"""Why an item differs between two runs, one cause each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasefusion._results import Result
from phasefusion.compare._sides import Given, Key, gold_differs, other_video

Cause: TypeAlias = Literal["missing", "options", "gold", "parse", "frames", "answer"]
#: In the order in which they are looked for: what comes first explains the rest.
CAUSES: tuple[Cause, ...] = ("missing", "options", "gold", "parse", "frames", "answer")
MEANING: dict[Cause, str] = {
    "missing": "no pass on one side",
    "options": "another number, text or order of options",
    "gold": "the runs call different options right",
    "parse": "a text names no option on one side, or is read differently",
    "frames": "other frames were seen",
    "answer": "another answer, though nothing that is recorded differs",
}
_MOST_LISTED = 4


@dataclass(frozen=True, slots=True)
class ItemDifference(Result):
    """One item that the two runs do not have alike.

    Attributes
    ----------
    benchmark, question_id : str
    video_id : str or None
    cause : {'missing', 'options', 'gold', 'parse', 'frames', 'answer'}
    detail : str
        What differs.
    answer_a, answer_b : int or None
        Content indices.
    gold_a, gold_b : int or None
    correct_a, correct_b : bool or None
        None where there is no answer to judge or no gold that both agree on.
    text_a, text_b : str or None
        What the model wrote; different texts of several passes are joined by " | ".
    """

    benchmark: str
    question_id: str
    video_id: str | None
    cause: Cause
    detail: str
    answer_a: int | None
    answer_b: int | None
    gold_a: int | None
    gold_b: int | None
    correct_a: bool | None
    correct_b: bool | None
    text_a: str | None
    text_b: str | None


def difference(
    key: Key, a: Given | None, b: Given | None, gold: int | None
) -> ItemDifference | None:
    """Say what two sides do not have alike about an item; None when nothing.

    Parameters
    ----------
    key : (str, str)
        Benchmark and question.
    a, b : Given or None
        None where the run does not have the item at all.
    gold : int or None
        What both agree on.
    """
    found = _cause(a, b)
    if found is None:
        return None
    known = a or b
    assert known is not None
    return ItemDifference(
        benchmark=key[0],
        question_id=key[1],
        video_id=known.info.video_id or None,
        cause=found[0],
        detail=found[1],
        answer_a=a.answer if a else None,
        answer_b=b.answer if b else None,
        gold_a=a.info.gold if a else None,
        gold_b=b.info.gold if b else None,
        correct_a=_correct(a, gold),
        correct_b=_correct(b, gold),
        text_a=_text(a),
        text_b=_text(b),
    )


def _cause(a: Given | None, b: Given | None) -> tuple[Cause, str] | None:
    if a is None or b is None:
        return "missing", f"{'A' if a is None else 'B'} does not have the question"
    missing = [side.state == "missing" for side in (a, b)]
    if missing[0] != missing[1]:
        name, side = ("A", a) if missing[0] else ("B", b)
        return "missing", f"{name}: {side.reason}"
    if a.info.n_options != b.info.n_options:
        return "options", f"{a.info.n_options} and {b.info.n_options} options"
    if all(missing):
        return None
    if gold_differs(a, b):
        return "gold", f"{a.info.gold} and {b.info.gold}"
    if a.answer == b.answer:
        return None
    if "unparsed" in (a.state, b.state):
        name, side = ("A", a) if a.state == "unparsed" else ("B", b)
        return "parse", f"{name}: {side.reason}"
    return _evidence(a, b)


def _evidence(a: Given, b: Given) -> tuple[Cause, str]:
    """Tell which evidence two different answers rest on."""
    if a.digest is not None and b.digest is not None and a.digest != b.digest:
        return "options", "the question files have another question under this id"
    if a.orders != b.orders:
        return "options", _orders_differ(a, b)
    if a.texts and a.texts == b.texts:
        return "parse", "the same text is read as different options"
    if a.budgets and b.budgets and a.budgets != b.budgets:
        return (
            "frames",
            f"{_numbers(a.budgets)} and {_numbers(b.budgets)} frames a pass",
        )
    if other_video(a, b):
        return "frames", "the video is another file"
    if a.frames is None or b.frames is None:
        names = [name for name, side in (("A", a), ("B", b)) if side.frames is None]
        return "answer", f"frames are not recorded in {' and '.join(names)}"
    if a.frames != b.frames:
        return "frames", frames_differ(a.frames, b.frames)
    return "answer", "same frames and orders"


def _numbers(values: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(values)))


def _orders_differ(a: Given, b: Given) -> str:
    if len(a.orders) == len(b.orders) == 1:
        (one,), (other,) = a.orders, b.orders
        return f"order {list(one)} and {list(other)}"
    shared = len(a.orders & b.orders)
    return f"{len(a.orders)} and {len(b.orders)} orders, {shared} of them shared"


def frames_differ(
    a: tuple[tuple[int, ...], ...], b: tuple[tuple[int, ...], ...]
) -> str:
    """Say how frame indices differ: how many, and which come first."""
    first, second = ({i for view in side for i in view} for side in (a, b))
    if first == second:
        return f"the same {len(first)} frames, divided otherwise over the passes"
    only = [sorted(first - second), sorted(second - first)]
    parts = [
        f"{len(frames)} only in {name}: {', '.join(map(str, frames[:_MOST_LISTED]))}"
        + (", ..." if len(frames) > _MOST_LISTED else "")
        for name, frames in zip("AB", only, strict=True)
        if frames
    ]
    return "; ".join(parts)


def _correct(side: Given | None, gold: int | None) -> bool | None:
    if side is None or gold is None or side.state == "missing":
        return None
    return side.answer == gold


def _text(side: Given | None) -> str | None:
    return " | ".join(side.texts) if side is not None and side.texts else None
