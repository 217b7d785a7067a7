"""Reports in a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from phasefusion.report.headline import headline, title
from phasefusion.report.sections import TEXT_COLUMNS, Section, sections
from phasefusion.stats._answers import half_up


def render(numbers: Mapping[str, Any], timing: Mapping[str, Any]) -> RenderableType:
    """Lay a report out for a terminal.

    Parameters
    ----------
    numbers, timing : mapping
        As in `Report`.

    Returns
    -------
    rich renderable
    """
    parts: list[RenderableType] = [Text(title(numbers), style="bold")]
    parts += [Text(f"  {line}") for line in headline(numbers)]
    parts += [part for one in sections(numbers) for part in ("", *_section(one))]
    parts += ["", Text("Sampling", style="bold"), Text(numbers["card"]["text"])]
    seconds = _seconds(timing)
    if seconds:
        parts += ["", Text(seconds, style="dim")]
    return Group(*parts)


def _section(section: Section) -> list[RenderableType]:
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style=""
    )
    for i, column in enumerate(section.columns):
        wide = column in TEXT_COLUMNS  # as narrow as it must be, but nothing is cut
        justify: Literal["left", "right"] = "left" if i == 0 or wide else "right"
        table.add_column(column, justify=justify, overflow="fold")
    for row in section.rows:
        table.add_row(*map(Text, row))
    parts: list[RenderableType] = [Text(section.title, style="bold"), table]
    if section.note:
        parts.append(Text(section.note, style="dim"))
    return parts


def _seconds(timing: Mapping[str, Any]) -> str:
    parts = [
        f"{arm} {values['per_pass_s']:.3g} s a pass, "
        f"{half_up(values['total_s'], 0)} s in all"
        for arm, values in timing.items()
        if not math.isnan(values["per_pass_s"])
    ]
    return f"Scoring took: {'; '.join(parts)}." if parts else ""
