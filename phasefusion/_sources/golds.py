"""Right answers from a file of their own, joined by benchmark and id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from phasefusion._sources.files import OPTION_COLUMN, whole
from phasefusion._sources.findings import Findings
from phasefusion._sources.model import RawQuestion
from phasefusion._sources.options import Gold, resolve_gold
from phasefusion._sources.questions import (
    Key,
    restated,
    same_question,
)
from phasefusion.errors import DatasetError
from phasefusion.scoring.letters import strip_letters


class Golds:
    """Right answers by benchmark and id, or by id where no benchmark is named.

    Parameters
    ----------
    where : str
        The file, for messages.
    statements : iterable of RawQuestion
        Its questions; "" is no benchmark.

    Raises
    ------
    DatasetError
        If an id occurs with two right answers.
    """

    def __init__(self, where: str, statements: Iterable[RawQuestion]) -> None:
        self.where = where
        self.taken: set[Key] = set()
        self._by_key: dict[Key, RawQuestion] = {}
        self._by_id: dict[str, list[Key]] = {}
        self._bare = False
        for raw in statements:
            key = (raw.benchmark, raw.question_id)
            old = self._by_key.setdefault(key, raw)
            if old is raw:
                self._by_id.setdefault(raw.question_id, []).append(key)
            elif not _agree(old, raw):
                raise DatasetError(
                    f"{raw.where}: the gold of {raw.question_id!r} is {raw.gold!r}, at "
                    f"{old.where} it is {old.gold!r}"
                )

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Benchmark and id of every right answer."""
        return tuple(self._by_key)

    def take(
        self, benchmark: str, question_id: str, *, by_name: bool = False
    ) -> RawQuestion | None:
        """Return the right answer of a question; None without.

        Where nothing names the benchmark, the id alone counts, unless `by_name`.

        Raises
        ------
        DatasetError
            If several benchmarks of the file, all others, have the id.
        """
        key = (benchmark, question_id)
        if key not in self._by_key:
            if by_name or any(name == benchmark for name, _ in self._by_key):
                return None
            keys = self._by_id.get(question_id, [])
            if not keys:
                return None
            if len(keys) > 1:
                raise DatasetError(
                    f"{self.where}: has id {question_id!r} of "
                    f"{' and of '.join(name for name, _ in keys)}, not of {benchmark}"
                )
            (key,) = keys
            self._bare = True
        self.taken.add(key)
        return self._by_key[key]

    def check(self, benchmarks: Iterable[str]) -> None:
        """Refuse ids alone where several benchmarks are in use.

        Raises
        ------
        DatasetError
            Naming the benchmarks.
        """
        names = sorted(set(benchmarks))
        if self._bare and len(names) > 1:
            raise DatasetError(
                f"{self.where}: does not say of which benchmark its ids are, and these "
                f"questions are of several: {', '.join(names)}; read one benchmark at "
                'a time, or name it in the gold file (a column "benchmark")'
            )


#: Kind of the finding that right answers may be counted from 1.
FROM_ONE = "gold counted from 1?"


class IndexGolds:
    """Right answers that are numbers, and whether they may count options from 1."""

    def __init__(self) -> None:
        self._least = 1
        self._n = 0
        self._at_end: list[str] = []
        self._named_from_1 = False

    def add(self, raw: RawQuestion, columns: Iterable[str]) -> None:
        """Look at the right answer of a question, and at the names of its options."""
        index, options = whole(raw.gold), raw.options or ()
        if index is None or raw.gold in options or raw.gold_kind in ("letter", "text"):
            return
        self._n += 1
        self._least = min(self._least, index)
        if index == len(options):
            self._at_end.append(raw.question_id)
        names = map(OPTION_COLUMN.fullmatch, columns)
        numbers = [int(one["number"]) for one in names if one and one["number"]]
        self._named_from_1 |= min(numbers, default=0) == 1

    def note(self, findings: Findings) -> None:
        """Say it where no answer is 0, and the last one or the columns speak for 1."""
        if self._least < 1 or not (self._at_end or self._named_from_1):
            return
        why = (
            f"{len(self._at_end)} of {self._n} are the number of options"
            if self._at_end
            else "options are named from 1 on"
        )
        text = (
            f"no right answer is 0, and {why}; answers that are numbers count from 0, "
            "as everywhere here, so if these count from 1 each names the option after "
            "the right one: write letters, texts, or numbers one lower"
        )
        for question_id in self._at_end or ("",):
            findings.add(FROM_ONE, text, question_id)


def _agree(old: RawQuestion, new: RawQuestion) -> bool:
    """Whether two statements name the same option right."""
    if not same_question(old, new):
        return False
    if old.options is None or new.options is None:
        return bool(old.gold == new.gold)
    said = []
    for raw in (old, new):
        options = strip_letters(raw.options or ())[0]
        found = resolve_gold(raw.gold, options, len(options), raw.gold_kind)
        said.append({options[k] for k in found.indices} or {repr(raw.gold)})
    return said[0] == said[1]


def golden(raw: RawQuestion, gold: RawQuestion) -> tuple[RawQuestion, Gold | None]:
    """Question with the gold of another statement of it, and what is wrong with that.

    Raises
    ------
    DatasetError
        If the other statement is about another question.
    """
    if not same_question(gold, raw):
        raise DatasetError(
            f"{raw.where}: question {raw.question_id!r} has another text, video or "
            f"options than at {gold.where}, where its right answer is"
        )
    value, kind, problem = restated(gold, raw.options)
    return replace(raw, gold=value, gold_kind=kind), problem
