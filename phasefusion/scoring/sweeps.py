"""Many questions about many clips, scored in passes that they share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from phasefusion.scoring.families import Shown
from phasefusion.scoring.gathering import decoded
from phasefusion.scoring.letters import CleanOptions, clean_options
from phasefusion.scoring.prefix import ForwardPasses
from phasefusion.scoring.protocol import (
    OptionScores,
    ScoreRequest,
    check_clip,
    check_orders,
)
from phasefusion.scoring.questions import Asked, Asker
from phasefusion.scoring.rows import Row

if TYPE_CHECKING:
    from phasefusion.video import Clip

#: Shows the frames of phase s of a clip to the model that a question is asked of.
Show: TypeAlias = Callable[["Clip", int, Asked], Shown]

#: Pixels that wait for their passes.
MOST_BYTES = 2**29


@dataclass(slots=True, eq=False)
class _Plan:
    """One request: what is asked, and what is known of its scores so far."""

    clip: Clip
    clean: CleanOptions
    asked: Asked
    logprobs: NDArray[np.float64]
    mass: NDArray[np.float64]
    said: tuple[str, ...] = ()
    notes: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    def note(self, s: int, texts: Mapping[int, str]) -> None:
        """Note what orders of a phase have to say."""
        for m, text in texts.items():
            self.notes.setdefault((s, m), []).append(text)

    def note_all(self, s: int, text: str) -> None:
        """Note the same of all passes of a phase."""
        self.note(s, dict.fromkeys(range(len(self.asked.orders)), text))


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """The rows of one request and phase."""

    plan: _Plan
    s: int
    rows: list[Row]
    shown: Shown


@dataclass(slots=True, eq=False)
class Sweeper:
    """Puts requests together into passes.

    Parameters
    ----------
    asker : Asker
    passes : ForwardPasses
    show : callable
    """

    asker: Asker
    passes: ForwardPasses
    show: Show
    _shown: dict[Hashable, Shown] = field(default_factory=dict)

    def score(self, requests: Sequence[ScoreRequest]) -> list[OptionScores]:
        """Return the scores of each request.

        Frames that requests share, being of one clip, are prepared and run once for all
        of them. Prepared pixels are held until there are enough of them for a pass, at
        most half a gigabyte.
        """
        plans = [self._plan(request) for request in requests]
        by_clip: dict[int, list[_Plan]] = {}
        for plan in plans:
            by_clip.setdefault(id(plan.clip), []).append(plan)
        jobs: list[_Job] = []
        try:
            for same in by_clip.values():
                for s in range(len(same[0].clip.frames)):
                    jobs += [job for plan in same for job in self._jobs(plan, s)]
                    self._shown.clear()
                    if _n_bytes(jobs) > MOST_BYTES:
                        self._run(jobs)
                        jobs = []
            self._run(jobs)
        finally:
            self._shown.clear()
        return [self._result(plan) for plan in plans]

    def _plan(self, request: ScoreRequest) -> _Plan:
        clip = request.clip
        check_clip(clip)
        clean = clean_options(request.options)
        orders = check_orders(request.orders, len(clean.texts))
        asked = self.asker.ask(request.question, clean, orders, clip.frames.shape[1])
        logprobs = np.full((len(clip.frames), *orders.shape), np.nan)
        return _Plan(clip, clean, asked, logprobs, logprobs[:, :, 0].copy())

    def _jobs(self, plan: _Plan, s: int) -> list[_Job]:
        """Return the rows of a phase; none where its frames cannot be shown."""
        is_sound, note = decoded(plan.clip, s)
        if note:
            plan.note_all(s, note)
        if not is_sound:
            return []
        shown = self._show(plan, s)
        plan.said = plan.said or shown.notes
        if shown.problem:
            plan.note_all(s, shown.problem)
            return []
        return [_Job(plan, s, self.asker.rows(plan.asked, shown), shown)]

    def _show(self, plan: _Plan, s: int) -> Shown:
        """Show frames, once for all questions where the family allows it."""
        key: Hashable = None
        if self.asker.family.shows_by_chat:
            key = plan.asked.prompts[0]
        if key not in self._shown:
            self._shown[key] = self.show(plan.clip, s, plan.asked)
        return self._shown[key]

    def _run(self, jobs: Sequence[_Job]) -> None:
        if not jobs:
            return
        found = self.passes.run_many([(job.rows, job.shown.inputs) for job in jobs])
        for job, scores in zip(jobs, found, strict=True):
            plan, s = job.plan, job.s
            plan.logprobs[s], plan.mass[s] = self.asker.gather(plan.asked, scores)
            wrong = self.asker.problems(plan.asked, scores, plan.logprobs[s])
            plan.note(s, wrong)

    def _result(self, plan: _Plan) -> OptionScores:
        notes = {at: "; ".join(texts) for at, texts in sorted(plan.notes.items())}
        return OptionScores(
            plan.logprobs,
            plan.mass,
            plan.asked.orders,
            self.asker.score,
            (*plan.clean.notes, *plan.said),
            notes,
        )


def _n_bytes(jobs: Sequence[_Job]) -> int:
    """Return the memory of all pixels, those that jobs share counted once."""
    inputs = {id(job.shown.inputs): job.shown.inputs for job in jobs}
    return sum(
        array.nbytes for visual in inputs.values() for array in visual.arrays.values()
    )
