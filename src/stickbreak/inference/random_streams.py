"""Tags that keep streams of random numbers apart: default_rng([seed, TAG, number])."""

from __future__ import annotations

__all__ = ["DRAWS", "MOVES", "ORDER"]

ORDER, MOVES, DRAWS = 1, 2, 3  # of batches; of moves; of a sampler. Starts use [seed, start].
