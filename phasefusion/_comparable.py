"""Whether numbers of two runs may be set side by side, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from phasefusion._measures import RunMeasures
from phasefusion.errors import RecordError, UsageError
from phasefusion.records import differences
from phasefusion.records.told import count_others

Topic: TypeAlias = Literal["sampling", "orders", "questions"]
TOPICS: tuple[Topic, ...] = ("sampling", "orders", "questions")
_MEANING: Mapping[Topic, str] = {
    "sampling": "frames were taken in another way",
    "orders": "options were shown in other orders",
    "questions": "items are not the same",
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One way in which two runs differ so that their numbers do not compare."""

    topic: Topic
    text: str

    def __str__(self) -> str:
        return f"{_MEANING[self.topic]}: {self.text}"


def check_topics(allow: Iterable[str], where: str) -> tuple[Topic, ...]:
    """Refuse what is no topic."""
    found: list[Topic] = []
    for name in allow:
        known = next((topic for topic in TOPICS if topic == name), None)
        if known is None:
            raise UsageError(f"{where}: {name!r} is not one of {', '.join(TOPICS)}")
        found.append(known)
    return tuple(found)


def sampling_differs(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[Obstacle]:
    """Find how two records of `RunMeasures.sampling` differ."""
    found = differences(dict(one), dict(other))
    return [Obstacle("sampling", "; ".join(found))] if found else []


def orders_differ(a: RunMeasures, b: RunMeasures) -> list[Obstacle]:
    """Find items that both have and that were shown in other orders."""
    common = [key for key in a.keys if key in b.orders]
    n = sum(a.orders[key] != b.orders[key] for key in common)
    if not n:
        return []
    return [
        Obstacle(
            "orders",
            f"{n} of {len(common)} items; up to {a.n_orders} and {b.n_orders} orders",
        )
    ]


def videos_differ(a: RunMeasures, b: RunMeasures) -> list[Obstacle]:
    """Find items that both have and that were about other files, if both say it."""
    n, n_both = count_others(a.videos, b.videos)
    if not n:
        return []
    return [Obstacle("questions", f"the videos of {n} of {n_both} are other files")]


def enforce(
    obstacles: Sequence[Obstacle], allow: Iterable[Topic], what: str, how: str
) -> tuple[str, ...]:
    """Raise for what is not allowed, and return the rest as notices.

    Parameters
    ----------
    obstacles : sequence of Obstacle
    allow : iterable of str
    what : str
        What cannot be done, at the beginning of the message.
    how : str
        How to allow a topic, with a place for its name.

    Raises
    ------
    RecordError
        Naming every obstacle that is not allowed.
    """
    allowed = set(allow)
    refused = [one for one in obstacles if one.topic not in allowed]
    if refused:
        topics = dict.fromkeys(one.topic for one in refused)
        ways = " and ".join(how.format(topic) for topic in topics)
        said = "; ".join(map(str, refused))
        raise RecordError(f"{what}: {said}. If it is meant to be so: {ways}")
    return tuple(map(str, obstacles))
