"""What to know before the numbers of a comparison are used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from phasefusion._results import counted
from phasefusion.compare._sides import (
    Given,
    Key,
    Side,
    cluster_labels,
    differences_of,
    gold_differs,
)
from phasefusion.planning import Design, tost_power
from phasefusion.planning._plans import points
from phasefusion.planning.equivalence import clusters_without_difference
from phasefusion.stats import clustered_mean

if TYPE_CHECKING:
    from phasefusion.compare import Outcome


def notices(
    a: Side,
    b: Side,
    common: Sequence[Key],
    used: Sequence[Key],
    outcome: Outcome | None,
    cluster: str,
    unparsed: str,
    margin: float,
    alpha: float,
) -> tuple[str, ...]:
    """Collect everything there is to say, the gravest first."""
    pairs = [(a.items[key], b.items[key]) for key in common]
    found = [
        *_identical(a, b, pairs),
        *_what_is_compared(a, b, pairs),
        *_gold(pairs),
        *_unparsed(pairs, unparsed),
    ]
    if outcome is not None:
        found += _videos(a, b, used, outcome, cluster)
        found += _margin(outcome, margin, alpha)
    return tuple(found)


def _identical(a: Side, b: Side, pairs: Sequence[tuple[Given, Given]]) -> Iterator[str]:
    """Say so when not a single answer differs."""
    both = [pair for pair in pairs if "missing" not in (pair[0].state, pair[1].state)]
    if not both or any(one.answer != other.answer for one, other in both):
        return
    if a.path.resolve() == b.path.resolve() and a.arm == b.arm:
        yield "both sides are the same arm of the same run"
        return
    evidence = "frames are not recorded on both sides"
    known = [
        one.frames == other.frames
        for one, other in both
        if one.frames is not None and other.frames is not None
    ]
    if known:
        evidence = (
            f"of {len(known)} items with recorded frames {sum(known)} have the same "
            "on both sides"
        )
    texts = [one.texts == other.texts for one, other in both if one.texts]
    if texts and all(texts):
        evidence += ", and every text is the same"
    yield (
        f"identical answers on all {len(both)} items - same evidence? {evidence}; do "
        "not count them as two independent runs"
    )


def _what_is_compared(
    a: Side, b: Side, pairs: Sequence[tuple[Given, Given]]
) -> Iterator[str]:
    if a.arm != b.arm:
        yield f"different arms: {a.arm} of A and {b.arm} of B"
    digests = sum(
        one.digest != other.digest
        for one, other in pairs
        if one.digest is not None and other.digest is not None
    )
    if digests:
        yield (
            f"{digests} questions are not the same in the two question files (text, "
            "options, gold or span differ), though their ids are"
        )
    orders = sum(
        one.orders != other.orders
        for one, other in pairs
        if one.passes and other.passes
    )
    if orders:
        yield (
            f"{orders} items were shown in other option orders: their answers differ "
            "by order too"
        )
    budgets = [
        {n for given in side for n in given.budgets}
        for side in zip(*pairs, strict=True)
    ]
    if all(budgets) and budgets[0] != budgets[1]:
        one, other = (" or ".join(map(str, sorted(side))) for side in budgets)
        yield (
            f"the passes of A have {one} frames, those of B {other}: changes are not "
            "those of a phase"
        )


def _gold(pairs: Sequence[tuple[Given, Given]]) -> Iterator[str]:
    differ = sum(gold_differs(one, other) for one, other in pairs)
    if differ:
        yield (
            f"the gold of {differ} items differs: the runs may list their options in "
            "another order; these items are neither judged nor counted as answered "
            "differently"
        )
    lent = sum(
        (one.info.gold is None) != (other.info.gold is None) for one, other in pairs
    )
    if lent:
        yield f"the gold of {lent} items is known in one run only, and taken from it"


def _unparsed(pairs: Sequence[tuple[Given, Given]], policy: str) -> Iterator[str]:
    for name, side in zip("AB", zip(*pairs, strict=True), strict=True):
        n = sum(given.state == "unparsed" for given in side)
        if n:
            what = "counted as wrong" if policy == "wrong" else "left out"
            yield f"{n} texts of {name} name no option; they are {what}"


def _videos(
    a: Side, b: Side, used: Sequence[Key], outcome: Outcome, cluster: str
) -> Iterator[str]:
    """Warn when questions share videos and the intervals do not know."""
    if cluster == "video":
        return
    labels = cluster_labels(a, b, used, "video")
    n_videos = len(set(labels.tolist()))
    if n_videos == len(used):
        return
    made = clustered_mean(differences_of(a, b, used), labels, limits=(-1.0, 1.0))
    yield (
        f"the {len(used)} questions are about {n_videos} videos, which the intervals "
        f"do not use: clustered by video the 95 % interval is [{100 * made.low:.2f}, "
        f"{100 * made.high:.2f}] points (cluster='video')"
    )


def _margin(outcome: Outcome, margin: float, alpha: float) -> Iterator[str]:
    """Say when no observed difference could have certified the margin."""
    n_discordant = outcome.only_a + outcome.only_b
    interval, mean = outcome.tost.mean, outcome.difference
    if mean.degenerate:
        yield from _nothing_varies(outcome, margin, alpha)
        return
    half_width = (interval.high - interval.low) / 2.0
    if not half_width >= margin:
        return
    effect = mean.design_effect
    plan = tost_power(
        mean.n,
        margin=margin,
        discordance=n_discordant / mean.n,
        alpha=alpha,
        design=Design(effect if effect > 0.0 else 1.0, mean.n / mean.n_clusters),
    )
    yield (
        f"equivalence within {points(margin)} is not certifiable at this size: the "
        f"{100 * (1 - 2 * alpha):g} % interval is +-{points(half_width)}, whatever the "
        f"difference; more than {plan.n_certifiable - 1} items like these are needed"
    )


def _nothing_varies(outcome: Outcome, margin: float, alpha: float) -> Iterator[str]:
    """Say what is known when every cluster has the same difference."""
    mean = outcome.difference
    what = "no cluster differs from the others in A - B"
    if outcome.only_a + outcome.only_b == 0:
        what = "both sides are right on the same items"
    said = (
        f"{what}, so no variance can be estimated; the intervals are exact ones for "
        f"{counted(mean.n_clusters, 'cluster')} without a difference"
    )
    if outcome.tost.verdict == "not certifiable":
        needed = clusters_without_difference(margin, alpha)
        said += f"; {needed} like these would show equivalence within {points(margin)}"
    yield said
