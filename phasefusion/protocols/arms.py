"""Arms: grids of frames, and how the question is put to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from phasefusion import samplers
from phasefusion._random import fnv1a64, splitmix64
from phasefusion._wording import Argument
from phasefusion.anchors.rule import AnchorRule
from phasefusion.errors import GridError
from phasefusion.grid import PhaseGrid

GridName: TypeAlias = Literal["phase", "single", "union", "dense", "none"]
Prompt: TypeAlias = Literal["letters", "unlabelled", "blind"]
Varies: TypeAlias = Literal["budget", "phases", "sampler", "run", "draw", "moved"]
Value: TypeAlias = int | str

#: Draws are multiples of 2**-32 of a step, as those of `PhaseGrid.random`.
_DRAW_BITS = 32


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """One arm of a protocol, before budget and grid are known.

    Attributes
    ----------
    grid : {"phase", "single", "union", "dense", "none"}
        The S phase views, the first grid of b frames alone, the union of the views, the
        dense pass, or the question without its video.
    name : str
        In the records; that of the grid by default.
    twin : bool
        Whether the arm is scored a second time on the grid moved by half a step.
    times : int
        Factor on the budget.
    budget, phases : int or None
        In place of those of the run.
    sampler : str or None
        A deployed sampler (`phasefusion.samplers`) chooses the frames.
    prompt : {"letters", "unlabelled", "blind"}
        Options with letters, options without them, or no video; see `Scorer`.
    run : int
        Number of the repetition.
    draw : int or None
        Number of the random origin, drawn for every video.
    reallocates : bool
        Scored in a second stage, on the questions with the lowest margins alone.
    anchored : bool
        On grids in a window at an anchor of each video, from the left end of its steps,
        so that the first frame is the one at the anchor.
    view : int or None
        The one of the S phases that is scored, as a grid of its own.
    moved : int
        Frames by which every frame of the grid is moved.
    order : str or None
        The one option order in which it is scored, in place of those of the run.
    step : int
        Scored after the arms of lower steps, on questions that they do not decide.
    """

    grid: GridName
    name: str = ""
    twin: bool = False
    times: int = 1
    budget: int | None = None
    phases: int | None = None
    sampler: str | None = None
    prompt: Prompt = "letters"
    run: int = 0
    draw: int | None = None
    reallocates: bool = False
    anchored: bool = False
    view: int | None = None
    moved: int = 0
    order: str | None = None
    step: int = 0

    def varied(self, varies: Varies, value: Value) -> ArmSpec:
        """Return the arm with another value of what the protocol varies."""
        changes: dict[str, Any] = {varies: value, "name": _name_of(varies, value)}
        return replace(self, **changes)


def _name_of(varies: Varies, value: Value) -> str:
    if varies == "moved":
        return f"moved {value:+d}"
    if varies == "budget":
        return f"{value} frames"
    return f"{value} phases" if varies == "phases" else f"{varies} {value}"


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm that is scored.

    Attributes
    ----------
    name : str
        In the records.
    shifted : bool
        Whether it is on the grid moved by half a step.
    grid : PhaseGrid or None
        None for the question without its video.
    sampler, prompt, run, draw, moved, order, step
        As in `ArmSpec`; with a sampler, the grid says the budget alone.
    share : Fraction
        Of the questions, those with the lowest margins; 1 is all of them.
    anchor : AnchorRule or None
        Where the window is that the grid is laid into; None for the whole clip.
    """

    name: str
    shifted: bool
    grid: PhaseGrid | None
    sampler: str | None = None
    prompt: Prompt = "letters"
    run: int = 0
    draw: int | None = None
    share: Fraction = Fraction(1)
    anchor: AnchorRule | None = None
    moved: int = 0
    order: str | None = None
    step: int = 0

    @property
    def is_chosen(self) -> bool:
        """Whether its frames follow from the clip, by more than the grid."""
        return self.sampler is not None or self.moved != 0

    @property
    def n_phases(self) -> int:
        """Passes a question and order, on clips that are long enough."""
        return 1 if self.grid is None else self.grid.phases

    @property
    def n_frames(self) -> int | None:
        """Frames a pass, on clips that are long enough; None if the clip decides."""
        if self.grid is None:
            return 0
        if self.sampler is not None:
            return sampled_frames(self.sampler, self.grid.budget)
        return self.grid.budget

    def facts(self) -> dict[str, Any]:
        """Return what differs from an arm as usual, for records and run.json."""
        found: dict[str, Any] = {}
        if self.sampler is not None:
            found["sampler"] = self.sampler
        if self.prompt != "letters":
            found["prompt"] = self.prompt
        if self.run:
            found["run"] = self.run
        if self.draw is not None:
            found["draw"] = self.draw
        if self.moved:
            found["moved_frames"] = self.moved
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the arm as JSON values, for run.json."""
        found: dict[str, Any] = {"arm": self.name, "shifted": self.shifted}
        if self.grid is not None and self.sampler is not None:
            found["asked_frames"] = self.grid.budget  # it may take more, or fewer
        elif self.grid is not None:
            found |= self.grid.to_dict()
            if self.draw is not None:
                found["origin"] = None  # every video has its own
        if self.share != 1:
            found["share"] = list(self.share.as_integer_ratio())
        if self.anchor is not None:
            found["anchor"] = self.anchor.to_dict()
        if self.order is not None:
            found["order"] = self.order
        if self.step:
            found["step"] = self.step
        return found | self.facts()

    def grid_of(self, video_id: str, seed: int) -> PhaseGrid | None:
        """Return the grid of one video, its random origin drawn."""
        if self.grid is None or self.draw is None:
            return self.grid
        shift = drawn_shift(video_id, self.draw, seed)
        origin = shift * self.grid.phases % 1
        return PhaseGrid(
            self.grid.budget,
            self.grid.phases,
            origin,
            by=self.grid.by,
            short=self.grid.short,
        )


def sampled_frames(sampler: str, budget: int) -> int | None:
    """Return the frames that a sampler takes of a long clip; None if its rate decides.

    Examples
    --------
    >>> sampled_frames("left", 8), sampled_frames("vlmeval-fps", 8)
    (8, None)
    """
    rule = samplers.get(sampler)
    return None if rule.needs_fps else len(rule.indices(2**20, budget))


def drawn_shift(video_id: str, draw: int, seed: int) -> Fraction:
    """Draw a shift of the left grid, uniform in [0, 1) of a step.

    It depends on the video, the number of the draw and the seed alone, so all arms are
    moved by the same time.

    Examples
    --------
    >>> 0 <= drawn_shift("clip-000", 1, 0) < 1
    True
    """
    stream = splitmix64(fnv1a64(f"origin of {video_id}") ^ seed, draw + 1)
    return Fraction(int(stream[draw]) >> (64 - _DRAW_BITS), 2**_DRAW_BITS)


def build_arms(
    specs: Sequence[ArmSpec],
    grid: PhaseGrid,
    dense: int,
    anchor: AnchorRule | None = None,
) -> tuple[Arm, ...]:
    """Make the arms that have passes of their own: unmoved first, then moved.

    A single pass that is one of the phase views is not made twice. Anchored arms go by
    `anchor`, or by the whole chain of methods without one.

    Raises
    ------
    GridError
        If a grid cannot be, or there is no sampler of that name.
    """
    found: list[Arm] = []
    for shifted in (False, True):
        made = [
            arm
            for spec in specs
            if spec.twin or not shifted
            for arm in _arms_of(spec, grid, dense, shifted, anchor)
        ]
        found += [arm for arm in made if not any(_is_view(arm, one) for one in made)]
    return tuple(found)


def _arms_of(
    spec: ArmSpec,
    grid: PhaseGrid,
    dense: int,
    shifted: bool,
    anchor: AnchorRule | None,
) -> Iterator[Arm]:
    chosen = _grid(spec, grid, dense)
    if spec.anchored and chosen is not None:
        chosen = PhaseGrid(
            chosen.budget, chosen.phases, "left", by=chosen.by, short=chosen.short
        )
    if spec.sampler is not None:
        samplers.get(spec.sampler)
    yield Arm(
        name=spec.name or spec.grid,
        shifted=shifted,
        grid=chosen.shifted("half") if chosen is not None and shifted else chosen,
        sampler=spec.sampler,
        prompt=spec.prompt,
        run=spec.run,
        draw=spec.draw,
        share=_share(grid.budget, dense) if spec.reallocates else Fraction(1),
        anchor=(anchor or AnchorRule()) if spec.anchored else None,
        moved=spec.moved,
        order=spec.order,
        step=spec.step,
    )


def _grid(spec: ArmSpec, grid: PhaseGrid, dense: int) -> PhaseGrid | None:
    if spec.grid == "none":
        return None
    budget = (spec.budget or grid.budget) * spec.times
    phases = spec.phases or grid.phases
    if spec.view is not None:
        return _resized(grid, budget, phases).view(spec.view)
    if spec.grid == "phase":
        return _resized(grid, budget, phases)
    if spec.grid == "union":
        return _resized(grid, budget, phases).union()
    return _resized(grid, dense if spec.grid == "dense" else budget, 1)


def _resized(grid: PhaseGrid, budget: int, phases: int) -> PhaseGrid:
    """Return a grid with the same conventions."""
    return PhaseGrid(budget, phases, grid.origin, by=grid.by, short=grid.short)


def _is_view(single: Arm, arm: Arm) -> bool:
    """Whether a single pass is one of the phase views, on clips of any length.

    With ``short="unique"`` a short clip gets fewer phases, and then it may not be.
    """
    grid, views = single.grid, arm.grid
    return (
        (single.name, arm.name) == ("single", "phase")
        and grid is not None
        and views is not None
        and views.short != "unique"
        and grid.budget == views.budget
        and grid.origin in views.phase_fractions
    )


def _share(budget: int, dense: int) -> Fraction:
    """Share of questions whose dense pass costs as much as doubling all budgets."""
    share = Fraction(4 * budget**2 - budget**2, dense**2)
    if share > 1:
        raise GridError(
            Argument.of("dense", dense),
            f" frames for some questions cannot cost what {2 * budget} frames for all "
            f"cost: take dense > {2 * budget}",
        )
    return share
