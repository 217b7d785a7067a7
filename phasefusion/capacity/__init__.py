"""How long a run will take, on how many workers, and what failures cost."""

from phasefusion.capacity.forecasting import Forecast, Workload, costs_of, forecast
from phasefusion.capacity.model import ArmLoad, CostModel, fit
from phasefusion.capacity.simulation import (
    Conditions,
    Outcome,
    bound_s,
    heavy_tailed,
    simulate,
)
from phasefusion.capacity.videos import VideoFacts, survey

__all__ = [
    "ArmLoad",
    "Conditions",
    "CostModel",
    "Forecast",
    "Outcome",
    "VideoFacts",
    "Workload",
    "bound_s",
    "costs_of",
    "fit",
    "forecast",
    "heavy_tailed",
    "simulate",
    "survey",
]
