"""fit, predict, score: what users call."""

from stickbreak.comparison import ComparedModel, Comparison, compare

from .forecasts import Filtered, Forecast, OnlineFilter
from .hidden_markov import HDPHMM, HMM
from .mixtures import DPMixture, Mixture
from .model_files import load, register, register_part, resume
from .segment_forecasts import Durations, SegmentFilter, Segments
from .semi_markov import HDPHSMM, HSMM
from .topic_models import HDPTopicModel, LatentDirichletAllocation

__all__ = [
    "HDPHMM", "HDPHSMM", "HMM", "HSMM", "ComparedModel", "Comparison", "DPMixture", "Durations",
    "Filtered", "Forecast", "HDPTopicModel", "LatentDirichletAllocation", "Mixture", "OnlineFilter",
    "SegmentFilter", "Segments", "compare", "load", "register", "register_part", "resume",
]  # fmt: skip
