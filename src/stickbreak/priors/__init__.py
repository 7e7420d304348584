"""How components are shared out."""

from .concentration import GammaPrior, UncertainConcentration
from .dirichlet import ROWS, RowTable, SymmetricDirichlet
from .documents import DirichletTopics, HDPTopics, TopicPseudo
from .groups import (
    ChainGroups,
    SegmentGroups,
    Surrogate,
    Term,
    TopicGroups,
    linear_term,
    truncated_slope,
)
from .root import BetaRoot, PointRoot, Root
from .rows import DirichletRows, RowPseudo
from .sticks import Sticks
from .sticky import HDPRows
from .weaklimit import WeakLimitRows, draw_tables

__all__ = [
    "ROWS", "BetaRoot", "ChainGroups", "DirichletRows", "DirichletTopics", "GammaPrior", "HDPRows",
    "HDPTopics", "PointRoot",
    "Root", "RowPseudo", "RowTable", "SegmentGroups", "Sticks", "Surrogate", "SymmetricDirichlet",
    "Term", "TopicGroups",
    "TopicPseudo", "UncertainConcentration", "WeakLimitRows", "draw_tables", "linear_term",
    "truncated_slope",
]  # fmt: skip
