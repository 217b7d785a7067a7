"""The subtitles of a question: its row holds them, names them, or they are found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from phasefusion._sources.files import number
from phasefusion._sources.findings import Findings
from phasefusion.datasets._drafts import Draft, LeftOut
from phasefusion.datasets.item import SubtitleSource
from phasefusion.datasets.videos import (
    SUBTITLE_SUFFIXES,
    Folder,
    first_found,
    is_file,
)
from phasefusion.errors import VideoError

#: What stands in the text of a subtitle file, and in no name of one.
_TEXT_MARKS = ("-->", "[Script Info]")


def text_in(stated: object) -> str | None:
    """Return subtitles that are written out in a field; None for the name of a file.

    Examples
    --------
    >>> text_in([{"start": 0, "end": 1, "text": "hello"}])
    '[{"start": 0, "end": 1, "text": "hello"}]'
    >>> text_in("talks/[en] opening.srt") is None
    True
    """
    if isinstance(stated, list | dict):
        return json.dumps(stated)
    if not isinstance(stated, str):
        return None
    if any(mark in stated for mark in _TEXT_MARKS):
        return stated
    try:
        inside = json.loads(stated)
    except (ValueError, RecursionError):
        return None
    return stated if isinstance(inside, list | dict) else None


class SubtitleFinder:
    """Finds the subtitles of questions, and keeps account of files that are not there.

    Parameters
    ----------
    videos : Path
        Folder that names are relative to where there is none of the subtitles.
    subtitles : Path or None
        Folder that holds the subtitles, at any depth.
    missing : {"error", "leave-out", "keep"}
        What a named file that is not there does to its question: but for "keep" it is
        left out.
    """

    def __init__(self, videos: Path, subtitles: Path | None, missing: str) -> None:
        self._root = videos if subtitles is None else subtitles
        self._folder = (
            None if subtitles is None else Folder(subtitles, SUBTITLE_SUFFIXES)
        )
        self._missing_policy = missing
        self.missing: dict[str, None] = {}
        self.n_found = 0

    def find(self, draft: Draft, findings: Findings) -> SubtitleSource | None:
        """Return where the subtitles of a question are; None for a question without.

        A file that the row names is never None: of one that is not there the path is
        returned at which it was looked for.

        Raises
        ------
        LeftOut
            If a named file is not there, and the policy is not "keep".
        """
        stated, offset_s = draft.inline, _offset(draft, findings)
        name = stated if isinstance(stated, str) else ""
        path = self._path([name] if name else [], named=True)
        text = text_in(stated) if stated and path is None else None
        if text is not None:
            return self._inline(draft, text, offset_s, findings)
        if path is None and (not stated or self._folder is not None):
            path = self._path(draft.subtitles, named=False)
        if path is not None:
            self.n_found += 1
            return SubtitleSource(path=str(path), offset_s=offset_s)
        if name:
            return self._gone(draft, name, offset_s, findings)
        question_id = draft.question.question_id
        if stated not in (None, "", [], {}):
            _unreadable(findings, f"{question_id}: {stated!r:.80}")
        elif draft.subtitles and self._folder is not None:
            findings.add(
                "no subtitles",
                "no file of the subtitles of the video; kept without",
                f"{question_id}: {draft.subtitles[0]}",
            )
        return None

    def _path(self, names: Sequence[str], named: bool) -> Path | None:
        for name in names:  # what a row names may have any ending
            path = self._root / name
            known = named or path.suffix.strip().lower() in SUBTITLE_SUFFIXES
            if known and is_file(path):
                return path
        return None if self._folder is None else first_found(self._folder, names).path

    def _inline(
        self, draft: Draft, text: str, offset_s: float, findings: Findings
    ) -> SubtitleSource | None:
        source = SubtitleSource(text=text, offset_s=offset_s)
        try:
            source.read()
        except VideoError as error:
            _unreadable(findings, f"{draft.question.question_id}: {error}")
            return None
        self.n_found += 1
        return source

    def _gone(
        self, draft: Draft, name: str, offset_s: float, findings: Findings
    ) -> SubtitleSource:
        self.missing.setdefault(name)
        path = self._root / name
        if self._missing_policy != "keep":
            raise LeftOut("missing subtitles", f"there is no subtitle file {path}")
        findings.add(
            "missing subtitles",
            "name files of subtitles that are not there; nothing will be found in "
            "them. Give their folder (subtitles=, --subtitles)",
            f"{draft.question.question_id}: {path}",
        )
        return SubtitleSource(path=str(path), offset_s=offset_s)


def _offset(draft: Draft, findings: Findings) -> float:
    offset_s = number(draft.offset_s)
    if offset_s is not None and abs(offset_s) < 1e9:
        return offset_s
    if draft.offset_s not in (None, ""):
        findings.add(
            "unusable offset of subtitles",
            "no seconds; the subtitles are taken to begin with the video",
            f"{draft.question.question_id}: {draft.offset_s!r:.80}",
        )
    return 0.0


def _unreadable(findings: Findings, example: str) -> None:
    text = "subtitles in the row are of no known form; left out"
    findings.add("unreadable subtitles", text, example)
