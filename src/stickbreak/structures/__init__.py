"""Latent structures: from potentials and one block of units to expected counts."""

from .best import BestOnly
from .chain import Chain
from .drawn import DrawOnly
from .independent import Independent, judge

__all__ = ["BestOnly", "Chain", "DrawOnly", "Independent", "judge"]
