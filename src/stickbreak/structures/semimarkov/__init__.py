"""Semi-Markov chains: rows in segments, each with a length of its own."""

from .change_points import check_change_points
from .embedded import EmbeddedSemiMarkov
from .segments import Segments, segments_of
from .structure import SemiMarkov

__all__ = [
    "EmbeddedSemiMarkov", "Segments", "SemiMarkov", "check_change_points", "segments_of",
]  # fmt: skip
