"""Scoring in this process, and what every engine offers to `evaluate`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from phasefusion._runner import Runner, check_scorer
from phasefusion.datasets import Item
from phasefusion.engine.spec import ScorerSpec
from phasefusion.progress import Listener

if TYPE_CHECKING:
    from phasefusion.scoring.protocol import Scorer


class Crew(Protocol):
    """Workers for one run; as a context it lets them go at the end."""

    @property
    def scorer(self) -> Scorer:
        """The scorer in this process, or what stands for it."""

    def describe(self) -> dict[str, Any]:
        """Return what identifies the scorer in run.json."""

    def run(
        self, runner: Runner, items: Sequence[Item], show: bool | Listener | None
    ) -> None:
        """Make every pass of `items` that is not on disk."""

    def __enter__(self) -> Crew: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


def describe_scorer(scorer: object) -> dict[str, Any]:
    """Return what identifies a scorer in run.json.

    Which of several equal devices it was is left out, because the workers of one run,
    or its shards, each have another.
    """
    described = getattr(scorer, "describe", None)
    kind = type(scorer)
    found = {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        **(described() if callable(described) else {}),
    }
    if isinstance(found.get("device"), str):
        found["device"] = re.sub(r"(?<=[a-z]):\d+$", "", found["device"])
    return found


class LocalCrew:
    """A crew of one: the process that asks."""

    def __init__(self, scorer: object) -> None:
        made = scorer.make() if isinstance(scorer, ScorerSpec) else scorer
        check_scorer(made)
        self.scorer: Any = made

    def describe(self) -> dict[str, Any]:
        """Return what identifies the scorer in run.json."""
        return describe_scorer(self.scorer)

    def run(
        self, runner: Runner, items: Sequence[Item], show: bool | Listener | None
    ) -> None:
        """Make every pass of `items` that is not on disk, video by video."""
        runner.run(items, show)

    def __enter__(self) -> LocalCrew:
        return self

    def __exit__(self, *error: object) -> None:
        pass
