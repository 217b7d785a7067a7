"""Claims about results, checked: what a text states against what runs and files hold.

A claims file says what is printed where, and how it is computed: arithmetic among
printed figures, a statistic of `phasefusion.stats`, a number of a report, or an entry
of a results file. Every claim gets a verdict and its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasefusion._paths import run_path
from phasefusion._results import plain_text
from phasefusion.audit.claims import SHIPPED, VERDICTS, Claim, Claims, load_claims
from phasefusion.audit.drafting import draft
from phasefusion.audit.figures import Figure, parse_figure
from phasefusion.audit.reading import nearest
from phasefusion.audit.sources import Source
from phasefusion.audit.verdicts import UNKNOWN, Outcome, Result, judge
from phasefusion.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "SHIPPED",
    "VERDICTS",
    "Audit",
    "Claim",
    "Claims",
    "Figure",
    "Outcome",
    "Result",
    "audit",
    "draft",
    "load_claims",
    "parse_figure",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audit:
    """Every claim of a file with its verdict.

    It prints as a table in a terminal (``rich.print``) and in a notebook.

    Attributes
    ----------
    claims : Claims
    results : tuple of Result
        In the order of the file.
    """

    claims: Claims
    results: tuple[Result, ...]

    @property
    def surprises(self) -> tuple[Result, ...]:
        """Claims whose verdict is not the expected one.

        A claim over runs or files that cannot be computed is in `unknown` instead.
        """
        return tuple(
            one for one in self.results if not one.as_expected and not _lacks(one)
        )

    @property
    def unknown(self) -> tuple[Result, ...]:
        """Claims over runs and files that could not be computed but should."""
        return tuple(one for one in self.results if _lacks(one))

    @property
    def counts(self) -> dict[str, int]:
        """Number of claims by verdict."""
        verdicts = [one.verdict for one in self.results]
        return {name: verdicts.count(name) for name in VERDICTS if name in verdicts}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        from phasefusion.audit.rendering import to_dict

        return to_dict(self)

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        from phasefusion.audit.rendering import to_markdown

        return to_markdown(self)

    def __rich__(self) -> RenderableType:
        from phasefusion.audit.rendering import to_rich

        return to_rich(self)

    def __str__(self) -> str:
        return plain_text(self, width=100)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {name}" for name, n in self.counts.items())
        return f"Audit({self.claims.name}: {counts})"

    def _repr_html_(self) -> str:
        from phasefusion.audit.rendering import to_html

        return to_html(self)


def _lacks(result: Result) -> bool:
    expected = result.as_expected or not result.from_runs
    return result.verdict == UNKNOWN and not expected


def audit(
    claims: Claims | str | Path,
    runs: Mapping[str, Any] | None = None,
    *,
    only: Iterable[str] | None = None,
) -> Audit:
    """Check the claims of a file.

    Parameters
    ----------
    claims : Claims, str or Path
        A claims file; "paper" and "stableeval" are shipped.
    runs : mapping of str to path or Run, optional
        Runs and files by the names that the claims file gives them: run folders,
        ``passes.jsonl``, ``report.json``, and results as JSON, JSON lines, CSV or TSV.
        They take precedence over the paths in the file.
    only : iterable of str, optional
        Patterns of claim ids, such as "tost.*"; all by default.

    Returns
    -------
    Audit

    Raises
    ------
    AuditError
        If the claims file cannot be; the message names the line and the claim.
    UsageError
        If a run is given that the file does not name, or no claim is wanted.
    FileNotFoundError
        If there is no such claims file, or a given run does not exist.

    Examples
    --------
    >>> audit("paper", only=["circular.*"])
    Audit(paper: 2 agrees)
    """
    from fnmatch import fnmatchcase

    if not isinstance(claims, Claims):
        claims = load_claims(claims)
    sources = _sources(claims, runs or {})
    wanted = list(claims.claims)
    if only is not None:
        patterns = [only] if isinstance(only, str) else list(only)
        wanted = [c for c in wanted if any(fnmatchcase(c.id, p) for p in patterns)]
        if not wanted:
            raise UsageError(
                f"no claim of {claims.name} is called {' or '.join(patterns)}: "
                f"{nearest(patterns[0], [c.id for c in claims.claims])}"
            )
    return Audit(claims, tuple(judge(one, claims, sources) for one in wanted))


def _sources(claims: Claims, runs: Mapping[str, Any]) -> dict[str, Source]:
    found = {
        name: Source(name, path)
        for name, path in claims.runs.items()
        if path is not None
    }
    for name, run in runs.items():
        if name not in claims.runs:
            raise UsageError(
                f"{claims.name} names no run {name!r}: {nearest(name, claims.runs)}"
            )
        path = run_path(f"runs[{name!r}]", run)
        if not path.exists():
            raise FileNotFoundError(
                2, f"no such run or file, given as {name}", str(path)
            )
        found[name] = Source(name, path)
    return found
