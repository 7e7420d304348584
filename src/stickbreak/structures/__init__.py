"""Latent structures: from potentials and one block of units to expected counts."""

from .best import BestOnly
from .chain import Chain
from .independent import Independent, judge

__all__ = ["BestOnly", "Chain", "Independent", "judge"]
