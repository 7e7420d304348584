"""Latent structures: from potentials and one block of units to expected counts."""

from .alignment import BagAlignment, ChainAlignment
from .base import BaseStructure, Division, Piece, row_evidence
from .chain import Chain, TableChain
from .document import Document
from .independent import Independent
from .long_units import LongUnit
from .steps import Best, Drawn, Expected, LocalStep

__all__ = [
    "BagAlignment", "BaseStructure", "Best", "Chain", "ChainAlignment", "Division", "Document",
    "Drawn", "Expected", "Independent", "LocalStep", "LongUnit", "Piece", "TableChain",
    "row_evidence",
]  # fmt: skip
