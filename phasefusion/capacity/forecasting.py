"""How long a question file will take, on how many workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from phasefusion._results import Result
from phasefusion._runner import count_calls
from phasefusion.capacity.model import ArmLoad, CostModel
from phasefusion.capacity.simulation import Conditions, Outcome, bound_s, simulate
from phasefusion.capacity.videos import VideoFacts, survey
from phasefusion.datasets import Item
from phasefusion.engine.scheduling import Part, Unit
from phasefusion.engine.shards import Shard
from phasefusion.engine.units import CostOf
from phasefusion.errors import DatasetError
from phasefusion.protocols.arms import sampled_frames
from phasefusion.protocols.plans import orders_of


@dataclass(frozen=True, slots=True)
class Workload:
    """What a protocol asks for every question.

    Attributes
    ----------
    arms : tuple of ArmLoad
    orders : mapping
        What the option orders are, as run.json says it.
    """

    arms: tuple[ArmLoad, ...]
    orders: Mapping[str, Any]

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Workload:
        """Return the workload of a run, by the settings in its run.json.

        Arms that reach some questions only count as if they reached all; one whose
        sampler goes by the frame rate counts with its budget.
        """
        arms = tuple(
            ArmLoad(int(arm.get("phases", 1)), _frames(arm)) for arm in settings["arms"]
        )
        return cls(arms, settings["orders"])

    def n_orders(self, n_options: int) -> int:
        """Orders of so many options."""
        return len(orders_of(self.orders, n_options))

    @property
    def n_wanted(self) -> int:
        """Different frames of a long video that some arm wants, at most."""
        return sum(arm.phases * arm.frames for arm in self.arms)

    @property
    def passes_an_order(self) -> int:
        """Passes of a question in one order."""
        return sum(arm.phases for arm in self.arms)


@dataclass(frozen=True, slots=True, repr=False)
class Forecast(Result):
    """What a question file will cost.

    Attributes
    ----------
    n_questions, n_videos, n_passes : int
    decode_s, prefix_s, orders_s : float
        Of one worker: videos, what orders share, what each costs.
    longest_s : float
        The video that takes longest, with its questions: no number of workers is
        faster.
    units : tuple of Unit
        Every video with its questions, in seconds.
    startup_s : float
    """

    n_questions: int
    n_videos: int
    n_passes: int
    decode_s: float
    prefix_s: float
    orders_s: float
    longest_s: float
    units: tuple[Unit, ...]
    startup_s: float

    @property
    def total_s(self) -> float:
        """Work of all videos and questions."""
        return self.decode_s + self.prefix_s + self.orders_s

    def on(self, n_workers: int, **conditions: Any) -> Outcome:
        """Let workers do it; the keywords are those of `Conditions`."""
        made = Conditions(n_workers, **{"startup_s": self.startup_s, **conditions})
        return simulate(self.units, made)

    def in_shards(self, n_shards: int, items: Sequence[Item]) -> float:
        """Seconds that the slowest of so many shards takes."""
        costs = {part.name: part.cost for unit in self.units for part in unit.parts}
        openings = {unit.parts[0].name: unit.opening for unit in self.units}
        numbers = {id(item): str(i) for i, item in enumerate(items)}
        loads = []
        for index in range(1, n_shards + 1):
            names = [numbers[id(item)] for item in Shard(index, n_shards).part(items)]
            loads.append(sum(costs[n] + openings.get(n, 0.0) for n in names))
        return self.startup_s + max(loads)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the units as JSON values."""
        return asdict(replace(self, units=())) | {"total_s": self.total_s}


def forecast(
    items: Sequence[Item],
    model: CostModel,
    workload: Workload,
    *,
    videos: Mapping[str, VideoFacts] | None = None,
) -> Forecast:
    """Predict what questions will cost.

    Parameters
    ----------
    items : sequence of Item
    model : CostModel
    workload : Workload
    videos : mapping, optional
        Facts by path; by default `survey` opens some of them.

    Returns
    -------
    Forecast

    Raises
    ------
    DatasetError
        If there are no questions.
    """
    if not items:
        raise DatasetError("there are no questions to make a forecast of")
    if videos is None:
        videos = survey(item.video for item in items)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, item in enumerate(items):
        key = (item.video, item.video_id, item.start, item.end)
        groups.setdefault(key, []).append(number)
    units, decode_s, prefix_s = [], 0.0, 0.0
    for key, numbers in groups.items():
        opening = model.video_s(videos[key[0]], workload.n_wanted)
        decode_s += opening
        shared_s, own_s = _seconds([items[i] for i in numbers], model, workload)
        prefix_s += shared_s * len(numbers)
        parts = tuple(
            Part(str(number), shared_s + own)
            for number, own in zip(numbers, own_s, strict=True)
        )
        units.append(Unit(str(key), parts, opening))
    orders = [workload.n_orders(len(item.options)) for item in items]
    return Forecast(
        n_questions=len(items),
        n_videos=len(groups),
        n_passes=workload.passes_an_order * sum(orders),
        decode_s=decode_s,
        prefix_s=prefix_s,
        orders_s=sum(model.orders_s(arm, m) for m in orders for arm in workload.arms),
        longest_s=bound_s(units, len(units)),
        units=tuple(units),
        startup_s=model.startup_s,
    )


def _frames(arm: Mapping[str, Any]) -> int:
    """Return the frames of a pass, as far as settings tell, 0 without the video."""
    asked = arm.get("asked_frames")
    if asked is None:
        return int(arm.get("budget", 0))
    return sampled_frames(arm["sampler"], int(asked)) or int(asked)


def _seconds(
    group: Sequence[Item], model: CostModel, workload: Workload
) -> tuple[float, list[float]]:
    """Return what each question of a video bears of the calls, and its own orders."""
    n_orders = [workload.n_orders(len(item.options)) for item in group]
    n_calls = len(group)
    if model.takes_many:
        n_calls = count_calls([workload.passes_an_order * n for n in n_orders])
    shared_s = sum(model.prefix_s(arm) for arm in workload.arms)
    own_s = [sum(model.orders_s(arm, n) for arm in workload.arms) for n in n_orders]
    return shared_s * n_calls / len(group), own_s


def costs_of(model: CostModel, workload: Workload, videos: Iterable[str]) -> CostOf:
    """Return what the Ray engine takes for the costs of videos and questions.

    Parameters
    ----------
    model : CostModel
    workload : Workload
    videos : iterable of str
        Paths of all videos.
    """
    facts = survey(videos)

    def cost_of(
        group: Sequence[Item], n_left: Sequence[int]
    ) -> tuple[float, Sequence[float]]:
        opening = model.video_s(facts[group[0].video], workload.n_wanted)
        shared_s, own_s = _seconds(group, model, workload)
        costs = []
        for item, own, left in zip(group, own_s, n_left, strict=True):
            planned = workload.passes_an_order * workload.n_orders(len(item.options))
            costs.append((shared_s + own) * left / planned)
        return opening, costs

    return cost_of
