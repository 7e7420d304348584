"""fit, predict, score: what users call."""

from stickbreak.comparison import ComparedModel, Comparison, compare

from .aligners import IBM1, HMMAligner
from .dependencies import DMV
from .encoding import register_part
from .forecasts import Filtered, Forecast, OnlineFilter
from .grammars import HDPPCFG, PCFG
from .groups import HDPMixture
from .hidden_markov import HDPHMM, HMM
from .latent_grammars import LatentPCFG
from .mixtures import DPMixture, Mixture
from .model_files import load, register, resume
from .reports import diagnose
from .segment_forecasts import Durations, SegmentFilter, Segments
from .semi_markov import HDPHSMM, HSMM
from .templates import Segment, TemplateGrammar
from .topic_models import HDPTopicModel, LatentDirichletAllocation
from .tree_models import Rule

__all__ = [
    "DMV",
    "HDPHMM",
    "HDPHSMM",
    "HDPPCFG",
    "HMM",
    "HSMM",
    "IBM1",
    "PCFG",
    "ComparedModel",
    "Comparison",
    "DPMixture",
    "Durations",
    "Filtered",
    "Forecast",
    "HDPMixture",
    "HDPTopicModel",
    "HMMAligner",
    "LatentDirichletAllocation",
    "LatentPCFG",
    "Mixture",
    "OnlineFilter",
    "Rule",
    "Segment",
    "SegmentFilter",
    "Segments",
    "TemplateGrammar",
    "compare",
    "diagnose",
    "load",
    "register",
    "register_part",
    "resume",
]  # fmt: skip
