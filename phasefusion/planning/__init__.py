"""How many items a measurement needs, and what a given number can show.

Rates and differences are fractions, as everywhere in Python: a margin of 2.5 points is
0.025. Every plan says what it rests on, prints as one line and as a table in notebooks.
Powers are summed over the counts that may come out; the approximation that is in common
use stands beside them.
"""

from phasefusion.planning._plans import Design, Plan
from phasefusion.planning.differences import (
    McNemarPlan,
    discordance_of,
    mcnemar_difference,
    mcnemar_items,
    mcnemar_power,
)
from phasefusion.planning.equivalence import (
    TostPlan,
    tost_items,
    tost_margin,
    tost_power,
)
from phasefusion.planning.noninferiority import (
    NoninferiorityPlan,
    noninferiority_items,
    noninferiority_power,
)
from phasefusion.planning.pilot import (
    Estimate,
    Measured,
    PairEstimate,
    Pilot,
    measure,
    pilot,
)
from phasefusion.planning.precision import (
    FloorPlan,
    WidthPlan,
    floor_items,
    floor_upper,
    interval_items,
    interval_width,
)
from phasefusion.planning.ranking import (
    AurocPlan,
    auroc_items,
    auroc_width,
    hanley_mcneil,
)
from phasefusion.planning.risk import RiskPlan, risk_items, risk_power

__all__ = [
    "AurocPlan",
    "Design",
    "Estimate",
    "FloorPlan",
    "McNemarPlan",
    "Measured",
    "NoninferiorityPlan",
    "PairEstimate",
    "Pilot",
    "Plan",
    "RiskPlan",
    "TostPlan",
    "WidthPlan",
    "auroc_items",
    "auroc_width",
    "discordance_of",
    "floor_items",
    "floor_upper",
    "hanley_mcneil",
    "interval_items",
    "interval_width",
    "mcnemar_difference",
    "mcnemar_items",
    "mcnemar_power",
    "measure",
    "noninferiority_items",
    "noninferiority_power",
    "pilot",
    "risk_items",
    "risk_power",
    "tost_items",
    "tost_margin",
    "tost_power",
]
