"""The threshold of adaptive phases, from a run in which all phases were scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phasefusion._paths import run_path
from phasefusion._results import Result, plain_text
from phasefusion._wording import by_number, counted
from phasefusion.errors import RecordError, StatisticsError
from phasefusion.fusion import posterior
from phasefusion.records import read_passes
from phasefusion.records.files import read_run
from phasefusion.report.figures.study import ArmPasses, Study
from phasefusion.report.sections import percent
from phasefusion.stats import (
    AdaptiveCalibration,
    AdaptiveCurve,
    adaptive_curve,
    calibrate_adaptive,
    half_step_order,
    phase_order,
)

__all__ = ["Calibration", "calibrate"]

TARGETS = ("full", "half-step")


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(Result):
    """What adaptive phases would have cost and changed in a run, and a safe threshold.

    Attributes
    ----------
    certified : AdaptiveCalibration
    curve : AdaptiveCurve
        Of the same items: cost, changes and accuracy by threshold.
    n_phases : int
    orders : {"first", "all"}
        Which option orders the posteriors of a phase are of.
    n_questions : int or None
        That the run was to score, by its last start, or else those of the question
        file; None where run.json does not say.
    n_asked : int
        Questions that have a pass of a phase.
    n_missing : int
        Passes that these lack, of those that are used here. A question that lacks one
        is left out.
    """

    certified: AdaptiveCalibration
    curve: AdaptiveCurve
    n_phases: int
    orders: str
    n_questions: int | None
    n_asked: int
    n_missing: int

    @property
    def threshold(self) -> float:
        """In nats; NaN where nothing is certified."""
        return self.certified.threshold

    def rows(self) -> list[dict[str, Any]]:
        """One phase, the certified threshold and all phases, as JSON values."""
        curve, wanted = self.curve, {"one phase": len(self.curve.thresholds) - 1}
        if self.certified.certified:
            wanted["adaptive, certified"] = self.certified.certified - 1
        wanted[f"all {self.n_phases} phases"] = 0
        names = ("mean_phases", "disagreement", "changes", "accuracy")
        return [
            {
                "answers": label,
                "threshold": _threshold(curve.thresholds[j]),
                **{name: _finite(getattr(curve, name)[j]) for name in names},
            }
            for label, j in wanted.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; NaN is null, and infinity "inf"."""
        made, curve = self.certified, self.curve
        names = ("alpha", "delta", "target", "n", "n_clusters", "n_dropped", "n_min")
        by_threshold = ("thresholds", "mean_phases", "disagreement", "changes")
        return {
            "threshold": _threshold(made.threshold),
            "certified": made.certified,
            **{name: getattr(made, name) for name in names},
            "orders": self.orders,
            "phases": self.n_phases,
            "questions": self.n_questions,
            "asked": self.n_asked,
            "missing_passes": self.n_missing,
            "rows": self.rows(),
            "curve": {
                name: [
                    _threshold(value) if name == "thresholds" else _finite(value)
                    for value in getattr(curve, name)
                ]
                for name in (*by_threshold, "accuracy")
            },
        }

    def __repr__(self) -> str:
        return plain_text(self)

    def __rich__(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=box.SIMPLE_HEAD, title="Adaptive phases", title_justify="left"
        )
        table.add_column("answers")
        for name in ("nats", "phases", "not as all, %", "half a step, %", "right, %"):
            table.add_column(name, justify="right")
        for row in self.rows():
            nats = row["threshold"]
            table.add_row(
                row["answers"],
                "–" if nats is None else f"{float(nats):g}",
                "–" if row["mean_phases"] is None else f"{row['mean_phases']:.3f}",
                *(
                    "–" if row[name] is None else percent(row[name])
                    for name in ("disagreement", "changes", "accuracy")
                ),
            )
        said = " ".join(filter(None, (self.sentence(), self.unfinished())))
        return Group(table, Text(said))

    def unfinished(self) -> str:
        """Say what the run lacks, and what that does; "" where it is whole."""
        n_left = 0 if self.n_questions is None else self.n_questions - self.n_asked
        parts = []
        if n_left > 0:
            have = by_number(n_left, "has", "have")
            parts.append(
                f"{n_left} of {counted(n_left + self.n_asked, 'question')} {have} no "
                "pass"
            )
        if self.n_missing:
            are = by_number(self.n_missing, "is", "are")
            passes = counted(self.n_missing, "pass", "passes")
            parts.append(f"{passes} of the others {are} missing")
        if not parts:
            return ""
        return (
            f"The run is not whole: {' and '.join(parts)}. All of this is of the "
            f"{counted(self.certified.n, 'question')} that have every phase; the same "
            "command of phasefusion run goes on where it ended."
        )

    def sentence(self) -> str:
        """Say what is certified of what, or why nothing is."""
        made = self.certified
        of_what = (
            f"{counted(made.n, 'question')} in {counted(made.n_clusters, 'cluster')}, "
            f"{made.n_dropped} left out for missing phases"
        )
        promise = "answers that change with half a step"
        if made.target == "all phases":
            promise = "answers that differ from those of all phases"
        promise += (
            f": at most {100 * made.alpha:g} %, with confidence "
            f"{100 * (1 - made.delta):g} %"
        )
        if made.certified:
            return (
                f"Threshold {made.threshold:g} nats ({promise}; {of_what}). Of a "
                f"cluster drawn at random, {percent(made.risks[made.certified - 1])} % "
                "changed here on average; it holds for questions and videos drawn as "
                "these were, and this model. The table is by question, another mean "
                "where clusters differ in size."
            )
        why = "even all phases change too much, or the questions are too few to tell"
        if made.underpowered:
            why = f"at least {made.n_min} clusters are needed"
        return f"Nothing is certified ({promise}; {of_what}): {why}."


def _threshold(value: float) -> float | str | None:
    """Return a threshold as JSON: "inf" as run.json has it, null for none."""
    return "inf" if np.isposinf(value) else _finite(value)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def calibrate(
    run: Any,
    *,
    alpha: float = 0.05,
    delta: float = 0.1,
    target: Literal["full", "half-step"] = "full",
    orders: Literal["first", "all"] = "first",
    by_video: bool = True,
) -> Calibration:
    """Find the threshold from which the protocol "adaptive" may stop.

    Parameters
    ----------
    run : Run, str or Path
        With an arm of phases in which all of them were scored, such as one of
        "phasefusion" or "stableeval"; "half-step" needs their twins too, which only
        "phasefusion" has.
    alpha, delta : float
        As in `stats.calibrate_adaptive`.
    target : {"full", "half-step"}, default "full"
        What may change by at most `alpha`: the answer against that of all phases, or
        the adaptive answer against that half a step on.
    orders : {"first", "all"}, default "first"
        Whether questions will be asked in their given order, or in the orders of the
        run with posteriors averaged over them.
    by_video : bool, default True
        Whether questions of one video are one cluster, so that the promise is about
        videos; without it they count as independent.

    Returns
    -------
    Calibration

    Raises
    ------
    FileNotFoundError, RecordError
        If there is no run, it is damaged, or lacks the phases.
    StatisticsError
        If a level is not in (0, 1) or a name is none of those above.
    UsageError
        If `run` is neither a run nor a path.

    See Also
    --------
    evaluate : with ``protocol="adaptive"`` and the threshold
    """
    if target not in TARGETS or orders not in ("first", "all"):
        raise StatisticsError(
            f"target must be one of {TARGETS} and orders one of ('first', 'all'), they "
            f"are {target!r} and {orders!r}"
        )
    folder = run_path("run", run)
    described = read_run(folder)
    settings = described.get("settings", {})
    study = Study(read_passes(folder), settings)
    here, there = study.arm("phase"), study.arm("phase", shifted=True)
    if here is None or len(here.views) < 2:
        raise RecordError(
            f"{folder}: has no phases to choose among; run protocol phasefusion or "
            "stableeval with all phases that adaptive may ask for"
        )
    if target == "half-step" and there is None:
        raise RecordError(
            f"{folder}: has no phases half a step on; run protocol phasefusion"
        )
    s = len(here.views)
    order = phase_order(s)
    origin = Fraction(*settings["grid"]["origin"])
    twin = None if there is None else _posteriors(study, there, orders)
    common: dict[str, Any] = {
        "order": order,
        "shifted_order": half_step_order(order, origin),
        "n_options": study.n_options,
        "item_ids": study.ids,
        "seed": study.seed,
    }
    table = _posteriors(study, here, orders)
    certified = calibrate_adaptive(
        table,
        alpha=alpha,
        delta=delta,
        shifted=twin if target == "half-step" else None,
        cluster=study.videos if by_video else None,
        **common,
    )
    curve = adaptive_curve(table, shifted=twin, gold=study.gold, **common)
    used = [here, *([there] if there is not None and target == "half-step" else [])]
    return Calibration(
        certified,
        curve,
        s,
        orders,
        _n_questions(described),
        int((study.counts(here.name) > 0).sum()),
        sum(_n_missing(study, arm, orders) for arm in used),
    )


def _n_questions(run: Mapping[str, Any]) -> int | None:
    """Return how many questions a run was to score: a limit is no lack."""
    planned = (run.get("planned") or {}).get("questions")
    known = (run.get("questions") or {}).get("n") if planned is None else planned
    return None if known is None else int(known)


def _n_missing(study: Study, arm: ArmPasses, orders: str) -> int:
    """Count the passes of an arm without a posterior, of questions that it has."""
    logp = arm.logp[:, :, :1] if orders == "first" else arm.logp
    wanted = np.arange(logp.shape[1]) < arm.n_phases[:, None]
    wanted = wanted[..., None] & study.there[:, None, : logp.shape[2]]
    return int((wanted & np.isnan(logp).any(axis=-1)).sum())


def _posteriors(study: Study, arm: ArmPasses, orders: str) -> NDArray[np.float64]:
    """Posterior of every phase (n, S, K); NaN where a pass of it is missing."""
    logp = arm.logp[:, :, :1] if orders == "first" else arm.logp
    there = study.there[:, : logp.shape[2]]
    known = ~np.isnan(logp).any(axis=-1)
    p = np.zeros(logp.shape)
    p[known] = posterior(logp[known])
    used = there[:, None, :, None]
    mean = np.where(used, p, 0.0).sum(axis=2)
    mean /= np.maximum(there.sum(axis=1), 1)[:, None, None]
    lost: NDArray[np.bool_] = np.any(~known & there[:, None], axis=2)
    lost |= (there.sum(axis=1) == 0)[:, None]
    return np.where(lost[..., None], np.nan, mean)
