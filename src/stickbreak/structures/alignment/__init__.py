"""Word alignment: bags of links (IBM model 1) and chains of links (the HMM aligner)."""

from .structure import BagAlignment, ChainAlignment

__all__ = ["BagAlignment", "ChainAlignment"]
