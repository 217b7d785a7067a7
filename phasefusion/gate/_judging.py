"""One measure of a candidate: it held, it fell, or the sample cannot tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion._measures import Measure
from phasefusion._results import Result
from phasefusion.errors import StatisticsError
from phasefusion.gate._rules import Rules
from phasefusion.planning import Design, noninferiority_items
from phasefusion.planning.equivalence import clusters_without_difference
from phasefusion.stats import adjust_pvalues, clustered_mean
from phasefusion.stats._exact import binomial_cdf
from phasefusion.stats.proportions import proportion_upper

State: TypeAlias = Literal["held", "fell", "open"]
Kind: TypeAlias = Literal["change", "floor"]
#: With fewer clusters that changed, means are not normal: counts decide as well.
FEW = 10
#: Sums of shares that are 0 but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Needed:
    """The sample that would tell.

    Attributes
    ----------
    n, n_clusters : int
        Items, and the clusters they come in.
    power : float
        Chance that they show that the measure held, if it is as `assumed`.
    assumed : float
        True difference from the baseline, or from the floor.
    """

    n: int
    n_clusters: int
    power: float
    assumed: float


@dataclass(frozen=True, slots=True)
class Check(Result):
    """One measure against the baseline, or against its floor.

    Attributes
    ----------
    measure : {'accuracy', 'fpc', 'ooc'}
    kind : {'change', 'floor'}
        Against the baseline by at most `margin`, or against an absolute floor.
    state : {'held', 'fell', 'open'}
        *held*: the lower bound lies above -margin. *fell*: it does not, and a fall is
        shown (p_fell < alpha). *open*: neither.
    baseline, candidate : float
        On the items judged; the baseline of a floor is the floor.
    difference, low, high : float
        Candidate minus baseline and its bounds, each one-sided at alpha.
    margin : float
        0 for a floor.
    p_held, p_fell : float
        Of a fall of the margin or more; of no fall, by Holm over all checks.
    se, sd : float
        Of the mean, clustered; of an item.
    n, n_clusters, n_changed : int
        Items, their clusters, and clusters in which anything changed.
    counted : bool
        So few clusters changed that exact bounds of their counts decided as well.
    needed : Needed or None
        For what is open, if any sample would tell.
    """

    measure: Measure
    kind: Kind
    state: State
    baseline: float
    candidate: float
    difference: float
    low: float
    high: float
    margin: float
    p_held: float
    p_fell: float
    se: float
    sd: float
    n: int
    n_clusters: int
    n_changed: int
    counted: bool
    needed: Needed | None = None


def change(
    measure: Measure,
    baseline: NDArray[np.float64],
    candidate: NDArray[np.float64],
    labels: NDArray[np.int64],
    rules: Rules,
) -> Check:
    """Test a measure against the baseline; `decide` then settles its state."""
    margin = rules.of(measure).margin
    made = _tested(candidate - baseline, labels, margin, 0.0, rules.alpha)
    return _check(measure, "change", baseline, candidate, margin, made)


def floor(
    measure: Measure,
    candidate: NDArray[np.float64],
    labels: NDArray[np.int64],
    least: float,
    rules: Rules,
) -> Check:
    """Test a measure against its floor."""
    made = _tested(candidate - least, labels, 0.0, 1.0 - least, rules.alpha)
    level = np.full(len(candidate), least)
    return _check(measure, "floor", level, candidate, 0.0, made)


@dataclass(frozen=True, slots=True)
class _Tested:
    mean: float
    low: float
    high: float
    p_held: float
    p_fell: float
    se: float
    sd: float
    n: int
    n_clusters: int
    n_changed: int
    counted: bool


def _tested(
    values: NDArray[np.float64],
    labels: NDArray[np.int64],
    margin: float,
    best: float,
    alpha: float,
) -> _Tested:
    """Test a mean, of which `best` is an item that nothing is wrong with.

    Where few clusters differ from `best`, a standard error says little (none at all
    when nothing changed). Then the mean is above ``best - u``, u the exact upper bound
    of the share of clusters that are worse, since no item is worse by more than 1; and
    a fall also needs a sign test of the clusters. Both take clusters of one size.
    """
    limits = (best - 1.0, best if best else 1.0)
    made = clustered_mean(
        values, labels, confidence_level=1.0 - 2.0 * alpha, limits=limits
    )
    names, group = np.unique(labels, return_inverse=True)
    sums = np.bincount(group, values - best, minlength=len(names))
    worse = int((sums < -_ROUNDING).sum())
    changed = worse + int((sums > _ROUNDING).sum())
    low, high = made.low, made.high
    p_held, p_fell = _pvalues(made.mean + margin, made.se, made.df, made.mean)
    counted = changed < FEW and not math.isnan(made.se)
    if counted:
        upper = proportion_upper(worse, len(names), 1.0 - alpha)
        low = min(low, best - upper)
        tolerated = best + margin
        exact = 1.0
        if tolerated < 1.0:
            exact = float(binomial_cdf(worse, len(names), tolerated))
        p_held = max(p_held, exact)
        if best == 0.0:
            signs = float(binomial_cdf(changed - worse, changed, 0.5))
            p_fell = max(p_fell, signs)
    sd = made.se_iid * math.sqrt(made.n) if made.n > 1 else math.nan
    return _Tested(
        mean=made.mean,
        low=low,
        high=high,
        p_held=p_held,
        p_fell=p_fell,
        se=made.se,
        sd=sd,
        n=made.n,
        n_clusters=made.n_clusters,
        n_changed=changed,
        counted=counted,
    )


def _pvalues(room: float, se: float, df: int, mean: float) -> tuple[float, float]:
    """P-values of the mean being at -margin or below, and of it being 0 or above."""
    from scipy.special import stdtr

    if math.isnan(se):
        return math.nan, math.nan
    if se == 0.0:
        return float(room <= 0.0), float(mean >= 0.0)
    return float(stdtr(df, -room / se)), float(stdtr(df, mean / se))


def _check(
    measure: Measure,
    kind: Kind,
    baseline: NDArray[np.float64],
    candidate: NDArray[np.float64],
    margin: float,
    made: _Tested,
) -> Check:
    nothing = not len(candidate)
    return Check(
        measure=measure,
        kind=kind,
        state="open",
        baseline=math.nan if nothing else float(baseline.mean()),
        candidate=math.nan if nothing else float(candidate.mean()),
        difference=made.mean,
        low=made.low,
        high=made.high,
        margin=margin,
        p_held=made.p_held,
        p_fell=made.p_fell,
        se=made.se,
        sd=made.sd,
        n=made.n,
        n_clusters=made.n_clusters,
        n_changed=made.n_changed,
        counted=made.counted,
    )


def decide(checks: Sequence[Check], rules: Rules) -> tuple[Check, ...]:
    """Settle the state of every check.

    Passing needs all of them, so that each is tested at alpha; a single fall is enough
    to roll back, so that those p-values are Holm's.
    """
    adjusted = adjust_pvalues([check.p_fell for check in checks]).tolist()
    found = []
    for check, p_fell in zip(checks, adjusted, strict=True):
        state: State = "open"
        if check.p_held < rules.alpha and check.low > -check.margin:
            state = "held"
        elif p_fell < rules.alpha:
            state = "fell"
        settled = replace(check, state=state, p_fell=p_fell)
        if state == "open":
            settled = replace(settled, needed=_needed(settled, rules))
        found.append(settled)
    return tuple(found)


def _needed(check: Check, rules: Rules) -> Needed | None:
    """Items that would show that nothing fell, or that the floor is reached as seen."""
    margin = check.margin if check.kind == "change" else check.difference
    if not 0.0 < margin < 1.0 or check.n == 0:
        return None
    size = check.n / check.n_clusters
    counted = 0
    if check.counted and check.kind == "change":
        counted = clusters_without_difference(margin, rules.alpha)
    n_clusters, n = counted, math.ceil(counted * size - 1e-9)
    if check.sd > 0.0 and check.se > 0.0:
        effect = (check.se / (check.sd / math.sqrt(check.n))) ** 2
        try:
            plan = noninferiority_items(
                margin=margin,
                sd=check.sd,
                power=rules.power,
                alpha=rules.alpha,
                design=Design(effect, size),
            )
        except StatisticsError:  # out of reach of any sample
            return None
        n = max(n, plan.n)
        n_clusters = max(counted, Design(effect, size).clusters(plan.n))
    if n == 0:
        return None
    assumed = 0.0 if check.kind == "change" else check.difference
    return Needed(n, n_clusters, rules.power, assumed)
