"""One side of a comparison: what an arm of a run answered, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._paths import run_path
from phasefusion.errors import RecordError
from phasefusion.records import ItemInfo, iter_passes, read_passes, read_run
from phasefusion.report import items
from phasefusion.report.items import Cluster, choose_cluster
from phasefusion.report.table import Table, build

Key: TypeAlias = tuple[str, str]
Answer: TypeAlias = Literal["consensus", "first"]
#: An arm is called so in reports; both names are in use.
_OTHER_NAMES = {"fused": "fusion"}


@dataclass(frozen=True, slots=True)
class Pass:
    """What the comparison looks at of one recorded pass."""

    phase_index: int
    order: tuple[int, ...]
    frames: tuple[int, ...] | None
    budget: int | None
    text: str | None
    reason: str
    answered: bool
    unparsed: bool


@dataclass(frozen=True, slots=True)
class Given:
    """What one side has for an item.

    Attributes
    ----------
    info : ItemInfo
    answer : int or None
        Content index; None without one.
    state : {'answered', 'unparsed', 'missing'}
        A model that wrote something else than an option is unparsed; a pass that was
        not made, or could not be, is missing.
    reason : str
        Why there is no answer.
    passes : tuple of Pass
        The passes that the answer rests on.
    digest : str or None
        Hash of the question, where the run recorded it.
    """

    info: ItemInfo
    answer: int | None
    state: Literal["answered", "unparsed", "missing"]
    reason: str
    passes: tuple[Pass, ...]
    digest: str | None

    @property
    def orders(self) -> frozenset[tuple[int, ...]]:
        """Orders in which the options were shown."""
        return frozenset(one.order for one in self.passes)

    @property
    def frames(self) -> tuple[tuple[int, ...], ...] | None:
        """Frame indices of every phase; None where one is not recorded."""
        by_phase = {one.phase_index: one.frames for one in self.passes}
        found = [by_phase[s] for s in sorted(by_phase)]
        kept = tuple(frames for frames in found if frames is not None)
        return kept if kept and len(kept) == len(found) else None

    @property
    def texts(self) -> tuple[str, ...]:
        """Different raw texts, in the order of the passes."""
        return tuple(dict.fromkeys(p.text for p in self.passes if p.text is not None))

    @property
    def budgets(self) -> frozenset[int]:
        """Frames of a pass, where recorded."""
        return frozenset(p.budget for p in self.passes if p.budget is not None)


@dataclass(frozen=True, slots=True)
class Side:
    """One run and the arm of it that is compared."""

    path: Path
    run: Mapping[str, Any]
    arm: str
    items: Mapping[Key, Given] = field(repr=False)


def load(
    run: Any, arm: str | None, answer: Answer, *, name: str, other: str | None = None
) -> Side:
    """Read a run and what an arm of it answered.

    Parameters
    ----------
    run : Run, str or Path
    arm : str or None
        The fused answer where there is one, else the single pass.
    answer : {'consensus', 'first'}
    name : str
        Of the side, in messages.
    other : str, optional
        Arm to prefer when none is given: that of the other side.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    RecordError
        If its files are damaged, it holds no pass or does not have the arm.
    UsageError
        If `run` is neither a run nor a path.
    """
    folder = run_path(name.lower(), run)
    described = read_run(folder)
    passes = read_passes(folder)
    if not len(passes):
        raise RecordError(f"{folder}: holds no passes yet; there is nothing to compare")
    table = build(passes, described.get("settings", {}))
    chosen = _choose(table, arm, folder, name, other)
    recorded = _recorded(folder, table, chosen)
    digests = described.get("questions", {}).get("items", {})
    outcomes = table.arms[chosen, False]
    items: dict[Key, Given] = {}
    for i, info in enumerate(table.items):
        key = (info.benchmark, info.question_id)
        rows = recorded.get(key, [])
        value = int(outcomes.consensus[i])
        if answer == "first":
            value = int(outcomes.answer[i, 0])
            first = tuple(table.order[i, 0][: info.n_options].tolist())
            rows = [row for row in rows if row.order == first]
        state, reason = _state(value, rows)
        items[key] = Given(
            info=info,
            answer=value if value >= 0 else None,
            state=state,
            reason=reason,
            passes=tuple(rows),
            digest=digests.get(info.benchmark, {}).get(info.question_id),
        )
    return Side(folder, described, chosen, items)


def _choose(
    table: Table, arm: str | None, folder: Path, name: str, other: str | None
) -> str:
    have = [key for key, shifted in table.arms if not shifted]
    if arm is None:
        for wanted in (other, "fusion", "single"):
            if wanted in have:
                return str(wanted)
        if len(have) == 1:
            return have[0]
        raise RecordError(
            f"{folder}: choose the arm of {name}; it has {', '.join(have)}"
        )
    chosen = _OTHER_NAMES.get(arm, arm)
    if chosen == "phase" and len(table.phase_names) == 1:
        chosen = table.phase_names[0]
    if chosen not in have:
        raise RecordError(
            f"{folder}: has no arm {arm!r}; it has {', '.join(have) or 'none'}"
        )
    return chosen


def _recorded(folder: Path, table: Table, arm: str) -> dict[Key, list[Pass]]:
    """Find the passes that an arm rests on, by item."""
    wanted, view = arm, None
    if arm in ("fusion", "vote"):
        wanted = "phase"
    elif arm in table.phase_names:
        wanted, view = "phase", int(arm.removeprefix("phase "))
    elif arm == "single":
        # the single pass may be one of the views; then it is the same object
        single = table.arms["single", False]
        for s, name in enumerate(table.phase_names):
            if table.arms[name, False] is single:
                wanted, view = "phase", s
    found: dict[Key, list[Pass]] = {}
    for row in _rows(folder, wanted):
        if view is None or row["phase_index"] == view:
            key = (row["benchmark"], row["question_id"])
            found.setdefault(key, []).append(_pass(row))
    return found


def _rows(folder: Path, arm: str) -> Iterator[Mapping[str, Any]]:
    for row in iter_passes(folder):
        if row["arm"] == arm and not row.get("shifted", False):
            yield row


def _pass(row: Mapping[str, Any]) -> Pass:
    frames, text = row.get("frame_indices"), row.get("text")
    generated = row.get("path") == "generate"
    # what a text says is its answer, whatever the probabilities beside it are
    scored = row.get("logprobs") is not None and not generated
    answered = row.get("answer") is not None or scored
    answered = answered and row.get("invalid") is None
    return Pass(
        phase_index=int(row["phase_index"]),
        order=tuple(row["order"]),
        frames=None if frames is None else tuple(frames),
        budget=row.get("budget"),
        text=None if text is None else str(text),
        reason=str(row.get("invalid") or ""),
        answered=answered,
        unparsed=not answered and generated,
    )


def _state(
    value: int, rows: list[Pass]
) -> tuple[Literal["answered", "unparsed", "missing"], str]:
    if value >= 0:
        return "answered", ""
    lacking = [row for row in rows if not row.answered]
    if not lacking:
        return "missing", "no pass" if not rows else "not every pass has been made yet"
    reason = lacking[0].reason
    if all(row.unparsed for row in lacking):
        return "unparsed", reason or "the text names no option"
    return "missing", next((r.reason for r in lacking if not r.unparsed), "") or reason


def gold_of(a: Given, b: Given) -> int | None:
    """Gold that both agree on, or that one has and the other does not know."""
    one, other = a.info.gold, b.info.gold
    if one is None or other is None:
        return other if one is None else one
    return one if one == other else None


def other_video(a: Given, b: Given) -> bool:
    """Whether the two were asked about different files, as far as both say it."""
    one, other = a.info.video_digest, b.info.video_digest
    return None not in (one, other) and one != other


def gold_differs(a: Given, b: Given) -> bool:
    """Whether the two call different options right."""
    return None not in (a.info.gold, b.info.gold) and a.info.gold != b.info.gold


def cluster_labels(
    a: Side, b: Side, keys: Sequence[Key], cluster: Literal["question", "video"]
) -> NDArray[np.int64]:
    """Label of each item's cluster; an item without a video is its own."""
    return items.cluster_labels(_infos(a, b, keys), cluster)


def chosen_cluster(
    a: Side, b: Side, keys: Sequence[Key], cluster: Cluster
) -> Literal["question", "video"]:
    """Choose what the items of a cluster share: as given, or by what is known."""
    return choose_cluster(_infos(a, b, keys), cluster)


def _infos(a: Side, b: Side, keys: Sequence[Key]) -> list[ItemInfo]:
    """Items of A, or those of B where only they have the video."""
    pairs = ((a.items[key].info, b.items[key].info) for key in keys)
    return [one if one.video_id else other for one, other in pairs]


def differences_of(a: Side, b: Side, keys: Sequence[Key]) -> NDArray[np.int64]:
    """Correctness of A minus that of B on items with a gold, in -1, 0, 1."""
    found = []
    for key in keys:
        one, other = a.items[key], b.items[key]
        gold = gold_of(one, other)
        found.append(int(one.answer == gold) - int(other.answer == gold))
    return np.array(found, np.int64)
