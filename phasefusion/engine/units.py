"""The videos of a run as units of work, with what each is expected to cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from phasefusion._runner import Runner
from phasefusion.datasets import Item
from phasefusion.engine.scheduling import Part, Unit

#: Of the items of one video and the passes that each has left: what opening the video
#: costs, and what each item does.
CostOf = Callable[[Sequence[Item], Sequence[int]], tuple[float, Sequence[float]]]


def units_of(
    runner: Runner, groups: Sequence[Sequence[Item]], cost_of: CostOf | None = None
) -> tuple[list[Unit], list[Item]]:
    """Make a unit of every group of items that are decoded together.

    Parameters
    ----------
    runner : Runner
        Knows which passes are left.
    groups : sequence of sequence of Item
        As `Runner.plan` returns them.
    cost_of : callable, optional
        By default a pass costs 1, and all videos together as much as all passes, each
        in proportion to the size of its file.

    Returns
    -------
    units : list of Unit
        Parts are named by numbers of items.
    items : list of Item
        Those items.
    """
    items = [item for group in groups for item in group]
    left = [[runner.n_left(item) for item in group] for group in groups]
    if cost_of is None:
        cost_of = _by_size(groups, left)
    units, n_before, names = [], 0, set[str]()
    for group, n_left in zip(groups, left, strict=True):
        opening, costs = cost_of(group, n_left)
        parts = [Part(str(n_before + i), cost) for i, cost in enumerate(costs)]
        first = group[0]
        name = first.video
        if first.start is not None or first.end is not None:
            name += f" [{first.start}, {first.end}]"
        if name in names:
            name += f" ({first.video_id})"
        names.add(name)
        units.append(Unit(name, tuple(parts), opening))
        n_before += len(group)
    return units, items


def _by_size(groups: Sequence[Sequence[Item]], left: Sequence[Sequence[int]]) -> CostOf:
    sizes = {group[0].video: size_bytes(group[0].video) for group in groups}
    n_bytes = sum(sizes[group[0].video] for group in groups)
    scale = sum(map(sum, left)) / n_bytes if n_bytes else 0.0

    def cost_of(
        group: Sequence[Item], n_left: Sequence[int]
    ) -> tuple[float, Sequence[float]]:
        return scale * sizes[group[0].video], [float(n) for n in n_left]

    return cost_of


def size_bytes(path: str) -> int:
    """Return the size of a file; 0 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:  # whoever opens it says why it is not there
        return 0
