"""Files of lines that one process at a time appends to, safe against crashes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from phasefusion.errors import RecordError
from phasefusion.records.files import LOCK_FILE
from phasefusion.records.lines import PassLines, Row


class Appender:
    """Append lines to a file, each by one system call.

    So a crash can tear the last line only; `_whole_rows` finds such a line and cuts it
    off with a RecordWarning.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self._end_bytes = 0

    def _open(self) -> None:
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def _whole_rows(self) -> Iterator[tuple[int, Row]]:
        """Yield what is there with the numbers of its lines; then lines can follow."""
        lines = PassLines(self.path, complete_last=True)
        yield from lines.numbered_rows()
        self._end_bytes = lines.whole_bytes
        if lines.torn_bytes:
            lines.warn_torn("made again")
            os.ftruncate(self._fd, self._end_bytes)

    def _append_line(self, line: bytes) -> None:
        try:
            n_written = os.write(self._fd, line)
            while n_written < len(line):  # a full disk takes what fits, then refuses
                n_written += os.write(self._fd, line[n_written:])
        except OSError as error:
            os.ftruncate(self._fd, self._end_bytes)
            raise self._not_written(error) from error
        self._end_bytes += len(line)

    def _fsync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._not_written(error) from error

    def _n_lines(self) -> str:
        """Say how much is on disk, such as "3 passes"."""
        raise NotImplementedError

    def _not_written(self, error: OSError) -> RecordError:
        return RecordError(
            f"{self.path}: cannot be written: {error.strerror}. What is in it "
            f"({self._n_lines()}) is whole. Make room (or raise the file size limit) "
            "and start the same command again: it goes on from there"
        )

    def close(self) -> None:
        """Force everything to disk and let others write; safe to call twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # append has reported a full disk
                os.fsync(fd)
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def lock(fd: int) -> bool:
    """Take the lock of an open file for this process; tell whether it was free."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class RunLock:
    """The lock of a run folder, which is made, for this process alone.

    Raises
    ------
    OSError
        If it cannot be written.
    RecordError
        If another process is writing the run.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._made = [
            one for one in (self._path, *self._path.parents) if not os.path.lexists(one)
        ]
        self._fd = -1
        try:
            self._take(folder)
        except BaseException:
            self.take_back()
            raise

    def _take(self, folder: Path) -> None:
        while self._fd < 0:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            if not lock(self._fd):
                owner = os.read(self._fd, 64).decode(errors="replace").strip()
                self.release()
                raise RecordError(
                    f"{folder}: process {owner or 'unknown'} is writing this run; "
                    "wait for it to end, or choose another folder"
                )
            if not self._is_there():
                self.release()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _is_there(self) -> bool:
        """Whether others would find what is locked: it can have been taken back."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let others write; safe to call twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def take_back(self) -> None:
        """Release it, and leave no file or empty folder that was not there before."""
        # What has been written there stays, and so does the lock of another process.
        with contextlib.suppress(OSError):
            for one in self._made:
                if one != self._path:
                    one.rmdir()
                elif self._fd >= 0:
                    one.unlink()
        self.release()


@contextlib.contextmanager
def locked_run(folder: Path) -> Iterator[None]:
    """Keep others from writing a run folder, which is made.

    After an error there is nothing in it, nor the folder, but what was written there.

    Raises
    ------
    RecordError
        If another process is writing the run, or it cannot be written.
    """
    try:
        lock = RunLock(folder)
    except OSError as error:
        raise RecordError(f"{folder}: cannot be written: {error}") from error
    try:
        yield
    except BaseException:
        lock.take_back()
        raise
    lock.release()
