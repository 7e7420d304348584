"""fit, predict, score: what users call."""

from stickbreak.comparison import ComparedModel, Comparison, compare

from .dependencies import DMV
from .forecasts import Filtered, Forecast, OnlineFilter
from .grammars import HDPPCFG, PCFG, Rule
from .hidden_markov import HDPHMM, HMM
from .mixtures import DPMixture, Mixture
from .model_files import load, register, register_part, resume
from .topic_models import HDPTopicModel, LatentDirichletAllocation

__all__ = [
    "DMV", "HDPHMM", "HDPPCFG", "HMM", "PCFG", "Rule", "ComparedModel", "Comparison", "DPMixture", "Filtered", "Forecast",
    "HDPTopicModel", "LatentDirichletAllocation", "Mixture", "OnlineFilter", "compare", "load",
    "register", "register_part", "resume",
]  # fmt: skip
