"""Where the passes of a run are made: here, in shards, or by workers of a cluster."""

from __future__ import annotations

from typing import Literal, TypeAlias

from phasefusion.engine.drive import Limits
from phasefusion.engine.local import Crew, LocalCrew
from phasefusion.engine.ray import RayEngine
from phasefusion.engine.scheduling import Lease, Part, Poison, Scheduler, Unit
from phasefusion.engine.shards import Shard, merge_shards
from phasefusion.engine.spec import ScorerSpec
from phasefusion.errors import UsageError

EngineArgument: TypeAlias = Literal["local", "ray"] | RayEngine

__all__ = [
    "Crew",
    "EngineArgument",
    "Lease",
    "Limits",
    "Part",
    "Poison",
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
    if isinstance(engine, RayEngine):
        return engine.hire(scorer)
    if engine == "ray":
        return RayEngine().hire(scorer)
    if engine == "local":
        return LocalCrew(scorer)
    raise UsageError(f'engine must be "local", "ray" or a RayEngine, not {engine!r}')
