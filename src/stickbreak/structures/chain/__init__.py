"""Chains: every row's component depends on that of the row before it."""

from .structure import Chain
from .tables import TableChain

__all__ = ["Chain", "TableChain"]
