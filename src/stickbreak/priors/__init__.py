"""How components are shared out."""

from .base import BasePrior
from .concentration import GammaPrior, UncertainConcentration
from .dirichlet import ROWS, RowTable, SymmetricDirichlet
from .document_counts import TopicPseudo
from .document_shares import DirichletTopics, HDPTopics
from .hdp_transitions import HDPRows
from .jumps import FertileJumps, Jumps, PositionPseudo, UniformPositions
from .labeled_topics import LabeledTopics, WeakLimitTopics
from .root import (
    BetaRoot,
    ChainGroups,
    PointRoot,
    Root,
    SegmentGroups,
    Surrogate,
    Term,
    TopicGroups,
    linear_term,
    truncated_slope,
)
from .sticks import Sticks
from .tables import TableRoot, TableRows
from .transitions import DirichletRows, RowPseudo
from .weak_limit import WeakLimitRows

__all__ = [
    "ROWS", "BasePrior", "BetaRoot", "ChainGroups", "DirichletRows", "DirichletTopics",
    "FertileJumps", "GammaPrior", "HDPRows", "HDPTopics", "Jumps", "LabeledTopics", "PointRoot",
    "PositionPseudo", "Root", "RowPseudo", "RowTable", "SegmentGroups", "Sticks", "Surrogate",
    "SymmetricDirichlet", "TableRoot", "TableRows", "Term", "TopicGroups", "TopicPseudo",
    "UncertainConcentration", "UniformPositions", "WeakLimitRows", "WeakLimitTopics",
    "linear_term", "truncated_slope",
]  # fmt: skip
