"""Scoring in this process, and what every engine offers to `evaluate`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from phasefusion._runner import Runner
from phasefusion._scorer_checks import check_scorer
from phasefusion.datasets import Item
from phasefusion.engine.spec import ScorerSpec
from phasefusion.progress import Listener

if TYPE_CHECKING:
    from phasefusion.protocols import Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """All scorers of a run.

    Attributes
    ----------
    scorer : Scorer
        None stands for one in another process.
    variants : mapping
        Scorers of further prompts.
    facts : dict
        What identifies them in run.json: "scorer", and "prompts" where there are any.
    """

    scorer: Any
    variants: Mapping[Any, Any]
    facts: dict[str, Any]


class Crew(Protocol):
    """Workers for one run; as a context it lets them go at the end."""

    @property
    def prepared(self) -> Prepared:
        """The scorers in this process, or what stands for them."""

    def prepare(self, plan: Plan) -> dict[str, Any]:
        """Get ready for a plan; return what identifies the scorers in run.json."""

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
        self._scorer: Any = made
        self.prepared = Prepared(made, {}, {})

    def prepare(self, plan: Plan) -> dict[str, Any]:
        """Get ready for a plan; return what identifies the scorers in run.json."""
        from phasefusion.evaluate import prepare

        self.prepared = prepare(self._scorer, plan)
        return dict(self.prepared.facts)

    def run(
        self, runner: Runner, items: Sequence[Item], show: bool | Listener | None
    ) -> None:
        """Make every pass of `items` that is not on disk, video by video."""
        runner.run(items, show)

    def __enter__(self) -> LocalCrew:
        return self

    def __exit__(self, *error: object) -> None:
        pass
