"""fit, predict, score: what users call."""

from stickbreak.comparison import ComparedModel, Comparison, compare

from .aligners import IBM1, HMMAligner
from .forecasts import Filtered, Forecast, OnlineFilter
from .hidden_markov import HDPHMM, HMM
from .mixtures import DPMixture, Mixture
from .model_files import load, register, register_part, resume
from .topic_models import HDPTopicModel, LatentDirichletAllocation

__all__ = [
    "HDPHMM", "HMM", "IBM1", "ComparedModel", "Comparison", "DPMixture", "Filtered", "Forecast",
    "HDPTopicModel", "HMMAligner", "LatentDirichletAllocation", "Mixture", "OnlineFilter",
    "compare", "load",
    "register", "register_part", "resume",
]  # fmt: skip
