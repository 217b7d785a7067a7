"""What a protocol costs, before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from phasefusion._results import Result
from phasefusion.protocols.arms import Arm
from phasefusion.stats.cost import attention_units


@dataclass(frozen=True, slots=True)
class ArmCost:
    """Cost of one arm.

    Attributes
    ----------
    arm : str
    shifted : bool
    questions : int
        That the arm is scored on.
    phases : int
        Passes a question and order.
    frames : int or None
        Frames a pass; None where each clip decides.
    passes : int
        In all.
    attention_units : int or None
        Frames squared, summed over the passes.
    at_most : bool
        Whether it is asked only of questions that earlier arms do not decide.
    """

    arm: str
    shifted: bool
    questions: int
    phases: int
    frames: int | None
    passes: int
    attention_units: int | None
    at_most: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Result):
    """Cost of a protocol on some questions.

    Clips too short for a grid may need less; one of a sampler that goes by the frame
    rate is known when the clip is read.

    Attributes
    ----------
    questions : int
    arms : tuple of ArmCost
    passes : int
    attention_units : int
        Of the arms for which they are known.
    is_complete : bool
        Whether they are known for all arms.
    least_passes : int
        Of a protocol that adapts: when every question is decided at once.
    """

    questions: int
    arms: tuple[ArmCost, ...]

    @property
    def passes(self) -> int:
        """Passes of all arms."""
        return sum(arm.passes for arm in self.arms)

    @property
    def attention_units(self) -> int:
        """Frames squared, summed over all passes of which they are known."""
        return sum(arm.attention_units or 0 for arm in self.arms)

    @property
    def is_complete(self) -> bool:
        """Whether `attention_units` has all arms in it."""
        return all(arm.attention_units is not None for arm in self.arms)

    @property
    def least_passes(self) -> int:
        """Passes of the arms that all questions are asked in."""
        return sum(arm.passes for arm in self.arms if not arm.at_most)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "questions": self.questions,
            "passes": self.passes,
            "least_passes": self.least_passes,
            "attention_units": self.attention_units,
            "is_complete": self.is_complete,
            "arms": [
                {name: getattr(arm, name) for name in ArmCost.__slots__}
                for arm in self.arms
            ],
        }


def cost_of(
    arms: Sequence[Arm], n_options: Sequence[int], n_orders: Mapping[int, int]
) -> Cost:
    """Count passes and attention units.

    Parameters
    ----------
    arms : sequence of Arm
    n_options : sequence of int
        K of every question.
    n_orders : mapping of int to int
        Distinct orders by K.

    Returns
    -------
    Cost
        Of an arm that reaches some questions only, at most.

    Examples
    --------
    >>> from phasefusion import PhaseGrid
    >>> arm = Arm("phase", False, PhaseGrid(8, 3))
    >>> made = cost_of([arm], [4, 4, 3], {4: 10, 3: 6})
    >>> made.passes, made.attention_units
    (78, 4992)
    """
    found = []
    for arm in arms:
        n_chosen = floor(len(n_options) * arm.share)
        counts = n_orders if arm.order is None else dict.fromkeys(n_orders, 1)
        passes = arm.n_phases * _most_orders(n_options, counts, n_chosen)
        frames = arm.n_frames
        units = None
        if frames is not None:
            units = int(attention_units(1, frames)) * passes if frames else 0
        found.append(
            ArmCost(
                arm.name,
                arm.shifted,
                n_chosen,
                arm.n_phases,
                frames,
                passes,
                units,
                arm.step > 0,
            )
        )
    return Cost(len(n_options), tuple(found))


def _most_orders(
    n_options: Sequence[int], n_orders: Mapping[int, int], n_chosen: int
) -> int:
    """Orders of so many questions, those with the most orders first."""
    left, total = n_chosen, 0
    counts = Counter(n_orders[k] for k in n_options)
    for orders in sorted(counts, reverse=True):
        taken = min(left, counts[orders])
        total += taken * orders
        left -= taken
    return total
