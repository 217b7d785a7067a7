"""Reports of runs: every statistic as numbers, text, Markdown and HTML."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from phasefusion._checks import warn
from phasefusion._install import remedy
from phasefusion._paths import path_of, run_path
from phasefusion._results import plain_text
from phasefusion._whole import replace_file, replace_text
from phasefusion._wording import Argument, counted, unwritten
from phasefusion.errors import FallbackWarning, RecordError, UsageError
from phasefusion.records import _json as records_json
from phasefusion.records import iter_passes, read_passes
from phasefusion.records.files import IMPORTED, described_run

if TYPE_CHECKING:
    from rich.console import RenderableType

    from phasefusion.records import Passes
    from phasefusion.report.table import Table

__all__ = ["Report", "report"]

JSON_FILE = "report.json"
MARKDOWN_FILE = "report.md"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report:
    """Everything that was measured on a run.

    It prints as tables in a terminal (``rich.print``) and in a notebook.

    Attributes
    ----------
    numbers : dict
        By section. Rates are fractions of one, differences of accuracies are points
        (hundredths), margins are nats, and NaN is what is not defined, such as the
        flip rate of an item with one pass. It does not depend on when or in how many
        pieces the run was made.
    timing : dict
        Seconds of scoring by arm.
    """

    numbers: dict[str, Any]
    timing: dict[str, Any]

    @property
    def fpc(self) -> float:
        """Frame-phase consistency: chance that two phases agree, mean over items."""
        value: float = self.numbers["consistency"]["fpc"]["pairwise"]["value"]
        return value

    @property
    def ooc(self) -> float:
        """Option-order consistency: chance that two orders agree, mean over items."""
        value: float = self.numbers["consistency"]["ooc"]["pairwise"]["value"]
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and timing as JSON values; NaN is None."""
        found: dict[str, Any] = orjson.loads(self._json())
        return found

    def to_markdown(self) -> str:
        """Return the report as a Markdown text, without timing."""
        from phasefusion.report.markdown import render

        return render(self.numbers)

    def save(self, folder: str | Path) -> tuple[Path, Path]:
        """Write ``report.json`` and ``report.md``.

        Parameters
        ----------
        folder : str or Path
            Made when it does not exist.

        Returns
        -------
        paths : tuple of Path
            Of the two files.

        Raises
        ------
        RecordError
            If they cannot be written.
        """
        folder = path_of("folder", folder, "a folder")
        paths = folder / JSON_FILE, folder / MARKDOWN_FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(paths[0], self._json())
            replace_text(paths[1], self.to_markdown())
        except OSError as error:
            raise RecordError(unwritten(folder, error)) from error
        return paths

    def save_html(
        self, run: Any, folder: str | Path | None = None, **options: Any
    ) -> Path:
        """Write ``report.html``, one page that works offline.

        Parameters
        ----------
        run : Run, str or Path
            The run that this is the report of.
        folder : str or Path, optional
            Where the page goes; the folder of the passes by default.
        **options
            ``questions``, ``n_strips`` and ``inline_bytes`` of
            `phasefusion.report.html.write_html`, which also says what is raised.

        Returns
        -------
        path : Path
        """
        from phasefusion.report.html import write_html

        where = run_path("run", run)
        if where.suffix == ".html" and not where.exists():
            raise UsageError(
                f"{where}: save_html takes the run first, whose frames it shows, and "
                "then the folder of the page: report.save_html(run, folder)"
            )
        if importlib.util.find_spec("matplotlib") is None:
            warn(
                f"the page has no plots: {remedy('matplotlib')}, then make it again",
                FallbackWarning,
            )
        return write_html(where, self.numbers, folder, **options)

    def _json(self) -> bytes:
        numbers = self.numbers | {"timing": self.timing}
        return records_json.dumps(numbers, indent=True) + b"\n"

    def __rich__(self) -> RenderableType:
        from phasefusion.report.text import render

        return render(self.numbers, self.timing)

    def __str__(self) -> str:
        return plain_text(self)

    def __repr__(self) -> str:
        items = self.numbers["items"]
        n_items = counted(items["with_passes"], "item")
        n_passes = counted(items["passes"], "pass", "passes")
        return (
            f"Report({self.numbers['protocol']}, {n_items}, {n_passes}, "
            f"fpc={self.fpc:.4f}, ooc={self.ooc:.4f})"
        )

    def _repr_html_(self) -> str:
        from phasefusion.report.markdown import render_html

        return render_html(self.numbers)


def report(run: Any, *, against: Any = None) -> Report:
    """Compute every statistic of a run, finished or not.

    Parameters
    ----------
    run : Run, str or Path
        What `evaluate` returned, a run folder, or a file of passes. Without run.json
        the protocol is "recorded", and the report names no grid.
    against : Run, str or Path, optional
        Another run: what was set, installed and asked differently there, and its main
        numbers beside those of this one.

    Returns
    -------
    Report

    Raises
    ------
    FileNotFoundError
        If there is no run.
    RecordError
        If its files are damaged, or hold no pass yet.
    UsageError
        If `run` or `against` is neither a run nor a path.
    """
    from phasefusion.report.environment import against as compare_with
    from phasefusion.report.summary import timing

    described, passes, numbers = _read(run)
    if against is not None:
        _refuse_itself(run, against)
        other, theirs, others = _read(against)
        numbers["against"] = compare_with(
            described, other, numbers, others, (passes.items, theirs.items)
        )
    return Report(numbers, timing(passes))


def _refuse_itself(run: Any, against: Any) -> None:
    if run_path("run", run).resolve() == run_path("against", against).resolve():
        raise UsageError(
            Argument("against"), " is the run itself, of which nothing differs"
        )


def _read(run: Any) -> tuple[dict[str, Any], Passes, dict[str, Any]]:
    """Return what describes a run, its passes and its numbers."""
    from phasefusion.report.table import build

    folder = run_path("run", run)
    described = described_run(folder)
    passes = read_passes(folder)
    if not len(passes):
        raise RecordError(f"{folder}: holds no passes yet; there is nothing to report")
    table = build(passes, described.get("settings", {}))
    return described, passes, numbers_of(folder, described, passes, table)


def numbers_of(
    folder: Path, run: Mapping[str, Any], passes: Passes, table: Table
) -> dict[str, Any]:
    """Compute all numbers of a report but its timing.

    Parameters
    ----------
    folder : Path
        The run folder, or its pass file.
    run : mapping
        ``run.json``, or what stands for it.
    passes : Passes
    table : Table
        The same passes by item.
    """
    from phasefusion.report.anchors import found_anchors
    from phasefusion.report.summary import summarise
    from phasefusion.report.videos import incomplete_videos

    numbers = summarise(run, passes, table)
    numbers["items"]["incomplete_videos"] = incomplete_videos(folder)
    settings = run.get("settings", {})
    if any("anchor" in arm for arm in settings.get("arms", ())):
        numbers["anchors"] = found_anchors(folder, passes, settings)
    if settings.get("protocol") == IMPORTED:
        from phasefusion.report.imported import imported

        numbers["imported"] = imported(list(iter_passes(folder)))
    return numbers
