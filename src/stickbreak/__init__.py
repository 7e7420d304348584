"""stickbreak: Bayesian models of hidden structure, by variational inference at scale.

Names are imported when first used, so that `import stickbreak` costs almost no time.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .data import (
        ConlluSentence,
        ConstituentTree,
        lag_rows,
        open_shards,
        open_table,
        read_bitext,
        read_conllu,
        read_corpus,
        read_gold,
        read_links,
        read_pieces,
        read_trees,
        symmetrize,
        write_conllu,
        write_trees,
    )
    from .errors import (
        CheckpointError,
        ConvergenceWarning,
        DataWarning,
        ModelFileError,
        NoRoomError,
        NumericalError,
        ShardError,
        StickbreakWarning,
        WorkersLostError,
    )
    from .estimators import (
        DMV,
        HDPHMM,
        HDPHSMM,
        HDPPCFG,
        HMM,
        HSMM,
        IBM1,
        PCFG,
        Comparison,
        DPMixture,
        Durations,
        Forecast,
        HDPMixture,
        HDPTopicModel,
        HMMAligner,
        LatentDirichletAllocation,
        LatentPCFG,
        Mixture,
        OnlineFilter,
        SegmentFilter,
        Segments,
        TemplateGrammar,
        compare,
        diagnose,
        load,
        resume,
    )
    from .families import (
        AutoregressiveGaussian,
        Bernoulli,
        Categorical,
        DiagonalGaussian,
        FixedVarianceGaussian,
        Gaussian,
        Multinomial,
        Poisson,
        Product,
        ZeroMeanGaussian,
    )
    from .inference import (
        EM,
        BatchVB,
        Callback,
        CollapsedGibbs,
        CollapsedVB,
        Gibbs,
        HardEM,
        MemoizedVB,
        StochasticCollapsedVB,
        StochasticVB,
        SubchainVB,
    )
    from .inference.remote import workers
    from .moves import Birth, Delete, Loosen, Merge
    from .priors import (
        FreeDurations,
        GammaPrior,
        Geometric,
        NegativeBinomial,
        ShiftedPoisson,
        TableRoot,
    )
    from .report import Finding, Report

logging.getLogger(__name__).addHandler(logging.NullHandler())

_HOMES = {
    "data": (
        "ConlluSentence", "ConstituentTree", "lag_rows", "open_shards", "open_table", "read_bitext",
        "read_conllu", "read_corpus", "read_gold", "read_links", "read_pieces", "read_trees",
        "symmetrize", "write_conllu", "write_trees",
    ),
    "errors": (
        "CheckpointError", "ConvergenceWarning", "DataWarning", "ModelFileError", "NoRoomError",
        "NumericalError", "ShardError", "StickbreakWarning", "WorkersLostError",
    ),
    "estimators": (
        "DMV", "HDPHMM", "HDPHSMM", "HDPPCFG", "HMM", "HSMM", "IBM1", "PCFG", "Comparison",
        "DPMixture", "Durations", "Forecast", "HDPMixture", "HDPTopicModel", "HMMAligner",
        "LatentDirichletAllocation", "LatentPCFG", "Mixture", "OnlineFilter", "SegmentFilter",
        "Segments", "TemplateGrammar", "compare", "diagnose", "load", "resume",
    ),
    "families": (
        "AutoregressiveGaussian", "Bernoulli", "Categorical", "DiagonalGaussian",
        "FixedVarianceGaussian", "Gaussian",
        "Multinomial", "Poisson", "Product", "ZeroMeanGaussian",
    ),
    "inference": (
        "EM", "BatchVB", "Callback", "CollapsedGibbs", "CollapsedVB", "Gibbs", "HardEM",
        "MemoizedVB", "StochasticCollapsedVB", "StochasticVB", "SubchainVB",
    ),
    "inference.remote": ("workers",),
    "moves": ("Birth", "Delete", "Loosen", "Merge"),
    "priors": (
        "FreeDurations", "GammaPrior", "Geometric", "NegativeBinomial", "ShiftedPoisson",
        "TableRoot",
    ),
    "report": ("Finding", "Report"),
}  # fmt: skip
_SUBMODULES = {
    "checks",
    "data",
    "errors",
    "estimators",
    "families",
    "inference",
    "initialize",
    "metrics",
    "models",
    "moves",
    "plots",
    "priors",
    "report",
    "structures",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "DMV",
    "EM",
    "HDPHMM",
    "HDPHSMM",
    "HDPPCFG",
    "HMM",
    "HSMM",
    "IBM1",
    "PCFG",
    "AutoregressiveGaussian",
    "BatchVB",
    "Bernoulli",
    "Birth",
    "Callback",
    "Categorical",
    "CheckpointError",
    "CollapsedGibbs",
    "CollapsedVB",
    "Comparison",
    "ConlluSentence",
    "ConstituentTree",
    "ConvergenceWarning",
    "DPMixture",
    "DataWarning",
    "Delete",
    "DiagonalGaussian",
    "Durations",
    "Finding",
    "FixedVarianceGaussian",
    "Forecast",
    "FreeDurations",
    "GammaPrior",
    "Gaussian",
    "Geometric",
    "Gibbs",
    "HDPMixture",
    "HDPTopicModel",
    "HMMAligner",
    "HardEM",
    "LatentDirichletAllocation",
    "LatentPCFG",
    "Loosen",
    "MemoizedVB",
    "Merge",
    "Mixture",
    "ModelFileError",
    "Multinomial",
    "NegativeBinomial",
    "NoRoomError",
    "NumericalError",
    "OnlineFilter",
    "Poisson",
    "Product",
    "Report",
    "SegmentFilter",
    "Segments",
    "ShardError",
    "ShiftedPoisson",
    "StickbreakWarning",
    "StochasticCollapsedVB",
    "StochasticVB",
    "SubchainVB",
    "TableRoot",
    "TemplateGrammar",
    "WorkersLostError",
    "ZeroMeanGaussian",
    "__version__",
    "compare",
    "diagnose",
    "lag_rows",
    "load",
    "open_shards",
    "open_table",
    "read_bitext",
    "read_conllu",
    "read_corpus",
    "read_gold",
    "read_links",
    "read_pieces",
    "read_trees",
    "resume",
    "symmetrize",
    "workers",
    "write_conllu",
    "write_trees",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
