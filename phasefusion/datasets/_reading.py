"""Every question of a benchmark checked and made an item, or accounted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from phasefusion._sources import model
from phasefusion._sources.findings import Findings
from phasefusion._sources.golds import Golds, golden
from phasefusion._sources.model import Question, RawQuestion
from phasefusion._sources.questions import resolve
from phasefusion._wording import Argument
from phasefusion.answers import LETTERS
from phasefusion.datasets._drafts import Draft, LeftOut, Row
from phasefusion.datasets._forms import FORMS
from phasefusion.datasets._shapes import detect, rows_of
from phasefusion.datasets._sources import Source, digest, plain
from phasefusion.datasets._subtitles import SubtitleFinder
from phasefusion.datasets.item import Item, bounds, lettered
from phasefusion.datasets.report import Dataset, DatasetReport, Problem, some
from phasefusion.datasets.videos import (
    VIDEO_SUFFIXES,
    Folder,
    first_found,
    is_file,
    told_apart,
)
from phasefusion.errors import DatasetError
from phasefusion.importers.golds import read_gold
from phasefusion.scoring.letters import misplaced

_LEAVE_OUT = Argument("missing_videos", '"leave-out"', "leave-out")
#: How a question may state its options.
OPTION_FORMS = (
    "give options as a list of 2 to 26 texts (in CSV as JSON), or in fields A, B, C, "
    "... or option_0, option_1, ..."
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller says; see `phasefusion.datasets.load`."""

    name: str
    videos: Path
    subtitles: Path | None = None
    gold: str | Path | Mapping[str, Any] | None = None
    task: str | None = None
    version: str | None = None
    missing_videos: str = "error"
    lenient: bool = False

    def benchmark(self, own: str) -> str:
        """Name and version that questions are recorded under."""
        return f"{own.partition('@')[0]}@{self.version}" if self.version else own


class Reader:
    """Reads the files of one dataset and keeps account of every question."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._form = FORMS[settings.name]
        self._videos = Folder(settings.videos, VIDEO_SUFFIXES)
        # Published files name their subtitles whether or not those are wanted.
        missing = settings.missing_videos if settings.name == "plain" else "keep"
        self._subtitles = SubtitleFinder(settings.videos, settings.subtitles, missing)
        self._findings = Findings()
        self._left_out: list[Problem] = []
        self._unusable_gold: list[Problem] = []
        self._missing: dict[str, str] = {}
        self._seen: dict[tuple[str, str], RawQuestion] = {}
        self._items: list[Item] = []
        self._n_read = 0

    def read(self, sources: Sequence[Source]) -> Dataset:
        """Read all files.

        Raises
        ------
        DatasetError
            As `phasefusion.datasets.load` does.
        """
        golds = _golds(self._settings)
        for source in sources:
            self._note_repairs(source)
            for row in rows_of(source, self._settings.name, self._settings.task):
                self._n_read += 1
                self._read_row(row, golds)
        self._check_golds(golds)
        self._check_files()
        if not self._items:
            raise DatasetError(self._nothing(sources[0]))
        items = tuple(told_apart(self._items, self._settings.videos))
        report = DatasetReport(
            name=self._settings.name,
            benchmark=self._benchmark(),
            files=tuple(digest(one.file) for one in sources if one.file is not None),
            read=self._n_read,
            kept=len(items),
            with_gold=sum(item.gold is not None for item in items),
            left_out=tuple(self._left_out),
            unusable_gold=tuple(self._unusable_gold),
            findings=self._findings.frozen(),
            videos=len({item.video for item in items}),
            missing_videos=tuple(self._missing),
            with_subtitles=self._subtitles.n_found,
            missing_subtitles=tuple(self._subtitles.missing),
        )
        return Dataset(items, report)

    def _note_repairs(self, source: Source) -> None:
        if source.repairs:
            self._findings.add(
                "repaired JSON",
                "commas before closing brackets were taken out: the file is no JSON",
                f"{source.where}, {source.repairs[0]}",
                len(source.repairs),
            )

    def _nothing(self, source: Source) -> str:
        """Say why there is nothing to score."""
        if not self._n_read:
            return f"{source.where}: holds no questions"
        text = (
            f"{source.where}: none of the {self._n_read} questions can be scored as "
            f"{self._settings.name!r}: {some([str(one) for one in self._left_out])}"
        )
        other = detect(source)
        if other not in (None, self._settings.name):
            text += f"; it looks like {other!r}"
        return text

    # -- one question -------------------------------------------------------

    def _read_row(self, row: Row, golds: Golds) -> None:
        question_id = ""
        try:
            draft = self._drafted(row, golds)
            question_id = draft.question.question_id
            if not self._is_repeat(draft.question):
                self._items.append(self._item(draft))
        except LeftOut as reason:
            self._leave_out(question_id, reason.kind, str(reason), row.where)

    def _drafted(self, row: Row, golds: Golds) -> Draft:
        try:
            draft = self._form.read(row)
        except DatasetError as error:
            reason = str(error).removeprefix(f"{row.where}: ")
            raise LeftOut("unreadable", reason) from None
        raw = draft.question
        raw = replace(raw, benchmark=self._settings.benchmark(raw.benchmark))
        given = golds.take(raw.benchmark, raw.question_id)
        if given is not None:
            raw, problem = golden(raw, given)
            if problem is not None:
                self._unusable_gold.append(
                    Problem(raw.question_id, problem.kind, problem.reason, given.where)
                )
        return replace(draft, question=raw)

    def _is_repeat(self, raw: RawQuestion) -> bool:
        """Whether the same question came before; another one of its id is an error."""
        old = self._seen.setdefault((raw.benchmark, raw.question_id), raw)
        if old is raw:
            return False
        if (old.question, old.options, old.gold) == (
            raw.question,
            raw.options,
            raw.gold,
        ):
            self._leave_out(
                raw.question_id, "repeated", f"is the same as {old.where}", raw.where
            )
            return True
        raise DatasetError(
            f"{raw.where}: question id {raw.question_id!r} is that of another question "
            f"at {old.where}; ids must be unique within {raw.benchmark}"
        )

    def _leave_out(self, name: str, kind: str, reason: str, where: str) -> None:
        self._left_out.append(Problem(name, kind, reason, where))

    def _item(self, draft: Draft) -> Item:
        findings = Findings()
        question = _checked(draft.question, findings)
        try:
            start, end = bounds(draft.bounds, "bounds")
        except DatasetError as error:
            raise LeftOut("bad bounds", str(error)) from None
        video, is_cut = self._video(draft)
        self._note(draft, question, findings)
        item = Item(
            question_id=question.question_id,
            benchmark=question.benchmark,
            video=video,
            video_id=question.video_id,
            question=(question.question or "").strip(),
            options=lettered(question.options or ()),
            gold=question.gold[0] if question.gold else None,
            type=question.type,
            start=None if is_cut else start,
            end=None if is_cut else end,
            extra=dict(draft.extra),
            strata=dict(question.strata),
            subtitles=self._subtitles.find(draft, self._findings),
        )
        return item

    def _note(self, draft: Draft, question: Question, findings: Findings) -> None:
        """Keep what was found about a question that is kept."""
        raw = draft.question
        for one in findings.frozen():
            reason = one.examples[0].removeprefix(f"{raw.question_id}: ")
            if one.kind.startswith("gold") and not question.gold:
                problem = Problem(raw.question_id, one.kind, reason, raw.where)
                self._unusable_gold.append(problem)
            else:
                self._findings.add(one.kind, one.text, one.examples[0])
        for kind, text, example in draft.notes:
            self._findings.add(kind, text, example)

    # -- files --------------------------------------------------------------

    def _video(self, draft: Draft) -> tuple[str, bool]:
        """Path of the video, and whether it is the asked part alone."""
        cut = first_found(self._videos, draft.cuts)
        if cut.path is not None:
            return str(cut.path), True
        path = self._settings.videos / draft.videos[0]
        if self._settings.name == "plain" and is_file(path):
            return str(path), False  # what a question file names may have any ending
        found = first_found(self._videos, draft.videos, draft.hint)
        if found.path is not None:
            return str(found.path), False
        name = draft.videos[0]
        self._missing.setdefault(name, found.problem)
        if self._settings.missing_videos == "keep":
            known = Path(name).suffix.lower() in VIDEO_SUFFIXES
            return str(
                self._settings.videos / (name if known else f"{name}.mp4")
            ), False
        reason = f"video {name!r} " + (found.problem or "was not found")
        raise LeftOut("missing video", reason)

    def _check_files(self) -> None:
        """Refuse missing videos and subtitles before anything is scored."""
        if self._settings.missing_videos != "error":
            return
        if self._missing:
            shown = [
                f"{name} {problem}" if problem else name
                for name, problem in self._missing.items()
            ]
            raise DatasetError(
                f"{self._gone('videos', shown, 'missing video')}. "
                f"Names with {', '.join(VIDEO_SUFFIXES[:3])} and the like were looked "
                "for at any depth. Give the folder of the videos (videos=, --videos), "
                "or leave these questions out (",
                _LEAVE_OUT,
                ")",
            )
        names = tuple(self._subtitles.missing)
        if names and self._settings.name == "plain":
            raise DatasetError(
                f"{self._gone('subtitle files', names, 'missing subtitles')}. Correct "
                "their names, give their folder (subtitles=, --subtitles), or leave "
                "these questions out (",
                _LEAVE_OUT,
                ")",
            )

    def _gone(self, what: str, names: Sequence[str], kind: str) -> str:
        """Count the files that are not there, and the questions about them."""
        root = self._settings.videos
        if kind == "missing subtitles":
            root = self._settings.subtitles or root
        n = sum(one.kind == kind for one in self._left_out)
        return (
            f"{root}: {len(names)} {what} of {self._benchmark()} are missing: "
            f"{some(names)}; {n} of {self._n_read} questions are about them"
        )

    def _benchmark(self) -> str:
        """Name of the benchmark, or of those that the rows name."""
        found = dict.fromkeys(name for name, _ in self._seen)
        return ", ".join(found) or self._settings.benchmark(self._form.benchmark)

    # -- gold of its own file -----------------------------------------------

    def _check_golds(self, golds: Golds) -> None:
        if not golds:
            return
        unknown = sorted(name for _, name in set(golds.keys) - golds.taken)
        if not golds.taken:
            known = [name for _, name in self._seen]
            raise DatasetError(
                f"no id of the gold is in the questions: gold has {some(unknown)}, "
                f"questions have {some(known)}"
            )
        golds.check(name for name, _ in self._seen)
        for name in unknown:
            self._findings.add("gold without question", "not used", name)


def _checked(raw: RawQuestion, findings: Findings) -> Question:
    """Check question, options and gold; what is wrong with the gold is a finding."""
    if raw.options is None:
        raise LeftOut("no options", f"has no options that can be read: {OPTION_FORMS}")
    if raw.question is None or not raw.question.strip():
        raise LeftOut("empty question", "the question is empty")
    ambiguous = misplaced(raw.options)
    if ambiguous:
        raise LeftOut("ambiguous letters", ambiguous)
    question = resolve(raw, model.Settings(), findings)
    if question is None:
        reason = findings.frozen()[0].examples[0]
        reason = reason.removeprefix(f"{raw.question_id}: ")
        raise LeftOut("unusable options", reason)
    empty = [LETTERS[k] for k, text in enumerate(question.options or ()) if not text]
    if empty:
        reason = f"option {' and '.join(empty)} of {question.n_options} is empty"
        raise LeftOut("empty option", reason)
    return question


def _golds(settings: Settings) -> Golds:
    """Gold of a file or a mapping."""
    gold = settings.gold
    if gold is None:
        return Golds("gold", ())
    if isinstance(gold, Mapping):
        return Golds(
            "gold",
            (
                RawQuestion("gold", str(name), "", gold=plain(one))
                for name, one in gold.items()
            ),
        )
    return read_gold(Path(gold), model.Settings(lenient=settings.lenient))
