"""From a protocol's name and a budget to arms, orders and their cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from phasefusion import orders as option_orders
from phasefusion._results import Result, fields_html, table_html
from phasefusion._wording import Argument, counted
from phasefusion.errors import DatasetError, GridError
from phasefusion.grid import PhaseGrid
from phasefusion.protocols.arms import Arm, Value, build_arms
from phasefusion.protocols.cost import Cost, cost_of
from phasefusion.protocols.registry import OrdersName, Protocol, get

if TYPE_CHECKING:
    from phasefusion.anchors.rule import AnchorRule
    from phasefusion.grid import By, Origin, Short

_BELOW_ONE = math.nextafter(1.0, 0.0)
#: Numbers of views that a message lists.
_MOST_ADVISED = 3


#: Of shared orders, and frames of a dense pass, where none are given.
N_ORDERS, DENSE = 10, 32


@dataclass(frozen=True, slots=True)
class Stage:
    """Arms that are scored together, on all questions or on a share of them.

    Attributes
    ----------
    arms : tuple of Arm
    share : Fraction
        Of the questions, those with the lowest margins in the stage before.
    step : int
        Above 0, of the questions that the arms of lower steps did not decide.
    """

    arms: tuple[Arm, ...]
    share: Fraction
    step: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Result):
    """All that a protocol will score.

    Attributes
    ----------
    protocol : Protocol
    grid : PhaseGrid
        That the arms are derived of.
    dense : int or None
        Frames of the dense pass, where there is one.
    arms : tuple of Arm
        Everything that has passes of its own.
    orders : dict
        What the option orders are, as run.json says it.
    threshold, alpha : float or None
        As in `Protocol`, unless they were given.
    """

    protocol: Protocol
    grid: PhaseGrid
    dense: int | None
    arms: tuple[Arm, ...]
    orders: dict[str, Any]
    threshold: float | None = None
    alpha: float | None = None

    def _rows(self) -> list[tuple[str, str]]:
        orders = " ".join(f"{name} {value}" for name, value in self.orders.items())
        return [
            ("protocol", self.protocol.name),
            ("grid", str(self.grid)),
            ("arms", str(len(self.arms))),
            ("orders", orders.removeprefix("kind ")),
        ]

    def _repr_html_(self) -> str:
        columns = ("arm", "shifted", "frames", "phases", "further")
        rows = [
            (one.name, one.shifted, one.n_frames, one.n_phases, one.facts() or "")
            for one in self.arms
        ]
        return fields_html("Plan", self._rows()) + table_html(columns, rows)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What is scored of every question, then what of those with low margins."""
        kinds = {(-arm.share, arm.step) for arm in self.arms}
        return tuple(
            Stage(
                tuple(arm for arm in self.arms if (-arm.share, arm.step) == kind),
                -kind[0],
                kind[1],
            )
            for kind in sorted(kinds)
        )

    @property
    def steps(self) -> tuple[Arm, ...]:
        """Arms in the order in which an adaptive protocol asks for them."""
        return tuple(sorted(self.arms, key=lambda arm: arm.step))

    def settings(self) -> dict[str, Any]:
        """Return what run.json says of it."""
        # JSON has no infinity
        threshold = "inf" if self.threshold == math.inf else self.threshold
        adaptive = {"threshold": threshold, "alpha": self.alpha}
        return {
            "protocol": self.protocol.name,
            "grid": self.grid.to_dict(),
            "dense": self.dense,
            "arms": [arm.to_dict() for arm in self.arms],
            "orders": self.orders,
            **{name: value for name, value in adaptive.items() if value is not None},
        }

    def orders_of(self, n_options: int) -> NDArray[np.int64]:
        """Orders of K options without repeats, shape (M, K).

        Raises
        ------
        DatasetError
            If the protocol promises balanced orders and these are not.
        """
        found = orders_of(self.orders, n_options)
        if self.protocol.balanced and not option_orders.is_balanced(found):
            raise DatasetError(
                f"protocol {self.protocol.name!r} promises that every option is at "
                f"every letter equally often; {len(found)} {self.orders['kind']} "
                f"orders of {n_options} options are not so: take a multiple of "
                f"{n_options} Latin orders, or another protocol with "
                'orders="latin", which marks them'
            )
        return found

    def orders_by_options(
        self, n_options: Iterable[int]
    ) -> dict[int, NDArray[np.int64]]:
        """Return `orders_of` for every number of options that a bank has.

        Raises
        ------
        DatasetError
            As `orders_of`; or if a number of Latin orders does not fit all of them.
        """
        known = sorted(set(n_options))
        if self.orders["kind"] == "latin" and "n" in self.orders and len(known) > 1:
            _check_views(self.orders["n"], known, balanced=self.protocol.balanced)
        return {k: self.orders_of(k) for k in known}

    def as_shown(self, scorer: Mapping[str, Any]) -> Plan:
        """Return the plan for a scorer, by what identifies it in run.json.

        Where its prompt shows no options, one order stands for all, and an arm that
        only shows them in another order is left out. If any arm shows them in a prompt
        of its own, all arms keep the orders, so that they can be compared.
        """
        if scorer.get("shows_options") is not False:
            return self
        if any(arm.prompt == "unlabelled" for arm in self.arms):
            return self
        arms = tuple(arm for arm in self.arms if arm.order is None)
        return replace(self, arms=arms, orders={"kind": "identity"})

    def cost(self, n_options: Sequence[int]) -> Cost:
        """Return the cost for questions with so many options each."""
        orders = self.orders_by_options(n_options)
        n_orders = {k: len(found) for k, found in orders.items()}
        return cost_of(self.arms, n_options, n_orders)


def make_plan(
    protocol: str | Protocol = "phasefusion",
    *,
    budget: int = 8,
    phases: int | None = None,
    origin: Origin = "midpoint",
    by: By = "frames",
    short: Short = "repeat",
    orders: OrdersName | None = None,
    n_orders: int | None = None,
    views: int | None = None,
    dense: int | None = None,
    seed: int = 0,
    values: Sequence[Value] | None = None,
    anchor: AnchorRule | None = None,
    threshold: float | None = None,
    alpha: float | None = None,
) -> Plan:
    """Say what a protocol will score, with the arguments of `evaluate`.

    Parameters
    ----------
    protocol : str or Protocol
    budget, phases, origin, by, short
        The phase grid, as in `PhaseGrid`.
    orders, n_orders, views, dense, seed, values, anchor, threshold, alpha
        As in `evaluate`.

    Returns
    -------
    Plan

    Raises
    ------
    DatasetError, GridError
        If an argument cannot be, or contradicts another.

    Examples
    --------
    >>> plan = make_plan("budget-sweep", values=(4, 16))
    >>> [(arm.name, arm.n_frames) for arm in plan.arms]
    [('phase', 8), ('4 frames', 4), ('16 frames', 16)]
    >>> plan.cost([4, 4]).passes
    180
    """
    chosen = get(protocol)
    given = {"phases": phases, "n_orders": n_orders, "dense": dense}
    if complaint := of_no_effect(chosen, orders, given):
        raise DatasetError(*complaint)
    grid = PhaseGrid(
        budget, chosen.phases if phases is None else phases, origin, by=by, short=short
    )
    n_dense = DENSE if dense is None else dense
    reference = {"budget": grid.budget, "phases": grid.phases}.get(chosen.varies or "")
    specs = chosen.specs(values, reference=reference, n_phases=grid.phases)
    if anchor is not None and not any(spec.anchored for spec in specs):
        raise DatasetError(
            f"protocol {chosen.name!r} has no anchored arm, so it takes no anchor; "
            'protocol "anchored" has'
        )
    if by == "time" and any(spec.moved for spec in specs):
        raise GridError(
            f'protocol {chosen.name!r} moves grids by whole frames; by="time" has none'
        )
    if chosen.adapts == "orders" and orders not in (None, "identity"):
        raise DatasetError(
            f"protocol {chosen.name!r} chooses its option orders itself, one view at a "
            "time; ",
            Argument.of("orders", orders),
            " cannot be given",
        )
    n_shared = N_ORDERS if n_orders is None else n_orders
    return Plan(
        chosen,
        grid,
        n_dense if chosen.has_dense else None,
        build_arms(specs, grid, n_dense, anchor),
        _order_settings(orders or chosen.orders, n_shared, views, seed),
        _own(chosen, "threshold", threshold),
        _own(chosen, "alpha", alpha),
    )


def _own(
    protocol: Protocol, name: Literal["threshold", "alpha"], given: float | None
) -> float | None:
    """Return a number of a protocol, or the one that was given in its place."""
    usual: float | None = getattr(protocol, name)
    if given is None:
        return usual
    if usual is None:
        raise DatasetError(f"protocol {protocol.name!r} has no {name}")
    is_margin = name == "threshold" and protocol.adapts == "phases"
    if is_margin and not given >= 0.0:
        raise DatasetError(
            Argument(name), f" must be a margin in nats, >= 0, not {given}"
        )
    if not is_margin and not 0.0 < given <= (1.0 if name == "alpha" else _BELOW_ONE):
        ends = "(0, 1]" if name == "alpha" else "(0, 1)"
        raise DatasetError(Argument(name), f" must be in {ends}, not {given}")
    return float(given)


def without_effect(protocol: Protocol, orders: str | None) -> dict[str, str]:
    """Tell which of phases, n_orders and dense a protocol does not heed, and why.

    Examples
    --------
    >>> sorted(without_effect(get("stableeval"), None))
    ['dense', 'n_orders']
    """
    kind = orders or protocol.orders
    found = {}
    if protocol.phases == 1:
        found["phases"] = f"protocol {protocol.name!r} takes one grid"
    if kind != "shared":
        found["n_orders"] = f"it counts shared orders, and these are {kind}"
    if not protocol.has_dense:
        found["dense"] = f"protocol {protocol.name!r} has no dense pass"
    return found


def of_no_effect(
    protocol: Protocol, orders: str | None, given: Mapping[str, int | None]
) -> tuple[Argument, str] | None:
    """Say which given argument contradicts the protocol or the given orders, if any.

    Those of arms and orders that a protocol lacks may stand beside it, so that one set
    of arguments is for several protocols.
    """
    for name, why in without_effect(protocol, orders).items():
        value = given.get(name)
        refused = {"phases": value != 1, "n_orders": orders in get_args(OrdersName)}
        if value is not None and refused.get(name):
            return Argument.of(name, value), f" has no effect: {why}; leave it out"
    return None


def _order_settings(
    kind: str, n_orders: int, views: int | None, seed: int
) -> dict[str, Any]:
    if views is not None and kind != "latin":
        raise DatasetError(
            Argument.of("views", views), f" is the number of Latin orders, not {kind}"
        )
    if kind == "shared":
        return {"kind": kind, "n": n_orders, "seed": seed}
    if views is not None:
        return {"kind": kind, "n": views}
    return {"kind": kind}


def _check_views(views: int, n_options: Sequence[int], *, balanced: bool) -> None:
    """Refuse a number of Latin orders that some questions do not have, or not evenly.

    Parameters
    ----------
    views : int
    n_options : sequence of int
        Different ones, ascending.
    balanced : bool
        Whether every option must be at every letter equally often.
    """
    step = math.lcm(*n_options) if balanced else 1
    most = math.factorial(n_options[0])
    if views % step == 0 and 1 <= views <= most:
        return
    *others, last = map(str, n_options)
    text = (
        f"views={views} does not fit questions of {', '.join(others)} and {last} "
        f"options: {n_options[0]} options have {counted(most, 'order')}"
    )
    if balanced:
        text += f", and a multiple of {step} is balanced for all"
    advice = (
        "no number of views is both; leave views out, and every question is asked in "
        "as many Latin orders as it has options"
    )
    if not balanced:
        advice = f"take 1 to {most}"
    elif most // step > _MOST_ADVISED:
        advice = f"take a multiple of {step} up to {most - most % step}"
    elif step <= most:
        fits = [str(v) for v in range(step, most + 1, step)]
        advice = f"take {' or '.join(fits)}"
    raise DatasetError(f"{text}; {advice}")


def orders_of(settings: Mapping[str, Any], n_options: int) -> NDArray[np.int64]:
    """Orders of K options without repeats, shape (M, K), first occurrences first.

    Raises
    ------
    DatasetError
        If there are no orders of that kind.
    """
    kind = settings["kind"]
    if kind == "shared":
        table = option_orders.shared(n_options, settings["n"], settings["seed"])
    elif kind == "identity":
        table = option_orders.identity(n_options)
    elif kind == "latin":
        table = option_orders.latin(n_options, settings.get("n"), unbalanced="allow")
    elif kind == "ends":
        table = option_orders.ends(n_options)
    elif kind == "pairs":
        table = option_orders.pairs(n_options)
    elif kind == "halves":
        table = option_orders.halves(n_options)
    elif kind == "cyclic":
        table = option_orders.cyclic(n_options)
    elif kind == "all":
        table = option_orders.all_orders(n_options)
    else:
        raise DatasetError(
            f"orders {kind!r} is not one of identity, shared, latin, cyclic, ends, all"
        )
    return table[option_orders.distinct(table)]
