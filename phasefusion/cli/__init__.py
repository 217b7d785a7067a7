"""The phasefusion command."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from phasefusion.cli import auditing as auditing
from phasefusion.cli import calibrating as calibrating
from phasefusion.cli import capacity as capacity
from phasefusion.cli import comparing as comparing
from phasefusion.cli import explaining as explaining
from phasefusion.cli import gating as gating
from phasefusion.cli import goals as goals
from phasefusion.cli import importing as importing
from phasefusion.cli import monitoring as monitoring
from phasefusion.cli import planning as planning
from phasefusion.cli import protocols as protocols
from phasefusion.cli import questions as questions
from phasefusion.cli import records as records
from phasefusion.cli import reparsing as reparsing
from phasefusion.cli import running as running
from phasefusion.cli import sharding as sharding
from phasefusion.cli import showing as showing
from phasefusion.cli import simulating as simulating
from phasefusion.cli._typed import as_typed, empty_word
from phasefusion.cli.application import BAD_USE, app, one_line
from phasefusion.errors import PhaseFusionError, PhaseFusionWarning

__all__ = ["app", "main"]


#: What every usage error is, in every Typer.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]
_INTERRUPTED = 130
_HINTS = {
    errno.ENOENT: "check the path",
    errno.EACCES: "check who may read and write it",
    errno.EPERM: "check who may read and write it",
    errno.EROFS: "name a place that can be written to",
    errno.EISDIR: "name a file, not a folder",
    errno.ENOTDIR: "name a folder, not a file",
    errno.EEXIST: "remove it, or name another place",
    errno.ENOSPC: "make room, or name another place",
    errno.ENAMETOOLONG: "give it a shorter name",
}


def _version(wanted: bool) -> None:
    if wanted:
        from phasefusion.info import build_lines

        print(*build_lines(), sep="\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Show the version and how it was built.",
        ),
    ] = False,
) -> None:
    pass


def _show_warning(plain: Callable[..., None]) -> Callable[..., None]:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        *rest: Any,
        **more: Any,
    ) -> None:
        if issubclass(category, PhaseFusionWarning):
            lines = map(one_line, f"phasefusion: warning: {message}".split("\n"))
            print(*lines, sep="\n    ", file=sys.stderr)
        else:
            plain(message, category, filename, lineno, *rest, **more)

    return show


def main() -> None:
    """Run the command; bad input is one line on stderr and exit status 2."""
    warnings.showwarning = _show_warning(warnings.showwarning)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be text
        sys.stdout.reconfigure(errors="backslashreplace")
    nothing = empty_word(sys.argv[1:])
    if nothing is not None:
        _fail(f"{nothing}; name what is meant, or leave it out")
    try:
        status = app(standalone_mode=False, prog_name="phasefusion")
    except PhaseFusionError as error:
        _fail(as_typed(error, _invoked()))
    except _UsageError as error:
        _fail_usage(error)
    except Warning as error:  # PYTHONWARNINGS=error, or python -W error
        _fail(f"{error}; {type(error).__name__} was to be an error")
    except (typer.Abort, KeyboardInterrupt):
        print("phasefusion: stopped", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = _HINTS.get(error.errno or 0)
        said = error.strerror or str(error)
        _fail(where + said + (f"; {hint}" if hint else ""))
    else:
        if isinstance(status, int) and status:
            sys.exit(status)


def _invoked() -> Any:
    """Return the command that was named, with its options."""
    command: Any = typer.main.get_command(app)
    for word in sys.argv[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def _fail_usage(error: Any) -> NoReturn:
    """Say what was wrong with the words of the command, and where to look."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help was shown
        sys.exit(BAD_USE)
    said = error.format_message().removesuffix(".").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    if context is not None:
        said += f"; see {context.command_path} --help"
    _fail(said)


def _fail(message: str) -> NoReturn:
    first, *more = (line.strip() for line in message.strip().splitlines() or [""])
    if "Traceback (most recent call last):" in more:  # of a worker of another machine
        print(*map(one_line, message.splitlines()), sep="\n", file=sys.stderr)
    elif more:
        first += (" " if first.endswith(":") else "; ") + "; ".join(more)
    print(f"phasefusion: error: {one_line(first)}", file=sys.stderr)
    sys.exit(BAD_USE)
