"""Scoring in this process, and what every engine offers to `evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from phasefusion._runner import Runner
from phasefusion._scorer_checks import check_scorer
from phasefusion.datasets import Item
from phasefusion.engine.scorers import Prepared, prepare
from phasefusion.engine.spec import ScorerSpec
from phasefusion.progress import Listener

if TYPE_CHECKING:
    from phasefusion.protocols import Plan


class Crew(Protocol):
    """Workers for one run; a context, entered before they start, that ends them."""

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


class LocalCrew:
    """A crew of one: the process that asks."""

    def __init__(self, scorer: object) -> None:
        made = scorer.make() if isinstance(scorer, ScorerSpec) else scorer
        check_scorer(made)
        self._scorer: Any = made
        self.prepared = Prepared(made, {}, {})

    def prepare(self, plan: Plan) -> dict[str, Any]:
        """Get ready for a plan; return what identifies the scorers in run.json."""
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
