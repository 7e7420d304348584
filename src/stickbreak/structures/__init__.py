"""Latent structures: from potentials and one block of units to expected counts."""

from .best import BestOnly
from .chain import Chain
from .document import Document
from .drawn import DrawOnly
from .independent import Independent, judge

__all__ = ["BestOnly", "Chain", "Document", "DrawOnly", "Independent", "judge"]
