"""Charts of a history: what left them, since when, and whether it still does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._measures import LABELS, MEASURES, Measure
from phasefusion._paths import path_of
from phasefusion._results import Result, plain_text
from phasefusion._wording import Argument, by_number, counted, unwritten
from phasefusion.errors import RecordError, StatisticsError, UsageError
from phasefusion.monitor._history import VIDEOS, Batch, other_files
from phasefusion.records import _json, differences
from phasefusion.stats import (
    BatchBaseline,
    ControlChart,
    Cusum,
    batch_baseline,
    batch_chart,
    cusum_limit,
    self_starting_cusum,
)
from phasefusion.stats.batches import FEWEST

if TYPE_CHECKING:
    from rich.console import RenderableType

State: TypeAlias = Literal["baseline", "in control", "alarm"]
Chart: TypeAlias = Literal["p chart", "CUSUM"]
Side: TypeAlias = Literal["fell", "rose"]
#: Half of the shift, in sigmas, that a CUSUM is tuned to.
_K = 0.5
_MOST_CHANGES = 5


@dataclass(frozen=True, slots=True, repr=False)
class Alert(Result):
    """A measure that left a chart.

    Attributes
    ----------
    measure : {'accuracy', 'fpc', 'ooc'}
    chart : {'p chart', 'CUSUM'}
    side : {'fell', 'rose'}
    since : str
        Time of the batch with which it began: the first outside the limits, or the
        first after the sum was last 0, where a CUSUM puts the change.
    found : str
        Time of the batch that raised it.
    last : str
        Time of the last batch that did.
    active : bool
        Whether that is the newest batch.
    value, center : float
        Mean over the batches from `since` to `last`, and that of the baseline.
    changes : tuple of str
        What was set differently in the batch of `since` than in the one before.
    """

    measure: Measure
    chart: Chart
    side: Side
    since: str
    found: str
    last: str
    active: bool
    value: float
    center: float
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class MeasureWatch(Result):
    """One measure over time; the lists have an entry for every batch that has it.

    Attributes
    ----------
    measure : {'accuracy', 'fpc', 'ooc'}
    state : {'baseline', 'in control', 'alarm'}
        *baseline*: no batch but those of the baseline yet.
    baseline : BatchBaseline or None
    at : tuple of str
    values, errors : tuple of float
    sizes : tuple of int
    lower, upper : tuple of float
        Limits of the p chart; NaN in the baseline, as the sums.
    cusum_fell, cusum_rose : tuple of float
    alerts : tuple of Alert
    """

    measure: Measure
    state: State
    baseline: BatchBaseline | None
    at: tuple[str, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    sizes: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    cusum_fell: tuple[float, ...]
    cusum_rose: tuple[float, ...]
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Watch:
    """A history with its charts.

    It prints as tables in a terminal (``print``, ``rich.print``) and in a notebook.

    Attributes
    ----------
    path : str
    state : {'baseline', 'in control', 'alarm'}
        *alarm*: an alert is active.
    measures : tuple of MeasureWatch
    n_batches, n_baseline : int
    same_items : bool
        Whether the batches of the baseline have the same items.
    every : float
        All charts together raise one false alarm in about so many batches.
    width, h : float
        Limits of the p charts in sigmas and of the CUSUMs, which follow from it.
    notices : tuple of str
    """

    path: str
    state: State
    measures: tuple[MeasureWatch, ...]
    n_batches: int
    n_baseline: int
    same_items: bool
    every: float
    width: float
    h: float
    notices: tuple[str, ...]

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Of all measures, the newest last."""
        found = [alert for one in self.measures for alert in one.alerts]
        return tuple(sorted(found, key=lambda alert: alert.found))

    @property
    def exit_status(self) -> int:
        """Of the command: 1 while an alert is active, else 0."""
        return 1 if self.state == "alarm" else 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; what is not defined is None."""
        return _json.fields_of(self, exit_status=self.exit_status)

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        from phasefusion.monitor._rendering import markdown

        return markdown(self)

    def write_prometheus(self, path: str | Path, *, name: str | None = None) -> Path:
        """Write the newest numbers for the textfile collector of Prometheus.

        Parameters
        ----------
        path : str or Path
            Ends in ``.prom`` for the collector to read it; replaced in one step.
        name : str, optional
            Label ``history``, that of the history's file by default.

        Returns
        -------
        Path

        Raises
        ------
        BackendUnavailableError
            If ``prometheus-client`` is not installed.
        RecordError
            If it cannot be written.
        """
        from phasefusion.monitor._prometheus import write

        try:
            return write(
                self,
                path_of("path", path, "the file to write"),
                name or Path(self.path).stem,
            )
        except OSError as error:
            raise RecordError(unwritten(path, error)) from error

    def save_html(self, path: str | Path) -> Path:
        """Write one page that works offline: charts, alerts, and every batch.

        Parameters
        ----------
        path : str or Path
            The file; its folder is made where it does not exist.

        Returns
        -------
        Path

        Raises
        ------
        RecordError
            If it cannot be written.
        """
        from phasefusion.monitor._page import write_html

        try:
            return write_html(self, path_of("path", path, "the file to write"))
        except OSError as error:
            raise RecordError(unwritten(path, error)) from error

    def __rich__(self) -> RenderableType:
        from phasefusion.monitor._rendering import rich

        return rich(self)

    def __str__(self) -> str:
        return plain_text(self)

    def __repr__(self) -> str:
        active = sum(alert.active for alert in self.alerts)
        return (
            f"Watch({self.state}: {self.n_batches} batches, {self.n_baseline} of them "
            f"the baseline, {len(self.alerts)} alerts, {active} active)"
        )

    def _repr_html_(self) -> str:
        from phasefusion.monitor._rendering import html

        return html(self)


def watch(
    batches: Sequence[Batch],
    path: str,
    *,
    baseline: int,
    every: float,
    width: float | None,
    h: float | None,
) -> Watch:
    """Lay charts over batches in the order of time; see `phasefusion.monitor.show`."""
    if baseline < 1:
        raise UsageError(Argument("baseline"), f" must be >= 1, it is {baseline}")
    if not 1.0 < every < math.inf:
        raise UsageError(Argument("every"), f" must be > 1, it is {every}")
    first = batches[:baseline]
    same = len(first) > 1 and len({batch.items_sha256 for batch in first}) == 1
    if same and baseline < FEWEST:
        raise UsageError(
            f"the batches of the baseline have the same items: {baseline} of them do "
            f"not tell how much batches differ; give a baseline of {FEWEST} at least"
        )
    kept = [m for m in MEASURES if any(m in batch.values for batch in first)]
    if not kept:
        raise StatisticsError(f"{path}: no batch of the baseline has a measure")
    n_charts = 2 * len(kept)
    if width is None:
        from scipy.special import ndtri

        width = -float(ndtri(0.5 / (n_charts * every)))
    if h is None:
        h = cusum_limit(n_charts * every, k=_K)
    measures = tuple(
        _measure(batches, measure, baseline, same, width, h) for measure in kept
    )
    states = [one.state for one in measures]
    state: State = "in control"
    if "alarm" in states:
        state = "alarm"
    elif all(one == "baseline" for one in states):
        state = "baseline"
    return Watch(
        path=path,
        state=state,
        measures=measures,
        n_batches=len(batches),
        n_baseline=min(baseline, len(batches)),
        same_items=same,
        every=every,
        width=width,
        h=h,
        notices=_notices(batches, baseline, same, kept),
    )


def _measure(
    batches: Sequence[Batch],
    measure: Measure,
    baseline: int,
    same: bool,
    width: float,
    h: float,
) -> MeasureWatch:
    having = [batch for batch in batches if measure in batch.values]
    n_first = sum(measure in batch.values for batch in batches[:baseline])
    found = [batch.values[measure] for batch in having]
    means = np.array([value.mean for value in found])
    errors = np.array([value.error for value in found])
    sizes = np.array([value.n for value in found], np.int64)
    nothing = np.full(len(found), np.nan)
    lower, upper, fell, rose = (nothing.copy() for _ in range(4))
    state: State = "baseline"
    alerts: tuple[Alert, ...] = ()
    base = None
    if len(batches) >= baseline:
        base = batch_baseline(
            means[:n_first],
            errors[:n_first],
            sizes[:n_first],
            same_items=same and n_first >= FEWEST,
        )
    if base is not None and len(found) > n_first:
        after = slice(n_first, None)
        chart = batch_chart(means[after], sizes[after], base, width=width)
        sums = self_starting_cusum(means[after], sizes[after], base, k=_K, h=h)
        lower[after], upper[after] = chart.lower, chart.upper
        fell[after], rose[after] = sums.lower, sums.upper
        alerts = _alerts(batches, having[n_first:], measure, base, chart, sums)
        state = "alarm" if any(one.active for one in alerts) else "in control"
    return MeasureWatch(
        measure=measure,
        state=state,
        baseline=base,
        at=tuple(batch.at for batch in having),
        values=tuple(means.tolist()),
        errors=tuple(errors.tolist()),
        sizes=tuple(sizes.tolist()),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        cusum_fell=tuple(fell.tolist()),
        cusum_rose=tuple(rose.tolist()),
        alerts=alerts,
    )


def _alerts(
    batches: Sequence[Batch],
    watched: Sequence[Batch],
    measure: Measure,
    base: BatchBaseline,
    chart: ControlChart,
    sums: Cusum,
) -> tuple[Alert, ...]:
    sides: tuple[Side, Side] = ("fell", "rose")
    outside = (chart.statistic < chart.lower, chart.statistic > chart.upper)
    rising = (sums.lower, sums.upper)
    found = []
    for side, out, total in zip(sides, outside, rising, strict=True):
        for start, stop in _runs(out):
            found.append(("p chart", side, start, start, stop))
        for start, stop in _runs(total > sums.h):
            onset = start
            while onset > 0 and total[onset - 1] > 0.0:
                onset -= 1
            found.append(("CUSUM", side, onset, start, stop))
    made = []
    for name, side, onset, start, stop in found:
        part = [batch.values[measure] for batch in watched[onset : stop + 1]]
        n = sum(value.n for value in part)
        made.append(
            Alert(
                measure=measure,
                chart="p chart" if name == "p chart" else "CUSUM",
                side=side,
                since=watched[onset].at,
                found=watched[start].at,
                last=watched[stop].at,
                active=stop == len(watched) - 1,
                value=math.fsum(value.mean * value.n for value in part) / n,
                center=base.center,
                changes=_changes(batches, watched[onset]),
            )
        )
    return tuple(sorted(made, key=lambda alert: (alert.found, alert.chart)))


def _runs(marked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last place of every run of marked ones."""
    found: list[tuple[int, int]] = []
    for i in np.flatnonzero(marked).tolist():
        if found and found[-1][1] == i - 1:
            found[-1] = (found[-1][0], i)
        else:
            found.append((i, i))
    return found


def _changes(batches: Sequence[Batch], batch: Batch) -> tuple[str, ...]:
    place = batches.index(batch)
    if place == 0:
        return ()
    before = batches[place - 1]
    found = ["videos: other files"] if other_files(before, batch) else []
    then, now = (dict(one.described) | {VIDEOS: None} for one in (before, batch))
    found += differences(then, now)
    more = len(found) - _MOST_CHANGES
    kept = found[:_MOST_CHANGES]
    return tuple([*kept, f"and {more} more"] if more > 0 else kept)


def _notices(
    batches: Sequence[Batch], baseline: int, same: bool, kept: Sequence[Measure]
) -> tuple[str, ...]:
    found = []
    if len(batches) < baseline:
        found.append(
            f"the baseline is being collected: {len(batches)} of {baseline} batches"
        )
    if same:
        found.append(
            "the batches of the baseline have the same items, so that limits rest on "
            "how much these batches differ"
        )
        first = batches[0].items_sha256
        others = [batch.at for batch in batches if batch.items_sha256 != first]
        if others:
            found.append(
                f"{counted(len(others), 'batch', 'batches')} "
                f"{by_number(len(others), 'has', 'have')} other items, the first at "
                f"{others[0]}: that differs by more than the limits expect; begin a "
                "new history"
            )
    lacking = {m: sum(m not in batch.values for batch in batches) for m in kept}
    for measure, n in lacking.items():
        if n:
            found.append(
                f"{counted(n, 'batch', 'batches')} {by_number(n, 'has', 'have')} no "
                f"{LABELS[measure]} and {by_number(n, 'is', 'are')} passed over"
            )
    for batch in batches:
        found += [f"{batch.at}: {notice}" for notice in batch.notices]
    return tuple(found)
