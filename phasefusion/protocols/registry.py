"""The named protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasefusion.errors import DatasetError
from phasefusion.protocols.arms import ArmSpec, Value, Varies
from phasefusion.stats.adaptive import phase_order

OrdersName: TypeAlias = Literal["identity", "shared", "latin", "cyclic", "ends", "all"]
Adapts: TypeAlias = Literal["phases", "orders"]

_REFERENCE: dict[Varies, Value] = {"run": 0, "draw": 0, "moved": 0}
_PLURAL: dict[Varies, str] = {
    "budget": "frames a pass",
    "phases": "numbers of phases",
    "sampler": "names of samplers",
    "run": "number of runs",
    "draw": "number of draws",
    "moved": "numbers of frames",
}


@dataclass(frozen=True, slots=True)
class Protocol:
    """What is scored, under one name.

    Attributes
    ----------
    name : str
    figure : str
        What of the paper it reproduces.
    section : str
        Where that is in the paper.
    arms : tuple of ArmSpec
        What is scored of every question. The first is the reference of those that a
        sweep adds.
    orders : {"identity", "shared", "latin", "cyclic", "ends", "all"}
        Option orders.
    phases : int
        Offset grids, unless the run says otherwise; 1 is fixed.
    varies : {"budget", "phases", "sampler", "run", "draw", "moved"} or None
        What a sweep varies of its first arm.
    values : tuple
        Values of it; for "run" and "draw", how many.
    needs_posteriors : bool
        Whether generated answers alone are of no use to it.
    balanced : bool
        Whether it refuses orders in which some options are at some letters more often.
    adapts : {"phases", "orders"} or None
        What is asked step by step, only of questions that are not decided: phases until
        the fused margin reaches the threshold, or a second order unless the first is
        sure, and a third where the two differ.
    threshold : float or None
        By which questions are decided: a margin in nats, or a posterior.
    alpha : float or None
        Weight of each letter over the one before it, in ensembles of orders.
    """

    name: str
    figure: str
    section: str
    arms: tuple[ArmSpec, ...]
    orders: OrdersName = "shared"
    phases: int = 3
    varies: Varies | None = None
    values: tuple[Value, ...] = ()
    needs_posteriors: bool = False
    balanced: bool = False
    adapts: Adapts | None = None
    threshold: float | None = None
    alpha: float | None = None

    @property
    def has_dense(self) -> bool:
        """Whether one of its arms is the dense pass."""
        return any(spec.grid == "dense" for spec in self.arms)

    def specs(
        self,
        values: Sequence[Value] | None = None,
        *,
        reference: Value | None = None,
        n_phases: int = 1,
    ) -> tuple[ArmSpec, ...]:
        """Return the arms with those that a sweep, or the number of phases, adds.

        Parameters
        ----------
        values : sequence of int or str, optional
            In place of `Protocol.values`.
        reference : int or str, optional
            The value that the first arm has already.
        n_phases : int, default 1
            Of the run, for a protocol that adapts them.

        Returns
        -------
        tuple of ArmSpec

        Raises
        ------
        DatasetError
            If the protocol varies nothing, or a value cannot be.
        """
        if self.varies is None:
            if values is not None:
                raise DatasetError(
                    f"protocol {self.name!r} varies nothing, so it has no values"
                )
            return phase_steps(n_phases) if self.adapts == "phases" else self.arms
        wanted = self._checked(self.values if values is None else tuple(values))
        known = _REFERENCE.get(self.varies, reference)
        added = [value for value in wanted if value != known]
        first, *rest = self.arms
        return (first, *(first.varied(self.varies, v) for v in added), *rest)

    def _checked(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the values of the arms, or say what is wrong with one."""
        assert self.varies is not None
        what = f"protocol {self.name!r} takes {_PLURAL[self.varies]} as values"
        if len(set(values)) < len(values):
            raise DatasetError(f"{what}, each once, not {list(values)!r}")
        if self.varies == "sampler":
            if not values or not all(isinstance(value, str) for value in values):
                raise DatasetError(f"{what}, not {list(values)!r}")
            return values
        if self.varies == "moved":
            if not values or not all(isinstance(value, int) for value in values):
                raise DatasetError(f"{what}, not {list(values)!r}")
            return tuple(sorted(values))
        numbers = [value for value in values if isinstance(value, int) and value >= 1]
        if not numbers or len(numbers) != len(values):
            raise DatasetError(f"{what}, whole and at least 1, not {list(values)!r}")
        if self.varies in ("run", "draw"):
            if len(numbers) != 1 or numbers[0] < 2:
                raise DatasetError(f"{what}, one and at least 2, not {list(values)!r}")
            return tuple(range(numbers[0]))
        return tuple(sorted(numbers))


def phase_steps(n_phases: int) -> tuple[ArmSpec, ...]:
    """Return an arm for every phase, in the order in which they are asked.

    Examples
    --------
    >>> [(arm.name or arm.grid, arm.view, arm.step) for arm in phase_steps(3)]
    [('single', 1, 0), ('phase 2 of 3', 0, 1), ('phase 3 of 3', 2, 2)]
    """
    return tuple(
        ArmSpec(
            "single",
            f"phase {step + 1} of {n_phases}" if step else "",
            view=view,
            step=step,
        )
        for step, view in enumerate(phase_order(n_phases).tolist())
    )


_SINGLE = (ArmSpec("single"),)
_PHASE = (ArmSpec("phase"),)

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "phasefusion",
            "accuracy, phase flips, half-step changes and cost of single pass, fusion, "
            "vote, union and dense pass; order flips by margin",
            "2.2, 3, 4, Table 1",
            tuple(
                ArmSpec(grid, twin=True)
                for grid in ("phase", "union", "single", "dense")
            ),
        ),
        Protocol(
            "quick",
            "accuracy of one pass in the given order",
            "",
            _SINGLE,
            orders="identity",
            phases=1,
        ),
        Protocol(
            "stableeval",
            "frame-phase and option-order consistency over Latin orders",
            "StableEval",
            _PHASE,
            orders="latin",
        ),
        Protocol(
            "anchored",
            "consistency and accuracy of grids in a window at an anchor of the video, "
            "against uniform grids over all of it",
            "StableEval",
            (ArmSpec("phase"), ArmSpec("phase", "anchored", anchored=True)),
            orders="latin",
        ),
        Protocol(
            "latin",
            "ensembles of balanced option orders, their letters weighted, and the "
            "questions that are at risk",
            "StableEval",
            _SINGLE,
            orders="latin",
            phases=1,
            balanced=True,
            alpha=0.85,
        ),
        Protocol(
            "fast-ensemble",
            "the ensemble of two option orders, the first and the last exchanged",
            "StableEval",
            _SINGLE,
            orders="ends",
            phases=1,
            alpha=0.9,
        ),
        Protocol(
            "confidence-guided",
            "a second option order unless the first is sure, a third where they "
            "differ; passes saved",
            "StableEval",
            (
                ArmSpec("single"),
                ArmSpec("single", "view 2", order="pairs", step=1),
                ArmSpec("single", "view 3", order="halves", step=2),
            ),
            orders="identity",
            phases=1,
            needs_posteriors=True,
            adapts="orders",
            threshold=0.85,
        ),
        Protocol(
            "stress",
            "accuracy and flips over grids moved by up to 3 frames and all K! option "
            "orders (41.3 % of the questions stay the same)",
            "StableEval",
            _SINGLE,
            orders="all",
            phases=1,
            varies="moved",
            values=(-3, -2, -1, 1, 2, 3),
        ),
        Protocol(
            "adaptive",
            "phases added to a question until its fused margin is wide enough; passes "
            "saved",
            "",
            _SINGLE,
            orders="identity",
            needs_posteriors=True,
            adapts="phases",
            threshold=2.0,
        ),
        Protocol(
            "unlabelled",
            "order flips with and without letters in front of the options "
            "(53.0 to 49.0 %)",
            "B",
            (ArmSpec("single"), ArmSpec("single", "unlabelled", prompt="unlabelled")),
            phases=1,
        ),
        Protocol(
            "blind",
            "order flips and accuracy with and without the video (flips 50.3 to "
            "79.9 %, accuracy 57.7 to 38.5 %)",
            "B",
            (ArmSpec("single"), ArmSpec("none", "blind", prompt="blind")),
            phases=1,
        ),
        Protocol(
            "pride",
            "accuracy after PriDe's letter prior is divided out (56.2 to 56.4 %)",
            "D",
            _SINGLE,
            orders="cyclic",
            phases=1,
            needs_posteriors=True,
        ),
        Protocol(
            "permutations",
            "accuracy of the average over all K! option orders, and what stays fixed "
            "over them: content, letter, position (58.0 %; 0.81, 0.46, 0.38)",
            "D",
            _SINGLE,
            orders="all",
            phases=1,
        ),
        Protocol(
            "four-votes",
            "questions on which votes of two disjoint sets of four option orders "
            "differ (18.2 %)",
            "B",
            _SINGLE,
            phases=1,
        ),
        Protocol(
            "reruns",
            "phase flips against the floor of runs repeated as they were (8.0 and "
            "5.5 times)",
            "2.2",
            _PHASE,
            varies="run",
            values=(2,),
        ),
        Protocol(
            "random-draws",
            "answers that differ between two random origins, one grid and fusion "
            "(19.6 and 12.0 %)",
            "4.2",
            (ArmSpec("phase", draw=0),),
            varies="draw",
            values=(2,),
        ),
        Protocol(
            "phase-sweep",
            "consensus flips over 13 phases, between two (20.4 %) and over all "
            "(49.3 %)",
            "A",
            _PHASE,
            phases=13,
        ),
        Protocol(
            "budget-sweep",
            "phase flips by frames a pass, 4 to 32 (24.0 to 12.4 %)",
            "2.2",
            _PHASE,
            varies="budget",
            values=(4, 8, 16, 32),
        ),
        Protocol(
            "sampler-sweep",
            "consensus answers that differ between deployed samplers (11.7 to 23.6 % "
            "in pairs, 33.3 % in any), and their accuracies",
            "2.3",
            _SINGLE,
            phases=1,
            varies="sampler",
            values=("left", "midpoint", "endpoint-trunc", "interior"),
        ),
        Protocol(
            "phase-counts",
            "fusion of 2, 3 and 6 phases against its views, where these differ "
            "(61.38 % with 3, +3.0 points over 2)",
            "F, G",
            _PHASE,
            varies="phases",
            values=(2, 3, 6),
        ),
        Protocol(
            "margin",
            "dense passes for the questions with the lowest margins alone, against "
            "twice the frames for all at the same cost",
            "B",
            (
                ArmSpec("single"),
                ArmSpec("single", "doubled", times=2),
                ArmSpec("dense", "reallocated", reallocates=True),
            ),
            orders="identity",
            phases=1,
            needs_posteriors=True,
        ),
        Protocol(
            "oracle",
            "headroom of an oracle that chooses frames a pass question by question "
            "(none over the best budget for all)",
            "B",
            _SINGLE,
            phases=1,
            varies="budget",
            values=(4, 8, 16, 32),
        ),
    )
}


def names() -> tuple[str, ...]:
    """Names of all protocols.

    >>> "budget-sweep" in names()
    True
    """
    return tuple(PROTOCOLS)


def get(name: str | Protocol) -> Protocol:
    """Look a protocol up by its name; one itself is returned as it is.

    Raises
    ------
    DatasetError
        If there is none of that name.

    Examples
    --------
    >>> get("quick").orders
    'identity'
    """
    if isinstance(name, Protocol):
        return name
    try:
        return PROTOCOLS[name]
    except (KeyError, TypeError):
        raise DatasetError(
            f"protocol {name!r} is not one of {', '.join(PROTOCOLS)}"
        ) from None
