"""Commands that check, convert, merge, export and describe passes on disk."""

from __future__ import annotations

import typer

from phasefusion.cli.application import app

records = typer.Typer(
    no_args_is_help=True,
    help="Check, convert, merge, export and describe passes on disk.",
)
app.add_typer(records, name="records")


@records.callback()
def _records() -> None:
    pass
