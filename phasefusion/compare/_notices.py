"""What to know before the numbers of a comparison are used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from phasefusion._wording import by_number, counted
from phasefusion.compare._sides import (
    Given,
    Key,
    Side,
    cluster_labels,
    differences_of,
    gold_differs,
    other_video,
)
from phasefusion.planning import Design, tost_power
from phasefusion.planning._plans import points
from phasefusion.planning.equivalence import clusters_without_difference
from phasefusion.records.merging import contradictions
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
    known = [
        one.frames == other.frames
        for one, other in both
        if one.frames is not None and other.frames is not None
    ]
    identical = f"identical answers on {_all(len(both))}"
    if known:
        said = (
            f"{identical} - same evidence? of {counted(len(known), 'item')} with "
            f"recorded frames {sum(known)} {_have(sum(known))} the same on both sides"
        )
    else:
        lacking = [
            name
            for name, side in zip("AB", zip(*both, strict=True), strict=True)
            if all(given.frames is None for given in side)
        ]
        where = f"in {' and '.join(lacking)}" if lacking else "on both sides"
        said = f"{identical}; whether both saw the same frames is not recorded {where}"
    texts = [one.texts == other.texts for one, other in both if one.texts]
    if texts and all(texts):
        said += ", and every text is the same"
    yield f"{said}; do not count them as two independent runs"


def _all(n: int) -> str:
    return by_number(n, "the one item", f"all {n} items")


def _have(n: int) -> str:
    return by_number(n, "has", "have")


def _what_is_compared(
    a: Side, b: Side, pairs: Sequence[tuple[Given, Given]]
) -> Iterator[str]:
    for name, side in (("A", a), ("B", b)):
        said = contradictions(side.run)
        if said:
            yield f"{name} is no run of one making: it was {said}"
    if a.arm != b.arm:
        yield f"different arms: {a.arm} of A and {b.arm} of B"
    digests = sum(
        one.digest != other.digest
        for one, other in pairs
        if one.digest is not None and other.digest is not None
    )
    if digests:
        yield (
            f"{counted(digests, 'question')} {by_number(digests, 'is', 'are')} not the "
            "same in the two question files (text, options, gold or span differ), "
            "though the ids are"
        )
    files = sum(map(other_video, *zip(*pairs, strict=True)))
    if files:
        yield (
            f"the video of {counted(files, 'question')} is another file in A than in "
            "B (video_digest): changes are not those of a phase"
        )
    orders = sum(
        one.orders != other.orders
        for one, other in pairs
        if one.passes and other.passes
    )
    if orders:
        yield (
            f"{counted(orders, 'item')} {by_number(orders, 'was', 'were')} shown in "
            "other option orders: the answers differ by order too"
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
            f"the gold of {counted(differ, 'item')} differs: the runs may list their "
            "options in another order; what they answer there is neither judged nor "
            "counted as different"
        )
    lent = sum(
        (one.info.gold is None) != (other.info.gold is None) for one, other in pairs
    )
    if lent:
        yield (
            f"the gold of {counted(lent, 'item')} is known in one run only, and taken "
            "from it"
        )


def _unparsed(pairs: Sequence[tuple[Given, Given]], policy: str) -> Iterator[str]:
    for name, side in zip("AB", zip(*pairs, strict=True), strict=True):
        n = sum(given.state == "unparsed" for given in side)
        if n:
            what = "counted as wrong" if policy == "wrong" else "left out"
            said = by_number(n, "text names", "texts name")
            yield f"{n} {said} no option in {name}, {what}"


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
        f"the {len(used)} questions are about {counted(n_videos, 'video')}, which the "
        "intervals do not use: clustered by video the 95 % interval is "
        f"[{100 * made.low:.2f}, {100 * made.high:.2f}] points (cluster='video')"
    )


def _margin(outcome: Outcome, margin: float, alpha: float) -> Iterator[str]:
    """Say when no observed difference could have certified the margin."""
    n_discordant = outcome.only_a + outcome.only_b
    mean = outcome.difference
    if mean.degenerate:
        yield from _nothing_varies(outcome, margin, alpha)
        return
    half_width = outcome.tost.mean.half_width
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
    reach = points(min(half_width, 1.0))
    yield (
        f"equivalence within {points(margin)} is not certifiable at this size: the "
        f"{100 * (1 - 2 * alpha):g} % interval is +-{reach}, whatever the "
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
