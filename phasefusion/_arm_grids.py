"""The grid of every arm on one video: as planned, of a sampler, or at an anchor."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from phasefusion._sampled import SampledGrid
from phasefusion.anchors.rule import AnchoredGrid, AnchorRule, Placed
from phasefusion.datasets import Item
from phasefusion.errors import FallbackWarning, GridError, VideoError
from phasefusion.grid import PhaseGrid
from phasefusion.protocols.arms import Arm
from phasefusion.video import Video

#: A grid, or why the arm has none on this video.
GridOrError: TypeAlias = PhaseGrid | GridError


def shown_grids(
    item: Item,
    arms: Sequence[Arm],
    seed: int,
    threads: int,
    on_error: Literal["mark", "raise"],
) -> list[tuple[Arm, GridOrError]]:
    """Return what of the video each arm is shown, or why there is nothing to show.

    Raises
    ------
    FileNotFoundError, VideoError
        If the video cannot be read.
    GridError
        With "raise", if a sampler refuses the clip or no anchor is found.
    """
    sampling = [arm for arm in arms if arm.sampler is not None]
    anchoring = [arm for arm in arms if arm.anchor is not None]
    special: Mapping[Arm, GridOrError] = {}
    if sampling:
        grids = sampled_grids(item, sampling, threads)
        special = dict(zip(sampling, grids, strict=True))
    if anchoring:
        special = {**special, **anchored_grids(item, anchoring, seed, threads)}
    found = []
    for arm in arms:
        drawn = arm.grid_of(item.video_id, seed)
        assert drawn is not None
        grid = special.get(arm, drawn)
        if isinstance(grid, GridError) and on_error == "raise":
            raise GridError(f"{item.video}: {grid}")
        found.append((arm, grid))
    return found


def part_of(item: Item, video: Video) -> tuple[int, int]:
    """Return the first frame that is asked about, and the first one after them."""
    times_s = video.times_s - video.info.start_s
    first, last = 0, len(video)
    if item.start is not None:
        first = int(np.searchsorted(times_s, item.start))
    if item.end is not None:
        last = int(np.searchsorted(times_s, item.end))
    if first >= last:
        raise VideoError(
            f"{item.video}: no frame begins between start {item.start} s and end "
            f"{item.end} s; the video lasts {video.info.duration_s:.3f} s"
        )
    return first, last


def sampled_grids(
    item: Item, arms: Sequence[Arm], threads: int
) -> list[SampledGrid | GridError]:
    """Ask the sampler of every arm for its frames of the video, or of the part.

    Raises
    ------
    FileNotFoundError, VideoError
        As `read_span`.
    """
    with Video(item.video, threads=threads) as video:
        first, last = part_of(item, video)
        n_frames, fps = last - first, video.info.fps
        if fps is None:
            fps = Fraction(len(video) / max(video.info.duration_s, 1e-9))
    found: list[SampledGrid | GridError] = []
    for arm in arms:
        assert arm.sampler is not None
        assert arm.grid is not None
        try:
            found.append(SampledGrid(arm.sampler, n_frames, arm.grid.budget, fps))
        except GridError as error:
            found.append(error)
    return found


def anchored_grids(
    item: Item, arms: Sequence[Arm], seed: int, threads: int
) -> dict[Arm, GridOrError]:
    """Lay the grid of every arm into the window at the anchor of a question.

    What was tried and failed is kept with the grid, so nothing is warned of.

    Raises
    ------
    FileNotFoundError, VideoError
        As `read_span`.
    """
    placed: dict[AnchorRule, Placed | GridError] = {}
    found: dict[Arm, GridOrError] = {}
    with Video(item.video, threads=threads) as video, warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        first, last = part_of(item, video)
        for arm in arms:
            rule, grid = arm.anchor, arm.grid_of(item.video_id, seed)
            assert rule is not None
            assert grid is not None
            if rule not in placed:
                placed[rule] = _placed(rule, video, item, (first, last))
            window = placed[rule]
            found[arm] = (
                window
                if isinstance(window, GridError)
                else AnchoredGrid(grid, window, first)
            )
    return found


def _placed(
    rule: AnchorRule, video: Video, item: Item, part: tuple[int, int]
) -> Placed | GridError:
    """Return the window of a question, or that no method of the rule gave one."""
    phrase, subtitles, times = rule.request(item)
    try:
        return rule.place(
            video,
            phrase=phrase,
            subtitles=subtitles,
            times_s=times,
            frames=None if part == (0, len(video)) else part,
        )
    except VideoError as error:
        return GridError(str(error))
