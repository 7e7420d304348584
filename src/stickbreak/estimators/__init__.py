"""fit, predict, score: what users call."""

from .comparison import ComparedModel, Comparison, compare
from .files import load, register_part
from .forecasts import Filtered, Forecast, OnlineFilter
from .mixture import DPMixture, Mixture
from .resumption import resume
from .sequences import HDPHMM, HMM
from .topics import HDPTopicModel, LatentDirichletAllocation

__all__ = [
    "HDPHMM", "HMM", "ComparedModel", "Comparison", "DPMixture", "Filtered", "Forecast",
    "HDPTopicModel",
    "LatentDirichletAllocation", "Mixture", "OnlineFilter", "compare", "load", "register_part",
    "resume",
]  # fmt: skip
