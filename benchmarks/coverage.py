"""Whether intervals cover, tests keep their level and risk control its promise.

Every line is a statement with a nominal value: an interval at 90 or 95 % must contain
the truth that often, a test at 5 % must reject a true hypothesis no more often, and
risk control must fail with probability delta at most. Where the distribution is a sum
over few cases it is added up exactly; elsewhere data are drawn again and again from
models whose truth is known: small ones made here, and corpora of `phasefusion.simulate`
in which questions of one video are alike.

    python benchmarks/coverage.py [--replicates 2000] [--write docs/coverage.md]

Exit status 1 when a statement that should hold does not. Lines marked "known" say where
a method is used beyond what it is made for, and by how much it misses then.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from phasefusion import stats
from phasefusion.simulate import Corpus, Design, Effects
from phasefusion.simulate._truth import margin_and_flip, vote_columns

Kind = Literal["interval", "test"]
Array = np.ndarray[Any, np.dtype[Any]]
#: What an approximation may miss the nominal coverage by, over Monte-Carlo error.
SLACK = 0.015
TITLES = {
    "interval": "Intervals: how often they contain the truth",
    "test": "Tests and risk control: how often they reject what is true",
}


@dataclass
class Line:
    """One statement, and how often it held."""

    name: str
    kind: Kind
    nominal: float
    hits: float = 0
    n: int = 0
    exact: bool = False
    known: str = ""

    @property
    def share(self) -> float:
        """How often it covered, or rejected."""
        return self.hits / self.n if self.n else math.nan

    @property
    def error(self) -> float:
        """Monte-Carlo standard error of the share."""
        if self.exact or not self.n:
            return 0.0
        return math.sqrt(self.nominal * (1 - self.nominal) / self.n)

    @property
    def holds(self) -> bool:
        """Whether the share is nominal, or on the safe side of it."""
        room = 3 * self.error
        if self.kind == "test":
            return self.share <= self.nominal + room
        return self.share >= self.nominal - room - SLACK

    @property
    def verdict(self) -> str:
        """What the table says."""
        off = self.share - self.nominal
        beyond = abs(off) > 2 * self.error + (0.005 if self.kind == "interval" else 0)
        if not beyond:
            return "nominal"
        safe = off > 0 if self.kind == "interval" else off < 0
        if safe:
            return "conservative"
        if self.known:
            return f"known: {self.known}"
        return "a little short" if self.holds else "MISSED"


@dataclass
class Study:
    """All lines, by name."""

    lines: dict[str, Line] = field(default_factory=dict)

    def line(self, name: str, kind: Kind, nominal: float, known: str = "") -> Line:
        """Return the line of that name."""
        return self.lines.setdefault(name, Line(name, kind, nominal, known=known))

    def covers(
        self, name: str, level: float, made: Any, truth: float, known: str = ""
    ) -> None:
        """Count an interval; one that is undefined does not cover."""
        line = self.line(name, "interval", level, known)
        line.n += 1
        line.hits += bool(made.low <= truth <= made.high)

    def rejects(self, name: str, level: float, hit: bool, known: str = "") -> None:
        """Count a rejection of what is true."""
        line = self.line(name, "test", level, known)
        line.n += 1
        line.hits += bool(hit)

    def exactly(self, name: str, kind: Kind, level: float, share: float) -> Line:
        """Set a share that was added up."""
        line = self.line(name, kind, level)
        line.hits, line.n, line.exact = share, 1, True
        return line


def binomial(study: Study) -> None:
    """Add up coverage of proportions, mean and least over p, and the exact tests."""
    grid = np.linspace(0.02, 0.98, 97)
    for n in (30, 600):
        for level in (0.9, 0.95):
            for method in ("wilson", "clopper-pearson"):
                made = [
                    stats.proportion_ci(k, n, level, method)  # type: ignore[arg-type]
                    for k in range(n + 1)
                ]
                low = np.array([m.low for m in made])[:, None]
                high = np.array([m.high for m in made])[:, None]
                inside = (low <= grid) & (grid <= high)
                cover = (binom.pmf(np.arange(n + 1)[:, None], n, grid) * inside).sum(0)
                name = f"{method}, n = {n}, at {100 * level:.0f} %"
                study.exactly(f"{name}, mean over p", "interval", level, cover.mean())
                if method == "clopper-pearson":
                    study.exactly(f"{name}, least", "interval", level, cover.min())
    for n in (8, 20, 50, 133):
        chance = binom.pmf(np.arange(n + 1), n, 0.5)
        made_tests = [stats.mcnemar(b, n - b) for b in range(n + 1)]
        for label, attribute in (("exact", "pvalue"), ("mid-p", "midp")):
            p = np.array([getattr(made, attribute) for made in made_tests])
            size = float(chance[p <= 0.05].sum())
            name = f"McNemar {label}, {n} discordant"
            line = study.exactly(name, "test", 0.05, size)
            if label == "mid-p":
                line.known = "the mid-p is no upper bound"


def clustered_signs(
    rng: np.random.Generator, n_clusters: int, mean: float
) -> tuple[Array, Array]:
    """Differences in -1, 0, 1 of expectation `mean`, alike within clusters of three."""
    tilt = rng.choice([-1.0, 1.0], n_clusters)[:, None] * 0.05
    up = np.broadcast_to(0.07 + mean / 2 + tilt * 0.9, (n_clusters, 3))
    down = np.broadcast_to(0.07 - mean / 2 - tilt * 0.9, (n_clusters, 3))
    u = rng.random((n_clusters, 3))
    values = np.where(u < up, 1, np.where(u > 1 - down, -1, 0))
    return values.ravel(), np.repeat(np.arange(n_clusters), 3)


def means(study: Study, rng: np.random.Generator) -> None:
    """Clustered means, bootstraps, equivalence and paired tests of one draw."""
    few = "few clusters, rare changes"
    for n_clusters in (10, 30, 200):
        known = few if n_clusters < 30 else ""
        values, cluster = clustered_signs(rng, n_clusters, 0.01)
        where = f"{n_clusters} clusters of 3"
        for level in (0.9, 0.95):
            made = stats.clustered_mean(
                values, cluster, confidence_level=level, limits=(-1.0, 1.0)
            )
            study.covers(
                f"clustered mean (CR1, t), {where}, at {100 * level:.0f} %",
                level,
                made,
                0.01,
                known,
            )
        drawn = stats.cluster_bootstrap(
            values, cluster, n_resamples=1000, seed=int(rng.integers(2**31))
        )
        study.covers(
            f"cluster bootstrap (percentile), {where}, at 95 %",
            0.95,
            drawn,
            0.01,
            few if n_clusters < 200 else "",
        )
        values, cluster = clustered_signs(rng, n_clusters, 0.05)
        if n_clusters >= 30:
            made_tost = stats.tost(values, cluster, margin=0.05, limits=(-1.0, 1.0))
            study.rejects(f"TOST at its margin, {where}", 0.05, made_tost.equivalent)
        values, cluster = clustered_signs(rng, n_clusters, 0.0)
        made_test = stats.clustered_mcnemar(values, cluster)
        study.rejects(f"clustered McNemar, {where}", 0.05, made_test.pvalue <= 0.05)
        sums = np.bincount(cluster, values)
        flipped = stats.sign_flip_test(sums).pvalue
        study.rejects(f"sign-flip test, {where}", 0.05, flipped <= 0.05)


def areas(study: Study, rng: np.random.Generator) -> None:
    """AUROC of normal scores, independent and in clusters."""
    for truth in (0.7, 0.85):
        lead = math.sqrt(2) * normal_quantile(truth)
        positive = np.repeat([True, False], [60, 120])
        score = rng.normal(size=180) + lead * positive
        for level in (0.9, 0.95):
            made = stats.auroc(positive, score, confidence_level=level)
            study.covers(
                f"AUROC {truth} (DeLong), 60 + 120, at {100 * level:.0f} %",
                level,
                made,
                truth,
            )
            study.covers(
                f"AUROC {truth} (DeLong, logit), 60 + 120, at {100 * level:.0f} %",
                level,
                SimpleNamespace(low=made.logit_low, high=made.logit_high),
                truth,
            )
    cluster = np.repeat(np.arange(150), 4)
    shared, own = math.sqrt(0.5), math.sqrt(0.5)
    kind = rng.random(150) < 0.4  # a cluster leans to one class
    positive = rng.random(600) < np.where(kind, 0.7, 0.15)[cluster]
    score = shared * rng.normal(size=150)[cluster] + own * rng.normal(size=600)
    score += math.sqrt(2) * normal_quantile(0.75) * positive
    # within a cluster the shared part cancels; such pairs are one in 150
    near = ndtr(normal_quantile(0.75) * math.sqrt(2) / math.sqrt(2 * own**2))
    same = within_pairs(positive, cluster)
    truth = same * near + (1 - same) * 0.75
    name = "AUROC 0.75 in 150 clusters of 4"
    study.covers(
        f"{name} (Obuchowski), at 95 %",
        0.95,
        stats.auroc(positive, score, cluster=cluster),
        truth,
    )
    study.covers(
        f"{name} (DeLong), at 95 %",
        0.95,
        stats.auroc(positive, score),
        truth,
        "it takes items as independent",
    )


def within_pairs(positive: Array, cluster: Array) -> float:
    """Share of the pairs of both classes that lie in one cluster."""
    above, below = np.bincount(cluster, positive), np.bincount(cluster, ~positive)
    return float((above * below).sum() / (above.sum() * below.sum()))


def normal_quantile(p: float) -> float:
    """Quantile of the normal distribution."""
    from scipy.special import ndtri

    return float(ndtri(p))


def control(study: Study, rng: np.random.Generator) -> None:
    """Risk control where every threshold is exactly as risky as is allowed."""
    confidence = rng.random(200)
    for alpha, delta in ((0.2, 0.1), (0.1, 0.05)):
        error = rng.random(200) < alpha
        made = stats.control_risk(
            confidence, error, np.linspace(0.9, 0.1, 9), alpha=alpha, delta=delta
        )
        study.rejects(
            f"risk control violated at alpha = {alpha}, delta = {delta}",
            delta,
            made.certified > 0,
        )


def permutations(study: Study, seed: int) -> None:
    """Matched-vote null of a corpus whose phases do nothing."""
    still = Corpus(
        Design(n_videos=20, n_options={4: 1}, seed=seed),
        Effects(phase_sd=0.0, noise_sd=0.8),
    )
    made = stats.matched_vote_null(
        still.answers("phase"), n_options=4, n_permutations=99, seed=seed
    )
    for level in (0.05, 0.5):
        study.rejects(
            f"permutation null of the matched vote, p <= {level}",
            level,
            made.pvalue <= level,
        )


#: Means over items of a corpus.
MEANS = (
    "accuracy single",
    "accuracy fusion",
    "fusion - dense",
    "fusion - single",
    "phase flip pairwise",
    "phase flip any",
    "order flip pairwise",
    "order flip any",
    "half-step change single",
    "half-step change fusion",
)


def corpora(
    study: Study, made: Corpus, truth: dict[str, float], found: dict[str, list[float]]
) -> None:
    """Intervals of one corpus of 60 videos with three questions each."""
    columns = made.columns()
    excess = vote_columns(made)
    margin, flip = margin_and_flip(made)
    for name in MEANS:
        for level in (0.9, 0.95):
            interval = stats.clustered_mean(
                columns[name], made.video, confidence_level=level, limits=(-1.0, 1.0)
            )
            study.covers(
                f"corpus: {name} (CR1, t, by video), at {100 * level:.0f} %",
                level,
                interval,
                truth[name],
            )
        found.setdefault(name, []).append(interval.mean)
    for name in ("order flip any", "phase flip any", "half-step change single"):
        values = columns[name]
        share = stats.proportion_ci(int(values.sum()), len(values))
        study.covers(
            f"corpus: {name} (Wilson, items as independent), at 95 %",
            0.95,
            share,
            truth[name],
            "questions of one video are alike",
        )
    first = columns["accuracy single"]
    study.covers(
        "corpus: accuracy single (no clusters), at 95 %",
        0.95,
        stats.clustered_mean(first, limits=(0.0, 1.0)),
        truth["accuracy single"],
        "questions of one video are alike",
    )
    interval = stats.clustered_mean(excess, made.video, limits=(-1.0, 1.0))
    study.covers(
        "corpus: matched-vote excess (CR1, t, by video), at 95 %",
        0.95,
        interval,
        truth["matched-vote excess"],
    )
    found.setdefault("matched-vote excess", []).append(interval.mean)
    area = stats.auroc(flip, -margin, cluster=made.video)
    study.covers(
        "corpus: AUROC of order flips (Obuchowski, by video), at 95 %",
        0.95,
        area,
        truth["flip AUROC"],
    )
    found.setdefault("flip AUROC", []).append(area.value)
    ratio = stats.flip_ratio(
        columns["phase flip pairwise"],
        columns["re-run change"],
        cluster=made.video,
        n_resamples=1000,
        seed=made.design.seed,
    )
    study.covers(
        "corpus: ratio to the re-run floor (percentile, by video), at 95 %",
        0.95,
        ratio,
        truth["flip ratio"],
    )


@dataclass
class Recovery:
    """Mean estimate against the truth."""

    name: str
    truth: float
    mean: float
    error: float

    @property
    def distance(self) -> float:
        """In standard errors of both."""
        return (self.mean - self.truth) / self.error if self.error else 0.0


def run(
    replicates: int, n_truth: int, seed: int = 20261130
) -> tuple[Study, list[Recovery]]:
    """Run everything; the same for the same numbers."""
    study = Study()
    binomial(study)
    rng = np.random.default_rng(seed)
    for _ in range(replicates):
        means(study, rng)
        areas(study, rng)
        control(study, rng)
    for r in range(max(1, replicates // 4)):
        permutations(study, seed + r)
    kind = Corpus(Design(n_videos=60, seed=seed), Effects(noise_sd=0.3))
    evaluated = kind.truth(n_items=n_truth)
    truth = {name: value.value for name, value in evaluated.items()}
    found: dict[str, list[float]] = {}
    for r in range(max(1, replicates // 2)):
        corpora(study, kind.with_seed(seed + 1 + r), truth, found)
    recovered = []
    for name, values in found.items():
        error = math.hypot(
            float(np.std(values, ddof=1)) / math.sqrt(len(values)), evaluated[name].se
        )
        recovered.append(Recovery(name, truth[name], float(np.mean(values)), error))
    return study, recovered


def problems(study: Study, recovered: list[Recovery]) -> Iterator[str]:
    """What should hold and does not."""
    for line in study.lines.values():
        if not line.holds and not line.known:
            yield f"{line.name}: {100 * line.share:.2f} %, not {100 * line.nominal:g} %"
    for item in recovered:
        if abs(item.distance) > 4:
            yield f"{item.name}: {item.mean:.4f}, the truth is {item.truth:.4f}"


def page(study: Study, recovered: list[Recovery], replicates: int) -> str:
    """Write the page of the documentation."""
    parts = [
        "# Coverage",
        "",
        f"Made by `make studies ONLY=coverage` (`benchmarks/coverage.py`) with "
        f"{replicates} replicates ({replicates // 2} corpora of 180 questions on 60 "
        f"videos, {replicates // 4} permutation tests). ± is two Monte-Carlo standard "
        "errors; lines without it are sums over all cases. *Nominal* is within that of "
        "the nominal value, half a point more for intervals. *Conservative* is on the "
        "safe side of it, *a little short* within 1.5 points on the other. *Known* "
        "marks methods used beyond what they are made for: they are there "
        "to show why the other line of the same name is the default.",
    ]
    kinds: tuple[Kind, ...] = ("interval", "test")
    for kind in kinds:
        parts += ["", f"## {TITLES[kind]}", "", "| | nominal | measured | |"]
        parts += ["|---|---:|---:|---|"]
        for line in study.lines.values():
            if line.kind == kind:
                room = f" ± {200 * line.error:.1f}" if line.error else ""
                parts.append(
                    f"| {line.name} | {100 * line.nominal:g} % | "
                    f"{100 * line.share:.1f}{room} % | {line.verdict} |"
                )
    parts += [
        "",
        "## Estimates come to the truth",
        "",
        "Mean over the corpora, against an evaluation of a large sample with other "
        "seeds; the distance is in standard errors of the difference.",
        "",
        "| | truth | mean estimate | distance |",
        "|---|---:|---:|---:|",
    ]
    parts += [
        f"| {r.name} | {r.truth:.4f} | {r.mean:.4f} | {r.distance:+.1f} |"
        for r in recovered
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Run, print, and write the page where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--truth", type=int, default=100_000, help="items")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    study, recovered = run(given.replicates, given.truth)
    text = page(study, recovered, given.replicates)
    print(text)
    if given.write:
        given.write.write_text(text)
    wrong = list(problems(study, recovered))
    for line in wrong:
        print(f"MISSED {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
