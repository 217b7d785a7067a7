"""Statistics of passes that come without phases: by property, by group, by run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._results import Result
from phasefusion.errors import RecordError, UsageError
from phasefusion.importers.distributions import best_of
from phasefusion.records import iter_passes
from phasefusion.stats.proportions import Proportion, accuracy

Row: TypeAlias = Mapping[str, Any]
Source: TypeAlias = str | Path | Sequence[Row]
Ties: TypeAlias = Literal["priority", "first-shown"]


def rows_of(source: Source) -> list[Row]:
    """Return the passes of a run folder, or those given."""
    return list(iter_passes(source) if isinstance(source, str | Path) else source)


def most_probable(row: Row, *, ties: Ties = "priority", seed: int = 0) -> int | None:
    """Content index of the option with the greatest probability of one pass.

    Parameters
    ----------
    row : mapping
        A pass record.
    ties : {"priority", "first-shown"}, default "priority"
        The question's tie priority, which does not depend on where options were shown,
        or the first as shown, which is what an argmax over a list gives and favours the
        letter A.
    seed : int, default 0
        Of the tie priority.

    Returns
    -------
    int or None
        None without a distribution.

    Examples
    --------
    >>> row = {"logprobs": [-0.7, -0.7, None], "order": [2, 0, 1], "n_options": 3}
    >>> most_probable(row, ties="first-shown")
    2
    """
    return all_most_probable([row], ties=ties, seed=seed)[0]


def all_most_probable(
    rows: Sequence[Row], *, ties: Ties = "priority", seed: int = 0
) -> list[int | None]:
    """Do what `most_probable` does for many passes at once.

    Parameters
    ----------
    rows : sequence of mapping
        Pass records.
    ties, seed
        As in `most_probable`.

    Returns
    -------
    list of (int or None)
        One for each pass.
    """
    if ties not in ("priority", "first-shown"):
        raise UsageError(f"ties must be 'priority' or 'first-shown', not {ties!r}")
    found: list[int | None] = [None] * len(rows)
    content: dict[int, NDArray[np.float64]] = {}
    for i, row in enumerate(rows):
        values = row["logprobs"]
        if values is None:
            continue
        letters = np.array([-np.inf if x is None else x for x in values], np.float64)
        if ties == "first-shown":
            shown = row.get("maxima")
            at = row["order"][int(np.argmax(letters))] if shown is None else shown[0]
            found[i] = int(_same(row)[at])
        else:
            content[i] = np.full(len(letters), -np.inf)
            content[i][row["order"]] = letters
    names = [rows[i]["question_id"] for i in content]
    best = best_of(list(content.values()), names, seed=seed)
    for i, answer in zip(content, best, strict=True):
        found[i] = None if answer < 0 else answer
    return found


def strata_of(row: Row) -> Mapping[str, Any]:
    """Properties of a pass, as far as it has some."""
    found = row.get("strata")
    return found if isinstance(found, Mapping) else {}


def property_of(row: Row, name: str) -> object:
    """Field of a pass, or of its strata, which come first; None without."""
    found = strata_of(row).get(name)
    return row.get(name) if found is None else found


def _same(row: Row) -> Sequence[int]:
    same: Sequence[int] | None = row.get("same_options")
    return range(row["n_options"]) if same is None else same


def accuracy_by(
    source: Source,
    field: str,
    *,
    arm: str | None = None,
    answers: Literal["stated", "most-probable"] = "stated",
    ties: Ties = "priority",
) -> dict[str, Proportion]:
    """Accuracy of passes by a property; a pass without an answer is not right.

    Parameters
    ----------
    source : run folder, path or sequence of mapping
        Passes.
    field : str
        A field of the records, such as "type" or "arm", or of their strata, such as
        "duration".
    arm : str, optional
        Of this arm alone.
    answers : {"stated", "most-probable"}, default "stated"
        The answer of the record, or the option of the greatest probability.
    ties : {"priority", "first-shown"}
        As in `most_probable`.

    Returns
    -------
    dict of str to Proportion
        Of passes whose gold is known, in order of first appearance.

    Raises
    ------
    RecordError
        If no pass has the property.

    Examples
    --------
    >>> rows = [
    ...     {"answer": 0, "gold": 0, "arm": "a"},
    ...     {"answer": None, "gold": 1, "arm": "a"},
    ... ]
    >>> accuracy_by(rows, "arm")["a"].value
    0.5
    """
    known: list[tuple[str, Row]] = []
    found = False
    for row in rows_of(source):
        value = property_of(row, field)
        if value is None or (arm is not None and row["arm"] != arm):
            continue
        found = True
        if row["gold"] is not None:
            known.append((str(value), row))
    if not found:
        raise RecordError(f"no pass has {field!r}; there is nothing to break down by")
    of_known = [row for _, row in known]
    said: Sequence[int | None] = [row["answer"] for row in of_known]
    if answers != "stated":
        said = all_most_probable(of_known, ties=ties)
    right: dict[str, list[bool]] = {}
    for (name, row), answer in zip(known, said, strict=True):
        right.setdefault(name, []).append(answer == row["gold"])
    return {value: accuracy(hits) for value, hits in right.items()}


@dataclass(frozen=True, slots=True)
class GroupFlips(Result):
    """How often questions that ask the same are answered otherwise.

    Attributes
    ----------
    flips : int
        Groups whose answers are not one option text.
    groups : int
        Groups with at least two answers.
    n_left_out : int
        Groups with fewer.
    """

    flips: int
    groups: int
    n_left_out: int

    @property
    def rate(self) -> float:
        """Share of groups that flip; NaN without a group."""
        return self.flips / self.groups if self.groups else float("nan")

    def __str__(self) -> str:
        return (
            f"{self.flips} of {self.groups} groups of questions with the same options "
            "change their option text; the wording and the option order of these "
            "questions change together, so this is no effect of the order alone"
        )


def group_flips(source: Source, *, arm: str | None = None) -> GroupFlips:
    """Compare the option texts chosen within groups of questions that ask the same.

    Of every question the first pass counts, in its first option order and phase, so
    that a question that was asked more than once is compared with others alone. Letters
    cannot be compared there: the options stand in other orders.

    Parameters
    ----------
    source : run folder, path or sequence of mapping
        Passes; those with a "group" are looked at.
    arm : str, optional
        Of this arm alone.

    Returns
    -------
    GroupFlips

    Raises
    ------
    RecordError
        If passes of several arms are there and none was chosen.

    Examples
    --------
    >>> rows = [
    ...     {"question_id": "a", "group": "v/action", "choice": "run"},
    ...     {"question_id": "b", "group": "v/action", "choice": "walk"},
    ... ]
    >>> rows = [{"benchmark": "b", "arm": "single", **row} for row in rows]
    >>> group_flips(rows).flips
    1
    """
    rows = [row for row in rows_of(source) if arm is None or row["arm"] == arm]
    arms = {row["arm"] for row in rows}
    if len(arms) > 1:
        raise RecordError(
            f"there are several runs ({', '.join(sorted(arms))}); choose one of them"
        )
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.get("group") is not None:
            first.setdefault((row["benchmark"], row["question_id"]), row)
    chosen: dict[tuple[str, str], list[str]] = {}
    for (benchmark, _), row in first.items():
        texts = chosen.setdefault((benchmark, row["group"]), [])
        if row.get("choice") is not None:
            texts.append(row["choice"])
    several = [texts for texts in chosen.values() if len(texts) >= 2]
    return GroupFlips(
        flips=sum(len(set(texts)) > 1 for texts in several),
        groups=len(several),
        n_left_out=len(chosen) - len(several),
    )


@dataclass(frozen=True, slots=True, repr=False)
class ArmTable(Result):
    """Answers of every arm to every question, in the first order it was asked in.

    Attributes
    ----------
    arms : tuple of str
    budgets : tuple of (int or None)
    items : tuple of (str, str)
        Benchmark and id.
    answers : ndarray, shape (n, A), int64
        Content indices; -1 where there is none.
    asked : ndarray, shape (n, A), bool
        Whether the arm has a pass of the question.
    gold : ndarray, shape (n,), int64
        -1 where it is not known.
    n_options : ndarray, shape (n,), int64
    videos : tuple of (str or None)
    """

    arms: tuple[str, ...]
    budgets: tuple[int | None, ...]
    items: tuple[tuple[str, str], ...]
    answers: NDArray[np.int64]
    asked: NDArray[np.bool_]
    gold: NDArray[np.int64]
    n_options: NDArray[np.int64]
    videos: tuple[str | None, ...]


def arm_table(source: Source) -> ArmTable:
    """Arrange passes by question and arm.

    Parameters
    ----------
    source : run folder, path or sequence of mapping

    Returns
    -------
    ArmTable
    """
    arms: dict[str, int] = {}
    items: dict[tuple[str, str], int] = {}
    first: dict[tuple[int, int], int] = {}
    about: list[Row] = []
    budgets: list[int | None] = []
    for row in rows_of(source):
        key = (row["benchmark"], row["question_id"])
        if key not in items:
            items[key] = len(items)
            about.append(row)
        if row["arm"] not in arms:
            arms[row["arm"]] = len(arms)
            budgets.append(row["budget"])
        answer = -1 if row["answer"] is None else row["answer"]
        first.setdefault((items[key], arms[row["arm"]]), answer)
    answers = np.full((len(items), len(arms)), -1, np.int64)
    asked = np.zeros(answers.shape, bool)
    for place, answer in first.items():
        answers[place], asked[place] = answer, True
    return ArmTable(
        arms=tuple(arms),
        budgets=tuple(budgets),
        items=tuple(items),
        answers=answers,
        asked=asked,
        gold=_column(about, "gold"),
        n_options=_column(about, "n_options"),
        videos=tuple(row.get("video_id") for row in about),
    )


def _column(rows: Iterable[Row], name: str) -> NDArray[np.int64]:
    return np.array([-1 if r[name] is None else r[name] for r in rows], np.int64)
