"""Named protocols: what is scored, which figure it gives, and what it costs.

A protocol is a description: arms (grids, their twins half a step on, deployed samplers,
prompts, repetitions, random origins), option orders, and what a sweep varies.
`phasefusion.evaluate` runs one by its name, `phasefusion.report` prints its figure.
"""

from phasefusion.protocols.arms import Arm, ArmSpec
from phasefusion.protocols.cost import ArmCost, Cost
from phasefusion.protocols.plans import Plan, make_plan
from phasefusion.protocols.registry import PROTOCOLS, Protocol, get, names

__all__ = [
    "PROTOCOLS",
    "Arm",
    "ArmCost",
    "ArmSpec",
    "Cost",
    "Plan",
    "Protocol",
    "get",
    "make_plan",
    "names",
]
