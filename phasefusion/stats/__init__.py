"""Statistics of answers: flips, votes, intervals, tests.

Answers are content indices, -1 where a pass is missing, one row an item. Rates are
fractions. Every result says how many items it rests on and what was done about missing
passes; an item with a single pass has no flip rate and is left out, never counted as
stable.
"""

from phasefusion._random import fnv1a64, splitmix64, tie_priority
from phasefusion.stats.consensus import Consensus, consensus, majority_vote
from phasefusion.stats.consistency import (
    Consistency,
    attribution,
    consistency,
    stableeval_rating,
)
from phasefusion.stats.cost import attention_ratio, attention_units
from phasefusion.stats.flips import (
    FlipRates,
    change_rate,
    expected_any_flip,
    flip_rates,
    order_flip_rates,
    rarefied_flip_rate,
)
from phasefusion.stats.ordering import (
    Fixation,
    expected_modal_share,
    fixation,
    lost_correct,
    unanimity,
)
from phasefusion.stats.paired import (
    ClusteredMcNemar,
    McNemar,
    clustered_mcnemar,
    discordant,
    mcnemar,
)
from phasefusion.stats.proportions import (
    Proportion,
    accuracy,
    proportion_ci,
    proportion_upper,
)

__all__ = [
    "ClusteredMcNemar",
    "Consensus",
    "Consistency",
    "Fixation",
    "FlipRates",
    "McNemar",
    "Proportion",
    "accuracy",
    "attention_ratio",
    "attention_units",
    "attribution",
    "change_rate",
    "clustered_mcnemar",
    "consensus",
    "consistency",
    "discordant",
    "expected_any_flip",
    "expected_modal_share",
    "fixation",
    "flip_rates",
    "fnv1a64",
    "lost_correct",
    "majority_vote",
    "mcnemar",
    "order_flip_rates",
    "proportion_ci",
    "proportion_upper",
    "rarefied_flip_rate",
    "splitmix64",
    "stableeval_rating",
    "tie_priority",
    "unanimity",
]
