"""Appending passes to a run, by one process at a time, safe against crashes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from phasefusion._checks import warn
from phasefusion._paths import path_of
from phasefusion._wording import counted, encodable, unwritten
from phasefusion.errors import RecordError, RecordWarning
from phasefusion.records import _json
from phasefusion.records.appending import Appender, RunLock
from phasefusion.records.files import (
    FORMAT,
    LOCK_FILE,
    PASSES_FILE,
    RUN_FILE,
    PassKey,
    changes,
    dump,
    pass_key,
    read_run,
    write_whole,
)
from phasefusion.records.told import told

_FSYNC_EVERY_S = 1.0
#: Names of files that are shown of a folder that has others.
_SHOWN = 3


def _is_text(text: str) -> bool:
    """Whether what is read again from a file is the same."""
    return text == encodable(text)


class RunWriter(Appender):
    """Append passes to a run folder; the only one who does so at a time.

    A line is written by one system call to a file opened for appending, so that a
    crash can tear the last line only. Opening the folder again finds such a line,
    cuts it off with a RecordWarning and leaves the pass to be made again.

    Parameters
    ----------
    folder : str or Path
        Made when it does not exist.
    description : mapping
        What goes into ``run.json``. Its parts "settings" and "versions" must equal
        those of the run that is continued.
    fsync_every_s : float, default 1.0
        How often appended lines are forced to disk, at most. A killed process loses
        nothing that was appended; this bounds what a power failure can take.

    Attributes
    ----------
    done : set
        The `pass_key` of every pass on disk.
    n_phases : dict
        How many phases each arm of each item on disk has, by the first four parts of
        its keys.
    digests : dict
        Digest of the video that the passes of each question were made of, by benchmark
        and id, where they say it.
    n_answered : int
        Passes on disk that have an answer.
    reason : str
        Why the first one that has none lacks it.
    stages_left : int or None
        Stages of the plan that are still to come, of which nobody knows yet how many
        passes they have; None for a run without a plan, which `expect` leaves so.
    n_questions : int
        Questions of the plan. One of fewer is a part of what ``run.json`` has planned.

    Raises
    ------
    RecordError
        If another process is writing the run, the settings differ, or the folder
        cannot be written.
    """

    def __init__(
        self,
        folder: str | Path,
        description: Mapping[str, Any],
        *,
        fsync_every_s: float = _FSYNC_EVERY_S,
    ) -> None:
        self.folder = path_of("folder", folder, "a run folder")
        super().__init__(self.folder / PASSES_FILE)
        self.done: set[PassKey] = set()
        self.n_phases: dict[tuple[Any, ...], int] = {}
        self.digests: dict[tuple[str, str], str] = {}
        self.n_answered = 0
        self.reason = ""
        self.stages_left: int | None = None
        self.n_questions = 0
        self._fsync_every_s = fsync_every_s
        self._last_fsync_s = time.monotonic()
        try:
            self._lock = RunLock(self.folder)
        except OSError as error:
            raise RecordError(unwritten(self.folder, error)) from error
        try:
            self._open_run(description)
            self._open_passes()
        except OSError as error:
            self._give_up()
            raise RecordError(unwritten(self.folder, error)) from error
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        super().close()
        self._lock.take_back()

    def _open_run(self, description: Mapping[str, Any]) -> None:
        """Write run.json, or compare with the one of the run that is continued."""
        wanted = _json.loads(dump(description))
        if (self.folder / RUN_FILE).exists():
            recorded = read_run(self.folder)
            changed = changes(recorded, wanted)
            if changed:
                raise RecordError(
                    f"{self.folder}: this run was made with other settings; choose "
                    "another folder, or repeat them:\n  "
                    + "\n  ".join((*changed, *_still(recorded, wanted)))
                )
            return
        if self.path.exists():
            raise RecordError(
                f"{self.folder}: has {PASSES_FILE} but no {RUN_FILE}, so its settings "
                "are unknown; choose another folder"
            )
        self._warn_of_others()
        write_whole(self.folder / RUN_FILE, wanted | {"format": FORMAT})

    def expect(self, n_passes: int) -> None:
        """Say in ``run.json`` how many passes the run has when it is finished.

        Parameters
        ----------
        n_passes : int
            That are still to be made, of the stages that have begun.

        Raises
        ------
        RecordError
            If the file cannot be written.
        """
        if self.stages_left is None:
            return
        planned = {
            "passes": len(self.done) + n_passes,
            "stages_left": self.stages_left,
            "questions": self.n_questions,
        }
        run = read_run(self.folder)
        recorded = run.get("planned") or {}
        if recorded == planned or recorded.get("questions", 0) > self.n_questions:
            return
        try:
            write_whole(self.folder / RUN_FILE, run | {"planned": planned})
        except OSError as error:
            raise RecordError(unwritten(self.folder, error)) from error

    def _warn_of_others(self) -> None:
        """Say that the folder of a new run is somebody else's, too."""
        names = sorted(path.name for path in self.folder.iterdir())
        others = [name for name in names if name != LOCK_FILE and name[0] != "."]
        if others:
            more = ", ..." if len(others) > _SHOWN else ""
            warn(
                f"{self.folder}: holds {counted(len(others), 'other file')} "
                f"({', '.join(others[:_SHOWN])}{more}); the run is written among them; "
                "a folder of its own keeps them apart",
                RecordWarning,
            )

    def _open_passes(self) -> None:
        """Find the passes that are there; cut off a last line that is torn."""
        self._open()
        for number, row in self._whole_rows():
            try:
                self._add(pass_key(row), row)
            except (KeyError, TypeError, ValueError) as error:
                raise RecordError(
                    f"{self.path}, line {number}: not a pass: {error!r}"
                ) from None

    def _add(self, key: PassKey, record: Mapping[str, Any]) -> None:
        self.n_phases[key[:4]] = int(record["n_phases"])
        self.done.add(key)
        told(self.digests, key[:2], record.get("video_digest"))
        if record.get("answer") is not None:
            self.n_answered += 1
        elif not self.reason:
            self.reason = str(record.get("invalid") or "no answer")

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write passes, each by one system call.

        Parameters
        ----------
        records : iterable of mapping
            Passes; NumPy arrays and numbers are allowed as values, and -inf and NaN
            become null.

        Raises
        ------
        RecordError
            If a pass is there already, was made of another video file than those of its
            question, or the disk is full; what was written before stays whole.
        """
        for record in records:
            key = pass_key(record)
            if not _is_text("".join(key[:3])):
                raise RecordError(
                    f"{self.path}: pass {key} cannot be written: its benchmark, "
                    "question_id or arm holds half of a surrogate pair; give it a name "
                    "that is text"
                )
            if key in self.done:
                raise RecordError(
                    f"{self.path}: pass {key} is recorded already; write into another "
                    "folder"
                )
            self._check_video(key, record)
            self._append_line(dump(record))
            self._add(key, record)
        if time.monotonic() - self._last_fsync_s >= self._fsync_every_s:
            self._fsync()
            self._last_fsync_s = time.monotonic()

    def _check_video(self, key: PassKey, record: Mapping[str, Any]) -> None:
        """Refuse a pass of another file than the others of its question."""
        digest = record.get("video_digest")
        known = self.digests.get(key[:2], digest)
        if digest is not None and digest != known:
            raise RecordError(
                f"{self.path}: question {key[1]!r}: its video {record.get('video_id')} "
                f"is another file now: digest {known} -> {digest}; put the old file "
                "back, or choose another folder"
            )

    def _n_lines(self) -> str:
        return counted(len(self.done), "pass", "passes")

    def close(self) -> None:
        """Force everything to disk and let others write; safe to call twice."""
        super().close()
        self._lock.release()


def _still(recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Say what can be done with a run that other versions have made."""
    if recorded.get("settings") != wanted.get("settings"):
        return ()
    return (
        "report, compare and records check read the run with any versions; go on with "
        "those it was made with, or in another folder (no merge is of several)",
    )
