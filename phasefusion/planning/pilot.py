"""What a pilot run says about rates, discordance and clusters, with uncertainty."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion._paths import run_path
from phasefusion._random import MASK_64, check_seed
from phasefusion._results import Result
from phasefusion._wording import counted
from phasefusion.errors import RecordError, StatisticsError
from phasefusion.planning._clusters import ratios_of_clusters
from phasefusion.planning._plans import Design, to_json
from phasefusion.records import read_passes, read_run
from phasefusion.report import tables
from phasefusion.report.items import (
    CLUSTERS,
    Cluster,
    Column,
    choose_cluster,
    cluster_name,
    contributions,
)
from phasefusion.report.sections import UNDEFINED, Section
from phasefusion.report.table import Table, build
from phasefusion.stats import Auroc, ClusteredMean, auroc, clustered_mean
from phasefusion.stats._answers import check_choice, half_up
from phasefusion.stats._numbers import clusters, finite_column
from phasefusion.stats.clustered import effective_interval

if TYPE_CHECKING:
    from rich.console import RenderableType

_AGAINST = ("single", "union", "dense", "vote")
_RESAMPLES = 2000
_NOTE = (
    "Accuracy is that of consensus answers, the plurality over the option orders. "
    "95 % intervals: of rates Wilson's for the effective items, of differences CR1 "
    "with t (exact where nothing differs), of design effects and ICC percentiles over "
    "resampled clusters."
)
_OF_ONE = (
    "all items are of one {}: how much others would differ cannot be seen, so nothing "
    "can be planned from it. Give a run of several"
)
#: Resampled clusters that are held at a time.
_ROOM = 2_000_000


@dataclass(frozen=True, slots=True)
class Estimate(Result):
    """A number with its 95 % interval; NaN where it is not defined."""

    value: float
    low: float
    high: float

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Format it, times a scale, as "value [low, high]"."""
        if math.isnan(self.value):
            return UNDEFINED
        value, low, high = (
            half_up(scale * x, digits) for x in (self.value, self.low, self.high)
        )
        return value if math.isnan(self.low) else f"{value} [{low}, {high}]"


@dataclass(frozen=True, slots=True)
class Measured(Result):
    """Mean over items, and what their clusters do to its variance.

    Attributes
    ----------
    mean : Estimate
        Of a rate the interval is Wilson's of as many independent items as the items are
        worth, of a difference and anything else that of `stats.clustered_mean`, which
        is exact where no item differs.
    design_effect : Estimate
        Variance with clusters (CR1) over that of independent items; percentiles over
        resampled clusters. 1 without an interval where every item is its own cluster.
    icc : Estimate
        Correlation of two items of one cluster, from the analysis of variance.
    n, n_clusters : int
    cluster_cv : float
        Coefficient of variation of the number of items a cluster.
    """

    mean: Estimate
    design_effect: Estimate
    icc: Estimate
    n: int
    n_clusters: int
    cluster_cv: float

    @property
    def cluster_size(self) -> float:
        """Items a cluster, on average; NaN without items."""
        return self.n / self.n_clusters if self.n_clusters else math.nan

    def design(self, cluster_size: float | None = None) -> Design:
        """Design to plan with.

        Parameters
        ----------
        cluster_size : float, optional
            Items a cluster of the study that is planned, all of the same size: the
            design effect follows from the ICC. By default the study has clusters as the
            pilot has, and its design effect.

        Returns
        -------
        Design
            A design effect below 1 counts as 1: a pilot finds one by chance. So does
            that of a pilot in which nothing varies, which says nothing of it: give the
            plan a design of its own.
        """
        if cluster_size is not None and not math.isnan(self.icc.value):
            design = Design.from_icc(max(0.0, self.icc.value), cluster_size)
            return Design(max(1.0, design.design_effect), cluster_size)
        effect = self.design_effect.value
        effect = 1.0 if math.isnan(effect) else max(1.0, effect)
        return Design(effect, cluster_size or max(1.0, self.cluster_size))


@dataclass(frozen=True, slots=True)
class PairEstimate(Result):
    """Two arms on the same items.

    Attributes
    ----------
    arm, against : str
    of : {'accuracy', 'half-step change'}
        What the arms are compared by, item by item.
    difference : Measured
        First arm minus second.
    discordance : Measured
        Share of items that only one of the arms has.
    """

    arm: str
    against: str
    of: Literal["accuracy", "half-step change"]
    difference: Measured
    discordance: Measured

    def design(self, cluster_size: float | None = None) -> Design:
        """Design of the difference; see `Measured.design`."""
        return self.difference.design(cluster_size)


@dataclass(frozen=True, slots=True, repr=False)
class Pilot:
    """What pilot runs say about a study to come.

    Attributes
    ----------
    runs : tuple of str
        Run folders. Items of several runs are pooled, and the same question is one
        cluster.
    cluster : {'question', 'video'}
    n, n_clusters : int
        Items (of each run) and clusters.
    rates : dict of str to Measured
        Accuracy of every arm, flips, half-step changes.
    pairs : tuple of PairEstimate
    auroc : dict of str to Auroc
        How well the margin of one plain pass ranks order flips, by arm.
    notices : tuple of str
        What the pilot cannot say, and what to do about it.
    seed : int
        Of the resampled clusters.
    """

    runs: tuple[str, ...]
    cluster: Literal["question", "video"]
    n: int
    n_clusters: int
    rates: dict[str, Measured]
    pairs: tuple[PairEstimate, ...]
    auroc: dict[str, Auroc]
    notices: tuple[str, ...]
    seed: int

    def pair(
        self,
        arm: str,
        against: str,
        of: Literal["accuracy", "half-step change"] = "accuracy",
    ) -> PairEstimate:
        """Look a pair of arms up.

        Raises
        ------
        StatisticsError
            If the pilot does not have it; the message lists what it has.
        """
        for pair in self.pairs:
            if (pair.arm, pair.against, pair.of) == (arm, against, of):
                return pair
        have = ", ".join(
            f"{pair.arm} against {pair.against} ({pair.of})" for pair in self.pairs
        )
        raise StatisticsError(
            f"the pilot does not have {arm} against {against} ({of}); it has "
            f"{have or 'no two arms on the same items'}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; what is not defined is None."""
        found: dict[str, Any] = to_json(self)
        return found

    def sections(self) -> list[Section]:
        """Lay rates and pairs out as tables; phase views are left out."""
        rates = [
            (name, _percent(rate.mean), *_clusters(rate))
            for name, rate in self.rates.items()
            if not name.partition(", ")[2].startswith("phase ")
        ]
        pairs = [
            (
                f"{pair.arm} - {pair.against}",
                pair.of,
                _percent(pair.difference.mean),
                _percent(pair.discordance.mean),
                *_clusters(pair.difference),
            )
            for pair in self.pairs
        ]
        columns = ("design effect", "ICC", "n")
        found = [
            Section("Rates", ("", "%", *columns), tuple(rates), _NOTE),
            Section(
                "Pairs of arms",
                ("", "of", "points", "discordant, %", *columns),
                tuple(pairs),
            ),
        ]
        return [section for section in found if section.rows]

    def _title(self) -> str:
        return (
            f"Pilot: {', '.join(self.runs)}; {counted(self.n, 'item')} in "
            f"{counted(self.n_clusters, 'cluster')} by {self.cluster}"
        )

    def _lines(self) -> list[str]:
        return [f"note: {notice}" for notice in self.notices]

    def __rich__(self) -> RenderableType:
        return tables.rich(self._title(), self._lines(), self.sections())

    def _repr_html_(self) -> str:
        return tables.html(self._title(), self._lines(), self.sections())

    def __repr__(self) -> str:
        return (
            f"Pilot({', '.join(self.runs)}: {counted(self.n, 'item')} in "
            f"{counted(self.n_clusters, 'cluster')} by {self.cluster}, "
            f"{counted(len(self.rates), 'rate')}, {counted(len(self.pairs), 'pair')})"
        )


def _percent(estimate: Estimate) -> str:
    return estimate.text(100, 1)


def _clusters(measured: Measured) -> tuple[str, str, str]:
    return (
        measured.design_effect.text(1, 2),
        measured.icc.text(1, 2),
        str(measured.n),
    )


def pilot(
    *runs: Any, cluster: Cluster = "auto", n_resamples: int = _RESAMPLES, seed: int = 0
) -> Pilot:
    """Estimate from pilot runs what a plan needs.

    Parameters
    ----------
    *runs : Run, str or Path
        Run folders, as of several models on the same questions.
    cluster : {'auto', 'question', 'video'}, default 'auto'
        What items of one cluster share; by default, as in `compare`, the video where
        several questions are about one, else the question. The result says which.
    n_resamples, seed : int
        Of the clusters, for the intervals of design effects and ICC.

    Returns
    -------
    Pilot

    Raises
    ------
    FileNotFoundError
        If there is no run.
    RecordError
        If its files are damaged or hold no pass.
    StatisticsError
        If no run is given.
    UsageError
        If one of `runs` is neither a run nor a path.
    """
    check_choice(cluster, CLUSTERS, "cluster")
    if not runs:
        raise StatisticsError("give at least one run")
    seed = check_seed(seed)
    folders = [run_path("run", run) for run in runs]
    tables = [_table(folder) for folder in folders]
    items = [info for table in tables for info in table.items]
    chosen = choose_cluster(items, cluster)
    names = [cluster_name(info, chosen) for info in items]
    flat = np.array(["\0".join(name) for name in names])
    labels, group = np.unique(flat, return_inverse=True)
    group = group.astype(np.int64)
    measured = _Columns(tables)

    def made(values: Column, *, signed: bool = False) -> Measured:
        return measure(values, group, signed=signed, n_resamples=n_resamples, seed=seed)

    made_pairs = tuple(
        PairEstimate(
            arm, against, of, made(difference, signed=True), made(abs(difference))
        )
        for arm, against, of, difference in measured.pairs()
        if not np.isnan(difference).all()
    )
    few = () if len(labels) > 1 else (_OF_ONE.format(chosen),)
    return Pilot(
        runs=tuple(map(str, folders)),
        cluster=chosen,
        n=len(group),
        n_clusters=len(labels),
        rates={
            name: made(values)
            for name, values in measured.rates().items()
            if not np.isnan(values).all()
        },
        pairs=made_pairs,
        notices=few + _notices(tables, measured.arms, made_pairs),
        auroc=measured.auroc(group),
        seed=seed,
    )


def _notices(
    tables: Sequence[Table], shared: Sequence[str], pairs: Sequence[PairEstimate]
) -> tuple[str, ...]:
    """Say why there are no pairs, and which of them differ on no item."""
    found = []
    if not pairs:
        have = list(dict.fromkeys(arm for t in tables for arm, _ in t.arms))
        lacking = "no two arms on the same questions with gold"
        if len(have) == 1:
            lacking = f"one arm only, {have[0]}"
        elif len(tables) > 1 and len(shared) < 2:
            lacking = (
                f"no two arms that all of the runs have (they have {', '.join(have)})"
            )
        found.append(
            f"{lacking}: differences of arms, discordance and the plans for them "
            "cannot be estimated. Give a run with both arms (phasefusion run makes "
            "single, fusion, union and dense; a wide table has a column an arm), "
            "compare two runs with phasefusion compare, or give the numbers: "
            "phasefusion plan equivalence --margin 2.5 --discordance 14"
        )
    same = [
        f"{pair.arm} - {pair.against} ({pair.of})"
        for pair in pairs
        if pair.discordance.mean.value == 0.0 and pair.discordance.n_clusters > 1
    ]
    if same:
        found.append(
            f"no item differs for {', '.join(same)}: the intervals are exact ones for "
            "clusters without a difference, and plans go by the upper discordance"
        )
    return tuple(found)


def _table(folder: Path) -> Table:
    described, passes = read_run(folder), read_passes(folder)
    if not len(passes):
        raise RecordError(f"{folder}: holds no passes yet; there is nothing to learn")
    return build(passes, described.get("settings", {}))


class _Columns:
    """What every item of every run contributes, one run below the other."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._parts = [contributions(table) for table in tables]
        arms = [part.arms for part in self._parts]
        self._arms = [arm for arm in arms[0] if all(arm in other for other in arms)]

    @property
    def arms(self) -> list[str]:
        """Arms that all runs have, but the phase views."""
        return [arm for arm in self._arms if not arm.startswith("phase ")]

    def _stack(self, name: str, arm: str) -> Column:
        found = []
        for table, part in zip(self._tables, self._parts, strict=True):
            nothing = np.full(len(table.items), np.nan)
            found.append(getattr(part, name).get(arm, nothing))
        return np.concatenate(found)

    def rates(self) -> dict[str, Column]:
        found = {
            f"accuracy, {arm}": self._stack("consensus", arm) for arm in self._arms
        }
        flips = [part.phase_flips for part in self._parts]
        found["phase flips, pairwise"] = np.concatenate([f.pairwise for f in flips])
        found["phase flips, any"] = np.concatenate([f.any for f in flips])
        for arm in self._arms:
            parts = [part.order_flips[arm].any for part in self._parts]
            found[f"order flips, {arm}"] = np.concatenate(parts)
        for arm in self._arms:
            found[f"half-step change, {arm}"] = self._stack("change", arm)
        return found

    def pairs(
        self,
    ) -> list[tuple[str, str, Literal["accuracy", "half-step change"], Column]]:
        """Fusion against the others, or without it every pair of arms."""
        arms = self.arms
        chosen = list(itertools.combinations(arms, 2))
        if "fusion" in arms:
            chosen = [("fusion", other) for other in _AGAINST if other in arms]
        found: list[
            tuple[str, str, Literal["accuracy", "half-step change"], Column]
        ] = []
        for a, b in chosen:
            difference = self._stack("consensus", a) - self._stack("consensus", b)
            found.append((a, b, "accuracy", difference))
        for a, b in chosen:
            difference = self._stack("change", a) - self._stack("change", b)
            found.append((a, b, "half-step change", difference))
        return found

    def auroc(self, group: NDArray[np.int64]) -> dict[str, Auroc]:
        """Rank order flips by the margin of the first order, by arm.

        Margins of different models have different scales, so runs are not pooled.
        """
        found = {}
        begin = 0
        for r, (table, part) in enumerate(zip(self._tables, self._parts, strict=True)):
            n_items = len(table.items)
            labels = group[begin : begin + n_items]
            begin += n_items
            alone = len(np.unique(labels)) == n_items
            for arm in self._arms:
                margin = table.arms[arm, False].margin[:, 0]
                flips = part.order_flips[arm].any
                made = auroc(flips, -margin, cluster=None if alone else labels)
                if made.n_positive and made.n_negative:
                    name = arm if len(self._tables) == 1 else f"{arm}, run {r + 1}"
                    found[name] = made
        return found


def measure(
    values: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    signed: bool = False,
    n_resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Measured:
    """Mean, design effect and ICC of items in clusters, with their uncertainty.

    Parameters
    ----------
    values : array_like, shape (n,), float
        What each item contributes: 0 and 1, differences in -1, 0, 1, shares. NaN is
        left out.
    cluster : array_like, shape (n,), optional
        Label of each item's cluster; every item its own by default.
    signed : bool, default False
        The values are differences in [-1, 1], whatever signs they happen to have: their
        interval is symmetric about no difference when none was seen.
    n_resamples : int, default 2000
    seed : int, default 0

    Returns
    -------
    Measured
        The same for every order of the items.

    Raises
    ------
    StatisticsError
        If the columns differ in length or hold infinities, signed values are beyond 1,
        or n_resamples is below 1.

    References
    ----------
    .. [1] Donner, "A review of inference procedures for the intraclass correlation
       coefficient in the one-way random effects model", International Statistical
       Review 54 (1986).

    Examples
    --------
    >>> made = measure([1, 1, 0, 0, 1, 1, 0, 1], [0, 0, 1, 1, 2, 2, 3, 3])
    >>> round(made.design_effect.value, 3), round(made.icc.value, 3)
    (1.711, 0.571)
    """
    seed = check_seed(seed)
    if n_resamples < 1:
        raise StatisticsError(f"n_resamples must be >= 1, it is {n_resamples}")
    given = finite_column(values, "values")
    group, _ = clusters(cluster, len(given))
    kept = ~np.isnan(given)
    x, labels = given[kept], np.unique(group[kept], return_inverse=True)[1]
    mean = clustered_mean(x, labels, limits=(-1.0, 1.0) if signed else None)
    sizes = np.bincount(labels)
    nan = float("nan")
    if len(sizes) == len(x):  # every item is its own cluster
        effect, icc = Estimate(1.0, nan, nan), Estimate(nan, nan, nan)
    else:
        sums = np.stack(
            [sizes, np.bincount(labels, x), np.bincount(labels, x * x)], axis=1
        ).astype(np.float64)
        effect, icc = _spread(sums, n_resamples, seed)
    return Measured(
        mean=_mean_estimate(mean, x, effect.value, signed),
        design_effect=effect,
        icc=icc,
        n=len(x),
        n_clusters=len(sizes),
        cluster_cv=float(sizes.std() / sizes.mean()) if len(sizes) else nan,
    )


def _mean_estimate(
    made: ClusteredMean, x: Column, effect: float, signed: bool
) -> Estimate:
    """Wilson's interval of the effective items for rates, else the clustered one."""
    if not signed and len(x) and x.min() >= 0.0 and x.max() <= 1.0:
        found = effective_interval(made.mean, made.n, made.n_clusters, effect, 0.95)
        return Estimate(made.mean, found.low, found.high)
    return Estimate(made.mean, made.low, made.high)


def _spread(
    sums: NDArray[np.float64], n_resamples: int, seed: int
) -> tuple[Estimate, Estimate]:
    """Design effect and ICC of cluster sums (count, sum, sum of squares).

    Their intervals are percentiles over resampled clusters. Clusters with the same
    sums are drawn together, in an order that the items do not decide.
    """
    n_clusters = len(sums)
    classes, times = np.unique(sums, axis=0, return_counts=True)
    n_same = times.astype(np.float64)
    sizes, totals = classes[:, 0], classes[:, 1]
    moments = np.column_stack(
        [classes, totals**2, sizes * totals, sizes**2, totals**2 / sizes]
    )
    values = ratios_of_clusters(n_same[None, :] @ moments, n_clusters)[0]
    rng = np.random.default_rng(seed & MASK_64)
    step = max(1, _ROOM // len(classes))
    parts = []
    for start in range(0, n_resamples, step):
        draws = min(step, n_resamples - start)
        counts = rng.multinomial(n_clusters, n_same / n_clusters, size=draws)
        parts.append(
            ratios_of_clusters(counts.astype(np.float64) @ moments, n_clusters)
        )
    replicates = np.concatenate(parts)
    made = []
    for column, value in zip(replicates.T, values.tolist(), strict=True):
        known = column[~np.isnan(column)]
        low, high = (math.nan, math.nan)
        if len(known) and n_clusters > 1:
            low, high = np.quantile(known, [0.025, 0.975]).tolist()
        made.append(Estimate(value, low, high))
    return made[0], made[1]
