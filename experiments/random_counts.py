"""Hidden Markov models that begin with random counts, as published runs do, in place of random
chains.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import stickbreak as sb


class FromParameters(sb.HMM):
    """Begins with uniform random parameters: rows of random numbers that sum to one.

    They have as many counts as all data, so that they are firm.
    """

    def _seed(self, *given: Any) -> Any:
        start, rng = super()._seed(*given), given[2]
        seed = start.seed
        arrays = {
            "start": self._draw(seed["start"], rng),
            "transition": self._draw(seed["transition"], rng),
            "emission": self._draw(seed["emission"].T, rng).T,  # (V, K): a column for each state
        }
        arrays["emission_total"] = arrays["emission"].sum(0, keepdims=True)
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return replace(start, seed=replace(seed, arrays=arrays), warm=None)

    def _draw(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Random counts in place of these, whose last axis holds what probabilities sum over."""
        shares = rng.random(counts.shape)
        return shares / shares.sum(-1, keepdims=True) * counts.sum(-1).mean()


class FromCounts(FromParameters):
    """Begins with exponential random counts, on average those of states at random."""

    def _draw(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Every count by itself."""
        return rng.exponential(counts.mean(), counts.shape)
