"""Where the passes of a run are made: here, in shards, or by workers of a cluster."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from phasefusion.engine.drive import Limits
from phasefusion.engine.local import Crew, LocalCrew
from phasefusion.engine.ray import RayEngine
from phasefusion.engine.scheduling import Lease, Part, Poison, Scheduler, Unit
from phasefusion.engine.scorers import Prepared
from phasefusion.engine.shards import Shard, merge_shards
from phasefusion.engine.spec import ScorerSpec
from phasefusion.errors import UsageError


class Engine(Protocol):
    """Anything that can find workers for a scorer."""

    def hire(self, scorer: object) -> Crew:
        """Return them; they start when they are first needed."""


EngineArgument: TypeAlias = Literal["local", "ray"] | Engine

__all__ = [
    "Crew",
    "Engine",
    "EngineArgument",
    "Lease",
    "Limits",
    "Part",
    "Poison",
    "Prepared",
    "RayEngine",
    "Scheduler",
    "ScorerSpec",
    "Shard",
    "Unit",
    "hire",
    "merge_shards",
]


def hire(engine: EngineArgument, scorer: object) -> Crew:
    """Return the workers of an engine, which start when they are first needed.

    Raises
    ------
    UsageError
        If there is no such engine.
    ScoringError
        If `scorer` cannot score.
    BackendUnavailableError
        If the engine is not installed.
    """
    if engine == "local":
        return LocalCrew(scorer)
    if engine == "ray":
        engine = RayEngine()
    if hasattr(engine, "hire"):
        return engine.hire(scorer)
    raise UsageError(f'engine must be "local", "ray" or a RayEngine, not {engine!r}')
