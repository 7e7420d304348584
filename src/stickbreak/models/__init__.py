"""Models: the one Model class, and the lines that name their parts."""

from .base import Model, ModelPotentials
from .grammars import dependency_model, finite_grammar, hdp_grammar
from .hmm import finite_hmm, hdp_hmm, hdp_rows
from .mixture import dp_mixture, finite_mixture
from .topics import hdp_topics, lda
from .trees import parse_units, share_parts

__all__ = [
    "Model",
    "ModelPotentials",
    "dependency_model",
    "dp_mixture",
    "finite_grammar",
    "finite_hmm",
    "finite_mixture",
    "hdp_grammar",
    "hdp_hmm",
    "hdp_rows",
    "hdp_topics",
    "lda",
    "parse_units",
    "share_parts",
]
