"""The figure that each protocol is for, computed from its passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from phasefusion.protocols import PROTOCOLS
from phasefusion.records import Passes
from phasefusion.report.figures import (
    adaptive,
    allocation,
    anchored,
    frames,
    general,
    orders,
    stableeval,
    stress,
    views,
)
from phasefusion.report.figures.study import Study
from phasefusion.report.figures.table import FigureTable, sections

__all__ = ["FIGURES", "FigureTable", "Study", "figure", "sections"]

#: By protocol; those that are not named have the general report as their figure.
FIGURES: Mapping[str, Callable[[Study], list[FigureTable]]] = {
    "phasefusion": general.phasefusion,
    "stableeval": stableeval.stableeval,
    "anchored": anchored.anchored,
    "latin": views.ensemble,
    "fast-ensemble": views.ensemble,
    "confidence-guided": views.confidence_guided,
    "stress": stress.stress,
    "adaptive": adaptive.adaptive,
    "unlabelled": orders.unlabelled,
    "blind": orders.blind,
    "pride": orders.pride_figure,
    "permutations": orders.permutations,
    "four-votes": orders.four_votes,
    "reruns": frames.reruns,
    "random-draws": frames.random_draws,
    "phase-sweep": frames.phase_sweep,
    "budget-sweep": frames.budget_sweep,
    "sampler-sweep": frames.sampler_sweep,
    "phase-counts": frames.phase_counts,
    "margin": allocation.margin,
    "oracle": allocation.oracle,
}

#: Of these the general report comes first.
_FURTHER = frozenset({"phasefusion"})


def figure(passes: Passes, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Compute the figure of a run's protocol.

    Parameters
    ----------
    passes : Passes
    settings : mapping
        Of run.json.

    Returns
    -------
    dict or None
        "reproduces", "section" (of the paper), "is_further" (whether the general
        tables come first) and "tables", JSON-able but for NaN; None for protocols whose
        figure is the general report.
    """
    name = settings.get("protocol")
    compute = FIGURES.get(name) if isinstance(name, str) else None
    if compute is None or name not in PROTOCOLS:
        return None
    protocol = PROTOCOLS[name]
    study = Study(passes, settings)
    tables = [_with_intervals(table, study) for table in compute(study)]
    return {
        "reproduces": protocol.figure,
        "section": protocol.section,
        "is_further": name in _FURTHER,
        "tables": [table.to_dict() for table in tables],
    }


def _with_intervals(table: FigureTable, study: Study) -> FigureTable:
    """Name the intervals of a table of rates that does not say itself what they are."""
    has_rates = any(kind == "rate" for _, kind in table.columns)
    if not has_rates or "clustered by video" in table.note or "Wilson" in table.note:
        return table
    return replace(table, note=f"{table.note} {study.rates.intervals}.".lstrip())
