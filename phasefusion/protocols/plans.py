"""From a protocol's name and a budget to arms, orders and their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from phasefusion import orders as option_orders
from phasefusion.errors import DatasetError
from phasefusion.grid import PhaseGrid
from phasefusion.protocols.arms import Arm, Value, build_arms
from phasefusion.protocols.cost import Cost, cost_of
from phasefusion.protocols.registry import OrdersName, Protocol, get

if TYPE_CHECKING:
    from phasefusion.grid import By, Origin, Short


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
    """

    arms: tuple[Arm, ...]
    share: Fraction


@dataclass(frozen=True, slots=True)
class Plan:
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
    """

    protocol: Protocol
    grid: PhaseGrid
    dense: int | None
    arms: tuple[Arm, ...]
    orders: dict[str, Any]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What is scored of every question, then what of those with low margins."""
        shares = dict.fromkeys(arm.share for arm in self.arms)
        return tuple(
            Stage(tuple(arm for arm in self.arms if arm.share == share), share)
            for share in sorted(shares, reverse=True)
        )

    def orders_of(self, n_options: int) -> NDArray[np.int64]:
        """Orders of K options without repeats, shape (M, K)."""
        return orders_of(self.orders, n_options)

    def without_orders(self) -> Plan:
        """Return the plan for prompts that show no options: one order stands for all.

        An arm that shows them in a prompt of its own keeps the orders.
        """
        if any(arm.prompt == "unlabelled" for arm in self.arms):
            return self
        return replace(self, orders={"kind": "identity"})

    def cost(self, n_options: Sequence[int]) -> Cost:
        """Return the cost for questions with so many options each."""
        n_orders = {k: len(self.orders_of(k)) for k in set(n_options)}
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
    dense: int | None = None,
    seed: int = 0,
    values: Sequence[Value] | None = None,
) -> Plan:
    """Say what a protocol will score, with the arguments of `evaluate`.

    Parameters
    ----------
    protocol : str or Protocol
    budget, phases, origin, by, short
        The phase grid, as in `PhaseGrid`.
    orders, n_orders, dense, seed, values
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
        raise DatasetError(complaint)
    grid = PhaseGrid(
        budget, chosen.phases if phases is None else phases, origin, by=by, short=short
    )
    n_dense = DENSE if dense is None else dense
    reference = {"budget": grid.budget, "phases": grid.phases}.get(chosen.varies or "")
    specs = chosen.specs(values, reference=reference)
    settings = _order_settings(
        orders or chosen.orders, N_ORDERS if n_orders is None else n_orders, seed
    )
    return Plan(
        chosen,
        grid,
        n_dense if chosen.has_dense else None,
        build_arms(specs, grid, n_dense),
        settings,
    )


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
) -> str:
    """Say which given argument contradicts the protocol or the given orders.

    Those of arms and orders that a protocol lacks may stand beside it, so that one set
    of arguments is for several protocols.
    """
    for name, why in without_effect(protocol, orders).items():
        value = given.get(name)
        refused = {"phases": value != 1, "n_orders": orders in get_args(OrdersName)}
        if value is not None and refused.get(name):
            return f"{name}={value} has no effect: {why}; leave it out"
    return ""


def _order_settings(kind: str, n_orders: int, seed: int) -> dict[str, Any]:
    if kind == "shared":
        return {"kind": kind, "n": n_orders, "seed": seed}
    return {"kind": kind}


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
        table = option_orders.latin(n_options)
    elif kind == "cyclic":
        table = option_orders.cyclic(n_options)
    elif kind == "all":
        table = option_orders.all_orders(n_options)
    else:
        raise DatasetError(
            f"orders {kind!r} is not one of identity, shared, latin, cyclic, all"
        )
    return table[option_orders.distinct(table)]
