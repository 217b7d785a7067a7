"""The Typer application, and what its commands share."""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

#: Exit status of a check that found a difference.
WRONG = 1
BAD_USE = 2

# An option of several commands means one thing in all of them: its help is the same up
# to the colon (tests/cli/test_options.py).
MARGIN_HELP = "Points that count as no difference, to +-."
ALPHA_HELP = "Error to allow: the level of the test, a fraction."
DELTA_HELP = "Chance of a greater error than allowed, a fraction."
CLUSTER_HELP = (
    "What dependent items share: auto is the video where several questions are about "
    "one, else the question. The output says which."
)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure how the sampling phase and the option order move a video model's "
    "multiple-choice answers, and remove the phase by fusing offset grids.",
    epilog="Examples:\n\nphasefusion demo\n\nphasefusion run questions.jsonl --model "
    "path/or/id --out runs/a\n\nphasefusion report runs/a --html",
)


class By(StrEnum):
    """What a grid divides equally."""

    frames = "frames"
    time = "time"


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
MarkdownFlag = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
SameScorer = Annotated[
    bool,
    typer.Option(
        "--same-scorer",
        help="Scorers that differ in the hash of their code alone are one.",
    ),
]
Budget = Annotated[int, typer.Option("--budget", "-b", help="Frames a pass.")]
Phases = Annotated[int, typer.Option("--phases", "-s", help="Offset grids.")]
Origin = Annotated[
    str, typer.Option(help="left, midpoint, or a fraction of a dense step such as 1/3.")
]


def examples(*lines: str) -> str:
    """Commands to show below the help of a command."""
    return "\n\n".join(["Examples:", *lines])


def one_line(text: str) -> str:
    r"""Show control characters, line ends among them, instead of printing them.

    Examples
    --------
    >>> print(one_line("no \x1b[31mfile"))
    no \x1b[31mfile
    """
    if text.isprintable():
        return text
    return "".join(
        repr(one)[1:-1] if unicodedata.category(one) == "Cc" else one for one in text
    )


def console() -> Console:
    """Make the console that tables are printed on.

    A width of 0, which a terminal that does not know its own may say, prints nothing.
    """
    from rich.console import Console

    made = Console(highlight=False)
    return made if made.width > 0 else Console(highlight=False, width=80)


def fraction_of_percent(
    name: str, value: float, least: float = 0, most: float = 100, *, closed: bool = True
) -> float:
    """Return what was typed in percent as a fraction, or say what it must be.

    Examples
    --------
    >>> fraction_of_percent("--rate", 60)
    0.6
    """
    if not (least <= value <= most if closed else least < value < most):
        ends = (
            f"{least:g} to {most:g}" if closed else f"above {least:g}, below {most:g}"
        )
        raise typer.BadParameter(f"{name} is {value:g}; it is in percent, {ends}")
    return value / 100


def print_table(
    title: str, columns: list[str], rows: list[list[str]], *, header: bool = True
) -> None:
    """Print cells as they are; brackets in them are no markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title_justify="left", show_header=header)
    table.title = Text(title)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console().print(table)
