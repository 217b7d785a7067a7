"""How far a run has come: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with passes done, passes in all, and what is being worked on.
Listener = Callable[[int, int, str], None]
Advance = Callable[[int, str], None]

_LINE_EVERY_S = 30.0


@contextmanager
def follow(
    total: int, done: int, show: bool | Listener | None, unit: str = "passes"
) -> Iterator[Advance]:
    """Follow the passes of a run, or the parts of other work.

    Parameters
    ----------
    total, done : int
        Passes in all, and those that were there before.
    show : bool, callable or None
        None shows a bar in a notebook or on a terminal that can move its cursor, and
        elsewhere a plain line on stderr every half minute; False shows nothing; a
        callable gets the numbers.
    unit : str, default "passes"
        What is counted.

    Yields
    ------
    callable
        ``advance(n_passes, label)``.
    """
    if callable(show):
        yield _counting(total, done, show)
    elif show is False:
        yield lambda n_passes, label: None
    else:
        from rich.console import Console

        console = Console(stderr=True)
        able = console.is_terminal and not console.is_dumb_terminal
        if able or console.is_jupyter:
            with _bar(console, total, done, unit) as advance:
                yield advance
        else:
            yield _counting(total, done, _lines(done, unit))


def _counting(total: int, done: int, listener: Listener) -> Advance:
    def advance(n_passes: int, label: str) -> None:
        nonlocal done
        done += n_passes
        listener(done, total, label)

    return advance


def _lines(done_before: int, unit: str) -> Listener:
    start_s = last_s = time.monotonic()

    def listener(done: int, total: int, label: str) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s < _LINE_EVERY_S:
            return
        last_s = now_s
        rate = (done - done_before) / (now_s - start_s)
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 else ""
        line = f"phasefusion: {done} of {total} {unit}, {rate:.1f}/s{left} ({label})"
        print(line, file=sys.stderr, flush=True)

    return listener


@contextmanager
def _bar(console: object, total: int, done: int, unit: str) -> Iterator[Advance]:
    from rich import progress as bars

    columns = (
        bars.TextColumn(unit),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(),
        bars.TextColumn("[dim]{task.fields[label]}"),
    )
    with bars.Progress(*columns, console=console, transient=True) as bar:  # type: ignore[arg-type]
        task = bar.add_task("", total=total, completed=done, rate="", label="")

        def advance(n_passes: int, label: str) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:.1f}/s" if speed else ""
            bar.update(task, advance=n_passes, label=label, rate=rate)

        yield advance
