"""Printing and saving the report of a run, for every command that ends with one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion.cli.application import console
from phasefusion.errors import RecordError

if TYPE_CHECKING:
    from phasefusion.report import Report


def show_report(
    run: Path,
    folder: Path | None,
    as_json: bool,
    page: dict[str, Any] | None = None,
    against: Path | None = None,
) -> Report:
    """Write the files of a report and print it, and warn of what is missing."""
    from phasefusion.records.files import passes_path
    from phasefusion.report import report as make_report
    from phasefusion.report.missing import missing_sentence, unfinished_sentence

    made = make_report(run, against=against)
    for sentence in (unfinished_sentence, missing_sentence):
        said = sentence(made.numbers["items"])
        if said:
            print(f"phasefusion: warning: {said}", file=sys.stderr)
    paths: tuple[Path, ...] = ()
    try:
        paths = made.save(folder or passes_path(run).parent)
    except RecordError as error:  # a run that may only be read can be reported too
        if folder is not None:
            raise
        print(f"phasefusion: warning: {error}", file=sys.stderr)
    if page is not None:
        paths = (*paths, made.save_html(run, folder, **page))
    if as_json:
        print(json.dumps(made.to_dict(), allow_nan=False))
        return made
    screen = console()
    screen.print(made)
    if paths:
        screen.print("written: " + ", ".join(map(str, paths)), soft_wrap=True)
    return made
