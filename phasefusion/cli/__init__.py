"""The phasefusion command."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

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
from phasefusion.cli.application import BAD_USE, app
from phasefusion.errors import PhaseFusionError, PhaseFusionWarning

__all__ = ["app", "main"]


def _version(wanted: bool) -> None:
    if wanted:
        from phasefusion import __version__

        print(f"phasefusion {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show it."),
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
            print(f"phasefusion: warning: {message}", file=sys.stderr)
        else:
            plain(message, category, filename, lineno, *rest, **more)

    return show


def main() -> None:
    """Run the command; bad input is one line on stderr and exit status 2."""
    warnings.showwarning = _show_warning(warnings.showwarning)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files need not be text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except PhaseFusionError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of our output has gone, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> None:
    print(f"phasefusion: error: {message}", file=sys.stderr)
    sys.exit(BAD_USE)
