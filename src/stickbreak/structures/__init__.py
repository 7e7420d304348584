"""Latent structures: from potentials and one block of units to expected counts."""

from .base import BaseStructure, Division, Piece, row_evidence
from .chain import Chain, TableChain
from .document import Document
from .independent import Independent
from .long_units import LongUnit
from .semimarkov import EmbeddedSemiMarkov, SemiMarkov
from .steps import Best, Drawn, Expected, LocalStep

__all__ = [
    "BaseStructure", "Best", "Chain", "Division", "Document", "Drawn", "EmbeddedSemiMarkov",
    "Expected", "Independent", "LocalStep", "LongUnit", "Piece", "SemiMarkov", "TableChain",
    "row_evidence",
]  # fmt: skip
