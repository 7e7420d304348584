"""Models: the one Model class, and the lines that name their parts."""

from .base import Model, ModelPotentials
from .hmm import finite_hmm, hdp_hmm, hdp_rows
from .mixture import dp_mixture, finite_mixture
from .semi_markov import finite_hsmm, hdp_hsmm
from .topics import hdp_topics, lda

__all__ = [
    "Model",
    "ModelPotentials",
    "dp_mixture",
    "finite_hmm",
    "finite_hsmm",
    "finite_mixture",
    "hdp_hmm",
    "hdp_hsmm",
    "hdp_rows",
    "hdp_topics",
    "lda",
]
