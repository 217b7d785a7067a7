"""Rates and paired tests of questions, which know whether these share videos."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasefusion.records import ItemInfo
from phasefusion.report.items import Column, ItemId, choose_cluster, cluster_labels
from phasefusion.stats import (
    ClusteredMean,
    clustered_mcnemar,
    clustered_mean,
    discordant,
    mcnemar,
)
from phasefusion.stats.proportions import score_interval

#: What the intervals and the paired test are, by what the questions share.
INTERVALS = {
    "video": "95 % intervals clustered by video (CR1, t)",
    "question": "95 % Wilson intervals over questions",
}
TESTS = {
    "video": "p is McNemar's, clustered by video and two-sided",
    "question": "p is McNemar's, exact and two-sided",
}
#: Name of the p that is shown, in the JSON report.
P_SHOWN = {"video": "p_clustered", "question": "p"}


@dataclass(frozen=True, slots=True)
class Paired:
    """Two 0/1 columns on the questions that have both.

    Attributes
    ----------
    only_first, only_second, n : int
        Questions of which it holds in one column alone, and all of them.
    exact : float
        McNemar's p, exact and two-sided; NaN without a question.
    clustered : float
        The same clustered by video; NaN with fewer than two videos.
    by : {"video", "question"}
        What the questions that were sampled share.
    """

    only_first: int
    only_second: int
    n: int
    exact: float
    clustered: float
    by: str

    @property
    def points(self) -> float:
        """Points of the first over the second; NaN without a question."""
        ahead = self.only_first - self.only_second
        return 100 * ahead / self.n if self.n else math.nan

    @property
    def p(self) -> float:
        """The p of the test that the questions allow."""
        return self.clustered if self.by == "video" else self.exact


class Rates:
    """What the questions of a run allow to say of their rates.

    Where several questions are about one video, intervals and tests are clustered by
    video; where every question has its own, they are Wilson's and McNemar's exact one.

    Parameters
    ----------
    items : sequence of ItemInfo or ItemId

    Attributes
    ----------
    videos : ndarray, shape (n,), int64
        Cluster of each item: its video within its benchmark, or itself without one.
    by : {"video", "question"}
    n_videos : int
        Those that are known.
    """

    def __init__(self, items: Sequence[ItemInfo | ItemId]) -> None:
        self.videos = cluster_labels(items, "video")
        self.by = choose_cluster(items, "auto")
        self.n_videos = len({(i.benchmark, i.video_id) for i in items if i.video_id})

    @property
    def intervals(self) -> str:
        """Name the intervals of rates, without a full stop."""
        return INTERVALS[self.by]

    @property
    def test(self) -> str:
        """Name the paired test, without a full stop."""
        return TESTS[self.by]

    def rate(
        self, values: Column, chosen: NDArray[np.bool_] | None = None
    ) -> dict[str, Any]:
        """Mean of what items contribute, NaN being nothing, with a 95 % interval.

        Contributions between 0 and 1 count as fractions of a success, which makes
        Wilson's interval too wide rather than too narrow.
        """
        if self.by == "video":
            return self.clustered(values, chosen)
        usable = _usable(values, chosen)
        n = int(usable.sum())
        value = float(values[usable].mean()) if n else math.nan
        return rate_of(value, *score_interval(value * n, n, 0.95), n)

    def clustered(
        self, values: Column, chosen: NDArray[np.bool_] | None = None
    ) -> dict[str, Any]:
        """Do the same with an interval clustered by video, whatever items share."""
        usable = _usable(values, chosen)
        videos = self.videos[usable]
        return mean_rate(clustered_mean(values[usable], videos, limits=(0.0, 1.0)))

    def paired(self, first: Column, second: Column) -> Paired:
        """Compare two 0/1 columns of all items, where neither is NaN."""
        known = ~(np.isnan(first) | np.isnan(second))
        a, b = first[known] == 1, second[known] == 1
        only_first, only_second = discordant(a, b)
        exact = clustered = math.nan
        if len(a):
            exact = float(mcnemar(only_first, only_second).pvalue)
        videos = self.videos[known]
        if len(np.unique(videos)) > 1:
            ahead = a.astype(np.int64) - b
            clustered = float(clustered_mcnemar(ahead, videos).pvalue)
        return Paired(only_first, only_second, len(a), exact, clustered, self.by)


def rate_of(value: float, low: float, high: float, n: int) -> dict[str, Any]:
    """Return a rate with its interval as JSON values."""
    return {"value": value, "low": low, "high": high, "n": n}


def mean_rate(found: ClusteredMean) -> dict[str, Any]:
    """Return a clustered mean of shares as a rate.

    Its limits must be 0 and 1. Where no two clusters differ, the interval is Wilson's
    over clusters.
    """
    low, high = found.low, found.high
    if not found.se > 0:
        n = found.n_clusters
        low, high = score_interval(found.mean * n, n, found.confidence_level)
    return rate_of(found.mean, low, high, found.n)


def _usable(values: Column, chosen: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = ~np.isnan(values)
    return known if chosen is None else known & chosen
