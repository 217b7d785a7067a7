"""A contender in a process of its own, so that none can hinder or stop another.

Libraries that are measured against each other bring their own FFmpeg, keep threads
alive, crash, or never return. Each gets a process; calls go to it one at a time and are
given up after a while.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # helpers that spin would be counted as work


class Failed(Exception):
    """A call that raised, crashed or did not return; the text says which."""


def told(error: BaseException) -> str:
    """The kind of an error and its first line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def serve(pipe: Connection, build: Callable[[], Any]) -> None:
    """In the child: build the object, then answer calls of its methods."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # what libraries print about bad files
    try:
        target = build()
    except Exception as error:
        pipe.send((False, told(error)))
        return
    pipe.send((True, None))
    with contextlib.suppress(EOFError):
        while True:
            method, arguments = pipe.recv()
            try:
                answer = (True, getattr(target, method)(*arguments))
            except Exception as error:
                answer = (False, told(error))
            pipe.send(answer)


class Worker:
    """The object that `build` makes, in another process."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._process: Any = None
        self._pipe: Any = None

    def call(self, method: str, *arguments: Any, timeout_s: float = 600) -> Any:
        """What the method returns there; `Failed` when it does not."""
        if self._process is None:
            self.start()
        self._pipe.send((method, arguments))
        return self._answer(timeout_s)

    def start(self) -> None:
        """Import and build; `Failed` when a library is missing."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, self._build), daemon=True
        )
        self._process.start()
        theirs.close()
        self._answer(300)

    def _answer(self, timeout_s: float) -> Any:
        if not self._pipe.poll(timeout_s):
            self.stop()
            raise Failed("TIMEOUT")
        try:
            good, value = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            process = self._process
            process.join()
            self.stop()
            raise Failed(f"crash, exit status {process.exitcode}") from None
        if not good:
            raise Failed(value)
        return value

    def stop(self) -> None:
        """End the process; the next call starts a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
