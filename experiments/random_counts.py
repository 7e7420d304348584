"""Hidden Markov models that begin with random counts, as published runs do, in place of random
chains.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import stickbreak as sb

FIRM = 1e9  # counts of each row


class FromParameters(sb.HMM):
    """Begins with uniform random parameters: rows of random numbers that sum to one.

    The first step sees these very parameters: there are so many counts that the prior, and the
    difference between the log of a mean and the mean of logs, are nothing to them.
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
        return shares / shares.sum(-1, keepdims=True) * FIRM


class FromCounts(FromParameters):
    """Begins with exponential random counts, on average those of states at random."""

    def _draw(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Every count by itself."""
        return rng.exponential(counts.mean(), counts.shape)
