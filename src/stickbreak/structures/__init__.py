"""Latent structures: from potentials and one block of units to expected counts."""

from .alignment import BagAlignment, ChainAlignment
from .annotation import Annotation
from .base import BaseStructure, Division, Piece, row_evidence
from .chain import Chain, TableChain
from .dependency import Dependency
from .document import Document, Group
from .independent import Independent
from .long_units import LongUnit
from .semimarkov import EmbeddedSemiMarkov, SemiMarkov
from .steps import Best, Drawn, DrawnPart, Expected, LocalStep
from .templates import SlotTemplates
from .tree import TableTree, Tree

__all__ = [
    "Annotation", "BagAlignment", "BaseStructure", "Best", "Chain", "ChainAlignment", "Dependency",
    "Division", "Document", "Drawn", "DrawnPart", "EmbeddedSemiMarkov", "Expected", "Group",
    "Independent", "LocalStep", "LongUnit", "Piece", "SemiMarkov", "SlotTemplates", "TableChain",
    "TableTree", "Tree",
    "row_evidence",
]  # fmt: skip
