"""Time of the statistics against the best public idiom for each.

Every round runs all candidates of a task one after the other on the same data; a ratio
is the median over the rounds of peer time / our time, CPU seconds of one thread. What
both sides compute is compared in the same run. Exit code 1 when a goal is missed.

a  pairwise and any-flip over 13 phases, 10 orders x 599 items x 2 models: NumPy
   one-hot counts
b  matched votes, 600 items x 3 phases x 10 orders: NumPy over 50 splits; the ratio is
   per split, and all 126 must take no longer than NumPy's 50
c  cluster bootstrap, 10,000 resamples of 581 clusters with 1,132 observations: NumPy's
   gather on cluster sums, and its multinomial on classes of equal clusters
d  fusion of 289,000 passes with 5 options: scipy.special.softmax, mean, argmax, margin;
   then the argmax and margin of every pass too
e  AUROC of 4,500 items: 10,000 resamples against NumPy's bincount and scikit-learn's
   loop, DeLong's variance against the outer product. The peers run fewer resamples and
   are scaled.

    python benchmarks/stats.py [--rounds 7] [--rows a,b] [--json FILE]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import _report
import numpy as np
from _report import Goal, Row

from phasefusion import fusion, stats

Run = Callable[[], Any]
Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(20261129)


@dataclass(frozen=True)
class Peer:
    """One idiom: what it runs, how much more work ours does, and the ratio wanted."""

    name: str
    run: Run | None  # None: it is not installed
    scale: float
    goal: float


@dataclass(frozen=True)
class Task:
    """What is timed: our call and those of the peers."""

    key: str
    title: str
    ours: Run
    peers: list[Peer]


def close(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    """Both computed the same; else nothing is timed."""
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def flips() -> Iterator[Task]:
    answers = RNG.integers(0, 4, (599 * 2 * 10, 13))

    def one_hot() -> tuple[float, float]:
        counts = (answers[:, :, None] == np.arange(4)).sum(axis=1)
        m = counts.sum(axis=1)
        pairwise = 1 - (counts * (counts - 1)).sum(axis=1) / (m * (m - 1))
        return pairwise.mean(), ((counts > 0).sum(axis=1) > 1).mean()

    made = stats.flip_rates(answers)
    close((made.pairwise, made.any), one_hot())
    peer = Peer("NumPy one-hot", one_hot, 1, 20)
    yield Task(
        "flips",
        "Flip rates over 13 phases, 11,980 rows of answers",
        lambda: stats.flip_rates(answers),
        [peer],
    )


def matched() -> Iterator[Task]:
    answers = RNG.integers(0, 4, (600, 3, 10))
    halves = np.array([RNG.permutation(10) < 5 for _ in range(50)])

    def vectorised(chosen: Array = halves) -> tuple[float, float]:
        hot = answers[..., None] == np.arange(4)
        differ = 0
        within = 0
        for half in chosen:
            first = hot[:, :, half].sum(axis=2).argmax(axis=2)
            second = hot[:, :, ~half].sum(axis=2).argmax(axis=2)
            differ += int((first[:, :, None] != second[:, None]).sum())
            within += int((first != second).sum())
        n = len(chosen) * len(answers)
        return within / (3 * n), (differ - within) / (6 * n)

    def ours() -> stats.MatchedVote:
        return stats.matched_vote(answers, rule="lowest", fractional=False)

    import itertools

    every = np.zeros((126, 10), bool)
    for row, rest in enumerate(itertools.combinations(range(1, 10), 4)):
        every[row, [0, *rest]] = True
    made = ours()
    close((made.within, made.across), vectorised(every))
    yield Task(
        "votes",
        "Matched votes, 600 items × 3 phases × 10 orders, all 126 splits",
        ours,
        [
            Peer("NumPy on as many splits", vectorised, 126 / 50, 40),
            Peer("NumPy on 50 splits", vectorised, 1, 1),
        ],
    )


def bootstrap() -> Iterator[Task]:
    cluster = np.repeat(np.arange(581), [2] * 551 + [1] * 30)
    diff = RNG.choice([-1, 0, 1], 1132, p=[0.07, 0.86, 0.07])
    sums, counts = np.bincount(cluster, diff), np.bincount(cluster)
    classes, n_same = np.unique(np.stack([sums, counts], 1), axis=0, return_counts=True)

    def gather() -> Array:
        drawn = RNG.integers(0, 581, (10_000, 581))
        made: Array = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        return made

    def multinomial() -> Array:
        times = RNG.multinomial(581, n_same / 581, 10_000)
        made: Array = (times @ classes[:, 0]) / (times @ classes[:, 1])
        return made

    def ours() -> stats.Bootstrap:
        return stats.cluster_bootstrap(diff, cluster, n_resamples=10_000)

    made = ours()
    for replicates in (gather(), multinomial()):
        # both from 10,000 draws: a standard error is known to 0.7 %
        close(made.se, replicates.std(ddof=1), 0.05)
        close(made.replicates.mean(), replicates.mean(), 6 * made.se / 100)
    peers = [
        Peer("NumPy gather", gather, 1, 10),
        Peer("NumPy multinomial", multinomial, 1, 1),
    ]
    yield Task(
        "bootstrap", "Cluster bootstrap, 10,000 resamples of 581 clusters", ours, peers
    )


def fuse() -> Iterator[Task]:
    from scipy.special import softmax

    logp = RNG.normal(size=(289_000 // 3, 3, 5)) * 3

    def idiom() -> tuple[Array, Array, Array]:
        pooled = softmax(logp, axis=-1).mean(axis=1)
        best = np.partition(pooled, -2, axis=-1)
        return pooled, pooled.argmax(axis=-1), np.log(best[:, -1] / best[:, -2])

    def with_passes() -> tuple[Array, ...]:
        best = np.partition(logp, -2, axis=-1)
        return *idiom(), logp.argmax(axis=-1), best[..., -1] - best[..., -2]

    made = fusion.fuse_items(logp)
    pooled, answers, margins, alone, leads = with_passes()
    close(made.posterior, pooled)
    close(made.answer, answers)
    close(made.margin, margins, 1e-9)
    close(made.phase_answers, alone)
    close(made.phase_margins, leads)
    goal = 10 if has_avx2() else 4
    yield Task(
        "fusion",
        "Fusion of 289,000 passes of 5 options",
        lambda: fusion.fuse_items(logp, passes=False),
        [Peer("SciPy softmax", idiom, 1, goal)],
    )
    yield Task(
        "fusion-passes",
        "The same, and the answer and margin of every pass",
        lambda: fusion.fuse_items(logp),
        [Peer("SciPy and NumPy", with_passes, 1, goal)],
    )


def auroc() -> Iterator[Task]:
    positive = RNG.random(4500) < 0.3
    score = RNG.normal(size=4500) + positive
    ranked = positive[np.argsort(score)]

    def bincount() -> list[float]:
        areas = []
        for _ in range(100):
            drawn = np.bincount(RNG.integers(0, 4500, 4500), minlength=4500)
            above = drawn * ranked
            below = drawn - above
            pairs = (above * np.cumsum(below)).sum()
            areas.append(pairs / (above.sum() * below.sum()))
        return areas

    def outer() -> tuple[float, float]:
        above, below = score[positive][:, None], score[~positive]
        wins = (above > below) + 0.5 * (above == below)
        m, n = wins.shape
        spread = wins.mean(1).var(ddof=1) / m + wins.mean(0).var(ddof=1) / n
        return wins.mean(), spread

    def ours() -> stats.AurocBootstrap:
        return stats.auroc_bootstrap(positive, score, n_resamples=10_000)

    delong = stats.auroc(positive, score)
    close((delong.value, delong.variance), outer(), 1e-10)
    close(ours().se, np.std(bincount(), ddof=1), 0.5)
    peers = [Peer("NumPy bincount", bincount, 100, 10)]
    try:
        from sklearn.metrics import roc_auc_score
    except ImportError:
        peers.append(Peer("scikit-learn loop", None, 1, 400))
    else:

        def loop() -> list[float]:
            drawn = RNG.integers(0, 4500, (3, 4500))
            return [roc_auc_score(positive[i], score[i]) for i in drawn]

        close(delong.value, roc_auc_score(positive, score))
        peers.append(Peer("scikit-learn loop", loop, 10_000 / 3, 400))
    yield Task("auroc", "AUROC of 4,500 items, 10,000 resamples", ours, peers)
    yield Task(
        "delong",
        "AUROC of 4,500 items with DeLong's variance",
        lambda: stats.auroc(positive, score),
        [Peer("NumPy outer product", outer, 1, 40)],
    )


TASKS = {"a": flips, "b": matched, "c": bootstrap, "d": fuse, "e": auroc}


def has_avx2() -> bool:
    """Whether the vector versions of the kernels run here."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return " avx2" in file.read()
    except OSError:
        return False


def seconds(run: Run, n_calls: int = 1) -> float:
    begun = time.thread_time()
    for _ in range(n_calls):
        run()
    return (time.thread_time() - begun) / n_calls


def enough_calls(run: Run) -> int:
    """How many calls in a row take 10 ms: one short call measures the caches."""
    run()  # warm
    return max(1, int(0.01 / max(seconds(run), 1e-6)))


def measure(task: Task, rounds: int) -> list[Row]:
    """One row a peer."""
    present = [peer for peer in task.peers if peer.run is not None]
    runs: list[Run] = [task.ours, *(peer.run for peer in present)]
    calls = [enough_calls(run) for run in runs]
    pairs = list(zip(runs, calls, strict=True))
    times = np.array([[seconds(*pair) for pair in pairs] for _ in range(rounds)])
    rows = []
    for peer in task.peers:
        key, title = f"{task.key}/{peer.name}", f"{task.title}, against {peer.name}"
        goal = Goal(peer.goal)
        if peer.run is None:
            lacking = f"what {peer.name} needs is not installed"
            rows.append(Row(key, title, None, goal=goal, lacking=lacking))
            continue
        theirs = times[:, 1 + present.index(peer)] * peer.scale
        rows.append(_report.ratio_row(key, title, theirs, times[:, 0], goal, peer.name))
    return rows


def main() -> int:
    options = _report.parse(_report.parser(__doc__, 7, TASKS), TASKS)
    rows = []
    for name in options.rows:
        for task in TASKS[name]():
            made = measure(task, options.rounds)
            for row in made:
                _report.print_row(row)
            rows += made
    versions = _report.versions_of("scipy", "scikit-learn")
    return _report.finish(rows, options, versions)


if __name__ == "__main__":
    sys.exit(main())
