"""The grid of each arm on a video: as planned, sampled, moved, or at an anchor."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from phasefusion._sampled import MovedGrid, SampledGrid
from phasefusion._spans import part_of
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
    choosing = [arm for arm in arms if arm.is_chosen]
    anchoring = [arm for arm in arms if arm.anchor is not None]
    special: Mapping[Arm, GridOrError] = {}
    if choosing:
        grids = chosen_grids(item, choosing, threads)
        special = dict(zip(choosing, grids, strict=True))
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


def chosen_grids(
    item: Item, arms: Sequence[Arm], threads: int
) -> list[PhaseGrid | GridError]:
    """Choose the frames of arms that depend on the clip: of a sampler, or moved.

    Returns
    -------
    list of PhaseGrid or GridError
        Why an arm has no frames of this video, or of the part, where it has none.

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
    found: list[PhaseGrid | GridError] = []
    for arm in arms:
        assert arm.grid is not None
        try:
            if arm.sampler is not None:
                found.append(SampledGrid(arm.sampler, n_frames, arm.grid.budget, fps))
            else:
                found.append(MovedGrid(arm.grid, arm.moved, n_frames))
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
