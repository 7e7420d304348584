"""Laws of durations: how many rows a segment of each state has."""

from .base import BaseDuration
from .counted import CountedLengths, CountedStages
from .free import FreeDurations
from .names import DURATIONS, make_duration
from .negative_binomial import Geometric, NegativeBinomial, StagedDuration, log_ways
from .shifted_poisson import ShiftedPoisson

__all__ = [
    "DURATIONS", "BaseDuration", "CountedLengths", "CountedStages", "FreeDurations",
    "Geometric", "NegativeBinomial", "ShiftedPoisson", "StagedDuration", "log_ways",
    "make_duration",
]  # fmt: skip
