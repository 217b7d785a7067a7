"""The report of the StableEval protocol: three numbers, defects, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phasefusion._wording import by_number, counted
from phasefusion.report.figures.costs import costs
from phasefusion.report.figures.defects import defects
from phasefusion.report.figures.stability import (
    DROP_BELOW,
    bank,
    drop_list,
    gap_list,
    stability_of,
    summary,
)
from phasefusion.report.figures.strata import strata
from phasefusion.report.figures.study import Study
from phasefusion.report.figures.table import FigureTable, shown


def stableeval(study: Study) -> list[FigureTable]:
    """Compute everything that a run of the protocol says about model and questions."""
    found = stability_of(study)
    if found is None:
        return []
    made = [
        summary(found),
        *defects(found),
        bank(found),
        drop_list(found),
        gap_list(found),
        *strata(found),
        costs(study),
    ]
    return [table for table in made if table.rows]


def sentences(
    consistency: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Say the three numbers and what follows.

    Parameters
    ----------
    consistency : mapping
        That section of a report.
    tables : sequence of mapping
        What `stableeval` gave, as `FigureTable.to_dict` has them.
    """
    by_title = {table["title"]: table["rows"] for table in tables}
    if "StableEval" not in by_title:
        return []
    parts = [
        f"{name} {shown(row['questions'], 'rate')} %"
        for name, row in zip(
            ("Mean Acc", "FPC", "OOC"), by_title["StableEval"], strict=True
        )
        if row["n"]
    ]
    found = [f"StableEval: {', '.join(parts)}{_rating(consistency)}."]
    rows = {row["questions"]: row["n"] for row in by_title.get("The question bank", ())}
    if rows.get("all judged"):
        n_drop, n_gaps = rows["to drop"], rows["wrong and stable"]
        found.append(
            f"{counted(n_drop, 'question')} of {rows['all judged']} "
            f"{by_number(n_drop, 'is', 'are')} to drop from the bank (FPC below "
            f"{DROP_BELOW:g}); {n_gaps} {by_number(n_gaps, 'is', 'are')} wrong and "
            "stable, which is what the model does not know."
        )
    return found


def _rating(consistency: Mapping[str, Any]) -> str:
    if consistency["rating"] is None:
        return "; not rated"
    at_fault = consistency["attribution"]
    where = "" if at_fault == "none" else f", inconsistency points to {at_fault}"
    return f"; rating {consistency['rating']}{where}"
