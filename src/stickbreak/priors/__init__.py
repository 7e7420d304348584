"""How components are shared out."""

from .base import BasePrior
from .concentration import GammaPrior, UncertainConcentration
from .dirichlet import ROWS, RowTable, SymmetricDirichlet
from .document_shares import DirichletTopics, HDPTopics, TopicPseudo
from .hdp_transitions import HDPRows
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
from .weak_limit import WeakLimitRows, draw_tables

__all__ = [
    "ROWS", "BasePrior", "BetaRoot", "ChainGroups", "DirichletRows", "DirichletTopics",
    "GammaPrior", "HDPRows", "HDPTopics", "PointRoot", "Root", "RowPseudo", "RowTable",
    "SegmentGroups", "Sticks", "Surrogate", "SymmetricDirichlet", "TableRoot", "TableRows", "Term",
    "TopicGroups", "TopicPseudo", "UncertainConcentration", "WeakLimitRows", "draw_tables",
    "linear_term", "truncated_slope",
]  # fmt: skip
