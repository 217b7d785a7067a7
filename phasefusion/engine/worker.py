"""A worker's half of a run: it scores what it is given and sends passes as they come.

It knows no Ray: `Worker.work` is a generator of events, which any transport can carry.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from phasefusion import errors
from phasefusion._runner import Runner
from phasefusion._scorer_checks import check_scorer
from phasefusion._versions import versions
from phasefusion.datasets import Item
from phasefusion.engine.scorers import Prepared, prepare
from phasefusion.engine.spec import ScorerFactory
from phasefusion.errors import PhaseFusionError, PhaseFusionWarning, ScoringError
from phasefusion.records import PassKey, pass_key

if TYPE_CHECKING:
    from phasefusion.protocols import Plan

#: Events that wait to be taken; a worker that is ahead by more waits itself.
_ROOM = 4


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error or a warning on its way to another process.

    Attributes
    ----------
    kind : str
        Name of the class in `phasefusion.errors`, or of any other.
    text : str
    details : str
        The traceback of an error.
    """

    kind: str
    text: str
    details: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Trouble:
        """Take down an error."""
        text = " ".join(str(error).split())
        return cls(type(error).__name__, text, traceback.format_exc())

    def error(self, where: str) -> PhaseFusionError:
        """Return an error of the same class, saying where it came from."""
        found = getattr(errors, self.kind, None)
        if isinstance(found, type) and issubclass(found, PhaseFusionError):
            return found(f"{where}: {self.text}")
        return ScoringError(f"{where}: {self.kind}: {self.text}\n{self.details}")


@dataclass(frozen=True, slots=True)
class Event:
    """What a worker says.

    Attributes
    ----------
    kind : {"opened", "begins", "passes", "failed"}
        The video is decoded; a question is about to be scored; passes were scored;
        scoring cannot go on.
    records : list of dict
        Passes, as they go to disk.
    warnings : list of Trouble
        Given since the last event.
    trouble : Trouble or None
        Why it failed.
    question : tuple of str
        Benchmark and id of the question that is about to be scored.
    """

    kind: Literal["opened", "begins", "passes", "failed"]
    records: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[Trouble] = field(default_factory=list)
    trouble: Trouble | None = None
    question: tuple[str, str] = ("", "")


class _LeftAlone(Exception):
    """Nobody takes the events any more."""


class Mailbox:
    """What a `Runner` takes for the writer of its run; it sends what is appended.

    Parameters
    ----------
    done, n_phases
        What is on disk of the items that are worked on, as `RunWriter` has it.
    room : int
        Events that may wait.
    is_careful : bool
        Whether an event must have been taken before scoring goes on.
    """

    def __init__(
        self,
        done: Iterable[PassKey],
        n_phases: Mapping[tuple[Any, ...], int],
        room: int = _ROOM,
        *,
        is_careful: bool = False,
    ) -> None:
        self.done = set(done)
        self.n_phases = dict(n_phases)
        self.warnings: list[Trouble] = []
        self._room = room
        self._is_careful = is_careful
        self._is_asked = False  # whether the taker has come back for more
        self._events: deque[Event | None] = deque()
        self._is_closed = False
        self._changed = threading.Condition()

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Send passes; what was scored before one that is refused is sent, too."""
        rows: list[dict[str, Any]] = []
        try:
            for record in records:
                key = pass_key(record)
                self.done.add(key)
                self.n_phases[key[:4]] = int(record["n_phases"])
                rows.append(dict(record))
        finally:
            if rows:
                self.send(Event("passes", rows, self._warned()))

    def opened(self) -> None:
        """Say that the video is decoded."""
        self.send(Event("opened", warnings=self._warned()))

    def begins(self, item: Item) -> None:
        """Say which question is about to be scored."""
        question = (item.benchmark, item.question_id)
        self.send(Event("begins", warnings=self._warned(), question=question))

    def fail(self, error: BaseException) -> None:
        """Say that scoring cannot go on."""
        self.send(Event("failed", warnings=self._warned(), trouble=Trouble.of(error)))

    def end(self) -> None:
        """Say that there is nothing more."""
        if self.warnings:
            self.send(Event("passes", warnings=self._warned()))
        self.send(None)

    def _warned(self) -> list[Trouble]:
        given = self.warnings.copy()
        self.warnings.clear()
        return given

    def send(self, event: Event | None) -> None:
        """Wait for room and put an event, None being the end, into it."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) < self._room)
            if self._is_closed:
                raise _LeftAlone
            self._events.append(event)
            self._is_asked = False
            self._changed.notify_all()
            if self._is_careful and event is not None:
                self._changed.wait_for(lambda: self._is_asked or self._is_closed)

    def close(self) -> None:
        """Take nothing any more; the runner stops at its next pass."""
        with self._changed:
            self._is_closed = True
            self._events.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Event]:
        while (event := self._next()) is not None:
            yield event

    def _next(self) -> Event | None:
        with self._changed:
            self._is_asked = not self._events
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._events)
            event = self._events.popleft()
            self._changed.notify_all()
            return event


class Worker:
    """A scorer in a process of its own.

    Parameters
    ----------
    factory : callable
        Makes the scorer.
    """

    def __init__(self, factory: ScorerFactory) -> None:
        self._factory = factory
        self._prepared = Prepared(None, {}, {})

    def start(self, plan: Plan) -> dict[str, Any] | Trouble:
        """Make the scorers of a plan; say what they are and where, or why not."""
        try:
            made = self._factory()
            check_scorer(made)
            self._prepared = prepare(made, plan)
        except Exception as error:  # whatever a model can come up with
            return Trouble.of(error)
        return {
            "scorers": self._prepared.facts,
            "versions": versions(),
            "place": {"node": platform.node(), "pid": os.getpid()},
        }

    def work(
        self,
        runner: Runner,
        items: Sequence[Item],
        done: Iterable[PassKey],
        n_phases: Mapping[tuple[Any, ...], int],
        is_careful: bool = False,
    ) -> Iterator[Event]:
        """Score what is missing of the items of one video.

        Scoring goes on while events are on their way, in a thread of its own, until
        `_ROOM` of them wait. With `is_careful` every question is announced, alone in
        its call of the scorer, and nothing goes on before it was heard: who listens
        knows what a worker was at when it dies.
        """
        mailbox = Mailbox(done, n_phases, is_careful=is_careful)
        writer: Any = mailbox
        ours = replace(
            runner,
            scorer=self._prepared.scorer,
            variants=self._prepared.variants,
            writer=writer,
            opened=mailbox.opened,
            begins=mailbox.begins if is_careful else None,
        )
        thread = threading.Thread(target=_score, args=(ours, items, mailbox))
        thread.start()
        try:
            yield from mailbox
        finally:
            mailbox.close()
            thread.join()


def _score(runner: Runner, items: Sequence[Item], mailbox: Mailbox) -> None:
    with contextlib.suppress(_LeftAlone):
        try:
            with _hook.caught(mailbox.warnings):
                runner.run_video(items, lambda n_passes, label: None)
        except _LeftAlone:
            raise
        except Exception as error:
            mailbox.fail(error)
        finally:
            mailbox.end()


class _Hook:
    """In place of `warnings.showwarning` while any thread of ours is scoring."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: dict[int, list[Trouble]] = {}
        self._plain: Any = None

    @contextlib.contextmanager
    def caught(self, given: list[Trouble]) -> Iterator[None]:
        """Take our warnings of this thread down; others go where they always went."""
        thread = threading.get_ident()
        with self._lock:
            if not self._given:
                self._plain, warnings.showwarning = warnings.showwarning, self._show
            self._given[thread] = given
        try:
            yield
        finally:
            with self._lock:
                del self._given[thread]
                if not self._given:
                    warnings.showwarning = self._plain

    def _show(
        self, message: Any, category: type[Warning], *rest: Any, **more: Any
    ) -> None:
        given = self._given.get(threading.get_ident())
        if given is not None and issubclass(category, PhaseFusionWarning):
            given.append(Trouble(category.__name__, str(message)))
        else:
            self._plain(message, category, *rest, **more)


_hook = _Hook()
