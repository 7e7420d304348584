"""How components are shared out."""

from .asymmetric_topics import AsymmetricTopics, is_learned
from .base import BasePrior
from .concentration import GammaPrior, UncertainConcentration
from .dirichlet import ROWS, RowTable, SymmetricDirichlet
from .document_counts import TopicPseudo
from .document_shares import DirichletTopics, HDPTopics
from .durations import (
    BaseDuration,
    FreeDurations,
    Geometric,
    NegativeBinomial,
    ShiftedPoisson,
    make_duration,
)
from .hdp_rules import HDPRules
from .hdp_transitions import HDPRows
from .jumps import FertileJumps, Jumps, PositionPseudo, UniformPositions
from .labeled_topics import LabeledTopics, WeakLimitTopics
from .listed_rules import ListedRules
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
from .rule_tables import RuleTables
from .rules import DirichletRules
from .segments import DirichletSegments, HDPSegments, WeakLimitSegments
from .slots import SlotTables
from .sticks import Sticks
from .table_rules import TableRules
from .tables import TableRoot, TableRows
from .transitions import DirichletRows, RowPseudo
from .valence import ValenceRows
from .weak_limit import WeakLimitRows

__all__ = [
    "ROWS", "AsymmetricTopics", "BaseDuration", "BasePrior", "BetaRoot", "ChainGroups",
    "DirichletRows", "DirichletRules", "DirichletSegments", "DirichletTopics", "FertileJumps",
    "FreeDurations", "GammaPrior", "Geometric", "HDPRows", "HDPRules", "HDPSegments", "HDPTopics",
    "Jumps", "LabeledTopics", "ListedRules", "NegativeBinomial", "PointRoot", "PositionPseudo",
    "Root", "RowPseudo", "RowTable", "RuleTables", "SegmentGroups", "ShiftedPoisson", "SlotTables",
    "Sticks", "Surrogate", "SymmetricDirichlet", "TableRoot", "TableRows", "TableRules", "Term",
    "TopicGroups",
    "TopicPseudo", "UncertainConcentration", "UniformPositions", "ValenceRows", "WeakLimitRows",
    "WeakLimitSegments", "WeakLimitTopics", "is_learned", "linear_term", "make_duration",
    "truncated_slope",
]  # fmt: skip
