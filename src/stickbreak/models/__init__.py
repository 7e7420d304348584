"""Models: the one Model class, and the lines that name their parts."""

from .alignment import fertile_aligner, hmm_aligner, ibm1
from .base import Model, ModelPotentials
from .grammars import (
    annotated_grammar,
    dependency_model,
    finite_grammar,
    hdp_grammar,
    hdp_rules,
    template_grammar,
)
from .groups import hdp_mixture
from .hmm import finite_hmm, hdp_hmm, hdp_rows
from .mixture import dp_mixture, finite_mixture
from .semi_markov import finite_hsmm, hdp_hsmm
from .topics import hdp_topics, lda
from .trees import parse_units, share_parts

__all__ = [
    "Model",
    "ModelPotentials",
    "annotated_grammar",
    "dependency_model",
    "dp_mixture",
    "fertile_aligner",
    "finite_grammar",
    "finite_hmm",
    "finite_hsmm",
    "finite_mixture",
    "hdp_grammar",
    "hdp_hmm",
    "hdp_hsmm",
    "hdp_mixture",
    "hdp_rows",
    "hdp_rules",
    "hdp_topics",
    "hmm_aligner",
    "ibm1",
    "lda",
    "parse_units",
    "share_parts",
    "template_grammar",
]
